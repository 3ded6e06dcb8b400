"""Mini-batches as launches of graphs, in the simulator and with a stand-in for the driver."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba import model
from acronumba.bench.workloads import inputs
from acronumba.emit import interpret
from acronumba.kernels.cuda import graphs as nodes
from acronumba.kernels.cuda import marshal, simulator
from acronumba.kernels.cuda.writer import Grid
from acronumba.runtime.devices import driver as gpu
from acronumba.runtime.devices import executor as device
from acronumba.runtime.devices import graphs, persistent
from acronumba.runtime.devices.launches import Driver as Entries
from acronumba.runtime.devices.launches import launch_module, launches
from acronumba.runtime.library.launch_words import ABOUT, CROWDED, GRAPH, SCANT, UNKNOWN
from acronumba_bench.workloads import WORKLOADS
from tests.support.device_runs import Batches, Run, alike, chain, fail_alone, in_rounds, same_bits, sequences, weights
from tests.support.gpu_driver import Driver


def graph(f: Any) -> Any:
    return f.with_options(persistent="graph")


def keys(run: Any) -> list[list[int]]:
    return [key.tolist() for key in run.executor.persistent.graphs._keys]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tree_lstm", "birnn", "moe"])
def test_the_zoo(name: str) -> None:
    workload = WORKLOADS[name]
    xs, p = inputs(workload, 4, 1, None)
    done = Run(graph(workload.model), xs, p=p)
    assert done.launches == 1
    same_bits(done.results, Run(workload.model, xs, p=p, seed=1).results)
    for x, mine in zip(xs, done.results, strict=True):
        alike(mine, workload.model(x, p=p))


def test_few_graphs_serve_mini_batches_of_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_ROOM", 256)  # memory moves, as the first buffer is too small
    monkeypatch.setattr(device, "_LAUNCHES", 1)
    w = weights()
    xs = sequences(2, 0, 1, 5)
    wanted = Run(chain, xs, w=w).results
    run = Batches(graph(chain), xs, seed=2, w=w)
    for lo, hi in ((3, 4), (0, 1), (2, 3), (1, 2), (0, 4)):
        same_bits(run(xs[lo:hi]), wanted[lo:hi])
    assert run.device.launches == 4  # nothing for the empty sequence
    # runs of up to 8, 2, 1 levels of the one function, of one block
    assert keys(run) == [[8, 1, 1, 0, 1], [2, 1, 1, 0, 1], [1, 1, 1, 0, 1]]


@model
def sides(xs: list[np.ndarray], *, w: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Directions that do not depend on each other: two of one kernel, and another."""
    h, g, k = np.zeros(5, np.float32), np.ones(5, np.float32), np.ones(5, np.float32)
    for x in xs:
        h = np.tanh(w @ (h + x))
    for x in xs[::-1]:
        g = np.tanh(w @ (g + x))
    for x in xs:
        k = np.tanh(u @ (k * x))
    return h, u @ g, k


def test_a_level_has_a_node_for_each_function() -> None:
    xs, w = sequences(3, 1), weights()
    wanted = Run(sides, xs, w=w, u=w.T.copy()).results
    for seed in range(2):
        run = Batches(graph(sides), xs, seed=seed, w=w, u=w.T.copy())
        same_bits(run(xs), wanted)
    (key,) = keys(run)
    assert key[:2] == [4, 1] and key[2] >= 2  # three levels, and so four, of several functions each
    levels = run.device._graphs[int(run.executor.persistent.graphs.words[0, 0])]
    assert [len(level) for level in levels[:4]] == [key[2]] * 4


def test_each_round_is_a_graph() -> None:
    done, apart = in_rounds(graph)
    assert 1 < done.launches < apart.launches
    assert done.executable.executor.persistent.graphs.known < done.launches  # type: ignore[attr-defined]


def test_an_instance_that_fails_disturbs_no_other() -> None:
    fail_alone(graph)


def test_gradients_are_those_of_single_launches() -> None:
    from acronumba import value_and_grad

    @model
    def loss(xs: list[np.ndarray], *, p: dict[str, np.ndarray]) -> np.float32:
        h = np.zeros(5, np.float32)
        for x in xs:
            h = np.tanh(p["w"] @ (h + x))
        return np.sum(h * h)

    xs, p = sequences(2, 1, 3), {"w": weights()}
    found = []
    for way in ("graph", False):
        _, gradients = value_and_grad(loss.with_options(persistent=way).on("simulator")).batch(xs, p=p)
        found.append(np.asarray(gradients["w"]).tobytes())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("text", "other", "says"),
    [
        ("earlier_have_ended()\n            ", "pass", "in front of its gate"),
        ("next_may_begin()", "pass", ""),  # later nodes wait for the end
    ],
)
def test_a_node_waits_at_its_gate(monkeypatch: pytest.MonkeyPatch, text: str, other: str, says: str) -> None:
    xs, w = sequences(1, 2, 3, 4, 5), weights()
    if says:
        monkeypatch.setattr(nodes, "_GATE", "pass")
        with pytest.raises(simulator.Race, match=says):
            Run(graph(chain), xs, w=w)
    else:
        monkeypatch.setattr(nodes, "_NODE", nodes._NODE.replace(text, other))
        same_bits(Run(graph(chain), xs, w=w).results, Run(chain, xs, w=w).results)


def test_without_room_single_launches_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    xs, w = sequences(2, 1, 3), weights()
    wanted = Run(chain, xs, w=w).results
    monkeypatch.setattr(graphs, "_MOST", 1)
    run = Batches(graph(chain), xs, w=w)
    for lo, hi in ((0, 3), (0, 1), (0, 3)):  # no graph is made for the second
        before = run.device.launches
        same_bits(run(xs[lo:hi]), wanted[lo:hi])
        assert run.device.launches - before == (1 if hi == 3 else 2)
    monkeypatch.setattr(graphs, "_ROWS", 3)
    run = Batches(graph(chain), xs, w=w)
    same_bits(run(xs), wanted)
    assert run.device.launches == 3 and not run.executor.persistent.graphs.known


class Table:
    """Launches of kernels of some functions, each with grids, and the rows that are made of them."""

    def __init__(self, kernels: list[list[list[Grid]]], rows: int = 99, most: int = 50) -> None:
        functions = [[(7, most, grids) for grids in own] for own in kernels]
        self.memory = interpret.InterpreterMemory()
        self.calls: list[tuple[int, ...]] = []
        self.fails: dict[str, int] = {}
        entries = {"launch": 0, "cooperate": 0, "reach": 0, "download": 0, "wait": 0}
        for name in ("upload", "record", "graph"):
            entries[name] = self.memory.add_function(lambda *args, name=name: self.call(name, *args))
        self.made = launches(Entries(**entries), 5, 4, functions)
        self.made["scratch"], self.made["warps"], self.made["scratch_size"] = 31, 32, 1 << 20
        self.made["warps_size"] = 1 << 20
        self.about = np.zeros(ABOUT.count, np.int64)
        self.graphs = np.zeros((2, GRAPH.count), np.int64)
        self.stages, count = max(map(len, functions)), sum(map(len, functions))
        given = {
            "stages": self.stages,
            "functions": count,
            "graphs": self.graphs.ctypes.data,
            "table": 900,
            "rows": rows,
        }
        for name, word in given.items():
            self.about[ABOUT.at[name]] = word
        for array in (
            *map(self.made.__getattribute__, ("words", "kernels", "functions", "grids")),
            self.about,
            self.graphs,
        ):
            self.memory.add(array)

    def call(self, name: str, *args: int) -> int:
        self.calls.append((name, *args))  # type: ignore[arg-type]
        return self.fails.get(name, 0)

    def __call__(self, rows: list[dict[str, int]], warp: int = 0) -> int:
        table = np.zeros((len(rows), marshal.ROW.count), np.int64)
        for row, given in zip(table, rows, strict=True):
            for name, word in given.items():
                row[marshal.ROW.at[name]] = word
        counts = [self.made.kernels[row["kernel"], 1] for row in rows]
        levels = max(row["level"] + many for row, many in zip(rows, counts, strict=True))
        many = self.stages * len(rows)
        self.out = np.full((3 * nodes.NODE.size // 8 + 11) * many + 9, 7)
        stream = np.zeros(marshal.STREAM.count, np.int64)
        at = self.out.ctypes.data
        words = {"start": at, "top": at, "end": at, "tail": at, "delta": 1 << 40, "table": table.ctypes.data,
                 "launches": len(rows), "levels": levels, "warp": warp, "most": 50,
                 "batch": max(row.get("batch", 0) for row in rows)}  # fmt: skip
        for name, word in words.items():
            stream[marshal.STREAM.at[name]] = word
        for array in (self.out, table, stream):
            self.memory.add(array)
        given = [self.made.address, stream.ctypes.data, self.about.ctypes.data]
        done = interpret.run(launch_module(), "graphed", given, self.memory)
        assert isinstance(done, int)
        return done

    def key(self) -> list[int]:
        first = (int(self.about[ABOUT.at["key"]]) - self.out.ctypes.data) // 8
        return self.out[first : first + int(self.about[ABOUT.at["key_words"]])].tolist()  # type: ignore[no-any-return]

    def know(self, handle: int) -> None:
        self.known = np.array(self.key())
        self.memory.add(self.known)
        self.graphs[0] = handle, self.known.ctypes.data, len(self.known)
        self.about[ABOUT.at["known"]] = 1

    def rows(self, count: int) -> list[dict[str, int]]:
        rows = self.out[: count * nodes.NODE.count].reshape(count, -1)
        return [dict(zip(nodes.NODE.at, map(int, row), strict=True)) for row in rows]


ROWS = [
    {"kernel": 0, "nodes": 9, "p": 1000, "level": 0, "batch": 100},
    {"kernel": 1, "nodes": 5, "p": 2000, "level": 1, "batch": 10},
    {"kernel": 0, "nodes": 2, "p": 3000, "level": 1, "batch": 10},
    {"kernel": 0, "nodes": 17, "p": 4000, "level": 1},
    {"kernel": 1, "nodes": 6, "p": 5000, "level": 2},
    {"kernel": 0, "nodes": 4, "p": 6000, "level": 2},
    {"kernel": 0, "nodes": 4, "p": 7000, "level": 3},
    {"kernel": 1, "nodes": 4, "p": 8000, "level": 3},
]


def test_rows_are_written_for_all_nodes() -> None:
    table = Table([[[Grid(4, 1)]], [[Grid(1, 1)]]])
    assert table(ROWS) == UNKNOWN and not table.calls
    # one level of function 0, of up to 4 blocks; three, and so four, of both: up to 16 and up to 16 blocks
    assert table.key() == [1, 1, 1, 0, 4, 4, 1, 2, 0, 16, 1, 16]
    table.know(77)
    assert table(ROWS, warp=100) == 0
    at, size = table.out.ctypes.data, nodes.NODE.size
    assert [name for name, *_ in table.calls] == ["upload", "upload", "record", "graph"]
    assert table.calls[0][1:] == (900, at, 10 * size, 5) and table.calls[-1][1:] == (77, 5)
    rows = table.rows(10)
    found = [(r["p"], r["first"], r["blocks"], r["nodes"], r["more"], r["warps"] - 32) for r in rows]
    t = 100 * 8
    assert found == [
        (1000, 0, 3, 9, 0, 0),
        (3000, 0, 1, 2, 8 * size, 0), (2000, 0, 5, 5, 0, 6 * t),
        (6000, 0, 1, 4, 0, 0), (5000, 0, 6, 6, 0, t),
        (7000, 0, 1, 4, 0, 0), (8000, 0, 4, 4, 0, t),
        (0, 0, 0, 0, 0, -32), (0, 0, 0, 0, 0, -32),  # of the fourth level
        (4000, 1, 5, 17, 0, t),  # behind the nodes: the second batch of one
    ]  # fmt: skip
    assert rows[1]["scratch"] != rows[2]["scratch"]


@pytest.mark.parametrize(
    ("functions", "key"),
    [
        ("0121212", [(1, "0"), (4, "12")]),
        ("012012012012012", [(8, "012")]),
        ("00011101110111", [(4, "0"), (2, "1110"), (4, "1")]),
        ("0120122", [(2, "012"), (1, "2")]),
        ("0123456701234567", [(2, "01234567")]),
    ],
)
def test_levels_that_repeat_are_one_run(functions: str, key: list[tuple[int, str]]) -> None:
    table = Table([[[Grid(1, 1)]] for _ in range(8)])
    assert table([{"kernel": int(f), "nodes": 1, "level": k} for k, f in enumerate(functions)]) == UNKNOWN
    found = ["".join(str(f) for level in graphs.levels_of(table.key()) for f, _ in level)]
    assert found == ["".join(levels * times for times, levels in key)]


def test_what_has_no_room_is_not_launched() -> None:
    kernels = [[[Grid(4, 1)]], [[Grid(1, 1)]]]
    assert Table(kernels, rows=9)(ROWS) == CROWDED
    few = [{"kernel": 0, "nodes": 4, "level": 0} for _ in range(3)]
    assert Table(kernels, most=2)(few) == CROWDED
    table = Table(kernels)
    table.made["scratch_size"] = 0
    assert table(ROWS) == SCANT
    table = Table(kernels)
    assert table([ROWS[0]]) == UNKNOWN
    table.know(77)
    for name in ("upload", "record", "graph"):
        table.fails, table.calls = {name: 9}, []
        assert table([ROWS[0]]) == 9 and table.calls[-1][0] == name


# ---- the driver


def test_the_driver_is_told_what_follows_what(driver: Driver) -> None:
    xs, w = sequences(3), weights()
    wanted = Run(chain, xs, w=w).results
    run = Batches(graph(chain), xs, on=gpu.Gpu(0, driver), w=w)
    for _ in range(4):
        driver.calls.clear()
        same_bits(run(xs), wanted)
    assert len(driver.graphs_launched) == 4 and driver.graphs_launched[0] == driver.graphs_launched[3]  # the same nodes
    does = [call for call in driver.calls if "Ctx" not in call and "Synchronize" not in call]
    wanted_calls = ["cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync_v2", "cuEventRecord", "cuGraphLaunch"]
    assert does[:4] == wanted_calls  # the table, and what launches need
    assert not {"cuLaunchKernel", "cuLaunchCooperativeKernel", "cuGraphInstantiateWithFlags"} & {*does}
    made, edges = driver.graphs[1]  # type: ignore[misc]
    assert [n.row - made[0].row for n in made] == [64 * k for k in range(4)]  # three levels
    assert edges == [(1, 2, 65537), (2, 3, 65537), (3, 4, 65537)]
    del run
    assert driver.graphs[0] is driver.graphs[1] is None  # given back


def test_older_drivers_and_gpus(driver: Driver) -> None:
    xs, w = sequences(2, 1), weights()
    wanted = Run(chain, xs, w=w).results
    del driver.cuGraphAddDependencies_v2  # type: ignore[attr-defined]
    one = gpu.Gpu(0, driver)
    assert one.graphs and not one.early
    run = Batches(graph(chain), xs, on=one, w=w)
    same_bits(run(xs), wanted)
    made = driver.graphs[1]
    assert made is not None and len(made[0]) == 2 and "cuGraphAddDependencies" in driver.calls
    old = gpu.Gpu(0, Driver((8, 0)))
    assert old.graphs and not old.early
    del driver.cuGraphInstantiateWithFlags  # type: ignore[attr-defined]
    oldest = gpu.Gpu(0, driver)
    assert not oldest.graphs and oldest.driver.graph == 0
    with pytest.raises(RuntimeError, match=r"has no graphs of kernels: with_options\(persistent=None\)"):
        Batches(graph(chain), xs, on=oldest, w=w)
    assert len(Batches(chain, xs, on=oldest, w=w)(xs)) == 2


def test_errors_of_the_driver(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    xs, w = sequences(2), weights()
    wanted = Run(chain, xs, w=w).results
    driver.rejects["cuGraphAddDependencies_v2"] = 801  # the driver does not take such edges: others do
    one = gpu.Gpu(0, driver)
    run = Batches(graph(chain), xs, on=one, w=w)
    same_bits(run(xs), wanted)
    assert not one.early and driver.calls.count("cuGraphDestroy") == 3
    monkeypatch.setattr(persistent, "_LONG", 1000.0)
    for name in ("cuGraphLaunch", "cuGraphInstantiateWithFlags"):
        driver.rejects = {name: 801}
        with pytest.raises(gpu.DriverError, match="error 801"):
            Batches(graph(chain), xs, on=gpu.Gpu(0, driver), w=w)(xs)
        measured = Batches(chain, xs, on=gpu.Gpu(0, driver), w=w)
        for _ in range(2):
            same_bits(measured(xs), wanted)
        assert {*measured.executor.persistent.best.values()} <= {"together", "apart"}


def test_the_fastest_of_three_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support.clocks import Clocked

    xs, w = sequences(2), weights()
    clock = Clocked(5.0)
    clock.graphs = True
    monkeypatch.setattr(persistent, "_LONG", 100.0)
    monkeypatch.setattr(persistent.time, "perf_counter", clock.now)
    run = Batches(chain, xs, on=clock, w=w)
    wanted = run(xs)
    way = run.executor.persistent
    assert way.seconds == {(2, 2): {"apart": 2.0, "together": 5.0, "graph": 1.0}} and {*way.best.values()} == {"graph"}
    before = clock.launches
    same_bits(run(xs), wanted)
    assert clock.launches == before + 1
