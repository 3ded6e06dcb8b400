"""Copies of kernels: code that reads other shared tensors in other contexts (code duplication).

In: a planned program and its kernels. Out: the same, in which kernels are merged that come from the same lines of the
source and differ only in their shared operands, if copies do not pay; the operands in which they differ are then
tensors of each node. (Copies are made by inlining, by the front end's specialisation of recursive functions, and by
`analysis.sharing.share`.)

A copy pays if a matrix product reads an operand that differs: packed once for all nodes, a shared weight is read about
as fast as the CPU multiplies, a matrix of each node only as fast as memory delivers it. Otherwise the operands are
vectors, or tables of which nodes read a row, and a node reads a local operand as fast as a shared one: then one batch
of several contexts is better than a batch for each. Kernels are not merged, however, if a node of one context may
depend on a node of another: their batches could not be one anyway, and kernels that feed each other share a phase, in
which nodes that would have been one batch may end up at different depths. More than `COPIES` copies are merged in any
case.

Source: ACRoBat (arXiv 2305.10611), section 5.1, code duplication; bounding and undoing it is ours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from acronumba.analysis.sharing.facts import Context, Sharing
from acronumba.config import COPIES, Options
from acronumba.ir import nodes as ir
from acronumba.ir.notes import Note
from acronumba.ir.ops import TENSORS
from acronumba.ir.spec import KernelOp, KernelSpec, Operand, Use, distinct, same_but_shared
from acronumba.ir.types import TensorT
from acronumba.ir.visit import writes


def weights_of(spec: KernelSpec) -> set[int]:
    """Return the shared operands that are a matrix of a product, themselves or through views."""
    first = len(spec.operands)
    out: set[int] = set()
    work = [a for op in spec.body if op.op == "matmul" for a in op.args if len(_shape(spec, a)) > 1]
    seen: set[int] = set()
    while work:
        v = work.pop()
        if v in seen:
            continue
        seen.add(v)
        if v < first:
            out.add(v)
        elif TENSORS[(op := spec.body[v - first]).op].moves:
            work += op.args if op.op == "concat" else op.args[:1]
    return {v for v in out if spec.operands[v].kind == "shared"}


def _shape(spec: KernelSpec, v: int) -> tuple[object, ...]:
    first = len(spec.operands)
    return spec.operands[v].shape if v < first else spec.body[v - first].shape


def merge_variants(
    program: ir.Program, kernels: Sequence[KernelSpec], uses: Sequence[tuple[Use, ...]], options: Options
) -> tuple[ir.Program, tuple[KernelSpec, ...], tuple[tuple[Use, ...], ...], tuple[Note, ...]]:
    """Return the program, its kernels and where each is recorded, with copies merged; and notes.

    Parameters
    ----------
    options
        `duplicate`: if off, all copies are merged.
    """
    alike: dict[object, list[int]] = defaultdict(list)
    once = {o.kernel for o in program.once}
    for k, spec in enumerate(kernels):
        if k not in once and spec.rows is None and any(o.kind == "shared" for o in spec.operands):
            alike[same_but_shared(spec, lines=True)].append(k)
    sets: list[list[int]] = []
    notes: list[Note] = []
    flow: _Flow | None = None
    for members in alike.values():
        if len(members) < 2:
            continue
        spec = kernels[members[0]]
        differ = _differing(kernels, members)
        names = " and ".join(f"`{_paths(program, kernels[k], differ)}`" for k in members[:3])
        names += f" and {len(members) - 3} more" * (len(members) > 3)
        loc = spec.body[0].loc
        if options.duplicate and weights_of(spec) & differ and len(members) <= COPIES:
            told = f"{len(members)} copies of the kernel, one for each of {names}: matrix products read packed weights"
            notes.append(Note(loc=loc, kind="duplicated", text=told, option="duplicate"))
            continue
        if options.duplicate and len(members) <= COPIES:
            flow = flow or _Flow(program)
            parts = flow.independent(members)
            why = "no matrix product reads them"
        else:
            parts = [members]
            why = f"{len(members)} copies would be too many" if options.duplicate else "duplicate is off"
        for part in parts:
            if len(part) > 1:
                sets.append(part)
                told = f"one kernel reads {names} in turn, as {why}"
                notes.append(Note(loc=loc, kind="merged", text=told, option="duplicate"))
    if not sets:
        return program, tuple(kernels), tuple(uses), tuple(notes)
    return (*_merged(program, kernels, uses, sets), tuple(notes))


def _differing(kernels: Sequence[KernelSpec], members: Sequence[int]) -> set[int]:
    first = kernels[members[0]]
    return {
        v
        for v, o in enumerate(first.operands)
        if o.kind == "shared" and len({kernels[k].operands[v].index for k in members}) > 1
    }


def _paths(program: ir.Program, spec: KernelSpec, which: Iterable[int]) -> str:
    return ", ".join(program.shared[spec.operands[v].index].path for v in sorted(which))


def _merged(
    program: ir.Program, kernels: Sequence[KernelSpec], uses: Sequence[tuple[Use, ...]], sets: Sequence[Sequence[int]]
) -> tuple[ir.Program, tuple[KernelSpec, ...], tuple[tuple[Use, ...], ...]]:
    opened: dict[int, tuple[int, set[int]]] = {}  # by kernel: its new number, and its operands that are opened
    for members in sets:
        differ = _differing(kernels, members)
        opened |= dict.fromkeys(members, (members[0], differ))
    kept = [k for k in range(len(kernels)) if opened.get(k, (k, set()))[0] == k]
    number = {k: n for n, k in enumerate(kept)}
    specs = tuple(open_operands(kernels[k], opened[k][1]) if k in opened else kernels[k] for k in kept)
    places = tuple(
        distinct(use for m in range(len(kernels)) if opened.get(m, (m,))[0] == k for use in uses[m]) for k in kept
    )
    functions = tuple(_rewritten(f, program, kernels, opened, number) for f in program.functions)
    once = tuple(replace(o, kernel=number[o.kernel]) for o in program.once)
    return replace(program, functions=functions, once=once), specs, places


def open_operands(spec: KernelSpec, which: set[int]) -> KernelSpec:
    """Return the kernel with some shared operands as tensors of each node, behind its other tensors."""
    tensors = [v for v, o in enumerate(spec.operands) if o.kind == "tensor"]
    others = [v for v, o in enumerate(spec.operands) if o.kind not in ("tensor", "shared")]
    shared = [v for v, o in enumerate(spec.operands) if o.kind == "shared" and v not in which]
    args = [*tensors, *sorted(which), *others]
    order = [*args, *shared]
    to = {v: n for n, v in enumerate(order)}
    operands = []
    for v in order:
        o = spec.operands[v]
        if v in which:
            operands.append(Operand("tensor", o.name, o.dtype, o.shape, args.index(v)))
        else:
            operands.append(o if o.kind == "shared" else replace(o, index=args.index(v)))

    def attr(x: object) -> object:
        match x:
            case ("value", int(v)):
                return ("value", to.get(v, v))
            case tuple():
                return tuple(map(attr, x))
        return x

    def operation(op: KernelOp) -> KernelOp:
        return replace(op, args=tuple(to.get(a, a) for a in op.args), attrs=tuple(map(attr, op.attrs)))

    return replace(spec, operands=tuple(operands), body=tuple(map(operation, spec.body)))


def _rewritten(
    function: ir.Function,
    program: ir.Program,
    kernels: Sequence[KernelSpec],
    opened: Mapping[int, tuple[int, set[int]]],
    number: Mapping[int, int],
) -> ir.Function:
    taken = {v.name for v in function.params}
    taken |= {v.name for b in function.blocks for i in b.instrs for v in writes(i)}

    def var(name: str, t: TensorT) -> ir.Var:
        out, n = name, 1
        while out in taken:
            n += 1
            out = f"{name}_{n}"
        taken.add(out)
        return ir.Var(out, t)

    blocks = []
    for block in function.blocks:
        out: list[ir.Instr] = []
        made: dict[int, ir.Var] = {}
        for instr in block.instrs:
            if isinstance(instr, ir.Emit) and instr.kernel in opened:
                into, which = opened[instr.kernel]
                spec = kernels[instr.kernel]
                given = []
                for v in sorted(which):
                    k = spec.operands[v].index
                    t = program.shared[k].type
                    assert isinstance(t, TensorT)
                    if k not in made:
                        made[k] = var(spec.operands[v].name, t)
                        out.append(ir.Shared(out=made[k], index=k, loc=instr.loc))
                    given.append(made[k])
                tensors = sum(o.kind == "tensor" for o in spec.operands)
                args = (*instr.args[:tensors], *given, *instr.args[tensors:])
                instr = replace(instr, kernel=number[into], args=args)
            elif isinstance(instr, ir.Emit):
                instr = replace(instr, kernel=number[instr.kernel])
            out.append(instr)
        blocks.append(ir.Block(instrs=tuple(out), end=block.end))
    return replace(function, blocks=tuple(blocks))


class _Flow:
    """Reachability of kernels: the kernels that may read a kernel's results, directly or through others."""

    def __init__(self, program: ir.Program) -> None:
        self.to: dict[object, set[object]] = defaultdict(set)
        self.readers: dict[object, set[int]] = defaultdict(set)  # kernels that read a variable
        self.results: dict[int, set[ir.Var]] = defaultdict(set)  # of kernels
        sharing = Sharing(program)
        for number, function in enumerate(program.functions):
            contexts = sharing.contexts(number)
            for block in function.blocks:
                for instr in block.instrs:
                    self._instruction(program, sharing, contexts, instr)
                if isinstance(block.end, ir.Return):
                    for k, v in enumerate(block.end.args):
                        self.to[v].add(("result", number, k))
        self.reached: dict[int, set[int]] = {}

    def _instruction(self, program: ir.Program, sharing: Sharing, contexts: Sequence[Context], instr: ir.Instr) -> None:
        def places(v: ir.Var) -> Iterable[int]:
            return sharing.fact(contexts, v).which

        to = self.to
        match instr:
            case ir.Copy():
                to[instr.src].add(instr.out)
            case ir.Read():
                to[instr.tensor].add(instr.out)
            case ir.Scalar():
                for v in instr.args:
                    to[v].add(instr.out)
            case ir.New():
                for k, v in enumerate(instr.args):
                    to[v].add(("word", sharing.places[id(instr)], k))
            case ir.Load():
                first = sharing.offsets[instr.cls, instr.field]
                for place in places(instr.ref):
                    for k, v in enumerate(instr.outs):
                        to["word", place, first + k].add(v)
            case ir.Store():
                first = sharing.offsets[instr.cls, instr.field]
                for place in places(instr.ref):
                    for k, v in enumerate(instr.args):
                        to[v].add(("word", place, first + k))
            case ir.ListNew():
                for v in instr.args:
                    to[v].add(("item", sharing.places[id(instr)]))
            case ir.ListOp():
                self._list_op(sharing, places, instr)
            case ir.Call():
                for v, param in zip(instr.args, program.functions[instr.function].params, strict=True):
                    to[v].add(param)
                for k, v in enumerate(instr.outs):
                    to["result", instr.function, k].add(v)
            case ir.Emit():
                for a in instr.args:
                    self.readers[a].add(instr.kernel)
                    for place in places(a) if not isinstance(a.type, TensorT) else ():
                        to["item", place].add(a)
                    to[a] |= set(instr.outs)
                self.results[instr.kernel] |= set(instr.outs)

    def _list_op(self, sharing: Sharing, places: Callable[[ir.Var], Iterable[int]], instr: ir.ListOp) -> None:
        to = self.to
        held = [("item", p) for p in places(instr.args[0])] if instr.op not in ir.OF_NUMBERS else []
        for item in held:
            for v in instr.outs:
                to[item].add(v)
            if instr.op in ("set", "insert", "append", "put"):
                for v in instr.args[1 if instr.op in ("append", "put") else 2 :]:
                    to[v].add(item)
            if instr.op in ("extend", "update", "meet", "minus", "narrow", "toggle"):
                for v in instr.args[1:]:
                    for other in places(v):
                        to["item", other].add(item)
            if instr.op in ("slice", "clone", "order"):
                to[item].add(("item", sharing.places[id(instr)]))
        if instr.op == "fill":
            for v in instr.args[1:]:
                to[v].add(("item", sharing.places[id(instr)]))

    def after(self, kernel: int) -> set[int]:
        """Return the kernels that may depend on a node of one."""
        if kernel not in self.reached:
            seen: set[object] = set(self.results[kernel])
            work = list(seen)
            out: set[int] = set()
            while work:
                at = work.pop()
                out |= self.readers.get(at, set())
                for x in self.to.get(at, ()):
                    if x not in seen:
                        seen.add(x)
                        work.append(x)
            self.reached[kernel] = out
        return self.reached[kernel]

    def independent(self, kernels: Sequence[int]) -> list[list[int]]:
        """Return the kernels in sets whose members do not depend on each other."""
        out: list[list[int]] = []
        for k in kernels:
            for part in out:
                if all(k not in self.after(other) and other not in self.after(k) for other in part):
                    part.append(k)
                    break
            else:
                out.append([k])
        return out
