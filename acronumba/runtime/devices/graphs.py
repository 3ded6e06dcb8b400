"""Graphs of kernels, each for many mini-batches: made when a mini-batch needs one that is not there yet.

In: a device and the code of the kernels. Out: the words that `runtime.library.launch_graph` needs. A graph has a node
for each function of each level, all with the same parameter, the address of a row of the table. All nodes of a level
come behind all of the level before.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from acronumba.kernels.cuda.generate import CudaCode
from acronumba.kernels.cuda.graphs import NODE, nodes_of
from acronumba.kernels.cuda.tiles import THREADS
from acronumba.memory import Words, address
from acronumba.records import record
from acronumba.runtime.library.launch_words import GRAPH

if TYPE_CHECKING:
    from acronumba.runtime.devices.device import Device

_ROWS = 4096  # of the table
_MOST = 64  # graphs of a model


@record()
class Node:
    """A node of a graph."""

    function: int  # handle
    blocks: int
    row: int  # address
    shared: int = 0  # bytes of shared memory to ask for


class Graphs:
    """The graphs of a model.

    Parameters
    ----------
    device : Device
        Where.
    codes : sequence of CudaCode
        The kernels, in the order of their functions' numbers.
    """

    def __init__(self, device: Device, codes: Sequence[CudaCode]) -> None:
        self._device = device
        self._handles = [handle for own in device.load([nodes_of(code) for code in codes]) for handle in own]
        weakref.finalize(self, device.unload, self._handles).atexit = False
        self._pools = [grids[0].pool for code in codes for grids in code.grids]
        for handle, pool in zip(self._handles, self._pools, strict=True):
            if pool:
                device.resident(handle, THREADS, pool)  # it may ask for so much
        self.table, self.rows = device.allocate(_ROWS * NODE.size), _ROWS
        weakref.finalize(self, device.free, self.table).atexit = False
        self.words: Words = np.zeros((_MOST, GRAPH.count), np.int64)
        self._keys: list[Words] = []

    @property
    def known(self) -> int:
        """How many there are."""
        return len(self._keys)

    def make(self, key: Words) -> bool:
        """Make the graph of a key, unless there are too many; return whether it is there."""
        if self.known == _MOST:
            return False
        row, levels = self.table, []
        for functions in levels_of(key.tolist()):
            own = [(row + NODE.size * k, f, n) for k, (f, n) in enumerate(functions)]
            levels.append([Node(self._handles[f], n, at, self._pools[f]) for at, f, n in own])
            row += NODE.size * len(functions)
        handle = self._device.graph(levels)
        weakref.finalize(self, self._device.forget_graph, handle).atexit = False
        self.words[self.known] = [handle, address(key), len(key)]
        self._keys.append(key)
        return True


def levels_of(key: Sequence[int]) -> Iterator[list[tuple[int, int]]]:
    """Yield the functions of each level, each with its blocks, of a key of `runtime.library.launch_graph`."""
    words = iter(key)
    for times, period in zip(words, words, strict=False):
        run = [[(next(words), next(words)) for _ in range(next(words))] for _ in range(period)]
        yield from [level for level in run if level] * times
