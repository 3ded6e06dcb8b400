"""What kernels for GPUs run on: a GPU (`driver`) or the simulator of one (`simulated`).

A `Device` has functions, memory and one stream of launches and copies. A `DeviceCopy` is memory of a device that stands
for some of the processor's.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from acronumba.kernels.cuda.generate import CudaCode
from acronumba.kernels.cuda.persistent import PersistentCode
from acronumba.runtime.buffers import Words
from acronumba.runtime.devices.launches import Driver


class Device(Protocol):
    """A GPU. Copies and launches are done in one stream, one after the other; only `wait` waits for them."""

    name: str
    number: int | None  # of the GPU; the simulator has none
    processors: int  # that run blocks at the same time: multiprocessors
    driver: Driver  # what compiled code calls
    stream: int

    timed: bool  # whether the time that something takes says anything
    cooperative: bool  # whether blocks may wait for each other

    def __enter__(self) -> object:
        """Be what the thread works with; each function does this by itself, but not for free."""

    def __exit__(self, *_: object) -> None: ...

    def load(self, codes: Sequence[CudaCode | PersistentCode]) -> list[list[int]]:
        """Return the handles of the functions of each kernel."""

    def unload(self, handles: Sequence[int]) -> None:
        """Forget functions."""

    def resident(self, function: int, threads: int, shared: int) -> int:
        """Return how many blocks of a function a multiprocessor runs at once; `shared` is asked for at the launch."""

    def refuse(self, error: int) -> NoReturn:
        """Raise what an error means that a function of the driver has returned to compiled code."""

    def word(self) -> Words:
        """Return a word of the processor's memory that the device can reach at the same address."""

    def allocate(self, size: int) -> int:
        """Return the address of so many bytes; see `free`."""

    def free(self, at: int) -> None: ...

    def pinned(self, size: int) -> NDArray[np.uint8]:
        """Return memory of the processor that is copied without its help."""

    def upload(self, at: int, data: NDArray[np.uint8]) -> None:
        """Copy bytes to the device. Pinned memory must stay as it is until the copy is done."""

    def download(self, data: NDArray[np.uint8], at: int) -> None:
        """Copy bytes from the device. They are there after `wait`."""

    def copy(self, to: int, at: int, size: int) -> None:
        """Copy bytes from one place of the device to another."""

    def event(self) -> int:
        """Return a new mark of a place in the stream, which compiled code sets; see `reach` and `forget`."""

    def reach(self, event: int) -> None:
        """Return when everything before the mark is done."""

    def forget(self, event: int) -> None: ...

    def wait(self) -> None:
        """Return when everything is done; raise what has failed."""


class DeviceCopy:
    """Memory of the device for some of the processor's, from an address on."""

    def __init__(self, device: Device, start: int, size: int) -> None:
        self.start = start
        self.size = size
        self.address = device.allocate(max(self.size, 1))
        self.region = start, start + size, self.address - start  # see `kernels.cuda.marshal`
        weakref.finalize(self, device.free, self.address).atexit = False  # the end of the process frees it, too
