"""Loops that can be watched, stopped and resumed."""

from __future__ import annotations

import io
import re
import sys
import types
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from acronumba import optim, pack, training
from acronumba.errors import ShapeMismatch, TypeMismatch
from acronumba.views.curves import Line, Panel, curves_svg, curves_text, ticks
from acronumba.views.learning import Bar

DATA = np.random.default_rng(5).standard_normal((64, 3))
TRUE = np.array([1.0, -2.0, 0.5])
GENERATORS = [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64]


def start(seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {"cells": [{"w": random.standard_normal(3)}], "b": random.standard_normal(1).astype(np.float32)}


def train(params: Any, opt: optim.Optimiser, watch: training.Watch, rng: np.random.Generator, until: int) -> None:
    """A line through noise; what is drawn decides the mini-batches and the noise."""
    w, b = params["cells"][0]["w"], params["b"]
    with watch:
        while not watch.over and watch.step < until:
            x = DATA[rng.choice(len(DATA), 8)]
            off = x @ w + b - x @ TRUE - rng.standard_normal(8) * 0.1
            opt.update(params, {"cells": [{"w": x.T @ off / 8}], "b": np.array([off.mean()], np.float32)})
            watch.took(np.square(off).mean(), instances=8)
            if watch.step % 5 == 0:
                watch.tested(np.abs(w - TRUE).max())


def watching(steps: int = 20, **how: Any) -> training.Watch:
    return training.Watch(steps, measure="off by", lower=True, show=False, **how)


@pytest.mark.parametrize("generator", GENERATORS, ids=lambda g: g.__name__)
@pytest.mark.parametrize(
    "opt",
    [lambda: optim.SGD(0.1), lambda: optim.SGD(0.1, momentum=0.9), lambda: optim.Adam(0.1), lambda: optim.AdamW(0.1)],
)
def test_a_resumed_loop_has_the_same_bits(tmp_path: Path, opt: Any, generator: Any) -> None:
    whole, one, watch, rng = start(), opt(), watching(), np.random.Generator(generator(7))
    train(whole, one, watch, rng, 20)

    half, other, half_watch, half_rng = start(), opt(), watching(), np.random.Generator(generator(7))
    train(half, other, half_watch, half_rng, 11)
    path = tmp_path / "there.safetensors"
    training.checkpoint(path, half, other, half_watch, half_rng)

    again, new, again_watch, again_rng = start(9), opt(), watching(), np.random.Generator(generator(1))
    array = again["cells"][0]["w"]
    training.resume(path, again, new, again_watch, again_rng)
    assert again["cells"][0]["w"] is array  # in place: what else holds it sees it
    assert (again_watch.step, again_watch.tests) == (11, half_watch.tests)
    train(again, new, again_watch, again_rng, 20)

    assert np.array_equal(array, whole["cells"][0]["w"]) and np.array_equal(again["b"], whole["b"])
    assert again_watch.losses == watch.losses and again_watch.tests == watch.tests
    assert again_rng.random() == rng.random()


def test_a_checkpoint_before_the_first_step(tmp_path: Path) -> None:
    path = tmp_path / "there"
    training.checkpoint(path, start(), optim.Adam(), watching(), np.random.default_rng(3))
    params, watch, rng = start(4), watching(), np.random.default_rng(4)
    training.resume(path, params, optim.Adam(), watch, rng)
    assert np.array_equal(params["b"], start()["b"])
    assert watch.step == 0 and watch.best is None
    assert rng.random() == np.random.default_rng(3).random()


def test_what_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "there"
    params, rng = start(), np.random.default_rng(3)
    train(params, one := optim.Adam(), watch := watching(), rng, 3)
    training.checkpoint(path, params, one, watch, rng)

    def rejected(error: type[Exception], there: Any, opt: optim.Optimiser, other: Any) -> str:
        new, before = watching(), [a.copy() for a in there.values() if isinstance(a, np.ndarray)]
        drawn = np.random.Generator(type(other.bit_generator)(1)).random()
        with pytest.raises(error) as found:
            training.resume(path, there, opt, new, other)
        assert new.step == 0 and opt.state == {} and other.random() == drawn
        assert all(map(np.array_equal, before, [a for a in there.values() if isinstance(a, np.ndarray)]))
        return str(found.value)

    assert "opt.square" in rejected(TypeMismatch, start(), optim.SGD(0.1), np.random.default_rng(1))
    larger = {"cells": [{"w": np.zeros(4)}], "b": np.zeros(1, np.float32)}
    assert "float64[3], expected float64[4]" in rejected(ShapeMismatch, larger, optim.Adam(), np.random.default_rng(1))
    other = np.random.Generator(np.random.MT19937(1))
    assert "rng.PCG64" in rejected(TypeMismatch, start(), optim.Adam(), other)
    with pytest.raises(FileNotFoundError):
        training.resume(tmp_path / "nowhere", params, one, watch, rng)
    path.write_bytes(b"damaged")
    rejected(TypeMismatch, start(), optim.Adam(), np.random.default_rng(1))


def test_arguments_in_another_order_are_told(tmp_path: Path) -> None:
    params, opt, watch, rng = start(), optim.Adam(), watching(), np.random.default_rng(1)
    for wrong, why in (
        ((params, watch, opt, rng), "opt must be an Optimiser, not Watch"),
        ((params, opt, watch, np.random.RandomState(1)), "rng must be a Generator, not RandomState"),
    ):
        for use in (training.checkpoint, training.resume):
            with pytest.raises(TypeError, match=why):
                use(tmp_path / "there", *wrong)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        training.checkpoint(tmp_path / "nowhere" / "there", params, opt, watch, rng)


def test_it_is_over_when_nothing_better_is_found() -> None:
    watch = training.Watch(100, patience=2, show=False)
    found = []
    for value in (0.1, 0.3, float("nan"), 0.3, 0.9):
        if watch.over:
            break
        watch.took(1.0, 1)
        found.append(watch.tested(value))
    assert found == [True, True, False, False]
    assert watch.best == (2, 0.3)
    lower = training.Watch(3, patience=1, lower=True, show=False)
    for value in (3.0, 2.0, 1.0):
        lower.took(1.0, 1)
        assert lower.tested(value)
    assert lower.over


def test_never_better_than_nan_is_over_too() -> None:
    watch = training.Watch(100, patience=2, show=False)
    for _ in range(2):
        assert not watch.over
        watch.took(1.0, 1)
        assert not watch.tested(float("nan"))
    assert watch.over and watch.best is None


def test_a_loss_that_is_not_finite_ends_the_loop(capsys: pytest.CaptureFixture[str]) -> None:
    for loss in (float("nan"), float("inf")):
        watch = training.Watch(100)
        watch.took(1.0, 1)
        assert not watch.over
        watch.took(loss, 1)
        assert watch.over
        assert f"step     2   the loss is {loss}: `loss.find_nan`" in capsys.readouterr().out


def test_a_notebook_shows_the_curves_while_they_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    class Handle:
        def __init__(self, shown: Any) -> None:
            self.update(shown)

        def update(self, shown: Any) -> None:
            seen.append(shown._repr_mimebundle_()["text/html"])

    display = types.SimpleNamespace(display=lambda shown, display_id: Handle(shown))
    monkeypatch.setitem(
        sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace(kernel=1))
    )
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    with training.Watch(100) as watch:
        for k in range(100):
            watch.took(1 / (k + 1), 8)
    assert len(seen) == 3 and len(set(seen)) == 3  # none, the first, all
    assert all(page.startswith("<svg ") for page in seen) and "100" in seen[-1]
    with training.Watch(1, show=False) as watch:
        watch.took(1.0, 8)
    assert len(seen) == 3


def test_lines_are_printed_and_say_nothing_of_time(capsys: pytest.CaptureFixture[str]) -> None:
    watch = training.Watch(4, measure="accuracy")
    with watch:
        for _ in range(4):
            watch.took(1 / (1 + watch.step), 8)
            if watch.step % 2 == 0:
                watch.tested(watch.step / 10)
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        "step     2   loss 0.75     accuracy 0.2",
        "step     4   loss 0.2917   accuracy 0.4",
    ]
    assert captured.err == ""


def test_a_terminal_has_a_bar() -> None:
    out = io.StringIO()
    watch = training.Watch(1000, measure="trees right")
    watch.losses, watch.tests = [1.0] * 500, [(500, 0.1234567)]
    watch._bar = Bar(1000, Console(file=out, force_terminal=True, width=80))
    with watch:
        watch.took(0.00123456, instances=1)
        watch.took(0.00123456, instances=1)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue())
    assert re.search(r"502/1000 loss 0.00123  trees right 0.123  [\d,]+/s ", text), text
    assert "…" not in text
    quiet = io.StringIO()
    bar = Bar(10, Console(file=quiet))
    bar.start(0)
    bar.show(1, "x")
    bar.stop()
    assert quiet.getvalue() == ""


def test_curves_in_plain_characters() -> None:
    falling = Line(name="training", x=range(1, 21), y=[1 / k for k in range(1, 21)])
    text = curves_text([Panel(title="loss", lines=[falling])], width=40, height=5)
    assert text.splitlines() == [
        "loss",
        "   1 |*",
        "     | *",
        "     |  *",
        "     |   *****",
        "0.05 |        *************************",
        "     +---------------------------------",
        "      1                              20",
    ]
    both = curves_text(
        [Panel(title="loss", lines=[falling, Line(name="torch", x=[1, 9, 20], y=[0.5, float("nan"), 0.1])])]
    )
    assert "* training   o torch" in both and "|o  " in both
    assert "nothing to draw" in curves_text([Panel(title="loss", lines=[])])
    gap = Line(name="", x=range(5), y=[1, 1, float("nan"), 1, 1])
    assert "**" + " " * 4 in curves_text([Panel(title="gap", lines=[gap])], width=20).splitlines()[1]
    assert curves_svg([Panel(title="gap", lines=[gap])]).count("<polyline") == 2
    assert curves_text([Panel(title="one", lines=[Line(name="", x=[3], y=[2.0])])])


def test_curves_as_svg(tmp_path: Path) -> None:
    watch = watching()
    train(start(), optim.Adam(0.1), watch, np.random.default_rng(1), 20)
    watch.plot(tmp_path / "loss.svg")
    root = ET.fromstring((tmp_path / "loss.svg").read_text())
    lines = root.findall(".//{*}polyline")
    assert [len(line.attrib["points"].split()) for line in lines] == [20, 4]
    titles = [text.text for text in root.findall(".//{*}text[@font-weight='bold']")]
    assert titles == ["loss", "off by"]
    assert "a &lt; b" in curves_svg([Panel(title="a < b", lines=[Line(name="&", x=[1], y=[1.0])])])


@pytest.mark.parametrize(
    ("low", "high"), [(1, 120), (0, 1), (0.325, 2.29), (0.633, 0.744), (-3, 5), (1e-9, 2e-9), (3, 3.00001), (0, 1e12)]
)
def test_ticks_are_few_and_round(low: float, high: float) -> None:
    found = ticks(low, high)
    assert 2 <= len(found) <= 7 and low <= found[0] and found[-1] <= high
    steps = np.diff(found)
    np.testing.assert_allclose(steps, steps[0], rtol=1e-4)


def test_epochs_draw_each_instance_once_and_continue_where_a_loop_ended() -> None:
    xs, ys = pack([float(k) for k in range(10)]), np.arange(10)

    def drawn(start: int = 0) -> list[tuple[list[float], list[int]]]:
        draws = training.Epochs(xs, ys, batch=4, epochs=3, seed=5, start=start)
        found = [(list(some), numbers.tolist()) for some, numbers in draws]
        assert len(found) == len(draws)
        return found

    whole = drawn()
    assert [len(some) for some, _ in whole] == [4, 4, 2] * 3
    assert all(some == numbers for some, numbers in whole)
    epochs = [[k for _, numbers in whole[e : e + 3] for k in numbers] for e in (0, 3, 6)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs) and epochs[0] != epochs[1] != epochs[2]
    assert all(drawn(start) == whole[start:] for start in (1, 3, 5, 9, 12))
    (once,) = training.Epochs(xs, batch=10)
    assert sorted(once) == list(xs) != list(once)
    assert list(training.Epochs(xs[:0], batch=3)) == []
    with pytest.raises(ValueError, match="3, 2 instances"):
        training.Epochs([1, 2, 3], [1, 2], batch=1)
    with pytest.raises(ValueError, match="at least 1"):
        training.Epochs([1], batch=0)


def test_a_watch_without_tests_ends_with_the_loss_and_tells_of_a_nan_once(capsys: pytest.CaptureFixture[str]) -> None:
    with training.Watch(steps=4) as watch:
        for loss in (1.0, 3.0):
            watch.took(loss, instances=1)
    assert capsys.readouterr().out == "step     2   loss 2\n"
    with training.Watch(steps=4) as watch:
        watch.took(1.0, instances=1)
        watch.tested(0.5)
    assert capsys.readouterr().out.count("\n") == 1
    with training.Watch(steps=4) as watch:
        for _ in range(3):
            watch.took(float("nan"), instances=1)
    assert watch.over and capsys.readouterr().out.count("find_nan") == 1
