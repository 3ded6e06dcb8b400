"""Lists: of known elements, and lists of run time; facts of the lists made at one allocation site."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from acronumba.frontend.exceptions import Restart
from acronumba.frontend.join_shapes import ContainerShape, JoinShape, Parameter, PartsShape, TypeShape
from acronumba.frontend.kinds.errors import ErrorValue
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.value import (
    Constant,
    FieldPlace,
    PythonClass,
    Turns,
    Val,
    Value,
    part_shapes,
    static_items,
)
from acronumba.ir import nodes as ir
from acronumba.ir.types import NEVER, NONE, DictT, ListT, TupleT, Type, type_text, union, unlike, words
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.frontend.block import Blocks
    from acronumba.frontend.kinds.arrays import AllocationSite
    from acronumba.frontend.kinds.maps import MapVal
    from acronumba.frontend.merge import Merge
    from acronumba.frontend.walker import Walker
    from acronumba.frontend.words import Words


@record(eq=False, frozen=False)
class ElementInfo:
    """Facts of the lists made at one allocation site; they grow from iteration to iteration.

    `touched` and `places` note that they are read; another iteration is due only if one of them changes after that.
    """

    item: Type = NEVER  # the union of the elements seen so far
    real: bool = False  # must be a list at run time: it is mutated, stored, or merged
    fixed: bool = False  # the item type cannot be widened
    data: bool | type = False  # lists of this type may be instance data, dicts of this type are
    entries: bool = False  # they are dicts or sets: elements are pairs of keys and values
    mutated: bool = False  # a list of it is mutated somewhere
    mixed: bool = False  # an element that is a list of the instance data was stored in it
    unsure: bool = False  # ... or may have been, as the instance data have lists of the item type
    stored: dict[AllocationSite, None] = field(default_factory=dict)  # allocation sites of arrays stored in them
    asked: set[str] = field(default_factory=set)  # `mutated` and `stored`, if this iteration has read them
    copied: Any = None  # the place of a copy of a list of a fixed item type, which has a type of its own if need be
    kind: tuple[type, Constant] | None = None  # class and factory of the values of dicts, if these are `defaultdict`
    link: ElementInfo | None = None  # unified with another

    def find(self) -> ElementInfo:
        cell = self
        while cell.link is not None:
            cell = cell.link
        return cell

    @property
    def touched(self) -> bool:
        """Whether a list of it is mutated somewhere."""
        self.asked.add("mutated")
        return self.mutated

    @property
    def places(self) -> tuple[AllocationSite, ...]:
        """The allocation sites of arrays stored in them."""
        cell = self.find()
        cell.asked.add("stored")
        return tuple(cell.stored)

    @property
    def pure(self) -> bool:
        """Whether the lists among the elements were all made in the call."""
        cell = self.find()
        return not cell.mixed and not cell.unsure


@record(eq=False, frozen=False)
class _Container(Value):
    """A list, dict or set of run time, or an instance of another class with such elements, as `deque` or `Counter`."""

    cell: ElementInfo
    var: ir.Var
    cls: type
    outer: ListVal | MapVal | None = None  # the list or dict from which it was read
    place: FieldPlace | None = None  # the field of an object from which it was read
    extra: Val | None = None  # `maxlen` of a deque, the factory of a `defaultdict`

    built_in: ClassVar[type]  # the class as which its elements are stored: list or dict
    iterable = True

    @property
    def python_class(self) -> PythonClass:
        return self.cls

    @property
    def is_plain(self) -> bool:
        """Whether the type of its words tells its class, so that it can be stored."""
        return self.cls in (list, tuple, dict, set)

    @property
    def stored_as(self) -> str:
        return "" if self.is_plain else f"{self.built_in.__name__}(...)"

    def describe(self, w: Blocks) -> str:
        name = self.cls.__name__
        return Value.describe(self, w) if self.is_plain else f"a{'n' * (name[0] in 'AEIOU')} {name}"

    def form_key(self, w: Walker) -> object:
        return self.cls

    def children(self) -> tuple[Val, ...]:
        if self.is_plain:
            return ()
        return replace(self, cls=self.built_in, extra=None), *(() if self.extra is None else (self.extra,))

    def with_children(self, children: Sequence[Val]) -> Value:
        if not children:
            return self
        elements, *extra = children
        assert isinstance(elements, _Container)
        return replace(elements, cls=self.cls, extra=extra[0] if extra else None)

    def _same(self, other: Value) -> bool:
        assert isinstance(other, _Container)
        return self.var is other.var and self.cls is other.cls

    def _alike(self, other: Value) -> bool:
        assert isinstance(other, _Container)
        return self.cls is other.cls and not self.is_plain

    def walked_cells(self) -> list[ElementInfo]:
        return [] if self.cls in (list, tuple) else [self.cell]

    def joined_words(self, w: Merge, shape: JoinShape) -> tuple[ir.Var, ...] | None:
        return (self.var,) if isinstance(shape, ContainerShape) else None

    def identity(self) -> object:
        return id(self.var)


@record(eq=False, frozen=False)
class ListVal(_Container):
    """A list of run time; also a deque, or a tuple of a length that only run time knows."""

    cls: type = list
    own: bool = True  # certainly made in the call, so that it may be mutated

    built_in = list
    has_positions = True

    @property
    def item(self) -> Type:
        return self.cell.find().item

    @property
    def family(self) -> str:  # type: ignore[override]
        return self.cls.__name__

    @property
    def is_list(self) -> bool:
        return self.cls is list

    @property
    def resizable(self) -> bool:  # type: ignore[override]
        return not self.is_plain and not self.is_input

    @property
    def assignable(self) -> bool:
        return self.cls is not tuple

    @property
    def plain(self) -> ListVal:
        return self if self.cls is list else replace(self, cls=list, extra=None)

    def describe(self, w: Blocks) -> str:
        return "a tuple of a length that only run time knows" if self.cls is tuple else _Container.describe(self, w)

    def word_type(self) -> Type | None:
        return ListT(self.item, tupled=self.cls is tuple) if self.is_plain else None

    def is_local(self) -> bool:
        return self.own

    @property
    def is_input(self) -> bool:
        return not self.own

    def shared_by_calls(self) -> Value | None:
        return replace(self, own=False) if self.is_plain else None

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...] | None:
        fits = isinstance(t, ListT) and t.tupled is (self.cls is tuple) and self.is_plain
        return (w.list_word(self, t),) if fits else None  # type: ignore[arg-type]

    def join_shape(self, w: Merge) -> JoinShape:
        if not self.is_plain:
            return Value.join_shape(self, w)
        return ContainerShape(self.cell, self.cls, self.own, self.outer)

    def truth(self, w: Walker) -> Num:
        return w.scalar("gt", self.length(w), number(0))

    def length(self, w: Walker) -> Num:
        return w.ops.list_lengths(self)

    def turns(self, w: Walker) -> Turns:
        if self.is_plain:
            return lambda: self.length(w), lambda i: self.item_at(w, i)
        n = self.length(w)

        def length() -> Num:
            w.check(w.scalar("eq", n, self.length(w)), "RuntimeError", "deque mutated during iteration")
            return n

        return length, lambda i: self.item_at(w, i)

    def item_at(self, w: Walker, index: Num) -> Val:
        """Return the element at an index that is known to be in range."""
        outs = tuple(w.var("item", e) for e in words(self.item))
        if w.block is None:
            return ErrorValue()
        if outs:
            args = (self.var, w.word(w.read(index)))
            w.emit(ir.ListOp(outs=outs, op="get", width=len(outs), args=args, loc=w.loc))
        return inner_value(w, self, self.item, outs)

    def mutable(self, w: Walker) -> ListVal:
        if not self.assignable:
            Value.mutable(self, w)
        cell = w.cells_by_type(ListT(self.item))
        if not cell.mutated:
            cell.mutated = True
            w.facts.note_change(cell, "mutated")
        if not self.own and self.item == NEVER and not self.cell.find().data:  # made in the call, or an input
            seen = f"a change of `{_name_of(w)}`, an empty list: what it was made to hold is not known here"
            raise w.reject("ACR303", seen=seen, rewrite="put it into a field of a dataclass, with its type")
        if not self.own:
            rewrite = f"make a copy first: list({_name_of(w)})"
            raise w.reject("ACR113", seen=f"a change of {w.describe(self)}", rewrite=rewrite)
        return self

    def within(self, container: ListVal | MapVal) -> Val:
        return replace(self, outer=container, own=self.own or container.cell.pure)

    def from_field(self, place: FieldPlace, cell: ElementInfo) -> Val:
        return replace(self, own=True, place=place) if cell.pure else self

    def parameter_shape(self, w: Merge, parameter: Parameter) -> JoinShape:
        if not self.is_plain:
            return Value.parameter_shape(self, w, parameter)
        return _parameter_shape(w, self.cell.find(), self.own, parameter, self.cls)


@record(eq=False, frozen=False)
class StaticList(Value):
    """A list made in the call with known elements; made at run time instead if `cell.real` is set (see `is_row`)."""

    items: tuple[Val, ...]
    cell: ElementInfo
    stored: bool = False  # already made at run time, and stored
    loops: tuple[Any, ...] | None = None  # the loops around its allocation site; None: not known

    family = "list"
    has_positions = True
    python_class = list
    compound = True

    is_list = True

    assignable = True

    def describe(self, w: Blocks) -> str:
        return f"list[{' | '.join(sorted({type_text(v.word_type() or NONE) for v in self.items}))}]"

    def static(self, w: Words) -> Constant:
        return static_items(w, self.items)

    def children(self) -> tuple[Val, ...]:
        return self.items

    def with_children(self, children: Sequence[Val]) -> Value:
        return replace(self, items=tuple(children))

    def _same(self, other: Value) -> bool:
        return False

    def _alike(self, other: Value) -> bool:
        assert isinstance(other, StaticList)
        return len(self.items) == len(other.items)

    def united(self, w: Merge, other: Val) -> Val:
        assert isinstance(other, StaticList)
        return replace(self, cell=w.unify_cells(self.cell, other.cell))

    def parts_type(self, w: Merge, parts: Sequence[JoinShape]) -> Type:
        return TupleT(tuple(map(w.template_type, parts)), listed=True)

    @property
    def is_row(self) -> bool:
        """Whether it is stored and joined as its elements: it has unlike elements, and is not mutated."""
        if self.cell.find().real or len(self.items) < 2:
            return False
        types = [v.bound_value().word_type() for v in self.items]
        return None not in types and unlike([t for t in types if t is not None])

    def word_type(self) -> Type:
        if not self.is_row:
            return ListT(self.cell.find().item)
        types = [v.word_type() for v in self.items]
        return TupleT(tuple(t for t in types if t is not None), listed=True)

    def stored_type(self, w: Words) -> Type | None:
        if self.is_row:
            return TupleT(tuple(map(w.type_of, self.items)), listed=True)
        cell = self.cell.find()
        for v in self.items:
            w.widen_cell(cell, w.type_of(v))
        return self.word_type()

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...] | None:
        if isinstance(t, TupleT | DictT) and w.has_pieces(self, t):
            return w.words_of_items(self.items, t)
        if not isinstance(t, ListT) or t.tupled:
            return None
        if self.stored or w.cells_by_type(t).touched:  # it is aliased, or may be mutated
            w.make_real(self.cell)
        self.stored = True
        cell = self.cell.find()
        if union(cell.item, t.item) == t.item:
            w.widen_cell(cell, t.item)
        made = w.realise(self, t.item)
        w.same_places(self.cell, w.cells_by_type(t))
        return (made.var,)

    def join_shape(self, w: Merge) -> JoinShape:
        if self.is_row:
            return PartsShape(replace(self, stored=True), tuple(v.join_shape(w) for v in self.items))
        w.make_real(self.cell)
        w.type_of(self)
        return ContainerShape(self.cell, list)

    def mutable(self, w: Walker) -> ListVal:
        w.make_real(self.cell)
        raise Restart

    def truth(self, w: Walker) -> Num:
        return number(bool(self.items))

    def known_items(self, w: Walker) -> tuple[Val, ...]:
        return self.items

    def sequence(self, w: Words) -> tuple[Val, ...]:
        return self.items

    def turns(self, w: Walker) -> Turns:
        return at_run_time(w, self.items).turns(w)

    def parameter_shape(self, w: Merge, parameter: Parameter) -> JoinShape:
        if self.is_row:
            self.stored = True
            return PartsShape(self, part_shapes(w, self.items, parameter))
        w.make_real(self.cell)
        w.type_of(self)
        return _parameter_shape(w, self.cell.find(), self.is_local(), parameter)

    def identity(self) -> object:
        return id(self)


def _name_of(w: Walker) -> str:
    """Return the user's expression for the list that is mutated."""
    match w.here:
        case ast.Call(func=ast.Attribute(value=named)) | ast.Attribute(value=named) | ast.Subscript(value=named):
            return ast.unparse(named)
        case ast.AugAssign(target=named):
            return ast.unparse(named)
    return "xs"


def is_row(val: Val) -> bool:
    """Whether a list is stored and joined as its elements: it has unlike elements, and is not mutated."""
    return isinstance(val, StaticList) and val.is_row


def at_run_time(w: Walker, items: Sequence[Val]) -> ListVal:
    """Return known items as a run-time list."""
    return w.realise(StaticList(tuple(items), w.cell(("runtime", w.frame.path, w.loc))))


def inner_value(w: Walker, container: ListVal | MapVal, t: Type, outs: tuple[ir.Var, ...]) -> Val:
    """Return a value of a type from its words, read from an item of a list or dict."""
    found = w.from_words(t, outs).with_places(container.cell.places).within(container)
    return found.of_kind(w, container.cell.find().kind)


def _parameter_shape(
    w: Merge, cell: ElementInfo, local: bool, parameter: Parameter, cls: PythonClass = list
) -> JoinShape:
    """Return the shape of a list parameter: the callee may mutate a list that was made in the call."""
    by_type = TypeShape(ListT(cell.item, tupled=cls is tuple))
    if not local:
        return by_type
    mine = w.cell(("parameter", parameter.where))
    mine.real = True
    return by_type if w.stays_empty(mine, cell) else ContainerShape(w.unify_cells(mine, cell), cls)
