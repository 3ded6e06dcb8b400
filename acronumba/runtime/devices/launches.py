"""The words that compiled code reads for launches, see `runtime.library.launch`.

In: the driver's functions; handles and grids of the functions of all kernels. Out: the words, and the tables that they
lead to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from acronumba.kernels.cuda.writer import Grid
from acronumba.memory import address
from acronumba.runtime.buffers import Words
from acronumba.runtime.library.launch import WORDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """Addresses of functions of C: what `cuLaunchKernel` and so on are, or stand-ins for them."""

    launch: int
    cooperate: int  # cuLaunchCooperativeKernel
    upload: int  # cuMemcpyHtoDAsync
    record: int  # cuEventRecord
    reach: int  # cuEventSynchronize


@dataclass(frozen=True, slots=True, eq=False)
class Launches:
    """The words, and what they lead to."""

    words: Words
    kernels: Words
    functions: Words
    grids: Words

    @property
    def address(self) -> int:
        """Of the words."""
        return address(self.words)


def launches(
    driver: Driver,
    stream: int,
    processors: int,
    kernels: Sequence[Sequence[tuple[int, int, Sequence[Grid]]]],
    drive: int = 0,
) -> Launches:
    """Return the words for kernels, which have functions: of each the handle, the most blocks and the grids.

    `drive` is the address of what runs the stages of a mini-batch. There is no scratch memory yet.
    """
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
    words[8:13] = driver.launch, driver.cooperate, driver.upload, driver.record, driver.reach
    words[13:19] = drive, stream, address(counts), address(made[0]), address(made[1]), processors
    words[21] = words[22] = max((f[1] for f in functions), default=1)
    return Launches(words, counts, *made)
