"""The way back: from words to Python values.

In come the result words of a mini-batch (one row per instance) and the buffers that their addresses point into; out
comes a function from the number of an instance to its result, which is decoded only when it is asked for. Arrays
are read-only views of the buffers and keep them alive. Objects, lists and arrays that were one object are one
again, within one instance. What the user gave is not made anew: rows that were packed from objects have owners
(`heap.Owned`). There is no recursion over data: a chain of a million objects is a long list here.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from acronumba.data.classes import field_names, new_object
from acronumba.data.texts import text_at
from acronumba.data.words import MADE
from acronumba.ir.nodes import StructLayout
from acronumba.ir.types import (
    NO_VALUE,
    TEXT,
    UNSET,
    Array0T,
    ArrayT,
    BoolT,
    DictT,
    EnumT,
    FloatT,
    IntT,
    ListT,
    MapT,
    NeverT,
    NoneT,
    OpaqueT,
    ScalarT,
    StrT,
    StructT,
    TensorT,
    TextT,
    TupleT,
    Type,
    UnionT,
    UnsetT,
    is_matrix,
    members,
    union_cases,
    union_word,
    words,
)
from acronumba.ir.written import elements
from acronumba.memory import address as address_of

Words: TypeAlias = npt.NDArray[np.int64]
Decoder: TypeAlias = Callable[[int], Any]
Rest: TypeAlias = Callable[[int], Any]  # what the words at an address do not hold, see `heap.rest_of`

_BITS, _DOUBLE = struct.Struct("q"), struct.Struct("d")


class Known(Protocol):
    """Objects by the addresses of their rows: `heap.Owned`."""

    def get(self, address: int, /) -> Any: ...


class Pending(Protocol):
    """Results that are copied here when they are asked for."""

    def all(self) -> None: ...

    def some(self, starts: Words, sizes: Words) -> None:
        """Copy those that lie at these addresses and have so many bytes."""

    def memory(self, arrays: Sequence[npt.NDArray[Any]]) -> Memory:
        """Return what reads them where they are."""


class Memory:
    """The buffers of a mini-batch, by address.

    Parameters
    ----------
    arrays : iterable of ndarray
        Contiguous arrays that do not overlap: chunks of the heap, arenas of results, packed instances, shared arrays.
    pending : optional
        What must be asked for tensors before they are read.
    """

    __slots__ = ("_arrays", "_bases", "_ends", "_last", "_tables", "_views", "pending")

    def __init__(self, arrays: Iterable[npt.NDArray[Any]], pending: Pending | None = None) -> None:
        self.pending = pending
        by_base = {address_of(a): a for a in arrays if a.nbytes}
        self._bases = sorted(by_base)
        self._arrays = [by_base[base] for base in self._bases]
        self._ends = [base + a.nbytes for base, a in zip(self._bases, self._arrays, strict=True)]
        self._views: list[npt.NDArray[Any] | None] = [None] * len(self._bases)
        self._tables: dict[int, memoryview[int]] = {}  # buffers as int64
        # The buffer that words were read from last: its base, end and table.
        self._last: tuple[int, int, memoryview[int]] = (0, 0, memoryview(b"").cast("q"))

    def _find(self, address: int, nbytes: int) -> int:
        k = bisect_right(self._bases, address) - 1
        if k < 0 or address + nbytes > self._ends[k]:
            raise IndexError(f"address {address:#x} is in no buffer")
        return k

    def _bytes(self, k: int) -> npt.NDArray[Any]:
        """Return buffer k as bytes that cannot be written."""
        view = self._views[k]
        if view is None:
            view = self._arrays[k].reshape(-1).view(np.uint8)
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
            if k not in self._tables:
                data = self._bytes(k)
                self._tables[k] = memoryview(data[: len(data) // 8 * 8]).cast("q")  # type: ignore[arg-type]
            base, end, table = self._last = self._bases[k], self._ends[k], self._tables[k]
        start = (address - base) >> 3
        return table[start : start + count].tolist()

    def gather(self, addresses: Words, count: int) -> Words:
        """Return `count` words from each address: int64[n, count]."""
        n = len(addresses)
        out = np.empty((n, count), np.int64)
        if not n or not count:
            return out
        owners = np.searchsorted(np.array(self._bases, np.int64), addresses, "right") - 1
        ends = np.array(self._ends, np.int64)
        if owners.min() < 0 or (addresses + 8 * count > ends[owners]).any():
            raise IndexError("an address is in no buffer")
        for k in np.unique(owners).tolist():
            data = self._bytes(k)
            some = np.flatnonzero(owners == k)
            table = data[: len(data) // 8 * 8].view(np.int64)
            out[some] = table[((addresses[some] - self._bases[k]) // 8)[:, None] + np.arange(count)]
        return out

    def array(self, address: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """Return a read-only array whose data begin at an address."""
        size = 1
        for n in shape:
            size *= n
        if not size:
            empty = np.empty(shape, dtype)
            empty.flags.writeable = False
            return empty
        k = self._find(address, size * dtype.itemsize)
        return np.ndarray(shape, dtype, self._bytes(k), address - self._bases[k])

    def tensor(self, address: int, dtype: np.dtype[Any], shape: tuple[int, ...], array0: bool) -> Any:
        """Return a tensor as users get it: an array (`array0`: also without axes), or a NumPy scalar."""
        array = self.array(address, dtype, shape)
        return array if shape or array0 else array[()]


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A type of tensors, made ready."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None  # None: some extents are in memory
    rank: int
    array0: bool = False  # an array of rank 0, not a NumPy scalar


def _tensor(t: TensorT | Array0T) -> _Tensor:
    if isinstance(t, Array0T):
        return _Tensor(np.dtype(t.dtype), (), 0, True)
    known = tuple(n for n in t.shape if n is not None)
    return _Tensor(np.dtype(t.dtype), known if len(known) == t.rank else None, t.rank)


class Unpacker:
    """Builds Python values of one type.

    Parameters
    ----------
    result : Type
        Of the values.
    layouts : sequence of StructLayout
        Of the classes that can be among them; the tag of a row is an index into it.
    """

    def __init__(self, result: Type, layouts: Sequence[StructLayout]) -> None:
        self.type = result
        self.layouts = tuple(layouts)
        self.width = len(words(result))
        self._items: dict[Type, tuple[Read, Find | None, int]] = {}
        self.read = _read(result, 0)
        self.find = _find(result, 0)
        self.classes = [_Class(layout) for layout in self.layouts]

    def decoder(self, rows: Words, memory: Memory, objects: Known | None = None, rest: Rest | None = None) -> Decoder:
        """Return a function from the number of an instance to its value.

        Parameters
        ----------
        rows : int64[n, words of the type]
            The words of every instance.
        memory : Memory
            Everything that addresses point into.
        objects : optional
            Rows that already are objects of the user (see `Batch.objects`).
        rest : optional
            What the words of a row do not hold.
        """
        if _is_tensor(self.type):
            return self._tensor_column(self.type, rows[:, 0], memory)
        if isinstance(self.type, TupleT) and self.type.items and all(map(_is_tensor, self.type.items)):
            parts = [self._tensor_column(t, rows[:, k], memory) for k, t in enumerate(self.type.items)]
            if len(parts) == 2:
                a, b = parts
                return lambda k: (a(k), b(k))
            return lambda k: tuple([part(k) for part in parts])
        if memory.pending is not None:
            memory.pending.all()
        return lambda k: Reader(self, memory, objects, rest).value(rows[k].tolist())

    def _tensor_column(self, t: Type, column: Words, memory: Memory) -> Decoder:
        """Return the decoder of tensors; their value records are read when the first one is asked for."""
        assert isinstance(t, TensorT | Array0T)
        kind = _tensor(t)
        found: list[tuple[list[int], list[tuple[int, ...]] | None]] = []
        column = column.copy()

        def read() -> tuple[list[int], list[tuple[int, ...]] | None]:
            valid = np.flatnonzero(column)
            records = np.zeros((len(column), 3), np.int64)
            records[valid] = memory.gather(column[valid], 3)
            shapes = None
            if kind.shape is None:
                extents = np.zeros((len(column), kind.rank), np.int64)
                extents[valid] = memory.gather(records[valid, 2], kind.rank)
                shapes = list(map(tuple, extents.tolist()))
            if memory.pending is not None:
                many = extents.prod(axis=1) if kind.shape is None else math.prod(kind.shape)
                memory.pending.some(records[:, 0], np.broadcast_to(many * kind.dtype.itemsize, len(column)))
            found.append((records[:, 0].tolist(), shapes))
            return found[0]

        def decode(k: int) -> Any:
            data, shapes = found[0] if found else read()
            shape = kind.shape if shapes is None else shapes[k]
            return memory.tensor(data[k], kind.dtype, shape, kind.array0)  # type: ignore[arg-type]

        return decode

    def item(self, t: Type) -> tuple[Read, Find | None, int]:
        """Return what reads elements of lists, what finds the references in them, if any, and their words."""
        found = self._items.get(t)
        if found is None:
            found = self._items[t] = _read(t, 0), _find(t, 0) if _holds_refs(t) else None, len(words(t))
        return found


# A value from the words of a row, when what it refers to has been made.
Read: TypeAlias = "Callable[[Reader, list[int]], Any]"
# Adds the references in the words of a row to a list.
Find: TypeAlias = "Callable[[list[int], list[tuple[Type, int]]], None]"


class _Class:
    """How objects of a class are made."""

    def __init__(self, layout: StructLayout) -> None:
        self.cls = layout.cls
        self.size = layout.size
        self.names = field_names(layout.cls)
        self.stored = frozenset(f.name for f in layout.fields)
        self.matrix = is_matrix(layout.cls)
        # A NamedTuple, or a matrix: made with all its fields at once.
        self.immutable = self.matrix or issubclass(layout.cls, tuple)
        self.reads = [(f.name, _read(f.type, f.offset)) for f in layout.fields]
        self.optional = any(UNSET in members(f.type) for f in layout.fields)  # objects may be without some field
        self.finds = [_find(f.type, f.offset) for f in layout.fields if _holds_refs(f.type)]

    def fill(self, out: Any, reader: Reader, data: list[int], rest: dict[str, Any]) -> None:
        """Give an object its attributes."""
        put = object.__setattr__  # as frozen dataclasses do
        for name, read in self.reads:
            value = read(reader, data)
            if not self.optional or value is not NO_VALUE:
                put(out, name, value)
        for name, value in rest.items():
            put(out, name, value)

    def tuple(self, reader: Reader, data: list[int], rest: dict[str, Any]) -> Any:
        """Return a NamedTuple, whatever its `__new__` does, or a matrix."""
        found = {name: read(reader, data) for name, read in self.reads} | rest
        if self.matrix:
            return np.asarray(found["array"]).view(np.matrix)
        out: Any = tuple.__new__(self.cls, [found.pop(name) for name in self.names])
        for name, value in found.items():
            object.__setattr__(out, name, value)
        return out


def _is_tensor(t: Type) -> bool:
    """Whether a value is one value record."""
    return isinstance(t, TensorT) or (isinstance(t, Array0T) and t.sure)


def _case_starts(t: UnionT, at: int) -> list[int]:
    """Return where the words of each case of a union with a tag begin."""
    starts = [at + 1]
    for case in union_cases(t):
        starts.append(starts[-1] + len(words(case)))
    return starts


def _read(t: Type, at: int) -> Read:
    """Return the function that reads a value whose words begin at a place of a row."""
    match t:
        case IntT():
            return lambda reader, row: row[at]
        case FloatT():
            return lambda reader, row: _DOUBLE.unpack(_BITS.pack(row[at]))[0]
        case BoolT():
            return lambda reader, row: bool(row[at])
        case EnumT():
            found = tuple(t.cls)  # type: ignore[var-annotated,arg-type]
            return lambda reader, row: found[row[at]]
        case ScalarT():
            made = np.dtype(t.dtype).type
            return lambda reader, row: made(row[at])
        case UnsetT():
            return lambda reader, row: NO_VALUE
        case NoneT() | NeverT() | OpaqueT():
            return lambda reader, row: None
        case StrT():
            return lambda reader, row: t.value
        case TextT():
            return lambda reader, row: reader.text(row[at])
        case TensorT() | Array0T(sure=True):
            kind = _tensor(t)
            return lambda reader, row: reader.array(kind, row[at])
        case Array0T():
            kinds = _tensor(t.scalar), _tensor(Array0T(t.dtype))
            return lambda reader, row: reader.array(kinds[row[at]], row[at + 1])
        case ArrayT():
            part, end = _tensor(t.item if t.item.rank else Array0T(t.item.dtype)), at + 1 + t.numbers
            return lambda reader, row: reader.written(t, part, row[at], row[at + 1 : end])
        case StructT() | ListT() | MapT():
            return lambda reader, row: reader.made[row[at]]
        case TupleT() | DictT():
            reads = []
            for item in t.items:
                reads.append(_read(item, at))
                at += len(words(item))
            if isinstance(t, TupleT) and t.listed:
                return lambda reader, row: [read(reader, row) for read in reads]
            if isinstance(t, TupleT):
                return lambda reader, row: tuple([read(reader, row) for read in reads])
            return lambda reader, row: {key: read(reader, row) for key, read in zip(t.keys, reads, strict=True)}
        case UnionT() if union_word(t) is not None:
            tensors = [_tensor(m) for m in members(t) if isinstance(m, TensorT)]
            nothing = NO_VALUE if UNSET in t.members else None
            if TEXT in t.members:
                return lambda reader, row: reader.text(row[at]) if row[at] else nothing
            if tensors:
                return lambda reader, row: reader.array(tensors[0], row[at]) if row[at] else nothing
            return lambda reader, row: reader.made[row[at]] if row[at] else nothing
        case UnionT():
            starts = _case_starts(t, at)
            cases = [_read(case, start) for case, start in zip(union_cases(t), starts, strict=False)]
            return lambda reader, row: cases[row[at]](reader, row)


def _find(t: Type, at: int) -> Find:
    """Return the function that finds the references to objects and lists among the words of a value."""
    if not _holds_refs(t):
        return lambda row, out: None
    match t:
        case StructT() | ListT() | MapT():
            return lambda row, out: out.append((t, row[at]))
        case TupleT() | DictT():
            finds = []
            for item in t.items:
                if _holds_refs(item):
                    finds.append(_find(item, at))
                at += len(words(item))

            def find_all(row: list[int], out: list[tuple[Type, int]]) -> None:
                for find in finds:
                    find(row, out)

            return find_all
        case UnionT() if union_word(t) is not None:
            rest = next(m for m in t.members if not isinstance(m, NoneT))
            return lambda row, out: out.append((rest, row[at])) if row[at] else None
        case UnionT():
            cases = {
                k: _find(case, start)
                for k, (case, start) in enumerate(zip(union_cases(t), _case_starts(t, at), strict=False))
                if _holds_refs(case)
            }
            return lambda row, out: cases[row[at]](row, out) if row[at] in cases else None
    return lambda row, out: None


class Reader:
    """Decodes values, of one instance or of several that share objects.

    First everything that can be reached is found: objects and lists are made empty. What cannot be changed once it is
    made (NamedTuples, tuples) is made when what it holds is there, and then the others are filled.

    Parameters
    ----------
    unpacker : Unpacker
    memory : Memory
    known, rest
        See `Unpacker.decoder`.
    made : dict, optional
        What earlier readers have made.
    """

    def __init__(
        self,
        unpacker: Unpacker,
        memory: Memory,
        known: Known | None = None,
        rest: Rest | None = None,
        made: dict[int, Any] | None = None,
    ) -> None:
        self._unpacker = unpacker
        self._memory = memory
        self._known = known
        self._rest = rest
        self.made = {} if made is None else made  # objects, lists and arrays by address
        self._rows: dict[int, tuple[_Class, list[int], dict[str, Any]]] = {}
        self._lists: dict[int, tuple[ListT, list[int], int, bool]] = {}  # with the length, and whether it is a tuple
        self._texts: dict[int, str] = {}
        self._maps: dict[int, tuple[MapT, list[int], int]] = {}  # dicts and sets, with the length

    def value(self, row: list[int]) -> Any:
        """Return the value with these words."""
        found: list[tuple[Type, int]] = []
        self._unpacker.find(row, found)
        self.find(found)
        return self._unpacker.read(self, row)

    def find(self, found: list[tuple[Type, int]]) -> None:
        """Make the objects and lists at some addresses, and all that they reach."""
        if not found:
            return
        self._discover(found)
        for address, (kind, data, rest) in self._rows.items():
            if not kind.immutable:
                kind.fill(self.made[address], self, data, rest)
        for address, (listed, data, length, fixed) in self._lists.items():
            if not fixed:
                self.made[address][:] = self._items(listed.item, data, length)
        for address, (mapped, data, length) in self._maps.items():
            entries = self._items(mapped.entry, data, length)
            self.made[address].update(entries if mapped.item is not None else [key for key, _ in entries])

    def _items(self, t: Type, data: list[int], length: int) -> list[Any]:
        """Return the elements of a list, which are of a type."""
        if isinstance(t, IntT):
            return data
        read, _, width = self._unpacker.item(t)
        if not width:  # one constant, any number of times
            return [read(self, []) for _ in range(length)]
        return [read(self, data[k : k + width]) for k in range(0, len(data), width)]

    def _discover(self, later: list[tuple[Type, int]]) -> None:
        """Make every object and list that is reached; what cannot be changed after what it holds."""
        made, rows, lists = self.made, self._rows, self._lists
        later = [*later]
        while later:
            todo: list[tuple[Type | None, int]] = [later.pop()]  # None: all that this tuple holds has been made
            while todo:
                t, address = todo.pop()
                if t is None:
                    if address in rows:
                        kind, data, rest = rows[address]
                        made[address] = kind.tuple(self, data, rest)
                    else:
                        listed, data, length, _ = lists[address]
                        made[address] = tuple(self._items(listed.item, data, length))
                    continue
                if address in made or address in rows or address in lists:
                    continue
                user = None if self._known is None else self._known.get(address)
                if user is not None:
                    made[address] = user
                    continue
                if isinstance(t, MapT):
                    later += self._map(t, address)
                    continue
                fixed, inner = self._list(t, address) if isinstance(t, ListT) else self._row(address)
                if fixed:
                    todo.append((None, address))
                (todo if fixed else later).extend(inner)

    def _row(self, address: int) -> tuple[bool, list[tuple[Type, int]]]:
        """Make an object empty unless it is a NamedTuple; return whether it is one, and the references in it."""
        kind = self._unpacker.classes[self._memory.words(address, 1)[0] % MADE]
        data = self._memory.words(address, kind.size)
        assert self._rest is not None or kind.stored.issuperset(kind.names), "an object has no owner"
        rest = {} if self._rest is None else self._rest(address) or {}
        self._rows[address] = kind, data, rest
        if not kind.immutable:
            self.made[address] = new_object(kind.cls)
        found: list[tuple[Type, int]] = []
        for find in kind.finds:
            find(data, found)
        return kind.immutable, found

    def _list(self, t: ListT, address: int) -> tuple[bool, list[tuple[Type, int]]]:
        """Make a list of the right length unless it is a tuple; return whether it is one, and the references in it."""
        segment, length, _ = self._memory.words(address, 3)
        _, find, width = self._unpacker.item(t.item)
        data = self._memory.words(segment, length * width)
        fixed = self._rest is not None and self._rest(address) is tuple
        self._lists[address] = t, data, length, fixed
        if not fixed:
            self.made[address] = [None] * length
        found: list[tuple[Type, int]] = []
        if find is not None:
            for k in range(0, len(data), width):
                find(data[k : k + width], found)
        return fixed, found

    def _map(self, t: MapT, address: int) -> list[tuple[Type, int]]:
        """Make a dict or set, empty as yet; return the references in it."""
        segment, length, _ = self._memory.words(address, 3)
        _, find, width = self._unpacker.item(t.entry)
        data = self._memory.words(segment, length * width)
        self._maps[address] = t, data, length
        self.made[address] = set() if t.item is None else {}
        found: list[tuple[Type, int]] = []
        if find is not None:
            for k in range(0, len(data), width):
                find(data[k : k + width], found)
        return found

    def text(self, word: int) -> str:
        """Return the string of a word."""
        found = self._texts.get(word)
        if found is None:
            found = self._texts[word] = text_at(word, self._memory.words)
        return found

    def array(self, kind: _Tensor, address: int) -> Any:
        """Return the array, or NumPy scalar, of a value record."""
        key = -address if kind.array0 else address  # the same record may be seen as an array and as a scalar
        if key in self.made:
            return self.made[key]
        data, _, extents = self._memory.words(address, 3)
        shape = tuple(self._memory.words(extents, kind.rank)) if kind.shape is None else kind.shape
        self.made[key] = out = self._memory.tensor(data, kind.dtype, shape, kind.array0)
        return out

    def written(self, t: ArrayT, part: _Tensor, address: int, numbers: list[int]) -> Any:
        """Return the elements of an array that the model wrote into, whose parts are in a list."""
        segment, length, _ = self._memory.words(address, 3)
        parts = self._memory.words(segment, length)
        out = elements(t, numbers, lambda k: self.array(part, parts[k]))
        out.flags.writeable = False
        return out


def _holds_refs(t: Type) -> bool:
    match t:
        case StructT() | ListT() | MapT():
            return True
        case TupleT() | DictT():
            return any(map(_holds_refs, t.items))
        case UnionT():
            return any(map(_holds_refs, t.members))
    return False
