"""`Trace.lines`: the time of each source line."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from acronumba import model, nn
from acronumba.api.trace import Trace


def layer(w, x):
    return np.tanh(w @ x)


@model(threads=1)
def loss(xs: list[np.ndarray], k: int, *, w: np.ndarray) -> float:
    h = np.zeros(8, np.float32)
    for x in xs:
        h = layer(w, h) + layer(w, x)
    if float(h[0]) > 0:
        h = layer(w, h)
    return nn.cross_entropy(h, k)


RNG = np.random.default_rng(0)
W = RNG.standard_normal((8, 8)).astype(np.float32)
XS = [list(RNG.standard_normal((n, 8)).astype(np.float32)) for n in (1, 3, 2)]
TEXT = Path(__file__).read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("back", [False, True])
def test_times_of_lines_are_those_of_batches(back: bool) -> None:
    trace: Trace = (loss.value_and_grad if back else loss).trace(XS, [0, 1, 2], w=W)
    lines = trace.lines()
    assert sum(t.forward for t in lines) == pytest.approx(sum(b.seconds or 0 for b in trace.batches))
    kernels = [b for b in trace.back if b.what == "nodes"]
    assert sum(t.backward for t in lines) == pytest.approx(sum(b.seconds or 0 for b in kernels))
    assert (sum(t.backward for t in lines) > 0) == back
    assert all(b.seconds is not None for b in kernels)
    times = [t.forward + t.backward for t in lines]
    assert times == sorted(times, reverse=True)
    for t in lines:
        assert t.file == __file__ and t.text == TEXT[t.line - 1].strip()
    assert "return np.tanh(w @ x)" in {t.text for t in lines}
    assert ("backward" in str(lines).splitlines()[1]) == back and lines[0].text in str(lines)
    assert "<table>" in lines._repr_mimebundle_()["text/html"]


def test_a_trace_that_was_pickled_has_its_lines() -> None:
    trace = loss.value_and_grad.trace(XS, [0, 1, 2], w=W)
    again = pickle.loads(pickle.dumps(trace)).lines()
    assert sum(t.backward for t in again) == pytest.approx(sum(t.backward for t in trace.lines()))


def test_the_backward_pass_is_measured_for_traces_alone() -> None:
    before = loss.value_and_grad.batch(XS, [0, 1, 2], w=W)
    loss.value_and_grad.trace(XS, [0, 1, 2], w=W)
    after = loss.value_and_grad.batch(XS, [0, 1, 2], w=W)
    assert np.array_equal(before.grads, after.grads)
