"""Adjoints of arrays that instances, or shared objects, hold.

In: the arrays, each with its instance and the address of its data. Out: the table by which the transposition finds them
(`runtime.library.own`), and their adjoints when the backward pass has run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from acronumba.data.row_grad import RowGrad
from acronumba.foreign import numpy_array
from acronumba.memory import Words
from acronumba.runtime.library.back_words import HEAD, OWN


class Own:
    """Arrays of instances and of shared objects whose adjoints are requested.

    Parameters
    ----------
    instances
        The instance of each array, as the machine numbers them; -1 for a shared object.
    data
        The address of each array's data.
    arrays
        The arrays themselves, of floats: their dtypes and shapes.
    by_rows
        Whether the adjoint of each array is to be returned by rows.
    """

    def __init__(
        self, instances: Sequence[int], data: Sequence[int], arrays: Sequence[Any], by_rows: Sequence[bool] = ()
    ) -> None:
        self.arrays = list(map(numpy_array, arrays))
        places = np.array([data, instances], np.int64).T.reshape(-1, 2)
        self.places, first, self.number = np.unique(places, axis=0, return_index=True, return_inverse=True)
        self.number = self.number.reshape(-1)
        self.first = [self.arrays[k] for k in first.tolist()]
        self.by_rows = [bool(by_rows) and by_rows[k] for k in first.tolist()]

    def table(self, adder: Callable[[str], int]) -> Words:
        """Return the rows of OWN; `adder`: from a dtype to the kernel that adds up adjoints."""
        out = np.zeros((len(self.places) + 1, OWN.count), np.int64)
        if not self.arrays:
            return out
        adders = {dtype: adder(dtype.name) for dtype in {a.dtype for a in self.first}}
        out[:-1, [OWN.at["data"], OWN.at["instance"]]] = self.places
        out[:-1, OWN.at["size"]] = [a.nbytes for a in self.first]
        out[:-1, OWN.at["adds"]] = [adders[a.dtype] for a in self.first]
        return out

    def places_of(self, heads: Words) -> tuple[list[int], list[int]]:
        """Return the addresses of the adjoints and their sizes in bytes; `heads`: as for `adjoints`."""
        given = zip(self.first, heads.reshape(-1, HEAD.count).tolist(), strict=True)
        there = [(source, a.nbytes) for a, (source, key) in given if key and a.nbytes]
        return [source for source, _ in there], [size for _, size in there]

    def adjoints(self, heads: Words, rows_read: Callable[[int, int], Words | None]) -> list[Any]:
        """Return the adjoint of each array: None if it has none, a `RowGrad` if requested and all its parts are rows.

        Parameters
        ----------
        heads
            A row of HEAD for each row of the table.
        rows_read
            From the number of a row of the table, and the bytes of a row of its array, to the rows that parts of the
            adjoint are for; None if a part is for the whole array.
        """
        found: list[Any] = []
        for k, (a, (source, key)) in enumerate(zip(self.first, heads.reshape(-1, HEAD.count).tolist(), strict=True)):
            if not key or not a.nbytes:
                found.append(None)
                continue
            g: Any = np.frombuffer(ctypes.string_at(source, a.nbytes), a.dtype).reshape(a.shape)
            rows = rows_read(k, a.nbytes // len(a)) if self.by_rows[k] and a.ndim else None
            if rows is not None:
                index = np.unique(rows)
                g = RowGrad(index, g[index], g.shape)
            found.append(g)
        return [found[n] for n in self.number.tolist()]
