"""Facts of lists (`ElementInfo`): the type of their elements, and whether they may be mutated.

Each list has an element info. Lists that may be bound to one name share theirs; its facts grow from iteration to
iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from acronumba.frontend.advice import one_type
from acronumba.frontend.block import Blocks
from acronumba.frontend.exceptions import Restart
from acronumba.frontend.kinds.arrays import AllocationSite, Tensor
from acronumba.frontend.kinds.errors import GROWS, conversion
from acronumba.frontend.kinds.lists import ElementInfo, ListVal, StaticList, is_row
from acronumba.frontend.kinds.maps import DictVal
from acronumba.frontend.kinds.numbers import Num
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.naming import by_kind, note_unified
from acronumba.frontend.nesting import close, close_parts
from acronumba.ir import nodes as ir
from acronumba.ir.types import (
    INT,
    NEVER,
    Array0T,
    ArrayT,
    DictT,
    ListT,
    MapT,
    TensorT,
    TupleT,
    Type,
    UnionT,
    all_parts,
    members,
    nesting,
    parts,
    pieces,
    type_text,
    union,
)


class Cells(Blocks):
    """Element infos and allocation sites: made, widened, unified."""

    def cell(self, key: Any) -> ElementInfo:
        return self.facts.cells.setdefault(key, ElementInfo()).find()

    def widen_cell(self, cell: ElementInfo, item: Type) -> None:
        """Widen the element type of an element info by a type."""
        cell = cell.find()
        wider = union(cell.item, item)
        if wider != cell.item:
            wider = (close_parts if cell.entries else close)(self, wider)  # type: ignore[arg-type]
        if wider != cell.item:
            self.one_form(wider)
            if cell.fixed and cell.entries and not self.facts.dicts_nest and holds_dicts(wider):
                self.facts.dicts_nest = True
                self.facts.begin_again()
                raise Restart
            if cell.fixed:
                seen = f"list[{type_text(cell.item)}] and an element {type_text(item)}"
                raise self.reject("ACR303", seen=seen, rewrite=one_type(wider))
            if endless(wider):
                raise self.reject("ACR303", seen=without_end(wider), rewrite=conversion(without_end(wider)))
            cell.item = wider
            self.facts.changed = True

    def unify_places(self, places: Sequence[AllocationSite]) -> None:
        """Unify allocation sites whose arrays may be bound to one name, from the next iteration on."""
        if any(p.find().passed for p in places):
            self.pass_itself(places)
        for some in by_kind(places):
            if len(some) > 1:
                note_unified(some)
                self.facts.changed = True

    def pass_itself(self, places: Sequence[AllocationSite]) -> None:
        """Unify allocation sites, and pass their arrays by reference, not as their elements."""
        before = by_kind(places)
        if any(len(some) > 1 or not some[0].passed for some in before):
            for some in before:
                note_unified(some).passed = True
            self.facts.begin_again()
            raise Restart

    def one_form(self, t: Type) -> None:
        """Unify the allocation sites of written arrays of equal dtype and rank in a type: they share one form."""
        places: dict[Any, list[AllocationSite]] = {}
        for m in members(t):
            if isinstance(m, ArrayT):
                places.setdefault((m.seen.dtype, m.seen.rank), []).append(self.facts.arrays[m.seen.dtype, m.form].place)
        for some in places.values():
            self.pass_itself(some)

    def make_real(self, cell: ElementInfo) -> None:
        cell = cell.find()
        if not cell.real:
            cell.real = True
            self.facts.changed = True

    def stays_empty(self, a: ElementInfo, b: ElementInfo) -> bool:
        """Whether the lists of `a` stay empty by a fixed type, or hold lists that do, where the lists of `b` do not.

        The two are not unified: an always empty list may be used as a list of another type if it is not mutated there.
        """
        a, b = a.find(), b.find()
        return a.fixed and emptier(a.item, b.item)

    def same_kind(self, a: ElementInfo, b: ElementInfo) -> None:
        """Note that the values of the dicts of two element infos have one class and factory; reject them otherwise."""
        if a.kind == b.kind:
            return
        if any(c.kind is None and isinstance(c.item, TupleT) and c.item.items[1] != NEVER for c in (a, b)):
            names = " beside ".join("dict" if c.kind is None else c.kind[0].__name__ for c in (a, b))
            raise self.reject("ACR308", seen=f"a {names}, as values of a dict", rewrite="dict(d)")
        a.kind = b.kind = a.kind or b.kind
        self.facts.changed = True

    def unify_cells(self, a: ElementInfo, b: ElementInfo) -> ElementInfo:
        a, b = a.find(), b.find()
        if a is b:
            return a
        for one, other in ((a, b), (b, a)):
            if self.stays_empty(one, other):
                self.mix(other, one.item == NEVER)  # its inner lists have other types elsewhere
                return other
        a.entries = b.entries = a.entries or b.entries
        self.mix(a, not b.mixed)
        self.mix(b, not a.mixed)
        self.same_places(a, b)
        self.same_kind(a, b)
        if a.fixed and b.fixed:
            if a.item != b.item:
                seen = f"list[{type_text(a.item)}] and list[{type_text(b.item)}]"
                raise self.reject("ACR303", seen=seen, rewrite=one_type(ListT(union(a.item, b.item))))
            return a
        if b.fixed:
            a, b = b, a
        self.widen_cell(a, b.item)
        a.real = a.real or b.real
        if a.fixed:
            self.widen_cell(b, a.item)
        else:
            b.link = a
            self.facts.changed = True
        return a

    def put_in(self, cell: ElementInfo, val: Val) -> None:
        """Note an element stored in lists: whether it is local, and the allocation sites of its arrays."""
        self.mix(cell, val.is_local())
        self._note_places(cell, val.places_in())

    def _note_places(self, cell: ElementInfo, made: Iterable[AllocationSite]) -> None:
        cell = cell.find()
        before = len(cell.stored)
        cell.stored.update(dict.fromkeys(p if p.viewed else p.find() for p in made))
        if len(cell.stored) > before:
            self.facts.note_change(cell, "stored")

    def same_places(self, a: ElementInfo, b: ElementInfo) -> None:
        """Note that lists of two element infos may be one list: their elements come from the same allocation sites."""
        self._note_places(a, b.places)
        self._note_places(b, a.places)

    def mix(self, cell: ElementInfo, own: bool) -> None:
        """Note an element stored in lists: unless `own`, it may be a list that was not made in the call."""
        cell = cell.find()
        if not own and not cell.mixed:
            cell.mixed = True
            self.facts.changed = True

    def cells_by_type(self, t: ListT | MapT) -> ElementInfo:
        key = ("type", t)
        cell = self.facts.cells.get(key)
        if cell is None and isinstance(t, MapT):
            cell = self.facts.cells[key] = ElementInfo(
                item=t.entry, real=True, fixed=True, data=t.given, unsure=bool(t.given), entries=True
            )
        elif cell is None:
            assert isinstance(t, ListT)
            cell = self.facts.cells[key] = ElementInfo(item=t.item, real=True, fixed=True, data=t in self.data_lists)
            cell.unsure = t.item in self.data_lists
        return cell

    def row_cell(self, t: TupleT) -> ElementInfo:
        """Return the element info of lists stored as a tuple of unlike elements, by their type."""
        return self.cell(("type", t))

    def has_pieces(self, val: TupleVal | DictVal | StaticList, t: TupleT | DictT) -> bool:
        """Whether a value is stored element by element, as a type says; lists of one type are unified."""
        if isinstance(val, DictVal) or isinstance(t, DictT):
            return isinstance(val, DictVal) and isinstance(t, DictT) and t.keys == val.keys
        if t.listed is not is_row(val) or len(t.items) != len(val.items):
            return False
        if isinstance(val, StaticList):
            val.stored = True
            self.unify_cells(val.cell, self.row_cell(t))
        return isinstance(val, StaticList) is t.listed

    def list_of(self, t: ListT, var: ir.Var, own: bool = False) -> ListVal:
        """Return a list of unknown origin: it must not be mutated if lists of its type may be instance data."""
        cell = self.cells_by_type(t)
        return ListVal(cell, var, tuple if t.tupled else list, own=own or not (cell.data or t.item == NEVER))

    def list_word(self, val: ListVal, t: ListT) -> ir.Var:
        """Return the variable of a list, or of a tuple stored as a list, as a value of a list type."""
        by_type = self.cells_by_type(t)
        if not t.tupled:
            self.check_unchanged(val, t)
        if val.item != t.item:
            self.unify_cells(val.cell, by_type)
        self.same_places(val.cell, by_type)
        self.mix(val.cell, not by_type.mixed)  # it may be mutated through a name of this type
        return val.var

    def check_unchanged(self, val: ListVal, t: ListT) -> None:
        """Reject an always empty list that is mutated under another type.

        If the instance data hold such lists, lists of the other type cannot be mutated from now on.
        """
        empty = self.stays_empty(val.cell, self.cells_by_type(t))
        if t.item == NEVER or (val.own and not empty):
            return
        given = not val.own and any(emptier(d.item, t.item) for d in self.data_lists)
        inner: Type = val.item
        outer: Type = t
        while isinstance(outer, ListT):
            by_type = self.cells_by_type(outer)
            if given and not by_type.data:
                by_type.data = True
                self.facts.changed = True
            elif not given and by_type.touched and (val.own or not by_type.data):
                raise self.reject("ACR303", seen=f"{self.describe(val)} where {type_text(t)} is expected")
            if not empty or not isinstance(inner, ListT):
                return
            inner, outer = inner.item, outer.item

    def key_scalar(self, dtype: str, value: ir.Var) -> Tensor:
        """Return the key of a dict as a NumPy integer, as which it was stored."""
        out = self.var("", TensorT(dtype, ()))
        if self.block is not None:
            self.emit(ir.Op(out=out, op="cast", args=(value,), attrs=(), shape=(), site=-1, loc=self.loc))
        return Tensor(TensorT(dtype, ()), out, (), fresh=True, known=Num(INT, var=value))


def holds_dicts(entry: Type) -> bool:
    """Whether an entry of a dict may have a dict as its value."""
    return any(isinstance(m, MapT) for part in parts(entry)[1:] for m in members(part))


def emptier(a: Type, b: Type) -> bool:
    """Whether two element types differ only in that lists of the first stay empty."""
    if a == NEVER:
        return b != NEVER
    return isinstance(a, ListT) and isinstance(b, ListT) and emptier(a.item, b.item)


def without_end(t: Type) -> str:
    """Return a description of an infinite type, in the user's terms."""
    lengths = ({len(m.items) for m in members(u) if isinstance(m, TupleT)} for u in all_parts(t))
    return GROWS if any(len(found) > 2 for found in lengths) else type_text(t)[:200]


def endless(t: Type) -> bool:
    """Whether a type is so large that it is taken to grow without bound."""
    if isinstance(t, UnionT):
        tensors = sum(isinstance(m, TensorT | Array0T) for m in t.members)
        tuples = sum(isinstance(m, TupleT | DictT) for m in t.members)
        if tensors > 6 or tuples > 12:
            return True
    depth = nesting(t)
    return depth > 12 or (depth > 3 and pieces(t) > (1000 if depth > 6 else 5000))
