"""Packing of the arrays in instances: one pool per dtype, and a value record for each array.

In: lists of arrays, as `data.collect` finds them. Out: in a `Heap`, a pool of each dtype and the records; the words of
a column are addresses of records. An array that is reached twice is stored once. No two arrays have the same address:
an array without elements occupies the memory of one element.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

import numpy as np

from acronumba.data.heap import INPUT, Heap, Mismatch, Pool, Region, aligned
from acronumba.data.words import RECORD
from acronumba.foreign import is_foreign, is_foreign_class, natives
from acronumba.generics import Value
from acronumba.memory import Array, DType, Words, address

STEP = 1024  # objects per round: few enough to stay in the cache while their fields are read
_MANY = 256  # number of arrays from which on NumPy counts and sorts faster than Python

_dtype, _rank, _size, _shape = attrgetter("dtype"), attrgetter("ndim"), attrgetter("size"), attrgetter("shape")
_ARRAY_KINDS = frozenset((np.ndarray, np.memmap))


def _room(column: Array) -> int:
    """Return the number of pool elements of an array, at least 1: each array needs a distinct address, by which its
    adjoint is found.
    """
    return max(column.size, 1)


def ids_of(objects: Sequence[Value]) -> Words:
    """Return the ids of objects: the pointers in a NumPy object array, without a Python int for each."""
    return np.frombuffer(np.fromiter(objects, object, len(objects)), np.uintp).astype(np.int64, copy=False)


class ArrayColumn:
    """A column of arrays, or of NumPy scalars if the rank is 0; with `points`, of arrays of rank 0."""

    def __init__(self, arrays: Arrays, rank: int, optional: bool, points: bool = False, column: bool = False) -> None:
        self._arrays = arrays
        self._rank = rank
        self._optional = optional
        self._column = column
        self._arrays_of_rank_0 = points
        self._both = False
        self._values: list[Value] = []
        self._looked = 0  # number of arrays checked so far
        self._sizes: list[Words] = []  # sizes of the arrays (not of None), in pieces; empty for short columns
        self._ids: list[Words] = []  # likewise
        self._block: tuple[int, int] | None = None  # first record and number of a parameter given as one array
        self._first = 0

    def add(self, values: list[Value]) -> None:
        """Add arrays."""
        self._values += values
        if len(self._values) - self._looked >= STEP // 2:
            self._look()

    def add_both(self, values: list[Value]) -> None:
        """Add arrays of rank 0 and NumPy scalars."""
        self._both = True
        self.add(values)

    def _look(self) -> None:
        """Check the newest arrays, while they are cached; raise `Mismatch` if one has another type than the column."""
        new = self._values[self._looked :]
        if any(map(is_foreign_class, set(map(type, new)))):
            new = self._values[self._looked :] = natives(new, self._arrays.converted)
        self._looked = len(self._values)
        if self._optional:
            new = [v for v in new if v is not None]
        check_arrays(new, self._arrays.kind, self._rank, self._arrays_of_rank_0, self._both)
        if self._looked >= _MANY:
            if self._rank == 1:
                self._sizes.append(np.fromiter(map(_size, new), np.int64, len(new)))
            self._ids.append(ids_of(new))

    def add_rows(self, column: Value) -> None:
        """Add a parameter: a list of arrays, or an array [n, ...]."""
        if not isinstance(column, np.ndarray):
            self._values += column
        elif column.dtype != self._arrays.kind or column.ndim != self._rank + 1:
            raise Mismatch
        else:
            if self._column and column.shape[-1] != 1:
                raise Mismatch
            self._block = self._arrays.add_block(column), len(column)

    def close(self) -> None:
        """Transfer the arrays to their pool; none are added later."""
        if self._block is not None:
            return
        self._look()
        some = [v for v in self._values if v is not None] if self._optional else self._values
        self._first = self._arrays.add(some, self._rank, self._sizes, self._ids)

    def words(self) -> Words:
        """Return the addresses of the value records, 0 for None."""
        if self._block is not None:
            return self._arrays.block_addresses(*self._block)
        if not self._optional:
            return self._addresses(len(self._values))
        valid = np.frombuffer(bytes([v is not None for v in self._values]), np.bool_)
        out = np.zeros(len(valid), np.int64)
        out[valid] = self._addresses(int(valid.sum()))
        return out

    def _addresses(self, number: int) -> Words:
        if self._column:
            self._arrays.expect_columns(self._first, number)
        return self._arrays.addresses(self._first, number)


class Arrays:
    """The arrays of one dtype: first collected, then copied to a pool, with a value record each."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.kind: DType = np.dtype(dtype)
        self.pool: Pool
        self._found: list[Value] = []
        self.converted: dict[int, tuple[Value, Value]] = {}  # by id: an array of another library, and its NumPy array
        self._flat = True  # whether all arrays have one axis
        self._pieces: list[Words] = []  # sizes of the arrays, or of some
        self._ids: list[Words] = []  # likewise
        self._blocks: list[Array] = []
        self._block_rows = 0
        self._numbers: Words | None = None  # record of each array found, if some were found twice
        self._shapes: list[tuple[int, ...]]  # the distinct shapes
        self._places: Words | None  # index into `_shapes` of each distinct array; None: all have one shape
        self._starts: Words  # offset of each distinct array in the pool
        self._region: Region
        self._base = 0

    def add(self, values: list[Value], rank: int, sizes: list[Words], ids: list[Words]) -> int:
        """Add arrays, their sizes and ids; return the index of the first."""
        first = len(self._found)
        self._found += values
        self._pieces += sizes
        self._ids += ids
        self._flat = self._flat and rank == 1
        return first

    def add_block(self, column: Array) -> int:
        """Add the rows of an array; return the number of the first among all such rows."""
        first = self._block_rows
        self._blocks.append(column)
        self._block_rows += len(column)
        return first

    def reserve(
        self, add: Callable[..., Region], take: Callable[[float], None], shapes: dict[tuple[int, ...], int]
    ) -> None:
        """Copy the arrays; `add` reserves a region, `take` says how many bytes. Add their shapes to `shapes`."""
        self._leave_once()
        sizes = self._look_at_shapes()
        sizes = max(sizes, 1) if isinstance(sizes, int) else np.maximum(sizes, 1)
        found, blocks = self._found, self._blocks
        of_blocks = sum(map(_room, blocks))
        # As floats: a few arrays of steps of 0 may have more elements than an int of 64 bits can count.
        split = float(len(found) * sizes) if isinstance(sizes, int) else float(sizes.sum(dtype=float))
        take((split + of_blocks) * self.kind.itemsize)
        shapes.update(dict.fromkeys(self._shapes, 0))
        shapes.update(dict.fromkeys([c.shape[1:] for c in blocks], 0))
        count = len(found) + self._block_rows
        self._region = add("records", count, RECORD.count, (RECORD.at["shape"],), dtype=self.dtype)
        self._starts = sizes * np.arange(len(found)) if isinstance(sizes, int) else sizes.cumsum() - sizes
        self._fill_pool(int(split), of_blocks)

    def _fill_pool(self, split: int, of_blocks: int) -> None:
        """Copy the arrays, which have `split` elements, and the blocks behind them."""
        found = self._found
        self.pool = pool = aligned(split + of_blocks, self.kind)
        rest = {shape[1:] for shape in self._shapes}
        if not all(map(math.prod, self._shapes)):
            filler = np.zeros(1, self.kind)
            np.concatenate([a if np.size(a) else filler for a in found], axis=None, out=pool[:split])
        elif found and len(rest) == 1 and all(self._shapes):  # NumPy does this in less time
            np.concatenate(found, axis=0, out=pool[:split].reshape(-1, *rest.pop()))
        elif found:
            np.concatenate(found, axis=None, out=pool[:split])
        for column in self._blocks:
            pool[split : split + column.size].reshape(column.shape)[...] = column
            split += _room(column)

    def _leave_once(self) -> None:
        """Remove repeated arrays, and record the number of the array of each occurrence."""
        found = self._found
        if len(found) < _MANY:
            if len(set(map(id, found))) == len(found):
                return
            ids = ids_of(found)
        else:
            ids = self._all(self._ids) if sum(map(len, self._ids)) == len(found) else ids_of(found)
            ordered = np.sort(ids)
            if not (ordered[1:] == ordered[:-1]).any():
                return
        _, firsts, numbers = np.unique(ids, return_index=True, return_inverse=True)
        order = np.argsort(firsts)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        self._numbers = rank[numbers]
        self._found = [found[k] for k in firsts[order].tolist()]
        self._pieces = []

    def _look_at_shapes(self) -> int | Words:
        """Find the distinct shapes and the shape index of each array; return the sizes, an int if all are equal."""
        found = self._found
        if self._flat and len(found) >= _MANY:  # no tuple per array, to spare the garbage collector
            known = sum(map(len, self._pieces)) == len(found)
            sizes = self._all(self._pieces) if known else np.fromiter(map(_size, found), np.int64, len(found))
            lengths, self._places = np.unique(sizes, return_inverse=True)
            self._shapes = [(n,) for n in lengths.tolist()]
            return sizes
        shapes = list(map(_shape, found))
        if shapes.count(shapes[0] if found else ()) == len(found):
            self._shapes, self._places = shapes[:1], None
            return math.prod(shapes[0]) if found else 0
        number = dict(zip(dict.fromkeys(shapes), itertools.count(), strict=False))
        self._shapes = list(number)
        self._places = np.fromiter(map(number.__getitem__, shapes), np.int64, len(found))
        return np.array(list(map(math.prod, number)), np.int64)[self._places]

    @staticmethod
    def _all(pieces: list[Words]) -> Words:
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def fill(self, heap: Heap, shapes: Mapping[tuple[int, ...], int]) -> None:
        """Write the value records."""
        table, size = heap.table(self._region), self.kind.itemsize
        self._base = heap.address(self._region)
        data, k = address(self.pool), len(self._found)
        table[:, 1] = INPUT
        if k:
            table[:k, 0] = data + size * self._starts
            at = [shapes[shape] for shape in self._shapes]
            table[:k, 2] = at[0] if self._places is None else np.array(at, np.int64)[self._places]
        data += size * (self.pool.size - sum(map(_room, self._blocks)))
        for column in self._blocks:
            n, step = len(column), size * math.prod(column.shape[1:])
            table[k : k + n, 0] = data + step * np.arange(n)
            table[k : k + n, 2] = shapes[column.shape[1:]]
            data += _room(column) * size
            k += n

    def addresses(self, first: int, number: int) -> Words:
        """Return the addresses of the records of `number` arrays, from index `first` on."""
        return self._base + RECORD.size * self._records(first, number)

    def _records(self, first: int, number: int) -> Words:
        """Return the record numbers of `number` arrays, from index `first` on."""
        return np.arange(first, first + number) if self._numbers is None else self._numbers[first : first + number]

    def expect_columns(self, first: int, number: int) -> None:
        """Raise `Mismatch` unless the last axis of these arrays, from index `first` on, has extent 1."""
        single = [shape[-1:] == (1,) for shape in self._shapes]
        if all(single) or not number:
            return
        if self._places is None or not np.array(single)[self._places[self._records(first, number)]].all():
            raise Mismatch

    def block_addresses(self, first: int, number: int) -> Words:
        """Return the addresses of the records of rows, from row number `first` on."""
        return self._base + RECORD.size * np.arange(len(self._found) + first, len(self._found) + first + number)


def are_arrays(values: Sequence[Value]) -> list[bool]:
    """Return which values are arrays, not NumPy scalars."""
    return [type(v) in _ARRAY_KINDS or is_foreign(v) for v in values]


def check_arrays(values: Sequence[Value], kind: DType, rank: int, points: bool, both: bool) -> None:
    """Raise `Mismatch` unless all values are arrays of a dtype and rank.

    If the rank is 0 they are NumPy scalars, with `points` arrays, with `both` either.
    """
    scalars = frozenset((kind.type,))
    wanted = _ARRAY_KINDS | scalars if both else _ARRAY_KINDS if rank or points else scalars
    if not wanted.issuperset(map(type, values)):
        raise Mismatch
    # Counting what is the same object takes half the time of looking each up in a set.
    if list(map(_dtype, values)).count(kind) < len(values) or list(map(_rank, values)).count(rank) < len(values):
        raise Mismatch
