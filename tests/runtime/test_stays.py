"""A kernel that stays between rounds: the CPU's part comes in between at random, and nothing is lost or hangs."""

from __future__ import annotations

import ctypes
import random
from threading import Thread
from typing import Any

import numpy as np
import pytest

from acronumba import model
from acronumba.emit import interpret
from acronumba.kernels.cuda import persistent as kernel
from acronumba.kernels.cuda import simulator
from acronumba.kernels.cuda.cpu_memory import CpuMemory
from acronumba.runtime.devices import driver as gpu
from acronumba.runtime.devices import executor as device
from acronumba.runtime.devices import persistent
from acronumba.runtime.devices.launches import launch_module
from acronumba.runtime.devices.simulated import SimulatedDevice
from tests.support.device_runs import Batches, Run, same_bits, together, weights
from tests.support.gpu_driver import Driver


@model
def until(x: np.ndarray, *, w: np.ndarray) -> tuple[int, np.ndarray, np.ndarray]:
    n = 0
    first = w @ x
    while n < 6 and float(x.sum()) < 4.0:
        x = w @ x * 1.5 + w[0]
        n += 1
    return n, x, first


@model
def picks(x: np.ndarray, *, w: np.ndarray) -> tuple[int, np.ndarray]:
    """A read of a value that nobody has waited for, and nodes that fail in the first and in later rounds."""
    n = 0
    while n < 4:
        k = int(np.argmax(x)) + n // 2
        even, odd = x.sum(), (x * w[k]).sum()
        if float(even) > 0 and float(odd) > -9.0:
            x = np.tanh(w @ x)
        else:
            x = np.abs(x) + w[np.argmax(x) + n]
        n += 1
    return n, x


@model
def chosen(x: np.ndarray, *, w: np.ndarray, deep: np.ndarray) -> np.ndarray:
    h = np.tanh(w @ x)
    return w @ h if bool(deep) else h


def test_a_program_may_wait_for_no_result() -> None:  # but read a given array
    xs, w = lots(1, 2, 3), weights()
    for deep in (np.array(True), np.array(False)):
        made = chosen.on("simulator").with_options(persistent=True).batch(xs, w=w, deep=deep)
        for x, got in zip(xs, made, strict=True):
            np.testing.assert_allclose(got, chosen(x, w=w, deep=deep), rtol=1e-5)


def lots(*sums: float) -> list[np.ndarray]:
    return [np.full(5, v, np.float32) for v in sums]


def picked() -> list[np.ndarray]:
    r = np.random.default_rng(3)
    return [*r.standard_normal((5, 5)).astype(np.float32), np.arange(5, dtype=np.float32)]


def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_ROOM", 256)
    monkeypatch.setattr(device, "_LAUNCHES", 1)


@pytest.mark.parametrize("grows", [False, True])
def test_all_rounds_are_one_launch(grows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where memory must grow before the first round."""
    if grows:
        small(monkeypatch)
    w, xs = np.abs(weights()), lots(0.1, 0.01, 0.5, 2.0, 0.02)
    wanted = Run(until, xs, w=w)
    done = Run(together(until), xs, w=w, seed=1)
    same_bits(done.results, wanted.results)
    assert done.launches == 1
    assert [r[0] for r in done.results] == [until(x, w=w)[0] for x in xs]


def test_nodes_that_fail_in_any_round() -> None:
    wanted = Run(picks, picked(), w=weights())
    done = Run(together(picks), picked(), w=weights(), seed=1)
    assert done.errors.keys() == wanted.errors.keys() and len(done.errors) not in (0, 6)
    assert {str(e) for e in done.errors.values()} == {str(e) for e in wanted.errors.values()}
    same = [k for k in range(6) if k not in done.errors]
    same_bits([done.results[k] for k in same], [wanted.results[k] for k in same])


class Interleaved(interpret.InterpreterMemory):
    """The memory of the CPU, whose accesses the GPU comes in between."""

    def __init__(self, gpu_: SimulatedDevice, seed: int, chance: float) -> None:
        super().__init__()
        self.gpu, self.random, self.chance = gpu_, random.Random(seed), chance

    def place(self, address: int, size: int, align: int, what: str, write: bool) -> tuple[memoryview, int]:
        if self.random.random() < self.chance and self.gpu._beside is not None:
            self.gpu.idle()
        return memoryview((ctypes.c_uint8 * size).from_address(address)).cast("B"), 0

    def call(self, address: int, *args: int) -> Any:
        return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(args))(address)(*args)


def interleaved(run: Batches, seed: int, chance: float = 0.02) -> None:
    """Let the CPU's part of a run be interpreted."""
    memory = Interleaved(run.device, seed, chance)
    module = launch_module()
    for name in ("rounds", "dismiss"):
        setattr(run.executor, f"_{name}", lambda *args, name=name: interpret.run(module, name, args, memory))


@pytest.mark.parametrize("stay", [1, 5, 1000])
def test_the_cpu_comes_in_between_at_random(stay: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel also leaves while the CPU tells it of the next round."""
    monkeypatch.setattr(persistent, "STAY", stay)
    w, xs = np.abs(weights()), lots(0.1, 0.5, 2.0)
    wanted = Run(until, xs, w=w).results
    run = Batches(together(until), xs, w=w)
    for seed in range(2):
        interleaved(run, seed, (0.05, 0.004)[seed])
        same_bits(run(xs), wanted)
    assert (run.device.launches == 2) == (stay == 1000)


def several(xs: list[np.ndarray], w: np.ndarray, wanted: list[Any]) -> None:
    for seed in range(4):
        same_bits(Run(together(until), xs, w=w, seed=seed).results, wanted)


BRING, MEET, FIRST = (
    f"            {line}\n" for line in ("bring(barrier)", "cuda.syncthreads()", "if cuda.threadIdx.x == 0:")
)
TELL = f"                tell(post + {8 * kernel.POST.at['done']}, turn)\n"
BASE, TOTAL = (f"ld(barrier, {kernel._TABLE[name]})" for name in ("base", "total"))
ALL = " + i64(cuda.gridDim.x)"


@pytest.mark.parametrize(("old", "new"), [
    (BRING + MEET, BRING),  # the flag comes before the values,
    (BRING + MEET + FIRST + TELL, FIRST + TELL + BRING),
    (f"        passed(barrier, {TOTAL})\n", ""),  # ... or the values before their steps,
    (f"            passed(barrier, {BASE}{ALL})\n", ""),  # ... or steps before what they read has been copied,
])  # fmt: skip
def test_what_comes_too_early_is_an_error(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernel._RUN.count(old) == 1
    w, xs = np.abs(weights()), lots(0.1, 0.5, 2.0)
    wanted = Run(until, xs, w=w).results
    monkeypatch.setattr(kernel, "_RUN", kernel._RUN.replace(old, new))
    with pytest.raises((AssertionError, simulator.Race, simulator.Deadlock)):
        several(xs, w, wanted)


def test_a_cpu_that_tells_before_it_has_written_is_an_error() -> None:
    memory = CpuMemory()
    words = np.zeros(4, np.int64)
    memory.add(words.view(np.uint8))
    block = simulator._Block(0, interpret.InterpreterMemory(), 0)
    at = words.ctypes.data
    assert memory.look(at) == 0
    memory.give(at + 8, 7, block, 0)
    words[0] = 1
    with pytest.raises(simulator.Race, match="while the kernel was using it"):
        memory.tell(at + 16, 1, block, 0)
    words[0] = 0
    assert words[1] == 0  # the CPU sees it when it is told
    memory.tell(at + 16, 1, block, 0)
    assert words.tolist() == [0, 7, 1, 0]
    with pytest.raises(IndexError, match="no word of the CPU"):
        memory.look(at + 32)


def test_the_driver_is_not_called_between_rounds(driver: Driver) -> None:
    w, xs = np.abs(weights()), lots(0.1, 0.01, 0.5, 2.0, 0.02)
    run = Batches(together(until), xs, on=gpu.Gpu(0, driver), w=w)
    wanted = run(xs)
    for _ in range(3):
        driver.calls.clear()
        started = run.start(xs)
        assert started[0].buffers["rounds"] == 4
        found = [c for c in driver.calls if c not in ("cuStreamQuery", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2")]
        same_bits(run.results(started), wanted)
    assert found == ["cuMemcpyHtoDAsync_v2", "cuLaunchCooperativeKernel"]  # the words that the kernel begins with


def test_an_exception_between_rounds_lets_the_kernel_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    w, xs = np.abs(weights()), lots(0.1, 0.5, 2.0)
    run = Batches(together(until), xs, w=w)
    wanted = run(xs)
    rounds = run.executor._rounds

    def interrupted(*args: int) -> int:
        done = rounds(*args)
        if run.executor.persistent["phase"] == 2:
            raise KeyboardInterrupt
        return done

    with monkeypatch.context() as m:
        m.setattr(run.executor, "_rounds", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(xs)
    assert run.device._beside is None or not run.executor.persistent["there"]
    same_bits(run(xs), wanted)


def test_a_kernel_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    w, xs = np.abs(weights()), lots(0.1, 0.5)
    run = Batches(together(until), xs, w=w)
    run(xs)
    with monkeypatch.context() as m:
        m.setattr(CpuMemory, "tell", lambda *args: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            run(xs)
    with monkeypatch.context() as m:  # as if it had ended without a word
        m.setattr(CpuMemory, "tell", lambda *args: None)
        with pytest.raises(RuntimeError, match="has ended without a word"):
            run(xs)


def test_blocks_that_wait_in_vain_give_up() -> None:
    w, xs = np.abs(weights()), lots(0.1, 0.5)
    run = Batches(together(until), xs, w=w)
    wanted = run(xs)
    words = run.executor.persistent
    words["looks"] = 1
    with pytest.raises(RuntimeError, match=r"waited for each other in vain: with_options\(persistent=False\)"):
        run(xs)
    words["looks"] = persistent.LOOKS
    same_bits(run(xs), wanted)


def test_without_room_for_scratch_the_kernel_is_told_again() -> None:
    w, xs = np.abs(weights()), lots(0.1, 0.5)
    run = Batches(together(until), xs, w=w)
    wanted = run(xs)
    words = run.executor.launches
    words["scratch_size"] = words["warps_size"] = -1
    same_bits(run(xs), wanted)


@pytest.mark.long
def test_several_threads_and_models_use_one_device() -> None:
    w, xs = np.abs(weights()), lots(0.1, 0.5)
    one = Batches(together(until), xs, w=w)
    other = Batches(together(until.with_options(schedule="agenda")), xs, on=one.device, w=w)
    found: list[Any] = []
    threads = [Thread(target=lambda run=run: found.extend(run(xs) for _ in range(2))) for run in (one, one, other)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(timeout=120)
    assert len(found) == 6
    for each in found:
        same_bits(each, found[0])


class Timed(SimulatedDevice):
    """A device on which ways are compared: the one kernel wins for mini-batches of up to two launches."""

    timed = True


def test_rounds_of_some_sizes_are_launched_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persistent, "_BOUND", 1)
    monkeypatch.setattr(persistent.PersistentRun, "_faster", lambda self, size, word, ways: ways["apart"]() and (
        "together" if size[1] < 4 else "apart"))  # fmt: skip
    w, xs = np.abs(weights()), lots(0.1, 0.01, 0.5, 2.0, 0.02)
    wanted = Run(until, xs, w=w).results
    run = Batches(until, xs, on=Timed(), w=w)
    for _ in range(3):
        same_bits(run(xs), wanted)
    assert {*run.executor.persistent.best.values()} == {"together", "apart"}
    same_bits([r[1:] for r in run.results(run.start(xs), stay=True)], [r[1:] for r in wanted])


def test_other_stages_run_round_by_round() -> None:
    w, xs = np.abs(weights()), lots(0.1, 0.5)
    trace = together(until).on("simulator").trace(xs, w=w)
    assert trace.data.rounds > 1 and [b for b in trace.data.batches if b.seconds is None] == []
