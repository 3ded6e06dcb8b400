"""Concurrent calls and function parts that may wait. See `analysis.fibers.fork`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from acronumba.analysis.fibers.world import Facts, Item, World, listed, one_item
from acronumba.ir.nodes import Call, Function, Instr, Join, Spawn, Var
from acronumba.ir.visit import writes


class Scheduler:
    """Spawns the calls of each basic block of one function."""

    def __init__(self, world: World, function: Function) -> None:
        self.world = world
        self.function = function
        self.facts = Facts(function)

    def run(self) -> Function:
        blocks = tuple(replace(b, instrs=self._block(k, b.instrs)) for k, b in enumerate(self.function.blocks))
        return replace(self.function, blocks=blocks)

    def _block(self, block: int, instrs: tuple[Instr, ...]) -> tuple[Instr, ...]:
        if any(isinstance(i, Spawn) for i in instrs):
            return instrs
        joins = [k for k, i in enumerate(instrs) if isinstance(i, Join)]
        first = joins[-1] + 1 if joins else 0
        return (*instrs[:first], *self._part(block, instrs[first:]))

    def _part(self, block: int, instrs: tuple[Instr, ...]) -> tuple[Instr, ...]:
        items = [one_item(block, i, self.facts) for i in instrs]
        waiting = [k for k, i in enumerate(instrs) if self.world.waits(i)]
        if len(waiting) < 2:
            return instrs
        needs = dependents(self.world, items)
        turns = take_turns(self.world, items, needs)
        groups = [spawned for _, spawned in turns if spawned]
        if not groups:
            self._tell_serial(instrs, waiting, needs)
            return instrs
        out: list[Instr] = []
        for done, spawned in turns:
            out += [self._spawn(instrs[k]) if k in spawned else instrs[k] for k in done]
            if spawned:
                outs = tuple(v for k in spawned for v in writes(instrs[k]))
                out.append(Join(outs=outs, loc=instrs[spawned[-1]].loc))
                for k in spawned:
                    others = [self.world.name(instrs[j]) for j in spawned if j != k] or ["what is read after it"]
                    told = f"runs beside {listed(others)}: they are independent"
                    self.world.note(instrs[k].loc, "fibers", told)
        return tuple(out)

    @staticmethod
    def _spawn(instr: Instr) -> Spawn:
        assert isinstance(instr, Call)
        return Spawn(outs=instr.outs, into=None, function=instr.function, args=instr.args, loc=instr.loc)

    def _tell_serial(self, instrs: Sequence[Instr], waiting: Sequence[int], needs: Sequence[set[int]]) -> None:
        """Note why calls of a block follow each other."""
        for n, k in enumerate(waiting):
            if isinstance(instrs[k], Call) and n:
                before = sorted(_closure(k, needs) & set(waiting[:n]))
                if before:
                    why = f"waits for {self.world.name(instrs[before[-1]])}, whose result it needs"
                    lists = self.world.mutation
                    first, second = instrs[before[-1]], instrs[k]
                    if lists.changes(first) & lists.touches(second) or lists.touches(first) & lists.changes(second):
                        why = f"waits for {self.world.name(first)}: one changes a list or object that the other has"
                    self.world.note(instrs[k].loc, "serial", why)


def dependents(world: World, items: Sequence[Item]) -> list[set[int]]:
    """Return for each item the numbers of the items that must come before it."""
    out: list[set[int]] = []
    writer: dict[Var, int] = {}
    readers: dict[Var, list[int]] = defaultdict(list)
    changes = [_union(map(world.mutation.changes, item.instrs)) for item in items]
    touches = [_union(map(world.mutation.touches, item.instrs)) | c for item, c in zip(items, changes, strict=True)]
    for k, item in enumerate(items):
        needs = {writer[v] for v in item.reads if v in writer}
        for v in item.writes:
            needs |= {*readers[v], *({writer[v]} if v in writer else ())}
        needs |= {j for j in range(k) if changes[j] & touches[k] or touches[j] & changes[k]}
        needs |= {j for j in range(k) if items[j].checks & item.faults}
        out.append(needs)
        for v in item.reads:
            readers[v].append(k)
        for v in item.writes:
            writer[v], readers[v] = k, []
    return out


def _union(sets: Iterable[int]) -> int:
    out = 0
    for x in sets:
        out |= x
    return out


def take_turns(world: World, items: Sequence[Item], needs: Sequence[set[int]]) -> list[tuple[list[int], list[int]]]:
    """Return a list of turns, the items between two joins: all of them in order, and the calls that are spawned."""

    def waits(k: int) -> bool:
        return any(map(world.waits, items[k].instrs))

    def turn(left: Sequence[int], alone: Collection[int]) -> tuple[list[int], list[int], list[int]]:
        done: list[int] = []
        spawned: list[int] = []
        late: list[int] = []
        awaited: set[int] = set()
        for k in left:
            if needs[k] & awaited:
                late.append(k)
                awaited.add(k)
                continue
            done.append(k)
            if k not in alone and waits(k) and isinstance(items[k].instrs[0], Call):
                spawned.append(k)
                awaited.add(k)
        return done, spawned, late

    out: list[tuple[list[int], list[int]]] = []
    left = list(range(len(items)))
    while left:
        alone: set[int] = set()
        while True:
            done, spawned, late = turn(left, alone)
            if not spawned or any(map(waits, done[done.index(spawned[0]) + 1 :])):
                break
            alone.add(spawned[0])  # nothing else waits while it does
        out.append((done, spawned))
        left = late
    return out


def _closure(k: int, needs: Sequence[set[int]]) -> set[int]:
    """Return all that must come before an instruction."""
    out: set[int] = set()
    work = [k]
    while work:
        new = needs[work.pop()] - out
        out |= new
        work += new
    return out
