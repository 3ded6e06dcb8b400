"""Sorting along an axis, searching: NumPy's places, those of a stable sort, on the processor and on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, model
from tests.support.chosen import one_in
from tests.support.everywhere import same_everywhere

DTYPES = ["float32", "bool", "int8", "uint8", "int32", "int64", "uint64", "float64"]
OF_EACH_KIND = one_in(  # of floats, signed and unsigned numbers one: the others have another width alone
    4, [d if d in ("float32", "bool", "int64", "uint8") else pytest.param(d, marks=pytest.mark.slow) for d in DTYPES]
)
SHAPES = [(3, 5), (1, 1), (4, 1), (1, 7), (0, 3), (3, 0), (2, 65), (33, 17)]


@model
def orders(x: Any) -> Any:
    stable = np.argsort(x, axis=0, kind="stable"), x.T.argsort(0, stable=True), np.argsort(x, None, "stable")
    sorts = [np.sort(x, axis=axis, kind="stable") for axis in (-1, 0, None)]  # others may change the signs of zeros
    return stable, np.argsort(x + x, axis=-1, kind="stable"), sorts


def ties(dtype: str, shape: tuple[int, ...]) -> Any:
    x = np.random.default_rng(0).integers(0, 9, shape).astype(dtype)
    if dtype.startswith("float") and x.size > 20:
        x.flat[[2, 3, 11, 12, 19]] = np.nan, -0.0, np.nan, np.inf, -np.inf
    return x


@pytest.mark.parametrize("dtype", OF_EACH_KIND)
@pytest.mark.filterwarnings("ignore:overflow|invalid")
def test_places_and_elements(dtype: str) -> None:
    same_everywhere(orders, [ties(dtype, shape) for shape in SHAPES])


def test_rows_of_many_lengths() -> None:
    @model
    def ranks(x: Any, n: int) -> Any:
        y = x * 2
        return np.argsort(np.argsort(y)), np.sort(y[::-1])[:n], np.argsort(y[n:], kind="stable")

    rng = np.random.default_rng(1)
    xs = [rng.permutation(n).astype(np.float32) for n in (0, 1, 2, 3, 4, 31, 32, 33, 100)]
    same_everywhere(ranks, xs, [len(x) // 2 for x in xs])


def test_scalars_and_the_gradient_of_what_was_sorted() -> None:
    @model
    def alone(x: Any) -> Any:
        return np.argsort(x), np.argsort(x * 2, axis=None)

    same_everywhere(alone, [np.float32(3), np.float32(-1)])

    @model
    def loss(x: Any, *, w: Any) -> Any:
        return np.sum(np.sort(x * w) * np.arange(x.shape[0]))

    x, w = np.array([3.0, 1.0, 2.0], np.float32), np.ones(3, np.float32)
    _, grads = loss.value_and_grad.batch([x], w=w)
    assert np.array_equal(grads, x * np.array([2.0, 0.0, 1.0]))


@model
def belongs(a: Any, v: Any) -> Any:
    twice = np.stack([v, v[::-1]])
    return (
        np.searchsorted(a, v),
        np.searchsorted(a, twice, side="right"),
        a.searchsorted(a * 1),
        np.searchsorted(a[1:], v),
    )


@pytest.mark.parametrize("dtype", OF_EACH_KIND)
@pytest.mark.filterwarnings("ignore:overflow|invalid")
def test_where_values_belong(dtype: str) -> None:
    """Of arrays that are not in order, too: what is found depends on where the value before was found."""
    rows = [ties(dtype, (n,)) for n in (1, 2, 7, 64, 40)]
    values = [ties(dtype, (n,))[::-1] for n in (33, 0, 1, 40, 9)]
    same_everywhere(belongs, [*rows, *map(np.sort, rows)], values * 2)


def test_one_value_among_many() -> None:
    @model
    def drawn(p: Any, u: float) -> Any:
        total = np.cumsum(p)
        return np.searchsorted(total, u), np.searchsorted(total, total[-1] * u, "right"), np.digitize(u, total)

    ps = [np.linspace(0.1, 0.3, n).astype(np.float32) for n in (1, 2, 9)]
    same_everywhere(drawn, ps, [0.5, 0.15, 0.7])


def test_what_is_rejected() -> None:
    @model
    def f(x: Any) -> Any:
        return np.argsort(x, axis=2)

    with pytest.raises(AcronumbaError, match="axis 2"):
        f.batch([np.ones((2, 2))])
