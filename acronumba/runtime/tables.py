"""Gradients of tables by rows.

In: the tables whose gradients are wanted so, and which of their rows a mini-batch reads. Out: room for the sums, a row
for each that is read; and a `RowGrad`. Where nodes read rows alone, no array of the table's shape is made.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from acronumba.analysis.plan import Plan
from acronumba.data.row_grad import RowGrad
from acronumba.ir.spec import KernelOp, KernelSpec
from acronumba.ir.vjp import differentiable
from acronumba.runtime.buffers import Words

Rows: TypeAlias = "Words | None"  # numbers of rows that are read; None: something else is


def made_of(plan: Plan) -> dict[int, dict[int, Rows]]:
    """Return which shared tensors are computed once, of which rows of each shared tensor, directly or not."""
    found: dict[int, dict[int, Rows]] = {}
    for once in reversed(plan.program.once):
        spec = plan.kernels[once.kernel]
        for k, rows in rows_in(spec, spec.results[0]).items():
            of = found.setdefault(k, {})
            for s in (once.index, *found.get(once.index, ())):
                of[s] = rows if s not in of else joined([of[s], rows])
    return found


def rows_in(spec: KernelSpec, value: int) -> dict[int, Rows]:
    """Return the shared tensors that a value of a kernel has derivatives by, with the rows of them."""
    first = len(spec.operands)
    found: dict[int, list[Rows]] = {}
    seen: set[int] = set()
    todo = [value]
    while todo:
        v = todo.pop()
        if v < first and spec.operands[v].kind == "shared":
            found.setdefault(spec.operands[v].index, []).append(None)
        if v in seen or v < first:
            continue
        seen.add(v)
        op = spec.body[v - first]
        for k, a in enumerate(op.args):
            if not differentiable(op.op, k, op.attrs):
                continue
            rows = _rows_of(spec, op) if not k and a < first and spec.operands[a].kind == "shared" else None
            if rows is None:
                todo.append(a)
            else:
                found.setdefault(spec.operands[a].index, []).append(rows)
    return {k: joined(parts) for k, parts in found.items()}


def _rows_of(spec: KernelSpec, op: KernelOp) -> Rows:
    """Return the rows of its first argument that an operation reads, if they are known."""
    table = spec.operands[op.args[0]].shape
    if op.op == "slice" and op.shape == (1, *table[1:]):
        start = op.attrs[0][0]  # type: ignore[index]
        return np.array([start], np.int64) if isinstance(start, int) else None
    if op.op == "take" and op.attrs == (0,):
        a, first, most = op.args[1], len(spec.operands), table[0]
        while a >= first and spec.body[a - first].op in ("reshape", "broadcast", "cast"):
            (a,) = spec.body[a - first].args
        if a >= first and spec.body[a - first].op == "const" and isinstance(most, int):
            return np.clip(np.array([spec.body[a - first].attrs[0]], np.int64), 0, most - 1)
    return None


def joined(parts: Sequence[Rows]) -> Rows:
    """Return all rows of several parts."""
    known = [rows for rows in parts if rows is not None]
    return np.concatenate([np.zeros(0, np.int64), *known]) if len(known) == len(parts) else None


class Tables:
    """The tables of a mini-batch whose gradients are wanted by rows.

    Parameters
    ----------
    wanted
        Their numbers.
    made
        See `made_of`.
    read
        Per shared tensor that has a gradient: the rows of its parts.
    dense
        Shared tensors of whose gradients some parts are not sums of rows.
    lengths
        How many rows each shared tensor has.
    """

    def __init__(
        self, wanted: Collection[int], made: Mapping[int, Mapping[int, Rows]], read: Mapping[int, Sequence[Rows]],
        dense: Collection[int], lengths: Mapping[int, int],
    ) -> None:  # fmt: skip
        self.index: dict[int, Words] = {}  # the rows that are read, rising; of tables that may have a gradient by rows
        self.apart: set[int] = set()  # tables for whose sums there is a row for each row that is read, no more
        for k in wanted:
            parts, through = [*read.get(k, ())], {s: rows for s, rows in made.get(k, {}).items() if s in read}
            for s, rows in through.items():
                # What is as long as the table is taken to be made of it row by row; `gradient` looks whether it is.
                parts += read[s] if rows is None and lengths[s] == lengths[k] else [rows]
            if (found := joined(parts)) is not None:
                self.index[k] = np.unique(found)
                if not through and k not in dense:
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
