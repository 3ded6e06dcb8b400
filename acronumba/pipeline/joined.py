"""Runs of a specialisation that packed instances join and leave one at a time.

In: a `Compiled` that waits for values, the values of its shared leaves, then packed instances. Out: after each round,
the results and failures of the instances that have left. `runtime.epoch` runs them; this module packs and unpacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from acronumba.data.heap import Owned
from acronumba.data.result_wrappers import wrapped
from acronumba.generics import Value
from acronumba.runtime.epoch import Epoch

if TYPE_CHECKING:
    from acronumba.data.heap import Heap
    from acronumba.data.pack import Batch
    from acronumba.memory import Words
    from acronumba.pipeline.compiled import Compiled
    from acronumba.runtime.recorded import Failure


def joinable(compiled: Compiled) -> bool:
    """Whether instances can join a run: the program waits for values, and all data it reads is passed to it."""
    return not compiled.guard.reads_outer_data and compiled.artifacts.waits


class Joined:
    """A run that instances join and leave; its shared values do not change.

    Parameters
    ----------
    compiled
        A specialisation for which `joinable` is true.
    leaves
        The result of `Compiled.leaves`.
    slots
        Capacity, in instances.
    bell : int64[1]
        See `Epoch`.
    """

    def __init__(self, compiled: Compiled, leaves: Sequence[Value], slots: int, bell: Words) -> None:
        self.compiled, self.leaves = compiled, leaves
        self.rounds = 0
        given = compiled.shared.batches(leaves)
        words, keep = compiled.shared.words(None, leaves, given)
        self._shared = [heap for batch in given.values() for heap in batch.heaps]
        self._heaps: dict[int, Sequence[Heap]] = {}  # by instance in the run
        self.epoch = Epoch(compiled.executable, words, slots, keep, bell)

    def matches(self, compiled: Compiled, leaves: Sequence[Value]) -> bool:
        """Whether this is a run of a specialisation with such shared values."""
        return compiled is self.compiled and all(a is b for a, b in zip(leaves, self.leaves, strict=True))

    def join(self, packed: Batch, places: Sequence[int]) -> range:
        """Add some of the packed instances from the next round on; return their numbers."""
        numbers = self.epoch.join(packed.roots[np.asarray(places, np.int64)], packed.keep)
        self._heaps.update(dict.fromkeys(numbers, packed.heaps))
        return numbers

    def withdraw(self, number: int) -> None:
        """Remove an instance without a result, between two rounds."""
        self.epoch.withdraw(number)
        self._heaps.pop(number, None)

    def round(self, alone: bool = False) -> list[tuple[int, Value, Failure | None]]:
        """Run one or several rounds, see `Epoch.round`; return number, result and failure of instances that left."""
        left = self.epoch.round(alone)
        self.rounds = self.epoch.rounds
        done = [one.number for one in left if one.failure is None]
        results = dict(zip(done, self._results(done), strict=True)) if done else {}
        numbers = [one.number for one in left]
        self.epoch.forget(numbers)
        for number in numbers:
            del self._heaps[number]
        return [(one.number, results.get(one.number), one.failure) for one in left]

    def _results(self, numbers: Sequence[int]) -> list[Value]:
        heaps = {id(heap): heap for k in numbers for heap in self._heaps[k]}
        tables = [(heap, heap.objects) for heap in (*heaps.values(), *self._shared) if heap.objects]
        owned = Owned(tables) if tables else None
        words, reader = self.epoch.words(numbers), self.epoch.reader()
        values = self.compiled.unpacker.decoder(words, reader, owned).some(range(len(numbers)))
        return [wrapped(value, self.compiled.lowered.wrap) for value in values]
