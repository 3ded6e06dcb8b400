"""`scipy.spatial.distance`, where SciPy is installed: dtypes, NaN, infinities, empty extents, and what is rejected."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, model
from tests.support.chosen import one_in
from tests.support.everywhere import same_everywhere

SCIPY = "scipy.spatial.distance"
nan, inf = np.nan, np.inf
RNG = np.random.default_rng(0)
A = [
    RNG.standard_normal((3, 4)), RNG.standard_normal((1, 2)), np.array([[nan, 1], [inf, 2], [0, 0.0]]),
    np.zeros((2, 0)), np.zeros((0, 3)), np.ones((2, 3)),
]  # fmt: skip
B = [
    RNG.standard_normal((2, 4)), RNG.standard_normal((4, 2)), np.array([[1, 1], [inf, 2.0]]), np.zeros((2, 0)),
    np.zeros((2, 3)), np.ones((2, 2)),
]  # fmt: skip
U = [np.array([1, 2, 3.0]), np.array([nan, 1, 2]), np.array([1, nan, 5]), np.array([inf, 0]), np.zeros(3), np.ones(1)]
V = [np.array([0, 2, 5.0]), np.ones(3), np.ones(3), np.ones(2), np.ones(3), np.zeros(1)]


def matrices(metric: str) -> Any:
    distance = pytest.importorskip(SCIPY)

    @model
    def f(a: Any, b: Any) -> Any:
        return distance.cdist(a, b, metric=metric), distance.pdist(a, metric)

    return f


def vectors(name: str) -> Any:
    distance = pytest.importorskip(SCIPY)
    measure = getattr(distance, name)

    @model
    def f(u: Any, v: Any) -> Any:
        return measure(u, v)

    return f


METRICS = ["euclidean", "cosine", "chebyshev", "cityblock", "sqeuclidean", "correlation"]


@pytest.mark.parametrize("metric", one_in(3, METRICS))
def test_between_rows(metric: str) -> None:
    same_everywhere(matrices(metric), A, B, ulps=8)


@pytest.mark.parametrize("metric", one_in(3, METRICS))
@pytest.mark.parametrize("dtype", one_in(2, ["float64", "float32", "int64", "uint8"]))
def test_of_two_vectors(metric: str, dtype: str) -> None:
    some = [0, 4, 5] if dtype != "float64" else range(len(U))
    u, v = ([x[k].astype(dtype) for k in some] for x in (U, V))
    if dtype == "uint8":
        u, v = u[:1], u[:1]
    same_everywhere(vectors(metric), u, v, ulps=8, simulator=dtype == "float64")


@pytest.mark.parametrize("dtype", one_in(2, ["int64", "float32", "bool"]))
def test_rows_are_float64(dtype: str) -> None:
    same_everywhere(matrices("cityblock"), [A[0].astype(dtype)], [B[0].astype(dtype)], ulps=8, simulator=False)


def test_pairs_as_a_matrix() -> None:
    distance = pytest.importorskip(SCIPY)

    @model
    def f(x: Any) -> Any:
        return distance.squareform(x)

    same_everywhere(f, [np.arange(6.0), np.arange(4.0), np.zeros(0), np.ones(1)])
    symmetric = np.array([[0, 1, 2], [1, 0, 3], [2, 3, 0.0]])
    same_everywhere(f, [symmetric, np.triu(symmetric), np.zeros((2, 3)), np.zeros((1, 1))])


def test_other_metrics_are_rejected() -> None:
    with pytest.raises(AcronumbaError) as e:
        matrices("jaccard").batch(A[:1], B[:1])
    assert e.value.code == "ACR202" and "'euclidean'" in str(e.value)


def test_it_is_imported_by_nobody_else() -> None:
    code = "import sys, acronumba.frontend.calls.call; sys.exit(any(m.startswith('scipy') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
