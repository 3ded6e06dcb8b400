"""Guards over the source of a program: the functions and names that the compiler read, and whether they changed.

Code changes while a process runs: a function gets another `__code__` (as `%autoreload` does it), a cell of a notebook
is run again, a method is replaced. The front end records in a `SourceGuard` each function that it reads, and each
lookup in a module, a closure or a class. `SourceGuard.is_valid` checks at each mini-batch that every lookup still gives
the same object; it compares identities and nothing else, some tens of nanoseconds for each. Lookups whose values are
read anew at each mini-batch (arrays and numbers) are not recorded here: see `shared`.
"""

from __future__ import annotations

import inspect
import operator
import time
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from acronumba.generics import Value

BEGUN = time.time()  # a file changed after this time may differ from the imported code
ABSENT: Value = object()  # the value of a missing name

_OF_FUNCTIONS = ("__code__", "__defaults__", "__kwdefaults__")
_IMMUTABLE = 1 << 8  # of `type.__flags__`: nobody can change the attributes of such a class


class Changed(Exception):
    """Code changed while it was read, so that the parts read belong to no single version of the program."""


class SourceGuard:
    """The functions, names and attributes that were read, with their values."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], Value] = {}  # by holder and name; keeps the holders alive
        self._attributes: dict[
            str, tuple[Callable[[Value], Value], list[Value], list[Value]]
        ] = {}  # by name: holders, values
        self._holders: list[Value] = []  # dicts with a recorded item
        self._names: list[Any] = []
        self._values: list[Value] = []
        self._without: list[Value] = []  # dicts with a recorded missing item
        self._missing: list[Value] = []

    def function(self, fn: types.FunctionType) -> types.CodeType:
        """Record the code and defaults of a function; return its code."""
        for name in _OF_FUNCTIONS:
            self._attribute(fn, name)
        for name in fn.__kwdefaults__ or ():
            self.item(fn.__kwdefaults__, name)
        code: types.CodeType = self._seen[id(fn), ".__code__"][1]
        return code

    def item(self, holder: Value, name: Value) -> Value:
        """Record the item of a dict, or of the `__dict__` of a class or module; return the item, or `ABSENT`."""
        key = id(holder), name
        if key in self._seen:
            return self._seen[key][1]
        items = holder if isinstance(holder, Mapping) else vars(holder)
        value = items.get(name, ABSENT)
        self._seen[key] = holder, value
        if value is ABSENT:
            self._without.append(items)
            self._missing.append(name)
        else:
            self._holders.append(items)
            self._names.append(name)
            self._values.append(value)
        return value

    def place(self, holder: Value, name: str) -> None:
        """Record the contents of a closure cell, or the item of a dict."""
        if isinstance(holder, types.CellType):
            self._attribute(holder, "cell_contents")
        else:
            self.item(holder, name)

    def owner(self, cls: type, name: str) -> type | None:
        """Record which class of the MRO defines an attribute, and its value; return that class, or None."""
        self._attribute(cls, "__mro__")
        for base in cls.__mro__:
            if base.__flags__ & _IMMUTABLE:
                if name in vars(base):
                    return base
            elif self.item(base, name) is not ABSENT:
                return base
        return None

    def attribute(self, cls: type, name: str) -> Value:
        """Record an attribute of a class; return it without calling descriptors, or `ABSENT`."""
        owner = self.owner(cls, name)
        if owner is None:
            return inspect.getattr_static(cls, name, ABSENT)  # of the class of the class
        return vars(owner)[name]

    def layout(self, cls: type) -> None:
        """Record the fields of a class, and their annotations."""
        for name in ("__dataclass_fields__", "_fields", "_field_defaults"):
            self.attribute(cls, name)
        for base in cls.__mro__:
            if not base.__flags__ & _IMMUTABLE:
                annotations = self.item(base, "__annotations__")
                for name in annotations if isinstance(annotations, dict) else ():
                    self.item(annotations, name)

    def include(self, other: SourceGuard) -> None:
        """Record everything that another guard has recorded."""
        for name, (_, holders, values) in other._attributes.items():
            for holder, value in zip(holders, values, strict=True):
                self._attribute(holder, name, value)
        self._seen |= other._seen
        self._holders += other._holders
        self._names += other._names
        self._values += other._values
        self._without += other._without
        self._missing += other._missing

    def rest(
        self, item: Callable[[Value, Value, Value], bool], attribute: Callable[[Value, str, Value], bool]
    ) -> SourceGuard:
        """Return a guard of the lookups that these functions do not take: of items of dicts, and of attributes.

        Their arguments are the holder, the name, and the value; that of a missing item is `ABSENT`.
        """
        out = SourceGuard()
        for name, (_, holders, values) in self._attributes.items():
            for holder, value in zip(holders, values, strict=True):
                if not attribute(holder, name, value):
                    out._attribute(holder, name, value)
        for holder, name, value in zip(self._holders, self._names, self._values, strict=True):
            if not item(holder, name, value):
                out._holders.append(holder)
                out._names.append(name)
                out._values.append(value)
        for holder, name in zip(self._without, self._missing, strict=True):
            if not item(holder, name, ABSENT):
                out._without.append(holder)
                out._missing.append(name)
        return out

    def agrees(self, other: SourceGuard) -> bool:
        """Whether every lookup recorded by both guards gave the same object."""
        mine, theirs = self._seen, other._seen
        return all(mine[key][1] is theirs[key][1] for key in mine.keys() & theirs.keys())

    def is_valid(self) -> bool:
        """Whether every recorded lookup still gives the same object."""
        same = operator.is_
        try:
            for read, holders, values in self._attributes.values():
                if not all(map(same, map(read, holders), values)):
                    return False
            if self._holders and not all(map(same, map(operator.getitem, self._holders, self._names), self._values)):
                return False
        except (KeyError, ValueError):  # ValueError: of an empty cell
            return False
        return not (self._without and any(map(operator.contains, self._without, self._missing)))

    def __len__(self) -> int:
        attributes = sum(len(values) for _, _, values in self._attributes.values())
        return attributes + len(self._values) + len(self._missing)

    def _attribute(self, holder: Value, name: str, value: Value = ABSENT) -> None:
        key = id(holder), f".{name}"
        if key not in self._seen:
            value = getattr(holder, name) if value is ABSENT else value
            self._seen[key] = holder, value
            _, holders, values = self._attributes.setdefault(name, (operator.attrgetter(name), [], []))
            holders.append(holder)
            values.append(value)


def guard_of(classes: Iterable[type]) -> SourceGuard:
    """Return a source_guard of the fields of classes."""
    out = SourceGuard()
    for cls in classes:
        out.layout(cls)
    return out
