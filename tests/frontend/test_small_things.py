"""Texts of numbers, generators that call themselves, context managers and others, as in the plain call."""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from acronumba import model
from acronumba.errors import AcronumbaError
from tests.support.plain_call import agree, outcomes, plain

INTS = [0, 1, -1, 7, -10, 123456, 2**62, -(2**63), 2**63 - 1]
FLOATS = [0.0, -0.0, 1.0, -1.5, 2.5, 0.125, 1e10, -123456.789, float("nan"), -float("inf"), 1e-9, 0.005, 99.995, 1e15]


def same(f: Callable[..., Any], *columns: Any, **shared: Any) -> None:
    agree(outcomes(model(f).batch, *columns, **shared), plain(f, *columns, **shared))


def rejects(f: Callable[..., Any], *columns: Any, code: str) -> None:
    with pytest.raises(AcronumbaError, match=code):
        model(f).batch(*columns)


# ---- texts


def random_spec(rand: random.Random, kinds: str) -> str:
    align = rand.choice(["", "", "<", ">", "^", "=", "*<", "_^"])
    zero = rand.choice(["", "0"]) if not align else ""
    kind = rand.choice(kinds)
    digits = f".{rand.randrange(6)}" if kind in "f%" else ""
    return f"{align}{rand.choice(['', '+', ' ', '-'])}{zero}{rand.choice(['', '1', '6', '14'])}{digits}{kind.strip()}"


def test_random_formats() -> None:
    rand = random.Random(0)
    a, b, c = (random_spec(rand, " bdoxX") for _ in range(3))
    e, g, h = (random_spec(rand, "f%") for _ in range(3))
    same(lambda n: (format(n, a), f"{n:{b}}", ("%s|{:" + c + "}").format(n)), INTS)
    same(lambda x: (format(x, e), f"{x:{g}}", f"{x:{h}}"), FLOATS)


def test_texts() -> None:
    same(lambda n: (str(n), repr(n), f"{n!r}", bin(n), oct(n), hex(n), n.bit_count()), INTS)
    same(lambda n: "%d %5d|%-6x|%+d %.1f" % (n, n, 9, n, 0.5), INTS)  # noqa: UP031
    same(lambda x: ("%.2f %08.3f %d%%" % (x, x, 3), f"{x > 1}"), FLOATS)  # noqa: UP031
    same(lambda n: (f"{n if n > 1 else None}", "{x} {0:>5}".format(f"a{n}", x=n > 1)), INTS)
    same(lambda x: f"{x[0]:.3f} {x.argmax()} {len(x):3}", [np.array([1.0005, 2], np.float32), np.array([-3.5])])


# ---- generators that call themselves


@dataclass
class Tree:
    value: float
    left: Tree | None = None
    right: Tree | None = None

    def __iter__(self) -> Iterator[float]:
        if self.left is not None:
            yield from self.left
        yield self.value
        if self.right is not None:
            yield from self.right


def chain_of(values: list[float]) -> Tree | None:
    return Tree(values[0], chain_of(values[2:]), chain_of(values[1:2])) if values else None


def orders(xs: list[int]) -> Iterator[list[int]]:
    if not xs:
        yield []
    for k, x in enumerate(xs):
        for rest in orders(xs[:k] + xs[k + 1 :]):
            yield [x, *rest]


def test_generators_that_call_themselves() -> None:
    trees = [chain_of([float(k * k % 7) for k in range(n)]) for n in (1, 2, 30)]
    same(lambda t: (list(t), sum(t), [v + k for k, v in enumerate(t)], any(v > 5 for v in t)), trees)
    same(lambda xs: list(orders(xs)), [[], [1], [1, 2, 3]])

    def first_above(t: Tree, least: float) -> Any:
        for v in t:
            if v > least:
                return v
        return None

    same(first_above, trees, [0.0, 9.0, 3.0])


def unseen(adjacent: list[list[int]]) -> Any:
    seen = {0}

    def walk(v: int) -> Iterator[int]:
        for other in adjacent[v]:
            if other not in seen:
                yield other
                yield from walk(other)

    out = []
    for v in walk(0):
        seen.add(v)
        out.append(v)
    return out


def test_a_loop_that_changes_what_the_generator_reads() -> None:
    rejects(unseen, [[[1], [0]]], code="ACR104")


# ---- context managers, functions by class


@contextlib.contextmanager
def entered(stack: list[str], name: str) -> Iterator[int]:
    stack.append(name)
    try:
        yield len(stack)
    finally:
        stack.pop()


def nested(n: int) -> Any:
    stack: list[str] = []
    out = []
    with entered(stack, "a") as depth:
        for k in range(n):
            with entered(stack, f"b{k}") as inner, contextlib.nullcontext():
                out.append((depth, inner, stack[-1]))
    return out, stack


def left(n: int) -> Any:
    with entered([], "a") as depth:
        return depth


def caught(n: int) -> Any:
    stack: list[str] = []
    try:
        with entered(stack, "a"):
            if n > 1:
                raise ValueError(n)
    except ValueError:
        pass
    return stack


def test_context_managers() -> None:
    same(nested, [0, 1, 3])
    rejects(left, [1], code="ACR102")
    rejects(caught, [1], code="ACR102")


def test_functions_by_class() -> None:
    @functools.singledispatch
    def size(x: Any) -> int:
        return -1

    size.register(list)(lambda xs: sum(size(x) for x in xs))
    size.register(Tree)(lambda t: 1 + (size(t.left) if t.left is not None else 0))
    f = model(lambda x, n: (size(x), size([x, x]), size(n)))
    trees = [chain_of([1.0] * n) for n in (1, 4)]
    for _ in range(2):
        agree(outcomes(f.batch, trees, [1, 2]), plain(f.__wrapped__, trees, [1, 2]))
        size.register(int)(lambda n: n * 10)  # after the model was compiled


# ---- iterators, names, loops


def test_iterators() -> None:
    same(lambda n: [v for v, _ in zip(itertools.count(n, n - 2), range(3), strict=False)], [1, 3, 9])
    same(lambda xs, n: (lambda q: (q.rotate(n), list(q))[1])(deque(xs)), [[], [1], [1, 2, 3]], [1, -2, 5])

    def mutated(xs: list[int]) -> Any:
        ys = list(xs)
        turns = itertools.cycle(ys)
        ys.append(9)
        return next(turns)

    rejects(mutated, [[1]], code="ACR202")


def test_run_time_names() -> None:
    trees = [Tree(1.0), Tree(2.0, Tree(3.0))]
    same(lambda t, name: getattr(t, name), trees, ["value", "nothing"])
    same(lambda t, name: getattr(t, name, -1.0), trees, ["nothing", "value"])


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_histograms(dtype: str) -> None:
    r = np.random.default_rng(0)
    xs = [(3 * r.normal(size=n)).astype(dtype) for n in (0, 1, 50)] + [np.ones(3, dtype)]
    same(lambda x: (np.histogram(x), np.histogram(x, 7, (-1, 2)), np.histogram(x, [-2, 0.5, 3])), xs)
    same(lambda x: np.histogram(x, 3, weights=x * 0.5 + 1, density=True), xs[1:])


def test_vectorize_and_unique_rows() -> None:
    r = np.random.default_rng(0)
    xs = [r.normal(size=n) for n in (1, 5)]
    same(lambda x: np.vectorize(lambda a, b: a if a > b else b)(x, 0.5), [*xs, np.zeros(0)])
    same(lambda x: np.vectorize(lambda a: 0 if a < 0 else a, otypes=[float])(x), [*xs, np.zeros(0)])
    rows = [r.integers(0, 2, (n, 2)) for n in (0, 1, 9)]
    same(lambda x: np.unique(x, axis=0, return_index=True, return_counts=True), rows)
    same(lambda x: np.unique(x, axis=-1), rows[1:])
