"""Whether objects that were packed are still as they were: a shared tree need not be packed again at each mini-batch.

In: a packed `Batch` of one value. Out: a `Guard`, or None where something is in it of which it is not known. Its
`holds` compares what the words were made of: objects, numbers and strings by identity, arrays by dtype, shape and bits.
That costs a third of what packing does, or less.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from acronumba.data.heap import AllVisible, Heap, Visible

if TYPE_CHECKING:
    from acronumba.ir.nodes import StructLayout

MOST = 1 << 24  # bytes of arrays that are kept to be compared
_FIXED = frozenset((int, float, bool, str, bytes, complex, type(None)))  # classes of what never changes
_form = attrgetter("dtype", "shape")


class _Table:
    """The objects of one class, or the lists, of a heap. Where values lie says which they are: they are kept alive."""

    def __init__(self, owned: Sequence[Any], fields: Sequence[str] | None, visible: Visible | None) -> None:
        self._owned = list(owned)
        self._classes = set(map(type, self._owned))
        self._lengths = list(map(len, self._owned)) if fields is None else []
        self._fields = fields  # None: of lists, all elements
        # More than one attribute at once is a tuple, as a list is a sequence.
        self._read = attrgetter(*fields) if fields else None
        self._shown = visible.keep(self._owned) if visible is not None else None
        self.values = self._now()
        self._places = self.values.tobytes()

    def _now(self) -> NDArray[np.object_]:
        found: Iterable[Any] = self._owned if self._read is None else map(self._read, self._owned)
        if self._fields is not None and len(self._fields) < 2:
            count = len(self._owned) * len(self._fields)
            return np.fromiter(found if count else (), object, count)
        count = sum(self._lengths) if self._fields is None else len(self._owned) * len(self._fields)
        return np.fromiter(chain.from_iterable(found), object, count)

    def holds(self) -> bool:
        if self._fields is None and list(map(len, self._owned)) != self._lengths:
            return False
        return (
            self._classes.issuperset(map(type, self._owned))
            and self._now().tobytes() == self._places
            and (self._shown is None or self._shown())
        )


class Guard:
    """What a heap was made of."""

    def __init__(self, tables: Sequence[_Table], arrays: Sequence[Any]) -> None:
        self._tables, self._arrays = tuple(tables), arrays
        self._forms, self._bits = list(map(_form, arrays)), b"".join(arrays)

    def holds(self) -> bool:
        """Whether everything still is as it was packed."""
        try:
            if not all(table.holds() for table in self._tables):
                return False
            return list(map(_form, self._arrays)) == self._forms and b"".join(self._arrays) == self._bits
        except (AttributeError, BufferError):  # a field is gone; an array lies otherwise
            return False


def guard_of(heap: Heap, layouts: Sequence[StructLayout], visible: AllVisible) -> Guard | None:
    """Return the guard of what a heap was made of."""
    fields: Mapping[type, Sequence[str]] = {layout.cls: [f.name for f in layout.fields] for layout in layouts}
    tables: list[_Table] = []
    try:
        for region, owned in heap.objects.items():
            if region.cls is None:
                if set(map(type, owned)) != {list}:  # a dict or set
                    return None
                tables.append(_Table(owned, None, None))
            else:
                tables.append(_Table(owned, fields[region.cls], visible.get(region.cls)))
    except (AttributeError, KeyError):  # a field without a value
        return None
    known = {id(o) for owned in heap.objects.values() for o in owned}
    arrays: dict[int, Any] = {}
    for value in chain.from_iterable(table.values for table in tables):
        if type(value) is np.ndarray:
            if not value.flags.c_contiguous or value.dtype.hasobject:
                return None
            arrays[id(value)] = value
        elif type(value) not in _FIXED and id(value) not in known and not isinstance(value, enum.Enum | np.generic):
            return None
    if sum(a.nbytes for a in arrays.values()) > MOST:
        return None
    return Guard(tables, list(arrays.values()))


def entries_of(value: dict[Any, Any] | set[Any]) -> dict[Any, Any] | tuple[Any, ...]:
    """Return what is in a dict or set now, for `same_entries`."""
    return dict(value) if isinstance(value, dict) else tuple(value)


def same_entries(old: dict[Any, Any] | tuple[Any, ...], now: dict[Any, Any] | set[Any]) -> bool:
    """Whether a dict or set whose values never change still has the same entries in the same order."""
    return old == (now if isinstance(now, dict) else tuple(now)) and all(map(is_, old, now))


class Latest:
    """A shared value as it was packed last.

    A guard is made when the same object comes again, and after the object has changed, later and later.
    """

    def __init__(self) -> None:
        self._last: tuple[object, Any, Guard | None] = None, None, None  # the value, its batch, its guard
        self._calls, self._wait = 0, 1  # with this value since there was a guard; how many until there is one again

    def batch(self, value: object, pack: Callable[[], Any], guard: Callable[[Any], Guard | None]) -> Any:
        """Return the value packed: as it was, if it has not changed."""
        known, batch, held = self._last
        if value is not known:
            self._calls, self._wait = 0, 1
        elif held is not None:
            if held.holds():
                return batch
            self._calls, self._wait = 0, 2 * self._wait
        else:
            self._calls += 1
        batch = pack()
        self._last = (value, batch, guard(batch)) if self._calls >= self._wait else (value, None, None)
        return batch
