"""Slices of a mini-batch that fit into memory: all instances at once, or fewer.

In: a function that runs some instances. It is called for all instances; if they do not fit, for halves, quarters and so
on, down to single instances. The next mini-batch starts with the number that fitted. Out: the instances that do not fit
alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from acronumba.errors.codes import reject
from acronumba.memory import Words, numbers

_ALL = 1 << 40  # more instances than any mini-batch has
_SHOWN = 4  # sample of large instances: if so many do not fit alone, most of the others do not either


class Work(Protocol):
    """Runs some instances."""

    def __call__(self, places: Words, tight: bool) -> Sequence[int]:
        """Run instances and return the indices of those that found no memory beside the others.

        `tight`: memory is to grow by little, since more instances at once have found none. A single instance that finds
        none then has failed, and is not returned.

        Raises
        ------
        MemoryError
            If they do not fit; `runtime.memory_policy.TooLarge` has details.
        """


class Slices:
    """The number of instances of a specialisation that run at once, adapted to the memory."""

    def __init__(self) -> None:
        self.most = _ALL  # about the number of instances that fit into memory at once
        self.calm, self.patience = 0, 2  # mini-batches since `most` changed, and the number before it is raised

    def run(self, count: int, work: Work) -> list[int]:
        """Run `count` instances; return those that do not fit alone."""
        places = numbers(count)
        if count <= self.most:
            try:
                crowded = work(places, False)
            except MemoryError as error:
                work = _After(work, error)
            else:
                if not crowded:
                    self._went(self.most)
                    return []
                work = _After(work, crowded)
        turn = _Turn(work, self.most, count)
        turn.run(places)
        self._went(turn.most)
        return turn.lost

    def _went(self, fitted: int) -> None:
        """Update `most` with the smallest number of instances that fitted; after `patience` mini-batches try more."""
        if fitted < self.most:
            self.most, self.calm, self.patience = fitted, 0, 2 * self.patience
        elif self.most < _ALL:
            self.calm += 1
            if self.calm == self.patience:
                self.most, self.calm = 2 * self.most, 0


class _After:
    """Work that has begun: its first call returns or raises what a call for all instances has returned or raised."""

    def __init__(self, work: Work, first: Sequence[int] | MemoryError) -> None:
        self._work = work
        self._first: Sequence[int] | MemoryError | None = first

    def __call__(self, places: Words, tight: bool) -> Sequence[int]:
        first, self._first = self._first, None
        if isinstance(first, MemoryError):
            raise first
        return self._work(places, tight) if first is None else first


class _Turn:
    """The execution of one mini-batch.

    Parameters
    ----------
    work
        Runs instances.
    most
        Largest number of instances at once.
    count
        Number of all instances.
    """

    def __init__(self, work: Work, most: int, count: int) -> None:
        self._work, self.most, self._count = work, most, count
        self.lost: list[int] = []  # that do not fit alone

    def run(self, places: Words) -> None:
        """Run instances by repeated halving, so that the split of sums does not depend on failures."""
        todo, alone, suspects = deque([places]), list[Words](), list[Words]()
        while todo:
            piece = todo.popleft()
            if len(piece) > self.most:
                todo.extendleft(reversed(np.array_split(piece, 2)))
                continue
            tight = self.most < self._count
            again = self._try(piece, tight)
            if again is None:
                continue
            left, own, worst, most = again
            if len(piece) == 1:
                (self._lose if tight else alone.append)(piece)
                continue
            alone.append(own)
            suspects.append(worst)
            if len(left) == len(piece):
                self.most = max(1, min(most, len(piece) // 2))
            if len(left):
                todo.appendleft(left)
        for place in np.concatenate(alone) if alone else ():
            if self._try(piece := np.array([place]), True) is not None:
                self._lose(piece)
        if suspects:
            self._suspects(np.concatenate(suspects))

    def _lose(self, places: Words) -> None:
        self.lost += places.tolist()

    def _try(self, piece: Words, tight: bool) -> tuple[Words, Words, Words, int] | None:
        """Run instances; return those that have not run, in three groups, and the number that may fit at once.

        The first group may fit together, each of the second should run alone, and the third apart from the others.
        None: all instances have run, or are lost.
        """
        none = piece[:0]
        try:
            crowded = self._work(piece, tight)
            return (none, piece[[*crowded]], none, len(piece)) if crowded else None
        except MemoryError as error:
            surely, alone, suspects = (getattr(error, name, []) for name in ("surely", "alone", "suspects"))
            most = getattr(error, "most", len(piece))
        self._lose(piece[surely])
        others = np.setdiff1d(np.arange(len(piece)), [*surely, *alone, *suspects])
        left = len(others) + len(alone) + len(suspects)
        return (piece[others], piece[alone], piece[suspects], most) if left else None

    def _suspects(self, places: Words) -> None:
        """Run the instances that took by far the most steps, the worst first."""
        size, shown = len(places), 0
        while len(places):
            piece, places = places[:size], places[size:]
            again = self._try(piece, True)
            if again is None:
                shown = 0
            elif size > 1:
                places, size = np.concatenate([*again[:3], places]), max(1, size // 4)
            else:
                shown += 1
                self._lose(piece)
                if shown == _SHOWN:
                    self._least_first(places)
                    return

    def _least_first(self, places: Words) -> None:
        """Run instances alone, from the last one down to one that does not fit; those before it took more steps."""
        for k in reversed(range(len(places))):
            if self._try(places[k : k + 1], True) is not None:
                self._lose(places[: k + 1])
                return


@contextmanager
def memory_rejected() -> Iterator[None]:
    """Reject a mini-batch that needs too much memory."""
    try:
        yield
    except MemoryError as error:
        raise reject("ACR704", seen=str(error)) from None
