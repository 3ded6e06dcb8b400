"""Gradients of tables by rows.

In: the tables whose gradients are requested by rows, and the rows that a mini-batch reads. Out: arrays for the sums,
with a row for each row that is read; and a `RowGrad`. If nodes read rows alone, no array of the table's shape is made.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from acronumba.analysis.backward.derive import has_extents
from acronumba.analysis.backward.joint import numbers_in
from acronumba.analysis.plan import Plan
from acronumba.data.row_grad import Gradient, RowGrad
from acronumba.ir.evaluate import apply
from acronumba.ir.spec import KernelOp, KernelSpec
from acronumba.ir.vjp import differentiable
from acronumba.memory import Array, Words
from acronumba.runtime.shared import Prepared

Rows: TypeAlias = "Words | None"  # numbers of rows that are read; None: something else is


def made_of(plan: Plan, prepared: Prepared) -> dict[int, dict[int, Rows]]:
    """Map each shared tensor to the per-batch constants computed from it, directly or not, with the rows they read."""
    found: dict[int, dict[int, Rows]] = {}
    for once in reversed(plan.program.once):
        spec = plan.kernels[once.kernel]
        numbers = [prepared.given[k] for k in once.numbers]
        for k, rows in rows_in(spec, spec.results[0], prepared, numbers).items():
            of = found.setdefault(k, {})
            for s in (once.index, *found.get(once.index, ())):
                of[s] = rows if s not in of else joined([of[s], rows])
    return found


def rows_in(spec: KernelSpec, value: int, prepared: Prepared, numbers: Sequence[Any] = ()) -> dict[int, Rows]:
    """Return the shared tensors that a value of a kernel has derivatives by, with the rows of them.

    The value is made of shared tensors alone, and of `numbers`, the arguments of the kernel.
    """
    first = len(spec.operands)
    given = [prepared.arrays[o.index] if o.kind == "shared" else numbers[o.index] if numbers else None
             for o in spec.operands]  # fmt: skip
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
            rows = _rows_of(spec, op, given) if not k and a < first and spec.operands[a].kind == "shared" else None
            if rows is None:
                todo.append(a)
            else:
                found.setdefault(spec.operands[a].index, []).append(rows)
    return {k: joined(parts) for k, parts in found.items()}


def _rows_of(spec: KernelSpec, op: KernelOp, given: Sequence[Any]) -> Rows:
    """Return the rows of the first argument, a shared tensor, that an operation reads; None if it reads other parts."""
    table = spec.operands[op.args[0]].shape
    if op.op == "slice" and op.shape == (1, *table[1:]):
        start = op.attrs[0][0]  # type: ignore[index]
        return np.array([start], np.int64) if isinstance(start, int) else None
    if op.op == "take" and op.attrs == (0,) and isinstance(table[0], int):
        index = _value(spec, op.args[1], given)
        return None if index is None else np.clip(np.ravel(index).astype(np.int64), 0, table[0] - 1)
    return None


def _value(spec: KernelSpec, v: int, given: Sequence[Any]) -> Any:
    """Evaluate a value of a kernel from given operands; None if it depends on others, on extents or host numbers."""
    if v < len(spec.operands):
        return None if given[v] is None else np.asarray(given[v], spec.operands[v].dtype)
    op = spec.body[v - len(spec.operands)]
    args = [_value(spec, a, given) for a in op.args]
    if has_extents(op) or [*numbers_in(op.attrs)] or any(a is None for a in args):
        return None
    return apply(op.op, args, op.attrs, op.shape, op.dtype)  # type: ignore[arg-type]


def joined(parts: Sequence[Rows]) -> Rows:
    """Return all rows of several parts."""
    known = [rows for rows in parts if rows is not None]
    return np.concatenate([np.zeros(0, np.int64), *known]) if len(known) == len(parts) else None


class Tables:
    """The tables of a mini-batch whose gradients are requested by rows.

    Parameters
    ----------
    wanted
        Numbers of the tables.
    made
        See `made_of`.
    read
        Map from shared tensors with a gradient to the rows of its parts.
    dense
        Shared tensors whose gradients have parts that are not sums of rows.
    lengths
        Number of rows of each shared tensor.
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
        """Return the shape of the array of sums of shared tensor k, given the tensor's shape."""
        return (len(self.index[k]), *shape[1:]) if k in self.apart else shape

    def places(self, k: int, rows: Words, most: int) -> Words:
        """Return the position of each row's sum among the sums, for a table with so many rows."""
        return np.searchsorted(self.index[k], np.clip(rows, 0, most - 1))

    def gradient(self, k: int, g: Array, shape: Sequence[int]) -> Gradient:
        """Return the gradient of a shared tensor from its sums: by rows, where no other row has any."""
        if k in self.apart:
            return RowGrad(self.index[k], g, tuple(shape))
        if k not in self.index:
            return g
        g = np.asarray(g)  # fetched, if it stays on a device
        rest = np.ones(len(g), bool)
        rest[self.index[k]] = False
        return g if g[rest].any() else RowGrad(self.index[k], g[self.index[k]], g.shape)
