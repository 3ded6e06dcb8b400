"""Run-time library of the generated packers: collect reachable values as columns of words, then build the heap.

In: lists of objects, numbers and arrays, as the generated packers (`data.packer`) read them from fields. Out: a `Heap`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, compress, islice
from types import MethodType
from typing import Any

import numpy as np
import numpy.typing as npt

from acronumba.data.arrays import STEP, ArrayColumn, Arrays, ids_of
from acronumba.data.hashing import known_sets, read_tables
from acronumba.data.heap import SMALL, Heap, Mismatch, Region, TooLarge, aligned, free_bytes
from acronumba.data.strings import TextColumn, Texts, hashes
from acronumba.data.words import LIST
from acronumba.generics import Value
from acronumba.ir.functions import is_function_class, known_function
from acronumba.ir.shapes import Shape, class_of_values, is_shape
from acronumba.ir.types import NO_VALUE, ListT, MapT, words
from acronumba.memory import Words, native

FEW = 32  # count of numbers below which a NumPy call does not pay
FIRST_CHECK = 1 << 16  # number of objects before the first check for repetitions


def _extend(out: array[Any], values: list[Value], dtype: npt.DTypeLike) -> None:
    """Append numbers to an array, by NumPy if there are at least `FEW`: below that its call overhead dominates."""
    if len(values) < FEW:
        out.extend(values)
    else:
        out.frombytes(np.array(values, dtype).tobytes())


class Twice(Exception):
    """An object was reached twice: pack again with `careful`."""


class HeapBuilder:
    """Collects all values that the instances reach, and then builds the heap.

    Parameters
    ----------
    careful : bool
        Whether objects may be reached more than once. If not, the place of an object among those found is its row,
        so that no reference is ever looked up; that all were different is checked from time to time and at the end
        (`Twice`).
    tables : bool
        Whether Python's tables of sets are stored.
    """

    def __init__(self, careful: bool, tables: bool = True) -> None:
        self.careful = careful
        self.tables = tables
        self._size = 0
        self._bytes = 0.0  # of the data of arrays
        self._free = 0  # free bytes at the first check
        self._regions: list[Region] = []
        self._pools: list[Pooled] = []
        self._arrays: dict[str, Arrays] = {}
        self._texts: Texts | None = None
        self.shapes: dict[tuple[int, ...], int] = {}  # address of the extents of each shape

    def add(self, kind: str, count: int, width: int, refs: tuple[int, ...] = (), **of: Any) -> Region:
        """Reserve a region; `of` are further fields of `Region`: `cls`, `listed` or `dtype`."""
        region = Region(kind=kind, start=self._size, rows=count, width=width, refs=refs, **of)
        self._regions.append(region)
        self._size += region.size
        return region

    def objects(self, cls: type, width: int, refs: tuple[int, ...]) -> Pooled:
        """Return the pool of the objects of a class: rows of `width` words, of which `refs` are references."""
        self._pools.append(Pooled(self, frozenset((class_of_values(cls),)), width, refs, cls))
        return self._pools[-1]

    def lists(self, listed: ListT, width: int, refs: tuple[int, ...]) -> Lists:
        """Return the pool of lists or tuples of a type, with elements of `width` words."""
        self._pools.append(pool := Lists(self, listed, width, refs, tuple if listed.tupled else list))
        return pool

    def maps(self, mapped: MapT, width: int, refs: tuple[int, ...]) -> Maps:
        """Return the pool of dicts of a type, with entries of `width` words."""
        self._pools.append(pool := Maps(self, mapped, width, refs))
        return pool

    def references(self, *pools: Pooled) -> References:
        """Return a column of references to objects or lists of these pools, or None."""
        return References(pools)

    def arrays(self, dtype: str, rank: int, optional: bool, column: bool = False) -> ArrayColumn:
        """Return a column of arrays of a dtype and rank, or None if `optional`; see `TensorT.column`."""
        return ArrayColumn(self._arrays.setdefault(dtype, Arrays(dtype)), rank, optional, column=column)

    def texts(self) -> TextColumn:
        """Return a column of strings, or None."""
        if self._texts is None:
            self._texts = Texts()
        return TextColumn(self._texts)

    def points(self, dtype: str) -> ArrayColumn:
        """Return a column of arrays of rank 0 of a dtype."""
        return ArrayColumn(self._arrays.setdefault(dtype, Arrays(dtype)), 0, False, points=True)

    def take(self, nbytes: float) -> None:
        """Raise `TooLarge` if the data of all arrays would take more memory than is free."""
        self._bytes += nbytes
        if self._bytes <= SMALL:
            return
        if not self._free:
            self._free = free_bytes()
        if self._bytes > self._free:
            raise TooLarge(self._bytes)

    def more(self) -> bool:
        """Whether some objects or lists have fields or elements that have not been read yet."""
        return any(pool.done < len(pool.todo) for pool in self._pools)

    def allocate(self) -> Heap:
        """Return the heap, with the arrays already in it."""
        for pool in self._pools:
            pool.reserve()
        for arrays in self._arrays.values():
            arrays.reserve(self.add, self.take, self.shapes)
        if self._texts is not None:
            self._texts.reserve(self.add, self.take)
        size = sum(map(len, self.shapes))
        extents = self.add("extents", size, 1)
        heap = Heap(
            words=aligned(self._size, np.int64, zero=True),
            regions=tuple(self._regions),
            pools={arrays.dtype: arrays.pool for arrays in self._arrays.values()},
            objects={pool.region: pool.objects() for pool in self._pools if pool.region.rows},
            foreign=[v for arrays in self._arrays.values() for v, _ in arrays.converted.values()],
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
        if self._texts is not None:
            self._texts.fill(heap)
        return heap


class Pooled:
    """The objects of one class, in the order of their rows."""

    def __init__(
        self, room: HeapBuilder, kinds: frozenset[type], width: int, refs: tuple[int, ...], cls: type | None
    ) -> None:
        self.room = room
        self.kinds = kinds
        self.width = width
        self.refs = refs
        self.cls = cls
        self.shape = cls.shape if is_shape(cls) else None
        self.only: Shape | None = None  # the shape that objects must have, if references have not tested it
        self.todo: list[Value] = []  # everything found, with repetitions
        self.done = 0  # number of entries of `todo` already returned
        self.seen: dict[int, Value] = {}  # if careful: objects by id, in the order of their rows
        self.region: Region
        self.base = 0  # address of the first row
        self.at: dict[int, int] = {}  # if careful: addresses by id
        self._check_at = FIRST_CHECK

    def take(self) -> list[Value]:
        """Return the next new objects; an empty list at the end."""
        todo = self.todo
        while self.done < len(todo):
            values = todo[self.done : self.done + STEP]
            self.done += len(values)
            if not self.kinds.issuperset(map(type, values)) or (self.only and not _have_shape(self.only, values)):
                raise Mismatch
            if self.room.careful:
                values = self._unseen(values)
            elif self.done > self._check_at:
                self._check()
            if values:
                return values
        return []

    def _unseen(self, values: list[Value]) -> list[Value]:
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
        ids = ids_of(self.todo)
        places = (ids >> 4) & ((4 << len(ids).bit_length()) - 1)
        shared = np.bincount(native(places))[places] > 1
        ids = np.sort(ids[shared])  # equal ones have one place; of others few do
        if (ids[1:] == ids[:-1]).any():
            raise Twice
        self._check_at = 4 * self.done

    def objects(self) -> Sequence[Value]:
        """Return the objects in the order of their rows."""
        return list(self.seen.values()) if self.room.careful else self.todo

    def reserve(self) -> None:
        """Reserve the rows, after the last object was found."""
        if not self.room.careful:
            self._check()
        self._reserve(len(self.seen if self.room.careful else self.todo))

    def _reserve(self, count: int) -> None:
        self.region = self.room.add("rows", count, self.width, self.refs, cls=self.cls)

    def place(self, heap: Heap) -> None:
        """Assign addresses to the objects."""
        self.base = heap.address(self.region)
        step = 8 * self.region.width
        if self.room.careful:
            self.at = dict(zip(self.seen, range(self.base, self.base + step * len(self.seen), step), strict=True))


class Lists(Pooled):
    """The lists, or tuples, of one type: a row for each, and their elements contiguously."""

    def __init__(self, room: HeapBuilder, listed: ListT | MapT, width: int, refs: tuple[int, ...], kind: type) -> None:
        super().__init__(room, frozenset((kind,)), width, refs, None)
        self.listed = listed
        self.lengths: list[int] = []
        self.items: Region

    def take(self) -> list[Value]:
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


class Maps(Lists):
    """The dicts or sets of one type: entries stored like list elements, and a hash table, see `host.maps`.

    Behind the table of a set is what `hashing.read_tables` says of it, if the program or an unknown one may read that.
    """

    def __init__(self, room: HeapBuilder, mapped: MapT, width: int, refs: tuple[int, ...]) -> None:
        super().__init__(room, mapped, width, refs, mapped.python)
        self._tabled = room.tables and mapped.item is None and known_sets()
        self._known: list[int] = []  # of sets: 2 * slots of Python's table (+ 1), and the slot of each element
        self._places: list[int] = []

    def take(self) -> list[Value]:
        """Return the (key, value) pairs of the next new dicts; the values are None for sets."""
        found = Pooled.take(self)
        self.lengths += map(len, found)
        dicts = found
        if set in self.kinds:
            dicts = list(map(dict.fromkeys, found))
            if self._tabled:
                known, places = read_tables(found)
                self._known += known
                self._places += places
        return list(chain.from_iterable([d.items() for d in dicts]))

    def _reserve(self, count: int) -> None:
        self.region = self.room.add("heads", count, LIST.count + 1, (LIST.at["items"], LIST.count), listed=self.listed)
        self.items = self.room.add("items", sum(self.lengths), self.width, self.refs)
        counts = np.array(self.lengths, np.int64)
        self._slots = 2 << np.ceil(np.log2(np.maximum(counts, 1))).astype(np.int64)
        self._words = self._slots + 1 + (counts + 1 if self._tabled else 0)
        self._tables = self.room.add("tables", int(self._words.sum()), 1)

    def place(self, heap: Heap) -> None:
        super().place(heap)
        heads = heap.table(self.region)
        heads[:, LIST.at["capacity"]] = 0
        starts = np.cumsum(self._words) - self._words
        heads[:, LIST.count] = heap.address(self._tables) + 8 * starts

    def index(self, heap: Heap) -> None:
        """Fill the hash tables, once the entries are written."""
        assert isinstance(self.listed, MapT)
        key = words(self.listed.key)
        counts = np.array(self.lengths, np.int64)
        number = np.arange(counts.sum()) - (np.cumsum(counts) - counts).repeat(native(counts))
        mask = (self._slots - 1).repeat(native(counts))
        table = heap.table(self._tables)[:, 0]
        starts = np.cumsum(self._words) - self._words
        table[starts] = self._slots - 1
        if self._tabled:
            known = starts + self._slots + 1
            table[known] = self._known
            table[(known + 1).repeat(native(counts)) + number] = self._places
        first = (starts + 1).repeat(native(counts))
        slot = hashes(heap, heap.table(self.items)[:, : len(key)], key) & mask
        left = np.arange(len(number))
        while len(left):  # linear probing: of the entries that try one slot, one gets it
            at = first[left] + slot[left]
            free = table[at] == 0
            table[at[free]] = number[left[free]] + 1
            left = left[~free | (table[at] != number[left] + 1)]
            slot[left] = (slot[left] + 1) & mask[left]


class References:
    """A column of references."""

    def __init__(self, pools: Sequence[Pooled]) -> None:
        self._pools = pools
        self._keep = pools[0].room.careful
        self._values: list[Value] = []  # if careful
        self._valid = [bytearray() for _ in pools]  # by pool, for each value: whether it refers to that pool
        self._lengths = array("q")  # of each piece of the column
        self._places = [array("q") for _ in pools]  # per pool: number of its values before each piece
        self._kinds = frozenset((type(None), *(kind for pool in pools for kind in pool.kinds)))
        self._shapes = [pool.shape for pool in pools] if any(pool.shape for pool in pools) else None
        if len(pools) == 1:
            pools[0].only = pools[0].shape

    def add(self, values: list[Value]) -> None:
        """Add values, none of which may be None."""
        (pool,) = self._pools
        self._valid[0] += b"\1" * len(values)
        self._lengths.append(len(values))
        self._places[0].append(len(pool.todo))
        pool.todo += values
        if self._keep:
            self._values += values

    def add_optional(self, values: list[Value]) -> None:
        """Add values that may be None."""
        (pool,) = self._pools
        self._valid[0] += bytes([v is not None for v in values])
        self._lengths.append(len(values))
        self._places[0].append(len(pool.todo))
        some = [v for v in values if v is not None]
        pool.todo += some
        if self._keep:
            self._values += values

    def add_any(self, values: list[Value]) -> None:
        """Add values of several classes."""
        if not self._kinds.issuperset(map(type, values)):
            raise Mismatch
        self._lengths.append(len(values))
        if self._shapes is not None:
            self._add_by_shape(values)
            return
        for pool, valid, places in zip(self._pools, self._valid, self._places, strict=True):
            (kind,) = pool.kinds
            valid += bytes([type(v) is kind for v in values])
            places.append(len(pool.todo))
            pool.todo += [v for v in values if type(v) is kind]
        if self._keep:
            self._values += values

    def _add_by_shape(self, values: list[Value]) -> None:
        numbers = self._numbers(values)
        for k, (pool, valid, places) in enumerate(zip(self._pools, self._valid, self._places, strict=True)):
            here = (numbers == k).tobytes()
            valid += here
            places.append(len(pool.todo))
            pool.todo += compress(values, here)
        if self._keep:
            self._values += values

    def _numbers(self, values: list[Value]) -> npt.NDArray[np.int64]:
        """Return the number of the pool of each value, -1 for None; raise `Mismatch` if a value has none."""
        kinds = list(map(type, values))
        out = np.full(len(values), -1)
        for kind in self._kinds - {type(None)}:
            shapes = [(k, pool.shape) for k, pool in enumerate(self._pools) if kind in pool.kinds]
            several = len(self._kinds) > 2 or type(None) in kinds
            here = np.array([cls is kind for cls in kinds], np.bool_) if several else None
            some = values if here is None else list(compress(values, here))
            found = list(_numbers_of(shapes, some))
            if None in found:
                raise Mismatch
            out[slice(None) if here is None else here] = found
        return out

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
        rows: Words = ranks + (places - before - 1).repeat(native(lengths))
        rows *= 8 * pool.region.width
        rows += pool.base
        rows *= valid
        return rows


def _have_shape(shape: Shape, values: list[Value]) -> bool:
    """Whether all of some lists, tuples or dicts have a shape; their items are not looked at.

    Where the keys of dicts, one dict after the other, repeat those of the shape, no dict has more, as it has each key
    once; so none has less.
    """
    if shape.is_open:
        return True
    if shape.keys is None:
        return {shape.size}.issuperset(map(len, values))
    found, size = list(chain.from_iterable(values)), len(shape.keys)
    if len(found) != size * len(values):
        return False
    return all(found[k::size].count(key) == len(values) for k, key in enumerate(shape.keys))


def _numbers_of(shapes: Sequence[tuple[int, Shape | None]], values: list[Value]) -> Iterable[int | None]:
    """Return the number of the shape of each of some values of one class, None if it has none of them."""
    keyed: dict[Value, int] = {s.own_key: k for k, s in shapes if s is not None and not s.is_open}
    last = next((k for k, s in shapes if s is None or s.is_open), None)
    if not keyed:
        return [last] * len(values)
    tagged = any(s is not None and s.tag is not None for _, s in shapes)
    if tagged:
        found = [keyed.get((len(v), v[0]) if v and type(v[0]) is str else None, keyed.get(len(v))) for v in values]
    else:
        keys = map(tuple, values) if any(s is not None and s.keys is not None for _, s in shapes) else map(len, values)
        found = list(map(keyed.get, keys))
    return found if last is None else [last if k is None else k for k in found]


class Ints:
    """A column of ints; with `exact`, without conversion."""

    def __init__(self, exact: bool = False) -> None:
        self._values = array("q")
        self._plain = frozenset((int,)) if exact else _INTS
        self._exact = exact

    def add(self, values: list[Value]) -> None:
        """Add ints, bools or NumPy integers."""
        kinds = set(map(type, values))
        if not kinds <= self._plain:
            if self._exact or not kinds <= WHOLE:
                raise Mismatch
            values = list(map(int, values))
        _extend(self._values, values, np.int64)

    def words(self) -> Words:
        """Return the words."""
        return np.frombuffer(self._values, np.int64)


class Floats:
    """A column of floats, whose words are the bits of doubles; with `exact`, without conversion."""

    def __init__(self, exact: bool = False) -> None:
        self._values = array("d")
        self._kinds = frozenset((float,)) if exact else FLOATS

    def add(self, values: list[Value]) -> None:
        """Add floats, ints or bools."""
        expect(values, self._kinds)
        _extend(self._values, values, np.float64)

    def words(self) -> Words:
        """Return the words."""
        return np.frombuffer(self._values, np.int64)


class Bools:
    """A column of bools: the words are 0 or 1."""

    def __init__(self) -> None:
        self._values = bytearray()

    def add(self, values: list[Value]) -> None:
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

    def add(self, values: list[Value]) -> None:
        """Add members."""
        self._values.extend(map(self._numbers.__getitem__, map(id, values)))

    def words(self) -> Words:
        """Return the words."""
        return np.frombuffer(self._values, np.int64)


# The exact classes of numbers. A subclass may override arithmetic, so it does not match.
_INTS = frozenset((int, bool))
WHOLE = _INTS | {np.dtype(code).type for code in np.typecodes["AllInteger"]}
FLOATS = _INTS | {float, np.float64}
_BOOLS = frozenset((bool,))


def none_for_no_value(values: list[Value]) -> list[Value]:
    """Replace each missing value by None; raise `Mismatch` if a value is None."""
    if type(None) in set(map(type, values)):
        raise Mismatch
    return [None if v is NO_VALUE else v for v in values]


def expect(values: Iterable[object], kinds: frozenset[type]) -> None:
    """Raise `Mismatch` unless every value is of one of the classes."""
    if not kinds.issuperset(map(type, values)):
        raise Mismatch


def expect_constant(values: Sequence[object], value: str) -> None:
    """Raise `Mismatch` unless every value is this string."""
    if not {str}.issuperset(map(type, values)) or not {value}.issuperset(values):
        raise Mismatch


def expect_function(values: Sequence[object], function: object) -> None:
    """Raise `Mismatch` unless every value is this function, or one for which it stands."""
    for v in {id(v): v for v in values}.values():
        if v is not function and not (is_function_class(type(v)) and known_function(v) is function):
            raise Mismatch


def owners(values: Sequence[Value], function: object) -> list[Value]:
    """Return the objects that methods are bound to; raise `Mismatch` unless each is this function, bound."""
    if not {MethodType}.issuperset(map(type, values)) or any(v.__func__ is not function for v in values):
        raise Mismatch
    return [v.__self__ for v in values]


def transpose(values: Sequence[Value], size: int) -> list[list[Value]]:
    """Return the items of tuples of one size, as columns."""
    if not {tuple}.issuperset(map(type, values)) or not {size}.issuperset(map(len, values)):
        raise Mismatch
    return [[v[k] for v in values] for k in range(size)]


def entries(values: Sequence[Value], keys: tuple[str, ...]) -> list[list[Value]]:
    """Return the entries of dicts with the same keys, as columns."""
    if not {dict}.issuperset(map(type, values)) or not {keys}.issuperset(map(tuple, values)):
        raise Mismatch
    return [[v[k] for v in values] for k in keys]
