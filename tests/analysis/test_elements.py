"""Elements of the first axis that numbers of the host name: arrays of all lengths are one batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba import model
from tests.support.chosen import by_ways
from tests.support.plain_call import WAYS

W = np.linspace(-0.4, 0.5, 9).reshape(3, 3)


@model
def steps(x):
    h = np.zeros(3)
    for t in range(len(x)):
        h = np.tanh(W @ h + x[t])
    return h


@model
def rows(x):
    h = np.zeros(3)
    for row in x:
        h = np.tanh(W @ h + row)
    return h


@model
def backward(x):
    h = np.zeros(3)
    for t in range(len(x)):
        h = np.tanh(W @ h + x[-1 - t])
    return h


@model
def ends(x):
    return W @ x[0] + x[-1]


@model
def several(x, k):
    return np.tanh(x[k] + x[k - 1]) * 2


@model
def also_whole(x, k):
    return np.tanh(W @ x[k]) + x.sum(axis=0)


@model
def numbers(x):
    v, over = 0.0, []
    for t in range(len(x)):
        v = 0.5 * v + x[t]
        if v > 1.0:
            over.append(t)
            v = 0.0
    return v, over


@model
def computed(x):
    y = np.cumsum(x, axis=0) * 2
    h = np.zeros(3)
    for t in range(len(y)):
        h = np.tanh(W @ h + y[t])
    return h


@model
def run_time_rows(x):
    h = np.zeros(x.shape[1])
    for t in range(len(x)):
        h = np.tanh(h + x[t])
    return h


def _arrays(*lengths: int, width: int = 3) -> list[Any]:
    r = np.random.default_rng(7)
    return [r.standard_normal((n, width) if width else n) for n in lengths]


XS = _arrays(4, 1, 7, 2, 4, 3, 9, 5)
KS = [3, 0, -7, 5, -1, 2, 8, -6]  # two of them are out of range
CASES = [
    (steps, [[*XS, np.zeros((0, 3))]]), (rows, [[*XS, np.zeros((0, 3))]]), (backward, [XS]),
    (ends, [[*XS, np.zeros((0, 3))]]), (several, [XS, KS]), (also_whole, [XS, KS]),
    (numbers, [_arrays(4, 1, 7, 2, 0, 3, width=0)]), (computed, [XS]),
    (run_time_rows, [[*_arrays(4, 2, 7), *_arrays(3, 4, width=5)]]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("way", "f", "columns"), by_ways(CASES, [f.__name__ for f, _ in CASES], compiled=6, simulated=2)
)
def test_as_the_plain_call(way: str, f: Any, columns: Any) -> None:
    WAYS[way](f, *columns)


@pytest.mark.parametrize("f", [steps, rows, backward], ids=["steps", "rows", "backward"])
def test_arrays_of_all_lengths_are_one_batch(f: Any) -> None:
    assert len(f.trace(XS).batches) <= max(map(len, XS)) + 1


def test_a_number_is_one_batch_at_each_place() -> None:
    found = several.trace(XS, [0] * len(XS))
    assert [b.size for b in found.batches] == [len(XS)]
