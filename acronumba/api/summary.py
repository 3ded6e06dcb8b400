"""`acronumba.summary`: what parameters, gradients, models and stages hold, as a table.

In: parameters as `save` takes them, or an object with a `_summary`. Out: a `Summary`, which prints as text and is a
table in a notebook.
"""

from __future__ import annotations

import numpy as np

from acronumba.compressed import Compressed
from acronumba.data.row_grad import RowGrad
from acronumba.foreign import numpy_array
from acronumba.generics import Value
from acronumba.storage import named
from acronumba.views.summary import Summarised, Summary
from acronumba.views.words import counted


def summary(value: object) -> Summary:
    """Return names, shapes, dtypes, numbers of elements and bytes of parameters or gradients, as a table.

    Parameters
    ----------
    value : object
        Parameters as `save` takes them, gradients, or an object that `Model` and its methods return: a model, its
        gradients, its stages.

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
    """Return the summary of the arrays in a value; an array that is reached again is not counted again."""
    from acronumba.views.report import bytes_text

    rows, first = [], dict[int, str]()
    many = numbers = size = 0
    for name, leaf in named(value):
        if isinstance(leaf, bool | int | float) and not isinstance(leaf, np.generic):
            rows.append((name, type(leaf).__name__, "", "", ""))
            continue
        dtype, shape, held = _form(leaf)
        row = (name, dtype, f"[{', '.join(map(str, shape))}]")
        if id(leaf) in first:
            rows.append((*row, "", f"the array of {first[id(leaf)]}"))
            continue
        first[id(leaf)] = name
        count = int(np.prod(shape, dtype=np.int64))
        rows.append((*row, f"{count:,}", bytes_text(held)))
        many, numbers, size = many + 1, numbers + count, size + held
    words = f"{before}{counted(many, 'array')}, {counted(numbers, 'number')}, {bytes_text(size)}"
    return Summary(title, words, ("name", "dtype", "shape", "numbers", "bytes"), tuple(rows))


def _form(leaf: Value) -> tuple[str, tuple[int, ...], int]:
    """Return dtype, shape and bytes of an array."""
    if isinstance(leaf, Compressed):
        return leaf.title, leaf.shape, leaf.nbytes
    if isinstance(leaf, RowGrad):
        return f"{leaf.dtype}, {len(leaf.index)} rows", leaf.shape, leaf.rows.nbytes
    array = numpy_array(leaf)
    return str(array.dtype), array.shape, array.nbytes
