"""Which values do not have their type, and where they are.

Packing works on whole columns and only notices *that* something is wrong. This second walk, one instance after the
other, says what and where: the path of the first such value in each instance, as a `DataError`. It accepts exactly
what packing accepts.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from acronumba.errors import DataError
from acronumba.ir.nodes import StructLayout
from acronumba.ir.types import (
    NEVER,
    Array0T,
    BoolT,
    DictT,
    EnumT,
    FloatT,
    IntT,
    ListT,
    NeverT,
    NoneT,
    OpaqueT,
    StrT,
    StructT,
    TensorT,
    TupleT,
    Type,
    UnionT,
    members,
    type_text,
)
from acronumba.runtime.heap import Mismatch
from acronumba.runtime.schema import MISSING, attribute

Link: TypeAlias = "tuple[Link, str] | None"  # a path, from its end

_ARRAYS = (np.ndarray, np.memmap)
_LONG = 200  # characters of a path that a message shows


def accepts(t: Type, value: Any) -> bool:
    """Whether a value has a type, without looking inside objects, lists, tuples and dicts."""
    match t:
        case IntT():
            whole = isinstance(value, int | np.integer) and type(value).__name__ != "timedelta64"
            return whole and -(2**63) <= int(value) < 2**63
        case FloatT():
            return isinstance(value, float) or (isinstance(value, int) and _fits_float(value))
        case BoolT():
            return type(value) is bool
        case NoneT():
            return value is None
        case NeverT():
            return False
        case StrT():
            return type(value) is str and value == t.value
        case EnumT():
            return type(value) is t.cls and any(value is m for m in t.cls)
        case TensorT():
            array = type(value) in _ARRAYS if t.rank else isinstance(value, np.generic)
            return array and value.dtype == np.dtype(t.dtype) and value.ndim == t.rank
        case Array0T():
            array = type(value) in _ARRAYS and not value.ndim
            return (array and value.dtype == np.dtype(t.dtype)) or (not t.sure and accepts(t.scalar, value))
        case StructT():
            return type(value) is t.cls
        case TupleT():
            return type(value) is tuple and len(value) == len(t.items)
        case DictT():
            return type(value) is dict and tuple(value) == t.keys
        case ListT():
            return type(value) in (list, tuple)
        case UnionT():
            return any(accepts(m, value) for m in t.members)
        case OpaqueT():
            return True


def _fits_float(value: int) -> bool:
    try:
        float(value)
    except OverflowError:
        return False
    return True


def case_of(cases: Sequence[Type], value: Any) -> int:
    """Return which case of a union with a tag a value is, if possible one without a conversion; -1 if it is none."""
    fitting = [k for k, case in enumerate(cases) if accepts(case, value)]
    if len(fitting) < 2:
        return fitting[0] if fitting else -1
    return min(fitting, key=lambda k: (_distance(cases[k], value), k))


def _distance(t: Type, value: Any) -> int:
    match t:
        case IntT():
            return 0 if type(value) is int else 2
        case FloatT():
            return 1 if type(value) is float else 3
        case ListT():
            return 1
    return 0


def case_numbers(cases: Sequence[Type], values: Sequence[Any]) -> list[int]:
    """Return the case of every value; raise `Mismatch` if one is of no case."""
    by_class = {}
    for cls in set(map(type, values)):
        fitting = [k for k, case in enumerate(cases) if _class_decides(case, cls)]
        if len(fitting) == 1 and not any(_class_may(case, cls) for k, case in enumerate(cases) if k != fitting[0]):
            by_class[cls] = fitting[0]
    if len(by_class) == len(set(map(type, values))):
        return [by_class[type(v)] for v in values]
    numbers = [by_class[type(v)] if type(v) in by_class else case_of(cases, v) for v in values]
    if -1 in numbers:
        raise Mismatch
    return numbers


def _class_decides(t: Type, cls: type) -> bool:
    """Whether every value of exactly this class has the type."""
    match t:
        case NoneT():
            return cls is type(None)
        case BoolT():
            return cls is bool
        case StructT():
            return cls is t.cls
        case ListT():
            return cls is list
        case UnionT():
            return any(_class_decides(m, cls) for m in t.members)
    return False


def _class_may(t: Type, cls: type) -> bool:
    """Whether a value of this class may have the type."""
    match t:
        case IntT() | FloatT():
            return issubclass(cls, int | float | np.number)
        case TupleT():
            return cls is tuple
        case ListT():
            return cls in (list, tuple)
        case UnionT():
            return any(_class_may(m, cls) for m in t.members)
    return _class_decides(t, cls)


class Conformance:
    """Finds what is wrong with instances, one after the other.

    Parameters
    ----------
    params : sequence of Type
        The types of the positional parameters.
    layouts : mapping from class to StructLayout
        The fields that count.
    """

    def __init__(self, params: Sequence[Type], layouts: Mapping[type, StructLayout]) -> None:
        self._params = params
        self._layouts = layouts
        self._clean: dict[tuple[int, Type | None], object] = {}  # what instances without errors reach; keeps it alive

    def check(self, instance: int, values: Sequence[Any]) -> DataError | None:
        """Return the first value of an instance that does not have its type, or None."""
        seen: dict[tuple[int, Type | None], object] = {}
        todo: list[tuple[Any, Type, Link]] = []
        for k in reversed(range(len(values))):
            todo.append((values[k], self._params[k], (None, f"[{instance}]")))
        while todo:
            value, t, link = todo.pop()
            if isinstance(t, UnionT):
                cases = [m for m in t.members if not isinstance(m, OpaqueT)]
                k = case_of(cases, value)
                if k < 0:
                    return _error(instance, link, t, value)
                t = cases[k]
            elif not accepts(t, value):
                return _error(instance, link, t, value)
            if isinstance(t, StructT | ListT | TupleT | DictT):
                key = id(value), t if isinstance(t, ListT | TupleT | DictT) else None
                if key in seen or key in self._clean:
                    continue
                seen[key] = value
                inner = self._inner(value, t, link)
                if isinstance(inner, str):
                    return _error(instance, (link, f".{inner}"), t, value, missing=inner)
                todo += reversed(inner)
        self._clean |= seen
        return None

    def _inner(self, value: Any, t: Type, link: Link) -> list[tuple[Any, Type, Link]] | str:
        """Return what is inside a value, or the name of a field that it does not have."""
        if isinstance(t, TupleT):
            return [(v, item, (link, f"[{k}]")) for k, (v, item) in enumerate(zip(value, t.items, strict=True))]
        if isinstance(t, DictT):
            return [(value[k], item, (link, f"[{k!r}]")) for k, item in zip(t.keys, t.items, strict=True)]
        if isinstance(t, ListT):
            return [(v, t.item, (link, f"[{k}]")) for k, v in enumerate(value)]
        out: list[tuple[Any, Type, Link]] = []
        for f in self._layouts[type(value)].fields if type(value) in self._layouts else ():
            inner = attribute(value, f.name)
            if inner is MISSING:
                return f.name
            out.append((inner, f.type, (link, f".{f.name}")))
        return out


def path_text(link: Link) -> str:
    """Return a path as the user would write it."""
    parts = []
    while link is not None:
        link, part = link
        parts.append(part)
    return "".join(reversed(parts))


def _error(instance: int, link: Link, t: Type, value: Any, missing: str = "") -> DataError:
    path = path_text(link)
    shown = path if len(path) <= _LONG else f"{path[: _LONG // 2]} ... {path[-_LONG // 2 :]}"
    if missing:
        seen = f"an object of class {type(value).__name__} without the attribute `{missing}`"
        return DataError(f"{shown} has no value", instance=instance, path=path, seen=seen)
    kinds = IntT | FloatT if isinstance(value, int) else IntT  # an int field takes NumPy's integers, too
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)
    if whole and any(isinstance(m, kinds) for m in members(t)):
        wrong = f"{shown} is an int that does not fit {'a float' if isinstance(t, FloatT) else '64 bits'}"
        return DataError(wrong, instance=instance, path=path, seen=f"an int of {int(value).bit_length()} bits")
    return DataError(
        f"{shown} must be {_wanted(t)}, not {_found(value)}",
        instance=instance,
        path=path,
        seen=_short(value),
        rewrite=_rewrite(t, value),
    )


def _wanted(t: Type) -> str:
    if t == NEVER:  # no value of the mini-batch was one that the annotation allows
        return "what its annotation says"
    text = type_text(t)
    return text if isinstance(t, UnionT | NoneT | TupleT) else f"{'an' if text[0] in 'aeiou' else 'a'} {text}"


def _found(value: Any) -> str:
    if isinstance(value, np.ndarray | np.generic):
        name = value.dtype.name if value.dtype.isnative else value.dtype.str
        if isinstance(value, np.ndarray) and not value.ndim:
            return f"an array({name})"
        return f"{name}[{', '.join(map(str, value.shape))}]"
    if value is None:
        return "None"
    if isinstance(value, enum.Flag) and all(value is not member for member in type(value)):
        return f"a combination of {type(value).__name__}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _short(value: Any) -> str:
    if isinstance(value, int | float | str | enum.Enum) or value is None:
        text = repr(value)
        return text if len(text) <= 60 else f"{text[:57]}..."
    if type(value) is dict:
        return f"a dict with the keys {', '.join(map(str, list(value)[:8]))}"
    if type(value) in (list, tuple):
        return f"a {type(value).__name__} of {len(value)}"
    return f"class {type(value).__module__}.{type(value).__qualname__}"


def _rewrite(t: Type, value: Any) -> str:
    """Return a conversion that makes the value conform, if there is an obvious one."""
    wanted = [m for m in members(t) if not isinstance(m, NoneT)]
    if len(wanted) != 1:
        return ""
    tensor = wanted[0]
    if isinstance(tensor, TensorT):
        if isinstance(value, np.ndarray | np.generic):
            if not value.dtype.isnative and value.dtype == np.dtype(tensor.dtype).newbyteorder():
                return 'convert it with .astype(x.dtype.newbyteorder("="))'
            if value.dtype != np.dtype(tensor.dtype):
                return f"convert it with .astype(np.{tensor.dtype.replace('bool', 'bool_')})"
            if not tensor.rank and not value.ndim:
                return "x[()]"
            return f"give it {tensor.rank} axes" if type(value) in (*_ARRAYS, np.generic) else "use a plain np.ndarray"
        if isinstance(value, int | float | list | tuple):
            return f"convert it with np.asarray(x, np.{tensor.dtype.replace('bool', 'bool_')})"
    if isinstance(tensor, Array0T) and isinstance(value, int | float | np.generic):
        return f"convert it with np.asarray(x, np.{tensor.dtype.replace('bool', 'bool_')})"
    number = isinstance(value, int | float | np.number | np.bool_) or (
        isinstance(value, np.ndarray) and value.size == 1
    )
    for kind, name in ((IntT, "int"), (FloatT, "float"), (BoolT, "bool")):
        if isinstance(tensor, kind) and number:
            return f"convert it with {name}(x)"
    return ""
