"""Lists at run time: making them, reading and changing their elements."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from acronumba.frontend.block import Restart
from acronumba.frontend.names import alias
from acronumba.frontend.naming import with_places, within
from acronumba.frontend.values import (
    NOT_CONST,
    ElementInfo,
    ErrorValue,
    ListVal,
    MapVal,
    Num,
    StaticList,
    Tensor,
    Val,
    map_type,
    number,
)
from acronumba.frontend.walker import Walker
from acronumba.ir import nodes as ir
from acronumba.ir.types import NEVER, ListT, Type, exchanged, union, words


def describe_index(w: Walker, where: Any) -> str:
    """Return what an index is, in the user's terms."""
    return "a slice" if isinstance(where, slice) else w.describe(where)


def new_list(w: Walker, items: Sequence[Val]) -> Val:
    """Return the list of some items made at a place of the source."""
    cell = w.cell(("list", w.frame.path, *w.site))
    val = StaticList(tuple(items), cell, loops=w.loops_around)
    return w.realise(val) if cell.find().real and w.block is not None else val


def at_run_time(w: Walker, val: Val) -> Val:
    """Return an iterable whose items are known as a list at run time."""
    items = w.items_of(val)
    if items is None or isinstance(val, Tensor | ListVal):
        return val
    cell = w.cell(("runtime", w.frame.path, w.loc))
    return w.realise(StaticList(items, cell))


def made_cell(w: Walker, what: str, item: Type) -> ElementInfo:
    """Return what is known of the lists that an operation makes: they are new, with items of one type.

    `item` is `NEVER` where nothing was ever put into the list that they are made of: more may be put into them.
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
    """Return an index counted from the front, having checked it."""
    i = w.read(w.as_int(where))
    inside = w.both(w.scalar("ge", i, w.scalar("neg", n)), w.scalar("lt", i, n))
    w.check(inside, "IndexError", text)
    if i.const is not NOT_CONST:
        return i if i.const >= 0 else w.scalar("add", i, n)
    return w.select(w.scalar("lt", i, number(0)), w.scalar("add", i, n), i)


def list_get(w: Walker, base: ListVal, index: Num) -> Val:
    """Read the element at an index that is known to be inside."""
    outs = tuple(w.var("item", e) for e in words(base.item))
    if w.block is None:
        return ErrorValue()
    if outs:
        args = (base.var, w.word(w.read(index)))
        w.emit(ir.ListOp(outs=outs, op="get", width=len(outs), args=args, loc=w.loc))
    return element_of(w, base, outs)


def element_of(w: Walker, base: ListVal, outs: tuple[ir.Var, ...]) -> Val:
    """Return the element of a list that lies in some words."""
    return inner_value(w, base, base.item, outs)


def inner_value(w: Walker, base: ListVal | MapVal, t: Type, outs: tuple[ir.Var, ...]) -> Val:
    """Return the value of a type that lies in some words of an item of a list or dict."""
    return within(with_places(w.from_words(t, outs), tuple(base.cell.find().places)), base)


def list_slice(w: Walker, base: ListVal, start: Num, step: int, count: Num) -> ListVal:
    """Return a new list of some elements."""
    if w.block is None:
        return base
    cell = base.cell.find()
    if cell.fixed:
        cell = made_cell(w, "slice", base.item)
        w.mix(cell, base.cell.pure)
    else:  # both may be given elements of other types later: one is known as the other is
        w.make_real(cell)
    if base.item == NEVER:  # nothing was ever put into it: the part is a new empty list
        empty = ListVal(cell, w.var("part", ListT(cell.item)))
        w.emit(ir.ListNew(out=empty.var, width=w.width(empty), args=(), count=0, loc=w.loc))
        return empty
    out = w.var("part", ListT(base.item))
    args = (base.var, w.word(start), w.word(number(step)), w.word(count))
    w.emit(ir.ListOp(outs=(out,), op="slice", width=w.width(base), args=args, loc=w.loc))
    return ListVal(cell, out)


def check_mutable(w: Walker, base: ListVal) -> None:
    """Note that a list is changed; reject it if it may be data of the caller."""
    touch(w, base)
    if not base.own:
        name = _name_of(w)
        if base.item == NEVER and not base.cell.find().data:  # it may be one of several, made here or given
            seen = f"a change of `{name}`, an empty list: what it was made to hold is not known here"
            raise w.reject("ACR303", seen=seen, rewrite="put it into a field of a dataclass, with its type")
        rewrite = f"make a copy first: list({name})"
        raise w.reject("ACR113", seen=f"a change of {w.describe(base)}", rewrite=rewrite)


def touch(w: Walker, base: ListVal) -> None:
    """Note that lists of a type are changed."""
    cell = w.cells_by_type(ListT(base.item))
    if not cell.touched:
        cell.touched = True
        w.facts.changed = True


def _name_of(w: Walker) -> str:
    """Return the user's name for a list that is changed."""
    match w.here:
        case ast.Call(func=ast.Attribute(value=named)) | ast.Attribute(value=named) | ast.Subscript(value=named):
            return ast.unparse(named)
        case ast.AugAssign(target=named):
            return ast.unparse(named)
    return "xs"


def widen_list(w: Walker, base: ListVal, val: Val) -> None:
    """Let a list hold a value."""
    widen_items(w, base, w.type_of(val))


def widen_items(w: Walker, base: ListVal | MapVal, t: Type) -> None:
    """Let a list or dict have items of a type. One that lies in another has the type that the outer one says."""
    cell, outer = base.cell.find(), base.outer
    wider = union(cell.item, t)
    if wider != cell.item and cell.fixed:
        old, new = (_of_items(base, item) for item in (cell.item, wider))
        if base.place is not None:
            cls, name = base.place
            w.widen_field(cls, name, exchanged(w.facts.fields[cls][name], old, new))
            raise Restart
        if outer is not None and (item := outer.cell.find().item) != (given := exchanged(item, old, new)):
            widen_items(w, outer, given)
            raise Restart
    w.widen_cell(base.cell, t)


def _of_items(base: ListVal | MapVal, item: Type) -> Type:
    """Return the type of such a list or dict if its items had a type."""
    return ListT(item) if isinstance(base, ListVal) else map_type(ElementInfo(item), base.is_set)


def append(w: Walker, base: ListVal, val: Val, op: str = "append", index: Num | None = None) -> None:
    """Put a value at the end of a list, or (`op`) at an index."""
    check_mutable(w, base)
    alias(val)
    w.put_in(base.cell, val)
    widen_list(w, base, val)
    if w.block is None:
        return
    at = () if index is None else (w.word(index),)
    args = (base.var, *at, *w.to_words(val, base.item))
    w.emit(ir.ListOp(outs=(), op=op, width=w.width(base), args=args, loc=w.loc))


def simple(w: Walker, base: ListVal, op: str) -> None:
    """Change a list as a whole: "erase", "reverse"."""
    check_mutable(w, base)
    w.emit(ir.ListOp(outs=(), op=op, width=w.width(base), args=(base.var,), loc=w.loc))
