"""`acronumba.summary`: what parameters, gradients, models and stages hold, as a table.

In: parameters as `save` takes them, or an object with a `_summary`. Out: a `Summary`, which prints as text and is a
table in a notebook.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from acronumba.compressed import Compressed
from acronumba.data.row_grad import RowGrad
from acronumba.data.tables import PLAIN_ARRAYS
from acronumba.foreign import numpy_array
from acronumba.generics import Value
from acronumba.memory import Array
from acronumba.storage import named
from acronumba.views.summary import Summarised, Summary
from acronumba.views.words import counted


def summary(value: object) -> Summary:
    """Return names, shapes, dtypes, numbers of elements and bytes of parameters or gradients, as a table.

    Parameters
    ----------
    value : object
        Parameters as `save` takes them, gradients, a model, its `value_and_grad`, the result of that, or its stages.

    Returns
    -------
    Summary
        Printed as text, shown as a table in a notebook.

    Examples
    --------
    >>> import numpy as np
    >>> from acronumba import summary
    >>> summary({"w": np.zeros((2, 3), np.float32), "steps": 4})
    dict: 1 array, 6 numbers, 24 bytes
    name   dtype    shape   numbers  bytes
    w      float32  [2, 3]  6        24 bytes
    steps  int
    """
    return value._summary() if isinstance(value, Summarised) else arrays_summary(type(value).__name__, value)


def arrays_summary(title: str, value: object, before: str = "") -> Summary:
    """Return the summary of the arrays in a value; one that is reached again, or is a view of another, counts once."""
    from acronumba.views.report import bytes_text

    rows, first = [], dict[int, str]()
    many = numbers = size = 0
    leaves = [*named(value)]
    views = _views([leaf for _, leaf in leaves])
    for k, (name, leaf) in enumerate(leaves):
        if isinstance(leaf, bool | int | float) and not isinstance(leaf, np.generic):
            rows.append((name, type(leaf).__name__, "", "", ""))
            continue
        dtype, shape, held = _form(leaf)
        row = (name, dtype, f"[{', '.join(map(str, shape))}]")
        if id(leaf) in first:
            rows.append((*row, "", f"the array of {first[id(leaf)]}"))
            continue
        first[id(leaf)] = name
        if k in views:
            rows.append((*row, "", f"in the array of {leaves[views[k]][0]}"))
            continue
        count = int(np.prod(shape, dtype=np.int64))
        rows.append((*row, f"{count:,}", bytes_text(held)))
        many, numbers, size = many + 1, numbers + count, size + held
    words = f"{before}{counted(many, 'array')}, {counted(numbers, 'number')}, {bytes_text(size)}"
    return Summary(title, words, ("name", "dtype", "shape", "numbers", "bytes"), tuple(rows))


def _views(leaves: Sequence[Value]) -> dict[int, int]:
    """Return by their positions the arrays that lie in the memory of another, each with that other."""
    found = []
    for k, leaf in enumerate(leaves):
        if type(leaf) in PLAIN_ARRAYS and leaf.nbytes:
            low = leaf.__array_interface__["data"][0] + sum(s * (n - 1) for s, n in _steps(leaf) if s < 0)
            high = low + sum(abs(s) * (n - 1) for s, n in _steps(leaf)) + leaf.itemsize
            found.append((low, -high, leaf.nbytes != high - low, k))
    out: dict[int, int] = {}
    end, holder = 0, -1
    for _, high, scattered, k in sorted(found):
        if -high <= end:
            out[k] = holder
        elif not scattered:
            end, holder = -high, k
    return out


def _steps(array: Array) -> Iterable[tuple[int, int]]:
    return zip(array.strides, array.shape, strict=True)


def _form(leaf: Value) -> tuple[str, tuple[int, ...], int]:
    """Return dtype, shape and bytes of an array."""
    if isinstance(leaf, Compressed):
        return leaf.title, leaf.shape, leaf.nbytes
    if isinstance(leaf, RowGrad):
        return f"{leaf.dtype}, {len(leaf.index)} rows", leaf.shape, leaf.rows.nbytes
    array = numpy_array(leaf)
    return str(array.dtype), array.shape, array.nbytes
