"""Combinations, permutations and products whose length only run time knows."""

from __future__ import annotations

import itertools
import random

import pytest

from acronumba import model
from tests.support.plain_call import agree, outcomes, plain

RNG = random.Random(3)
LISTS = [[RNG.randrange(5) for _ in range(n)] for n in (0, 1, 2, 3, 4, 5, 3, 2)]
LENGTHS = [0, 1, 3, 2, -1, 3, 4, 2]


@model
def combinations(xs, r):
    return list(itertools.combinations(xs, r))


@model
def with_replacement(xs, r):
    return [sum(c) for c in itertools.combinations_with_replacement(xs, r)]


@model
def some_permutations(xs, r):
    return list(itertools.permutations(xs, r))


@model
def products(xs, r):
    return list(itertools.product(xs, [7, 8], repeat=min(r, 2)))


@model
def subsets(xs, r):
    found = []
    for k in range(len(xs) + 1):
        for c in itertools.combinations(xs, k):
            if sum(c) == r:
                found.append(c)
    return found


@model
def nothing(xs, r):
    return list(itertools.combinations(xs, 0)), list(itertools.permutations(xs, 0)), [*itertools.product(xs, repeat=0)]


@model
def first_that_fits(xs, r):
    """Stops early: of twelve items there are too many permutations for a list."""
    tried = 0
    for p in itertools.permutations([*xs, *range(12 - len(xs))]):
        tried += 1
        if p[-1] < p[-2]:
            return tried, p
    return tried, ()


@pytest.mark.parametrize(
    "f", [combinations, with_replacement, some_permutations, products, subsets, nothing, first_that_fits],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_lengths_of_run_time(f):
    agree(outcomes(f.batch, LISTS, LENGTHS), plain(f, LISTS, LENGTHS))
