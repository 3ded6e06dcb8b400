"""Types of shared leaves and of dicts as hash tables, from their values.

In: a value, or the types of the values of a dict. Out: its type; None where it is structure, not data.
"""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TypeAlias

import numpy as np

from acronumba.foreign import as_numpy, is_foreign
from acronumba.generics import Value
from acronumba.ir.types import (
    FLOAT,
    INT,
    NEVER,
    PLAIN,
    Array0T,
    BoolT,
    EnumT,
    FloatT,
    IntT,
    ListT,
    MapT,
    NoneT,
    OpaqueT,
    TensorT,
    TextT,
    TupleT,
    Type,
    dtype_type,
    members,
    union,
    wrong_key,
)

DICTS = (dict, defaultdict, OrderedDict, Counter)
ARRAYS = (np.ndarray, np.generic)
PLAIN_ARRAYS = (np.ndarray, np.memmap)  # other subclasses may override operators
# By class, the attributes that a program reads through objects: an instance attribute would hide them.
Inherited: TypeAlias = Mapping[type, frozenset[str]]


def leaf_type(value: object) -> Type | str | None:
    """Return the type of a leaf, None if the value is no leaf, or a sentence with the reason why it is unsupported."""
    if type(value) is int:
        return INT if -(2**63) <= value < 2**63 else "an int of more than 64 bits"
    if type(value) is float:
        return FLOAT
    if isinstance(value, ARRAYS):
        if isinstance(value, np.ndarray) and type(value) not in PLAIN_ARRAYS:
            return f"an array of class {type(value).__name__}: use a plain np.ndarray"
        try:
            if value.dtype.isnative:
                dtype = dtype_type(value.dtype)
                point = isinstance(value, np.ndarray) and not value.ndim
                return Array0T(dtype) if point else TensorT(dtype, value.shape)
        except KeyError:
            pass
        return f"an array of dtype {value.dtype}"
    if is_foreign(value):
        array = as_numpy(value)
        return array if isinstance(array, str) else leaf_type(array)
    return None


LONG_DICT = 32  # dicts with more entries, all of one type and none an array, are data, not structure


FEW_KEYS = 4  # dicts of a dict with more different keys, or orders of them, are data, not structure


def varies(value: Mapping[Value, Value]) -> bool:
    """Whether the values of a dict are dicts with many different keys, or orders of them."""
    if len(value) <= FEW_KEYS or not all(type(v) is dict for v in value.values()):
        return False
    return len(set(map(tuple, value.values()))) > FEW_KEYS


def is_table(items: Iterable[Type]) -> bool:
    """Whether the values of a dict are of one type, and neither arrays nor objects."""
    whole = union(*items)
    return whole != NEVER and _is_plain(whole)


def _is_plain(t: Type) -> bool:
    if isinstance(t, TupleT):
        return all(map(_is_plain, t.items))
    if isinstance(t, MapT):
        return _is_plain(t.key) and t.item is not None and _is_plain(t.item)
    return _is_plain(t.item) if isinstance(t, ListT) else isinstance(t, IntT | FloatT | BoolT | TextT | EnumT)


def table_type(value: dict[Value, Value]) -> MapT | None:
    """Return the map type of a dict; None if it cannot be a map."""
    key = union(*map(key_type, _kinds(value)))
    if varies(value):
        inner = _joined(value.values())
        return None if inner is None or wrong_key(key) else MapT(key, inner, given=True)
    items = [_value_type(v) for v in _kinds(value.values())]
    item = union(*(t for t in items if t is not None))
    whole = isinstance(item, TensorT) or _is_plain(item) or (isinstance(item, ListT) and isinstance(item.item, TensorT))
    if None in items or wrong_key(key) or not whole:
        return None
    if len(value) <= LONG_DICT or all(type(k) is not str for k in value) or _is_plain(item):
        return MapT(key, item, given=True)
    return None


def _joined(dicts: Iterable[dict[Value, Value]]) -> MapT | None:
    """Return the map type of all of some dicts of numbers or strings, or of such dicts; None if they have none."""
    filled = [d for d in dicts if d]
    key = union(*map(key_type, _kinds(chain.from_iterable(filled))))
    values = list(chain.from_iterable(d.values() for d in filled))
    inner = _joined(values) if all(type(v) is dict for v in values) else None
    items = [_value_type(v) for v in _kinds(values)] if inner is None else [inner]
    item = union(*(t for t in items if t is not None))
    plain = item != NEVER and all(map(_is_plain, members(item)))
    return None if None in items or wrong_key(key) or not plain else MapT(key, item, given=True)


def _kinds(values: Iterable[Value]) -> list[Value]:
    """Return the values, with only one of each simple class (int, str, float, bool)."""
    every = list(values)
    simple = frozenset((int, str, float, bool))
    one_each = dict(zip(map(type, every), every, strict=True))
    if simple.issuperset(one_each):
        return list(one_each.values())
    return [v for v in every if type(v) not in simple] + [v for kind, v in one_each.items() if kind in simple]


def key_type(key: object) -> Type:
    if isinstance(key, tuple) and type(key) is tuple:
        return TupleT(tuple(map(key_type, key)))
    if isinstance(key, enum.Enum):
        return EnumT(type(key))
    return PLAIN.get(type(key)) or OpaqueT(f"an object of class {type(key).__name__}")


def _value_type(value: object) -> Type | None:
    """Return the type of a value of a map; None if it cannot be stored."""
    if type(value) is tuple:
        items = list(map(_value_type, value))
        return None if None in items else TupleT(tuple(t for t in items if t is not None))
    if type(value) is list:
        items = list(map(_value_type, _kinds(value)))
        return None if None in items else ListT(union(*(t for t in items if t is not None)))
    if isinstance(value, np.ndarray | np.generic):
        found = leaf_type(value)
        return TensorT(found.dtype, (None,) * found.rank) if isinstance(found, TensorT) else None
    known = key_type(value)
    return None if isinstance(known, OpaqueT | NoneT) else known
