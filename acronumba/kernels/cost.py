"""About how long kernels take, to decide what is worth several threads and how much a batch may wait for others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from acronumba.ir.ops import TENSORS
from acronumba.ir.spec import Dim, KernelSpec, Size

MOST = 1 << 40  # what counts: of an array with many axes of unknown extent, the guess is a number without end
STREAM = 100  # bytes of weights that are read in a nanosecond
GUESS = 16  # for a run-time extent


def times(spec: KernelSpec, values: Iterable[int] | None = None) -> Mapping[tuple[Dim, ...], float]:
    """Return about how many nanoseconds one thread takes for one node, for each product of run-time extents.

    Parameters
    ----------
    spec
        The kernel.
    values
        Numbers of the values to be computed; None: all.
    """
    out: dict[tuple[Dim, ...], float] = {}

    def add(each: float, *shape: Size) -> None:
        moving = tuple(sorted((n for n in shape if isinstance(n, Dim)), key=lambda n: n.index))
        out[moving] = out.get(moving, 0.0) + each * math.prod(n for n in shape if isinstance(n, int))

    shapes = [o.shape for o in spec.operands] + [op.shape for op in spec.body]
    first = len(spec.operands)
    for op in spec.body if values is None else [spec.body[v - first] for v in values]:
        if op.op == "matmul":
            add(1 / 64, *op.shape, shapes[op.args[0]][-1])
        elif TENSORS[op.op].kind == "element":
            add(0.4 if TENSORS[op.op].slow else 0.05, *op.shape)
        elif TENSORS[op.op].folds:
            add(0.1, *shapes[op.args[0]])
    return out


def cost(spec: KernelSpec) -> int:
    """Return about how many nanoseconds one thread takes for one node whose run-time extents are not known."""
    total = sum(each * GUESS ** len(moving) for moving, each in times(spec).items())
    return int(min(total, MOST)) + 1
