"""`next(iter(x))`, iterators with a name over strings and dicts, `f(*xs)` of run-time length; as in the plain call."""

# ruff: noqa: RUF015, C416, B905

from __future__ import annotations

import itertools
from typing import Any

import pytest

from acronumba import model
from tests.support.plain_call import agree, outcomes, plain


def same(f: Any, *columns: Any) -> None:
    agree(outcomes(model(f).batch, *columns), plain(f, *columns))


def firsts(x):
    return next(iter(x)), next(iter(x), None), list(x)[0], [v for v in x][0], next(zip(x, x)), next(enumerate(x))


def of_dicts(d):
    k, *rest = d
    return next(iter(d)), next(iter(d), 7), next(iter(d.items())), next(iter(d.values())), k, rest, next(iter(d.keys()))


def only_entry(d):
    ((k, v),) = d.items()
    (only,) = d
    return k, v, only, dict(d).popitem()


NESTED = [{"+": [1, {"-": [2, {"var": "x"}]}]}, {"var": "y"}, {"-": [{"var": "y"}, 1]}]


def operator_of(t):
    return next(iter(t)) if isinstance(t, dict) else None


@pytest.mark.parametrize("f", [of_dicts, only_entry, operator_of], ids=lambda f: f.__name__)
def test_first_items_of_dicts(f: Any) -> None:
    for dicts in ([{1: 2.5, 3: 4.0}, {7: 1.0}, {}], [{"b": 1.5}, {"c": 2.5}], NESTED):
        same(f, dicts)
    if f is not only_entry:
        same(f, [{"a": 1, "b": 2.5}, {"a": 3, "b": 4.5}])


def test_first_items() -> None:
    same(firsts, [[1.5, 2.0], [3.0], []])
    same(firsts, ["abc", "d", ""])
    same(lambda x: (next(reversed(x)), next(itertools.count(len(x)))), [[1.5, 2.0], [3.0]])
    same(lambda s: (next(iter(s)), next(iter(s), -1)), [{3, 4}, {5}])


def tokens(s):
    it = iter(s)
    out = []
    c = next(it, "")
    while c:
        out.append("neg" + next(it, "?") if c == "-" else c)
        c = next(it, "")
    return out


def two_and_rest(d):
    it = iter(d)
    a = next(it)
    b = next(it, None)
    return a, b, [k for k in it]


def test_iterators_with_a_name() -> None:
    same(tokens, ["ab-c", "", "-", "--a"])
    same(two_and_rest, [{1: 2, 3: 4, 5: 6}, {1: 1}, {}])
    same(two_and_rest, [{"a": 1, "b": 2.5, "c": 1}, {"a": 1, "b": 0.5, "c": 2}])
    same(lambda n: two_and_rest({k: k for k in range(n)}), [3, 4])


# ---- f(*xs)


def rest(*r):
    return sum(r), len(r)


def optional(a, b=None, *r):
    return a, b, list(r)


def defaults(a, b=2.5, c=1.5):
    return a + b * 10 + c * 100


class Point:
    def __init__(self, x, y=0.5):
        self.x, self.y = x, y

    def at(self, k, n=2.0):
        return self.x * k + n


LISTS = [[1.0, 2.0], [3.0], [1.0, 2.0, 3.0], [], [1.0, 2.0, 3.0, 4.0]]


def test_arguments_of_run_time_length() -> None:
    same(lambda xs: (rest(*xs), rest(1.0, *xs), rest(1.0, 2.0, *xs)), LISTS)
    same(lambda xs: (optional(*xs), optional(7.5, *xs)), LISTS)
    for f in (
        lambda xs: defaults(*xs), lambda xs: defaults(1.0, *xs), lambda xs: defaults(*xs, c=2.0),
        lambda xs: Point(*xs).y, lambda xs: Point(1.0).at(*xs), lambda xs: optional(1.0, 2.0, 3.0, *xs)[2],
    ):  # fmt: skip
        same(f, LISTS)


def test_a_chosen_function_of_run_time_length() -> None:
    same(lambda xs, name: defaults(*xs) if name == "a" else rest(*xs)[0], LISTS * 2, ["a", "b"] * 5)
