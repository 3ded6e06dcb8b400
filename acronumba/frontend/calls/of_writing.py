"""NumPy's functions and methods that write into an array, and those that give the array itself or a view of it."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from acronumba.frontend.arrays import transposed, written_tensor
from acronumba.frontend.calls.tables import Args, Node, row
from acronumba.frontend.values import ArrayRef, NoneVal, Tensor, Val
from acronumba.frontend.writing import assign_item, put_by_mask

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


def target(w: Walker, a: Args, name: str) -> ArrayRef | None:
    """Return the array that an argument writes into; None if that is known from the next sweep on."""
    val = a[name]
    if isinstance(val, ArrayRef):
        return val
    if not isinstance(val, Tensor):
        raise w.refuse("ACR301", a.where[name], seen=w.describe(val), rewrite="pass an array")
    written_tensor(w, val, a.where[name] or ast.Constant(0), f"a write of {a.what}")
    return None


@row("dst src", np.copyto, whole=True)
def _copyto(w: Walker, a: Args, node: Node) -> Val:
    out = target(w, a, "dst")
    if out is not None:
        src = w.as_tensor(w.whole(a["src"]), node=a.where["src"])
        if not np.can_cast(src.type.dtype, out.type.dtype, "same_kind"):
            seen = f"{w.describe(src)} into {w.describe(out)}"
            raise w.refuse("ACR301", a.where["src"], seen=seen, rewrite="x[:] = y")
        assign_item(w, out, (), src, node or ast.Constant(0))
    return NoneVal()


@row("a val", np.fill_diagonal, whole=True)
def _fill_diagonal(w: Walker, a: Args, node: Node) -> Val:
    out = target(w, a, "a")
    if out is None:
        return NoneVal()
    where = node or ast.Constant(0)
    x, val = w.whole(out), w.as_tensor(w.whole(a["val"]), node=a.where["val"])
    assert isinstance(x, Tensor)
    if x.type.rank != 2 or val.type.rank:
        seen = f"np.fill_diagonal of {w.describe(x)} with {w.describe(val)}"
        raise w.refuse("ACR202", node, seen=seen, rewrite="x[np.arange(n), np.arange(n)] = values")
    on = w.eye(x.dims[0], x.dims[1], 0, "bool", node)
    assign_item(w, out, (), put_by_mask(w, x, on, w.cast(val, x.type.dtype, node), where), where)
    return NoneVal()


@row("a axis", method="sort")
def _sort(w: Walker, a: Args, node: Node) -> Val:
    target(w, a, "a")  # an array that is written to has `array_method`
    return NoneVal()


def array_view(w: Walker, ref: ArrayRef, name: str, args: Sequence[Val], node: Node) -> Val | None:
    """Return the view that a function or method makes of an array that is written to; None if it is another thing."""
    rank = ref.type.rank
    axes = [w.static(v, None) for v in args]
    if len(axes) == 1 and isinstance(axes[0], tuple):
        axes = list(axes[0])
    if any(type(k) is not int or not -rank <= k < rank for k in axes):
        return None
    match name, [k % rank for k in axes]:
        case "asarray" | "asanyarray", []:
            return ref
        case "transpose" | "permute_dims" | "matrix_transpose", [] if name != "matrix_transpose" or rank == 2:
            return transposed(ref, tuple(reversed(range(rank))))
        case "transpose" | "permute_dims", order if sorted(order) == list(range(rank)):
            return transposed(ref, order)
        case "swapaxes", [i, j]:
            return transposed(ref, [j if k == i else i if k == j else k for k in range(rank)])
    return None


VIEWS = (np.asarray, np.asanyarray, np.transpose, np.swapaxes)


def function_view(
    w: Walker, function: object, args: Sequence[Val], kwargs: Mapping[str, Val], node: Node
) -> Val | None:
    """Return the view that a function of NumPy makes of an array that is written to, if it is one."""
    if kwargs or not args or not isinstance(args[0], ArrayRef) or not any(function is f for f in VIEWS):
        return None
    return array_view(w, args[0], function.__name__, args[1:], node)  # type: ignore[attr-defined]
