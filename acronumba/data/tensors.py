"""Map from the float arrays in a value to the words that represent them.

In: a Python value, its type, its words, and an object that follows references. Out: each float array with its words:
the address of a value record, or the interpreter's substitute for one. Gradients, which are keyed by record, are so
assigned to the structures of users, and cotangents to records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from acronumba.data.buffers import Memory
from acronumba.data.words import LIST, MADE, RECORD
from acronumba.generics import Value
from acronumba.ir.nodes import StructLayout
from acronumba.ir.shapes import is_shape
from acronumba.ir.types import (
    NO_VALUE,
    NONE,
    Array0T,
    ArrayT,
    DictT,
    ListT,
    MapT,
    NoneT,
    StructT,
    TensorT,
    TupleT,
    Type,
    UnionT,
    as_array,
    case_slices,
    union_word,
    words,
)
from acronumba.memory import address
from acronumba.records import record


class References(Protocol):
    """Follows references."""

    def fields(self, word: Any, value: Value) -> tuple[StructLayout, Sequence[Any]]:
        """Return the layout of the row of an object, which is `value`, and its words behind the tag."""

    def items(self, word: Any, width: int) -> Sequence[Any]:
        """Return the words of all elements of a list, `width` for each."""

    def shape(self, word: Any, rank: int) -> tuple[int, ...]:
        """Return the shape of a tensor."""


class InMemory:
    """Follows the references of packed instances, and of results of compiled code.

    Parameters
    ----------
    memory
        All memory that references point into.
    given
        Layouts of all classes for rows packed from the user's objects: only the fields that are read.
    made
        The same for rows that the model creates: all fields.
    heap
        Memory in which the model creates rows, including rows that represent objects of the user.
    """

    def __init__(
        self, memory: Memory, given: Sequence[StructLayout], made: Sequence[StructLayout] = (),
        heap: Sequence[NDArray[np.int64]] = (),
    ) -> None:  # fmt: skip
        self.memory, self.given, self.made = memory, given, made
        self._heap = [(address(chunk), address(chunk) + chunk.nbytes) for chunk in heap]

    def fields(self, word: int, value: Value) -> tuple[StructLayout, Sequence[int]]:
        """Return the layout of the row of an object, and its words behind the tag."""
        tag = self.memory.words(word, 1)[0]
        made = tag >= MADE or any(start <= word < end for start, end in self._heap)
        layout = self.made[tag % MADE] if made else self.given[tag]
        return layout, self.memory.words(word, layout.size)[1:]

    def items(self, word: int, width: int) -> Sequence[int]:
        """Return the words of all elements of a list."""
        head = self.memory.words(word, LIST.count)
        return self.memory.words(head[LIST.at["items"]], head[LIST.at["length"]] * width)

    def shape(self, word: int, rank: int) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return tuple(self.memory.words(self.memory.words(word, RECORD.count)[RECORD.at["shape"]], rank))

    def data(self, record: int) -> int:
        """Return the address of the data of a value record."""
        return self.memory.words(record, 1)[RECORD.at["data"]]


@record()
class FoundArray:
    """An array in a value."""

    array: Any
    type: TensorT | Array0T | ArrayT
    words: Sequence[Any]  # of a tensor: one


def arrays_in(value: Value, t: Type, given: Sequence[Any], references: References) -> list[FoundArray]:
    """Return the float arrays in a value: each object and list is visited once, an array as often as it is reached.

    Parameters
    ----------
    value
        The Python value.
    t, given
        The type and words of the value.
    references
        Follows the references in words.
    """
    out: list[FoundArray] = []
    seen: set[int] = set()
    stack: list[tuple[Value, Type, Sequence[Any]]] = [(value, t, given)]
    while stack:
        v, t, given = stack.pop()
        while isinstance(t, UnionT):
            t, given = _member(v, t, given)
        t = as_array(t)
        match t:
            case TensorT() | Array0T() if t.dtype.startswith("float"):
                out.append(FoundArray(v, t, given[-1:]))
            case ArrayT() if t.item.dtype.startswith("float"):
                out.append(FoundArray(v, t, given))
            case TupleT() | DictT():
                at = 0
                for key, item in zip(t.keys if isinstance(t, DictT) else range(len(t.items)), t.items, strict=True):
                    width = len(words(item))
                    stack.append((v[key], item, given[at : at + width]))
                    at += width
            case StructT() | ListT() | MapT() if id(v) not in seen:
                seen.add(id(v))
                stack += _inside(v, t, given[0], references)
    return out


def _member(v: Value, t: UnionT, given: Sequence[Any]) -> tuple[Type, Sequence[Any]]:
    """Return the member of a union that a value has, and its words."""
    if union_word(t) is None:
        case, place = case_slices(t)[given[0]]
        return case, given[place]
    return NONE if v is None or v is NO_VALUE else next(m for m in t.members if not isinstance(m, NoneT)), given


def _inside(v: Value, t: StructT | ListT | MapT, word: Any, references: References) -> list[tuple[Value, Type, Any]]:
    """Return the fields of an object, or the elements of a list, with their types and words."""
    if isinstance(t, StructT):
        layout, row = references.fields(word, v)
        if is_shape(layout.cls):
            part = layout.cls.shape.part
            return [(part(v, f.name), f.type, row[f.offset - 1 : f.offset - 1 + f.width]) for f in layout.fields]
        return [
            (getattr(v, f.name), f.type, row[f.offset - 1 : f.offset - 1 + f.width])
            for f in layout.fields
            if hasattr(v, f.name)
        ]
    if isinstance(t, MapT) and t.item is None:  # a set: its elements are no tensors
        return []
    item, values = (t.entry, list(v.items())) if isinstance(t, MapT) else (t.item, v)
    width = len(words(item))
    inner = references.items(word, width) if width else ()
    return [(x, item, inner[k * width : (k + 1) * width]) for k, x in enumerate(values)]
