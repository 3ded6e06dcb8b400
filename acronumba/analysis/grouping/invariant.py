"""Loop-invariant code motion for tensor operations (Aho, Lam, Sethi & Ullman, "Compilers", section 9.5).

In: a `Program`. Out: the program with loop-invariant operations before their loops, also out of nested loops: they are
recorded once per run of the loop, not once per step. A loop that makes no step computes them in vain; an operation that
can fail does not move.

An operation moves if it has no error site; if its operands are assigned outside of the loop, on every path to it, and
hold a tensor there (not None); if their extents are constants (an operation that relies on a check of extents or of an
index stays behind the check); and if its block runs in every step. It also has to be worth it (`hoist.is_worth`), like
a product. The operations it is computed from move along, and so do operations on its result alone if theirs are not
larger. A view that the loop goes on reading is made twice, as products depend on the layout of a matrix. Host
instructions move only for the sake of an operation, if they cannot fail and have no effect.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from acronumba.analysis.grouping.hoist import is_worth, stored
from acronumba.analysis.simplify import simplify
from acronumba.ir import nodes as ir
from acronumba.ir.graph import definitions, dominators, loops, predecessors, successors
from acronumba.ir.notes import Note
from acronumba.ir.ops import TENSORS
from acronumba.ir.types import Array0T, ListT, TensorT, TorchT, TupleT, Type, words
from acronumba.ir.visit import Names, reads, redirect, rename, writes
from acronumba.strategy import DEFAULT, Strategy

_Movable = ir.Op | ir.Const | ir.Copy | ir.Shared | ir.ExtentOf | ir.IsNull | ir.Scalar


def move_invariants(program: ir.Program, strategy: Strategy = DEFAULT) -> tuple[ir.Program, tuple[Note, ...]]:
    """Return the program with invariant operations before their loops, and a note for each."""
    present = _present(program)
    notes: list[Note] = []
    functions = []
    for f in program.functions:
        mover = _Mover(f, present, strategy)
        functions.append(mover.run())
        notes += mover.notes
    return replace(program, functions=tuple(functions)), tuple(dict.fromkeys(notes))


def assigned(function: ir.Function) -> list[set[ir.Var]]:
    """Return the variables that are assigned on every path to the end of each block."""
    blocks = function.blocks
    before = predecessors(blocks)
    every = {v for b in blocks for i in b.instrs for v in writes(i)} | set(function.params)
    out = [set(every) for _ in blocks]
    changed = True
    while changed:
        changed = False
        for k, b in enumerate(blocks):
            start = set(function.params) if k == 0 else set.intersection(*(out[p] for p in before[k]))
            new = start | {v for i in b.instrs for v in writes(i)}
            if new != out[k]:
                out[k], changed = new, True
    return out


def _tensors(types: Iterable[Type]) -> list[bool]:
    """Return for each word of the types whether it always holds a tensor, never None."""
    out: list[bool] = []
    for t in types:
        if isinstance(t, TupleT):
            out += _tensors(t.items)
        else:
            never = isinstance(t, TensorT | Array0T | TorchT)
            out += [never and isinstance(w, TensorT) for w in words(t)]
    return out


def _present(program: ir.Program) -> set[ir.Var]:
    """Return the tensor variables that hold a tensor wherever they are assigned.

    All do until something says otherwise: the largest solution.
    """
    functions = program.functions
    fields = {(s.cls, f.name): f.type for s in program.layouts for f in s.fields}
    out = {
        v
        for f in functions
        for v in (*f.params, *(v for b in f.blocks for i in b.instrs for v in writes(i)))
        if isinstance(v.type, TensorT)
    }
    out -= {v for v, yes in zip(functions[0].params, _tensors(program.params), strict=True) if not yes}

    def sure(instr: ir.Instr) -> list[bool]:
        """Return for each variable that an instruction assigns whether it always holds a tensor."""
        match instr:
            case ir.Op() | ir.Emit() | ir.Shared():
                return [True] * len(writes(instr))
            case ir.Copy():
                return [instr.src in out]
            case ir.Load():
                return _tensors([fields[instr.cls, instr.field]])
            case ir.ListOp(op="get" | "pop"):
                item = instr.args[0].type
                return _tensors([item.item]) if isinstance(item, ListT) else []
            case ir.Scalar(op="select"):
                return [all(v in out for v in instr.args[1:])]
        return [False] * len(writes(instr))

    while True:
        before = len(out)
        for f in functions:
            for b in f.blocks:
                for instr in b.instrs:
                    out -= {v for v, yes in zip(writes(instr), sure(instr), strict=True) if not yes}
                    if isinstance(instr, ir.Call | ir.Spawn):
                        params = functions[instr.function].params
                        out -= {p for p, a in zip(params, instr.args, strict=True) if a not in out}
        if len(out) == before:
            return out


def _cannot_fail(op: ir.Op, present: set[ir.Var]) -> bool:
    """Whether an operation may be computed wherever its operands are assigned."""
    if op.site >= 0 or op.op in ("take", "stack") or any(n is None for n in _extents(op.out)):
        return False
    if any(isinstance(x, ir.Var) for a in (*op.attrs, *op.shape) for x in (a if isinstance(a, tuple) else (a,))):
        return False
    tensors = [a for a in op.args if isinstance(a, ir.Var) and isinstance(a.type, TensorT)]
    if any(isinstance(a, ir.Var) and isinstance(a.type, ListT) for a in op.args):
        return False
    return all(a in present and None not in _extents(a) for a in tensors)


def _extents(v: ir.Var) -> tuple[int | None, ...]:
    assert isinstance(v.type, TensorT)
    return v.type.shape


class _Mover:
    """Moves invariant instructions out of the loops of one function."""

    def __init__(self, function: ir.Function, present: set[ir.Var], strategy: Strategy) -> None:
        self.strategy = strategy
        self.function = function
        self.present = present
        self.notes: list[Note] = []

    def run(self) -> ir.Function:
        done: set[int] = set()
        function = self.function
        while rest := {head: body for head, body in loops(function.blocks).items() if head not in done}:
            head = min(rest, key=lambda h: (len(rest[h]), h))  # inner loops first: an instruction may leave several
            body = rest[head]
            done.add(head)
            function = self._loop(function, head, body)
        return simplify(function) if function is not self.function else function

    def _loop(self, function: ir.Function, head: int, body: set[int]) -> ir.Function:
        blocks = function.blocks
        before = predecessors(blocks)
        outside = [p for p in before[head] if p not in body]
        inside = (i for k in body for i in blocks[k].instrs if isinstance(i, ir.Op))
        if (
            head == 0
            or not outside
            or not any(is_worth(i, self.strategy) and _cannot_fail(i, self.present) for i in inside)
        ):
            return function
        certain = assigned(function)
        moved = self._invariant(function, head, body, set.intersection(*(certain[p] for p in outside)))
        if not moved:
            return function
        views = self._views(function, moved)
        gone = {id(i) for i in moved} - {id(i) for i in views}
        names = Names(function)
        to = {i.out: names.var(f"{i.out.name}_before", i.out.type) for i in views}
        before_loop: list[ir.Instr] = []
        for i in moved:
            copy = rename(i, to)
            assert isinstance(copy, _Movable)
            before_loop.append(replace(copy, out=to.get(copy.out, copy.out)))
        loc = blocks[head].instrs[0].loc if blocks[head].instrs else blocks[head].end.loc
        new = len(blocks)
        out = []
        for k, b in enumerate(blocks):
            end = b.end if k in body else redirect(b.end, head, new)
            out.append(ir.Block(instrs=tuple(i for i in b.instrs if id(i) not in gone), end=end))
        out.append(ir.Block(instrs=tuple(before_loop), end=ir.Jump(block=head, loc=loc)))
        for i in moved:
            if isinstance(i, ir.Op):
                text = "loop-invariant: recorded once, before the loop"
                self.notes.append(Note(loc=i.loc, kind="moved", text=text, option="hoist"))
        return replace(function, blocks=tuple(out))

    @staticmethod
    def _views(function: ir.Function, moved: list[ir.Instr]) -> list[ir.Op]:
        """Return the views among the instructions to move that remaining instructions read as well."""
        gone = {id(i) for i in moved}
        left = {v for b in function.blocks for i in (*b.instrs, b.end) if id(i) not in gone for v in reads(i)}
        return [i for i in moved if isinstance(i, ir.Op) and TENSORS[i.op].moves and i.out in left]

    def _invariant(self, function: ir.Function, head: int, body: set[int], ready: set[ir.Var]) -> list[ir.Instr]:
        """Return the instructions to move out of a loop, in order."""
        blocks = function.blocks
        single = definitions(function)
        over = dominators(blocks)
        latches = [k for k in body if head in successors(blocks[k].end)]
        written = {v for k in body for i in blocks[k].instrs for v in writes(i)}
        # In order of dominance: an instruction comes after those that it reads.
        order = sorted((k for k in body if all(k in over[x] for x in latches)), key=lambda k: len(over[k]))
        known: dict[ir.Var, ir.Instr] = {}  # invariant instructions of the loop, by the variables they assign
        for k in order:
            for instr in blocks[k].instrs:
                if not isinstance(instr, _Movable):
                    continue
                if single.get(instr.out) is not instr or (isinstance(instr, ir.Scalar) and instr.site >= 0):
                    continue
                if isinstance(instr, ir.Op) and not _cannot_fail(instr, self.present):
                    continue
                if all((v in ready and v not in written) or v in known for v in reads(instr)):
                    known[instr.out] = instr
        fixed: set[ir.Var] = set()
        results: dict[ir.Var, ir.Op] = {v: i for v, i in known.items() if isinstance(i, ir.Op)}
        for v, i in results.items():
            if all(isinstance(a, ir.SharedArg) or a in fixed for a in i.args):
                fixed.add(v)  # whoever reads it computes it, or it is computed once for all
        chosen: set[ir.Var] = set()

        def choose(v: ir.Var) -> None:
            if v not in chosen and v in known:
                chosen.add(v)
                for u in reads(known[v]):
                    choose(u)

        for v, i in results.items():
            if v not in fixed:
                tensors = [results[a] for a in i.args if isinstance(a, ir.Var) and a in chosen and a in results]
                if is_worth(i, self.strategy) or (tensors and stored(i) <= sum(map(stored, tensors))):
                    if self.strategy.takes("moved", i.loc):
                        choose(v)
        return [i for v, i in known.items() if v in chosen]
