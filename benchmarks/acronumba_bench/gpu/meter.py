"""Timing of work on a GPU, by the driver: launches with attributes, graphs, and events.

In: PTX, work to be queued. Out: seconds that the GPU takes for it. The driver functions for running models are in
`runtime.devices.driver`; those here need a driver of CUDA 12.
"""

from __future__ import annotations

import contextlib
import ctypes
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acronumba.runtime.devices.driver import DriverError, Gpu

_WORD, _INT, _POINTER = ctypes.c_uint64, ctypes.c_int, ctypes.c_void_p


class Attribute(ctypes.Structure):
    """CUlaunchAttribute: its value is a union of 64 bytes, of which three numbers are used here."""

    _fields_ = [("id", _INT), ("pad", _INT), ("value", ctypes.c_uint32 * 16)]


class Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        *((name, ctypes.c_uint) for name in "grid_x grid_y grid_z block_x block_y block_z shared".split()),
        ("stream", _WORD),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", ctypes.c_uint),
    ]


FUNCTIONS: dict[str, list[Any]] = {
    "cuDriverGetVersion": [ctypes.POINTER(_INT)],
    "cuDeviceTotalMem_v2": [ctypes.POINTER(ctypes.c_size_t), _INT],
    "cuModuleLoadDataEx": [ctypes.POINTER(_WORD), _POINTER, ctypes.c_uint, ctypes.POINTER(_INT), _POINTER],
    "cuFuncSetAttribute": [_WORD, _INT, _INT],
    "cuLaunchKernelEx": [ctypes.POINTER(Config), _WORD, _POINTER, _POINTER],
    "cuMemsetD32Async": [_WORD, ctypes.c_uint, ctypes.c_size_t, _WORD],
    "cuEventElapsedTime": [ctypes.POINTER(ctypes.c_float), _WORD, _WORD],
    "cuStreamBeginCapture_v2": [_WORD, _INT],
    "cuStreamEndCapture": [_WORD, ctypes.POINTER(_WORD)],
    "cuGraphInstantiateWithFlags": [ctypes.POINTER(_WORD), _WORD, ctypes.c_ulonglong],
    "cuGraphLaunch": [_WORD, _WORD],
    "cuGraphDestroy": [_WORD],
    "cuCtxSetCurrent": [_WORD],
}
COOPERATIVE, CLUSTER, DEPENDENT = 2, 4, 6  # attributes of a launch
_DYNAMIC_SHARED, _LARGE_CLUSTERS = 8, 14  # attributes of a function
_RELAXED = 2  # a capture that other threads cannot break
_ERRORS, _ERRORS_SIZE = 5, 6  # options of the driver's compiler
_LIMITS = {  # attributes of a device that limit kernels
    "multiprocessors": 16, "clock kHz": 13, "memory clock kHz": 36, "memory bus bits": 37, "L2 bytes": 38,
    "shared bytes of a block": 8, "shared bytes of a block, asked for": 97, "shared bytes of a multiprocessor": 81,
    "registers of a multiprocessor": 82, "threads of a multiprocessor": 39,
}  # fmt: skip


class Meter(Gpu):
    """A GPU with the driver functions for measurements."""

    def __init__(self, ordinal: int = 0, driver: Any = None) -> None:
        super().__init__(ordinal, driver)
        for name, arguments in FUNCTIONS.items():
            getattr(self._driver, name).argtypes = arguments
        device = _INT()
        self._call("cuDeviceGet", ctypes.byref(device), ordinal)
        self.limits: dict[str, int] = {}
        for name, number in _LIMITS.items():
            with contextlib.suppress(DriverError):  # of another version
                self.limits[name] = self._attribute(device, number)
        self.multiprocessors = self.limits["multiprocessors"]
        size, version = ctypes.c_size_t(), _INT()
        self._call("cuDeviceTotalMem_v2", ctypes.byref(size), device)
        self.limits["bytes"] = size.value
        self._call("cuDriverGetVersion", ctypes.byref(version))
        self.version = f"{version.value // 1000}.{version.value % 1000 // 10}"  # of CUDA that the driver knows
        self._events = self._made("cuEventCreate", 0), self._made("cuEventCreate", 0)

    def _enter(self) -> None:
        """Make the GPU's context the current one of the thread."""
        self._call("cuCtxSetCurrent", self._context)

    def module(self, text: str) -> Callable[[str], int]:
        """Compile a module of PTX by the driver; return a map from function names to functions.

        Raises
        ------
        DriverError
            With the message of the driver's compiler.
        """
        self._enter()
        log = ctypes.create_string_buffer(4096)
        options = (_INT * 2)(_ERRORS, _ERRORS_SIZE)
        values = (_POINTER * 2)(ctypes.addressof(log), len(log))
        try:
            module = self._made("cuModuleLoadDataEx", text.encode(), 2, options, values)
        except DriverError as error:
            raise DriverError(f"{error} {log.value.decode(errors='replace')}".strip()) from None
        return lambda name: self._made("cuModuleGetFunction", module, name.encode())

    def grant(self, function: int, shared: int = 0, clusters: bool = False) -> None:
        """Allow a function more shared memory than 48 KB, or clusters of more than eight blocks."""
        self._enter()
        if shared:
            self._call("cuFuncSetAttribute", function, _DYNAMIC_SHARED, shared)
        if clusters:
            self._call("cuFuncSetAttribute", function, _LARGE_CLUSTERS, 1)

    def launch(
        self, function: int, blocks: int, threads: int, *words: int, shared: int = 0, cooperative: bool = False,
        cluster: int = 0, dependent: bool = False,
    ) -> None:  # fmt: skip
        """Queue a kernel.

        Parameters
        ----------
        function, blocks, threads : int
        *words : int
            Its parameters.
        shared : int
            Bytes of a block.
        cooperative : bool
            Whether all blocks must run at the same time; else the driver raises an error.
        cluster : int
            Blocks of a cluster.
        dependent : bool
            Whether it may begin before the previous kernel ends, once that kernel allows it.
        """
        self._enter()
        wanted: list[tuple[int, tuple[int, ...]]] = []
        wanted += [(COOPERATIVE, (1,))] if cooperative else []
        wanted += [(CLUSTER, (cluster, 1, 1))] if cluster else []
        wanted += [(DEPENDENT, (1,))] if dependent else []
        attributes = (Attribute * max(len(wanted), 1))()
        for place, (number, value) in zip(attributes, wanted, strict=False):
            place.id = number
            place.value[: len(value)] = value
        values = (ctypes.c_int64 * max(len(words), 1))(*words)
        params = (_POINTER * max(len(words), 1))(*(ctypes.addressof(values) + 8 * k for k in range(len(words))))
        config = Config(blocks, 1, 1, threads, 1, 1, shared, self.stream, attributes, len(wanted))
        self._call("cuLaunchKernelEx", ctypes.byref(config), function, params, None)

    def clear(self, at: int, size: int) -> None:
        """Queue zeros for so many bytes, a multiple of four."""
        self._enter()
        self._call("cuMemsetD32Async", at, 0, size // 4, self.stream)

    def words(self, at: int, count: int) -> NDArray[np.int64]:
        """Return words of the device."""
        out = np.zeros(count, np.int64)
        self.download(out.view(np.uint8), at)
        self.wait()
        return out

    def captured(self, work: Callable[[], None]) -> Callable[[], None]:
        """Capture the kernels that `work` queues as a graph; return a function that queues the graph."""
        self._enter()
        self._call("cuStreamBeginCapture_v2", self.stream, _RELAXED)
        try:
            work()
        finally:
            captured = _WORD()
            self._call("cuStreamEndCapture", self.stream, ctypes.byref(captured))
        try:
            ready = self._made("cuGraphInstantiateWithFlags", captured, 0)
        finally:
            self._call("cuGraphDestroy", captured)
        return lambda: self._call("cuGraphLaunch", ready, self.stream)

    def seconds(self, work: Callable[[], None], tries: int = 9, before: Callable[[], None] | None = None) -> float:
        """Return the median of the GPU's seconds for the kernels that `work` queues, without the first time.

        Parameters
        ----------
        work
        tries
        before
            Queues other work before, untimed.
        """
        first, last = self._events
        elapsed = ctypes.c_float()
        taken = []
        for _ in range(tries + 1):
            if before is not None:
                before()
            self._call("cuEventRecord", first, self.stream)
            work()
            self._call("cuEventRecord", last, self.stream)
            self._call("cuEventSynchronize", last)
            self._call("cuEventElapsedTime", ctypes.byref(elapsed), first, last)
            taken.append(elapsed.value * 1e-3)
        return statistics.median(taken[1:])
