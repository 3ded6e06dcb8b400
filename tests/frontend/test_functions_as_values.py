"""Functions, methods and ranges as values: passed to recursive functions, and others by branch."""

# ruff: noqa: B023 -- functions see what names have last

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from acronumba import AcronumbaError, Unsupported, model
from tests.support.plain_call import agree, outcomes, plain

COUNTS = [0, 1, 2, 3, 5]
ARRAYS = [np.arange(2, dtype=np.float32) + k for k in range(5)]


class Link(NamedTuple):
    word: int
    rest: Link | None = None


@dataclass
class Net:
    table: np.ndarray
    k: int

    def step(self, a: Any, link: Link) -> Any:
        return a + self.table[link.word] * self.k


LINKS = [None, Link(1, Link(0)), Link(2), Link(0, Link(3, Link(1)))]
NETS = [Net(np.arange(12, dtype=np.float32).reshape(4, 3) / 8, k) for k in range(4)]


def fold(link: Link | None, f: Callable[..., Any], start: Any) -> Any:
    return start if link is None else fold(link.rest, f, f(start, link))


def fold_all(link: Link | None, fs: Any, start: Any) -> Any:
    if link is None:
        return start
    f, g = fs
    return fold_all(link.rest, fs, g(f(start, link), link))


# ---- functions that are passed to recursive functions


@model
def folds_with_captured(link, net):
    w = net.table * 2
    return fold(link, lambda a, c: a + w[c.word], w[0]), fold(link, lambda a, c: a + 1, 0)


@model
def folds_with_method(link, net):
    return fold(link, net.step, net.table[0])


@model
def folds_with_default(link, net):
    return fold(link, lambda a, c, w=net.table: a * 2 + w[c.word], net.table[0])


@model
def folds_with_one_of_two(link, net):
    f = net.step if net.k > 1 else lambda a, c: a - net.table[c.word]
    return fold(link, f, net.table[0])


@model
def folds_with_functions_of_functions(link, net):
    def twice(f):
        return lambda a, c: f(f(a, c), c)

    def scaled(k):
        return lambda a, c: a * 2 + net.table[c.word] * k

    fs, gs = (scaled(net.k), scaled(net.k + 5)), (scaled(net.k + 5), scaled(net.k))
    first = net.table[0]
    return fold_all(link, fs, first), fold_all(link, gs, first), fold(link, twice(fs[0]), first)


@model
def folds_with_names_that_coincide(link, net):
    w = net.table * 2

    def f(a, c):
        return a + w[c.word]

    def outer(k):
        w = net.k + k

        def g(a, c):
            return f(a, c) * w

        return fold(link, g, net.table[0])

    return outer(3)


@model
def emits(n, x):
    def repeat(k, emit):
        if k:
            emit(k)
            repeat(k - 1, emit)

    out: list[Any] = []
    products: list[Any] = []
    repeat(n, out.append)
    repeat(n, lambda k: products.append(x * k))
    return out, products


@model
def default_of_recursion(n, x):
    def go(m, d=n):
        return x if m == 0 else go(m - 1) * d

    return go(n)


@pytest.mark.parametrize(
    "f",
    [
        folds_with_captured,
        folds_with_method,
        folds_with_default,
        folds_with_one_of_two,
        folds_with_functions_of_functions,
        folds_with_names_that_coincide,
    ],
    ids=lambda f: f.__name__,
)
def test_functions_for_recursive_functions(f):
    agree(outcomes(f._interpret, LINKS, NETS), plain(f, LINKS, NETS))


def test_functions_for_recursive_functions_that_append():
    agree(outcomes(emits._interpret, COUNTS, ARRAYS), plain(emits, COUNTS, ARRAYS))
    agree(outcomes(default_of_recursion._interpret, COUNTS, ARRAYS), plain(default_of_recursion, COUNTS, ARRAYS))


# ---- functions, methods and ranges that differ by branch


@model
def function_changes_in_loop(n, x):
    f = lambda z, k=0, j=1: z * 2 + k - j
    out = []
    for i in range(n):
        out.append(f(x))
        f = lambda z, k=i, j=n: z + k * 10 + j
        if i == 2:
            f = np.tanh
    return out, f(x)


@model
def functions_swap(n, x):
    f = lambda z, k=n: z + k
    g = lambda z, k=2: z * k
    for _ in range(n):
        f, g = g, f
    return g(f(x))


@model
def method_by_branch(n, x):
    net = Net(x, n)
    f = net.step if n > 1 else Net(x * 2, 3).step
    return f(x, Link(1))


@model
def range_by_branch(n, x):
    r = range(n) if n % 2 else range(0, n, 2)
    for i in r:
        x = x + i
        r = range(i)
    return x, list(r)


@pytest.mark.parametrize(
    "f", [function_changes_in_loop, functions_swap, method_by_branch, range_by_branch], ids=lambda f: f.__name__
)
def test_functions_by_branch(f):
    agree(outcomes(f._interpret, COUNTS, ARRAYS), plain(f, COUNTS, ARRAYS))


# ---- dicts of functions, and of unlike things, under keys of each kind


class Way(enum.Enum):
    TANH = "t"
    TWICE = 2


def twice(x):
    return x * 2


W = np.arange(4, dtype=np.float32).reshape(2, 2)
BY_INT = {0: lambda x: np.tanh(x), 1: twice, -1: np.exp}
BY_WAY = {Way.TANH: lambda x: np.tanh(x), Way.TWICE: twice}
BY_BOOL = {True: twice, False: np.tanh}
BY_TUPLE = {("a", 1): twice, ("b", Way.TANH): np.tanh, (): W}
LAYERS = {0: W, 1: np.ones(2, np.float32), -2: 0.5, Way.TWICE: {"w": W * 2, 3: [W, twice]}, None: "name"}
WAYS = [Way.TANH, Way.TWICE, Way.TANH, Way.TWICE, Way.TANH]


@model
def by_int(x, n):
    out = BY_INT[n % 2](x) + BY_INT[-1](x)
    for k, f in BY_INT.items():
        out = out + f(x) * k
    return out, len(BY_INT), n in BY_INT, list(BY_INT)


@model
def by_enum(x, way):
    return BY_WAY[way](x), BY_WAY[Way.TWICE](x), BY_WAY.get(Way.TANH)(x)


@model
def by_bool(x, n):
    return BY_BOOL[n > 1](x), list(BY_BOOL)


@model
def by_tuple(x, n):
    return BY_TUPLE["a", 1](x), BY_TUPLE["b", Way.TANH](x), BY_TUPLE[()] @ x, list(BY_TUPLE)[:2]


@model
def unlike(x, n):
    h = LAYERS[0] @ x + LAYERS[1] * LAYERS[-2]
    inner = LAYERS[Way.TWICE]
    return inner[3][1](inner["w"] @ h) + inner[3][0] @ h, LAYERS[None]


@model
def not_there(x, n):
    return BY_INT[n](x)


@pytest.mark.parametrize("way", ["interpreted", "compiled"])
@pytest.mark.parametrize("f", [by_int, by_enum, by_bool, by_tuple, unlike, not_there], ids=lambda f: f.__name__)
def test_dicts_of_functions_have_keys_of_each_kind(f, way):
    columns = ARRAYS, WAYS if f is by_enum else COUNTS
    agree(outcomes(f._interpret if way == "interpreted" else f.batch, *columns), plain(f, *columns), close=True)


def test_changed_dicts_of_functions_are_seen(monkeypatch):
    by_bool.batch(ARRAYS, COUNTS)
    for changed in ({1: twice, 0: np.tanh}, {True: np.tanh, False: twice}, {False: np.tanh, True: twice}):
        monkeypatch.setitem(globals(), "BY_BOOL", changed)
        agree(outcomes(by_bool.batch, ARRAYS, COUNTS), plain(by_bool, ARRAYS, COUNTS), close=True)
    monkeypatch.setitem(LAYERS, 1, np.zeros(2, np.float32))
    monkeypatch.setitem(LAYERS[Way.TWICE], "w", W * 5)
    agree(outcomes(unlike.batch, ARRAYS, COUNTS), plain(unlike, ARRAYS, COUNTS), close=True)


class Key:
    pass


BY_OBJECT = {Key(): twice}
BY_FLOAT = {0.5: twice, 1: np.tanh}


@pytest.mark.parametrize(
    ("table", "seen"), [(BY_OBJECT, "of type an object of class Key"), (BY_FLOAT, "of type float")]
)
def test_keys_that_are_no_constants_are_named(table, seen):
    @model
    def f(x, n):
        return next(iter(table.values()))(x)

    with pytest.raises(AcronumbaError, match=seen) as caught:
        f.batch(ARRAYS, COUNTS)
    assert caught.value.code == "ACR501"


# ---- functions that comprehensions make


def scaled(k, x):
    return x * k


@model
def names_that_comprehensions_had_last(x, n):
    k = 10
    fs = tuple((lambda y: y * k) for k in (1, 2, 3))
    gs = [(lambda y: y * k + j) for j, k in ((1, 5), (2, n))]
    hs = {j: (lambda y: y + j) for j in (4, 5)}
    return fs[0](x), fs[2](x), gs[0](x), hs[4](x), k


@model
def made_over_a_range(x, n):
    fs = [functools.partial(scaled, k + 1) for k in range(3)]
    gs = [lambda y, k=k: y - k * n for k in range(2)]
    hs = [scaled for _ in range(2)]
    for f in fs:
        x = f(x)
    return x, gs[0](x), gs[1](x), hs[1](3, x)


@model
def called_where_it_is_made(x, n):
    return [(lambda y: y * k)(x) for k in range(n)], sum((lambda y: y + k)(n) for k in (1, 2))


@pytest.mark.parametrize("f", [names_that_comprehensions_had_last, made_over_a_range, called_where_it_is_made])
def test_comprehensions_make_functions(f):
    for run in (f._interpret, f.batch):
        agree(outcomes(run, ARRAYS, COUNTS), plain(f, ARRAYS, COUNTS))


def test_functions_that_cannot_be_kept_are_told_where_they_can():
    @model
    def f(x, n):
        fs = [lambda y: y * k for k in range(n)]
        return sum(g(x) for g in fs)

    with pytest.raises(Unsupported, match=r"list display: \(f, g\)") as caught:
        f.batch(ARRAYS, COUNTS)
    assert caught.value.code == "ACR206"


@model
def made_in_nested_loops(x, n):
    for i in range(n):
        y = x * i
        for k in range(n % 3):
            g = lambda a: a * k - i
            y = g(y)
        x = y + 1
    return x if n < 2 else g(x)


def test_functions_are_made_in_nested_loops():
    for run in (made_in_nested_loops._interpret, made_in_nested_loops.batch):
        agree(outcomes(run, ARRAYS, COUNTS), plain(made_in_nested_loops, ARRAYS, COUNTS))


@model
def none_until_chosen(x, n):
    f = None
    for k in range(n):
        x = x + 1 if f is None else f(x)
        f = (lambda y: y * 2) if k % 2 else None if k == 2 else (lambda y: y - n)
    return x, f is None, bool(f), callable(f), (f or (lambda y: y))(x)


@model
def none_called(x, n):
    return [np.abs, None, np.negative][n % 3](x)


@pytest.mark.parametrize("f", [none_until_chosen, none_called])
def test_none_among_functions(f):
    for run in (f._interpret, f.batch):
        agree(outcomes(run, ARRAYS, COUNTS), plain(f, ARRAYS, COUNTS))
