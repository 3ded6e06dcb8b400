"""Codecs for packing and unpacking, one class per type of values.

In: a type. Out: its `Codec`: which Python values have the type, the lines of a generated packer for a column of them,
and readers that make values of words: one at a time, or a column at a time. A new type of values is a class here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import chain, repeat
from types import MethodType
from typing import Any, TypeVar

import numpy as np

from acronumba.data.codec import Codec, ColumnDecoder, Find, Read, Slot, T, TensorForm, Writer, variable
from acronumba.data.collect import FLOATS, WHOLE
from acronumba.data.pools import Reading, Take, Values, dict_maker
from acronumba.data.words import MADE
from acronumba.foreign import as_numpy, is_foreign, is_tensor
from acronumba.generics import Value
from acronumba.ir.functions import is_function_class, known_function
from acronumba.ir.shapes import class_of_values, is_shape
from acronumba.ir.types import (
    BOOL,
    NO_VALUE,
    UNSET,
    Array0T,
    ArrayT,
    BoolT,
    DictT,
    EnumT,
    FloatT,
    FunctionT,
    IntT,
    ListT,
    MapT,
    MethodT,
    NeverT,
    NoneT,
    NoValue,
    OpaqueT,
    ScalarT,
    SetOrderT,
    StrT,
    StructT,
    TensorT,
    TextT,
    TorchT,
    TupleT,
    Type,
    UnionT,
    UnsetT,
    all_parts,
    array_type,
    as_array,
    case_slices,
    maker,
    union_cases,
    union_word,
    words,
)
from acronumba.ir.written import elements
from acronumba.memory import Words

_BITS, _DOUBLE = struct.Struct("q"), struct.Struct("d")
_ARRAYS = (np.ndarray, np.memmap)


class _Number(Codec[T]):
    """Python's ints and floats."""

    kinds: frozenset[type]

    def may_be(self, t: T, cls: type) -> bool:
        return cls in self.kinds

    def column(self, t: T, w: Writer, others: Sequence[Type] = (), optional: bool = False) -> str:
        return f"{'Ints' if isinstance(t, IntT) else 'Floats'}({'exact=True' if w.exact else ''})"


class _Int(_Number[IntT]):
    kinds = WHOLE

    def accepts(self, t: IntT, value: Value) -> bool:
        return type(value) in WHOLE and -(2**63) <= int(value) < 2**63

    def distance(self, value: Value) -> int:
        return 0 if type(value) is int else 2

    def read(self, t: IntT, at: int) -> Read:
        return lambda reader, row: row[at]

    def take(self, t: IntT, at: int, columns: ColumnDecoder) -> Take:
        return lambda reading, rows, owners: rows[:, at].tolist


class _Float(_Number[FloatT]):
    kinds = FLOATS

    def accepts(self, t: FloatT, value: Value) -> bool:
        return type(value) in FLOATS and _fits_float(value)

    def distance(self, value: Value) -> int:
        return 1 if type(value) is float else 3

    def read(self, t: FloatT, at: int) -> Read:
        return lambda reader, row: _DOUBLE.unpack(_BITS.pack(row[at]))[0]

    def take(self, t: FloatT, at: int, columns: ColumnDecoder) -> Take:
        return lambda reading, rows, owners: rows[:, at].copy().view(np.float64).tolist


def _fits_float(value: int | float) -> bool:
    try:
        float(value)
    except OverflowError:
        return False
    return True


class _Bool(Codec[BoolT]):
    def cls(self, t: BoolT) -> type:
        return bool

    def column(self, t: BoolT, w: Writer, others: Sequence[Type] = (), optional: bool = False) -> str:
        return "Bools()"

    def read(self, t: BoolT, at: int) -> Read:
        return lambda reader, row: bool(row[at])

    def take(self, t: BoolT, at: int, columns: ColumnDecoder) -> Take:
        return lambda reading, rows, owners: rows[:, at].astype(np.bool_).tolist


class _Numbered(Codec[T]):
    """Values with a number in one word."""

    def made(self, t: T) -> Callable[[int], Value]:
        """Return the function that makes a value of its number."""
        raise NotImplementedError

    def read(self, t: T, at: int) -> Read:
        made = self.made(t)
        return lambda reader, row: made(row[at])

    def take(self, t: T, at: int, columns: ColumnDecoder) -> Take:
        made = self.made(t)
        return lambda reading, rows, owners: lambda: list(map(made, rows[:, at].tolist()))


class _Enum(_Numbered[EnumT]):
    def accepts(self, t: EnumT, value: Value) -> bool:
        return type(value) is t.cls and any(value is m for m in self._members(t))

    def column(self, t: EnumT, w: Writer, others: Sequence[Type] = (), optional: bool = False) -> str:
        numbers = {id(m): k for k, m in enumerate(self._members(t))}
        return f"Enums({w.constant(variable(t.cls.__name__).upper(), numbers)})"

    def made(self, t: EnumT) -> Callable[[int], Value]:
        return self._members(t).__getitem__

    @staticmethod
    def _members(t: EnumT) -> tuple[Value, ...]:
        return tuple(t.cls)  # type: ignore[arg-type]


class _Scalar(_Numbered[ScalarT]):
    def accepts(self, t: ScalarT, value: Value) -> bool:
        return issubclass(type(value), np.generic) and bool(value.dtype == np.dtype(t.dtype))

    def made(self, t: ScalarT) -> Callable[[int], Value]:
        return np.dtype(t.dtype).type


class _Constant(Codec[T]):
    """Types without words: all values are one."""

    expected = ""  # name of a packer's set of the classes that values must have

    def value(self, t: T) -> object:
        return None

    def columns(self, slot: Slot) -> list[Slot]:
        return []

    def walk(self, slot: Slot, source: str, w: Writer, indent: int) -> None:
        if classes := self.expected:
            w.line(indent, f"expect({source}, {classes})")

    def write(self, slot: Slot, rows: str, where: str, w: Writer) -> None:
        pass

    def read(self, t: T, at: int) -> Read:
        value = self.value(t)
        return lambda reader, row: value

    def take(self, t: T, at: int, columns: ColumnDecoder) -> Take:
        value = self.value(t)
        return lambda reading, rows, owners: lambda: [value] * len(rows)


class _None(_Constant[NoneT]):
    expected = "NONES"

    def cls(self, t: NoneT) -> type:
        return type(None)


class _Unset(_Constant[UnsetT]):
    expected = "NO_VALUES"

    def value(self, t: UnsetT) -> object:
        return NO_VALUE

    def cls(self, t: UnsetT) -> type:
        return NoValue


class _Never(_Constant[NeverT]):
    expected = "NOTHING"


class _Opaque(_Constant[OpaqueT]):
    def accepts(self, t: OpaqueT, value: Value) -> bool:
        return True


class _Str(_Constant[StrT]):
    def value(self, t: StrT) -> object:
        return t.value

    def accepts(self, t: StrT, value: Value) -> bool:
        return type(value) is str and value == t.value

    def walk(self, slot: Slot, source: str, w: Writer, indent: int) -> None:
        assert isinstance(slot.type, StrT)
        w.line(indent, f"expect_constant({source}, {w.constant('TEXT', slot.type.value)})")


class _Function(_Constant[FunctionT]):
    def value(self, t: FunctionT) -> object:
        return t.fn

    def accepts(self, t: FunctionT, value: Value) -> bool:
        return is_function_class(type(value)) and known_function(value) is t.fn

    def may_be(self, t: FunctionT, cls: type) -> bool:
        return cls is type(t.fn)

    def walk(self, slot: Slot, source: str, w: Writer, indent: int) -> None:
        assert isinstance(slot.type, FunctionT)
        w.line(indent, f"expect_function({source}, {w.constant('FUNCTION', slot.type.fn)})")


class _Text(Codec[TextT]):
    def cls(self, t: TextT) -> type:
        return str

    def column(self, t: TextT, w: Writer, others: Sequence[Type] = (), optional: bool = False) -> str:
        return "room.texts()"

    def read(self, t: TextT, at: int) -> Read:
        return lambda reader, row: reader.text(row[at])

    def take(self, t: TextT, at: int, columns: ColumnDecoder) -> Take:
        return lambda reading, rows, owners: lambda: reading.strings(rows[:, at].tolist())


class _Tensor(Codec[TensorT]):
    def accepts(self, t: TensorT, value: Value) -> bool:
        if is_tensor(value):
            return False
        value = as_numpy(value) if is_foreign(value) else value
        array = type(value) in _ARRAYS if t.rank else issubclass(type(value), np.generic)
        alike = array and value.dtype == np.dtype(t.dtype) and value.ndim == t.rank
        return bool(alike and (not t.column or value.shape[-1] == 1))

    def column(self, t: TensorT, w: Writer, others: Sequence[Type] = (), optional: bool = False) -> str:
        return f"room.arrays({t.dtype!r}, {t.rank}, {optional}{', column=True' if t.column else ''})"

    def read(self, t: TensorT, at: int) -> Read:
        form = TensorForm.of(t)
        return lambda reader, row: reader.array(form, row[at])

    def take(self, t: TensorT, at: int, columns: ColumnDecoder) -> Take:
        return columns.references(t, at)


class _Array0(Codec[Array0T]):
    def accepts(self, t: Array0T, value: Value) -> bool:
        if is_tensor(value):
            return False
        found: Value = as_numpy(value) if is_foreign(value) else value
        array = type(found) in _ARRAYS and not found.ndim
        return (array and found.dtype == np.dtype(t.dtype)) or (not t.sure and codec(t.scalar).accepts(t.scalar, value))

    def parts(self, t: Array0T) -> list[tuple[str, Type]]:
        return [] if t.sure else [("which", BOOL), ("point", Array0T(t.dtype))]

    def columns(self, slot: Slot) -> list[Slot]:
        return slot.parts or [slot]

    def column(self, t: Array0T, w: Writer, others: Sequence[Type] = (), optional: bool = False) -> str:
        return f"room.points({t.dtype!r})"

    def walk(self, slot: Slot, source: str, w: Writer, indent: int) -> None:
        if not slot.parts:
            return super().walk(slot, source, w, indent)
        which, point = slot.parts
        w.line(indent, f"{slot.now} = {source}")
        w.line(indent, f"{which.name}.add(are_arrays({slot.now}))")
        return w.line(indent, f"{point.name}.add_both({slot.now})")

    def write(self, slot: Slot, rows: str, where: str, w: Writer) -> None:
        for part in slot.parts:
            codec(part.type).write(part, rows, where, w)
        if not slot.parts:
            super().write(slot, rows, where, w)

    def read(self, t: Array0T, at: int) -> Read:
        scalar, point = TensorForm.of(t.scalar), TensorForm.of(t)
        if t.sure:
            return lambda reader, row: reader.array(point, row[at])
        return lambda reader, row: reader.array(point if row[at] else scalar, row[at + 1])

    def take(self, t: Array0T, at: int, columns: ColumnDecoder) -> Take:
        if t.sure:
            return columns.references(t, at)
        both = columns.references(t.scalar, at + 1), columns.references(Array0T(t.dtype), at + 1)
        return _by_case(lambda rows: rows[:, at], dict(enumerate(both)))


class _Torch(Codec[TorchT]):
    """The words of the array that shares the memory of a tensor."""

    def accepts(self, t: TorchT, value: Value) -> bool:
        array = array_type(t)
        return is_tensor(value) and codec(array).accepts(array, as_numpy(value))

    def column(self, t: TorchT, w: Writer, others: Sequence[Type] = (), optional: bool = False) -> str:
        array = array_type(t)
        return codec(array).column(array, w, others, optional)

    def read(self, t: TorchT, at: int) -> Read:
        array = array_type(t)
        read = codec(array).read(array, at)
        return lambda reader, row: reader.torch(read(reader, row))

    def take(self, t: TorchT, at: int, columns: ColumnDecoder) -> Take:
        array = array_type(t)
        take = codec(array).take(array, at, columns)

        def tensors(reading: Reading, rows: Words, owners: Words) -> Values:
            make = take(reading, rows, owners)
            return lambda: list(map(reading.torch, make()))

        return tensors


class _Array(Codec[ArrayT]):
    def read(self, t: ArrayT, at: int) -> Read:
        part, end = TensorForm.of(t.item if t.item.rank else Array0T(t.item.dtype)), at + 1 + t.numbers
        return lambda reader, row: reader.written(t, part, row[at], row[at + 1 : end])

    def take(self, t: ArrayT, at: int, columns: ColumnDecoder) -> Take:
        return lambda reading, rows, owners: lambda: [_written(t, reading, row) for row in rows[:, at:].tolist()]


def _written(t: ArrayT, reading: Reading, row: Sequence[int]) -> Value:
    """Return the contents of an array that the model wrote into, from its words."""
    memory = reading.memory
    segment, length = memory.words(row[0], 2)
    parts = memory.words(segment, length)

    def part(k: int) -> Any:
        data, _, extents = memory.words(parts[k], 3)
        return memory.array(data, np.dtype(t.item.dtype), tuple(memory.words(extents, t.item.rank)))

    out = elements(t, row[1 : 1 + t.numbers], part)
    out.flags.writeable = False
    return out


R = TypeVar("R", StructT, ListT, MapT)


class _Reference(Codec[R]):
    """Objects, lists and dicts with keys of run time: the word is an address."""

    def column(self, t: R, w: Writer, others: Sequence[Type] = (), optional: bool = False) -> str:
        return f"room.references({', '.join(map(w.pool_name, (t, *others)))})"  # type: ignore[arg-type]

    def read(self, t: R, at: int) -> Read:
        return lambda reader, row: reader.made[row[at]]

    def find(self, t: R, at: int) -> Find:
        return lambda row, out: out.append((t, row[at]))

    def take(self, t: R, at: int, columns: ColumnDecoder) -> Take:
        return columns.references(t, at)


class _Struct(_Reference[StructT]):
    def cls(self, t: StructT) -> type:
        return class_of_values(t.cls)  # of a shape: `collect.Pooled` looks at the values

    def accepts(self, t: StructT, value: Value) -> bool:
        return t.cls.shape.matches(value) if is_shape(t.cls) else super().accepts(t, value)


class _List(_Reference[ListT]):
    def cls(self, t: ListT) -> type:
        return tuple if t.tupled else list

    def inside(self, t: ListT, value: Value) -> list[tuple[Value, Type, str]]:
        return [(v, t.item, f"[{k}]") for k, v in enumerate(value)]


class _Map(_Reference[MapT]):
    def cls(self, t: MapT) -> type:
        return t.python

    def accepts(self, t: MapT, value: Value) -> bool:
        return bool(t.given) and super().accepts(t, value)

    def inside(self, t: MapT, value: Value) -> list[tuple[Value, Type, str]]:
        items = [] if t.item is None else [(v, t.item, f"[{k!r}]") for k, v in value.items()]
        return [*((k, t.key, f"[{k!r}]") for k in value), *items]


I = TypeVar("I", TupleT, DictT, MethodT)


class _Items(Codec[I]):
    """Tuples, dicts with constant keys, and bound methods: the words of their items, one after the other."""

    def split(self, t: I, source: str, w: Writer) -> str:
        """Return the expression that splits values into columns of items."""
        raise NotImplementedError

    def make(self, t: I, columns: Sequence[Values], count: int) -> list[Value]:
        """Make values of columns of items."""
        raise NotImplementedError

    def may_be(self, t: I, cls: type) -> bool:
        return cls is (t.cls if isinstance(t, TupleT) else dict)

    def parts(self, t: I) -> list[tuple[str, Type]]:
        return [(str(k), item) for k, item in enumerate(t.items)]  # index as name, since keys are data

    def columns(self, slot: Slot) -> list[Slot]:
        return [column for part in slot.parts for column in codec(part.type).columns(part)]

    def walk(self, slot: Slot, source: str, w: Writer, indent: int) -> None:
        names, columns = ", ".join(part.now for part in slot.parts), self.split(slot.type, source, w)  # type: ignore[arg-type]
        w.line(indent, f"[{names}] = {columns}" if names else columns)
        for part in slot.parts:
            codec(part.type).walk(part, part.now, w, indent)

    def write(self, slot: Slot, rows: str, where: str, w: Writer) -> None:
        for part in slot.parts:
            codec(part.type).write(part, rows, where, w)

    def read(self, t: I, at: int) -> Read:
        reads = [codec(item).read(item, start) for item, start in _starts(t.items, at)]
        made_of = maker(t)
        return lambda reader, row: made_of([read(reader, row) for read in reads])

    def find(self, t: I, at: int) -> Find:
        finds = [codec(item).find(item, start) for item, start in _starts(t.items, at) if holds_references(item)]

        def find_all(row: list[int], out: list[tuple[Type, int]]) -> None:
            for find in finds:
                find(row, out)

        return find_all

    def take(self, t: I, at: int, columns: ColumnDecoder) -> Take:
        parts = [codec(item).take(item, start, columns) for item, start in _starts(t.items, at)]

        def take(reading: Reading, rows: Words, owners: Words) -> Values:
            taken = [part(reading, rows, owners) for part in parts]
            return lambda: self.make(t, taken, len(rows))

        return take


def _starts(types: Sequence[Type], at: int) -> list[tuple[Type, int]]:
    """Return types with the index of the first word of each; the first begins at `at`."""
    out = []
    for t in types:
        out.append((t, at))
        at += len(words(t))
    return out


class _Tuple(_Items[TupleT]):
    def accepts(self, t: TupleT, value: Value) -> bool:
        found = type(value)
        return found is t.cls and len(value) == len(t.items)

    def inside(self, t: TupleT, value: Value) -> list[tuple[Value, Type, str]]:
        return [(v, item, f"[{k}]") for k, (v, item) in enumerate(zip(value, t.items, strict=True))]

    def split(self, t: TupleT, source: str, w: Writer) -> str:
        return f"transpose({source}, {len(t.items)})"

    def make(self, t: TupleT, columns: Sequence[Values], count: int) -> list[Value]:
        found = zip(*(column() for column in columns), strict=True) if columns else repeat((), count)
        if t.cls is not tuple:
            return [tuple.__new__(t.cls, v) for v in found]
        return list(map(list, found)) if t.listed else list(found)


class _Dict(_Items[DictT]):
    def accepts(self, t: DictT, value: Value) -> bool:
        return type(value) is dict and tuple(value) == t.keys

    def inside(self, t: DictT, value: Value) -> list[tuple[Value, Type, str]]:
        return [(value[k], item, f"[{k!r}]") for k, item in zip(t.keys, t.items, strict=True)]

    def split(self, t: DictT, source: str, w: Writer) -> str:
        return f"entries({source}, {w.constant('KEYS', t.keys)})"

    def make(self, t: DictT, columns: Sequence[Values], count: int) -> list[Value]:
        if not columns:
            return [{} for _ in range(count)]
        return dict_maker(len(t.keys))(t.keys, zip(*(column() for column in columns), strict=True))


class _Method(_Items[MethodT]):
    """The words of the object that a method is bound to."""

    def accepts(self, t: MethodT, value: Value) -> bool:
        return type(value) is MethodType and value.__func__ is t.fn and codec(t.inner).accepts(t.inner, value.__self__)

    def may_be(self, t: MethodT, cls: type) -> bool:
        return cls is MethodType

    def inside(self, t: MethodT, value: Value) -> list[tuple[Value, Type, str]]:
        return [(value.__self__, t.inner, ".__self__")]

    def split(self, t: MethodT, source: str, w: Writer) -> str:
        return f"[owners({source}, {w.constant('FUNCTION', t.fn)})]"

    def make(self, t: MethodT, columns: Sequence[Values], count: int) -> list[Value]:
        return [MethodType(t.fn, owner) for owner in columns[0]()]


class _Union(Codec[UnionT]):
    """One word, 0 for None, or a tag and the words of every case; see `ir.types.words`."""

    def accepts(self, t: UnionT, value: Value) -> bool:
        return any(codec(m).accepts(m, value) for m in t.members)

    def decides(self, t: UnionT, cls: type) -> bool:
        return any(codec(m).decides(m, cls) for m in t.members)

    def may_be(self, t: UnionT, cls: type) -> bool:
        return any(codec(m).may_be(m, cls) for m in t.members)

    def parts(self, t: UnionT) -> list[tuple[str, Type]]:
        return [] if union_word(t) is not None else [(f"case{k}", case) for k, case in enumerate(union_cases(t))]

    def columns(self, slot: Slot) -> list[Slot]:
        return [slot, *(column for part in slot.parts for column in codec(part.type).columns(part))]

    def column(self, t: UnionT, w: Writer, others: Sequence[Type] = (), optional: bool = False) -> str:
        if union_word(t) is None:
            return "[]"
        first, *rest = _rest(t)
        return codec(first).column(first, w, rest, optional=True)

    def walk(self, slot: Slot, source: str, w: Writer, indent: int) -> None:
        t = slot.type
        assert isinstance(t, UnionT)
        if not slot.parts:
            rest = _rest(t)
            add = "add" if isinstance(as_array(rest[0]), TensorT) else "add_any" if len(rest) > 1 else "add_optional"
            w.line(indent, f"{slot.name}.{add}({source})")
            return
        cases = w.constant("CASES", union_cases(t))
        w.line(indent, f"{slot.now} = {source}")
        w.line(indent, f"{slot.cases} = case_numbers({cases}, {slot.now})")
        w.line(indent, f"{slot.name} += {slot.cases}")
        for k, p in enumerate(slot.parts):
            if not isinstance(p.type, NoneT | StrT):  # these are known by their case
                values = f"[v for v, k in zip({slot.now}, {slot.cases}) if k == {k}]"
                codec(p.type).walk(p, values, w, indent)

    def write(self, slot: Slot, rows: str, where: str, w: Writer) -> None:
        if not slot.parts:
            return super().write(slot, rows, where, w)
        w.line(1, f"{slot.name} = fromiter({slot.name}, int64, len({slot.name}))")
        w.line(1, f"{rows}[{where}, {slot.first}] = {slot.name}")
        for k, part in enumerate(slot.parts):
            if words(part.type):
                places = f"flatnonzero({slot.name} == {k})"
                w.line(1, f"{part.cases} = {places if where == ':' else f'{where}[{places}]'}")
                codec(part.type).write(part, rows, part.cases, w)
        return None

    def read(self, t: UnionT, at: int) -> Read:
        if union_word(t) is None:
            cases = [codec(case).read(case, at + of.start) for case, of in case_slices(t)]
            return lambda reader, row: cases[row[at]](reader, row)
        first, nothing = _rest(t)[0], NO_VALUE if UNSET in t.members else None
        read = codec(first).read(first, at)
        return lambda reader, row: read(reader, row) if row[at] else nothing

    def find(self, t: UnionT, at: int) -> Find:
        if union_word(t) is None:
            found = [(k, *of) for k, of in enumerate(case_slices(t)) if holds_references(of[0])]
            cases = {k: codec(case).find(case, at + place.start) for k, case, place in found}
            return lambda row, out: cases[row[at]](row, out) if row[at] in cases else None
        first = _rest(t)[0]
        find = codec(first).find(first, at)
        return lambda row, out: find(row, out) if row[at] else None

    def take(self, t: UnionT, at: int, columns: ColumnDecoder) -> Take:
        if union_word(t) is None:
            cases = {k: codec(case).take(case, at + of.start, columns) for k, (case, of) in enumerate(case_slices(t))}
            return _by_case(lambda rows: rows[:, at], cases)
        nothing = NO_VALUE if UNSET in t.members else None
        empty: Take = lambda reading, rows, owners: lambda: [nothing] * len(rows)
        rest = _rest(t)
        if len(rest) == 1:
            return _by_case(lambda rows: rows[:, at] != 0, {0: empty, 1: codec(rest[0]).take(rest[0], at, columns)})
        objects = {columns.class_number(m.cls): columns.references(m, at) for m in rest if isinstance(m, StructT)}

        def take(reading: Reading, rows: Words, owners: Words) -> Values:
            tags = np.full(len(rows), -1)
            there = rows[:, at].nonzero()[0]
            tags[there] = reading.memory.gather(rows[there, at], 1)[:, 0] % MADE
            return _by_case(lambda _: tags, objects | {-1: empty})(reading, rows, owners)

        return take


def _rest(t: UnionT) -> list[Type]:
    """Return the members of a union besides None."""
    return [m for m in t.members if not isinstance(m, NoneT)]


def _by_case(number: Callable[[Words], Any], takes: dict[int, Take]) -> Take:
    """Return a reader of a column whose rows have different cases; `number` returns the case of each row."""

    def take(reading: Reading, rows: Words, owners: Words) -> Values:
        numbers = number(rows)
        found: list[tuple[Words, Values]] = []  # the rows of each case; together all rows
        for k, inner in takes.items():
            some = (numbers == k).nonzero()[0]
            if len(some) == len(rows):
                return inner(reading, rows, owners)
            if len(some):
                found.append((some, inner(reading, rows[some], owners[some])))

        def make() -> list[Value]:
            order = np.empty(len(rows), np.int64)
            order[np.concatenate([some for some, _ in found])] = np.arange(len(rows))
            values = list(chain.from_iterable([column() for _, column in found]))
            return list(map(values.__getitem__, order.tolist()))

        return make

    return take


CODECS: dict[type, Codec[Any]] = {
    IntT: _Int(), FloatT: _Float(), BoolT: _Bool(), NoneT: _None(), UnsetT: _Unset(), SetOrderT: _None(), StrT: _Str(),
    TextT: _Text(), FunctionT: _Function(), MethodT: _Method(),
    EnumT: _Enum(), ScalarT: _Scalar(), TensorT: _Tensor(), Array0T: _Array0(), ArrayT: _Array(), TorchT: _Torch(),
    StructT: _Struct(),
    TupleT: _Tuple(), DictT: _Dict(), MapT: _Map(), ListT: _List(), UnionT: _Union(), NeverT: _Never(),
    OpaqueT: _Opaque(),
}  # fmt: skip


def codec(t: Type) -> Codec[Any]:
    """Return the codec of a type."""
    return CODECS[type(t)]


def holds_references(t: Type) -> bool:
    """Whether the words of values of a type refer to objects, lists or dicts."""
    return any(isinstance(u, StructT | ListT | MapT) for u in all_parts(t))
