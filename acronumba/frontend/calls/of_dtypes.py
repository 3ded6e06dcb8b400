"""Handlers of NumPy's queries of dtypes, and of `np.astype`, `np.isscalar` and `np.iterable`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.of_arrays import as_dtype
from acronumba.frontend.calls.tables import row
from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.value import NOT_CONST, Val
from acronumba.frontend.magic import has_method

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


def _dtype_of(w: Walker, a: Args, name: str) -> Any:
    """Return the dtype that an argument is, or the dtype of an array."""
    val = a[name]
    if isinstance(val, Tensor):
        return np.dtype(val.type.dtype)
    out = w.static(val)
    if out is NOT_CONST:
        raise w.reject("ACR301", a.where[name], seen=f"{w.describe(val)} for {name} of {a.what}", rewrite="x.dtype")
    return out


def _told(w: Walker, a: Args, f: Any, *values: Any) -> Val:
    """Return `f(*values)` as a constant; reject the call if NumPy raises an error."""
    try:
        return w.constant(f(*values))
    except (TypeError, ValueError) as error:
        raise w.reject("ACR310", seen=f"{a.what}: {error}") from None


@row("from_ to casting", np.can_cast)
def _can_cast(w: Walker, a: Args) -> Val:
    if isinstance(a["from_"], Num):
        raise w.reject("ACR301", a.where["from_"], seen=f"np.can_cast of {w.describe(a['from_'])}", rewrite="x.dtype")
    return _told(w, a, np.can_cast, _dtype_of(w, a, "from_"), _dtype_of(w, a, "to"), a.static("casting"))


@row("dtype kind", np.isdtype)
def _isdtype(w: Walker, a: Args) -> Val:
    return _told(w, a, np.isdtype, np.dtype(_dtype_of(w, a, "dtype")), a.static("kind"))


@row("arg1 arg2", np.issubdtype)
def _issubdtype(w: Walker, a: Args) -> Val:
    return _told(w, a, np.issubdtype, _dtype_of(w, a, "arg1"), _dtype_of(w, a, "arg2"))


@row("x dtype copy", np.astype)
def _np_astype(w: Walker, a: Args) -> Val:
    if not isinstance(a["x"], Tensor):
        raise w.reject("ACR301", a.where["x"], seen=f"np.astype of {w.describe(a['x'])}", rewrite="np.asarray(x)")
    return (
        w.ops.as_array(as_dtype(w, a["x"], a.dtype() or "float64"))
        if not a["x"].type.rank
        else as_dtype(w, a["x"], a.dtype() or "float64")
    )


@row("x", np.isscalar, rank0="any")
def _isscalar(w: Walker, a: Args) -> Val:
    x = a["x"]
    if isinstance(x, Tensor) and not x.type.rank:
        return w.negate(x.array0) if x.array0 is not None else number(True)
    return number(isinstance(x, Num) or x.python_class is str)


@row("x", np.iterable)
def _iterable(w: Walker, a: Args) -> Val:
    x = a["x"]
    if isinstance(x, Tensor):
        return number(x.type.rank > 0)
    return number(x.iterable or x.is_iterator or has_method(w, x, "__iter__") or w.items_of(x) is not None)
