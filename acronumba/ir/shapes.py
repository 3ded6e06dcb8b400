"""Shapes: lists, tuples and dicts that contain themselves, as classes whose objects are rows.

Nested data without classes (JSON, parse trees, formulas) have a recursive type. It is closed by a name, as the type of
a recursive dataclass is: a shape is what such containers have in common (the keys of a dict, the length of a tuple, its
tag), and stands for a class in `StructT`. Its fields are the items, or one field with all elements.
"""

from __future__ import annotations

import copyreg
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeGuard, TypeVar

from acronumba.generics import Value
from acronumba.ir.types import NO_VALUE
from acronumba.records import record

ALL = "items"  # the field of a list, a tuple of any length, or a dict with run-time keys: all its elements


@record()
class Shape:
    """The common form of some lists, tuples or dicts."""

    python: type  # list, tuple or dict
    size: int | None = None  # of a tuple, or a list, of known length
    tag: str | None = None  # its first item, if those of one length are distinguished by it
    keys: tuple[str, ...] | None = None  # of a dict whose keys are known, in their order

    @property
    def is_open(self) -> bool:
        """Whether the number of elements is known only at run time."""
        return self.size is None and self.keys is None

    @property
    def names(self) -> tuple[str, ...]:
        """The fields, in order."""
        count = self.size if self.keys is None else len(self.keys)
        return (ALL,) if count is None else tuple(f"item{k}" for k in range(count))

    @property
    def places(self) -> tuple[Value, ...]:
        """The index or key of each field of a shape that is not open."""
        return self.keys if self.keys is not None else tuple(range(self.size or 0))

    def place(self, name: str) -> Value:
        """Return the index or key of a field."""
        return self.places[self.names.index(name)]

    def key(self, value: Value) -> Value:
        """Return the key of a value, which distinguishes it from values of other shapes: equals `own_key`."""
        if self.keys is not None:
            return tuple(value)
        if self.tag is not None:
            return len(value), value[0] if value else None
        return len(value)

    @property
    def own_key(self) -> Value:
        """The key of all its values; see `key`."""
        return self.keys if self.keys is not None else self.size if self.tag is None else (self.size, self.tag)

    def matches(self, value: Value) -> bool:
        """Whether a list, tuple or dict has the shape, without looking at its items."""
        return type(value) is self.python and (self.is_open or self.key(value) == self.own_key)

    def may_equal(self, other: Shape) -> bool:
        """Whether a value of this shape may be equal to one of another."""
        if self.python is not other.python or self.is_open or other.is_open:
            return self.python is other.python
        tags = self.tag is None or other.tag is None or self.tag == other.tag
        return tags and self.size == other.size and {*(self.keys or ())} == {*(other.keys or ())}

    def part(self, value: Value, name: str) -> Value:
        """Return a field of a value."""
        return value if name == ALL else value[self.place(name)]

    def make(self, parts: Sequence[Value]) -> Value:
        """Return a value of its fields, in order."""
        if self.is_open:
            return parts[0]
        return self.python(parts) if self.keys is None else dict(zip(self.keys, parts, strict=True))

    @property
    def text(self) -> str:
        """The shape as an identifier."""
        name = self.python.__name__
        if self.is_open:
            return f"nested_{name}"
        parts = [name, "" if self.size is None else str(self.size), self.tag or "", *(self.keys or ())]
        return re.sub(r"\W+", "_", "_".join(p for p in parts if p), flags=re.ASCII)[:40].strip("_")


class ShapeClass(type):
    """The class of the classes that stand for shapes."""

    shape: Shape


@lru_cache(None)
def shape_class(shape: Shape) -> ShapeClass:
    """Return the class that stands for a shape, the same one for equal shapes."""
    made = ShapeClass(shape.text, (), {"__module__": "builtins", "__qualname__": f"{shape.text} {shape!r}"})
    made.shape = shape
    return made


def _pickled(cls: ShapeClass) -> tuple[object, tuple[Shape]]:
    return shape_class, (cls.shape,)


copyreg.pickle(ShapeClass, _pickled)  # type: ignore[arg-type]


def is_shape(cls: object) -> TypeGuard[ShapeClass]:
    """Whether a class stands for a shape."""
    return type(cls) is ShapeClass


STANDS_FOR: dict[type, type] = {}  # classes of the library, and those of Python that they are for models


def class_of_values(cls: type) -> type:
    """Return the Python class of the values for which a class stands: itself, unless it stands for a shape."""
    return cls.shape.python if is_shape(cls) else STANDS_FOR.get(cls, cls)


L = TypeVar("L")


def layout_of(layouts: Mapping[type, L], value: Value) -> L:
    """Return the layout of the class, or the shape, of a value."""
    cls = type(value)
    found = next((layouts[c] for c in cls.__mro__ if c in layouts), None)
    if found is not None:
        return found
    fitting = [c for c in layouts if is_shape(c) and c.shape.matches(value)]
    return layouts[max(fitting, key=lambda c: (c.shape.tag is not None, not c.shape.is_open))]


def field_of(value: Value, cls: type, name: str, optional: bool) -> Value:
    """Return a field of an object, or of a value of a shape; NO_VALUE if it has none and is `optional`."""
    if is_shape(cls):
        return cls.shape.part(value, name)
    return getattr(value, name, NO_VALUE) if optional else getattr(value, name)
