"""Results in bulk: arrays of one form as one array, which is pickled in far less time than each of them.

In: a list of results. Out: a `Bulk` if they are arrays, or lists of arrays, of one dtype and shape; else the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice

import numpy as np

from acronumba.generics import Value
from acronumba.memory import Array
from acronumba.records import record


@record(eq=False)
class Bulk:
    """Arrays in their order, along the first axis; of lists also how many each has."""

    rows: Array
    lengths: list[int] | None


def in_bulk(values: list[Value]) -> list[Value] | Bulk:
    """Return results in bulk where they have one form."""
    lengths, arrays = None, values
    if set(map(type, values)) == {list}:
        lengths, arrays = list(map(len, values)), list(chain.from_iterable(values))
    if set(map(type, arrays)) != {np.ndarray} or len({(a.dtype, a.shape) for a in arrays}) > 1:
        return values
    first = arrays[0]
    if not first.ndim or first.dtype.hasobject:  # elements of a vector are no arrays
        return values
    return Bulk(np.concatenate(arrays).reshape(len(arrays), *first.shape), lengths)


def one_by_one(values: Sequence[Value] | Bulk) -> Sequence[Value]:
    """Return the results of `in_bulk`; arrays are views of one."""
    if not isinstance(values, Bulk):
        return values
    arrays = iter(values.rows)
    return list(arrays) if values.lengths is None else [list(islice(arrays, n)) for n in values.lengths]
