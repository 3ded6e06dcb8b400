"""Conversion of Python values to words and back, by their type: the reference for `data.pack`.

In: a value of the user (an object, an array, a number, nested in tuples, lists and dicts) and its `Type`. Out: one
entry per word of `ir.types.words`, as objects instead of bits: int, float, bool, a NumPy array, and for references
None, `ObjectRow`, `List` or the user's object. `data.pack` does the same with 64-bit words and is compared with this.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, TypeAlias, assert_never

import numpy as np

from acronumba.foreign import as_numpy, is_foreign, is_tensor, numpy_array, to_tensor
from acronumba.ir.evaluate import named
from acronumba.ir.functions import is_function_class, known_function
from acronumba.ir.nodes import StructLayout
from acronumba.ir.shapes import is_shape
from acronumba.ir.types import (
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
    OpaqueT,
    ScalarT,
    StrT,
    StructT,
    TensorT,
    TextT,
    TorchT,
    TupleT,
    Type,
    UnionT,
    UnsetT,
    Word,
    array_type,
    entry_widths,
    maker,
    type_text,
    union_cases,
    union_word,
    words,
)
from acronumba.ir.written import elements

UserValue: TypeAlias = Any
WordValue: TypeAlias = Any  # int, float, bool, an array; of a reference None, `ObjectRow`, `List` or a `UserValue`

INT_MIN, INT_MAX = -(2**63), 2**63 - 1


class Misfit(TypeError):
    """A value does not conform to its type. `path` is its path from the given value: ".left[3]"."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path}: {text}" if path else text)
        self.path = path
        self.text = text


class ObjectRow:
    """An object made by the model: the words of its fields; `given`: it stands for one that the model did not make."""

    __slots__ = ("given", "layout", "words")

    def __init__(self, layout: StructLayout, words: Sequence[WordValue], given: bool = False) -> None:
        self.given = given
        self.layout = layout
        self.words = list(words)


class List:
    """A list of the model: the words of all elements one after the other."""

    __slots__ = ("count", "index", "item", "order", "origin", "words")

    def __init__(
        self, item: Type, words: list[WordValue], count: int, origin: UserValue = None, order: UserValue = None
    ) -> None:
        self.item = item
        self.words = words
        self.count = count  # elements; their width may be 0
        self.origin = origin  # the user's list that it is, None if the model made it
        self.order = order  # of a set that has Python's order: that set (`ir.ordered`)
        self.index: dict[tuple[WordValue, ...], int] | None = None  # of a dict: where its keys are; None: not known

    def places(self) -> dict[tuple[WordValue, ...], int]:
        """Return the index of the entry of each key of a dict, by the words of the key."""
        if self.index is None:
            key, width = entry_widths(self.item)
            starts = [k * width for k in range(self.count)]
            self.index = {contents(self.words[at : at + key]): k for k, at in enumerate(starts)}
        return self.index

    def put(self, entry: Sequence[WordValue]) -> None:
        """Store an entry of a dict: it replaces the entry with an equal key, or is appended."""
        key, width = entry_widths(self.item)
        place = self.places().setdefault(contents(entry[:key]), self.count)
        if place == self.count:
            self.words += entry
            self.count += 1
        else:
            self.words[place * width + key : place * width + width] = entry[key:]


def contents(key: Sequence[WordValue]) -> tuple[WordValue, ...]:
    """Return a hashable form of the words of a dict's key: a tuple as its elements, an object by its identity."""
    return tuple([_hashable(word) for word in key])


def _hashable(word: WordValue) -> object:
    if isinstance(word, List):
        return word.count, *contents(word.words)
    plain = word is None or isinstance(word, int | float | str | np.generic)
    return word if plain else ("object", id(word))  # an object, by its identity


class Memo:
    """Map between `List`s or arrays and objects of the user, so that one object has one identity."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[tuple[int, Type], tuple[UserValue, WordValue]] = {}

    def get(self, value: object, t: Type) -> WordValue:
        found = self._kept.get((id(value), t))
        return found[1] if found is not None else None

    def put(self, value: object, t: Type, word: WordValue) -> WordValue:
        self._kept[id(value), t] = (value, word)  # keeps `value`, so that its id stays its own
        return word


def zero(word: Word) -> WordValue:
    """Return the value of an unused word, of a union's case that does not apply."""
    match word:
        case IntT():
            return 0
        case FloatT():
            return 0.0
        case BoolT():
            return False
        case _:
            return None


@cache
def _members(cls: type[enum.Enum]) -> dict[enum.Enum, int]:
    """Return the number of each member of an enumeration."""
    return {member: k for k, member in enumerate(cls)}


@cache
def _by_number(cls: type) -> tuple[enum.Enum, ...]:
    return tuple(_members(cls))


def closeness(value: object, t: Type) -> int:
    """Rate how well a value fits a type, without its parts: 2 exactly, 1 by a conversion of the language, 0 not."""
    kind = type(value)
    match t:
        case IntT():
            if kind is int:
                return 2
            return int(isinstance(value, int | np.integer) and kind is not np.timedelta64)
        case FloatT():
            return 2 if kind is float else int(isinstance(value, float | int))
        case BoolT():
            return 2 * (kind is bool)
        case UnsetT():
            return 2 * (value is NO_VALUE)
        case NoneT():
            return 2 * (value is None)
        case NeverT():
            return 0
        case StrT():
            return 2 * (kind is str and value == t.value)
        case FunctionT():
            return 2 * bool(is_function_class(kind) and known_function(value) is t.fn)
        case TextT():
            return 2 * (kind is str)
        case StructT(cls) if is_shape(cls):
            return 2 * cls.shape.matches(value)
        case EnumT() | StructT():
            return 2 * (kind is t.cls)
        case ScalarT():
            return 2 * (isinstance(value, np.generic) and value.dtype == named(t.dtype))
        case TensorT() | Array0T() if is_tensor(value):
            return 0
        case TensorT():
            value = as_numpy(value) if is_foreign(value) else value
            kinds = np.ndarray if t.rank else np.generic
            if not isinstance(value, kinds) or value.dtype != named(t.dtype):
                return 0
            return 2 * (value.shape == t.shape or _extents_fit(value.shape, t.shape))
        case Array0T():
            value = as_numpy(value) if is_foreign(value) else value
            if isinstance(value, np.ndarray) and not value.ndim:
                return 2 * bool(value.dtype == named(t.dtype))
            return 0 if t.sure else closeness(value, t.scalar)
        case TupleT():
            return 2 * (isinstance(value, tuple) and kind is tuple and len(value) == len(t.items))
        case DictT():
            return 2 * (isinstance(value, dict) and tuple(value) == t.keys)
        case ListT():
            return 2 * (kind is (tuple if t.tupled else list))
        case MapT():
            return 2 * (bool(t.given) and kind is t.python)
        case UnionT():
            return max(closeness(value, m) for m in t.members)
        case TorchT() | MethodT():
            return _closeness_inside(value, t)
        case OpaqueT() | ArrayT():
            return 1
        case _:
            assert_never(t)


def _closeness_inside(value: UserValue, t: TorchT | MethodT) -> int:
    if isinstance(t, TorchT):
        return closeness(as_numpy(value), array_type(t)) if is_tensor(value) else 0
    mine = type(value) is types.MethodType and value.__func__ is t.fn
    return closeness(value.__self__, t.inner) if mine else 0


def _extents_fit(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(shape) == len(wanted) and all(m is None or m == n for n, m in zip(shape, wanted, strict=True))


def _seen(value: object) -> str:
    if isinstance(value, np.ndarray | np.generic):
        return f"{value.dtype.name}{list(value.shape)}"
    return "None" if value is None else type(value).__qualname__


def flatten(value: UserValue, t: Type, memo: Memo | None = None, path: str = "") -> tuple[WordValue, ...]:
    """Return the words of a value.

    Objects stay themselves: their fields are flattened when the model reads them. Lists become `List`, all the way
    down.

    Parameters
    ----------
    value, t
        A value of the user and its type.
    memo
        What was flattened before: the same list or array gives the same word.
    path
        Where the value is, for the message.

    Raises
    ------
    Misfit
        The value does not conform to the type.
    """
    memo = Memo() if memo is None else memo
    out: list[WordValue] = []
    _flatten(value, t, memo, path, out)
    return tuple(out)


def _flatten(value: UserValue, t: Type, memo: Memo, path: str, out: list[WordValue]) -> None:
    if not closeness(value, t):
        raise Misfit(path, f"{_seen(value)} where {type_text(t)} is expected")
    match t:
        case IntT():
            if not INT_MIN <= value <= INT_MAX:
                raise Misfit(path, f"the int {value} does not fit 64 bits")
            out.append(int(value))
        case FloatT():
            try:
                out.append(float(value))
            except OverflowError:
                raise Misfit(path, "an int too large for a float") from None
        case BoolT() | TextT() | StructT():
            out.append(value)
        case NoneT() | StrT() | FunctionT() | NeverT() | OpaqueT():
            pass
        case EnumT():
            out.append(_members(t.cls)[value])
        case ScalarT():
            out.append(int(value))
        case TensorT():
            out.append(_array(value, t, memo))
        case MethodT():
            _flatten(value.__self__, t.inner, memo, f"{path}.__self__", out)
        case TorchT(TensorT() as inner):
            out.append(_array(value, inner, memo))
        case Array0T():
            out += () if t.sure else (isinstance(value, np.ndarray) or is_foreign(value),)
            out.append(_array(value, t.scalar, memo))
        case TupleT():
            for k, item in enumerate(t.items):
                _flatten(value[k], item, memo, f"{path}[{k}]", out)
        case DictT():
            for key, item in zip(t.keys, t.items, strict=True):
                _flatten(value[key], item, memo, f"{path}[{key!r}]", out)
        case ListT():
            out.append(_list(value, t, memo, path))
        case UnionT():
            _flatten_union(value, t, memo, path, out)
        case MapT():
            out.append(_map(value, t, memo, path))
        case ArrayT() | TorchT():
            raise TypeError(f"{path}: data hold no {type_text(t)}")
        case _:
            assert_never(t)


def _array(value: UserValue, t: TensorT, memo: Memo) -> WordValue:
    known = memo.get(value, t)
    if known is not None:
        return known
    return memo.put(value, t, numpy_array(value).astype(t.dtype, copy=False))


def _list(value: UserValue, t: ListT, memo: Memo, path: str) -> List:
    known = memo.get(value, t)
    if known is not None:
        return known  # type: ignore[no-any-return]
    inner: list[WordValue] = []
    for k, element in enumerate(value):
        _flatten(element, t.item, memo, f"{path}[{k}]", inner)
    return memo.put(value, t, List(t.item, inner, len(value), value))  # type: ignore[no-any-return]


def _map(value: UserValue, t: MapT, memo: Memo, path: str) -> List:
    known = memo.get(value, t)
    if known is not None:
        return known  # type: ignore[no-any-return]
    inner: list[WordValue] = []
    for k, item in (dict.fromkeys(value) if t.item is None else value).items():
        _flatten((k, item), t.entry, memo, f"{path}[{k!r}]", inner)
    return memo.put(value, t, List(t.entry, inner, len(value), value))  # type: ignore[no-any-return]


def _flatten_union(value: UserValue, t: UnionT, memo: Memo, path: str, out: list[WordValue]) -> None:
    if union_word(t) is not None:
        if value is None or value is NO_VALUE:
            out.append(None)
        else:
            _flatten(value, max(t.members, key=lambda m: closeness(value, m)), memo, path, out)
        return
    cases = union_cases(t)
    tag = max(range(len(cases)), key=lambda k: closeness(value, cases[k]))  # the first of equals
    out.append(tag)
    for k, case in enumerate(cases):
        if k == tag:
            _flatten(value, case, memo, path, out)
        else:
            out.extend(zero(w) for w in words(case))


def unflatten(values: Sequence[WordValue], t: Type) -> UserValue:
    """Return the Python value that the words stand for.

    Objects and lists of the user come back as themselves; rows and lists that the model made become new objects and
    lists, one for each, whatever leads to them. Depth does not matter.
    """
    return _Builder().value(values, t)


class _Builder:
    """Makes Python values of words. Lists and dataclasses are made empty first and filled in turn: no recursion."""

    def __init__(self) -> None:
        self._made: dict[int, UserValue] = {}  # of a Row or List, by its id
        self._open: list[tuple[ObjectRow | List, UserValue]] = []  # made and still to be filled

    def value(self, values: Sequence[WordValue], t: Type) -> UserValue:
        out = self._of(iter(values), values, t)
        while self._open:
            source, made = self._open.pop()
            if isinstance(source, List):
                items = self._items(source, source.item)
                if isinstance(made, list):
                    made.extend(items)
                else:
                    made.update(items if isinstance(made, dict) else [key for key, _ in items])
            else:
                cls = source.layout.cls
                for name, item in self._fields(source).items():
                    if is_shape(cls):
                        made[cls.shape.place(name)] = item
                    else:
                        object.__setattr__(made, name, item)
        return out

    def _fields(self, row: ObjectRow) -> dict[str, UserValue]:
        out: dict[str, UserValue] = {}
        for f in row.layout.fields:
            inner = row.words[f.offset - 1 : f.offset - 1 + f.width]
            out[f.name] = self._of(iter(inner), inner, f.type)
            if out[f.name] is NO_VALUE:
                del out[f.name]
        if dataclasses.is_dataclass(row.layout.cls):
            for field in dataclasses.fields(row.layout.cls):
                if field.name in out:
                    continue
                if field.default is not dataclasses.MISSING:
                    out[field.name] = field.default
                elif field.default_factory is not dataclasses.MISSING:
                    out[field.name] = field.default_factory()
        return out

    def _of(self, stream: Iterator[WordValue], values: Sequence[WordValue], t: Type) -> UserValue:
        """Return the next value of the stream of words."""
        self._close(values)
        match t:
            case IntT():
                return int(next(stream))
            case FloatT():
                return float(next(stream))
            case BoolT():
                return bool(next(stream))
            case UnsetT():
                return NO_VALUE
            case NoneT():
                return None
            case NeverT():
                raise Misfit("", "no value can be there")
            case StrT():
                return t.value
            case FunctionT():
                return t.fn
            case OpaqueT():
                raise Misfit("", f"{t.what} cannot be a result")
            case EnumT():
                return _by_number(t.cls)[next(stream)]
            case ScalarT():
                return named(t.dtype).type(next(stream))
            case ListT(tupled=True):
                return self._tuple(next(stream), t)
            case TextT() | TensorT() | StructT() | ListT():
                return self._word(next(stream))
            case Array0T():
                boxed = t.sure or next(stream)
                word = next(stream)
                return np.asarray(word) if boxed else self._word(word)
            case TupleT() | DictT() | MethodT():
                return maker(t)([self._of(stream, (), item) for item in t.items])
            case MapT():
                return self._map(next(stream), t)
            case UnionT():
                if union_word(t) is not None:
                    word = next(stream)
                    if word is None:
                        return NO_VALUE if UNSET in t.members else None
                    rest = next((m for m in t.members if isinstance(m, ListT)), None)
                    return self._word(word) if rest is None else self._of(iter([word]), (), rest)
                tag = next(stream)
                found = None
                for k, case in enumerate(union_cases(t)):
                    inner = [next(stream) for _ in words(case)]
                    if k == tag:
                        found = self._of(iter(inner), (), case)
                return found
            case TorchT():
                return to_tensor(np.asarray(self._of(stream, (), t.inner)))
            case ArrayT():
                parts = next(stream)
                return elements(t, [int(next(stream)) for _ in range(t.numbers)], parts.words.__getitem__)
            case _:
                assert_never(t)

    def _tuple(self, source: List, t: ListT) -> UserValue:
        """Return the tuple of a list of its elements."""
        if source.origin is not None:
            return source.origin
        if id(source) not in self._made:
            self._made[id(source)] = tuple(self._items(source, t.item))
        return self._made[id(source)]

    def _items(self, source: List, t: Type) -> list[UserValue]:
        width = len(words(t))
        chunks = [source.words[k * width : (k + 1) * width] for k in range(source.count)]
        return [self._of(iter(chunk), chunk, t) for chunk in chunks]

    def _map(self, source: List, t: MapT) -> UserValue:
        """Return the dict or set of a list of entries, empty as yet."""
        if source.origin is not None:
            return source.origin
        if id(source) not in self._made:
            self._made[id(source)] = set() if t.item is None else {}
            self._open.append((source, self._made[id(source)]))
        return self._made[id(source)]

    def _word(self, word: WordValue) -> UserValue:
        match word:
            case None:
                return None
            case ObjectRow() | List():
                return self._shell(word)
            case np.ndarray() | np.generic():
                return word if np.ndim(word) else np.asarray(word)[()]  # a NumPy scalar if the rank is 0
            case _:
                return word

    def _shell(self, source: ObjectRow | List) -> UserValue:
        """Return the object of a row or list; a new one is still empty."""
        if id(source) in self._made:
            return self._made[id(source)]
        if isinstance(source, List):
            made: UserValue = [] if source.origin is None else source.origin
            if source.origin is None:
                self._open.append((source, made))
        else:
            made = {} if is_shape(source.layout.cls) else object.__new__(source.layout.cls)
            self._open.append((source, made))
        self._made[id(source)] = made
        return made

    def _close(self, values: Sequence[WordValue]) -> None:
        """Make the named tuples that the words refer to, innermost first, as they cannot be filled afterwards."""
        stack = [v for v in values if isinstance(v, ObjectRow) and _is_closed(v.layout.cls)]
        while stack:
            row = stack[-1]
            if id(row) in self._made:
                stack.pop()
                continue
            below = [
                v
                for v in row.words
                if isinstance(v, ObjectRow) and _is_closed(v.layout.cls) and id(v) not in self._made
            ]
            if below:
                stack += below
            else:
                cls, fields = row.layout.cls, self._fields(row)
                self._made[id(row)] = cls.shape.make([*fields.values()]) if is_shape(cls) else cls(**fields)
                stack.pop()


def _is_closed(cls: type) -> bool:
    """Whether objects of a class are made with all their fields at once."""
    return cls.shape.keys is None if is_shape(cls) else issubclass(cls, tuple)
