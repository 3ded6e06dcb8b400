"""Run-time lists: creation, and elements read and changed."""

from __future__ import annotations

from collections.abc import Sequence

from acronumba.frontend.exceptions import Restart
from acronumba.frontend.kinds.lists import ElementInfo, ListVal, StaticList
from acronumba.frontend.kinds.maps import MapVal, map_type
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.value import NOT_CONST, Val
from acronumba.frontend.library.copies import with_own_type
from acronumba.frontend.names import alias
from acronumba.frontend.nesting import close, close_parts
from acronumba.frontend.walker import Walker
from acronumba.ir import nodes as ir
from acronumba.ir.types import NEVER, ListT, Type, exchanged, union


def new_list(w: Walker, items: Sequence[Val]) -> Val:
    """Return a list of items, made at the current allocation site."""
    cell = w.cell(("list", w.frame.path, *w.site))
    val = StaticList(tuple(items), cell, loops=w.loops_around)
    return w.realise(val) if cell.find().real and w.block is not None else w.tagged(val)


def made_cell(w: Walker, what: str, item: Type) -> ElementInfo:
    """Return the element info of the new lists that an operation makes, with elements of a fixed type.

    If `item` is `NEVER` (the operand is always empty), the type is not fixed, as elements may be added to the result.
    """
    key = (what, w.frame.path, *w.site)
    cell = w.cell(key)
    cell.real = True
    if item == NEVER:
        return cell
    cell.fixed = True
    if cell.item != item:
        cell.item = item
        w.facts.changed = True
    return cell


def checked_index(w: Walker, where: Num, n: Num, text: str = "list index out of range") -> Num:
    """Check an index, and return it counted from the front."""
    i = w.read(w.as_int(where))
    inside = w.both(w.scalar("ge", i, w.scalar("neg", n)), w.scalar("lt", i, n))
    w.check(inside, "IndexError", text)
    if i.const is not NOT_CONST:
        return i if i.const >= 0 else w.scalar("add", i, n)
    return w.select(w.scalar("lt", i, number(0)), w.scalar("add", i, n), i)


def list_slice(w: Walker, base: ListVal, start: Num, step: int, count: Num) -> ListVal:
    """Return a new list of some elements."""
    if w.block is None:
        return base
    cell = base.cell.find()
    if cell.fixed:
        cell = made_cell(w, "slice", base.item)
        cell.copied = ("slice", w.frame.path, *w.site)
        w.mix(cell, base.cell.pure)
    else:  # either list may be widened later: they share their element info
        w.make_real(cell)
    if base.item == NEVER:  # always empty: so is the slice
        empty = ListVal(cell, w.var("part", ListT(cell.item)))
        w.emit(ir.ListNew(out=empty.var, width=w.ops.width(empty), args=(), count=0, loc=w.loc))
        return empty
    out = w.var("part", ListT(base.item))
    args = (base.var, w.word(start), w.word(number(step)), w.word(count))
    w.emit(ir.ListOp(outs=(out,), op="slice", width=w.ops.width(base), args=args, loc=w.loc))
    copy = ListVal(cell, out)
    if cell.copied not in w.facts.copied:
        return copy
    made = w.call(w.constant(with_own_type), (copy,), {})
    return made if isinstance(made, ListVal) else copy


def widen_list(w: Walker, base: ListVal, val: Val) -> None:
    """Widen the element type of a list by the type of a value."""
    widen_items(w, base, w.type_of(val))


def widen_items(w: Walker, base: ListVal | MapVal, t: Type) -> None:
    """Widen the item type of a list or dict; if it was read from a field or container, widen the type of that."""
    cell, outer = base.cell.find(), base.outer
    wider = union(cell.item, t)
    if wider != cell.item and cell.fixed:
        wider = (close_parts if cell.entries else close)(w, wider)
    if wider != cell.item and cell.fixed:
        old, new = (_of_items(base, item) for item in (cell.item, wider))
        if base.place is not None:
            cls, name = base.place
            w.widen_field(cls, name, exchanged(w.facts.fields[cls][name], old, new))
            raise Restart
        if cell.copied is not None and cell.copied not in w.facts.copied:
            w.facts.copied.add(cell.copied)
            raise Restart
        if outer is not None and (item := outer.cell.find().item) != (given := exchanged(item, old, new)):
            widen_items(w, outer, given)
            raise Restart
    w.widen_cell(base.cell, t)


def _of_items(base: ListVal | MapVal, item: Type) -> Type:
    """Return the type of a list or dict with another item type."""
    return ListT(item) if isinstance(base, ListVal) else map_type(ElementInfo(item), base.is_set)


def append(w: Walker, base: ListVal, val: Val, op: str = "append", index: Num | None = None) -> None:
    """Append a value to a list, or (`op` "insert") insert it at an index."""
    base.mutable(w)
    alias(val)
    w.put_in(base.cell, val)
    widen_list(w, base, val)
    if w.block is None:
        return
    at = () if index is None else (w.word(index),)
    args = (base.var, *at, *w.to_words(val, base.item))
    w.emit(ir.ListOp(outs=(), op=op, width=w.ops.width(base), args=args, loc=w.loc))


def simple(w: Walker, base: ListVal, op: str) -> None:
    """Emit an operation on a whole list in place: "erase", "reverse"."""
    base.mutable(w)
    w.emit(ir.ListOp(outs=(), op=op, width=w.ops.width(base), args=(base.var,), loc=w.loc))
