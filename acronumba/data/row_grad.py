"""The gradient of a table of which only some rows were read.

In: numbers of rows and their gradients. Out: a `RowGrad`, which is an array to all that take arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class RowGrad:
    """A gradient whose rows are zero but for some."""

    index: Any  # int64[n]: numbers of rows, rising
    rows: Any  # array[n, ...]: their gradients
    shape: tuple[int, ...]  # of the table

    @property
    def dtype(self) -> Any:
        """The dtype of the table."""
        return self.rows.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        out = np.zeros(self.shape, dtype or self.dtype)
        out[self.index] = self.rows
        return out

    def __repr__(self) -> str:
        return f"RowGrad({len(self.index)} of {self.shape[0]} rows of {self.dtype}{list(self.shape[1:])})"
