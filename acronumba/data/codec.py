"""The interface of codecs, which pack and unpack the values of one type.

In: a type. Out: which Python values have it, the lines of a generated packer, and readers of words. See `data.codecs`.
"""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from acronumba.data.pools import Take
from acronumba.generics import Value
from acronumba.ir.types import Array0T, ArrayT, ListT, MapT, StructT, TensorT, Type
from acronumba.memory import DType
from acronumba.records import record

T = TypeVar("T", bound=Type)


@record(frozen=False)
class Slot:
    """A column of values of one type in a generated packer, and the columns that it is split into."""

    type: Type
    name: str  # the variable
    first: int  # column of the row where its words begin
    now: str  # the variable of the values of one round
    cases: str  # the variable of their cases, and of the rows of one case
    parts: list[Slot] = field(default_factory=list)  # see `Codec.parts`


class Writer(Protocol):
    """Writes a packer."""

    exact: bool  # whether the packer converts nothing

    def line(self, indent: int, text: str) -> None: ...
    def constant(self, name: str, value: object) -> str: ...
    def pool_name(self, t: StructT | ListT | MapT) -> str: ...


@record()
class TensorForm:
    """A tensor type with precomputed attributes for readers."""

    dtype: DType
    shape: tuple[int, ...] | None  # None: some extents are in memory
    rank: int
    array0: bool = False  # an array of rank 0, not a NumPy scalar

    @classmethod
    def of(cls, t: TensorT | Array0T) -> TensorForm:
        if isinstance(t, Array0T):
            return cls(np.dtype(t.dtype), (), 0, True)
        known = tuple(n for n in t.shape if n is not None)
        return cls(np.dtype(t.dtype), known if len(known) == t.rank else None, t.rank)


class Reader(Protocol):
    """Creates values one at a time."""

    made: dict[int, Value]  # objects, lists and dicts by address

    def text(self, word: int) -> str: ...
    def array(self, form: TensorForm, address: int) -> Value: ...
    def torch(self, array: Value) -> Value: ...
    def written(self, t: ArrayT, part: TensorForm, address: int, numbers: list[int]) -> Value: ...


class ColumnDecoder(Protocol):
    """Creates the values of a column at once."""

    def references(self, t: Type, at: int) -> Take: ...
    def class_number(self, cls: type) -> int: ...


# Makes a value from the words of a row, once the values it refers to are made.
Read: TypeAlias = Callable[[Reader, list[int]], Value]
# Adds the references in the words of a row to a list.
Find: TypeAlias = Callable[[list[int], list[tuple[Type, int]]], None]


class Codec(Generic[T]):
    """Packing and unpacking of one type; the defaults are for a word without a Python value."""

    def cls(self, t: T) -> type | None:
        """Return the class whose values all have the type, or None if there is none."""
        return None

    def accepts(self, t: T, value: Value) -> bool:
        """Whether a value has the type, without looking inside objects, lists, tuples and dicts."""
        return type(value) is self.cls(t)

    def decides(self, t: T, cls: type) -> bool:
        """Whether every value of exactly this class has the type."""
        return cls is self.cls(t)

    def may_be(self, t: T, cls: type) -> bool:
        """Whether a value of this class may have the type."""
        return self.decides(t, cls)

    def distance(self, value: Value) -> int:
        """Return how far a value is converted, to choose among the cases of a union that accept it."""
        return 0

    def inside(self, t: T, value: Value) -> list[tuple[Value, Type, str]]:
        """Return the values inside a tuple, list or dict, with their types and the text of their paths."""
        return []

    # ---- packing

    def parts(self, t: T) -> list[tuple[str, Type]]:
        """Return the names and types of the columns that a column is split into."""
        return []

    def columns(self, slot: Slot) -> list[Slot]:
        """Return the columns of a slot that are filled while following the instances."""
        return [slot]

    def column(self, t: T, w: Writer, others: Sequence[Type] = (), optional: bool = False) -> str:
        """Return the expression of an empty column; `others`: further types, if values are of several classes."""
        raise TypeError(t)

    def walk(self, slot: Slot, source: str, w: Writer, indent: int) -> None:
        """Write the lines that append values to the columns of a slot, and their references to the next round."""
        w.line(indent, f"{slot.name}.add({source})")

    def write(self, slot: Slot, rows: str, where: str, w: Writer) -> None:
        """Write the lines that store the columns of a slot in rows."""
        w.line(1, f"{rows}[{where}, {slot.first}] = {slot.name}.words()")

    # ---- unpacking

    def read(self, t: T, at: int) -> Read:
        """Return the function that reads a value whose words begin at index `at` of a row."""
        raise NotImplementedError

    def find(self, t: T, at: int) -> Find:
        """Return the function that finds the references to objects and lists among the words of a value."""
        return lambda row, out: None

    def take(self, t: T, at: int, columns: ColumnDecoder) -> Take:
        """Return a reader of a column of values whose words begin at index `at` of their row."""
        raise NotImplementedError


def variable(name: str) -> str:
    """Return the name of a class as the name of a variable: ``tree_node`` for ``TreeNode``."""
    parts = [
        f"_{c.lower()}" if c.isupper() and k and not name[k - 1].isupper() else c.lower() for k, c in enumerate(name)
    ]
    out = "".join(parts)
    if not out.isidentifier():
        return "an_object"
    return f"{out}_object" if keyword.iskeyword(out) or hasattr(builtins, out) else out
