"""Functions in data: which values are functions that the compiler knows, and which of them count as one.

In: functions, classes and functions of NumPy that instances hold. Out: the function that stands for each of them.
Functions made again by one definition, as lambdas where data is made, count as one if what they hold is equal.
"""

from __future__ import annotations

import functools
import re
import types
import weakref
from collections import Counter
from collections.abc import Hashable
from types import CodeType

import numpy as np

from acronumba.generics import Value

_CLASSES = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, np.ufunc, type(np.sum), type, re.Pattern,
)  # fmt: skip
_UNKNOWN = (types.MethodType, functools.partial)
_PLAIN = (int, float, str, bool, type(None))
_MOST = 16  # functions of one definition that hold different values

_known: dict[Hashable, weakref.ref[types.FunctionType]] = {}
_patterns: dict[re.Pattern[str], re.Pattern[str]] = {}  # equal ones count as one
_counts: Counter[tuple[str, CodeType]] = Counter()  # by file, which codes do not compare


def is_function_class(cls: type) -> bool:
    """Whether values of a class are functions or classes."""
    return issubclass(cls, _CLASSES + _UNKNOWN)


def known_function(value: Value) -> Value | str:
    """Return the function or class that stands for one in the data, or why there is none."""
    if isinstance(value, functools.partial):
        return "a functools.partial"
    if isinstance(value, re.Pattern):
        return _patterns.setdefault(value, value)
    bound = isinstance(value, types.BuiltinFunctionType) and not isinstance(value.__self__, types.ModuleType | None)
    if bound or isinstance(value, types.MethodType):
        return f"the method {value.__name__} of an object"
    if not isinstance(value, types.FunctionType) or not made_anew(value):
        return value
    key = _key(value)
    if key is None:
        return f"the function {value.__qualname__}, which holds values of its own"
    found = _known[key]() if key in _known else None
    if found is not None and found.__globals__ is value.__globals__ and _key(found) == key:
        return found
    definition = value.__code__.co_filename, value.__code__
    if key not in _known:
        _counts[definition] += 1
    if _counts[definition] > _MOST:
        return f"one of more than {_MOST} functions {value.__qualname__}, which hold values of their own"
    _known[key] = weakref.ref(value)
    return value


def made_anew(value: Value) -> bool:
    """Whether a function may be made again by its definition, as a lambda or a nested function."""
    return isinstance(value, types.FunctionType) and "<" in value.__qualname__


def _key(value: types.FunctionType) -> Hashable | None:
    """Return a key, equal for functions of one definition that hold equal values; None if these may change."""
    held = [] if value.__closure__ is None else [_cell(c, value) for c in value.__closure__]
    held += map(_part, value.__defaults__ or ())
    held += ((k, _part(v)) for k, v in (value.__kwdefaults__ or {}).items())
    if any(p is None or p == (p[0], None) for p in held):  # type: ignore[index]
        return None
    return value.__code__, id(value.__globals__), value.__name__, value.__qualname__, *held


def _cell(cell: types.CellType, owner: types.FunctionType) -> Hashable | None:
    try:
        return ("itself", "") if cell.cell_contents is owner else _part(cell.cell_contents)
    except ValueError:  # it is empty
        return None


def _part(value: Value) -> Hashable | None:
    """Return a key of a value that a function holds; None if it may change."""
    if type(value) in _PLAIN:
        return type(value), repr(value)
    if isinstance(value, types.ModuleType):
        return "module", id(value)
    if not is_function_class(type(value)):
        return None
    found = known_function(value)
    return None if isinstance(found, str) else ("function", id(found))


def function_name(value: Value) -> str:
    """Return how messages call a function or class."""
    name = getattr(value, "__name__", repr(value))
    module = "np" if isinstance(value, np.ufunc) else getattr(value, "__module__", None)
    inside = "" if isinstance(value, types.FunctionType | type) or module in (None, "builtins") else f"{module}."
    return f"class {name}" if isinstance(value, type) else f"function {inside}{name}"


def function_advice(why: Value | str) -> str:
    """Return the rewrite for a function that cannot be data, by the reason that `known_function` gives."""
    if not isinstance(why, str):
        return ""
    if "method" in why:
        return "keep the object, and call its method"
    if "functools.partial" in why:
        return "a lambda with a default: `lambda x, k=k: f(k, x)`"
    if "function" in why:
        return "an object with `__call__`, whose attributes are the values that the function holds"
    return ""


def function_key(value: Value) -> tuple[str, ...]:
    """Return a key by which functions are sorted, the same in every process."""
    code = getattr(value, "__code__", None)
    place = () if code is None else (f"{code.co_firstlineno:9}", str(next(code.co_positions(), None)))
    cells = [] if code is None else [c.cell_contents for c in value.__closure__ or () if c != types.CellType()]
    held = () if code is None else map(_text, (*cells, *(value.__defaults__ or ())))
    return str(getattr(value, "__module__", "")), str(getattr(value, "__qualname__", value)), *place, *held


def _text(held: Value) -> str:
    return str(getattr(held, "__qualname__", None) or repr(held))
