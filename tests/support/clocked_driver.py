"""A stand-in for the library of NVIDIA's driver, whose clock knows what each measuring kernel takes."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import numpy as np

from acronumba_bench.gpu import clocks, meter
from tests.support.gpu_driver import Driver

LAUNCH = 3e-6  # seconds of a launch
CYCLES = 4  # of a round of a thread
ROUND = {"counter": 2e-6, "flip": 1e-6, "cluster": 5e-7, "hop": 4e-6, "near": 6e-7, "staged": 8e-7}


class Measured(Driver):
    """A driver whose GPU only keeps time."""

    def __init__(self, capability: tuple[int, int] = (9, 0)) -> None:
        super().__init__(capability)
        for name in meter.FUNCTIONS:
            setattr(self, name, self.function(name))
        self.clock = 0.0
        self.functions: list[tuple[str, int]] = []  # name, parameters
        self.launches: list[tuple[Any, ...]] = []
        self.captured: list[list[float]] = []
        self.capturing = False
        self.words = np.zeros(512, np.int64)
        self.waits_too_long = False
        self.cuLaunchKernel = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 11)(lambda *_: 0)
        self.cuGraphLaunch = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 2)(self.function("cuGraphLaunch"))

    def function(self, name: str) -> Any:
        plain = super().function(name)

        def call(*args: Any) -> int:
            for argument, kind in zip(args, getattr(self, name).argtypes, strict=True):
                kind.from_param(argument)  # as ctypes does it
            return plain(*args)

        return call

    def _cuDeviceGetAttribute(self, out: Any, number: int, device: Any) -> None:
        out._obj.value = {16: 2, 75: self.capability[0], 76: self.capability[1], 95: 1, 97: 232448}.get(number, 0)

    def _cuDeviceTotalMem_v2(self, out: Any, device: Any) -> None:
        out._obj.value = 80 << 30

    def _cuDriverGetVersion(self, out: Any) -> None:
        out._obj.value = 13010

    def _cuMemAlloc_v2(self, out: Any, size: int) -> int:
        out._obj.value = self.words.ctypes.data
        return 0

    def _cuMemFree_v2(self, at: int) -> None:
        pass

    def _cuMemsetD32Async(self, at: int, value: int, count: int, stream: int) -> None:
        assert value == 0
        self.words[:] = 0

    def _cuMemcpyDtoHAsync_v2(self, to: int, source: int, size: int, stream: int) -> None:
        ctypes.memmove(to, source, size)

    def _cuMemcpyDtoDAsync_v2(self, to: int, source: int, size: int, stream: int) -> None:
        self.takes(2 * size / 1e12)

    def _cuModuleLoadDataEx(self, out: Any, text: bytes, count: int, options: Any, values: Any) -> int:
        assert (count, list(options)) == (2, [5, 6])
        if b"wrong" in text:
            ctypes.memmove(values[0], b"line 7: no such instruction\0", 28)
            return 218
        out._obj.value = 1
        entries = re.findall(r"\.entry (\w+)\((.*?)\)", text.decode())
        self.functions += [(name, len(given.split(",")) if given else 0) for name, given in entries]
        return 0

    def _cuModuleGetFunction(self, out: Any, module: Any, name: bytes) -> None:
        out._obj.value = next(k for k, f in enumerate(self.functions) if f[0] == name.decode())

    def _cuOccupancyMaxActiveBlocksPerMultiprocessor(self, out: Any, function: int, threads: int, shared: int) -> None:
        out._obj.value = 4

    def takes(self, seconds: float) -> None:
        if self.capturing:
            self.captured[-1].append(seconds)
        else:
            self.clock += seconds

    def _cuLaunchKernelEx(self, config: Any, function: int, params: Any, extra: None) -> None:
        c = config._obj
        name, count = self.functions[function]
        assert (c.grid_y, c.grid_z, c.block_y, c.block_z, c.stream) == (1, 1, 1, 1, 0)
        words = [ctypes.c_int64.from_address(params[k]).value for k in range(count)]
        attributes = [(c.attributes[k].id, tuple(c.attributes[k].value[:3])) for k in range(c.count)]
        self.launches.append((name, c.grid_x, c.block_x, words, attributes, c.shared))
        self.launched(name, words, c.grid_x, attributes, c.shared)
        if name == "shared":
            assert words[1] == c.shared == 232448
            self.words[0] = 42
        if name == "clock":
            self.words[:2] = 2 * words[1], words[1]
            return
        if name in clocks.KERNELS or name.startswith("code_"):
            self.words[:2] = 50 + words[1] * CYCLES * c.block_x, self.waits_too_long
            self.takes(LAUNCH)
            return
        rounds = words[0] if name == "cluster" else words[1] if name in ROUND else 0
        self.takes(words[0] * 1e-9 if name == "spin" else LAUNCH + rounds * ROUND.get(name, 0))
        self.words[1] = self.waits_too_long and name in ROUND

    def launched(self, name: str, words: list[int], blocks: int, attributes: Any, shared: int) -> None:
        """For drivers that do more."""

    def _cuStreamBeginCapture_v2(self, stream: int, mode: int) -> None:
        self.capturing, _ = True, self.captured.append([])

    def _cuStreamEndCapture(self, stream: int, out: Any) -> None:
        self.capturing = False
        out._obj.value = len(self.captured) - 1

    def _cuGraphInstantiateWithFlags(self, out: Any, graph: Any, flags: int) -> None:
        out._obj.value = graph.value

    def _cuGraphDestroy(self, graph: Any) -> None: ...

    def _cuGraphExecDestroy(self, graph: Any) -> None: ...

    def _cuGraphLaunch(self, graph: int, stream: int) -> None:
        self.clock += sum(self.captured[graph]) / 2  # faster than one by one

    def _cuEventCreate(self, out: Any, flags: int) -> None:
        self.times = getattr(self, "times", {})
        out._obj.value = len(self.times) + 1
        self.times[out._obj.value] = 0.0

    def _cuEventRecord(self, event: int, stream: int) -> None:
        self.times[event] = self.clock

    def _cuEventSynchronize(self, event: int) -> None:
        assert event in self.times

    def _cuEventElapsedTime(self, out: Any, first: int, last: int) -> None:
        out._obj.value = (self.times[last] - self.times[first]) * 1e3

    def _cuGetErrorString(self, error: int, out: Any) -> None:
        out._obj.value = b"a PTX JIT compilation failed"
