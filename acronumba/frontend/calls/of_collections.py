"""Handlers of `collections`: `deque`, `defaultdict`, `OrderedDict`, `Counter`; methods of deques and `Counter`s.

A deque is a `ListVal` of that class, the others are `MapVal`s of theirs.
"""

from __future__ import annotations

import ast
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.tables import row
from acronumba.frontend.comprehensions import as_iterable, extend, to_list
from acronumba.frontend.conditions import host_value
from acronumba.frontend.dicts import as_map
from acronumba.frontend.keyed import new_map, put
from acronumba.frontend.kinds.functions import method_of
from acronumba.frontend.kinds.lists import ListVal, StaticList
from acronumba.frontend.kinds.maps import DictVal, MapVal, MapView
from acronumba.frontend.kinds.numbers import NoneVal, Num, number
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.library.collections import most_common, rotate
from acronumba.frontend.lists import append, simple
from acronumba.frontend.loops import iterate, take_from
from acronumba.frontend.operators import binary
from acronumba.frontend.sequences import take_out
from acronumba.frontend.subscripts import get_item

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


# ---- constructors


@row("iterable maxlen", deque, whole=True)
def _deque(w: Walker, a: Args) -> Val:
    limit = a["maxlen"]
    if not isinstance(limit, NoneVal):
        limit = host_value(w, limit, "maxlen", index=True)
    cell = w.cell(("deque", w.frame.path, *w.site))
    w.make_real(cell)
    out = replace(w.realise(StaticList((), cell)), cls=deque, extra=limit)
    if "iterable" in a.given:
        iterate(w, as_iterable(w, a["iterable"], at_once=False), lambda v: _add(w, out, v))
    return out


@row("*args kwargs", defaultdict, whole=True)
def _defaultdict(w: Walker, a: Args) -> Val:
    entries = _filled(w, a.rest[1:], a["kwargs"])
    return replace(entries, cls=defaultdict, extra=a.rest[0] if a.rest else NoneVal())


@row("*args kwargs", OrderedDict, whole=True)
def _ordered(w: Walker, a: Args) -> Val:
    return replace(_filled(w, a.rest, a["kwargs"]), cls=OrderedDict)


def _filled(w: Walker, args: Sequence[Val], kwargs: Val) -> MapVal:
    """Return the new dict of `dict(*args, **kwargs)` as one of run time."""
    assert isinstance(kwargs, DictVal)
    out = w.call(w.constant(dict), args, dict(zip(kwargs.keys, kwargs.items, strict=True))).hashed(w)
    assert isinstance(out, MapVal)
    return out


@row("*args kwargs", Counter, whole=True)
def _counter(w: Walker, a: Args) -> Val:
    kwargs = a["kwargs"]
    assert isinstance(kwargs, DictVal)
    out = replace(new_map(w, ()), cls=Counter)
    if len(a.rest) > 1:
        raise w.reject("ACR203", seen=f"{len(a.rest)} arguments for Counter")
    for val in (*a.rest, *([kwargs] if kwargs.items else [])):
        _count(w, out, val, ast.Add())
    return out


def _count(w: Walker, out: MapVal, val: Val, op: ast.operator) -> None:
    """Add or subtract (`op`) 1 for each element of an iterable, or each value of a dict at its key."""
    source = as_map(w, val) or val

    def add(key: Val, by: Val) -> None:
        put(w, out, key, binary(w, op, get_item(w, out, key), by))

    if isinstance(source, MapVal) and not source.is_set:
        iterate(w, MapView(source, "items"), lambda pair: add(*(w.items_of(pair) or ())))
        return
    iterate(w, as_iterable(w, source, at_once=False), lambda key: add(key, number(1)))


# ---- methods


def _add(w: Walker, base: ListVal, val: Val, first: bool = False) -> None:
    """Add a value at the right end of a deque (the left if `first`); beyond `maxlen`, drop one at the other end."""
    if first:
        append(w, base, val, "insert", number(0))
    else:
        append(w, base, val)
    if not isinstance(base.extra, Num) or w.block is None:
        return
    n = w.ops.list_lengths(base)

    def drop() -> Val:
        take_out(w, base, w.scalar("sub", n, number(1)) if first else number(0))
        return NoneVal()

    w.cond(w.scalar("gt", n, base.extra), drop, NoneVal)


def deque_method(w: Walker, base: ListVal, name: str, args: Sequence[Val]) -> Val | None:
    """Call a method of a deque; None if it is not supported."""
    if name not in ("index", "count", "copy"):
        seen = f".{name} of a deque over which an iterator or loop goes on"
        take_from(w, base.cell, False, w.reject("ACR209", seen=seen, rewrite="loop over list(q)"), True)
    match name, args:
        case "append" | "appendleft", [val]:
            _add(w, base, val, name == "appendleft")
            return NoneVal()
        case "extend" | "extendleft", [val]:
            iterate(w, as_iterable(w, val, at_once=False), lambda v: _add(w, base, v, name == "extendleft"))
            return NoneVal()
        case "pop" | "popleft", []:
            n = w.ops.list_lengths(base)
            w.check(w.scalar("gt", n, number(0)), "IndexError", "pop from an empty deque")
            place = number(0) if name == "popleft" else w.scalar("sub", n, number(1))
            val = base.item_at(w, place)
            take_out(w, base, place)
            return val
        case "clear" | "reverse", []:
            simple(w, base, "erase" if name == "clear" else name)
            return NoneVal()
        case "copy", []:
            cell = w.cell(("deque copy", w.frame.path, *w.site))
            w.make_real(cell)
            out = w.realise(StaticList((), cell))
            extend(w, out, base)
            return replace(out, cls=deque, extra=base.extra)
        case "rotate", [] | [_]:
            return w.call(w.constant(rotate), (base, *args), {})
        case (("index" | "count" | "remove" | "insert"), _):
            return w.call(method_of(base.plain, name), args, {})
    return None


def counter_method(w: Walker, base: MapVal, name: str, args: Sequence[Val]) -> Val | None:
    """Call a method that `Counter` adds or overrides; None for any other method."""
    match name, args:
        case "update" | "subtract", [val]:
            _count(w, base, val, ast.Add() if name == "update" else ast.Sub())
            return NoneVal()
        case "total", []:
            return w.call(w.constant(sum), (MapView(base, "values"),), {})
        case "most_common", [] | [_]:
            return w.call(w.constant(most_common), (to_list(w, MapView(base, "items")), *args), {})
    return None
