"""Verdicts: equal, close, undecided, different."""

from __future__ import annotations

import numpy as np
import pytest

from acronumba.check import compare, leaves

F = np.float32


def verdict(batched, plain, wide):
    return compare(batched, plain, wide)[0]


@pytest.mark.parametrize(("error", "expected"), [(0.9e-5, "close"), (1.1e-5, "different")])
def test_float32_may_differ_by_1e_5_of_the_largest_magnitude(error, expected):
    wide = np.array([100.0, 1.0])
    plain = wide.astype(F)
    batched = (wide + np.array([0, 100 * error])).astype(F)
    assert verdict(batched, plain, wide) == expected


@pytest.mark.parametrize(("error", "expected"), [(0.9e-12, "close"), (1.1e-12, "different")])
def test_float64_may_differ_by_1e_12(error, expected):
    wide = np.array([100.0, 1.0])
    assert verdict(wide + np.array([0, 100 * error]), wide.copy(), wide) == expected


@pytest.mark.parametrize(("single", "expected"), [(False, "different"), (True, "close")])
def test_python_floats_that_were_read_from_float32_may_differ_as_those_do(single, expected):
    assert compare(1.0 + 1e-7, 1.0, 1.0, single=single)[0] == expected


@pytest.mark.parametrize(("factor", "expected"), [(3.9, "close"), (4.2, "different")])
def test_four_times_the_plain_calls_own_error_is_allowed(factor, expected):
    wide = np.array([1.0, 2.0])
    assert verdict((wide + factor * 1e-3).astype(F), (wide + 1e-3).astype(F), wide) == expected


def test_infinities_and_nan_must_be_the_same():
    wide = np.array([1.0, np.inf, np.nan])
    assert verdict(wide.astype(F), wide.astype(F), wide) == "close"
    assert verdict(np.array([1.0, np.inf, 1.0], F), wide.astype(F), wide) == "different"
    assert verdict(np.array([1.0, -np.inf, np.nan], F), wide.astype(F), wide) == "different"


def test_decisions_that_rounding_cannot_make_are_undecided():
    assert verdict(3, 4, 4) == "different"
    assert verdict(3, 4, 3) == "undecided"
    assert verdict(np.int64(3), np.int64(4), np.int64(4)) == "different"
    assert verdict([F(1), F(2)], [F(1)], [1.0, 2.0]) == "undecided"
    assert verdict([F(1), F(2)], [F(1)], [1.0]) == "different"


def test_types_and_dtypes_must_agree():
    assert verdict(np.ones(2), np.ones(2, F), np.ones(2)) == "different"
    assert verdict(1, True, True) == "different"
    assert verdict(F(1), np.array(1, F), 1.0) == "different"
    assert verdict((1.0,), [1.0], [1.0]) == "different"


def test_the_worst_leaf_is_named():
    wide = {"a": np.ones(2), "b": [np.ones(2), np.ones(2)]}
    near = {"a": np.ones(2, F), "b": [np.ones(2, F), np.ones(2, F) + F(1e-6)]}
    plain = {"a": np.ones(2, F), "b": [np.ones(2, F), np.ones(2, F)]}
    text, error, plain_error, where = compare(near, plain, wide)
    assert (text, where) == ("close", "['b'][1]") and error == pytest.approx(1e-6, rel=0.1) and plain_error == 0


def test_deep_and_cyclic_results_can_be_compared():
    deep = None
    for k in range(10_000):
        deep = [deep, k]
    assert sum(1 for _ in leaves(deep)) == 20_001
    assert verdict(deep, deep, deep) == "close"
    cycle: list = [1]
    cycle.append(cycle)
    assert [leaf.value for leaf in leaves(cycle)] == [(list, 2), 1, "again"]
