"""Operations of kinds of values: iterators in iterators, methods of built-in classes that are inherited."""

from __future__ import annotations

import enum
import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from acronumba import AcronumbaError, model
from acronumba.errors import InternalError


class Name(enum.StrEnum):
    X = "x"
    Y = "yy"


class Pair(NamedTuple):
    x: int
    y: int


@dataclass
class Node:
    v: int
    kids: list[Node]


TREE = Node(2, [Node(3, []), Node(4, [Node(5, [])])])


def generator_in_generator(xs):
    return sum(v for v in (w for w in xs)), math.prod(y for y in (z + 1 for z in xs))


def named_generator(xs):
    g = (x * 2 for x in xs)
    return any(x > 3 for x in g)


def named_generators(xs):
    q = (x + 1 for x in xs)
    r = (y * 2 for y in q)
    return sum(r)


def accumulated(xs):
    return list(itertools.accumulate(v for v in (w for w in xs)))


def mapped(xs):
    return sum(v for v in map(lambda x: x + 1, (w for w in xs)))  # noqa: C417


def recursion(n):
    return n.v + sum(x for x in (recursion(c) for c in n.kids) if x is not None)


def bounds(xs):
    return [1, *xs].index(1, -3), [1, *xs].index(1, True)


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (generator_in_generator, [1, 2, 3]), (named_generator, [1, 2]), (named_generators, [1, 2]),
        (accumulated, [1, 2, 3]), (mapped, [1, 2]), (recursion, TREE), (bounds, [1, 2, 1]),
    ],
)  # fmt: skip
def test_it_is_the_plain_call(f, x):
    assert list(model(f)._interpret([x])) == [f(x)]


def method_of_an_enum(i):
    return Name.X.split("x")


def method_of_a_tuple(i):
    return Pair(3, i).index((1, 2), 1)


def float_bound(i):
    return [1, i].index(1, 0.0)


def missing_attribute(n):
    for c in n.kids:
        h = missing_attribute(c)  # noqa: F841
    if n.v > 1:
        v = 1  # noqa: F841
    else:
        u = (1).foo  # type: ignore[attr-defined]  # noqa: F841
    return n.v


@pytest.mark.parametrize(
    ("f", "x", "code"),
    [
        (method_of_an_enum, 1, "ACR210"), (method_of_a_tuple, 1, "ACR210"), (float_bound, 1, "ACR301"),
        (missing_attribute, TREE, "ACR307"),
    ],
)  # fmt: skip
def test_it_is_rejected(f, x, code):
    with pytest.raises(AcronumbaError) as caught:
        model(f).batch([x])
    assert not isinstance(caught.value, InternalError) and code in str(caught.value)
