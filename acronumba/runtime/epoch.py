"""A run that instances join and leave between rounds, for programs with sync points.

In: an executable and shared values; then, between two rounds, the words of joining instances, and the numbers of
withdrawn ones. Out: after each round, the instances that have left, each with a result or a failure.

An epoch has a slot for each instance that ever joins it, since frames hold addresses of results. Rows, lists and frames
stay until the epoch is over. Most memory is tensors: an arena is released as soon as all instances have left that were
present while rounds wrote to it. So copy the results of an instance before `forget`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from acronumba.data.buffers import Copying
from acronumba.memory import Array, Words, address
from acronumba.records import record
from acronumba.runtime import state
from acronumba.runtime.driver import Executable
from acronumba.runtime.recorded import Failure
from acronumba.runtime.shared import SharedValue

_HEAP = 16 << 20  # bytes of rows, lists and frames, beyond which an epoch takes no more instances
_ARENAS = 256 << 20  # ... of tensors


@record(kw_only=True)
class Left:
    """An instance that has left an epoch."""

    number: int
    failure: Failure | None  # in place of a result


@record(frozen=False)
class _Given:
    """Arrays of the instances that have joined together."""

    arrays: list[tuple[int, Array]]  # with their addresses
    users: int  # instances that have not left


class Epoch:
    """A run that instances join and leave.

    Parameters
    ----------
    executable
        Of a program that waits; it runs on the CPU.
    shared
        See `Executable.run`; arrays in it do not change any more.
    slots
        Maximum number of instances that can join.
    keep
        The arrays that shared values point into.
    bell : int64[1]
        Whether `round` is to return after the round that runs, even if nobody has left.
    """

    def __init__(
        self, executable: Executable, shared: Sequence[SharedValue], slots: int, keep: Sequence[Array], bell: Words
    ) -> None:
        self._executable, self._recorded = executable, executable.recorded
        self._m = executable.epoch(shared, slots, keep)
        self._bell = bell
        executable.engine.reach(bell)
        self._buffers = self._m.buffers
        self._reader = Copying()  # of the memory that results may refer to
        given = {address(a): a for a in keep if a.nbytes}
        for base, array in {**given, **self._recorded.memory, **self._m.prepared.memory}.items():
            self._reader.add(base, array)
        self._own: dict[int, object] = {}  # chunks of the heap and arenas that the reader knows, by their addresses
        self._slots = slots
        self._failed = 0  # failures of the machine that were looked at
        self._closed: list[int] = []  # of each arena but the last: how many had joined when it was full
        self._unwanted: list[int] = []  # withdrawn before they began
        self._there: dict[int, _Given] = {}  # who is there, in the order of joining, and its arrays

    def __len__(self) -> int:
        """Number of instances that have joined and were not forgotten."""
        return len(self._there)

    @property
    def room(self) -> int:
        """Number of instances that can still join."""
        used = self._buffers["top"] - self._buffers.starts[self._buffers.used - 1]
        used += sum(c.nbytes for c in self._buffers.chunks[: self._buffers.used - 1])
        if used > _HEAP or self.bytes > _ARENAS:
            return 0
        return self._slots - self._buffers["instances"]

    @property
    def bytes(self) -> int:
        """Bytes of tensors."""
        m = self._m
        return sum(a.size for a in m.arenas[:-1]) + self._buffers["arena"] - m.arenas[-1].address

    def join(self, roots: Words, keep: Sequence[Array]) -> range:
        """Add instances from the next round on; return their numbers.

        Parameters
        ----------
        roots : int64[n, words]
            The words of their positional parameters; n is at most `room`.
        keep
            The arrays that these point into.
        """
        for array in keep:
            self._executable.engine.reach(array)
        first = self._buffers["instances"]
        numbers = range(first, first + len(roots))
        self._m.roots[numbers.start : numbers.stop] = roots
        given = _Given([(address(array), array) for array in keep if array.nbytes], len(numbers))
        for base, array in given.arrays if given.users else ():
            self._reader.add(base, array)
        self._there.update(dict.fromkeys(numbers, given))
        self._buffers["instances"] = self._buffers["part_end"] = numbers.stop
        return numbers

    def withdraw(self, number: int) -> None:
        """Make an instance leave without a result; an instance that has not begun leaves after its first round."""
        if number >= self._buffers["next"]:
            self._unwanted.append(number)
        elif number in self._there:
            self._buffers.lives[number] = state.DEAD
            self.forget([number])

    @property
    def rounds(self) -> int:
        """Rounds that have run."""
        return self._buffers["rounds"]

    def round(self, alone: bool = False) -> list[Left]:
        """Run until all instances wait; return those that have left. Their results are valid until `forget`.

        Parameters
        ----------
        alone : bool
            Whether further rounds may follow, as long as nobody leaves and the bell is 0.

        Raises
        ------
        MemoryError, TooLarge
            The epoch cannot go on.
        """
        m, buffers = self._m, self._buffers
        if buffers["stage"] == state.EXECUTED:
            buffers["kept"] = self.bytes
            buffers["more"] = 1  # go on, even if all who were there have left
            buffers["single"] = 2
        arenas = len(m.arenas)
        self._executable.round(m, address(self._bell) if alone and not self._unwanted else 0)
        self._closed += [buffers["instances"]] * (len(m.arenas) - arenas)
        if buffers["failures"]:
            self._executable.memory_policy.fail_nodes(m)
        failures, m.failures = m.failures, {}
        for number, failure in self._recorded.failed_on_host(buffers, self._failed):
            failures[number] = failure
            self._failed += 1
        ended = buffers.tables["ended"][: buffers["ended_count"]].tolist()
        buffers["ended_count"] = 0
        left = dict.fromkeys(ended) | failures
        while self._unwanted:
            self.withdraw(self._unwanted.pop())
        return [Left(number=k, failure=failure) for k, failure in left.items() if k in self._there]

    def words(self, numbers: Sequence[int]) -> Words:
        """Return the words of the results of instances that have left: int64[n, words]."""
        width = self._recorded.result_words
        found: Words = self._buffers.results[: self._slots * width].reshape(self._slots, width)[list(numbers)]
        return found

    def reader(self) -> Copying:
        """Return a reader of the results of instances that have left; it is valid until the next round."""
        buffers, arenas = self._buffers, self._m.arenas
        own: dict[int, object] = dict(zip(buffers.starts[: buffers.used], buffers.chunks, strict=False))
        own.update((arena.address, arena) for arena in arenas)
        for base in [base for base, part in self._own.items() if own.get(base) is not part]:
            self._unread(base)
        for base, part in own.items():
            if base not in self._own:
                self._reader.add(base, np.asarray(part))
        self._own = own
        return self._reader

    def _unread(self, base: int) -> None:
        """Remove a chunk or an arena from the reader."""
        if self._own.pop(base, None) is not None:
            self._reader.remove(base)

    def forget(self, numbers: Collection[int]) -> None:
        """Release memory that only these instances needed."""
        for number in numbers:
            given = self._there.pop(number)
            given.users -= 1
            for base, _ in () if given.users else given.arrays:
                self._reader.remove(base)
        oldest = next(iter(self._there), self._slots)
        while self._closed and self._closed[0] <= oldest:
            self._unread(self._m.arenas[0].address)
            del self._closed[0], self._m.arenas[0]

    def close(self) -> None:
        """Release all memory; the epoch cannot be used any more."""
        for base in [*self._own]:
            self._unread(base)
        self._m.arenas.clear()
        self._buffers.note_run()
        self._buffers.trim()
        self._executable.give_buffers(self._buffers)
