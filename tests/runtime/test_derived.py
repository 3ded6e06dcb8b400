"""What a device makes of parameters that stay there, the simulator's: values that are made of them alone."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, model, on_device, optim, pack, vjp
from acronumba.bench.workloads import inputs
from acronumba.kernels.cuda.simulator import Simulator
from acronumba_bench.lessons import LESSONS
from tests.support.chosen import one_in
from tests.support.device_runs import counted

FIRST = sorted({*LESSONS} - {"drnn", "stack_rnn"}, key=lambda name: name != "child_sum_lstm")  # these wait for values


@pytest.mark.parametrize("name", one_in(20, FIRST, mark="slow"))
def test_a_step_of_the_zoo_copies_its_inputs_and_the_loss(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Simulator, "launch", lambda *args, **options: None)  # only copies are counted
    lesson = LESSONS[name]
    xs, p = inputs(lesson.workload, 4, 2, None)
    columns, opt = tuple(map(pack, lesson.columns(xs))), optim.SGD(0.1)
    f = lesson.loss.on("simulator").value_and_grad

    def step() -> Any:
        value, grads = f.batch(*columns, p=p)
        opt.update(p, grads)
        return value

    with on_device(p, opt, device="simulator"):
        value = step()
        for _ in range(3):  # places come again
            value = step()
        with counted() as copies:
            value = step()
        assert len(copies["up"]) <= 5 and not copies["down"]  # of both passes, the loss, and the update
        with counted() as copies:
            float(value)
        assert copies == {"up": [], "down": [8]}


@model
def chained(x: Any, k: int, *, w: Any, table: Any, u: Any, b: Any, rate: float, order: Any) -> Any:
    """Values of values, of a number, and of what is not on the device; and cheap ones."""
    both = w @ table
    picked = (np.tanh(both @ u) * rate)[order]
    h = np.tanh(picked @ x[:4]) + (b * 2.0 + b[::-1])
    start = x[:3]
    for _ in range(k):
        start = np.tanh(both @ x + start * h)
    return np.sum(start * np.exp(b)) + np.sum((w * 3.0)[k % 3])


SHAPES = {"w": (3, 4), "table": (4, 5), "u": (5, 4), "b": (3,)}


def weights(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {name: (rng.standard_normal(shape) * 0.5).astype(np.float32) for name, shape in SHAPES.items()}


COLUMNS = [*np.random.default_rng(1).standard_normal((2, 5)).astype(np.float32)], [0, 2]


def run(way: Any) -> list[Any]:
    """Take gradients by two sets of parameters, of which one is updated, with a number and an index that change."""
    sets, order = (weights(2), weights(3)), np.array([2, 0, 1])
    f = vjp(chained if way == "cpu" else chained.on("simulator").with_options(persistent=way))
    home = nullcontext() if way == "cpu" else on_device(*sets, device="simulator")
    found: list[Any] = []

    def gradients(results: Any, pullback: Any) -> dict[str, Any]:
        grads = dict(zip(SHAPES, list(pullback([np.float32(1)] * 2)), strict=False))
        found.extend([*map(float, results), *map(np.asarray, grads.values())])
        return grads

    with home:
        first = f.batch(*COLUMNS, **sets[0], rate=0.7, order=order)
        other = f.batch(*COLUMNS, **sets[1], rate=0.7, order=order)
        gradients(*first)  # after another set has come
        optim.SGD(0.1).update(sets[1], gradients(*other))
        gradients(*f.batch(*COLUMNS, **sets[1], rate=0.7, order=order))  # of the same arrays, anew
        order[:] = 1
        gradients(*f.batch(*COLUMNS, **sets[1], rate=0.5, order=order))
    return found


@pytest.mark.parametrize(
    "way", [None, pytest.param(True, marks=pytest.mark.slow), pytest.param("graph", marks=pytest.mark.long)]
)
def test_values_are_current(way: Any) -> None:
    for mine, theirs in zip(run(way), run("cpu"), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-6)


@model
def looked_up(i: int, *, w, s):
    table = w @ w.T
    return np.sum(np.tanh(table[i] * s) * table[0])


def test_a_pullback_after_an_update_is_rejected() -> None:
    p = {"w": np.eye(3, dtype=np.float32), "s": np.ones(3, np.float32)}
    with on_device(p, device="simulator"):
        _, pull = vjp(looked_up).on("simulator").batch([0, 1], **p)
        optim.SGD(1.0).update(p, {name: np.ones_like(value) for name, value in p.items()})
        with pytest.raises(AcronumbaError, match="has changed since the results were computed"):
            pull([np.float32(1)] * 2)


@model
def of_nothing(i: int, *, p):
    return np.sum((p["table"] @ p["w"])[i] * p["s"])


def test_gradients_of_empty_parameters_are_their_own() -> None:
    p = {"table": np.zeros((5, 0), np.float32), "w": np.zeros((0, 7), np.float32), "s": np.ones(7, np.float32)}
    with on_device(p, device="simulator"):
        grads = of_nothing.on("simulator").value_and_grad.batch([0, 1], p=p).grads
        assert {name: g.shape for name, g in grads.items()} == {name: a.shape for name, a in p.items()}
