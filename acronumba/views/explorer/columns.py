"""Columns of integers as text: small in JSON, and decoded by the standard library of Python and every browser.

A column is ``{"n": length, "zlib": text}``: base64 of zlib of the first differences as little-endian int32.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from acronumba.memory import Array

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
Column: TypeAlias = dict[str, int | str]


def column(values: Iterable[int] | Array) -> Column:
    """Return integers as a column.

    Raises
    ------
    OverflowError
        A number, or the difference of two neighbours, takes more than 32 bits.
    """
    array = np.asarray(values if isinstance(values, np.ndarray) else list(values), np.int64)
    differences = np.diff(array, prepend=0)
    if len(array) and max(abs(int(differences.min())), int(differences.max()), int(array.max())) >= 1 << 31:
        raise OverflowError("a column holds numbers of 32 bits")
    packed = zlib.compress(differences.astype("<i4").tobytes(), 9)
    return {"n": len(array), "zlib": base64.b64encode(packed).decode("ascii")}


def numbers(column: Column) -> NDArray[np.int64]:
    """Return the integers of a column."""
    packed = zlib.decompress(base64.b64decode(str(column["zlib"])))
    return np.cumsum(np.frombuffer(packed, "<i4"), dtype=np.int64)
