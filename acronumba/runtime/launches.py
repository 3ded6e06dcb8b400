"""The words that the loop over launches reads, see `kernels.cuda.launch`.

In: handles and grids of the functions of all kernels. Out: the words, and the tables that they lead to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from acronumba.kernels.cuda.launch import WORDS
from acronumba.kernels.cuda.writer import Grid
from acronumba.runtime.dfg import Words, address


@dataclass(frozen=True, slots=True, eq=False)
class Launches:
    """The words that the loop reads, and what they lead to."""

    words: Words
    kernels: Words
    functions: Words
    grids: Words

    @property
    def address(self) -> int:
        """Of the words."""
        return address(self.words)


def launches(
    driver: int, stream: int, processors: int, kernels: Sequence[Sequence[tuple[int, int, Sequence[Grid]]]]
) -> Launches:
    """Return the words for kernels, which have functions: of each the handle, the most blocks and the grids."""
    counts = np.zeros((len(kernels), 2), np.int64)
    functions: list[tuple[int, ...]] = []
    grids: list[tuple[int, ...]] = []
    for k, own in enumerate(kernels):
        counts[k] = len(functions), len(own)
        for handle, most, those in own:
            functions.append((handle, most, len(grids), len(those)))
            grids += [(grid.nodes, grid.times, grid.cost) for grid in those]
    made = [np.array([*rows, (0,) * width], np.int64) for rows, width in ((functions, 4), (grids, 3))]
    words = np.zeros(WORDS, np.int64)
    words[:4] = address(words) + 8 * np.arange(4, 8)
    words[8:11] = driver, stream, max((f[1] for f in functions), default=1)
    words[11:] = address(counts), address(made[0]), address(made[1]), processors
    return Launches(words, counts, *made)
