"""Calls of Python's builtins and of `math`."""

from __future__ import annotations

import ast
import math
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from acronumba.data.shared import field_names
from acronumba.frontend.calls import of_math as mathematics
from acronumba.frontend.calls.tables import Args, Handler, Node, row
from acronumba.frontend.control import AMBIGUOUS, EMPTY
from acronumba.frontend.emitter import Dead, Refused
from acronumba.frontend.source import spot
from acronumba.frontend.tensors import INFINITE, NOT_A_NUMBER
from acronumba.frontend.values import (
    NOT_CONST,
    Enumerate,
    EnumVal,
    Func,
    Generator,
    ListVal,
    NoneVal,
    Num,
    Poison,
    Range,
    Record,
    Ref,
    Reversed,
    Static,
    StrVal,
    Tensor,
    TupleVal,
    UnionVal,
    Val,
    Zip,
    number,
)  # fmt: skip
from acronumba.ir import nodes as ir
from acronumba.ir.ops import MATH, SCALARS
from acronumba.ir.types import BOOL, FLOAT, INT, NEVER, Array0T, BoolT, FloatT, IntT, TensorT, TupleT, Type

if TYPE_CHECKING:
    from acronumba.frontend.lower import Lowerer


# ---- builtins


def _rounded(w: Lowerer, op: str, x: Num, node: Node) -> Num:
    """Return a number as an int, by `SCALARS[op]` if it is a float."""
    if x.type != FLOAT:
        return w.as_int(x)
    x = w.read(x)
    w.check(w.negate(w.scalar("isnan", x)), "ValueError", NOT_A_NUMBER, (), node)
    w.check(w.negate(w.scalar("isinf", x)), "OverflowError", INFINITE, (), node)
    return w.scalar(op, x, node=node)


def as_float(w: Lowerer, val: Val, node: Node, what: str) -> Num:
    """Return a value as a Python float; that of a tensor is read, which may wait."""
    if isinstance(val, Tensor) and not val.type.rank and val.type.dtype == "uint64":  # more than an int of 64 bits
        val = w.cast(val, "float64", node)
    return w.as_float(w.host_value(val, node, what))


@row("x base", int, whole=True)
def _int(w: Lowerer, a: Args, node: Node) -> Val:
    if "base" in a.given:
        raise w.refuse("ACR202", a.where["base"], seen="int() of a string", rewrite="convert it before the batch")

    def one(v: Val) -> Val:
        return _rounded(w, "trunc", w.host_value(v, node, "int()"), node)

    return w.each(a["x"], one, node)


@row("x", float, whole=True)
def _float(w: Lowerer, a: Args, node: Node) -> Val:
    def one(v: Val) -> Val:
        if isinstance(v, StrVal) and v.value.strip().lstrip("+-") in ("inf", "nan", "infinity"):
            return number(float(v.value))
        return as_float(w, v, node, "float()")

    return w.each(a["x"], one, node)


@row("x", bool, whole=True)
def _bool(w: Lowerer, a: Args, node: Node) -> Val:
    return w.truth(a["x"], node)


@row("x", len)
def _len(w: Lowerer, a: Args, node: Node) -> Val:
    def one(v: Val) -> Val:
        match v:
            case Tensor() if v.type.rank:
                return w.extent(v.dims[0])
            case ListVal():
                return w.list_lengths(v, node)
            case Range():
                return w.range_count(v)
            case Ref() if issubclass(v.classes[0], tuple):
                return number(len(field_names(v.classes[0])))
            case StrVal(value=value):
                return number(len(value))
            case Ref() | Record() if not (isinstance(v, Record) and issubclass(v.cls, tuple)):
                cls = v.cls if isinstance(v, Record) else v.classes[0]
                if w.has(cls, "__len__"):
                    return w.call(w.class_attribute(v, cls, "__len__", node), (), {}, node)
        items = w.items_of(v)
        if items is None or isinstance(v, Zip | Enumerate | Generator | Reversed):
            raise w.refuse("ACR301", node, seen=f"len of {w.describe(v)}")
        return number(len(items))

    return w.each(a["x"], one, node)


@row("x", abs, method="__abs__")
def _abs(w: Lowerer, a: Args, node: Node) -> Val:
    def one(v: Val) -> Val:
        if isinstance(v, Tensor):
            return w.ufunc("abs", (v,), node)
        x = w.host_value(v, node, "abs()")
        return w.scalar("abs", w.read(x) if x.type == FLOAT else w.as_int(x), node=node)

    return w.each(a["x"], one, node)


@row("x ndigits", round)
def _round(w: Lowerer, a: Args, node: Node) -> Val:
    if not isinstance(a["ndigits"], NoneVal):
        raise w.refuse("ACR202", a.where["ndigits"], seen="round with digits", rewrite="round(x * 1000) / 1000")
    if isinstance(a["x"], Tensor) and a["x"].type.dtype == "bool":
        raise w.refuse("ACR301", node, seen="round() of a NumPy bool", rewrite="int(x)")
    if isinstance(a["x"], Tensor) and a["x"].array0 is not None:
        w.check(w.negate(a["x"].array0), "TypeError", "type numpy.ndarray doesn't define __round__ method", (), node)
        if w.block is None:
            raise Dead
    return _rounded(w, "round", w.host_value(a["x"], node, "round()"), node)


@row("*args", range, whole=True)
def _range(w: Lowerer, a: Args, node: Node) -> Val:
    parts = []
    for v in a.rest:
        x = w.host_value(v, node, "range()", index=True)
        parts.append(w.as_int(x) if x.shared is None else x)
    if not 1 <= len(parts) <= 3:
        raise w.refuse("ACR203", node, seen=f"{len(parts)} arguments for range")
    start, stop, step = [number(0), *parts, number(1)] if len(parts) == 1 else [*parts, number(1)][:3]
    value = w.known(step) if step.shared is None else step.const
    if value is NOT_CONST:
        step = w.read(step)
        w.check(w.scalar("ne", step, number(0)), "ValueError", "range() arg 3 must not be zero", (), node)
    elif value == 0:
        w.fail("ValueError", "range() arg 3 must not be zero", node)
    return Range(start, stop, step)


@row("*args strict", zip, whole=True)
def _zip(w: Lowerer, a: Args, node: Node) -> Val:
    parts = tuple(as_iterable(w, v, node) for v in a.rest)
    return Zip(parts, bool(a.static("strict"))) if parts else TupleVal(())


@row("x start", enumerate, whole=True)
def _enumerate(w: Lowerer, a: Args, node: Node) -> Val:
    start = w.host_value(a["start"], node, "enumerate()", index=True)
    return Enumerate(as_iterable(w, a["x"], node), w.as_int(start) if start.type == BOOL else start)


@row("x", reversed, whole=True)
def _reversed(w: Lowerer, a: Args, node: Node) -> Val:
    return Reversed(as_iterable(w, a["x"], node))


def as_iterable(w: Lowerer, val: Val, node: Node) -> Val:
    if isinstance(val, UnionVal):
        val = w.not_none(val, node)
    if isinstance(val, Generator):
        return w.comprehend(val.node)
    if isinstance(val, ListVal | Tensor | Range | Zip | Enumerate | Reversed) or w.items_of(val) is not None:
        return val
    raise w.refuse("ACR301", node, seen=f"{w.describe(val)} cannot be iterated over")


@row("x", list, whole=True)
def _list(w: Lowerer, a: Args, node: Node) -> Val:
    val = as_iterable(w, a["x"], node)
    if isinstance(val, ListVal):
        return w.list_slice(val, number(0), 1, w.list_lengths(val, node), node or ast.Constant(0))
    return w.collect(val, lambda v: v, node or ast.Constant(0))


@row("x", tuple, whole=True)
def _tuple(w: Lowerer, a: Args, node: Node) -> Val:
    val = as_iterable(w, a["x"], node)
    items = w.items_of(val)
    if items is None:
        raise w.refuse("ACR303", node, seen=f"a tuple of {w.describe(val)}, whose length is known only at run time",
                       rewrite="keep the list")  # fmt: skip
    return TupleVal(items)


@row("x start", sum, rank0="any")
def _sum(w: Lowerer, a: Args, node: Node) -> Val:
    return fold(w, a["x"], a["start"], lambda acc, v: w.binary(ast.Add(), acc, v, node or ast.Constant(0)), node)


def fold(w: Lowerer, iterable: Val, start: Val, f: Callable[[Val, Val], Val], node: Node) -> Val:
    """Return f(... f(f(start, x0), x1) ...)."""
    if isinstance(iterable, Generator):
        return fold_generator(w, iterable, start, f, node)
    val = as_iterable(w, iterable, node)
    items = w.items_of(val)
    if items is not None:
        for v in items:
            start = f(start, v)
        return start
    key = (w.frame.scope, f"#fold{spot(node)}")
    item = ast.Name("#item", ast.Store())
    w.state[key] = start

    def body() -> None:
        got = f(w.state[key], w.state[(w.frame.scope, "#item")])
        if w.block is not None:
            w.state[key] = got

    w.iterate(val, node or ast.Constant(0), item, body, (), (key,))
    return w.state.pop(key) if w.block is not None else start


def fold_generator(w: Lowerer, gen: Generator, start: Val, f: Callable[[Val, Val], Val], node: Node) -> Val:
    return fold(w, w.comprehend(gen.node), start, f, node)


@row("x", any)
def _any(w: Lowerer, a: Args, node: Node) -> Val:
    return _any_all(w, a["x"], node, True)


@row("x", all)
def _all(w: Lowerer, a: Args, node: Node) -> Val:
    return _any_all(w, a["x"], node, False)


def _any_all(w: Lowerer, val: Val, node: Node, stop: bool) -> Val:
    """`any` and `all`, leaving the loop as soon as the answer is known."""
    key = (w.frame.scope, f"#any{spot(node)}")
    w.state[key] = number(not stop)

    def test(v: Val) -> None:
        yes, no = w.fork(w.truth(v, node))
        leave, stay = (yes, no) if stop else (no, yes)
        if leave is not None:
            w.enter(leave)
            w.state[key] = number(stop)
            w.frame.loops[-1].breaks.append(w.point())
            w.block = None
        w.join([stay] if stay is not None else [])

    where = node or ast.Constant(0)
    if isinstance(val, Generator) and len(val.node.generators) == 1:
        gen = val.node.generators[0]
        from acronumba.frontend.source import assigned_names

        names = assigned_names([ast.Assign([gen.target], ast.Constant(0))])
        w.counter += 1
        scope = (*w.frame.scope, "comprehension", w.counter)
        iterable = w.expr(gen.iter)
        w.scopes[scope] = (names, w._comprehension_func())
        w.frame.overlays.append((scope, names))

        def body() -> None:
            for c in gen.ifs:
                yes, no = w.branch(c)
                w.frame.loops[-1].continues += no
                w.join(yes)
                if w.block is None:
                    return
            yes, no = w.branch(val.node.elt)
            leave, stay = (yes, no) if stop else (no, yes)
            for p in leave:
                w.enter(p)
                w.state[key] = number(stop)
                w.frame.loops[-1].breaks.append(w.point())
                w.block = None
            w.join(stay)

        w.iterate(iterable, where, gen.target, body, [ast.Expr(val.node.elt)], (key,))
        w.frame.overlays.pop()
    else:
        item = ast.Name("#item", ast.Store())
        iterable = as_iterable(w, val, node)
        w.iterate(iterable, where, item, lambda: test(w.state[(w.frame.scope, "#item")]), (), (key,))
    return w.state.pop(key) if w.block is not None else number(False)


@row("*args key default", min, rank0="any")
def _min(w: Lowerer, a: Args, node: Node) -> Val:
    return _extreme(w, a, node, "lt")


@row("*args key default", max, rank0="any")
def _max(w: Lowerer, a: Args, node: Node) -> Val:
    return _extreme(w, a, node, "gt")


def _extreme(w: Lowerer, a: Args, node: Node, op: str) -> Val:
    """`min` and `max`: the first of equal ones."""
    where = node or ast.Constant(0)
    compare = ast.Lt() if op == "lt" else ast.Gt()
    key_func, what = a["key"], "min()" if op == "lt" else "max()"
    default = a["default"] if "default" in a.given else None

    def key_of(v: Val) -> Val:
        return v if isinstance(key_func, NoneVal) else w.call(key_func, (v,), {}, node)

    def pick(best: tuple[Val, Val], v: Val, k: Val) -> tuple[Val, Val]:
        test = w.truth(w.compare(compare, k, best[1], where), node)
        if isinstance(v, Num) and isinstance(best[0], Num) and v.type == best[0].type and isinstance(key_func, NoneVal):
            out = w.select(test, w.read(v), w.read(best[0]))
            return out, out
        yes, no = w.fork(test)
        points = [p for p in (yes, no) if p is not None]
        vals: list[Val] = [TupleVal(pair) for pair, p in (((v, k), yes), (best, no)) if p is not None]
        got = w.join_values(points, vals)
        if not isinstance(got, TupleVal):
            raise Refused(None)
        return got.items[0], got.items[1]

    if default is not None and len(a.rest) > 1:
        raise w.refuse("ACR203", a.where["default"], seen=f"default= of {what} of several values")
    if not a.rest:
        raise w.refuse("ACR203", node, seen=f"{what} without values")
    if len(a.rest) == 1:
        val = as_iterable(w, a.rest[0], node)
        items = w.items_of(val)
    else:
        val, items = TupleVal(tuple(a.rest)), tuple(a.rest)
    if items is not None:
        if not items:
            if default is not None:
                return default
            w.fail("ValueError", "min() or max() of an empty sequence", node)
            return number(0)
        keys = [key_of(v) for v in items]
        if len(items) > 1 and any(map(_has_tensor, keys)) and not _mixed(keys):
            keys = [_host_key(w, k, node, what) for k in keys]
        best = (items[0], keys[0])
        for v, k in zip(items[1:], keys[1:], strict=True):
            best = pick(best, v, k)
        return best[0]
    length, get = w.protocol(val, where)
    some = w.scalar("gt", length(), number(0))
    points: list[Any] = []
    vals: list[Val] = []
    if default is None:
        w.check(some, "ValueError", "min() or max() of an empty sequence", (), node)
    else:
        yes, no = w.fork(some)
        if no is not None:
            points.append(no)
            vals.append(default)
        w.join([yes] if yes is not None else [])
    if w.block is not None:
        try:
            best_val = _first_of_best(w, val, get, key_of, pick, what, node)
        except Dead:  # there is never an element
            w.block = None
    if w.block is not None:
        points.append(w.point())
        vals.append(best_val)
        w.block = None
    return w.join_values(points, vals)


def _first_of_best(
    w: Lowerer, val: Val, get: Callable[[Num], Val], key_of: Callable[[Val], Val], pick: Callable[..., tuple[Val, Val]],
    what: str, node: Node,
) -> Val:  # fmt: skip
    """Return the best element of a sequence that is not empty, by a loop."""
    where = node or ast.Constant(0)
    before = w.snapshot(), w.block, dict(w.state)
    first = get(number(0))
    first_key = key_of(first)
    keyed = w.block is not None and _has_tensor(first_key)
    if keyed:  # all keys first, then the value of each: one wait
        w.rollback(before[0])
        w.block, w.state = before[1], before[2]
        items_list = w.to_list(val, where)
        keys_list = _host_keys(w, _keys(w, items_list, key_of, "keys", node), what, node)
        val = Zip((items_list, keys_list))
        first, first_key = (w.list_get(part, number(0), node) for part in (items_list, keys_list))
    key = (w.frame.scope, f"#best{spot(node)}")
    w.state[key] = TupleVal((first, first_key))

    def body() -> None:
        old, v = w.state[key], w.state[(w.frame.scope, "#item")]
        assert isinstance(old, TupleVal)
        pair = v.items if keyed and isinstance(v, TupleVal) else (v, key_of(v))
        got = pick((old.items[0], old.items[1]), *pair)
        if w.block is not None:
            w.state[key] = TupleVal(got)

    w.iterate(val, where, ast.Name("#item", ast.Store()), body, (), (key,))
    best = w.state.pop(key, None)
    return best.items[0] if isinstance(best, TupleVal) else Poison()


@row("x key reverse", sorted, whole=True)
def _sorted(w: Lowerer, a: Args, node: Node) -> Val:
    val = as_iterable(w, a["x"], node)
    where = node or ast.Constant(0)
    if isinstance(val, ListVal):
        copy = w.list_slice(val, number(0), 1, w.list_lengths(val, node), where)
    else:
        copy = w.to_list(val, where)
    sort_list(w, copy, a["key"], a["reverse"], node)
    return copy


def sort_list(w: Lowerer, base: ListVal, key: Val, reverse: Val, node: Node) -> None:
    """Sort a list in place, stably."""

    def key_of(v: Val) -> Val:
        return v if isinstance(key, NoneVal) else w.call(key, (v,), {}, node)

    def sort(val: ListVal, by: ListVal) -> None:
        args = (val.var, by.var, w.word(down))
        w.emit(ir.ListOp(outs=(), op="sort", width=w.width(val), args=args, loc=w.at(node)))

    def part(k: int) -> Callable[[Val], Val]:
        return lambda v: v.items[k] if isinstance(v, TupleVal) else v

    keys = _keys(w, base, key_of, "keys", node)
    if w.block is None or keys.item == NEVER:
        return
    keys = _host_keys(w, keys, "a sort", node)
    if w.block is None:
        return
    down = w.truth(w.host_value(reverse, node, "reverse", index=True), node)
    if not isinstance(keys.item, TupleT):
        sort(base, keys)
        return
    for k in reversed(range(len(keys.item.items))):  # the sort is stable: by the last part first
        parts = _keys(w, keys, part(k), f"keys{k}", node)
        if w.block is None:
            return
        sort(base, parts)
        sort(keys, parts)


def _keys(w: Lowerer, source: ListVal, value: Callable[[Val], Val], what: str, node: Node) -> ListVal:
    """Return the list of something of each element of a list."""
    item = (w.frame.scope, "#key")
    target = ast.Name("#key", ast.Store())
    return w.built(source, node or ast.Constant(0), target, lambda: value(w.state[item]), (), what=what)


def _host_keys(w: Lowerer, keys: ListVal, what: str, node: Node) -> ListVal:
    """Return keys as numbers and tuples of numbers, all that are tensors read in one go."""
    if w.block is None or all(isinstance(t, IntT | FloatT | BoolT) for t in _parts(keys.item)):
        return keys
    return _keys(w, keys, lambda k: _host_key(w, k, node, what), "numbers", node)


def _parts(t: Type) -> tuple[Type, ...]:
    return t.items if isinstance(t, TupleT) else (t,)


def _mixed(keys: Sequence[Val]) -> bool:
    """Whether keys are scalars of which NumPy compares some in another type than their own: float32 and a number."""
    dtypes = {
        "int64" if isinstance(k, Num) and k.type != FLOAT else "float64" for k in keys if not isinstance(k, Tensor)
    }
    dtypes |= {k.type.dtype for k in keys if isinstance(k, Tensor)}
    plain = all(isinstance(k, Num) or (isinstance(k, Tensor) and not k.type.rank) for k in keys)
    return plain and len(dtypes) > 1 and any(d.startswith("float") for d in dtypes)


def _has_tensor(key: Val) -> bool:
    """Whether a key, or a part of it, is a tensor."""
    match key:
        case TupleVal():
            return any(map(_has_tensor, key.items))
        case UnionVal():
            return any(isinstance(u, TensorT | Array0T) for t in key.possible for u in _parts(t))
    return isinstance(key, Tensor)


def _host_key(w: Lowerer, key: Val, node: Node, what: str) -> Val:
    """Return a key as numbers, which are compared as NumPy compares the scalars that they were.

    A tuple in a tuple is compared as its items in its place are.
    """
    if isinstance(key, TupleVal):
        parts = [_host_key(w, part, node, what) for part in key.items]
        return TupleVal(tuple(v for part in parts for v in (part.items if isinstance(part, TupleVal) else (part,))))
    if not isinstance(key, UnionVal):
        return _host_part(w, key, node, what)
    val = w.not_none(key, node)
    single = any(isinstance(t, TensorT | Array0T) and t.dtype == "float32" for t in key.possible)

    def one(v: Val) -> Val:
        if single and isinstance(v, Num):  # beside float32 scalars NumPy takes Python's numbers for float32
            v = w.from_number(v, "float32", node)
        return w.as_float(_host_part(w, v, node, what))

    return w.each(val, one, node)


def _host_part(w: Lowerer, part: Val, node: Node, what: str) -> Num:
    if isinstance(part, Tensor):
        part = w.only_element(part, EMPTY, AMBIGUOUS, node)
    elif not isinstance(part, Num | EnumVal):
        raise w.refuse("ACR301", node, seen=f"{what} by {w.describe(part)}", rewrite="sort by a number")
    return w.host_value(part, node, what)


@row("x", iter, whole=True)
def _iter(w: Lowerer, a: Args, node: Node) -> Val:
    return as_iterable(w, a["x"], node)


@row("x y", pow)
def _pow(w: Lowerer, a: Args, node: Node) -> Val:
    return w.binary(ast.Pow(), a["x"], a["y"], node or ast.Constant(0))


@row("x y", divmod)
def _divmod(w: Lowerer, a: Args, node: Node) -> Val:
    where = node or ast.Constant(0)
    return TupleVal((w.binary(ast.FloorDiv(), a["x"], a["y"], where), w.binary(ast.Mod(), a["x"], a["y"], where)))


@row("x", type, whole=True)
def _type(w: Lowerer, a: Args, node: Node) -> Val:
    from acronumba.frontend.calls.objects import runtime_class

    val = a["x"]
    if isinstance(val, UnionVal) or (isinstance(val, Ref) and len(val.classes) > 1):
        raise w.refuse("ACR308", node, seen="type() of a value of several types", rewrite="isinstance(x, C)")
    kind = w.kind_of(val)
    if kind is None or (isinstance(kind, Array0T) and not kind.sure):
        raise w.refuse("ACR308", node, seen=w.describe(val))
    return Static(runtime_class(kind))


@row("obj name default", getattr, whole=True, rank0="any")
def _getattr(w: Lowerer, a: Args, node: Node) -> Val:
    name = a.static("name")
    if not isinstance(name, str):
        raise w.refuse("ACR301", a.where["name"], seen=f"{name!r} for the name of an attribute")

    def one(obj: Val) -> Val:
        try:
            return w.attribute(obj, name, node)
        except Refused as error:
            if "default" not in a.given or error.error is None or error.error.code != "ACR307":
                raise
            return a["default"]

    return w.each(a["obj"], one, node)


@row("f xs", map, whole=True)
def _map(w: Lowerer, a: Args, node: Node) -> Val:
    return w.collect(as_iterable(w, a["xs"], node), lambda v: w.call(a["f"], (v,), {}, node), node or ast.Constant(0))


# ---- math


def _math(name: str) -> Handler:
    def handler(w: Lowerer, a: Args, node: Node) -> Val:
        nums = [as_float(w, v, node, f"math.{name}()") for v in a.values.values()]
        return w.scalar(name, *nums, node=node)

    return handler


for _name in (*MATH, "isnan", "isinf", "isfinite"):
    if _name in ("log", "hypot"):
        continue  # a base may be given; any number of arguments
    row(" ".join("xy"[: len(SCALARS[_name].args)]), getattr(math, _name))(_math(_name))


@row("*args", math.hypot)
def _hypot(w: Lowerer, a: Args, node: Node) -> Val:
    if len(a.rest) != 2:
        raise w.refuse("ACR202", a.places[2] if len(a.rest) > 2 else node, seen=f"math.hypot of {len(a.rest)} numbers",
                       rewrite="math.sqrt(x * x + y * y + z * z)")  # fmt: skip
    return w.scalar("hypot", *(w.as_float(w.host_value(v, node, "math.hypot()")) for v in a.rest), node=node)


@row("x base", math.log)
def _math_log(w: Lowerer, a: Args, node: Node) -> Val:
    x = w.scalar("log", as_float(w, a["x"], node, "math.log()"), node=node)
    if "base" not in a.given:
        return x
    return w.scalar("div", x, w.scalar("log", as_float(w, a["base"], node, "math.log()"), node=node), node=node)


@row("x y", math.pow)
def _math_pow(w: Lowerer, a: Args, node: Node) -> Val:
    x, y = (as_float(w, a[k], node, "math.pow()") for k in "xy")
    return w.float_power(x, y, "ValueError", "math domain error", node)


def _whole(name: str) -> Handler:
    def handler(w: Lowerer, a: Args, node: Node) -> Val:
        if isinstance(a["x"], Tensor):  # Python asks NumPy's scalars for a float
            return _rounded(w, name, as_float(w, a["x"], node, f"math.{name}()"), node)
        return _rounded(w, name, w.host_value(a["x"], node, f"math.{name}()"), node)

    return handler


row("x", math.floor)(_whole("floor"))
row("x", math.ceil)(_whole("ceil"))


NO_TRUNC = "type numpy.ndarray doesn't define __trunc__ method"


@row("x", math.trunc)
def _math_trunc(w: Lowerer, a: Args, node: Node) -> Val:
    if isinstance(a["x"], Tensor) and a["x"].type.dtype != "float64":  # the only scalar that is a Python number too
        raise w.refuse("ACR301", node, seen=f"math.trunc() of {w.describe(a['x'])}", rewrite="int(x)")
    if isinstance(a["x"], Tensor) and a["x"].array0 is not None:
        w.check(w.negate(a["x"].array0), "TypeError", NO_TRUNC, (), node)
    return _rounded(w, "trunc", w.host_value(a["x"], node, "math.trunc()"), node)


@row("x start", math.prod)
def _math_prod(w: Lowerer, a: Args, node: Node) -> Val:
    return fold(w, a["x"], a["start"], lambda acc, v: w.binary(ast.Mult(), acc, v, node or ast.Constant(0)), node)


def _written(w: Lowerer, function: Callable[..., Any], args: Sequence[Val], kind: Type, node: Node) -> Val:
    """Call a function of `mathematics` with numbers of a type."""
    what = f"math.{function.__name__}"
    if kind == INT:
        nums = [w.host_value(v, node, f"{what}()", index=True) for v in args]
    else:
        nums = [as_float(w, v, node, f"{what}()") for v in args]
    assert isinstance(function, types.FunctionType)
    func = w.function(function, node)
    assert isinstance(func, Func)
    return w.call_function(func, [w.as_int(x) if kind == INT else x for x in nums], {}, node)


def _math_written(function: Callable[..., Any], kind: Type) -> Handler:
    return lambda w, a, node: _written(w, function, tuple(a.values.values()), kind, node)


def _math_folded(function: Callable[..., Any], first: int) -> Handler:
    def handler(w: Lowerer, a: Args, node: Node) -> Val:
        out, *rest = a.rest if len(a.rest) > 1 else (number(first), *a.rest)
        for v in rest:
            out = _written(w, function, [out, v], INT, node)
        return out

    return handler


row("*args", math.gcd)(_math_folded(mathematics.gcd, 0))
row("*args", math.lcm)(_math_folded(mathematics.lcm, 1))
row("n", math.factorial)(_math_written(mathematics.factorial, INT))
row("n", math.isqrt)(_math_written(mathematics.isqrt, INT))
row("n k", math.comb)(_math_written(mathematics.comb, INT))


@row("n k", math.perm)
def _perm(w: Lowerer, a: Args, node: Node) -> Val:
    if isinstance(a["k"], NoneVal):
        return _written(w, mathematics.factorial, [a["n"]], INT, node)
    return _written(w, mathematics.perm, [a["n"], a["k"]], INT, node)


row("x", math.degrees)(_math_written(mathematics.degrees, FLOAT))
row("x", math.radians)(_math_written(mathematics.radians, FLOAT))


@row("a b rel_tol abs_tol", math.isclose)
def _isclose(w: Lowerer, a: Args, node: Node) -> Val:
    return _written(w, mathematics.isclose, [a[k] for k in ("a", "b", "rel_tol", "abs_tol")], FLOAT, node)
