"""What is measured of kernels, and what `acronumba tune` makes of it."""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba import model, tuned
from acronumba.bench import tune_machine, tune_model
from acronumba.bench.measure import ratio
from acronumba.bench.workloads import Workload
from acronumba.cli.main import main
from acronumba.emit import cache
from acronumba.emit.target import Target
from acronumba.kernels.account import account
from acronumba.kernels.cost import of_kernel
from acronumba.strategy import DEFAULT, Figures, Strategy
from acronumba_bench import costs
from acronumba_bench.workloads import WORKLOADS


@model
def hoisting(words: list[int], *, w: np.ndarray, e: np.ndarray) -> Any:
    h, out = e[0], []
    for k in words:
        x = e[k]
        for _ in words:
            h = np.tanh(w @ h + w @ np.tanh(w @ np.tanh(x)))
        h = np.tanh(w @ h + w @ x)
        out.append(np.tanh(w @ h))
    return out, h


FILE = """
import numpy as np
from acronumba import model

@model
def walk(words, *, p):
    h, out = p[0], []
    for k in words:
        h = np.tanh(p @ h + p @ np.tanh(p[k]))
        out.append(p @ h)
    return out

def example():
    rng = np.random.default_rng(0)
    xs = [[int(k) for k in rng.integers(0, 24, 1 + n % 5)] for n in range(12)]
    return (xs,), {"p": rng.standard_normal((24, 24)).astype(np.float32)}
"""


@model
def doubled(x: np.ndarray, *, w: np.ndarray) -> Any:
    return np.tanh(w @ x) * 2


@model
def added(words: list[int], *, p: np.ndarray) -> Any:
    h = p[0]
    for k in words:
        h = np.tanh(p @ h + p[k])
    return h


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No table, and one of its own if it is written."""
    name = f"tuned{secrets.token_hex(20)}"
    monkeypatch.setattr(tuned, "key", lambda: name)
    tuned.forget()
    yield
    cache.discard(name)
    tuned.forget()


# ---- the cost model


TINY = Workload(
    name="tiny",
    model=added,
    params=lambda size: np.eye(int(size), dtype=np.float32),
    instances=lambda n: [[k, 2, 3] for k in range(n)],
    read=None,
    why="",
)


def test_costs_are_measured_and_estimated() -> None:
    found = costs.measure([TINY], sizes=[8], batches=[4], rounds=3)
    assert [(row.workload, row.size, row.instances, row.rows) for row in found.rows] == [("tiny", 8, 4, 12)]
    assert all(row.measured > 0 and row.estimated > 0 for row in found.rows)
    good, every = found.within(4)
    assert 0 <= good <= every == len(found.rows) >= found.within(4, 0.05)[1] > 0


def _specs(name: str, size: int) -> Any:
    workload = WORKLOADS[name]
    return workload.model._compiled([workload.instances(4)], {"p": workload.params(size)}).plan.kernels


def test_what_takes_longer_has_a_higher_estimate() -> None:
    for name in ("tree_lstm", "birnn", "moe", "encoder"):
        for small, large in zip(_specs(name, 64), _specs(name, 128), strict=True):
            nodes = [((20,) * small.dims, 10.0)]
            a, b = of_kernel(small).batch(nodes), of_kernel(large).batch(nodes)
            assert 0 < a < b, small.name
            assert a < of_kernel(small).batch([((20,) * small.dims, 100.0)])
            if small.dims:
                assert a < of_kernel(small).batch([((40,) * small.dims, 10.0)])


def test_estimates_and_bytes_follow_the_precision() -> None:
    """With instructions for pairs of bf16 a product takes half the time; its weight takes half the bytes anywhere."""
    pairs = Target(name="", features="+avx512bf16,+avx512vl", vector_bits=512, registers=32)
    products = [spec for spec in _specs("tree_lstm", 256) if any(op.op == "matmul" for op in spec.body)]
    seconds, moved = {}, {}
    for precision in ("float32", "bf16"):
        seconds[precision] = sum(of_kernel(s, DEFAULT, pairs, precision).batch([((), 64.0)]) for s in products)
        moved[precision] = sum(account(s, nodes=8, precision=precision).shared for s in products)
    assert 0.4 < seconds["bf16"] / seconds["float32"] < 0.75
    assert 0.5 <= moved["bf16"] / moved["float32"] < 0.6


def test_copies_take_time() -> None:
    """Copying a row was once thought to take none."""
    copies = [spec for spec in _specs("birnn", 256) if {op.op for op in spec.body} <= {"take", "index"}]
    assert copies
    assert all(of_kernel(spec).node() > 20 for spec in copies)


def test_a_fit_finds_the_figures_that_times_were_made_of() -> None:
    rng = np.random.default_rng(0)
    wanted = np.array([getattr(Figures(), name) for name in tune_machine.NAMES])
    counts = np.exp(rng.normal(0, 2, (200, len(wanted))))
    times = counts @ wanted
    known = tune_machine.Counted(counts=counts, first=times, second=times)
    begin = Figures(**{name: x * 1.7 for name, x in zip(tune_machine.NAMES, wanted, strict=True)})
    found = tune_machine.fit(known, begin)
    before, after = (tune_machine._wrong(known, each) for each in (begin, found))
    assert after < 1.05 < before


@pytest.mark.long
def test_a_machine_is_measured() -> None:
    found = tune_machine.measure(models=["birnn"], instances=[1, 4], size=64, rounds=2)
    assert found.kernels == 2 * len(_specs("birnn", 64))
    assert found.before >= 1
    assert found.after >= 1


# ---- the search


def test_what_is_slower_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are given: only a strategy that is faster in fresh turns too is chosen."""
    times = {"default": 1.0, "always faster": 0.8, "faster at first": 0.7, "slower": 1.4}

    def turns(variants: Any, count: int) -> dict[str, list[float]]:
        fresh = count == tune_model._VALIDATE
        each = {**times, "faster at first": 1.01} if fresh else times
        return {v.name: [each.get(v.name, 1.2) * (1 + 1e-3 * (k % 3)) for k in range(count)] for v in variants}

    candidates = {"faster at first": {"rows": 24}, "always faster": {"rows": 96}, "slower": {"rows": 192}}
    monkeypatch.setattr(tune_model, "CANDIDATES", candidates)
    monkeypatch.setattr(tune_model, "turns", turns)
    monkeypatch.setattr(tune_model, "text_of", lambda one, *args: one.name)
    xs, w = [np.ones(4, np.float32)] * 3, np.eye(4, dtype=np.float32)
    small, large = tune_model.tune(doubled, {1: [xs[:1]], 3: [xs]}, {"w": w})
    assert (small.most, small.measured, large.most, large.measured) == (1, 1, None, 3)
    assert (small.name, dict(small.changes)) == ("always faster", {"rows": 96})
    tried = {t.name: t for t in small.tried}
    assert tried["faster at first"].high > 1 > tried["always faster"].high
    assert tried["slower"].ratio == pytest.approx(1.4)
    assert tried["slower"].high is None


@pytest.mark.parametrize("limit", ["_RECORD", "_COMPILE", "_SEARCH"])
def test_a_search_ends_in_time(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What there was no time for is named without a ratio, or not at all."""
    monkeypatch.setattr(tune_model, limit, 0.0)
    monkeypatch.setattr(tune_model, "CANDIDATES", {"larger": {"rows": 96}, "smaller": {"rows": 24}})
    xs, w = [np.ones(4, np.float32)] * 3, np.eye(4, dtype=np.float32)
    (choice,) = tune_model.tune(doubled, {3: [xs]}, {"w": w})
    assert (choice.name, dict(choice.changes)) == ("default", {})
    assert all(t.ratio is None for t in choice.tried)
    assert len(choice.tried) == (0 if limit == "_RECORD" else 2)


def test_of_a_slow_mini_batch_fewer_instances_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune_model, "CANDIDATES", {})
    monkeypatch.setattr(tune_model, "timed", lambda run, clock: (tune_model._LONG * len(run()), None))
    xs, w = [np.ones(4, np.float32)] * 12, np.eye(4, dtype=np.float32)
    one, all_of_them = tune_model.tune(doubled, {1: [xs[:1]], 12: [xs]}, {"w": w})
    assert (one.most, one.measured, all_of_them.most, all_of_them.measured) == (3, 1, None, 1)


@pytest.mark.long
def test_decisions_are_left_out_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The times say that one product should stay in the step, and another in the step of its own loop."""
    monkeypatch.setattr(tune_model, "CANDIDATES", {"not split": {"split": False}})
    faster = {"not split": 1.1}

    def turns(variants: Any, count: int) -> dict[str, list[float]]:
        out = {}
        for v in variants:
            each = 0.9 ** len(v.changes.get("without", ())) * faster.get(v.name, 1.0)
            out[v.name] = [each * (1 + 1e-3 * (k % 3)) for k in range(count)]
        return out

    monkeypatch.setattr(tune_model, "turns", turns)
    p = {"w": np.eye(32, dtype=np.float32), "e": np.ones((300, 32), np.float32)}
    (choice,) = tune_model.tune(hoisting, {2: [[[1, 2, 290], [4]]]}, p)
    moved, split = "moved hoisting", "hoisted hoisting"
    assert [name.rpartition(" ")[0] for name in sorted(choice.changes["without"])] == [split, split, moved]
    assert {t.name.partition(" at ")[0] for t in choice.tried} >= {"not split", "in each step"}
    table = tuned.Table(models={"m": (choice,)})
    assert tuned._table(json.loads(json.dumps(dataclasses.asdict(table)))) == table


def test_any_decisions_may_be_left_out() -> None:
    """The same bits, whatever is left out; many programs were tried."""
    p = {"w": np.eye(32, dtype=np.float32) * 0.7, "e": np.random.default_rng(0).standard_normal((300, 32), np.float32)}
    xs = [[1, 2, 290], [4], [], [7, 7, 8, 1]]
    compiled = hoisting._compiled([xs], p)
    keys = [changes["without"][0] for changes in tune_model.decisions_of(compiled.plan.notes).values()]
    want = tune_model.bits_of(hoisting.batch(xs, **p))
    keys = [key for key in keys if not key.startswith("once")]
    for without in (keys, keys[:1]):
        one = hoisting.with_options(strategy=Strategy(without=tuple(without)))
        assert tune_model.bits_of(one.batch(xs, **p)) == want
        kept = tune_model.decisions_of(one._compiled([xs], p).plan.notes)
        left = {c["without"][0] for c in kept.values()}
        assert not left & set(without) or len(without) < len(keys)  # what others need goes with them
    with pytest.raises(ValueError, match="without"):
        Strategy(without=["hoisted"])  # type: ignore[arg-type]


def test_intervals_hold_what_noise_does() -> None:
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(200):
        a, b = (np.exp(rng.normal(0, 0.1, tune_model._VALIDATE)) for _ in range(2))
        wrong += ratio(a, b).high < 1
    assert wrong <= 12  # of two that are equally fast: one in forty, and luck


# ---- the table


def test_a_table_is_written_read_used_and_removed(own: None) -> None:
    key = tuned.model_key(doubled.__wrapped__)
    choice = tuned.Choice(
        most=2,
        measured=1,
        name="rows",
        changes={"rows": 7},
        tried=(tuned.Tried(name="rows", estimated=1.0, ratio=0.9),),
    )
    last = tuned.Choice(most=None, measured=8, name="default")
    figures = Figures(multiply=0.5)
    tuned.write(tuned.Table(figures=figures, models={key: (choice, last)}))
    assert tuned.read() == tuned.Table(figures=figures, models={key: (choice, last)})
    options = doubled.options
    fn = doubled.__wrapped__
    assert tuned.options_for(fn, options, 2).strategy == Strategy(rows=7, figures=figures)
    assert tuned.options_for(fn, options, 3).strategy == Strategy(figures=figures)
    given = options.replace(strategy=Strategy(rows=9))
    assert tuned.options_for(fn, given, 2) is given
    xs, w = [np.ones(4, np.float32) * k for k in range(3)], np.eye(4, dtype=np.float32)
    want = doubled.with_options(strategy=DEFAULT).batch(xs, w=w).stack()
    assert np.array_equal(doubled.batch(xs, w=w).stack(), want)
    assert np.array_equal(doubled.batch(xs[:2], w=w).stack(), want[:2])
    assert "up to 2 instances" in str(doubled.explain(xs[:2], w=w))
    assert main(["tune", "--remove"]) == 0
    assert tuned.read() == tuned.Table()
    assert tuned.options_for(fn, options, 2) is options


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"figures": {"multiply": -1}}', '{"figures": {"other": 1}}', '{"figures": {"multiply": "1"}}',
     '{"models": {"a": [{"most": 1, "measured": 1, "name": "x", "changes": {"rows": 0}, "tried": []}]}}',
     '{"models": {"a": [{"most": "1", "measured": 1, "name": "x", "changes": {}, "tried": []}]}}',
     '{"models": {"a": [{"most": "", "measured": 1, "name": "x", "changes": {}, "tried": []}]}}',
     '{"models": 3}', "[" * 100_000],
)  # fmt: skip
def test_what_is_no_table_counts_as_none(own: None, text: str) -> None:
    cache.build(tuned.key(), {"tuned.json": text.encode()})
    assert tuned.read() == tuned.Table()


def test_what_two_write_at_once_is_in_the_table(own: None) -> None:
    default = tuned.Choice(most=None, measured=8, name="default")

    def add(name: str) -> None:
        tuned.change(lambda known: dataclasses.replace(known, models={**known.models, name: (default,)}))

    def slowly(known: tuned.Table) -> tuned.Table:
        other.start()
        other.join(0.2)
        assert other.is_alive() and tuned.read() == known
        return dataclasses.replace(known, models={"a": (default,)})

    other = threading.Thread(target=add, args=("b",))
    tuned.change(slowly)
    other.join()
    assert {*tuned.read().models} == {"a", "b"}


def test_a_table_that_others_could_have_written_is_not_read(own: None) -> None:
    tuned.write(tuned.Table(figures=Figures(multiply=0.5)))
    path = cache.directory() / tuned.key() / "tuned.json"
    assert tuned.read().figures is not None
    path.write_text(json.dumps({"figures": dataclasses.asdict(Figures(multiply=0.7))}))
    assert tuned.read() == tuned.Table()  # not what was written
    tuned.write(tuned.Table(figures=Figures(multiply=0.5)))
    os.chmod(path.parent, 0o777)
    assert tuned.read() == tuned.Table()


def test_strategies_reject_what_is_none() -> None:
    for wrong in ({"rows": 0}, {"rows": 4.5}, {"prefetch": 1}, {"unit": True}, {"split_worth": -1.0}, {"figures": {}}):
        with pytest.raises(ValueError, match="cannot be"):
            Strategy(**wrong)
    with pytest.raises(ValueError, match="multiply cannot be"):
        Figures(multiply=float("nan"))


@pytest.mark.long
def test_tune_a_model_of_a_file(own: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    assert main(["tune", f"{path}:walk", "--batch", "2", "12"]) == 0
    text = capsys.readouterr().out
    assert "instances (measured with 2)" in text
    assert "any number of instances (measured with 12)" in text
    assert len(next(iter(tuned.read().models.values()))) == 2
    assert main(["tune", f"{path}:walk", "--batch", "13"]) == 2
    assert main(["tune", "walk"]) == 2
