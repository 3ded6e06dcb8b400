"""What measures a GPU: every call of the driver as a stand-in sees it, whose clock knows what each kernel takes."""

from __future__ import annotations

import ctypes
import importlib.util
import re
from typing import Any

import numpy as np
import pytest

from acronumba.kernels.cuda import compat
from acronumba.runtime.devices.driver import DriverError
from acronumba_bench import instruments
from acronumba_bench.gpu import floors, meter, ptx
from tests.support.gpu_driver import Driver

LAUNCH = 3e-6  # seconds of a launch
ROUND = {"counter": 2e-6, "flip": 1e-6, "cluster": 5e-7, "hop": 4e-6, "near": 6e-7}


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

    def function(self, name: str) -> Any:
        plain = super().function(name)

        def call(*args: Any) -> int:
            for argument, kind in zip(args, getattr(self, name).argtypes, strict=True):
                kind.from_param(argument)  # as ctypes does it
            return plain(*args)

        return call

    def _cuDeviceGetAttribute(self, out: Any, number: int, device: Any) -> None:
        out._obj.value = {16: 2, 75: self.capability[0], 76: self.capability[1], 97: 232448}.get(number, 0)

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
        if name == "shared":
            assert words[1] == c.shared == 232448
            self.words[0] = 42
        rounds = words[0] if name == "cluster" else words[1] if name in ROUND else 0
        self.takes(words[0] * 1e-9 if name == "spin" else LAUNCH + rounds * ROUND.get(name, 0))
        self.words[1] = self.waits_too_long and name in ROUND

    def _cuStreamBeginCapture_v2(self, stream: int, mode: int) -> None:
        self.capturing, _ = True, self.captured.append([])

    def _cuStreamEndCapture(self, stream: int, out: Any) -> None:
        self.capturing = False
        out._obj.value = len(self.captured) - 1

    def _cuGraphInstantiateWithFlags(self, out: Any, graph: Any, flags: int) -> None:
        out._obj.value = graph.value

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


def opened(driver: Measured) -> floors.Floors:
    return floors.Floors(meter.Meter(0, driver))


def test_structures_have_the_sizes_of_the_header() -> None:
    assert ctypes.sizeof(meter.Attribute) == 72
    assert ctypes.sizeof(meter.Config) == 56
    assert meter.Config.stream.offset == 32


def test_chains_in_streams_and_graphs() -> None:
    driver = Measured()
    found = floors.chains(opened(driver))
    assert found["stream, 1 blocks"]["node us"] == pytest.approx(3, rel=1e-3)
    assert found["graph, 2 blocks"]["200 us"] == pytest.approx(300, rel=1e-3)
    assert found["graph, begun early, 2 blocks"]["node us"] == pytest.approx(1.5, rel=1e-3)
    early = [launch for launch in driver.launches if launch[0] == "dependent"]
    assert all(attributes == [(meter.DEPENDENT, (1, 0, 0))] for _, _, _, _, attributes, _ in early) and early
    assert found["our loop over launches"]["queued us"] > 0


def test_barriers_and_hops_are_rounds_without_the_launch() -> None:
    driver = Measured()
    f = opened(driver)
    found = {**floors.barriers(f), **floors.hops(f)}
    assert found["grid, counter, 256 threads us"] == pytest.approx(2, rel=1e-3)
    assert found["cluster of 16, 256 threads us"] == pytest.approx(0.5, rel=1e-3)
    assert found["memory, block 1"]["us"] == pytest.approx(2, rel=1e-3)  # a round is there and back
    assert found["cluster us"] == pytest.approx(0.3, rel=1e-3)
    assert driver.calls.count("cuFuncSetAttribute") == 1
    by_name = {launch[0]: launch for launch in driver.launches}
    assert by_name["counter"][1:3] == (2, 512) and by_name["counter"][4] == [(meter.COOPERATIVE, (1, 0, 0))]
    assert by_name["cluster"][4] == [(meter.CLUSTER, (16, 1, 1))]


def test_rates_and_limits() -> None:
    f = opened(Measured())
    found = floors.rates(f)
    assert found["copied, read and written GB/s"] == pytest.approx(1000, rel=1e-3)
    flops = 2 * 4 * 256 * 500 * 2 * ptx.CHAINS * ptx.REPEATS  # blocks, threads, rounds
    assert found["float32 TFLOP/s"] == pytest.approx(flops / LAUNCH / 1e12, rel=1e-3)
    assert found["TF32 mma.sync TFLOP/s"] / found["float32 TFLOP/s"] == pytest.approx(2 * 16 * 8 * 8 * 8 / 32 / 32)
    said = floors.limits(f)
    assert said["shared bytes granted"] == 232448 and said["driver CUDA"] == "13.1" and said["bytes"] == 80 << 30


def test_the_ceiling_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Measured()
    opened_meter = meter.Meter(0, driver)
    monkeypatch.setattr(meter, "Meter", lambda ordinal: opened_meter)
    found = instruments.limits("cuda:0")
    assert found is not None and found.launch == pytest.approx(LAUNCH, rel=1e-3)
    assert found.copied == pytest.approx(1000, rel=1e-3) and found.gflops > 0
    assert instruments.limits("simulator") is None


def test_what_a_gpu_does_not_do_is_said() -> None:
    driver = Measured((8, 0))
    f = opened(driver)
    assert floors.hops(f)["cluster us"] == "not measured: needs compute capability 9.0"
    driver.waits_too_long = True
    assert floors.barriers(f)["grid, flip, 128 threads us"] == "not measured: who waited gave up"
    with pytest.raises(DriverError, match="line 7: no such instruction"):
        f.meter.module("wrong")


@pytest.mark.skipif(bool(compat.missing()), reason=compat.missing())
@pytest.mark.parametrize(("text", "arch"), [(ptx.GENERAL, "sm_80"), (ptx.GENERAL, "sm_90"), (ptx.CLUSTERS, "sm_90a")])
def test_measuring_kernels_assemble(text: str, arch: str) -> None:
    from cuda.core import Linker, LinkerOptions, ObjectCode

    linker = Linker(ObjectCode.from_ptx(text.encode()), options=LinkerOptions(arch=arch, ptxas_options=["-v"]))
    assert linker.link("cubin").code
    log = linker.get_info_log()
    assert len(re.findall(r"Compiling entry function", log)) == text.count(".entry")
    assert not re.search(r"[1-9]\d* bytes (stack|spill)", log)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_libraries_are_measured() -> None:
    import libraries

    found = libraries.recurrent("cpu", sizes=(8,), batches=(2,), steps=4)
    assert len(found) == 6 and all(v > 0 for v in found.values())
    assert set(libraries.products("cpu", 32)) == {"float32 TFLOP/s", "TF32 TFLOP/s", "bfloat16 TFLOP/s"}
