"""Packing weights that change at every call: by compiled code, into memory that is reused.

In: arrays. Out: their packed forms, with the bits of `Packing.apply`. Training changes all weights at every step, so
they are packed without a check whether they have changed.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from acronumba.emit.compile import Compiled, load
from acronumba.emit.target import Target, host
from acronumba.kernels.rounding import deferred
from acronumba.memory import Array, Words, address
from acronumba.runtime.buffers import ArenaPool, Pieces
from acronumba.runtime.library.back_words import JOB


class Packer:
    """Packs the weights of one call; or of several, one after the other.

    Parameters
    ----------
    library
        Of `runtime.library.transpose`.
    pool
        Memory.
    """

    def __init__(self, library: Compiled, pool: ArenaPool) -> None:
        self._library, self._pieces = library, Pieces(pool)
        self._given: list[NDArray[np.uint8]] = []
        self._next = 0
        self._left = 0  # bytes that `write` has not written
        self._copied = False
        self._jobs: list[tuple[int, ...]] = []  # of `pack_all`, since `restart`
        self._rounded: list[tuple[str, tuple[int, ...]]] = []  # calls of `kernels.rounding`, which come before
        self._table: Words | None = None  # these jobs

    def restart(self) -> None:
        """Start again: the same weights, packed in the same order, use the same memory."""
        self._next, self._left, self._copied = 0, 0, False
        self._jobs, self._rounded, self._table = [], [], None

    def allocate(self, size: int) -> NDArray[np.uint8]:
        """See `kernels.tiles.Packer`."""
        if self._next == len(self._given):
            self._given.append(self._pieces(size))
        assert self._given[self._next].nbytes == size
        self._next += 1
        self._left += size
        return self._given[self._next - 1]

    def write(self, array: Array, packed: Array, n: int, transposed: bool) -> None:
        """See `kernels.tiles.Packer`."""
        _, k, gates, columns = packed.shape
        job = (
            transposed, address(array), array.strides[0], address(packed), k, gates, n, columns, array.itemsize,
            packed.strides[0], packed.strides[1],
        )  # fmt: skip
        self._left -= packed.nbytes
        self._jobs.append(job)
        self._run(np.array([job], np.int64))

    def round(self, array: Array, words: Array, across: bool) -> None:
        """See `kernels.tiles.Packer`."""
        rows, columns = array.shape
        call = "across" if across else "along", (address(array), array.strides[0], rows, columns, address(words))
        self._left -= words.nbytes
        self._rounded.append(call)
        self._round([call])

    def copied(self) -> None:
        """See `kernels.tiles.Packer`."""
        self._copied = True

    def repeat(self) -> bool:
        """See `kernels.tiles.Packer`."""
        if self._left or self._copied:
            return False
        if self._table is None:
            self._table = np.array(self._jobs, np.int64).reshape(len(self._jobs), JOB.count)
        self._round(self._rounded)
        self._run(self._table)
        return True

    def _run(self, jobs: Words) -> None:
        self._library.call("pack_all", address(jobs), len(jobs))

    @staticmethod
    def _round(calls: Sequence[tuple[str, tuple[int, ...]]]) -> None:
        if calls:
            code = _rounding(host())
            for name, given in calls:
                code.call(name, *given)


@functools.lru_cache(maxsize=4)
def _rounding(on: Target) -> Compiled:
    return load([deferred(on)])[0]
