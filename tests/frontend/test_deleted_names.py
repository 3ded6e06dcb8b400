"""`del` of a name in a loop: what an iteration deletes is gone for the next one."""

from __future__ import annotations

from typing import Any

import pytest

from acronumba import InstanceErrors, model


def once(xs: list[int]) -> int:
    parts, t = xs[:1], 0
    for x in xs:
        t += x
        del parts
    return t


def each(xs: list[int]) -> int:
    t = 0
    for x in xs:
        y = x * 2
        t += y
        del y
    return t


def and_bound_again(xs: list[int]) -> int:
    k, t = 3, 0
    while t < len(xs):
        t += 1
        if t == 2:
            del k
            k = 5
    return k + t


def under_a_condition(xs: list[int]) -> int:
    a = 1
    for x in xs:
        if x > 2:
            del a
    return len(xs)


@pytest.mark.parametrize("fn", [once, each, and_bound_again, under_a_condition])
def test_a_name_that_a_loop_deletes(fn: Any) -> None:
    instances = [[1, 2, 3], [4], [], [3, 3], [1, 1]]
    expected: list[Any] = []
    for xs in instances:
        try:
            expected.append(fn(xs))
        except UnboundLocalError:
            expected.append(UnboundLocalError)
    results: list[Any]
    try:
        results = list(model(fn).batch(instances))
    except InstanceErrors as error:
        results = [type(error.errors[k]) if k in error.errors else r for k, r in enumerate(error.results)]
    assert results == expected
