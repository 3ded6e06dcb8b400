"""Helpers that are called, since their copies would be too much code: the results are those of inlined helpers."""

from __future__ import annotations

import random

import numpy as np
import pytest

from acronumba import AcronumbaError, model
from acronumba.frontend import helpers
from acronumba.frontend.library import parsing


def clipped(x, low, high):
    if x < low:
        return low
    return min(x, high)


def share(xs, k):
    if k >= len(xs):
        raise ValueError("no such item")
    return xs[k] / sum(xs)


def extended(xs, x):
    xs.append(clipped(x, 0, 9))
    return len(xs)


def total(xs, k, w):
    kept: list[float] = []
    for x in xs:
        extended(kept, x)
    try:
        some = share(kept, k)
    except ValueError:
        some = -1.0
    count = extended(kept, clipped(k, 1, 2.5)) + extended(kept, 3)
    return some, count, kept, np.tanh(w * clipped(some, 0, 1)), clipped("b", "a", "c")


@pytest.fixture
def small(monkeypatch):
    """Helpers are called from the second walk on."""
    monkeypatch.setattr(helpers, "MOST_STEPS", 0)
    monkeypatch.setattr(helpers, "CALLS", 1)
    monkeypatch.setattr(helpers, "STEPS", 1)


def test_called_helpers_are_the_plain_call(small: None) -> None:
    rand = random.Random(3)
    columns = [[float(rand.randint(-4, 14)) for _ in range(rand.randint(1, 5))] for _ in range(9)], [*range(9)]
    w = np.ones(3, np.float32)
    f = model(total)
    for xs, k, out in zip(*columns, f.batch(*columns, [w] * 9), strict=True):
        want = total(list(xs), k, w)
        assert out[:3] == want[:3] and out[4] == want[4]
        np.testing.assert_allclose(out[3], want[3], 1e-6)
    assert f.check(*columns, [w] * 9).ok


def test_a_rejection_with_called_helpers_is_tried_again(small: None) -> None:
    def lines(k: int) -> int:
        return first(iter([k, k + 1])) + first(iter([k]))

    assert list(model(lines).batch([1, 2])) == [2, 4]
    with pytest.raises(AcronumbaError, match="ACR"):
        model(unknown).batch([1, 2])


def first(items):
    return next(items)


def helped(k):
    return open(str(k))


def unknown(k):
    return helped(k), helped(k)


def test_ints_at_the_end_of_64_bits() -> None:
    for base in (10, 16, 2, 36, 7):
        for n in (2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**64, 0):
            text = np.base_repr(n, base)
            found = parsing.int_of_base(text, base)
            assert found == (n if -(2**63) <= n < 2**63 else 2**64)
    out = model(lambda s: int(s)).batch(["9223372036854775807", "-9223372036854775808", " 1_0 "])
    assert list(out) == [2**63 - 1, -(2**63), 10]
