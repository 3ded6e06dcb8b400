"""Operations of kinds of values: iterators in iterators, methods of built-in classes that are inherited."""

from __future__ import annotations

import enum
import itertools
import math
import re
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


def unsupported_attribute(n):
    for c in n.kids:
        h = unsupported_attribute(c)  # noqa: F841
    if n.v > 1:
        v = 1  # noqa: F841
    else:
        u = (1).denominator  # noqa: F841
    return n.v


def counter(start):
    def count():
        nonlocal start
        start += 1
        return start

    return count


def counter_of_an_iteration(n):
    g = counter(n)
    out = []
    for i in range(n):
        out.append(g())
        g = counter(i)
    return out


def counter_in_a_condition(n):
    g = counter(n)
    while g() < n:
        g = counter(n)
    return n


def foreign_call_into_a_cell(n):
    x = dir(n)

    def put(k):
        nonlocal x
        x = k

    put(1)
    return x


def foreign_call_into_a_cell_of_a_recursion(n):
    x = dir(n)

    def put(k):
        nonlocal x
        if k > 0:
            x = k
            put(k - 1)

    put(n)
    return x


def no_attribute_into_a_cell(n):
    x = None.foo  # type: ignore[attr-defined]

    def put(k):
        nonlocal x
        x = k

    if n > 1:
        put(1)
    return x


def generator_of_another_loop(xs):
    for _ in range(2):
        it = (v for v in xs)
    return [sum(it) for _ in range(2)]


def enumerate_of_another_loop(xs):
    for _ in range(2):
        it = enumerate(xs)
    return [len(list(it)) for _ in range(2)]


def zip_of_another_loop(xs):
    for _ in xs:
        it = zip(xs, xs, strict=False)
    out = []
    for _ in xs:
        for a, _ in it:
            out.append(a)
    return out


def get_by_keyword(xs):
    return {x: x for x in xs}.get(9, default=5)


def set_default_by_keyword(xs):
    return {x: x for x in xs}.setdefault(9, default=5)


def pop_by_keyword(xs):
    return {x: x for x in xs}.pop(1, default=5)


def index_of_a_builtin(xs):
    return len["a"](xs)


def slices_of_a_builtin(xs):
    return sum[1:2, None](xs)


def index_of_a_class(xs):
    return int[0](xs[0])


def number_of_a_member(i):
    return Name[i]


def item_of_a_set(xs):
    return set(xs)[1]


def item_of_a_set_deleted(xs):
    s = set(xs)
    del s[1]
    return s


class Number(enum.IntEnum):
    ONE = 1
    TWO = 2


def lists_of_unlike_depth(xs):
    return xs < [xs]


def product_of_a_member(n):
    member = Number.ONE if n else Number.TWO
    return member @ n


def set_into_a_dict(xs):
    d = {"a": [1]}
    d |= set(xs)
    return d


@pytest.mark.parametrize(
    ("f", "x", "code"),
    [
        (lists_of_unlike_depth, [1, 2], "ACR301"), (product_of_a_member, 1, "ACR301"),
        (set_into_a_dict, [1, 2], "ACR301"),
        (index_of_a_builtin, [1, 2], "ACR301"), (slices_of_a_builtin, [1, 2], "ACR301"),
        (index_of_a_class, [1, 2], "ACR301"), (number_of_a_member, 0, "ACR301"),
        (item_of_a_set, [1, 2], "ACR301"), (item_of_a_set_deleted, [1, 2], "ACR301"),
        (get_by_keyword, [1, 2], "ACR203"), (set_default_by_keyword, [1, 2], "ACR203"),
        (pop_by_keyword, [1, 2], "ACR203"),
        (generator_of_another_loop, [1, 2], "ACR303"), (enumerate_of_another_loop, [1, 2], "ACR303"),
        (zip_of_another_loop, [1, 2], "ACR303"), (counter_of_an_iteration, 3, "ACR303"),
        (counter_in_a_condition, 3, "ACR206"), (foreign_call_into_a_cell, 3, "ACR201"),
        (foreign_call_into_a_cell_of_a_recursion, 3, "ACR201"), (no_attribute_into_a_cell, 3, "ACR307"),
        (method_of_an_enum, 1, "ACR210"), (method_of_a_tuple, 1, "ACR210"), (float_bound, 1, "ACR301"),
        (unsupported_attribute, TREE, "ACR209"),
    ],
)  # fmt: skip
def test_it_is_rejected(f, x, code):
    with pytest.raises(AcronumbaError) as caught:
        model(f).batch([x])
    assert not isinstance(caught.value, InternalError) and re.findall(r"ACR\d+", str(caught.value)) == [code]
