"""Calls of `dict` and `set`, and the methods of dicts and sets."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import KeysView, Mapping, Sequence
from typing import TYPE_CHECKING

from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.of_collections import counter_method
from acronumba.frontend.calls.tables import row
from acronumba.frontend.comprehensions import as_iterable
from acronumba.frontend.dicts import (
    change_in_order,
    changed_in_place,
    combine,
    compare_maps,
    delete_item,
    join,
    known_or,
    new_dict,
    pick,
    put_all,
)
from acronumba.frontend.handlers import METHODS, handles
from acronumba.frontend.keyed import copied, erase, find, new_map, present, put, set_default, take_out, update
from acronumba.frontend.kinds.errors import ErrorValue
from acronumba.frontend.kinds.functions import method_of
from acronumba.frontend.kinds.maps import DictVal, MapVal, MapView, constant_value
from acronumba.frontend.kinds.numbers import NoneVal, Num, number
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.unions import several_sets
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.ordered import next_index, operands

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


@row("*args kwargs", dict, whole=True)
def _dict(w: Walker, a: Args) -> Val:
    kwargs = a["kwargs"]
    assert isinstance(kwargs, DictVal)
    named = [(w.constant(k), v) for k, v in zip(kwargs.keys, kwargs.items, strict=True)]
    if not a.rest:
        return new_dict(w, named)
    if len(a.rest) > 1:
        raise w.reject("ACR203", seen=f"{len(a.rest)} arguments for dict")
    val = a.rest[0].unshared(w)
    if isinstance(val, DictVal):
        pairs = [(constant_value(w, k), v) for k, v in zip(val.keys, val.items, strict=True)]
        return new_dict(w, [*pairs, *named])
    if not isinstance(val, MapVal):
        view = as_iterable(w, val)
        several = val.is_several and view.python_class is KeysView
        val = w.call(method_of(val, "items"), (), {}) if several else view
        items = w.items_of(val)
        inner = None if items is None else [w.items_of(item) for item in items]
        if inner is not None and all(pair is not None and len(pair) == 2 for pair in inner):
            return new_dict(w, [*((p[0], p[1]) for p in inner if p is not None), *named])
    out = new_map(w, ())
    put_all(w, out, val)
    for key, item in named:
        put(w, out, key, item)
    return out


@row("*args", set, whole=True)
def _set(w: Walker, a: Args) -> Val:
    out = new_map(w, (), is_set=True)
    if len(a.rest) > 1:
        raise w.reject("ACR203", seen=f"{len(a.rest)} arguments for set")
    if a.rest:
        add_all(w, out, a.rest[0])
    return out


def add_all(w: Walker, out: MapVal, val: Val) -> None:
    """`out.update(val)`, of a set."""
    if several_sets(val):

        def one(v: Val) -> Val:
            add_all(w, out, v)
            return NoneVal()

        w.each(val, one)
        return
    put_all(w, out, val if is_set(val) or out.type.ordered else as_iterable(w, val, at_once=False))


def is_set(val: Val) -> bool:
    return isinstance(val, MapVal) and val.is_set


@handles(METHODS, DictVal)
def _known_method(w: Walker, val: DictVal, name: str, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val | None:
    """Call a method of a dict with known items; None if it is not supported, or in the library."""
    if kwargs:
        raise w.reject("ACR203", seen=f".{name} with {', '.join(kwargs)}=")
    keys = tuple(constant_value(w, k) for k in val.keys)
    match name, args:
        case "keys", []:
            return TupleVal(keys)
        case "values", []:
            return TupleVal(val.items)
        case "items", []:
            return TupleVal(tuple(TupleVal(pair) for pair in zip(keys, val.items, strict=True)))
        case "get", [key, *default] if len(default) < 2:
            return known_or(w, val, key, default[0] if default else NoneVal())
        case "copy", []:
            pairs = list(zip(keys, val.items, strict=True))
            return new_dict(w, pairs)
    return None


_SET_CHANGES = frozenset(("intersection_update", "difference_update", "symmetric_difference_update"))
_OF_SETS = {
    "union": ast.BitOr(), "intersection": ast.BitAnd(), "difference": ast.Sub(), "symmetric_difference": ast.BitXor(),
    "issubset": ast.LtE(), "issuperset": ast.GtE(),
}  # fmt: skip


@handles(METHODS, MapVal)
def dict_method(w: Walker, base: MapVal, name: str, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val | None:
    """Call a method of a run-time dict or set; None if it is not supported, or in the library."""
    if kwargs and (name != "update" or base.cls in (Counter, set)):
        raise w.reject("ACR203", seen=f".{name} with {', '.join(kwargs)}=")
    if base.is_set:
        return set_method(w, base, name, args)
    own = counter_method(w, base, name, args) if base.cls is Counter else None
    if own is not None:
        return own
    match name, args:
        case "keys" | "values" | "items", []:
            return MapView(base, name)
        case "get", [key, *rest] if len(rest) < 2:
            default = rest[0] if rest else NoneVal()
            index = find(w, base, key)
            return w.cond(present(w, index), lambda: base.value_at(w, index), lambda: default)
        case "setdefault", [key, *rest] if len(rest) < 2:
            return set_default(w, base, key, lambda: rest[0] if rest else NoneVal())
        case "pop", [key]:
            index = find(w, base, key)
            w.check(present(w, index), "KeyError", "the dict has no such key", told=(key,))
            return _taken(w, base, index)
        case "pop", [key, default]:
            index = find(w, base, key)
            return w.cond(present(w, index), lambda: _taken(w, base, index), lambda: default)
        case "popitem", []:
            n = base.length(w)
            w.check(w.scalar("gt", n, number(0)), "KeyError", "'popitem(): dictionary is empty'")
            last = w.scalar("sub", n, number(1))
            pair = base.entry(w, last)
            take_out(w, base, last)
            return TupleVal(pair)
        case "update", [] | [_]:
            for other in args:
                put_all(w, base, other if isinstance(other, MapVal | DictVal) else as_iterable(w, other, at_once=False))
            for key_name, val in kwargs.items():
                put(w, base, w.constant(key_name), val)
            return NoneVal()
    return _of_both(w, base, name, args)


def _taken(w: Walker, base: MapVal, index: Num) -> Val:
    val = base.value_at(w, index)
    take_out(w, base, index)
    return val


def _of_both(w: Walker, base: MapVal, name: str, args: Sequence[Val]) -> Val | None:
    match name, args:
        case "clear", []:
            erase(w, base)
            return NoneVal()
        case "copy", []:
            return copied(w, base)
    return None


def set_method(w: Walker, base: MapVal, name: str, args: Sequence[Val]) -> Val | None:
    """Call a method of a run-time set; None if it is not supported."""
    k = next((k for k, arg in enumerate(args) if several_sets(arg)), -1)
    if k >= 0:
        return w.each(args[k], lambda v: set_method(w, base, name, (*args[:k], v, *args[k + 1 :])) or ErrorValue())
    match name, args:
        case "add", [key]:
            put(w, base, key, number(0))
            return NoneVal()
        case "remove", [key]:
            delete_item(w, base, key)
            return NoneVal()
        case "discard", [key]:
            index = find(w, base, key)

            def gone() -> Val:
                take_out(w, base, index)
                return NoneVal()

            return w.cond(present(w, index), gone, NoneVal)
        case "update", _:
            for other in args:
                add_all(w, base, other)
            return NoneVal()
        case "pop", []:
            index = next_index(w, base)
            key, _ = base.entry(w, index)
            take_out(w, base, index)
            return key
        case ("isdisjoint", [other]):
            both = combine(w, ast.BitAnd(), base, _as_set(w, other))
            assert both is not None
            return w.scalar("eq", both.length(w), number(0))
        case ("issubset" | "issuperset", [other]):
            return compare_maps(w, _OF_SETS[name], base, _as_set(w, other))  # type: ignore[arg-type]
    if name in _SET_CHANGES:
        op = _OF_SETS[name.removesuffix("_update")]
        for other in args:
            if base.type.ordered and not is_set(other) and not isinstance(op, ast.Sub):
                raise w.reject("ACR203", seen=f".{name} of {w.describe(other)}", rewrite="set(xs)")
            changed_in_place(w, op, base, _as_set(w, other))  # type: ignore[arg-type]
        return NoneVal()
    if name == "union" and args:
        return _union(w, base, args)
    if name in _OF_SETS:
        out: MapVal | None = base if args else copied(w, base)
        for k, other in enumerate(args):
            assert out is not None
            if not is_set(other) or (k and name == "difference"):
                done = _in_order(w, name, base, out, other, k)
                if done is not None:
                    out = done
                    continue
            given = _as_set(w, other)
            with w.at_node(w.beside(f"{name}{k}")):
                out = combine(w, _OF_SETS[name], out, given)  # type: ignore[arg-type]
        return out
    return _of_both(w, base, name, args)


def _union(w: Walker, base: MapVal, args: Sequence[Val]) -> MapVal:
    out = copied(w, base)
    for other in args:
        if isinstance(other, MapVal) and other.is_set:
            join(w, out, base, other)
        else:
            add_all(w, out, other)
    return out


def _in_order(w: Walker, name: str, base: MapVal, out: MapVal, other: Val, k: int) -> MapVal | None:
    """Return `out.difference(other)` or the like, not of two sets, in Python's order; None if no order is needed."""
    with w.at_node(w.beside(f"{name}{k}")):
        new = new_map(w, (), is_set=True)
    if not new.type.ordered:
        return None
    if name == "symmetric_difference":
        add_all(w, new, other)
        change_in_order(w, ast.BitXor(), new, *operands(w, new, out))
        return new
    if name == "difference":
        exact = isinstance(other.unshared(w) if other.is_mapping else other, DictVal | MapVal) and not is_set(other)
        if not k and exact:
            return None
        if not k:
            update(w, new, out)
        else:
            new = out
        given = _as_set(w, other)
        change_in_order(w, ast.Sub(), new, *operands(w, new, given))
        return new

    pick(w, new, as_iterable(w, other), out, True)
    return new


def _as_set(w: Walker, val: Val) -> MapVal:
    """Return an iterable as a set; it must not be mutated, as a set is returned itself."""
    if isinstance(val, MapVal) and val.is_set:
        return val
    with w.at_node(w.beside("other")):
        out = new_map(w, (), is_set=True)
    put_all(w, out, as_iterable(w, val))
    return out
