"""Gradients of tables by rows.

In: the tables whose gradients are wanted so, and which of their rows a mini-batch reads. Out: room for the sums, a row
for each that is read; and a `RowGrad`. Where nodes read rows alone, no array of the table's shape is made.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acronumba.analysis.plan import Plan
from acronumba.data.row_grad import RowGrad
from acronumba.ir.spec import KernelSpec
from acronumba.runtime.buffers import Words


def made_of(plan: Plan) -> dict[int, set[int]]:
    """Return which shared tensors are computed once, of each shared tensor, directly or not."""
    found: dict[int, set[int]] = {}
    for once in reversed(plan.program.once):
        for o in plan.kernels[once.kernel].operands:
            if o.kind == "shared":
                found.setdefault(o.index, set()).update({once.index, *found.get(once.index, ())})
    return found


def shared_in(spec: KernelSpec, value: int) -> set[int]:
    """Return the shared tensors that a value of a kernel is made of."""
    first = len(spec.operands)
    seen: set[int] = set()
    todo = [value]
    while todo:
        v = todo.pop()
        if v not in seen:
            seen.add(v)
            todo += spec.body[v - first].args if v >= first else ()
    return {spec.operands[v].index for v in seen if v < first and spec.operands[v].kind == "shared"}


class Tables:
    """The tables of a mini-batch whose gradients are wanted by rows.

    Parameters
    ----------
    wanted
        Their numbers.
    made
        See `made_of`.
    read
        Per shared tensor of which rows are read: the numbers of the rows.
    whole
        Shared tensors that have other parts of gradients, too.
    lengths
        How many rows each shared tensor has.
    """

    def __init__(
        self, wanted: Collection[int], made: Mapping[int, Collection[int]], read: Mapping[int, Sequence[Words]],
        whole: Collection[int], lengths: Mapping[int, int],
    ) -> None:  # fmt: skip
        self.index: dict[int, Words] = {}  # the rows that are read, rising; of tables that may have a gradient by rows
        self.apart: set[int] = set()  # tables for whose sums there is a row for each row that is read, no more
        for k in wanted:
            sources = [k, *(s for s in made.get(k, ()) if s in read or s in whole)]
            if any(s in whole or lengths[s] != lengths[k] for s in sources):
                continue
            rows = [i for s in sources for i in read.get(s, ())]
            self.index[k] = np.unique(np.concatenate([np.zeros(0, np.int64), *rows]))
            if len(sources) == 1:
                self.apart.add(k)

    def shape(self, k: int, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the sums of a shared tensor, from its own."""
        return (len(self.index[k]), *shape[1:]) if k in self.apart else shape

    def places(self, k: int, rows: Words, most: int) -> Words:
        """Return where in them the sums of rows are, of a table with so many rows."""
        return np.searchsorted(self.index[k], np.clip(rows, 0, most - 1))

    def gradient(self, k: int, g: NDArray[Any], shape: Sequence[int]) -> Any:
        """Return the gradient of a shared tensor from its sums: by rows, where no other row has any."""
        if k in self.apart:
            return RowGrad(self.index[k], g, tuple(shape))
        if k not in self.index:
            return g
        rest = np.ones(len(g), bool)
        rest[self.index[k]] = False
        return g if g[rest].any() else RowGrad(self.index[k], g[self.index[k]], g.shape)
