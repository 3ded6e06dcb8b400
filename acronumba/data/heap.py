"""The memory of packed instances: rows, lists, value records and tensor data with absolute addresses.

Packing fills a `Heap`: one array of int64 words and one pool per dtype. Every reference is an absolute byte address, 0
for None, so that a heap is used in place and slicing a pack is free. `regions` describe which words are references. So
they can be updated after the heap has moved (`rebase`, for pickling), and a heap can be copied to other layouts
(`relayout`, for a model that numbers its classes differently).

    rows        tag, fields                                         one region per class
    heads       address of the segment, length, capacity            one region per type of list
    items       the words of each element                           likewise
    records     address of the data, -1, address of the extents     one region per dtype
    extents     int64                                               shared by arrays of one shape
    texts       records of strings, see `data.texts`                one region
    tables      slots less 1, the slots                             one region per type of dict

`data.collect` fills the regions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import field
from itertools import repeat
from operator import attrgetter, is_
from types import FunctionType, MethodType
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from acronumba import memory
from acronumba.data.classes import names_of
from acronumba.data.schema import MISSING, attribute
from acronumba.generics import Value
from acronumba.ir.nodes import StructLayout
from acronumba.ir.types import ListT, MapT, RefT, TensorT, TextT, Word, words
from acronumba.memory import Array, Words
from acronumba.records import record

Pool: TypeAlias = Array

INPUT = -1  # word 1 of the value record of an input: node -1, depth -1
SMALL = 1 << 24  # bytes that are allocated without a check of free memory


class Mismatch(Exception):
    """Some value does not have its type; `data.conform` finds out which."""


class TooLarge(Exception):
    """The arrays of all instances do not fit in memory; `data.conform` finds instances whose own arrays do not."""

    def __init__(self, nbytes: float) -> None:
        super().__init__(f"the arrays of the instances have {nbytes:,.0f} bytes")


class Region(NamedTuple):  # created often: a NamedTuple is three times as fast as a dataclass
    """A table inside the words of a heap."""

    kind: str  # "rows", "heads", "items", "records", "extents", "texts", "tables"
    start: int  # first word
    rows: int
    width: int  # words per row
    refs: tuple[int, ...]  # columns with references into the words
    cls: type | None = None  # of "rows"
    listed: ListT | MapT | None = None  # of "heads"
    dtype: str = ""  # of "records": their column 0 holds addresses in the pool of this dtype

    @property
    def size(self) -> int:
        return self.rows * self.width


@record(kw_only=True, eq=False)
class Heap:
    """Packed instances."""

    words: Words  # all regions, contiguously
    regions: tuple[Region, ...]
    pools: Mapping[str, Pool]  # data of all arrays of one dtype, one-dimensional
    objects: Mapping[Region, Sequence[object]] = field(default_factory=dict)  # the user's own objects, one per row
    rests: Mapping[Region, Sequence[Value]] | None = None  # of an unpickled heap, by row: see `rest_of`
    foreign: Sequence[Value] = ()  # the arrays of other libraries that were packed
    base: int = field(init=False)  # the address of the words
    buffers: tuple[Array, ...] = field(init=False)  # everything that addresses point into

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", memory.address(self.words))
        object.__setattr__(self, "buffers", (self.words, *self.pools.values()))

    def table(self, region: Region) -> Words:
        """Return the words of a region as int64[count, width]."""
        return self.words[region.start : region.start + region.size].reshape(region.rows, region.width)

    def address(self, region: Region) -> int:
        """Return the address of the first row of a region."""
        return self.base + 8 * region.start


class Owned:
    """Map from addresses of rows to Python values: the user's own objects and lists, or their unpacked attributes.

    Parameters
    ----------
    tables : iterable of (Heap, mapping from Region to sequence)
        `Heap.objects` or `Heap.rests` of heaps.
    """

    def __init__(self, tables: Iterable[tuple[Heap, Mapping[Region, Sequence[Value]]]]) -> None:
        found = {heap.address(r): (8 * r.width, r.rows, of) for heap, table in tables for r, of in table.items()}
        self._starts = sorted(start for start, (_, count, _) in found.items() if count)
        self._tables = [found[start] for start in self._starts]

    def get(self, address: int) -> Value:
        """Return the value of the row at an address, or None."""
        k = bisect_right(self._starts, address) - 1
        if k < 0:
            return None
        step, count, table = self._tables[k]
        row = (address - self._starts[k]) // step
        return table[row] if row < count else None

    def between(self, low: int, high: int) -> bool:
        """Whether a row may begin at an address from `low` to `high`."""
        if not self._starts:
            return False
        step, count, _ = self._tables[-1]
        return low < self._starts[-1] + step * count and high >= self._starts[0]

    def among(self, addresses: Words) -> dict[int, Value]:
        """Return the values of the rows at some of the addresses, by index into `addresses`."""
        starts = np.array(self._starts, np.int64)
        steps, counts = np.array([(step, count) for step, count, _ in self._tables], np.int64).T
        k = np.searchsorted(starts, addresses, "right") - 1
        rows = (addresses - starts[k]) // steps[k]
        there = ((k >= 0) & (rows < counts[k])).nonzero()[0]
        found = zip(there.tolist(), k[there].tolist(), rows[there].tolist(), strict=True)
        return {place: self._tables[table][2][row] for place, table, row in found}


class Visible:
    """The class attributes that a program reads through objects; an instance attribute of the same name would hide one.

    The check reads the attribute itself and not the `__dict__` of an object: Python creates a `__dict__` on first
    access, which takes time, and memory for as long as the object lives.

    Parameters
    ----------
    cls : type
    names : frozenset of str
        Attributes of the class that are no fields.
    """

    def __init__(self, cls: type, names: frozenset[str]) -> None:
        self.names = names
        self._cls = cls
        self._shows = {name: _shows(cls, name) for name in sorted(names)}

    def of(self, objects: list[Value]) -> bool:
        """Whether no object hides one of the attributes."""
        return all(shows(objects) for shows in self._shows.values())

    def keep(self, objects: list[Value]) -> Callable[[], bool]:
        """Return a function that checks that these objects, which hide none of the attributes now, still hide none."""
        of_functions = [attrgetter(name) for name in self._shows if isinstance(_found(self._cls, name), FunctionType)]
        others = [shows for name, shows in self._shows.items() if not isinstance(_found(self._cls, name), FunctionType)]
        methods = [(read, list(map(read, objects))) for read in of_functions]

        def shown() -> bool:
            for read, kept in methods:
                now = list(map(read, objects))
                if kept != now or not _METHODS.issuperset(map(type, now)):  # equal: same function and object
                    return False
            return all(shows(objects) for shows in others)

        return shown

    def hidden(self, value: object) -> list[str]:
        """Return the names that one object hides."""
        return [name for name, shows in self._shows.items() if not shows([value])]


AllVisible: TypeAlias = Mapping[type, Visible]
_METHODS = frozenset((MethodType,))


def _found(cls: type, name: str) -> Value:
    """Return the raw attribute of a class from the `__dict__` of its first base that has it, or None."""
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)


def _shows(cls: type, name: str) -> Callable[[list[Value]], bool]:
    """Return a function that checks that no instance attribute hides this class attribute."""
    spaces, read = [vars(base) for base in cls.__mro__ if name in vars(base)], attrgetter(name)
    if not spaces:
        return lambda objects: not [0 for o in objects if hasattr(o, name)]
    found = spaces[0][name]
    if isinstance(found, FunctionType | classmethod):
        function = found.__func__ if isinstance(found, classmethod) else found

        def bound(objects: list[Value]) -> bool:
            owners = repeat(cls) if isinstance(found, classmethod) else objects
            pairs = zip(owners, map(read, objects), strict=False)
            try:
                return not [0 for o, m in pairs if m.__func__ is not function or m.__self__ is not o]
            except AttributeError:  # no method at all
                return False

        return bound
    value = found.__func__ if isinstance(found, staticmethod) else found
    if isinstance(found, staticmethod) or not hasattr(type(found), "__get__"):
        return lambda objects: all(map(is_, map(read, objects), repeat(value)))
    own = attrgetter("__dict__")  # a descriptor would compute something
    return lambda objects: not any(name in names for names in map(own, objects))


def expect_shown(objects: list[Value], visible: Visible) -> None:
    """Raise `Mismatch` if an instance attribute hides a class attribute that is read."""
    if not visible.of(objects):
        raise Mismatch


def rest_of(value: Value, stored: Container[str]) -> Value:
    """Return the attributes of an object that are not packed, by name; empty for a list, tuple, dict or set.

    Parameters
    ----------
    value : object
    stored : container of str
        The packed fields.
    """
    if type(value) in (list, tuple, dict, set):
        return {}
    found = {name: attribute(value, name) for name in names_of(value) if name not in stored}
    rest = {name: v for name, v in found.items() if v is not MISSING}
    return rest | {name: v for name, v in getattr(value, "__dict__", {}).items() if name not in stored}


def free_bytes() -> int:
    """Return how many bytes the data of arrays may take."""
    return max(memory.available(), SMALL)


def aligned(count: int, dtype: npt.DTypeLike, zero: bool = False) -> Array:
    """Return a new one-dimensional array that begins on a cache line."""
    kind = np.dtype(dtype)
    return memory.aligned(count * kind.itemsize, zero).view(kind)


def reference_columns(types: Iterable[Word], first: int = 0) -> tuple[int, ...]:
    """Return the columns of the words that are references; `first` is the column of the first word."""
    return tuple(k for k, w in enumerate(types, first) if isinstance(w, TextT | TensorT | ListT | RefT))


def row_references(layout: StructLayout) -> tuple[int, ...]:
    """Return which words of a row are references."""
    return tuple(c for f in layout.fields for c in reference_columns(words(f.type), f.offset))


# --- Moving ---------------------------------------------------------------------------------------------------------

Move: TypeAlias = Callable[[Words], Words]


def mover(pieces: Sequence[tuple[int, int, int, int]]) -> Move:
    """Return a function from old addresses to new ones.

    Parameters
    ----------
    pieces : sequence of (old start, old bytes per row, new start, new bytes per row)
        An address belongs to the piece with the largest start that is not beyond it.
    """
    if not pieces:
        return lambda addresses: addresses
    table = np.array(sorted(pieces), np.int64)
    starts, old, new_starts, new = table.T

    def move(addresses: Words) -> Words:
        k = np.searchsorted(starts, addresses, "right") - 1
        moved = new_starts[k] + (addresses - starts[k]) // old[k] * new[k]
        return np.where(addresses <= 0, addresses, moved)  # None, or a string of one character

    return move


def rebase(heap: Heap, base: int, pool_bases: Mapping[str, int]) -> Move:
    """Update the references in place, from the old addresses of the words (`base`) and pools to the present ones."""
    pieces = [(base, 1, heap.base, 1)]
    pieces += [(pool_bases[name], 1, int(pool.ctypes.data), 1) for name, pool in heap.pools.items()]
    move = mover(pieces)
    for region in heap.regions:
        table = heap.table(region)
        for column in _all_references(region):
            table[:, column] = move(table[:, column])
    return move


def _all_references(region: Region) -> tuple[int, ...]:
    return (0, 2) if region.kind == "records" else region.refs


def relayout(heap: Heap, old: Mapping[type, StructLayout], new: Sequence[StructLayout]) -> tuple[Heap, Move]:
    """Return a copy of a heap with rows in other layouts, and the function that maps old addresses to new ones.

    Every field of the new layouts must be in the old ones, with as many words; classes without a new layout keep the
    old one (nothing that is read refers to them).
    """
    tags = {layout.cls: (k, layout) for k, layout in enumerate(new)}
    regions: list[Region] = []
    at = 0
    for region in heap.regions:
        width, refs = region.width, region.refs
        if region.cls in tags:
            layout = tags[region.cls][1]
            width, refs = layout.size, row_references(layout)
        moved = region._replace(start=at, width=width, refs=refs)
        regions.append(moved)
        at += moved.size
    objects = {b: heap.objects[a] for a, b in zip(heap.regions, regions, strict=True) if a in heap.objects}
    out = Heap(words=aligned(at, np.int64, zero=True), regions=tuple(regions), pools=heap.pools, objects=objects)
    pieces = [
        (heap.address(a), 8 * a.width or 1, out.address(b), 8 * b.width)
        for a, b in zip(heap.regions, out.regions, strict=True)
        if a.size
    ]
    move = mover(pieces)
    for a, b in zip(heap.regions, out.regions, strict=True):
        source, target = heap.table(a), out.table(b)
        if b.cls in tags:
            assert b.cls is not None
            tag, layout = tags[b.cls]
            here = {f.name: f for f in old[b.cls].fields}
            target[:, 0] = tag
            for f in layout.fields:
                start = here[f.name].offset
                target[:, f.offset : f.offset + f.width] = source[:, start : start + f.width]
        else:
            target[:] = source
        for column in b.refs:
            target[:, column] = move(target[:, column])
    return out, move
