"""Tuples of known items. A tuple of a length that only run time knows is a `ListVal`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from acronumba.frontend.join_shapes import JoinShape, PartsShape
from acronumba.frontend.kinds.lists import StaticList, at_run_time
from acronumba.frontend.kinds.numbers import number
from acronumba.frontend.kinds.value import NOT_CONST, Constant, Turns, Val, Value, static_items
from acronumba.ir import nodes as ir
from acronumba.ir.types import DictT, ListT, TupleT, Type
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.frontend.block import Blocks
    from acronumba.frontend.kinds.numbers import Num
    from acronumba.frontend.merge import Merge
    from acronumba.frontend.walker import Walker
    from acronumba.frontend.words import Words


@record(eq=False, frozen=False)
class TupleVal(Value):
    items: tuple[Val, ...]
    cls: type = tuple  # of a key of a dict that is a NamedTuple: its class
    shown: type | None = None

    family = "tuple"
    python_class = tuple
    has_positions = True
    compound = True

    def describe(self, w: Blocks) -> str:
        return f"tuple[{', '.join(map(w.describe, self.items))}]"

    def static(self, w: Words) -> Constant:
        return static_items(w, self.items)

    def example(self, w: Words) -> Constant:
        items = [v.example(w) for v in self.items]
        return NOT_CONST if any(e is NOT_CONST for e in items) or self.cls is not tuple else tuple(items)

    def static_key(self, w: Walker, which: bool) -> object:
        return tuple(v.static_key(w, which) for v in self.items)

    def children(self) -> tuple[Val, ...]:
        return self.items

    def with_children(self, children: Sequence[Val]) -> Value:
        return TupleVal(tuple(children), self.cls, self.shown)

    def united(self, w: Merge, other: Val) -> Val:
        return self if self.shown is other.shown else replace(self, shown=None)

    def _alike(self, other: Value) -> bool:
        assert isinstance(other, TupleVal)
        return len(self.items) == len(other.items) and self.cls is other.cls

    def _same(self, other: Value) -> bool:
        return self.shown is other.shown and Value._same(self, other)

    def word_type(self) -> Type | None:
        types = [v.word_type() for v in self.items]
        return None if None in types else TupleT(tuple(t for t in types if t is not None), cls=self.cls)

    def stored_type(self, w: Words) -> Type:
        return TupleT(tuple(map(w.type_of, self.items)), cls=self.cls)

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...] | None:
        if isinstance(t, TupleT | DictT) and w.has_pieces(self, t):
            return w.words_of_items(self.items, t)
        if isinstance(t, ListT) and t.tupled:
            return (w.realise(StaticList(self.items, w.cells_by_type(t))).var,)
        return None

    def parts_type(self, w: Merge, parts: Sequence[JoinShape]) -> Type:
        return TupleT(tuple(map(w.template_type, parts)), cls=self.cls)

    def loop_shape(self, w: Merge) -> JoinShape:
        return PartsShape(self, tuple(v.loop_shape(w) for v in self.items))

    def truth(self, w: Walker) -> Num:
        return number(bool(self.items))

    def known_items(self, w: Walker) -> tuple[Val, ...]:
        return self.items

    def result_parts(self) -> tuple[Val, ...]:
        return self.items

    def sequence(self, w: Words) -> tuple[Val, ...]:
        return self.items

    def turns(self, w: Walker) -> Turns:
        return at_run_time(w, self.items).turns(w)
