"""A generator expression as the only argument of a function."""

from __future__ import annotations

import numpy as np

from acronumba import model


def _bundle(rows):
    if rows is None:
        return None
    rows = tuple(rows)
    return np.concatenate(rows) if len(rows) > 1 else rows[0]


def test_a_generator_expression_as_the_only_argument():
    @model
    def f(xs):
        stacks = [[x, x + 1.0] for x in xs]
        tops = _bundle(stack.pop() for stack in stacks)
        return tops, _bundle(stack[-1] for stack in stacks)

    columns = [[np.ones(2)], [np.ones(2), np.zeros(2)]]
    for got, xs in zip(f.batch(columns), columns, strict=True):
        for a, b in zip(got, f(xs), strict=True):
            assert np.array_equal(a, b)
