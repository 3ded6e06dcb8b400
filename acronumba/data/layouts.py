"""Memory layouts of the rows of classes.

In: the types of their fields. Out: `StructLayout`s, in the order that numbers the classes.
"""

from __future__ import annotations

from collections.abc import Mapping

from acronumba.data.classes import fields_in_order
from acronumba.ir.nodes import FieldLayout, StructLayout
from acronumba.ir.types import OpaqueT, Type, class_key, words


def make_layouts(rows: Mapping[type, Mapping[str, Type]]) -> tuple[StructLayout, ...]:
    """Return the memory layout of every class, sorted by `class_key`, from the types of its fields."""
    return tuple(_layout(cls, rows[cls]) for cls in sorted(rows, key=class_key))


def _layout(cls: type, types_of: Mapping[str, Type]) -> StructLayout:
    """Return the layout of one class; fields that cannot be stored are left out."""
    fields: list[FieldLayout] = []
    at = 1
    for name in fields_in_order(cls, types_of):
        t = types_of.get(name)
        if t is None or isinstance(t, OpaqueT):
            continue
        width = len(words(t))
        fields.append(FieldLayout(name=name, type=t, offset=at, width=width))
        at += width
    return StructLayout(cls=cls, fields=tuple(fields), size=at)
