"""About how long kernels take, to decide what is worth several threads and how much a batch may wait for others."""

from __future__ import annotations

import math
from collections.abc import Iterable

from acronumba.ir.ops import TENSORS
from acronumba.ir.spec import KernelSpec

MOST = 1 << 40  # what counts: of an array with many axes of unknown extent, the guess is a number without end


def cost(spec: KernelSpec, values: Iterable[int] | None = None) -> int:
    """Return about how many nanoseconds one thread takes for one node.

    Parameters
    ----------
    spec
        The kernel.
    values
        Numbers of the values to be computed; None: all.
    """

    def size(shape: tuple[object, ...]) -> int:
        return math.prod(n if isinstance(n, int) else 16 for n in shape)

    shapes = [o.shape for o in spec.operands] + [op.shape for op in spec.body]
    first = len(spec.operands)
    total = 0.0
    for op in spec.body if values is None else [spec.body[v - first] for v in values]:
        if op.op == "matmul":
            inner = shapes[op.args[0]][-1]
            total += size(op.shape) * (inner if isinstance(inner, int) else 16) / 64
        elif TENSORS[op.op].kind == "element":
            total += size(op.shape) * (0.4 if TENSORS[op.op].slow else 0.05)
        elif TENSORS[op.op].folds:
            total += size(shapes[op.args[0]]) * 0.1
    return int(min(total, MOST)) + 1
