"""Common parts of NumPy's ufuncs: `out`, `where`, `dtype`, and methods (`np.add.reduce`, `np.add.outer`)."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba.frontend.arrays import written_tensor
from acronumba.frontend.calls import of_numpy
from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.objects import is_tuple
from acronumba.frontend.calls.tables import ROWS, Handler, row
from acronumba.frontend.kinds.arrays import ArrayRef, Tensor
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.library import numpy_elementwise
from acronumba.frontend.ufuncs import CALLED
from acronumba.frontend.writing import assign_item

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker

ELEMENTWISE = (of_numpy, numpy_elementwise)  # importing them registers the rows of ufuncs

REDUCTIONS: dict[Any, Any] = {
    np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min, np.logical_and: np.all,
    np.logical_or: np.any,
}  # fmt: skip
OPERATIONS = {ufunc: op for op, ufunc in CALLED.items()}
SCANS: dict[Any, str] = {np.add: "sum", np.multiply: "prod", np.maximum: "max", np.minimum: "min"}


def _accumulate(op: str) -> Handler:
    def handler(w: Walker, a: Args) -> Val:
        x = a.tensor("a")
        if not x.type.rank:
            raise w.reject("ACR402", a.where["a"], seen=f"{a.what} of {w.describe(x)}")
        return w.ops.scan(op, x, a.axis("axis", x.type.rank), a.dtype())

    return handler


def _outer(ufunc: np.ufunc) -> Handler:
    def handler(w: Walker, a: Args) -> Val:
        x, y = a.tensor("x"), a.tensor("y")
        if y.type.rank:
            x = w.ops.reshape(x, (*x.dims, *(1,) * y.type.rank))
        return w.call(w.constant(ufunc), (x, y), {})

    return handler


for _ufunc, _reduction in REDUCTIONS.items():
    _row = ROWS[_reduction]
    row(_row.honoured, _ufunc.reduce)(_row.handler)
for _ufunc, _op in SCANS.items():
    row("a axis dtype", _ufunc.accumulate)(_accumulate(_op))
PLAIN = [f for f in ROWS if isinstance(f, np.ufunc) and (f.nout, f.signature) == (1, None)]
for _f in PLAIN:
    if _f.nin == 2:
        row("x y", _f.outer, rank0="any")(_outer(_f))


def _asked(ufunc: np.ufunc, plain: Handler, names: str) -> Handler:
    """Return the handler of a ufunc that honours `out`, `where` and `dtype`."""

    def handler(w: Walker, a: Args) -> Val:
        given = a.only(names.split())
        dtype = a.dtype()
        if dtype is not None:
            given = _in_dtype(w, a, ufunc, given, dtype)
        mask = of_numpy.mask_of(w, a)
        if mask is None:
            return _stored(w, a, plain(w, given))
        if a.is_none("out"):
            raise w.reject("ACR202", a.where["where"], seen=f"where= of {a.what} without out=",
                           rewrite="np.where(mask, f(x), y)")  # fmt: skip
        return _stored(w, a, _where(w, ufunc, plain, given, mask), mask)

    return handler


def _where(w: Walker, ufunc: np.ufunc, plain: Handler, a: Args, mask: Tensor) -> Val:
    """Return the result of a ufunc under a mask: masked-out operands cause neither failures nor NaN derivatives."""
    parts = list(map(w.ops.as_operand, a.values.values()))
    op = OPERATIONS.get(ufunc)
    if op is not None:
        return w.ops.ufunc(op, parts, mask)
    ins, out = w.ops.resolve(ufunc, parts)
    if out.startswith("float"):
        tensors = w.ops.shielded(ufunc.__name__, w.ops.operands(parts, ins, out), parts, mask)
        for name, x in zip(a.values, tensors, strict=True):
            a = a.replaced(name, x)
    return plain(w, a)


def _stored(w: Walker, a: Args, out: Val, mask: Tensor | None = None) -> Val:
    """Return a result; with `out`, write it to that array, and with a mask only where the mask is true."""
    if a.is_none("out"):
        return out
    (into,) = items if len(items := a["out"].sequence(w) or ()) == 1 else (a["out"],)
    if not isinstance(into, Tensor) or not isinstance(out, Tensor):
        raise w.reject("ACR301", a.where["out"], seen=f"{w.describe(into)} for out of {a.what}")
    where = a.where["out"]
    named = not isinstance(where.value if isinstance(where, ast.keyword) else where, ast.Call)
    if named and (a.into is None or is_tuple(a.into)):
        raise w.reject("ACR202", where, seen=f"{w.describe(a['out'])} for out of {a.what}", rewrite="out=y")
    if not np.can_cast(out.type.dtype, into.type.dtype, "same_kind"):
        raise w.reject("ACR301", where, seen=f"{out.type.dtype} into an array of {into.type.dtype}")
    out = w.ops.cast(out, into.type.dtype)
    if mask is not None:
        out = w.ops.where(mask, out, into)
    out = w.ops.as_array(w.ops.broadcast_to(out, into.dims))
    if not named:
        return out
    if isinstance(a.into, ArrayRef):
        assign_item(w, a.into, (), out)
        return a.into
    place = where.value if isinstance(where, ast.keyword) else where
    with w.at_node(place):
        written_tensor(w, into, "an assignment")
    return out


def _in_dtype(w: Walker, a: Args, ufunc: np.ufunc, given: Args, dtype: str) -> Args:
    """Cast the arguments to the dtype that the call asks for; reject a dtype in which the ufunc does not compute."""
    for name in given.values:
        x = given.tensor(name)
        if not np.can_cast(x.type.dtype, dtype, "same_kind"):
            raise w.reject("ACR301", a.where["dtype"], seen=f"{x.type.dtype} to {dtype} in {a.what}")
        given = given.replaced(name, w.ops.cast(x, dtype))
    with w.at_node(a.where["dtype"]):
        ins, out = w.ops.resolve(ufunc, [given.tensor(name) for name in given.values])
    if out != dtype or any(d != dtype for d in ins):
        raise w.reject("ACR202", a.where["dtype"], seen=f"dtype={dtype} of {a.what}", rewrite="x.astype(dtype)")
    return given


for _f in PLAIN:
    _row = ROWS[_f]
    row(f"{_row.honoured} out where dtype", _f, rank0=_row.rank0)(_asked(_f, _row.handler, _row.honoured))


def _into(plain: Handler) -> Handler:
    """Return the handler of a function that honours `out`."""
    return lambda w, a: _stored(w, a, plain(w, a))


row(f"{ROWS[np.clip].honoured} out", np.clip, rank0=ROWS[np.clip].rank0)(_into(ROWS[np.clip].handler))
row("x min max out", np.ndarray.clip)(_into(ROWS[np.ndarray.clip].handler))
