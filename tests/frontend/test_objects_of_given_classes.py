"""Objects made in the call, of classes of which the data has objects too: they change, those that came in never do."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from acronumba import InstanceErrors, Unsupported, model, pack
from acronumba.api.results import equal
from tests.support.plain_call import agree, outcomes, plain


class Node:
    def __init__(self, v: Any, left: Any = None, right: Any = None) -> None:
        self.v = v
        self.left = left
        self.right = right

    def add(self, k: int) -> None:
        self.v += k


TREES = [Node(1), Node(2, Node(3)), Node(1, Node(2, None, Node(4)), Node(5))]
CASES: dict[str, Callable[..., Any]] = {}


def case(fn: Callable[..., Any]) -> Callable[..., Any]:
    CASES[fn.__name__] = fn
    return fn


@case
def reversed_list(t):
    out = None
    while t is not None:
        out = Node(t.v, out)
        t = t.left
    out.v += 10
    return out


@case
def copied_tree(t):
    def cp(n):
        if n is None:
            return None
        return Node(n.v, cp(n.left), cp(n.right))

    c = cp(t)
    c.v += 100
    if c.left is not None:
        c.left.v += 1
        c.left.add(5)
    return c, t.v


@case
def copied_piece_by_piece(t):
    def cp(n):
        m = Node(n.v)
        if n.left is not None:
            m.left = cp(n.left)
        if n.right is not None:
            m.right = cp(n.right)
        return m

    c = cp(t)
    c.v += 1
    return c


@case
def search_tree(t):
    def ins(n, v):
        if n is None:
            return Node(v)
        if v < n.v:
            n.left = ins(n.left, v)
        else:
            n.right = ins(n.right, v)
        return n

    root, todo = None, [t]
    while todo:
        n = todo.pop()
        root = ins(root, n.v)
        if n.left is not None:
            todo.append(n.left)
        if n.right is not None:
            todo.append(n.right)
    return root, t


@case
def linked_to_each_other(t):
    first = Node(t.v)
    second = Node(2, first)
    first.right = second
    second.left.v += 7
    first.right.v += 1
    return first.v, second.v, t.v


@case
def one_of_two_of_the_call(t):
    a, b = Node(1), Node(2, t)
    c = a if t.v > 1 else b
    c.v = 5
    return a, b, c.v


@case
def chosen_by_a_branch(t):
    if t.v > 1:
        n = Node(1)
    else:
        n = Node(2, t)
    n.v += 1
    return n


@case
def list_of_the_call(t):
    many = [Node(k, t) for k in range(4)]
    for n in many:
        n.v += 1
    many[t.v].v = 50
    return [n.v for n in many], many[0].left.v


@case
def holds_what_came_in(t):
    n = Node(t.left, t)
    n.v = t.right
    n.left = Node(3, t)
    n.left.v += 1
    return n.v, n.left


@pytest.mark.parametrize("name", CASES)
def test_like_the_plain_call(name: str) -> None:
    fn, before = CASES[name], copy.deepcopy(TREES)
    wanted = plain(fn, TREES)
    snapshot = pack(TREES)
    for run in (model(fn).batch, model(fn)._interpret, model(fn).with_options(forkjoin=False).batch):
        agree(outcomes(run, TREES), wanted)
    for _ in range(2):  # the packed words are what they were
        agree(outcomes(model(fn).batch, snapshot), wanted)
    assert equal(TREES, before)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_on_the_simulator(name: str) -> None:
    agree(outcomes(model(CASES[name]).on("simulator").batch, TREES), plain(CASES[name], TREES))


# ---- only run time knows which it is


def changes_the_one_or_the_other(t):
    n = Node(5) if t.v > 1 else t
    n.v += 1
    return n.v


def changes_the_end(t):
    n = Node(7, t)
    while n.left is not None:
        n = n.left
    n.v = 3
    return n.v


def inserts_into_what_came_in(t):
    def ins(n, v):
        if n is None:
            return Node(v)
        n.left = ins(n.left, v)
        return n

    return ins(t, 3).v


SHARED = Node(4)


def changes_what_is_shared(t):
    n = Node(1, SHARED if t.v > 1 else Node(2))
    n.left.v += 1
    return n.left.v


@pytest.mark.parametrize(
    ("fn", "failing"),
    [
        (changes_the_one_or_the_other, [0, 2]),
        (changes_the_end, [0, 1, 2]),
        (changes_what_is_shared, [1]),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_what_came_in_fails_its_instance(fn: Callable[..., Any], failing: list[int], packed: bool) -> None:
    before, snapshot = copy.deepcopy((TREES, SHARED)), pack(TREES)
    wanted = plain(fn, copy.deepcopy(TREES)) if fn is not changes_what_is_shared else [3, None, 3]
    for run in (model(fn).batch, model(fn)._interpret):
        with pytest.raises(InstanceErrors) as caught:
            run(snapshot if packed and run.__name__ == "batch" else TREES)
        assert sorted(caught.value.errors) == failing
        for error in caught.value.errors.values():
            assert type(error) is Unsupported and error.code == "ACR113" and error.line
        for k, result in enumerate(caught.value.results):
            assert k in failing or result == wanted[k]
    assert equal(((TREES, SHARED)), before)
    assert model(lambda t: (t.v, t.left)).batch(snapshot)[1][1].v == 3


def changes_a_parameter_beside_one_of_the_call(t):
    n = Node(1)
    n.left = Node(2, n)
    t.v += n.v
    return t.v


@pytest.mark.parametrize("fn", [changes_a_parameter_beside_one_of_the_call, inserts_into_what_came_in])
def test_what_certainly_came_in_is_changed_for_the_instance_alone(fn: Callable[..., Any]) -> None:
    before, wanted = copy.deepcopy(TREES), plain(fn, copy.deepcopy(TREES))
    f = model(fn, state="initial")
    for run in (f.batch, f._interpret):
        agree(outcomes(run, TREES), wanted)
    with pytest.raises(InstanceErrors) as caught:
        model(fn).batch(TREES)  # it reads what it writes later
    assert {error.code for error in caught.value.errors.values()} == {"ACR118"}
    assert equal(TREES, before)


def test_arrays_in_such_objects() -> None:
    def f(t):
        out = None
        while t is not None:
            out = Node(t.v * 2, out)
            t = t.left
        out.v = out.v + 1
        return out.v, None if out.left is None else out.left.v

    column = [Node(np.arange(3.0)), Node(np.ones(3), Node(np.zeros(3)))]
    for run in (model(f).batch, model(f)._interpret):
        agree(outcomes(run, column), plain(f, column))
