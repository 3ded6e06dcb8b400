"""Handlers of `collections`: `deque`, `defaultdict`, `OrderedDict`, `Counter`.

Each is a `values.Kept`: a run-time list or dict with extra data. Code that only reads it uses the list or dict inside.
"""

from __future__ import annotations

import ast
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.objects import is_tuple
from acronumba.frontend.calls.of_maps import map_method
from acronumba.frontend.calls.tables import row
from acronumba.frontend.comparisons import compare_values
from acronumba.frontend.comprehensions import as_iterable, extend, to_list
from acronumba.frontend.conditions import host_value
from acronumba.frontend.dicts import (
    as_map,
    combine,
    over,
    put_all,
)
from acronumba.frontend.handlers import (
    ARRAYS,
    CONTAINS,
    EQUALS,
    INDEXED,
    MAPPINGS,
    handles,
)
from acronumba.frontend.keyed import copied, find, new_map, put, set_default, where_found
from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.functions import Method
from acronumba.frontend.kinds.lists import ListVal, StaticList
from acronumba.frontend.kinds.maps import DictVal, MapVal, MapView
from acronumba.frontend.kinds.numbers import NoneVal, Num, number
from acronumba.frontend.kinds.tuples import Kept, unkept
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.library.collections import most_common
from acronumba.frontend.lists import (
    append,
    checked_index,
    simple,
)
from acronumba.frontend.operators import binary
from acronumba.frontend.sequences import (
    take_out,
)
from acronumba.frontend.subscripts import (
    get_item,
    list_index,
)

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
    out = Kept(deque, w.realise(StaticList((), cell)), (limit,))
    if "iterable" in a.given:
        over(w, as_iterable(w, a["iterable"]), lambda v: _add(w, out, v))
    return out


@row("*args kwargs", defaultdict, whole=True)
def _defaultdict(w: Walker, a: Args) -> Val:
    inner = _filled(w, a.rest[1:], a["kwargs"])
    return Kept(defaultdict, inner, (a.rest[0] if a.rest else NoneVal(),))


@row("*args kwargs", OrderedDict, whole=True)
def _ordered(w: Walker, a: Args) -> Val:
    return Kept(OrderedDict, _filled(w, a.rest, a["kwargs"]), ())


def _filled(w: Walker, args: Sequence[Val], kwargs: Val) -> MapVal:
    """Return a new run-time dict, filled from arguments like those of `dict`."""
    assert isinstance(kwargs, DictVal)
    out = new_map(w, ())
    if len(args) > 1:
        raise w.reject("ACR203", seen=f"{len(args)} arguments for a dict")
    for val in args:
        val = unkept(val)
        put_all(w, out, val if val.is_mapping else as_iterable(w, val))
    for key, item in zip(kwargs.keys, kwargs.items, strict=True):
        put(w, out, w.constant(key), item)
    return out


@row("*args kwargs", Counter, whole=True)
def _counter(w: Walker, a: Args) -> Val:
    kwargs = a["kwargs"]
    assert isinstance(kwargs, DictVal)
    out = new_map(w, ())
    if len(a.rest) > 1:
        raise w.reject("ACR203", seen=f"{len(a.rest)} arguments for Counter")
    if a.rest:
        _count(w, out, a.rest[0], ast.Add())
    if kwargs.items:
        _count(w, out, kwargs, ast.Add())
    return Kept(Counter, out, ())


def _count(w: Walker, out: MapVal, val: Val, op: ast.operator) -> None:
    """Add or subtract (`op`) 1 for each element of an iterable, or each value of a dict at its key."""
    source = unkept(val)
    source = as_map(w, source) or source

    def add(key: Val, by: Val) -> None:
        index = find(w, out, key)
        old = where_found(w, index, lambda: out.value_at(w, index), lambda: number(0))
        put(w, out, key, binary(w, op, old, by))

    if isinstance(source, MapVal) and not source.is_set:
        over(w, MapView(source, "items"), lambda pair: add(*(w.items_of(pair) or ())))
        return
    over(w, as_iterable(w, source), lambda key: add(key, number(1)))


# ---- access and methods


@handles(INDEXED, Kept)
def kept_item(w: Walker, base: Kept, where: Any) -> Val:
    """Index a deque or run-time tuple, or look up a key of a `defaultdict`, `OrderedDict` or `Counter`."""
    inner = base.inner
    if isinstance(inner, ListVal):
        if isinstance(where, slice) and base.kind is tuple:
            got = get_item(w, inner, where)
            assert isinstance(got, ListVal)
            return Kept(tuple, got, ())
        if isinstance(where, slice):
            raise w.reject("ACR301", seen="a slice of a deque", rewrite="list(q)[a:b]")
        where = list_index(w, where) if isinstance(where, Tensor) else where
        kind = base.kind.__name__
        where = host_value(w, where, f"an index of a {kind}", index=True)
        index = checked_index(w, where, w.list_lengths(inner), f"{kind} index out of range")
        return inner.item_at(w, index)
    assert isinstance(inner, MapVal)
    if base.kind is Counter:
        index = find(w, inner, where)
        return where_found(w, index, lambda: inner.value_at(w, index), lambda: number(0))
    if base.kind is defaultdict and not isinstance(base.extra[0], NoneVal):
        return set_default(w, inner, where, lambda: w.call(base.extra[0], (), {}))
    return get_item(w, inner, where)


def _add(w: Walker, base: Kept, val: Val, first: bool = False) -> None:
    """Add a value at the right end of a deque (the left if `first`); beyond `maxlen`, drop one at the other end."""
    inner, limit = base.inner, base.extra[0]
    assert isinstance(inner, ListVal)
    if first:
        append(w, inner, val, "insert", number(0))
    else:
        append(w, inner, val)
    if not isinstance(limit, Num) or w.block is None:
        return
    n = w.list_lengths(inner)
    full, free = w.fork(w.scalar("gt", n, limit))
    points = [free] if free is not None else []
    if full is not None:
        w.enter(full)
        take_out(w, inner, w.scalar("sub", n, number(1)) if first else number(0))
        points.append(w.point())
    w.join(points)


def kept_method(w: Walker, base: Kept, name: str, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val:
    """Call a method of a deque, a run-time tuple, a `defaultdict`, an `OrderedDict` or a `Counter`."""
    if base.kind is tuple:
        if name not in ("index", "count"):
            raise w.reject("ACR209", seen=f"the method .{name} of a tuple")
        return w.call(Method(base.inner, name), args, {})
    out = _deque_method(w, base, name, args) if base.kind is deque else _own_method(w, base, name, args)
    if out is None and base.kind is not deque:
        return map_method(w, base.inner, name, args, kwargs)
    if out is None:
        raise w.reject("ACR209", seen=f"the method .{name} of a {base.kind.__name__}")
    return out


def _deque_method(w: Walker, base: Kept, name: str, args: Sequence[Val]) -> Val | None:
    inner = base.inner
    assert isinstance(inner, ListVal)
    if name not in ("index", "count", "copy") and any(c.find() is inner.cell.find() for c in w.walked):
        raise w.reject("ACR209", seen=f".{name} of a deque in a loop over it", rewrite="loop over list(q)")
    match name, args:
        case "append" | "appendleft", [val]:
            _add(w, base, val, name == "appendleft")
            return NoneVal()
        case "extend" | "extendleft", [val]:
            over(w, as_iterable(w, val), lambda v: _add(w, base, v, name == "extendleft"))
            return NoneVal()
        case "pop" | "popleft", []:
            n = w.list_lengths(inner)
            w.check(w.scalar("gt", n, number(0)), "IndexError", "pop from an empty deque")
            place = number(0) if name == "popleft" else w.scalar("sub", n, number(1))
            val = inner.item_at(w, place)
            take_out(w, inner, place)
            return val
        case "clear" | "reverse", []:
            simple(w, inner, "erase" if name == "clear" else name)
            return NoneVal()
        case "copy", []:
            cell = w.cell(("deque copy", w.frame.path, *w.site))
            w.make_real(cell)
            out = w.realise(StaticList((), cell))
            extend(w, out, inner)
            return Kept(deque, out, base.extra)
        case (("index" | "count" | "remove" | "insert"), _):
            return w.call(Method(inner, name), args, {})
    return None


def _own_method(w: Walker, base: Kept, name: str, args: Sequence[Val]) -> Val | None:
    """Call `copy`, or a method that `Counter` adds or overrides; None for any other method."""
    inner = base.inner
    assert isinstance(inner, MapVal)
    if name == "copy" and not args:
        return Kept(base.kind, copied(w, inner), base.extra)
    if base.kind is not Counter:
        return None
    match name, args:
        case "update" | "subtract", [val]:
            _count(w, inner, val, ast.Add() if name == "update" else ast.Sub())
            return NoneVal()
        case "total", []:
            return w.call(w.constant(sum), (MapView(inner, "values"),), {})
        case "most_common", [] | [_]:
            return w.call(w.constant(most_common), (to_list(w, MapView(inner, "items")), *args), {})
        case "elements", []:
            return None
    return None


@handles(ARRAYS, Kept)
def _array(w: Walker, val: Kept, dtype: str | None) -> Tensor:
    if not isinstance(val.inner, ListVal):
        raise w.reject("ACR301", seen=w.describe(val), rewrite="pass an array or a number")
    return w.array_of(val.inner, dtype)


@handles(CONTAINS, Kept)
def _in(w: Walker, a: Val, b: Kept) -> Num | None:
    out = compare_values(w, ast.In(), a, b.inner)
    assert isinstance(out, Num)
    return out


@handles(EQUALS, Kept)
def _equal(w: Walker, op: ast.cmpop, a: Val, b: Val) -> Num | None:
    if is_tuple(a) or is_tuple(b):
        if is_tuple(a) and is_tuple(b):
            out = compare_values(w, op, to_list(w, a), to_list(w, b))
            assert isinstance(out, Num)
            return out
        return number(isinstance(op, ast.NotEq)) if isinstance(op, ast.Eq | ast.NotEq) else None
    lists = [v.kind if isinstance(v, Kept) and isinstance(v.inner, ListVal) else None for v in (a, b)]
    if lists[0] is not lists[1] or any(isinstance(v, Kept) and v.kind in (Counter, OrderedDict) for v in (a, b)):
        return None
    out = compare_values(w, op, unkept(a), unkept(b))
    assert isinstance(out, Num)
    return out


@handles(MAPPINGS, Kept)
def _operator(w: Walker, op: ast.operator, a: Val, b: Val) -> Val | None:
    """Return `a | b` where `a` is a `defaultdict`; None for any other operation."""
    x, y = unkept(a), unkept(b)
    own = isinstance(a, Kept) and a.kind is defaultdict
    if not own or not isinstance(op, ast.BitOr) or not isinstance(x, MapVal) or not isinstance(y, MapVal):
        return None
    out = combine(w, op, x, y)
    assert isinstance(a, Kept)
    return None if out is None else Kept(a.kind, out, a.extra)
