"""Lists whose elements are unlike things, `[tokens, score]`: records, as long as nothing changes them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from acronumba import model
from tests.support.everywhere import same_everywhere

P = [np.array([[0.1, 0.7, 0.2], [0.3, 0.3, 0.4]]), np.array([[0.5, 0.2, 0.3]]), np.zeros((0, 3))]


@model
def beam(p: Any) -> Any:
    beams = [[[], 0.0]]
    for row in p:
        new = []
        for i in range(len(beams)):
            tokens, score = beams[i]
            for j in range(len(row)):
                new.append([tokens + [j], score - math.log(row[j])])  # noqa: RUF005
        new.sort(key=lambda c: c[1])
        beams = new[:2]
    return beams


@model
def scalars(p: Any) -> Any:
    """The second item is a scalar of NumPy in some, a float in others; what lies inside is changed."""
    found = {}
    for k, row in enumerate(p):
        found[k % 2] = [[k], row.sum() if k else 1.0, "name"]
    for item in found.values():
        item[0].append(len(item))
    best = [[], 0.0] if len(p) < 2 else found[1]
    return found, best[0], best[-2]


@model
def told_apart(p: Any) -> Any:
    out = []
    for part in [[[1, 2], 0.5], [[3], 1.5]]:
        xs, w = part
        out.append(sum(xs) * w + len(part) + isinstance(part, list) + isinstance(part, tuple))
    return out, [1, [2]] == [1, [2]], [1, [2]] < [1, [3]]


class Node:
    def __init__(self, n: int) -> None:
        self.best = [[], -1.0]
        for k in range(n):
            if k * 0.5 > self.best[1]:
                self.best = [[*self.best[0], k], k * 0.5]


@model
def in_a_field(p: Any) -> Any:
    nodes = [Node(len(p)), Node(len(p) + 3)]
    return [n.best for n in nodes]


def nested(n: int) -> list[Any]:
    if n == 0:
        return [[], 1.0]
    below = nested(n - 1)
    return [[*below[0], n], below[1] * 2]


@model
def returned(p: Any) -> Any:
    return nested(len(p)), [[[1], 2.0]] * 2


@model
def changed(p: Any) -> Any:
    """One that is changed is a list like any other."""
    pair = [len(p), "a"]
    pair[0] = 7
    pair.append(3)
    return pair


@model
def changed_in_pieces(p: Any) -> Any:
    """One with one name, changed at known places, stays in pieces; one that lies elsewhere is rejected, or a list."""
    state = [len(p), [], [3]]
    state[0] += 1
    state[-1] = [*state[-1], 4]
    if len(p) > 1:
        state[1].append(state[0])
    elif len(p):
        state[2] = state[2] + [9]
    else:
        state[0] = -1
    return tuple(state), state[0]


@model
def changed_where_it_lies(p: Any) -> Any:
    pair = [len(p), [1]]
    kept = [pair]
    pair[0] = 5
    other = [len(p), []]
    same = other
    other[0] = 7
    return kept, other, same


@pytest.mark.parametrize(
    "f",
    [beam, scalars, told_apart, in_a_field, returned, changed, changed_in_pieces, changed_where_it_lies],
    ids=lambda f: f.__name__,
)
def test_lists_of_unlike_things(f: Any) -> None:
    same_everywhere(f, P)
