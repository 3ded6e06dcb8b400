"""Positions of references in results, rows and lists ("forms"), for `runtime.library.liveness`.

In: types of results, layouts of classes. Out: arrays that compiled code reads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from acronumba.ir.nodes import StructLayout
from acronumba.ir.types import ListT, RefT, TensorT, Word, words

# What a word of a result may be; the address of the form of its items if it is a list.
A_TENSOR, A_ROW = 1, 2


def forms(results: Sequence[Word], layouts: Sequence[StructLayout]) -> list[NDArray[np.int64]]:
    """Return the forms of results, rows and lists, for `mark_returned`.

    The first array holds the address of the form of the results, then that of the rows of each class. A form is: words
    of an item, number of references in it, and for each reference its position and kind (see `A_TENSOR`).
    """
    made: list[NDArray[np.int64]] = []

    def form(items: Sequence[tuple[int, Word]], width: int) -> int:
        parts = [(at, kind(word)) for at, word in items]
        parts = [(at, k) for at, k in parts if k]
        made.append(np.array([width, len(parts), *(n for part in parts for n in part)], np.int64))
        return int(made[-1].ctypes.data)

    def kind(word: Word) -> int:
        match word:
            case TensorT():
                return A_TENSOR
            case RefT():
                return A_ROW
            case ListT(item=item):
                flat = words(item)
                at = form(list(enumerate(flat)), len(flat))
                return at if made[-1][1] else 0  # of numbers alone: nothing to be found
        return 0

    first = [form(list(enumerate(results)), len(results))]
    for layout in layouts:
        fields = [(f.offset + k, w) for f in layout.fields for k, w in enumerate(words(f.type))]
        first.append(form(fields, layout.size))
    return [np.array(first, np.int64), *made]
