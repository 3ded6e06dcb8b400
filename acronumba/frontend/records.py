"""Dicts of known keys that are mutated (`kinds.records`): creation, keys stored, methods; rows of closed shapes, too.

A dict display makes a record where its dict is mutated by constant keys (`Facts.records`), or where dicts of its keys
are written to as rows (`Facts.changing`). A record that is stored, or merged with another one, is a row as soon as it
has all its keys; until then, and if it is never stored, its values are variables.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache

from acronumba.frontend.handlers import METHODS, STORED, handles
from acronumba.frontend.kinds.maps import DictVal, constant_value
from acronumba.frontend.kinds.nested import Nested
from acronumba.frontend.kinds.numbers import NoneVal
from acronumba.frontend.kinds.objects import Ref
from acronumba.frontend.kinds.records import Keys, KnownKeys, Record, RecordView, class_of_keys, field_name
from acronumba.frontend.kinds.value import Constant, Index, Val
from acronumba.frontend.made import store_field
from acronumba.frontend.magic import index_value
from acronumba.frontend.names import name_views
from acronumba.frontend.walker import Walker


def all_names(keys: Sequence[Constant]) -> bool:
    """Whether keys are those of a record: strings."""
    return all(type(k) is str for k in keys)


def makes_record(w: Walker, place: Hashable, keys: Keys) -> bool:
    """Whether a dict display of constant keys makes a record."""
    if not all_names(keys) or w.block is None:
        return False
    if (place, keys) in w.facts.records:
        return True
    if not keys:
        return w.here in _filled_by_name(w.frame.func.source.node)
    return class_of_keys(keys) in w.facts.changing


def new_record(w: Walker, place: Hashable, known: Mapping[str, Val]) -> Val:
    """Return a new record; its row, if it is one."""
    keys = tuple(known)
    final = w.facts.records.setdefault((place, keys), keys)
    w.counter += 1
    out = Record(class_of_keys(final), ("object", w.counter), place, keys)
    w.state[out.key, ""] = KnownKeys(keys)
    for key, val in known.items():
        _bind(w, out, key, val)
    return _completed(w, out)


def _bind(w: Walker, val: Record, key: str, item: Val) -> None:
    w.kept(item)
    name_views(item)
    w.state[val.key, field_name(key)] = item


def _completed(w: Walker, val: Record) -> Val:
    """Return a record, or its row from now on, if it is one and has all its keys."""
    found = val.marker(w)
    if isinstance(found, Nested):
        return found
    if val.site not in w.facts.rows or found.keys != val.cls.shape.keys or w.block is None:
        return val
    w.building.add(val.key)
    row = Nested(val.cls, w.new_row(val.cls, val.fields(w)), own=True)
    w.building.discard(val.key)
    w.note(w.facts.changing, val.cls)
    w.state = {k: v for k, v in w.state.items() if k[0] != val.key}
    w.state[val.key, ""] = row
    return row


@lru_cache(maxsize=1024)
def _filled_by_name(function: ast.AST) -> frozenset[ast.AST]:
    """Return the displays `{}` and calls `dict()` in a function that are names to which it adds constant keys.

    Where a loop variable is a key, it may be constant: the loop is over constant names. It is a guess: a record to
    which other keys are added becomes a hash table.
    """
    added: dict[str, bool] = {}
    targets = {n.target.id for n in ast.walk(function) if isinstance(n, ast.For) and isinstance(n.target, ast.Name)
               and isinstance(n.iter, ast.Tuple | ast.List | ast.Name)}  # fmt: skip
    for n in ast.walk(function):
        match n:
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store(), slice=key):
                plain = isinstance(key, ast.Constant) and type(key.value) is str
                good = plain or (isinstance(key, ast.Name) and key.id in targets)
                added[name] = added.get(name, True) and good
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Del()):
                added[name] = False
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="pop" | "popitem" | "clear")):
                added[name] = False
    out = set[ast.AST]()
    for n in ast.walk(function):
        match n:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ) if added.get(name):
                empty = isinstance(value, ast.Dict) and not value.keys
                if empty or (isinstance(value, ast.Call) and not value.args and not value.keywords):
                    out.add(value)
    return frozenset(out)


# ---- keys stored


@handles(STORED, Record)
def set_key(w: Walker, base: Record, where: Index, val: Val) -> None:
    """`d[k] = v`; a new key is the last one."""
    found = base.marker(w)
    if isinstance(found, Nested):
        set_field(w, found, where, val)
        return
    key = w.static(index_value(where))
    if type(key) is not str:
        raise base.demoted(w)
    w.check_poison(val)
    if key not in found.keys:
        _add_key(w, base, found.keys, key)
    _bind(w, base, key, val)
    if key not in found.keys:
        _completed(w, base)


def _add_key(w: Walker, base: Record, keys: Keys, key: str) -> None:
    now = (*keys, key)
    final = w.facts.records[base.site, base.first]
    if final[: len(now)] != now:
        if final != keys:
            raise base.demoted(w)
        w.facts.records[base.site, base.first] = now
        w.facts.changed = w.facts.stale = True
        if now in w.facts.keyed:
            raise base.demoted(w)
    w.state[base.key, ""] = KnownKeys(now)


@handles(STORED, Nested)
def set_field(w: Walker, base: Nested, where: Index, val: Val) -> None:
    """`d[k] = v` of a row, whose keys stay the same."""
    base.mutable(w)
    shape, key = base.cls.shape, w.static(index_value(where))
    if key not in base.keys:
        base.hashed(w)
    store_field(w, Ref((base.cls,), base.var, base.own), shape.names[base.keys.index(key)], val)


@handles(STORED, DictVal)
def _set_in_known(w: Walker, base: DictVal, where: Index, val: Val) -> None:
    """`d[k] = v` of a dict that has not been mutated so far: it becomes a record, or a hash table."""
    from acronumba.frontend.keyed import put

    entries = base.hashed(w) if type(w.static(index_value(where))) is not str else base.mutable(w)
    put(w, entries, index_value(where), val)


# ---- methods


@handles(METHODS, Record, Nested)
def record_method(
    w: Walker, val: Record | Nested, name: str, args: Sequence[Val], kwargs: Mapping[str, Val]
) -> Val | None:
    """Call a method of a record, or of a row that may be mutated."""
    match name, args:
        case "keys" | "values" | "items", [] if not kwargs:
            return RecordView(val, name)
        case "update", [] | [_]:
            update_record(w, val, args, kwargs)
            return NoneVal()
        case "setdefault", [key, *default] if len(default) < 2 and not kwargs:
            if type(w.static(key)) is not str:
                val.hashed(w)
            known = val.contains(w, key)
            if known is None or known.const is not True:
                STORED[type(val)](w, val, key, default[0] if default else NoneVal())
            return val.get_item(w, key) if isinstance(val, Record) else val.row_item(w, key)
        case (("pop" | "popitem" | "clear"), _):
            val.hashed(w)
        case "get", [key, *_] if type(w.static(key)) is not str:
            val.hashed(w)
    return val.opened(w).method(w, name, args, kwargs)


def update_record(w: Walker, val: Val, args: Sequence[Val], kwargs: Mapping[str, Val]) -> None:
    """`d.update(e, k=v)`, of an `e` whose keys are known."""
    given: list[tuple[Val, Val]] = []
    for other in args:
        inner = other.unshared(w) if other.is_mapping else other
        if isinstance(inner, DictVal):
            given += [(constant_value(w, k), v) for k, v in zip(inner.keys, inner.items, strict=True)]
            continue
        items = w.items_of(inner)
        pairs = [w.items_of(item) or () for item in items or ()]
        if items is None or inner.is_mapping or any(len(pair) != 2 for pair in pairs):
            val.hashed(w)
        given += [(key, item) for key, item in pairs]
    for key, item in (*given, *((w.constant(k), v) for k, v in kwargs.items())):
        STORED[type(val)](w, val, key, item)


def record_in_place(w: Walker, old: Val, value: Val, stmt: ast.AugAssign) -> Val | None:
    """`d |= e` of a record, or of a row that may be mutated; None for other values and operators."""
    if not isinstance(stmt.op, ast.BitOr) or not isinstance(old, Record | Nested) or not old.is_mapping:
        return None
    update_record(w, old.mutable(w), (value,), {})
    return old
