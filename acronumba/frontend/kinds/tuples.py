"""Tuples: of known items, and of run-time length; deques, `defaultdict`s and `Counter`s."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from acronumba.frontend.join_shapes import JoinShape, Parameter, PartsShape
from acronumba.frontend.kinds.lists import ListVal, StaticList, at_run_time
from acronumba.frontend.kinds.numbers import number
from acronumba.frontend.kinds.value import Constant, PythonClass, Turns, Val, Value, part_shapes, static_items
from acronumba.ir import nodes as ir
from acronumba.ir.types import DictT, ListT, TupleT, Type
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.frontend.block import Blocks
    from acronumba.frontend.kinds.lists import ElementInfo
    from acronumba.frontend.kinds.maps import MapVal
    from acronumba.frontend.kinds.numbers import Num
    from acronumba.frontend.merge import Merge
    from acronumba.frontend.walker import Walker
    from acronumba.frontend.words import Words


@record(eq=False, frozen=False)
class TupleVal(Value):
    items: tuple[Val, ...]

    family = "tuple"
    python_class = tuple
    compound = True

    def describe(self, w: Blocks) -> str:
        return f"tuple[{', '.join(map(w.describe, self.items))}]"

    def static(self, w: Words) -> Constant:
        return static_items(w, self.items)

    def static_key(self, w: Walker, which: bool) -> object:
        return tuple(v.static_key(w, which) for v in self.items)

    def children(self) -> tuple[Val, ...]:
        return self.items

    def with_children(self, children: Sequence[Val]) -> Value:
        return TupleVal(tuple(children))

    def _alike(self, other: Value) -> bool:
        assert isinstance(other, TupleVal)
        return len(self.items) == len(other.items)

    def word_type(self) -> Type | None:
        types = [v.word_type() for v in self.items]
        return None if None in types else TupleT(tuple(t for t in types if t is not None))

    def stored_type(self, w: Words) -> Type:
        return TupleT(tuple(map(w.type_of, self.items)))

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...] | None:
        if isinstance(t, TupleT | DictT) and w.has_pieces(self, t):
            return w.words_of_items(self.items, t)
        if isinstance(t, ListT) and t.tupled:
            return (w.realise(StaticList(self.items, w.cells_by_type(t))).var,)
        return None

    def join_shape(self, w: Merge) -> JoinShape:
        return PartsShape("tuple", len(self.items), tuple(v.join_shape(w) for v in self.items))

    def loop_shape(self, w: Merge) -> JoinShape:
        return PartsShape("tuple", len(self.items), tuple(v.loop_shape(w) for v in self.items))

    def truth(self, w: Walker) -> Num:
        return number(bool(self.items))

    def known_items(self, w: Walker) -> tuple[Val, ...]:
        return self.items

    def turns(self, w: Walker) -> Turns:
        return at_run_time(w, self.items).turns(w)

    def parameter_shape(self, w: Merge, parameter: Parameter) -> JoinShape:
        return PartsShape("tuple", len(self.items), part_shapes(w, self.items, parameter))


@record(eq=False, frozen=False)
class Kept(Value):
    """A deque, `defaultdict` or `Counter`: a run-time list or dict with additional values.

    Also a tuple of run-time length: a list that is not mutated.
    """

    kind: type
    inner: ListVal | MapVal
    extra: tuple[Val, ...]  # the maximal length of a deque, or None; the factory of a `defaultdict`

    @property
    def python_class(self) -> PythonClass:
        return self.kind

    @property
    def stored_as(self) -> str:
        return "" if self.kind is tuple else "list(...)" if isinstance(self.inner, ListVal) else "dict(...)"

    def describe(self, w: Blocks) -> str:
        return "a tuple of a length that only run time knows" if self.kind is tuple else f"a {self.kind.__name__}"

    def children(self) -> tuple[Val, ...]:
        return self.inner, *self.extra

    def with_children(self, children: Sequence[Val]) -> Value:
        return Kept(self.kind, children[0], tuple(children[1:]))  # type: ignore[arg-type]

    def _alike(self, other: Value) -> bool:
        assert isinstance(other, Kept)
        return self.kind is other.kind and len(self.extra) == len(other.extra)

    def is_local(self) -> bool:
        return self.inner.is_local()

    def word_type(self) -> Type | None:
        return ListT(self.inner.item, tupled=True) if self.kind is tuple and isinstance(self.inner, ListVal) else None

    def shared_by_calls(self) -> Value | None:
        if self.kind is not tuple or not isinstance(self.inner, ListVal):
            return None
        return replace(self, inner=replace(self.inner, own=False))

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...] | None:
        if isinstance(t, ListT) and t.tupled and self.kind is tuple and isinstance(self.inner, ListVal):
            return (w.list_word(self.inner, t),)
        return None

    def within(self, container: ListVal | MapVal) -> Val:
        if self.kind is not tuple or not isinstance(self.inner, ListVal):
            return self
        return replace(self, inner=replace(self.inner, outer=container, own=self.inner.own or container.cell.pure))

    def truth(self, w: Walker) -> Num:
        return self.inner.truth(w)

    def length(self, w: Walker) -> Num:
        return self.inner.length(w)

    def turns(self, w: Walker) -> Turns:
        if self.kind is tuple or not isinstance(self.inner, ListVal):
            return self.inner.turns(w)
        inner, n = self.inner, self.inner.length(w)

        def length() -> Num:
            w.check(w.scalar("eq", n, inner.length(w)), "RuntimeError", "deque mutated during iteration")
            return n

        return length, lambda i: inner.item_at(w, i)

    def walked_cells(self) -> list[ElementInfo]:
        return [] if self.kind is tuple else [self.inner.cell]

    @property
    def assignable(self) -> bool:
        return self.kind is not tuple


def unkept(val: Val) -> Val:
    """Return the list or dict in a `Kept`; any other value as it is."""
    return val.inner if isinstance(val, Kept) else val


def as_list(val: Val) -> Val:
    """Return a tuple of run-time length as its list; any other value as it is."""
    return val.inner if isinstance(val, Kept) and val.kind is tuple else val
