"""`find_nan` names the line that makes the first NaN, and what the line reads."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from acronumba import model

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def unit(v):
    length = np.sqrt((v * v).sum())
    return v / length


def encode(t, p):
    if isinstance(t, int):
        return p["embed"][t]
    left, right = t
    return unit(np.tanh(p["w"] @ np.concatenate([encode(left, p), encode(right, p)])))


@model
def total(t, *, p):
    h = encode(t, p)
    return h.sum()


@model
def written(x):
    logs = np.log(x)
    out = np.zeros(3)
    for i in range(3):
        out[i] = logs[i]
    scaled = [0.0 * v for v in out]
    return scaled


TREES = [(1, 2), ((3, 3), 1), (0, 3)]


def weights():
    rng = np.random.default_rng(0)
    embed, w = rng.normal(size=(5, 4)), rng.normal(size=(4, 8))
    embed[3] = 0.0
    return {"embed": embed, "w": w}


def line_of(fn, text):
    lines, first = inspect.getsourcelines(fn)
    return first + next(k for k, line in enumerate(lines) if text in line)


def test_the_line_of_a_helper_in_a_recursion():
    found = total.find_nan(TREES, p=weights())
    assert (found.instance, found.function, found.line) == (1, "unit", line_of(unit, "return v / length"))
    assert found.values == {
        "v": "float64[4], 0 to 0", "length": "np.float64(0.0)", "the result": "float64[4], 4 of 4 are NaN"
    }  # fmt: skip
    assert str(found).splitlines()[:2] == [f"instance 1: test_nan.py:{found.line}, in unit", "    return v / length"]


def test_an_argument_that_is_not_finite():
    p = weights()
    p["w"][2, 3] = np.nan
    found = total.find_nan(TREES, p=p)
    assert found.line == 0 and list(found.values) == ["p['w']"]
    assert "1 of 32 are NaN" in found.values["p['w']"] and "an argument is not finite" in str(found)


def test_a_comprehension_over_an_array_that_was_written_to():
    found = written.find_nan([np.ones(3), np.array([1.0, 0.0, 2.0])])
    assert (found.instance, found.line) == (1, line_of(written.__wrapped__, "0.0 * v"))
    assert found.values == {"out": "float64[3], -inf to 0.6931", "scaled[1]": "np.float64(nan)"}


def test_an_infinity_is_found_if_nothing_is_nan():
    infinite = model(lambda x: np.log(x))
    found = infinite.find_nan([np.ones(2), np.zeros(2)])
    assert found.instance == 1 and found.values["the result"] == "float64[2], -inf to -inf"


def test_finite_results_and_no_instances():
    p = weights()
    assert total.find_nan(TREES[:1], p=p) is None
    assert total.find_nan([], p=p) is None


@model
def masked(x, *, w):
    scores = np.log(w @ x)
    return np.sum(
        scores
        * 0
    )  # fmt: skip


def test_the_infinity_that_the_line_reads():
    w = np.eye(3, dtype=np.float32)
    found = masked.find_nan(np.float32([[1, 2, 3], [1, 0, 2]]), w=w)
    assert found.infinity.line == line_of(masked, "np.log") and found.infinity.infinity is None
    text = str(found)
    assert (
        "in masked\n    return np.sum(\n        scores\n        * 0\n    )" in text
        and "  scores: float32[3], -inf to" in text
    )
    first = text.index("the first infinity: test_nan.py:")
    assert "    scores = np.log(w @ x)\n  w: float32[3, 3]" in text[first:]
