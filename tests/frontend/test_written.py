"""NumPy's functions that are made of others: their values, types and dtypes are NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba import model
from acronumba.errors import AcronumbaError
from tests.support.plain_call import agree, outcomes, plain


@model
def both(x: Any, y: Any) -> Any:
    return np.logaddexp(x, y)


@pytest.mark.parametrize("device", ["cpu", "simulator"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logaddexp(dtype: Any, device: str) -> None:
    special = np.array([0, -0.0, 1, -1, 3, 80, -80, 800, np.inf, -np.inf, np.nan, 1e-8], dtype)
    x, y = (a.ravel() for a in np.meshgrid(special, special))
    with np.errstate(all="ignore"):
        exact = np.logaddexp(x.astype(np.longdouble), y.astype(np.longdouble))
        expected = np.logaddexp(x, y)
    found = (both if device == "cpu" else both.on(device)).batch([x], [y])[0]
    assert found.dtype == dtype
    plainly = ~np.isfinite(expected)
    assert np.array_equal(found[plainly], expected[plainly], equal_nan=True)
    found, exact = found[~plainly], exact[~plainly]
    unit = np.spacing(np.maximum(np.abs(exact), 1).astype(dtype))
    assert np.max(np.abs(found - exact) / unit) <= 1


@pytest.mark.parametrize(
    ("x", "y"),
    [(1.0, 2), (np.uint16(3), np.uint16(5)), (np.float32(2), 1.5), (np.array(1.0), np.float32(2)), (True, 2.0)],
)
def test_dtypes_of_logaddexp(x: Any, y: Any) -> None:
    (found,), expected = both.batch([x], [y]), np.logaddexp(x, y)
    assert type(found) is type(expected)
    assert np.isclose(found, expected, rtol=1e-6, atol=0)


def test_a_dtype_that_is_rejected_is_the_callers() -> None:
    with pytest.raises(AcronumbaError) as caught:
        both.batch([np.int8(3)], [np.int8(5)])
    assert "np.logaddexp(x, y)" in str(caught.value) and "float16" in str(caught.value)


@model
def length(x: Any, y: Any) -> Any:
    return np.hypot(x, y)


@pytest.mark.parametrize("device", ["cpu", "simulator"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hypot(dtype: Any, device: str) -> None:
    info = np.finfo(dtype)
    ends = [info.max, info.max / 2, info.tiny, info.smallest_subnormal, 3 * info.smallest_subnormal, info.eps, 0]
    edges = [step * 2.0**power for power in (-500, -60, 60, 500) for step in (0.999, 1, 1.001)]  # where it is scaled
    with np.errstate(over="ignore"):
        special = np.array([*ends, *edges, -0.0, 1, -1, 3, -4, 0.1, 1e-8, np.inf, -np.inf, np.nan], dtype)
    drawn = np.random.default_rng(0).uniform(-1, 1, (2, 1000)).astype(dtype)
    x, y = (np.concatenate([a.ravel(), more]) for a, more in zip(np.meshgrid(special, special), drawn, strict=True))
    with np.errstate(all="ignore"):
        exact = np.hypot(x.astype(np.longdouble), y.astype(np.longdouble))
        expected = exact.astype(dtype)
    found = (length if device == "cpu" else length.on(device)).batch([x], [y])[0]
    assert found.dtype == dtype and not np.any(np.signbit(found))
    plainly = ~np.isfinite(expected)
    assert np.array_equal(found[plainly], expected[plainly], equal_nan=True)
    found, exact, expected = found[~plainly], exact[~plainly], expected[~plainly]
    unit = np.spacing(np.minimum(expected, info.max / 2))  # of the largest number it is infinite
    assert np.max(np.abs(found - exact) / unit) <= 1.5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hypot_of_scalars(dtype: Any) -> None:
    given = [(3, 4), (0, -0.0), (np.inf, np.nan), (np.nan, -np.inf), (np.nan, 1), (np.finfo(dtype).max, 1)]
    given += [(3 * np.finfo(dtype).smallest_subnormal, 4 * np.finfo(dtype).smallest_subnormal)]
    x, y = ([dtype(v) for v in column] for column in zip(*given, strict=True))
    for found, a, b in zip(length.batch(x, y), x, y, strict=True):
        assert type(found) is dtype
        assert np.array_equal(found, np.hypot(a, b), equal_nan=True)


@pytest.mark.parametrize(
    ("x", "y"), [(1.0, 2), (np.uint16(3), np.float32(5)), (np.ones(3), np.float32(2)), (True, 2.0)]
)
def test_dtypes_of_hypot(x: Any, y: Any) -> None:
    (found,), expected = length.batch([x], [y]), np.hypot(x, y)
    assert type(found) is type(expected) and found.dtype == expected.dtype
    assert np.allclose(found, expected, rtol=1e-6, atol=0)


def covariances(x):
    return np.cov(x), np.corrcoef(x), np.cov(x, rowvar=False, bias=True), np.cov(x[0])


def test_covariances_of_any_number_of_rows() -> None:
    """One row, known only at run time, gives an array of rank 0, or a scalar."""
    rng = np.random.default_rng(3)
    column = [rng.normal(size=shape) for shape in ((3, 5), (1, 4), (2, 3))]
    for column_of in (column, [x.astype(np.float32) for x in column[:2]]):
        wanted = plain(covariances, column_of)
        for run in (model(covariances).batch, model(covariances)._interpret):
            agree(outcomes(run, column_of), wanted, close=True)


def polynomial(p, x):
    return np.polyval(p, x)


def constant_polynomials(x):
    return np.polyval([1, -2.5, 3], x), np.polyval((2, 3), x), np.polyval([4], x), np.polyval([], x)


@pytest.mark.parametrize("device", ["cpu", "simulator"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_polyval(dtype: Any, device: str) -> None:
    """Horner's rule in NumPy's order has NumPy's bits."""
    info = np.finfo(dtype)
    ends = [info.max, -info.max, info.tiny, info.smallest_subnormal, info.eps, 0, -0.0, 1, -1, np.inf, -np.inf, np.nan]
    drawn = np.random.default_rng(0).uniform(-2, 2, 1000)
    x = np.concatenate([ends, drawn]).astype(dtype)
    lists = ([], [3], [-0.0], [0.1, -2], [1, 2, 3, 4, 5, 6], [np.inf, 1], [np.nan, 0], [info.max, 1, info.tiny])
    coefficients = [np.array(p, dtype) for p in lists]
    m = model(polynomial)
    run = (m if device == "cpu" else m.on(device)).batch
    for given in (x, x[0], x[12], x[:0], x[:12].reshape(3, 4)):
        columns = coefficients, [given] * len(coefficients)
        with np.errstate(all="ignore"):
            agree(outcomes(run, *columns), plain(polynomial, *columns))


@pytest.mark.parametrize("x", [2, 1.5, True, np.int8(3), np.float32(0.1), np.arange(3), np.array(2), np.ones(2, bool)])
def test_polyval_of_dtypes_and_kinds(x: Any) -> None:
    agree(model(constant_polynomials).batch([x]), [constant_polynomials(x)])
    lists = [[], [True], [1, 2], [0.5, 1]]
    for p in ([np.array(c, d) for c in lists] for d in (bool, np.int8, np.uint64, np.int64, np.float32, np.float64)):
        columns = p, [x] * len(p)
        agree(outcomes(model(polynomial).batch, *columns), plain(polynomial, *columns))


def test_polyval_of_more_axes() -> None:
    """The coefficients may be arrays that broadcast with x."""
    columns = [np.ones((2, 1, 3)), np.arange(6.0).reshape(2, 3)], [np.arange(2.0)[:, None], np.arange(3)]
    for p, x in zip(*columns, strict=True):
        agree(model(polynomial).batch([p], [x]), [polynomial(p, x)])
