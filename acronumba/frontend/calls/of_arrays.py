"""Handlers of NumPy's array constructors, dtype functions, and conversions of arrays to Python values."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.of_shapes import extents, runtime_list, with_axis
from acronumba.frontend.calls.tables import Handler, row
from acronumba.frontend.comprehensions import all_items, built
from acronumba.frontend.conditions import host_value
from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.functions import Static
from acronumba.frontend.kinds.lists import ListVal
from acronumba.frontend.kinds.numbers import NoneVal, Num, number
from acronumba.frontend.kinds.value import NOT_CONST, Val
from acronumba.frontend.loops import iterate
from acronumba.frontend.subscripts import no_uint64
from acronumba.frontend.tensors import PYTHON
from acronumba.ir.types import BOOL, INT, FloatT, IntT, TensorT

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


def _filled(value: float | None, default: str = "float64") -> Handler:
    def handler(w: Walker, a: Args) -> Val:
        dtype = a.dtype() or default
        return w.ops.full(extents(w, a), number(value), dtype)

    return handler


row("shape dtype", np.zeros, np.empty, rank0="array")(_filled(0.0))
row("shape dtype", np.ones, rank0="array")(_filled(1.0))


@row("shape fill_value dtype", np.full, rank0="array")
def _full(w: Walker, a: Args) -> Val:
    value = a["fill_value"]
    if not isinstance(value, Num | Tensor):
        raise w.reject("ACR301", seen=f"np.full of {w.describe(value)}")
    return w.ops.full(extents(w, a), value, a.dtype())


def _like(value: float | None) -> Handler:
    def handler(w: Walker, a: Args) -> Val:
        x = a.tensor("x")
        fill = number(value) if value is not None else a["fill_value"]
        if not isinstance(fill, Num | Tensor):
            raise w.reject("ACR301", seen=f"np.full_like of {w.describe(fill)}")
        dims = x.dims if a.is_none("shape") else extents(w, a)
        return w.ops.full(dims, fill, a.dtype() or x.type.dtype)

    return handler


row("x dtype shape", np.zeros_like, np.empty_like, rank0="array")(_like(0.0))
row("x dtype shape", np.ones_like, rank0="array")(_like(1.0))
row("x fill_value dtype shape", np.full_like, rank0="array")(_like(None))


@row("start stop step dtype", np.arange)
def _arange(w: Walker, a: Args) -> Val:
    start, stop = a["start"], a["stop"]
    if isinstance(stop, NoneVal):
        start, stop = number(0), start
    elif "start" not in a.given:
        start = number(0)
    if isinstance(stop, NoneVal) or (a.is_none("stop") and isinstance(a.where["start"], ast.keyword)):
        raise w.reject("ACR203", seen="np.arange without stop")
    if isinstance(start, NoneVal):
        raise w.reject("ACR301", a.where["start"], seen="None for start of np.arange", rewrite="np.arange(0, stop)")
    no_uint64(w, start, stop, a["step"])
    first, last, step = (host_value(w, v, "np.arange()") for v in (start, stop, a["step"]))
    return w.ops.arange(first, last, step, a.dtype())


@row("n m k dtype", np.eye)
def _eye(w: Walker, a: Args) -> Val:
    n = extents(w, a, "n")[0]
    m = n if a.is_none("m") else extents(w, a, "m")[0]
    return w.ops.eye(n, m, a.whole("k"), a.dtype() or "float64")


@row("n dtype", np.identity)
def _identity(w: Walker, a: Args) -> Val:
    n = extents(w, a, "n")[0]
    return w.ops.eye(n, n, 0, a.dtype() or "float64")


@row("x dtype", np.array, np.asarray, np.asanyarray, rank0="array")
def _array(w: Walker, a: Args) -> Val:
    dtype = a.dtype()
    val = a["x"]
    if val.is_lazy:
        val = all_items(w, val)
    runtime = runtime_list(w, val)
    if runtime is not None and dtype is not None:
        _check_list(w, runtime, dtype)
    out = w.ops.as_tensor(val if runtime is None else runtime, dtype)
    return w.ops.as_array(out) if a.what == "np.array" and isinstance(val, Tensor) else out  # `np.array` always copies


def _check_list(w: Walker, val: ListVal, dtype: str) -> None:
    """Check that the elements of a list fit a dtype; Python numbers are checked one by one, as NumPy does."""
    item = val.item
    if isinstance(item, TensorT):
        w.ops.fits_array(item, dtype)
    if not isinstance(item, IntT | FloatT) or np.dtype(dtype).kind not in "iu" or (item, dtype) == (INT, "int64"):
        return

    def turn(item: Val) -> None:
        if isinstance(item, Num):
            w.ops.from_number(item, dtype)

    iterate(w, val, turn)


@row("x", np.from_dlpack, rank0="array")
def _from_dlpack(w: Walker, a: Args) -> Val:
    return a.tensor("x")


@row("x dtype", np.ascontiguousarray)
def _ascontiguousarray(w: Walker, a: Args) -> Val:
    x = _array(w, a)
    return with_axis(w, x) if isinstance(x, Tensor) else x


def as_dtype(w: Walker, val: Val, dtype: str) -> Tensor:
    if isinstance(val, Num):
        return w.ops.from_number(val, dtype)
    return w.ops.cast(w.ops.as_tensor(val), dtype)


@row("x dtype casting copy", np.ndarray.astype, rank0="first")
def _astype(w: Walker, a: Args) -> Val:
    x, dtype = a.tensor("x"), a.dtype() or "float64"
    a.may_cast([x], dtype)
    out = w.ops.cast(x, dtype)
    if out is x and a.flag("copy"):
        return Tensor(out.type, out.ref, out.dims, fresh=True, array0=x.array0)
    return out


@row("*args", np.result_type)
def _result_type(w: Walker, a: Args) -> Val:
    with w.at_node(a.where["*args"]):
        return _dtypes(w, np.result_type, *(_kind(w, v) for v in a.rest))


@row("x y", np.promote_types)
def _promote_types(w: Walker, a: Args) -> Val:
    return _dtypes(w, np.promote_types, a.static("x"), a.static("y"))


def _dtypes(w: Walker, function: Callable[..., object], *kinds: object) -> Val:
    """Return the result of a function of dtypes for compile-time constants."""
    try:
        return Static(function(*kinds))
    except (TypeError, ValueError) as error:
        raise w.reject("ACR301", seen=f"np.{function.__name__}: {error}") from None


def _kind(w: Walker, val: Val) -> Any:
    """Return the operand of NumPy's type promotion for a value: a dtype, or the zero of a (weak) Python type."""
    if isinstance(val, Num):
        return PYTHON[val.type](0)
    out = np.dtype(val.type.dtype) if isinstance(val, Tensor) else w.static(val)
    if out is NOT_CONST:
        raise w.reject("ACR301", seen=f"np.result_type of {w.describe(val)}")
    return out


row("x", np.finfo)(lambda w, a: _dtypes(w, np.finfo, a.static("x")))
row("x", np.iinfo)(lambda w, a: _dtypes(w, np.iinfo, a.static("x")))


@row("x *args", np.ndarray.item)
def _item(w: Walker, a: Args) -> Val:
    x = a.tensor("x")
    with w.at_node(a.where["*args"]):
        where = [host_value(w, v, ".item()", index=True) for v in a.rest]
    if not where:
        message = "can only convert an array of size 1 to a Python scalar"
        return w.ops.host(w.ops.only_element(x, message, message), ".item()")
    if any(i.type == BOOL for i in where):
        raise w.reject("ACR301", a.where["*args"], seen=".item() of bool", rewrite="int(i)")
    if len(where) == 1:
        x = w.ops.flatten(x)
    if len(where) != x.type.rank:
        raise w.reject("ACR402", a.where["*args"], seen=f"{len(where)} indices for {w.describe(x)}")
    for i in where:
        x = w.ops.take(x, i, 0)
    return w.ops.host(x, ".item()")


@row("x", np.ndarray.tolist)
def _tolist(w: Walker, a: Args) -> Val:
    x = a.tensor("x")
    if not x.type.rank:
        return w.ops.host(x, ".tolist()")
    if x.type.rank > 1:
        raise w.reject("ACR202", seen=f".tolist() of {w.describe(x)}", rewrite="[row.tolist() for row in x]")
    rows = built(w, x, lambda v: v, "rows")  # all rows first, then their values: one wait
    return built(w, rows, lambda row: w.each(row, lambda v: host_value(w, v, ".tolist()")), "values")
