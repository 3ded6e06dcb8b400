"""Iterators over lists, tuples and ranges that `next` advances anywhere in the function that makes them."""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any

import pytest

from acronumba import model
from acronumba.errors import AcronumbaError
from tests.support.plain_call import agree, outcomes, plain


def in_a_loop(xs: list[int]) -> Any:
    it = iter(xs)
    total = 0
    for k in range(len(xs)):
        if k % 2:
            total = total * 3 + next(it)
    return total


def with_default(xs: list[int]) -> Any:
    it = iter(xs)
    out = []
    for _ in range(4):
        out.append(next(it, -1))
    xs = [*xs, 5]
    return out, next(it, -2), len(xs)


def too_far(xs: list[int]) -> Any:
    it = iter(xs)
    out = []
    for _ in range(3):
        out.append(next(it))
    return out


def then_the_rest(xs: list[int]) -> Any:
    it = iter(xs)
    first = next(it, 0)
    out = []
    for x in it:
        if x > 3:
            break
        out.append(x + first)
    return out, next(it, -1), next(it, -1)


def grows_meanwhile(xs: list[int]) -> Any:
    ys = list(xs)
    it = iter(ys)
    out = []
    for k in range(3):
        out.append(next(it, -1))
        ys.append(k + 10)
        ys[0] = 99
    return out, ys


def ended_for_good(xs: list[int]) -> Any:
    ys = list(xs)
    it = iter(ys)
    out = []
    for _ in range(4):
        out.append(next(it, -1))
    ys.append(7)
    ys.append(8)
    ys.append(8)
    ys.append(8)
    ys.append(8)
    return out, next(it, -1)


def of_a_display(xs: list[int]) -> Any:
    ys = [1, 2, 3]
    it = iter(ys)
    a = next(it)
    ys[1] = 20 + len(xs)
    return a, next(it), next(it)


def of_a_tuple(xs: list[int]) -> Any:
    it = iter((4, 5, 6))
    out = 0
    for x in xs[:3]:
        out = out * 10 + next(it) + x
    return out


def counted(xs: list[int]) -> Any:
    numbers = itertools.count(3, 2)
    out = []
    for x in xs:
        if x % 2:
            out.append(next(numbers))
    return out


def two_names(xs: list[int]) -> Any:
    it = iter(xs)
    other = it
    out = []
    for k in range(len(xs)):
        out.append(next(it) if k % 2 else next(other))
    return out


def made_in_a_loop(xs: list[int]) -> Any:
    out = []
    for x in xs:
        if x > 1:
            it = iter([x, x + 1, x + 2])
            for k in range(2):
                if k < x:
                    out.append(next(it))
    return out


def by_a_function(xs: list[int]) -> Any:
    it = iter(xs)

    def two() -> int:
        return 10 * next(it, 0) + next(it, 0)

    return two(), two(), next(it, -1)


def stored(xs: list[int]) -> Any:
    it = iter(xs)
    holds = [it]
    return next(it), len(holds)


CASES = [
    in_a_loop, with_default, too_far, then_the_rest, grows_meanwhile, ended_for_good, of_a_display, of_a_tuple, counted,
    two_names, made_in_a_loop, by_a_function, stored,
]  # fmt: skip
INPUTS = [[], [1], [2, 3], [3, 1, 4, 1, 5], [9, 2, 6, 5, 3, 5]]


@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_it_is_the_plain_call(f: Any) -> None:
    agree(outcomes(model(f).batch, INPUTS), plain(f, INPUTS))
    agree(outcomes(model(f)._interpret, INPUTS), plain(f, INPUTS))


def of_a_deque(xs: list[int]) -> Any:
    q = deque(xs)
    it = iter(q)
    out = next(it, -1)
    q.append(3)
    return out, next(it, -1)


@pytest.mark.parametrize("f", [of_a_deque], ids=lambda f: f.__name__)
def test_what_is_rejected(f: Any) -> None:
    with pytest.raises(AcronumbaError, match="ACR"):
        model(f).batch(INPUTS)


class Reader:
    def __init__(self, xs: list[int]) -> None:
        it = iter(xs)
        self.it = it
        self.first = next(it, -5)

    def take(self) -> int:
        return next(self.it, -3)


def of_an_object(xs: list[int]) -> Any:
    r, total = Reader(xs), 0
    for x in xs[:2]:
        total = total * 3 + r.take() + x
    return total, r.first, [x * 2 for x in r.it], r.take()


def deeper(it: Any, n: int) -> int:
    return 0 if n <= 0 else next(it) + 10 * deeper(it, n - 1)


def of_a_recursion(xs: list[int]) -> Any:
    it = iter(xs)
    next(it, 0)
    return deeper(it, len(xs) - 1), next(it, -1)


def chosen(xs: list[int]) -> Any:
    ys = [x + 1 for x in xs]
    it = iter(xs)
    if len(xs) > 2:
        it = iter(ys)
    next(it, 0)
    return next(it, 0), next(it, 0)


class Holder:
    def __init__(self, it: Any) -> None:
        self.it = it


def held(xs: list[int]) -> Any:
    h = Holder(3)
    h.it = iter(xs)
    first = [x + 1 for x in h.it]
    return first, [x + 1 for x in h.it]


def held_generator(xs: list[int]) -> Any:
    h = Holder(3)
    h.it = (x + 1 for x in xs)
    first = [x + 1 for x in h.it]
    return first, [x + 1 for x in h.it]


def test_a_held_generator_is_rejected() -> None:
    with pytest.raises(AcronumbaError, match="ACR114"):
        model(held_generator).batch(INPUTS)


@pytest.mark.parametrize("f", [of_an_object, of_a_recursion, chosen, held], ids=lambda f: f.__name__)
def test_it_is_passed_on(f: Any) -> None:
    agree(outcomes(model(f).batch, INPUTS), plain(f, INPUTS))
