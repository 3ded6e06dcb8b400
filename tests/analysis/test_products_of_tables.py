"""Products of rows of small shared tables are rows of products of whole tables: same bits, same errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba import InstanceErrors, model
from acronumba.strategy import DEFAULT
from tests.support.chosen import one_in, squares

r = np.random.default_rng(0)
SMALL, LARGE = (r.standard_normal((n, 20)).astype(np.float32) for n in (7, DEFAULT.table_rows + 1))
W, B = r.standard_normal((30, 20)).astype(np.float32), r.standard_normal(30).astype(np.float32)
PICK = r.standard_normal((7, 20)).astype(np.float32)


@model
def left(k, *, t, w, b):
    return w @ t[k]


@model
def right(k, *, t, w, b):
    return t[k] @ w.T


@model
def with_tail(k, *, t, w, b):
    return np.tanh(w @ t[k] + b) * 2


@model
def before(k, *, t, w, b):
    x = t[k]
    return w @ np.tanh(x * x)


@model
def twice(k, *, t, w, b):
    return (w @ t[k]) @ w


@model
def in_a_loop(k, *, t, w, b):
    h = w[:, 0]
    for i in range(k):
        h = np.tanh(h + w @ t[i] + b)
    return h


@model
def computed(k, *, t, w, b):
    score = w[:7] @ t[k]
    return w @ t[np.argmax(score)] + b


@model
def of_two_rows(k, *, t, w, b):
    return w @ (t[k] + t[(k + 1) % 7])


@model
def negative(k, *, t, w, b):
    return w @ t[k - 7]


MODELS = [left, right, with_tail, before, twice, in_a_loop, computed, of_two_rows, negative]
TABLES = dict.fromkeys([f.__name__ for f in MODELS], 1) | {"twice": 2, "computed": 2, "of_two_rows": 0}


OPTIONS: list[dict[str, Any]] = [{"hoist": False}, {"blocks": False}, {"fuse": False}, {"schedule": "agenda"}]
KS = [int(k) for k in r.integers(7, size=25)]


def weights(dtype: str) -> dict[str, np.ndarray]:
    return {"t": SMALL.astype(dtype), "w": W.astype(dtype), "b": B.astype(dtype)}


@pytest.mark.parametrize("f", one_in(4, MODELS), ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_results_are_near(f: Any, dtype: str) -> None:
    assert f.check(KS, **weights(dtype)).ok


@pytest.mark.parametrize(
    ("f", "dtype", "options"),
    one_in(4, squares(MODELS, ["float32", "float64"], OPTIONS)),
    ids=lambda x: getattr(x, "__name__", str(x)),
)
def test_the_bits_are_those_without(f: Any, dtype: str, options: dict[str, Any]) -> None:
    shared = weights(dtype)
    for a, b in zip(f.batch(KS, **shared), f.with_options(**options).batch(KS, **shared), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("f", MODELS, ids=lambda f: f.__name__)
def test_which_are_looked_up(f: Any) -> None:
    def tables(t: np.ndarray) -> int:
        return sum(" @ " in line for line in str(f.stages([0], t=t, w=W, b=B)["once"]).splitlines())

    assert tables(SMALL) == TABLES[f.__name__]
    assert tables(LARGE) == 0


def test_new_weights_make_a_new_table() -> None:
    w = W.copy()
    before_ = with_tail.batch([1, 2], t=SMALL, w=w, b=B).stack()
    w *= 2
    after = with_tail.batch([1, 2], t=SMALL, w=w, b=B).stack()
    assert not np.array_equal(before_, after)
    np.testing.assert_array_equal(after, with_tail.batch([1, 2], t=SMALL, w=w.copy(), b=B).stack())


def test_a_wrong_index_is_its_instances_error() -> None:
    with pytest.raises(InstanceErrors) as failed:
        left.batch([0, 7, -8, 3], t=SMALL, w=W, b=B)
    assert {k: str(e) for k, e in failed.value.errors.items()} == {
        1: "index 7 is out of bounds for axis 0 with size 7",
        2: "index -8 is out of bounds for axis 0 with size 7",
    }
    assert [x is not None for x in failed.value.results] == [True, False, False, True]


def test_nothing_that_is_not_finite_spreads() -> None:
    t = SMALL.copy()
    t[3] = np.nan
    w = W.copy()
    w[4, 4] = np.inf
    got = left.batch([0, 3, 1], t=t, w=w, b=B)
    for k, x in zip([0, 3, 1], got, strict=True):
        np.testing.assert_array_equal(np.isfinite(x), np.isfinite(w @ t[k]))
