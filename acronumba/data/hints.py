"""Hints: types from annotations of fields and parameters, with unspecified parts.

In: an annotation, or a class. Out: a `Hint`: a type, or a description of the parts to infer from the data.
"""

from __future__ import annotations

import collections.abc
import enum
import re
import sys
import types
import typing
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np

from acronumba.data.classes import field_names, is_record, is_struct
from acronumba.data.source_guard import SourceGuard, guard_of
from acronumba.ir.shapes import is_shape
from acronumba.ir.types import NONE, PLAIN, EnumT, OpaqueT, StrT, Type
from acronumba.records import record


@record()
class Observed:
    """Unconstrained: the type is inferred from the data."""


@record()
class ArrayHint:
    """An array; dtype and rank are inferred from the data."""

    scalar: type  # np.float32 of NDArray[np.float32]; np.generic: any


@record()
class ClassHint:
    """An object of the class, or of a class derived from it."""

    cls: type


@record()
class ListHint:
    item: Hint
    tupled: bool = False  # `tuple[X, ...]`; where data differs from the annotation, the data decides


@record()
class TupleHint:
    items: tuple[Hint, ...]


@record()
class DictHint:
    item: Hint  # of every key


@record()
class KeysHint:
    """A `TypedDict`."""

    keys: tuple[str, ...]
    items: tuple[Hint, ...]


@record()
class UnionHint:
    members: tuple[Hint, ...]


Hint: TypeAlias = "Type | Observed | ArrayHint | ClassHint | ListHint | TupleHint | DictHint | KeysHint | UnionHint"

OBSERVED = Observed()
_PLAIN: dict[object, Hint] = {
    None: NONE,
    bytes: OpaqueT("bytes"),
    object: OBSERVED,
    Any: OBSERVED,
    **dict[object, Hint](PLAIN.items()),
}
_SEQUENCES = {list, collections.abc.Sequence, collections.abc.Collection, collections.abc.Iterable}
_SEQUENCES |= {collections.abc.MutableSequence}
_MAPPINGS = {dict, collections.abc.Mapping, collections.abc.MutableMapping}


def read_hint(annotation: object) -> Hint:
    """Convert a resolved annotation to a hint."""
    try:
        if annotation in _PLAIN:
            return _PLAIN[annotation]
    except TypeError:  # not hashable
        return OBSERVED
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Union or origin is types.UnionType:
        return UnionHint(tuple(read_hint(a) for a in args))
    if origin is typing.Literal:
        return UnionHint(tuple(StrT(a) if isinstance(a, str) else OBSERVED for a in args))
    if origin in (typing.Annotated, typing.Final):
        return read_hint(args[0])
    if origin is tuple:
        if len(args) == 2 and args[1] is Ellipsis:
            return ListHint(read_hint(args[0]), tupled=True)
        return TupleHint(() if args == ((),) else tuple(read_hint(a) for a in args))
    if origin in _SEQUENCES and args:
        return ListHint(read_hint(args[0]))
    if origin in _MAPPINGS and len(args) == 2:
        return DictHint(read_hint(args[1])) if args[0] is str else OBSERVED
    if origin is np.ndarray:
        scalar = typing.get_args(args[1]) if len(args) == 2 else ()
        named = bool(scalar) and isinstance(scalar[0], type) and issubclass(scalar[0], np.generic)
        return ArrayHint(scalar[0] if named else np.generic)
    if isinstance(annotation, typing.NewType):
        return read_hint(annotation.__supertype__)
    if hasattr(annotation, "__value__"):  # `type X = ...`
        return read_hint(annotation.__value__)
    cls = origin if isinstance(origin, type) else annotation
    if not isinstance(cls, type):
        return OBSERVED
    if typing.is_typeddict(cls):
        hints = typing.get_type_hints(cls)
        return KeysHint(tuple(hints), tuple(read_hint(h) for h in hints.values()))
    if issubclass(cls, enum.Enum):
        return EnumT(cls)
    if issubclass(cls, np.ndarray):
        return ArrayHint(np.generic)
    if issubclass(cls, np.generic):
        return ArrayHint(cls)
    if getattr(cls, "_is_protocol", False):  # a protocol does not determine the class
        return OBSERVED
    if is_struct(cls) or (cls.__module__ != "builtins" and cls not in _SEQUENCES | _MAPPINGS):
        return ClassHint(cls)
    return OBSERVED


class _AllObserved(dict[str, Hint]):
    def __missing__(self, name: str) -> Hint:
        return OBSERVED

    def get(self, name: str, default: Any = None) -> Any:
        return OBSERVED


_ALL_OBSERVED: dict[str, Hint] = _AllObserved()
_HINTS: OrderedDict[type, tuple[SourceGuard, dict[str, Hint]]] = OrderedDict()  # the oldest first
_MOST_HINTS = 1024  # classes: stale ones, as a notebook redefines, are evicted in time


def class_hints(cls: type, others: Iterable[type] = ()) -> dict[str, Hint]:
    """Return the hints of a class's fields, by name.

    Parameters
    ----------
    cls : type
        A dataclass or NamedTuple. All fields of a plain class are inferred from the data.
    others : iterable of type
        Classes that annotations may name; needed where classes are defined inside a function.
    """
    if not is_record(cls) or is_shape(cls):
        return _ALL_OBSERVED
    known = _HINTS.get(cls)
    if known is not None and known[0].is_valid():
        return known[1]
    names = field_names(cls)
    local = _local_names(cls, others)
    try:
        found = typing.get_type_hints(cls, localns=local)
        hints = {name: read_hint(found[name]) if name in found else OBSERVED for name in names}
    except Exception:  # a name that cannot be resolved: each field on its own
        return {name: _one_hint(cls, name, local) for name in names}
    _HINTS[cls] = hints_guard(cls), hints
    while len(_HINTS) > _MOST_HINTS:
        _HINTS.popitem(last=False)
    return hints


def hints_guard(cls: type) -> SourceGuard:
    """Return a guard of all that `class_hints` reads: fields, their annotations, and the names in these."""
    out = guard_of((cls,))
    for base in cls.__mro__:
        space = sys.modules.get(base.__module__)
        for annotation in vars(base).get("__annotations__", {}).values():
            if space is not None and isinstance(annotation, str):
                for name in re.findall(r"[^\W\d]\w*", annotation):
                    out.item(space, name)
    return out


def _local_names(cls: type, others: Iterable[type]) -> dict[str, Any]:
    """Return the names visible to a nested class: itself, and the known classes of the same scope."""
    scope, dot, _ = cls.__qualname__.rpartition(".")
    if not dot:
        return {}
    near = [c for c in others if c.__module__ == cls.__module__ and c.__qualname__.rpartition(".")[0] == scope]
    return {c.__name__: c for c in [*near, cls]}


def _one_hint(cls: type, name: str, local: dict[str, Any]) -> Hint:
    owner = next((c for c in cls.__mro__ if name in vars(c).get("__annotations__", {})), None)
    if owner is None:
        return OBSERVED
    holder = type("_", (), {"__annotations__": {name: vars(owner)["__annotations__"][name]}})
    space = vars(sys.modules[owner.__module__]) if owner.__module__ in sys.modules else {}
    try:
        return read_hint(typing.get_type_hints(holder, globalns=space, localns=local)[name])
    except Exception:  # a name that is not defined at run time (TYPE_CHECKING): the data decides
        return OBSERVED


def argument_hint(fn: Callable[..., Any], name: str) -> Hint:
    """Return the hint of a parameter for classes and arrays; the types of its numbers are inferred from the data."""
    try:
        inside = {n: cell.cell_contents for n, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)}
        holder = type("_", (), {"__annotations__": {name: fn.__annotations__[name]}})
        found = typing.get_type_hints(holder, globalns=fn.__globals__, localns=inside)[name]
    except Exception:  # no annotation, or a name that is not defined at run time: the data decides
        return OBSERVED
    return _without_numbers(read_hint(found))


def _without_numbers(hint: Hint) -> Hint:
    match hint:
        case ClassHint() | ArrayHint():
            return hint
        case ListHint():
            return ListHint(_without_numbers(hint.item), hint.tupled)
        case UnionHint() if NONE in hint.members:
            some = [_without_numbers(h) for h in hint.members if h != NONE]
            return UnionHint((NONE, *some)) if OBSERVED not in some else OBSERVED
    return OBSERVED


def may_hold(hint: Hint) -> bool:
    """Whether a value may hold objects, lists, tuples or dicts that must be followed."""
    match hint:
        case UnionHint():
            return any(may_hold(m) for m in hint.members)
        case Observed() | ClassHint() | ListHint() | TupleHint() | DictHint() | KeysHint():
            return True
    return False


def decided(hint: Hint) -> bool:
    match hint:
        case Observed() | ArrayHint() | DictHint():
            return False
        case ClassHint():
            return is_record(hint.cls)
        case ListHint():
            return decided(hint.item)
        case TupleHint() | KeysHint():
            return all(map(decided, hint.items))
        case UnionHint():
            return all(map(decided, hint.members))
    return True
