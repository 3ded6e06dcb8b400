"""Calls of what is not the user's own: Python's builtins, `math`, NumPy, methods of built-in types.

Tables from the callee to a handler: adding a function is adding a row. A handler takes the walker, the arguments
bound to a signature (`Args`) and the node, and returns an abstract value.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import enum
import functools
import inspect
import math
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba import random
from acronumba.frontend import mathematics
from acronumba.frontend.control import AMBIGUOUS, EMPTY
from acronumba.frontend.emitter import Dead, Refused, Resweep
from acronumba.frontend.source import spot
from acronumba.frontend.values import (
    NOT_CONST,
    DictVal,
    Enumerate,
    EnumVal,
    Func,
    Generator,
    ListVal,
    Method,
    NoneVal,
    Num,
    Range,
    Record,
    Ref,
    Reversed,
    SharedVal,
    Static,
    StaticList,
    StrVal,
    Tensor,
    TupleVal,
    UnionVal,
    Val,
    Zip,
    number,
)  # fmt: skip
from acronumba.ir import nodes as ir
from acronumba.ir.nodes import Extent
from acronumba.ir.ops import SCALARS
from acronumba.ir.types import BOOL, FLOAT, INT, BoolT, FloatT, IntT, TensorT, TupleT, Type, words
from acronumba.shared import field_names

if TYPE_CHECKING:
    from acronumba.frontend.lower import Lowerer

Node = ast.AST | None
MISSING: Any = None


class Args:
    """Arguments bound to a signature such as ``"a axis=None keepdims=False"``."""

    def __init__(
        self, w: Lowerer, what: str, signature: str, args: list[Val], kwargs: dict[str, Val], node: Node
    ) -> None:
        self.w, self.what, self.node = w, what, node
        names = [part.partition("=")[0] for part in signature.split()]
        plain = [n for n in names if not n.startswith("*")]
        self.values: dict[str, Val] = {}
        rest = next((n[1:] for n in names if n.startswith("*")), None)
        positional = names[: names.index("*" + rest)] if rest is not None else plain
        self.rest = list(args[len(positional) :]) if rest is not None else []
        if rest is None and len(args) > len(positional):
            raise w.refuse("ACR203", node, seen=f"{len(args)} arguments for {what}")
        self.values.update(zip(positional, args, strict=False))
        for k, v in kwargs.items():
            if k not in plain or k in self.values:
                code = "ACR202" if k not in plain else "ACR203"
                raise w.refuse(code, node, seen=f"the argument {k}= of {what}")
            self.values[k] = v
        self.given = frozenset(self.values)
        for part in signature.split():
            name, has, default = part.partition("=")
            if has and name not in self.values:
                self.values[name] = w.constant(ast.literal_eval(default))
            elif not has and not name.startswith("*") and name not in self.values:
                raise w.refuse("ACR203", node, seen=f"{what} without {name}")

    def __getitem__(self, name: str) -> Val:
        return self.values[name]

    def tensor(self, name: str) -> Tensor:
        val = self.values[name]
        if isinstance(val, UnionVal):
            val = self.w.not_none(val, self.node)
        return self.w.as_tensor(val, node=self.node)

    def static(self, name: str) -> Any:
        """Return an argument that must be known when the model is compiled."""
        out = self.w.static(self.values[name], self.node)
        if out is NOT_CONST:
            raise self.w.refuse("ACR403", self.node, seen=f"{name}= of {self.what} is known only at run time")
        return out

    def dtype(self, name: str = "dtype") -> str | None:
        value = self.static(name)
        if value is None:
            return None
        try:
            dtype = np.dtype(value)
        except TypeError:
            raise self.w.refuse("ACR310", self.node, seen=repr(value)) from None
        return self.w.dtype_name(dtype, self.node)


Handler = Callable[["Lowerer", Args, Node], Val]
STATIC: dict[Any, tuple[str, str, Handler]] = {}
TENSOR_METHODS: dict[str, tuple[str, Handler]] = {}


def row(signature: str, *functions: Any, method: str = "") -> Callable[[Handler], Handler]:
    """Register a handler for functions, and for the tensor method of that name (its first parameter is the tensor)."""

    def register(handler: Handler) -> Handler:
        for f in functions:
            STATIC[_key(f)] = (getattr(f, "__name__", str(f)), signature, handler)
        if method:
            TENSOR_METHODS[method] = (signature, handler)
        return handler

    return register


def _key(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


def call_static(w: Lowerer, value: Any, args: list[Val], kwargs: dict[str, Val], node: Node) -> Val:
    """Call something that exists at compile time."""
    if isinstance(value, type):
        return construct(w, value, args, kwargs, node)
    if isinstance(value, types.FunctionType) and value.__module__ == "acronumba.nn":
        x = Args(w, value.__name__, "x", args, kwargs, node)["x"]
        return w.each(x, lambda v: _float_unary(w, value.__name__, v, node), node)
    known = STATIC.get(_key(value))
    if known is not None:
        name, signature, handler = known
        return _distribute(
            w, args, kwargs, node, lambda a, k: handler(w, Args(w, name, signature, a, k, node), node), value
        )
    if isinstance(value, np.ufunc) or (getattr(value, "__module__", "") or "").split(".")[0] == "numpy":
        raise w.refuse("ACR202", node, seen=_name_of(node, f"np.{getattr(value, '__name__', value)}"))
    module = getattr(value, "__module__", None)
    if module == "dataclasses" and getattr(value, "__name__", "") == "replace":
        return replace_fields(w, args, kwargs, node)
    name = getattr(value, "__qualname__", None) or repr(value)
    code = "ACR211" if module and "random" in str(module) and "numpy" in str(module) else "ACR201"
    if isinstance(value, functools.partial):
        func = w.constant(value.func)
        raise w.refuse("ACR210", node, seen=f"functools.partial of {w.describe(func)}", rewrite="a lambda")
    raise w.refuse(code, node, seen=_name_of(node, f"{module + '.' if module and module != 'builtins' else ''}{name}"))


def _name_of(node: Node, default: str) -> str:
    """Return how the user wrote what is called."""
    return ast.unparse(node.func) if isinstance(node, ast.Call) else default


_WHOLE = (
    bool,
    type,
    list,
    tuple,
    sorted,
    zip,
    enumerate,
    reversed,
    getattr,
)  # these look at their arguments themselves


def _distribute(
    w: Lowerer,
    args: list[Val],
    kwargs: dict[str, Val],
    node: Node,
    f: Callable[[list[Val], dict[str, Val]], Val],
    callee: Any,
) -> Val:
    """Call a function for each alternative of those of its arguments that are one of several kinds."""
    if callee not in _WHOLE:
        for k, v in enumerate(args):
            if isinstance(v, UnionVal):

                def one(case: Val, before: list[Val] = args[:k], after: list[Val] = args[k + 1 :]) -> Val:
                    return _distribute(w, [*before, case, *after], kwargs, node, f, callee)

                return w.each(w.not_none(v, node), one, node)
    return f(args, kwargs)


def construct(w: Lowerer, cls: type, args: list[Val], kwargs: dict[str, Val], node: Node) -> Val:
    """Call a class: a conversion, a dtype, a dataclass or NamedTuple."""
    known = STATIC.get(cls)
    if known is not None:
        name, signature, handler = known
        return handler(w, Args(w, name, signature, args, kwargs, node), node)
    if issubclass(cls, np.generic):
        x = Args(w, cls.__name__, "x=0", args, kwargs, node)["x"]
        return w.each(x, lambda v: _as_dtype(w, v, w.dtype_name(cls, node), node), node)
    if issubclass(cls, enum.Enum):
        value = w.static(args[0], node) if args else NOT_CONST
        if value is NOT_CONST:
            raise w.refuse("ACR308", node, seen=f"{cls.__name__} of a run-time value")
        return w.constant(cls(value))
    if issubclass(cls, BaseException):
        raise w.refuse("ACR108", node, seen="an exception that is not raised at once")
    if dataclasses.is_dataclass(cls):
        init = getattr(cls, "__dataclass_params__").init  # noqa: B009 -- not in the types of the standard library
        if ("__init__" in cls.__dict__ and not init) or hasattr(cls, "__post_init__"):
            raise w.refuse("ACR210", node, seen=f"{cls.__name__} with an __init__ or __post_init__ of its own")
        fields = [f for f in dataclasses.fields(cls) if f.init]
        out = _bind_fields(
            w, cls, [f.name for f in fields if not f.kw_only], [f.name for f in fields], args, kwargs, node
        )
        for f in dataclasses.fields(cls):
            if f.name in out:
                continue
            if f.default is not dataclasses.MISSING:
                out[f.name] = _default(w, cls, f.name, f.default)
            elif f.default_factory is not dataclasses.MISSING:
                factory = f.default_factory
                out[f.name] = (
                    w.new_list((), node or ast.Constant(0))
                    if factory is list
                    else w.call(Static(factory), (), {}, node)
                )
            else:
                raise w.refuse("ACR203", node, seen=f"{cls.__name__} without {f.name}")
        names = tuple(f.name for f in dataclasses.fields(cls))
        return Record(cls, names, tuple(out[n] for n in names))
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        names = field_names(cls)
        out = _bind_fields(w, cls, list(names), list(names), args, kwargs, node)
        for name, value in getattr(cls, "_field_defaults", {}).items():
            out.setdefault(name, _default(w, cls, name, value))
        missing = [n for n in names if n not in out]
        if missing:
            raise w.refuse("ACR203", node, seen=f"{cls.__name__} without {', '.join(missing)}")
        return Record(cls, names, tuple(out[n] for n in names))
    if cls is functools.partial:
        raise w.refuse("ACR210", node, seen="functools.partial", rewrite="a lambda")
    raise w.refuse("ACR201", node, seen=f"the class {cls.__name__}, which is neither a dataclass nor a NamedTuple")


def _default(w: Lowerer, cls: type, name: str, value: Any) -> Val:
    from acronumba.shared import describe_value

    if type(value) in (int, float):
        return number(value)
    return w.shared_value(describe_value(f"{cls.__name__}.{name}", value))


def _bind_fields(
    w: Lowerer, cls: type, positional: list[str], names: list[str], args: list[Val], kwargs: dict[str, Val], node: Node
) -> dict[str, Val]:
    if len(args) > len(positional):
        raise w.refuse("ACR203", node, seen=f"{len(args)} arguments for {cls.__name__}({', '.join(positional)})")
    out = dict(zip(positional, args, strict=False))
    for k, v in kwargs.items():
        if k not in names or k in out:
            raise w.refuse("ACR203", node, seen=f"the argument {k}= of {cls.__name__}")
        out[k] = v
    for v in out.values():
        w.alias(v)
        if isinstance(v, Generator):
            raise w.refuse("ACR114", v.node)
    return out


def replace_fields(w: Lowerer, args: list[Val], kwargs: dict[str, Val], node: Node) -> Val:
    """`dataclasses.replace` and `_replace`."""
    if len(args) != 1:
        raise w.refuse("ACR203", node, seen="replace")

    def one(obj: Val) -> Val:
        cls = obj.classes[0] if isinstance(obj, Ref) else obj.cls if isinstance(obj, Record) else None
        if isinstance(obj, SharedVal) and obj.node.kind == "object":
            cls = obj.node.cls
        if cls is None:
            raise w.refuse("ACR301", node, seen=f"replace of {w.describe(obj)}")
        names = field_names(cls)
        for k in kwargs:
            if k not in names:
                raise w.refuse("ACR307", node, seen=f"{cls.__name__} has no field {k!r}")
        return Record(cls, names, tuple(kwargs[n] if n in kwargs else w.attribute(obj, n, node) for n in names))

    return w.each(args[0], one, node)


# ---- builtins


def _rounded(w: Lowerer, op: str, x: Num, node: Node) -> Num:
    """Return a number as an int, by `SCALARS[op]` if it is a float."""
    if x.type != FLOAT:
        return w.as_int(x)
    x = w.read(x)
    w.check(w.negate(w.scalar("isnan", x)), "ValueError", "cannot convert float NaN to integer", (), node)
    return w.scalar(op, x, node=node)


@row("x=0", int)
def _int(w: Lowerer, a: Args, node: Node) -> Val:
    def one(v: Val) -> Val:
        return _rounded(w, "trunc", w.host_value(v, node, "int()"), node)

    return w.each(a["x"], one, node)


@row("x=0.0", float)
def _float(w: Lowerer, a: Args, node: Node) -> Val:
    def one(v: Val) -> Val:
        if isinstance(v, StrVal) and v.value.strip().lstrip("+-") in ("inf", "nan", "infinity"):
            return number(float(v.value))
        return w.as_float(w.host_value(v, node, "float()"))

    return w.each(a["x"], one, node)


@row("x=False", bool)
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
                if hasattr(cls, "__len__"):
                    return w.call(w.class_attribute(v, cls, "__len__", node), (), {}, node)
        items = w.items_of(v)
        if items is None or isinstance(v, Zip | Enumerate | Generator | Reversed):
            raise w.refuse("ACR301", node, seen=f"len of {w.describe(v)}")
        return number(len(items))

    return w.each(a["x"], one, node)


@row("x", abs, np.abs, np.absolute, method="__abs__")
def _abs(w: Lowerer, a: Args, node: Node) -> Val:
    def one(v: Val) -> Val:
        if isinstance(v, Tensor):
            return w.ufunc("abs", (v,), node)
        x = w.host_value(v, node, "abs()")
        return w.scalar("abs", w.read(x) if x.type == FLOAT else w.as_int(x), node=node)

    return w.each(a["x"], one, node)


@row("x ndigits=None", round)
def _round(w: Lowerer, a: Args, node: Node) -> Val:
    if not isinstance(a["ndigits"], NoneVal):
        raise w.refuse("ACR202", node, seen="round with digits", rewrite="round(x * 1000) / 1000")
    return _rounded(w, "round", w.host_value(a["x"], node, "round()"), node)


@row("*args", range)
def _range(w: Lowerer, a: Args, node: Node) -> Val:
    parts = []
    for v in a.rest:
        x = w.host_value(v, node, "range()", index=True)
        if x.type == FLOAT:
            raise w.refuse("ACR301", node, seen="range of a float")
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


@row("*args strict=False", zip)
def _zip(w: Lowerer, a: Args, node: Node) -> Val:
    parts = tuple(_iterable(w, v, node) for v in a.rest)
    return Zip(parts, bool(a.static("strict"))) if parts else TupleVal(())


@row("x start=0", enumerate)
def _enumerate(w: Lowerer, a: Args, node: Node) -> Val:
    return Enumerate(_iterable(w, a["x"], node), w.host_value(a["start"], node, "enumerate()", index=True))


@row("x", reversed)
def _reversed(w: Lowerer, a: Args, node: Node) -> Val:
    return Reversed(_iterable(w, a["x"], node))


def _iterable(w: Lowerer, val: Val, node: Node) -> Val:
    if isinstance(val, UnionVal):
        val = w.not_none(val, node)
    if isinstance(val, Generator):
        return w.comprehend(val.node)
    if isinstance(val, ListVal | Tensor | Range | Zip | Enumerate | Reversed) or w.items_of(val) is not None:
        return val
    raise w.refuse("ACR301", node, seen=f"{w.describe(val)} cannot be iterated over")


@row("x=()", list)
def _list(w: Lowerer, a: Args, node: Node) -> Val:
    val = _iterable(w, a["x"], node)
    if isinstance(val, ListVal):
        return w.list_slice(val, number(0), 1, w.list_lengths(val, node), node or ast.Constant(0))
    return w.collect(val, lambda v: v, node or ast.Constant(0))


@row("x=()", tuple)
def _tuple(w: Lowerer, a: Args, node: Node) -> Val:
    val = _iterable(w, a["x"], node)
    items = w.items_of(val)
    if items is None:
        raise w.refuse("ACR303", node, seen=f"a tuple of {w.describe(val)}, whose length is known only at run time",
                       rewrite="keep the list")  # fmt: skip
    return TupleVal(items)


@row("x start=0", sum)
def _sum(w: Lowerer, a: Args, node: Node) -> Val:
    return fold(w, a["x"], a["start"], lambda acc, v: w.binary(ast.Add(), acc, v, node or ast.Constant(0)), node)


def fold(w: Lowerer, iterable: Val, start: Val, f: Callable[[Val, Val], Val], node: Node) -> Val:
    """Return f(... f(f(start, x0), x1) ...)."""
    if isinstance(iterable, Generator):
        return fold_generator(w, iterable, start, f, node)
    val = _iterable(w, iterable, node)
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
        iterable = _iterable(w, val, node)
        w.iterate(iterable, where, item, lambda: test(w.state[(w.frame.scope, "#item")]), (), (key,))
    return w.state.pop(key) if w.block is not None else number(False)


@row("*args key=None default=None", min)
def _min(w: Lowerer, a: Args, node: Node) -> Val:
    return _extreme(w, a, node, "lt")


@row("*args key=None default=None", max)
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

    if len(a.rest) == 1:
        val = _iterable(w, a.rest[0], node)
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
        if len(items) > 1 and any(map(_has_tensor, keys)):
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
    if w.block is None:
        return number(0)
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
    best_val = w.state.pop(key, None)
    if w.block is not None and isinstance(best_val, TupleVal):
        points.append(w.point())
        vals.append(best_val.items[0])
        w.block = None
    return w.join_values(points, vals)


@row("x key=None reverse=False", sorted)
def _sorted(w: Lowerer, a: Args, node: Node) -> Val:
    val = _iterable(w, a["x"], node)
    where = node or ast.Constant(0)
    if isinstance(val, ListVal):
        copy = w.list_slice(val, number(0), 1, w.list_lengths(val, node), where)
    else:
        copy = w.to_list(val, where)
    sort_list(w, copy, a["key"], a["reverse"], node)
    return copy


def sort_list(w: Lowerer, base: ListVal, key: Val, reverse: Val, node: Node) -> None:
    """Sort a list in place, stably."""
    if base.cell.find().item is None:
        return

    def key_of(v: Val) -> Val:
        return v if isinstance(key, NoneVal) else w.call(key, (v,), {}, node)

    def sort(val: ListVal, by: ListVal) -> None:
        args = (val.var, by.var, w.word(down))
        w.emit(ir.ListOp(outs=(), op="sort", width=w.width(val), args=args, loc=w.at(node)))

    def part(k: int) -> Callable[[Val], Val]:
        return lambda v: v.items[k] if isinstance(v, TupleVal) else v

    keys = _host_keys(w, _keys(w, base, key_of, "keys", node), "a sort", node)
    if w.block is None:
        return
    down = w.truth(reverse, node)
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


def _has_tensor(key: Val) -> bool:
    """Whether a key, or a part of it, is a tensor."""
    match key:
        case TupleVal():
            return any(map(_has_tensor, key.items))
        case UnionVal():
            return any(isinstance(u, TensorT) for t in key.possible for u in _parts(t))
    return isinstance(key, Tensor)


def _host_key(w: Lowerer, key: Val, node: Node, what: str) -> Val:
    """Return a key as numbers, which are compared as NumPy compares the scalars that they were."""
    if isinstance(key, TupleVal):
        return TupleVal(tuple(_host_key(w, part, node, what) for part in key.items))
    if not isinstance(key, UnionVal):
        return _host_part(w, key, node, what)
    val = w.not_none(key, node)
    single = any(isinstance(t, TensorT) and t.dtype == "float32" for t in key.possible)

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


@row("x", iter)
def _iter(w: Lowerer, a: Args, node: Node) -> Val:
    return _iterable(w, a["x"], node)


@row("x y", pow)
def _pow(w: Lowerer, a: Args, node: Node) -> Val:
    return w.binary(ast.Pow(), a["x"], a["y"], node or ast.Constant(0))


@row("x y", divmod)
def _divmod(w: Lowerer, a: Args, node: Node) -> Val:
    where = node or ast.Constant(0)
    return TupleVal((w.binary(ast.FloorDiv(), a["x"], a["y"], where), w.binary(ast.Mod(), a["x"], a["y"], where)))


@row("x", type)
def _type(w: Lowerer, a: Args, node: Node) -> Val:
    from acronumba.frontend.objects import runtime_class

    val = a["x"]
    if isinstance(val, UnionVal) or (isinstance(val, Ref) and len(val.classes) > 1):
        raise w.refuse("ACR308", node, seen="type() of a value of several types", rewrite="isinstance(x, C)")
    kind = w.kind_of(val)
    if kind is None:
        raise w.refuse("ACR308", node, seen=w.describe(val))
    return Static(runtime_class(kind))


@row("obj name default=None", getattr)
def _getattr(w: Lowerer, a: Args, node: Node) -> Val:
    return w.attribute(a["obj"], str(a.static("name")), node)


@row("f xs", map)
def _map(w: Lowerer, a: Args, node: Node) -> Val:
    return w.collect(_iterable(w, a["xs"], node), lambda v: w.call(a["f"], (v,), {}, node), node or ast.Constant(0))


# ---- math


def _math(name: str) -> Handler:
    count = len(SCALARS[name].args)

    def handler(w: Lowerer, a: Args, node: Node) -> Val:
        nums = [w.as_float(w.host_value(v, node, f"math.{name}()")) for v in a.rest]
        if len(nums) != count:
            raise w.refuse("ACR203", node, seen=f"{len(nums)} arguments for math.{name}")
        return w.scalar(name, *nums, node=node)

    return handler


for _name in (
    "sqrt exp expm1 log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc fabs "
    "isnan isinf isfinite atan2 hypot copysign fmod"
).split():
    row("*args", getattr(math, _name))(_math(_name))


@row("x base=None", math.log)
def _math_log(w: Lowerer, a: Args, node: Node) -> Val:
    x = w.scalar("log", w.as_float(w.host_value(a["x"], node, "math.log()")), node=node)
    if isinstance(a["base"], NoneVal):
        return x
    return w.scalar(
        "div", x, w.scalar("log", w.as_float(w.host_value(a["base"], node, "math.log()")), node=node), node=node
    )


@row("x y", math.pow)
def _math_pow(w: Lowerer, a: Args, node: Node) -> Val:
    return w.scalar("pow", *(w.as_float(w.host_value(a[k], node, "math.pow()")) for k in "xy"), node=node)


def _whole(name: str) -> Handler:
    def handler(w: Lowerer, a: Args, node: Node) -> Val:
        return _rounded(w, name, w.host_value(a["x"], node, f"math.{name}()"), node)

    return handler


row("x", math.floor)(_whole("floor"))
row("x", math.ceil)(_whole("ceil"))


@row("x", math.trunc)
def _math_trunc(w: Lowerer, a: Args, node: Node) -> Val:
    if isinstance(a["x"], Tensor) and a["x"].type.dtype != "float64":  # the only scalar that is a Python number too
        raise w.refuse("ACR301", node, seen=f"math.trunc() of {w.describe(a['x'])}", rewrite="int(x)")
    return _rounded(w, "trunc", w.host_value(a["x"], node, "math.trunc()"), node)


@row("*xs", math.prod)
def _math_prod(w: Lowerer, a: Args, node: Node) -> Val:
    return fold(w, a.rest[0], number(1), lambda acc, v: w.binary(ast.Mult(), acc, v, node or ast.Constant(0)), node)


def _written(w: Lowerer, function: Callable[..., Any], args: Sequence[Val], kind: Type, node: Node) -> Val:
    """Call a function of `mathematics` with numbers of a type."""
    what = f"math.{function.__name__}"
    nums = [w.host_value(v, node, f"{what}()", index=kind == INT) for v in args]
    if kind == INT and any(x.type == FLOAT for x in nums):
        raise w.refuse("ACR301", node, seen=f"{what} of float")
    assert isinstance(function, types.FunctionType)
    func = w.function(function, node)
    assert isinstance(func, Func)
    return w.call_function(func, [w.as_int(x) if kind == INT else w.as_float(x) for x in nums], {}, node)


def _math_written(function: Callable[..., Any], kind: Type) -> Handler:
    names = inspect.signature(function).parameters
    return lambda w, a, node: _written(w, function, [a[name] for name in names], kind, node)


def _math_folded(function: Callable[..., Any], first: int) -> Handler:
    def handler(w: Lowerer, a: Args, node: Node) -> Val:
        out: Val = number(first)
        for v in a.rest:
            out = _written(w, function, [out, v], INT, node)
        return out

    return handler


row("*args", math.gcd)(_math_folded(mathematics.gcd, 0))
row("*args", math.lcm)(_math_folded(mathematics.lcm, 1))
row("n", math.factorial)(_math_written(mathematics.factorial, INT))
row("n", math.isqrt)(_math_written(mathematics.isqrt, INT))
row("n k", math.comb)(_math_written(mathematics.comb, INT))
row("n k", math.perm)(_math_written(mathematics.perm, INT))
row("x", math.degrees)(_math_written(mathematics.degrees, FLOAT))
row("x", math.radians)(_math_written(mathematics.radians, FLOAT))
row("a b rel_tol=1e-09 abs_tol=0.0", math.isclose)(_math_written(mathematics.isclose, FLOAT))


# ---- NumPy: element-wise


def _float_unary(w: Lowerer, name: str, val: Val, node: Node) -> Tensor:
    """`nn.sigmoid` and `nn.erf`: operations of their own, on float arrays."""
    x = w.as_tensor(val, node=node)
    dtype = x.type.dtype if x.type.dtype.startswith("float") else "float64"
    return w.element(name, [w.cast(x, dtype, node)], dtype, node)


@row("key counter", random.threefry)
def _threefry(w: Lowerer, a: Args, node: Node) -> Val:
    parts = [v if isinstance(v, Num) else w.as_tensor(v, node=node) for v in (a["key"], a["counter"])]
    for v in parts:
        if isinstance(v, Tensor) and v.type.dtype != "uint64":
            raise w.refuse("ACR301", node, seen=f"threefry of {w.describe(v)}", rewrite="x.astype(np.uint64)")
    return w.element("threefry", [_as_dtype(w, v, "uint64", node) for v in parts], "uint64", node)


def _ufunc(op: str) -> Handler:
    def handler(w: Lowerer, a: Args, node: Node) -> Val:
        vals = list(a.values.values())
        if len(vals) == 1:
            return w.each(vals[0], lambda v: w.ufunc(op, (v,), node), node)
        return w.each(vals[0], lambda x: w.each(vals[1], lambda y: w.ufunc(op, (x, y), node), node), node)

    return handler


_UNARY: dict[str, tuple[Any, ...]] = {
    "neg": (np.negative,), "sign": (np.sign,), "exp": (np.exp,), "log": (np.log,), "sqrt": (np.sqrt,),
    "sin": (np.sin,), "cos": (np.cos,), "tanh": (np.tanh,), "floor": (np.floor,), "isnan": (np.isnan,),
}  # fmt: skip
_BINARY: dict[str, tuple[Any, ...]] = {
    "add": (np.add,), "sub": (np.subtract,), "mul": (np.multiply,), "div": (np.divide,), "floordiv": (np.floor_divide,),
    "mod": (np.mod,), "pow": (np.power,), "maximum": (np.maximum,), "minimum": (np.minimum,), "and": (np.bitwise_and,),
    "or": (np.bitwise_or,), "xor": (np.bitwise_xor,), "eq": (np.equal,), "ne": (np.not_equal,), "lt": (np.less,),
    "le": (np.less_equal,), "gt": (np.greater,), "ge": (np.greater_equal,), "lshift": (np.left_shift,),
    "rshift": (np.right_shift,),
}  # fmt: skip
for _op, _fs in _UNARY.items():
    row("x", *_fs)(_ufunc(_op))
for _op, _fs in _BINARY.items():
    row("x y", *_fs)(_ufunc(_op))


def _logical(op: str, count: int) -> Handler:
    def handler(w: Lowerer, a: Args, node: Node) -> Val:
        parts = [w.cast(w.as_tensor(v, node=node), "bool", node) for v in a.values.values()]
        return w.element(op, parts, "bool", node)

    return handler


row("x y", np.logical_and)(_logical("and", 2))
row("x y", np.logical_or)(_logical("or", 2))
row("x y", np.logical_xor)(_logical("xor", 2))
row("x", np.logical_not)(_logical("not", 1))


@row("x", np.invert)
def _invert(w: Lowerer, a: Args, node: Node) -> Val:
    return w.ufunc("not", (a["x"],), node)


@row("x", np.square)
def _square(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    return w.ufunc("mul", (x, x), node)


@row("x", np.reciprocal)
def _reciprocal(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    return w.ufunc("div", (w.from_number(number(1), x.type.dtype, node), x), node)


@row("x min=None max=None a_min=None a_max=None", np.clip, method="clip")
def _clip(w: Lowerer, a: Args, node: Node) -> Val:
    out: Val = a["x"]
    for op, names in (("maximum", ("min", "a_min")), ("minimum", ("max", "a_max"))):
        for name in names:
            bound = a[name]
            if not isinstance(bound, NoneVal):
                out = w.ufunc(op, (out, bound), node)
    return out


@row("cond x y", np.where)
def _where(w: Lowerer, a: Args, node: Node) -> Val:
    return w.where(a["cond"], a["x"], a["y"], node)


# ---- NumPy: reductions


def _reduction(op: str) -> Handler:
    def handler(w: Lowerer, a: Args, node: Node) -> Val:
        dtype = a.dtype() if "dtype" in a.values else None
        return w.reduce(op, a.tensor("a"), a.static("axis"), bool(a.static("keepdims")), node, dtype)

    return handler


row("a axis=None dtype=None keepdims=False", np.sum, method="sum")(_reduction("sum"))
row("a axis=None dtype=None keepdims=False", np.prod, method="prod")(_reduction("prod"))
row("a axis=None keepdims=False", np.max, np.amax, method="max")(_reduction("max"))
row("a axis=None keepdims=False", np.min, np.amin, method="min")(_reduction("min"))
row("a axis=None keepdims=False", np.any, method="any")(_reduction("any"))
row("a axis=None keepdims=False", np.all, method="all")(_reduction("all"))


@row("a axis=None dtype=None keepdims=False", np.mean, method="mean")
def _mean(w: Lowerer, a: Args, node: Node) -> Val:
    return w.mean(a.tensor("a"), a.static("axis"), bool(a.static("keepdims")), node, a.dtype())


@row("a axis=None ddof=0 keepdims=False", np.var, method="var")
def _var(w: Lowerer, a: Args, node: Node) -> Val:
    return w.variance(
        a.tensor("a"), a.static("axis"), bool(a.static("keepdims")), w.host_value(a["ddof"], node, "ddof"), node
    )


@row("a axis=None ddof=0 keepdims=False", np.std, method="std")
def _std(w: Lowerer, a: Args, node: Node) -> Val:
    return w.ufunc("sqrt", (_var(w, a, node),), node)


@row("a axis=None keepdims=False", np.argmax, method="argmax")
def _argmax(w: Lowerer, a: Args, node: Node) -> Val:
    return w.arg_reduce("argmax", a.tensor("a"), a.static("axis"), bool(a.static("keepdims")), node)


@row("a axis=None keepdims=False", np.argmin, method="argmin")
def _argmin(w: Lowerer, a: Args, node: Node) -> Val:
    return w.arg_reduce("argmin", a.tensor("a"), a.static("axis"), bool(a.static("keepdims")), node)


@row("x ord=None axis=None keepdims=False", np.linalg.norm)
def _norm(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    order, axis = a.static("ord"), a.static("axis")
    if order not in (None, 2) or (order == 2 and x.type.rank != 1 and axis is None):
        raise w.refuse("ACR202", node, seen=f"np.linalg.norm with ord={order}")
    x = w.cast(x, x.type.dtype if x.type.dtype.startswith("float") else "float64", node)
    total = w.reduce("sum", w.ufunc("mul", (x, x), node), axis, bool(a.static("keepdims")), node)
    return w.ufunc("sqrt", (total,), node)


# ---- NumPy: products


@row("x y", np.matmul)
def _matmul(w: Lowerer, a: Args, node: Node) -> Val:
    return w.matmul(a.tensor("x"), a.tensor("y"), node)


@row("x y", np.dot, method="dot")
def _dot(w: Lowerer, a: Args, node: Node) -> Val:
    return w.dot(a.tensor("x"), a.tensor("y"), node)


@row("x y", np.inner)
def _inner(w: Lowerer, a: Args, node: Node) -> Val:
    x, y = a.tensor("x"), a.tensor("y")
    if y.type.rank > 1:
        y = w.transpose(y, (*range(y.type.rank - 2), y.type.rank - 1, y.type.rank - 2), node)
    return w.dot(x, y, node)


@row("x y", np.vdot)
def _vdot(w: Lowerer, a: Args, node: Node) -> Val:
    return w.dot(w.flatten(a.tensor("x"), node), w.flatten(a.tensor("y"), node), node)


@row("x y", np.outer)
def _outer(w: Lowerer, a: Args, node: Node) -> Val:
    return w.outer(a.tensor("x"), a.tensor("y"), node)


@row("spec *operands", np.einsum)
def _einsum(w: Lowerer, a: Args, node: Node) -> Val:
    return w.einsum(str(a.static("spec")), [w.as_tensor(v, node=node) for v in a.rest], node)


# ---- NumPy: shapes


def _tensor_items(w: Lowerer, val: Val, node: Node) -> list[Tensor]:
    if isinstance(val, Generator):
        val = w.comprehend(val.node)
    items = w.items_of(val)
    if items is None and isinstance(val, Tensor) and val.type.rank and isinstance(val.dims[0], int):
        items = tuple(w.take(val, number(k), 0, node) for k in range(val.dims[0]))
    if items is None:
        raise w.refuse("ACR202", node, seen=f"{w.describe(val)}, whose length is known only at run time",
                       rewrite="add the parts up one by one, or keep them in the list")  # fmt: skip
    return [w.as_tensor(w.not_none(v, node) if isinstance(v, UnionVal) else v, node=node) for v in items]


def _by_items(w: Lowerer, a: Args, node: Node, handler: Handler) -> Val | None:
    """Handle arrays of which one may be of several types, for each of them; None where there is no such array."""
    items = None if isinstance(a["arrays"], Generator) else w.items_of(a["arrays"])
    several = [k for k, v in enumerate(items or ()) if isinstance(v, UnionVal)]
    if items is None or not 0 < len(several) <= 4:
        return None
    k = several[0]

    def one(case: Val) -> Val:
        b = copy.copy(a)
        b.values = {**a.values, "arrays": TupleVal((*items[:k], case, *items[k + 1 :]))}
        return handler(w, b, node)

    return w.each(items[k], one, node)


@row("arrays axis=0 dtype=None", np.concatenate)
def _concatenate(w: Lowerer, a: Args, node: Node) -> Val:
    split = _by_items(w, a, node, _concatenate)
    if split is not None:
        return split
    runtime = _runtime_list(w, a["arrays"], node)
    if runtime is not None:
        return w.concat_list(runtime, a.static("axis"), node)
    tensors = _tensor_items(w, a["arrays"], node)
    if a.static("axis") is None:
        return w.concat([w.flatten(t, node) for t in tensors], 0, node, a.dtype())
    return w.concat(tensors, a.static("axis"), node, a.dtype())


@row("arrays axis=0", np.stack)
def _stack(w: Lowerer, a: Args, node: Node) -> Val:
    split = _by_items(w, a, node, _stack)
    if split is not None:
        return split
    runtime = _runtime_list(w, a["arrays"], node)
    if runtime is not None:
        return w.stack_list(runtime, a.static("axis"), node)
    tensors = _tensor_items(w, a["arrays"], node)
    if not tensors:
        w.fail("ValueError", "need at least one array to stack", node)
        raise Refused(None)
    return w.stack(tensors, a.static("axis"), node)


def _runtime_list(w: Lowerer, val: Val, node: Node) -> ListVal | None:
    if isinstance(val, Generator):
        val = w.comprehend(val.node)
    return val if isinstance(val, ListVal) else None


@row("arrays", np.hstack)
def _hstack(w: Lowerer, a: Args, node: Node) -> Val:
    tensors = [t if t.type.rank else w.reshape(t, (1,), node) for t in _tensor_items(w, a["arrays"], node)]
    return w.concat(tensors, 0 if tensors[0].type.rank == 1 else 1, node)


@row("arrays", np.vstack)
def _vstack(w: Lowerer, a: Args, node: Node) -> Val:
    runtime = _runtime_list(w, a["arrays"], node)
    if runtime is not None:
        return w.stack_list(runtime, 0, node)
    tensors = [
        t if t.type.rank > 1 else w.reshape(t, (1, *(t.dims or (1,))), node)
        for t in _tensor_items(w, a["arrays"], node)
    ]
    return w.concat(tensors, 0, node)


@row("x sections axis=0", np.split)
def _split(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    sections = a["sections"]
    if isinstance(sections, Num):
        k = w.known(sections)
        if k is NOT_CONST:
            raise w.refuse("ACR403", node, seen="a split into a number of parts that is known only at run time")
        return w.new_list(w.split(x, k, a.static("axis"), node), node or ast.Constant(0))
    items = w.items_of(sections)
    if items is None or not all(isinstance(v, Num) for v in items):
        raise w.refuse("ACR301", node, seen=f"a split at {w.describe(sections)}")
    parts = w.split(x, list(items), a.static("axis"), node)  # type: ignore[arg-type]
    return w.new_list(parts, node or ast.Constant(0))


def _shape(w: Lowerer, val: Val, node: Node) -> list[Num]:
    items = (val,) if isinstance(val, Num | Tensor) else w.items_of(val)
    if items is None:
        raise w.refuse("ACR403", node, seen=f"a shape {w.describe(val)}")
    return [w.host_value(v, node, "a shape", index=True) for v in items]


def _extents(w: Lowerer, val: Val, node: Node) -> list[Extent]:
    return [w.as_extent(w.as_int(n) if n.shared is None else n) for n in _shape(w, val, node)]


@row("x shape order='C'", np.reshape)
def _reshape(w: Lowerer, a: Args, node: Node) -> Val:
    return w.reshape_to(a.tensor("x"), _shape(w, a["shape"], node), node)


@row("x *shape", method="reshape")
def _reshape_method(w: Lowerer, a: Args, node: Node) -> Val:
    parts = a.rest
    shape: Val = parts[0] if len(parts) == 1 else TupleVal(tuple(parts))
    return w.reshape_to(a.tensor("x"), _shape(w, shape, node), node)


@row("x axes=None", np.transpose)
def _transpose(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    axes = a.static("axes")
    order = tuple(reversed(range(x.type.rank))) if axes is None else tuple(n % x.type.rank for n in axes)
    return w.transpose(x, order, node)


@row("x *axes", method="transpose")
def _transpose_method(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    axes = [w.static(v, node) for v in a.rest]
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], tuple)):
        axes = list(axes[0]) if axes[0] is not None else []
    order = tuple(n % x.type.rank for n in axes) if axes else tuple(reversed(range(x.type.rank)))
    return w.transpose(x, order, node)


@row("x a b", np.swapaxes, method="swapaxes")
def _swapaxes(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    order = list(range(x.type.rank))
    i, j = w.axes_of(a.static("a"), x.type.rank, node)[0], w.axes_of(a.static("b"), x.type.rank, node)[0]
    order[i], order[j] = order[j], order[i]
    return w.transpose(x, order, node)


@row("x source destination", np.moveaxis)
def _moveaxis(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    i, j = (w.axes_of(a.static(k), x.type.rank, node)[0] for k in ("source", "destination"))
    order = [k for k in range(x.type.rank) if k != i]
    order.insert(j, i)
    return w.transpose(x, order, node)


@row("x axis", np.expand_dims)
def _expand_dims(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    axis = a.static("axis")
    axes = axis if isinstance(axis, tuple) else (axis,)
    rank = x.type.rank + len(axes)
    where = w.axes_of(tuple(axes), rank, node)
    rest = iter(x.dims)
    return w.reshape(x, tuple(1 if k in where else next(rest) for k in range(rank)), node)


@row("x axis=None", np.squeeze, method="squeeze")
def _squeeze(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    axis = a.static("axis")
    if axis is None:
        if any(not isinstance(d, int) for d in x.dims):
            raise w.refuse("ACR403", node, seen=f"np.squeeze of {w.describe(x)} without axis", rewrite="give the axis")
        axes = tuple(k for k, d in enumerate(x.dims) if d == 1)
    else:
        axes = w.axes_of(axis, x.type.rank, node)
        for k in axes:
            w.same_extent(x.dims[k], 1, "an axis to squeeze", node)
    return w.reshape(x, tuple(d for k, d in enumerate(x.dims) if k not in axes), node)


@row("x shape", np.broadcast_to)
def _broadcast_to(w: Lowerer, a: Args, node: Node) -> Val:
    shape = _extents(w, a["shape"], node)
    w.not_negative(shape, node)
    return w.broadcast_to(a.tensor("x"), shape, node)


@row("x", np.ravel, method="ravel")
def _ravel(w: Lowerer, a: Args, node: Node) -> Val:
    return w.flatten(a.tensor("x"), node)


@row("x", method="flatten")
def _flatten(w: Lowerer, a: Args, node: Node) -> Val:
    return w.flatten(a.tensor("x"), node)


@row("x axis=None", np.flip)
def _flip(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    axes = w.axes_of(a.static("axis"), x.type.rank, node)
    parts = [w.slice_part(d, None, None, -1 if k in axes else 1, node) for k, d in enumerate(x.dims)]
    return w.slice(x, parts, node)


@row("x index axis=None", np.take, method="take")
def _take(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    axis = a.static("axis")
    if axis is None:
        x, axis = w.flatten(x, node), 0
    index = a["index"]
    at = index if isinstance(index, Num) else a.tensor("index")
    return w.take(x, at, w.axes_of(axis, x.type.rank, node)[0], node)


@row("x", np.atleast_1d)
def _atleast_1d(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    return x if x.type.rank else w.reshape(x, (1,), node)


@row("x reps", np.tile)
def _tile(w: Lowerer, a: Args, node: Node) -> Val:
    x, k = a.tensor("x"), a.static("reps")
    if not isinstance(k, int) or x.type.rank != 1:
        raise w.refuse("ACR202", node, seen="np.tile of more than one axis", rewrite="np.concatenate([x] * n)")
    return w.concat([x] * k, 0, node)


@row("x", method="copy")
def _copy(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    return Tensor(x.type, w.tensor_var(Tensor(x.type, x.ref, x.dims)), x.dims, fresh=True)


@row("x", np.copy)
def _np_copy(w: Lowerer, a: Args, node: Node) -> Val:
    return _copy(w, a, node)


@row("x", np.shape)
def _np_shape(w: Lowerer, a: Args, node: Node) -> Val:
    return TupleVal(tuple(w.extent(d) for d in a.tensor("x").dims))


@row("x", np.ndim)
def _np_ndim(w: Lowerer, a: Args, node: Node) -> Val:
    return number(a.tensor("x").type.rank)


# ---- NumPy: creation and dtypes


def _filled(value: float | None, default: str = "float64") -> Handler:
    def handler(w: Lowerer, a: Args, node: Node) -> Val:
        dtype = a.dtype() or default
        return w.full(_extents(w, a["shape"], node), number(value), dtype, node)

    return handler


row("shape dtype=None", np.zeros, np.empty)(_filled(0.0))
row("shape dtype=None", np.ones)(_filled(1.0))


@row("shape fill_value dtype=None", np.full)
def _full(w: Lowerer, a: Args, node: Node) -> Val:
    value = a["fill_value"]
    if not isinstance(value, Num | Tensor):
        raise w.refuse("ACR301", node, seen=f"np.full of {w.describe(value)}")
    return w.full(_extents(w, a["shape"], node), value, a.dtype(), node)


def _like(value: float | None) -> Handler:
    def handler(w: Lowerer, a: Args, node: Node) -> Val:
        x = a.tensor("x")
        fill = number(value) if value is not None else a["fill_value"]
        if not isinstance(fill, Num | Tensor):
            raise w.refuse("ACR301", node, seen=f"np.full_like of {w.describe(fill)}")
        return w.full(x.dims, fill, a.dtype() or x.type.dtype, node)

    return handler


row("x dtype=None", np.zeros_like, np.empty_like)(_like(0.0))
row("x dtype=None", np.ones_like)(_like(1.0))
row("x fill_value dtype=None", np.full_like)(_like(None))


@row("*args dtype=None", np.arange)
def _arange(w: Lowerer, a: Args, node: Node) -> Val:
    parts = [w.host_value(v, node, "np.arange()") for v in a.rest]
    start, stop, step = [number(0), *parts, number(1)] if len(parts) == 1 else [*parts, number(1)][:3]
    return w.arange(start, stop, step, a.dtype(), node)


@row("n m=None k=0 dtype=None", np.eye)
def _eye(w: Lowerer, a: Args, node: Node) -> Val:
    n = _extents(w, a["n"], node)[0]
    m = n if isinstance(a["m"], NoneVal) else _extents(w, a["m"], node)[0]
    return w.eye(n, m, a.static("k"), a.dtype() or "float64", node)


@row("n dtype=None", np.identity)
def _identity(w: Lowerer, a: Args, node: Node) -> Val:
    n = _extents(w, a["n"], node)[0]
    return w.eye(n, n, 0, a.dtype() or "float64", node)


@row("x dtype=None", np.array, np.asarray, np.ascontiguousarray)
def _array(w: Lowerer, a: Args, node: Node) -> Val:
    dtype = a.dtype()
    val = a["x"]
    if isinstance(val, Num):
        return w.from_number(val, dtype or {INT: "int64", FLOAT: "float64", BOOL: "bool"}[val.type], node)
    runtime = _runtime_list(w, val, node)
    if runtime is not None:
        out = w.stack_list(runtime, 0, node, dtype)
        return out
    x = w.as_tensor(val, node=node)
    if dtype is None:
        return x
    return w.cast(x, dtype, node)


def _as_dtype(w: Lowerer, val: Val, dtype: str, node: Node) -> Tensor:
    if isinstance(val, Num):
        return w.from_number(val, dtype, node)
    return w.cast(w.as_tensor(val, node=node), dtype, node)


@row("x dtype copy=True", method="astype")
def _astype(w: Lowerer, a: Args, node: Node) -> Val:
    dtype = a.dtype()
    assert dtype is not None
    x = a.tensor("x")
    out = w.cast(x, dtype, node)
    return Tensor(out.type, out.ref, out.dims, fresh=True) if out is x else out


@row("*args", np.result_type, np.promote_types)
def _result_type(w: Lowerer, a: Args, node: Node) -> Val:
    kinds = [np.dtype(v.type.dtype) if isinstance(v, Tensor) else w.static(v, node) for v in a.rest]
    return Static(np.result_type(*kinds))


@row("x", np.finfo, np.iinfo)
def _finfo(w: Lowerer, a: Args, node: Node) -> Val:
    dtype = np.dtype(a.static("x"))
    return Static(np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype))


@row("x", method="item")
def _item(w: Lowerer, a: Args, node: Node) -> Val:
    message = "can only convert an array of size 1 to a Python scalar"
    return w.host(w.only_element(a.tensor("x"), message, message, node), ".item()", node)


@row("x", method="tolist")
def _tolist(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    if not x.type.rank:
        return w.host(x, ".tolist()", node)
    if x.type.rank > 1:
        raise w.refuse("ACR202", node, seen=f".tolist() of {w.describe(x)}", rewrite="[row.tolist() for row in x]")
    where, target, item = node or ast.Constant(0), ast.Name("#item", ast.Store()), (w.frame.scope, "#item")

    def value() -> Val:
        return w.each(w.state[item], lambda v: w.host_value(v, node, ".tolist()"), node)

    rows = w.built(x, where, target, lambda: w.state[item], (), what="rows")  # all, then the value of each: one wait
    return w.built(rows, where, target, value, (), what="values")


# ---- methods of built-in types


def call_method(w: Lowerer, method: Method, args: list[Val], kwargs: dict[str, Val], node: Node) -> Val:
    """Call a method of a tensor, list, dict or tuple."""
    owner, name = method.owner, method.name
    if isinstance(owner, Tensor):
        known = TENSOR_METHODS.get(name)
        if known is None:
            raise w.refuse("ACR209", node, seen=f"the method .{name} of an array")
        signature, handler = known
        return handler(w, Args(w, f".{name}", signature, [owner, *args], kwargs, node), node)
    if isinstance(owner, StaticList) or (isinstance(owner, SharedVal) and owner.node.kind == "list"):
        if name in _LIST_CHANGES:
            if isinstance(owner, SharedVal):
                raise w.refuse("ACR113", node, seen=f".{name} of {owner.node.path}")
            w.make_real(owner.cell)
            raise Resweep
    if isinstance(owner, ListVal):
        return list_method(w, owner, name, args, kwargs, node)
    if isinstance(owner, DictVal) or (isinstance(owner, SharedVal) and owner.node.kind == "dict"):
        return dict_method(w, owner, name, args, kwargs, node)
    if name in ("copy",) and isinstance(owner, StaticList):
        return w.new_list(owner.items, node or ast.Constant(0))
    if isinstance(owner, StrVal):
        return _string_method(w, owner, name, args, kwargs, node)
    if name == "_replace":
        return replace_fields(w, [owner], kwargs, node)
    if name == "index" or name == "count":
        items = w.items_of(owner)
        if items is not None and len(args) == 1 and name == "count":
            out = number(0)
            for v in items:
                equal = w.truth(w.compare(ast.Eq(), v, args[0], node or ast.Constant(0)), node)
                out = w.scalar("add", out, w.as_int(equal))
            return out
    raise w.refuse("ACR209", node, seen=f"the method .{name} of {w.describe(owner)}")


def _string_method(w: Lowerer, owner: StrVal, name: str, args: list[Val], kwargs: dict[str, Val], node: Node) -> Val:
    """Call a method of a constant string, when the model is compiled."""
    values = [w.static(v, node) for v in args]
    if name.startswith("_") or not hasattr(str, name) or kwargs or NOT_CONST in values:
        raise w.refuse("ACR209", node, seen=f"the method .{name} of {w.describe(owner)}")
    try:
        out = getattr(owner.value, name)(*values)
    except (TypeError, ValueError, LookupError) as error:
        w.fail(type(error).__name__, str(error), node)
        raise Dead from None
    if isinstance(out, list):
        return w.new_list([w.constant(v) for v in out], node or ast.Constant(0))
    return TupleVal(tuple(map(w.constant, out))) if isinstance(out, tuple) else w.constant(out)


_LIST_CHANGES = ("append", "pop", "extend", "insert", "sort", "reverse", "clear", "remove")


def list_method(w: Lowerer, base: ListVal, name: str, args: list[Val], kwargs: dict[str, Val], node: Node) -> Val:
    where = node or ast.Constant(0)
    match name, args:
        case "append", [val]:
            if isinstance(val, Generator):
                raise w.refuse("ACR114", val.node)
            w.append(base, val, where)
            return NoneVal()
        case "extend", [val]:
            w.extend(base, _iterable(w, val, node), where)
            return NoneVal()
        case "pop", [] | [_]:
            w.check_mutable(base, where)
            n = w.list_lengths(base, node)
            w.check(w.scalar("gt", n, number(0)), "IndexError", "pop from empty list", (), node)
            if args:
                i = w.checked_index(
                    w.host_value(args[0], node, ".pop()", index=True), n, where, "pop index out of range"
                )
            else:
                i = w.scalar("sub", n, number(1))
            w.not_void(base, node)
            outs = tuple(w.var("item", t) for t in words(base.item))
            if w.block is not None:
                w.emit(ir.ListOp(outs=outs, op="pop", width=w.width(base), args=(base.var, w.word(i)), loc=w.at(node)))
            return w.element_of(base, outs)
        case "insert", [index, val]:
            w.check_mutable(base, where)
            n, i = w.list_lengths(base, node), w.read(w.as_int(w.host_value(index, node, ".insert()", index=True)))
            i = w.select(
                w.scalar("lt", i, number(0)), w.scalar("max", number(0), w.scalar("add", i, n)), w.scalar("min", i, n)
            )
            w.append(base, val, where, "insert", i)
            return NoneVal()
        case "sort", []:
            w.check_mutable(base, where)
            sort_list(w, base, kwargs.get("key", NoneVal()), kwargs.get("reverse", number(False)), node)
            return NoneVal()
        case "copy", []:
            return w.list_slice(base, number(0), 1, w.list_lengths(base, node), where)
        case "count", [val]:
            return fold(
                w,
                base,
                number(0),
                lambda acc, v: w.binary(ast.Add(), acc, w.truth(w.compare(ast.Eq(), v, val, where), node), where),
                node,
            )
    raise w.refuse("ACR209", node, seen=f"the method .{name} of a list")


def dict_method(w: Lowerer, owner: Val, name: str, args: list[Val], kwargs: dict[str, Val], node: Node) -> Val:
    val = w.materialise(owner) if isinstance(owner, SharedVal) else owner
    assert isinstance(val, DictVal)
    keys = tuple(StrVal(k) for k in val.keys)
    match name, args:
        case "keys", []:
            return TupleVal(keys)
        case "values", []:
            return TupleVal(val.items)
        case "items", []:
            return TupleVal(tuple(TupleVal(pair) for pair in zip(keys, val.items, strict=True)))
        case "get", [StrVal(value=key)] | [StrVal(value=key), _]:
            if key in val.keys:
                return val.items[val.keys.index(key)]
            return args[1] if len(args) > 1 else NoneVal()
    raise w.refuse("ACR209", node, seen=f"the method .{name} of a dict")
