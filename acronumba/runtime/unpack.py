"""The way back: from words to Python values.

In come the result words of a mini-batch (one row per instance) and the buffers that their addresses point into; out comes a function
from the number of an instance to its result, which is decoded only when it is asked for. Arrays are read-only views of the
buffers and keep them alive. Objects, lists and arrays that were one object are one again, within one instance. There is no
recursion over data: a chain of a million objects is a long list here.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from acronumba.ir.nodes import StructLayout
from acronumba.ir.types import (
    BoolT,
    DictT,
    EnumT,
    FloatT,
    IntT,
    ListT,
    NoneT,
    OpaqueT,
    StrT,
    StructT,
    TensorT,
    TupleT,
    Type,
    UnionT,
    members,
    union_cases,
    union_word,
    words,
)

Words: TypeAlias = npt.NDArray[np.int64]
Decoder: TypeAlias = Callable[[int], Any]

_BITS, _DOUBLE = struct.Struct("q"), struct.Struct("d")


class Memory:
    """The buffers of a mini-batch, by address.

    Parameters
    ----------
    arrays : iterable of ndarray
        Contiguous arrays that do not overlap: chunks of the heap, arenas of results, packed instances, shared arrays.
    """

    __slots__ = ("_arrays", "_bases", "_ends", "_views")

    def __init__(self, arrays: Iterable[npt.NDArray[Any]]) -> None:
        by_base = {int(a.ctypes.data): a for a in arrays if a.nbytes}
        self._bases = sorted(by_base)
        self._arrays = [by_base[base] for base in self._bases]
        self._ends = [base + a.nbytes for base, a in zip(self._bases, self._arrays, strict=True)]
        self._views: list[npt.NDArray[Any] | None] = [None] * len(self._bases)

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
        if not count:
            return []
        k = self._find(address, 8 * count)
        start = address - self._bases[k]
        return self._bytes(k)[start : start + 8 * count].view(np.int64).tolist()  # type: ignore[no-any-return]

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


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A type of tensors, made ready."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None  # None: some extents are in memory
    rank: int


def _tensor(t: TensorT) -> _Tensor:
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
        self._tensors: dict[TensorT, _Tensor] = {}
        self._members: dict[type, tuple[Any, ...]] = {}
        self._classes = [_Class.of(layout) for layout in self.layouts]

    def decoder(
        self, rows: Words, memory: Memory, objects: Mapping[int, object] | Callable[[], Mapping[int, object]] | None = None
    ) -> Decoder:
        """Return a function from the number of an instance to its value.

        Parameters
        ----------
        rows : int64[n, words of the type]
            The words of every instance.
        memory : Memory
            Everything that addresses point into.
        objects : mapping from address to object, or a function that makes it, optional
            Rows that already are objects of the user (see `Batch.objects`).
        """
        if isinstance(self.type, TensorT):
            return self._tensor_column(self.type, rows[:, 0], memory)
        if isinstance(self.type, TupleT) and self.type.items and all(isinstance(t, TensorT) for t in self.type.items):
            parts = [
                self._tensor_column(t, rows[:, k], memory) for k, t in enumerate(self.type.items) if isinstance(t, TensorT)
            ]
            if len(parts) == 2:
                a, b = parts
                return lambda k: (a(k), b(k))
            return lambda k: tuple([part(k) for part in parts])
        known = _Known(objects)
        return lambda k: _Reader(self, memory, known).value(rows[k].tolist())

    def _tensor_column(self, t: TensorT, column: Words, memory: Memory) -> Decoder:
        """Return the decoder of tensors; their value records are read when the first one is asked for."""
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
            found.append((records[:, 0].tolist(), shapes))
            return found[0]

        def decode(k: int) -> Any:
            data, shapes = found[0] if found else read()
            shape = kind.shape if shapes is None else shapes[k]
            array = memory.array(data[k], kind.dtype, shape)  # type: ignore[arg-type]
            return array if kind.rank else array[()]

        return decode

    def tensor(self, t: TensorT) -> _Tensor:
        if t not in self._tensors:
            self._tensors[t] = _tensor(t)
        return self._tensors[t]

    def member(self, cls: type, index: int) -> Any:
        if cls not in self._members:
            self._members[cls] = tuple(cls)  # type: ignore[arg-type]
        return self._members[cls][index]


class _Known:
    """The user's objects by address, made when they are first needed."""

    def __init__(self, objects: Mapping[int, object] | Callable[[], Mapping[int, object]] | None) -> None:
        self._objects = objects

    def get(self, address: int) -> object | None:
        if self._objects is None:
            return None
        if callable(self._objects):
            self._objects = self._objects()
        return self._objects.get(address)


@dataclass(frozen=True, slots=True)
class _Class:
    """How objects of a class are made."""

    cls: type
    layout: StructLayout
    immutable: bool  # a NamedTuple: made with all its fields at once
    rest: tuple[tuple[str, Any, Any], ...]  # fields that are not stored, with default and default factory

    @classmethod
    def of(cls, layout: StructLayout) -> _Class:
        stored = {f.name for f in layout.fields}
        if is_dataclass(layout.cls):
            rest = tuple((f.name, f.default, f.default_factory) for f in fields(layout.cls) if f.name not in stored)
            return cls(layout.cls, layout, False, rest)
        defaults = layout.cls._field_defaults  # type: ignore[attr-defined]
        names = [n for n in layout.cls._fields if n not in stored]  # type: ignore[attr-defined]
        return cls(layout.cls, layout, True, tuple((n, defaults.get(n), MISSING) for n in names))


class _Reader:
    """Decodes one instance.

    First everything that can be reached is found: objects and lists are made empty. NamedTuples follow in an order in which what
    they hold is there already, and then the others are filled.
    """

    def __init__(self, unpacker: Unpacker, memory: Memory, known: _Known) -> None:
        self._unpacker = unpacker
        self._memory = memory
        self._known = known
        self._made: dict[int, Any] = {}  # objects, lists and arrays by address
        self._rows: dict[int, tuple[_Class, list[int]]] = {}
        self._lists: dict[int, tuple[ListT, list[int]]] = {}

    def value(self, row: list[int]) -> Any:
        """Return the value with these words."""
        t = self._unpacker.type
        self._discover(self._refs(t, row, 0))
        for address, (kind, data) in self._rows.items():
            if not kind.immutable:
                self._fill(self._made[address], kind, data)
        for address, (listed, data) in self._lists.items():
            out, width = self._made[address], len(words(listed.item))
            count = len(data) // width if width else len(out)
            out[:] = [self._read(listed.item, data, width * k) for k in range(count)]
        return self._read(t, row, 0)

    def _refs(self, t: Type, row: list[int], at: int) -> list[tuple[Type, int]]:
        """Return the references to objects and lists among the words of a value."""
        match t:
            case StructT() | ListT():
                return [(t, row[at])]
            case TupleT() | DictT():
                out = []
                for item in t.items:
                    out += self._refs(item, row, at)
                    at += len(words(item))
                return out
            case UnionT():
                if union_word(t) is not None:
                    rest = next(m for m in t.members if not isinstance(m, NoneT))
                    return [(rest, row[at])] if row[at] and not isinstance(rest, TensorT) else []
                case, start = self._case(t, row, at)
                return self._refs(case, row, start)
        return []

    def _case(self, t: UnionT, row: list[int], at: int) -> tuple[Type, int]:
        cases = union_cases(t)
        start = at + 1
        for k in range(row[at]):
            start += len(words(cases[k]))
        return cases[row[at]], start

    def _discover(self, found: list[tuple[Type, int]]) -> None:
        """Make every object and list that is reached; NamedTuples in post-order."""
        todo: list[tuple[Type | None, int]] = list(reversed(found))  # None: everything inside this NamedTuple has been made
        while todo:
            t, address = todo.pop()
            if t is None:
                kind, data = self._rows[address]
                if address not in self._made:
                    self._made[address] = self._tuple(kind, data)
                continue
            if address in self._made or address in self._rows:
                continue
            user = self._known.get(address)
            if user is not None:
                self._made[address] = user
                continue
            if isinstance(t, ListT):
                segment, length, _ = self._memory.words(address, 3)
                width = len(words(t.item))
                data = self._memory.words(segment, length * width)
                self._made[address] = [None] * length
                self._lists[address] = t, data
                if width and _holds_refs(t.item):
                    inner = [ref for k in range(length) for ref in self._refs(t.item, data, width * k)]
                    todo += reversed(inner)
                continue
            kind = self._unpacker._classes[self._memory.words(address, 1)[0]]
            data = self._memory.words(address, kind.layout.size)
            self._rows[address] = kind, data
            if kind.immutable:
                todo.append((None, address))
            else:
                self._made[address] = object.__new__(kind.cls)
            inner = [ref for f in kind.layout.fields for ref in self._refs(f.type, data, f.offset)]
            todo += reversed(inner)

    def _tuple(self, kind: _Class, data: list[int]) -> Any:
        found = {f.name: self._read(f.type, data, f.offset) for f in kind.layout.fields}
        found |= {name: default for name, default, _ in kind.rest}
        return kind.cls(**found)

    def _fill(self, out: Any, kind: _Class, data: list[int]) -> None:
        for f in kind.layout.fields:
            object.__setattr__(out, f.name, self._read(f.type, data, f.offset))
        for name, default, factory in kind.rest:
            if factory is not MISSING:
                object.__setattr__(out, name, factory())
            elif default is not MISSING:
                object.__setattr__(out, name, default)

    def _read(self, t: Type, row: list[int], at: int) -> Any:
        """Return the value whose words begin at a place of a row; what it refers to has been made."""
        match t:
            case IntT():
                return row[at]
            case FloatT():
                return _DOUBLE.unpack(_BITS.pack(row[at]))[0]
            case BoolT():
                return bool(row[at])
            case EnumT():
                return self._unpacker.member(t.cls, row[at])
            case NoneT() | OpaqueT():
                return None
            case StrT():
                return t.value
            case TensorT():
                return self._array(t, row[at])
            case StructT() | ListT():
                return self._made[row[at]]
            case TupleT() | DictT():
                out = []
                for item in t.items:
                    out.append(self._read(item, row, at))
                    at += len(words(item))
                return tuple(out) if isinstance(t, TupleT) else dict(zip(t.keys, out, strict=True))
            case UnionT():
                if union_word(t) is not None:
                    if not row[at]:
                        return None
                    tensor = next((m for m in members(t) if isinstance(m, TensorT)), None)
                    return self._made[row[at]] if tensor is None else self._array(tensor, row[at])
                case, start = self._case(t, row, at)
                return self._read(case, row, start)

    def _array(self, t: TensorT, address: int) -> Any:
        if address in self._made:
            return self._made[address]
        kind = self._unpacker.tensor(t)
        data, _, extents = self._memory.words(address, 3)
        shape = tuple(self._memory.words(extents, kind.rank)) if kind.shape is None else kind.shape
        array = self._memory.array(data, kind.dtype, shape)
        self._made[address] = out = array if kind.rank else array[()]
        return out


def _holds_refs(t: Type) -> bool:
    match t:
        case StructT() | ListT():
            return True
        case TupleT() | DictT():
            return any(map(_holds_refs, t.items))
        case UnionT():
            return any(map(_holds_refs, t.members))
    return False
