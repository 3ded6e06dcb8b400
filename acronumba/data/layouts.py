"""How rows of classes lie in memory.

In: the types of their fields. Out: `StructLayout`s, in the order that numbers the classes.
"""

from __future__ import annotations

from collections.abc import Mapping

from acronumba.data.hints import (
    field_names,
)
from acronumba.data.schema import Reads, Schema, merge_fields, restrict
from acronumba.ir.nodes import FieldLayout, StructLayout
from acronumba.ir.types import (
    OpaqueT,
    Type,
    class_key,
    words,
)


def make_layouts(
    schema: Schema, reads: Reads | None = None, extra: Mapping[type, Mapping[str, Type]] | None = None
) -> tuple[StructLayout, ...]:
    """Return how rows of every class lie in memory, sorted by `class_key`.

    Parameters
    ----------
    schema : Schema
        Of the instances.
    reads : mapping, optional
        Fields that the model reads; the others are left out.
    extra : mapping from class to field types, optional
        Classes that the model itself constructs, with the types of what it stores. A field that is also in the data
        gets the union of both types.
    """
    rows = merge_fields(restrict(schema, reads).fields, extra or {})
    return tuple(make_layout(cls, rows[cls]) for cls in sorted(rows, key=class_key))


def make_layout(cls: type, types_of: Mapping[str, Type]) -> StructLayout:
    """Return the layout of one class; fields that cannot be stored are left out."""
    fields: list[FieldLayout] = []
    at = 1
    for name in field_names(cls):
        t = types_of.get(name)
        if t is None or isinstance(t, OpaqueT):
            continue
        width = len(words(t))
        fields.append(FieldLayout(name=name, type=t, offset=at, width=width))
        at += width
    return StructLayout(cls=cls, fields=tuple(fields), size=at)
