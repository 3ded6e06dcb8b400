"""Sparse gradients of tables that are read by rows.

In: row numbers and the gradients of these rows. Out: a `RowGrad`, which NumPy functions accept as an array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from acronumba.memory import Array, DType, Words
from acronumba.records import record


@record(eq=False)
class RowGrad:
    """A gradient by rows: rows that are not in `index` are zero."""

    index: Words  # int64[n]: row numbers, increasing
    rows: Array  # array[n, ...]: their gradients; or a `memory.DeviceTensor`
    shape: tuple[int, ...]  # of the table

    @property
    def dtype(self) -> DType:
        """The dtype of the table."""
        return self.rows.dtype

    def __array__(self, dtype: DType | None = None, copy: bool | None = None) -> Array:
        out = np.zeros(self.shape, dtype or self.dtype)
        out[self.index] = self.rows
        return out

    def __repr__(self) -> str:
        return f"RowGrad({len(self.index)} of {self.shape[0]} rows of {self.dtype}{list(self.shape[1:])})"


Gradient: TypeAlias = "Array | np.generic | RowGrad"  # or a `memory.DeviceTensor`


def total(parts: Sequence[Gradient], fresh: bool = False) -> Gradient:
    """Return the sum of gradients, by rows if all of them are; computed in the first one if it is `fresh`."""
    if len(parts) == 1 and fresh:
        return parts[0]
    by_rows = [g for g in parts if isinstance(g, RowGrad)]
    if len(by_rows) < len(parts):
        out = np.asarray(parts[0]) if fresh else np.array(parts[0])
        for g in parts[1:]:
            out += np.asarray(g)
        return out
    index = np.unique(np.concatenate([g.index for g in by_rows]))
    rows = np.zeros((len(index), *parts[0].shape[1:]), parts[0].dtype)
    for one in by_rows:
        rows[np.searchsorted(index, one.index)] += np.asarray(one.rows)
    return RowGrad(index, rows, parts[0].shape)


def scaled(g: Gradient, share: float) -> Gradient:
    """Return a gradient times a number; itself, if that is 1."""
    if share == 1.0:
        return g
    if isinstance(g, RowGrad):
        return RowGrad(g.index, np.asarray(g.rows) * np.asarray(share, g.dtype), g.shape)
    out: Array = np.asarray(g) * np.asarray(share, g.dtype)
    return out
