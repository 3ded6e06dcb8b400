"""The plan: which tensor operations are computed together, as one kernel and one node of the dataflow graph.

In: a typed `Program`. Out: a `Plan`: the same program with its `Op`s replaced by `Emit`s, and the kernels they
record. Within a basic block all host instructions that can run do so, then all tensor operations that are ready
become one kernel, and so on; so blocks are first made as large as possible (jumps are threaded, blocks merged) and
dead code goes. Equal kernels, also of different functions, are one. `hostgen` makes code of the program, `kernels` of
the specifications.

What a kernel reads: tensors and host numbers from outside of the group, one argument of each node (tensors first);
shared tensors; run-time extents, one number per int variable. What it returns: the values that something outside of
the group uses. Constants, and what is computed from shared tensors and constants alone, are computed anew in each
kernel that wants them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from acronumba.config import Options
from acronumba.errors import NOWHERE, Loc
from acronumba.ir.nodes import (
    Block,
    Branch,
    Call,
    Check,
    ClassTag,
    Const,
    Copy,
    Emit,
    End,
    Extent,
    ExtentOf,
    Fail,
    Function,
    Instr,
    IsNull,
    Jump,
    ListNew,
    ListOp,
    Load,
    New,
    Op,
    Program,
    Return,
    Scalar,
    Shared,
    SharedArg,
    Site,
    Var,
    reads,
    writes,
)
from acronumba.ir.ops import TENSORS
from acronumba.ir.types import INT, BoolT, FloatT, IntT, ListT, TensorT
from acronumba.kernels.spec import Dim, KernelOp, KernelSpec, Operand, Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A program whose tensor operations are kernels."""

    program: Program  # without `Op`
    kernels: tuple[KernelSpec, ...]  # `Emit.kernel` counts in them
    uses: tuple[tuple[Loc, ...], ...]  # per kernel: where it is recorded


def make_plan(program: Program, options: Options) -> Plan:
    """Return the program with its tensor operations grouped into kernels.

    Parameters
    ----------
    program
        A typed program.
    options
        `blocks`: whether a kernel may hold more than one operation (besides those that only move elements).
    """
    table = _Kernels(program, options)
    functions = []
    for function in program.functions:
        f = remove_dead(simplify(function))
        f = _Extents(f).run()  # the extents it adds are read by the grouping alone: nothing may be removed in between
        f = _Grouping(f, table).run()
        functions.append(remove_dead(f))
    kernels, uses = table.finish()
    return Plan(program=replace(program, functions=tuple(functions)), kernels=kernels, uses=uses)


# -------------------------------------------------------------------------------------------------------- blocks


def successors(end: End) -> tuple[int, ...]:
    """Return the blocks that may follow."""
    match end:
        case Jump():
            return (end.block,)
        case Branch():
            return (end.yes, end.no)
        case _:
            return ()


def predecessors(blocks: tuple[Block, ...]) -> list[list[int]]:
    """Return the predecessors of each block, one entry per edge."""
    out: list[list[int]] = [[] for _ in blocks]
    for k, block in enumerate(blocks):
        for s in successors(block.end):
            out[s].append(k)
    return out


def _retarget(end: End, to: Callable[[int], int]) -> End:
    match end:
        case Jump():
            return replace(end, block=to(end.block))
        case Branch():
            yes, no = to(end.yes), to(end.no)
            return Jump(block=yes, loc=end.loc) if yes == no else replace(end, yes=yes, no=no)
        case _:
            return end


def simplify(function: Function) -> Function:
    """Return the function with jumps threaded, blocks merged and unreachable ones gone, in reverse postorder."""
    single = definitions(function)
    blocks = dict(enumerate(function.blocks))
    changed = True
    while changed:
        changed = False

        final = _threads(blocks)
        for k, block in list(blocks.items()):
            end = block.end
            if isinstance(end, Branch) and isinstance(c := single.get(end.cond), Const):
                end = Jump(block=end.yes if c.value else end.no, loc=end.loc)
            end = _retarget(end, final.__getitem__)
            if end != block.end:
                blocks[k] = replace(block, end=end)
                changed = True
        reached = _order(blocks)
        blocks = {k: blocks[k] for k in reached}
        count = Counter(s for b in blocks.values() for s in successors(b.end))
        for k in reached:
            while k in blocks and isinstance(end := blocks[k].end, Jump) and end.block not in (0, k):
                if count[end.block] != 1:
                    break
                after = blocks.pop(end.block)
                blocks[k] = Block(instrs=blocks[k].instrs + after.instrs, end=after.end)
                changed = True
    order = _order(blocks)
    number = {k: n for n, k in enumerate(order)}
    out = tuple(replace(blocks[k], end=_retarget(blocks[k].end, number.__getitem__)) for k in order)
    return replace(function, blocks=out)


def _threads(blocks: Mapping[int, Block]) -> dict[int, int]:
    """Return for each block the one that a jump to it ends up in."""
    out = {}
    for k in blocks:
        to, seen = k, {k}
        while not blocks[to].instrs and isinstance(end := blocks[to].end, Jump) and end.block not in seen:
            to = end.block
            seen.add(to)
        out[k] = to
    return out


def _order(blocks: Mapping[int, Block]) -> list[int]:
    """Return the reachable blocks in reverse postorder; the "yes" side of a branch comes first."""
    out: list[int] = []
    seen = {0}
    stack = [(0, list(successors(blocks[0].end)))]
    while stack:
        k, rest = stack[-1]
        if rest:
            s = rest.pop()
            if s not in seen:
                seen.add(s)
                stack.append((s, list(successors(blocks[s].end))))
        else:
            out.append(k)
            stack.pop()
    return out[::-1]


def definitions(function: Function) -> dict[Var, Instr]:
    """Return the instruction that assigns each variable that is assigned once (parameters have none)."""
    out: dict[Var, Instr] = {}
    twice: set[Var] = set(function.params)
    for block in function.blocks:
        for instr in block.instrs:
            for v in writes(instr):
                if v in out:
                    twice.add(v)
                out[v] = instr
    return {v: i for v, i in out.items() if v not in twice}


def _fixed(function: Function) -> set[Var]:
    """Return the variables that have one value for the whole call: parameters included."""
    assigned = Counter(function.params)
    assigned.update(v for b in function.blocks for i in b.instrs for v in writes(i))
    return {v for v, count in assigned.items() if count == 1}


def dominators(blocks: tuple[Block, ...]) -> list[set[int]]:
    """Return the blocks that dominate each block, itself included."""
    before = predecessors(blocks)
    out = [set(range(len(blocks))) for _ in blocks]
    out[0] = {0}
    changed = True
    while changed:
        changed = False
        for k in range(1, len(blocks)):
            new = set.intersection(*(out[p] for p in before[k])) | {k}
            if new != out[k]:
                out[k], changed = new, True
    return out


def rename(node: Instr | End, to: Mapping[Var, Var]) -> Instr | End:
    """Return the node with the variables it reads replaced."""

    def v(x: Var) -> Var:
        return to.get(x, x)

    def vs(xs: tuple[Var, ...]) -> tuple[Var, ...]:
        return tuple(to.get(x, x) for x in xs)

    def any_(x: object) -> object:
        if isinstance(x, tuple):
            return tuple(any_(y) for y in x)
        return to.get(x, x) if isinstance(x, Var) else x

    match node:
        case Const() | Shared() | Jump():
            return node
        case Copy():
            return replace(node, src=v(node.src))
        case Scalar() | ListOp() | ListNew() | New() | Call() | Return() | Fail():
            return replace(node, args=vs(node.args))
        case IsNull() | ClassTag() | Load():
            return replace(node, ref=v(node.ref))
        case Check():
            return replace(node, cond=v(node.cond), args=vs(node.args))
        case ExtentOf():
            return replace(node, tensor=v(node.tensor))
        case Branch():
            return replace(node, cond=v(node.cond))
        case Op():
            args, attrs, shape = any_(node.args), any_(node.attrs), any_(node.shape)
            return replace(node, args=args, attrs=attrs, shape=shape)  # type: ignore[arg-type]
        case Emit():
            return replace(
                node, args=vs(node.args), dims=vs(node.dims), shapes=any_(node.shapes)  # type: ignore[arg-type]
            )


def is_pure(instr: Instr) -> bool:
    """Whether the instruction may vanish where nothing reads what it assigns."""
    match instr:
        case Scalar() | Op():
            return instr.site < 0
        case ListOp():
            return instr.op in ("len", "get", "slice", "fill")
        case Check() | Call() | Emit():
            return False
        case _:
            return True


def remove_dead(function: Function) -> Function:
    """Return the function without pure instructions whose results nobody reads."""
    by: dict[Var, list[Instr]] = defaultdict(list)
    work: list[Var] = []
    live: set[Var] = set()

    def want(vs: Iterable[Var]) -> None:
        for v in vs:
            if v not in live:
                live.add(v)
                work.append(v)

    for block in function.blocks:
        for instr in block.instrs:
            for v in writes(instr):
                by[v].append(instr)
            if not is_pure(instr):
                want(reads(instr))
        want(reads(block.end))
    while work:
        for instr in by[work.pop()]:
            want(reads(instr))

    def keep(instr: Instr) -> bool:
        return not is_pure(instr) or any(v in live for v in writes(instr))

    blocks = tuple(replace(b, instrs=tuple(i for i in b.instrs if keep(i))) for b in function.blocks)
    return replace(function, blocks=blocks)


class _Extents:
    """Resolves extents, and copies of variables that are assigned once.

    An `ExtentOf` becomes a constant, the variable in the shape of an operation, or the first equal `ExtentOf`. One is
    added wherever an operand of an operation has a run-time extent that no variable holds, so that
    `_Grouping._extents_at` always finds one.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self.single = definitions(function)
        self.fixed = _fixed(function)
        self.dominators = dominators(function.blocks)
        self.to: dict[Var, Var] = {}
        self.known: dict[tuple[Var, int], list[tuple[int, Var]]] = defaultdict(list)
        self.names = {v.name for b in function.blocks for i in b.instrs for v in writes(i)}
        self.names |= {v.name for v in function.params}

    def run(self) -> Function:
        blocks = []
        for k, block in enumerate(self.function.blocks):
            local: dict[tuple[Var, int], Extent] = {}
            out: list[Instr] = []
            for old in block.instrs:
                instr = rename(old, self.to)
                assert not isinstance(instr, End)
                if isinstance(instr, Op):
                    for arg in instr.args:
                        if isinstance(arg, Var) and isinstance(arg.type, TensorT):
                            self._operand(k, arg, local, out, instr.loc)
                if isinstance(instr, ExtentOf):
                    instr = self._extent(k, instr, local)
                if isinstance(instr, Copy) and instr.out in self.single and instr.src in self.fixed:
                    self.to[instr.out] = instr.src
                    continue
                out.append(instr)
                for v in writes(instr):
                    if v not in self.fixed:
                        for key in [key for key in local if v in (key[0], local[key])]:
                            del local[key]
                if isinstance(instr, Op):
                    local |= {(instr.out, axis): n for axis, n in enumerate(instr.shape)}
            blocks.append(Block(instrs=tuple(out), end=block.end))
        # A loop may read a copy before the block that makes it was seen: rename once more.
        final = tuple(
            Block(instrs=tuple(rename(i, self.to) for i in b.instrs), end=rename(b.end, self.to))  # type: ignore[misc, arg-type]
            for b in blocks
        )
        return replace(self.function, blocks=final)

    def _value(self, k: int, tensor: Var, axis: int, local: Mapping[tuple[Var, int], Extent]) -> Extent | None:
        assert isinstance(tensor.type, TensorT)
        constant = tensor.type.shape[axis]
        if constant is not None:
            return constant
        by = self.single.get(tensor)
        if isinstance(by, Op):
            extent = by.shape[axis]
            if isinstance(extent, int) or extent in self.fixed:
                return self.to.get(extent, extent) if isinstance(extent, Var) else extent
        if tensor in self.fixed:
            for block, var in self.known[tensor, axis]:
                if block in self.dominators[k]:
                    return var
        return local.get((tensor, axis))

    def _note(self, k: int, instr: ExtentOf, local: dict[tuple[Var, int], Extent]) -> None:
        if instr.tensor in self.fixed and instr.out in self.fixed:
            self.known[instr.tensor, instr.axis].append((k, instr.out))
        else:
            local[instr.tensor, instr.axis] = instr.out

    def _extent(self, k: int, instr: ExtentOf, local: dict[tuple[Var, int], Extent]) -> Instr:
        value = self._value(k, instr.tensor, instr.axis, local)
        if isinstance(value, int):
            return Const(out=instr.out, value=value, loc=instr.loc)
        if value is not None:
            return Copy(out=instr.out, src=value, loc=instr.loc)
        self._note(k, instr, local)
        return instr

    def _operand(
        self, k: int, tensor: Var, local: dict[tuple[Var, int], Extent], out: list[Instr], loc: Loc
    ) -> None:
        assert isinstance(tensor.type, TensorT)
        for axis in range(tensor.type.rank):
            if self._value(k, tensor, axis, local) is None:
                name = f"{tensor.name}_extent{axis}"
                while name in self.names:
                    name += "_"
                self.names.add(name)
                var = Var(name, INT)
                instr = ExtentOf(out=var, tensor=tensor, axis=axis, loc=loc)
                self.single[var] = instr
                if tensor in self.fixed:
                    self.fixed.add(var)
                out.append(instr)
                self._note(k, instr, local)


# -------------------------------------------------------------------------------------------------------- groups


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Operations that become one kernel, in program order; `own` are those that no other group computes."""

    body: tuple[Op, ...]
    own: tuple[Op, ...]
    extents: dict[Var, tuple[Extent, ...]]  # of the tensors from outside
    outside: frozenset[Var]  # tensors it reads from outside


class _Grouping:
    """Replaces the operations of one function by kernels."""

    def __init__(self, function: Function, table: _Kernels) -> None:
        self.function = function
        self.table = table
        self.single = definitions(function)
        self.fixed = _fixed(function)
        self.free = self._free_operations()
        self.dominators = dominators(function.blocks)
        self.numbers = {id(b): k for k, b in enumerate(function.blocks)}
        self.asked = [
            [(i.tensor, i.axis, i.out) for i in b.instrs if isinstance(i, ExtentOf) and {i.out, i.tensor} <= self.fixed]
            for b in function.blocks
        ]
        self.used_in: dict[Var, set[int]] = defaultdict(set)  # blocks whose operations read the variable
        for k, b in enumerate(function.blocks):
            for i in b.instrs:
                if isinstance(i, Op):
                    for a in i.args:
                        if isinstance(a, Var):
                            self.used_in[a].add(k)
        self.host_reads = {
            v
            for b in function.blocks
            for v in (*(v for i in b.instrs if not isinstance(i, Op) for v in reads(i)), *reads(b.end))
        }

    def _free_operations(self) -> dict[Var, Op]:
        """Return the operations on shared tensors and constants alone, by what they assign."""
        out: dict[Var, Op] = {}
        for block in self.function.blocks:
            for op in block.instrs:
                if isinstance(op, Op) and op.site < 0 and all(isinstance(a, SharedArg) or a in out for a in op.args):
                    inner = (x for a in op.attrs for x in (a if isinstance(a, tuple) else (a,)))
                    extents = [x for x in (*op.shape, *inner) if isinstance(x, Var)]
                    if all(x in self.fixed for x in extents):
                        out[op.out] = op
        return out

    def run(self) -> Function:
        blocks: list[tuple[list[Instr | _Group], End]] = []
        for block in self.function.blocks:
            blocks.append((self._block(block), block.end))
        wanted = set(self.host_reads)
        for items, _ in blocks:
            for item in items:
                if isinstance(item, _Group):
                    wanted |= item.outside
        final = []
        for items, end in blocks:
            out: list[Instr] = []
            for item in items:
                out += self.table.emit(item, wanted, self.single) if isinstance(item, _Group) else [item]
            final.append(Block(instrs=tuple(out), end=end))
        return replace(self.function, blocks=tuple(final))

    def _block(self, block: Block) -> list[Instr | _Group]:
        moved: dict[Var, Op] = dict(self.free)  # operations that are computed by whoever reads them
        if not self.table.options.blocks:
            readers: dict[Var, int] = Counter(
                a for i in block.instrs if isinstance(i, Op) for a in i.args if isinstance(a, Var)
            )
            here = self.numbers[id(block)]
            for op in block.instrs:
                if isinstance(op, Op) and TENSORS[op.op].kind == "address" and self.used_in[op.out] <= {here}:
                    if readers[op.out] and op.out not in self.host_reads:
                        moved[op.out] = op
        instrs = [
            i for i in block.instrs if not (isinstance(i, Op) and i.out in moved and i.out not in self.host_reads)
        ]
        extents = self._extents_at(block)
        needs = self._dependences(instrs, moved, extents)
        done: set[int] = set()
        out: list[Instr | _Group] = []
        while len(done) < len(instrs):
            before = len(done)
            for k, instr in enumerate(instrs):
                if k not in done and not isinstance(instr, Op) and needs[k] <= done:
                    done.add(k)
                    out.append(instr)
            if len(done) > before:
                continue
            taken: set[int] = set()
            for k, instr in enumerate(instrs):
                if k not in done and isinstance(instr, Op) and needs[k] <= done | taken:
                    taken.add(k)
                    if not self.table.options.blocks:
                        break
            assert taken, "a cycle of instructions"
            out.append(self._group([i for k in sorted(taken) if isinstance(i := instrs[k], Op)], moved, extents))
            done |= taken
        return out

    def _extents_at(self, block: Block) -> dict[tuple[int, Var], tuple[Extent, ...]]:
        """Return the extents of each tensor operand, by the identity of the operation and the variable."""
        out: dict[tuple[int, Var], tuple[Extent, ...]] = {}
        local: dict[tuple[Var, int], Extent] = {}
        everywhere: dict[tuple[Var, int], Var] = {}
        number = self.numbers[id(block)]
        for k in sorted(self.dominators[number]):
            for tensor, axis, var in self.asked[k]:
                everywhere.setdefault((tensor, axis), var)

        def extent(v: Var, axis: int) -> Extent:
            by = self.single.get(v)
            if isinstance(by, Op) and (isinstance(by.shape[axis], int) or by.shape[axis] in self.fixed):
                return by.shape[axis]
            if v in self.fixed and (v, axis) in everywhere:
                return everywhere[v, axis]
            return local[v, axis]

        for instr in block.instrs:
            if isinstance(instr, Op):
                for v in instr.args:
                    if isinstance(v, Var) and isinstance(v.type, TensorT):
                        out[id(instr), v] = tuple(
                            extent(v, axis) if n is None else n for axis, n in enumerate(v.type.shape)
                        )
            for v in writes(instr):
                for key in [key for key in local if v in (key[0], local[key])]:
                    del local[key]
            if isinstance(instr, ExtentOf):
                local[instr.tensor, instr.axis] = instr.out
            elif isinstance(instr, Op):
                local |= {(instr.out, axis): n for axis, n in enumerate(instr.shape)}
        return out

    def _operands(self, op: Op, moved: Mapping[Var, Op]) -> list[Op]:
        """Return the operations that a kernel with `op` computes on the way, itself last, in order."""
        out: list[Op] = []
        seen: set[int] = set()

        def visit(o: Op) -> None:
            if id(o) in seen:
                return
            seen.add(id(o))
            for a in o.args:
                if isinstance(a, Var) and a in moved and moved[a] is not o:
                    visit(moved[a])
            out.append(o)

        visit(op)
        return out

    def _dependences(
        self, instrs: list[Instr], moved: Mapping[Var, Op], extents: Mapping[tuple[int, Var], tuple[Extent, ...]]
    ) -> list[set[int]]:
        """Return for each instruction those that must come before it."""
        out: list[set[int]] = []
        writer: dict[Var, int] = {}
        readers: dict[Var, list[int]] = defaultdict(list)
        checks: list[int] = []  # what may fail or relies on what was checked: in order
        lists: list[int] = []  # what reads or changes lists: in order
        calls: list[int] = []
        for k, instr in enumerate(instrs):
            if isinstance(instr, Op):
                used = [v for o in self._operands(instr, moved) for v in (*reads(o), *self._extent_vars(o, extents))]
                used = [v for v in used if v not in moved or v in writer]
            else:
                used = list(reads(instr))
            needs = {writer[v] for v in used if v in writer}
            for v in writes(instr):
                needs |= set(readers[v])
                if v in writer:
                    needs.add(writer[v])
            match instr:
                case ExtentOf():
                    needs |= {*checks, *calls}
                case Check() | Load() | ClassTag():
                    needs |= {*checks, *calls}
                    checks = [k]
                case Scalar() | Op() if instr.site >= 0:
                    needs |= {*checks, *calls}
                    checks = [k] if isinstance(instr, Scalar) else checks
                case ListOp():
                    needs |= {*checks, *calls, *lists}
                    lists = [k]
                case Call():
                    needs |= {*checks, *calls, *lists}
                    calls, lists = [k], []
                case Op():
                    # Reading an operand relies on the checks before it, as an index that was checked does.
                    needs |= set(checks)
            out.append(needs)
            for v in used:
                readers[v].append(k)
            for v in writes(instr):
                writer[v] = k
                readers[v] = []
        return out

    @staticmethod
    def _extent_vars(op: Op, extents: Mapping[tuple[int, Var], tuple[Extent, ...]]) -> list[Var]:
        return [
            x for a in op.args if isinstance(a, Var) for x in extents.get((id(op), a), ()) if isinstance(x, Var)
        ]

    def _group(
        self, own: list[Op], moved: Mapping[Var, Op], extents: Mapping[tuple[int, Var], tuple[Extent, ...]]
    ) -> _Group:
        body: list[Op] = []
        seen: set[int] = set()
        for op in own:
            for o in self._operands(op, moved):
                if id(o) not in seen:
                    seen.add(id(o))
                    body.append(o)
        inside = {o.out for o in body}
        outside: dict[Var, tuple[Extent, ...]] = {}
        for o in body:
            for a in o.args:
                if isinstance(a, Var) and isinstance(a.type, TensorT) and a not in inside:
                    outside[a] = extents[id(o), a]
        return _Group(body=tuple(body), own=tuple(own), extents=outside, outside=frozenset(outside))


# ------------------------------------------------------------------------------------------------------- kernels


class _Kernels:
    """The kernels of a program: equal ones are one."""

    def __init__(self, program: Program, options: Options) -> None:
        self.program = program
        self.options = options
        self.specs: list[KernelSpec] = []
        self.index: dict[object, int] = {}
        self.uses: list[list[Loc]] = []
        self.names: set[str] = set()
        first: dict[Site, int] = {}
        self.site = [first.setdefault(s, k) for k, s in enumerate(program.sites)]

    def finish(self) -> tuple[tuple[KernelSpec, ...], tuple[tuple[Loc, ...], ...]]:
        return tuple(self.specs), tuple(tuple(dict.fromkeys(u)) for u in self.uses)

    def emit(self, group: _Group, wanted: set[Var], single: Mapping[Var, Instr]) -> list[Instr]:
        """Return the instructions that record a node of the group's kernel."""
        make = _Spec(self, group, single)
        results = [op.out for op in group.own if op.out in wanted or op.site >= 0]
        numbers = [make.number[v] for v in results]
        distinct = list(dict.fromkeys(numbers))
        loc = group.own[0].loc
        kernel = self._intern(make.spec(distinct, loc), loc)
        outs = [results[numbers.index(n)] for n in distinct]
        shape = {op.out: tuple(make.constant_extent(x) for x in op.shape) for op in group.own}
        emit = Emit(
            outs=tuple(outs),
            kernel=kernel,
            args=tuple(make.args),
            dims=tuple(make.dims),
            shapes=tuple(shape[v] for v in outs),
            loc=loc,
        )
        copies = [
            Copy(out=v, src=outs[distinct.index(n)], loc=loc)
            for v, n in zip(results, numbers, strict=True)
            if v not in outs
        ]
        return [emit, *copies]

    def _intern(self, spec: KernelSpec, loc: Loc) -> int:
        key = (
            tuple(replace(o, name="") for o in spec.operands),
            spec.dims,
            tuple(replace(op, name="", loc=NOWHERE) for op in spec.body),
            spec.results,
        )
        typed = (key, repr(key))  # 1, 1.0 and True are equal but not the same constant; nor are 0.0 and -0.0
        if typed not in self.index:
            base = re.sub(r"\W+", "_", f"{loc.function.rpartition('.')[2] or 'kernel'}_{loc.line}")
            name, n = base, 2
            while name in self.names:
                name, n = f"{base}_{n}", n + 1
            self.names.add(name)
            self.index[typed] = len(self.specs)
            self.specs.append(replace(spec, name=name))
            self.uses.append([])
        k = self.index[typed]
        self.uses[k].append(loc)
        return k


class _Spec:
    """Makes the specification of one group."""

    def __init__(self, kernels: _Kernels, group: _Group, single: Mapping[Var, Instr]) -> None:
        self.kernels = kernels
        self.group = group
        self.single = single
        self.dims: list[Var] = []
        self.lengths: dict[Var, Extent] = {}  # of lists that are stacked
        inside = {op.out for op in group.body}
        for op in group.body:  # extents first: they decide which host numbers are extents
            for a in op.args:
                if isinstance(a, Var) and a in group.extents:
                    for x in group.extents[a]:
                        self._dim(x)
            for x in op.shape:
                self._dim(x)
        tensors: list[Var] = []
        lists: list[Var] = []
        numbers: list[Var] = []
        shared: list[int] = []
        for op in group.body:
            for a in op.args:
                if isinstance(a, SharedArg):
                    shared.append(a.index)
                elif a not in inside and isinstance(a.type, TensorT):
                    tensors.append(a)
                elif isinstance(a.type, ListT):
                    self.lengths[a] = op.shape[0]
                    (lists if isinstance(a.type.item, TensorT) else numbers).append(a)
                elif a not in inside and self._literal(a) is None:
                    numbers.append(a)
            for x in self._attr_vars(op.attrs):
                if x not in self.dims and self._literal(x) is None:
                    numbers.append(x)
        tensors, lists, numbers = (list(dict.fromkeys(vs)) for vs in (tensors, lists, numbers))
        shared = list(dict.fromkeys(shared))
        self.args = [*tensors, *lists, *numbers]
        self.operands: list[Operand] = []
        self.number: dict[Var, int] = {}
        for v in self.args:
            self.number[v] = len(self.operands)
            self.operands.append(self._operand(v))
        self.shared: dict[int, int] = {}
        for k in shared:
            self.shared[k] = len(self.operands)
            param = kernels.program.shared[k]
            assert isinstance(param.type, TensorT)
            shape = tuple(n for n in param.type.shape if n is not None)
            assert len(shape) == param.type.rank
            name = re.sub(r"\W+", "_", param.path).strip("_")
            self.operands.append(Operand("shared", name, param.type.dtype, shape, k))
        self.body: list[KernelOp] = []
        self.values: dict[object, int] = {}
        for op in group.body:
            self._operation(op)

    def _literal(self, v: Var) -> int | float | bool | None:
        by = self.single.get(v)
        return by.value if isinstance(by, Const) and not isinstance(v.type, TensorT) else None

    def constant_extent(self, x: Extent) -> Extent:
        if isinstance(x, Var):
            value = self._literal(x)
            return x if value is None else int(value)
        return x

    def _dim(self, x: Extent) -> None:
        x = self.constant_extent(x)
        if isinstance(x, Var) and x not in self.dims:
            self.dims.append(x)

    def _size(self, x: Extent) -> Size:
        x = self.constant_extent(x)
        return Dim(self.dims.index(x)) if isinstance(x, Var) else x

    @staticmethod
    def _attr_vars(attrs: tuple[object, ...]) -> list[Var]:
        return [x for a in attrs for x in (a if isinstance(a, tuple) else (a,)) if isinstance(x, Var)]

    def _operand(self, v: Var) -> Operand:
        index = self.number[v]
        match v.type:
            case TensorT():
                shape = tuple(self._size(x) for x in self.group.extents[v])
                return Operand("tensor", v.name, v.type.dtype, shape, index)
            case IntT():
                return Operand("int", v.name, "int64", (), index)
            case FloatT():
                return Operand("float", v.name, "float64", (), index)
            case BoolT():
                return Operand("bool", v.name, "bool", (), index)
            case ListT(item=TensorT() as item):
                shape = (self._size(self.lengths[v]), *(n for n in item.shape if n is not None))
                return Operand("list", v.name, item.dtype, shape, index)
            case ListT(item=IntT() | FloatT() | BoolT() as item):
                dtype = {IntT: "int64", FloatT: "float64", BoolT: "bool"}[type(item)]
                return Operand("numbers", v.name, dtype, (self._size(self.lengths[v]),), index)
        raise TypeError(f"{v.name}: {v.type} cannot be an argument of a kernel")

    def _attr(self, x: object) -> object:
        if isinstance(x, tuple):
            return tuple(self._attr(y) for y in x)
        if isinstance(x, Var):
            value = self._literal(x)
            if value is not None:
                return value
            return Dim(self.dims.index(x)) if x in self.dims else ("value", self.number[x])
        return x

    def _constant(self, v: Var) -> int:
        """Return the number of a host constant, as an operation of the kernel."""
        value = self._literal(v)
        dtype = "bool" if isinstance(v.type, BoolT) else "int64" if isinstance(v.type, IntT) else "float64"
        return self._add(KernelOp("const", (), (value,), dtype, (), v.name, -1, self.single[v].loc))

    def _add(self, op: KernelOp) -> int:
        key = repr((op.op, op.args, op.attrs, op.dtype, op.shape, op.site))
        if key not in self.values:
            self.values[key] = len(self.operands) + len(self.body)
            self.body.append(op)
        return self.values[key]

    def _operation(self, op: Op) -> None:
        args = []
        for a in op.args:
            if isinstance(a, SharedArg):
                args.append(self.shared[a.index])
            elif a in self.number:
                args.append(self.number[a])
            else:
                args.append(self._constant(a))
        assert isinstance(op.out.type, TensorT)
        self.number[op.out] = self._add(
            KernelOp(
                op=op.op,
                args=tuple(args),
                attrs=tuple(self._attr(a) for a in op.attrs),
                dtype=op.out.type.dtype,
                shape=tuple(self._size(x) for x in op.shape),
                name=op.out.name,
                site=self.kernels.site[op.site] if op.site >= 0 else -1,
                loc=op.loc,
            )
        )

    def spec(self, results: list[int], loc: Loc) -> KernelSpec:
        return KernelSpec("", tuple(self.operands), len(self.dims), tuple(self.body), tuple(results))


def plan_text(plan: Plan) -> str:
    """Return the specifications of all kernels and the host program, as text."""
    from acronumba.ir.printer import program_text
    from acronumba.kernels.reference import spec_text

    return "\n".join([*(spec_text(k) for k in plan.kernels), program_text(plan.program)])
