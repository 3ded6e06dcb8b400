"""Shared by the analyses of fibers: the program being rewritten, the items of a step, and the checks they rely on.

See `analysis.fibers.fork` for their purpose.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace

from acronumba.analysis.fibers.mutation import Mutation
from acronumba.errors import Loc
from acronumba.ir import nodes as ir
from acronumba.ir.graph import predecessors, successors
from acronumba.ir.notes import Note
from acronumba.ir.visit import Names, copied, reads, reassigned, rename, retarget, variables, writes
from acronumba.records import record

OPTION = "forkjoin"


class World:
    """The program while it is rewritten."""

    def __init__(self, program: ir.Program, waiting: set[int]) -> None:
        self.given = len(program.functions)  # functions of the user; those behind are parts of them
        self.waiting = waiting
        self.mutation = Mutation(program)
        self.functions = [self._separate_failures(f) if k in waiting else f for k, f in enumerate(program.functions)]
        self.names = {f.name for f in program.functions}
        self.notes: list[Note] = []

    def _separate_failures(self, function: ir.Function) -> ir.Function:
        """Return the function with a copy of each failing block for each branch to it: it belongs to that branch."""
        blocks = list(function.blocks)
        names = Names(function)
        for k, before in enumerate(predecessors(function.blocks)):
            if not isinstance(blocks[k].end, ir.Fail):
                continue
            for p in before[1:]:
                to = {v: names.var(v.name, v.type) for i in blocks[k].instrs for v in writes(i)}
                for v, new in to.items():
                    self.mutation.copied(new, v)
                end = rename(blocks[k].end, to)
                assert isinstance(end, ir.Fail)
                number = {**{n: n for n in range(len(blocks))}, k: len(blocks)}
                blocks[p] = replace(blocks[p], end=retarget(blocks[p].end, number.__getitem__))
                blocks.append(ir.Block(instrs=tuple(reassigned(i, to) for i in blocks[k].instrs), end=end))
        return replace(function, blocks=tuple(blocks))

    def waits(self, instr: ir.Instr) -> bool:
        """Whether an instruction may wait."""
        return isinstance(instr, ir.Read) or (isinstance(instr, ir.Call | ir.Spawn) and instr.function in self.waiting)

    def add(self, function: ir.Function, name: str, what: str) -> int:
        """Add a function that may wait and is a "step" or "part" of another; return its number."""
        n, made = 2, f"{name}_{what}"
        while made in self.names:
            made, n = f"{name}_{what}_{n}", n + 1
        self.names.add(made)
        new = copied(function, made)
        for a, b in zip(variables(new), variables(function), strict=True):
            self.mutation.copied(a, b)
        self.mutation.add_function(new)
        self.waiting.add(len(self.functions))
        self.functions.append(new)
        return len(self.functions) - 1

    def note(self, loc: Loc, kind: str, text: str) -> None:
        self.notes.append(Note(loc=loc, kind=kind, text=text, option=OPTION))

    def name(self, instr: ir.Instr | ir.End) -> str:
        """Return a description of an instruction for a note."""
        where = f"line {instr.loc.line}"
        if isinstance(instr, ir.Call) and instr.function < self.given:
            return f"{self.functions[instr.function].name} of {where}"
        return where


def cannot_fault(instr: ir.Instr) -> bool:
    """Whether an instruction may run before preceding checks, because it cannot fail."""
    match instr:
        case ir.Const() | ir.Copy() | ir.IsNull() | ir.New() | ir.ListNew() | ir.Shared():
            return True
        case ir.Scalar():
            return instr.site < 0
    return False


class Facts:
    """Subjects of checks: the variables of one function that a check's condition is computed from.

    An instruction relies on a check only if both have a subject in common. Each value from memory or from a call is a
    subject.
    """

    def __init__(self, function: ir.Function) -> None:
        self.by: dict[ir.Var, list[ir.Instr]] = defaultdict(list)
        self.found: dict[ir.Var, frozenset[object]] = {}
        for b in function.blocks:
            for i in b.instrs:
                for v in writes(i):
                    self.by[v].append(i)

    def of(self, vs: Iterable[ir.Var]) -> frozenset[object]:
        """Return the subjects of variables."""
        return frozenset().union(*map(self._one, vs))

    def _one(self, v: ir.Var) -> frozenset[object]:
        if v in self.found:
            return self.found[v]
        out: set[object] = set()
        seen = {v}
        work = [v]
        while work:
            at = work.pop()
            constant = all(isinstance(i, ir.Const) for i in self.by[at]) and self.by[at]
            if not constant:
                out.add(at)
            for i in self.by[at]:
                match i:
                    case ir.Shared():
                        out.add(i.index)
                    case (
                        ir.Copy()
                        | ir.Scalar()
                        | ir.IsNull()
                        | ir.ClassTag()
                        | ir.IsMade()
                        | ir.ExtentOf()
                        | ir.ListOp(op="len")
                    ):
                        work += [u for u in reads(i) if u not in seen]
                        seen.update(reads(i))
        self.found[v] = frozenset(out)
        return self.found[v]


@record(kw_only=True, eq=False, frozen=False)
class Item:
    """A part of a step: an instruction on its spine, or all blocks between two blocks of the spine."""

    block: int  # of the spine: where it is, or which one it follows
    blocks: frozenset[int]  # of a region; empty for an instruction
    instrs: tuple[ir.Instr, ...]
    reads: frozenset[ir.Var]
    writes: frozenset[ir.Var]
    checks: frozenset[object]  # subjects of the facts that it establishes
    faults: frozenset[object]  # subjects of the facts that it may rely on
    before: tuple[ir.Instr, ...] = ()  # of a region: its first instructions, that stand in `block`
    reason: str = ""  # why it must stay in order; "" if it need not


def one_item(block: int, instr: ir.Instr, facts: Facts) -> Item:
    """Return an instruction as an item."""
    return Item(
        block=block,
        blocks=frozenset(),
        instrs=(instr,),
        reads=frozenset(reads(instr)),
        writes=frozenset(writes(instr)),
        checks=facts.of([instr.cond]) if isinstance(instr, ir.Check) else frozenset(),
        faults=frozenset() if cannot_fault(instr) else facts.of(reads(instr)),
    )


def region_item(
    block: int,
    inside: frozenset[int],
    below: int,
    blocks: Sequence[ir.Block],
    over: Sequence[Container[int]],
    facts: Facts,
) -> Item:
    """Return the blocks between `block` and `below`, and the branch to them, as an item.

    `over` has the dominators of each block. Facts known behind the region are the checks on every path to `below`, and
    the conditions with an outcome that does not lead there. If both outcomes do, as at the end of a loop or of an arm,
    only facts about variables that the region assigns are known.
    """
    instrs = tuple(i for x in sorted(inside) for i in blocks[x].instrs)
    ends = {v for x in (block, *inside) for v in reads(blocks[x].end)}
    made = [i.cond for x in inside if x in over[below] for i in blocks[x].instrs if isinstance(i, ir.Check)]
    alive = {below}
    while new := {x for x in inside - alive if alive.intersection(successors(blocks[x].end))}:
        alive |= new
    for x in (block, *inside):
        if not alive.issuperset(successors(blocks[x].end)):
            made += reads(blocks[x].end)
    return Item(
        block=block,
        blocks=inside,
        instrs=instrs,
        reads=frozenset(ends.union(*map(reads, instrs))),
        writes=frozenset(v for i in instrs for v in writes(i)),
        checks=facts.of(made),
        faults=facts.of([*ends, *(v for i in instrs for v in reads(i))]),
    )


def writes_of(item: Item) -> list[ir.Var]:
    """Return the variables that an item assigns, in order."""
    return [v for i in item.instrs for v in writes(i)]


def listed(texts: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(texts))
    return " and ".join(filter(None, (", ".join(distinct[:-1]), distinct[-1])))
