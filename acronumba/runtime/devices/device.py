"""Devices that run kernels for GPUs: a GPU (`driver`) or its simulator (`simulated`).

A `Device` has functions, memory and one stream of launches and copies. A `DeviceCopy` is device memory that mirrors a
range of CPU memory.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from acronumba.kernels.cuda.generate import CudaCode
from acronumba.kernels.cuda.graphs import NodeCode
from acronumba.kernels.cuda.persistent import PersistentCode
from acronumba.runtime.devices.launches import Driver

if TYPE_CHECKING:
    from acronumba.runtime.devices.graphs import Node


class Device(Protocol):
    """A GPU. Copies and launches are done in one stream, one after the other; only `wait` waits for them."""

    name: str
    number: int | None  # of the GPU; the simulator has none
    processors: int  # that run blocks at the same time: multiprocessors
    shared: int  # bytes of memory that a block may share
    driver: Driver  # functions that compiled code calls
    stream: int

    timed: bool  # whether the time that something takes says anything
    cooperative: bool  # whether blocks may wait for each other
    graphs: bool  # whether there are graphs of kernels

    def __enter__(self) -> object:
        """Make the device current in this thread. Each method does this too, at a cost per call."""

    def __exit__(self, *_: object) -> None: ...

    def compile(self, codes: Sequence[CudaCode | PersistentCode | NodeCode]) -> None:
        """Compile what will be loaded, if it is not on disk; what fails fails again in `load`, which raises."""

    def load(self, codes: Sequence[CudaCode | PersistentCode | NodeCode]) -> list[list[int]]:
        """Return the handles of the functions of each kernel."""

    def unload(self, handles: Sequence[int]) -> None:
        """Unload functions."""

    def resident(self, function: int, threads: int, shared: int) -> int:
        """Return the number of blocks of a function that a multiprocessor runs at once; `shared`: dynamic memory."""

    def graph(self, levels: Sequence[Sequence[Node]]) -> int:
        """Return the handle of a graph, whose nodes come behind all of the level before; see `forget_graph`."""

    def forget_graph(self, handle: int) -> None: ...

    def reject(self, error: int) -> NoReturn:
        """Raise the exception for an error code that a driver function has returned to compiled code."""

    def allocate(self, size: int) -> int:
        """Return the address of so many bytes; see `free`."""

    def free(self, at: int) -> None: ...

    def pinned(self, size: int) -> NDArray[np.uint8]:
        """Return pinned CPU memory, which the device copies by DMA, and which kernels reach at the same address."""

    def upload(self, at: int, data: NDArray[np.uint8]) -> None:
        """Copy bytes to the device. Pinned memory must not change until the copy is done."""

    def download(self, data: NDArray[np.uint8], at: int) -> None:
        """Copy bytes from the device. The copy is complete after `wait`."""

    def copy(self, to: int, at: int, size: int) -> None:
        """Copy bytes within the device's memory."""

    def event(self) -> int:
        """Return a new event, which compiled code records in the stream; see `reach` and `forget`."""

    def reach(self, event: int) -> None:
        """Wait until all work before the event is done."""

    def forget(self, event: int) -> None: ...

    def idle(self) -> bool:
        """Return whether all launches and copies are done, without waiting; raise if one has failed."""

    def wait(self) -> None:
        """Wait until all launches and copies are done; raise if one has failed."""


class DeviceCopy:
    """Device memory that mirrors `size` bytes of CPU memory from address `start` on."""

    def __init__(self, device: Device, start: int, size: int) -> None:
        self.device = device
        self.start = start
        self.size = size
        self.address = device.allocate(max(self.size, 1))
        self.region = start, start + size, self.address - start  # see `kernels.cuda.marshal`
        self._end = weakref.finalize(self, device.free, self.address)
        self._end.atexit = False  # the end of the process frees it, too

    @property
    def alive(self) -> bool:
        """Whether it still has its memory: see `executor.Stream.alive`."""
        return self._end.alive
