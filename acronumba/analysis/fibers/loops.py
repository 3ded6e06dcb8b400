"""Loops whose steps run concurrently. See `analysis.fibers.fork`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from acronumba.analysis.dead import remove_dead
from acronumba.analysis.fibers.mutation import changed_by, own_things
from acronumba.analysis.fibers.regions import loop_name, outline_regions
from acronumba.analysis.fibers.world import Facts, Item, World, listed, one_item, region_item, writes_of
from acronumba.analysis.simplify import simplify
from acronumba.errors import Loc
from acronumba.ir import nodes as ir
from acronumba.ir.graph import definitions, dominators, live_at_start, loops, predecessors, successors
from acronumba.ir.types import BOOL, INT, BoolT, FloatT, IntT, ListT, RefT, StructT, TupleT, Type, Word, union
from acronumba.ir.visit import Names, reads, reassigned, redirect, retarget, variables, writes
from acronumba.records import record


class _Serial(Exception):
    """Why the steps of a loop follow each other: a plain sentence without a subject, as in "carries `h` ..."."""


@record(kw_only=True)
class _Loop:
    """A loop over something of known length: for `index` from 0 to `length`."""

    head: int
    body: frozenset[int]  # blocks, the head included; those that only fail, too
    first: int  # block where a step begins
    last: int  # block that jumps back to the head
    exit: int  # block behind the loop
    index: ir.Var
    length: ir.Var
    step: frozenset[int]  # `id`s of the instructions that count: no part of a step
    carried: frozenset[ir.Var]  # loop-carried variables, without `index`
    fixed: frozenset[ir.Var]  # variables that the head computes equal in every step
    varying: frozenset[ir.Var]  # ... and that is not


class Loops:
    """Parts the loops of one function; see the module's text."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.seen: set[object] = set()  # names of loops that are done

    @property
    def function(self) -> ir.Function:
        return self.world.functions[self.number]

    def run(self) -> None:
        while True:
            function, blocks = self.function, self.function.blocks
            rest = {
                head: body
                for head, body in loops(blocks).items()
                if loop_name(function, head) not in self.seen and self._waits(i for k in body for i in blocks[k].instrs)
            }
            if not rest:
                return
            head = max(rest, key=lambda h: (len(rest[h]), -h))  # outer loops first: inner ones go into their functions
            name = loop_name(function, head)
            self.seen.add(name)
            try:
                if head == 0 or not isinstance(blocks[head].end, ir.Branch):
                    raise _Serial("it has no condition")
                self._loop(_Steps(self.world, function, head, rest[head]))
            except _Serial as e:
                at = next(i.loc for k in sorted(rest[head]) for i in blocks[k].instrs if self.world.waits(i))
                self.world.note(at, "serial", f"the steps of the loop run one after the other: {e}")
                outline_regions(self.world, self.number, name)

    def _waits(self, instrs: Iterable[ir.Instr]) -> bool:
        return any(map(self.world.waits, instrs))

    def _loop(self, steps: _Steps) -> None:
        """Part one loop."""
        items = steps.independent()
        parted = [i for i in items if not i.reason]
        rest = [i for i in items if i.reason]
        waiting = next((i for part in parted for i in part.instrs if self.world.waits(i)), None)
        if waiting is None:
            reasons = [item.reason for item in rest if self._waits(item.instrs)]
            raise _Serial(reasons[0] if reasons else "nothing in it waits")
        to = steps.appended(rest)
        if to is not None:
            results = to.args[1:]
        else:
            wanted = steps.live_in(rest)
            results = tuple(dict.fromkeys(v for item in parted for v in writes_of(item) if v in wanted))
        call = steps.single_call(parted, results, exact=to is not None)
        if call is not None and to is None:
            results = call.outs
        written = {v for item in parted for v in item.writes}
        body = ir.Function(
            name=self.function.name,
            params=(),
            results=tuple(v.type for v in results),
            blocks=steps.blocks(parted, ir.Return(args=results, loc=waiting.loc)),
            loc=self.function.loc,
        )
        body = remove_dead(simplify(body))
        params = tuple(v for v in dict.fromkeys(variables(body)) if v in live_at_start(body.blocks)[0])
        ends = (v for b in body.blocks for v in reads(b.end))
        params += tuple(v for v in dict.fromkeys(ends) if v in live_at_start(body.blocks)[0] and v not in params)
        if call is None:
            number = self.world.add(replace(body, params=params), self.function.name, "step")
            prefix: list[ir.Instr] = []
            args = params
        else:
            number, args = call.function, call.args
            prefix = [i for item in parted for i in item.instrs if i is not call]
        assert not written & set(params)
        text = "each iteration of the loop is a fiber: they are independent"
        if to is None:
            text = "this part of each iteration is a fiber: they are independent, and the rest runs afterwards"
        self.world.note(to.loc if to is not None else waiting.loc, "fibers", text)
        self._rewrite(steps, _Fork(number, tuple(args), tuple(prefix), results, to, waiting.loc), parted)

    def _rewrite(self, steps: _Steps, fork: _Fork, parted: Sequence[Item]) -> None:
        """Put the loop of spawns before the rest of the loop."""
        function, loop = self.function, steps.loop
        blocks = list(function.blocks)
        before, head, body, after = (len(blocks) + k for k in range(4))
        spawns = _Spawns(function, steps, fork)
        blocks += [spawns.start(head), spawns.test(body, after), spawns.step(head), spawns.end()]
        self.seen.add(spawns.more)
        for k, b in enumerate(function.blocks):
            if k not in loop.body:
                blocks[k] = replace(b, end=redirect(b.end, loop.head, before))
        if fork.to is not None:
            for k, b in enumerate(blocks):
                blocks[k] = replace(b, instrs=tuple(x for x in b.instrs if not _is_new(x, fork.to.args[0])))
        else:
            got = spawns.read()
            for k, b in steps.without(parted).items():
                blocks[k] = replace(b, instrs=(*got, *b.instrs)) if k == loop.first else b
        self.world.functions[self.number] = remove_dead(simplify(replace(function, blocks=tuple(blocks))))


@record()
class _Fork:
    """The call that a step spawns."""

    function: int
    args: tuple[ir.Var, ...]
    prefix: tuple[ir.Instr, ...]  # computes the arguments
    results: tuple[ir.Var, ...]
    to: ir.ListOp | None  # the append, if the rest of a step is nothing else
    loc: Loc


class _Spawns:
    """Builds the loop that spawns a fiber per iteration, and the reads of their results in the original loop."""

    def __init__(self, function: ir.Function, steps: _Steps, fork: _Fork) -> None:
        self.steps, self.loop, self.fork, self.loc = steps, steps.loop, fork, fork.loc
        self.blocks = function.blocks
        self.names = Names(function)
        self.to: dict[ir.Var, ir.Var] = {}  # variables of the loop -> those of this one
        self.results: ir.Var | None = None  # the list of the results of steps

    def start(self, head: int) -> ir.Block:
        """Return the block before the loop: loop-invariant instructions, and the list of results."""
        names, loop, fork, loc = self.names, self.loop, self.fork, self.loc
        out: list[ir.Instr] = []
        for instr in self.blocks[loop.head].instrs:
            if set(writes(instr)) <= loop.fixed:
                self.to |= {v: names.var(v.name, v.type) for v in writes(instr)}
                out.append(reassigned(instr, self.to))
        zero, self.count, self.index = names.var("zero", INT), names.var("count", INT), names.var("i", INT)
        length = self.to.get(loop.length, loop.length)
        out.append(ir.Const(out=zero, value=0, loc=loc))
        out.append(ir.Scalar(out=self.count, op="max", args=(length, zero), site=-1, loc=loc))
        if fork.results:
            if fork.to is not None:
                self.results = fork.to.args[0]
            else:
                self.results = names.var("parts", ListT(TupleT(tuple(_as_type(v.type) for v in fork.results))))
            empty = [names.var("empty", v.type) for v in fork.results]
            out += [ir.Const(out=v, value=_empty(v.type), loc=loc) for v in empty]
            args = (self.count, *empty)
            out.append(ir.ListOp(outs=(self.results,), op="fill", width=len(empty), args=args, loc=loc))
        out.append(ir.Copy(out=self.index, src=zero, loc=loc))
        return ir.Block(instrs=tuple(out), end=ir.Jump(block=head, loc=loc))

    def test(self, body: int, after: int) -> ir.Block:
        """Return the head of the loop."""
        self.more = self.names.var("more", BOOL)
        test = ir.Scalar(out=self.more, op="lt", args=(self.index, self.count), site=-1, loc=self.loc)
        return ir.Block(instrs=(test,), end=ir.Branch(cond=self.more, yes=body, no=after, loc=self.loc))

    def step(self, head: int) -> ir.Block:
        """Return the body of the loop: one spawn."""
        names, fork, loc, i = self.names, self.fork, self.loc, self.index
        self.to[self.loop.index] = i
        self.to |= {v: names.var(v.name, v.type) for instr in fork.prefix for v in writes(instr)}
        out: list[ir.Instr] = [reassigned(instr, self.to) for instr in fork.prefix]
        given = tuple(self.to.get(v, v) for v in fork.args)
        into = None if self.results is None else (self.results, i)
        one, next_ = names.var("one", INT), names.var("next", INT)
        out += [
            ir.Spawn(outs=(), into=into, function=fork.function, args=given, loc=loc),
            ir.Const(out=one, value=1, loc=loc),
            ir.Scalar(out=next_, op="add", args=(i, one), site=-1, loc=loc),
            ir.Copy(out=i, src=next_, loc=loc),
        ]
        return ir.Block(instrs=tuple(out), end=ir.Jump(block=head, loc=loc))

    def end(self) -> ir.Block:
        """Return the block behind the loop: the join."""
        goes_on = self.loop.exit if self.fork.to is not None else self.loop.head
        return ir.Block(instrs=(ir.Join(outs=(), loc=self.loc),), end=ir.Jump(block=goes_on, loc=self.loc))

    def read(self) -> list[ir.Instr]:
        """Return the instructions that read the results of a step from the list."""
        if self.results is None:
            return []
        results, single, names = self.fork.results, self.steps.single, self.names
        outs = tuple(v if v in single else names.var(v.name, v.type) for v in results)
        args = (self.results, self.loop.index)
        copies = [ir.Copy(out=v, src=o, loc=self.loc) for v, o in zip(results, outs, strict=True) if v is not o]
        return [ir.ListOp(outs=outs, op="get", width=len(outs), args=args, loc=self.loc), *copies]


class _Steps:
    """The items of one loop's step, in order."""

    def __init__(self, world: World, function: ir.Function, head: int, body: set[int]) -> None:
        self.world = world
        self.function = function
        self.single = definitions(function)
        self.over = dominators(function.blocks)
        self.loops = loops(function.blocks)
        self.live = live_at_start(function.blocks)
        self.loop = self._counted(head, body)
        self.spine = self._spine()
        self.items = self._items()

    # ---- the loop

    def _counted(self, head: int, body: set[int]) -> _Loop:
        """Return the loop as a `_Loop`, whose number of steps is known in advance, or raise `_Serial`."""
        blocks = self.function.blocks
        before = predecessors(blocks)
        latches = [p for p in before[head] if p in body]
        end = blocks[head].end
        if not isinstance(end, ir.Branch) or (end.yes in body) == (end.no in body) or len(latches) != 1:
            raise _Serial("how many there are is not known before the last")
        first, leave = (end.yes, end.no) if end.yes in body else (end.no, end.yes)
        test = self.single.get(end.cond)
        index = self._index(test, first == end.yes, head, latches[0], body)
        assert isinstance(test, ir.Scalar)
        whole = set(body)
        for k in sorted(body - {head}):
            for s in successors(blocks[k].end):
                if s not in whole:
                    if not isinstance(blocks[s].end, ir.Fail) or len(before[s]) > 1:
                        raise _Serial(f"line {blocks[k].end.loc.line} may leave it early")
                    whole.add(s)
        written = {v for k in whole for i in blocks[k].instrs for v in writes(i)}
        carried = (written & self.live[head]) - {index}
        changed = self._changed(whole)
        fixed: set[ir.Var] = set()
        varying: set[ir.Var] = set()
        for instr in blocks[head].instrs:
            moves = isinstance(instr, ir.Const | ir.Copy | ir.ExtentOf | ir.IsNull | ir.Shared) or (
                (isinstance(instr, ir.Scalar) and instr.site < 0)
                or (isinstance(instr, ir.ListOp) and instr.op == "len")
            )
            if not moves:
                raise _Serial("how many there are is not known before the last")
            single = all(v in self.single for v in writes(instr))
            steady = not (set(reads(instr)) & (carried | varying | {index}))
            steady = steady and single and not (self.world.mutation.touches(instr) & changed)
            steady = steady and not (isinstance(instr, ir.ListOp) and instr.args[0] in self._changed_variables(whole))
            (fixed if steady else varying).update(writes(instr))
        length = test.args[1]
        if length in varying or (length in written and length not in fixed):
            raise _Serial("how many there are may change in the loop")
        counting = self._counting(index, whole)
        return _Loop(
            head=head,
            body=frozenset(whole),
            first=first,
            last=latches[0],
            exit=leave,
            index=index,
            length=length,
            step=counting,
            carried=frozenset(carried),
            fixed=frozenset(fixed),
            varying=frozenset(varying),
        )

    def _changed(self, body: Iterable[int]) -> int:
        """Return the lists and rows, as bits, that instructions of a loop may change; see `Mutation.changes`."""
        out = 0
        for k in body:
            for i in self.function.blocks[k].instrs:
                out |= self.world.mutation.changes(i)
        return out

    def _changed_variables(self, body: Iterable[int]) -> set[ir.Var]:
        instrs = (i for k in body for i in self.function.blocks[k].instrs)
        return {v for i in instrs if (v := changed_by(i)) is not None}

    def _index(self, test: ir.Instr | None, up: bool, head: int, latch: int, body: Collection[int]) -> ir.Var:
        """Return the variable that counts the steps from 0."""
        unknown = _Serial("how many there are is not known before the last")
        if not isinstance(test, ir.Scalar) or test.op != "lt" or not up:
            raise unknown
        index = test.args[0]
        places = [(k, i) for k, b in enumerate(self.function.blocks) for i in b.instrs if index in writes(i)]
        inside = [(k, i) for k, i in places if k in body]
        outside = [(k, i) for k, i in places if k not in body]
        if len(inside) != 1 or len(outside) != 1 or index in self.function.params:
            raise unknown
        (at, step), (origin, start) = inside[0], outside[0]
        if not isinstance(step, ir.Copy) or not isinstance(start, ir.Copy) or at != latch:
            raise unknown
        added, zero = self.single.get(step.src), self.single.get(start.src)
        if not isinstance(added, ir.Scalar) or added.op != "add" or not isinstance(zero, ir.Const) or zero.value != 0:
            raise unknown
        by = [self.single.get(v) for v in added.args if v is not index]
        if len(by) != 1 or not isinstance(by[0], ir.Const) or by[0].value != 1 or not self._once_before(origin, head):
            raise unknown
        return index

    def _once_before(self, block: int, head: int) -> bool:
        """Whether the block runs exactly once before each run of the loop at `head`."""
        around = {h for h, inside in self.loops.items() if head in inside and h != head}
        return block in self.over[head] and {h for h, inside in self.loops.items() if block in inside} == around

    def _counting(self, index: ir.Var, body: Iterable[int]) -> frozenset[int]:
        out = set()
        for i in (i for k in body for i in self.function.blocks[k].instrs):
            if index in writes(i):
                assert isinstance(i, ir.Copy)
                out |= {id(i), id(self.single[i.src])}
        return frozenset(out)

    # ---- its steps

    def _spine(self) -> tuple[int, ...]:
        """Return the blocks that every step runs once, in order."""
        loop = self.loop
        inner = set().union(
            *(inside for h, inside in self.loops.items() if h != loop.head and h in loop.body), frozenset()
        )
        spine = (loop.body - inner - {loop.head}) & self.over[loop.last]
        return tuple(sorted(spine, key=lambda k: len(self.over[k])))

    def _items(self) -> tuple[Item, ...]:
        blocks, loop, facts = self.function.blocks, self.loop, Facts(self.function)
        out: list[Item] = []
        for n, k in enumerate(self.spine):
            for i in blocks[k].instrs:
                if id(i) not in loop.step or self._read_beside(i):
                    out.append(one_item(k, i, facts))
            if k != loop.last and not (isinstance(end := blocks[k].end, ir.Jump) and end.block == self.spine[n + 1]):
                below = self.spine[n + 1]
                inside = frozenset(
                    x
                    for x in loop.body - set(self.spine) - {loop.head}
                    if k in self.over[x] and below not in self.over[x]
                )
                out.append(region_item(k, inside, below, blocks, self.over, facts))
        return tuple(out)

    def _read_beside(self, instr: ir.Instr) -> bool:
        """Whether a step reads a counter that `instr` writes: `k` of `enumerate(xs, 1)` is the next index."""
        blocks = [self.function.blocks[k] for k in self.loop.body]
        others = chain((i for b in blocks for i in b.instrs if id(i) not in self.loop.step), (b.end for b in blocks))
        written = set(writes(instr)) - {self.loop.index}
        return any(written.intersection(reads(i)) for i in others)

    def independent(self) -> tuple[Item, ...]:
        """Return the items, each with the reason why it must stay in order, or ""."""
        writers: dict[ir.Var, list[int]] = defaultdict(list)
        for n, item in enumerate(self.items):
            for v in item.writes:
                writers[v].append(n)
        several = {v: places for v, places in writers.items() if len(places) > 1}
        for item in self.items:
            if (bad := item.reads & self.loop.carried) or (bad := item.writes & self.loop.carried):
                item.reason = f"it carries {self._names(bad)} from one step to the next"
            elif item.reads & self.loop.varying:
                item.reason = "what its condition needs changes"
        mutation = self.world.mutation
        changed = True
        while changed:
            changed = False
            parted = [item for item in self.items if not item.reason]
            made = {v for item in parted for i in item.instrs for v in writes(i)}
            outside = {v for item in parted for v in item.reads} - {v for item in parted for v in item.writes}
            reached = mutation.reach(outside)
            inside = [i for item in self.items if item.reason for i in item.instrs]
            rest, called = 0, 0
            for i in inside:
                if not self._private(i):
                    rest |= mutation.changes(i)
                if changed_by(i) is None:
                    called |= mutation.changes(i)
            mine = (own_things(self.function) & made) - set(map(changed_by, inside))
            mine = {v for v in mine if not mutation.held(v) & called}
            late: dict[ir.Var, str] = {}
            unchecked: dict[object, str] = {}
            for item in self.items:
                if not item.reason:
                    item.reason = self._why(item, late, unchecked, mine, reached, rest)
                    changed |= bool(item.reason)
                if item.reason:
                    late |= dict.fromkeys(item.writes, item.reason)
                    unchecked |= dict.fromkeys(item.checks, item.reason)
            changed |= self._together(several)
        return self.items

    def _together(self, several: Mapping[ir.Var, Sequence[int]]) -> bool:
        """Keep all assignments of a variable in order if one of them, or a read before the last, stays in order."""
        changed = False
        for v, places in several.items():
            reasons = [self.items[n].reason for n in places]
            reasons += [item.reason for item in self.items[: places[-1]] if v in item.reads]
            if why := next(filter(None, reasons), ""):
                for n in places:
                    changed |= not self.items[n].reason
                    self.items[n].reason = self.items[n].reason or why
        return changed

    def _why(
        self,
        item: Item,
        late: Mapping[ir.Var, str],
        unchecked: Mapping[object, str],
        mine: Collection[ir.Var],
        reached: int,
        rest: int,
    ) -> str:
        """Return why an item cannot run before the rest of the steps before it, or "" if it can."""
        mutation = self.world.mutation
        for v in sorted(item.reads, key=lambda v: v.name):
            if v in late:
                return late[v]
        if why := next((why for fact, why in unchecked.items() if fact in item.faults), ""):
            return why
        for i in item.instrs:
            here = changed_by(i)
            if here is not None:
                if here not in mine:
                    return f"line {i.loc.line} changes {_named(here)}"
            elif mutation.changes(i) & reached:
                return f"{self.world.name(i)} changes a list or object that other steps have"
            touched = mutation.touches(i)
            if touched & rest and not (isinstance(i, ir.ListOp | ir.Load | ir.Store) and reads(i)[0] in mine):
                what = "an object" if isinstance(i, ir.Load | ir.Store) else "a list"
                return f"line {i.loc.line} needs {what} that the loop changes"
        return ""

    def _private(self, instr: ir.Instr) -> bool:
        """Whether the instruction appends to a list that nothing has seen before the loop ends."""
        return isinstance(instr, ir.ListOp) and instr.op == "append" and self._unseen(instr.args[0])

    def _unseen(self, v: ir.Var) -> bool:
        new = self.single.get(v)
        if not isinstance(new, ir.ListNew):
            return False
        blocks = self.function.blocks
        origin = next(k for k, b in enumerate(blocks) if any(i is new for i in b.instrs))
        if origin in self.loop.body or not self._once_before(origin, self.loop.head):
            return False
        for k, b in enumerate(blocks):
            if k in self.loop.body:
                for i in b.instrs:
                    if v in reads(i) and not (isinstance(i, ir.ListOp) and i.op == "append" and v not in i.args[1:]):
                        return False
                if v in reads(b.end):
                    return False
            elif self.loop.head not in self.over[k] and any(v in reads(i) for i in (*b.instrs, b.end)):
                return False
        return True

    @staticmethod
    def _names(vs: Iterable[ir.Var]) -> str:
        return listed(sorted(map(_named, vs)))

    # ---- its parts

    def live_in(self, rest: Sequence[Item]) -> set[ir.Var]:
        """Return the variables computed before that the rest of a step, or later code, reads."""
        kept = dict(self.without([item for item in self.items if item not in rest]))
        blocks = tuple(kept.get(k, b) for k, b in enumerate(self.function.blocks))
        return live_at_start(blocks)[self.loop.first]

    def appended(self, rest: Sequence[Item]) -> ir.ListOp | None:
        """Return the append if the rest of a step is nothing else and its list can be filled at once; else None."""
        if len(rest) != 1 or len(rest[0].instrs) != 1 or rest[0].blocks or self.loop.carried:
            return None
        (instr,) = rest[0].instrs
        if not isinstance(instr, ir.ListOp) or not self._private(instr) or not instr.width:
            return None
        new = self.single[instr.args[0]]
        written = {v for k in self.loop.body for i in self.function.blocks[k].instrs for v in writes(i)}
        if not isinstance(new, ir.ListNew) or new.count or written & self.live[self.loop.exit]:
            return None
        return instr

    def single_call(self, parted: Sequence[Item], results: Sequence[ir.Var], *, exact: bool) -> ir.Call | None:
        """Return the call if the independent part is one call and the computation of its arguments; else None."""
        if any(item.blocks for item in parted):
            return None
        instrs = [i for item in parted for i in item.instrs]
        last = instrs[-1]
        if not isinstance(last, ir.Call) or not self.world.waits(last) or any(map(self.world.waits, instrs[:-1])):
            return None
        if any(isinstance(i, ir.Call) for i in instrs[:-1]):
            return None
        fits = tuple(results) == last.outs if exact else set(results) <= set(last.outs)
        return last if fits else None

    def blocks(self, parted: Sequence[Item], end: ir.End) -> tuple[ir.Block, ...]:
        """Return copies of the independent part's blocks; the first is the first block of the spine."""
        kept = self.without([item for item in self.items if item not in parted], counting=False)
        order = [self.loop.first, *(k for k in sorted(kept) if k != self.loop.first)]
        number = {k: n for n, k in enumerate(order)}
        out = []
        for k in order:
            b = kept[k]
            out.append(replace(b, end=end if k == self.loop.last else retarget(b.end, number.__getitem__)))
        return tuple(out)

    def without(self, items: Sequence[Item], counting: bool = True) -> dict[int, ir.Block]:
        """Return the blocks of a step without some of its items; constants are made wherever they are read.

        With `counting` it counts on, also where an item has part in that; otherwise items alone are left.
        """
        gone = {id(i) for item in items if not item.blocks for i in item.instrs if not isinstance(i, ir.Const)}
        if counting:
            gone -= self.loop.step
        else:
            gone |= self.loop.step - {id(i) for item in self.items if item not in items for i in item.instrs}
        skipped = {item.block for item in items if item.blocks}
        blocks = self.function.blocks
        out = {}
        for n, k in enumerate(self.spine):
            b = blocks[k]
            end = ir.Jump(block=self.spine[n + 1], loc=b.end.loc) if k in skipped else b.end
            out[k] = ir.Block(instrs=tuple(i for i in b.instrs if id(i) not in gone), end=end)
        for item in self.items:
            if item.blocks and item not in items:
                out |= {k: blocks[k] for k in item.blocks}
        return out


def _named(v: ir.Var) -> str:
    return "what it has joined" if v.name.startswith("#") else f"`{v.name}`"


def _is_new(instr: ir.Instr, v: ir.Var) -> bool:
    return isinstance(instr, ir.ListNew) and instr.out is v


def _as_type(word: Word) -> Type:
    """Return a type whose values take this word."""
    return union(*map(StructT, word.classes)) if isinstance(word, RefT) else word


def _empty(word: Word) -> int | float | bool | None:
    match word:
        case IntT():
            return 0
        case FloatT():
            return 0.0
        case BoolT():
            return False
    return None
