"""Run-time dicts and sets: creation, and entries found, stored and removed by key.

A dict is a list of entries in insertion order, found by the words of a key (`ListOp`). Keys are ints, bools, strings,
members of enums, None and tuples of these; equal keys have equal words.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from types import FunctionType

from acronumba.frontend.calls.objects import is_tuple, runtime_class
from acronumba.frontend.conditions import host_value
from acronumba.frontend.exceptions import Dead
from acronumba.frontend.impossible import impossible
from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.lists import ElementInfo, ListVal
from acronumba.frontend.kinds.maps import MapVal, MapView, map_type
from acronumba.frontend.kinds.numbers import ALWAYS, EnumVal, Num, number
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import NOT_CONST, Val
from acronumba.frontend.lists import widen_items
from acronumba.frontend.loops import iterate, take_from, unless
from acronumba.frontend.names import alias
from acronumba.frontend.ordered import operands, operate
from acronumba.frontend.walker import Walker
from acronumba.ir import nodes as ir
from acronumba.ir.types import (
    BOOL,
    FLOAT,
    INT,
    NEVER,
    NONE,
    ORDER,
    BoolT,
    EnumT,
    IntT,
    ListT,
    NoneT,
    ScalarT,
    StrT,
    TensorT,
    TextT,
    TupleT,
    Type,
    element_type,
    members,
    type_text,
    union,
    words,
    wrong_key,
)


def new_map(w: Walker, pairs: Sequence[tuple[Val, Val]], is_set: bool = False) -> MapVal:
    """Return a run-time dict of keys and values, made at the current allocation site."""
    cell = w.cell(("dict", is_set, w.frame.path, *w.site))
    cell.real = True
    return filled(w, cell, pairs, is_set)


def filled(w: Walker, cell: ElementInfo, pairs: Sequence[tuple[Val, Val]], is_set: bool = False) -> MapVal:
    """Return a new run-time dict of keys and values with a given element info."""
    cell = cell.find()
    if cell.item == NEVER:
        cell.entries = True
        w.widen_cell(cell, TupleT((NEVER, NEVER if not is_set else ORDER if w.facts.ordered else NONE)))
    out = MapVal(cell, w.var("made", words(map_type(cell, is_set))[0]), set if is_set else dict)
    w.emit(ir.ListNew(out=out.var, width=out.width, args=(), count=0, loc=w.loc))
    for key, val in pairs:
        put(w, out, key, val)
    return out


# ---- keys


def key_of(w: Walker, val: Val) -> Val:
    """Return a value as a key of a dict; reject values that cannot be keys."""
    if val.is_several:
        return _key_of_several(w, val)
    val = _plain_record(w, val)
    if isinstance(val, TupleVal):
        items = tuple(key_of(w, v) for v in val.items)
        for v in items:
            check_key(w, w.type_of(v))
        return TupleVal(items, val.cls)
    if is_tuple(val):
        check_key(w, w.type_of(val))
        return val
    if isinstance(val, Tensor) and not val.type.rank and not val.type.dtype.startswith("float"):
        index = w.as_int(host_value(w, val, "a key of a dict", index=True))
        return replace(index, dtype=val.type.dtype)
    key = val.as_key(w)
    if key is None:
        rejection = w.reject("ACR309", seen=f"a key {w.describe(val)}", rewrite=_on_the_object(w, val))
        raise impossible(w, hash, (val,), rejection)
    return key


def _on_the_object(w: Walker, val: Val) -> str:
    """Return the rewrite of an object as a key: an attribute of it. "" for values that are no objects of classes."""
    if not val.object_classes() or is_tuple(val):
        return ""
    match w.here:
        case ast.Subscript(value=ast.Name(id=held), slice=ast.Name(id=name)):
            return f"keep it on the object: `{name}.{held} = ...`, and `{name}.{held}` in place of `{held}[{name}]`"
        case ast.Compare(left=ast.Name(id=name), comparators=[ast.Name(id=held)]):
            return f"give the objects numbers: `{name}.number in {held}`"
    return "keep it on the object: an attribute, as in `node.state = ...`; or give the objects numbers"


def _plain_record(w: Walker, val: Val) -> Val:
    """Return a NamedTuple without comparisons of its own as a tuple that knows its class; other values as they are."""
    val = val.unshared(w) if is_tuple(val) else val
    cls = val.object_classes()[0] if is_tuple(val) and val.object_classes() else None
    if cls is None or any(isinstance(w.source_guard.attribute(cls, n), FunctionType) for n in ("__eq__", "__hash__")):
        return val
    items = w.items_of(val)
    return val if items is None else TupleVal(items, cls)


def _key_of_several(w: Walker, val: Val) -> Val:
    """Return a value of one of several types as a key of a dict; it fails where it is a list or dict."""
    for cls in (list, dict, set):
        val = unless(w, val, lambda t: runtime_class(t) is cls, f"unhashable type: '{cls.__name__}'")  # noqa: B023
    if not val.is_several:
        return key_of(w, val)
    types = members(w.type_of(val))
    if not any(isinstance(t, TensorT) for t in types):
        for t in types:
            if t != FLOAT or len(types) == 1:
                check_key(w, t)
        return val

    def one(v: Val) -> Val:
        key = key_of(w, v)  # an int, if it is one on any path: the key's words do not tell
        return replace(key, dtype="") if isinstance(key, Num) and INT in types else key

    got = w.each(val, one)
    if w.block is None:
        raise Dead
    return got


def check_key(w: Walker, t: Type) -> None:
    """Reject a type of keys in which equal keys may have different words."""
    wrong = wrong_key(t)
    if wrong:
        rewrite = "keys of one type: int(k)" if wrong.endswith("equal") else ""
        raise w.reject("ACR309", seen=f"keys {wrong}", rewrite=rewrite)


def fitted(w: Walker, key: Val, t: Type) -> Val | None:
    """Convert a key to the key type of a dict; None if no key of that type is equal to it."""
    kinds = members(t)
    if union(t, w.type_of(key)) == t:
        return key
    if isinstance(key, Num):
        return _fitted_number(w, key, kinds)
    if issubclass(key.python_class, int) and INT in kinds:  # a member of an enum
        return host_value(w, key, "a key of a dict", index=True)
    if issubclass(key.python_class, str) and any(isinstance(m, EnumT) and issubclass(m.cls, str) for m in kinds):
        raise w.reject("ACR309", seen="a string where the keys are members of an enum")
    several = [m for m in kinds if isinstance(m, TupleT | ListT)]
    if not isinstance(key, TupleVal):
        if is_tuple(key) and several:
            raise w.reject("ACR309", seen=f"{type_text(w.type_of(key))} where the keys are {type_text(t)}")
        return None
    for m in several:
        if isinstance(m, ListT) or len(m.items) == len(key.items):
            types = (m.item,) * len(key.items) if isinstance(m, ListT) else m.items
            return _fitted_parts(w, key, types, m.cls if isinstance(m, TupleT) else tuple)
    return None


def _fitted_number(w: Walker, key: Num, kinds: Sequence[Type]) -> Val | None:
    """Convert a number to one of several types of keys."""
    scalar = next((m for m in kinds if isinstance(m, ScalarT)), None)
    if INT in kinds:
        return replace(w.as_int(key), dtype="")
    if scalar is not None:
        return replace(w.as_int(key), dtype=scalar.dtype)
    if any(isinstance(m, EnumT) and issubclass(m.cls, int) for m in kinds):
        raise w.reject("ACR309", seen="an int where the keys are members of an enum")
    return None


def _fitted_parts(w: Walker, key: TupleVal, types: Sequence[Type], cls: type) -> TupleVal | None:
    parts = [fitted(w, v, u) for v, u in zip(key.items, types, strict=True)]
    got = [p for p in parts if p is not None]
    return TupleVal(tuple(got), cls) if len(got) == len(parts) else None


def with_texts(kept: Type, asked: Type) -> Type:
    """Widen a key type so that keys of type `asked` can be found in it.

    Constant strings become run-time strings, and tuples of known length become tuples of run-time length.
    """
    for a in members(asked):
        for k in members(kept):
            match k, a:
                case StrT(), TextT():
                    return union(kept, a)
                case TupleT(), TupleT() if len(k.items) == len(a.items):
                    kept = union(kept, TupleT(tuple(map(with_texts, k.items, a.items)), cls=k.cls))
                case TupleT(cls=cls), _ if cls is not tuple:
                    pass
                case (ListT() | TupleT()) as old, (ListT() | TupleT()) as new if ListT in (type(old), type(new)):
                    item = with_texts(element_type(old), element_type(new))
                    wide = union(item, element_type(new))
                    kept = union(kept, ListT(item if wrong_key(wide) else wide, tupled=True))
    return kept


def _by_length(w: Walker, key: ListVal, t: Type, one: Callable[[Val], Val]) -> Val:
    """Find a tuple of run-time length among keys that are tuples of known lengths."""
    n = w.ops.list_lengths(key)

    def of_length(length: int) -> Val:
        return one(TupleVal(tuple(key.item_at(w, number(k)) for k in range(length))))

    lengths = sorted({len(m.items) for m in members(t) if isinstance(m, TupleT)})
    cases = ((w.scalar("eq", n, number(length)), partial(of_length, length)) for length in lengths)
    return w.switch(chain(cases, [(ALWAYS, lambda: number(-1))]))


def _has_several(val: Val) -> bool:
    """Whether a key is a tuple with a part of several types."""
    return isinstance(val, TupleVal) and any(v.is_several or _has_several(v) for v in val.items)


def _each_part(w: Walker, part: Val, one: Callable[[Val], Val]) -> Val:
    """Return `one` of a part of a key, for each of its types, also of parts of it."""
    if part.is_several:
        return w.each(part, one)
    assert isinstance(part, TupleVal)
    k = next(k for k, v in enumerate(part.items) if v.is_several or _has_several(v))
    before, after = part.items[:k], part.items[k + 1 :]
    return _each_part(w, part.items[k], lambda v: one(TupleVal((*before, v, *after), part.cls)))


_NUMBERS = (IntT, BoolT, ScalarT, EnumT)  # types of keys that may equal a float


def find(w: Walker, base: MapVal, key: Val) -> Num:
    """Return the index of the entry of a key; a negative number if the dict does not have it."""
    if FLOAT in members(w.type_of(key)) and not any(isinstance(m, _NUMBERS) for m in members(base.type.key)):
        got = w.each(key, lambda v: find(w, base, v)) if key.is_several else number(-1)  # it equals no key
        if w.block is None or not isinstance(got, Num):
            raise Dead
        return got
    key = key_of(w, key)
    loose = TupleT((with_texts(base.type.key, w.type_of(key)), base.type.entry.items[1]))
    if loose != base.type.entry and not base.cell.find().fixed:
        widen_items(w, base, loose)

    def one(val: Val) -> Val:
        if isinstance(val, Num) and val.type != BOOL and _are_bools(base.type.key):
            return _find_bool(w, base, val)
        if isinstance(val, Num) and val.type == FLOAT:
            if key.is_several and all(isinstance(m, StrT | TextT | NoneT) for m in members(base.type.key)):
                return number(-1)
            among_ints(w, base, val)
            whole = as_whole(w, val)
            near = find(w, base, whole)
            return w.select(w.scalar("eq", w.as_float(whole), w.read(val)), near, number(-1))
        if isinstance(val, ListVal) and not any(isinstance(m, ListT) for m in members(base.type.key)):
            return _by_length(w, val, base.type.key, one)
        if _has_several(val) and union(base.type.key, w.type_of(val)) != base.type.key:
            return _each_part(w, val, one)
        fit = fitted(w, val, base.type.key)
        if fit is None:
            return number(-1)
        out = w.var("entry", INT)
        if w.block is not None:
            args = (base.var, *w.to_words(fit, base.type.key))
            w.emit(ir.ListOp(outs=(out,), op="find", width=base.width, args=args, loc=w.loc))
        return Num(INT, var=out)

    inside = union(base.type.key, w.type_of(key)) == base.type.key
    got = one(key) if inside else w.each(key, one)
    if w.block is None or not isinstance(got, Num):
        raise Dead
    return got


def among_strings(w: Walker, key: Val, strings: bool) -> Val:
    """Return a key that is looked up; it fails where all keys are `strings`, and it equals no string."""
    cls = key.python_class
    unhashable = issubclass(cls, list | dict | set)
    if not strings or not (unhashable or is_tuple(key) or issubclass(cls, int | float)):
        return key
    error = "TypeError" if unhashable else "KeyError"
    if is_tuple(key) and (w.catches("TypeError") or w.catches("KeyError")):
        return key  # which of them depends on the items
    text = f"unhashable type: '{cls.__name__}'" if unhashable else "the dict has no such key"
    rewrite = "a key that is an int: int(x)" if issubclass(cls, float) else ""
    rejection = w.reject("ACR309", seen=f"a key {w.describe(key)} where all keys are strings", rewrite=rewrite)
    raise w.fails(error, rejection, text)


def _are_bools(t: Type) -> bool:
    """Whether the numbers among the keys of a dict are bools."""
    return BOOL in members(t) and INT not in members(t)


def _find_bool(w: Walker, base: MapVal, key: Num) -> Num:
    """Return the index of the entry of a number, 0 or 1, in a dict whose keys are bools; a negative number for none."""
    whole = as_whole(w, key) if key.type == FLOAT else replace(w.read(key), dtype="")
    is_one = w.scalar("eq", whole, number(1))
    fits = w.either(is_one, w.scalar("eq", whole, number(0)))
    if key.type == FLOAT:
        fits = w.both(fits, w.scalar("eq", w.as_float(whole), w.read(key)))
    return w.select(fits, find(w, base, is_one), number(-1))


def present(w: Walker, index: Num) -> Num:
    """Return whether `find` has found an entry, as a bool."""
    return w.scalar("ge", index, number(0))


def found(w: Walker, base: MapVal, key: Val) -> Num:
    """Return the index of the entry of a key; the instance fails where the dict does not have it."""
    kinds = members(base.type.key)
    key = among_strings(w, key, bool(kinds) and all(isinstance(m, StrT | TextT) for m in kinds))
    index = find(w, base, key)
    known = w.static(key)
    text = "the dict has no such key" if known is NOT_CONST else repr(known).replace("{", "{{").replace("}", "}}")
    w.check(present(w, index), "KeyError", text, told=(key,))
    if w.block is None:
        raise Dead
    return index


# ---- entries


def put(w: Walker, base: MapVal, key: Val, val: Val) -> None:
    """Store a value under a key."""
    base.mutable(w)
    key = key_of(w, key)
    if key.is_several and INT not in members(w.type_of(key)):
        key = unless(w, key, partial(operator.eq, FLOAT), "a key that is a float: int(x)", ours=True)
    key = old_key(w, base, key)
    kept = base.type.key
    if isinstance(key, EnumVal | Num) and kept != NEVER:
        check_key(w, union(kept, w.type_of(key)))
    alias(val)
    val = _as_stored(w, base.cell.find(), val)
    w.put_in(base.cell, val)
    t = TupleT((w.type_of(key), base.type.entry.items[1] if base.is_set else w.type_of(val)))
    check_key(w, union(kept, t.items[0]))
    widen_items(w, base, t)
    if w.block is None:
        return
    inner = base.type
    stored = () if inner.item is None else w.to_words(val, inner.item)
    args = (base.var, *w.to_words(key, inner.key), *stored)
    if w.block is not None:
        w.emit(ir.ListOp(outs=(), op="put", width=base.width, args=args, loc=w.loc))


def _as_stored(w: Walker, cell: ElementInfo, val: Val) -> Val:
    """Return a `defaultdict` or `Counter` as the dict as which it is stored; the element info knows its class."""
    inner, *extra = val.children() if isinstance(val, MapVal) and not val.is_plain else (val,)
    factory = w.static(extra[0]) if extra else None
    if factory is NOT_CONST:
        return val
    w.same_kind(cell, ElementInfo(cell.item, kind=None if inner is val else (val.python_class, factory)))
    return inner


def old_key(w: Walker, base: MapVal, key: Val) -> Val:
    """Convert a number to the type of a dict's keys; a number of another type must equal an existing key.

    In Python an existing key stays, while a new key would keep its own type.
    """
    kinds = members(w.type_of(key)) if key.is_several else ()
    if FLOAT in kinds:
        if INT in kinds and not wrong_key(union(base.type.key, INT)):
            widen_items(w, base, TupleT((INT, base.type.entry.items[1])))
        return w.each(key, lambda v: old_key(w, base, v))
    if not isinstance(key, Num):
        return key
    if key.type == FLOAT:
        among_ints(w, base, key)
        text = "a new key that is a float, among keys that are ints: make them of one type, int(k)"
        w.check(present(w, find(w, base, key)), "TypeError", text, ours=True)
        return as_whole(w, key)
    scalars = [m for m in members(base.type.key) if isinstance(m, ScalarT) and m.dtype != key.dtype]
    if not scalars and not (key.dtype and INT in members(base.type.key)):
        return key
    seen = f"np.{key.dtype}" if key.dtype else type_text(key.type)
    text = f"a new key of type {seen} among keys of type {type_text(base.type.key)}: make them of one type, int(k)"
    w.check(present(w, find(w, base, key)), "TypeError", text, ours=True)
    fit = fitted(w, key, base.type.key)
    assert fit is not None
    return fit


def among_ints(w: Walker, base: MapVal, key: Num) -> None:
    """Reject a float as a key, unless the dict has int keys, to one of which it may be equal."""
    if INT not in members(base.type.key):
        raise w.reject("ACR309", seen=f"a key {w.describe(key)}", rewrite="a key that is an int: int(x)")


def as_whole(w: Walker, val: Num) -> Num:
    """Return a float truncated to an int; an arbitrary int if it is out of range or not finite."""
    val = w.read(val)
    fits = w.both(w.scalar("ge", val, number(-(2.0**63))), w.scalar("lt", val, number(2.0**63)))
    return w.scalar("trunc", w.select(fits, val, number(0.0)))


def check_not_walked(w: Walker, base: MapVal) -> None:
    """Note the removal of an entry: a loop over the dict must end, as the order of the rest may not be Python's."""
    kind = "set" if base.is_set else "dict"
    seen = f"an entry is taken out of a {kind} over which an iterator or loop goes on"
    take_from(w, base.cell, bool(base.is_set), w.reject("ACR209", seen=seen, rewrite="loop over list(d)"))


def take_out(w: Walker, base: MapVal, index: Num) -> None:
    """Remove the entry at an index."""
    base.mutable(w)
    check_not_walked(w, base)
    args = (base.var, w.word(index))
    w.emit(ir.ListOp(outs=(), op="remove", width=base.width, args=args, loc=w.loc))


def erase(w: Walker, base: MapVal) -> None:
    """Remove all entries."""
    base.mutable(w)
    check_not_walked(w, base)
    w.emit(ir.ListOp(outs=(), op="erase", width=base.width, args=(base.var,), loc=w.loc))


def update(w: Walker, base: MapVal, other: MapVal) -> None:
    """Store all entries of another dict, or elements of another set."""
    base.mutable(w)
    if other.type.key == NEVER:
        return
    w.mix(base.cell, other.cell.pure)
    w.same_kind(base.cell.find(), other.cell.find())
    check_key(w, union(base.type.key, other.type.key))
    if base.is_set:
        widen_items(w, base, TupleT((other.type.key, base.type.entry.items[1])))
        if base.type.ordered:
            operate(w, "update", base, *operands(w, base, other))
            return
        if other.type.key == base.type.key:
            operate(w, "update", base, other)
            return
    widen_items(w, base, other.type.entry)
    if other.type.given and other.type.entry != base.type.entry:
        _put_each(w, base, other)
        return
    if other.type.entry != base.type.entry:
        w.unify_cells(base.cell, other.cell)
    if w.block is not None:
        args = (base.var, other.var)
        w.emit(ir.ListOp(outs=(), op="update", width=base.width, args=args, loc=w.loc))


def add_keys(w: Walker, base: MapVal, other: MapVal) -> None:
    """`s.update(d)` of a set in Python's order and a dict."""
    widen_items(w, base, TupleT((other.type.key, ORDER)))
    if other.type.key == NEVER:
        return
    if other.type.key != base.type.key:
        with w.at_node(w.beside("keys")):
            keys = new_map(w, ())
        widen_items(w, keys, TupleT((base.type.key, INT)))
        iterate(w, MapView(other, "keys"), lambda key: put(w, keys, key, number(0)))
        other = keys
    operate(w, "update", base, other)


def _put_each(w: Walker, base: MapVal, other: MapVal) -> None:
    """Store the entries of an input dict one by one, as entries of the target have a wider type."""

    def turn(entry: Val) -> None:
        assert isinstance(entry, TupleVal)
        key, val = entry.items
        put(w, base, key, val)

    iterate(w, MapView(other, "entries"), turn)


def copied(w: Walker, base: MapVal, what: str = "copy") -> MapVal:
    """Return a new dict with the same entries."""
    if base.type.given and base.type.python not in (dict, set):
        seen = f"a copy of a {base.type.python.__name__} that came in, with its default"
        raise w.reject("ACR209", seen=seen, rewrite="dict(d)")
    with w.at_node(w.beside(what)):
        out = new_map(w, (), base.is_set)
    update(w, out, base)
    return replace(out, cls=base.cls, extra=base.extra)


def set_default(w: Walker, base: MapVal, key: Val, make: Callable[[], Val]) -> Val:
    """Return the value of a key; if the dict does not have it, first store the value of `make()`."""
    index = find(w, base, key)

    def absent() -> Val:
        last = base.length(w)
        put(w, base, key, make())
        return last

    place = w.cond(present(w, index), lambda: index, absent)
    assert isinstance(place, Num)
    return base.value_at(w, place)
