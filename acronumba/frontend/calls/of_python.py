"""Handlers of Python's builtins and of `math`."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from acronumba.data.classes import field_names
from acronumba.frontend.attributes import attribute, names_of_module
from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.of_attributes import attribute_by_name, other_names
from acronumba.frontend.calls.tables import Handler, row
from acronumba.frontend.comprehensions import as_iterable, collect, to_list
from acronumba.frontend.conditions import host_value, kind_of, truth
from acronumba.frontend.exceptions import Dead
from acronumba.frontend.handlers import ARRAYS, handles
from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.functions import OneOfFunctions, Static
from acronumba.frontend.kinds.iterators import Cursor, Range, SliceVal, Stream, Waiting, Zip
from acronumba.frontend.kinds.lists import ListVal
from acronumba.frontend.kinds.numbers import NoneVal, Num, number
from acronumba.frontend.kinds.objects import Ref
from acronumba.frontend.kinds.strings import StringValue, made
from acronumba.frontend.kinds.torch_tensors import TorchTensor
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.unions import UnionVal
from acronumba.frontend.kinds.value import NOT_CONST, Val
from acronumba.frontend.library.builtins import advance, first
from acronumba.frontend.library.math import MOST_DIGITS, rounded_float, rounded_int
from acronumba.frontend.library.parsing import float_of, int_of, int_of_base
from acronumba.frontend.lists import list_slice
from acronumba.frontend.made import set_attribute
from acronumba.frontend.magic import call_special, has_method, object_class
from acronumba.frontend.names import advanced_names
from acronumba.frontend.overlay import has
from acronumba.frontend.tensors import INFINITE, NOT_A_NUMBER
from acronumba.ir.ops import MATH, SCALARS
from acronumba.ir.types import BOOL, FLOAT, Array0T

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


# ---- builtins


def _rounded(w: Walker, op: str, x: Num) -> Num:
    """Return a number as an int, by `SCALARS[op]` if it is a float."""
    if x.type != FLOAT:
        return w.as_int(x)
    x = w.read(x)
    w.check(w.negate(w.scalar("isnan", x)), "ValueError", NOT_A_NUMBER)
    w.check(w.negate(w.scalar("isinf", x)), "OverflowError", INFINITE)
    return w.scalar(op, x)


def as_float(w: Walker, val: Val, what: str) -> Num:
    """Return a value as a Python float; reading the element of a tensor may wait for it."""
    if isinstance(val, Tensor) and not val.type.rank and val.type.dtype == "uint64":  # may exceed a signed 64-bit int
        val = w.ops.cast(val, "float64")
    return w.as_float(host_value(w, val, what))


@row("x base", int, whole=True)
def _int(w: Walker, a: Args) -> Val:
    base = a["base"] if "base" in a.given else None

    def one(v: Val) -> Val:
        if base is not None:
            if not isinstance(v, StringValue):
                rejection = w.reject("ACR301", seen=f"int() of {w.describe(v)} with a base")
                raise w.fails("TypeError", rejection, "int() can't convert non-string with explicit base")
            return w.call(w.constant(int_of_base), (v, base), {})
        text = _number_in_text(w, v, int, int_of)
        return _rounded(w, "trunc", host_value(w, v, "int()")) if text is None else text

    return w.each(a["x"], one)


def _number_in_text(w: Walker, val: Val, cls: type, of_run_time: Callable[..., object]) -> Val | None:
    """Return `int(val)` or `float(val)` of a string; None for other values."""
    if not isinstance(val, StringValue):
        return None
    text = w.static(val)
    return w.call(w.constant(of_run_time), (val,), {}) if text is NOT_CONST else w.constant(made(w, lambda: cls(text)))


@row("x", float, whole=True)
def _float(w: Walker, a: Args) -> Val:
    def one(v: Val) -> Val:
        text = _number_in_text(w, v, float, float_of)
        return as_float(w, v, "float()") if text is None else text

    return w.each(a["x"], one)


@row("x", bool, whole=True)
def _bool(w: Walker, a: Args) -> Val:
    return truth(w, a["x"])


@handles(ARRAYS, UnionVal)
def _one_array(w: Walker, val: UnionVal, dtype: str | None) -> Tensor:
    """Return a union of numbers and arrays as one array; reject it if NumPy gives the alternatives several dtypes."""
    made = w.each(val, lambda v: w.ops.as_tensor(v, dtype))
    if not isinstance(made, Tensor):
        raise w.reject("ACR301", seen=w.describe(val), rewrite="pass an array or a number")
    return made


@row("x", len)
def _len(w: Walker, a: Args) -> Val:
    def one(v: Val) -> Val:
        if has_method(w, v, "__len__"):
            return call_special(w, v, "__len__", ())
        if isinstance(v, Ref) and issubclass(v.classes[0], tuple):
            return number(len(field_names(v.classes[0])))
        found = v.length(w)
        if found is not None:
            return found
        items = None if v.is_iterator else w.items_of(v)
        if items is None:
            rewrite = (
                "an array with an axis; `batch` takes a list of instances, not one" if isinstance(v, Tensor) else ""
            )
            raise w.reject("ACR301", seen=f"len of {w.describe(v)}", rewrite=rewrite)
        return number(len(items))

    return w.each(a["x"], one)


@row("x", abs, np.ndarray.__abs__)
def _abs(w: Walker, a: Args) -> Val:
    def one(v: Val) -> Val:
        if isinstance(v, Tensor):
            return w.ops.ufunc("abs", (v,))
        if isinstance(v, TorchTensor):
            return w.call(Static(getattr(v.python_class, "__abs__")), (v,), {})  # noqa: B009
        if has_method(w, v, "__abs__"):
            return call_special(w, v, "__abs__", ())
        x = host_value(w, v, "abs()")
        return w.scalar("abs", w.read(x) if x.type == FLOAT else w.as_int(x))

    return w.each(a["x"], one)


@row("x ndigits", round)
def _round(w: Walker, a: Args) -> Val:
    if not a.is_none("ndigits"):
        return w.each(a["x"], lambda x: _round_to(w, x, a))
    if isinstance(a["x"], Tensor) and a["x"].type.dtype == "bool":
        raise w.reject("ACR301", seen="round() of a NumPy bool", rewrite="int(x)")
    if isinstance(a["x"], Tensor) and a["x"].array0 is not None:
        w.check(w.negate(a["x"].array0), "TypeError", "type numpy.ndarray doesn't define __round__ method")
        if w.block is None:
            raise Dead
    return _rounded(w, "round", host_value(w, a["x"], "round()"))


def _round_to(w: Walker, x: Val, a: Args) -> Val:
    """Return `round(x, digits)`, a number of the type of `x`."""
    digits = a.static("ndigits")
    if type(digits) is not int or not isinstance(x, Num | Tensor):
        raise w.reject("ACR301", seen=f"round({w.describe(x)}, {w.describe(a['ndigits'])})")
    if isinstance(x, Tensor):
        if x.type.dtype == "bool" or x.type.rank or x.array0 is not None:
            raise w.reject("ACR301", seen=f"round() of {w.describe(x)}", rewrite="np.round(x, digits)")
        return w.call(w.constant(np.round), (x, a["ndigits"]), {})
    if x.type != FLOAT and digits >= 0:
        return w.as_int(x)
    most = MOST_DIGITS if x.type == FLOAT else 18
    if abs(digits) > most:
        raise w.reject("ACR202", a.where["ndigits"], seen=f"round to {digits} digits", rewrite=f"up to {most} digits")
    written = rounded_float if x.type == FLOAT else rounded_int
    return w.call(w.constant(written), (x if x.type == FLOAT else w.as_int(x), a["ndigits"]), {})


@row("*args", range, whole=True)
def _range(w: Walker, a: Args) -> Val:
    parts = []
    for v in a.rest:
        x = host_value(w, v, "range()", index=True)
        parts.append(w.as_int(x) if x.shared is None else x)
    if not 1 <= len(parts) <= 3:
        raise w.reject("ACR203", seen=f"{len(parts)} arguments for range")
    start, stop, step = [number(0), *parts, number(1)] if len(parts) == 1 else [*parts, number(1)][:3]
    value = w.known(step) if step.shared is None else step.const
    if value is NOT_CONST:
        step = w.read(step)
        w.check(w.scalar("ne", step, number(0)), "ValueError", "range() arg 3 must not be zero")
    elif value == 0:
        w.fail("ValueError", "range() arg 3 must not be zero")
    return Range(start, stop, step)


@row("*args strict", zip, whole=True)
def _zip(w: Walker, a: Args) -> Val:
    if len(a.rest) == 1 and isinstance(a.rest[0], Zip) and a.rest[0].starred:
        if a.static("strict"):
            raise w.reject("ACR202", a.where["strict"], seen="zip(*rows, strict=True)", rewrite="test the lengths")
        return a.rest[0]
    parts = tuple(as_iterable(w, v, at_once=False) for v in a.rest)
    return Zip(parts, bool(a.static("strict"))) if parts else TupleVal(())


@row("x start", enumerate, whole=True)
def _enumerate(w: Walker, a: Args) -> Val:
    start = host_value(w, a["start"], "enumerate()", index=True)
    inner = as_iterable(w, a["x"], at_once=False)
    return Zip((inner,), start=w.as_int(start) if start.type == BOOL else start)


@row("x", reversed, whole=True)
def _reversed(w: Walker, a: Args) -> Val:
    if has_method(w, a["x"], "__reversed__"):
        return call_special(w, a["x"], "__reversed__", ())
    w.check_items(a["x"], "__iter__", "__len__", "__getitem__")
    if object_class(a["x"]) is not None:
        raise w.reject("ACR301", seen=f"reversed() of {w.describe(a['x'])}", rewrite="xs[::-1] of a list")
    return Stream(as_iterable(w, a["x"]), backward=True)


@row("x", list, list.copy, whole=True)
def _list(w: Walker, a: Args) -> Val:
    val = as_iterable(w, a["x"])
    if isinstance(val, ListVal):
        return list_slice(w, val, number(0), 1, w.ops.list_lengths(val))
    return collect(w, val, lambda v: v)


@row("x", tuple, whole=True)
def _tuple(w: Walker, a: Args) -> Val:
    val = as_iterable(w, a["x"])
    items = w.items_of(val)
    if items is not None:
        return TupleVal(items)
    made = to_list(w, val)
    if made is val:  # the list may be mutated
        made = list_slice(w, made, number(0), 1, w.ops.list_lengths(made))
    return replace(made, cls=tuple)


@row("x", iter, whole=True)
def _iter(w: Walker, a: Args) -> Val:
    if isinstance(a["x"], Cursor):
        return a["x"]
    inner = as_iterable(w, a["x"], at_once=False)
    fixed = a["x"].python_class is str or (inner.is_mapping and inner.is_input)
    if fixed and advanced_names(w.frame.func.source.node):
        inner = to_list(w, inner)
    return Stream(inner, advances=fixed or (inner.has_positions and a["x"].python_class in (list, tuple, range)))


@row("iterator default", next, whole=True)
def _next(w: Walker, a: Args) -> Val:
    val = a["iterator"]
    if isinstance(val, Cursor):
        default = [a["default"]] if "default" in a.given else []
        return w.call(w.constant(advance), [val.inner, val.position, *default], {})
    if isinstance(val, Waiting):
        return _next_of_waiting(w, val, a["default"] if "default" in a.given else None)
    if not val.is_iterator and not _is_of_module(w):
        seen = f"next() of {w.describe(val)}"
        raise w.reject("ACR202", a.where["iterator"], seen=seen, rewrite="next(x for x in xs), or an index of a list")
    return w.call(w.constant(first), [val, *([a["default"]] if "default" in a.given else ())], {})


def _next_of_waiting(w: Walker, val: Waiting, default: Val | None) -> Val:
    ended, item = val.pull.ask()
    points, values = w.leave(), [item]
    w.join(ended)
    if default is None and w.block is not None:
        w.fail("StopIteration", "")
    elif default is not None and w.block is not None:
        points += w.leave()
        values = [item, default][-len(points) :]
    out = w.join_values(points, values)
    if w.block is None:
        raise Dead
    return out


def _is_of_module(w: Walker) -> bool:
    """Whether `next` reads a generator of a module of PyTorch, such as `self.parameters()`, which is a list here."""
    given = w.here.args[0] if isinstance(w.here, ast.Call) and w.facts.tensors else None
    func = given.func if isinstance(given, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr in _OF_MODULES


_OF_MODULES = ("parameters", "buffers", "children", "modules", "named_parameters", "named_children", "named_modules")


@row("start stop step", slice, whole=True)
def _slice(w: Walker, a: Args) -> Val:
    if "stop" not in a.given:
        return SliceVal(NoneVal(), a["start"], NoneVal())
    return SliceVal(a["start"], a["stop"], a["step"])


@row("object", vars, whole=True)
def _vars(w: Walker, a: Args) -> Val:
    module = w.static(a["object"])
    if not isinstance(module, ModuleType):
        seen = f"vars of {w.describe(a['object'])}, which is no module"
        raise w.reject("ACR202", a.where["object"], seen=seen, rewrite="read the attributes one by one")
    return names_of_module(w, module)


@row("x", type, whole=True)
def _type(w: Walker, a: Args) -> Val:
    from acronumba.frontend.calls.objects import runtime_class

    val = a["x"]

    def one(val: Val) -> Val:
        kind = kind_of(w, val)
        if kind is None or (isinstance(kind, Array0T) and not kind.sure):
            raise w.reject("ACR308", seen=w.describe(val))
        return Static(runtime_class(kind))

    out = w.each(val, one, itself=True)
    return replace(out, of=val) if isinstance(out, OneOfFunctions) and isinstance(val, UnionVal) else out


@row("obj name default", getattr, whole=True, rank0="any")
def _getattr(w: Walker, a: Args) -> Val:
    if w.static(a["name"]) is NOT_CONST:
        default = a["default"] if "default" in a.given else None
        found = attribute_by_name(w, a["obj"], a["name"], a.where["name"], default)
        if found is not None:
            return found
        others = other_names(a["obj"], a.where["name"])
        seen = f"getattr of {w.describe(a['obj'])} by a name that only run time knows{others}"
        rewrite = "the objects in a list or dict, by index or key: self.parts[k], self.parts[kind]"
        message = "this name must be known when the model is compiled"
        raise w.reject("ACR403", a.where["name"], seen, rewrite, message)
    name = a.static("name")
    if not isinstance(name, str):
        raise w.reject("ACR301", a.where["name"], seen=f"{name!r} for the name of an attribute")

    def one(obj: Val) -> Val:
        if "default" not in a.given:
            return attribute(w, obj, name)
        return w.cond(has(w, obj, name), lambda: attribute(w, obj, name), lambda: a["default"])

    return w.each(a["obj"], one)


@row("obj name", hasattr, whole=True)
def _hasattr(w: Walker, a: Args) -> Val:
    module = w.static(a["obj"])
    if isinstance(module, ModuleType) and (found := names_of_module(w, module).contains(w, a["name"])) is not None:
        return found
    name = a.static("name")
    if not isinstance(name, str):
        raise w.reject("ACR301", a.where["name"], seen=f"{name!r} for the name of an attribute")
    return w.each(a["obj"], lambda obj: has(w, obj, name))


@row("obj name value", setattr, whole=True)
def _setattr(w: Walker, a: Args) -> Val:
    name = a.static("name")
    if not isinstance(name, str):
        raise w.reject("ACR301", a.where["name"], seen=f"{name!r} for the name of an attribute")
    set_attribute(w, a["obj"], name, a["value"])
    return NoneVal()


# ---- math


def _math(name: str) -> Handler:
    def handler(w: Walker, a: Args) -> Val:
        nums = [as_float(w, v, f"math.{name}()") for v in a.values.values()]
        return w.scalar(name, *nums)

    return handler


for _name in (*MATH, "isnan", "isinf", "isfinite"):
    if _name in ("log", "hypot"):
        continue  # handled below: an optional base; any number of arguments
    row(" ".join("xy"[: len(SCALARS[_name].args)]), getattr(math, _name))(_math(_name))


@row("*args", math.hypot)
def _hypot(w: Walker, a: Args) -> Val:
    out = number(0.0)
    for v in a.rest:
        out = w.scalar("hypot", out, w.as_float(host_value(w, v, "math.hypot()")))
    return out


@row("x base", math.log)
def _math_log(w: Walker, a: Args) -> Val:
    x = w.scalar("log", as_float(w, a["x"], "math.log()"))
    if "base" not in a.given:
        return x
    return w.scalar("div", x, w.scalar("log", as_float(w, a["base"], "math.log()")))


@row("x y", math.pow)
def _math_pow(w: Walker, a: Args) -> Val:
    x, y = (as_float(w, a[k], "math.pow()") for k in "xy")
    return w.float_power(x, y, "ValueError", "math domain error")


def _whole(name: str) -> Handler:
    def handler(w: Walker, a: Args) -> Val:
        if isinstance(a["x"], Tensor):  # Python converts NumPy scalars to float
            return _rounded(w, name, as_float(w, a["x"], f"math.{name}()"))
        return _rounded(w, name, host_value(w, a["x"], f"math.{name}()"))

    return handler


row("x", math.floor)(_whole("floor"))
row("x", math.ceil)(_whole("ceil"))


NO_TRUNC = "type numpy.ndarray doesn't define __trunc__ method"


@row("x", math.trunc)
def _math_trunc(w: Walker, a: Args) -> Val:
    if isinstance(a["x"], Tensor) and a["x"].type.dtype != "float64":  # float64 scalars alone are Python floats
        raise w.reject("ACR301", seen=f"math.trunc() of {w.describe(a['x'])}", rewrite="int(x)")
    if isinstance(a["x"], Tensor) and a["x"].array0 is not None:
        w.check(w.negate(a["x"].array0), "TypeError", NO_TRUNC)
    return _rounded(w, "trunc", host_value(w, a["x"], "math.trunc()"))
