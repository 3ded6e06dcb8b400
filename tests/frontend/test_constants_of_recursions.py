"""Constants in the arguments of recursive functions that differ in each call: numbers in tuples, growing strings."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.plain_call import compiled, interpreted


def paths(n):
    def walk(i, before):
        return [before] if i > n else walk(2 * i, before + "0") + walk(2 * i + 1, before + "1")

    return walk(1, "")


def in_a_tuple(n):
    def go(k, t):
        return t[0], t[1] if k <= 0 else go(k - 1, (t[0] + "b", t[1] + 2))[1]

    return go(n, ("a", 0))


def swapped(n):
    def go(k, pair):
        return 1 if k <= 0 else (go(k - 2, (pair[1] - 1, pair[0] - 1)) + go(k - 2, (k, 1)) + pair[0] - pair[1]) % 1003

    return go(n, (n, 3)), go(n, (4, 3))


def sides(n, side="left"):
    return side if n == 0 else sides(n - 1, "right" if side == "left" else "left")


def of_a_mode(n):
    def go(k, mode):
        if mode == "sum":
            return k + (go(k - 1, "product") if k > 1 else 0)
        return k * (go(k - 1, "sum") if k > 1 else 1)

    return go(n, "sum")


@pytest.mark.parametrize("f", [paths, in_a_tuple, swapped, sides, of_a_mode])
def test_it_is_the_plain_call(f: Any) -> None:
    compiled(f, [0, 1, 5, 9])
    interpreted(f, [3, 8])
