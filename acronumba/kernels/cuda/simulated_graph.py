"""Graphs of kernels in the simulator: nodes begin before those of the level before have ended.

In: for each level, its nodes. Out: arrays change as a GPU would change them. Threads of two levels run at once, in any
order. Behind its gate a block sees what earlier levels have stored. An error is what a GPU would not report: in front
of it a block reads what an earlier node stores, or stores something; or a node reads what another of its level stores.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from acronumba.emit import interpret
from acronumba.kernels.cuda.cpu_memory import Race
from acronumba.kernels.cuda.simulator import _TYPES, Simulator

T = TypeVar("T")
_EARLY = 0.3  # of turns, that nodes of the next level get


class _Memory:
    """Words of 4 bytes that nodes have stored, by level and node, or have read in front of their gates."""

    def __init__(self) -> None:
        self.stored: dict[int, tuple[int, object]] = {}
        self.early: dict[int, int] = {}  # the last level


class GraphNode(Simulator):
    """A node of a graph: a kernel of a text, which runs once."""

    def __init__(
        self, text: str, memory: interpret.InterpreterMemory, seed: int = 0, extra: Mapping[str, object] | None = None
    ) -> None:
        gate = {"next_may_begin": self._next_may_begin, "earlier_have_ended": self._earlier_have_ended}
        super().__init__(text, memory, seed, {**(extra or {}), **gate})
        self.may_begin: set[int] = set()  # blocks that have said that the next nodes may begin,
        self.behind: set[int] = set()  # ... and that are behind their gate
        self.first = False  # whether all earlier nodes have ended

    def place(self, level: int, what: _Memory) -> None:
        """Watch what the node loads and stores, as one of a level."""
        self.level, self.what = level, what
        for t, ty in _TYPES.items():
            size = ty.bits // 8
            self.loads[t] = self._watched(self.loads[t], self._read, size)
            self.stores[t] = self._watched(self.stores[t], self._stored, size)

    @property
    def lets_begin(self) -> bool:
        """Whether the next nodes may begin."""
        return all(t.block.number in self.may_begin for t in self.alive)

    def _next_may_begin(self) -> None:
        self.may_begin.add(self.current.block.number)

    def _earlier_have_ended(self) -> None:
        while not self.first:
            self.looking += 1
            self.looking_out = True
            self._another()
        self.behind.add(self.current.block.number)

    @staticmethod
    def _watched(does: Callable[..., T], watch: Callable[[int], None], size: int) -> Callable[..., T]:
        def watched(address: int, *value: object) -> T:
            for at in range(address, address + size, 4):
                watch(at)
            return does(address, *value)

        return watched

    def _inside(self, at: int) -> bool:
        return any(a.ctypes.data <= at < a.ctypes.data + a.nbytes for a in self.current.block.shared.values())

    def _read(self, at: int) -> None:
        level, node = self.what.stored.get(at, (-1, None))
        if level == self.level and node is not self:
            raise Race(f"a node of level {level} reads what another one stores")
        if self.current.block.number not in self.behind:
            if level >= 0:
                raise Race(f"a node of level {self.level} reads in front of its gate what level {level} stores")
            self.what.early[at] = self.level

    def _stored(self, at: int) -> None:
        if self._inside(at):
            return
        if self.current.block.number not in self.behind:
            raise Race(f"a node of level {self.level} stores something in front of its gate")
        if self.what.early.get(at, -1) > self.level:
            raise Race(f"a node of level {self.level} stores what level {self.what.early[at]} has read before its gate")
        self.what.stored[at] = self.level, self


def run(
    levels: Sequence[Sequence[tuple[Callable[[], GraphNode], str, int, int, int]]], threads: int, chance: random.Random
) -> None:
    """Run a graph. A node is what makes its simulator, its function, numbers of blocks, its parameter, and its pool."""
    memory = _Memory()
    running: list[list[GraphNode]] = []  # of the level at hand, and of the next one, if it has begun
    begun = 0
    try:
        while running or begun < len(levels):
            may = begun < len(levels) and len(running) < 2 and all(node.lets_begin for one in running for node in one)
            if may and (not running or chance.random() < _EARLY):
                running.append([])
                for make, entry, blocks, row, shared in levels[begun]:
                    node = make()
                    running[-1].append(node)
                    node.begin(entry, blocks, threads, row, shared=shared)
                    node.place(begun, memory)
                begun += 1
            for node in running[0]:
                node.first = True
            level = running[1] if len(running) > 1 and chance.random() < _EARLY else running[0]
            node = chance.choice(level or running[0])
            if node.alive:
                node.turn()
            while running and not any(node.alive for node in running[0]):
                for node in running.pop(0):
                    node.end()
    finally:
        for node in [node for one in running for node in one]:
            node.end()
