"""An int that is an extent on one path may be negative on others."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from acronumba import model
from tests.support.plain_call import agree, outcomes, plain

XS = [np.arange(3.0), np.arange(5.0), np.arange(1.0), np.arange(4.0), np.arange(3.0), np.arange(2.0)]
KS = [-1, -2, 2, 0, -9, 1]
CS = [0, 1, 3, 5, 0, 2]


@model
def branch(x, k: int, c: int):
    s = 0.0
    if c > 0:
        s = float(np.sum(np.ones(k)))
    return s, np.sum(x[k:]), x[k:]


@model
def handler(x, k: int, c: int):
    try:
        s = float(np.sum(np.ones(k)))
    except ValueError:
        s = -5.0
    return s, np.sum(x[k:]), list(range(k))


@model
def loop(x, k: int, c: int):
    s = 0.0
    for j in (k, 2, -k):
        try:
            s += float(np.sum(np.ones(j)))
        except ValueError:
            s -= 5.0
        s += float(np.sum(x[j:]))
    return s


@model
def reassigned(x, k: int, c: int):
    s = 0.0
    while c > 0:
        if c % 2:
            s += np.zeros(k).sum()
        c -= 1
        k -= 2
        s += x[k:].sum()
    return s


@model
def reshaped(x, k: int, c: int):
    try:
        z = np.arange(2 * len(x)).reshape(k, -1).sum()
    except ValueError:
        z = -1
    return z, x[k:], np.abs(k) - 3


@model
def after(x, k: int, c: int):
    z = np.ones(k)
    return z.sum(), x[k:], abs(k) - 3, x[:k]


@pytest.mark.parametrize("f", [branch, handler, loop, reassigned, reshaped, after], ids=lambda f: f.__name__)
def test_extents_are_natural_where_they_were_tested(f):
    agree(outcomes(f.batch, XS, KS, CS), plain(f, XS, KS, CS))


@pytest.mark.parametrize(
    "f",
    [
        lambda k: np.linspace(0, 1, k).sum(),
        lambda k: np.repeat(np.arange(3), k),
        lambda k: np.repeat(np.arange(2.0), np.array([1, k])),
        lambda k: np.indices((k,)),
        lambda k: np.fromfunction(lambda i: i + 1, (k,)),
        lambda k: np.diag_indices(k),
        lambda k: np.bincount(np.array([1]), minlength=k),
    ],
    ids=["linspace", "repeat", "repeat_each", "indices", "fromfunction", "diag_indices", "bincount"],
)
def test_negative_counts(f):
    agree(outcomes(model(f).batch, KS), plain(f, KS))


ROWS = [np.array([3.0, 1, 2]), np.array([1.0, 2]), np.array([5.0]), np.array([2.0, 7, 1, 9]), np.array([3.0, 1, 2])]
BOUNDS = [-1, 2, 0, 1, 5]


@pytest.mark.parametrize(
    "f",
    [
        lambda x, k: (np.partition(x, k)[k], np.argpartition(x, k)[k]),
        lambda x, k: np.unravel_index(k, (2, 2)),
        lambda x, k: np.ravel_multi_index((k, 1), (2, 3)),
        lambda x, k: np.linalg.solve(np.eye(3) * 2, x),
        lambda x, k: (np.resize(x, k), np.fft.fftfreq(k + 1)),
        lambda x, k: np.lexsort((x, np.ones(3))),
        lambda x, k: list(itertools.islice([1.0, 2.0], k, None)),
    ],
    ids=["partition", "unravel_index", "ravel_multi_index", "solve", "resize", "lexsort", "islice"],
)
def test_arguments_out_of_bounds(f):
    agree(outcomes(model(f).batch, ROWS, BOUNDS), plain(f, ROWS, BOUNDS))
