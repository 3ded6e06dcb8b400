"""The types of a model's values.

A `Type` describes a Python value of the user's program: a number, a tensor, an object, a tuple. The front end infers
types, `data.pack` derives them from instances, and both agree through `words`, the layout of a value of the type in
64-bit words. See `ir.nodes` for the program that is typed with them.

    Type  = IntT | FloatT | BoolT | NoneT | StrT | FunctionT | TextT | EnumT | ScalarT | TensorT | Array0T | ArrayT
          | TorchT | MethodT | StructT | TupleT | DictT | MapT | ListT | UnionT | NeverT | OpaqueT
    Word  = IntT | FloatT | BoolT | TextT | TensorT | RefT | ListT   (the type of one variable of the IR)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MethodType
from typing import Any, TypeAlias, assert_never

import numpy as np

from acronumba.ir.functions import function_key, function_name
from acronumba.records import record


@record()
class IntT:
    """A Python int of 64 bits."""


@record()
class FloatT:
    """A Python float."""


@record()
class BoolT:
    """A Python bool."""


@record()
class NoneT:
    """None, without a word."""


@record()
class UnsetT(NoneT):
    """Type of an object's field without a value: only fields have it, and reading one raises `AttributeError`."""


@record()
class SetOrderT(NoneT):
    """Stands for the items of a set made in the call for which Python's table is kept: see `host.sets`."""


class NoValue:
    """Stand-in for the value of a field that an object does not have; see `UnsetT`."""


NO_VALUE = NoValue()


@record()
class StrT:
    """A compile-time string, without a word."""

    value: str


@record()
class FunctionT:
    """One function or class, known when the program is compiled, without a word; it stands for equal ones of the data.

    One of several functions is a union: the word is its tag.
    """

    fn: Callable[..., object] | None  # None: any, to compare types without their functions


@record()
class MethodT:
    """A method of an object, bound to it: its words are those of the object."""

    fn: Callable[..., object]
    inner: Type

    @property
    def items(self) -> tuple[Type, ...]:
        return (self.inner,)


@record()
class TextT:
    """A run-time string, in one word: see `data.texts`."""


@record()
class EnumT:
    """A member of an enumeration: the word is the member's index in `list(cls)`."""

    cls: type


@record()
class ScalarT:
    """A NumPy integer as the key of a dict: the word is its value."""

    dtype: str


@record()
class TensorT:
    """A NumPy array, or a NumPy scalar if `shape` is empty."""

    dtype: str  # "bool", "int8" .. "uint64", "float32", "float64"
    shape: tuple[int | None, ...]  # None: an extent known only at run time

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def column(self) -> bool:
        """Whether each value is a single column: it has more than one axis, and the last has extent 1."""
        return len(self.shape) > 1 and self.shape[-1] == 1


@record()
class Array0T:
    """An array of rank 0: it is stored as the NumPy scalar that it holds, and operations on it read this scalar.

    If it is not `sure`, a value is such an array or a NumPy scalar: a bool in front of the scalar is true for an array.
    """

    dtype: str
    sure: bool = True

    @property
    def scalar(self) -> TensorT:
        """Type of the scalar that the array holds."""
        return TensorT(self.dtype, ())


@record()
class ArrayForm:
    """Layout of the numbers of an `ArrayT`, a view of an array that consists of parts.

    First the offset of the first visible part in the list of parts; then for each axis its extent and, if parts lie
    apart along it, its stride; then for each axis of a part its extent, the start of the visible elements along it,
    their number if they are not all, and the index if it is one element.
    """

    axes: tuple[tuple[bool, int, int], ...]  # whether parts lie apart along it; its axis of a part, of the whole, or -1
    cuts: tuple[tuple[str, int, bool], ...]  # the kind of index, or ""; the step; whether all elements are visible
    indexed: frozenset[int]  # the axes of the whole that an index has replaced


@record()
class ArrayT:
    """A reference to an array that the model writes into, or to a part of it.

    Its words are the list of its parts, and numbers that describe the view of them. Instance data hold no such arrays.
    """

    seen: TensorT  # the type that it is read as
    item: TensorT  # the parts
    numbers: int
    form: ArrayForm


@record()
class TorchT:
    """A tensor of PyTorch: its words are those of the array that shares its memory; of rank 0, those of a scalar."""

    inner: TensorT | ArrayT


@record()
class StructT:
    """A reference to an instance of a dataclass or NamedTuple (never None: that is a union)."""

    cls: type


@record()
class TupleT:
    """A tuple, or a list of items of different types that is never changed, and so has a tuple's layout."""

    items: tuple[Type, ...]
    listed: bool = False
    cls: type = tuple  # of a key of a dict that is a NamedTuple: its class


@record()
class DictT:
    """A dict with fixed string keys, in insertion order."""

    keys: tuple[str, ...]
    items: tuple[Type, ...]


def maker(t: TupleT | DictT | MethodT) -> Callable[[Sequence[Any]], Any]:
    """Return a function that makes a value of the type from its items; all readers of values use it."""
    if isinstance(t, MethodT):
        return lambda items: MethodType(t.fn, items[0])
    if isinstance(t, TupleT) and t.cls is not tuple:
        return partial(tuple.__new__, t.cls)
    if isinstance(t, TupleT):
        return list if t.listed else tuple
    keys = t.keys
    return lambda items: dict(zip(keys, items, strict=True))


@record()
class MapT:
    """A reference to a dict with run-time keys, or to a set: a list of entries with a hash table."""

    key: Type
    item: Type | None  # None: it is a set
    given: bool | type = False  # it came in, and is never changed: `data.collect.Maps`; its class, if that is no dict
    ordered: bool = False  # a set made in the call that has Python's order: `host.sets`

    @property
    def python(self) -> type:
        """The Python class."""
        return set if self.item is None else self.given if isinstance(self.given, type) else dict

    @property
    def entry(self) -> TupleT:
        """Type of the list's elements: a key and its item."""
        return TupleT((self.key, ORDER if self.ordered else NONE if self.item is None else self.item))


@record()
class ListT:
    """A reference to a list with elements of one type, or to a tuple of run-time length."""

    item: Type
    tupled: bool = False

    @property
    def word(self) -> ListT:
        """Type of a variable that holds the reference, for which lists are tuples, and tensors are arrays."""
        item = _in_words(self.item)
        return ListT(item) if self.tupled or item is not self.item else self


@record()
class UnionT:
    """One of several types; build it with `union`, which flattens, orders and merges."""

    members: tuple[Type, ...]  # two or more, in the order of `_order`


@record()
class NeverT:
    """Type without values, as of the elements of a list that stays empty. Code that reads one is unreachable."""


@record()
class OpaqueT:
    """A value that cannot be stored. Reading it is rejected."""

    what: str  # description for the message: "a str", "a cycle of tuples"


@record()
class RefT:
    """Reference to an object of one of several classes, in an IR variable: the address of a row, 0 for None."""

    classes: tuple[type, ...]  # sorted by qualified name; the row's word 0 is the number of its class


Type: TypeAlias = (
    IntT | FloatT | BoolT | NoneT | StrT | FunctionT | TextT | EnumT | ScalarT | TensorT | Array0T | ArrayT | TorchT
    | MethodT | StructT | TupleT | DictT | MapT | ListT | UnionT | NeverT | OpaqueT
)  # fmt: skip
Word: TypeAlias = IntT | FloatT | BoolT | TextT | TensorT | RefT | ListT

INT, FLOAT, BOOL, NONE, NEVER, UNSET, TEXT = IntT(), FloatT(), BoolT(), NoneT(), NeverT(), UnsetT(), TextT()
ORDER = SetOrderT()
# Types of the values of Python's own classes; data, annotations, keys and `isinstance` ask this table.
PLAIN: Mapping[type, Type] = {int: INT, float: FLOAT, bool: BOOL, str: TEXT, type(None): NONE}
MOST_CONSTANTS = 16  # strings that are cases of a union of their own
MOST_LENGTHS = 6  # ... and lengths of tuples of like things


def class_key(cls: type) -> str:
    """Return the name that classes are sorted by."""
    return f"{cls.__module__}.{cls.__qualname__}"


def _order(t: Type) -> tuple[int, str, str]:
    """Return the key by which members of a union are sorted: tensors of PyTorch as arrays, which have their words."""
    order = [
        NoneT, StructT, ListT, TensorT, Array0T, ArrayT, BoolT, IntT, FloatT, EnumT, StrT, TextT, TupleT, DictT, MapT,
        OpaqueT, UnsetT, ScalarT, FunctionT, MethodT,
    ]  # fmt: skip
    if isinstance(t, FunctionT | MethodT):
        return order.index(type(t)), "\0".join(function_key(t.fn)), ""
    if isinstance(t, StructT | EnumT):
        return order.index(type(t)), class_key(t.cls), ""
    held = _in_words(t)
    text = type_text(held)
    if isinstance(held, ArrayT):
        text += f" {held.item} {held.form.axes} {held.form.cuts} {sorted(held.form.indexed)}"
    return order.index(type(held)), text, "" if held is t else type_text(t)


def members(t: Type) -> tuple[Type, ...]:
    """Return the alternatives of a type: the members of a union, () for `NeverT`, else the type itself."""
    return t.members if isinstance(t, UnionT) else () if t == NEVER else (t,)


def union(*types: Type) -> Type:
    """Return the least type that holds every value of `types`.

    Tensors of one dtype and rank merge (extents that differ become run-time), also scalars and arrays of rank 0; lists
    merge, tuples of one length and dicts of the same keys merge item by item; constant strings become a run-time string
    if one of these is among the types or if they are many, and tuples of known lengths likewise a tuple of any length;
    every other type becomes a member of a `UnionT`.
    The union of no types is `NEVER`, which is part of every type.
    """
    wide = types[0] if types else NEVER
    if all(u == wide or all(m in members(wide) for m in members(u)) for u in types[1:]):
        return wide  # no two members of a union merge
    out: list[Type] = []
    for t in (m for u in types for m in members(u)):
        for k, old in enumerate(out):
            merged = _merge(old, t)
            if merged is not None:
                out[k] = merged
                break
        else:
            out.append(t)
    if TEXT in out or sum(isinstance(t, StrT) for t in out) > MOST_CONSTANTS:
        out = [TEXT, *(t for t in out if not isinstance(t, StrT | TextT))]
    tuples = [t for t in out if isinstance(t, TupleT) and not t.listed and t.cls is tuple]
    if len({len(t.items) for t in tuples}) > MOST_LENGTHS:
        items = [u for t in tuples for u in t.items]
        if not unlike(items):
            return union(ListT(union(*items), tupled=True), *(t for t in out if t not in tuples))
    if len(out) < 2:
        return out[0] if out else NEVER
    return UnionT(tuple(sorted(out, key=_order)))


def _merge(a: Type, b: Type) -> Type | None:
    """Return one type for both, or None if they must stay apart in a union."""
    if a == b:
        return a
    match a, b:
        case (TextT(), StrT()) | (StrT(), TextT()):
            return TEXT
        case TensorT(), TensorT() if a.dtype == b.dtype and a.rank == b.rank:
            return TensorT(a.dtype, tuple(x if x == y else None for x, y in zip(a.shape, b.shape, strict=True)))
        case Array0T() | TensorT(shape=()), Array0T() | TensorT(shape=()) if a.dtype == b.dtype:
            return Array0T(a.dtype, sure=False)
        case ListT(), ListT() if a.tupled == b.tupled:
            return ListT(union(a.item, b.item), a.tupled)
        case ArrayT(), ArrayT() if (a.item, a.form) == (b.item, b.form):
            seen = _merge(a.seen, b.seen)
            return ArrayT(seen, a.item, a.numbers, a.form) if isinstance(seen, TensorT) else None
        case TorchT(), TorchT():
            inner = _merge(a.inner, b.inner)
            return TorchT(inner) if isinstance(inner, TensorT | ArrayT) else None
        case MethodT(), MethodT() if a.fn is b.fn:
            return MethodT(a.fn, union(a.inner, b.inner))
        case TupleT(), TupleT() if (a.listed, a.cls) == (b.listed, b.cls) and len(a.items) == len(b.items):
            return TupleT(tuple(union(x, y) for x, y in zip(a.items, b.items, strict=True)), a.listed, a.cls)
        case ((ListT() | TupleT()), (ListT() | TupleT())) if _is_tuple(a) == _is_tuple(b):
            if isinstance(a, TupleT) and isinstance(b, TupleT) and _is_tuple(a):  # of two lengths that are known
                return None
            if any(isinstance(t, TupleT) and t.cls is not tuple for t in (a, b)):
                return None
            element = union(element_type(a), element_type(b))
            known = [t.item for t in (a, b) if isinstance(t, ListT)]
            if _is_tuple(a) and isinstance(element, UnionT) and element not in known and not _of_constants(element):
                return None
            return ListT(element, _is_tuple(a))
        case DictT(), DictT() if a.keys == b.keys:
            return DictT(a.keys, tuple(union(x, y) for x, y in zip(a.items, b.items, strict=True)))
        case MapT(), MapT() if (a.item is None, a.given) == (b.item is None, b.given):
            item = None if a.item is None or b.item is None else union(a.item, b.item)
            return MapT(union(a.key, b.key), item, a.given, a.ordered or b.ordered)
        case (SetOrderT(), NoneT()) | (NoneT(), SetOrderT()):
            return ORDER
    return None


def parts(t: Type) -> tuple[Type, ...]:
    """Return the types of the values inside a value: of items, keys and elements; and the members of a union."""
    match t:
        case TupleT() | DictT():
            return t.items
        case UnionT():
            return t.members
        case ListT():
            return (t.item,)
        case TorchT() | MethodT():
            return (t.inner,)
        case MapT():
            return (t.key,) if t.item is None else (t.key, t.item)
    return ()


def all_parts(*types: Type) -> Iterator[Type]:
    """Yield types and all types inside them; objects are not followed."""
    for t in types:
        yield t
        yield from all_parts(*parts(t))


def holds_arrays(t: Type) -> bool:
    """Whether values of a type may contain arrays of NumPy, or tensors of PyTorch that are made of parts of arrays."""
    if isinstance(t, TorchT):
        return isinstance(t.inner, ArrayT)
    return isinstance(t, TensorT | Array0T | ArrayT | StructT) or any(map(holds_arrays, parts(t)))


def with_parts(t: Type, change: Callable[[Type], Type]) -> Type:
    """Return a type with each of its `parts` changed."""
    match t:
        case TupleT() | DictT():
            return replace(t, items=tuple(map(change, t.items)))
        case UnionT():
            return union(*map(change, t.members))
        case ListT():
            return ListT(change(t.item), t.tupled)
        case TorchT():
            inner = change(t.inner)
            assert isinstance(inner, TensorT | ArrayT)
            return TorchT(inner)
        case MethodT():
            return MethodT(t.fn, change(t.inner))
        case MapT():
            return MapT(change(t.key), None if t.item is None else change(t.item), t.given, t.ordered)
    return t


def as_array(t: Type) -> Type:
    """Return the type of the array that shares the memory of a tensor; any other type as it is."""
    return t.inner if isinstance(t, TorchT) else t


def _in_words(t: Type) -> Type:
    """Return a type of the same words with arrays in place of tensors."""
    match t:
        case TorchT():
            return t.inner
        case TupleT() | DictT():
            items = tuple(map(_in_words, t.items))
            return t if all(a is b for a, b in zip(items, t.items, strict=True)) else replace(t, items=items)
        case ListT(inner, tupled):
            item = _in_words(inner)
            return t if item is inner else ListT(item, tupled)
        case MapT(key, item, given) if item is not None and (other := _in_words(item)) is not item:
            return MapT(key, other, given)
        case UnionT():
            other = union(*map(_in_words, t.members))
            same = isinstance(other, UnionT) and len(other.members) == len(t.members)
            return other if same and other != t else t
    return t


def array_type(t: TorchT) -> TensorT | Array0T | ArrayT:
    """Return the type of the array, of any rank, that shares the memory of a tensor."""
    rank0 = isinstance(t.inner, TensorT) and not t.inner.rank
    return Array0T(t.inner.dtype) if rank0 else t.inner  # type: ignore[union-attr]


def nesting(t: Type) -> int:
    """Return the nesting depth of lists, tuples and dicts; the entries of a dict are tuples."""
    inner = max(map(nesting, parts(t)), default=0)
    return inner + isinstance(t, TupleT | DictT | ListT | MapT) + (isinstance(t, MapT) and t.item is not None)


def pieces(t: Type) -> int:
    """Return the number of leaves of a type: its parts other than lists, tuples, dicts and unions."""
    return sum(map(pieces, parts(t))) if isinstance(t, TupleT | DictT | UnionT | ListT | MapT) else 1


def exchanged(t: Type, old: Type, new: Type) -> Type:
    """Return a type in which `new` replaces `old`, in its alternatives and in items of tuples and dicts."""
    if t == old:
        return new
    return with_parts(t, lambda u: exchanged(u, old, new)) if isinstance(t, TupleT | DictT | UnionT) else t


def _of_constants(t: UnionT) -> bool:
    return all(isinstance(m, StrT) for m in t.members)


def _is_tuple(t: ListT | TupleT) -> bool:
    return t.tupled if isinstance(t, ListT) else not t.listed


def element_type(t: ListT | TupleT) -> Type:
    """Return the type of the elements of lists, or of all elements of tuples."""
    return t.item if isinstance(t, ListT) else union(*t.items)


def unlike(types: Sequence[Type]) -> bool:
    """Whether elements of these types, such as a list and a number, cannot be in one homogeneous list."""
    kinds = set()
    for t in types:
        for m in map(as_array, members(t)):
            array = isinstance(m, ArrayT) or (isinstance(m, TensorT) and m.rank > 0)
            number = isinstance(m, IntT | FloatT | BoolT | TensorT | Array0T) and not array
            kinds.add("array" if array else "number" if number else "text" if isinstance(m, StrT | TextT) else type(m))
    return len(kinds - {NoneT, UnsetT}) > 1


def words(t: Type) -> tuple[Word, ...]:
    """Return the layout of a value of the type, one entry per 64-bit word.

    `None`, string constants and `NeverT` take no word. A union takes one word, with 0 for None, if its members besides
    None are all structs, or are one single list, tensor or string; otherwise it takes a tag word, the number of the
    value's case in `union_cases`, followed by the words of every case (zeros for the cases that do not apply).
    """
    match t:
        case IntT() | EnumT() | ScalarT():
            return (INT,)
        case FloatT():
            return (FLOAT,)
        case BoolT():
            return (BOOL,)
        case NoneT() | StrT() | FunctionT() | NeverT() | OpaqueT():
            return ()
        case TextT() | TensorT():
            return (t,)
        case TorchT() | MethodT():
            return words(t.inner)
        case ListT():
            return (t.word,)
        case MapT():
            return (ListT(t.entry).word,)
        case Array0T():
            return (t.scalar,) if t.sure else (BOOL, t.scalar)
        case ArrayT():
            return (ListT(t.item), *(INT for _ in range(t.numbers)))
        case StructT():
            return (RefT((t.cls,)),)
        case TupleT() | DictT():
            return tuple(w for item in t.items for w in words(item))
        case UnionT():
            single = union_word(t)
            if single is not None:
                return (single,)
            return (INT, *(w for case in union_cases(t) for w in words(case)))
        case _:
            assert_never(t)


def wrong_key(t: Type) -> str:
    """Return why values of a type cannot be keys of dicts (equal keys must have equal words); "" if they can."""
    kinds = members(t)
    for m in kinds:
        if isinstance(m, TupleT) or (isinstance(m, ListT) and m.tupled):
            inner = next(filter(None, map(wrong_key, m.items if isinstance(m, TupleT) else (m.item,))), "")
            if inner:
                return inner
        elif not isinstance(m, IntT | BoolT | ScalarT | StrT | TextT | EnumT | NoneT):
            return f"of type {type_text(m)}"
    numbers = [
        m for m in kinds if isinstance(m, IntT | BoolT | ScalarT) or (isinstance(m, EnumT) and issubclass(m.cls, int))
    ]
    texts = [m for m in kinds if isinstance(m, EnumT) and issubclass(m.cls, str)]
    tuples = [m for m in kinds if isinstance(m, TupleT | ListT)]
    if len(tuples) > 1 and any(isinstance(m, TupleT) and m.cls is not tuple for m in tuples):
        return f"{' and '.join(map(type_text, tuples))}, which may be equal"
    if len(numbers) > 1 or (texts and (len(texts) > 1 or any(isinstance(m, StrT | TextT) for m in kinds))):
        both = " and ".join(map(type_text, numbers if len(numbers) > 1 else kinds))
        return f"{both}, which may be equal"
    return ""


def entry_widths(entry: Type) -> tuple[int, int]:
    """Return the number of words of a dict's key, and of an entry."""
    assert isinstance(entry, TupleT)
    return len(words(entry.items[0])), len(words(entry))


def union_word(t: UnionT) -> Word | None:
    """Return the one word that holds the union (0 for None), or None if it needs a tag word."""
    rest = [m for m in t.members if not isinstance(m, NoneT)]
    if len(rest) < len(t.members) - 1:  # None and no value at all are not the same
        return None
    if all(isinstance(m, StructT) for m in rest):
        return RefT(tuple(m.cls for m in rest if isinstance(m, StructT)))
    if len(rest) == 1 and isinstance(only := _word_of(rest[0]), ListT | TensorT | TextT):
        return only.word if isinstance(only, ListT) else only
    return None


def _word_of(t: Type) -> Type:
    """Return the type of the array of a tensor with axes; any other type as it is."""
    inner = as_array(t)
    return inner if isinstance(inner, TensorT) and inner.rank else t


def union_cases(t: UnionT) -> tuple[Type, ...]:
    """Return the cases of a union with a tag word, in tag order: all its structs are one case, others one each."""
    structs = tuple(m for m in t.members if isinstance(m, StructT))
    others = tuple(m for m in t.members if not isinstance(m, StructT))
    return (*((UnionT(structs),) if len(structs) > 1 else structs), *others)


def case_slices(t: UnionT) -> list[tuple[Type, slice]]:
    """Return the cases of a tagged union, each with the slice of its words; the tag is word 0."""
    out, at = [], 1
    for case in union_cases(t):
        width = len(words(case))
        out.append((case, slice(at, at + width)))
        at += width
    return out


def case_table(t: UnionT) -> dict[Type, tuple[int, Type, slice]]:
    """Return by member of a tagged union its tag, its case, and the slice of the words of that."""
    return {m: (tag, case, at) for tag, (case, at) in enumerate(case_slices(t)) for m in members(case)}


def is_nullable(t: Type) -> bool:
    """Whether None is a value of the type."""
    return NONE in members(t)


def dtype_type(dtype: np.dtype[np.generic] | str) -> str:
    """Return the canonical name of a dtype that tensors may have, or raise `KeyError`."""
    name = np.dtype(dtype).name
    if name not in DTYPES:
        raise KeyError(name)
    return name


def host_word(dtype: str) -> IntT | FloatT | BoolT:
    """Return the Python number that one element of a tensor is: a float, an int or a bool."""
    return BOOL if dtype == "bool" else FLOAT if dtype.startswith("float") else INT


DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
)  # fmt: skip


def type_text(t: Type | Word) -> str:
    """Return the type as the user would write it."""
    match t:
        case IntT():
            return "int"
        case FloatT():
            return "float"
        case BoolT():
            return "bool"
        case UnsetT():
            return "no value"
        case NoneT():
            return "None"
        case NeverT():
            return "Never"
        case StrT():
            return f"Literal[{t.value!r}]"
        case FunctionT():
            return function_name(t.fn)
        case TextT():
            return "str"
        case EnumT() | StructT():
            return t.cls.__name__
        case ScalarT():
            return f"{t.dtype}[]"
        case TensorT():
            return f"{t.dtype}[{', '.join('?' if n is None else str(n) for n in t.shape)}]"
        case Array0T():
            return f"array({t.dtype})" if t.sure else f"array({t.dtype}) | {type_text(t.scalar)}"
        case ArrayT():
            return f"{type_text(t.seen)} that is written to"
        case MethodT():
            return f"method {t.fn.__name__} of {type_text(t.inner)}"
        case TorchT():
            return f"Tensor({type_text(t.inner)})"
        case TupleT():
            inner = ", ".join(map(type_text, t.items)) or "()"
            return f"[{inner}]" if t.listed else f"{t.cls.__name__}[{inner}]"
        case DictT():
            return "{" + ", ".join(f"{k}: {type_text(v)}" for k, v in zip(t.keys, t.items, strict=True)) + "}"
        case MapT():
            inner = type_text(t.key)
            return f"set[{inner}]" if t.item is None else f"dict[{inner}, {type_text(t.item)}]"
        case ListT():
            return f"tuple[{type_text(t.item)}, ...]" if t.tupled else f"list[{type_text(t.item)}]"
        case UnionT():
            texts = [type_text(m) for m in t.members if m != NONE]
            return " | ".join(texts + ["None"] * is_nullable(t))
        case OpaqueT():
            return t.what
        case RefT():
            return " | ".join(c.__name__ for c in t.classes)
        case _:
            assert_never(t)
