"""The unpacked attributes of packed objects: fields that are not packed, and other attributes.

In: the packed objects, by region. Out: their unpacked attributes, by row, for models that return the objects.
"""

from __future__ import annotations

import gc
from collections.abc import Container, Sequence
from operator import attrgetter

from acronumba.data.classes import field_names, is_record, names_among
from acronumba.data.copies import unchanging
from acronumba.data.heap import Heap, Region
from acronumba.data.schema import MISSING, attribute
from acronumba.generics import Value
from acronumba.ir.nodes import StructLayout

_OWN = attrgetter("__dict__")


def _all_among(objects: Sequence[Value], names: frozenset[str]) -> bool:
    """Whether no object has an attribute besides some names.

    Python makes a dict for an object when `__dict__` is read: so many would start several collections of garbage.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return all(map(names.issuperset, map(_OWN, objects)))
    finally:
        if collects:
            gc.enable()


class UnpackedFields(Sequence[Value]):
    """The unpacked attributes of the objects of one class, by row; see `heap.rest_of`.

    Fields have their values at the time of packing. Attributes that are no fields are read when asked for: to collect
    them would take longer than packing.
    """

    def __init__(self, objects: Sequence[Value], stored: Container[str]) -> None:
        self._objects = objects
        cls = type(objects[0])
        names = field_names(cls) if is_record(cls) else sorted(names_among(cls, objects))
        self._fields = frozenset(names)
        self._columns: dict[str, list[Value]] = {}
        self.pairs: list[tuple[Value, Value]] = []  # the user's own objects and their copies, where values may change
        for name in names:
            if name not in stored:
                self._columns[name], pairs = unchanging([attribute(o, name) for o in objects])
                self.pairs += pairs

    def __len__(self) -> int:
        return len(self._objects)

    def __getitem__(self, row: Value) -> Value:
        found = {name: v for name, column in self._columns.items() if (v := column[row]) is not MISSING}
        own = getattr(self._objects[row], "__dict__", {})
        return found | {name: v for name, v in own.items() if name not in self._fields}

    def some(self, rows: Sequence[int]) -> list[Value]:
        """Return the unpacked attributes of some rows; an empty list if no row has any."""
        if not self._columns:
            of = self._objects if len(rows) == len(self) else [self._objects[row] for row in rows]
            if not hasattr(self._objects[0], "__dict__") or _all_among(of, self._fields):
                return []
        return [self[row] for row in rows]


def kept_of(heap: Heap, layouts: Sequence[StructLayout]) -> dict[Region, Sequence[Value]]:
    """Return the unpacked attributes of all objects, by region."""
    stored = {layout.cls: frozenset(f.name for f in layout.fields) for layout in layouts}
    return {
        r: UnpackedFields(objects, stored.get(r.cls, ())) for r, objects in heap.objects.items() if r.cls is not None
    }
