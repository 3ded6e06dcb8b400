"""Lists that mix ints, floats and NumPy scalars, and lists of them: what NumPy and Python make of them."""

# ruff: noqa: RUF005

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba import model
from tests.support.chosen import one_in
from tests.support.plain_call import agree, outcomes, plain


def array(x: Any, n: int) -> Any:
    ys = [0.0]
    for i in range(n):
        ys.append(x[i])
    return np.array(ys), max(ys), min(ys), sum(ys), int(np.argmax(ys)), np.mean(ys)


def sums(x: Any, n: int) -> Any:
    ys = [0]
    for i in range(n):
        ys.append(ys[-1] + x[i])
    return ys[-1], ys


def ints_and_floats(x: Any, n: int) -> Any:
    ys = [0.5]
    for i in range(n):
        ys.append(i if i % 2 else i * 0.5)
    return np.array(ys), np.sum(ys), np.array(ys, np.float32)


def known(x: Any, n: int) -> Any:
    ys = [-1e9, x[0], n]
    return np.array(ys), np.exp(ys)


def table(x: Any, n: int) -> Any:
    d = [[0.0] * 3 for _ in range(n + 1)]
    for i in range(n):
        d[i][i % 3] = x[i]
    return np.array(d), np.array(d).sum(axis=0), sorted([v for r in d for v in r])


def deeper(x: Any, n: int) -> Any:
    return np.array([[[1.0, i] for i in range(2)] for _ in range(n + 1)])


MODELS = [array, sums, ints_and_floats, known, table, deeper]
LENGTHS = [4, 0, 5, 1]


@pytest.mark.parametrize("dtype", one_in(2, [np.float32, np.float64]))
@pytest.mark.parametrize("f", one_in(4, MODELS), ids=lambda f: f.__name__)
def test_mixed(f: Any, dtype: Any) -> None:
    xs = [np.arange(6).astype(dtype) * (-1) ** k for k in range(4)]
    expected = plain(f, xs, LENGTHS)
    agree(outcomes(model(f)._interpret, xs, LENGTHS), expected, close=True, single=True)
    agree(outcomes(model(f).batch, xs, LENGTHS), expected, close=True, single=True)


def of_another_dtype(x: Any, n: int) -> Any:
    ys = []
    for i in range(n):
        ys.append(i if i < 2 else i * 0.5)
    return np.array(ys)


def test_an_instance_whose_array_would_be_of_another_dtype_fails() -> None:
    got = outcomes(model(of_another_dtype).batch, [0.0] * 3, [5, 2, 3])
    assert [getattr(v, "dtype", type(v)) for v in got] == [np.float64, TypeError, np.float64]


def beside(xs: list[float]) -> Any:
    ys = [None]
    ys.extend(xs)
    return [None] + xs, xs + ["a"], [*xs, 1], ys, [y for y in [None] + xs if y is not None]


def test_lists_of_the_data_with_elements_of_other_types() -> None:
    for columns in ([[1.0, 2.0], [3.0]], [[True], []]):
        agree(outcomes(model(beside).batch, columns), plain(beside, columns))
    arrays = [[np.ones(2)], [np.ones(3), np.zeros(1)]]
    agree(outcomes(model(lambda xs: ([None] + xs)[1]).batch, arrays), plain(lambda xs: ([None] + xs)[1], arrays))
