"""Packing weights that change at every call: by compiled code, into memory that is reused.

In: arrays. Out: their packed forms, with the bits of `Packing.apply`. Training changes all weights at every step, so
they are packed without a check whether they have changed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from acronumba.emit.compile import Compiled
from acronumba.memory import Array, address
from acronumba.runtime.buffers import ArenaPool, Pieces


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

    def restart(self) -> None:
        """Start again: the same weights, packed in the same order, use the same memory."""
        self._next = 0

    def allocate(self, size: int) -> NDArray[np.uint8]:
        """See `kernels.tiles.Packer`."""
        if self._next == len(self._given):
            self._given.append(self._pieces(size))
        assert self._given[self._next].nbytes == size
        self._next += 1
        return self._given[self._next - 1]

    def turn(self, array: Array, packed: Array, n: int) -> None:
        """See `kernels.tiles.Packer`."""
        _, k, gates, columns = packed.shape
        self._library.call(
            "pack_turned", address(array), array.strides[0], address(packed), k, gates, n, columns, array.itemsize
        )
