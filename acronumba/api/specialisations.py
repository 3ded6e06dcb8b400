"""Cache of specialisations, of a model by its options, and of rejections.

In: a specialisation or rejection. Out: the specialisation that fits a call, or the rejection once more. The least
recently used entry is evicted if memory is short, but no entry that the running call has used.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from acronumba.api.arguments import Call
from acronumba.api.kept import KeptCalls
from acronumba.config import Options
from acronumba.errors import AcronumbaError
from acronumba.generics import Value
from acronumba.locks import ForkLock, undivided
from acronumba.memory import installed

if TYPE_CHECKING:
    from acronumba.data.extents import KnownColumns
    from acronumba.data.pack import Batch
    from acronumba.pipeline.compiled import Compiled
    from acronumba.pipeline.rejected import Attempt, Rejected


# Bytes of memory that the specialisations of all models may take; the size of each is estimated from measurements.
ROOM = min(max(installed() // 64, 1 << 26), 1 << 30)
EACH, INSTRUCTION = 1 << 20, 1 << 10  # bytes of a specialisation, and more for each instruction of its program
MODULES = 4096  # limit of modules of machine code in all: each takes two to four memory maps
REMEMBERED = 1024  # limit of entries of `_rejected` and of `_ways`
FEW = 8  # number of specialisations to try before the types are inferred
UNREAD = "ACR204"  # unreadable source, which may be readable the next time: not cached

T = TypeVar("T")
CACHES: weakref.WeakSet[Cache] = weakref.WeakSet()  # those that hold specialisations
_keeping = ForkLock()  # held while `CACHES` or an entry changes


class Fit(NamedTuple):
    """A specialisation that fits a call."""

    compiled: Compiled
    leaves: list[Value]  # the values of its shared leaves
    packed: Batch | None  # the packed instances, if asked for


def keep(compiled: Compiled, cache: Cache, entries: list[Compiled], call: Call) -> None:
    """Add the specialisation of a call to `entries` of a model's cache; evict the least recently used ones of all if
    there is no room.

    An evicted specialisation stays alive while a mini-batch runs it, or results of it are held.
    """
    compiled.used = call.at
    with _keeping:
        entries.insert(0, compiled)
        CACHES.add(cache)
        room, modules = ROOM, MODULES
        kept = [(c, of) for cache in CACHES for of in cache.entries.values() for c in of]
        for one, of in sorted(kept, key=lambda pair: -pair[0].used):
            room -= EACH + INSTRUCTION * one.instructions
            modules -= one.artifacts.modules
            if min(room, modules) < 0 and one.used != call.at:
                of.remove(one)
        for empty in [cache for cache in CACHES if not any(cache.entries.values())]:
            CACHES.discard(empty)


def fitting(entries: Iterable[Compiled], fn: types.FunctionType, call: Call) -> tuple[Compiled, list[Value]] | None:
    """Return the first specialisation of a function that fits a call, and the values of its shared leaves."""
    found = []
    for compiled in tuple(entries):
        if compiled.fn is fn and (leaves := compiled.guard.leaves(call.shared, call.frozen, call.same)) is not None:
            found.append((compiled, leaves))
    return next((pair for pair in likely(found, call) if pair[0].guard.matches_types(call.columns)), None)


def likely(found: Sequence[tuple[Compiled, list[Value]]], call: Call) -> Iterable[tuple[Compiled, list[Value]]]:
    """Return the specialisations that may fit a call by the types of its columns, which are inferred only once."""
    from acronumba.data.pack import infer
    from acronumba.pipeline.fit import may_hold

    found = [pair for pair in found if len(pair[0].schema.params) == len(call.columns)]
    if len(found) <= FEW:
        return found
    types_of = infer(call.columns)
    return [pair for pair in found if may_hold(pair[0].schema, types_of)]


class Cache:
    """Specialisations of a model by options, and rejections; shared by models derived from one another."""

    def __init__(self, entries: Mapping[Options, list[Compiled]] | None = None) -> None:
        self.entries: dict[Options, list[Compiled]] = dict(entries or {})
        self.lock = ForkLock()  # held during compilation
        self.columns: KnownColumns | None = None  # columns among the arrays of the mini-batches compiled for
        self.kept = KeptCalls()
        self.there: dict[str, Cache] = {}  # of the same model for modules on devices, by their names
        self.groups = 0  # largest number of groups of types in a mini-batch
        # In order of use, the last used last. By types and shared structure, or options and types: time of use, entry.
        self._rejected: dict[Hashable, tuple[int, tuple[int, Rejected]]] = {}
        self._ways: dict[Hashable, tuple[int, weakref.ref[Compiled]]] = {}
        if entries:
            with _keeping:
                CACHES.add(self)

    def of(self, options: Options) -> list[Compiled]:
        """Return the list (not a copy) of specialisations with some options, the last compiled first."""
        with _keeping:
            return self.entries.setdefault(options, [])

    def reject(
        self, fn: types.FunctionType, call: Call, error: AcronumbaError, attempts: Sequence[Attempt], state: str
    ) -> None:
        """Cache the rejection of a function for a call, if it depends on the recorded code and data alone."""
        from acronumba.pipeline.rejected import Rejected

        if not attempts or any(e.code == UNREAD for e in (error, *error.others)):
            return
        _remember(self._rejected, (self.key(call), state), (self._wide, Rejected(fn, error, attempts)), call)

    def rejected(self, fn: types.FunctionType, call: Call, state: str) -> AcronumbaError | None:
        """Return the cached rejection of such a call, to be raised again; None if none is known to hold."""
        if not self._rejected:
            return None
        key = self.key(call), state
        wide, found = self._rejected.get(key, (0, (0, None)))[1]
        if found is None or wide != self._wide or not found.matches(fn, call.columns, call.shared):
            return None
        _remember(self._rejected, key, (wide, found), call)
        return found.again()

    @property
    def _wide(self) -> int:
        return 0 if self.columns is None else self.columns.wide

    def lead(self, options: Options, types_of: Hashable, compiled: Compiled, call: Call) -> None:
        """Remember the specialisation that instances of some types ran with, see `groups`."""
        _remember(self._ways, (options, types_of), weakref.ref(compiled), call)

    def way(self, options: Options, types_of: Hashable) -> Compiled | None:
        """Return the specialisation that instances of such types ran with, or None."""
        found = self._ways.get((options, types_of))
        return None if found is None else found[1]()

    @staticmethod
    def key(call: Call) -> Hashable:
        """Return the types and shared structure of a call. The front end depends on them, and on the code it reads."""
        with undivided:
            from acronumba.data.pack import infer
            from acronumba.pipeline.fit import packed_of
        tree = call.tree()
        return infer([*call.columns, *packed_of(tree, call.shared)]).key, tree.key


def _remember(table: dict[Hashable, tuple[int, T]], key: Hashable, what: T, call: Call) -> None:
    """Insert an entry into a table; evict the least recently used ones, but none of the same call."""
    with _keeping:
        table.pop(key, None)
        table[key] = call.at, what
        while len(table) > REMEMBERED and table[oldest := next(iter(table))][0] != call.at:
            del table[oldest]
