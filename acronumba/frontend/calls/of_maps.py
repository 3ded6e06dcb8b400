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
    changed_in_place,
    combine,
    compare_maps,
    delete_item,
    known_or,
    new_dict,
    put_all,
)
from acronumba.frontend.handlers import METHODS, handles
from acronumba.frontend.keyed import (
    copied,
    erase,
    find,
    new_map,
    present,
    put,
    set_default,
    take_out,
)
from acronumba.frontend.kinds.functions import method_of
from acronumba.frontend.kinds.maps import DictVal, MapVal, MapView, constant_value
from acronumba.frontend.kinds.numbers import NoneVal, Num, number
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import Val

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
        put_all(w, out, a.rest[0] if is_set(a.rest[0]) else as_iterable(w, a.rest[0]))
    return out


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
                put_all(w, base, other if isinstance(other, MapVal | DictVal) else as_iterable(w, other))
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
                put_all(w, base, other if is_set(other) else as_iterable(w, other))
            return NoneVal()
        case ("isdisjoint", [other]):
            both = combine(w, ast.BitAnd(), base, _as_set(w, other))
            assert both is not None
            return w.scalar("eq", both.length(w), number(0))
        case ("issubset" | "issuperset", [other]):
            return compare_maps(w, _OF_SETS[name], base, _as_set(w, other))  # type: ignore[arg-type]
    if name in _SET_CHANGES:
        op = _OF_SETS[name.removesuffix("_update")]
        for other in args:
            changed_in_place(w, op, base, _as_set(w, other))  # type: ignore[arg-type]
        return NoneVal()
    if name in _OF_SETS:
        out: MapVal | None = base if args else copied(w, base)
        for k, other in enumerate(args):
            assert out is not None
            given = _as_set(w, other)
            with w.at_node(w.beside(f"{name}{k}")):
                out = combine(w, _OF_SETS[name], out, given)  # type: ignore[arg-type]
        return out
    return _of_both(w, base, name, args)


def _as_set(w: Walker, val: Val) -> MapVal:
    """Return an iterable as a set; it must not be mutated, as a set is returned itself."""
    if isinstance(val, MapVal) and val.is_set:
        return val
    with w.at_node(w.beside("other")):
        out = new_map(w, (), is_set=True)
    put_all(w, out, as_iterable(w, val))
    return out
