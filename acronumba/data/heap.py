"""Packed words: rows, lists, value records and tensor data with absolute addresses.

A `Heap` is what packing makes: one array of int64 words and one pool per dtype. Every reference is an absolute byte
address, 0 for None, so that a heap is used in place and slicing a pack is free. `regions` say which words are
references; with them `move` copies a heap to another place or to other layouts (pickling, a model that numbers its
classes differently).

    rows        tag, fields                                         one region per class
    heads       address of the segment, length, capacity            one region per type of list
    items       the words of each element                           likewise
    records     address of the data, -1, address of the extents     one region per dtype
    extents     int64                                               shared by arrays of one shape

The functions at the end are called by the generated packers (`data.packer`).
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, compress, islice, repeat
from operator import attrgetter, is_
from types import FunctionType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from acronumba.data.schema import MISSING, attribute
from acronumba.data.shared import field_names
from acronumba.data.words import LIST, RECORD
from acronumba.ir.nodes import StructLayout
from acronumba.ir.types import ListT, RefT, TensorT, Word, words
from acronumba.memory import available

Words: TypeAlias = npt.NDArray[np.int64]
Pool: TypeAlias = npt.NDArray[Any]

ALIGNMENT = 64  # bytes; of the words and of each pool
INPUT = -1  # word 1 of the value record of an input: node -1, depth -1


class Mismatch(Exception):
    """Some value does not have its type; `data.conform` finds out which."""


class TooLarge(Exception):
    """The arrays do not fit in memory; `data.conform` finds out whether those of one instance alone do not."""

    def __init__(self, nbytes: float) -> None:
        super().__init__(f"the arrays of the instances have {nbytes:,.0f} bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A table inside the words of a heap."""

    kind: str  # "rows", "heads", "items", "records", "extents"
    start: int  # first word
    count: int  # rows
    width: int  # words per row
    refs: tuple[int, ...]  # columns that hold references into the words
    cls: type | None = None  # of "rows"
    listed: ListT | None = None  # of "heads"
    dtype: str = ""  # of "records": their column 0 holds addresses in the pool of this dtype

    @property
    def size(self) -> int:
        return self.count * self.width


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Heap:
    """Packed instances."""

    words: Words  # every region, one after the other
    regions: tuple[Region, ...]
    pools: Mapping[str, Pool]  # data of all arrays of one dtype, one-dimensional
    objects: Mapping[Region, Sequence[object]] = field(default_factory=dict)  # the user's own, where each row is one
    rests: Mapping[Region, Sequence[Any]] | None = None  # of a heap that was pickled, by row: see `rest_of`

    @property
    def base(self) -> int:
        """The address of the words."""
        return int(self.words.ctypes.data)

    @property
    def buffers(self) -> tuple[npt.NDArray[Any], ...]:
        """Everything that addresses point into."""
        return (self.words, *self.pools.values())

    def table(self, region: Region) -> Words:
        """Return the words of a region as int64[count, width]."""
        return self.words[region.start : region.start + region.size].reshape(region.count, region.width)

    def address(self, region: Region) -> int:
        """Return the address of the first row of a region."""
        return self.base + 8 * region.start


class Owned:
    """What belongs to rows, by their addresses: the user's own objects and lists, or what their words do not hold.

    Parameters
    ----------
    tables : iterable of (Heap, mapping from Region to sequence)
        `Heap.objects` or `Heap.rests` of heaps.
    """

    def __init__(self, tables: Iterable[tuple[Heap, Mapping[Region, Sequence[Any]]]]) -> None:
        found = {heap.address(r): (8 * r.width, r.count, of) for heap, table in tables for r, of in table.items()}
        self._starts = sorted(start for start, (_, count, _) in found.items() if count)
        self._tables = [found[start] for start in self._starts]

    def get(self, address: int) -> Any:
        """Return what belongs to the row that begins at an address, or None."""
        k = bisect_right(self._starts, address) - 1
        if k < 0:
            return None
        step, count, table = self._tables[k]
        row = (address - self._starts[k]) // step
        return table[row] if row < count else None


class Visible:
    """What is read of a class through its objects, which an attribute of an object's own would hide.

    Objects are asked for the attribute instead of for their `__dict__`: Python makes that when it is first asked for,
    which takes time, and memory for as long as the object lives.

    Parameters
    ----------
    cls : type
    names : frozenset of str
        Attributes of the class that are no fields.
    """

    def __init__(self, cls: type, names: frozenset[str]) -> None:
        self.names = names
        self._shows = {name: _shows(cls, name) for name in sorted(names)}

    def of(self, objects: list[Any]) -> bool:
        """Whether no object hides any of it."""
        return all(shows(objects) for shows in self._shows.values())

    def hidden(self, value: object) -> list[str]:
        """Return the names that one object hides."""
        return [name for name, shows in self._shows.items() if not shows([value])]


AllVisible: TypeAlias = Mapping[type, Visible]


def _shows(cls: type, name: str) -> Callable[[list[Any]], bool]:
    """Return the function that says whether objects of a class all have an attribute from their class, or none."""
    spaces, read = [vars(base) for base in cls.__mro__ if name in vars(base)], attrgetter(name)
    if not spaces:
        return lambda objects: not [0 for o in objects if hasattr(o, name)]
    found = spaces[0][name]
    if isinstance(found, FunctionType | classmethod):
        function = found.__func__ if isinstance(found, classmethod) else found

        def bound(objects: list[Any]) -> bool:
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


def expect_shown(objects: list[Any], visible: Visible) -> None:
    """Raise `Mismatch` if an object hides, by an attribute of its own, what is read of its class."""
    if not visible.of(objects):
        raise Mismatch


def ids_of(objects: Sequence[Any]) -> Words:
    """Return the ids of objects: their addresses, which NumPy has in an array of objects, without an int for each."""
    return np.frombuffer(np.fromiter(objects, object, len(objects)), np.int64)


def _extend(out: array[Any], values: list[Any], dtype: npt.DTypeLike) -> None:
    """Add numbers to an array: many at the speed of NumPy, few without what a call of it takes."""
    if len(values) < FEW:
        out.extend(values)
    else:
        out.frombytes(np.array(values, dtype).tobytes())


def rest_of(value: Any, stored: Container[str]) -> Any:
    """Return what the words of an object or list do not hold: its other attributes, or the class of a list.

    Parameters
    ----------
    value : object
    stored : container of str
        The fields that the words hold.
    """
    if type(value) in (list, tuple):
        return type(value)
    found = {name: attribute(value, name) for name in field_names(type(value)) if name not in stored}
    rest = {name: v for name, v in found.items() if v is not MISSING}
    return rest | {name: v for name, v in getattr(value, "__dict__", {}).items() if name not in stored}


def free_bytes() -> int:
    """Return how many bytes the data of arrays may take."""
    return max(available(), SMALL)


def aligned(count: int, dtype: npt.DTypeLike, zero: bool = False) -> npt.NDArray[Any]:
    """Return a new one-dimensional array that begins at a multiple of 64 bytes."""
    kind = np.dtype(dtype)
    nbytes = count * kind.itemsize
    raw = (np.zeros if zero else np.empty)(nbytes + ALIGNMENT, np.uint8)
    start = -int(raw.ctypes.data) % ALIGNMENT
    return raw[start : start + nbytes].view(kind)


def reference_columns(types: Iterable[Word], first: int = 0) -> tuple[int, ...]:
    """Return which of these words are references; `first` is the column of the first one."""
    return tuple(k for k, w in enumerate(types, first) if isinstance(w, TensorT | ListT | RefT))


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
        return np.where(addresses == 0, 0, moved)

    return move


def rebase(heap: Heap, base: int, pool_bases: Mapping[str, int]) -> Move:
    """Let references that were made for other places of the words and pools point to where these are now."""
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
    """Return a copy of a heap with rows as other layouts say, and the function from its addresses to those of the copy.

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
        moved = replace(region, start=at, width=width, refs=refs)
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


# --- What generated packers call ------------------------------------------------------------------------------------

FEW = 32  # numbers that are not worth a call of NumPy
STEP = 1024  # objects per round: few enough to stay in the cache while their fields are read
SMALL = 1 << 24  # bytes that are taken without a look at how many are free
FIRST_CHECK = 1 << 16  # objects after which is looked for the first time whether one was found twice


class Twice(Exception):
    """An object was reached twice: pack again with `careful`."""


class Room:
    """Everything that the instances reach, while it is being found; then the heap.

    Parameters
    ----------
    careful : bool
        Whether objects may be reached more than once. If not, the place of an object among those found is its row,
        so that no reference is ever looked up; that all were different is checked from time to time and at the end
        (`Twice`).
    """

    def __init__(self, careful: bool) -> None:
        self.careful = careful
        self._size = 0
        self._bytes = 0.0  # of the data of arrays
        self._free = 0  # bytes, when that was first asked
        self._regions: list[Region] = []
        self._pools: list[Pooled] = []
        self._arrays: dict[str, Arrays] = {}
        self.shapes: dict[tuple[int, ...], int] = {}  # address of the extents of each shape

    def add(self, kind: str, count: int, width: int, refs: tuple[int, ...] = (), **of: Any) -> Region:
        """Reserve a region; `of` says of what."""
        region = Region(kind=kind, start=self._size, count=count, width=width, refs=refs, **of)
        self._regions.append(region)
        self._size += region.size
        return region

    def objects(self, cls: type, width: int, refs: tuple[int, ...]) -> Pooled:
        """Return the pool of the objects of a class: rows of `width` words, of which `refs` are references."""
        self._pools.append(Pooled(self, frozenset((cls,)), width, refs, cls))
        return self._pools[-1]

    def lists(self, listed: ListT, width: int, refs: tuple[int, ...]) -> Lists:
        """Return the pool of lists of a type, with elements of `width` words."""
        self._pools.append(pool := Lists(self, listed, width, refs))
        return pool

    def references(self, *pools: Pooled) -> References:
        """Return a column of references to objects or lists of these pools, or None."""
        return References(pools)

    def arrays(self, dtype: str, rank: int, optional: bool) -> ArrayColumn:
        """Return a column of arrays of a dtype and rank; of None too if `optional`."""
        return ArrayColumn(self._arrays.setdefault(dtype, Arrays(dtype)), rank, optional)

    def points(self, dtype: str) -> ArrayColumn:
        """Return a column of arrays of rank 0 of a dtype."""
        return ArrayColumn(self._arrays.setdefault(dtype, Arrays(dtype)), 0, False, points=True)

    def take(self, nbytes: float) -> None:
        """Raise `TooLarge` if the data of all arrays take more memory than is free, before they take it."""
        self._bytes += nbytes
        if self._bytes <= SMALL:
            return
        if not self._free:
            self._free = free_bytes()
        if self._bytes > self._free:
            raise TooLarge(self._bytes)

    def more(self) -> bool:
        """Whether something was found that was not looked at yet."""
        return any(pool.done < len(pool.todo) for pool in self._pools)

    def allocate(self) -> Heap:
        """Return the heap, with the arrays already in it."""
        for pool in self._pools:
            pool.reserve()
        for arrays in self._arrays.values():
            arrays.reserve(self)
        size = sum(map(len, self.shapes))
        extents = self.add("extents", size, 1)
        heap = Heap(
            words=aligned(self._size, np.int64, zero=True),
            regions=tuple(self._regions),
            pools={arrays.dtype: arrays.pool for arrays in self._arrays.values()},
            objects={pool.region: pool.objects() for pool in self._pools if pool.region.count},
        )
        address = heap.address(extents)
        for shape in self.shapes:
            self.shapes[shape] = address
            address += 8 * len(shape)
        heap.table(extents)[:, 0] = [n for shape in self.shapes for n in shape]
        for pool in self._pools:
            pool.place(heap)
        for arrays in self._arrays.values():
            arrays.fill(heap, self.shapes)
        return heap


class Pooled:
    """The objects of one class, in the order of their rows."""

    def __init__(self, room: Room, kinds: frozenset[type], width: int, refs: tuple[int, ...], cls: type | None) -> None:
        self.room = room
        self.kinds = kinds
        self.width = width
        self.refs = refs
        self.cls = cls
        self.todo: list[Any] = []  # everything found; twice what was found twice
        self.done = 0  # how many of them were looked at
        self.seen: dict[int, Any] = {}  # if careful: objects by id, in the order of their rows
        self.region: Region
        self.base = 0  # address of the first row
        self.at: dict[int, int] = {}  # if careful: addresses by id
        self._check_at = FIRST_CHECK

    def take(self) -> list[Any]:
        """Return the next new objects; none if there are no more."""
        todo = self.todo
        while self.done < len(todo):
            values = todo[self.done : self.done + STEP]
            self.done += len(values)
            if not self.kinds.issuperset(map(type, values)):
                raise Mismatch
            if self.room.careful:
                values = self._unseen(values)
            elif self.done > self._check_at:
                self._check()
            if values:
                return values
        return []

    def _unseen(self, values: list[Any]) -> list[Any]:
        seen = self.seen
        before = len(seen)
        seen.update(zip(map(id, values), values, strict=True))
        grown = len(seen) - before
        if grown == len(values):
            return values
        new = list(islice(reversed(seen.values()), grown))
        new.reverse()
        return new

    def _check(self) -> None:
        """Raise `Twice` if an object is among those found more than once."""
        ids = np.sort(ids_of(self.todo))
        if (ids[1:] == ids[:-1]).any():
            raise Twice
        self._check_at = 4 * self.done

    def objects(self) -> Sequence[Any]:
        """Return the objects in the order of their rows."""
        return list(self.seen.values()) if self.room.careful else self.todo

    def reserve(self) -> None:
        """Reserve the rows; nothing more is found."""
        if not self.room.careful:
            self._check()
        count = len(self.seen) if self.room.careful else len(self.todo)
        self._reserve(count)

    def _reserve(self, count: int) -> None:
        self.region = self.room.add("rows", count, self.width, self.refs, cls=self.cls)

    def place(self, heap: Heap) -> None:
        """Give the objects their addresses."""
        self.base = heap.address(self.region)
        step = 8 * self.region.width
        if self.room.careful:
            self.at = dict(zip(self.seen, range(self.base, self.base + step * len(self.seen), step), strict=True))


class Lists(Pooled):
    """The lists of one type: a row for each, and their elements one after the other."""

    def __init__(self, room: Room, listed: ListT, width: int, refs: tuple[int, ...]) -> None:
        super().__init__(room, frozenset((list, tuple)), width, refs, None)
        self.listed = listed
        self.lengths: list[int] = []
        self.items: Region

    def take(self) -> list[Any]:
        """Return the elements of the next new lists."""
        lists = super().take()
        self.lengths += map(len, lists)
        return list(chain.from_iterable(lists))

    def _reserve(self, count: int) -> None:
        self.region = self.room.add("heads", count, LIST.count, (LIST.at["items"],), listed=self.listed)
        self.items = self.room.add("items", sum(self.lengths), self.width, self.refs)

    def place(self, heap: Heap) -> None:
        super().place(heap)
        heads = heap.table(self.region)
        counts = np.fromiter(self.lengths, np.int64, len(heads))
        heads[:, 0] = heap.address(self.items) + 8 * self.width * (np.cumsum(counts) - counts)
        heads[:, 1] = heads[:, 2] = counts


class References:
    """A column of references."""

    def __init__(self, pools: Sequence[Pooled]) -> None:
        self._pools = pools
        self._keep = pools[0].room.careful
        self._values: list[Any] = []  # if careful
        self._valid = [bytearray() for _ in pools]  # by pool, for each value: whether it refers to that pool
        self._lengths = array("q")  # of each piece of the column
        self._places = [array("q") for _ in pools]  # where what a piece refers to begins, among what the pool has found
        self._kinds = frozenset((type(None), *(kind for pool in pools for kind in pool.kinds)))

    def add(self, values: list[Any]) -> None:
        """Add values, none of which may be None."""
        (pool,) = self._pools
        self._valid[0] += b"\1" * len(values)
        self._lengths.append(len(values))
        self._places[0].append(len(pool.todo))
        pool.todo += values
        if self._keep:
            self._values += values

    def add_optional(self, values: list[Any]) -> None:
        """Add values that may be None."""
        (pool,) = self._pools
        self._valid[0] += bytes([v is not None for v in values])
        self._lengths.append(len(values))
        self._places[0].append(len(pool.todo))
        pool.todo += [v for v in values if v is not None]
        if self._keep:
            self._values += values

    def add_any(self, values: list[Any]) -> None:
        """Add values of several classes."""
        if not self._kinds.issuperset(map(type, values)):
            raise Mismatch
        self._lengths.append(len(values))
        for pool, valid, places in zip(self._pools, self._valid, self._places, strict=True):
            (kind,) = pool.kinds
            valid += bytes([type(v) is kind for v in values])
            places.append(len(pool.todo))
            pool.todo += [v for v in values if type(v) is kind]
        if self._keep:
            self._values += values

    def words(self) -> Words:
        """Return the addresses, 0 for None."""
        out = self._of(0)
        for k in range(1, len(self._pools)):
            out += self._of(k)
        return out

    def _of(self, k: int) -> Words:
        """Return the references to objects of one pool, 0 for the others."""
        pool, valid = self._pools[k], np.frombuffer(self._valid[k], np.bool_)
        if self._keep:
            out = np.zeros(len(valid), np.int64)
            some = compress(self._values, self._valid[k])
            out[valid] = np.fromiter(map(pool.at.__getitem__, map(id, some)), np.int64)
            return out
        lengths, places = np.array(self._lengths), np.array(self._places[k])
        ranks = valid.cumsum()
        ends = lengths.cumsum()
        before = np.concatenate(([0], ranks))[ends - lengths]  # references in earlier pieces
        rows: Words = ranks + (places - before - 1).repeat(lengths)
        rows *= 8 * pool.region.width
        rows += pool.base
        rows *= valid
        return rows


class Ints:
    """A column of ints."""

    def __init__(self) -> None:
        self._values = array("q")

    def add(self, values: list[Any]) -> None:
        """Add ints, bools or NumPy integers."""
        kinds = set(map(type, values))
        if not kinds <= _INTS:
            if not kinds <= WHOLE:
                raise Mismatch
            values = list(map(int, values))
        _extend(self._values, values, np.int64)

    def words(self) -> Words:
        """Return the words."""
        return np.frombuffer(self._values, np.int64)


class Floats:
    """A column of floats: the words are the bits of doubles."""

    def __init__(self) -> None:
        self._values = array("d")

    def add(self, values: list[Any]) -> None:
        """Add floats, ints or bools."""
        expect(values, FLOATS)
        _extend(self._values, values, np.float64)

    def words(self) -> Words:
        """Return the words."""
        return np.frombuffer(self._values, np.int64)


class Bools:
    """A column of bools: the words are 0 or 1."""

    def __init__(self) -> None:
        self._values = bytearray()

    def add(self, values: list[Any]) -> None:
        """Add bools."""
        expect(values, _BOOLS)
        self._values += bytes(values)

    def words(self) -> Words:
        """Return the words."""
        return np.frombuffer(self._values, np.bool_).astype(np.int64)


class Enums:
    """A column of members of an enumeration: the words are their numbers."""

    def __init__(self, numbers: Mapping[int, int]) -> None:
        self._numbers = numbers  # by id of the member
        self._values = array("q")

    def add(self, values: list[Any]) -> None:
        """Add members."""
        self._values.extend(map(self._numbers.__getitem__, map(id, values)))

    def words(self) -> Words:
        """Return the words."""
        return np.frombuffer(self._values, np.int64)


# The classes of numbers. What is derived from them may compute in other ways, and the plain call has its class.
_INTS = frozenset((int, bool))
WHOLE = _INTS | {np.dtype(code).type for code in np.typecodes["AllInteger"]}
FLOATS = _INTS | {float, np.float64}
_BOOLS = frozenset((bool,))


class ArrayColumn:
    """A column of arrays, or of NumPy scalars if the rank is 0; with `points` of arrays of rank 0."""

    def __init__(self, arrays: Arrays, rank: int, optional: bool, points: bool = False) -> None:
        self._arrays = arrays
        self._rank = rank
        self._optional = optional
        self._arrays_of_rank_0 = points
        self._both = False
        self._values: list[Any] = []
        self._looked = 0  # how many of them were looked at
        self._sizes = [_NO_WORDS]  # of those that are arrays, in pieces
        self._ids = [_NO_WORDS]  # likewise
        self._block: tuple[int, int] | None = None  # first record and number of a parameter given as one array
        self._first = 0

    def add(self, values: list[Any]) -> None:
        """Add arrays."""
        self._values += values
        if len(self._values) - self._looked >= STEP // 2:
            self._look()

    def add_both(self, values: list[Any]) -> None:
        """Add arrays of rank 0 and NumPy scalars."""
        self._both = True
        self.add(values)

    def _look(self) -> None:
        """Look at what was added, while it is in the cache; raise `Mismatch` if it is not what is stored here."""
        new = self._values[self._looked :]
        self._looked = len(self._values)
        if self._optional:
            new = [v for v in new if v is not None]
        check_arrays(new, self._arrays.dtype, self._rank, self._arrays_of_rank_0, self._both)
        self._sizes.append(np.fromiter(map(_size, new), np.int64, len(new)))
        self._ids.append(ids_of(new))

    def add_rows(self, column: Any) -> None:
        """Add a parameter: a list of arrays, or an array [n, ...]."""
        if not isinstance(column, np.ndarray):
            self._values += column
        elif column.dtype != np.dtype(self._arrays.dtype) or column.ndim != self._rank + 1:
            raise Mismatch
        else:
            self._block = self._arrays.add_block(column), len(column)

    def close(self) -> None:
        """Hand over the arrays; no more are added."""
        if self._block is not None:
            return
        self._look()
        some = [v for v in self._values if v is not None] if self._optional else self._values
        self._first = self._arrays.add(some, self._rank, self._sizes, self._ids)

    def words(self) -> Words:
        """Return the addresses of the value records, 0 for None."""
        if self._block is not None:
            return self._arrays.block_addresses(*self._block)
        valid = np.frombuffer(bytes([v is not None for v in self._values]), np.bool_)
        out = np.zeros(len(valid), np.int64)
        out[valid] = self._arrays.addresses(self._first, int(valid.sum()))
        return out


class Arrays:
    """The arrays of one dtype: first collected, then copied to a pool, with a value record each."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.pool: Pool
        self._found: list[Any] = []
        self._flat = True  # whether all of them have one axis
        self._pieces: list[Words] = []  # their sizes
        self._ids: list[Words] = []  # likewise
        self._sizes: Words  # of those that were found once
        self._blocks: list[npt.NDArray[Any]] = []
        self._block_rows = 0
        self._numbers: Words | None = None  # record of each array found, if some were found twice
        self._region: Region
        self._base = 0

    def add(self, values: list[Any], rank: int, sizes: list[Words], ids: list[Words]) -> int:
        """Add arrays, their sizes and ids; return the place of the first."""
        first = len(self._found)
        self._found += values
        self._pieces += sizes
        self._ids += ids
        self._flat = self._flat and rank == 1
        return first

    def add_block(self, column: npt.NDArray[Any]) -> int:
        """Add the rows of an array; return the number of the first among all such rows."""
        first = self._block_rows
        self._blocks.append(column)
        self._block_rows += len(column)
        return first

    def reserve(self, room: Room) -> None:
        found = self._found
        self._sizes, ids = np.concatenate(self._pieces or [_NO_WORDS]), np.concatenate(self._ids or [_NO_WORDS])
        ordered = np.sort(ids)
        if (ordered[1:] == ordered[:-1]).any():
            _, firsts, numbers = np.unique(ids, return_index=True, return_inverse=True)
            order = np.argsort(firsts)
            rank = np.empty_like(order)
            rank[order] = np.arange(len(order))
            self._numbers = rank[numbers]
            once = firsts[order]
            self._sizes = self._sizes[once]
            self._found = found = [found[k] for k in once.tolist()]
        count = float(self._sizes.sum(dtype=float)) + sum(float(c.size) for c in self._blocks)
        room.take(count * np.dtype(self.dtype).itemsize)
        # A tuple for each array would be what the garbage collector looks at.
        shapes = [(n,) for n in np.unique(self._sizes).tolist()] if self._flat else [v.shape for v in found]
        room.shapes.update(dict.fromkeys(shapes, 0))
        room.shapes.update(dict.fromkeys([c.shape[1:] for c in self._blocks], 0))
        self._region = room.add(
            "records", len(found) + self._block_rows, RECORD.count, (RECORD.at["shape"],), dtype=self.dtype
        )
        split = int(self._sizes.sum())
        self.pool = pool = aligned(split + sum(c.size for c in self._blocks), self.dtype)
        if found:
            np.concatenate(found, axis=None, out=pool[:split])
        for column in self._blocks:
            pool[split : split + column.size].reshape(column.shape)[...] = column
            split += column.size

    def fill(self, heap: Heap, shapes: Mapping[tuple[int, ...], int]) -> None:
        """Write the value records."""
        table, found, size = heap.table(self._region), self._found, self.pool.itemsize
        self._base = heap.address(self._region)
        data, k, sizes = int(self.pool.ctypes.data), len(found), self._sizes
        ends = np.cumsum(sizes)
        table[:, 1] = INPUT
        table[:k, 0] = data + size * (ends - sizes)
        if self._flat:
            lengths, places = np.unique(sizes, return_inverse=True)
            table[:k, 2] = np.array([shapes[(n,)] for n in lengths.tolist()], np.int64)[places]
        else:
            table[:k, 2] = [shapes[v.shape] for v in found]
        data += size * int(sizes.sum())
        for column in self._blocks:
            n, step = len(column), size * math.prod(column.shape[1:])
            table[k : k + n, 0] = data + step * np.arange(n)
            table[k : k + n, 2] = shapes[column.shape[1:]]
            data += column.size * size
            k += n

    def addresses(self, first: int, count: int) -> Words:
        """Return the addresses of the records of arrays, by the place of the first."""
        numbers = np.arange(first, first + count) if self._numbers is None else self._numbers[first : first + count]
        return self._base + RECORD.size * numbers

    def block_addresses(self, first: int, count: int) -> Words:
        """Return the addresses of the records of rows, by the number of the first."""
        return self._base + RECORD.size * np.arange(len(self._found) + first, len(self._found) + first + count)


_NO_WORDS: Words = np.zeros(0, np.int64)
_ARRAY_KINDS = frozenset((np.ndarray, np.memmap))
_dtype, _rank, _size = attrgetter("dtype"), attrgetter("ndim"), attrgetter("size")


def are_arrays(values: Sequence[Any]) -> list[bool]:
    """Return which values are arrays, not NumPy scalars."""
    return [type(v) in _ARRAY_KINDS for v in values]


def check_arrays(values: Sequence[Any], dtype: str, rank: int, points: bool, both: bool) -> None:
    """Raise `Mismatch` unless all values are arrays of a dtype and rank.

    If the rank is 0 they are NumPy scalars, with `points` arrays, with `both` either.
    """
    kind = np.dtype(dtype)
    scalars = frozenset((kind.type,))
    wanted = _ARRAY_KINDS | scalars if both else _ARRAY_KINDS if rank or points else scalars
    if not wanted.issuperset(map(type, values)) or not (
        {kind}.issuperset(map(_dtype, values)) and {rank}.issuperset(map(_rank, values))
    ):
        raise Mismatch


def expect(values: Iterable[object], kinds: frozenset[type]) -> None:
    """Raise `Mismatch` unless every value is of one of the classes."""
    if not kinds.issuperset(map(type, values)):
        raise Mismatch


def expect_constant(values: Sequence[object], value: str) -> None:
    """Raise `Mismatch` unless every value is this string."""
    if not {str}.issuperset(map(type, values)) or not {value}.issuperset(values):
        raise Mismatch


def transpose(values: Sequence[Any], size: int) -> list[list[Any]]:
    """Return the items of tuples of one size, as columns."""
    if not {tuple}.issuperset(map(type, values)) or not {size}.issuperset(map(len, values)):
        raise Mismatch
    return [[v[k] for v in values] for k in range(size)]


def entries(values: Sequence[Any], keys: tuple[str, ...]) -> list[list[Any]]:
    """Return the entries of dicts with the same keys, as columns."""
    if not {dict}.issuperset(map(type, values)) or not {keys}.issuperset(map(tuple, values)):
        raise Mismatch
    return [[v[k] for v in values] for k in keys]
