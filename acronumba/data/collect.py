"""Everything that instances reach, collected as columns of words; then the heap.

In: lists of objects, numbers and arrays, as the generated packers (`data.packer`) take them from fields. Out: a `Heap`.
These functions and classes are all that such a packer calls.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, compress, count, islice
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from acronumba.data.heap import (
    INPUT,
    SMALL,
    Heap,
    Mismatch,
    Pool,
    Region,
    TooLarge,
    Words,
    aligned,
    free_bytes,
)
from acronumba.data.strings import TextColumn, Texts, hashes
from acronumba.data.words import LIST, RECORD
from acronumba.ir.types import NO_VALUE, ListT, MapT

FEW = 32  # numbers that are not worth a call of NumPy
STEP = 1024  # objects per round: few enough to stay in the cache while their fields are read
FIRST_CHECK = 1 << 16  # objects after which is looked for the first time whether one was found twice


def ids_of(objects: Sequence[Any]) -> Words:
    """Return the ids of objects: their addresses, which NumPy has in an array of objects, without an int for each."""
    return np.frombuffer(np.fromiter(objects, object, len(objects)), np.int64)


def _extend(out: array[Any], values: list[Any], dtype: npt.DTypeLike) -> None:
    """Add numbers to an array. NumPy is faster where there are many; for a few, the call alone takes longer."""
    if len(values) < FEW:
        out.extend(values)
    else:
        out.frombytes(np.array(values, dtype).tobytes())


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
        self._texts: Texts | None = None
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

    def lists(self, listed: ListT, width: int, refs: tuple[int, ...], exact: bool = False) -> Lists:
        """Return the pool of lists of a type, with elements of `width` words; `exact`: a tuple is none."""
        self._pools.append(pool := Lists(self, listed, width, refs, exact))
        return pool

    def maps(self, mapped: MapT, width: int, refs: tuple[int, ...]) -> Maps:
        """Return the pool of dicts of a type, with entries of `width` words."""
        self._pools.append(pool := Maps(self, mapped, width, refs))
        return pool

    def references(self, *pools: Pooled) -> References:
        """Return a column of references to objects or lists of these pools, or None."""
        return References(pools)

    def arrays(self, dtype: str, rank: int, optional: bool, column: bool = False) -> ArrayColumn:
        """Return a column of arrays of a dtype and rank; of None too if `optional`; see `TensorT.column`."""
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
        """Raise `TooLarge` if the data of all arrays take more memory than is free, before they take it."""
        self._bytes += nbytes
        if self._bytes <= SMALL:
            return
        if not self._free:
            self._free = free_bytes()
        if self._bytes > self._free:
            raise TooLarge(self._bytes)

    def more(self) -> bool:
        """Whether objects or lists were found whose own fields or elements have not been read yet."""
        return any(pool.done < len(pool.todo) for pool in self._pools)

    def allocate(self) -> Heap:
        """Return the heap, with the arrays already in it."""
        for pool in self._pools:
            pool.reserve()
        for arrays in self._arrays.values():
            arrays.reserve(self)
        if self._texts is not None:
            self._texts.reserve(self.add, self.take)
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
        if self._texts is not None:
            self._texts.fill(heap)
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

    def __init__(self, room: Room, listed: ListT | MapT, width: int, refs: tuple[int, ...], exact: bool) -> None:
        super().__init__(room, frozenset((list,) if exact else (list, tuple)), width, refs, None)
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


class Maps(Lists):
    """The dicts or sets of one type: entries as those of lists, and a table that finds them, see `host.maps`."""

    def __init__(self, room: Room, mapped: MapT, width: int, refs: tuple[int, ...]) -> None:
        super().__init__(room, mapped, width, refs, exact=True)
        self.kinds = frozenset((set if mapped.item is None else dict,))

    def take(self) -> list[Any]:
        """Return the keys and values of the next new dicts, in pairs; those of sets are None."""
        found = Pooled.take(self)
        self.lengths += map(len, found)
        dicts = list(map(dict.fromkeys, found)) if set in self.kinds else found
        return list(chain.from_iterable([d.items() for d in dicts]))

    def _reserve(self, count: int) -> None:
        self.region = self.room.add("heads", count, LIST.count + 1, (LIST.at["items"], LIST.count), listed=self.listed)
        self.items = self.room.add("items", sum(self.lengths), self.width, self.refs)
        counts = np.array(self.lengths, np.int64)
        self._slots = 2 << np.ceil(np.log2(np.maximum(counts, 1))).astype(np.int64)
        self._tables = self.room.add("tables", int(self._slots.sum()) + count, 1)

    def place(self, heap: Heap) -> None:
        super().place(heap)
        heads = heap.table(self.region)
        heads[:, LIST.at["capacity"]] = 0
        starts = np.cumsum(self._slots + 1) - self._slots - 1
        heads[:, LIST.count] = heap.address(self._tables) + 8 * starts

    def index(self, heap: Heap, key: int, strings: tuple[int, ...]) -> None:
        """Fill the tables, when the entries are there: `key` words of each are its key, some of them of strings."""
        counts = np.array(self.lengths, np.int64)
        number = np.arange(counts.sum()) - (np.cumsum(counts) - counts).repeat(counts)
        mask = (self._slots - 1).repeat(counts)
        table = heap.table(self._tables)[:, 0]
        starts = np.cumsum(self._slots + 1) - self._slots - 1
        table[starts] = self._slots - 1
        first = (starts + 1).repeat(counts)
        slot = hashes(heap, heap.table(self.items)[:, :key], strings) & mask
        left = np.arange(len(number))
        while len(left):  # each finds a place, or goes on to the next slot; of several in one place, one has it
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
    """A column of ints; with `exact` of nothing that becomes one."""

    def __init__(self, exact: bool = False) -> None:
        self._values = array("q")
        self._plain = frozenset((int,)) if exact else _INTS
        self._exact = exact

    def add(self, values: list[Any]) -> None:
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
    """A column of floats: the words are the bits of doubles; with `exact` of nothing that becomes one."""

    def __init__(self, exact: bool = False) -> None:
        self._values = array("d")
        self._kinds = frozenset((float,)) if exact else FLOATS

    def add(self, values: list[Any]) -> None:
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


def none_for_no_value(values: list[Any]) -> list[Any]:
    """Return None in the place of each value that an object does not have; none may be None."""
    if type(None) in set(map(type, values)):
        raise Mismatch
    return [None if v is NO_VALUE else v for v in values]


class ArrayColumn:
    """A column of arrays, or of NumPy scalars if the rank is 0; with `points` of arrays of rank 0."""

    def __init__(self, arrays: Arrays, rank: int, optional: bool, points: bool = False, column: bool = False) -> None:
        self._arrays = arrays
        self._rank = rank
        self._optional = optional
        self._column = column
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
        """Check what was added while it is still in the cache; raise `Mismatch` if this column cannot hold it."""
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
            if self._column and column.shape[-1] != 1:
                raise Mismatch
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
        count = int(valid.sum())
        if self._column:
            self._arrays.expect_columns(self._first, count)
        out[valid] = self._arrays.addresses(self._first, count)
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
        self._shapes: list[tuple[int, ...]]  # those that there are
        self._places: Words  # of the shape of each of those that were found once, among them
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
        self._shapes, self._places = self._look_at_shapes()
        room.shapes.update(dict.fromkeys(self._shapes, 0))
        room.shapes.update(dict.fromkeys([c.shape[1:] for c in self._blocks], 0))
        count, shape = len(found) + self._block_rows, RECORD.at["shape"]
        self._region = room.add("records", count, RECORD.count, (shape,), dtype=self.dtype)
        split = int(self._sizes.sum())
        self.pool = pool = aligned(split + sum(c.size for c in self._blocks), self.dtype)
        rest = {shape[1:] for shape in self._shapes}
        if split and len(rest) == 1 and all(self._shapes):  # NumPy does this in less time
            np.concatenate(found, axis=0, out=pool[:split].reshape(-1, *rest.pop()))
        elif found:
            np.concatenate(found, axis=None, out=pool[:split])
        for column in self._blocks:
            pool[split : split + column.size].reshape(column.shape)[...] = column
            split += column.size

    def _look_at_shapes(self) -> tuple[list[tuple[int, ...]], Words]:
        """Return the shapes that there are, and which of them each array has."""
        # A tuple for each array would be what the garbage collector looks at.
        if self._flat:
            lengths, places = np.unique(self._sizes, return_inverse=True)
            return [(n,) for n in lengths.tolist()], places
        number: dict[tuple[int, ...], int] = defaultdict(count().__next__)
        places = np.fromiter(map(number.__getitem__, map(_shape, self._found)), np.int64, len(self._found))
        return list(number), places

    def fill(self, heap: Heap, shapes: Mapping[tuple[int, ...], int]) -> None:
        """Write the value records."""
        table, found, size = heap.table(self._region), self._found, self.pool.itemsize
        self._base = heap.address(self._region)
        data, k, sizes = int(self.pool.ctypes.data), len(found), self._sizes
        ends = np.cumsum(sizes)
        table[:, 1] = INPUT
        table[:k, 0] = data + size * (ends - sizes)
        table[:k, 2] = np.array([shapes[shape] for shape in self._shapes], np.int64)[self._places]
        data += size * int(sizes.sum())
        for column in self._blocks:
            n, step = len(column), size * math.prod(column.shape[1:])
            table[k : k + n, 0] = data + step * np.arange(n)
            table[k : k + n, 2] = shapes[column.shape[1:]]
            data += column.size * size
            k += n

    def addresses(self, first: int, count: int) -> Words:
        """Return the addresses of the records of arrays, by the place of the first."""
        return self._base + RECORD.size * self._records(first, count)

    def _records(self, first: int, count: int) -> Words:
        """Return the numbers of the records of arrays, by the place of the first."""
        return np.arange(first, first + count) if self._numbers is None else self._numbers[first : first + count]

    def expect_columns(self, first: int, count: int) -> None:
        """Raise `Mismatch` unless the last axis of some arrays, by the place of the first, has extent 1."""
        single = np.array([shape[-1:] == (1,) for shape in self._shapes], np.bool_)
        if not single.all() and not single[self._places[self._records(first, count)]].all():
            raise Mismatch

    def block_addresses(self, first: int, count: int) -> Words:
        """Return the addresses of the records of rows, by the number of the first."""
        return self._base + RECORD.size * np.arange(len(self._found) + first, len(self._found) + first + count)


_NO_WORDS: Words = np.zeros(0, np.int64)


_dtype, _rank, _size, _shape = attrgetter("dtype"), attrgetter("ndim"), attrgetter("size"), attrgetter("shape")
_ARRAY_KINDS = frozenset((np.ndarray, np.memmap))


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
