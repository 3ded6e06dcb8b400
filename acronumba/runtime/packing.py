"""Packing weights that change at every call: by compiled code, into memory that serves again.

In: arrays. Out: their packed forms, with the bits of `Packing.apply`. Training packs all of them at every step: looking
first whether they have changed would be waste.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from acronumba.emit.compile import Compiled
from acronumba.memory import address
from acronumba.runtime.buffers import ArenaPool, Pieces


class Packer:
    """Packs the weights of one call.

    Parameters
    ----------
    library
        Of `runtime.library.transpose`.
    pool
        Memory.
    """

    def __init__(self, library: Compiled, pool: ArenaPool) -> None:
        self.allocate = Pieces(pool)
        self._library = library

    def turn(self, array: NDArray[Any], packed: NDArray[Any], n: int) -> None:
        """See `kernels.tiles.Packer`."""
        _, k, gates, columns = packed.shape
        self._library.call(
            "pack_turned", address(array), array.strides[0], address(packed), k, gates, n, columns, array.itemsize
        )
