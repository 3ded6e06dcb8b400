"""Sorting by comparison: strings, lists, tuples with strings, objects with `__lt__`; the order of sets that came in."""

from __future__ import annotations

import collections
from typing import Any, NamedTuple

import numpy as np
import pytest

from acronumba import AcronumbaError, model, pack
from tests.support.everywhere import same_everywhere

RNG = np.random.default_rng(0)
WORDS = ["", "a", "ab", "b", "ba", "bab", "c", "Z", "äö"]


def pairs(n: int) -> list[tuple[str, int]]:
    return [(WORDS[k], int(v)) for k, v in zip(RNG.integers(0, len(WORDS), n), RNG.integers(0, 4, n), strict=True)]


PAIRS = [pairs(n) for n in (0, 1, 2, 7, 40)]


class Less:
    def __init__(self, key: int, name: str) -> None:
        self.key, self.name = key, name

    def __lt__(self, other: Less) -> bool:
        return self.key < other.key


class Greater:
    def __init__(self, key: int) -> None:
        self.key = key

    def __gt__(self, other: Greater) -> bool:
        return self.key > other.key


class Named(NamedTuple):
    name: str
    key: int


@model
def strings(given: Any) -> Any:
    down = [p[0] for p in given]
    down.sort(reverse=True)
    return down, sorted(given)


@model
def other_strings(given: Any) -> Any:
    words = [p[0] for p in given]
    counts = collections.Counter(words)
    return (
        sorted(counts.items()), sorted(set(words)), sorted(counts, key=lambda word: (-counts[word], word)),
        sorted(given, key=lambda p: p[0], reverse=True), [n.key for n in sorted([Named(*p) for p in given])],
    )  # fmt: skip


@model
def objects(given: Any) -> Any:
    some = [Less(key, name) for name, key in given]
    up = [o.name for o in sorted(some)]
    some.sort(reverse=True)
    firsts = [o.name for o in some]
    return up, firsts, [o.key for o in sorted([Greater(key) for _, key in given])]


@model
def lists(given: Any) -> Any:
    return sorted([[key % 2, key] for _, key in given]), sorted(given, key=lambda p: [p[1] % 2, p[1]])


CASES = [
    strings,
    objects,
    pytest.param(lists, marks=pytest.mark.long),
    pytest.param(other_strings, marks=pytest.mark.long),
]


@pytest.mark.parametrize("f", CASES, ids=["strings", "objects", "lists", "others"])
def test_sorted_by_comparison(f: Any) -> None:
    same_everywhere(f, PAIRS, simulator=f is objects)


def test_scalars_of_numpy_in_keys_are_read_in_one_go() -> None:
    @model
    def f(given: Any, *, score: Any) -> Any:
        return sorted([(score[key], name) for name, key in given])

    score = np.array([0.5, 0.25, 0.5, 2])
    same_everywhere(f, PAIRS, score=score, simulator=False)
    assert f.trace(PAIRS, score=score).rounds == 1


def test_what_has_no_order_is_rejected() -> None:
    @model
    def f(given: Any) -> Any:
        return len(sorted([{key} for _, key in given]))

    with pytest.raises(AcronumbaError) as e:
        f.batch(PAIRS[2:3])
    assert "set[int]" in str(e.value)


SETS: list[set[Any]] = [{"x", "yy", "zzz", "abc", "d"}, {"q"}, set()]


@model
def order_of_sets(s: Any) -> Any:
    first = max(s, key=lambda v: 0) if s else ""
    return list(s), [x + x for x in s], first, list(enumerate(s)), dict.fromkeys(s), sorted(s, key=len), ",".join(s)


@model
def order_of_a_shared_set(n: int, *, s: Any) -> Any:
    return list(s)[n], max(s, key=lambda x: x % n)


def test_a_set_that_came_in_has_its_own_order() -> None:
    same_everywhere(order_of_sets, SETS)
    assert list(order_of_sets.batch(pack(SETS))) == [order_of_sets(s) for s in SETS]
    same_everywhere(order_of_a_shared_set, [1, 2], s={300, 8, 17, 2**40}, simulator=False)


@model
def asked_once(xs: list[int]) -> tuple[int, int, list[int]]:
    seen = []

    def key(x: int) -> int:
        seen.append(x)
        return -x * x % 7

    return max(xs, key=key), min((x for x in xs), key=key), seen


def test_a_key_is_asked_once_of_each_element() -> None:
    columns = [[3], [2, -5, 4], [1, 1, 6, -3, 0]]
    assert list(asked_once.batch(columns)) == [asked_once(xs) for xs in columns]
