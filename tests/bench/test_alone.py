"""Kernels of models, timed alone: what is launched, as a stand-in for the driver sees it."""

from __future__ import annotations

import ctypes
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba.kernels.cuda import generate
from acronumba.kernels.cuda.persistent import BARRIER, STEP
from acronumba.runtime.devices.driver import DriverError
from acronumba_bench.gpu import alone, meter, profiler
from acronumba_bench.gpu.alone import Alone
from acronumba_bench.gpu.floors import Floors
from acronumba_bench.gpu.instructions import Clocks
from acronumba_bench.gpu.launch import Launch
from tests.support.clocked_driver import LAUNCH, Measured
from tests.support.kernel_cases import cell

STEP_SECONDS = 2e-6


class Remembering(Measured):
    """A driver whose GPU has memory, and does steps by adding up who comes."""

    def __init__(self) -> None:
        super().__init__()
        self.arrays: dict[int, np.ndarray] = {}
        self.lost = 0

    def _cuMemAlloc_v2(self, out: Any, size: int) -> int:
        array = np.zeros(min(size, 1 << 24) + 256, np.uint8)
        out._obj.value = array.ctypes.data + -array.ctypes.data % 256
        self.arrays[out._obj.value] = array
        return 0

    def _cuMemFree_v2(self, at: int) -> None:
        del self.arrays[at]

    def _cuMemsetD32Async(self, at: int, value: int, count: int, stream: int) -> None:
        self.takes(count * 1e-12)

    def _cuMemcpyHtoDAsync_v2(self, to: int, source: int, size: int, stream: int) -> None:
        ctypes.memmove(to, source, size)

    def _cuMemcpyDtoDAsync_v2(self, to: int, source: int, size: int, stream: int) -> None:
        ctypes.memmove(to, source, size)

    def words_at(self, at: int, count: int) -> np.ndarray:
        return np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(at))

    def launched(self, name: str, words: list[int], blocks: int, attributes: Any, shared: int) -> None:
        if name != "run":
            return
        table, count, barrier, post = words
        assert attributes == [(meter.COOPERATIVE, (1, 0, 0))] and shared and post == 0
        own = self.words_at(barrier, BARRIER.count + 1)
        assert own[BARRIER.at["come"]] == 0 and own[BARRIER.at["looks"]] == alone.LOOKS
        for row in self.words_at(table, count * STEP.count).reshape(count, STEP.count):
            assert row[STEP.at["wanted"]] == own[BARRIER.at["come"]]  # that of all steps before
            assert 0 < row[STEP.at["blocks"]] <= blocks and row[STEP.at["nodes"]] == 5
            own[BARRIER.at["come"]] += row[STEP.at["blocks"]]
        self.clock += count * STEP_SECONDS
        own[-1] = self.lost


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Alone:
    driver = Remembering()
    opened = meter.Meter(0, driver)

    def load(codes: Any) -> list[list[int]]:
        """As if the kernels had been compiled."""
        first = len(driver.functions)
        driver.functions += [(entry, 4) for code in codes for entry in code.entries]
        return [[*range(first, len(driver.functions))]]

    monkeypatch.setattr(opened, "load", load)
    return Alone(Clocks(Floors(opened)))


def test_functions_of_a_kernel(there: Alone) -> None:
    spec = cell(12)
    code = generate.generate(spec)
    found = list(there.functions(spec, code, [5]))
    assert [row["function"] for row in found] == list(code.entries)
    for row in found:
        assert row["rows"] == 5 and row["blocks"] > 0
        assert row["warm us"] == pytest.approx(0, abs=1e-6)  # as long as an empty kernel
        assert row["warm empty us"] == pytest.approx(LAUNCH / 2 * 1e6)  # in a graph
        assert row["after other code empty us"] == pytest.approx(LAUNCH * 1e6)  # and the other code
    driver = there.meter._driver
    own = [launch for launch in driver.launches if launch[0] in code.entries]
    _, blocks, threads, (p, nodes, scratch, _), attributes, shared = own[0]
    assert (blocks, threads, nodes, attributes, shared) == (found[0]["blocks"], 256, 5, [], 0)
    assert p and scratch and len(driver.arrays) == 3  # nothing is left behind


def test_steps_of_a_kernel(there: Alone) -> None:
    spec = cell(12)
    code = generate.generate(spec)
    (row,) = there.steps(spec, code, [5])
    assert row["warm us"] == pytest.approx(len(code.entries) * STEP_SECONDS * 1e6)
    assert len(list(there.copied(spec, code, [5, 5]))) == 2
    there.meter._driver.lost = 1
    with pytest.raises(DriverError, match="waited in vain"):
        list(there.steps(spec, code, [5]))


def test_arrays_that_will_lie_elsewhere() -> None:
    spec = cell(12)
    code = generate.generate(spec)
    here, there = Launch(spec, code, 3), Launch(spec, code, 3, at=lambda size: 1 << 40)
    assert there.p - (1 << 40) == here.p - here.memory.base
    pointers = here.memory.words[: here.memory.top // 4].view(np.int64), there.memory.words[: there.memory.top // 4]
    moved = pointers[1].view(np.int64) - pointers[0]
    assert set(moved.tolist()) == {0, (1 << 40) - here.memory.base}
    assert (here.result(0, 1) == there.result(0, 1)).all()


def test_launches_for_the_profiler(there: Alone) -> None:
    spec = cell(12)
    code = generate.generate(spec)
    rows = list(alone.launched(there.meter, spec, code, [3, 5], 2))
    own = [launch for launch in there.meter._driver.launches if launch[0] in code.entries]
    assert [(row["function"], row["rows"], row["blocks"]) for row in rows] == [(o[0], o[3][1], o[1]) for o in own]
    assert len(rows) == 4 * len(code.entries)


LOG = """==PROF== Connected to process 7
==PROF== Profiling "encode_1_0": 0%....50%....100% - 1 pass
"ID","Process ID","Kernel Name","sm__cycles_active.max","gpc__cycles_elapsed.max","gpu__time_duration.sum"
"","","","cycle","cycle","ns"
"0","7","encode_1_0","4,260","5001.5","n/a"
"""


def test_metrics_of_the_profiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert profiler.metrics(LOG) == [{"cycles": 4260, "elapsed cycles": 5001.5}]
    assert not profiler.metrics("==ERROR== no permission")
    monkeypatch.setattr(profiler, "program", lambda: "")
    assert "not installed" in profiler.profile(["program"], 1)


@pytest.mark.skipif(os.name != "posix", reason="the stand-in for Nsight Compute is a shell script")
def test_the_profiler_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = tmp_path / "ncu"
    stand_in.write_text(
        "#!/bin/sh\nwhile [ $1 != --log-file ]; do shift; done\n"
        f"cat {tmp_path}/log > $2\nshift 2\necho noise\necho $@\n"
    )
    stand_in.chmod(0o700)
    (tmp_path / "log").write_text(LOG)
    monkeypatch.setattr(profiler, "program", lambda: str(stand_in))
    reply = json.dumps({"result": [{"rows": 5}]})
    assert profiler.profile([reply], 10) == [{"rows": 5, "cycles": 4260, "elapsed cycles": 5001.5}]
    assert "1 launches of 2 have metrics" in profiler.profile([json.dumps({"result": [{}, {}]})], 10)
    assert "no reply" in profiler.profile(["oh"], 10)
