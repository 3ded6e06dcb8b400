"""`f(*xs)` with a list of run-time length: as many parameters as are left, checked by each instance."""

from __future__ import annotations

import pytest

from acronumba import InstanceErrors, model


def _two(a, b):
    return a - b


def _any(*xs):
    return sum(xs)


def _optional(a, b=1.0):
    return a * b


def test_lists_as_arguments():
    @model
    def f(xs, k):
        ys = [x + k for x in xs]
        return _two(*ys) + _any(*ys)

    assert list(f.batch([[1.0, 2.0], [3.0, 5.0]], [1.0, 2.0])) == [f([1.0, 2.0], 1.0), f([3.0, 5.0], 2.0)]
    with pytest.raises(InstanceErrors) as caught:
        f.batch([[1.0, 2.0], [3.0]], [1.0, 2.0])
    assert isinstance(caught.value.errors[1], TypeError)


def test_lists_for_optional_parameters():
    @model
    def f(xs):
        return _optional(*xs)

    assert list(f.batch([[3.0], [3.0, 2.0]])) == [3.0, 6.0]
