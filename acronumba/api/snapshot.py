"""Snapshots: frozen instances or shared values.

In: a sequence of instances, or an object or dict of shared values. Out: a pack of `data.pack`, or a `Snapshot`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from acronumba.api.columns import as_columns, has_rows, is_packed
from acronumba.data.classes import is_object, is_record, names_of, set_field
from acronumba.errors.codes import reject
from acronumba.foreign import as_numpy, is_foreign
from acronumba.generics import Value
from acronumba.locks import undivided
from acronumba.memory import refuse_stale

PACKABLE = "pack takes a sequence of instances, or shared values"


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """Frozen shared values, as `pack` makes them; accepted wherever the values are."""

    value: Value

    def __repr__(self) -> str:
        return f"Snapshot({type(self.value).__name__})"


def pack(values: Value) -> Value:
    """Return a snapshot of instances, or of shared values.

    Parameters
    ----------
    values : sequence of instances, or an object, NamedTuple, dict or set of shared values
        A sequence becomes one column; slicing it is free.

    Returns
    -------
    object
        Accepted by `Model.batch` (and similar methods) in place of `values`. Later changes of `values` are not
        seen.
    """
    if type(values) is Snapshot or is_packed(values):
        return values
    if (is_object(values) and _is_one(values)) or isinstance(values, dict | set):
        return Snapshot(_frozen_copy(values))
    if isinstance(values, np.ndarray) and not values.ndim:
        raise reject("ACR706", seen="an array of rank 0", message=PACKABLE, rewrite="pack([x]) for one instance")
    if isinstance(values, str | bytes) or not (isinstance(values, Iterable) or has_rows(values)):
        seen = type(values).__name__
        raise reject("ACR706", seen=seen, message=PACKABLE, rewrite="pack([x]) for one instance")
    column = as_columns([values], ["pack"])[0]
    with undivided:
        from acronumba.data import pack as packing

    return packing.pack(column)


def value_of(value: Value) -> Value:
    """Return the shared value of a snapshot, or the value itself."""
    return value.value if type(value) is Snapshot else value.value() if is_packed(value) else value


def _is_one(value: object) -> bool:
    """Whether an object is shared values, and not a user-defined sequence of instances."""
    return is_record(type(value)) or not isinstance(value, Iterable)


def _frozen_copy(value: Value) -> Value:
    """Return a deep copy with read-only arrays, which preserves aliasing."""
    memo: dict[int, Value] = {}

    def visit(v: Value) -> Value:
        if isinstance(v, np.ndarray) or is_foreign(v):
            if id(v) not in memo:
                array = as_numpy(v)
                if isinstance(array, str):  # rejected where it is read
                    return v
                refuse_stale([array])
                memo[id(v)] = np.array(array, order="C")
                memo[id(v)].flags.writeable = False
            return memo[id(v)]
        if isinstance(v, dict):
            return {k: visit(inner) for k, inner in v.items()}
        if isinstance(v, tuple):
            items = [visit(inner) for inner in v]
            return type(v)(*items) if hasattr(v, "_fields") else tuple(items)
        if isinstance(v, list):
            return [visit(inner) for inner in v]
        if isinstance(v, set):
            return set(v)
        if is_object(v):
            if id(v) not in memo:
                memo[id(v)] = out = copy.copy(v)
                for name in names_of(v):
                    if hasattr(v, name):
                        set_field(out, name, visit(getattr(v, name)))
            return memo[id(v)]
        return v

    return visit(value)
