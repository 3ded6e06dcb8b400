"""Scans along an axis: NumPy's values bit for bit, its dtypes and shapes, on the processor and on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, InstanceErrors, model
from tests.support.chosen import one_in
from tests.support.everywhere import same_everywhere

DTYPES = ["bool", "int8", "uint8", "int32", "int64", "uint64", "float32", "float64"]
SHAPES = [(3, 5), (1, 1), (4, 1), (1, 7), (0, 3), (3, 0), (17, 33)]


@model
def sums(x: Any) -> Any:
    return np.cumsum(x), np.cumsum(x, axis=0), x.cumsum(axis=-1), x.T.cumsum(0), (x + x).cumsum(1)


@model
def products(x: Any) -> Any:
    return np.cumprod(x), x.cumprod(0), np.cumprod(x, axis=1)


def special(dtype: str, shape: tuple[int, ...]) -> Any:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(shape) * 3).astype(dtype)
    if dtype.startswith("float") and x.size > 20:
        x.flat[[3, 11, 19]] = np.nan, np.inf, -np.inf
    return x


@pytest.mark.parametrize("dtype", one_in(4, DTYPES))
@pytest.mark.parametrize("f", [sums, products], ids=["cumsum", "cumprod"])
@pytest.mark.filterwarnings("ignore:overflow|invalid")
def test_values_dtypes_and_shapes(f: Any, dtype: str) -> None:
    same_everywhere(f, [special(dtype, shape) for shape in SHAPES])


def test_zeros_keep_their_sign() -> None:
    same_everywhere(sums, [np.array([[-0.0, -0.0, 0.0, -0.0]]), np.array([[-0.0]])])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float32", "float64"])
def test_dtype_that_is_asked_for(dtype: str) -> None:
    wanted = np.dtype(dtype)

    @model
    def f(x: Any) -> Any:
        return np.cumsum(x, dtype=wanted), x.cumprod(axis=0, dtype=dtype)

    same_everywhere(f, [np.array([[1, 2, 200], [3, 0, 5]], np.uint8), np.array([[7]], np.uint8)])


def test_numbers_and_arrays_of_rank_0() -> None:
    @model
    def f(x: Any, k: int) -> Any:
        return np.cumsum(x), np.cumsum(k), x.cumprod(), np.cumsum(x, axis=0), np.cumsum([k, k, 2]), np.cumsum([x, x])

    same_everywhere(f, [np.float32(3), np.float32(-1)], [2, 5])


def test_in_a_loop_with_what_came_before() -> None:
    @model
    def f(x: Any, steps: int) -> Any:
        for _ in range(steps):
            x = np.tanh(np.cumsum(x[::-1])) + x.sum()
        return x, np.cumsum(np.where(x > 0, 1, 0))[-1]

    xs = [np.linspace(-1, 1, n).astype(np.float32) for n in (1, 4, 9, 4)]
    for (a, m), (b, n) in zip(f.batch(xs, [3, 1, 2, 0]), map(f, xs, [3, 1, 2, 0]), strict=True):
        assert np.allclose(a, b, rtol=1e-5) and (m, type(m)) == (n, type(n))


def test_an_axis_that_is_not_there_is_rejected() -> None:
    @model
    def f(x: Any) -> Any:
        return np.cumsum(x, axis=2)

    with pytest.raises(AcronumbaError, match="axis 2 of a tensor of rank 2") as caught:
        f.batch([np.ones((2, 2))])
    assert not isinstance(caught.value, InstanceErrors)
