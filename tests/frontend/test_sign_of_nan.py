"""Where the sign of a NaN becomes a value it is plus: which sign a NaN has, no standard says."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from acronumba import model

NAN = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0, 2.0])


@model
def signs(x):
    with np.errstate(invalid="ignore"):
        made = x - x, x * 0, np.sqrt(x - 3)
    return np.signbit(x), np.copysign(x.dtype.type(3), x), *map(np.signbit, made)


@model
def numbers(x):
    a, b = float(x[0]), float(x[1])
    return (
        math.copysign(2.0, a),
        math.copysign(2.0, b),
        math.copysign(2.0, float(x[2]) - float(x[2])),
        math.copysign(a, -1.0),
    )


def interpreted(f: Any, xs: Any) -> Any:
    return f._interpret(xs)


def compiled(f: Any, xs: Any) -> Any:
    return f.batch(xs)


def simulated(f: Any, xs: Any) -> Any:
    return f.on("simulator").batch(xs)


@pytest.mark.parametrize("way", [interpreted, compiled, simulated])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [1, 33])
def test_nan_counts_as_positive(way: Callable[..., Any], dtype: str, count: int) -> None:
    for found, three, *made in way(signs, [NAN.astype(dtype)] * count):
        assert found.tolist() == [False, False, False, True, True, False]
        assert three.tolist() == [3, 3, 3, -3, -3, 3] and three.dtype == dtype
        no, zeros = [False] * 6, [False, False, False, False, True, False]
        assert [m.tolist() for m in made] == [no, zeros, no]
    for *signs_, nan in way(numbers, [NAN.astype(dtype)] * count):
        assert signs_ == [2.0, 2.0, 2.0] and math.isnan(nan)


@pytest.mark.parametrize("way", [interpreted, compiled, simulated])
def test_constants_have_no_sign_either(way: Callable[..., Any]) -> None:
    """Kernels that differ in the sign of a NaN alone have one key."""

    def plus(x):
        return np.copysign(x, np.nan), 1 / np.copysign(np.zeros(2), np.nan), np.signbit(np.full(2, np.nan))

    def minus(x):
        return np.copysign(x, -np.nan), 1 / np.copysign(np.zeros(2), -np.nan), np.signbit(np.full(2, -np.nan))

    for f in (minus, plus, minus):
        ((size, ends, bits),) = way(model(f), [np.array([3.0, -3.0])])
        assert size.tolist() == [3, 3] and ends.tolist() == [np.inf, np.inf] and bits.tolist() == [False, False]


def test_infinities_are_what_they_were() -> None:
    @model
    def ends(x):
        return np.isneginf(x), np.isposinf(x), np.modf(x), np.rint(x)

    (found,) = ends.batch([NAN])
    for mine, theirs in zip(found[:2], (np.isneginf(NAN), np.isposinf(NAN)), strict=True):
        assert (mine == theirs).all()
    np.testing.assert_array_equal(found[2], np.modf(NAN))
    np.testing.assert_array_equal(found[3], np.rint(NAN))
