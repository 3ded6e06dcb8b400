"""What measures a GPU: every call of the driver as a stand-in sees it, whose clock knows what each kernel takes."""

from __future__ import annotations

import ctypes
import importlib.util
import re

import pytest

from acronumba.kernels.cuda import compat
from acronumba.runtime.devices.driver import DriverError
from acronumba_bench import instruments
from acronumba_bench.gpu import clocks, floors, instructions, meter, ptx
from tests.support.clocked_driver import CYCLES, LAUNCH, Measured


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
    found = {**floors.barriers(f), **floors.hops(f), **floors.stages(f)}
    assert found["grid, counter, 256 threads us"] == pytest.approx(2, rel=1e-3)
    assert found["cluster of 16, 256 threads us"] == pytest.approx(0.5, rel=1e-3)
    assert found["memory, block 1"]["us"] == pytest.approx(2, rel=1e-3)  # a round is there and back
    assert found["cluster us"] == pytest.approx(0.3, rel=1e-3)
    assert found["grid, clusters of 2, 256 threads us"] == pytest.approx(0.8, rel=1e-3)
    assert driver.calls.count("cuFuncSetAttribute") == 2
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


def test_cycles_of_instructions() -> None:
    driver = Measured()
    c = instructions.Clocks(opened(driver))
    found = instructions.instructions(c)
    assert found["GHz before"] == found["GHz after"] == 2
    assert found["FFMA"] == {str(n): CYCLES * 32 * n / clocks.LENGTH for n in (1, 4, 8, 16)}
    assert found["copy of 16 bytes"]["1"] == CYCLES * 32
    thought = {name: dict.fromkeys(map(str, instructions.WARPS), 1.0) for name in instructions.CASES}
    own = instructions.constants(found, thought)
    assert set(own) == set(instructions.CONSTANTS)
    assert own["exchange"] == {"estimated": 24, "measured": 24}  # a cycle as well as estimated
    assert own["tensor"] == {"estimated": 6, "measured": 6 + 15 / 4}
    copied = instructions.copies(c)
    assert copied["copies of 16 bytes, all blocks, bytes"] == 512 * clocks.COPIES / (CYCLES * 32)
    assert copied["bulk copies of 1024 bytes, one block, bytes"] == 1024 * clocks.BULKS / (CYCLES * 32)
    lines = instructions.code(c)["4 KB, 1 warps"]
    assert lines["again"] == CYCLES and lines["after a sweep"] == CYCLES + 50 / 32
    by_name = {launch[0]: launch for launch in driver.launches}
    assert by_name["bulk"][1:3] == (2, 32) and len(by_name["bulk"][3]) == 6
    driver.waits_too_long = True
    assert instructions.copies(c)["bulk copy of 256 bytes, cycles"] == "not measured: who waited gave up"
    c = instructions.Clocks(opened(Measured((8, 0))))
    assert instructions.copies(c)["bulk copies of 16 bytes, one block, bytes"].endswith("needs compute capability 9.0")


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
@pytest.mark.parametrize(("text", "arch"), [
    (ptx.GENERAL, "sm_80"), (ptx.GENERAL, "sm_90"), (ptx.CLUSTERS, "sm_90a"), (clocks.straight(4).text, "sm_90a"),
    *((kernel.text, "sm_90a") for kernel in clocks.KERNELS.values()),
])  # fmt: skip
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
