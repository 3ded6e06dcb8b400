"""`acronumba bench`: workloads, what is counted, how times are compared, tables, files, the command line."""

from __future__ import annotations

import dataclasses
import importlib.util
import io
import json
import math
import pkgutil
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from acronumba import Options, model, zoo
from acronumba.api.check import compare
from acronumba.api.effects import count
from acronumba.bench import ceiling, checkout, measure, run, speed, view
from acronumba.bench.by_hand import BY_NUMPY
from acronumba.bench.by_hand.by_numpy import NUMPY
from acronumba.bench.by_hand.program import Program
from acronumba.bench.ceiling import Ceiling
from acronumba.bench.measure import Ratio, interleaved, pairs, quartiles, ratio
from acronumba.bench.workloads import WAITING, ZOO, inputs
from acronumba.cli.main import main
from acronumba.config import OPTIMISATIONS, SCHEDULES
from acronumba_bench import ablate, baselines, scaling, starts, views
from acronumba_bench import instruments as complete
from acronumba_bench.ablate import ON, Ablation, Variant, variants, verdict
from acronumba_bench.gpu import floors
from acronumba_bench.instruments import all_there_are
from acronumba_bench.workloads import SMALL, WORKLOADS
from tests.support.chosen import one_in

ALL = Variant(name=ON, changes={}, against={})
SST = "(3 (2 It) (4 (2 is) (3 (3 very) (3 good))))\n(1 (2 Not) (1 (2 so) (2 good)))\n"


@pytest.mark.parametrize("name", one_in(2, WORKLOADS))
def test_workloads_compute_what_the_plain_calls_do(name: str) -> None:
    w = WORKLOADS[name]
    xs, p = w.instances(3), w.params(8)
    for got, x in zip(w.model._interpret(xs, p=p), xs, strict=True):
        plain = w.model(x, p=p)
        assert compare(got, plain, plain)[0] in ("equal", "close")


def test_workloads_have_what_options_are_there_for() -> None:
    assert not any(w.waits for w in (*ZOO, *SMALL))
    assert {w.name.removesuffix("_emulated").removesuffix("_route") for w in (*ZOO, *WAITING)} == {
        m.name for m in pkgutil.iter_modules(zoo.__path__) if m.name not in ("data", "cells", "demo")
    }
    text = " ".join(w.why for w in SMALL)
    for option in ("lookahead", "duplicate", "hoist", "horizontal", "fuse", "rows", "gather_fusion", "reuse"):
        assert option in text


def test_instances_of_a_file_are_repeated(tmp_path: Path) -> None:
    path = tmp_path / "trees.txt"
    path.write_text(SST)
    xs, _ = inputs(WORKLOADS["birnn"], 8, 5, str(path))
    assert [len(x) for x in xs] == [4, 3, 4, 3, 4]
    assert len(inputs(WORKLOADS["child_sum_lstm"], 8, 5, str(path))[0]) == 5


# ---------------------------------------------------------------------------------------------------------------- times


def test_competitors_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "SHORT", 0.0)
    order: list[str] = []
    times = interleaved({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 3)
    assert order == ["a", "b"] + ["a", "a", "b", "b"] * 3  # once to warm up, and once at the start of each turn
    assert list(times) == ["a", "b"]
    assert all(0 <= q.low <= q.median <= q.high for q in times.values())


def test_short_calls_are_repeated_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    now, calls = [0.0], []

    def call(name: str, seconds: float) -> None:
        now[0] += seconds
        calls.append(name)

    found = interleaved({"a": lambda: call("a", 0.002), "b": lambda: call("b", 1e-6)}, 3, lambda: now[0])
    assert found["a"].median == pytest.approx(0.002) and found["b"].median == pytest.approx(1e-6)
    assert calls.count("a") == 1 + 2 + 2 * (1 + 3) and calls.count("b") == 1 + 2 + 2 * (1 + measure.MOST)


def test_each_of_a_pair_is_first_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "SHORT", 0.0)
    order: list[str] = []
    a, b, found = pairs(lambda: order.append("a"), lambda: order.append("b"), 4)
    assert "".join(order) == "ab" + "aabb" + "ab" + "ba" + "ab" + "ba"
    assert found.pairs == 4 and a.median > 0 and b.median > 0


def test_quartiles() -> None:
    q = quartiles([5.0, 1.0, 3.0, 2.0, 4.0])
    assert (q.low, q.median, q.high) == (2.0, 3.0, 4.0)
    assert quartiles([7.0]).median == 7.0
    assert q.scaled(2.0).high == 8.0


@pytest.mark.parametrize("n", [7, 15, 31])
def test_the_interval_holds_the_median_19_times_in_20(n: int) -> None:
    rng = random.Random(n)
    true = math.log(2)  # the median of these
    hits = 0
    for _ in range(2000):
        r = ratio([rng.expovariate(1) for _ in range(n)], [1.0] * n)
        assert r.low <= r.median <= r.high
        hits += r.low <= true <= r.high
    assert 0.94 <= hits / 2000 <= 0.995


@pytest.mark.parametrize(
    ("median", "low", "high", "expected"),
    [
        (1.5, 1.4, 1.6, "pays 1.50x"),
        (1.01, 0.99, 1.02, "free"),
        (0.98, 0.97, 0.99, "free"),  # less than 3%
        (0.80, 0.70, 1.01, "free"),  # inside the spread
        (0.80, 0.75, 0.90, "costs 25%"),
    ],
)
def test_verdicts(median: float, low: float, high: float, expected: str) -> None:
    assert verdict(Ratio(median=median, low=low, high=high, pairs=15)) == expected
    assert verdict(None) == "same"


# ------------------------------------------------------------------------------------------------------------- ablation


def test_variants_are_each_option_alone_and_all() -> None:
    first, *rest, last = variants()
    assert first.name == ON and first.changes == {}
    assert last.name == "all off" and last.changes == dict.fromkeys(OPTIMISATIONS, False)
    for name in OPTIMISATIONS:
        (v,) = [v for v in rest if v.option == name]
        assert v.changes == {**v.against, name: False}
    assert sum(v.name.startswith("schedule") for v in rest) == len(SCHEDULES) - 1


def test_bytes_and_launches_follow_nodes_and_extents() -> None:
    @model
    def twice(x: np.ndarray) -> np.ndarray:
        return x * 2.0

    trace = twice.trace([np.ones(3), np.ones(3), np.ones(5)]).data
    assert [b.extents for b in trace.batches] == [(((3,), 2), ((5,), 1))]
    c = count(trace, twice.options)
    assert (c.nodes, c.batches, c.launches) == (3, 1, 1)
    assert c.bytes == 2 * (3 + 3 + 5) * 8


def test_launches_tell_what_is_fused() -> None:
    w = WORKLOADS["gates"]
    trace = w.model.trace(w.instances(2), p=w.params(8)).data
    on = count(trace, Options())
    off = count(trace, Options(fuse=False, horizontal=False, gather_fusion=False))
    assert on.batches == off.batches <= on.launches < off.launches
    assert on.bytes < off.bytes


FEW = tuple(v for v in variants() if v.option in ("", "blocks", "phases") and not v.name.startswith("effort"))


@pytest.fixture(scope="module")
def small() -> Ablation:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ablate, "variants", lambda: FEW)
        return ablate.ablate([WORKLOADS["branches"], WORKLOADS["birnn"]], size=8, batch=2, count=2)


@pytest.mark.slow
def test_an_ablation_counts_and_times_every_variant(small: Ablation) -> None:
    assert [t.workload for t in small.tables] == ["branches", "birnn"]
    for table in small.tables:
        rows = {r.variant: r for r in table.rows}
        assert list(rows) == [v.name for v in FEW]
        assert [o.option for o in small.options] == list(OPTIMISATIONS)
        on = rows[ON]
        assert on.seconds is not None and on.ratio is None
        for row in table.rows:
            assert {c.schedule for c in row.counts} == set(SCHEDULES)
            assert all(c.batches >= c.lower_bound for c in row.counts)
            assert all(c.optimal for c in row.counts if c.batches == c.lower_bound)
            assert row.record_ns > 0 and row.schedule_ns > 0
            assert (row.ratio is None) == (row.variant == ON or row.verdict == "same")
        assert rows["no blocks"].counts[0].nodes > on.counts[0].nodes
        assert rows["no blocks"].counts[0].batches > on.counts[0].batches
    birnn = {r.variant: r for r in small.tables[1].rows}
    assert birnn[ON].counts[0].optimal


def test_what_changes_nothing_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        ablate, "variants", lambda: (ALL, dataclasses.replace(ALL, name="threads 2", changes={"threads": 2}))
    )
    a = ablate.ablate([WORKLOADS["branches"]], size=8, batch=4, count=3)
    (on, other) = a.tables[0].rows
    assert other.verdict == "same" and other.seconds is None and on.seconds is None
    assert other.counts == on.counts


def printed(view: Any, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(view)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.long
def test_tables_fit(small: Ablation, width: int) -> None:
    lines = printed(views.ablation_view(small, width), width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for v in FEW:
        assert v.name in text
    assert "proved optimal" in text and "verdict" in text
    assert ("between" in text) == (width >= views.WIDE)
    row = next(line for line in lines if line.startswith("no blocks"))
    (off,) = [r for r in small.tables[0].rows if r.variant == "no blocks"]
    assert f" {off.counts[0].nodes} " in row and "…" not in text


def test_json_has_device_and_versions(small: Ablation) -> None:
    data = json.loads(json.dumps(view.numbers(small)))
    assert {"processor", "acronumba", "python", "numba", "numpy", "cores"} <= set(data["machine"])
    assert data["tables"][0]["rows"][0]["counts"][0]["nodes"] == small.tables[0].rows[0].counts[0].nodes


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="needs matplotlib")
def test_plot(small: Ablation, tmp_path: Path) -> None:
    assert views.plot(small, tmp_path / "plot.png").stat().st_size > 10_000


# ---------------------------------------------------------------------------------------------------------------- speed


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(complete, "ceiling", lambda: Ceiling(gflops=100.0, copied=10.0))


def test_speeds_are_compared_with_all_baselines(quick: None) -> None:
    names = ("tree_lstm", "drnn", "beam_decoder_emulated", "branches")
    s = speed.measure([WORKLOADS[name] for name in names], all_there_are(), sizes=(8,), batches=(2, 3), rounds=1)
    assert [(row.workload, row.instances) for row in s.rows] == [(name, n) for n in (2, 3) for name in names]
    for row in s.rows:
        own = {speed.PLAIN, speed.OBJECTS, speed.PACKED, speed.BURST}
        there = set(baselines.makers(row.workload)) - set(row.reasons)  # all but those that are not installed
        assert set(row.seconds) == own | there
        assert (BY_NUMPY in row.seconds) == (row.workload != "branches")  # which is not of the zoo
        assert set(row.verdicts) == {speed.OBJECTS, *there}
        assert set(row.verdicts.values()) <= {"equal", "close", "undecided"}
        assert 0 < row.host_share < 1 and row.product_flops > 0 and row.first > 0
        assert row.kernels and sum(row.kernels.values()) <= 1.5 * row.stages["execute"] and row.peak > 0
        assert row.times(speed.OBJECTS) == 1.0 and row.times("nobody") is None
    lines = printed(view.speeds_view(s), 80)
    assert max(map(len, lines)) <= 80 and not any("…" in line for line in lines)
    assert sum(line.startswith("beam_decoder_emulated ") for line in lines) == 2 + 2  # times, and what they are made of
    assert json.loads(json.dumps(view.numbers(s)))["rows"][0]["seconds"]["NumPy by hand"]["median"] > 0


def test_the_widest_table_fits(quick: None) -> None:
    s = speed.measure([WORKLOADS["beam_decoder_emulated"]], all_there_are(), sizes=(8,), batches=(2,), rounds=1)
    (row,) = s.rows
    half = measure.Quartiles(median=0.5, low=0.1, high=2.0)
    seconds = dict.fromkeys((speed.PLAIN, *baselines.BASELINES, speed.BURST), half.scaled(1e4))
    wide = dataclasses.replace(row, seconds={**seconds, speed.OBJECTS: half.scaled(30), speed.PACKED: half})
    lines = printed(view.speeds_view(dataclasses.replace(s, rows=(wide,))), 80)
    line, shares = (line for line in lines if line.startswith("beam_decoder_emulated "))
    assert len(shares) <= 80
    assert len(line) <= 80 and "…" not in line and " 333 " in line and " 10000 " in line


def test_the_table_of_a_gpu_fits(quick: None) -> None:
    s = speed.measure([WORKLOADS["beam_decoder_emulated"]], all_there_are(), sizes=(8,), batches=(2,), rounds=1)
    (row,) = s.rows
    half = measure.Quartiles(median=0.5, low=0.1, high=2.0)
    names = (speed.HERE, baselines.TORCH_EACH, baselines.BY_TORCH)
    seconds = {**dict.fromkeys(names, half.scaled(1e4)), speed.OBJECTS: half.scaled(30), speed.PACKED: half}
    wide = dataclasses.replace(row, seconds=seconds, launches=12345, reasons={baselines.IN_GRAPH: "it reads"})
    c = floors.of_gpu(
        {"TF32 mma.sync TFLOP/s": 300.0, "float32 TFLOP/s": 60.0, "copied, read and written GB/s": "not measured: no"},
        {"stream, 1 blocks": {"node us": 2.0}},
    )
    assert (c.gflops, c.copied, c.launch) == (1e5, 0.0, 2e-6)
    least = wide.floors(c)
    assert least["launches"] == pytest.approx(0.02469) and least["bytes"] == 0 < least["products"]
    lines = printed(view.speeds_view(dataclasses.replace(s, device="cuda", ceiling=c, rows=(wide,))), 80)
    assert max(map(len, lines)) <= 80 and not any("…" in line for line in lines)
    line = next(line for line in lines if line.startswith("beam_decoder_emulated "))
    assert " 12,345 " in line and " 10000 " in line
    assert "No PyTorch by hand in a CUDA graph (it reads): beam_decoder_emulated" in " ".join(lines)
    assert any("a launch takes 2.0 us: 100000 GFLOP/s" in line for line in lines)


def test_devices_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("bench --device nowhere --models birnn".split()) == 1
    assert "unknown device" in capsys.readouterr().err
    assert main("bench --device simulator --ablate --models birnn".split()) == 2
    assert "measure the CPU" in capsys.readouterr().err


def test_what_computes_something_else_is_not_timed(monkeypatch: pytest.MonkeyPatch, quick: None) -> None:
    def wrong(p: Any, xs: Any) -> Program:
        program = baselines.BATCHED["birnn"](NUMPY, p, xs)
        return Program(
            run=program.run,
            results=lambda out: [[row * np.float32(1.001) for row in rows] for rows in program.results(out)],
        )

    def never(p: Any, xs: Any) -> Program:
        raise RuntimeError("it reads what it has computed")

    makers = {BY_NUMPY: wrong, baselines.IN_GRAPH: never}
    monkeypatch.setattr(baselines, "makers", lambda name, threads, device: makers)
    s = speed.measure([WORKLOADS["birnn"]], all_there_are(), sizes=(8,), batches=(2,), rounds=1)
    (row,) = s.rows
    assert row.wrong == (BY_NUMPY,) and BY_NUMPY not in row.seconds
    assert row.reasons == {baselines.IN_GRAPH: "it reads what it has computed"}
    text = "\n".join(printed(view.speeds_view(s), 80))
    assert "Not the results of the plain calls: birnn: NumPy by hand" in text
    result = dataclasses.replace(s, rows=(row,))
    monkeypatch.setattr(speed, "measure", lambda *args, **options: result)
    monkeypatch.setenv("ACRONUMBA_BENCH_CHILD", "1")
    assert run.main(["--models", "birnn"]) == 1


def test_scaling(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "figures.json"
    assert main(f"bench --scaling --models drnn birnn --size 8 --batch 1 5 --rounds 2 --json {path}".split()) == 0
    out = capsys.readouterr().out
    assert "drnn, size 8" in out and "birnn, size 8" in out and max(map(len, out.splitlines())) <= 80
    rows = json.loads(path.read_text())["rows"]
    assert [(row["workload"], row["instances"]) for row in rows] == [(n, k) for n in ("drnn", "birnn") for k in (1, 5)]
    assert all(row["seconds"]["median"] > 0 and row["product_flops"] > 0 for row in rows)
    assert rows[0]["nodes"] < rows[1]["nodes"]


def test_scaling_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="draws with matplotlib")
    result = scaling.measure([WORKLOADS["birnn"]], sizes=(8,), batches=(1, 4), rounds=1)
    assert views.plot_scaling(result, tmp_path / "plot.png").stat().st_size > 1000


@pytest.mark.slow
def test_starts(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "_WARM", 1)
    assert main("bench --starts --models birnn --size 8".split()) == 0
    (row,) = (line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("birnn"))
    assert row[:2] == ["birnn", "8"]
    _, cold, second, comment, constant, structure, warm, batch = map(float, row[2:])
    assert cold > second > warm > batch >= 0 and cold > constant > 0 < comment < cold and cold > structure > 0


def test_products_are_counted() -> None:
    w = WORKLOADS["birnn"]
    xs = [[1, 2, 3], [4]]
    c = count(w.model.trace(xs, p=w.params(8)).data, w.model.options)
    assert c.product_flops == 2 * 4 * (2 * (8 * 8 + 8 * 8) + 16 * 16)  # of each word: both directions, the classes


def test_a_ceiling_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceiling, "_BYTES", 1 << 16)
    monkeypatch.setattr(ceiling, "_ROUNDS", 1000)
    found = ceiling.ceiling()
    assert found.gflops > 0 and found.copied > 0


# --------------------------------------------------------------------------------------------------------- command line


def test_the_command_ablates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(
        ablate, "variants", lambda: (ALL, Variant(name="no blocks", changes={"blocks": False}, against={}))
    )
    path = tmp_path / "figures.json"
    arguments = f"bench --ablate --models branches --size 8 --batch 2 --rounds 1 --json {path}".split()
    assert main(arguments) in (
        0,
        1,
    )  # 1: an option costs more than it may, which three trees on a busy machine can show
    out = capsys.readouterr().out
    assert "\x1b" not in out and "no blocks" in out and max(map(len, out.splitlines())) <= 120
    assert json.loads(path.read_text())["pairs"] == 1


@pytest.mark.long
def test_the_command_measures_speed_in_a_child(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "trees.txt"
    path.write_text(SST)
    assert main(f"bench --models tree_lstm --size 8 --batch 2 --rounds 1 --trees {path}".split()) == 0
    assert "tree_lstm" in capfd.readouterr().out


def test_the_command_names_models_and_says_what_is_wrong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["bench", "--models", "list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(WORKLOADS)
    for wrong in (
        "--models nothing",
        "--size huge",
        "--size 0",
        "--plot x.png",
        "--ablate --batch 2 3",
        "--starts --batch 2 3",
        "--starts --rounds 3",
        "--starts --threads 2",
    ):
        assert main(["bench", *wrong.split()]) == 2
        assert capsys.readouterr().err
    for wrong in ("--batch 0", "--rounds x"):
        with pytest.raises(SystemExit) as caught:
            main(["bench", *wrong.split()])
        assert caught.value.code == 2
    capsys.readouterr()
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else found(name))
    assert main(["bench", "--ablate", "--plot", "x.png"]) == 1
    assert "pip install" in capsys.readouterr().err


@pytest.mark.long
def test_an_installed_copy_measures_speed_and_says_where_the_rest_is(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(checkout, "FOLDER", tmp_path)
    assert main(["bench", "--models", "list"]) == 0
    assert [line.split()[0] for line in capfd.readouterr().out.splitlines()] == [w.name for w in (*ZOO, *WAITING)]
    for mode in run.MODES:
        assert main(["bench", f"--{mode}"]) == 2
        assert capfd.readouterr().err.startswith(f"--{mode} needs a checkout of the repository")
    assert main(["picture", str(tmp_path / "measured.json")]) == 2
    assert "a checkout of the repository" in capfd.readouterr().err
    monkeypatch.setenv(run.CHILD, "1")
    assert main("bench --models tree_lstm birnn decoder --size 8 --batch 2 --rounds 1".split()) == 0
    table = [line.split() for line in capfd.readouterr().out.split("What the time")[0].splitlines() if line]
    rows = {cells[0]: cells for cells in table}
    assert len(rows["tree_lstm"]) == len(rows["birnn"]) == len(rows["decoder"]) + 1  # NumPy by hand


def test_the_exit_status_tells_of_costs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, small: Ablation
) -> None:
    for verdict_, status in (("pays", 0), ("free", 0), ("costs", 1)):
        options = tuple(dataclasses.replace(o, verdict=verdict_) for o in small.options)
        result = dataclasses.replace(small, options=options)
        monkeypatch.setattr(ablate, "ablate", lambda *a, result=result, **k: result)
        assert run.main(["--ablate"]) == status
    capsys.readouterr()
