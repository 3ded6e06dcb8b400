"""In-place changes of arrays that are one of several types, or seen by a part of an expression."""

from __future__ import annotations

import numpy as np

from acronumba import model


@model
def added(xs: list[np.ndarray]):
    total = 0
    for x in xs:
        total += x * 2
    return total


@model
def added_and_kept(xs: list[np.ndarray], keep: int):
    total = None
    kept = []
    for k, x in enumerate(xs):
        if total is None:
            total = x * 2
        else:
            total = total + x
        if k == keep:
            kept.append(total)
    return total, kept


def grown(y):
    y += 1
    return y


@model
def seen_by_an_expression(x):
    y = x * 2
    return y * grown(y), y


def halved(x):
    y = x * 0.5
    return y


@model
def changed_result(x):
    y = halved(x)
    y += 1
    y *= 3
    return y


xs = [[np.ones(3), np.full(3, 2.0)], [np.ones(3)], []]


def test_a_number_becomes_an_array() -> None:
    for got, want in zip(added.batch(xs), map(added, xs), strict=True):
        assert np.array_equal(got, want)


def test_one_that_may_be_none() -> None:
    for keep in range(2):
        got = added_and_kept.batch(xs, [keep] * 3)
        for a, b in zip(got, (added_and_kept(x, keep) for x in xs), strict=True):
            assert np.array_equal(a[0], b[0]) if b[0] is not None else a[0] is None
            assert len(a[1]) == len(b[1]) and all(map(np.array_equal, a[1], b[1]))


def test_a_part_of_an_expression_sees_the_change() -> None:
    x = np.arange(3.0)
    got = seen_by_an_expression.batch([x])[0]
    for a, b in zip(got, seen_by_an_expression(x), strict=True):
        assert np.array_equal(a, b)


def test_the_name_that_a_function_gave_its_result_is_gone() -> None:
    x = np.arange(3.0)
    assert np.array_equal(changed_result.batch([x])[0], changed_result(x))
