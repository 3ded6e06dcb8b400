"""Segments: the basic blocks of functions, split where the host program may return and resume.

In: a `Function`. Out: its `Frame`: numbered segments with the variables that are live at their start and the memory
that each needs, and the slot of each variable in the frame of a call.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Set
from dataclasses import field

from acronumba.ir import nodes as ir
from acronumba.ir.graph import live_at_start, successors
from acronumba.ir.visit import reads, writes
from acronumba.records import record
from acronumba.runtime.state import FRAME

# Operations on lists without a static bound.
DYNAMIC = frozenset(
    "append insert extend slice fill sort put update join decimal pattern match "
    "order clone meet minus narrow exclude toggle".split()
)


def stands_alone(instr: ir.Instr) -> bool:
    """Whether an instruction is a separate segment, which can be re-entered: it tests for free memory, or waits."""
    return isinstance(instr, ir.Read | ir.Spawn) or (isinstance(instr, ir.ListOp) and instr.op in DYNAMIC)


def constants_of(program: ir.Program) -> dict[ir.Var, int | float | str | None]:
    """Return the variables that are only ever assigned one constant, with its value."""
    known: dict[ir.Var, int | float | str | None] = {}
    other = {v for f in program.functions for v in f.params}
    for instr in (i for f in program.functions for block in f.blocks for i in block.instrs):
        for v in writes(instr):
            if isinstance(instr, ir.Const) and v not in known:
                known[v] = instr.value
            else:
                other.add(v)
    return {v: value for v, value in known.items() if v not in other}


@record(eq=False, frozen=False)
class Segment:
    """A numbered block of the machine: part of a basic block, cut at calls and at operations without a static bound."""

    number: int
    frame: Frame
    instrs: list[ir.Instr]
    block: ir.Block
    last: bool  # whether the block's end follows; otherwise a call or the next segment
    first: bool  # whether the basic block begins here
    after: int = -1  # number of the segment that follows, if not last
    resumes: ir.Call | ir.Spawn | ir.Join | None = None  # the call after which it goes on
    live: list[ir.Var] = field(default_factory=list)  # at its start
    dynamic: bool = False  # it is one operation that tests for room itself, or waits
    nodes: int = 0  # most nodes recorded until the next test, if it begins with one
    room: int = 0  # most words allocated until then
    clean: frozenset[ir.Var] | None = None  # variables whose slot holds their value, at its start; None: not known yet


class Frame:
    """One function: its segments, liveness, and slots."""

    def __init__(self, number: int, function: ir.Function, numbers: Iterator[int], constants: Set[ir.Var]) -> None:
        self.number = number  # of the function
        self.function = function
        self.segments: list[list[Segment]] = [self._cut(block, numbers) for block in function.blocks]
        for block, segments in zip(function.blocks, self.segments, strict=True):
            for a, b in itertools.pairwise(segments):
                a.after = b.number
                if a.instrs and isinstance(a.instrs[-1], ir.Call | ir.Spawn | ir.Join):
                    b.resumes = a.instrs[-1]
            assert segments[0].block is block
        self.spawns = any(isinstance(i, ir.Spawn) for block in function.blocks for i in block.instrs)
        self.heads = {s for k, block in enumerate(function.blocks) for s in successors(block.end) if s <= k}
        self.by_number = {s.number: s for s in self.all}
        self.constants = constants  # operands of instructions: they never live
        self.tests = self._tests()
        self._liveness()
        self.slots: dict[ir.Var, int] = {}
        self._slots()

    @property
    def all(self) -> list[Segment]:
        return [s for segments in self.segments for s in segments]

    @property
    def entry(self) -> int:
        return self.segments[0][0].number

    @property
    def words(self) -> int:
        return self.first_slot + len(self.slots)

    @property
    def first_slot(self) -> int:
        """Return the word of the first slot. A function that spawns fibers counts them in the word before."""
        return FRAME + self.spawns

    def _cut(self, block: ir.Block, numbers: Iterator[int]) -> list[Segment]:
        parts: list[list[ir.Instr]] = [[]]
        for instr in block.instrs:
            if stands_alone(instr) and (parts[-1] or len(parts) == 1):  # going on is not another step of a loop
                parts.append([])
            parts[-1].append(instr)
            if stands_alone(instr) or isinstance(instr, ir.Call | ir.Join):
                parts.append([])
        last = len(parts) - 1
        segments = [Segment(next(numbers), self, p, block, k == last, k == 0) for k, p in enumerate(parts)]
        for segment, part in zip(segments, parts, strict=True):
            segment.dynamic = bool(part) and stands_alone(part[0])
        return segments

    def _liveness(self) -> None:
        """Fill in `live`."""
        blocks = self.function.blocks
        made = (v for block in blocks for instr in block.instrs for v in writes(instr))
        order = {v: k for k, v in enumerate(dict.fromkeys((*self.function.params, *made)))}
        at_start = live_at_start(blocks)
        for block, segments in zip(blocks, self.segments, strict=True):
            live = {v for s in successors(block.end) for v in at_start[s]} | set(reads(block.end))
            for segment in reversed(segments):
                for instr in reversed(segment.instrs):
                    live -= set(writes(instr))
                    live |= set(reads(instr))
                segment.live = sorted(live - self.constants, key=order.__getitem__)

    def _tests(self) -> set[Segment]:
        """Return the segments that begin with a test for free memory.

        Tests are at entries of calls and loops, and after operations that test for themselves. A test asks for the most
        memory that any path allocates before the next test.
        """
        out = {self.segments[0][0]} | {self.segments[k][0] for k in self.heads}
        for segment in self.all:
            if segment.resumes is not None:
                out.add(segment)
            if segment.dynamic:
                out.update(self.after(segment))
        return {s for s in out if not s.dynamic}

    def reserve(self, words_: Callable[[ir.Instr], int]) -> None:
        """Fill in `nodes` and `room` of the segments that test."""
        known: dict[Segment, tuple[int, int]] = {}

        def most(segment: Segment) -> tuple[int, int]:
            """Return the nodes and words that the segment and later ones allocate, up to the next test."""
            if segment not in known:
                rest = [most(s) for s in self.after(segment) if s not in self.tests and not s.dynamic]
                nodes = sum(isinstance(i, ir.Emit) for i in segment.instrs) + max((a for a, _ in rest), default=0)
                room = sum(map(words_, segment.instrs)) + max((b for _, b in rest), default=0)
                known[segment] = nodes, room
            return known[segment]

        for segment in reversed(self.all):  # the later ones first: no deep recursion
            found = most(segment)
            if segment in self.tests:
                segment.nodes, segment.room = found

    def after(self, segment: Segment) -> list[Segment]:
        """Return the segments that may follow without a call."""
        if not segment.last:
            jumps = not segment.instrs or not isinstance(segment.instrs[-1], ir.Call | ir.Spawn | ir.Join)
            return [self.by_number[segment.after]] if jumps else []
        return [self.segments[k][0] for k in successors(segment.block.end)]

    def _slots(self) -> None:
        """Assign slots to variables that are live across a call or a test; the results of a call are neighbours."""
        for segment in self.all:
            if segment.resumes is not None and not isinstance(segment.resumes, ir.Join):
                for v in segment.resumes.outs:
                    assert v not in self.slots
                    self.slots[v] = self.first_slot + len(self.slots)
        for segment in self.all:
            if segment.resumes is not None or segment.dynamic or segment in self.tests:
                for v in segment.live:
                    self.slots.setdefault(v, self.first_slot + len(self.slots))

    def cleanness(self) -> None:
        """Fill in `clean` by a forward analysis: variables whose slots are up to date."""
        by = self.by_number
        start = self.segments[0][0]
        start.clean = frozenset()
        work = [start]
        while work:
            segment = work.pop()
            clean = set(segment.clean or ())
            for instr in segment.instrs:
                if isinstance(instr, ir.Call | ir.Spawn | ir.Join):
                    clean |= {v for v in by[segment.after].live if v in self.slots}
                else:
                    clean -= set(writes(instr))
            if segment.last:
                after = [self.segments[k][0] for k in successors(segment.block.end)]
            else:
                after = [by[segment.after]]
            for s in after:
                new = frozenset(clean) if s.clean is None else s.clean & clean
                if new != s.clean:
                    s.clean = new
                    work.append(s)
