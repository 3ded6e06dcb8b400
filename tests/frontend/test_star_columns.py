"""A model with `*args`: the call says how many columns."""

from __future__ import annotations

import pytest

from acronumba import model


def test_star_parameters_are_columns():
    @model
    def f(x, *rest, p=1):
        return sum(rest) * x + p

    assert list(f.batch([1, 2], p=3)) == [3, 3]
    assert list(f.batch([1, 2], [10, 20], [1, 2])) == [12, 45]
    with pytest.raises(Exception, match="different lengths"):
        f.batch([1, 2], [1])


def test_star_parameters_of_a_recursive_model():
    @model
    def f(*args):
        tree, depth = args
        return depth if tree is None else f(tree.next, depth + 1)

    class Link:
        def __init__(self, after):
            self.next = after

    chains = [None, Link(None), Link(Link(None))]
    assert list(f.batch(chains, [0, 10, 20])) == [0, 11, 22]
