"""Attention under masks as people write them: only the columns that a mask of places leaves are computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from acronumba import model, nn
from acronumba.api.dispatch import bind, specialise
from acronumba.emit.target import host
from acronumba.kernels.stages.order import plan_stages
from acronumba.kernels.stages.tasks import RowStage
from tests.support.chosen import one_in


def attended(hidden: Callable[[Any, int, Any, Any], Any]) -> Any:
    """Return a model of attention of rows to themselves whose scores a function hides."""

    def f(x: Any) -> Any:
        n = x.shape[0]
        i, j = np.arange(n)[:, None], np.arange(n)
        return nn.softmax(hidden(x @ x.T, n, i, j)) @ x

    return model(f)


def not_later(s: Any, n: int, i: Any, j: Any) -> Any:
    return np.where(~(j > i), s, -1e9)


def later_first(s: Any, n: int, i: Any, j: Any) -> Any:
    return np.where(j > i, -1e9, s)


def lower_is_zero(s: Any, n: int, i: Any, j: Any) -> Any:
    return np.where(np.tril(np.ones((n, n))) == 0, -1e9, s)


def upper_of_ones(s: Any, n: int, i: Any, j: Any) -> Any:
    return np.where(np.triu(np.ones((n, n)), 1).astype(bool), -np.inf, s)


def upper_of_truths(s: Any, n: int, i: Any, j: Any) -> Any:
    return np.where(np.triu(np.ones((n, n), dtype=bool), k=1), -1e9, s)


def triangle(s: Any, n: int, i: Any, j: Any) -> Any:
    return np.where(np.tri(n) > 0, s, -1e9)


def no_triangle(s: Any, n: int, i: Any, j: Any) -> Any:
    return np.where(np.logical_not(np.tri(n, dtype=bool)), -1e9, s)


def one_of_two(s: Any, n: int, i: Any, j: Any) -> Any:
    return np.where((j > i) | (j < i - 5), -1e9, s)


def every_row_hidden(s: Any, n: int, i: Any, j: Any) -> Any:
    return np.where(j >= i + n, s, -3.0)


# What looks like a mask of places and is none, or another one.


def two_is_true(s: Any, n: int, i: Any, j: Any) -> Any:
    return np.where((np.tri(n) * 2).astype(bool) == 1, s, -1e9)


def never_equal(s: Any, n: int, i: Any, j: Any) -> Any:
    return np.where(np.where(j > i, 1.0, 0.0) == 2, -1e9, s)


def wraps(s: Any, n: int, i: Any, j: Any) -> Any:
    return np.where(np.where(j > i, 256, 1).astype(np.int8) == 0, -1e9, s)


def either(s: Any, n: int, i: Any, j: Any) -> Any:
    return np.where((j <= i) | (j > i + 3), s, -1e9)


def not_both(s: Any, n: int, i: Any, j: Any) -> Any:
    return np.where(~((j <= i) & (j > i - 3)), s, -1e9)


def added(s: Any, n: int, i: Any, j: Any) -> Any:
    return s + (1 - np.tri(n)) * -1e10


BANDS = (
    not_later, later_first, lower_is_zero, upper_of_ones, upper_of_truths, triangle, no_triangle, one_of_two,
    every_row_hidden,
)  # fmt: skip
OTHERS = (two_is_true, never_equal, wraps, either, not_both, added)


CASES = [*BANDS, *OTHERS]


@pytest.mark.parametrize("hidden", one_in(3, CASES, [f.__name__ for f in CASES]))
def test_masks(hidden: Any) -> None:
    f = attended(hidden)
    rng = np.random.default_rng(0)
    xs = [rng.standard_normal((n, 16)).astype(np.float32) for n in (3, 40, 70, 1)]
    compiled = specialise(f, bind(f, (xs,), {}))[0]
    stages = [s for spec in compiled.plan.kernels for s in plan_stages(spec, host()).stages]
    (tiles,) = [s for s in stages if isinstance(s, RowStage) and s.lead]
    if hidden in BANDS or hidden in (two_is_true, wraps):
        assert (tiles.band is not None) == (hidden in BANDS)
    for x, found in zip(xs, f.batch(xs), strict=True):
        assert np.allclose(found, f(x), rtol=1e-5, atol=1e-5)


@model
def products_that_underflow(x: Any, y: Any) -> Any:
    i, j = np.arange(len(x))[:, None], np.arange(len(x))
    return np.where(j <= i, x @ x.T, 0.0) @ y


@pytest.mark.parametrize("negative", one_in(2, [17, 33]))
def test_the_sign_of_a_zero_does_not_depend_on_company(negative: int) -> None:
    """Terms beyond a band would make -0 to +0, and tiles of other heights leave others out."""
    x, y = np.full((700, 8), 1e-12, np.float32), np.full((700, 8), 1e-30, np.float32)
    y[:negative] *= -1
    f = products_that_underflow.with_options(threads=2)
    alone, among = (f.batch([x] * n, [y] * n)[0] for n in (1, 9))
    assert alone.tobytes() == among.tobytes()
