"""The host program: the user's control flow as one resumable machine.

In: a `Plan`. Out: a `tree.Module` with one function, `machine(ST)`; `ST` is the table of `state`. It runs one
instance after the other and records the dataflow graph; it returns when all are done, or when something must grow,
and goes on where it left.

The machine is one function with numbered blocks. Every variable of every user function is a local of it; jumps are
direct. A call saves in its frame the variables that live on (frames are linked, from one free list per function, so
that recursion is as deep as memory), gives the callee its arguments in locals, and jumps to it; the callee writes its
results to the address in its frame and dispatches on its parent's resume block, which loads what lives on. That frame
protocol is all that a resumable call needs: whoever has a frame can continue it.

So a fiber is no more than the number of a frame in a queue. Where the value of a tensor is read that has not been
computed, the variables that live on are saved, the frame is put among those that wait, and the machine goes on with
another fiber or starts the next instance. When all wait it returns WAIT; the caller runs what is recorded and puts
them among those that are ready. A spawned call is a call whose caller is ready at once. Its parent is a stub, which
leads to a block that counts the calls that are still out; the caller goes on behind its join when none is. Programs
that read no values are written without any of this.

A block that allocates first tests that there is room for the most it can use, before any effect. If not, a cold path
saves the live variables in the frame and leaves; a reload block brings them back. What has no static bound (`append`
on a full list) is a block of its own that tests for itself.

Arithmetic is Python's: floor division, checks of overflow, division by zero and domain, each a failure of its
instance at a site.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from acronumba.analysis.plan import Plan
from acronumba.config import Options
from acronumba.data.words import RECORD
from acronumba.emit import tree
from acronumba.emit.tree import (
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    Builder,
    Expr,
    Local,
    Ty,
    const,
    convert,
    intrinsic,
    load,
    select,
)
from acronumba.errors import Loc
from acronumba.ir.graph import successors
from acronumba.ir.nodes import (
    Block,
    Branch,
    Call,
    Check,
    ClassTag,
    Const,
    Copy,
    Emit,
    ExtentOf,
    Fail,
    Function,
    Instr,
    IsNull,
    Join,
    Jump,
    ListNew,
    ListOp,
    Load,
    New,
    Pad,
    Read,
    Return,
    Scalar,
    Shared,
    Spawn,
    Var,
    reads,
    writes,
)
from acronumba.ir.types import BoolT, FloatT, ListT, TensorT, Word, words
from acronumba.runtime import state
from acronumba.runtime.library.records import halves, node_of
from acronumba.runtime.program import Host
from acronumba.runtime.state import AT, FRAME

_MOST = 1 << 48  # elements that no memory has room for, and whose bytes fit 64 bits
_PADDING = 16  # levels; the columns of levels have room for so many per node
DYNAMIC = frozenset({"append", "insert", "extend", "slice", "fill", "sort"})  # lists operations without a static bound


def _stands_alone(instr: Instr) -> bool:
    """Whether an instruction is a segment of its own, which can be entered again: it tests for room, or waits."""
    return isinstance(instr, Read | Spawn) or (isinstance(instr, ListOp) and instr.op in DYNAMIC)


def generate(plan: Plan, options: Options) -> tree.Module:
    """Return the machine of a plan."""
    return make_host(plan, options).module


def make_host(plan: Plan, options: Options) -> Host:
    """Return the machine of a plan with its tables."""
    return _Machine(plan).run()


def _type(word: Word) -> Ty:
    return F64 if isinstance(word, FloatT) else I1 if isinstance(word, BoolT) else I64


@dataclass(slots=True, eq=False)
class _Segment:
    """A numbered block of the machine: part of a basic block, cut at calls and at operations without a static bound."""

    number: int
    instrs: list[Instr]
    block: Block
    last: bool  # whether the block's end follows; otherwise a call or the next segment
    first: bool  # whether the basic block begins here
    after: int = -1  # number of the segment that follows, if not last
    resumes: Call | Spawn | Join | None = None  # the call after which it goes on
    live: list[Var] = field(default_factory=list)  # at its start
    dynamic: bool = False  # it is one operation that tests for room itself, or waits
    nodes: int = 0  # most nodes recorded until the next test, if it begins with one
    room: int = 0  # most words allocated until then
    clean: frozenset[Var] | None = None  # variables whose slot holds their value, at its start; None: not known yet


class _Frame:
    """One function: its segments, what lives where, its slots."""

    def __init__(self, function: Function, numbers: Iterator[int]) -> None:
        self.function = function
        self.segments: list[list[_Segment]] = [self._cut(block, numbers) for block in function.blocks]
        for block, segments in zip(function.blocks, self.segments, strict=True):
            for a, b in itertools.pairwise(segments):
                a.after = b.number
                if a.instrs and isinstance(a.instrs[-1], Call | Spawn | Join):
                    b.resumes = a.instrs[-1]
            assert segments[0].block is block
        self.spawns = any(isinstance(i, Spawn) for block in function.blocks for i in block.instrs)
        self.heads = {s for k, block in enumerate(function.blocks) for s in successors(block.end) if s <= k}
        self.by_number = {s.number: s for s in self.all}
        self.tests = self._tests()
        self._liveness()
        self.slots: dict[Var, int] = {}
        self._slots()

    @property
    def all(self) -> list[_Segment]:
        return [s for segments in self.segments for s in segments]

    @property
    def entry(self) -> int:
        return self.segments[0][0].number

    @property
    def words(self) -> int:
        return self.first_slot + len(self.slots)

    @property
    def first_slot(self) -> int:
        """Return the word of the first slot. A function that spawns fibers counts them in the word before it."""
        return FRAME + self.spawns

    @staticmethod
    def _cut(block: Block, numbers: Iterator[int]) -> list[_Segment]:
        parts: list[list[Instr]] = [[]]
        for instr in block.instrs:
            if _stands_alone(instr) and (parts[-1] or len(parts) == 1):  # going on is not another step of a loop
                parts.append([])
            parts[-1].append(instr)
            if _stands_alone(instr) or isinstance(instr, Call | Join):
                parts.append([])
        last = len(parts) - 1
        segments = [_Segment(next(numbers), p, block, k == last, k == 0) for k, p in enumerate(parts)]
        for segment, part in zip(segments, parts, strict=True):
            segment.dynamic = bool(part) and _stands_alone(part[0])
        return segments

    def _liveness(self) -> None:
        """Fill in `live`."""
        blocks = self.function.blocks
        at_start: list[set[Var]] = [set() for _ in blocks]
        order: dict[Var, int] = {}
        for v in self.function.params:
            order.setdefault(v, len(order))
        for block in blocks:
            for instr in block.instrs:
                for v in writes(instr):
                    order.setdefault(v, len(order))

        def scan(k: int, note: bool) -> set[Var]:
            block = blocks[k]
            live = {v for s in successors(block.end) for v in at_start[s]} | set(reads(block.end))
            for segment in reversed(self.segments[k]):
                for instr in reversed(segment.instrs):
                    live -= set(writes(instr))
                    live |= set(reads(instr))
                if note:
                    segment.live = sorted(live, key=order.__getitem__)
            return live

        changed = True
        while changed:
            changed = False
            for k in reversed(range(len(blocks))):
                live = scan(k, False)
                if live != at_start[k]:
                    at_start[k], changed = live, True
        for k in range(len(blocks)):
            scan(k, True)

    def _tests(self) -> set[_Segment]:
        """Return the segments that begin with a test for room.

        Those are the ones that a call or a loop enters, and those after an operation that takes room of its own. A test
        asks for the most that any path takes to the next one.
        """
        out = {self.segments[0][0]} | {self.segments[k][0] for k in self.heads}
        for segment in self.all:
            if segment.resumes is not None:
                out.add(segment)
            if segment.dynamic:
                out.update(self.after(segment))
        return {s for s in out if not s.dynamic}

    def reserve(self, words_: Callable[[Instr], int]) -> None:
        """Fill in `nodes` and `room` of the segments that test."""
        known: dict[_Segment, tuple[int, int]] = {}

        def most(segment: _Segment) -> tuple[int, int]:
            """Return what the segment and those after it take, up to the next test."""
            if segment not in known:
                rest = [most(s) for s in self.after(segment) if s not in self.tests and not s.dynamic]
                nodes = sum(isinstance(i, Emit) for i in segment.instrs) + max((a for a, _ in rest), default=0)
                room = sum(map(words_, segment.instrs)) + max((b for _, b in rest), default=0)
                known[segment] = nodes, room
            return known[segment]

        for segment in reversed(self.all):  # the later ones first: no deep recursion
            found = most(segment)
            if segment in self.tests:
                segment.nodes, segment.room = found

    def after(self, segment: _Segment) -> list[_Segment]:
        """Return the segments that may follow without a call."""
        if not segment.last:
            jumps = not segment.instrs or not isinstance(segment.instrs[-1], Call | Spawn | Join)
            return [self.by_number[segment.after]] if jumps else []
        return [self.segments[k][0] for k in successors(segment.block.end)]

    def _slots(self) -> None:
        """Give a slot to what lives across a call or may have to be saved; the results of a call are neighbours."""
        for segment in self.all:
            if segment.resumes is not None and not isinstance(segment.resumes, Join):
                for v in segment.resumes.outs:
                    assert v not in self.slots
                    self.slots[v] = self.first_slot + len(self.slots)
        for segment in self.all:
            if segment.resumes is not None or segment.dynamic or segment in self.tests:
                for v in segment.live:
                    self.slots.setdefault(v, self.first_slot + len(self.slots))

    def cleanness(self) -> None:
        """Fill in `clean`, a forward analysis: what need not be saved again."""
        by = self.by_number
        start = self.segments[0][0]
        start.clean = frozenset()
        work = [start]
        while work:
            segment = work.pop()
            clean = set(segment.clean or ())
            for instr in segment.instrs:
                if isinstance(instr, Call | Spawn | Join):
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


class _Machine:
    """Writes the machine."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.program = plan.program
        self.layouts = {layout.cls: (k, layout) for k, layout in enumerate(self.program.layouts)}
        numbers = iter(range(state.LEAVE + 1, 1 << 60))
        self.frames = [_Frame(f, numbers) for f in self.program.functions]
        for frame in self.frames:
            frame.reserve(self._words)
            frame.cleanness()
        self.numbers = numbers
        instrs = [i for f in self.program.functions for x in f.blocks for i in x.instrs]
        self.arrive = next(numbers) if any(isinstance(i, Spawn) for i in instrs) else -1
        self.waiting = self.arrive >= 0 or any(isinstance(i, Read) for i in instrs)
        self.waits: dict[int, Loc] = {}
        pads = [i.levels for i in instrs if isinstance(i, Pad)]
        self.ghosts = min(sum(pads), _PADDING)
        self.shapes: list[int] = []
        self.shape_at: dict[tuple[int, ...], int] = {}
        self.types: dict[int, tuple[Word, ...]] = {}
        self.calls: dict[int, Loc] = {}
        self.loops: dict[int, Loc] = {}
        self.locals: dict[Var, Local] = {}
        self.blocks: list[tuple[int, str, tree.Body]] = []
        self.entries = {state.SCHEDULER}
        self.reloads: dict[_Segment, int] = {}
        self.helpers: dict[str, tree.Function] = {}
        b = self.b = Builder("machine", [("ST", I64)], result=I64, doc="Run the instances; see `acronumba.host`.")
        self.st = b["ST"]

    # ------------------------------------------------------------------------------------------------------ the frame

    def word(self, name: str) -> Expr:
        return load(self.st, AT[name])

    def put(self, name: str, value: Expr | int) -> None:
        self.b.store(self.st, AT[name], value)

    def free(self, function: int) -> int:
        return AT["free"] + function

    REGISTERS = ("fp", "inst", "n", "top", "fuel")
    FIXED = ("end", "ncap", "kind", "depth", "instance", "row", "shapes")

    def run(self) -> Host:
        b = self.b
        self.reg = {name: b.let(name, self.word(name)) for name in ("pc", *self.REGISTERS, *self.FIXED)}
        for frame in self.frames:
            for v in (*frame.function.params, *(v for x in frame.function.blocks for i in x.instrs for v in writes(i))):
                if v not in self.locals:
                    name = b.fresh(re.sub(r"\W", "_", v.name))
                    self.locals[v] = b.locals[name] = Local(name, _type(v.type))
        for k, frame in enumerate(self.frames):
            self._function(k, frame)
        with b.nested() as body:
            self._scheduler()
        self.blocks.append((state.SCHEDULER, "the next instance", body))
        with b.nested() as body:
            values = max((len(t) for t in self.types.values()), default=0)
            self.put("etop", self.word("etop") + 8 * (3 + values))
            b.set(self.reg["n"], self.word("first"))
            if self.waiting:
                b.store(self.word("lives"), self.reg["inst"], state.DEAD)
            b.goto(state.SCHEDULER)
        self.blocks.append((state.FAILED, "the instance has failed: its nodes are dropped", body))
        if self.arrive >= 0:
            with b.nested() as body:
                self._arrive()
            self.blocks.append((self.arrive, "a fiber has returned", body))
            self.entries.add(self.arrive)
        with b.nested() as body:
            for name in self.REGISTERS:
                self.put(name, self.reg[name])
            b.ret(self.word("status"))
        self.blocks.append((state.LEAVE, "return to the caller", body))
        self.blocks.sort(key=lambda block: block[0])
        b.body.append(tree.Dispatch(self.reg["pc"], self.blocks, frozenset(self.entries)))
        header = f"host program of {self.program.name}"
        module = tree.Module(
            f"host_{re.sub(r'[^A-Za-z0-9_]', '_', self.program.name)}",
            (*self.helpers.values(), b.function()),
            ("machine",),
            header,
        )
        return Host(
            module=module,
            shapes=tuple(self.shapes),
            functions=len(self.frames),
            values=values,
            calls=self.calls,
            loops=self.loops,
            types=self.types,
            ghosts=self.ghosts,
            waiting=self.waiting,
            waits=self.waits,
            arrive=self.arrive,
        )

    def _scheduler(self) -> None:
        b, reg = self.b, self.reg
        entry = self.frames[0]
        if self.waiting:
            self._resume()
        with b.when(self.word("next") >= self.word("part_end")):
            if self.waiting:
                with b.when(self.word("wtop") > 0):
                    self._leave(state.WAIT, 0, state.SCHEDULER)
            self._leave(state.DONE, 0, state.SCHEDULER)
        with b.when(reg["top"] + 8 * entry.words > reg["end"]):
            self._leave(state.GROW_HEAP, 8 * entry.words, state.SCHEDULER)
        if self.waiting:
            with b.when(self.word("wtop") + 1 > self.word("fcap")):
                self._leave(state.GROW_FIBERS, 1, state.SCHEDULER)
        spent = b.let("spent", self.word("spent") + self.word("granted") - reg["fuel"])
        b.set(reg["fuel"], self.word("steps"))
        self.put("granted", reg["fuel"])
        self.put("spent", spent)
        with b.when(spent > state.SLICE):
            self.put("spent", 0)
            self._leave(state.PAUSE, 0, state.SCHEDULER)
        b.set(reg["inst"], self.word("next"))
        self.put("next", reg["inst"] + 1)
        self.put("first", reg["n"])
        self.put("base", reg["top"])
        self.put("left", self.word("rest"))
        if self.waiting:
            b.store(self.word("lives"), reg["inst"], 0)
        child = self._new_frame(0, entry)
        b.store(child, 0, self.st + 8 * AT["root"])
        b.store(child, 2, self.word("results") + reg["inst"] * (8 * len(entry.function.results)))
        params = entry.function.params
        roots = b.let("roots", self.word("roots") + reg["inst"] * (8 * len(params)))
        for k, v in enumerate(params):
            b.set(self.locals[v], self._get(roots, k, v.type))
        b.set(reg["fp"], child)
        b.goto(entry.entry)

    def _resume(self) -> None:
        """Go on with the next fiber that is ready, if there is one."""
        b, reg = self.b, self.reg
        lives = b.let("lives", self.word("lives"))
        with b.when(reg["inst"] >= 0), b.when(load(lives, reg["inst"]) >= 0):
            b.store(lives, reg["inst"], reg["fuel"] + self.word("left"))
        with b.when(self.word("rtop") > 0):
            at = b.let("at", self.word("runnable") + (self.word("rtop") - 1) * 16)
            self.put("rtop", self.word("rtop") - 1)
            b.set(reg["inst"], load(at, 1))
            left = b.let("left", load(lives, reg["inst"]))
            with b.when(left < 0):  # another fiber of the instance has failed
                b.goto(state.SCHEDULER)
            self.put("spent", self.word("spent") + self.word("granted") - reg["fuel"])
            b.set(reg["fuel"], select(left < self.word("steps"), left, self.word("steps")))
            self.put("granted", reg["fuel"])
            self.put("left", left - reg["fuel"])
            self.put("first", reg["n"])
            self.put("base", reg["top"])
            b.set(reg["fp"], load(at))
            b.set(reg["pc"], load(reg["fp"], 1))
            b.again()

    def _read(self, frame: _Frame, segment: _Segment, instr: Read) -> None:
        """Take the value of a tensor; wait if there is none yet, and try again."""
        b = self.b
        record = self[instr.tensor]
        with b.when(node_of(load(record, RECORD.at["head"])) >= 0):
            back = self._spill(frame, segment)
            self.waits[back] = instr.loc
            b.store(self.reg["fp"], 1, back)
            at = b.let("at", self.word("waiting") + self.word("wtop") * 16)
            b.store(at, 0, self.reg["fp"])
            b.store(at, 1, self.reg["inst"])
            self.put("wtop", self.word("wtop") + 1)
            b.goto(state.SCHEDULER)
        assert isinstance(instr.tensor.type, TensorT)
        self._assign(instr.out, _value(load(record), instr.tensor.type.dtype))

    def _spawn(self, frame: _Frame, segment: _Segment, spawn: Spawn) -> None:
        """Call a function whose parent is a stub, and let the caller be ready."""
        b, reg = self.b, self.reg
        callee = self.frames[spawn.function]
        with b.when(self.word("rtop") + self.word("wtop") + 2 > self.word("fcap")):
            self._leave(state.GROW_FIBERS, 2, self._spill(frame, segment))
        self._room(frame, segment, const(8 * (callee.words + state.STUB), I64))
        self._save(frame, segment, spawn)
        b.store(reg["fp"], 1, segment.after)
        at = b.let("at", self.word("runnable") + self.word("rtop") * 16)
        b.store(at, 0, reg["fp"])
        b.store(at, 1, reg["inst"])
        self.put("rtop", self.word("rtop") + 1)
        b.store(reg["fp"], FRAME, load(reg["fp"], FRAME) + 1)
        stub = b.let("stub", self.word("stubs"))
        with b.when(stub.ne(0)):
            self.put("stubs", load(stub))
        with b.otherwise():
            b.set(stub, reg["top"])
            b.set(reg["top"], reg["top"] + 8 * state.STUB)
        b.store(stub, 0, reg["fp"])
        b.store(stub, 1, self.arrive)
        b.store(stub, 2, segment.after)
        child = self._new_frame(spawn.function, callee)
        b.store(child, 0, stub)
        if spawn.into is not None:
            width = len(callee.function.results)
            b.store(child, 2, load(self[spawn.into[0]]) + self[spawn.into[1]] * (8 * width))
        elif spawn.outs:
            b.store(child, 2, reg["fp"] + 8 * frame.slots[spawn.outs[0]])
        self._enter(child, callee, spawn.args)

    def _arrive(self) -> None:
        """A spawned call has returned to its stub: the caller goes on if it waits at its join and this was the last."""
        b, reg = self.b, self.reg
        up = b.let("up", load(reg["fp"]))
        b.store(reg["fp"], 0, self.word("stubs"))
        self.put("stubs", reg["fp"])
        left = b.let("left", load(up, FRAME) - 1)
        with b.when(left.eq(0)):
            b.store(up, FRAME, 1)
            b.set(reg["fp"], up)
            b.set(reg["pc"], load(up, 1))
            b.again()
        b.store(up, FRAME, left)
        b.goto(state.SCHEDULER)

    def _join(self, frame: _Frame, segment: _Segment, join: Join) -> None:
        b, reg = self.b, self.reg
        self._save(frame, segment, join)
        left = b.let("left", load(reg["fp"], FRAME) - 1)
        with b.when(left > 0):
            b.store(reg["fp"], 1, segment.after)
            b.store(reg["fp"], FRAME, left)
            b.goto(state.SCHEDULER)
        b.goto(segment.after)

    def _new_frame(self, function: int, frame: _Frame) -> Local:
        b, top = self.b, self.reg["top"]
        child = b.let("frame", load(self.st, self.free(function)))
        with b.when(child.ne(0)):
            b.store(self.st, self.free(function), load(child))
        with b.otherwise():
            b.set(child, top)
            b.set(top, top + 8 * frame.words)
        if frame.spawns:
            b.store(child, FRAME, 1)
        return child

    def _leave(self, status: Expr | int, need: Expr | int, back: int) -> None:
        """Return to the caller, which is to come back to block `back`."""
        b = self.b
        self.put("status", status)
        self.put("need", need)
        self.put("pc", back)
        b.goto(state.LEAVE)

    # -------------------------------------------------------------------------------------------------------- values

    @staticmethod
    def _get(base: Expr, index: Expr | int, word: Word) -> Expr:
        if isinstance(word, FloatT):
            return load(base, index, F64)
        value = load(base, index)
        return value.ne(0) if isinstance(word, BoolT) else value

    def _set(self, base: Expr, index: Expr | int, value: Expr) -> None:
        self.b.store(base, index, convert(value, I64, "unsigned") if value.type == I1 else value)

    def __getitem__(self, v: Var) -> Local:
        return self.locals[v]

    def _assign(self, v: Var, value: Expr) -> None:
        self.b.set(self.locals[v], value)

    # ------------------------------------------------------------------------------------------------------- blocks

    def _function(self, index: int, frame: _Frame) -> None:
        for k, segments in enumerate(frame.segments):
            for segment in segments:
                with self.b.nested() as body:
                    self._segment(index, frame, k, segment)
                instr = segment.instrs[0] if segment.instrs else segment.block.end
                self.blocks.append((segment.number, f"{frame.function.name}, line {instr.loc.line}", body))

    def _reload(self, frame: _Frame, segment: _Segment) -> None:
        for v in segment.live:
            self._assign(v, self._get(self.reg["fp"], frame.slots[v], v.type))

    def _spill(self, frame: _Frame, segment: _Segment) -> int:
        """Save what lives at the start of the segment; return the block that brings it back."""
        if segment.resumes is not None:
            return segment.number
        assert segment.clean is not None
        for v in segment.live:
            if v not in segment.clean:
                self._set(self.reg["fp"], frame.slots[v], self[v])
        if segment not in self.reloads:
            number = self.reloads[segment] = next(self.numbers)
            with self.b.nested() as body:
                self._reload(frame, segment)
                self.b.goto(segment.number)
            self.blocks.append((number, f"{frame.function.name}: go on at {segment.number}", body))
            self.entries.add(number)
        return self.reloads[segment]

    def _test(self, frame: _Frame, segment: _Segment) -> None:
        """Leave unless there is room for all that is taken until the next test."""
        b, reg = self.b, self.reg
        full = reg["top"] + 8 * segment.room > reg["end"]
        crowded = reg["n"] + segment.nodes > reg["ncap"]
        if segment.nodes:
            with b.when(full | crowded):
                status = select(full, const(state.GROW_HEAP, I64), const(state.GROW_NODES, I64))
                need = select(full, const(8 * segment.room, I64), const(segment.nodes, I64))
                self._leave(status, need, self._spill(frame, segment))
        elif segment.room:
            with b.when(full):
                self._leave(state.GROW_HEAP, 8 * segment.room, self._spill(frame, segment))

    def _words(self, instr: Instr) -> int:
        """Return the words that an instruction takes from the heap; 0 for operations that test for themselves."""
        match instr:
            case Emit():
                return self._emit_words(instr)
            case New():
                return self.layouts[instr.cls][1].size
            case ListNew():
                return 3 + instr.count * instr.width
            case Pad():
                return RECORD.count
            case Call():
                return self.frames[instr.function].words
        return 0

    def _segment(self, index: int, frame: _Frame, k: int, segment: _Segment) -> None:
        b, reg = self.b, self.reg
        if segment.resumes is not None:
            self.entries.add(segment.number)
            self.calls[segment.number] = segment.resumes.loc
            self._reload(frame, segment)
        self._test(frame, segment)
        if segment.first and (k == 0 or k in frame.heads):
            b.set(reg["fuel"], reg["fuel"] - 1)
            with b.when(reg["fuel"] < 0):
                back = self._spill(frame, segment)
                self._leave(state.FUEL, 0, back)
            if k:
                self.loops[back] = (*segment.block.instrs, segment.block.end)[0].loc
        for instr in segment.instrs:
            match instr:
                case Call():
                    self._call(frame, segment, instr)
                case Read():
                    self._read(frame, segment, instr)
                case Spawn():
                    self._spawn(frame, segment, instr)
                case Join():
                    self._join(frame, segment, instr)
                case ListOp() if instr.op in DYNAMIC:
                    self._dynamic(frame, segment, instr)
                case _:
                    self._instr(instr)
        if not segment.last:
            if not (segment.instrs and isinstance(segment.instrs[-1], Call | Spawn | Join)):
                b.goto(segment.after)
            return
        end = segment.block.end
        match end:
            case Jump():
                b.goto(frame.segments[end.block][0].number)
            case Branch():
                with b.when(self[end.cond]):
                    b.goto(frame.segments[end.yes][0].number)
                b.goto(frame.segments[end.no][0].number)
            case Return():
                self._return(index, end)
            case Fail():
                self._fail(end.site, end.args)

    def _save(self, frame: _Frame, segment: _Segment, call: Call | Spawn | Join) -> None:
        """Save what lives on after the call that the segment ends with."""
        after = frame.by_number[segment.after]
        clean = set(segment.clean or ())
        for instr in segment.instrs:
            clean -= set(writes(instr))
        for v in after.live:
            if v not in call.outs and v not in clean:
                self._set(self.reg["fp"], frame.slots[v], self[v])

    def _call(self, frame: _Frame, segment: _Segment, call: Call) -> None:
        b, reg = self.b, self.reg
        self._save(frame, segment, call)
        callee = self.frames[call.function]
        child = self._new_frame(call.function, callee)
        b.store(child, 0, reg["fp"])
        if call.outs:
            b.store(child, 2, reg["fp"] + 8 * frame.slots[call.outs[0]])
        b.store(reg["fp"], 1, segment.after)
        self._enter(child, callee, call.args)

    def _enter(self, child: Local, callee: _Frame, args: tuple[Var, ...]) -> None:
        """Give the callee its arguments and go there."""
        b = self.b
        b.set(self.reg["fp"], child)
        params = callee.function.params
        moves = [(self[p], self[a]) for p, a in zip(params, args, strict=True) if self[p] is not self[a]]
        targets = {p.name for p, _ in moves}
        values = [b.let("arg", a) if a.name in targets else a for _, a in moves]
        for (p, _), value in zip(moves, values, strict=True):
            b.set(p, value)
        b.goto(callee.entry)

    def _return(self, index: int, end: Return) -> None:
        b, reg = self.b, self.reg
        if end.args:
            to = b.let("to", load(reg["fp"], 2))
            for k, v in enumerate(end.args):
                self._set(to, k, self[v])
        up = b.let("up", load(reg["fp"], 0))
        b.store(reg["fp"], 0, load(self.st, self.free(index)))
        b.store(self.st, self.free(index), reg["fp"])
        b.set(reg["fp"], up)
        b.set(reg["pc"], load(up, 1))
        b.again()

    def _fail(self, site: int, args: tuple[Var, ...]) -> None:
        b = self.b
        self.types.setdefault(site, tuple(v.type for v in args))
        record = b.let("record", self.word("etop"))
        b.store(record, 0, self.reg["inst"])
        b.store(record, 1, site)
        b.store(record, 2, self.reg["fp"])
        for k, v in enumerate(args):
            self._set(record, 3 + k, self[v])
        b.goto(state.FAILED)

    # -------------------------------------------------------------------------------------------------- instructions

    def _instr(self, instr: Instr) -> None:
        b, reg = self.b, self.reg
        match instr:
            case Const():
                value = 0 if instr.value is None else instr.value
                self._assign(instr.out, const(value, self[instr.out].type))
            case Copy():
                self._assign(instr.out, self[instr.src])
            case Scalar():
                self._scalar(instr)
            case IsNull():
                self._assign(instr.out, self[instr.ref].eq(0))
            case ClassTag():
                self._assign(instr.out, load(self[instr.ref]))
            case Check():
                with b.when(~self[instr.cond]):
                    self._fail(instr.site, instr.args)
            case Load():
                _, layout = self.layouts[instr.cls]
                (place,) = [f for f in layout.fields if f.name == instr.field]
                for k, v in enumerate(instr.outs):
                    self._assign(v, self._get(self[instr.ref], place.offset + k, v.type))
            case New():
                number, layout = self.layouts[instr.cls]
                b.store(reg["top"], 0, number)
                at = [f.offset + k for f in layout.fields for k in range(f.width)]
                for k, v in zip(at, instr.args, strict=True):
                    self._set(reg["top"], k, self[v])
                self._assign(instr.out, reg["top"])
                b.set(reg["top"], reg["top"] + 8 * layout.size)
            case ListNew():
                top = reg["top"]
                b.store(top, 0, top + 24)
                b.store(top, 1, instr.count)
                b.store(top, 2, instr.count)
                for k, v in enumerate(instr.args):
                    self._set(top, 3 + k, self[v])
                self._assign(instr.out, top)
                b.set(top, top + 8 * (3 + instr.count * instr.width))
            case ListOp():
                self._list(instr)
            case ExtentOf():
                # A variable that is bound later, or on another path only, may hold no tensor here: its extents are 0.
                self._assign(instr.out, const(0, I64))
                with b.when(self[instr.tensor].ne(0)):
                    self._assign(instr.out, load(load(self[instr.tensor], 2), instr.axis))
            case Shared():
                self._assign(instr.out, self._get(self.word("shared"), instr.index, instr.out.type))
            case Emit():
                self._emit(instr)
            case Pad():
                self._pad(instr)
            case _:
                raise TypeError(f"{type(instr).__name__} has no place in a host program")

    # -------------------------------------------------------------------------------------------------------- nodes

    @staticmethod
    def _emit_words(emit: Emit) -> int:
        moving = sum(len(shape) for shape in emit.shapes if any(isinstance(x, Var) for x in shape))
        return len(emit.args) + len(emit.dims) + RECORD.count * len(emit.outs) + moving

    def _shape(self, shape: tuple[int, ...]) -> int:
        """Return where in the table of constant shapes a shape begins."""
        if shape not in self.shape_at:
            self.shape_at[shape] = len(self.shapes)
            self.shapes += shape
        return self.shape_at[shape]

    def _deepest(self, it: Expr) -> Local:
        """Return the largest depth of the tensors of a list, -1 if there are none."""
        b = self.b
        deepest = b.let("d", -1)
        items = b.let("items", load(it))
        with b.loop("k", 0, load(it, 1)) as k:
            d = b.let("d", convert(load(load(items, k), 2, I32), I64))
            b.set(deepest, select(d > deepest, d, deepest))
        return deepest

    def _emit(self, emit: Emit) -> None:
        b, reg = self.b, self.reg
        n, top = reg["n"], reg["top"]
        row = b.let("node", top)
        given = (*emit.args, *emit.dims)
        for k, v in enumerate(given):
            self._set(row, k, self[v])
        depth: Expr = const(0, I64)
        depths: list[Local] = []
        for v in emit.args:
            if isinstance(v.type, TensorT):
                depths.append(b.let("d", convert(load(self[v], 2, I32), I64)))
            elif isinstance(v.type, ListT) and isinstance(v.type.item, TensorT):
                depths.append(self._deepest(self[v]))
        for k, d in enumerate(depths):
            depth = d if k == 0 else b.let("d", select(d > depth, d, depth))
        if depths:
            depth = b.let("d", depth + 1)
        head = b.let("value", halves(n, depth))
        at = len(given)
        moving = at + RECORD.count * len(emit.outs)
        for v, shape in zip(emit.outs, emit.shapes, strict=True):
            b.store(row, at + 1, head)
            if any(isinstance(x, Var) for x in shape):
                for k, x in enumerate(shape):
                    b.store(row, moving + k, self[x] if isinstance(x, Var) else x)
                b.store(row, at + 2, row + 8 * moving)
                moving += len(shape)
            else:
                b.store(row, at + 2, reg["shapes"] + 8 * self._shape(tuple(x for x in shape if isinstance(x, int))))
            self._assign(v, row + 8 * at)
            at += RECORD.count
        b.store(reg["kind"], n, emit.kernel, I32)
        b.store(reg["depth"], n, convert(depth, I32))
        b.store(reg["instance"], n, convert(reg["inst"], I32))
        b.store(reg["row"], n, row)
        b.set(n, n + 1)
        b.set(top, row + 8 * self._emit_words(emit))

    def _pad(self, pad: Pad) -> None:
        """Make the value count as deeper, by at most `ghosts` levels. The record of an input is not ours: copy it."""
        b, record, top = self.b, self[pad.src], self.reg["top"]
        self._assign(pad.out, record)
        with b.when(record.ne(0)):  # None, or bound on another path
            node = b.let("of", node_of(load(record, RECORD.at["head"])))
            depth = b.let("d", convert(load(record, 2, I32), I64) + pad.levels)
            with b.when(node >= 0):
                most = b.let("most", convert(load(self.reg["depth"], node, I32), I64) + self.ghosts)
                b.store(record, 2, convert(select(depth < most, depth, most), I32), I32)
            with b.otherwise():
                b.store(top, 0, load(record))
                b.store(top, 1, halves(node, select(depth < self.ghosts, depth, self.ghosts - 1)))
                b.store(top, 2, load(record, 2))
                self._assign(pad.out, top)
                b.set(top, top + RECORD.size)

    # -------------------------------------------------------------------------------------------------------- lists

    def _list(self, instr: ListOp) -> None:
        """An operation that needs no room."""
        b, w = self.b, instr.width
        it = self[instr.args[0]]
        match instr.op:
            case "len":
                self._assign(instr.outs[0], load(it, 1))
            case "get":
                at = b.let("at", load(it) + self[instr.args[1]] * (8 * w))
                for k, v in enumerate(instr.outs):
                    self._assign(v, self._get(at, k, v.type))
            case "set":
                at = b.let("at", load(it) + self[instr.args[1]] * (8 * w))
                for k, v in enumerate(instr.args[2:]):
                    self._set(at, k, self[v])
            case "pop":
                index = self[instr.args[1]]
                at = b.let("at", load(it) + index * (8 * w))
                for k, v in enumerate(instr.outs):
                    self._assign(v, self._get(at, k, v.type))
                left = b.let("left", load(it, 1) - 1)
                b.store(it, 1, left)
                if w:
                    with b.when(index < left):
                        b.do(intrinsic("move_bytes", at, at + 8 * w, (left - index) * (8 * w), type=tree.VOID))
            case "reverse":
                at = b.let("at", load(it))
                count = b.let("count", load(it, 1))
                with b.loop("k", 0, count // 2) as i:
                    for j in range(w):
                        low = b.let("low", at + (i * w + j) * 8)
                        high = b.let("high", at + ((count - 1 - i) * w + j) * 8)
                        x = b.let("x", load(low))
                        b.store(low, 0, load(high))
                        b.store(high, 0, x)
            case _:
                raise ValueError(f"list operation {instr.op!r}")

    def _room(self, frame: _Frame, segment: _Segment, size: Expr) -> None:
        """Leave unless the chunk has `size` more bytes."""
        b, reg = self.b, self.reg
        with b.when(size > reg["end"] - reg["top"]):
            self._leave(state.GROW_HEAP, size, self._spill(frame, segment))

    def _dynamic(self, frame: _Frame, segment: _Segment, instr: ListOp) -> None:
        """An operation that tests for room itself, as the first effect of its segment."""
        b, w, top = self.b, instr.width, self.reg["top"]
        it = self[instr.args[0]]

        def bytes_(count: Expr) -> Expr:
            return count * (8 * w)

        def copy(to: Expr, source: Expr, size: Expr) -> None:
            b.do(intrinsic("copy_bytes", to, source, size, type=tree.VOID))

        def grow(wanted: Local) -> None:
            """Make the list's segment large enough for so many elements."""
            with b.when(wanted > load(it, 2)):
                double = b.let("double", load(it, 2) * 2)
                room = b.let("room", select(double > wanted, double, wanted))
                b.set(room, select(room > 8, room, 8))
                self._room(frame, segment, bytes_(room))
                copy(top, load(it), bytes_(load(it, 1)))
                b.store(it, 0, top)
                b.store(it, 2, room)
                b.set(top, top + bytes_(room))

        def fresh(count: Local) -> Local:
            """Make a list of so many elements; return the address of the first."""
            self._room(frame, segment, bytes_(count) + 24)
            made = b.let("made", top)
            at = b.let("at", made + 24)
            b.store(made, 0, at)
            b.store(made, 1, count)
            b.store(made, 2, count)
            b.set(top, at + bytes_(count))
            self._assign(instr.outs[0], made)
            return at

        match instr.op:
            case "append" | "insert":
                length = b.let("length", load(it, 1))
                wanted = b.let("wanted", length + 1)
                grow(wanted)
                if instr.op == "append":
                    at = b.let("at", load(it) + bytes_(length))
                    values = instr.args[1:]
                else:
                    index = self[instr.args[1]]
                    at = b.let("at", load(it) + bytes_(index))
                    values = instr.args[2:]
                    b.do(intrinsic("move_bytes", at + 8 * w, at, bytes_(length - index), type=tree.VOID))
                for k, v in enumerate(values):
                    self._set(at, k, self[v])
                b.store(it, 1, wanted)
            case "extend":
                other = self[instr.args[1]]
                more = b.let("more", load(other, 1))
                length = b.let("length", load(it, 1))
                wanted = b.let("wanted", length + more)
                grow(wanted)
                copy(load(it) + bytes_(length), load(other), bytes_(more))
                b.store(it, 1, wanted)
            case "slice":
                start, step, count = (self[v] for v in instr.args[1:])
                at = fresh(count)
                source = b.let("source", load(it) + bytes_(start))
                with b.loop("k", 0, count) as i:
                    for j in range(w):
                        b.store(at, i * w + j, load(source, i * step * w + j))
            case "fill":
                count = b.let("count", select(self[instr.args[0]] > 0, self[instr.args[0]], 0))
                b.set(count, select(count < _MOST, count, _MOST))
                at = fresh(count)
                with b.loop("k", 0, count) as i:
                    for j, v in enumerate(instr.args[1:]):
                        self._set(at, i * w + j, self[v])
            case "sort":
                keys, descending = self[instr.args[1]], self[instr.args[2]]
                item = instr.args[1].type
                floats = isinstance(item, ListT) and any(isinstance(x, FloatT) for x in words(item.item))
                count = b.let("count", load(it, 1))
                self._room(frame, segment, count * (16 + 8 * w))
                self._helper("sort_order")
                order = tree.Call(
                    "sort_order",
                    (
                        load(keys),
                        count,
                        top,
                        self.word("sorter") if floats else const(0, I64),
                        convert(descending, I64, "unsigned"),
                    ),
                    I64,
                )
                order_at = b.let("order", order)
                copy_at = b.let("copy", top + count * 16)
                copy(copy_at, load(it), bytes_(count))
                here = b.let("at", load(it))
                with b.loop("k", 0, count) as i:
                    source = b.let("source", copy_at + bytes_(load(order_at, i)))
                    for j in range(w):
                        b.store(here, i * w + j, load(source, j))

    def _helper(self, name: str) -> None:
        if name not in self.helpers:
            from acronumba.emit.parse import parse

            for function in parse(_HELPERS[name]):
                self.helpers[function.name] = function

    # ------------------------------------------------------------------------------------------------------ numbers

    def _unless(self, bad: Expr, instr: Scalar) -> None:
        """Fail where `bad` holds."""
        with self.b.when(bad):
            self._fail(instr.site, instr.args[:2])

    def _scalar(self, instr: Scalar) -> None:
        args = [self[a] for a in instr.args]
        floats = isinstance(instr.args[0].type, FloatT)
        make = (_FLOATS if floats else _INTS).get(instr.op) or _ANY.get(instr.op)
        if make is None and instr.op in _MATH:
            self._math(instr, args)
            return
        if make is None:
            raise ValueError(f"scalar operation {instr.op!r} of {instr.args[0].type}")
        self._assign(instr.out, make(self, instr, *args))

    def _math(self, instr: Scalar, args: list[Local]) -> None:
        """A function of `math`: NaN from numbers and infinity from finite ones are its failures."""
        b = self.b
        name = instr.op
        if name == "sqrt":
            value = intrinsic("sqrt", args[0])
        elif name == "fabs":
            value = intrinsic("abs", args[0])
        elif name == "copysign":
            value = intrinsic("copysign", *args)
        else:
            value = intrinsic(f"libm_{name}", *args)
        y = b.let("y", value)
        if instr.site >= 0 and name not in ("fabs", "copysign", "atan2", "erf", "erfc"):
            numbers, finite = args[0].eq(args[0]), _finite(args[0])
            for a in args[1:]:
                numbers, finite = numbers & a.eq(a), finite & _finite(a)
            self._unless(y.ne(y) & numbers | _infinite(y) & finite, instr)
        self._assign(instr.out, y)


_VALUES = {
    "bool": I8,
    "int8": I8,
    "uint8": I8,
    "int16": I16,
    "uint16": I16,
    "int32": I32,
    "uint32": I32,
    "float32": F32,
}


def _value(data: Expr, dtype: str) -> Expr:
    """Return the number at an address: a bool, an int64 or a float64."""
    x = load(data, 0, _VALUES.get(dtype, F64 if dtype == "float64" else I64))
    if dtype == "bool":
        return x.ne(0)
    if dtype == "float32":
        return convert(x, F64)
    if x.type in (F64, I64):
        return x
    return convert(x, I64, "unsigned") if dtype.startswith("u") else convert(x, I64)


def _infinite(x: Expr) -> Expr:
    return intrinsic("abs", x).eq(math.inf)


def _finite(x: Expr) -> Expr:
    return intrinsic("abs", x) < math.inf


_LEAST = -(1 << 63)
_Make = Callable[..., Expr]


def _checked(op: str, name: str) -> _Make:
    def make(m: _Machine, i: Scalar, x: Expr, y: Expr) -> Expr:
        if i.site >= 0:
            m._unless(intrinsic(f"{name}_overflows", x, y, type=I1), i)
        return tree.binary(op, x, y)

    return make


def _int_floordiv(m: _Machine, i: Scalar, x: Expr, y: Expr) -> Expr:
    m._unless(y.eq(0) | x.eq(_LEAST) & y.eq(-1), i)
    q = m.b.let("q", x // y)
    r = x - q * y
    return q - convert(r.ne(0) & ((r ^ y) < 0), I64, "unsigned")


def _int_quotient(m: _Machine, i: Scalar, x: Expr, y: Expr) -> Expr:
    """The quotient of two ints as a float. Where one has more than 53 bits, a quotient of 56 bits is rounded once."""
    b = m.b
    m._unless(y.eq(0), i)
    out = b.let("ratio", convert(x, F64) / convert(y, F64))
    a, d = b.let("above", select(x < 0, -x, x)), b.let("below", select(y < 0, -y, y))
    with b.when(intrinsic("umax", a, d).ne(intrinsic("umin", intrinsic("umax", a, d), const(1 << 53, I64)))):
        whole, rest = b.let("whole", intrinsic("udiv", a, d)), b.let("rest", intrinsic("urem", a, d))
        scale = b.let("scale", 1.0)
        with b.while_((whole.eq(0) | (intrinsic("lshr", whole, const(55, I64)).eq(0))) & x.ne(0)):
            left = b.let("left", d - rest)
            bit = b.let("bit", intrinsic("umin", rest, left).eq(left))
            b.set(rest, select(bit, rest - left, rest + rest))
            b.set(whole, whole + whole + convert(bit, I64, "unsigned"))
            b.set(scale, scale * 0.5)
        b.set(whole, whole | convert(rest.ne(0), I64, "unsigned"))
        b.set(out, convert(whole, F64, "unsigned") * scale)
        with b.when((x ^ y) < 0):
            b.set(out, -out)
    return out


def _int_rest(m: _Machine, i: Scalar, x: Expr) -> Expr:
    near = m.b.let("near", convert(x, F64))
    most = near.eq(2.0**63)  # which an int64 does not hold
    return (
        x
        - convert(select(most, 0.0, near), I64)
        - select(most, const((1 << 63) - 1, I64), 0)
        - convert(most, I64, "unsigned")
    )


def _int_mod(m: _Machine, i: Scalar, x: Expr, y: Expr) -> Expr:
    m._unless(y.eq(0), i)
    d = m.b.let("divisor", select(y.eq(-1), 1, y))  # the machine cannot divide the least integer by -1
    r = m.b.let("r", x % d)
    return r + select(r.ne(0) & ((r ^ y) < 0), y, 0)


def _int_pow(m: _Machine, i: Scalar, x: Expr, y: Expr) -> Expr:
    b = m.b
    m._unless(y < 0, i)
    base, left, out = b.let("base", x), b.let("left", y), b.let("power", 1)
    bad = b.let("bad", const(False, I1))
    with b.while_((left > 0) & ~bad):
        with b.when((left & 1).ne(0)):
            b.set(bad, bad | intrinsic("mul_overflows", out, base, type=I1))
            b.set(out, out * base)
        b.set(left, left >> 1)
        with b.when(left > 0):
            b.set(bad, bad | intrinsic("mul_overflows", base, base, type=I1))
            b.set(base, base * base)
    m._unless(bad, i)
    return out


def _int_neg(m: _Machine, i: Scalar, x: Expr) -> Expr:
    if i.site >= 0:
        m._unless(x.eq(_LEAST), i)
    return -x


def _int_abs(m: _Machine, i: Scalar, x: Expr) -> Expr:
    if i.site >= 0:
        m._unless(x.eq(_LEAST), i)
    return select(x < 0, -x, x)


def _lshift(m: _Machine, i: Scalar, x: Expr, y: Expr) -> Expr:
    m._unless(y < 0, i)
    small = m.b.let("shift", select(y < 63, y, 63))
    out = m.b.let("shifted", x << small)
    m._unless(x.ne(0) & ((y > 63) | (out >> small).ne(x)), i)
    return out


def _rshift(m: _Machine, i: Scalar, x: Expr, y: Expr) -> Expr:
    m._unless(y < 0, i)
    return x >> select(y < 63, y, 63)


def _float_divmod(m: _Machine, i: Scalar, x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """Python's definition, step by step."""
    b = m.b
    m._unless(y.eq(0.0), i)
    rest = b.let("rest", intrinsic("libm_fmod", x, y))
    quotient = b.let("quotient", (x - rest) / y)
    with b.when(rest.eq(0.0)):
        b.set(rest, intrinsic("copysign", const(0.0, F64), y))
    with b.otherwise(), b.when((y < 0.0).ne(rest < 0.0)):
        b.set(rest, rest + y)
        b.set(quotient, quotient - 1.0)
    down = b.let("down", intrinsic("copysign", const(0.0, F64), x / y))
    with b.when(quotient.ne(0.0)):
        b.set(down, intrinsic("floor", quotient))
        with b.when(quotient - down > 0.5):
            b.set(down, down + 1.0)
    return down, rest


def _float_div(m: _Machine, i: Scalar, x: Expr, y: Expr) -> Expr:
    m._unless(y.eq(0.0), i)
    return x / y


def _float_pow(m: _Machine, i: Scalar, x: Expr, y: Expr) -> Expr:
    b = m.b
    whole = intrinsic("floor", y).eq(y)
    m._unless(_finite(x) & _finite(y) & (x.eq(0.0) & (y < 0.0) | (x < 0.0) & ~whole), i)
    out = b.let("power", intrinsic("libm_pow", x, y))
    m._unless(_infinite(out) & _finite(x) & _finite(y), i)
    return out


def _to_int(m: _Machine, i: Scalar, x: Expr) -> Expr:
    """The integer equal to a float that is whole; NaN and what needs more than 64 bits fail."""
    m._unless(~((x >= -(2.0**63)) & (x < 2.0**63)), i)
    return convert(x, I64)


def _round(m: _Machine, i: Scalar, x: Expr) -> Expr:
    b = m.b
    low = b.let("low", intrinsic("floor", x))
    rest = b.let("rest", x - low)
    odd = (low - intrinsic("floor", low * 0.5) * 2.0).eq(1.0)
    return _to_int(m, i, b.let("rounded", select((rest > 0.5) | rest.eq(0.5) & odd, low + 1.0, low)))


def _compared(op: str) -> _Make:
    return lambda m, i, x, y: tree.compare(op, x, y)


_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_BOTH: dict[str, _Make] = {
    "min": lambda m, i, x, y: select(y < x, y, x),
    "max": lambda m, i, x, y: select(y > x, y, x),
    **{name: _compared(op) for name, op in _COMPARISONS.items()},
}
_ANY: dict[str, _Make] = {
    "select": lambda m, i, c, x, y: select(c, x, y),
    "same": lambda m, i, x, y: x.eq(y),
}
_INTS: dict[str, _Make] = {
    **_BOTH,
    "add": _checked("+", "add"),
    "sub": _checked("-", "sub"),
    "mul": _checked("*", "mul"),
    "quotient": _int_quotient,
    "rest": _int_rest,
    "floordiv": _int_floordiv,
    "mod": _int_mod,
    "pow": _int_pow,
    "neg": _int_neg,
    "abs": _int_abs,
    "and": lambda m, i, x, y: x & y,
    "or": lambda m, i, x, y: x | y,
    "xor": lambda m, i, x, y: x ^ y,
    "invert": lambda m, i, x: ~x,
    "lshift": _lshift,
    "rshift": _rshift,
    "not": lambda m, i, x: ~x,
    "both": lambda m, i, x, y: x & y,
    "either": lambda m, i, x, y: x | y,
    "differ": lambda m, i, x, y: x ^ y,
    "int": lambda m, i, x: convert(x, I64, "unsigned"),
    "float": lambda m, i, x: convert(x, F64),
    "bool": lambda m, i, x: x.ne(0),
}
_FLOATS: dict[str, _Make] = {
    **_BOTH,
    "add": lambda m, i, x, y: x + y,
    "sub": lambda m, i, x, y: x - y,
    "mul": lambda m, i, x, y: x * y,
    "div": _float_div,
    "floordiv": lambda m, i, x, y: _float_divmod(m, i, x, y)[0],
    "mod": lambda m, i, x, y: _float_divmod(m, i, x, y)[1],
    "pow": _float_pow,
    "neg": lambda m, i, x: -x,
    "abs": lambda m, i, x: intrinsic("abs", x),
    "bool": lambda m, i, x: x.ne(0.0),
    "trunc": _to_int,
    "floor": lambda m, i, x: _to_int(m, i, m.b.let("low", intrinsic("floor", x))),
    "ceil": lambda m, i, x: _to_int(m, i, m.b.let("high", -intrinsic("floor", -x))),
    "round": _round,
    "isnan": lambda m, i, x: x.ne(x),
    "isinf": lambda m, i, x: _infinite(x),
    "isfinite": lambda m, i, x: _finite(x),
}
_MATH = frozenset(
    "sqrt exp expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc fabs "
    "atan2 hypot copysign fmod".split()
)

_HELPERS = {
    "sort_order": '''
def sort_order(keys: i64, n: i64, space: i64, floats: i64, descending: i64) -> i64:
    """Return the address of the stable order of n keys, int64[n], in the 2 n words at `space`, by merging.

    `floats`: 0 for ints, else what orders floats of which some are NaN.
    """
    a = space
    if floats != 0:
        for k in range(n):
            if ldf(keys, k) != ldf(keys, k):
                call_address(floats, keys, n, a, descending)
                return a
    b = space + n * 8
    for k in range(n):
        st(a, k, k)
    width = 1
    while width < n:
        low = 0
        while low < n:
            middle = select(low + width < n, low + width, n)
            high = select(low + 2 * width < n, low + 2 * width, n)
            i = low
            j = middle
            for k in range(low, high):
                right = 0
                if j < high:
                    if i >= middle:
                        right = 1
                    else:
                        x = ld(a, i)
                        y = ld(a, j)
                        if descending != 0:
                            z = x
                            x = y
                            y = z
                        if floats != 0:
                            if ldf(keys, y) < ldf(keys, x):
                                right = 1
                        else:
                            if ld(keys, y) < ld(keys, x):
                                right = 1
                if right != 0:
                    st(b, k, ld(a, j))
                    j = j + 1
                else:
                    st(b, k, ld(a, i))
                    i = i + 1
            low = low + 2 * width
        c = a
        a = b
        b = c
        width = 2 * width
    return a
'''
}
