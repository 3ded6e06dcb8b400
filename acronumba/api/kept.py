"""Shared values of earlier calls, and what follows from their structure alone, for as long as they are unchanged.

In: the shared values of a call. Out: a `Kept`, if they are the same objects with the same parts, whose arrays lie where
they lay with the same form. Elements of arrays may have changed: what depends on them is computed in each call.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from operator import is_
from typing import TYPE_CHECKING

from acronumba.data.skeleton import Skeleton
from acronumba.data.tables import PLAIN_ARRAYS
from acronumba.generics import Value
from acronumba.runtime.watched import WatchedArrays

if TYPE_CHECKING:
    from acronumba.api.arguments import Call
    from acronumba.api.known import Known
    from acronumba.api.wanted import Choices, Selection
    from acronumba.pipeline.compiled import Compiled
    from acronumba.pipeline.gradients import Asked
    from acronumba.runtime.run import Run

MOST = 2  # that a model keeps: each holds the user's values
TRIES = 4  # calls without any of use, after which only each `RARELY`-th call is kept
RARELY = 32


class Ready:
    """A specialisation with its backward pass, for some values of its shared leaves.

    Attributes
    ----------
    tensors : dict of int to int
        From numbers of shared tensors to the ids of their arrays.
    tables : list of int
        Of these, the tables whose gradients are by rows.
    packed : frozenset of int
        Numbers of shared objects and lists with selected arrays.
    """

    def __init__(self, compiled: Compiled, leaves: Sequence[Value], wanted: Selection, aux: bool, device: str) -> None:
        from acronumba.pipeline.gradients import trained

        self.leaves, self.wanted, self.device = leaves, wanted, device
        self.tensors = wanted.tensors(compiled, leaves)
        self.tables = [n for n, key in self.tensors.items() if wanted.by_rows(key)]
        self.packed = wanted.packed(compiled, leaves)
        self.there = trained(compiled, frozenset(self.tensors), aux, frozenset(wanted.columns), self.packed, device)

    def asked_of_shared(self, run: Run) -> Sequence[Asked]:
        """Return the selected arrays of shared objects and lists of a run."""
        return self.wanted.asked_of_shared(self.there.compiled, self.leaves, run)


class Kept:
    """Shared values of a call, as they were, and the selection of their gradients."""

    def __init__(self, fn: types.FunctionType, choices: Choices, call: Call, wanted: Selection) -> None:
        self._fn, self._choices, self._frozen = fn, choices, call.frozen
        self._names, self._values = tuple(call.shared), tuple(call.shared.values())
        self._skeleton = Skeleton(self._values)
        self._watched = WatchedArrays([v for v in self._skeleton.leaves if type(v) in PLAIN_ARRAYS])
        self.wanted = wanted
        self._ready: tuple[Ready, ...] = ()  # the last one first; replaced as a whole
        self.fixed = self._skeleton.fixed
        self.known: Known | None = None  # see `api.known`

    def holds(self, fn: types.FunctionType, choices: Choices, call: Call) -> bool:
        """Whether a call has these shared values, unchanged but for elements of arrays."""
        return (
            len(call.shared) == len(self._values)
            and all(map(is_, call.shared.values(), self._values))
            and tuple(call.shared) == self._names
            and call.frozen == self._frozen
            and self.is_for(fn, choices)
            and self.is_unchanged()
        )

    def is_for(self, fn: types.FunctionType, choices: Choices) -> bool:
        """Whether this is of a function, and of these arguments of `value_and_grad`."""
        return fn is self._fn and (choices is self._choices or choices == self._choices)

    def is_unchanged(self) -> bool:
        """Whether the shared values have the parts that they had, and their arrays lie where they lay."""
        return self._skeleton.is_unchanged() and self._watched.are_unchanged()

    def find(self, compiled: Compiled, leaves: Sequence[Value], device: str) -> Ready | None:
        """Return the entry of a specialisation and a device; outer values may be among the leaves."""
        for ready in self._ready:
            if ready.there.compiled is compiled and ready.device == device and all(map(is_, leaves, ready.leaves)):
                return ready
        return None

    def add(self, ready: Ready) -> None:
        """Keep a specialisation for these shared values."""
        self._ready = (ready, *self._ready[: MOST - 1])


class KeptCalls:
    """The shared values of the last calls of a model. Safe from several threads."""

    def __init__(self) -> None:
        self._recent: tuple[Kept, ...] = ()  # replaced as a whole
        self._misses = 0  # calls since one was of use

    def find(self, fn: types.FunctionType, choices: Choices, call: Call) -> Kept | None:
        """Return the values of an earlier call, if a call has the same."""
        for kept in self._recent:
            if kept.holds(fn, choices, call):
                self._misses = 0
                return kept
        return None

    def last(self, fn: types.FunctionType, choices: Choices) -> list[Kept]:
        """Return the values of the last calls with these choices; whether they are unchanged has to be asked."""
        return [kept for kept in self._recent if kept.is_for(fn, choices)]

    def add(self, fn: types.FunctionType, choices: Choices, call: Call, wanted: Selection) -> Kept | None:
        """Keep the values of a call; return None if changes of them could not be seen, or they seldom come again."""
        self._misses += 1
        if self._misses > TRIES and self._misses % RARELY:
            return None
        made = Kept(fn, choices, call, wanted)
        if not made.fixed:
            return None
        self._recent = (made, *self._recent[: MOST - 1])
        return made
