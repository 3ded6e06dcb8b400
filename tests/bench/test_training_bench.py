"""`acronumba bench --train`: what is written by hand computes the same, what is counted, the command line."""

from __future__ import annotations

import importlib.util
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from acronumba import leaves, model
from acronumba.bench import view
from acronumba.bench.agreement import in_float64
from acronumba.bench.by_hand import BY_NUMPY
from acronumba.bench.measure import Quartiles
from acronumba.cli.main import main
from acronumba_bench import training, views
from acronumba_bench.baselines import BY_DYNET, BY_TORCH, TORCH_EACH
from acronumba_bench.baselines import training_numpy as by_hand
from acronumba_bench.lessons import LESSONS
from tests.support.chosen import half

TORCH = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
DYNET = pytest.mark.skipif(importlib.util.find_spec("dynet") is None, reason="needs dyNET38")
KINDS = [
    BY_NUMPY,
    pytest.param(BY_TORCH, marks=TORCH),
    pytest.param(TORCH_EACH, marks=TORCH),
    pytest.param(BY_DYNET, marks=DYNET),
]


def case(name: str, count: int, size: int = 8) -> tuple[Any, Any, tuple[list[Any], ...]]:
    lesson = LESSONS[name]
    xs = list(lesson.workload.instances(count))
    if name == "tree_lstm":
        xs[-1] = type(xs[-1])(word=3)  # a tree that is a leaf
    if name == "birnn":
        xs[-1] = [7]
    return lesson, lesson.workload.params(size), lesson.columns(xs)


@pytest.mark.long
@pytest.mark.parametrize("name", half(LESSONS))
def test_lessons_are_losses(name: str) -> None:
    lesson, p, columns = case(name, 3, 4)
    assert lesson.columns(columns[0]) == columns  # equal labels in every call
    plain = [lesson.loss(*instance, p=p) for instance in zip(*columns, strict=True)]
    value, grads = lesson.loss.value_and_grad.batch(*columns, p=p)
    assert np.isclose(value, np.mean(plain), rtol=1e-5)
    assert any(np.abs(g).max() > 0 for _, g in leaves(grads))


@pytest.mark.parametrize("name", by_hand.TRAINED)
def test_numpy_by_hand_has_the_gradients_of_central_differences(name: str) -> None:
    lesson, p, columns = case(name, 4, 4)
    wide = in_float64(p)
    _, grads = by_hand.TRAINED[name](wide, columns, 0.0).gradients()
    plain = model(lesson.loss.__wrapped__)

    def value() -> float:
        return float(np.mean([plain(*instance, p=wide) for instance in zip(*columns, strict=True)]))

    rng = np.random.default_rng(0)
    for leaf, w in leaves(wide):
        direction = rng.standard_normal(w.shape)
        w += 1e-6 * direction
        above = value()
        w -= 2e-6 * direction
        below = value()
        w += 1e-6 * direction
        assert np.isclose((above - below) / 2e-6, (grads[leaf] * direction).sum(), rtol=1e-6, atol=1e-8), leaf


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", by_hand.TRAINED)
def test_steps_by_hand_do_the_same(name: str, kind: str) -> None:
    _, p, columns = case(name, 6)
    exact = by_hand.TRAINED[name](in_float64(p), columns, 0.1)
    step = training.makers(name)[0][kind](p, columns, 0.1)
    before = [w.copy() for _, w in leaves(p)]
    for _ in range(3):  # the update counts, too
        assert training.error(step.gradients(), exact.gradients()) < 1e-5
        step.run()
        exact.run()
    assert all(map(np.array_equal, before, [w for _, w in leaves(p)]))  # its weights are its own


def test_what_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found, reasons = training.makers("tree_lstm")
    assert set(found) == {BY_NUMPY}
    assert reasons == {
        BY_TORCH: "PyTorch is not installed",
        TORCH_EACH: "PyTorch is not installed",
        BY_DYNET: "DyNet is not installed",
    }
    assert training.makers("mv_rnn") == ({}, {})


def test_wrong_gradients_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    lesson, p, columns = case("tree_lstm", 3)
    good = by_hand.sentiment(p, columns, 0.0).gradients()
    bad = good[0], good[1] | {"b": good[1]["b"] + 1e-3 * np.abs(good[1]["b"]).max()}
    monkeypatch.setattr(training, "_gradients", lambda *_: bad)
    errors, wrong = training._compared(lesson, {training.OURS: p}, columns, {BY_NUMPY: good}, None)
    assert wrong == (training.OURS,)
    assert errors[training.OURS] == pytest.approx(1e-3, rel=0.1)
    assert training.error((good[0], {}), good) == float("inf")


@TORCH
@pytest.mark.parametrize("name", by_hand.TRAINED)
def test_pytorch_has_all_of_a_step_on_the_device_that_it_is_prepared_for(name: str) -> None:
    """The device "meta" computes nothing, and rejects tensors of others; its gradients cannot be a fused update."""
    from acronumba_bench.baselines import by_torch, training_torch

    _lesson, p, columns = case(name, 3)
    here = by_torch.learning(training_torch.TRAINED[name], "cpu")(p, columns, 1e-6)
    here.run()
    with by_torch.on("meta"):
        step = training_torch.TRAINED[name](p, columns, 1e-6)
    with pytest.raises(RuntimeError, match="fused=True"):
        step.run()
    assert training.makers(name, device="simulator")[1] == {BY_TORCH: "PyTorch sees no GPU"}


# --------------------------------------------------------------------------------------------------------- command line


def result(**of: Any) -> training.Steps:
    q = lambda ms: Quartiles(median=ms / 1e3, low=ms / 1e3, high=ms / 1e3)
    seconds = {training.OURS: q(4.0), training.OBJECTS: q(5.0), training.BARE: q(3.5), training.INFERENCE: q(1.0)}
    seconds[training.BURST] = q(2.0)
    row = training.TrainingStep(
        **{
            "workload": "tree_lstm", "size": "small", "instances": 8, "threads": 1,
            "seconds": seconds | {BY_NUMPY: q(6.0)},
            "errors": {}, "wrong": (), "reasons": {BY_DYNET: "DyNet is not installed"}, "joules": {}, "first": 1.0,
            "product_flops": 1000, "burst_flops": 4000, **of,
        }
    )  # fmt: skip
    about = {"processor": "one", "python": "3.11", "numba": "0.61"}
    return training.Steps(rounds=3, threads=1, machine=about, unmeasured=("no RAPL",), rows=(row,))


def shown(steps: training.Steps) -> str:
    console = Console(width=100, file=io.StringIO())
    console.print(views.training_view(steps))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_the_table_has_times_ratios_and_what_is_missing() -> None:
    text = shown(result())
    (row,) = [line.split() for line in text.splitlines() if line.startswith("tree_lstm")]
    assert row == ["tree_lstm", "4.00", "0%", "1.00", "0.50", "3.50", "2.33", "1.50"]
    assert "No DyNet: DyNet is not installed" in text
    assert "Joules: not measurable here (no RAPL)" in text
    measured = shown(result(joules={training.OURS: {"package-0": 0.25}}))
    assert "0.25" in measured and "package-0" in measured and "not measurable" not in measured
    assert "wrong" in shown(result(wrong=(BY_NUMPY,)))
    assert view.numbers(result())["rows"][0]["seconds"][BY_NUMPY]["median"] == 0.006


@pytest.mark.slow
def test_the_command_measures_training(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    given = ["bench", "--train", "--models", "tree_lstm", "mv_rnn", "--size", "8", "--batch", "3", "--rounds", "2"]
    assert main([*given, "--json", str(tmp_path / "steps.json")]) == 0
    told = json.loads((tmp_path / "steps.json").read_text())
    assert [row["workload"] for row in told["rows"]] == ["tree_lstm", "mv_rnn"]
    for row in told["rows"]:
        assert row["wrong"] == [] and max(row["errors"].values()) < 1e-5
        assert row["seconds"][training.INFERENCE]["median"] < row["seconds"][training.OURS]["median"]
    assert BY_NUMPY in told["rows"][0]["seconds"] and BY_NUMPY not in told["rows"][1]["seconds"]
    out = capfd.readouterr().out
    assert "a training step: size 8, 3 instances" in out


def test_wrong_usage_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--train", "--models", "moe"]) == 2
    assert "no model 'moe'; there are: tree_lstm, birnn" in capsys.readouterr().err
    assert main(["bench", "--train", "--models", "list"]) == 0
    assert capsys.readouterr().out.split()[0] == "tree_lstm"
    assert main(["bench", "--train", "--device", "simulator"]) == 2
    with pytest.raises(SystemExit):
        main(["bench", "--train", "--ablate"])
