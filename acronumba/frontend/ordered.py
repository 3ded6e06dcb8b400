"""Sets made in the call whose order matters: they keep the table of CPython, from which their order follows.

A set has the table (its entries have the item type `ORDER`) if it is iterated in a way that depends on the order, or
is an operand of an operation on such a set. Other sets are as dicts. See `host.sets`.
"""

from __future__ import annotations

import ast
import marshal
import sys
import types
from collections.abc import Iterator

from acronumba.data.hashing import unordered
from acronumba.frontend.exceptions import Restart
from acronumba.frontend.handlers import PROTOCOLS, handles
from acronumba.frontend.kinds.lists import ListVal
from acronumba.frontend.kinds.maps import MapVal, MapView, map_type
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.value import Turns, Val
from acronumba.frontend.lists import widen_items
from acronumba.frontend.walker import Walker
from acronumba.ir import nodes as ir
from acronumba.ir.types import INT, NEVER, ORDER, ListT, TupleT, union, words, wrong_key


def operate(w: Walker, op: str, base: MapVal, *others: MapVal) -> None:
    """Emit an operation on sets in Python's order."""
    if w.block is not None:
        args = (base.var, *(other.var for other in others))
        w.emit(ir.ListOp(outs=(), op=op, width=base.width, args=args, loc=w.loc))


def as_ordered(w: Walker, base: MapVal) -> MapVal:
    """Return a set that has Python's table: itself, from the next iteration on; of one of the data, a copy."""
    why = unordered(base.type.key)
    if why:
        seen = f"the order of a set {why}"
        raise w.reject("ACR301", seen=seen, rewrite="sorted(s), or a dict: its order is that of insertion")
    if base.type.given:
        return _clone(w, base)
    if not base.type.ordered:
        if base.cell.find().fixed:  # of unknown origin: all sets of the program have it
            w.facts.ordered = True
            w.facts.begin_again()
            raise Restart
        widen_items(w, base, TupleT((NEVER, ORDER)))
    return base


def _clone(w: Walker, base: MapVal) -> MapVal:
    cell = w.cell(("clone", w.frame.path, *w.site, base.type)).find()
    cell.real = cell.entries = True
    w.widen_cell(cell, TupleT((base.type.key, ORDER)))
    out = MapVal(cell, w.var("clone", words(map_type(cell, True))[0]), set)
    if w.block is not None:
        w.emit(ir.ListOp(outs=(out.var,), op="clone", width=base.width, args=(base.var,), loc=w.loc))
    return out


def operands(w: Walker, base: MapVal, *others: MapVal) -> tuple[MapVal, ...]:
    """Return the other operands of an operation on a set in Python's order, with elements of the same type."""
    for other in others:
        wrong = wrong_key(union(base.type.key, other.type.key))
        if wrong:
            raise w.reject("ACR309", seen=f"elements {wrong}")
        widen_items(w, base, TupleT((other.type.key, ORDER)))
    return tuple([_operand(w, base, other) for other in others])


def _operand(w: Walker, base: MapVal, other: MapVal) -> MapVal:
    if other.type.key == NEVER != base.type.key:
        return empty(w, base)
    out = as_ordered(w, other)
    if other.type.given and other.type.key != base.type.key:
        seen = "an operator of sets, in whose order a loop iterates, with elements of several types"
        raise w.reject("ACR301", seen=seen, rewrite="{x for x in s}")
    if out.type.key != base.type.key:
        w.unify_cells(base.cell, out.cell)
    return out


def empty(w: Walker, base: MapVal) -> MapVal:
    """Return a new set of the type of another one."""
    out = MapVal(base.cell, w.var("empty", words(base.type)[0]), set)
    w.emit(ir.ListNew(out=out.var, width=out.width, args=(), count=0, loc=w.loc))
    return out


@handles(PROTOCOLS, MapVal, MapView)
def _turns(w: Walker, base: MapVal | MapView) -> Turns:
    """Iterate over a set made in the call, or over one of several sets, in Python's order."""
    view = begun(w, base)
    items, n = view.begun
    assert isinstance(n, Num)

    def length() -> Num:
        assert isinstance(n, Num)
        w.check(w.scalar("eq", n, base.length(w)), "RuntimeError", "Set changed size during iteration")
        return n

    _, get = w.turns(items)
    return length, get


def begun(w: Walker, val: Val) -> MapView:
    """Return a set made in the call, or one of several sets, as an iterator that has begun here."""
    view = val if isinstance(val, MapView) else MapView(val, "ordered")
    items = view.begun or (w.each(view.base, lambda one: _elements(w, one)), view.length(w))
    return MapView(view.base, "ordered", items)


def _elements(w: Walker, base: Val) -> ListVal:
    """Return the list of the elements of a set, in Python's order; the order of one of the data is known."""
    assert isinstance(base, MapVal)
    base = base if base.type.given else as_ordered(w, base)
    key = ListT(base.type.key)
    items = w.list_of(key, w.var("ordered", key.word), own=True)
    if w.block is not None:
        w.emit(ir.ListOp(outs=(items.var,), op="order", width=base.width, args=(base.var,), loc=w.loc))
    return items


def next_index(w: Walker, base: MapVal) -> Num:
    """Return the index of the element that `pop` takes; the instance fails if the set is empty."""
    base = as_ordered(w, base)
    out = w.var("next", INT)
    if w.block is not None:
        w.emit(ir.ListOp(outs=(out,), op="next", width=base.width, args=(base.var,), loc=w.loc))
    index = Num(INT, var=out)
    w.check(w.scalar("ge", index, number(0)), "KeyError", "'pop from an empty set'")
    return index


# ---- displays of constants


def constants(w: Walker, node: ast.Set) -> tuple[list[ast.expr], int] | None:
    """Return how Python made the set of a display that is a constant of the code; None for other displays.

    Three or more constants, and any in the head of a loop, are a frozenset in the code, which the display copies.
    Its elements came into it in the returned order, and so often again in the order that it then had.
    """
    least = 1 if getattr(node, "iterated", False) else 3
    if len(node.elts) < least or not _folds(node):
        return None
    values = [eval(compile(ast.Expression(e), "", "eval"), {"__builtins__": {}}) for e in node.elts]
    same = {(type(x), x) for x in values}
    known = [c for c in _frozensets(_code(w)) if {(type(x), x) for x in c} == same]
    read = sorted(known[0], key=_written) if known else []  # as `marshal` writes sets
    for order in (values, read):
        made, found = frozenset(order), {_table(c) for c in known}
        for again in range(3):
            if found == {_table(made)}:
                return [node.elts[values.index(x)] for x in order], again
            made = frozenset(tuple(made))
    seen = "the order of a set of constants, which depends on how Python compiled the file"
    raise w.reject("ACR301", node, seen=seen, rewrite="set([a, b, c])")


def _written(x: object) -> bytes:
    return marshal.dumps(x)  # type: ignore[arg-type]


def _table(value: frozenset[object]) -> tuple[int, tuple[object, ...]]:
    return sys.getsizeof(value), tuple(value)


def _folds(node: ast.Set) -> bool:
    """Whether Python makes a constant of a display with many elements."""
    if any(isinstance(e, ast.Starred) for e in node.elts):
        return False
    many = ast.Set([*node.elts, *(ast.Constant(k) for k in range(3))])
    code = compile(ast.fix_missing_locations(ast.Expression(many)), "", "eval")
    return any(isinstance(c, frozenset) for c in code.co_consts)


def _code(w: Walker) -> types.CodeType | None:
    """Return the code of the function being walked, or of the outermost function around it."""
    frames = [f.func.fn for f in reversed(w.frames) if f.func.fn is not None]
    return getattr(frames[0], "__code__", None) if frames else None


def _frozensets(code: types.CodeType | None) -> Iterator[frozenset[object]]:
    for c in code.co_consts if code is not None else ():
        if isinstance(c, frozenset):
            yield c
        elif isinstance(c, types.CodeType):
            yield from _frozensets(c)
