"""Dicts and sets: dicts of constant keys, dicts and sets of run time, and views of them."""

from __future__ import annotations

from collections.abc import ItemsView, KeysView, Sequence, ValuesView
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from acronumba.frontend.join_shapes import JoinShape, MapShape, PartsShape
from acronumba.frontend.kinds.lists import ElementInfo, ListVal
from acronumba.frontend.kinds.value import FieldPlace, PythonClass, Val, Value
from acronumba.ir import nodes as ir
from acronumba.ir.types import NEVER, DictT, MapT, TupleT, Type
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.frontend.block import Blocks
    from acronumba.frontend.merge import Merge
    from acronumba.frontend.walker import Walker
    from acronumba.frontend.words import Words


@record(eq=False, frozen=False)
class DictVal(Value):
    """A dict with constant keys that is not mutated; made at run time instead if `cell.real` is set."""

    keys: tuple[Any, ...]  # strings, or other constants
    items: tuple[Val, ...]
    cell: ElementInfo | None = None  # of its allocation site, if that is known

    family = "dict"
    python_class = dict
    compound = True

    def children(self) -> tuple[Val, ...]:
        return self.items

    def with_children(self, children: Sequence[Val]) -> Value:
        return replace(self, items=tuple(children))

    def _alike(self, other: Value) -> bool:
        assert isinstance(other, DictVal)
        return self.keys == other.keys

    def word_type(self) -> Type | None:
        types = [v.word_type() for v in self.items]
        return None if None in types else DictT(self.keys, tuple(t for t in types if t is not None))

    def stored_type(self, w: Words) -> Type:
        return DictT(self.keys, tuple(map(w.type_of, self.items)))

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...] | None:
        if isinstance(t, TupleT | DictT) and w.has_pieces(self, t):
            return w.words_of_items(self.items, t)
        return (w.map_word(self, t),) if isinstance(t, MapT) and self.cell is not None else None

    def join_shape(self, w: Merge) -> JoinShape:
        return PartsShape("dict", self.keys, tuple(v.join_shape(w) for v in self.items), self.cell)


@record(eq=False, frozen=False)
class MapVal(Value):
    """A run-time dict or set, as a list of entries. Its type says whether it was made in the call or is an input."""

    cell: ElementInfo  # its items are entries: tuples of a key and a value
    var: ir.Var
    is_set: bool = False
    outer: ListVal | MapVal | None = None  # the list or dict from which it was read
    place: FieldPlace | None = None  # the field of an object from which it was read

    @property
    def type(self) -> MapT:
        return map_type(self.cell, self.is_set)

    family = "dict"

    @property
    def python_class(self) -> PythonClass:
        return set if self.is_set else dict

    def word_type(self) -> Type:
        return self.type

    def _same(self, other: Value) -> bool:
        assert isinstance(other, MapVal)
        return self.var is other.var

    def is_local(self) -> bool:
        return not self.type.given

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...] | None:
        return (w.map_word(self, t),) if isinstance(t, MapT) else None

    def join_shape(self, w: Merge) -> JoinShape:
        return MapShape(self.cell, self.is_set)


@record(eq=False, frozen=False)
class MapView(Value):
    """A view of a dict: its "keys", "values" or "items"; or the "elements" of a set, in any order."""

    base: MapVal
    what: str

    stored_as = "list(...)"

    @property
    def python_class(self) -> PythonClass:
        return {"keys": KeysView, "values": ValuesView, "items": ItemsView}.get(self.what, set)

    def describe(self, w: Blocks) -> str:
        return f"the {self.what} of a dict"

    def form_key(self, w: Walker) -> object:
        return "view", self.what

    def children(self) -> tuple[Val, ...]:
        return (self.base,)

    def with_children(self, children: Sequence[Val]) -> Value:
        return MapView(children[0], self.what)  # type: ignore[arg-type]

    def _alike(self, other: Value) -> bool:
        assert isinstance(other, MapView)
        return self.what == other.what


def map_type(cell: ElementInfo, is_set: bool) -> MapT:
    """Return the type of the dicts or sets with an element info."""
    entry = cell.find().item
    key, item = entry.items if isinstance(entry, TupleT) else (NEVER, NEVER)
    return MapT(key, None if is_set else item, cell.find().data)
