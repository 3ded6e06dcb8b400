"""Gradients where a mask leaves elements out: those take no part, whatever the function would make of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba import value_and_grad
from tests.support import masked_gradients

BOUND = 1e-7  # central differences of functions of size 1 are right to some 1e-9


@pytest.mark.parametrize(("number", "ways"), [(0, ("batch", "tape")), *((k, ("tape",)) for k in range(1, 12))])
def test_random_masked_programs(number: int, ways: tuple[str, ...], tmp_path: Path) -> None:
    assert masked_gradients.largest_error(number, tmp_path, ways) < BOUND, masked_gradients.program(number)


@pytest.mark.parametrize("ten", [pytest.param(k, marks=pytest.mark.slow) for k in range(20)])
def test_ten_more_of_them(ten: int, tmp_path: Path) -> None:
    errors = {k: masked_gradients.largest_error(k, tmp_path) for k in range(10 * ten, 10 * ten + 10)}
    assert max(errors.values()) < BOUND, errors


def grads(f: Callable[[Any], Any], x: Any) -> list[Any]:
    """Return the gradient by compiled code and by the tape."""
    grad = value_and_grad(f, wrt="x")
    return [np.asarray(grad.batch([x]).grads[0]), np.asarray(grad(x).grads)]


def norm(x: Any) -> Any:
    return np.linalg.norm(x)


def norm_of_third_powers(x: Any) -> Any:
    return np.linalg.norm(x, 3)


def norms_of_rows(x: Any) -> Any:
    return np.sum(np.linalg.norm(np.stack([x, 2 * x]), axis=1))


def std(x: Any) -> Any:
    return np.std(x)


def std_without_nan(x: Any) -> Any:
    return np.nanstd(x)


def hypot(x: Any) -> Any:
    return np.sum(np.hypot(x, 2 * x))


def angle(x: Any) -> Any:
    return np.sum(np.arctan2(x, 3 * x))


def cube_root(x: Any) -> Any:
    return np.sum(np.cbrt(x))


@pytest.mark.parametrize(
    "f", [norm, norm_of_third_powers, norms_of_rows, std, std_without_nan, hypot, angle, cube_root],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_there_is_no_nan_at_zero(f: Callable[[Any], Any]) -> None:
    for mine in grads(f, np.zeros(3)):
        assert mine.tolist() == [0.0] * 3
    x = np.array([0.5, -1.0, 2.0])
    steps = 1e-6 * np.eye(3)
    wanted = [(f(x + h) - f(x - h)) / 2e-6 for h in steps]
    for mine in grads(f, x):
        np.testing.assert_allclose(mine, wanted, atol=1e-8)


def no_probability(x: Any) -> Any:
    never = np.full(3, -np.inf)
    return np.sum(np.logaddexp(np.logaddexp(never, never), x)) + np.logaddexp(np.logaddexp.reduce(never), x[0])


def remainder_of_nothing(x: Any) -> Any:
    return np.sum(np.fmod(x, 3.0)) + np.modf(x)[0].sum()


def where_of_both_sides(x: Any) -> Any:
    return np.sum(np.where(x > 0, np.log(np.where(x > 0, x, 1)), 0))


def test_other_functions_at_the_ends_of_their_domains() -> None:
    for mine in grads(no_probability, np.array([0.5, -1.0, 2.0])):
        assert mine.tolist() == [2.0, 1.0, 1.0]
    for mine in grads(remainder_of_nothing, np.array([0.0, 0.5, -0.25])):
        assert mine.tolist() == [2.0] * 3
    for mine in grads(where_of_both_sides, np.array([0.0, -2.0, 4.0])):
        assert mine.tolist() == [0.0, 0.0, 0.25]


def chosen_by_nothing(x: Any) -> Any:
    a = x * np.array([1, 2, 3])
    n = np.zeros(3, np.int64)
    n[n > 5] **= -1  # of integers: fails where it is computed
    a[x > 100] /= 0.0
    a[x > 100] **= np.inf
    return np.sum(a + n)


def test_nothing_fails_where_nothing_is_chosen() -> None:
    for mine in grads(chosen_by_nothing, np.array([1.0, 0.0, -2.0])):
        assert mine.tolist() == [1.0, 2.0, 3.0]
