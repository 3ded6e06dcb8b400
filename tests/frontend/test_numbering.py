"""Numbers of the host that are computed twice are one: extents go together, and nothing fails later than it did."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba import InstanceErrors, model

r = np.random.default_rng(0)


def same(f: Any, *columns: Any, **shared: Any) -> None:
    for run in (f.batch, f._interpret):
        for got, *xs in zip(run(*columns, **shared), *columns, strict=True):
            np.testing.assert_allclose(got, f(*xs, **shared), rtol=1e-12)


def program(f: Any, *columns: Any, **shared: Any) -> str:
    return str(f.stages(*columns, **shared)["ir"])


ROWS = [r.standard_normal((n, 3)) for n in (1, 2, 5)]


@model
def masked(x):
    n = x.shape[0]
    mask = (1.0 - np.tri(n)) * -1e10
    return (x @ x.T + mask) * np.arange(len(x)) + np.zeros((n, x.shape[0])) + np.arange(n)[:, None]


@model
def shifted(x):
    n = len(x) - 1
    a = np.zeros((n, 3)) + x[1:]
    return a + np.ones((len(x) - 1, 3)) * np.arange(n)[:, None]


def test_extents_that_are_computed_go_together_without_a_check() -> None:
    same(masked, ROWS)
    assert "ShapeMismatch" not in program(masked, ROWS)


def test_the_same_difference_is_one_extent() -> None:
    same(shifted, ROWS[1:])
    assert program(shifted, ROWS[1:]).count("sub n0") <= 2


@model
def arithmetic(n: int, m: int):
    a = n + 0 + (m - 0) * 1 + (n - n) + 0 * m
    b = (n + 3) - 3 + (0 - (0 - m)) + n // 1
    c = max(n, n) + min(m, m) + max(len([n, m]), 0)
    d = [n == n, n != n, n <= n, n < n, n >= n, n > n]
    total = a * 1000 + b * 100 + c
    for k, yes in enumerate(d):
        total = total + (k + 1 if yes else 0)
    return total


def test_identities() -> None:
    numbers = [0, 1, -1, 7, -12]
    same(arithmetic, numbers, [5, -5, 0, 3, 11])


@model
def counters(xs: list[float], k: int):
    total = 0.0
    for i in range(len(xs)):
        j = i
        i = i + 1
        total = total + xs[j] * j + xs[i - 1] * (i + 1 - 1) + xs[-i]
        if j + 1 < len(xs):
            total = total + xs[j + 1] + xs[i]
    for i in range(k, len(xs), 2):
        total = total + xs[i - k] * (i - k)
    return total


def test_counters_of_loops() -> None:
    same(counters, [[1.0, 2.0, 3.0, 4.0], [5.0], []], [1, 0, 3])


@model
def on_two_ways(x, k: int):
    if k > 0:
        n = len(x) - k
        y = np.zeros(n) + x[k:]
    else:
        y = np.zeros(len(x) - k) + 1.0
    n = len(x) - k
    while len(y) < n + 3:
        y = np.append(y, float(n))
        k = k + 1
    return y[: len(x) - k + 2].sum() + (len(x) - k)


def test_ways_that_meet_and_loops_that_change_a_number() -> None:
    same(on_two_ways, list(r.standard_normal((4, 6))), [0, 1, 2, 5])


@model
def fails(n: int, x):
    a = n + 9223372036854775000
    if x[0] > 0:
        return a - 9223372036854775000
    return (n + 9223372036854775000) - n


def test_what_overflows_still_does() -> None:
    xs = [np.ones(1), -np.ones(1)]
    same(fails, [5, 5], xs)
    for run in (fails.batch, fails._interpret):
        with pytest.raises(InstanceErrors) as caught:
            run([5, 5000], xs)
        assert list(caught.value.errors) == [1]
        assert isinstance(caught.value.errors[1], OverflowError)


@model
def checked_once(xs: list[float], i: int):
    return xs[i] + xs[i] * xs[i] - xs[i]


def test_an_index_is_checked_once() -> None:
    same(checked_once, [[1.0, 2.0], [3.0]], [1, -1])
    assert program(checked_once, [[1.0, 2.0]], [1]).count("check ") <= 1 + 3  # the list might have changed between
    with pytest.raises(InstanceErrors) as caught:
        checked_once.batch([[1.0], [1.0]], [0, 1])
    assert list(caught.value.errors) == [1]
