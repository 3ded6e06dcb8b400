"""The buffers of a mini-batch by address, for reading words, arrays and scalars.

In: the arrays that addresses point into. Out: a `Memory`, from which `data.unpack` reads results.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from acronumba.foreign import to_tensor
from acronumba.generics import Value
from acronumba.memory import Array, DType, Words
from acronumba.memory import address as address_of

_least, _most = np.minimum.reduce, np.maximum.reduce
_WORD = np.dtype(np.int64).char
_NOTHING = (0, 0, memoryview(b"").cast("q"))
_TOGETHER = 48  # number of arrays of one shape from which on they are made together


class Pending(Protocol):
    """Results on a device, copied to the CPU on access."""

    def all(self) -> None: ...

    def all_if_few(self) -> bool:
        """Copy all if that takes no longer than another copy; return whether it did."""

    def some(self, starts: Words, sizes: Words | int) -> None:
        """Copy the results at these addresses, with these sizes in bytes."""

    def records(self, column: Words, size: int) -> list[int] | None:
        """Copy the results with these value records, of so many bytes each, if that is one copy.

        Return where their data lie, or None: nothing was copied.
        """

    def need(self, start: int, size: int) -> None:
        """Copy all results if the one at an address is not among those that were copied."""

    def memory(self, arrays: Sequence[Array]) -> Memory:
        """Return a `Memory` that reads the copies at their original addresses."""


class TensorMaker(Protocol):
    """Makes tensors of PyTorch on a device: `torch.devices.Maker`."""

    def __call__(self, array: Value) -> Value:
        """Return a tensor with the elements of an array, which is on the device or not."""

    def within(self, memory: Value) -> Callable[[Value], Value]:
        """Return a function that makes tensors of arrays that lie in a piece of memory, in less time."""


class Memory:
    """The buffers of a mini-batch, by address.

    Parameters
    ----------
    arrays : iterable of ndarray
        Contiguous arrays that do not overlap: chunks of the heap, arenas of results, packed instances, shared arrays.
    pending : optional
        Results still on a device, which must provide tensors before they are read.
    known : mapping from int to ndarray, optional
        Further arrays, by address.
    rest : callable, optional
        Returns further arrays, by address, which few results refer to: they are looked at when one does.
    """

    __slots__ = (
        "_arrays", "_bases", "_edges", "_ends", "_last", "_rest", "_tables", "_views", "_whole",
        "made", "pending", "tensors",
    )  # fmt: skip

    def __init__(
        self,
        arrays: Iterable[Array],
        pending: Pending | None = None,
        known: Mapping[int, Array] | None = None,
        rest: Callable[[], Mapping[int, Array]] | None = None,
    ) -> None:
        self.pending = pending
        self._rest = rest
        self._whole: Memory | None = None  # see `_with_rest`
        self.tensors: TensorMaker | None = None  # for a device, if tensors of PyTorch are to be there
        self.made: list[Value] | None = None  # collects the tensors of PyTorch that `torch` makes, unless it is None
        by_base = {address_of(a): a for a in arrays if a.nbytes}
        if known is not None:
            by_base.update(known)
        self._bases = sorted(by_base)
        self._arrays = [by_base[base] for base in self._bases]
        self._ends = [base + a.nbytes for base, a in zip(self._bases, self._arrays, strict=True)]
        self._views: list[Array | None] = [None] * len(self._bases)
        self._edges: tuple[Words, Words] | None = None  # the bases and ends as arrays, made on first use
        self._tables: dict[int, memoryview[int]] = {}  # buffers as int64
        # The buffer of the last read: its base, end and table.
        self._last: tuple[int, int, memoryview[int]] = _NOTHING

    def _with_rest(self) -> Memory:
        """Return the memory with the arrays of `rest`, which is there; several threads may make it at once."""
        if self._whole is None:
            assert self._rest is not None
            known = dict(zip(self._bases, self._arrays, strict=True))
            self._whole = type(self)((), self.pending, {**self._rest(), **known})
        return self._whole

    def _find(self, address: int, nbytes: int) -> int:
        """Return the index of the buffer that contains these bytes; -1 if it is one of `rest`."""
        k = bisect_right(self._bases, address) - 1
        if k < 0 or address + nbytes > self._ends[k]:
            if self._rest is None:
                raise IndexError(f"address {address:#x} is in no buffer")
            return -1
        return k

    def _bytes(self, k: int) -> Array:
        """Return buffer k as bytes that cannot be written."""
        view = self._views[k]
        if view is None:
            view = self._arrays[k]
            if view.dtype.char != "B" or view.ndim != 1 or view.flags.writeable:
                view = view.reshape(-1).view(np.uint8)
                view.flags.writeable = False
            self._views[k] = view
        return view

    def words(self, address: int, count: int) -> list[int]:
        """Return int64 words as Python ints."""
        base, end, table = self._last
        if not base <= address <= end - 8 * count:
            if not count:
                return []
            k = self._find(address, 8 * count)
            if k < 0:
                return self._with_rest().words(address, count)
            if k not in self._tables:
                array = self._arrays[k]
                self._tables[k] = array.data if array.dtype.char == _WORD and array.ndim == 1 else self._words(k).data
            base, end, table = self._last = self._bases[k], self._ends[k], self._tables[k]
        start = (address - base) >> 3
        return table[start : start + count].tolist()

    def gather(self, addresses: Words, count: int) -> Words:
        """Return `count` words from each address: int64[n, count]."""
        n = len(addresses)
        if not n or not count:
            return np.empty((n, count), np.int64)
        places = np.arange(count)
        k = self._only(addresses, 8 * count)
        if k >= 0:
            one: Words = self._words(k)[((addresses - self._bases[k]) >> 3)[:, None] + places]
            return one
        if self._rest is not None:
            return self._with_rest().gather(addresses, count)
        out = np.empty((n, count), np.int64)
        owners, ends = self._owners(addresses)
        if owners.min() < 0 or (addresses + 8 * count > ends[owners]).any():
            raise IndexError("an address is in no buffer")
        for k in set(owners.tolist()):
            some = np.flatnonzero(owners == k)
            out[some] = self._words(k)[((addresses[some] - self._bases[k]) >> 3)[:, None] + places]
        return out

    def _owners(self, addresses: Words) -> tuple[Words, Words]:
        """Return the index of the buffer of each address, and the end addresses of all buffers."""
        if self._edges is None:
            self._edges = np.array(self._bases, np.int64), np.array(self._ends, np.int64)
        return np.searchsorted(self._edges[0], addresses, "right") - 1, self._edges[1]

    def _only(self, addresses: Words, nbytes: int) -> int:
        """Return the index of the one buffer that contains `nbytes` bytes at every address; -1 if there is none."""
        low, high = int(_least(addresses)), int(_most(addresses)) + nbytes  # in less time than `addresses.min()`
        k = bisect_right(self._bases, low) - 1
        return k if k >= 0 and high <= self._ends[k] else -1

    def _words(self, k: int) -> Words:
        """Return buffer k as words."""
        data = self._bytes(k)
        words: Words = data[: len(data) // 8 * 8].view(np.int64)
        return words

    def array(self, address: int, dtype: DType, shape: tuple[int, ...]) -> Array:
        """Return a read-only array whose data begin at an address."""
        size = 1
        for n in shape:
            size *= n
        if not size:
            empty = np.empty(shape, dtype)
            empty.flags.writeable = False
            return empty
        k = self._find(address, size * dtype.itemsize)
        if k < 0:
            return self._with_rest().array(address, dtype, shape)
        return np.ndarray(shape, dtype, self._bytes(k), address - self._bases[k])

    def arrays(self, records: list[int], dtype: DType, shape: tuple[int, ...]) -> list[Value] | None:
        """Return the tensors with value records at these addresses, each once.

        None if an address is there twice, if they lie in several buffers, or are empty. A `shape` of () is that of
        scalars.
        """
        base, end, table = self._last
        if not (records and base <= min(records) and max(records) <= end - 8):
            return None
        places = [table[(record - base) >> 3] for record in records]
        low, n, size = places[0], len(places), math.prod(shape) * dtype.itemsize
        rows = bool(shape) and size > 0 and places == list(range(low, low + n * size, size))
        if not rows and (not size or len(set(records)) < n):
            return None
        low, high = (low, low + n * size) if rows else (min(places), max(places) + size)
        k = bisect_right(self._bases, low) - 1
        if k < 0 or high > self._ends[k]:
            return None
        base = self._bases[k]
        if rows:  # an array of them makes its rows faster still
            return list(np.ndarray((n, *shape), dtype, self._bytes(k), low - base))
        return list(map(self._windows(k, dtype, shape).__getitem__, [place - base for place in places]))

    def _windows(self, k: int, dtype: DType, shape: tuple[int, ...]) -> Array:
        """Return the arrays of one shape at every byte of buffer k: an item is made faster than an array is."""
        data, size = self._bytes(k), math.prod(shape) * dtype.itemsize
        strides = np.ndarray(shape, dtype, data).strides
        return np.ndarray((len(data) - size + 1, *shape), dtype, data, 0, (1, *strides))

    def alike(self, addresses: Words, dtype: DType, shape: tuple[int, ...], array0: bool, owners: Words) -> list[Value]:
        """Return a tensor of one shape from each address, see `tensor`; `owners` are the instance numbers."""
        size, n = math.prod(shape) * dtype.itemsize, len(addresses)
        k = self._only(addresses, size) if n > 1 and size else -1
        if k < 0 and self._rest is not None and n > 1 and size:
            return self._with_rest().alike(addresses, dtype, shape, array0, owners)
        if k < 0:
            owners, _ = self._owners(addresses)
            out: list[Value] = [None] * n
            for owner in set(owners.tolist()):
                some = (owners == owner).nonzero()[0]
                if len(some) == n:
                    return [self.tensor(at, dtype, shape, array0) for at in addresses.tolist()]
                found = self.alike(addresses[some], dtype, shape, array0, owners[some])
                for place, value in zip(some.tolist(), found, strict=True):
                    out[place] = value
            return out
        places, data = addresses - self._bases[k], self._bytes(k)
        if not shape and not array0 and not (places % dtype.itemsize).any():
            return list(data[: len(data) // dtype.itemsize * dtype.itemsize].view(dtype)[places // dtype.itemsize])
        steps = places[1:] - places[:-1]
        if shape and steps[0] >= 0 and (steps == steps[0]).all():
            strides = np.ndarray(shape, dtype, data, int(places[0])).strides
            return list(np.ndarray((n, *shape), dtype, data, int(places[0]), (int(steps[0]), *strides)))
        if shape or not array0:
            return list(map(self._windows(k, dtype, shape).__getitem__, places.tolist()))
        return [np.ndarray(shape, dtype, data, at) for at in places.tolist()]

    def shaped(self, addresses: Words, dtype: DType, extents: Words, array0: bool, owners: Words) -> list[Value]:
        """Return a tensor from each address, see `alike`; `extents` has a row for each."""
        n, shapes = len(addresses), list(map(tuple, extents.tolist()))
        number = dict(zip(dict.fromkeys(shapes), itertools.count(), strict=False))
        if len(number) * _TOGETHER <= n:
            if len(number) == 1:
                return self.alike(addresses, dtype, shapes[0], array0, owners)
            numbers = np.fromiter(map(number.__getitem__, shapes), np.int64, n)
            out: list[Value] = [None] * n
            for shape, k in number.items():
                some = (numbers == k).nonzero()[0]
                values = self.alike(addresses[some], dtype, shape, array0, owners[some])
                for place, value in zip(some.tolist(), values, strict=True):
                    out[place] = value
            return out
        sizes = extents.prod(axis=1) * dtype.itemsize
        k = self._only(addresses, 0)
        if k < 0 or not sizes.all() or int((addresses + sizes).max()) > self._ends[k] or not len(shapes[0]):
            return [self.tensor(at, dtype, shape, array0) for at, shape in zip(addresses.tolist(), shapes, strict=True)]
        data, places = self._bytes(k), (addresses - self._bases[k]).tolist()
        return [np.ndarray(shape, dtype, data, at) for at, shape in zip(places, shapes, strict=True)]

    def tensor(self, address: int, dtype: DType, shape: tuple[int, ...], array0: bool) -> Value:
        """Return a tensor as users get it: an array (`array0`: also without axes), or a NumPy scalar."""
        array = self.array(address, dtype, shape)
        return array if shape or array0 else array[()]

    def torch(self, array: Array, known: dict[int, tuple[Array, Value]]) -> Value:
        """Return a tensor of PyTorch with the elements of an array; `known`: arrays and their tensors, by id."""
        if id(array) not in known:
            known[id(array)] = array, to_tensor(array) if self.tensors is None else self.tensors(array)
            if self.made is not None:
                self.made.append(known[id(array)][1])
        return known[id(array)][1]


class OnDemand(Memory):
    """A `Memory` of results that may be on a device: those that were not copied together come when one is read."""

    def array(self, address: int, dtype: DType, shape: tuple[int, ...]) -> Array:
        assert self.pending is not None
        self.pending.need(address, math.prod(shape) * dtype.itemsize)
        return super().array(address, dtype, shape)

    def arrays(self, records: list[int], dtype: DType, shape: tuple[int, ...]) -> list[Value] | None:
        base, end, table = self._last
        if self.pending is None or not (records and base <= min(records) and max(records) <= end - 8):
            return None
        places = np.array([table[(record - base) >> 3] for record in records])
        self.pending.some(places, math.prod(shape) * dtype.itemsize)
        return super().arrays(records, dtype, shape)


class Copying(Memory):
    """A `Memory` that returns copies of tensors, so that the buffers can be reused.

    The copies of one instance share an allocation. Buffers are reference counted: each `add` needs its own `remove`.
    """

    __slots__ = ("_times",)

    def __init__(self) -> None:
        super().__init__(())
        self._times: dict[int, int] = {}  # reference count of each buffer, by address

    def add(self, base: int, array: Array) -> None:
        """Add a buffer that begins at address `base`."""
        self._times[base] = self._times.get(base, 0) + 1
        k = bisect_right(self._bases, base)
        if k and self._bases[k - 1] == base:
            if base + array.nbytes <= self._ends[k - 1]:
                return
            k -= 1
            self._delete(k)
        self._bases.insert(k, base)
        self._arrays.insert(k, array)
        self._ends.insert(k, base + array.nbytes)
        self._views.insert(k, None)
        self._edges = None
        self._tables = {}

    def remove(self, base: int) -> None:
        """Release a buffer."""
        self._times[base] -= 1
        if not self._times[base]:
            del self._times[base]
            self._delete(bisect_right(self._bases, base) - 1)

    def _delete(self, k: int) -> None:
        for column in (self._bases, self._arrays, self._ends, self._views):
            del column[k]
        self._edges = None
        self._tables = {}
        self._last = _NOTHING

    def arrays(self, records: list[int], dtype: DType, shape: tuple[int, ...]) -> list[Value] | None:
        return None

    def array(self, address: int, dtype: DType, shape: tuple[int, ...]) -> Array:
        copied = super().array(address, dtype, shape).copy()
        copied.flags.writeable = False
        return copied

    def alike(self, addresses: Words, dtype: DType, shape: tuple[int, ...], array0: bool, owners: Words) -> list[Value]:
        size, n = math.prod(shape) * dtype.itemsize, len(addresses)
        if not size or not n:
            return super().alike(addresses, dtype, shape, array0, owners)
        order = None if (owners[1:] >= owners[:-1]).all() else owners.argsort(kind="stable")
        if order is not None:
            addresses, owners = addresses[order], owners[order]
        tensors = self._copied(addresses, size).view(dtype).reshape(n, *shape)
        ends = [*((owners[1:] != owners[:-1]).nonzero()[0] + 1).tolist(), n]
        found: list[Value] = []
        for start, end in zip([0, *ends], ends, strict=False):
            own = tensors[start:end].copy()
            own.flags.writeable = False
            found.extend(own if shape or not array0 else [own[k, ...] for k in range(len(own))])
        if order is None:
            return found
        out: list[Value] = [None] * n
        for place, value in zip(order.tolist(), found, strict=True):
            out[place] = value
        return out

    def _copied(self, addresses: Words, size: int) -> Array:
        """Copy `size` bytes from each address: void[n]."""
        out = np.empty(len(addresses), f"V{size}")
        owners, _ = self._owners(addresses)
        for k in set(owners.tolist()):
            some, data = (owners == k).nonzero()[0], self._bytes(k)
            windows = np.ndarray(len(data) - size + 1, out.dtype, data, strides=(1,))
            out[some] = windows[addresses[some] - self._bases[k]]
        return out

    def shaped(self, addresses: Words, dtype: DType, extents: Words, array0: bool, owners: Words) -> list[Value]:
        shapes = map(tuple, extents.tolist())
        return [self.tensor(at, dtype, shape, array0) for at, shape in zip(addresses.tolist(), shapes, strict=True)]
