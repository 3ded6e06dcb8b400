"""Syntax of dicts and sets: displays, comprehensions, items read, stored and deleted, `in`, `==`, operators.

A dict with constant keys that is never mutated exists only in the compiler (`DictVal`); any other is made at run time.
"""

from __future__ import annotations

import ast
import operator
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from acronumba.frontend.comparisons import compare_values, same_element, search
from acronumba.frontend.comprehensions import as_iterable, go_on_where, own_names
from acronumba.frontend.conditions import truth
from acronumba.frontend.exceptions import Dead, Rejected, Restart
from acronumba.frontend.handlers import CONTAINS, EQUALS, EXPRESSIONS, INDEXED, OPERANDS, handles
from acronumba.frontend.impossible import impossible
from acronumba.frontend.keyed import (
    add_keys,
    among_strings,
    check_not_walked,
    copied,
    erase,
    find,
    found,
    key_of,
    new_map,
    present,
    put,
    set_default,
    take_out,
    update,
)
from acronumba.frontend.kinds.errors import ErrorValue
from acronumba.frontend.kinds.functions import Static, can_be_chosen
from acronumba.frontend.kinds.lists import StaticList
from acronumba.frontend.kinds.maps import DictVal, MapVal, MapView, constant_value
from acronumba.frontend.kinds.numbers import ALWAYS, NoneVal, Num, number
from acronumba.frontend.kinds.objects import SharedVal
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.unions import several_sets
from acronumba.frontend.kinds.value import NOT_CONST, Constant, Val
from acronumba.frontend.loops import items_in_turn, iterate
from acronumba.frontend.magic import same_reference
from acronumba.frontend.names import part_of
from acronumba.frontend.ordered import as_ordered, constants, empty, operands, operate
from acronumba.frontend.records import makes_record, new_record
from acronumba.frontend.walker import Walker
from acronumba.ir.types import FLOAT, members, wrong_key

Pairs = Sequence[tuple[Val, Val]]


def constant_key(w: Walker, key: Val) -> Constant:
    """Return the constant value of a key; NOT_CONST if it has none, or is not hashable."""
    known = NOT_CONST if isinstance(key, StaticList) else w.static(key)
    try:
        hash(known)
    except TypeError:
        return NOT_CONST
    return known


def new_dict(w: Walker, pairs: Pairs) -> Val:
    """Return a dict of keys and values, made at the current allocation site."""
    place = ("dict", False, w.frame.path, *w.site)
    cell = w.cell(place)
    known: dict[Constant, Val] = {}
    for key, val in pairs:
        constant = constant_key(w, key)
        if constant is NOT_CONST or type(constant) is float:
            break
        known[constant] = val
    else:
        keys = tuple(known)
        w.displays.add(keys)
        final = w.facts.records.get((place, keys), keys)
        if not cell.find().real and w.facts.keyed.isdisjoint((keys, final)) and place not in w.facts.hashed:
            if makes_record(w, place, keys):
                return new_record(w, place, known)
            if known:
                return DictVal(keys, tuple(known.values()), cell, (place,))
    return new_map(w, pairs)


def real(w: Walker, val: DictVal) -> MapVal:
    """Return a new run-time dict with the items of a dict of constant keys."""
    pairs = [(constant_value(w, k), v) for k, v in zip(val.keys, val.items, strict=True)]
    return new_map(w, pairs)


def as_map(w: Walker, val: Val) -> MapVal | None:
    """Return a dict as a run-time dict for reading; None if the value is no dict or set."""
    val = val.unshared(w) if val.is_mapping else val
    if isinstance(val, DictVal):
        with w.at_node(w.beside("read")):
            return real(w, val)
    return val if isinstance(val, MapVal) else None


# ---- displays and comprehensions


@handles(EXPRESSIONS, ast.Dict)
def _dict(w: Walker, node: ast.Dict) -> Val:
    if None in node.keys:
        return _merged(w, node)
    pairs = [(w.expr(k), part_of(w, v)) for k, v in zip(node.keys, node.values, strict=True) if k is not None]
    return new_dict(w, pairs)


def _merged(w: Walker, node: ast.Dict) -> Val:
    """`{**a, k: v}`."""
    parts: list[MapVal | Pairs] = []
    for k, v in zip(node.keys, node.values, strict=True):
        val = w.expr(k) if k is not None else None
        inner = part_of(w, v)
        if val is not None:
            parts.append([(val, inner)])
            continue
        inner = inner.unshared(w)
        if isinstance(inner, DictVal):
            parts.append([(constant_value(w, key), item) for key, item in zip(inner.keys, inner.items, strict=True)])
        elif isinstance(inner, MapVal) and not inner.is_set:
            parts.append(inner)
        else:
            raise w.reject("ACR301", v, seen=f"** of {w.describe(inner)}")
    known = [p for p in parts if not isinstance(p, MapVal)]
    if len(known) == len(parts):
        return new_dict(w, [pair for p in known for pair in p])
    out = new_map(w, ())
    for p in parts:
        if isinstance(p, MapVal):
            update(w, out, p)
            continue
        for key, val in p:
            put(w, out, key, val)
    return out


@handles(EXPRESSIONS, ast.Set)
def _set(w: Walker, node: ast.Set) -> Val:
    out = new_map(w, (), is_set=True)
    known = constants(w, node) if out.type.ordered else None
    if known is not None:
        return _constant(w, node, out, *known)
    for e in node.elts:
        if isinstance(e, ast.Starred):
            with w.at_node(e):
                put_all(w, out, w.expr(e.value))
        else:
            put(w, out, w.expr(e), number(0))
    return out


def _constant(w: Walker, node: ast.Set, out: MapVal, order: Sequence[ast.expr], again: int) -> MapVal:
    """Return a display of constants: a copy of a set that Python has made."""
    made = as_ordered(w, new_map_at(w, "constants", [(w.expr(e), number(0)) for e in order]))
    for k in range(again):
        before, made = made, new_map_at(w, f"constants{k}")
        iterate(w, before, partial(put, w, made, val=number(0)))
        made = as_ordered(w, made)
    if getattr(node, "iterated", False):
        return made
    update(w, out, made)
    return out


def new_map_at(w: Walker, what: str, pairs: Pairs = ()) -> MapVal:
    """Return a new set with an allocation site of its own at the current node."""
    with w.at_node(w.beside(what)):
        return new_map(w, pairs, is_set=True)


def put_all(w: Walker, out: MapVal, iterable: Val) -> None:
    """Put the elements of an iterable into a set, or its pairs into a dict."""
    other = as_map(w, iterable) if out.is_set is False or isinstance(iterable, MapVal) else None
    if other is not None and other.is_set is out.is_set:
        update(w, out, other)
        return
    if out.type.ordered:
        other = as_map(w, iterable)
        if other is not None and other.cls is dict:
            add_keys(w, out, other)
            return
        iterable = as_iterable(w, iterable, at_once=False)

    def turn(item: Val) -> None:
        if out.is_set:
            put(w, out, item, number(0))
            return
        pair = w.items_of(item)
        if pair is None or len(pair) != 2:
            raise w.reject("ACR301", seen=f"{w.describe(item)} where a key and a value are expected")
        put(w, out, *pair)

    iterate(w, iterable, turn)


@handles(EXPRESSIONS, ast.DictComp, ast.SetComp)
def _comprehension(w: Walker, node: ast.DictComp | ast.SetComp) -> Val:
    first = w.expr(node.generators[0].iter)
    with own_names(w, node.generators, *((node.key, node.value) if isinstance(node, ast.DictComp) else ())):
        pairs = _known_pairs(w, node, first)
        if pairs is not None:
            return new_dict(w, pairs)
        out = new_map(w, (), is_set=isinstance(node, ast.SetComp))
        _generate(w, node, 0, first, out)
        return out


def _known_pairs(w: Walker, node: ast.DictComp | ast.SetComp, iterable: Val) -> Pairs | None:
    """Return the pairs of a dict comprehension over known items with constant keys and no conditions; else None."""
    items = None if iterable.is_lazy else w.items_of(iterable)
    if isinstance(node, ast.SetComp) or len(node.generators) > 1 or node.generators[0].ifs or items is None:
        return None
    out = []
    before = w.mark()
    for item in items_in_turn(w, iterable, items):
        w.assign(node.generators[0].target, item)
        key = w.expr(node.key)
        if constant_key(w, key) is NOT_CONST:
            w.go_back(before)
            return None
        out.append((key, part_of(w, node.value)))
    return out


def _generate(w: Walker, node: ast.DictComp | ast.SetComp, k: int, iterable: Val, out: MapVal) -> None:
    """Walk a comprehension from its k-th `for` on."""
    gen = node.generators[k]
    if gen.is_async:
        raise w.reject("ACR104")
    parts = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
    conditions = [c for g in node.generators[k:] for c in g.ifs]
    code = ast.For(gen.target, gen.iter, [ast.Expr(e) for e in (*parts, *conditions)], [])

    def turn(item: Val) -> None:
        w.assign(gen.target, item)
        go_on_where(w, gen.ifs)
        if k + 1 < len(node.generators):
            _generate(w, node, k + 1, w.expr(node.generators[k + 1].iter), out)
            return
        key = w.expr(parts[0])
        put(w, out, key, part_of(w, parts[1]) if len(parts) > 1 else number(0))

    iterate(w, iterable, turn, code)


# ---- items


@handles(INDEXED, SharedVal)
def _shared_item(w: Walker, base: SharedVal, where: Val) -> Val | None:
    """`d[k]`; None for a shared value that is no dict."""
    if not base.is_mapping:
        return None
    known = constant_key(w, where)
    part = None if known is NOT_CONST else base.node.item(known)
    return w.materialise(base, part=True).get_item(w, where) if part is None else w.shared_value(part)


@handles(INDEXED, DictVal)
def _known_item(w: Walker, base: DictVal, where: Val) -> Val:
    if where.is_several and wrong_key(w.type_of(where)):
        return w.each(where, lambda key: known_or(w, base, key, None))
    return known_or(w, base, where, None)


@handles(INDEXED, MapVal)
def _map_item(w: Walker, base: MapVal, where: Val) -> Val | None:
    """`d[k]` of a run-time dict; a `Counter` or `defaultdict` has a value for a missing key. None for a set."""
    if base.is_set:
        return None
    if base.cls is Counter:
        index = find(w, base, where)
        return w.cond(present(w, index), lambda: base.value_at(w, index), lambda: number(0))
    if base.type.python is defaultdict:  # an input
        return _without_default(w, base, where)
    make = base.extra
    if make is None or isinstance(make, NoneVal):
        return base.value_at(w, found(w, base, where))
    if base.is_input:
        return _without_default(w, base, where)
    return set_default(w, base, where, lambda: w.call(make, (), {}))


def _without_default(w: Walker, base: MapVal, where: Val) -> Val:
    """`d[k]` of a `defaultdict` that came in: the instance fails where it has no such key, as it would be stored."""
    index = find(w, base, where)
    w.check(present(w, index), "ACR113", "a missing key of a defaultdict that came in, whose value would be stored")
    return base.value_at(w, index)


def known_or(w: Walker, base: DictVal, where: Val, default: Val | None) -> Val:
    """Return the value of a key in a dict of constant keys, or the default; without either, the instance fails."""
    known = constant_key(w, where)
    items = dict(zip(base.keys, base.items, strict=True))
    if known is not NOT_CONST:
        if known in items:
            w.check_poison(items[known])
            got: Val = items[known]
            return got
        if default is not None:
            return default
        w.fail("KeyError", repr(known).replace("{", "{{").replace("}", "}}"), (where,))
        raise Dead
    if where.is_several and FLOAT in members(w.type_of(where)):
        return w.each(where, lambda v: known_or(w, base, v, default))
    if default is not None and isinstance(where, Num) and {*map(type, base.keys)} <= {str}:
        return default
    if default is None:
        where = among_strings(w, where, {*map(type, base.keys)} == {str})
    where = key_of(w, where)
    if base.cell is not None and not can_be_chosen(base.items):
        w.make_real(base.cell)
        raise Restart

    def missing() -> Val:
        if default is None:
            w.fail("KeyError", "the dict has no such key", (where,))
            raise Dead
        return default

    chosen = can_be_chosen(base.items)

    def case(key: Constant, item: Val) -> tuple[Num, Callable[[], Val]]:
        def read() -> Val:
            if _is_unreadable(item) or (not chosen and isinstance(item, Static) and not _is_storable(w, item)):
                w.fail("ACR501", f"the value under {key!r}".replace("{", "{{").replace("}", "}}"), ours=True)
                raise Dead
            return item

        return truth(w, compare_values(w, ast.Eq(), where, constant_value(w, key))), read

    return w.switch(chain(map(case, base.keys, base.items), [(ALWAYS, missing)]))


def _is_unreadable(item: Val) -> bool:
    """Whether an item of a shared dict is nothing that a model can read."""
    return isinstance(item, ErrorValue) and item.code == "ACR501"


def _is_storable(w: Walker, item: Static) -> bool:
    """Whether a function or other constant can be one of several values at run time."""
    try:
        w.type_of(item)
    except Rejected:
        return False
    return True


def rest_of_dict(w: Walker, base: Val, keys: Sequence[Val]) -> Val:
    """Return a new dict with the items of a dict but those of some keys, which it has."""
    base = base.unshared(w)
    if isinstance(base, DictVal):
        known = [constant_key(w, key) for key in keys]
        pairs = zip(base.keys, base.items, strict=True)
        return new_dict(w, [(constant_value(w, k), v) for k, v in pairs if k not in known])
    assert isinstance(base, MapVal)
    out = replace(copied(w, base), cls=dict, extra=None)
    for key in keys:
        take_out(w, out, find(w, out, key))
    return out


def delete_item(w: Walker, base: MapVal, where: Val) -> None:
    """`del d[k]`."""
    take_out(w, base, found(w, base, where))


@handles(CONTAINS, MapView)
def _in_view(w: Walker, key: Val, base: MapView) -> Num:
    """`x in d.items()`."""
    if base.what == "values":
        return search(w, key, base)
    pair = w.items_of(key) if base.what == "items" else (key,)
    if pair is None or (base.what == "items" and len(pair) != 2):
        raise w.reject("ACR301", seen=f"{w.describe(key)} in the items of a dict")

    def one(held: Val) -> Val:
        assert isinstance(held, MapVal)
        return same_entry(w, held, *pair) if base.what == "items" else _in_map(w, key, held)

    out = w.each(base.base, one)
    if w.block is None:
        raise Dead
    assert isinstance(out, Num)
    return out


@handles(CONTAINS, MapVal)
def _in_map(w: Walker, key: Val, base: MapVal) -> Num:
    return present(w, find(w, base, key))


@handles(CONTAINS, DictVal)
def _in_known(w: Walker, key: Val, base: DictVal) -> Num:
    """`k in d` of a dict with constant keys."""
    known = constant_key(w, key)
    if known is not NOT_CONST:
        return number(known in base.keys)
    out = number(False)
    if key.is_several and FLOAT in members(w.type_of(key)):
        found = w.each(key, lambda v: _in_known(w, v, base))
        if not isinstance(found, Num):
            raise Dead
        return found
    key = key if isinstance(key, Num) else key_of(w, key)
    for k in base.keys:
        out = w.either(out, truth(w, compare_values(w, ast.Eq(), key, constant_value(w, k))))
    return out


def same_entry(w: Walker, base: MapVal, key: Val, val: Val) -> Num:
    """Return whether a dict has an entry with this key and value, as a bool."""
    index = find(w, base, key)
    out = w.cond(present(w, index), lambda: same_element(w, base.value_at(w, index), val), lambda: number(False))
    assert isinstance(out, Num)
    return out


@handles(EQUALS, DictVal, MapVal)
def _compare(w: Walker, op: ast.cmpop, a: Val, b: Val) -> Num | None:
    """Compare dicts or sets; None if one of the values is neither."""
    if isinstance(a, DictVal) and isinstance(b, DictVal) and isinstance(op, ast.Eq | ast.NotEq):
        pairs = dict(zip(b.keys, b.items, strict=True))
        same = number(a.keys == b.keys or {*a.keys} == {*b.keys})
        for key, item in zip(a.keys, a.items, strict=True) if same.const else ():
            same = w.both(same, same_element(w, item, pairs[key], same))
        return same if isinstance(op, ast.Eq) else w.negate(same)
    if not a.is_mapping or not b.is_mapping:
        return None
    x, y = as_map(w, a), as_map(w, b)
    if x is None or y is None or not {x.cls, y.cls}.isdisjoint((Counter, OrderedDict)):
        return None
    return compare_maps(w, op, x, y)


def compare_maps(w: Walker, op: ast.cmpop, a: MapVal, b: MapVal) -> Num:
    """Compare two dicts or two sets: `==`, and for sets the subset tests."""
    if isinstance(op, ast.NotEq):
        return w.negate(compare_maps(w, ast.Eq(), a, b))
    if isinstance(op, ast.Gt | ast.GtE):
        return compare_maps(w, ast.Lt() if isinstance(op, ast.Gt) else ast.LtE(), b, a)
    if not isinstance(op, ast.Eq) and not (a.is_set and isinstance(op, ast.Lt | ast.LtE)):
        rejection = w.reject("ACR301", seen=f"{w.describe(a)} compared with {w.describe(b)}")
        raise impossible(w, operator.lt if isinstance(op, ast.Lt) else operator.le, (a, b), rejection)
    if a.is_set is not b.is_set:
        return number(False)
    name = {ast.Eq: "eq", ast.Lt: "lt", ast.LtE: "le"}[type(op)]
    test = w.scalar(name, a.length(w), b.length(w))
    return w.both(test, every(w, a, lambda key, val: inside(w, b, key, val)))


def inside(w: Walker, base: MapVal, key: Val, val: Val) -> Num:
    """Return whether a dict has an entry, or a set an element, as a bool."""
    if base.is_set:
        return present(w, find(w, base, key))
    return same_entry(w, base, key, val)


def every(w: Walker, base: MapVal, test: Callable[[Val, Val], Num]) -> Num:
    """Return whether a test holds for all entries, as a bool; the loop ends at the first that fails."""
    w.counter += 1
    key = (w.frame.scope, f"#every{w.counter}")
    w.state[key] = number(True)

    def turn(item: Val) -> None:
        assert isinstance(item, TupleVal)
        yes, no = w.fork(test(*item.items))
        for _, state in no:
            state[key] = number(False)
        w.frame.loops[-1].breaks += no
        w.join(yes)

    iterate(w, MapView(base, "entries"), turn, carried=(key,))
    out = w.state.pop(key)
    assert isinstance(out, Num)
    return out


# ---- operators


@handles(OPERANDS, DictVal, MapVal)
def _operator(w: Walker, op: ast.operator, a: Val, b: Val) -> Val | None:
    """Apply an operator to dicts or sets; None if they do not have it."""
    if not isinstance(op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor) or not a.is_mapping or not b.is_mapping:
        return None
    x, y = as_map(w, a), as_map(w, b)
    if x is None or y is None or (x.cls is not defaultdict and not (x.is_plain and y.is_plain)):
        return None
    return combine(w, op, x, y)


def combine(w: Walker, op: ast.operator, a: MapVal, b: MapVal) -> MapVal | None:
    """`a | b` of dicts; `|`, `&`, `-` and `^` of sets; None if there is no such operator."""
    if isinstance(op, ast.BitOr) and a.is_set is b.is_set:
        out = copied(w, a, "joined")
        join(w, out, a, b)
        return out
    if not (a.is_set and b.is_set) or not isinstance(op, ast.BitAnd | ast.Sub | ast.BitXor):
        return None
    out = new_map(w, (), is_set=True)
    if out.type.ordered:
        return _in_order(w, op, out, a, b)
    pick(w, out, MapView(a, "elements"), b, isinstance(op, ast.BitAnd))
    if isinstance(op, ast.BitXor):
        pick(w, out, MapView(b, "elements"), a, False)
    return out


def changed_in_place(w: Walker, op: ast.operator, base: MapVal, value: Val) -> MapVal:
    """`d |= e`: return the same dict or set, mutated."""
    if several_sets(value):
        w.each(value, lambda v: changed_in_place(w, op, base, v))
        return base
    other = as_map(w, value)
    if other is None or base.is_set != other.is_set or not (base.is_set or isinstance(op, ast.BitOr)):
        raise w.reject("ACR301", seen=f"{w.describe(base)} changed by {w.describe(value)}")
    if isinstance(op, ast.BitOr):
        update(w, base, other)
        return base
    if base.type.ordered:
        change_in_order(w, op, base, *operands(w, base, other))
        return base
    got = combine(w, op, base, other)
    assert got is not None
    erase(w, base)
    update(w, base, got)
    return base


def join(w: Walker, out: MapVal, a: MapVal, b: MapVal) -> None:
    """Put the elements of `b` into a copy of `a`, unless they are one set: it might get another order."""
    if not out.type.ordered or a.type.given is not b.type.given:
        update(w, out, b)
        return
    if_same(w, a, b, lambda: None, lambda: update(w, out, b))


def _in_order(w: Walker, op: ast.operator, out: MapVal, a: MapVal, b: MapVal) -> MapVal:
    """`&`, `-` and `^` of sets, whose result is in Python's order."""
    if isinstance(op, ast.BitXor):
        update(w, out, b)
        operate(w, "toggle", out, *operands(w, out, a))
        return out
    if isinstance(op, ast.BitAnd) and a.type.given and b.type.given:  # the copies do not tell whether it is one set
        if_same(w, a, b, lambda: update(w, out, a), lambda: operate(w, "meet", out, *operands(w, out, a, b)))
        return out
    both = operands(w, out, a) * 2 if a.var is b.var else operands(w, out, a, b)
    operate(w, "meet" if isinstance(op, ast.BitAnd) else "minus", out, *both)
    return out


def if_same(w: Walker, a: MapVal, b: MapVal, yes: Callable[[], None], no: Callable[[], None]) -> None:
    """Do one thing if two sets are one, else another."""

    def done(act: Callable[[], None]) -> Val:
        act()
        return NoneVal()

    w.cond(same_reference(w, a.var, b.var), lambda: done(yes), lambda: done(no))
    if w.block is None:
        raise Dead


def change_in_order(w: Walker, op: ast.operator, base: MapVal, other: MapVal) -> None:
    """`&=`, `-=` and `^=` of sets in Python's order."""
    base.mutable(w)
    check_not_walked(w, base)
    if isinstance(op, ast.BitAnd):
        operate(w, "narrow", base, empty(w, base), other)
        return
    operate(w, "exclude" if isinstance(op, ast.Sub) else "toggle", base, other)


def pick(w: Walker, out: MapVal, elements: Val, b: MapVal, wanted: bool) -> None:
    """Put the elements of an iterable into `out` that are in set `b`, or (not `wanted`) that are not in it."""

    def turn(item: Val) -> None:
        here = present(w, find(w, b, item))
        yes, no = w.fork(here)
        go, skip = (yes, no) if wanted else (no, yes)
        w.frame.loops[-1].continues += skip
        w.join(go)
        if w.block is not None:
            put(w, out, item, number(0))

    iterate(w, elements, turn)
