"""The structure of a value, found once: to see that it is unchanged, to read another of the same structure, to rebuild.

In: nestings of objects, dicts, lists and tuples, which may contain themselves. Out: a `Skeleton`: the containers, how
the parts of each are read, and the leaves, each once.

`Skeleton.is_unchanged` compares the parts of all containers by identity, with functions of C. It holds the values, so
an identity is not used again. It does not see changes inside of a leaf, hence `fixed`: whether each leaf is immutable,
or a NumPy array, whose place and form `runtime.watched` compares.
"""

from __future__ import annotations

import enum
import re
import types
from collections.abc import Callable, Collection, Sequence
from functools import partial
from operator import attrgetter, is_

import numpy as np

from acronumba.data.classes import adapter_of, is_object, maker_of, names_of, setter_of
from acronumba.data.tables import PLAIN_ARRAYS
from acronumba.foreign import is_foreign
from acronumba.generics import Value
from acronumba.records import record

_IMMUTABLE = (bool, int, float, complex, str, bytes, type(None), range)  # but not their subclasses
_OF_FIXED_STATE = (enum.Enum, np.generic, np.dtype, type, types.ModuleType, types.FunctionType, re.Pattern)
_ABSENT: Value = object()


@record(eq=False)
class _Container:
    """A container, and how its parts are read."""

    number: int
    holder: Value
    read: Callable[[Value], Collection[Value]]  # its parts, behind `skip` other things that have to be the same
    skip: int
    seen: tuple[Value, ...]  # what `read` has returned
    parts: tuple[int, ...]  # numbers of the parts
    first: int  # that of the first one, if no container before it holds any of them, and they follow each other; or -1
    names: tuple[Value, ...]  # of the parts of an object; the keys of a dict
    held: dict[str, Value] | None  # the `__dict__` of an object,
    keys: frozenset[Value]  # ... and its keys


class Skeleton:
    """The structure of a value.

    Attributes
    ----------
    leaves : list
        The values without parts, each object once, depth first.
    fixed : bool
        See the module.
    """

    def __init__(self, value: Value) -> None:
        self._numbers: dict[int, int] = {}
        self._values: list[Value] = []
        self.fixed = True
        root = self._number(value)
        found = {n: self._container(n, v) for n, v in enumerate(self._values) if has_parts(v)}  # it grows meanwhile
        self._containers = tuple(found.values())  # each behind one that holds it
        self._places: list[int] = []  # numbers of the leaves
        self._made: list[tuple[int, Callable[[Value], Value], tuple[int, ...]]] = []  # shells; a tuple after its parts
        self._order(root, found)
        self._filled = [(c, setter_of(type(c.holder))) for c in found.values() if not isinstance(c.holder, tuple)]
        self.leaves = [self._values[n] for n in self._places]
        self.fixed = self.fixed and all(map(_is_fixed, self.leaves))

    def _number(self, value: Value) -> int:
        number = self._numbers.setdefault(id(value), len(self._values))
        if number == len(self._values):
            self._values.append(value)
        return number

    def _container(self, number: int, value: Value) -> _Container:
        cls: type = type(value)
        names: tuple[Value, ...] = ()
        skip, held = 0, None
        read: Callable[[Value], Collection[Value]] = tuple
        if isinstance(value, dict):
            names, read = tuple(value), dict.values
            fixed = cls is dict and all(map(_is_fixed, names))
        elif isinstance(value, list | tuple):
            fixed = cls is list or isinstance(value, tuple)
        else:
            every, held = names_of(value), getattr(value, "__dict__", None)
            names = tuple(n for n in every if hasattr(value, n))
            before = ("__class__", "__class__") if held is None else ("__class__", "__dict__")
            dotted = any("." in n for n in names)
            read, skip = partial(_attributes, names) if dotted else attrgetter(*before, *names), 0 if dotted else 2
            fixed = adapter_of(cls) is None and len(names) == len(every) and not dotted
        self.fixed = self.fixed and fixed
        seen, first = tuple(read(value)), len(self._values)
        parts = tuple(map(self._number, seen[skip:]))
        first = first if parts == tuple(range(first, first + len(parts))) else -1
        return _Container(number, value, read, skip, seen, parts, first, names, held, frozenset(held or ()))

    def _order(self, root: int, found: dict[int, _Container]) -> None:
        """Determine the order of leaves, and that in which containers are made."""
        done: set[int] = set()
        stack = [root]
        while stack:
            n = stack[-1]
            c = found.get(n)
            if n in done:
                stack.pop()
            elif c is None:
                self._places.append(n)
                done.add(n)
            elif isinstance(c.holder, tuple) and (rest := [k for k in c.parts if k not in done]):
                stack += reversed(rest)
            else:
                done.add(stack.pop())
                self._made.append((n, _maker(c.holder), c.parts if isinstance(c.holder, tuple) else ()))
                stack += reversed(c.parts)

    def is_unchanged(self) -> bool:
        """Whether all containers still hold the same parts; leaves are not looked into."""
        try:
            for c in self._containers:
                now = c.read(c.holder)
                if len(now) != len(c.seen) or not all(map(is_, now, c.seen)):
                    return False
                if c.held is not None:
                    if c.held.keys() != c.keys:
                        return False
                elif c.read is dict.values and not all(map(is_, c.holder, c.names)):
                    return False
        except (AttributeError, RuntimeError):  # a part is gone; another thread changes a dict
            return False
        return True

    def leaves_of(self, other: Value) -> list[Value] | None:
        """Return the parts of another value at the places of the leaves; None if it has another structure."""
        found: list[Value] = [_ABSENT] * len(self._values)
        found[0] = other
        try:
            for c in self._containers:
                value = found[c.number]
                if type(value) is not type(c.holder):
                    return None
                parts = tuple(c.read(value))[c.skip :]
                if len(parts) != len(c.parts) or (c.read is dict.values and tuple(value) != c.names):
                    return None
                if c.held is not None and value.__dict__.keys() != c.keys:
                    return None
                if c.first >= 0:
                    found[c.first : c.first + len(parts)] = parts
                    continue
                for n, part in zip(c.parts, parts, strict=True):
                    if found[n] is not part and found[n] is not _ABSENT:
                        return None
                    found[n] = part
        except AttributeError:
            return None
        return list(map(found.__getitem__, self._places))

    def rebuilt(self, leaves: Sequence[Value]) -> Value:
        """Return the structure with other leaves, in the order of `leaves`."""
        made: list[Value] = [None] * len(self._values)
        part = made.__getitem__
        for n, leaf in zip(self._places, leaves, strict=True):
            made[n] = leaf
        for n, make, parts in self._made:
            made[n] = make(map(part, parts))
        for c, set_part in self._filled:
            shell = made[c.number]
            if isinstance(shell, list):
                shell += map(part, c.parts)
            elif isinstance(shell, dict):
                shell.update(zip(c.names, map(part, c.parts), strict=True))
            else:
                for name, value in zip(c.names, map(part, c.parts), strict=True):
                    set_part(shell, name, value)
        return made[0]


def has_parts(v: object) -> bool:
    """Whether a value may hold others."""
    return isinstance(v, list | tuple | dict) or (is_object(v) and not is_foreign(v))


def _is_fixed(value: Value) -> bool:
    if type(value) in PLAIN_ARRAYS:
        return not value.dtype.hasobject
    immutable = type(value) in _IMMUTABLE or isinstance(value, _OF_FIXED_STATE)
    return (immutable and not isinstance(value, np.void)) or (type(value) is tuple and all(map(_is_fixed, value)))


def _attributes(names: Sequence[str], value: Value) -> list[Value]:
    return [getattr(value, name) for name in names]


def _maker(value: Value) -> Callable[[Value], Value]:
    """Return a function from the parts of a tuple to one like it; that makes an empty container like any other."""
    cls: Value = type(value)
    if isinstance(value, tuple):
        return cls._make if hasattr(cls, "_make") else tuple
    if isinstance(value, list | dict):
        return list if isinstance(value, list) else dict
    make = maker_of(cls)
    return lambda parts: make()
