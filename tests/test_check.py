"""Verdicts: equal, close, undecided, different."""

from __future__ import annotations

import numpy as np
import pytest

from acronumba import model
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


def test_decisions_by_near_values_are_undecided():
    """Closer than the bound in the float64 run, either outcome is right."""
    assert compare(3, 4, 4, near=True)[0] == "undecided"
    assert compare([F(1), F(2)], [F(1)], [1.0], near=True)[0] == "undecided"
    assert compare(F(1), F(2), 2.0, near=True)[0] == "undecided"
    assert compare(F(1), np.array(1, F), 1.0, near=True)[0] == "different"
    assert compare(np.ones(2), np.ones(2, F), np.ones(2), near=True)[0] == "different"


def by_argmax(x, y):
    return np.argmax(x * y)


def by_comparison(x, y):
    return x if (x * y)[0] > (x * y)[1] else y


def by_number(x, y):
    return int(float(x[0] * y[0]))


def by_order(x, y):
    parts = list(x * y)
    parts.sort(key=lambda v: -v)
    return parts


def by_equal_values(x, y):
    return np.argmax(np.maximum(x, y * 0)), bool(x[1] == y[1])


@pytest.mark.parametrize(
    ("fn", "near"), [(by_argmax, 1), (by_comparison, 1), (by_number, 1), (by_order, 1), (by_equal_values, 0)]
)
def test_the_float64_run_notes_how_near_the_values_are_that_it_compares(fn, near):
    x, far = np.array([3.0, 2.9999993, 1.0], F), np.array([3.5, 2.0, 1.0], F)
    instances = [(x, np.array([0.99999994, 1.0, 1.0], F)), (far, np.ones(3, F))]
    if fn is by_equal_values:
        instances = [(np.array([2.0, 2.0, 1.0], F), np.array([1.0, 2.0, 3.0], F))] * 2
    columns = [list(column) for column in zip(*instances, strict=True)]
    m = model(fn)
    one, leaves_, _ = m._specialise(m._bind(columns, {}))
    exact = one.exact(leaves_)
    for k, expected in enumerate((near, 0)):
        exact.run([column[k] for column in columns])
        assert sum(d < 1e-5 for d in exact.nearest.values()) == expected


@model
def climbs(x):
    total = 0
    for _ in range(3):
        x = np.tanh(x) * 3
        total += int(np.argmax(x))
        x = x + total
    return total


def test_a_decision_by_near_values_is_no_difference():
    """The plain call and the float64 run agree here by luck."""
    x = np.array([-0.7037352323532104, -1.2654215097427368, -0.6232744455337524, 0.04132597893476486], F)
    done = climbs.batch([x])[0], climbs(x)
    verdict = climbs.check([x]).verdicts[0]
    assert verdict.verdict == ("equal" if done[0] == done[1] else "undecided")


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
