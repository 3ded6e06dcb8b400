"""Shifts of integer arrays and scalars, against NumPy: every dtype, shifts beyond the width and below zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba import TypeMismatch, model

INTEGERS = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
R = np.random.default_rng(4)


def values(dtype: str) -> np.ndarray:
    info = np.iinfo(dtype)
    edges = np.array([info.min, info.max, 0, 1, info.max - 1], dtype)
    return np.concatenate([edges, R.integers(info.min, info.max, 60, dtype=dtype, endpoint=True)])


def amounts(dtype: str, n: int) -> np.ndarray:
    info = np.iinfo(dtype)
    near = [k for k in (-65, -64, -33, -9, -8, -1, 0, 1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65) if k >= info.min]
    return R.choice(np.array([*near, info.min, info.max], dtype), n)


def same(got: Any, want: Any) -> None:
    for x, y in zip(got, want, strict=True):
        assert type(x) is type(y) and x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


@model
def by_arrays(x: np.ndarray, by: np.ndarray) -> Any:
    return x << by, x >> by, np.left_shift(x, by), np.right_shift(by, x), x[0] << by[0], x[0] >> by[0]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_by_arrays(dtype: str) -> None:
    xs = [values(dtype) for _ in range(6)]
    bys = [amounts(dtype, len(x)) for x in xs]
    for got, x, by in zip(by_arrays.batch(xs, bys), xs, bys, strict=True):
        same(got, by_arrays(x, by))


@pytest.mark.parametrize("switch", ["fuse", "blocks"])
def test_shifts_without_options(switch: str) -> None:
    x, by = values("int32"), amounts("int32", 65)
    (got,) = by_arrays.with_options(**{switch: False}).batch([x], [by])
    same(got, by_arrays(x, by))


@model
def by_numbers(x: np.ndarray, n: int) -> Any:
    return x << 3, x >> 7, x << n, x >> n, 1 << x % 5, x >> 100, x << 100, (x & 6 | 1) ^ ~x


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_by_python_numbers(dtype: str) -> None:
    xs = [values(dtype) for _ in range(3)]
    for got, x, n in zip(by_numbers.batch(xs, [0, 5, 90]), xs, [0, 5, 90], strict=True):
        same(got, by_numbers(x, n))


def test_dtypes_are_promoted_as_by_numpy() -> None:
    @model
    def mixed(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Any:
        return a << b, b >> c, a >> c, c << a, (c > 0) << b

    a, b, c = np.arange(5, dtype=np.uint8), np.arange(5, dtype=np.int32) - 2, np.arange(5, dtype=np.uint32)
    (got,) = mixed.batch([a], [b], [c])
    same(got, mixed(a, b, c))


def test_words_are_multiplied_and_rotated() -> None:
    @model
    def mixed(a: np.ndarray, b: np.ndarray) -> Any:
        wide = a.astype(np.uint64) * b.astype(np.uint64)
        return (wide >> 32).astype(np.uint32), wide.astype(np.uint32), a << 13 | a >> 19, a * b + a, wide ^ (wide >> 5)

    a, b = (R.integers(0, 2**32, 37, dtype=np.uint32) for _ in range(2))
    (got,) = mixed.batch([a], [b])
    same(got, mixed(a, b))


def test_floats_have_no_shifts() -> None:
    @model
    def wrong(x: np.ndarray) -> Any:
        return x << 2

    with pytest.raises(TypeMismatch, match="left_shift"):
        wrong.batch([np.ones(3, np.float32)])

    @model
    def mixed(x: np.ndarray, y: np.ndarray) -> Any:
        return x >> y

    with pytest.raises(TypeMismatch, match="right_shift"):
        mixed.batch([np.ones(3, np.int64)], [np.ones(3, np.uint64)])
