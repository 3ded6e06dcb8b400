"""Static blocks (grain-size coarsening): groups tensor operations into kernels, each one node of the dataflow graph.

In: a `Function`. Out: the function with its `Op`s replaced by `Emit`s, and the specifications of their kernels. Within
a basic block all host instructions that can run do so, then all ready tensor operations become one kernel, and so on;
tensors are read (`Read`) only when nothing else is ready, so that one wait is enough for all that the block computes
until then. Operations that have rows over one extent (`analysis.grouping.rows`) are separate kernels. Source: ACRoBat
(arXiv 2305.10611), section 4.1, static blocks.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from acronumba.analysis.grouping.hoist import Split
from acronumba.analysis.grouping.rows import OneRow, RowOperations, Rows, operands
from acronumba.analysis.sharing.per_batch import Computed
from acronumba.config import Options
from acronumba.errors import NOWHERE, Loc
from acronumba.ir import nodes as ir
from acronumba.ir.graph import definitions, dominators, fixed_variables
from acronumba.ir.notes import Note
from acronumba.ir.ops import TENSORS, shown_name
from acronumba.ir.spec import FAR, Dim, KernelOp, KernelSpec, Operand, Size, Use, distinct
from acronumba.ir.types import INT, BoolT, FloatT, IntT, ListT, TensorT
from acronumba.ir.visit import reads, writes
from acronumba.records import record


@record(eq=False)
class _Group:
    """Operations that become one kernel, in program order; `own`: the operations that no other group computes."""

    body: tuple[ir.Op, ...]
    own: tuple[ir.Op, ...]
    extents: dict[ir.Var, tuple[ir.Extent, ...]]  # of the tensors from outside
    outside: frozenset[ir.Var]  # tensors it reads from outside
    one_row: Callable[[set[ir.Var]], OneRow] | None = None  # from the requested variables, if computed row by row


class Grouping:
    """Replaces the operations of one function by kernels."""

    def __init__(self, function: ir.Function, table: Kernels, apart: Split) -> None:
        self.function = function
        self.table = table
        self.apart = apart
        self.single = definitions(function)
        self.fixed = fixed_variables(function)
        self.free = self._free_operations()
        self.free |= self._table_rows()
        self.dominators = dominators(function.blocks)
        self.numbers = {id(b): k for k, b in enumerate(function.blocks)}
        self.rows = Rows(table.program, function, self.single, self.fixed, table.options.decisions.row_elements)
        self.asked = [
            [
                (i.tensor, i.axis, i.out)
                for i in b.instrs
                if isinstance(i, ir.ExtentOf) and {i.out, i.tensor} <= self.fixed
            ]
            for b in function.blocks
        ]
        self.used_in: dict[ir.Var, set[int]] = defaultdict(set)  # blocks whose operations read the variable
        for k, b in enumerate(function.blocks):
            for i in b.instrs:
                if isinstance(i, ir.Op):
                    for a in i.args:
                        if isinstance(a, ir.Var):
                            self.used_in[a].add(k)
        self.host_reads = {
            v
            for b in function.blocks
            for v in (*(v for i in b.instrs if not isinstance(i, ir.Op) for v in reads(i)), *reads(b.end))
        }
        if kept := table.program.kept:
            ops = (i for b in function.blocks for i in b.instrs if isinstance(i, ir.Op))
            self.host_reads |= {op.out for op in ops if (op.loc, op.out.name) in kept}

    def _free_operations(self) -> dict[ir.Var, ir.Op]:
        """Map each variable computed from shared tensors and constants alone to its operation."""
        out: dict[ir.Var, ir.Op] = {}
        for block in self.function.blocks:
            for op in block.instrs:
                if (
                    isinstance(op, ir.Op)
                    and op.site < 0
                    and all(isinstance(a, ir.SharedArg) or a in out for a in op.args)
                ):
                    inner = (x for a in op.attrs for x in (a if isinstance(a, tuple) else (a,)))
                    extents = [x for x in (*op.shape, *inner) if isinstance(x, ir.Var)]
                    if all(x in self.fixed for x in extents):
                        out[op.out] = op
        return out

    def _table_rows(self) -> dict[ir.Var, ir.Op]:
        """Map each variable that is a row `x[k]` of a shared tensor, or a view of such a row, to its operation.

        Rows are read in place: the index, computed or not, is passed from kernel to kernel.
        """
        out: dict[ir.Var, ir.Op] = {}
        for op in (op for block in self.function.blocks for op in block.instrs if isinstance(op, ir.Op)):
            if TENSORS[op.op].kind == "view" and self.fixed.issuperset(reads(op)):
                source, *index = op.args
                shared = isinstance(source, ir.SharedArg) or source in self.free or source in out
                if shared and all(isinstance(a, ir.Var) and a.type in (INT, TensorT("int64", ())) for a in index):
                    out[op.out] = op
        return out

    def run(self) -> ir.Function:
        blocks: list[tuple[list[ir.Instr | _Group], ir.End]] = []
        for block in self.function.blocks:
            blocks.append((self._block(block), block.end))
        wanted = set(self.host_reads)
        for items, _ in blocks:
            for item in items:
                if isinstance(item, _Group):
                    wanted |= item.outside
        final = []
        for items, end in blocks:
            out: list[ir.Instr] = []
            for item in items:
                out += self.table.emit(item, wanted, self.single) if isinstance(item, _Group) else [item]
            final.append(ir.Block(instrs=tuple(out), end=end))
        return replace(self.function, blocks=tuple(final))

    def _block(self, block: ir.Block) -> list[ir.Instr | _Group]:
        here = self.numbers[id(block)]
        moved: dict[ir.Var, ir.Op] = dict(self.free)  # operations that are computed by whoever reads them
        moved |= {i.out: i for i in block.instrs if isinstance(i, ir.Op) and id(i) in self.apart.again}
        if not self.table.options.blocks:
            read = {a for i in block.instrs if isinstance(i, ir.Op) for a in i.args if isinstance(a, ir.Var)}
            for op in block.instrs:
                if isinstance(op, ir.Op) and TENSORS[op.op].moves and self.used_in[op.out] <= {here}:
                    if op.out in read and op.out not in self.host_reads:
                        moved[op.out] = op
        if self.table.options.hoist:
            moved |= self._numbers(block, moved)
        stored = {v for v in moved if v in self.host_reads or (v not in self.free and self.used_in[v] - {here})}
        instrs = [i for i in block.instrs if not (isinstance(i, ir.Op) and i.out in moved and i.out not in stored)]
        extents = self._extents_at(block)
        needs = self._dependences(instrs, moved, extents)
        found = RowOperations(over={}, needs={}, equal={})
        if self.table.options.hoist:
            above = self.dominators[self.numbers[id(block)]]
            found = self.rows.find(instrs, needs, above, moved, extents)
            needs = [before | found.needs.get(k, set()) for k, before in enumerate(needs)]
        views = self._views(block)
        done: set[int] = set()
        out: list[ir.Instr | _Group] = []
        while len(done) < len(instrs):
            before = len(done)
            for k, instr in enumerate(instrs):
                if k not in done and not isinstance(instr, ir.Op | ir.Read) and needs[k] <= done:
                    done.add(k)
                    out.append(instr)
            if len(done) > before:
                continue
            ready = [k for k, instr in enumerate(instrs) if k not in done and needs[k] <= done]
            if all(isinstance(instrs[k], ir.Read) for k in ready):
                assert ready, "a cycle of instructions"
                done.update(ready)
                out += [instrs[k] for k in ready]
                continue
            taken = self._taken(instrs, needs, done, found.over)
            rows = min(taken) in found.over
            again = moved if rows else {**views, **moved}
            group = self._group([i for k in sorted(taken) if isinstance(i := instrs[k], ir.Op)], again, extents)
            if rows:
                one_row = partial(self.rows.one_row, group.body, group.own, found=found, moved=moved, extents=extents)
                group = replace(group, one_row=one_row)
            out.append(group)
            done |= taken
        return out

    def _views(self, block: ir.Block) -> dict[ir.Var, ir.Op]:
        """Return the views that products of a node read.

        They sum in the order in which a matrix lies, so none may read a copy that another kernel has made.
        """
        out: dict[ir.Var, ir.Op] = {}
        read: set[ir.Var] = set()
        for op in (i for i in reversed(block.instrs) if isinstance(i, ir.Op)):
            args = {a for a in op.args if isinstance(a, ir.Var)}
            if op.op == "matmul" and not any(isinstance(a, ir.SharedArg) for a in op.args):
                read |= args
            elif TENSORS[op.op].moves and op.out in read and args <= self.fixed:
                out[op.out] = op
                read |= args
        return out

    def _taken(
        self, instrs: list[ir.Instr], needs: list[set[int]], done: set[int], over: Mapping[int, ir.Var]
    ) -> set[int]:
        """Return the operations of the next kernel: all with rows over one extent, or all without rows, of one number.

        If possible they are all that are left of their kind, so that kinds alternate as little as may be.
        """
        left = [k for k, instr in enumerate(instrs) if k not in done and isinstance(instr, ir.Op)]
        number = min(self.apart.numbers.get(id(instrs[k]), 0) for k in left if needs[k] <= done)
        left = [k for k in left if self.apart.numbers.get(id(instrs[k]), 0) == number]
        first: set[int] = set()
        for n in dict.fromkeys(over.get(k) for k in left):
            kind = [k for k in left if over.get(k) is n]
            taken: set[int] = set()
            for k in kind:
                if needs[k] <= done | taken and (n is None or self._one_site(instrs, {k, *taken})):
                    taken.add(k)
                    if not self.table.options.blocks:
                        return taken
            if len(taken) == len(kind):
                return taken
            first = first or taken
        return first

    @staticmethod
    def _one_site(instrs: list[ir.Instr], taken: set[int]) -> bool:
        """Whether at most one operation can fail: with several, a later row might fail first at another one."""
        return len({i.site for k in taken if isinstance(i := instrs[k], ir.Op) and i.site >= 0}) < 2

    def _numbers(self, block: ir.Block, moved: Mapping[ir.Var, ir.Op]) -> dict[ir.Var, ir.Op]:
        """Return the operations that make tensors of rank 0 of host numbers: each kernel can compute them itself."""
        out: dict[ir.Var, ir.Op] = {}
        here = self.numbers[id(block)]
        for op in block.instrs:
            if isinstance(op, ir.Op) and op.site < 0 and not op.shape and TENSORS[op.op].kind == "element":
                numbers = (isinstance(a, ir.Var) and isinstance(a.type, IntT | FloatT | BoolT) for a in op.args)
                if all(a in moved or (n and a in self.fixed) for a, n in zip(op.args, numbers, strict=True)):
                    if self.used_in[op.out] == {here} and op.out not in self.host_reads and op.out in self.single:
                        out[op.out] = op
        return out

    def _extents_at(self, block: ir.Block) -> dict[tuple[int, ir.Var], tuple[ir.Extent, ...]]:
        """Return the extents of each tensor operand, by the identity of the operation and the variable."""
        numbers = (
            (op, v) for op in self.free.values() for v in op.args if isinstance(v, ir.Var) and v not in self.free
        )
        out: dict[tuple[int, ir.Var], tuple[ir.Extent, ...]] = {(id(op), v): () for op, v in numbers}
        local: dict[tuple[ir.Var, int], ir.Extent] = {}
        everywhere: dict[tuple[ir.Var, int], ir.Var] = {}
        number = self.numbers[id(block)]
        for k in sorted(self.dominators[number]):
            for tensor, axis, var in self.asked[k]:
                everywhere.setdefault((tensor, axis), var)

        def extent(v: ir.Var, axis: int) -> ir.Extent:
            by = self.single.get(v)
            if isinstance(by, ir.Op) and (isinstance(by.shape[axis], int) or by.shape[axis] in self.fixed):
                return by.shape[axis]
            if v in self.fixed and (v, axis) in everywhere:
                return everywhere[v, axis]
            if isinstance(by, ir.Copy) and v in self.fixed and by.src in self.fixed:
                return extent(by.src, axis)  # its type has what a check has proved, see `analysis.grouping.proved`
            return local[v, axis]

        for instr in block.instrs:
            if isinstance(instr, ir.Op):
                for v in instr.args:
                    if isinstance(v, ir.Var) and isinstance(v.type, TensorT):
                        out[id(instr), v] = tuple(
                            extent(v, axis) if n is None else n for axis, n in enumerate(v.type.shape)
                        )
            for v in writes(instr):
                if v in self.fixed:
                    continue  # nothing was known of it before
                for key in [key for key in local if v in (key[0], local[key])]:
                    del local[key]
            if isinstance(instr, ir.ExtentOf):
                local[instr.tensor, instr.axis] = instr.out
            elif isinstance(instr, ir.Op):
                local |= {(instr.out, axis): n for axis, n in enumerate(instr.shape)}
        return out

    def _dependences(
        self,
        instrs: list[ir.Instr],
        moved: Mapping[ir.Var, ir.Op],
        extents: Mapping[tuple[int, ir.Var], tuple[ir.Extent, ...]],
    ) -> list[set[int]]:
        """Return for each instruction the numbers of the instructions that must come before it."""
        out: list[set[int]] = []
        writer: dict[ir.Var, int] = {}
        readers: dict[ir.Var, list[int]] = defaultdict(list)
        fallible = -1  # the last operation that may fail when it is computed: the first one recorded is reported
        checks: list[int] = []  # instructions that may fail or rely on a check: in order
        guards: list[int] = []  # the last of these on which operands rely: arithmetic is not among them
        lists: list[int] = []  # instructions that read or change lists: in order
        calls: list[int] = []
        waits: list[int] = []  # reads of tensors: instructions that may fail stay behind
        for k, instr in enumerate(instrs):
            if isinstance(instr, ir.Op):
                used = [v for o in operands(instr, moved) for v in (*reads(o), *self._extent_vars(o, extents))]
                used = [v for v in used if v not in moved or v in writer]
            else:
                used = list(reads(instr))
            needs = {writer[v] for v in used if v in writer}
            for v in writes(instr):
                needs |= set(readers[v])
                if v in writer:
                    needs.add(writer[v])
            match instr:
                case ir.ExtentOf():
                    needs |= {*checks, *calls}
                case ir.Check() | ir.Load() | ir.Store() | ir.ClassTag() | ir.IsMade():
                    needs |= {*checks, *calls, *(waits if isinstance(instr, ir.Check) else ())}
                    checks = guards = [k]
                case ir.Scalar() | ir.Op() if instr.site >= 0:
                    needs |= {*checks, *calls, *waits}
                    checks = [k] if isinstance(instr, ir.Scalar) else checks
                    if isinstance(instr, ir.Op):
                        needs |= {fallible} - {-1}
                        fallible = k
                case ir.ListOp():
                    needs |= {*checks, *calls, *lists}
                    lists = [k]
                case ir.Call():
                    needs |= {*checks, *calls, *lists, *waits}
                    calls, lists = [k], []
                case ir.Read():
                    # Failures of nodes recorded before a read show when it waits; a failed check does not wait.
                    needs |= {*checks, *calls, fallible} - {-1}
                    waits.append(k)
                case ir.Op():
                    # Reading an operand relies on the checks before it, as an index that was checked does.
                    needs |= set(guards)
            out.append(needs)
            for v in used:
                readers[v].append(k)
            for v in writes(instr):
                writer[v] = k
                readers[v] = []
        return out

    @staticmethod
    def _extent_vars(op: ir.Op, extents: Mapping[tuple[int, ir.Var], tuple[ir.Extent, ...]]) -> list[ir.Var]:
        return [
            x for a in op.args if isinstance(a, ir.Var) for x in extents.get((id(op), a), ()) if isinstance(x, ir.Var)
        ]

    def _group(
        self,
        own: list[ir.Op],
        moved: Mapping[ir.Var, ir.Op],
        extents: Mapping[tuple[int, ir.Var], tuple[ir.Extent, ...]],
    ) -> _Group:
        body: list[ir.Op] = []
        seen: set[int] = set()
        for op in own:
            for o in operands(op, moved):
                if id(o) not in seen:
                    seen.add(id(o))
                    body.append(o)
        inside = {o.out for o in body}
        outside: dict[ir.Var, tuple[ir.Extent, ...]] = {}
        for o in body:
            for a in o.args:
                if isinstance(a, ir.Var) and isinstance(a.type, TensorT) and a not in inside:
                    outside[a] = extents[id(o), a]
        return _Group(body=tuple(body), own=tuple(own), extents=outside, outside=frozenset(outside))


class Kernels:
    """The kernels of a program: equal ones are one."""

    def __init__(self, program: ir.Program, options: Options) -> None:
        self.program = program
        self.options = options
        self.specs: list[KernelSpec] = []
        self.index: dict[object, int] = {}
        self.uses: list[list[Use]] = []
        self.notes: list[Note] = []
        self.names: set[str] = set()
        self.callers: dict[str, dict[tuple[int, ...], str]] = defaultdict(
            dict
        )  # by name and calls: what names begin with
        first: dict[ir.Site, int] = {}
        self.site = [first.setdefault(s, k) for k, s in enumerate(program.sites)]

    def once(self, computed: Computed) -> ir.Once:
        """Add a kernel that computes a per-batch constant; return the `Once` that runs it."""
        own = computed.body[-1:]
        group = _Group(body=computed.body, own=own, extents={}, outside=frozenset())
        (emit,) = self.emit(group, {own[0].out}, computed.single)
        assert isinstance(emit, ir.Emit)
        numbers = [computed.single[v] for v in emit.args]
        indices = tuple(i.index for i in numbers if isinstance(i, ir.Shared))
        assert len(indices) == len(numbers) and not emit.dims
        return ir.Once(index=computed.index, kernel=emit.kernel, numbers=indices)

    def finish(self) -> tuple[tuple[KernelSpec, ...], tuple[tuple[Use, ...], ...]]:
        return tuple(self.specs), tuple(map(distinct, self.uses))

    def emit(self, group: _Group, wanted: set[ir.Var], single: Mapping[ir.Var, ir.Instr]) -> list[ir.Instr]:
        """Return the instructions that record a node of the group's kernel."""
        one = group.one_row(wanted) if group.one_row is not None else None
        make = _Spec(self, one or group, single)
        results = [op.out for op in group.own if op.out in wanted]
        results = results or [op.out for op in group.own if op.site >= 0][:1]  # it is computed only to fail
        row = one.row if one is not None else {}
        numbers = [make.number[row.get(v, v)] for v in results]
        distinct = list(dict.fromkeys(numbers))
        loc = group.own[0].loc
        spec, args = make.spec(distinct, loc), make.args
        outs = [results[numbers.index(n)] for n in distinct]
        shape = {op.out: tuple(make.constant_extent(x) for x in op.shape) for op in group.own}
        if one is not None:
            spec = replace(spec, rows=tuple(map(one.way, args)))
            args = [one.whole.get(v, v) for v in args]
            rows = shape[outs[0]][0]
            shape = {v: (rows, *s[1:]) for v, s in shape.items()}
            self._note_rows(group)
        emit = ir.Emit(
            outs=tuple(outs),
            kernel=self._intern(spec, Use(loc, tuple((op.loc, shown_name(op.op, op.attrs)) for op in group.body))),
            args=tuple(args),
            dims=tuple(make.dims),
            shapes=tuple(shape[v] for v in outs),
            loc=loc,
        )
        copies = [
            ir.Copy(out=v, src=outs[distinct.index(n)], loc=loc)
            for v, n in zip(results, numbers, strict=True)
            if v not in outs
        ]
        return [emit, *copies]

    def _note_rows(self, group: _Group) -> None:
        text = "computed row by row: the rows of all instances are one batch"
        for loc in dict.fromkeys(op.loc for op in group.own):
            self.notes.append(Note(loc=loc, kind="rows", text=text, option="hoist"))

    def _intern(self, spec: KernelSpec, use: Use) -> int:
        key = (
            tuple(replace(o, name="") for o in spec.operands),
            spec.dims,
            tuple(replace(op, name="", loc=NOWHERE) for op in spec.body) if not self.program.kept else spec.body,
            spec.results,
            spec.rows,
        )
        typed = (key, repr(key))  # 1, 1.0 and True are equal but not the same constant; nor are 0.0 and -0.0
        if typed not in self.index:
            self.index[typed] = len(self.specs)
            self.specs.append(replace(spec, name=self._name(use.loc)))
            self.uses.append([])
        k = self.index[typed]
        self.uses[k].append(use)
        return k

    def _name(self, loc: Loc) -> str:
        """Return a unique name for a kernel: function and line, and if need be the line of a call that leads there."""
        base = re.sub(r"\W+", "_", f"{loc.function.rpartition('.')[2] or 'kernel'}_{loc.line}")
        calls = tuple(call.line for call in loc.path[1:])
        if calls not in self.callers[base]:
            others = [dict(enumerate(known)) for known in self.callers[base]]
            lines = (n for k, n in enumerate(calls) if all(known.get(k) != n for known in others))
            line = next(lines, None) if others else None
            self.callers[base][calls] = base if line is None else f"{base}_from_{line}"
        first = self.callers[base][calls]
        name = next(n for n in (first, *(f"{first}_{k}" for k in range(2, len(self.specs) + 3))) if n not in self.names)
        self.names.add(name)
        return name


class _Spec:
    """Makes the specification of one group."""

    def __init__(self, kernels: Kernels, group: _Group | OneRow, single: Mapping[ir.Var, ir.Instr]) -> None:
        self.kernels = kernels
        self.group = group
        self.single = single
        self.dims: list[ir.Var] = []
        self.stacked: dict[ir.Var, tuple[ir.Extent, ...]] = {}  # lists -> extents of the stacked array
        self.far = self._far()
        inside = {op.out for op in group.body}
        for op in group.body:  # extents first: they decide which host numbers are extents
            for a in op.args:
                if isinstance(a, ir.Var) and a in group.extents:
                    for x in group.extents[a][a in self.far :]:
                        self._dim(x)
            for x in op.shape if op.op != "own" else self._attr_vars(op.attrs):
                self._dim(x)
        tensors: list[ir.Var] = []
        lists: list[ir.Var] = []
        numbers: list[ir.Var] = []
        shared: list[int] = []
        for op in group.body:
            for a in op.args:
                if isinstance(a, ir.SharedArg):
                    shared.append(a.index)
                elif a not in inside and isinstance(a.type, TensorT):
                    tensors.append(a)
                elif isinstance(a.type, ListT):
                    self.stacked[a] = op.shape
                    (lists if isinstance(a.type.item, TensorT) else numbers).append(a)
                elif a not in inside and self._literal(a) is None:
                    numbers.append(a)
            for x in self._attr_vars(op.attrs):
                if x not in self.dims and self._literal(x) is None:
                    numbers.append(x)
        numbers += self.far.values()
        tensors, lists, numbers = (list(dict.fromkeys(vs)) for vs in (tensors, lists, numbers))
        if isinstance(group, OneRow):  # the elements of lists are lists of the node
            tensors.sort(key=lambda v: group.way(v) == "item")
        shared = list(dict.fromkeys(shared))
        self.args = [*tensors, *lists, *numbers]
        self.operands: list[Operand] = []
        self.number: dict[ir.Var, int] = {}
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
            self.operands.append(Operand("shared", name, param.type.dtype, shape, k, param.pool))
        self.body: list[KernelOp] = []
        self.values: dict[object, int] = {}
        for op in group.body:
            self._operation(op)

    def _far(self) -> dict[ir.Var, ir.Var]:
        """Map tensors of which only elements at host numbers are read to their numbers of elements.

        A tensor is left out if that number is an extent of the batch for another reason.
        """
        group = self.group
        if isinstance(group, OneRow):
            return {}
        read = [(a, op) for op in group.body for a in op.args if isinstance(a, ir.Var) and group.extents.get(a)]
        whole = {a for a, op in read if not self._names_element(op) or op.args[0] != a}
        found = {a: n for a, _ in read if isinstance(n := self.constant_extent(group.extents[a][0]), ir.Var)}
        extents = {x for a, _ in read for x in group.extents[a][a not in whole and a in found :]}
        extents |= {x for op in group.body for x in op.shape}
        return {a: n for a, n in found.items() if a not in whole and n not in extents}

    @staticmethod
    def _names_element(op: ir.Op) -> bool:
        """Whether an operation reads an element of the first axis, which a host number names."""
        if op.op != "take" or op.attrs != (0,):
            return False
        index = op.args[1]
        return isinstance(index, ir.Var) and isinstance(index.type, IntT)

    def _literal(self, v: ir.Var) -> int | float | bool | None:
        by = self.single.get(v)
        if not isinstance(by, ir.Const) or isinstance(v.type, TensorT) or isinstance(by.value, str):
            return None
        return by.value

    def constant_extent(self, x: ir.Extent) -> ir.Extent:
        if isinstance(x, ir.Var):
            value = self._literal(x)
            return x if value is None else int(value)
        return x

    def _dim(self, x: ir.Extent) -> None:
        x = self.constant_extent(x)
        if isinstance(x, ir.Var) and x not in self.dims:
            self.dims.append(x)

    def _size(self, x: ir.Extent) -> Size:
        x = self.constant_extent(x)
        return Dim(self.dims.index(x)) if isinstance(x, ir.Var) else x

    @staticmethod
    def _attr_vars(attrs: tuple[object, ...]) -> list[ir.Var]:
        return [x for a in attrs for x in (a if isinstance(a, tuple) else (a,)) if isinstance(x, ir.Var)]

    def _operand(self, v: ir.Var) -> Operand:
        index = self.number[v]
        match v.type:
            case TensorT():
                far = (FAR,) if v in self.far else ()
                shape = (*far, *(self._size(x) for x in self.group.extents[v][len(far) :]))
                return Operand("tensor", v.name, v.type.dtype, shape, index)
            case IntT():
                return Operand("int", v.name, "int64", (), index)
            case FloatT():
                return Operand("float", v.name, "float64", (), index)
            case BoolT():
                return Operand("bool", v.name, "bool", (), index)
            case ListT(item=TensorT() as item):
                shape = tuple(self._size(x) for x in self.stacked[v])
                return Operand("list", v.name, item.dtype, shape, index)
            case ListT(item=IntT() | FloatT() | BoolT() as item):
                dtype = {IntT: "int64", FloatT: "float64", BoolT: "bool"}[type(item)]
                return Operand("numbers", v.name, dtype, (self._size(self.stacked[v][0]),), index)
        raise TypeError(f"{v.name}: {v.type} cannot be an argument of a kernel")

    def _attr(self, x: object) -> object:
        if isinstance(x, tuple):
            return tuple(self._attr(y) for y in x)
        if isinstance(x, ir.Var):
            value = self._literal(x)
            if value is not None:
                return value
            return Dim(self.dims.index(x)) if x in self.dims else ("value", self.number[x])
        return x

    def _constant(self, v: ir.Var) -> int:
        """Return the number of a host constant, as an operation of the kernel."""
        value = self._literal(v)
        dtype = "bool" if isinstance(v.type, BoolT) else "int64" if isinstance(v.type, IntT) else "float64"
        return self._add(KernelOp("const", (), (value,), dtype, (), v.name, -1, self.single[v].loc))

    def _within(self, index: int, count: int, loc: Loc) -> int:
        """Return the index clamped to `count - 1`, so that nothing beyond the array is read."""
        one = self._add(KernelOp("const", (), (1,), "int64", (), "", -1, loc))
        last = self._add(KernelOp("sub", (count, one), (), "int64", (), "", -1, loc))
        return self._add(KernelOp("minimum", (index, last), (), "int64", (), "", -1, loc))

    def _add(self, op: KernelOp) -> int:
        """Add an operation unless an equal one exists; of two that fail alike, the first one's site is reported."""
        key = repr((op.op, op.args, op.attrs, op.dtype, op.shape, op.site >= 0))
        if op.op == "own" and not op.attrs[0].operation.pure:  # type: ignore[attr-defined]
            key += str(len(self.body))
        if (op.loc, op.name) in self.kernels.program.kept:  # it is asked for by its name and line
            key += repr((op.loc, op.name))
        if key not in self.values:
            self.values[key] = len(self.operands) + len(self.body)
            self.body.append(op)
        return self.values[key]

    def _operation(self, op: ir.Op) -> None:
        args = []
        for a in op.args:
            if isinstance(a, ir.SharedArg):
                args.append(self.shared[a.index])
            elif a in self.number:
                args.append(self.number[a])
            else:
                args.append(self._constant(a))
        if op.args and op.args[0] in self.far:
            args[1] = self._within(args[1], self.number[self.far[op.args[0]]], op.loc)
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
        """Return the specification; a view that is a result is not the one that products read."""
        first, body, out = len(self.operands), list(self.body), []
        for v in results:
            op = self.body[v - first]
            if TENSORS[op.op].moves and any(v in user.args for user in self.body):
                body.append(op)
                v = first + len(body) - 1
            out.append(v)
        return KernelSpec("", tuple(self.operands), len(self.dims), tuple(body), tuple(out))
