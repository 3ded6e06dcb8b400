"""Deep copies of instances, for snapshots of values that words cannot represent.

In: values. Out: copies that share no mutable state with them: dataclasses, NamedTuples, lists, tuples, dicts, sets and
arrays are new, everything else is the same object. Aliasing is preserved: an object that is reached twice is copied
once. There is no recursion over data.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MemberDescriptorType

import numpy as np

from acronumba.data.classes import is_struct, new_object, set_field
from acronumba.data.schema import MISSING, attribute
from acronumba.generics import Value

_SAME = frozenset((int, float, bool, str, bytes, type(None)))  # classes whose values are never copied


def copied(values: Sequence[Value]) -> tuple[list[Value], list[tuple[Value, Value]]]:
    """Return copies of values, and the pairs of every object, list, tuple, dict and array with its copy."""
    made: dict[int, Value] = {}  # copies by the id of the original
    known: dict[type, tuple[str, ...] | None] = {}
    held: dict[int, tuple[Value, Value]] = {}  # by id: the original and its contents; keeps both alive

    def copy_of(value: Value) -> Value:
        return made.get(id(value), value)

    later = list(values)
    while later:
        todo = [(later.pop(), False)]  # True: the elements of this tuple have been made
        while todo:
            value, ready = todo.pop()
            if ready:
                made[id(value)] = _tuple(type(value), held[id(value)][1], copy_of)
            elif id(value) not in held and (inside := _inside(value, known)) is not None:
                held[id(value)] = value, inside
                inner = [v for v in (inside.values() if isinstance(inside, dict) else inside) if type(v) not in _SAME]
                if issubclass(type(value), tuple):  # created after its elements
                    todo.append((value, True))
                    todo += [(v, False) for v in inner]
                else:
                    made[id(value)] = _empty(value)
                    later += inner
    for key, (value, inside) in held.items():
        if not issubclass(type(value), tuple):
            _fill(made[key], inside, copy_of)
    return [copy_of(v) for v in values], [(value, made[key]) for key, (value, _) in held.items()]


def unchanging(values: list[Value]) -> tuple[list[Value], list[tuple[Value, Value]]]:
    """Return copies as `copied` does, or the values themselves if none is mutable."""
    return (values, []) if _SAME.issuperset(map(type, values)) else copied(values)


def _slots(cls: type) -> tuple[str, ...] | None:
    """Return the attributes of a class's objects outside their `__dict__`; None if such objects are not copied."""
    if not is_struct(cls):
        return None
    spaces = [vars(base) for base in cls.__mro__]
    return tuple({name: 0 for space in spaces for name, v in space.items() if isinstance(v, MemberDescriptorType)})


def _inside(value: Value, known: dict[type, tuple[str, ...] | None]) -> Value:
    """Return the contents of a value, as a sequence or by name; None if the value is not copied."""
    cls = type(value)
    if cls is list or cls is tuple or cls is set:
        return list(value)
    if cls is dict:
        return dict(value)
    if cls not in known:
        known[cls] = _slots(cls)
    slots = known[cls]
    if slots is not None:
        found = dict(zip(cls._fields, value, strict=True)) if issubclass(cls, tuple) else {}  # type: ignore[attr-defined]
        for name in slots:
            if (v := attribute(value, name)) is not MISSING:
                found[name] = v
        return found | getattr(value, "__dict__", {})
    return () if issubclass(cls, np.ndarray) else None


def _empty(value: Value) -> Value:
    """Return an empty copy of a container or object, or a full copy of an array (stride 0 is kept)."""
    cls = type(value)
    if not issubclass(cls, np.ndarray):
        return cls() if cls in (list, dict, set) else new_object(cls)
    if 0 not in value.strides:
        return value.copy()
    once = value[tuple(slice(None) if step else slice(0, 1) for step in value.strides)]
    return np.broadcast_to(once.copy(), value.shape, subok=True)


def _fill(out: Value, inside: Value, copy_of: Value) -> None:
    if type(out) is list:
        out += map(copy_of, inside)
    elif type(out) is set:
        out.update(inside)
    elif type(out) is dict:
        out.update((name, copy_of(v)) for name, v in inside.items())
    elif isinstance(inside, dict):
        for name, v in inside.items():
            set_field(out, name, copy_of(v))  # as frozen dataclasses do


def _tuple(cls: type, inside: Value, copy_of: Value) -> Value:
    """Create a tuple or NamedTuple from copies of its contents, without a call of the user's `__new__`."""
    if not isinstance(inside, dict):
        return tuple(map(copy_of, inside))
    fields: Sequence[str] = cls._fields  # type: ignore[attr-defined]
    out: Value = tuple.__new__(cls, [copy_of(inside[name]) for name in fields])
    for name in inside.keys() - set(fields):
        set_field(out, name, copy_of(inside[name]))
    return out
