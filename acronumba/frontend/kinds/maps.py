"""Dicts and sets: dicts of constant keys, dicts and sets of run time, and views of them."""

from __future__ import annotations

from collections.abc import Hashable, ItemsView, KeysView, Sequence, ValuesView
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from acronumba.frontend.exceptions import Dead, Restart
from acronumba.frontend.join_shapes import ContainerShape, JoinShape, Parameter, TypeShape
from acronumba.frontend.kinds.errors import ErrorValue
from acronumba.frontend.kinds.lists import ElementInfo, ListVal, _Container, inner_value
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import Constant, FieldPlace, PythonClass, Turns, Val, Value
from acronumba.ir import nodes as ir
from acronumba.ir.shapes import Shape, shape_class
from acronumba.ir.types import INT, NEVER, ORDER, DictT, MapT, TupleT, Type, words
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.frontend.block import Blocks
    from acronumba.frontend.kinds.lists import ElementInfo
    from acronumba.frontend.merge import Merge
    from acronumba.frontend.walker import Walker
    from acronumba.frontend.words import Words


@record(eq=False, frozen=False)
class DictVal(Value):
    """A dict with constant keys that is not mutated; made at run time instead if `cell.real` is set."""

    keys: tuple[Any, ...]  # strings, or other constants
    items: tuple[Val, ...]
    cell: ElementInfo | None = None  # of its allocation site, if that is known
    places: tuple[Hashable, ...] = ()  # its possible allocation sites

    family = "dict"
    python_class = dict
    compound = True

    is_mapping = True

    assignable = True

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

    def form_key(self, w: Walker) -> object:
        return "dict", self.keys

    def united(self, w: Merge, other: Val) -> Val:
        assert isinstance(other, DictVal)
        known = self.cell is not None and other.cell is not None
        places = tuple(dict.fromkeys((*self.places, *other.places))) if known else ()
        return replace(self, cell=w.unify_cells(self.cell, other.cell) if known else None, places=places)  # type: ignore[arg-type]

    def parts_type(self, w: Merge, parts: Sequence[JoinShape]) -> Type:
        return DictT(self.keys, tuple(map(w.template_type, parts)))

    def hashed(self, w: Walker) -> MapVal:
        """Return it as a hash table, which it is from the next iteration on."""
        if self.cell is not None:
            w.make_real(self.cell)
            raise Restart
        if self.keys in w.displays - w.facts.keyed:  # read from an object: possibly made in the call
            w.facts.keyed.add(self.keys)
            w.facts.begin_again()
            raise Restart
        return self._read_only(w)

    def mutable(self, w: Walker) -> MapVal:
        """Return it as a record, which it is from the next iteration on; as a hash table if its keys are no names."""
        if not all(type(k) is str for k in self.keys):
            return self.hashed(w)
        if self.cell is not None:
            for place in self.places:
                w.facts.records.setdefault((place, self.keys), self.keys)
            w.facts.changed = w.facts.stale = True
            raise Restart
        cls = shape_class(Shape(dict, keys=self.keys))
        if self.keys in w.displays and cls not in w.facts.changing:
            w.facts.changing.add(cls)
            w.facts.begin_again()
            raise Restart
        return self._read_only(w)

    def _read_only(self, w: Walker) -> MapVal:
        rewrite, message = "make a copy first: dict(d)", "this cannot be changed"
        raise w.reject("ACR113", seen=f"a change of {w.describe(self)}", rewrite=rewrite, message=message)

    def truth(self, w: Walker) -> Num:
        return number(bool(self.items))

    def known_items(self, w: Walker) -> tuple[Val, ...]:
        return tuple(constant_value(w, k) for k in self.keys)

    def result_parts(self) -> tuple[Val, ...]:
        return self.items

    @property
    def is_input(self) -> bool:
        return self.cell is None

    def identity(self) -> object:
        return id(self)


@record(eq=False, frozen=False)
class MapVal(_Container):
    """A dict or set of run time, as a list of entries; also a `defaultdict`, `OrderedDict` or `Counter`.

    Its type says whether it was made in the call or is an input.
    """

    cls: type = dict

    family = "dict"
    built_in = dict
    is_mapping = True
    assignable = True

    @property
    def type(self) -> MapT:
        return map_type(self.cell, self.is_set)

    @property
    def is_set(self) -> bool:
        return self.cls is set

    def word_type(self) -> Type | None:
        return self.type if self.is_plain else None

    def is_local(self) -> bool:
        return not self.type.given

    @property
    def is_input(self) -> bool:
        return bool(self.type.given)

    @property
    def resizable(self) -> bool:  # type: ignore[override]
        return not self.type.given

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...] | None:
        return (w.map_word(self, t),) if isinstance(t, MapT) and self.is_plain else None

    def join_shape(self, w: Merge) -> JoinShape:
        return ContainerShape(self.cell, self.cls) if self.is_plain else Value.join_shape(self, w)

    def within(self, container: ListVal | MapVal) -> Val:
        return replace(self, outer=container)

    def mutable(self, w: Walker) -> MapVal:
        if self.type.given:
            rewrite = f"make a copy first: {'set(s)' if self.is_set else 'dict(d)'}"
            raise w.reject("ACR113", seen=f"a change of {w.describe(self)}", rewrite=rewrite)
        return self

    def truth(self, w: Walker) -> Num:
        return w.scalar("gt", self.length(w), number(0))

    def length(self, w: Walker) -> Num:
        out = w.var("size", INT)
        w.naturals.add(out)
        w.emit(ir.ListOp(outs=(out,), op="len", width=self.width, args=(self.var,), loc=w.loc))
        return Num(INT, var=out)

    def turns(self, w: Walker) -> Turns:
        if self.is_set and not self.type.given:  # see `frontend.ordered`; the order of an input is known
            return Value.turns(self, w)  # type: ignore[return-value]
        return MapView(self, "keys").turns(w)

    @property
    def width(self) -> int:
        """The number of words of an entry."""
        return len(words(self.type.entry))

    def entry(self, w: Walker, index: Num) -> tuple[Val, Val]:
        """Return the key and the value of the entry at an index."""
        t = self.type.entry
        outs = tuple(w.var("item", e) for e in words(t))
        if w.block is None:
            return ErrorValue(), ErrorValue()
        if outs:
            args = (self.var, w.word(w.read(index)))
            w.emit(ir.ListOp(outs=outs, op="get", width=len(outs), args=args, loc=w.loc))
        k = len(words(t.items[0]))
        return w.from_words(t.items[0], outs[:k]), inner_value(w, self, t.items[1], outs[k:])

    def value_at(self, w: Walker, index: Num) -> Val:
        """Return the value of the entry at an index."""
        return self.entry(w, index)[1]

    def of_kind(self, w: Words, kind: tuple[PythonClass, Constant] | None) -> Val:
        if kind is None:
            return self
        return replace(self, cls=kind[0], extra=None if kind[1] is None else w.constant(kind[1]))

    def from_field(self, place: FieldPlace, cell: ElementInfo) -> Val:
        return replace(self, place=place)

    def parameter_shape(self, w: Merge, parameter: Parameter) -> JoinShape:
        if not self.is_plain:
            return Value.parameter_shape(self, w, parameter)
        if self.type.given:
            return TypeShape(self.type)
        mine = w.cell(("parameter", parameter.where))
        mine.real = True
        return ContainerShape(w.unify_cells(mine, self.cell), self.cls)


@record(eq=False, frozen=False)
class MapView(Value):
    """A view of a dict: its "keys", "values" or "items"; or the "elements" of a set, in any order.

    Or the elements of one of several sets, in the order of that ("ordered").
    """

    base: Val  # a `MapVal`, or one of several
    what: str
    begun: tuple[Val, ...] = ()  # of an iterator over sets: the list of the elements, and their number when it began

    stored_as = "list(...)"

    iterable = True

    @property
    def python_class(self) -> PythonClass:
        return {"keys": KeysView, "values": ValuesView, "items": ItemsView}.get(self.what, set)

    def describe(self, w: Blocks) -> str:
        return f"the {self.what} of a dict"

    def form_key(self, w: Walker) -> object:
        return "view", self.what

    def children(self) -> tuple[Val, ...]:
        return self.base, *self.begun

    def with_children(self, children: Sequence[Val]) -> Value:
        return MapView(children[0], self.what, tuple(children[1:]))

    def _alike(self, other: Value) -> bool:
        assert isinstance(other, MapView)
        return self.what == other.what

    def truth(self, w: Walker) -> Num:
        return w.scalar("gt", self.length(w), number(0))

    @property
    def resizable(self) -> bool:  # type: ignore[override]
        return not self.base.is_input

    def walked_cells(self) -> list[ElementInfo]:
        return [ANY_SET] if self.what == "ordered" else Value.walked_cells(self)

    def length(self, w: Walker) -> Num:
        out = w.each(self.base, lambda base: base.length(w) or ErrorValue())
        if w.block is None:
            raise Dead
        assert isinstance(out, Num)
        return out

    def turns(self, w: Walker) -> Turns:
        what, kind = self.what, "dictionary"
        if what == "ordered":
            return Value.turns(self, w)  # type: ignore[return-value]
        if isinstance(self.base, MapVal) and self.base.is_set:
            kind = "Set"
        n = self.length(w)

        def length() -> Num:
            w.check(w.scalar("eq", n, self.length(w)), "RuntimeError", f"{kind} changed size during iteration")
            return n

        def get(index: Num) -> Val:
            return w.each(self.base, lambda base: one(base, index))

        def one(base: Val, index: Num) -> Val:
            assert isinstance(base, MapVal)
            key, item = base.entry(w, index)
            return TupleVal((key, item)) if what in ("items", "entries") else item if what == "values" else key

        return length, get


ANY_SET = ElementInfo()  # stands for those of all sets


def map_type(cell: ElementInfo, is_set: bool) -> MapT:
    """Return the type of the dicts or sets with an element info."""
    entry = cell.find().item
    key, item = entry.items if isinstance(entry, TupleT) else (NEVER, NEVER)
    return MapT(key, None if is_set else item, cell.find().data, item == ORDER)


def constant_value(w: Words, key: Constant) -> Val:
    """Return a constant key as a value."""
    return TupleVal(tuple(constant_value(w, k) for k in key)) if type(key) is tuple else w.constant(key)
