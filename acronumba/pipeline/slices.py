"""How many instances of a mini-batch run at once: all, or as many as there is memory for.

In: what runs some instances. It is asked for all of them; where they do not fit, for halves, halves of halves and so
on, down to instances alone. How many have fitted is known to the next mini-batch. Out: the instances that do not fit
alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from acronumba.data.buffers import Words
from acronumba.errors.codes import refuse

_ALL = 1 << 40  # instances: more than there are
_SHOWN = 4  # of instances that took more than others: if so many do not fit alone, most of the others do not


class Work(Protocol):
    """Runs some instances."""

    def __call__(self, places: Words, tight: bool) -> Sequence[int]:
        """Run instances and return which of them, by their order, found no memory beside the others.

        `tight`: memory is to grow by little, as more at once have found none. An instance that alone finds none then
        has failed, and is not returned.

        Raises
        ------
        MemoryError
            If they do not fit; `runtime.memory_policy.TooLarge` says more.
        """


class Slices:
    """How many instances of a specialisation run at once."""

    def __init__(self) -> None:
        self.most = _ALL  # that fit into memory at once, about
        self.calm, self.patience = 0, 2  # mini-batches that have run since that changed, and how many there shall be

    def run(self, count: int, work: Work) -> list[int]:
        """Let so many instances run; return those that do not fit alone."""
        turn = _Turn(work, self.most, count)
        turn.run(np.arange(count))
        self._went(turn.most)
        return turn.lost

    def _went(self, fitted: int) -> None:
        """Note how many instances at once fitted into memory at worst: after some mini-batches more are tried again."""
        if fitted < self.most:
            self.most, self.calm, self.patience = fitted, 0, 2 * self.patience
        elif self.most < _ALL:
            self.calm += 1
            if self.calm == self.patience:
                self.most, self.calm = 2 * self.most, 0


class _Turn:
    """A mini-batch that runs.

    Parameters
    ----------
    work
        Runs instances.
    most
        So many at once.
    count
        Of all instances.
    """

    def __init__(self, work: Work, most: int, count: int) -> None:
        self._work, self.most, self._count = work, most, count
        self.lost: list[int] = []  # that do not fit alone

    def run(self, places: Words) -> None:
        """Run instances: in halves of halves, so that where sums are cut does not depend on what has failed."""
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
        """Run instances; return those that have not run, by what is to be done, and how many may fit at once.

        The first of them may fit together, the next should run alone each, and the last apart from the others. None:
        all have run, or are lost.
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
        """Run instances that took by far the most steps, the worst first."""
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
        """Run instances alone, the last first, up to one that does not fit; those before it took more steps."""
        for k in reversed(range(len(places))):
            if self._try(places[k : k + 1], True) is not None:
                self._lose(places[: k + 1])
                return


@contextmanager
def memory_refused() -> Iterator[None]:
    """Refuse a mini-batch that needs too much memory."""
    try:
        yield
    except MemoryError as error:
        raise refuse("ACR704", seen=str(error)) from None
