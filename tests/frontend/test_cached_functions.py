"""Recursive functions under `functools.cache` and `lru_cache` compute each result once in a call."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pytest

from acronumba import model
from acronumba.api.results import equal
from acronumba.errors import AcronumbaError, InternalError
from tests.support import cached_functions
from tests.support.plain_call import compiled, interpreted, outcomes, plain


@cache
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@cache
def common(a, b):
    if not a or not b:
        return 0
    if a[0] == b[0]:
        return 1 + common(a[1:], b[1:])
    return max(common(a[1:], b), common(a, b[1:]))


@functools.lru_cache
def is_even(n):
    return True if n == 0 else is_odd(n - 1)


@cache
def is_odd(n):
    return False if n == 0 else is_even(n - 1)


@cache
def packed(weights, values, room):
    if not weights:
        return 0
    out = packed(weights[1:], values[1:], room)
    return max(out, values[0] + packed(weights[1:], values[1:], room - weights[0])) if weights[0] <= room else out


def of_the_module(n, s, t):
    return fibonacci(n), common(s, t), is_even(n), packed((3, 4, 5) * 5, (4, 5, 7) * 5, n)


def distance(a, b):
    @cache
    def d(i, j):
        if i >= len(a):
            return len(b) - j
        if j >= len(b):
            return len(a) - i
        return min(1 + d(i + 1, j), 1 + d(i, j + 1), (a[i] != b[j]) + d(i + 1, j + 1))

    return d(0, 0)


def defined_again(n, s, t):
    return [distance(x, y) for x in (s, t, s[::2]) for y in (t, s)]


def best_path(n, s, t):
    rows = [[(7 * i + 3 * j * j + n) % 10 for j in range(9)] for i in range(11)]

    @lru_cache(None)
    def best(i, j):
        if i == len(rows) - 1 and j == len(rows[0]) - 1:
            return rows[i][j], 1
        out = None
        for k, m in ((i + 1, j), (i, j + 1)):
            if k < len(rows) and m < len(rows[0]):
                cost, steps = best(k, m)
                if out is None or cost + rows[i][j] < out[0]:
                    out = cost + rows[i][j], steps + 1
        return out

    return best(0, 0)


def that_raise(n, s, t):
    @cache
    def f(k):
        if k == 3:
            raise ValueError("three")
        return 1 if k <= 0 else f(k - 2) + f(k - 4)

    try:
        return f(n)
    except ValueError:
        return f(n - 1)


def forms_of_calls(n, s, t):
    count = [0]

    @cache
    def f(k=0, j=0):
        count[0] += 1
        return count[0] if k <= 0 else f(k - 1) + j

    return f(), f(), f(n), f(n, 0), f(n, j=0), f(j=0, k=n), f(n), count


def unhashable(n, s, t):
    @cache
    def f(xs, k):
        return len(xs) if k <= 0 else f(xs, k - 1)

    out = [f((n, n), n)]
    for xs in (s, [n] if n > 20 else (n,)):
        try:
            out.append(f(xs, n))
        except TypeError:
            out.append(-1)
    return out


@pytest.mark.parametrize("f", [of_the_module, defined_again, best_path, that_raise, forms_of_calls, unhashable])
def test_it_is_the_plain_call(f: Any) -> None:
    columns = [60, 9, 0, 31], ["acdacbdab" * 2, "", "ab", "cadb"], ["dacbbadca" * 2, "x", "ba", "abcdabc"]
    compiled(f, *columns)
    interpreted(f, *(c[1:] for c in columns))


def test_the_model_itself() -> None:
    assert list(model(fibonacci).batch([10, 80, 0])) == list(map(fibonacci, [10, 80, 0]))


def test_tensors_and_gradients() -> None:
    def f(n, *, w):
        @cache
        def state(k):
            return np.tanh(w[0]) if k <= 0 else np.tanh(w[1] * state(k - 1) + w[2] * state(k - 2))

        return state(n).sum()

    w = np.linspace(-1, 1, 12).reshape(3, 4)
    out = model(f).batch([0, 5, 40], w=w)
    assert np.allclose([float(v) for v in out], [f(n, w=w) for n in (0, 5, 40)])
    for n in (5, 7):
        _, slopes = model(f).value_and_grad(n, w=w)
        step = 1e-6 * (np.arange(12) == 6).reshape(3, 4)
        wanted = (f(n, w=w + step) - f(n, w=w - step)) / 2e-6
        assert np.isclose(slopes[1, 2], wanted)


def test_lists_are_made_anew() -> None:
    @cache
    def f(n):
        return [0] if n == 0 else [*f(n - 1), n]

    def g(n):
        return sum(f(n)) + len(f(n + 1))

    assert list(model(g).batch([1, 2, 5])) == [g(1), g(2), g(5)]


@cache
def shown(x, k=0):
    return str(x) if k <= 0 else shown(x, k - 1)


@cache
def square(x):
    return x * x


class Color(enum.IntEnum):
    RED = 1


class Counting:
    def __init__(self, k):
        self.k = k

    @cache  # noqa: B019
    def total(self, n):
        return self.k if n <= 0 else self.total(n - 1)


def of_two_types(n):
    return shown(1, n) + shown(True, n)


def of_int_and_float(n):
    return square(n), square(0.5 * n)


def of_enum_and_int(n):
    return shown(Color.RED, n), shown(n, n)


def of_two_zeros(n):
    return shown(0.0, n), shown(-0.0, n)


def of_a_changing_object(n):
    c = Counting(n)
    a = c.total(2)
    c.k = 7
    return a, c.total(2)


def of_few_results(n):
    log = []

    @lru_cache(maxsize=2)
    def f(k):
        log.append(k)
        return k if k < 2 else f(k - 1) + f(k - 2)

    return f(n), log


def of_an_effect(n):
    log = []

    @cache
    def f(k):
        log.append(k)
        return k

    return f(n) + f(n), log


def of_a_changing_name(n):
    scale = 1

    @cache
    def f(k):
        return k * scale

    a = f(n)
    scale = 2
    return a, f(n)


def in_a_branch(n):
    if n > 2:

        @cache
        def f(k):
            return k if k < 2 else f(k - 1) + f(k - 2)

    else:

        def f(k):
            return k

    return f(n)


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (of_two_types, "int and bool, which may be equal, as x of the cached function"),
        (of_int_and_float, "int and float, which may be equal"),
        (of_enum_and_int, "Color and int, which may be equal"),
        (of_two_zeros, "float, which may be equal"),
        (of_a_changing_object, "self of the cached function Counting.total, an object that was made in the call"),
        (of_few_results, "with a finite maxsize, which changes values outside of it"),
        (of_an_effect, "that does not call itself, which changes values outside of it"),
        (of_a_changing_name, "it reads scale, which may change between calls"),
        (in_a_branch, "that is defined in a branch"),
    ],
)
def test_what_would_differ_is_rejected(f: Any, why: str) -> None:
    with pytest.raises(AcronumbaError, match=r"functools\.cache or lru_cache is not supported") as info:
        model(f).batch([0, 5])
    assert why in str(info.value)


def check_random(seed: int, module_of: Callable[[str], Any]) -> bool:
    """Compare a random program with its plain calls; return whether it was rejected."""
    module = module_of(cached_functions.program(seed))
    columns = cached_functions.instances(seed)
    wanted = plain(module.main, *columns)
    try:
        got = outcomes(model(module.main)._interpret, *columns)
    except InternalError:
        raise
    except AcronumbaError:
        return True
    for mine, theirs in zip(got, wanted, strict=True):
        if isinstance(theirs, Exception):
            assert isinstance(mine, Exception), (seed, mine, theirs)
        else:
            assert isinstance(mine, OverflowError) or equal(mine, theirs), (seed, mine, theirs)
    return False


def test_random_programs(module_of: Callable[[str], Any]) -> None:
    assert sum(check_random(seed, module_of) for seed in range(12)) < 4
