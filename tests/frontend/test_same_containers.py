"""`is` of lists, dicts and sets: one thing under two names, or two that are equal."""

# ruff: noqa: F632 -- `is` with a display is what is asked

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from acronumba import Unsupported, model
from tests.support.everywhere import same_everywhere

XS = [np.arange(3, dtype=np.float32) + k for k in range(3)]
NS = [1, 3, 2]
WORDS = [1, 2]


@dataclass
class Node:
    links: list[int]
    name: int = 0


def fields(x: Any, n: int) -> Any:
    a = Node([1, 2])
    b, c = Node(a.links), Node([1, 2])
    return b.links is a.links, c.links is a.links, a.links is not b.links


def names(x: Any, n: int) -> Any:
    a = [1, 2]
    b, c = a, [1, 2]
    d = a if n > 1 else c
    return b is a, c is a, d is a, d is c, c is not a, (a if n > 2 else None) is a


def dicts_and_sets(x: Any, n: int) -> Any:
    d, s = {"a": 1}, {1, n}
    e, t = d, s
    d["a"] = n
    return e is d, d is {"a": n}, t is s, s is {1, n}, e["a"], d is s, [x] is d


def in_lists(x: Any, n: int) -> Any:
    rows = [[k] for k in range(n)]
    found = [r is rows[0] for r in rows]
    rows.append(rows[0])
    return found, rows[-1] is rows[0], rows[-1] is rows[n - 1]


def grown(x: Any, n: int) -> Any:
    a: Any = []
    b = a
    b.append(n)
    return a is b, a[:] is a, list(a) is a, a, WORDS is WORDS


def of_unlike_things(x: Any, n: int) -> Any:
    row = [x, n, "a"]
    same, other = row, [x, n, "a"]
    return same is row, other is row


MODELS = [fields, names, dicts_and_sets, in_lists, grown, of_unlike_things]


@pytest.mark.parametrize("f", MODELS, ids=lambda f: f.__name__)
def test_is_says_whether_it_is_one(f: Callable[..., Any]) -> None:
    same_everywhere(model(f), XS, NS, simulator=f is names)


def test_lists_of_instances_may_be_one() -> None:
    @model
    def f(a: Any, b: Any) -> Any:
        return a.links is b.links, a.links == b.links

    links = [1]
    same_everywhere(f, [Node(links), Node(links)], [Node(links), Node([1])])


def arrays(x: Any, n: int) -> Any:
    y = x
    return y is x


def tuples(x: Any, n: int) -> Any:
    return (x, n) is (x, n)


def one_that_came_in(x: Any, n: int) -> Any:
    return WORDS is [1, 2]


@pytest.mark.parametrize("f", [arrays, tuples, one_that_came_in], ids=lambda f: f.__name__)
def test_what_cannot_be_told_is_rejected(f: Any) -> None:
    with pytest.raises(Unsupported, match="`is` of ") as caught:
        model(f).batch(XS, NS)
    assert caught.value.code == "ACR117" and "==" in str(caught.value)
