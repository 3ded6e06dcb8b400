"""The host program: the user's control flow as one resumable machine.

In: a `Plan`. Out: a `tree.Module` with one function, `machine(ST)`; `ST` is the table of `state`. It runs one
instance after the other and records the dataflow graph; it returns when all are done, or when memory must grow, and
resumes where it left.

The machine is one function with numbered blocks. Every variable of every user function is a local of it; jumps are
direct. A call saves the live variables in its frame (frames are linked, from one free list per function, so that
recursion is as deep as memory), passes arguments in the callee's locals, and jumps to it; the callee writes its results
to the address in its frame and dispatches on its parent's resume block, which reloads the live variables. A frame is
all that is needed to resume a call.

So a fiber is a frame's address in a queue. At a read of a tensor that has not been computed, the live variables are
saved, the frame is added to the queue of waiting fibers, and the machine goes on with another fiber or starts the next
instance. When all fibers wait it returns WAIT; the caller executes the recorded nodes and moves them to the queue of
runnable fibers. A spawned call is a call whose caller is runnable at once. Its parent is a stub, which leads to a block
that counts the spawned calls that have not returned; at zero the caller resumes behind its join. For programs that read
no values, none of this code is generated.

A block that allocates first tests, before any effect, that the most it can use is free. If not, a cold path saves the
live variables in the frame and returns; a reload block restores them. An operation without a static bound (`append` on
a full list) is a separate block that tests for itself.

Arithmetic is Python's: floor division, checks of overflow, division by zero and domain, each a failure of its
instance at a site.
"""

from __future__ import annotations

import re

from acronumba.analysis.plan import Plan
from acronumba.config import Options
from acronumba.data.words import RECORD
from acronumba.emit import tree
from acronumba.emit.tree import F32, F64, I1, I8, I16, I32, I64, Expr, Local, Ty, const, convert, load, select
from acronumba.errors import Loc
from acronumba.host.instructions import emit_words, instruction, once_if_equal
from acronumba.host.lists import dynamic
from acronumba.host.segments import DYNAMIC, Frame, Segment, constants_of
from acronumba.host.sets import WORDS as SET_WORDS
from acronumba.host.sets import is_ordered
from acronumba.host.texts import constant
from acronumba.host.writer import Writer
from acronumba.ir import nodes as ir
from acronumba.ir.types import BoolT, FloatT, ListT, RefT, TensorT, Word
from acronumba.ir.visit import writes
from acronumba.runtime import state
from acronumba.runtime.library.records import node_of
from acronumba.runtime.program import Host
from acronumba.runtime.state import AT, FRAME


def generate(plan: Plan, options: Options) -> tree.Module:
    """Return the machine of a plan."""
    return make_host(plan, options).module


def make_host(plan: Plan, options: Options, doubles: bool = False) -> Host:
    """Return the machine of a plan with its tables; `doubles`: equal nodes are recorded, too, to be compared."""
    equal = once_if_equal(plan) if options.equal else frozenset[int]()
    keyed = not options.ragged and any(s.dims for s in plan.kernels)
    groups = 0 if keyed else len(plan.kernels)
    return _Machine(plan, equal, doubles and bool(equal), groups, options.recycle).run()


def _type(word: Word) -> Ty:
    return F64 if isinstance(word, FloatT) else I1 if isinstance(word, BoolT) else I64


class _Machine(Writer):
    """Writes the machine."""

    def __init__(self, plan: Plan, equal: frozenset[int], doubles: bool, groups: int, noting: bool) -> None:
        super().__init__(plan.program, equal, doubles, groups, noting)
        self.known = constants_of(self.program)
        self.frames = [Frame(k, f, self.numbers, self.known.keys()) for k, f in enumerate(self.program.functions)]
        for frame in self.frames:
            frame.reserve(self._words)
            frame.cleanness()
        instrs = [i for f in self.program.functions for x in f.blocks for i in x.instrs]
        self.arrive = next(self.numbers) if any(isinstance(i, ir.Spawn) for i in instrs) else -1
        self.reads = 1 + max((i.number for i in instrs if isinstance(i, ir.Read)), default=-1)
        self.waiting = self.arrive >= 0 or self.reads > 0
        self.waits: dict[int, Loc] = {}
        self.leads: dict[int, tuple[int, ...]] = {}
        self.calls: dict[int, Loc] = {}
        self.loops: dict[int, Loc] = {}

    def free(self, function: int) -> int:
        return AT["free"] + function

    def run(self) -> Host:
        b = self.b
        self.reg = {name: b.let(name, self.word(name)) for name in ("pc", *self.REGISTERS, *self.FIXED)}
        self.constants = {
            v: constant(self, x) if isinstance(x, str) else const(0 if x is None else x, _type(v.type))
            for v, x in self.known.items()
        }
        for frame in self.frames:
            for v in (*frame.function.params, *(v for x in frame.function.blocks for i in x.instrs for v in writes(i))):
                if v not in self.locals and v not in self.constants:
                    name = b.fresh(re.sub(r"\W", "_", v.name))
                    self.locals[v] = b.locals[name] = Local(name, _type(v.type))
        for frame in self.frames:
            self._function(frame)
        with b.nested() as body:
            self._scheduler()
        self.blocks.append((state.SCHEDULER, "the next instance", body))
        values = max((len(t) for t in self.types.values()), default=0)
        self._drop(values)
        if self.arrive >= 0:
            with b.nested() as body:
                self._arrive()
            self.blocks.append((self.arrive, "a fiber has returned", body))
            self.entries.add(self.arrive)
        ended = self._note_ended() if self.waiting else state.SCHEDULER
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
            tables={"ST": state.STATE},
        )
        return Host(
            module=module, shapes=tuple(self.shapes), functions=len(self.frames), values=values, calls=self.calls,
            loops=self.loops, types=self.types, waiting=self.waiting, waits=self.waits, hashed=tuple(self.hash_types),
            leads=self.leads, reads=self.reads, arrive=self.arrive, ended=ended, equal=self.equal, doubles=self.doubles,
        )  # fmt: skip

    def _drop(self, values: int) -> None:
        """Write the block that instances go to which have failed; an error record has so many values at most."""
        b = self.b
        with b.nested() as body:
            self.put("etop", self.word("etop") + 8 * (3 + values))
            b.set(self.reg["n"], self.word("first"))
            b.set(self.reg["nroom"], self.word("first_room"))
            self.put("placed", state.MEASURED)
            if self.equal:
                self.put("memo_tag", self.word("memo_tag") + self.word("kernels"))
            if self.waiting:
                b.store(self.word("lives"), self.reg["inst"], state.DEAD)
            b.goto(state.SCHEDULER)
        self.blocks.append((state.FAILED, "the instance has failed: its nodes are dropped", body))

    def _note_ended(self) -> int:
        """Write the block that instances of an epoch return to; return its number."""
        b, number = self.b, next(self.numbers)
        with b.nested() as body:
            b.store(self.word("ended"), self.word("ended_count"), self.reg["inst"])
            self.put("ended_count", self.word("ended_count") + 1)
            b.goto(state.SCHEDULER)
        self.blocks.append((number, "an instance of an epoch has returned", body))
        self.entries.add(number)
        return number

    def _scheduler(self) -> None:
        b, reg = self.b, self.reg
        entry = self.frames[0]
        if self.waiting:
            self._resume()
        with b.when(self.word("next") >= self.word("part_end")):
            if self.waiting:
                with b.when(self.word("wtop") > 0):
                    self.leave(state.WAIT, 0, state.SCHEDULER)
            self.leave(state.DONE, 0, state.SCHEDULER)
        with b.when(reg["top"] + 8 * entry.words > reg["end"]):
            self.leave(state.GROW_HEAP, 8 * entry.words, state.SCHEDULER)
        if self.waiting:
            with b.when(self.word("wtop") + 1 > self.word("fcap")):
                self.leave(state.GROW_FIBERS, 1, state.SCHEDULER)
        spent = b.let("spent", self.word("spent") + self.word("granted") - reg["fuel"])
        b.set(reg["fuel"], self.word("steps"))
        self.put("granted", reg["fuel"])
        self.put("spent", spent)
        with b.when(spent > state.SLICE):
            self.put("spent", 0)
            self.leave(state.PAUSE, 0, state.SCHEDULER)
        b.set(reg["inst"], self.word("next"))
        self.put("next", reg["inst"] + 1)
        self.put("first", reg["n"])
        self.put("first_room", reg["nroom"])
        self.put("base", reg["top"])
        self.put("left", self.word("rest"))
        if self.waiting:
            b.store(self.word("lives"), reg["inst"], 0)
        child = self._new_frame(entry)
        b.store(child, 0, self.st + 8 * AT["root"])
        b.store(child, 2, self.word("results") + reg["inst"] * (8 * len(entry.function.results)))
        params = entry.function.params
        roots = b.let("roots", self.word("roots") + reg["inst"] * (8 * len(params)))
        for k, v in enumerate(params):
            b.set(self.locals[v], self.read_word(roots, k, v.type))
        b.set(reg["fp"], child)
        b.goto(entry.entry)

    def _resume(self) -> None:
        """Write the resumption of the next runnable fiber, if one exists."""
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
            self.put("first_room", reg["nroom"])
            self.put("base", reg["top"])
            b.set(reg["fp"], load(at))
            b.set(reg["pc"], load(reg["fp"], 1))
            b.again()

    def _read(self, segment: Segment, instr: ir.Read) -> None:
        """Write the read of a tensor's value; the fiber waits, and retries, if it has not been computed."""
        b = self.b
        record = self[instr.tensor]
        with b.when(node_of(load(record, RECORD.at["head"])) >= 0):
            back = self.spill(segment)
            self.waits[back] = instr.loc
            places = [segment.frame.slots[v] for v in segment.live if isinstance(v.type, ListT | RefT | TensorT)]
            self.leads[back] = (0, *places)
            b.store(self.reg["fp"], 1, back)
            at = b.let("at", self.word("waiting") + self.word("wtop") * 16)
            b.store(at, 0, self.reg["fp"])
            b.store(at, 1, self.reg["inst"])
            self.put("wtop", self.word("wtop") + 1)
            b.goto(state.SCHEDULER)
        assert isinstance(instr.tensor.type, TensorT)
        self.assign(instr.out, _value(load(record), instr.tensor.type.dtype))
        with b.when(self.word("reading").ne(0)):
            self._note(segment, instr)

    def _note(self, segment: Segment, instr: ir.Read) -> None:
        """Write the recording of a value that was read, or its replacement by a recorded one."""
        b = self.b
        with b.when(self.word("reading").eq(state.NOTED)):
            with b.when(self.word("noted").eq(self.word("notes_room"))):
                self.leave(state.GROW_NOTES, 1, self.spill(segment))
            at = b.let("at", self.word("notes") + self.word("noted") * 24)
            b.store(at, 0, self.reg["inst"])
            b.store(at, 1, instr.number)
            self.write_word(at, 2, self[instr.out])
            self.put("noted", self.word("noted") + 1)
        with b.otherwise():
            at = b.let("at", self.word("recorded_reads") + (self.reg["inst"] * self.reads + instr.number) * 16)
            value = b.let("value", load(at))
            with b.when(value.eq(load(at, 1))):
                self.leave(state.ASTRAY, 0, self.spill(segment))
            b.store(at, 0, value + 8)
            self.assign(instr.out, self.read_word(value, 0, instr.out.type))

    def _spawn(self, segment: Segment, spawn: ir.Spawn) -> None:
        """Call a function whose parent is a stub, and let the caller be ready."""
        b, reg = self.b, self.reg
        callee = self.frames[spawn.function]
        with b.when(self.word("rtop") + self.word("wtop") + 2 > self.word("fcap")):
            self.leave(state.GROW_FIBERS, 2, self.spill(segment))
        self.room(segment, const(8 * (callee.words + state.STUB), I64))
        self._save(segment, spawn)
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
        child = self._new_frame(callee)
        b.store(child, 0, stub)
        if spawn.into is not None:
            width = len(callee.function.results)
            b.store(child, 2, load(self[spawn.into[0]]) + self[spawn.into[1]] * (8 * width))
        elif spawn.outs:
            b.store(child, 2, reg["fp"] + 8 * segment.frame.slots[spawn.outs[0]])
        self._enter(child, callee, spawn.args)

    def _arrive(self) -> None:
        """Write the block that spawned calls return to; after the last one, a caller that waits at its join resumes."""
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

    def _join(self, segment: Segment, join: ir.Join) -> None:
        b, reg = self.b, self.reg
        self._save(segment, join)
        left = b.let("left", load(reg["fp"], FRAME) - 1)
        with b.when(left > 0):
            b.store(reg["fp"], 1, segment.after)
            b.store(reg["fp"], FRAME, left)
            b.goto(state.SCHEDULER)
        b.goto(segment.after)

    def _new_frame(self, frame: Frame) -> Local:
        b, top = self.b, self.reg["top"]
        child = b.let("frame", load(self.st, self.free(frame.number)))
        with b.when(child.ne(0)):
            b.store(self.st, self.free(frame.number), load(child))
        with b.otherwise():
            b.set(child, top)
            b.set(top, top + 8 * frame.words)
        if frame.spawns:
            b.store(child, FRAME, 1)
        return child

    # ------------------------------------------------------------------------------------------------------- blocks

    def _function(self, frame: Frame) -> None:
        for k, segments in enumerate(frame.segments):
            for segment in segments:
                with self.b.nested() as body:
                    self._segment(k, segment)
                instr = segment.instrs[0] if segment.instrs else segment.block.end
                self.blocks.append((segment.number, f"{frame.function.name}, line {instr.loc.line}", body))

    def _test(self, segment: Segment) -> None:
        """Write the test that all memory allocated until the next test is free; leave the machine if not."""
        b, reg = self.b, self.reg
        full = reg["top"] + 8 * segment.room > reg["end"]
        nodes = segment.nodes * (1 + self.doubles)
        crowded = reg["n"] + nodes > reg["nroom"]
        if nodes:
            with b.when(full | crowded):
                status = select(full, const(state.GROW_HEAP, I64), const(state.GROW_NODES, I64))
                need = select(full, const(8 * segment.room, I64), const(nodes, I64))
                self.leave(status, need, self.spill(segment))
        elif segment.room:
            with b.when(full):
                self.leave(state.GROW_HEAP, 8 * segment.room, self.spill(segment))

    def _words(self, instr: ir.Instr) -> int:
        """Return the words that an instruction takes from the heap; 0 for operations that test for themselves."""
        match instr:
            case ir.Emit():
                return emit_words(instr)
            case ir.New():
                return self.layouts[instr.cls][1].size
            case ir.ListNew() if is_ordered(instr.out.type):
                return SET_WORDS
            case ir.ListNew():
                return 3 + instr.count * instr.width
            case ir.Call():
                return self.frames[instr.function].words
        return 0

    def _segment(self, k: int, segment: Segment) -> None:
        """Write a segment of block `k` of its function."""
        b, reg, frame = self.b, self.reg, segment.frame
        self.forget_heads()
        if segment.resumes is not None:
            self.entries.add(segment.number)
            self.calls[segment.number] = segment.resumes.loc
            self.reload(segment)
        self._test(segment)
        if segment.first and (k == 0 or k in frame.heads):
            b.set(reg["fuel"], reg["fuel"] - 1)
            with b.when(reg["fuel"] < 0):
                back = self.spill(segment)
                self.leave(state.FUEL, 0, back)
            if k:
                self.loops[back] = (*segment.block.instrs, segment.block.end)[0].loc
        for instr in segment.instrs:
            b.comment("", instr.loc)
            match instr:
                case ir.Call():
                    self._call(segment, instr)
                case ir.Read():
                    self._read(segment, instr)
                case ir.Spawn():
                    self._spawn(segment, instr)
                case ir.Join():
                    self._join(segment, instr)
                case ir.ListOp() if instr.op in DYNAMIC:
                    dynamic(self, segment, instr)
                case _:
                    instruction(self, instr)
        if not segment.last:
            if not (segment.instrs and isinstance(segment.instrs[-1], ir.Call | ir.Spawn | ir.Join)):
                b.goto(segment.after)
            return
        self._end(segment)

    def _end(self, segment: Segment) -> None:
        """Write the end of a block."""
        b, frame, end = self.b, segment.frame, segment.block.end
        b.comment("", end.loc)
        match end:
            case ir.Jump():
                b.goto(frame.segments[end.block][0].number)
            case ir.Branch():
                with b.when(self[end.cond]):
                    b.goto(frame.segments[end.yes][0].number)
                b.goto(frame.segments[end.no][0].number)
            case ir.Return():
                self._return(frame, end)
            case ir.Fail():
                self.fail(end.site, end.args)

    def _save(self, segment: Segment, call: ir.Call | ir.Spawn | ir.Join) -> None:
        """Save the variables that are live after the call at the segment's end."""
        after = segment.frame.by_number[segment.after]
        clean = set(segment.clean or ())
        for instr in segment.instrs:
            clean -= set(writes(instr))
        for v in after.live:
            if v not in call.outs and v not in clean:
                self.write_word(self.reg["fp"], segment.frame.slots[v], self[v])

    def _call(self, segment: Segment, call: ir.Call) -> None:
        b, reg = self.b, self.reg
        self._save(segment, call)
        callee = self.frames[call.function]
        child = self._new_frame(callee)
        b.store(child, 0, reg["fp"])
        if call.outs:
            b.store(child, 2, reg["fp"] + 8 * segment.frame.slots[call.outs[0]])
        b.store(reg["fp"], 1, segment.after)
        self._enter(child, callee, call.args)

    def _enter(self, child: Local, callee: Frame, args: tuple[ir.Var, ...]) -> None:
        """Write the passing of arguments and the jump to the callee."""
        b = self.b
        b.set(self.reg["fp"], child)
        params = callee.function.params
        moves = [(self.locals[p], self[a]) for p, a in zip(params, args, strict=True) if p is not a]
        targets = {p.name for p, _ in moves}
        values = [b.let("arg", a) if isinstance(a, Local) and a.name in targets else a for _, a in moves]
        for (p, _), value in zip(moves, values, strict=True):
            b.set(p, value)
        b.goto(callee.entry)

    def _return(self, frame: Frame, end: ir.Return) -> None:
        b, reg = self.b, self.reg
        if end.args:
            to = b.let("to", load(reg["fp"], 2))
            for k, v in enumerate(end.args):
                self.write_word(to, k, self[v])
        up = b.let("up", load(reg["fp"], 0))
        b.store(reg["fp"], 0, load(self.st, self.free(frame.number)))
        b.store(self.st, self.free(frame.number), reg["fp"])
        b.set(reg["fp"], up)
        b.set(reg["pc"], load(up, 1))
        b.again()


_VALUES = {
    "bool": I8, "int8": I8, "uint8": I8, "int16": I16, "uint16": I16, "int32": I32, "uint32": I32, "float32": F32,
}  # fmt: skip


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
