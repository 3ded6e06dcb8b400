"""Mini-batches as one launch, in the simulator and with a stand-in for the driver: the bits are those of many."""

from __future__ import annotations

from threading import Thread
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, Options, model
from acronumba.api.dispatch import bind, specialise
from acronumba.bench.workloads import inputs
from acronumba.emit import interpret, simt, tree
from acronumba.emit.tree import I64, Builder, const
from acronumba.kernels.cuda import marshal, simulator, stream
from acronumba.kernels.cuda import persistent as kernel
from acronumba.kernels.cuda.writer import Grid
from acronumba.pipeline.link_device import link_device
from acronumba.runtime import buffers as dfg
from acronumba.runtime.devices import driver as gpu
from acronumba.runtime.devices import executor as device
from acronumba.runtime.devices import persistent
from acronumba.runtime.devices.launches import Driver as Entries
from acronumba.runtime.devices.launches import launch_module, launches
from acronumba.runtime.devices.simulated import SimulatedDevice
from acronumba.runtime.library.launch_words import ABOUT, LAUNCHED, UNWRITTEN, WRITTEN
from acronumba_bench.workloads import WORKLOADS
from tests.support.clocks import Clocked
from tests.support.device_runs import (
    Batches,
    Run,
    alike,
    chain,
    fail_alone,
    in_rounds,
    same_bits,
    sequences,
    together,
    weights,
)
from tests.support.gpu_driver import Driver


@pytest.mark.parametrize("name", ["tree_lstm", *(pytest.param(n, marks=pytest.mark.slow) for n in ("birnn", "moe"))])
def test_the_zoo(name: str) -> None:
    workload = WORKLOADS[name]
    xs, p = inputs(workload, 4, 1, None)
    done = Run(together(workload.model), xs, p=p)
    assert done.launches == 1
    same_bits(done.results, Run(workload.model, xs, p=p, seed=1).results)
    for x, mine in zip(xs, done.results, strict=True):
        alike(mine, workload.model(x, p=p))


def test_mini_batches_of_all_sizes_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_ROOM", 256)  # the first buffer is too small, also for the steps
    monkeypatch.setattr(device, "_LAUNCHES", 1)
    w = weights()
    xs = sequences(2, 0, 1, 3, 1)
    wanted = Run(chain, xs, w=w).results
    run = Batches(together(chain), xs, seed=2, w=w)
    for lo, hi in ((0, 5), (3, 5), (1, 2), (0, 5)):
        same_bits(run(xs[lo:hi]), wanted[lo:hi])
    assert run.device.launches == 3  # nothing for the empty sequence


@model
def row_of(xs: list[np.ndarray], *, w: np.ndarray) -> np.ndarray:
    x = np.zeros(5, np.float32)
    for k in range(len(xs)):
        x = np.tanh(x + w @ xs[k]) + w[np.argmax(xs[k]) + 1]
    return x


@pytest.mark.parametrize("persistent_", [False, True])
@pytest.mark.parametrize("small", [False, True])
def test_one_call_does_all_once_everything_is_in_place(
    persistent_: bool, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if small:  # the first buffer, the table of launches and the columns have to grow
        monkeypatch.setattr(device, "_ROOM", 256)
        monkeypatch.setattr(device, "_LAUNCHES", 1)
        monkeypatch.setattr(dfg, "_NODES", 8)
    xs, w = sequences(2, 1, 3, 1), weights()
    for x in (x for own in xs for x in own):
        x[0] = 9.0
    xs[1][0][4] = 10.0  # its largest is the last: there is no row behind
    f = row_of.with_options(persistent=persistent_)
    wanted = Run(f, xs, w=w)
    assert [*wanted.errors] == [1]
    run = Batches(f, xs, w=w)
    run.stable = True
    done: list[int] = []
    whole = run.executor._all
    monkeypatch.setattr(run.executor, "_all", lambda *args: done.append(whole(*args)) or done[-1])
    for k in range(5):
        if k == 3:  # as if the memory had been given up
            run.executor.launches["scratch_size"] = run.executor.launches["warps_size"] = -1
        started, packed = run.start(xs)
        assert [*started.errors] == [1]
        results = [run.compiled.decoder(started, packed)(k) for k in (0, 2, 3)]
        same_bits(results, [wanted.results[k] for k in (0, 2, 3)])
    plain, left, nothing = LAUNCHED, WRITTEN, UNWRITTEN
    assert done[-2:] == ([left, left] if persistent_ else [left, plain]) and set(done[:-2]) <= {plain, left, nothing}
    before = len(done)
    same_bits(run(xs[2:]), [wanted.results[k] for k in (2, 3)])  # others are not where these were
    assert len(done) == before


def test_each_round_is_a_launch() -> None:
    done, apart = in_rounds(together)
    assert 1 == done.launches < apart.launches


def test_an_instance_that_fails_disturbs_no_other() -> None:
    fail_alone(together)


def test_two_threads_use_one_device() -> None:
    xs, w = sequences(2, 1, 1, 1, 1), weights()
    run = Batches(together(chain), xs, w=w)
    found: list[Any] = []

    def several() -> None:
        found.extend(run(xs) for _ in range(2))

    threads = [Thread(target=several) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 4
    for each in found:
        same_bits(each, found[0])


def test_an_empty_batch_launches_nothing() -> None:
    assert Run(together(chain), sequences(0, 0), w=weights()).launches == 0


def test_a_trace_has_the_time_of_each_batch() -> None:
    xs, w = sequences(2, 1), weights()
    trace = together(chain).on("simulator").trace(xs, w=w)
    assert [b for b in trace.data.batches if b.seconds is None] == []


def test_blocks_that_wait_in_vain_give_up() -> None:
    xs, w = sequences(1, 2, 3, 4, 5, 5, 5, 5, 5), weights()
    run = Batches(together(chain), xs, w=w)
    wanted = run(xs)
    words = run.executor.persistent
    assert words["looks"] == persistent.LOOKS
    words["looks"] = 0
    lost = run.start(xs)
    words["looks"] = persistent.LOOKS
    right = run.start(xs)
    same_bits(run.results(right), wanted)  # the counter is as it was, and each run has a word of its own
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"waited for each other in vain: with_options\(persistent=False\)"):
            run.results(lost)
    with pytest.raises(RuntimeError, match="in vain"):
        np.asarray(run.results(lost, stay=True)[0])
    del lost, right
    same_bits(run(xs), wanted)


@pytest.mark.parametrize(("seconds", "loading", "tries"), [(0.5, 1000.0, 6), (90.0, 0.0, 4), (1000.0, 0.0, 2)])
def test_the_faster_way_is_kept(monkeypatch: pytest.MonkeyPatch, seconds: float, loading: float, tries: int) -> None:
    """The first launch of a kernel does not count: the driver loads it then."""
    xs, w = sequences(2, 1, 1, 1, 1), weights()
    clock = Clocked(seconds, loading)
    monkeypatch.setattr(persistent, "_LONG", 100.0)
    monkeypatch.setattr(persistent.time, "perf_counter", clock.now)
    run = Batches(chain, xs, on=clock, w=w)
    wanted = run(xs)
    assert [*run.executor.persistent.best.values()] == ["together" if seconds < 1 else "apart"]
    before = clock.cooperations, clock.launches
    assert before[0] == tries  # what takes long is not tried again
    same_bits(run(xs), wanted)
    assert (clock.cooperations - before[0], clock.launches - before[1] > 1) == (
        (1, False) if seconds < 1 else (0, True)
    )


def test_without_room_for_scratch_nothing_is_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    xs, w = sequences(2, 1, 3), weights()
    run = Batches(chain, xs, on=Clocked(0.5), w=w)
    wanted = run(xs)
    way = run.executor.persistent
    way.best = dict.fromkeys(way.best, "together")  # whichever was faster

    def reject(name: str, size: int) -> None:
        raise MemoryError("no room")

    words = run.executor.launches
    words["scratch_size"] = words["warps_size"] = -1  # as if more were asked for
    with monkeypatch.context() as m:
        m.setattr(run.executor, "_room_for", reject)
        before = run.device.launches
        for _ in range(2):
            with pytest.raises(MemoryError, match="no room"):
                run(xs)
        assert run.device.launches == before and way.best
    same_bits(run(xs), wanted)


def test_words_of_runs_that_may_go_on_are_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persistent, "_LATE", 3)
    xs, w = sequences(2, 1), weights()
    run = Batches(together(chain), xs, w=w)
    words = {run.start(xs)[0].pending.word.ctypes.data for _ in range(3)}
    assert len(words) == 3  # nobody has waited
    waits: list[int] = []
    wait = run.device.wait
    monkeypatch.setattr(run.device, "wait", lambda: waits.append(1) or wait())
    assert run.start(xs)[0].pending.word.ctypes.data in words and len(waits) == 1
    run(xs)  # its results are waited for
    assert not run.executor.persistent._late or len(waits) == 2


def test_memory_that_nobody_uses_is_given_up_for_what_launches_need() -> None:
    class Small(SimulatedDevice):
        room = 1 << 40

        def allocate(self, size: int) -> int:
            if sum(len(a) for a in self.allocated.values()) + size > self.room:
                raise MemoryError("full")
            return super().allocate(size)

    xs, w = sequences(2, 1), weights()
    gpu_ = Small()
    run = Batches(chain, xs, on=gpu_, w=w)
    held = [run.start(xs) for _ in range(3)]
    del held
    assert len(run.executable.arenas._free) >= 2
    gpu_.room = sum(len(a) for a in gpu_.allocated.values()) + 1000
    assert device.Stream(gpu_, lambda launches: 0).device_copy.size >= device._ROOM
    assert not run.executable.arenas._free


def test_a_model_without_shared_values_is_one_call() -> None:
    @model
    def alone(xs: list[np.ndarray]) -> np.ndarray:
        h = np.zeros(5, np.float32)
        for x in xs:
            h = np.tanh(h + x)
        return h

    xs = sequences(2, 1)
    run = Batches(alone, xs)
    run.stable = True
    wanted = [alone(x) for x in xs]
    done: list[int] = []
    whole = run.executor._all
    run.executor._all = lambda *args: done.append(whole(*args)) or done[-1]
    held: list[Any] = []
    for _ in range(6):  # the last results are held while the next are computed
        held = run(xs)
        for mine, other in zip(held, wanted, strict=True):
            alike(mine, other)
    assert done[-2:] == [LAUNCHED] * 2


# ---- the kernel and its barrier


MEETING = """
def go(out):
    block = i64(cuda.blockIdx.x)
    if cuda.threadIdx.x == 0:
        store(out + 16 + 4 * block, f32(block))
        arrive(out, 1)
        while {until}:
            pass
        store(out + 32 + 4 * block, load(f32, out + 20 - 4 * block))
"""


def meet(until: str) -> np.ndarray:
    out = np.zeros(16, np.float32)
    simulator.Simulator(MEETING.format(until=until), interpret.InterpreterMemory(out)).launch(
        "go", 2, 32, out.ctypes.data
    )
    return out[8:10]


def test_reading_what_was_not_published_is_an_error() -> None:
    assert meet("acquire(out) < 2").tolist() == [1.0, 0.0]
    with pytest.raises(simulator.Race, match=r"block . reads what block . has stored"):
        meet("False")


def test_waiting_for_a_block_that_never_comes_is_an_error() -> None:
    with pytest.raises(simulator.Deadlock, match="other blocks"):
        meet("acquire(out) < 3")


def part(name: str, *calls: str, arrays: tuple[simt.SharedArray, ...] = (), asks: bool = False) -> simt.DeviceFunction:
    return simt.DeviceFunction(name, lambda setting: "", frozenset(calls), arrays, asks)


def test_arrays_of_a_caller_lie_behind_those_of_what_it_calls() -> None:
    library = {
        "inner": part("inner", arrays=(simt.SharedArray("f32", 3), simt.SharedArray("f64", 2))),
        "outer": part("outer", "inner", arrays=(simt.SharedArray("f32", 4),)),
        "other": part("other", arrays=(simt.SharedArray("f64", 2),)),
    }
    assert kernel.pool(library) == {"inner": ((0, 16), 32), "outer": ((32,), 48), "other": ((0,), 16)}


def test_a_text_says_where_its_arrays_are() -> None:
    f = Builder("own", [("n", I64)], result=I64)
    at = f.let("at", simt.device("block_memory", const(20, I64), type=I64))
    f.ret(at + f.let("more", simt.device("block_memory", const(8, I64), type=I64)))
    (made,) = simt.parts(tree.Module("m", (f.function(),), ()))
    assert made.arrays == (simt.SharedArray("f64", 3), simt.SharedArray("f64", 1))
    assert "at_memory = cuda.shared.array(3, f64, 16)" in made.write(simt.ALONE)
    text = made.write(simt.Setting(places=(16, 48)))
    assert "at_memory = pool(f64, 16, 3)" in text and "more_memory = pool(f64, 48, 1)" in text


def test_what_a_block_shares_is_forgotten_where_its_step_ends() -> None:
    text = """
def go(out):
    a = pool(f32, 0, 4)
    a[0] = f32(1.0)
    a[1] = f32(2.0)
    step_ends(0)
    store(out, a[0])
    store(out + 4, a[1])


FORGOTTEN = 4
"""
    out = np.zeros(4, np.float32)
    gpu_ = simulator.Simulator(text, interpret.InterpreterMemory(out))
    gpu_.launch("go", 1, 1, out.ctypes.data, shared=16)
    assert np.isnan(out[0]) and out[1] == 2


def test_a_thread_is_told_to_all_that_ask() -> None:
    functions = []
    for name, body in {
        "asks": lambda x: simt.device("thread", type=I64) + x,
        "helps": lambda x: x,
        "lane": lambda x: simt.device("lane", type=I64),
        "calls": lambda x: tree.Call("asks", (tree.Call("asks", (x,), I64),), I64) + tree.Call("helps", (x,), I64),
    }.items():
        f = Builder(name, [("x", I64)], result=I64)
        f.ret(body(f["x"]))
        functions.append(f.function())
    library = {p.name: p for p in simt.parts(tree.Module("m", tuple(functions), ()))}
    with_thread = kernel.asking(library)
    assert with_thread == {"asks", "calls", "lane"}
    text = {
        n: p.write(simt.Setting(thread="here", lane="(here & 31)", with_thread=with_thread)) for n, p in library.items()
    }
    assert "def asks(here, x):\n    return here + x\n" in text["asks"]
    assert "def calls(here, x):\n    return asks(here, asks(here, x)) + helps(x)\n" in text["calls"]
    assert "lane = (here & 31)" in text["lane"] and "def helps(x):\n    return x\n" in text["helps"]


def test_kernels_of_one_name_are_told_apart() -> None:
    f = chain.with_options()
    xs, w = sequences(1), weights()
    call = bind(f, (xs,), {"w": w})
    code = link_device(specialise(f, call)[0].plan, f._options, SimulatedDevice()).executor.codes[-1]
    (entry,) = code.entries
    text = kernel.persistent([code, code]).source
    assert text.count(f"def {entry}(") == text.count(f"def {entry}_of_1(") == 1
    assert f" {entry}_of_1(thread_anew(), blocks, block, barrier, wanted, kept, tags, P" in text


class Table:
    """Launches of kernels of some functions, each with grids, and the steps that are made of them."""

    def __init__(self, kernels: list[list[list[Grid]]], most: int, room: int = 0) -> None:
        functions = [[(7, 50, grids) for grids in own] for own in kernels]
        self.memory = interpret.InterpreterMemory()
        self.made = launches(
            Entries(launch=0, cooperate=0, upload=0, record=0, reach=0, download=0, wait=0), 0, 4, functions
        )
        self.made["scratch"], self.made["warps"] = 31, 32
        self.about = np.zeros(ABOUT.count, np.int64)
        stages, count = max(map(len, functions)), sum(map(len, functions))
        given = {"word": 11, "looks": 12, "most": most, "room": room, "stages": stages, "functions": count}
        for name, word in given.items():
            self.about[ABOUT.at[name]] = word
        self.stages = stages
        for array in (self.made.words, self.made.kernels, self.made.functions, self.made.grids, self.about):
            self.memory.add(array)

    def __call__(self, rows: list[dict[str, int]], warp: int = 0) -> list[dict[str, int]]:
        """Return the steps."""
        table = np.zeros((len(rows), marshal.ROW.count), np.int64)
        for row, given in zip(table, rows, strict=True):
            for name, word in given.items():
                row[marshal.ROW.at[name]] = word
        counts = [self.made.kernels[row["kernel"], 1] for row in rows]
        levels = max(row["level"] + many for row, many in zip(rows, counts, strict=True))
        barrier, many = kernel.BARRIER.count, self.stages * len(rows)
        self.out = np.full(barrier + (kernel.STEP.count + 2) * many + 9, 7)
        stream = np.zeros(marshal.STREAM.count, np.int64)
        words = {"tail": self.out.ctypes.data, "delta": 1 << 40, "table": table.ctypes.data, "launches": len(rows),
                 "levels": levels, "warp": warp, "batch": max(row.get("batch", 0) for row in rows)}  # fmt: skip
        for name, word in words.items():
            stream[marshal.STREAM.at[name]] = word
        for array in (self.out, table, stream):
            self.memory.add(array)
        at = [a.ctypes.data for a in (stream, self.about)]
        end = interpret.run(launch_module(), "steps", [self.made.address, *at], self.memory)
        assert isinstance(end, int)
        self.batch = int(stream[marshal.STREAM.at["batch"]])
        steps = self.out[barrier : (end - self.out.ctypes.data) // 8].reshape(-1, kernel.STEP.count)
        assert len(steps) == self.about[ABOUT.at["count"]]
        return [dict(zip(kernel.STEP.at, map(int, row), strict=True)) for row in steps]


def test_steps_are_written_for_all_functions() -> None:
    table = Table(
        [
            [[Grid(4, 1)]],
            [[Grid(64, 1, 9), Grid(16, 2, 1)], [Grid(8, 3, counted=2, level=1)]],
            [[Grid(4, 1, panels=2)]],
        ],
        20,
    )
    starts = np.zeros((2, 66), np.int64)
    starts[1, 65] = 30
    table.memory.add(starts)
    rows = [
        {"kernel": 0, "nodes": 9, "p": 1000, "level": 0},
        {"kernel": 1, "nodes": 65, "p": 2000, "level": 1, "starts": starts.ctypes.data},
        {"kernel": 2, "nodes": 5, "p": 3000, "level": 3},
        {"kernel": 2, "nodes": 30, "p": 4000, "level": 4},
    ]
    steps = table(rows)
    # 65 nodes: ten blocks of the second grid are done before two of the first; 30 of what is counted: 4 times 3 blocks
    there = table.out.ctypes.data + (1 << 40)
    assert table.out[:3].tolist() == [0, 11, 12] and table.about[ABOUT.at["widest"]] == 12
    assert table.about[:3].tolist() == [there + 8 * kernel.BARRIER.count, 5, there]
    # of two panels, two blocks of 4 nodes each; 8 blocks of a panel would not be at work on 4 processors at once
    found = [[s[k] for k in ("function", "nodes", "p", "blocks", "wanted", "first", "scratch", "warps")] for s in steps]
    assert found == [
        [0, 9, 1000, 3, 0, 0, 31, 32], [1, 65, 2000, 10, 3, 0, 31, 32], [2, 65, 2000, 12, 13, 0, 31, 32],
        [3, 5, 3000, 4, 25, 0, 31, 32], [3, 30, 4000, 4, 29, 0, 31, 32],
    ]  # fmt: skip
    assert table.about[ABOUT.at["levels"]] == 5


def test_functions_of_a_level_share_out_blocks_and_have_scratch_of_their_own() -> None:
    table = Table([[[Grid(1, 1)]], [[Grid(1, 1)], [Grid(1, 1, level=1)]], [[Grid(4, 1, panels=2)]]], 16)
    rows = [
        {"kernel": 1, "nodes": 3, "level": 0, "batch": 100},
        {"kernel": 0, "nodes": 5, "level": 0, "batch": 10},
        {"kernel": 2, "nodes": 9, "level": 1, "batch": 300},
        {"kernel": 0, "nodes": 2, "level": 2, "batch": 20},
    ]
    steps = table(rows, warp=100)
    # three blocks and five; then the second function of the first beside four blocks of two panels, an even one first
    found = [[s[k] for k in ("function", "first", "blocks", "wanted", "scratch")] for s in steps]
    assert found == [
        [1, 0, 3, 0, 31],
        [0, 3, 5, 0, 31 + 256],
        [2, 0, 3, 8, 31],
        [3, 4, 4, 8, 31 + 512],
        [0, 0, 2, 15, 31],
    ]
    assert [s["warps"] - 32 for s in steps] == [100 * 8 * s["first"] for s in steps] and table.batch == 1024
    # more than there are blocks: each gets its share; more functions than blocks: two levels
    many = table([{"kernel": 0, "nodes": n, "level": 0} for n in (16, 1, 15)])
    assert [(s["first"], s["blocks"]) for s in many] == [(0, 8), (8, 1), (9, 7)]
    assert table.about[ABOUT.at["levels"]] == 1
    few = Table([[[Grid(1, 1)]]], 2)([{"kernel": 0, "nodes": 3, "level": 0} for _ in range(3)])
    assert [(s["first"], s["blocks"], s["wanted"]) for s in few] == [(0, 1, 0), (1, 1, 0), (0, 2, 2)]


def test_functions_that_run_often_get_places_for_their_weights() -> None:
    def grids(kept: int) -> list[list[Grid]]:
        return [[Grid(4, 1, panels=2, kept=kept)]]

    kernels = [grids(600), grids(400), grids(300), grids(2000), [[Grid(1, 1)]]]
    rows = [{"kernel": k, "nodes": 5, "level": n} for n, k in enumerate((0, 1, 2, 1, 2, 1, 2, 0, 3, 4))]
    place = {s["function"]: (s["kept"], s["tags"]) for s in Table(kernels, 16, 1300)(rows)}
    # all have room; the fourth is larger than all that there is, and its text keeps nothing
    assert place == {0: (0, 0), 1: (600, 32), 2: (1000, 64), 3: (0, 0), 4: (0, 0)}
    place = {s["function"]: (s["kept"], s["tags"]) for s in Table(kernels, 16, 1200)(rows)}
    # no room for the three: the first, which runs twice, and the third are where the largest has room
    assert place == {0: (0, 0), 1: (600, 32), 2: (0, 0), 3: (0, 0), 4: (0, 0)}


class Wide(SimulatedDevice):
    """A device of some blocks, with so much shared memory."""

    def __init__(self, processors: int, shared: int, seed: int = 0) -> None:
        super().__init__(seed)
        self.processors, self.shared = processors, shared

    def resident(self, function: int, threads: int, shared: int) -> int:
        assert shared <= max(self.shared, 48 << 10)
        return 1


@model
def both(xs: list[np.ndarray], *, w: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two directions, which do not depend on each other; the products of one have two left operands."""
    h, g = np.zeros(5, np.float32), np.ones(5, np.float32)
    for x in xs:
        h = np.tanh(w @ (h + x) + u @ x)
    for x in xs[::-1]:
        g = np.tanh(u @ (g * x))
    return h, u @ g


@pytest.mark.parametrize(("processors", "shared"), [(5, 227 << 10), (7, 0)])
def test_what_does_not_depend_on_each_other_is_one_level(processors: int, shared: int) -> None:
    """The panels of both stay, in places of their own, or have none, and are read from memory."""
    xs, w = sequences(4, 1, 3), weights()
    wanted = Run(both, xs, w=w, u=w.T.copy()).results
    run = Batches(together(both), xs, on=Wide(processors, shared), w=w, u=w.T.copy())
    same_bits(run(xs), wanted)
    words = run.executor.persistent
    assert (words["levels"], words["count"]) == (5, 10) and (words["room"] > 0) == (shared > 0)
    assert (kernel.persistent(run.executor.codes, shared).text.count("load_kept") > 0) == (shared > 0)


def test_panels_that_share_a_place_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    xs, w = sequences(3, 2), weights()
    wanted = Run(both, xs, w=w, u=w.T.copy()).results

    def run() -> list[Any]:
        device_ = Wide(2, 227 << 10)
        made = Batches(together(both), xs, on=device_, w=w, u=w.T.copy())
        words = made.executor.persistent
        words["room"] = 512  # of one panel
        return made(xs)

    same_bits(run(), wanted)
    monkeypatch.setattr(stream, "wanted_tag", lambda number, panel: panel)
    with pytest.raises(simulator.Stale, match="has kept other weights"):
        run()


def test_rows_are_read_behind_the_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "_GATE", "pass")
    with pytest.raises(simulator.Race):
        Run(together(chain), sequences(1, 2, 3, 4, 5, 5, 5, 5, 5), w=weights())


@pytest.mark.parametrize("coarse", [0, 4, -6])
def test_results_that_lie_side_by_side_have_marks_of_their_own(coarse: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small results of kernels that follow each other, between which others lie that are computed earlier."""
    monkeypatch.setattr(device, "_COARSE", coarse)

    @model
    def sides(x: np.ndarray, *, w: np.ndarray, u: np.ndarray) -> np.ndarray:
        h, g = x, x * 2
        for _ in range(3):
            h = np.tanh(w @ h)
        for row in w:
            g = g * row
        for _ in range(2):
            h = h + np.tanh(u @ (g + h)) @ w
        return h

    xs = [x for own in sequences(4) for x in own]
    run = Batches(together(sides), xs, w=weights(), u=weights() * 0.5)
    for x, mine in zip(xs, run(xs), strict=True):
        alike(mine, sides(x, w=weights(), u=weights() * 0.5))
    assert run.executor.persistent["levels"] < run.executor.persistent["count"]


def test_without_room_for_marks_each_launch_is_a_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device.Stream, "mark", lambda self, arenas: None)
    xs, w = sequences(3, 2), weights()
    run = Batches(together(both), xs, w=w, u=w)
    same_bits(run(xs), Run(both, xs, w=w, u=w).results)
    assert run.executor.persistent["levels"] == run.executor.persistent["count"]


def test_without_waiting_blocks_read_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernel._PASSED.count("come < wanted") == 3
    monkeypatch.setattr(kernel, "_PASSED", kernel._PASSED.replace("come < wanted", "False"))
    with pytest.raises(simulator.Race):
        Run(together(chain), sequences(1, 2, 3, 4, 5, 5, 5, 5, 5), w=weights())


# ---- the driver, and the option


def test_the_driver_is_told_what_a_cooperative_launch_needs(  # the simulator takes longer than is thought worth it
    driver: Driver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(persistent, "_LONG", 1000.0)
    xs, w = sequences(2, 0, 1, 1, 1, 1), weights()
    run = Batches(together(chain), xs, on=gpu.Gpu(0, driver), w=w)
    wanted = Run(chain, xs, w=w).results
    for _ in range(3):
        driver.calls.clear()
        same_bits(run(xs), wanted)
    shared = run.executor.persistent._code.shared
    # two blocks, as many as are resident, of 256 threads; shared memory; the stream
    assert driver.together == [(2, 1, 1, 256, 1, 1, shared, run.device.stream)] * 3 and shared > 0
    assert driver.calls.count("cuLaunchCooperativeKernel") == 1
    assert driver.calls.count("cuMemcpyHtoDAsync_v2") == 1  # what launches need, with the steps
    measured = Batches(chain, xs, on=gpu.Gpu(0, driver), w=w)
    driver.together.clear()
    same_bits(measured(xs), wanted)
    assert len(driver.together) >= 2 and len(measured.executor.persistent.best) == 1


def test_a_gpu_without_cooperative_launches(driver: Driver) -> None:
    xs, w = sequences(2, 1), weights()
    driver.cooperative = 0
    with pytest.raises(RuntimeError, match="blocks cannot wait for each other on this GPU"):
        Batches(together(chain), xs, on=gpu.Gpu(0, driver), w=w)
    run = Batches(chain, xs, on=gpu.Gpu(0, driver), w=w)
    assert len(run(xs)) == 2 and not driver.together


def test_a_gpu_with_room_for_fewer_blocks(driver: Driver) -> None:
    xs, w = sequences(2, 1), weights()
    driver.rejects["cuLaunchCooperativeKernel"] = 720
    run = Batches(chain, xs, on=gpu.Gpu(0, driver), w=w)
    for _ in range(2):
        same_bits(run(xs), Run(chain, xs, w=w).results)
    assert driver.calls.count("cuLaunchCooperativeKernel") == 1  # it is not tried again
    with pytest.raises(gpu.DriverError, match="error 720"):
        Batches(together(chain), xs, on=gpu.Gpu(0, driver), w=w)(xs)


def test_the_option() -> None:
    for wanted in (None, True, False, "graph"):
        assert Options(persistent=wanted).persistent is wanted
    with pytest.raises(AcronumbaError, match='option persistent: must be True, False, "graph" or None'):
        Options(persistent=1)  # type: ignore[arg-type]
    xs, w = sequences(2, 1), weights()
    same_bits(together(chain).batch(xs, w=w), chain.batch(xs, w=w))  # on the processor it has no effect
    text = chain.stages(xs, w=w)["persistent/cuda"]
    assert "def run(steps, count, barrier, post):" in text and "def passed(barrier, wanted):" in text
