"""The specialisations that are kept: of a model by its options, and of all models of the process together.

In: what was compiled. Out: what fits a call; what was not used for longest is forgotten.
"""

from __future__ import annotations

import itertools
import types
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from acronumba.api.arguments import Call
from acronumba.config import Options
from acronumba.data.shared import describe, shared_key
from acronumba.locks import ForkLock, undivided

if TYPE_CHECKING:
    from acronumba.data.extents import Columns
    from acronumba.data.pack import Batch
    from acronumba.pipeline.compiled import Compiled


FEW = 8  # specialisations kept per model and set of options,
MANY = 512  # and by all models of the process together: the last used ones,
MODULES = 4096  # as long as they have no more modules of machine code: each takes two to four memory maps

CACHES: weakref.WeakSet[Cache] = weakref.WeakSet()
clock = itertools.count()  # when a specialisation was used last
_keeping = ForkLock()  # held while `CACHES`, or the lists of specialisations, change


class Fit(NamedTuple):
    """A specialisation that fits a call."""

    compiled: Compiled
    leaves: list[Any]  # the values of its shared leaves
    packed: Batch | None  # the instances, if they are wanted


def keep(compiled: Compiled, entries: list[Compiled]) -> None:
    """Add a specialisation to those of a model; forget those that were not used for longest where there are too many.

    What is forgotten lives on as long as a mini-batch runs it, or results of it are held.
    """
    compiled.used = next(clock)
    with _keeping:
        entries.insert(0, compiled)
        _forget([(c, entries) for c in entries], FEW)
        lists = [of for cache in CACHES for of in cache.entries.values()]
        _forget([(c, of) for of in lists for c in of], MANY)


def _forget(kept: Sequence[tuple[Compiled, list[Compiled]]], most: int) -> None:
    modules = 0
    for number, (compiled, entries) in enumerate(sorted(kept, key=lambda pair: -pair[0].used)):
        modules += compiled.modules
        if number >= most or modules > MODULES:
            entries.remove(compiled)


def fitting(entries: Iterable[Compiled], fn: types.FunctionType, call: Call) -> tuple[Compiled, list[Any]] | None:
    """Return the first specialisation of a function that fits a call, and the values of its shared leaves."""
    for compiled in tuple(entries):
        if compiled.fn is not fn:
            continue
        leaves = compiled.leaves(call.shared, call.frozen)
        if leaves is not None and len(compiled.schema.params) == len(call.columns) and compiled.fits(call.columns):
            return compiled, leaves
    return None


class Cache:
    """The specialisations of a model, by options; shared by the models that come from one another."""

    def __init__(self, entries: Mapping[Options, list[Compiled]] | None = None) -> None:
        self.entries: dict[Options, list[Compiled]] = dict(entries or {})
        self.lock = ForkLock()  # held while something is compiled
        self.columns: Columns | None = None  # in the mini-batches that something was compiled for
        # By the types of mini-batches that are refused as a whole: what their groups ran with, the oldest first.
        self.apart: dict[Any, tuple[weakref.ref[Compiled], ...]] = {}
        with _keeping:
            CACHES.add(self)

    def of(self, options: Options) -> list[Compiled]:
        """Return the specialisations with some options, the last compiled first: the list itself."""
        with _keeping:
            return self.entries.setdefault(options, [])

    def remember(self, call: Call, parts: Iterable[Compiled]) -> None:
        """Note that such a mini-batch is refused as a whole, and what its groups ran with."""
        key = self.key(call)
        with _keeping:
            self.apart.pop(key, None)
            self.apart[key] = tuple(map(weakref.ref, parts))
            while len(self.apart) > FEW:
                del self.apart[next(iter(self.apart))]

    @staticmethod
    def key(call: Call) -> Any:
        """Return what the answer of the front end to a call depends on, besides globals."""
        with undivided:
            from acronumba.data.extents import with_columns
            from acronumba.data.pack import infer
        schema = with_columns(infer(call.columns), ())
        return schema.key, tuple(map(shared_key, describe(call.shared).roots.values()))
