"""Memory of the CPU as kernels in the simulator reach it: by words, in the order of flags that say what is there.

In: arrays that both sides may access. Out: what `look`, `give`, `seen` and `tell` of a kernel's text do. The CPU sees
what a kernel has stored (`give`) only when it is told (`tell`): a word that is told before all these stores have been
waited for is an error, as is a word of the CPU that changes between the time when the kernel has read it and the time
when it tells of the results.
"""

from __future__ import annotations

import bisect
import ctypes
import weakref
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Race(Exception):
    """Something is read before it is known to be there."""


class Block(Protocol):
    """A simulated block."""

    number: int
    published: int  # times
    knows: dict[int, int]  # of each other block: how often it had published
    meets: int  # barriers of the block that it has passed


class _Given(NamedTuple):
    at: int
    value: int
    block: Block
    published: int
    meets: int
    thread: int


class CpuMemory:
    """Arrays of the CPU that a GPU may access."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._given: list[_Given] = []  # stores that the CPU does not see yet
        self._looked: dict[int, int] = {}  # words of the CPU that were read since it was told something

    def add(self, array: NDArray[np.uint8]) -> None:
        """Make an array accessible, as long as it lives."""
        start = array.ctypes.data
        k = bisect.bisect_left(self._starts, start)
        self._starts.insert(k, start)
        self._ends.insert(k, start + array.nbytes)
        owner = array if array.base is None else array.base
        weakref.finalize(owner, self._remove, start).atexit = False

    def _remove(self, start: int) -> None:
        k = bisect.bisect_left(self._starts, start)
        del self._starts[k], self._ends[k]

    def _word(self, at: int) -> ctypes.c_int64:
        k = bisect.bisect_right(self._starts, at) - 1
        if at % 8 or k < 0 or at + 8 > self._ends[k]:
            raise IndexError(f"{at:#x} is no word of the CPU that the GPU may access")
        return ctypes.c_int64.from_address(at)

    def seen(self, at: int) -> int:
        """Return a word that says what is there."""
        return self._word(at).value

    def look(self, at: int) -> int:
        """Return a word."""
        return self._looked.setdefault(at, self._word(at).value)

    def give(self, at: int, value: int, block: Block, thread: int) -> None:
        """Store a word, which the CPU sees later."""
        self._word(at)
        self._given.append(_Given(at, value, block, block.published, block.meets, thread))

    def tell(self, at: int, value: int, block: Block, thread: int) -> None:
        """Store a word that says that all that was given before is there."""
        for one in self._given:
            own = one.block is block and (one.thread == thread or one.meets < block.meets)
            if not own and block.knows.get(one.block.number, 0) <= one.published:
                raise Race(f"block {block.number} tells of what block {one.block.number} has not stored yet")
        changed = [k for k, was in self._looked.items() if self._word(k).value != was]
        if changed:
            raise Race(f"the CPU has changed {changed[0]:#x} while the kernel was using it")
        self.flush()
        self._word(at).value = value

    def flush(self) -> None:
        """Let the CPU see all."""
        for one in self._given:
            self._word(one.at).value = one.value
        self._given.clear()
        self._looked.clear()
