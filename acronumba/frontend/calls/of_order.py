"""Handlers of `min`, `max` and `sorted`, and the sorting of lists."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from acronumba.frontend.attributes import not_none
from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.tables import row
from acronumba.frontend.comparisons import compare_values, exact_parts
from acronumba.frontend.comprehensions import as_iterable, built, extend, to_list
from acronumba.frontend.conditions import host_value, truth
from acronumba.frontend.exceptions import Rejected
from acronumba.frontend.kinds.arrays import AMBIGUOUS, EMPTY, Tensor
from acronumba.frontend.kinds.iterators import Range, Zip
from acronumba.frontend.kinds.lists import ListVal
from acronumba.frontend.kinds.numbers import NoneVal, Num, number
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.unions import UnionVal
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.library.builtins import in_any_order, with_keys
from acronumba.frontend.library.numpy_orders import order_by_comparison
from acronumba.frontend.lists import list_slice, simple
from acronumba.frontend.loops import fold
from acronumba.frontend.subscripts import get_item
from acronumba.ir import nodes as ir
from acronumba.ir.types import (
    FLOAT,
    INT,
    NEVER,
    Array0T,
    BoolT,
    DictT,
    FloatT,
    IntT,
    ListT,
    MapT,
    StrT,
    StructT,
    TensorT,
    TextT,
    TupleT,
    Type,
    UnionT,
    members,
    type_text,
)

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


@row("*args key default", min, rank0="any")
def _min(w: Walker, a: Args) -> Val:
    return _extreme(w, a, "lt")


@row("*args key default", max, rank0="any")
def _max(w: Walker, a: Args) -> Val:
    return _extreme(w, a, "gt")


def _extreme(w: Walker, a: Args, op: str) -> Val:
    """`min` and `max`: of equal values the first, as in Python."""
    compare = ast.Lt() if op == "lt" else ast.Gt()
    keyed, what = not a.is_none("key"), "min()" if op == "lt" else "max()"
    default = a["default"] if "default" in a.given else None

    def key_of(v: Val) -> Val:
        return w.call(a["key"], (v,), {}) if keyed else v

    def pick(best: tuple[Val, Val], v: Val, k: Val) -> tuple[Val, Val]:
        test = truth(w, compare_values(w, compare, k, best[1]))
        if isinstance(v, Num) and isinstance(best[0], Num) and v.type == best[0].type and not keyed:
            out = w.select(test, w.read(v), w.read(best[0]))
            return out, out
        got = w.cond(test, lambda: TupleVal((v, k)), lambda: TupleVal(best))
        if not isinstance(got, TupleVal):
            raise Rejected(None)
        return got.items[0], got.items[1]

    if default is not None and len(a.rest) > 1:
        raise w.reject("ACR203", a.where["default"], seen=f"default= of {what} of several values")
    if not a.rest:
        raise w.reject("ACR203", seen=f"{what} without values")
    if len(a.rest) == 1:
        val = a.rest[0]
        if not keyed:
            val = in_any_order(w, val)
        if keyed and val.is_lazy:
            return _extreme_in_turn(w, w.constant(min if op == "lt" else max), val, a["key"], default)
        val = as_iterable(w, val)
        items = w.items_of(val)
    else:
        val, items = TupleVal(tuple(a.rest)), tuple(a.rest)
    if items is not None:
        if not items:
            if default is not None:
                return default
            w.fail("ValueError", "min() or max() of an empty sequence")
            return number(0)
        keys = [key_of(v) for v in items]
        if len(items) > 1 and any(_has_tensor(k.word_type()) for k in keys) and not _mixed(keys):
            keys = [_host_key(w, k, what) for k in keys]
        best = (items[0], keys[0])
        for v, k in zip(items[1:], keys[1:], strict=True):
            best = pick(best, v, k)
        return best[0]
    return _best_at_run_time(w, val, default, key_of, pick, what)


def _extreme_in_turn(w: Walker, func: Val, val: Val, key: Val, default: Val | None) -> Val:
    """`min` or `max` of a lazy iterator: the key of each item is computed before the next item is."""
    both = w.call(w.constant(with_keys), (val, key), {})
    w.check_poison(both)
    assert isinstance(both, TupleVal)

    def best() -> Val:
        second = w.call(w.constant(operator.itemgetter), (number(1),), {})
        return get_item(w, w.call(func, (Zip(both.items),), {"key": second}), number(0))

    return best() if default is None else w.cond(truth(w, both.items[0]), best, lambda: default)


def _best_at_run_time(
    w: Walker, val: Val, default: Val | None, key_of: Callable[[Val], Val], pick: Callable[..., tuple[Val, Val]],
    what: str
) -> Val:  # fmt: skip
    """Return the least or greatest element of a run-time sequence, or the default if it is empty."""
    length, get = w.turns(val)
    some = w.scalar("gt", length(), number(0))
    if default is not None:
        return w.cond(some, lambda: _first_of_best(w, val, get, key_of, pick, what), lambda: default)
    w.check(some, "ValueError", "min() or max() of an empty sequence")
    return _first_of_best(w, val, get, key_of, pick, what)


def _first_of_best(
    w: Walker, val: Val, get: Callable[[Num], Val], key_of: Callable[[Val], Val], pick: Callable[..., tuple[Val, Val]],
    what: str
) -> Val:  # fmt: skip
    """Return the least or greatest element of a run-time sequence that is not empty, by a loop."""
    before = w.mark()
    first = get(number(0))
    first_key = key_of(first)
    keyed = w.block is not None and _has_tensor(first_key.word_type())
    if keyed:  # all keys first, then their values: one wait
        w.go_back(before)
        items_list = to_list(w, val)
        keys_list = _host_keys(w, built(w, items_list, key_of, "keys"), what)
        val = Zip((items_list, keys_list))
        first, first_key = (part.item_at(w, number(0)) for part in (items_list, keys_list))
    length, at = w.turns(val)

    def better(best: Val, k: Val) -> Val:
        assert isinstance(best, TupleVal) and isinstance(k, Num)
        v = at(k)
        pair = v.items if keyed and isinstance(v, TupleVal) else (v, key_of(v))
        return TupleVal(pick((best.items[0], best.items[1]), *pair))

    best = fold(w, "best", Range(number(1), length(), number(1)), better, TupleVal((first, first_key)))
    assert isinstance(best, TupleVal)
    return best.items[0]


@row("x key reverse", sorted, whole=True)
def _sorted(w: Walker, a: Args) -> Val:
    val = in_any_order(w, a["x"]) if a.is_none("key") else a["x"]
    val = as_iterable(w, val)
    if isinstance(val, ListVal):
        copy = list_slice(w, val, number(0), 1, w.ops.list_lengths(val))
    else:
        copy = to_list(w, val)
    sort_list(w, copy, a["key"], a["reverse"])
    return copy


def sort_list(w: Walker, base: ListVal, key: Val, reverse: Val) -> None:
    """Sort a list in place, stably."""

    def key_of(v: Val) -> Val:
        return v if isinstance(key, NoneVal) else w.call(key, (v,), {})

    def sort(val: ListVal, by: ListVal) -> None:
        args = (val.var, by.var, w.word(down))
        w.emit(ir.ListOp(outs=(), op="sort", width=w.ops.width(val), args=args, loc=w.loc))

    def part(k: int) -> Callable[[Val], Val]:
        return lambda v: v.items[k] if isinstance(v, TupleVal) else v

    keys = built(w, base, key_of, "keys")
    if w.block is None or keys.item == NEVER:
        return
    kinds = members(keys.item)
    several = len(kinds) > 1 and any(isinstance(t, TupleT) for t in kinds)  # tuples of several lengths
    if several or not all(map(_of_numbers, kinds)):
        _sort_by_comparison(w, base, keys, reverse)
        return
    keys = built(w, keys, lambda k: TupleVal(tuple(_exact(w, k))), "exact") if _rounded(keys.item) else keys
    keys = _host_keys(w, keys, "a sort")
    if w.block is None:
        return
    down = truth(w, host_value(w, reverse, "reverse", index=True))
    if not isinstance(keys.item, TupleT):
        sort(base, keys)
        return
    for k in reversed(range(len(keys.item.items))):  # the sort is stable: by the last part first
        parts = built(w, keys, part(k), f"keys{k}")
        if w.block is None:
            return
        sort(base, parts)
        sort(keys, parts)


def _sort_by_comparison(w: Walker, base: ListVal, keys: ListVal, reverse: Val) -> None:
    """Sort a list by keys that are not numbers: strings, lists, objects with `__lt__`."""
    if any(isinstance(m, MapT) for m in members(keys.item)):  # sets and dicts have no total order
        raise w.reject("ACR301", seen=f"a sort by {type_text(keys.item)}", rewrite="sort by sorted(s)")
    keys = built(w, keys, lambda k: _with_numbers(w, k), "numbers")
    if w.block is None:
        return
    down = truth(w, host_value(w, reverse, "reverse", index=True))
    order = w.call(w.constant(order_by_comparison), (keys, down), {})
    if w.block is None:
        return
    assert isinstance(order, ListVal)

    def one(k: Val) -> Val:
        assert isinstance(k, Num)
        return base.item_at(w, k)

    new = built(w, order, one, "sorted")
    if w.block is not None:
        simple(w, base, "erase")
        extend(w, base, new)


def _of_numbers(t: Type) -> bool:
    """Whether keys of a type are numbers or tuples of numbers: they are read all at once, and compared as numbers."""
    if isinstance(t, TupleT) and not t.listed:
        return all(_of_numbers(m) for item in t.items for m in members(item))
    return not isinstance(t, StrT | TextT | StructT | ListT | MapT | TupleT | DictT)


def _with_numbers(w: Walker, key: Val) -> Val:
    """Return a key with its NumPy scalars replaced by Python numbers."""
    if isinstance(key, TupleVal):
        return TupleVal(tuple(_with_numbers(w, v) for v in key.items))
    return _host_part(w, key, "a sort") if isinstance(key, Tensor) and not key.type.rank else key


def _rounded(t: Type) -> bool:
    """Whether keys of a type, or parts of them, may be ints or floats, of which an int as a float may be rounded."""
    return {INT, FLOAT} <= {*members(t)} or (isinstance(t, TupleT) and any(map(_rounded, t.items)))


def _exact(w: Walker, key: Val) -> list[Val]:
    """Return the parts of a key, each int or float among them as a float near it, and how much more it is."""
    if isinstance(key, TupleVal):
        return [v for part in key.items for v in _exact(w, part)]
    if not key.is_several or not _rounded(w.type_of(key)) or _has_tensor(w.type_of(key)):
        return [key]
    both = w.each(not_none(w, key), lambda v: TupleVal(exact_parts(w, v)) if isinstance(v, Num) else v)
    return [*both.items] if isinstance(both, TupleVal) else [key]


def _host_keys(w: Walker, keys: ListVal, what: str) -> ListVal:
    """Return keys as Python numbers and tuples of them; tensors are read all at once."""
    if w.block is None or all(isinstance(t, IntT | FloatT | BoolT) for t in _parts(keys.item)):
        return keys
    return built(w, keys, lambda k: _host_key(w, k, what), "numbers")


def _parts(t: Type) -> tuple[Type, ...]:
    return t.items if isinstance(t, TupleT) else (t,)


def _mixed(keys: Sequence[Val]) -> bool:
    """Whether keys are scalars of several dtypes, one of them a float: NumPy promotes them to compare them."""
    dtypes = {
        "int64" if isinstance(k, Num) and k.type != FLOAT else "float64" for k in keys if not isinstance(k, Tensor)
    }
    dtypes |= {k.type.dtype for k in keys if isinstance(k, Tensor)}
    plain = all(isinstance(k, Num) or (isinstance(k, Tensor) and not k.type.rank) for k in keys)
    return plain and len(dtypes) > 1 and any(d.startswith("float") for d in dtypes)


def _has_tensor(t: Type | None) -> bool:
    """Whether keys of a type, or parts of them, are tensors."""
    inside = members(t) if isinstance(t, UnionT) else t.items if isinstance(t, TupleT) and not t.listed else ()
    return isinstance(t, TensorT | Array0T) or any(map(_has_tensor, inside))


def _host_key(w: Walker, key: Val, what: str) -> Val:
    """Return a key as Python numbers, which compare like the NumPy scalars that they replace.

    A nested tuple is flattened, which keeps the order.
    """
    parts = _host_parts(w, key, what)
    return TupleVal(tuple(parts)) if isinstance(key, TupleVal) else parts[0]


def _host_parts(w: Walker, key: Val, what: str) -> list[Val]:
    if isinstance(key, TupleVal):
        return [v for part in key.items for v in _host_parts(w, part, what)]
    return [_host_union(w, key, what) if isinstance(key, UnionVal) else _host_part(w, key, what)]


def _host_union(w: Walker, key: UnionVal, what: str) -> Val:
    val = not_none(w, key)
    single = any(isinstance(t, TensorT | Array0T) and t.dtype == "float32" for t in key.possible)

    def one(v: Val) -> Val:
        if single and isinstance(v, Num):  # NumPy compares Python numbers with float32 scalars in float32
            v = w.ops.as_tensor(v, "float32")
        return w.as_float(_host_part(w, v, what))

    return w.each(val, one)


def _host_part(w: Walker, part: Val, what: str) -> Num:
    part = w.ops.only_element(part, EMPTY, AMBIGUOUS) if isinstance(part, Tensor) else part
    found = part.host_number(w, what, index=False)
    if found is None:
        raise w.reject("ACR301", seen=f"{what} by {w.describe(part)}", rewrite="sort by a number")
    return found
