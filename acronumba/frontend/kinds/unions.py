"""Values of several types, and names that may be unbound."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from acronumba.frontend.join_shapes import JoinShape, MaybeShape, Parameter, TypeShape
from acronumba.frontend.kinds.arrays import AllocationSite, Tensor
from acronumba.frontend.kinds.lists import ListVal
from acronumba.frontend.kinds.maps import MapVal
from acronumba.frontend.kinds.numbers import Num
from acronumba.frontend.kinds.value import FieldPlace, StateKey, Val, Value
from acronumba.ir import nodes as ir
from acronumba.ir.shapes import is_shape
from acronumba.ir.types import BOOL, Array0T, DictT, ListT, MapT, StructT, TupleT, Type, UnionT, case_slices, union
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.frontend.block import Blocks, Cases
    from acronumba.frontend.kinds.lists import ElementInfo
    from acronumba.frontend.merge import Merge
    from acronumba.frontend.walker import Walker
    from acronumba.frontend.words import Words


@record(eq=False, frozen=False)
class UnionVal(Value):
    """A value of one of several types, in the words of `type`; by narrowing, only types in `possible` are left."""

    type: UnionT
    vars: tuple[ir.Var, ...]
    possible: tuple[Type, ...]  # among the members of the type
    place: FieldPlace | None = None  # the field of an object made in the call from which it was read
    outer: ListVal | MapVal | None = None  # the list or dict from which it was read
    places: tuple[AllocationSite, ...] = ()  # possible allocation sites of the arrays among its alternatives
    marked: Tensor | None = None  # of which an array among its alternatives is a view, as far as names go

    is_several = True

    @property
    def is_own(self) -> bool:
        return self.marked is not None and self.marked.own

    def alternatives(self, w: Words) -> Cases[Callable[[], Val]]:
        for k, member in enumerate(self.possible):
            left = replace(self, possible=self.possible[k:])
            yield w.is_case(left, partial(operator.eq, member)), partial(self._only, w, member)

    def split(self, w: Words, wanted: Callable[[Type], bool]) -> tuple[Num, Val, Val]:
        parts = {m: (Array0T(m.dtype), m.scalar) for m in self.possible if isinstance(m, Array0T) and not m.sure}
        either = {m for m, (array, scalar) in parts.items() if wanted(array) != wanted(scalar)}  # decided at run time
        test = w.is_case(self, lambda t: t not in either and wanted(t))
        for case, where in case_slices(self.type) if either else ():
            if case in either and isinstance(case, Array0T):
                array = Num(BOOL, var=self.vars[where][0])
                kind = array if wanted(Array0T(case.dtype)) else w.negate(array)
                test = w.either(test, w.both(w.is_case(self, partial(operator.eq, case)), kind))
        keep = w.keep(self, lambda t: t in either or wanted(t))
        return test, keep, w.keep(self, lambda t: t in either or not wanted(t))

    @property
    def nests(self) -> bool:
        return any(isinstance(t, StructT) and is_shape(t.cls) for t in self.possible)

    def narrows(self, other: Value) -> bool:
        return isinstance(other, UnionVal) and self.vars == other.vars and self.type == other.type

    def some_of_alternatives(self, w: Words, places: Sequence[int]) -> Val:
        return w.narrowed(replace(self, possible=tuple(self.possible[k] for k in places)))

    def narrowed(self, w: Words) -> Val:
        return w.narrowed(self)

    def _only(self, w: Words, member: Type) -> Val:
        """Return it where it is of one type."""
        return w.narrowed(replace(self, possible=(member,)))

    def word_type(self) -> Type:
        return union(*self.possible)

    def _same(self, other: Value) -> bool:
        assert isinstance(other, UnionVal)
        return self.vars == other.vars and self.possible == other.possible

    def is_local(self) -> bool:
        return self.place is not None or not any(isinstance(t, ListT | TupleT | DictT) for t in self.possible)

    def shared_by_calls(self) -> Value:
        return self

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...]:
        return self.vars if self.type == t else w.cases_to_words(self, t)

    def join_shape(self, w: Merge) -> JoinShape:
        return TypeShape(self.word_type(), self.places, self.is_own)

    def parameter_shape(self, w: Merge, parameter: Parameter) -> JoinShape:
        return TypeShape(self.word_type(), self.places)

    def within(self, container: ListVal | MapVal) -> Val:
        return replace(self, outer=container)

    def with_places(self, places: Sequence[AllocationSite]) -> Val:
        return replace(self, places=tuple(places))

    def places_in(self) -> Iterable[AllocationSite]:
        return self.places

    def from_field(self, place: FieldPlace, cell: ElementInfo) -> Val:
        return replace(self, place=place, places=cell.places)


@record(eq=False, frozen=False)
class MaybeUnbound(Value):
    """A name that is bound only if `bound` is true."""

    value: Val
    bound: Num

    def describe(self, w: Blocks) -> str:
        return w.describe(self.value)

    def bound_value(self) -> Val:
        return self.value

    def bound_as(self, w: Walker, name: str, key: StateKey) -> Val:
        text = f"cannot access local variable '{name}' where it is not associated with a value"
        w.check(self.bound, "UnboundLocalError", text)
        if w.block is not None:
            w.state[key] = self.value
        return self.value.bound_as(w, name, key)

    def children(self) -> tuple[Val, ...]:
        return (self.value,)

    def with_children(self, children: Sequence[Val]) -> Value:
        return MaybeUnbound(children[0], self.bound)

    def _same(self, other: Value) -> bool:
        assert isinstance(other, MaybeUnbound)
        return self.value.same(other.value) and self.bound.same(other.bound)

    def stored_type(self, w: Words) -> Type:
        return w.type_of(self.value)

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...]:
        return w.to_words(self.value, t)

    def join_shape(self, w: Merge) -> JoinShape:
        return MaybeShape(self.value.join_shape(w))

    def parameter_shape(self, w: Merge, parameter: Parameter) -> JoinShape:
        raise w.reject("ACR306", seen="an argument that may have no value")


def several_sets(val: Val) -> bool:
    """Whether a value is one of several sets."""
    kinds = [] if not isinstance(val, UnionVal) else val.possible
    return bool(kinds) and all(isinstance(t, MapT) and t.item is None for t in kinds)
