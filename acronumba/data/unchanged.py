"""Change detection for packed values, so that an unchanged shared tree is not packed again at each mini-batch.

In: a value, and the heap that it was packed into. Out: a `Guard`, or None if the value contains something whose changes
cannot be detected. `Guard.is_valid` compares the packed values: objects, numbers and strings by identity, arrays by
dtype, shape and bits. The check takes at most a third of the time of packing.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from acronumba.data.heap import AllVisible, Heap, Region, Visible
from acronumba.data.source_guard import ABSENT
from acronumba.data.tables import DICTS
from acronumba.generics import Value
from acronumba.ir.shapes import is_shape

if TYPE_CHECKING:
    from acronumba.ir.nodes import StructLayout

MOST = 1 << 24  # limit of bytes of arrays that are copied for comparison
_FIXED = frozenset((int, float, bool, str, bytes, complex, type(None)))  # immutable classes
_CONTAINERS = (list, tuple, set, *DICTS)
_form = attrgetter("dtype", "shape")


class _Table:
    """Objects of one class, lists, tuples, dicts or sets; kept alive, so that values can be compared by identity.

    Parameters
    ----------
    owned : sequence
        The user's own objects.
    fields : sequence of str, optional
        The fields that are read of objects; None for containers, which are read as a whole.
    visible : Visible, optional
        The class attributes that are read through objects.
    """

    def __init__(
        self, owned: Sequence[Value], fields: Sequence[str] | None = None, visible: Visible | None = None
    ) -> None:
        self._owned = list(owned)
        self._classes = set(map(type, self._owned))
        self._parts: Callable[[Value], Iterable[Value]] = (
            _parts_of_dicts if self._classes.issubset(DICTS) and owned else iter
        )
        self._lengths = list(map(len, self._owned)) if fields is None else []
        self._fields = fields
        # More than one attribute at once is a tuple, as a list is a sequence.
        self._read: Callable[[Value], Value] | None = attrgetter(*fields) if fields else None
        self._shown = visible.keep(self._owned) if visible is not None else None
        try:
            self.values = self._now()
        except AttributeError:  # some object is without a field
            self._read = partial(_attributes, fields or ())
            self.values = self._now()
        self._places = self.values.tobytes()

    def _now(self) -> NDArray[np.object_]:
        if self._fields is None:
            count = sum(self._lengths) * (2 if self._parts is _parts_of_dicts else 1)
            return np.fromiter(chain.from_iterable(map(self._parts, self._owned)), object, count)
        count = len(self._owned) * len(self._fields)
        found: Value = () if self._read is None else map(self._read, self._owned)
        return np.fromiter(found if len(self._fields) < 2 else chain.from_iterable(found), object, count)

    def is_valid(self) -> bool:
        if not self._classes.issuperset(map(type, self._owned)):
            return False
        if self._fields is None and list(map(len, self._owned)) != self._lengths:
            return False
        return self._now().tobytes() == self._places and (self._shown is None or self._shown())


def _attributes(fields: Sequence[str], value: object) -> Value:
    """Return attributes of an object as `attrgetter` does, but `ABSENT` for a missing one."""
    if len(fields) == 1:
        return getattr(value, fields[0], ABSENT)
    return [getattr(value, name, ABSENT) for name in fields]


def _parts_of_dicts(entries: dict[Value, Value]) -> Iterable[Value]:
    return chain(entries, entries.values())


class Guard:
    """The Python values that a heap was packed from, to detect changes."""

    def __init__(self, tables: Sequence[_Table], arrays: Sequence[Any]) -> None:
        self._tables, self._arrays = tuple(tables), arrays
        self._forms, self._bits = list(map(_form, arrays)), b"".join(arrays)

    def is_valid(self) -> bool:
        """Whether no value has changed since packing."""
        try:
            if not all(table.is_valid() for table in self._tables):
                return False
            return list(map(_form, self._arrays)) == self._forms and b"".join(self._arrays) == self._bits
        except (AttributeError, BufferError):  # a field is gone; an array is no longer contiguous
            return False


def guard_of(value: object, heap: Heap, layouts: Sequence[StructLayout], visible: AllVisible) -> Guard | None:
    """Return a guard of the value that a heap was packed from, and of all that is reachable from it."""
    return _guard_of(value, heap.objects, layouts, visible)


def guard_of_plain(value: object) -> Guard | None:
    """Return a guard of nested lists, tuples and dicts of plain values and arrays."""
    return _guard_of(value, {}, (), {})


def _guard_of(
    value: object, objects: Mapping[Region, Sequence[Value]], layouts: Sequence[StructLayout], visible: AllVisible
) -> Guard | None:
    fields: Mapping[type, Sequence[str]] = {layout.cls: [f.name for f in layout.fields] for layout in layouts}
    tables: list[_Table] = []
    known = {id(ABSENT)}
    arrays: dict[int, Any] = {}
    for region, owned in objects.items():
        if region.cls is not None and not is_shape(region.cls):  # values of shapes are found as containers
            tables.append(_Table(owned, fields[region.cls], visible.get(region.cls)))
            known.update(map(id, owned))
    left: list[Value] = [value, *chain.from_iterable(table.values for table in tables)]
    while left:
        found: dict[type, dict[int, Value]] = {cls: {} for cls in _CONTAINERS}
        for part in left:
            cls = type(part)
            if cls in _FIXED or id(part) in known:
                continue
            if cls is np.ndarray:
                if not part.flags.c_contiguous or part.dtype.hasobject:
                    return None
                arrays[id(part)] = part
            elif cls in found:
                found[cls][id(part)] = part
            elif not isinstance(part, enum.Enum | np.generic):
                return None
        new = [_Table(list(parts.values())) for parts in found.values() if parts]
        known.update(*found.values())
        tables += new
        left = list(chain.from_iterable(table.values for table in new))
    if sum(a.nbytes for a in arrays.values()) > MOST:
        return None
    return Guard(tables, list(arrays.values()))


class _Last(NamedTuple):
    """The value that came last."""

    value: object = None
    frozen: bool = False  # whether the value is frozen by the user
    batch: Any = None  # the packed value, if it is kept
    guard: Guard | None = None  # None: it is frozen, or not guarded
    calls: int = 0  # number of calls with this value since the last guard
    wait: int = 0  # number of calls until the next guard
    again: bool = True  # whether the value was seen more than once, or there is none


class Latest:
    """Cache of the last packed shared value, for use by several threads.

    A guard is made at once, or, if the last value's guard was never used, when the value is seen again; after changes,
    after more and more calls (backoff). A frozen value needs no guard.
    """

    def __init__(self) -> None:
        self._last = _Last()  # replaced as a whole, so that threads see consistent fields

    def batch(
        self, value: object, frozen: bool, pack: Callable[[], Any], guard: Callable[[Any, Any], Guard | None]
    ) -> Any:
        """Return the packed value: the cached batch, if the value is the last one and is unchanged or `frozen`."""
        last = self._last
        again = value is last.value and frozen == last.frozen
        if not again:
            calls, wait = 0, 0 if last.again else 1
        elif last.batch is None:
            calls, wait = last.calls + 1, last.wait
        elif frozen or (last.guard is not None and last.guard.is_valid()):
            if not last.again:
                self._last = last._replace(again=True)
            return last.batch
        else:
            calls, wait = 0, max(1, 2 * last.wait)
        batch = pack()
        held = guard(value, batch) if not frozen and calls >= wait else None
        kept = batch if frozen or held is not None else None
        self._last = _Last(value, frozen, kept, held, calls, wait, again)
        return batch
