"""Columns of Arrow as words, packed column by column without a Python object per row.

In: an array of Arrow, and the hint from the parameter's annotation. Out: a pack, or None if words cannot represent the
column: a class has its own `__init__`, lists have one length. Structs become objects of an annotated class, or dicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from acronumba.data.classes import field_names, is_record, own_constructor
from acronumba.data.heap import Heap, Region, aligned, reference_columns, row_references
from acronumba.data.hints import OBSERVED, ClassHint, Hint, KeysHint, ListHint, Observed, UnionHint, class_hints
from acronumba.data.layouts import make_layouts
from acronumba.data.pack import Packed, packed_words
from acronumba.data.schema import Schema
from acronumba.data.tables import LONG_DICT
from acronumba.data.texts import records_of
from acronumba.data.words import LIST
from acronumba.generics import ArrowArray
from acronumba.ir.types import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    TEXT,
    DictT,
    ListT,
    StructT,
    Type,
    UnionT,
    union,
    union_cases,
    union_word,
    words,
)  # fmt: skip
from acronumba.memory import Words
from acronumba.records import record

Fill: TypeAlias = Callable[[Heap, Words], None]  # writes a word of each row into a column of a table

_KINDS: dict[str, Type] = {"b": BOOL, "i": INT, "u": INT, "f": FLOAT}


class _Unfit(Exception):
    """A column cannot be represented by words."""


@record()
class _Column:
    """The words of values of one type, a column per word."""

    type: Type
    fills: Sequence[Fill]


def packed(array: ArrowArray, hint: Hint) -> Packed | None:
    """Return a pack of an array of Arrow, or None."""
    try:
        made = _Tables()
        return made.pack(made.column(array, hint), len(array))
    except _Unfit:
        return None


class _Tables:
    """The regions of a future heap, each with the functions that fill it once the heap is allocated."""

    def __init__(self) -> None:
        self._regions: list[Region] = []
        self._fills: list[list[tuple[int, Fill]]] = []  # of the columns of each region
        self._texts: dict[Region, npt.NDArray[np.int64]] = {}
        self._rows: dict[type, dict[str, Type]] = {}

    def pack(self, column: _Column, count: int) -> Packed:
        """Return the pack of a column of instances."""
        size = self._end
        layouts = make_layouts(self._rows)
        tags = {layout.cls: k for k, layout in enumerate(layouts)}
        heap = Heap(words=aligned(size, np.int64), regions=tuple(self._regions), pools={}, rests={})
        for region, fills in zip(self._regions, self._fills, strict=True):
            table = heap.table(region)
            if region.cls is not None:
                table[:, 0] = tags[region.cls]
            for k, fill in fills:
                fill(heap, table[:, k])
        for region, records in self._texts.items():
            heap.table(region)[:, 0] = records
        roots = np.empty((count, len(column.fills)), np.int64)
        for k, fill in enumerate(column.fills):
            fill(heap, roots[:, k])
        return packed_words(Schema(params=(column.type,), fields=self._rows), layouts, heap, roots)

    @property
    def _end(self) -> int:
        return self._regions[-1].start + self._regions[-1].size if self._regions else 0

    def _region(self, kind: str, rows: int, fills: Sequence[Fill], first: int = 0, **more: Any) -> Region:
        """Add a region with a column for each function; the first one is column `first`."""
        made = Region(kind, self._end, rows, more.pop("width", first + len(fills)), **more)
        self._regions.append(made)
        self._fills.append(list(enumerate(fills, first)))
        return made

    def column(self, array: ArrowArray, hint: Hint) -> _Column:
        """Return the column of an array, or raise `_Unfit`."""
        if isinstance(hint, UnionHint) and NONE in hint.members and len(hint.members) == 2:
            return self._optional(array, next(h for h in hint.members if h != NONE))
        if array.null_count and hint == OBSERVED:
            return self._optional(array, hint)
        if array.null_count:
            raise _Unfit
        kind = array.type
        if pa.types.is_struct(kind):
            return self._objects(array, hint) if isinstance(hint, ClassHint) else self._dicts(array, hint)
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return self._lists(array, hint)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return _of_type(TEXT, hint, [self._text(array)])
        return _numbers(array, hint)

    def _optional(self, array: ArrowArray, hint: Hint) -> _Column:
        """Return the column of an array whose values may be missing."""
        inner, there = self.column(array.drop_null(), hint), array.is_valid().to_numpy(zero_copy_only=False)
        found = union(NONE, inner.type)
        assert isinstance(found, UnionT)
        fills = [_scattered(fill, there) for fill in inner.fills]
        if union_word(found) is None:
            of_none, of_value = (union_cases(found).index(t) for t in (NONE, inner.type))
            fills.insert(0, lambda heap, out: np.copyto(out, np.where(there, of_value, of_none)))
        return _Column(found, fills)

    def _lists(self, array: ArrowArray, hint: Hint) -> _Column:
        if not isinstance(hint, ListHint | Observed):
            raise _Unfit
        offsets = array.offsets.to_numpy()
        inner = self.column(array.flatten(), hint.item if isinstance(hint, ListHint) else OBSERVED)
        tupled = isinstance(hint, ListHint) and hint.tupled
        width, listed = len(inner.fills), ListT(inner.type, tupled)
        refs = reference_columns(words(inner.type))
        items = self._region("items", int(offsets[-1]) - int(offsets[0]), inner.fills, refs=refs)

        def addresses(heap: Heap, out: Words) -> None:
            np.subtract(offsets[:-1], offsets[0], out=out)
            out *= 8 * width
            out += heap.address(items)

        def lengths(heap: Heap, out: Words) -> None:
            np.subtract(offsets[1:], offsets[:-1], out=out)

        fills = {"items": addresses, "length": lengths, "capacity": lengths}
        in_order = [fills[name] for name in sorted(fills, key=LIST.at.__getitem__)]
        heads = self._region("heads", len(array), in_order, refs=(LIST.at["items"],), listed=listed)
        return _Column(listed, [_rows_of(heads)])

    def _dicts(self, array: ArrowArray, hint: Hint) -> _Column:
        keys = [field.name for field in array.type]
        hints: Iterable[Hint] = [OBSERVED] * len(keys)
        if isinstance(hint, KeysHint) and sorted(hint.keys) == sorted(keys):
            named = dict(zip(hint.keys, hint.items, strict=True))
            hints = [named[key] for key in keys]
        elif hint != OBSERVED or not keys or len(keys) > LONG_DICT or len(set(keys)) < len(keys):
            raise _Unfit
        parts = [self.column(part, h) for part, h in zip(array.flatten(), hints, strict=True)]
        fills = [fill for part in parts for fill in part.fills]
        return _Column(DictT(tuple(keys), tuple(part.type for part in parts)), fills)

    def _objects(self, array: ArrowArray, hint: ClassHint) -> _Column:
        cls = hint.cls
        names, given = field_names(cls), dict(zip((field.name for field in array.type), array.flatten(), strict=True))
        if not is_record(cls) or own_constructor(cls) or not given.keys() >= set(names):
            raise _Unfit
        hints = class_hints(cls)
        parts = {name: self.column(given[name], hints[name]) for name in names}
        row = {name: part.type for name, part in parts.items()}
        if self._rows.setdefault(cls, row) != row:
            raise _Unfit
        (layout,) = make_layouts({cls: row})
        fills = [fill for field in layout.fields for fill in parts[field.name].fills]
        rows = self._region("rows", len(array), fills, 1, refs=row_references(layout), cls=cls)
        return _Column(StructT(cls), [_rows_of(rows)])

    def _text(self, array: ArrowArray) -> Fill:
        """Return a function that writes the words of strings: record addresses, or ~c for a single character."""
        coded = array.dictionary_encode()
        texts, places = coded.dictionary.to_pylist(), coded.indices.to_numpy()
        long = [k for k, text in enumerate(texts) if len(text) != 1]
        records, starts = records_of([texts[k] for k in long])
        region = self._region("texts", len(records), (), width=1, refs=())
        self._texts[region] = records
        of = np.array([~ord(text) if len(text) == 1 else 0 for text in texts], np.int64)

        def fill(heap: Heap, out: Words) -> None:
            of[long] = heap.address(region) + 8 * starts
            out[:] = of[places]

        return fill


def _scattered(fill: Fill, there: npt.NDArray[np.bool_]) -> Fill:
    """Return a function that writes the words of the valid rows, and 0 for nulls."""

    def scatter(heap: Heap, out: Words) -> None:
        some = np.empty(np.count_nonzero(there), np.int64)
        fill(heap, some)
        out[:] = 0
        out[there] = some

    return scatter


def _rows_of(region: Region) -> Fill:
    """Return a function that writes the address of each row of a region."""

    def fill(heap: Heap, out: Words) -> None:
        out[:] = np.arange(region.rows)
        out *= 8 * region.width
        out += heap.address(region)

    return fill


def _numbers(array: ArrowArray, hint: Hint) -> _Column:
    kind = array.type
    if not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise _Unfit
    values = array.to_numpy(zero_copy_only=False)
    found = _KINDS[values.dtype.kind]
    if values.dtype == np.float16 or (values.dtype == np.uint64 and len(values) and int(values.max()) >> 63):
        raise _Unfit
    wanted = FLOAT if hint == FLOAT and found == INT else INT if hint == INT and found == BOOL else found

    def fill(heap: Heap, out: Words) -> None:
        (out.view(np.float64) if wanted == FLOAT else out)[:] = values

    return _of_type(wanted, hint, [fill])


def _of_type(found: Type, hint: Hint, fills: Sequence[Fill]) -> _Column:
    if hint not in (found, OBSERVED):
        raise _Unfit
    return _Column(found, fills)
