"""NumPy's functions and methods that give an array that is written to, or a view of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from acronumba.frontend.arrays import transposed
from acronumba.frontend.calls.tables import Node
from acronumba.frontend.values import ArrayRef, Val

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


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
