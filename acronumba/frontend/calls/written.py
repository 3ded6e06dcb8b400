"""NumPy's functions that are made of others, written as models are, and inlined like helpers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba.frontend.calls.tables import Args, Node, row
from acronumba.frontend.values import Num, Val

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


def stands_for(ufunc: np.ufunc) -> Callable[[Any], Any]:
    """Decorate what computes a function of NumPy, from arguments that have the dtypes with which NumPy computes."""

    def register(f: Any) -> Any:
        @row("x y"[: 2 * ufunc.nin - 1], ufunc)
        def handler(w: Walker, a: Args, node: Node) -> Val:
            parts = [v if isinstance(v, Num) else w.as_tensor(v, node=node) for v in a.values.values()]
            ins, out = w.resolve(ufunc, parts, node)
            return w.call(w.constant(f), tuple(w.operands(parts, ins, out, node)), {}, node)

        return f

    return register


@stands_for(np.logaddexp)
def logaddexp(x: Any, y: Any) -> Any:
    """Return ``log(exp(x) + exp(y))``, without overflow."""
    return np.maximum(x, y) + np.log1p(np.exp(-np.where(x == y, 0, np.abs(x - y))))
