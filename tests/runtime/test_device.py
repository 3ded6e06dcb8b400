"""Whole mini-batches with kernels on a device, which is the simulator: the same results as the plain call."""

from __future__ import annotations

import gc
from threading import Thread
from typing import Any

import numpy as np
import pytest

from acronumba import model, pack
from acronumba.api.dispatch import bind, specialise
from acronumba.bench.workloads import inputs
from acronumba.pipeline.link_device import link_device
from acronumba.runtime.devices import arrays, pending
from acronumba.runtime.devices import executor as device
from acronumba.runtime.devices.simulated import SimulatedDevice
from acronumba_bench.workloads import WORKLOADS
from tests.support.chosen import half, one_in
from tests.support.device_runs import Run, alike, chain, sequences, weights

HEAVY = {  # what takes longest in the simulator
    *("berxit", "berxit_emulated", "beam_decoder", "beam_decoder_emulated", "bilstm_tagger", "nested_rnn", "encoder"),
    *("decoder", "decoder_emulated"),
    *("graph_rnn", "graph_rnn_emulated", "stack_rnn", "stack_rnn_emulated", "birnn", "listops", "drnn_emulated"),
}


@pytest.mark.parametrize("name", one_in(4, half(sorted(set(WORKLOADS) - HEAVY))))
def test_the_zoo(name: str) -> None:
    workload = WORKLOADS[name]
    xs, p = inputs(workload, 8, 2, None)
    done = Run(workload.model, xs, p=p)
    assert done.launches and not done.errors
    for x, mine in zip(xs, done.results, strict=True):
        alike(mine, workload.model(x, p=p))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(HEAVY))
def test_the_rest_of_the_zoo(name: str) -> None:
    workload = WORKLOADS[name]
    xs, p = inputs(workload, 8, 1, None)
    done = Run(workload.model, xs, p=p)
    for x, mine in zip(xs, done.results, strict=True):
        alike(mine, workload.model(x, p=p))


def test_results_have_the_same_bits_in_any_company() -> None:
    xs, w = sequences(3, 1, 4, 0), weights()
    whole = Run(chain, xs, w=w).results
    for k, x in enumerate(xs):
        assert Run(chain, [x], w=w, seed=k).results[0].tobytes() == whole[k].tobytes()
    assert [r.tobytes() for r in Run(chain, pack(xs), w=w, times=2).results] == [r.tobytes() for r in whole]


def test_what_launches_need_may_be_more_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    xs, w = sequences(3, 2, 5), weights()
    wanted = Run(chain, xs, w=w).results
    monkeypatch.setattr(device, "_ROOM", 256)
    monkeypatch.setattr(device, "_LAUNCHES", 1)
    for mine, other in zip(Run(chain, xs, w=w).results, wanted, strict=True):
        assert mine.tobytes() == other.tobytes()


def test_lists_of_tensors_are_stacked() -> None:
    @model
    def together(xs: list[np.ndarray], *, w: np.ndarray) -> np.ndarray:
        return np.stack([np.tanh(x) for x in xs]).sum(axis=0) @ w

    xs, w = sequences(2, 3, 2), weights()
    for x, mine in zip(xs, Run(together, xs, w=w).results, strict=True):
        alike(mine, together(x, w=w))


def test_an_instance_that_fails_disturbs_no_other() -> None:
    @model
    def picked(x: np.ndarray, k: int, *, w: np.ndarray) -> np.ndarray:
        return w[k] + x * w[np.argmax(x) + k]

    w = weights()
    columns = [np.arange(5, dtype=np.float32) - 3 * i for i in range(3)], [0, 3, -1]
    done = Run(picked, *columns, w=w)
    assert sorted(done.errors) == [1] and isinstance(done.errors[1], IndexError)
    for k in (0, 2):
        alike(done.results[k], picked(columns[0][k], columns[1][k], w=w))


def test_values_are_read_round_by_round() -> None:
    @model
    def until(x: np.ndarray, *, w: np.ndarray) -> tuple[int, np.ndarray]:
        n = 0
        while n < 6 and float(x.sum()) < 4.0:
            x = x * 1.5 + w[0]
            n += 1
        return n, x

    w = np.abs(weights())
    xs = [np.full(5, v, np.float32) for v in (0.1, 0.5, 2.0)]
    for x, mine in zip(xs, Run(until, xs, w=w).results, strict=True):
        alike(mine, until(x, w=w))


@pytest.mark.parametrize("packed_for_tiles", [True, False])
def test_weights_that_change_are_copied_again(packed_for_tiles: bool) -> None:
    @model
    def scaled(xs: list[np.ndarray], *, w: np.ndarray) -> np.ndarray:
        return xs[0] * w[1]

    f = chain if packed_for_tiles else scaled
    xs, w = sequences(2, 1), weights()
    call = bind(f, (xs,), {"w": w})
    compiled, _, packed = specialise(f, call)
    executable = link_device(compiled.plan, compiled.options, SimulatedDevice())
    for factor in (1.0, 0.5):
        w *= np.float32(factor)
        words, keep = compiled.shared.words(packed, [w])
        run = executable.run(packed.roots, words, keep=keep)
        result = compiled.decoder(run, packed)
        for k, x in enumerate(xs):
            alike(result(k), f(x, w=w))


def test_two_threads_use_one_device() -> None:
    xs, w = sequences(3, 1), weights()
    call = bind(chain, (xs,), {"w": w})
    compiled, values, packed = specialise(chain, call)
    executable = link_device(compiled.plan, compiled.options, SimulatedDevice())
    words, keep = compiled.shared.words(packed, values)
    found: list[Any] = []

    def run() -> None:
        for _ in range(3):
            done = executable.run(packed.roots, words, keep=keep)
            result = compiled.decoder(done, packed)
            found.append([result(k).tobytes() for k in range(2)])

    threads = [Thread(target=run) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 6 and all(x == found[0] for x in found)


def test_an_empty_batch_launches_nothing() -> None:
    xs, w = sequences(0, 0), weights()
    done = Run(chain, xs, w=w)
    assert done.launches == 0 and all(not r.any() for r in done.results)


def test_a_model_runs_on_the_simulator() -> None:
    xs, w = sequences(3, 0, 1), weights()
    there = chain.on("simulator")
    assert there.device == "simulator" and chain.device == "cpu"
    for x, mine in zip(xs, there.batch(xs, w=w), strict=True):
        alike(mine, chain(x, w=w))
    trace = there.trace(xs, w=w)
    assert len(trace.data.batches) == len([b for b in trace.data.batches if b.seconds is not None]) > 0
    assert there.check(xs, w=w).ok


def test_precision_is_that_of_products() -> None:
    @model
    def product(x: np.ndarray, *, w: np.ndarray) -> np.ndarray:
        return w @ x + x

    xs, w = sequences(1)[0], weights()
    exact = product.on("simulator").batch(xs, w=w)[0]
    less = product.with_options(precision="bf16")
    for there in (less, less.on("simulator")):
        off = np.abs(there.batch(xs, w=w)[0] - exact)
        assert off.max() > 0 and (off <= 2.0**-7 * (np.abs(w) @ np.abs(xs[0]))).all()
        assert there.check(xs, w=w).ok


def test_products_in_three_parts_are_those_of_float32() -> None:
    """Alone and in one launch: the same bits; more shared memory than a launch has without asking."""

    @model
    def cell(x: np.ndarray, *, w: np.ndarray) -> np.ndarray:
        y = w @ x
        return np.tanh(y[:4]) * y[4:8] + y[8:]

    rng = np.random.default_rng(0)
    xs = [rng.standard_normal(300).astype(np.float32)]
    w = rng.standard_normal((12, 300)).astype(np.float32) / np.float32(17)
    three = cell.with_options(precision="tf32x3")
    there = three.on("simulator")
    found = there.batch(xs, w=w)
    checked = there.check(xs, w=w)
    assert checked.ok and checked.precision == "float32"
    for way in (True, "graph"):
        together = three.with_options(persistent=way).on("simulator").batch(xs, w=w)
        assert [y.tobytes() for y in together] == [y.tobytes() for y in found]
    for mine, plain, on_cpu in zip(found, cell.batch(xs, w=w), three.batch(xs, w=w), strict=True):
        assert on_cpu.tobytes() == plain.tobytes()
        assert mine.tobytes() != plain.tobytes() and np.allclose(mine, plain, atol=2e-6)


def test_no_gpu_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    from acronumba.errors import AcronumbaError
    from acronumba.runtime.devices import driver as gpu

    def none() -> Any:
        raise OSError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(gpu, "library", none)
    with pytest.raises(AcronumbaError, match="there is no NVIDIA driver on this machine"):
        chain.on("cuda")


def test_what_cannot_be_split_is_summed_one_by_one() -> None:
    """Infinities, NaN and what rounds to infinity; the rows beside them have the bits that they have alone."""

    @model
    def product(x: np.ndarray, *, w: np.ndarray) -> np.ndarray:
        return w @ x

    w = np.eye(4, dtype=np.float32) + np.float32(1)
    odd = [[np.inf, 1, 1, 1], [3.4028e38, 0, 0, 0], [np.nan, 1, 2, 3], [-np.inf, 1, 1, 1]]
    xs = [np.array(v, np.float32) for v in ([0.1, 0.2, 0.3, 0.7], *odd)]
    with np.errstate(all="ignore"):
        done = Run(product, xs, w=w).results
        for x, mine in zip(xs, done, strict=True):
            assert np.array_equal(mine, w @ x, equal_nan=True) or x is xs[0]
        assert Run(product, xs[:1], w=w).results[0].tobytes() == done[0].tobytes()
        w[0, 0] = np.inf
        for x, mine in zip(xs, Run(product, xs, w=w).results, strict=True):
            assert np.allclose(mine, w @ x, equal_nan=True)


def test_shared_arrays_may_overlap() -> None:
    @model
    def views(x: np.ndarray, *, w: np.ndarray, v: np.ndarray, u: np.ndarray) -> np.ndarray:
        return (w @ x) * v[1] + u[0] + v[0]

    big = weights()
    xs = sequences(3)[0]
    done = Run(views, xs, w=big, v=big[:2], u=big[3:]).results
    for x, mine in zip(xs, done, strict=True):
        alike(mine, views(x, w=big, v=big[:2], u=big[3:]))


class Array:
    """What has an array, and is none."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.array


@pytest.mark.parametrize("kind", ["memmap", "object"])
def test_weights_of_other_kinds_are_copied_again(kind: str, tmp_path: Any) -> None:
    @model
    def scaled(x: np.ndarray, *, w: np.ndarray) -> np.ndarray:
        return x * w[1]

    if kind == "memmap":
        w: Any = np.memmap(tmp_path / "w", np.float32, "w+", shape=(2, 5))
        w[...] = 3.0
        memory = w
    else:
        memory = np.full((2, 5), 3, np.float32)
        w = Array(memory)
    there, xs = scaled.on("simulator"), sequences(2)[0]
    for factor in (1.0, 2.0):
        memory[...] *= np.float32(factor)
        for x, mine in zip(xs, there.batch(xs, w=w), strict=True):
            assert np.array_equal(mine, x * memory[1])


@model
def shifted(x: np.ndarray, *, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    return x * w + b


def test_an_array_of_two_sets_of_shared_values_changes_and_changes_back() -> None:
    there, xs = shifted.on("simulator"), sequences(2)[0]
    first, second = (np.full(5, v, np.float32) for v in (0.0, 1.0))
    w = np.full(5, 2.0, np.float32)
    for factor, b in ((2.0, first), (2.0, second), (3.0, second), (2.0, first), (2.0, second), (3.0, first)):
        w[:] = factor
        for x, mine in zip(xs, there.batch(xs, w=w, b=b), strict=True):
            assert np.array_equal(mine, shifted(x, w=w, b=b))


@pytest.mark.long
def test_scratch_memory_is_given_back() -> None:
    xs, w = sequences(2, 1), weights()
    call = bind(chain, (xs,), {"w": w})
    compiled, values, packed = specialise(chain, call)
    one = SimulatedDevice()
    words, keep = compiled.shared.words(packed, values)
    for _ in range(2):
        executable = link_device(compiled.plan, compiled.options, one)
        executable.run(packed.roots, words, keep=keep)
        del executable
        gc.collect()
        assert not one.allocated


def test_results_stay_where_they_are() -> None:
    xs, w = sequences(3, 1, 0, 2), weights()
    done = chain.on("simulator").batch(xs, w=w)
    there = done.device
    assert len(there) == 4 and there[0].shape == (5,) and there[0].dtype == np.float32
    assert repr(there[0]) == "DeviceArray(float32[5] on the simulator)"
    for a, b in zip(there, done, strict=True):
        assert np.array_equal(np.from_dlpack(a), b) and np.array_equal(np.asarray(a), b)
        assert np.asarray(a, np.float64).dtype == np.float64 and a.nbytes == 20
        with pytest.raises(ValueError, match="without a copy"):
            np.array(a, copy=False)
    assert np.array_equal(np.from_dlpack(there.stack()), done.stack())
    assert np.array_equal(np.asarray(there[1:3].stack()), done[1:3].stack())
    assert not hasattr(there[0], "__cuda_array_interface__")  # as it is on no GPU
    arrays.sweep()
    before = len(arrays._exported)
    capsule = there[0].__dlpack__()
    assert len(arrays._exported) == before + 1
    with pytest.raises(BufferError):
        there[0].__dlpack__(copy=True)
    held = np.from_dlpack(there[3])
    buffers = specialise(on := chain.on("simulator"), bind(on, (xs,), {"w": w}))[0].artifacts.on("simulator")._buffers
    idle = len(buffers)  # others than the run's
    kept = done[3].copy()
    with pytest.raises(ValueError, match="read-only"):
        held[0] = 1.0  # an array that goes while an exception is on its way
    del capsule, there, done
    gc.collect()
    arrays.sweep()
    assert len(arrays._exported) == before + 1  # who has taken one keeps it,
    assert len(buffers) == idle + 1  # and nothing else
    chain.on("simulator").batch(sequences(2, 2, 2, 2), w=w)
    assert np.array_equal(held, kept)
    assert chain.batch(xs, w=w).device[0].shape == (5,)  # on the CPU: the results themselves


def test_structures_of_results_stay_too() -> None:
    @model
    def several(x: np.ndarray, k: int, *, w: np.ndarray) -> dict[str, Any]:
        return {"k": k + 1, "own": x, "shared": w[0], "made": [np.tanh(w @ x), (x * 2.0).sum()], "none": x[:0]}

    xs, w = sequences(2)[0], weights()
    done = several.on("simulator").batch(xs, [3, 4], w=w)
    there = list(done.device)
    for x, k, mine, near in zip(xs, (3, 4), there, done, strict=True):
        alike(near, several(x, k, w=w))
        assert mine["k"] == k + 1 and mine["none"].shape == (0,) and mine["made"][1].shape == ()
        for a, b in ((mine["own"], x), (mine["shared"], w[0]), (mine["made"][0], near["made"][0])):
            assert np.array_equal(np.asarray(a), b)
    assert np.array_equal(np.asarray(done.device.stack()["made"][1]), [n["made"][1] for n in done])


@pytest.mark.parametrize("far", [False, True])
def test_only_results_are_copied_back(far: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if far:
        monkeypatch.setattr(pending, "_APART", 0)
        monkeypatch.setattr(pending.PendingResults, "records", lambda *_: None)
    xs, w = sequences(9, 8, 9), weights()
    call = bind(chain, (xs,), {"w": w})
    compiled, values, packed = specialise(chain, call)
    one = SimulatedDevice()
    copied: list[int] = []
    download = one.download
    one.download = lambda data, at: (copied.append(len(data)), download(data, at))[1]  # type: ignore[method-assign]
    executable = link_device(compiled.plan, compiled.options, one)
    words, keep = compiled.shared.words(packed, values)
    run = executable.run(packed.roots, words, keep=keep)
    assert not copied
    result = compiled.decoder(run, packed)
    for k, x in enumerate(xs):
        alike(result(k), chain(x, w=w))
    if far:
        assert len(copied) == 2 and sum(copied) <= 3 * 64
    else:
        assert len(copied) == 1 and copied[0] < run.buffers["arena_used"]


@model
def each(xs: list[np.ndarray], *, w: np.ndarray) -> list[np.ndarray]:
    h = np.zeros_like(xs[0])
    out = []
    for x in xs:
        h = np.tanh(w @ h + x)
        out.append(h * 2.0)
    return out


@model
def several_of(xs: list[np.ndarray], *, w: np.ndarray) -> dict[str, Any]:
    """Tensors in containers, given ones among them, and of two shapes."""
    h = np.zeros_like(xs[0])
    rows = []
    for x in xs:
        h = np.tanh(w @ h + x)
        rows.append((h, (h * x).sum()))
    return {"rows": rows, "given": xs[0], "last": [h[:2], w[0]]}


@pytest.mark.parametrize("f", [each, several_of])
def test_results_in_containers_come_in_one_copy(f: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "_FEW", 0)
    columns, w = [list(x) for x in sequences(6, 2, 9, 4)], weights()
    there = f.on("simulator")
    expected = [f(x, w=w) for x in columns]
    one = specialise(there, bind(there, (columns,), {"w": w}))[0].artifacts.on("simulator").executor.device
    for first, most in (([], 1), ([3], 2), ([0, 1, 2, 3], 4)):  # these are read alone
        done, copied = there.batch(columns, w=w), []
        download = one.download
        one.download = lambda data, at: (copied.append(len(data)), download(data, at))[1]  # noqa: B023
        try:
            for k in first:
                alike(done[k], expected[k])
            for got, wanted in zip(done, expected, strict=True):
                alike(got, wanted)
        finally:
            one.download = download
        assert len(copied) <= most and sum(copied) <= 2048 * most


def test_instances_that_come_again_are_copied_twice_only() -> None:
    w = weights()
    packed = pack(sequences(3, 2))
    there = chain.on("simulator")
    there.batch(packed, w=w)
    compiled = specialise(there, bind(there, (packed,), {"w": w}))[0]
    one = compiled.artifacts.on("simulator").executor.device
    copied: list[int] = []
    upload = one.upload
    one.upload = lambda at, data: (copied.append(len(data)), upload(at, data))[1]
    for part, many in ((packed, 3), (packed, 1), (packed, 1), (packed[:1], 1), (sequences(1), 2)):
        copied.clear()
        alike(there.batch(part, w=w)[0], chain(part[0], w=w))
        assert len(copied) == many  # what launches need, and the numbers and tensors of instances


def test_tensors_that_were_given_are_copies() -> None:
    @model
    def given(x: np.ndarray, *, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return x, w[1], x * w[1]

    xs, w = sequences(2)[0], weights()
    there = given.on("simulator")
    first = there.batch(xs, w=w)
    before, shared = list(first.device), w[1].copy()
    for array in before[0][:2]:  # who takes them may write them
        array._device.upload(array.address, np.zeros(array.nbytes, np.uint8))
    again = there.batch(xs, w=w)
    for x, r in zip(xs, again, strict=True):
        assert np.array_equal(r[0], x) and np.array_equal(r[2], x * w[1])
    w *= np.float32(2)
    later = there.batch(xs, w=w)
    there.batch(xs, w=weights() + 1)
    gc.collect()
    assert np.array_equal(np.asarray(before[1][1]), shared)
    assert np.array_equal(np.asarray(later.device[0][1]), w[1]) and np.array_equal(later[0][2], xs[0] * w[1])


def test_memory_that_others_have_is_not_used_again() -> None:  # who has dropped an array may still be reading it
    xs, w = sequences(2, 1), weights()
    there = chain.on("simulator")
    used = []
    for export in (*[False] * 6, True, *[False] * 6):
        done = there.batch(xs, w=w)
        array = done.device[0]
        if export:
            np.from_dlpack(array)
        used.append(array._owner.arenas[-1][0].device_copy)
        assert array._owner.arenas[-1][0].exported is export
        del done, array
    assert len({*used[:6]}) < 6 and used.count(used[6]) == 1 + used[:6].count(used[6])


def test_two_sets_of_weights_are_copied_once() -> None:
    xs, first, second = pack(sequences(2, 1)), pack({"w": weights()}), pack({"w": 2 * weights()})

    @model
    def with_params(xs: list[np.ndarray], *, p: dict[str, np.ndarray]) -> np.ndarray:
        h = np.zeros(5, np.float32)
        for x in xs:
            h = np.tanh(p["w"] @ (h + x))
        return h

    there = with_params.on("simulator")
    wanted = [with_params.batch(xs, p=p)[0] for p in (first, second)]
    for p in (first, second):
        there.batch(xs, p=p)
    one = specialise(there, bind(there, (xs,), {"p": first}))[0].artifacts.on("simulator").executor.device
    copied: list[int] = []
    upload = one.upload
    one.upload = lambda at, data: (copied.append(len(data)), upload(at, data))[1]
    for _ in range(2):
        for p, result in zip((first, second), wanted, strict=True):
            alike(there.batch(xs, p=p)[0], result)
    assert len(copied) == 4  # what launches need


@pytest.mark.slow
def test_a_run_may_end_in_a_cycle_of_garbage() -> None:
    """Its buffers come back to the pool, its memory on the device does not."""
    w = weights()
    there = model(chain.__wrapped__).on("simulator")
    for xs in (sequences(3, 2), sequences(3, 2), sequences(2, 4)):
        circle: list[Any] = [there.batch(xs, w=w)]
        circle.append(circle)
        for x, mine in zip(xs, circle[0], strict=True):
            alike(mine, chain(x, w=w))
        del circle, mine
        gc.collect()
        np.empty(100_000)  # others get the memory
