"""The driver of GPUs, with a stand-in for its library: calls, parameters, errors, what is kept on disk."""

from __future__ import annotations

import gc
import json
import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from acronumba import model, on_device, optim, pack, residence
from acronumba.api.dispatch import bind, specialise
from acronumba.errors import AcronumbaError
from acronumba.kernels.cuda import compat, cubins, generate, marshal
from acronumba.pipeline.link_device import link_device
from acronumba.runtime.devices import driver as gpu
from acronumba.runtime.devices import executor as device
from acronumba.runtime.devices import names
from acronumba.runtime.devices.launches import launch_module
from acronumba.runtime.library.launch_words import GRID, LAUNCH
from acronumba_bench.workloads import WORKLOADS
from tests.support.device_runs import alike, chain, sequences, weights
from tests.support.gpu_driver import Driver
from tests.support.kernel_cases import cell


def test_a_mini_batch_through_the_driver(driver: Driver) -> None:
    xs, w = sequences(3, 0, 2), weights()
    call = bind(chain, (xs,), {"w": w})
    compiled, values, packed = specialise(chain.with_options(persistent=False), call)
    one = gpu.Gpu(0, driver)
    assert (one.name, one.capability, one.processors) == ("Simulated GPU", (9, 0), 2)
    executable = link_device(compiled.plan, compiled.options, one)
    words, keep = compiled.shared.words(packed, values)
    for _ in range(3):
        driver.calls.clear()
        run = executable.run(packed.roots, words, keep=keep)
        done = list(driver.calls)
        result = compiled.decoder(run, packed)
        for k, x in enumerate(xs):
            alike(result(k), chain(x, w=w))
    # what launches need is copied; weights and instances have been there since they came for the second time, and
    # nothing is waited for before the results are asked for
    does = ["cuEventSynchronize", "cuMemcpyHtoDAsync_v2", "cuEventRecord"]
    launched = ["cuLaunchKernel"] * (len(done) - 5)
    assert launched and done == ["cuCtxPushCurrent_v2", *does, *launched, "cuCtxPopCurrent_v2"]
    assert "cuStreamSynchronize" in driver.calls and driver.calls.count("cuMemcpyDtoHAsync_v2") == 1
    assert len(driver.pinned) == 5  # of two runs: what launches need, results; what instances came in at first
    del run, result, executable
    gc.collect()
    assert not driver.pinned and set(driver.events) == {"gone"} and not driver.device.allocated
    assert driver.modules and not any(driver.modules)


@model
def of_chain(xs: list[np.ndarray], *, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    h = np.zeros(5, np.float32)
    for x in xs:
        h = np.tanh(w @ (h + x) + b)
    return np.sum(h * h)


def test_steps_of_training_through_the_driver(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradients, and what is asked of the driver: from the third step on nothing is allocated."""
    xs, p = sequences(3, 1, 2), {"w": weights(), "b": weights()[0].copy()}
    one = gpu.Gpu(0, driver)
    monkeypatch.setattr(names, "open_device", lambda name: one)
    f = of_chain.with_options(persistent=False)
    packed = pack(xs)
    for step in range(12):
        _, wanted = f.value_and_grad.batch(packed, **p)
        driver.calls.clear()
        _, grads = f.on("simulator").value_and_grad.batch(packed, **p)
        done = list(driver.calls)
        for array, mine, g in zip(p.values(), grads, wanted, strict=True):
            np.testing.assert_allclose(mine, g, rtol=1e-4, atol=1e-6)
            array -= np.float32(0.1) * g
        assert done.count("cuLaunchKernel") >= 6
        if step > 1:
            assert not {"cuMemAlloc_v2", "cuMemFree_v2", "cuMemHostAlloc", "cuModuleLoadData"} & set(done)
    assert driver.calls.count("cuCtxPushCurrent_v2") == driver.calls.count("cuCtxPopCurrent_v2")


def test_training_that_stays_there_through_the_driver(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step allocates nothing, copies nothing back, and waits for nothing."""
    xs, p = sequences(3, 1), {"w": weights(), "b": weights()[0].copy()}
    q, opt, other = {name: a.copy() for name, a in p.items()}, optim.Adam(0.1), optim.Adam(0.1)
    one = gpu.Gpu(0, driver)
    monkeypatch.setattr(names, "open_device", lambda name: one)
    monkeypatch.setattr(residence, "open_device", lambda name: one)
    mine = model(of_chain.__wrapped__).with_options(persistent=False)
    f, packed = mine.on("simulator").value_and_grad, pack(xs)
    with on_device(p, opt, device="simulator"):
        for step in range(10):
            driver.calls.clear()
            value, grads = f.batch(packed, **p)
            grads = dict(zip(p, grads, strict=True))
            norm = optim.clip(grads, 1.0)
            opt.update(p, grads)
            if step > 5:  # memory and tables of earlier steps are used again
                calls = set(driver.calls)
                assert calls <= {"cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuMemcpyHtoDAsync_v2", "cuLaunchKernel",
                                 "cuEventSynchronize", "cuEventRecord", "cuStreamSynchronize"}  # fmt: skip
                assert "cuMemcpyDtoHAsync_v2" not in calls
        about = grads["w"].__cuda_array_interface__
        assert about["shape"] == (5, 5) and about["typestr"] == "<f4" and about["data"][0] == grads["w"].address
        assert float(value) > 0 and float(norm) > 0
    for _ in range(10):
        grads = dict(zip(q, of_chain.value_and_grad.batch(packed, **q).grads, strict=True))
        optim.clip(grads, 1.0)
        other.update(q, grads)
    np.testing.assert_allclose(p["w"], q["w"], atol=1e-5)
    assert driver.calls.count("cuCtxPushCurrent_v2") == driver.calls.count("cuCtxPopCurrent_v2")


def test_other_streams_are_waited_for(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    one, seen = gpu.Gpu(0, driver), []  # type: ignore[var-annotated]
    monkeypatch.setattr(driver, "cuEventRecord", lambda event, stream: seen.append(("record", stream, event)))
    monkeypatch.setattr(driver, "cuStreamWaitEvent", lambda stream, event, _: seen.append(("wait", stream, event)))
    one.follow(7)
    one.precede(0)
    mine, event = one.stream, one._order
    assert seen == [("record", 7, event), ("wait", mine, event), ("record", mine, event), ("wait", 0, event)]


def test_errors_of_the_driver_have_its_words(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    one = gpu.Gpu(0, driver)
    code = generate.generate(cell(4))
    monkeypatch.setattr(cubins, "machines", lambda *_: [compat.Machine(b"x", "no such", "", 1, 0, 0, 0)])
    with pytest.raises(gpu.DriverError, match=r"cuModuleGetFunction: named symbol not found \(error 500\)"):
        one.load([code])
    driver.room = 100
    with pytest.raises(MemoryError, match="the GPU has no memory for 1,000 bytes"):
        one.allocate(1000)


def test_a_gpu_that_will_not_do_is_rejected_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "library", lambda: Driver(capability=(7, 5)))
    with pytest.raises(AcronumbaError, match=r"the GPU is too old: compute capability 7\.5, and 8\.0 is needed"):
        chain.on("cuda")
    monkeypatch.setattr(gpu, "library", Driver)
    with pytest.raises(AcronumbaError, match="the NVIDIA driver finds 2, not one of number 9"):
        chain.on("cuda:9")
    assert chain.on("cuda:0").device == "cuda" and chain.on("cuda:1").device == "cuda:1"


def test_what_a_gpu_keeps_is_given_up_for_what_it_needs(driver: Driver) -> None:
    xs, w = sequences(3, 2), weights()
    call = bind(chain, (xs,), {"w": w})
    compiled, values, packed = specialise(chain, call)
    executable = link_device(compiled.plan, compiled.options, gpu.Gpu(0, driver))
    words, keep = compiled.shared.words(packed, values)
    first = executable.run(packed.roots, words, keep=keep)
    del first
    assert len(executable.arenas._free) == 1
    driver.room = 0
    with pytest.raises(MemoryError, match="the GPU has no memory for"):
        device.device_copy_of(executable.executor.device, 0, 100)
    assert not executable.arenas._free
    driver.room = 1 << 40
    result = compiled.decoder(executable.run(packed.roots, words, keep=keep), packed)
    alike(result(0), chain(xs[0], w=w))


def test_the_loop_over_launches_stops_at_an_error() -> None:
    from acronumba.emit import interpret

    memory = interpret.InterpreterMemory()
    seen: list[tuple[int, ...]] = []

    def driver_call(*args: int) -> int:
        seen.append(
            (
                args[0],
                args[1],
                args[4],
                *(memory.load(memory.load(args[9] + 8 * k, interpret.I64), interpret.I64) for k in range(4)),
            )
        )
        return 0 if len(seen) < 3 else 700

    functions = np.array([[7, 5, 0, 1, 0, 0, 0], [8, 100, 1, 3, 0, 0, 0]], np.int64)
    grids = np.array([[4, 1, 1], [64, 3, 5], [16, 4, 1], [1, 4, 0]], np.int64)
    grids = np.pad(grids, [(0, 0), (0, GRID.count - 3)])
    kernels = np.array([0, 1, 0, 2], np.int64)
    table = np.array([[0, 9, 1000], [1, 65, 2000], [0, 0, 2500], [0, 1, 3000]], np.int64)
    table = np.pad(table, [(0, 0), (0, marshal.ROW.count - 3)])
    words = np.zeros(LAUNCH.count, np.int64)
    for array in (functions, grids, kernels, table, words):
        memory.add(array)
    words[:4] = words.ctypes.data + 8 * np.arange(4, 8)
    for name, word in {
        "scratch": 11, "warps": 12, "launch": memory.add_function(driver_call), "blocks": 50, "processors": 2,
        "kernels": kernels.ctypes.data, "functions": functions.ctypes.data, "grids": grids.ctypes.data,
    }.items():  # fmt: skip
        words[LAUNCH.at[name]] = word
    error = interpret.run(launch_module(), "launch", [words.ctypes.data, table.ctypes.data, 4], memory)
    assert error == 700
    # handle, blocks, threads, P, nodes, S, T; nothing is launched for no nodes; 7 runs with at most 5 blocks, 8 has its
    # second grid: on two multiprocessors 5 * 4 blocks of cost 1 are done before 2 * 3 of cost 5, and 65 * 4 are more
    # than can run
    assert seen == [(7, 3, 256, 1000, 9, 11, 12), (7, 5, 256, 2000, 65, 11, 12), (8, 20, 256, 2000, 65, 11, 12)]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("cuLaunchKernel", 719), ("cuLaunchCooperativeKernel", 719), ("cuMemcpyHtoDAsync_v2", 700),
        ("cuEventRecord", 400), ("cuEventSynchronize", 702), ("cuLaunchKernel", 2),
    ],
)  # fmt: skip
def test_what_the_driver_rejects_to_compiled_code(driver: Driver, name: str, error: int) -> None:
    xs, w = sequences(2, 1), weights()
    f = chain.with_options(persistent=name == "cuLaunchCooperativeKernel")
    compiled, values, packed = specialise(f, bind(f, (xs,), {"w": w}))
    executable = link_device(compiled.plan, compiled.options, gpu.Gpu(0, driver))
    words, keep = compiled.shared.words(packed, values)

    def run() -> list[bytes]:
        done = executable.run(packed.roots, words, keep=keep)
        return [compiled.decoder(done, packed)(k).tobytes() for k in range(2)]

    for _ in range(3):
        wanted = run()
    driver.rejects[name] = error
    for _ in range(2 if name != "cuEventSynchronize" else 1):  # then there are new buffers, with no copy under way
        with pytest.raises(MemoryError if error == 2 else gpu.DriverError, match="launch") as caught:
            run()
        assert error == 2 or f"(error {error})" in str(caught.value)
    del driver.rejects[name]
    assert run() == wanted


@model
def doubled(x: np.ndarray, *, p: np.ndarray) -> np.ndarray:
    return p @ x * 2.0


def test_what_launches_cost_the_processor_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    names = runpy.run_path(str(Path(__file__).parent.parent.parent / "benchmarks" / "launches.py"))
    workload = SimpleNamespace(
        model=doubled, params=lambda size: weights(), instances=lambda n: sequences(n)[0], read=None
    )
    monkeypatch.setitem(names["WORKLOADS"], "doubled", workload)
    found = names["row"]("doubled", 2, 3, None)
    assert (found["batches"], found["launches"]) == (1, 1) and found["run"] > found["loop"] > 0


def test_the_page_shows_what_compiling_the_zoo_gave(request: pytest.FixtureRequest) -> None:
    root = Path(__file__).parent.parent.parent
    functions = json.loads((root / "benchmarks" / "results" / "cubins.json").read_text())["functions"]
    assert {(r["gpu"], r["size"], r["model"]) for r in functions} == {
        (gpu, size, name) for gpu in ("8.0", "9.0a") for size in ("small", "large") for name in WORKLOADS
    }
    assert not any(r["spills"] or r["stack"] for r in functions)
    table = runpy.run_path(str(root / "benchmarks" / "cubins.py"))["table"](functions)
    page = root / "docs" / "architecture.md"
    text = re.sub(r"(<!-- cubins -->\n\n)(\|.*\n)*", lambda m: m[1] + table, page.read_text(encoding="utf-8"))
    if request.config.getoption("--update-golden"):
        page.write_text(text, encoding="utf-8")
    assert text == page.read_text(encoding="utf-8"), "run with --update-golden"
