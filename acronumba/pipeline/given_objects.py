"""Plain calls leave given objects as they were: the attributes that a function writes are restored.

In: the functions whose programs write attributes of objects that came in (`frontend.overlay`), and the arguments of a
plain call. Out: a `Snapshot` of the state of all objects in them, which restores it after the call.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from acronumba.foreign import is_foreign, is_simple, is_tensor
from acronumba.generics import Value
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.frontend.lower import Lowered
    from acronumba.frontend.walker import GlobalRead

# By function whose program writes attributes of what came in: the outer variables that contain such objects, and the
# names of the attributes.
_writers: WeakKeyDictionary[types.FunctionType, tuple[dict[str, GlobalRead], set[str]]] = WeakKeyDictionary()
_LEAVES = (np.ndarray, np.generic, enum.Enum, type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)
_NO_VALUE = object()


def note_writer(fn: types.FunctionType, lowered: Lowered) -> None:
    """Note that the program of a function writes attributes of objects that came in."""
    if lowered.overlaid:
        paths = [key for key in lowered.overlaid if isinstance(key, str)]
        outer = {g.path: g for g in lowered.globals if any(p.startswith(g.path) for p in paths)}
        reads, names = _writers.setdefault(fn, ({}, set()))
        reads.update(outer)
        names.update(*lowered.overlaid.values())


@record()
class Outer:
    """Objects besides its arguments to which a plain call may write."""

    values: tuple[Value, ...]  # of the outer variables of the function
    names: frozenset[str]  # of all attributes that it assigns


def outer_of(fn: object) -> Outer | None:
    """Return the objects that a function may change; None if its program writes to no given objects."""
    writer = _writers.get(fn) if isinstance(fn, types.FunctionType) else None
    if writer is None:
        return None
    reads, names = writer
    found = []
    for read in reads.values():
        try:
            found.append(read.read())
        except (KeyError, ValueError):  # the variable is gone
            continue
    return Outer(tuple(found), frozenset(names))


class Snapshot:
    """The state of all objects, lists and dicts that are reachable from some values.

    Parameters
    ----------
    values
        These, and all that they contain, are as they were after `restore`.
    names : set of str
        Attributes whose arrays may be changed in place.
    instance
        More values, of which all arrays may be changed.
    """

    def __init__(self, values: Iterable[Value], names: Iterable[str] = (), instance: Value = ()) -> None:
        self._names = frozenset(names)
        self._arrays: list[tuple[Value, Value]] = []
        self._dicts: list[tuple[dict[Value, Value], dict[Value, Value]]] = []
        self._lists: list[tuple[list[Value], list[Value]]] = []
        self._slots: list[tuple[Value, str, Value]] = []
        seen: set[int] = set()
        for stack, arrays in (([instance], True), ([*values], False)):
            while stack:
                v = stack.pop()
                if arrays:
                    self._copy(v)
                if id(v) in seen or is_simple(type(v)) or isinstance(v, _LEAVES) or is_foreign(v):
                    continue
                seen.add(id(v))
                stack += self._parts(v)

    def _parts(self, v: Value) -> Iterable[Value]:
        """Note the state of a value, and return its parts."""
        if isinstance(v, tuple | set | frozenset):
            return v
        if isinstance(v, list):
            self._lists.append((v, list(v)))
            return v
        if isinstance(v, dict):
            self._dicts.append((v, dict(v)))
            for name in self._names.intersection(v):
                self._copy(v[name])
            return v.values()
        if isinstance(v, types.MethodType):
            return [v.__self__]
        found: list[Value] = []
        own: Value = getattr(v, "__dict__", None)
        if type(own) is dict:
            found.append(own)
        for name in (
            n for cls in type(v).__mro__ for n, d in vars(cls).items() if type(d) is types.MemberDescriptorType
        ):
            part = getattr(v, name, _NO_VALUE)
            self._slots.append((v, name, part))
            found.append(part)
            if name in self._names:
                self._copy(part)
        return found

    def _copy(self, value: Value) -> None:
        """Note the content of an array."""
        if isinstance(value, np.ndarray):
            self._arrays.append((value, value.copy()))
        elif is_tensor(value):
            self._arrays.append((value, value.detach().clone()))

    def restore(self) -> None:
        """Give the objects the state that they had."""
        for mapping, before in self._dicts:
            if len(mapping) != len(before) or any(mapping.get(k, _NO_VALUE) is not x for k, x in before.items()):
                mapping.clear()
                mapping.update(before)
        for items, listed in self._lists:
            if len(items) != len(listed) or any(a is not b for a, b in zip(items, listed, strict=True)):
                items[:] = listed
        for array, content in self._arrays:  # one that has not changed may be read-only
            if isinstance(array, np.ndarray):
                if array.tobytes() != content.tobytes():
                    array[...] = content
            elif not ((array.data == content) | (content != content)).all():
                array.data.copy_(content)
        for v, name, part in self._slots:
            if getattr(v, name, _NO_VALUE) is part:
                continue
            if part is _NO_VALUE:
                object.__delattr__(v, name)
            else:
                object.__setattr__(v, name, part)
