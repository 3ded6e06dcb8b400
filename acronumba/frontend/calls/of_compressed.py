"""Primitives of compressed weights, and their conversion to arrays.

The rest of `acronumba.compressed` is ordinary code, which is compiled like the user's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acronumba import compressed
from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.tables import row
from acronumba.frontend.handlers import ARRAYS, handles
from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.numbers import number
from acronumba.frontend.kinds.objects import MutableObject, ObjectValue, SharedVal
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.magic import call_special, is_array_like

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker

ROUND = 12582912.0  # 1.5 * 2 ** 23: adding it rounds a small float32 to a whole number


@row("codes weights", compressed.sums)
def _sums(w: Walker, a: Args) -> Val:
    codes, weights = a.tensor("codes"), a.tensor("weights")
    n = weights.dims[0]
    w.ops.same_extent(codes.dims[-1], weights.dims[1], "the inner dimensions of a matrix product")
    if codes.type.rank == 1:
        return w.ops.op("matmul", (weights.ref, codes.ref), "int32", (n,))
    turned = w.ops.transpose(weights, (1, 0))
    return w.ops.op("matmul", (codes.ref, turned.ref), "int32", (codes.dims[0], n))


@row("x", compressed.whole_numbers)
def _whole_numbers(w: Walker, a: Args) -> Val:
    x = a.tensor("x")
    large = w.ops.from_number(number(ROUND), x.type.dtype)
    return w.ops.cast(w.ops.ufunc("sub", (w.ops.ufunc("add", (x, large)), large)), "int8")


@row("pool index", compressed.rows_of)
def _rows_of(w: Walker, a: Args) -> Val:
    pool, index = a.tensor("pool"), a.tensor("index")
    at, (*outer, many) = w.ops.cast(index, "int64"), index.dims
    # `take` returns the last row for an index beyond it: no check is needed.
    rows = w.ops.op("take", (pool.ref, at.ref), pool.type.dtype, (*index.dims, compressed.GROUP), (0,))
    return w.ops.reshape(rows, (*outer, w.as_extent(w.ops.count((many, compressed.GROUP)))))


@handles(ARRAYS, SharedVal, ObjectValue, MutableObject)
def _whole(w: Walker, val: Val, dtype: str | None) -> Tensor:
    """Return a compressed weight as an array."""
    if not is_array_like(val):
        raise w.reject("ACR301", seen=w.describe(val), rewrite="pass an array or a number")
    out = w.ops.as_tensor(call_special(w, val, "whole", ()))
    return out if dtype is None else w.ops.cast(out, dtype)
