"""Methods of NumPy's ufuncs: `np.add.reduce`, `np.maximum.accumulate`, `np.subtract.outer`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from acronumba.frontend.calls import of_numpy, written
from acronumba.frontend.calls.tables import ROWS, Args, Handler, Node, row
from acronumba.frontend.values import Val

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker

ELEMENTWISE = (of_numpy, written)  # the rows of ufuncs are there

REDUCTIONS = {np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min, np.logical_and: np.all,
              np.logical_or: np.any}  # fmt: skip
SCANS = {np.add: "sum", np.multiply: "prod", np.maximum: "max", np.minimum: "min"}


def _reduce(reduction: Handler) -> Handler:
    def handler(w: Walker, a: Args, node: Node) -> Val:
        return reduction(w, a, node)

    return handler


def _accumulate(op: str) -> Handler:
    def handler(w: Walker, a: Args, node: Node) -> Val:
        x = a.tensor("a")
        if not x.type.rank:
            raise w.refuse("ACR402", a.where["a"], seen=f"{a.what} of {w.describe(x)}")
        return w.scan(op, x, a.axis("axis", x.type.rank), a.dtype(), node)

    return handler


def _outer(ufunc: np.ufunc) -> Handler:
    def handler(w: Walker, a: Args, node: Node) -> Val:
        x, y = a.tensor("x"), a.tensor("y")
        if y.type.rank:
            x = w.reshape(x, (*x.dims, *(1,) * y.type.rank), node)
        return w.call(w.constant(ufunc), (x, y), {}, node)

    return handler


for _ufunc, _f in REDUCTIONS.items():
    _row = ROWS[_f]
    row(_row.honoured, _ufunc.reduce)(_reduce(_row.handler))
for _ufunc, _op in SCANS.items():
    row("a axis dtype", _ufunc.accumulate)(_accumulate(_op))
for _ufunc in [f for f in ROWS if isinstance(f, np.ufunc) and (f.nin, f.nout, f.signature) == (2, 1, None)]:
    row("x y", _ufunc.outer, rank0="any")(_outer(_ufunc))
