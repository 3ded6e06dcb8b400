"""Sequences: search, comparison, deletion of items, and `range` as a value."""

from __future__ import annotations

import ast
from typing import Any

from acronumba.frontend.comparisons import compare_values, search
from acronumba.frontend.comprehensions import to_list
from acronumba.frontend.conditions import host_value
from acronumba.frontend.dicts import delete_item
from acronumba.frontend.handlers import CONTAINS, EQUALS, INDEXED, STATEMENTS, handles
from acronumba.frontend.kinds.iterators import Range
from acronumba.frontend.kinds.lists import ListVal, StaticList
from acronumba.frontend.kinds.maps import MapVal
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.library.comparisons import LISTS
from acronumba.frontend.lists import checked_index
from acronumba.frontend.names import forget
from acronumba.frontend.operators import is_index
from acronumba.frontend.subscripts import cut, index_of, list_index, set_slice
from acronumba.frontend.walker import Walker
from acronumba.ir import nodes as ir
from acronumba.ir.types import INT, words


def take_out(w: Walker, base: ListVal, place: Num) -> None:
    """Remove the element at an index that is in range."""
    outs = tuple(w.var("item", t) for t in words(base.item))
    if w.block is not None:
        args = (base.var, w.word(w.read(place)))
        w.emit(ir.ListOp(outs=outs, op="pop", width=w.ops.width(base), args=args, loc=w.loc))


# ---- comparison


@handles(EQUALS, ListVal, StaticList)
def _compare_lists(w: Walker, op: ast.cmpop, a: Val, b: Val) -> Num | None:
    """Compare two lists, tuples or deques: by the first elements that differ, else by their lengths."""
    if a.python_class is not b.python_class:
        return None
    x, y = w.items_of(a), w.items_of(b)
    if x is not None and y is not None:
        out = compare_values(w, op, TupleVal(x), TupleVal(y))
        assert isinstance(out, Num)
        return out
    if isinstance(op, ast.NotEq):
        same = _compare_lists(w, ast.Eq(), a, b)
        return None if same is None else w.negate(same)
    out = w.call(w.constant(LISTS[type(op)]), (to_list(w, a), to_list(w, b)), {})
    w.check_poison(out)
    assert isinstance(out, Num)
    return out


# ---- `del`


@handles(STATEMENTS, ast.Delete)
def _delete(w: Walker, stmt: ast.Delete) -> None:
    for target in stmt.targets:
        if isinstance(target, ast.Name):
            w.expr(ast.copy_location(ast.Name(target.id, ast.Load()), target))
            key = (w.frame.scope, target.id)
            forget(w, *key)
            if key in w.boxes:
                w.boxes[key].unbind(w)
            else:
                w.state.pop(key, None)
        elif isinstance(target, ast.Subscript):
            with w.at_node(target):
                _delete_item(w, target)
        elif isinstance(target, ast.Tuple | ast.List):
            _delete(w, ast.copy_location(ast.Delete(list(target.elts)), stmt))
        else:
            raise w.reject("ACR105", target)


def _delete_item(w: Walker, target: ast.Subscript) -> None:
    base = w.expr(target.value)
    w.check_poison(base)
    items = base.hashed(w)
    if isinstance(items, MapVal):
        if items.is_set:
            raise w.reject("ACR301", seen=f"del of an item of {w.describe(items)}", rewrite="s.remove(x)")
        delete_item(w, items, w.expr(target.slice))
        return
    assert isinstance(items, ListVal)
    where = index_of(w, target.slice)
    if isinstance(where, slice):
        set_slice(w, items, where, None)
        return
    with w.at_node(target.slice):
        where = list_index(w, where)
    text = "list assignment index out of range"
    take_out(w, items, checked_index(w, where, w.ops.list_lengths(items), text))


# ---- `range` as a value


@handles(INDEXED, Range)
def range_item(w: Walker, base: Range, where: Any) -> Val:
    """`r[i]`, `r[a:b]`."""
    n = base.length(w)

    def at(k: Num) -> Num:
        return w.scalar("add", base.start, w.scalar("mul", k, base.step))

    if isinstance(where, slice):
        start, step, count = cut(w, w.as_extent(n), where)
        first, by = w.extent(start), w.scalar("mul", base.step, number(step))
        return Range(at(first), at(w.scalar("add", first, w.scalar("mul", w.extent(count), number(step)))), by)
    where = list_index(w, where, "an index of a range")
    return at(checked_index(w, where, n, "range object index out of range"))


@handles(CONTAINS, Range)
def _in_range(w: Walker, a: Val, b: Range) -> Num:
    if is_index(a):
        a = host_value(w, a, "`in` a range", index=True)
    if not isinstance(a, Num) or a.type != INT:
        return search(w, a, b)
    first = w.scalar("sub", a, b.start)
    up = w.both(w.scalar("ge", a, b.start), w.scalar("lt", a, b.stop))
    if b.step.const == 1:
        return up
    down = w.both(w.scalar("le", a, b.start), w.scalar("gt", a, b.stop))
    inside = w.select(w.scalar("gt", b.step, number(0)), up, down)
    return w.both(inside, w.scalar("eq", w.scalar("mod", first, b.step), number(0)))


@handles(EQUALS, Range)
def _compare_ranges(w: Walker, op: ast.cmpop, a: Val, b: Val) -> Num | None:
    """Whether two ranges have the same numbers."""
    if not (isinstance(a, Range) and isinstance(b, Range) and isinstance(op, ast.Eq | ast.NotEq)):
        return None
    n, m = a.length(w), b.length(w)
    none, one = w.scalar("eq", n, number(0)), w.scalar("eq", n, number(1))
    start, step = w.scalar("eq", a.start, b.start), w.scalar("eq", a.step, b.step)
    same = w.both(w.scalar("eq", n, m), w.either(none, w.both(start, w.either(one, step))))
    return w.negate(same) if isinstance(op, ast.NotEq) else same
