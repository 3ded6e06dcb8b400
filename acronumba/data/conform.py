"""Locates values that do not have their type, instance by instance.

Packing works on whole columns and only notices *that* something is wrong. This second walk reports the path of the
first wrong value of each instance, as a `DataError`. It accepts exactly the values that packing accepts.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from acronumba.data.codecs import codec
from acronumba.data.collect import WHOLE
from acronumba.data.heap import AllVisible, Mismatch, free_bytes
from acronumba.data.schema import MISSING, attribute
from acronumba.data.shared import hiding
from acronumba.errors import DataError
from acronumba.foreign import Library, is_tensor
from acronumba.generics import Value
from acronumba.ir.functions import function_advice, function_name, is_function_class, known_function
from acronumba.ir.nodes import StructLayout
from acronumba.ir.shapes import is_shape
from acronumba.ir.types import (
    FLOAT,
    INT,
    NEVER,
    UNSET,
    Array0T,
    BoolT,
    DictT,
    FloatT,
    IntT,
    ListT,
    MapT,
    MethodT,
    NoneT,
    OpaqueT,
    StrT,
    StructT,
    TensorT,
    TextT,
    TupleT,
    Type,
    UnionT,
    as_array,
    members,
    type_text,
)

Link: TypeAlias = "tuple[Link, str] | None"  # a path, from its end
Field: TypeAlias = "tuple[type, str]"  # class and name
_Place: TypeAlias = "tuple[Value, Type, Link, Field | None]"  # a value, its type, its path, and the field that it is in

_LONG = 200  # largest number of characters of a path in a message


def case_of(cases: Sequence[Type], value: Value) -> int:
    """Return the case of a union with a tag that a value has, preferably one without conversion; -1 if none."""
    fitting = [k for k in _tried(cases, type(value)) if codec(cases[k]).accepts(cases[k], value)]
    return min(fitting, key=lambda k: (codec(cases[k]).distance(value), k), default=-1)


def _tried(cases: Sequence[Type], cls: type) -> Sequence[int]:
    """Return the numbers of the cases to try for values of a class: where an int may stand, no int becomes a float."""
    every = range(len(cases))
    return [k for k in every if cases[k] != FLOAT] if cls is int and INT in cases else every


def case_numbers(cases: Sequence[Type], values: Sequence[Value]) -> list[int]:
    """Return the case of every value; raise `Mismatch` if one is of no case."""
    by_class = {}
    kinds = set(map(type, values))
    if kinds == {str} and all(isinstance(case, StrT) for case in cases):
        found = list(map({case.value: k for k, case in enumerate(cases)}.get, values))  # type: ignore[union-attr]
        if None in found:
            raise Mismatch
        return found  # type: ignore[return-value]
    for cls in kinds:
        fitting = [k for k, case in enumerate(cases) if codec(case).decides(case, cls)]
        may = [k for k in _tried(cases, cls) if codec(cases[k]).may_be(cases[k], cls)]
        if len(may) == 1 and (fitting == may or cls in (int, float)):  # the size of an int is checked later
            by_class[cls] = may[0]
    if len(by_class) == len(kinds):
        return [by_class[type(v)] for v in values]
    others = {id(v): v for v in values if type(v) not in by_class}
    by_id = {key: case_of(cases, v) for key, v in others.items()}
    numbers = [by_class[type(v)] if type(v) in by_class else by_id[id(v)] for v in values]
    if -1 in numbers:
        raise Mismatch
    return numbers


class Conformance:
    """Finds the values of instances that do not have their type.

    Parameters
    ----------
    params : sequence of Type
        The types of the positional parameters.
    layouts : mapping from class to StructLayout
        The fields that count.
    visible : mapping from class to Visible
        The class attributes that instance attributes must not hide.
    """

    def __init__(self, params: Sequence[Type], layouts: Mapping[type, StructLayout], visible: AllVisible) -> None:
        self._params = params
        self._visible = visible
        self._layouts = layouts
        self._free = free_bytes()
        self._clean: dict[tuple[int, Type | None], object] = {}  # reached without errors; keeps it alive

    def check(self, instance: int, values: Sequence[Value]) -> DataError | None:
        """Return an error for the first value of an instance that does not have its type, or None."""
        return next((error for error, _ in self._wrong(instance, values)), None)

    def faults(self, column: Value) -> set[tuple[type, str]]:
        """Return the fields that do not have their type in some object of the instances, by class and name."""
        found = (field for k, value in enumerate(column) for _, field in self._wrong(k, (value,)))
        return {field for field in found if field is not None}

    def _wrong(self, instance: int, values: Sequence[Value]) -> Iterator[tuple[DataError, Field | None]]:
        """Yield an error for each value that does not have its type, and the field that contains the value, or None."""
        seen: dict[tuple[int, Type | None], object] = {}
        clean, nbytes = True, 0  # of its arrays
        todo: list[_Place] = []
        for k in reversed(range(len(values))):
            todo.append((values[k], self._params[k], (None, f"[{instance}]"), None))
        while todo:
            value, t, link, field = todo.pop()
            cases = [m for m in t.members if not isinstance(m, OpaqueT)] if isinstance(t, UnionT) else [t]
            k = case_of(cases, value) if isinstance(t, UnionT) else codec(t).accepts(t, value) - 1
            if k < 0:
                clean = False
                yield _error(instance, link, t, value), field
                continue
            t = cases[k]
            if isinstance(t, TensorT) and (id(value), t) not in seen:
                seen[id(value), t] = value
                nbytes += value.nbytes
                if nbytes > self._free:
                    clean = False
                    yield _too_large(instance, link, value, nbytes), field
                    nbytes -= value.nbytes
            if isinstance(t, StructT | ListT | TupleT | DictT | MapT | MethodT):
                key = id(value), None if isinstance(t, StructT) else t
                if key in seen or key in self._clean:
                    continue
                seen[key] = value
                for name in self._visible[type(value)].hidden(value) if type(value) in self._visible else ():
                    clean = False
                    yield _hidden(instance, (link, f".{name}"), type(value), name), None
                inner = self._inner(value, t, link, field)
                for name in [name for name, place in inner if place is None]:
                    clean = False
                    yield _error(instance, (link, f".{name}"), t, value, missing=name), (type(value), name)
                todo += [place for _, place in reversed(inner) if place is not None]
        if clean:
            self._clean |= seen

    def _inner(self, value: Value, t: Type, link: Link, field: Field | None) -> list[tuple[str, _Place | None]]:
        """Return the values inside a value, by field name ("" for elements); None for a missing field."""
        if not isinstance(t, StructT):
            return [("", (v, item, (link, step), field)) for v, item, step in codec(t).inside(t, value)]
        out: list[tuple[str, _Place | None]] = []
        cls = type(value)
        if is_shape(t.cls):
            fields, shape = self._layouts[t.cls].fields if t.cls in self._layouts else (), t.cls.shape
            steps = ["" if shape.is_open else f"[{shape.place(f.name)!r}]" for f in fields]
            places = [(shape.part(value, f.name), f.type, (link, s)) for f, s in zip(fields, steps, strict=True)]
            return [(f.name, (*p, (t.cls, f.name))) for f, p in zip(fields, places, strict=True)]
        for f in self._layouts[cls].fields if cls in self._layouts else ():
            inner = attribute(value, f.name)
            if inner is MISSING and UNSET in members(f.type):
                continue
            there = inner is not MISSING
            out.append((f.name, (inner, f.type, (link, f".{f.name}"), (cls, f.name)) if there else None))
        return out


def path_text(link: Link) -> str:
    """Return a path as the user would write it."""
    parts = []
    while link is not None:
        link, part = link
        parts.append(part)
    return "".join(reversed(parts))


def _too_large(instance: int, link: Link, value: Value, nbytes: int) -> DataError:
    return DataError(
        f"{_path(link)[0]} does not fit in memory: up to here the arrays of the instance have {nbytes:,} bytes",
        instance=instance,
        path=_path(link)[1],
        code="ACR704",
        seen=_found(value),
        rewrite="give the instance less data",
    )


def _path(link: Link) -> tuple[str, str]:
    """Return a path as shown in messages, and the full path."""
    path = path_text(link)
    return (path if len(path) <= _LONG else f"{path[: _LONG // 2]} ... {path[-_LONG // 2 :]}"), path


def _error(instance: int, link: Link, t: Type, value: Value, missing: str = "") -> DataError:
    shown, path = _path(link)
    if missing:
        seen = f"an object of class {type(value).__name__} without the attribute `{missing}`"
        return DataError(f"{shown} has no value", instance=instance, path=path, seen=seen)
    kinds = IntT | FloatT if type(value) is int else IntT  # an int field takes NumPy's integers, too
    whole = type(value) in WHOLE and type(value) is not bool
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


def _hidden(instance: int, link: Link, cls: type, name: str) -> DataError:
    shown, path = _path(link)
    seen, rewrite = hiding(cls, name)
    wrong = f"{shown} hides what the model reads of the class {cls.__name__}"
    return DataError(wrong, instance=instance, path=path, seen=seen, rewrite=rewrite)


def _wanted(t: Type) -> str:
    if t == NEVER:  # no value of the mini-batch conforms to the annotation
        return "what its annotation says"
    text = type_text(t)
    return text if isinstance(t, UnionT | NoneT | TupleT) else f"{'an' if text[0] in 'aeiou' else 'a'} {text}"


def _found(value: Value) -> str:
    if issubclass(type(value), np.ndarray | np.generic):
        name = value.dtype.name if value.dtype.isnative else value.dtype.str
        if isinstance(value, np.ndarray) and not value.ndim:
            return f"an array({name})"
        return f"{name}[{', '.join(map(str, value.shape))}]"
    if value is None:
        return "None"
    if is_tensor(value):
        layout = "" if value.layout is Library.strided else f"{value.layout} "
        return f"a {layout}tensor of {value.dtype}, of shape {tuple(value.shape)}"
    if issubclass(type(value), enum.Flag) and all(value is not member for member in type(value)):
        return f"a combination of {type(value).__name__}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _short(value: Value) -> str:
    if issubclass(type(value), int | float | str | enum.Enum) or value is None:
        text = repr(value)
        return text if len(text) <= 60 else f"{text[:57]}..."
    if type(value) is dict:
        return f"a dict with the keys {', '.join(map(str, list(value)[:8]))}"
    if type(value) in (list, tuple):
        return f"a {type(value).__name__} of {len(value)}"
    if is_function_class(type(value)):
        found = known_function(value)
        return found if isinstance(found, str) else function_name(value)
    return f"class {type(value).__module__}.{type(value).__qualname__}"


def _rewrite(t: Type, value: Value) -> str:
    """Return advice on a conversion that makes the value conform, or ""."""
    if is_function_class(type(value)):
        return function_advice(known_function(value))
    wanted = [m for m in members(t) if not isinstance(m, NoneT)]
    if len(wanted) != 1:
        return ""
    tensor, cls = as_array(wanted[0]), type(value)
    if isinstance(tensor, TextT) and issubclass(cls, str):
        return "convert it with str(x)"
    if isinstance(tensor, TensorT):
        if issubclass(cls, np.ndarray | np.generic):
            if not value.dtype.isnative and value.dtype == np.dtype(tensor.dtype).newbyteorder():
                return 'convert it with .astype(x.dtype.newbyteorder("="))'
            if value.dtype != np.dtype(tensor.dtype):
                return f"convert it with .astype(np.{tensor.dtype.replace('bool', 'bool_')})"
            if not tensor.rank and not value.ndim:
                return "x[()]"
            return (
                f"give it {tensor.rank} axes"
                if type(value) in (np.ndarray, np.memmap, np.generic)
                else "use a plain np.ndarray"
            )
        if issubclass(cls, int | float | list | tuple):
            return f"convert it with np.asarray(x, np.{tensor.dtype.replace('bool', 'bool_')})"
    if isinstance(tensor, Array0T) and issubclass(cls, int | float | np.generic):
        return f"convert it with np.asarray(x, np.{tensor.dtype.replace('bool', 'bool_')})"
    number = issubclass(cls, int | float | np.number | np.bool_) or (issubclass(cls, np.ndarray) and value.size == 1)
    for kind, name in ((IntT, "int"), (FloatT, "float"), (BoolT, "bool")):
        if isinstance(tensor, kind) and number:
            return f"convert it with {name}(x)"
    return ""
