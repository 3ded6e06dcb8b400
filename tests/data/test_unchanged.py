"""A shared tree is not packed again while nothing in it has changed; every change of it is seen."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from acronumba import model
from acronumba.data import pack
from acronumba.errors import AcronumbaError


class Node:
    def __init__(self, value: Any, weights: Any = None, left: Any = None, right: Any = None) -> None:
        self.value, self.weights, self.left, self.right = value, weights, left, right
        self.steps = [1, 2]

    def factor(self) -> float:
        return 2.0


class Other(Node):
    def factor(self) -> float:
        return 3.0


def total(node, x):
    if node is None:
        return 0.0
    out = node.value * (node.factor() + len(node.steps)) + sum(node.steps)
    if node.weights is not None:
        out = out + float(node.weights.sum()) * node.weights.shape[0] + float(node.weights.dot(x))
    return out + total(node.left, x) + total(node.right, x)


@model
def f(x, *, root):
    return total(root, x)


def tree() -> Node:
    w = np.arange(3.0)
    return Node(1.0, w, Node(2.0, w * 2, Node(0.0, np.ones(3)), Node(4.0)), Node(5.0, w.copy()))


def in_place(root: Node) -> None:
    root.left.weights[1] = 7.0


def another_number(root: Node) -> None:
    root.left.left.value = 9.5


def negative_zero(root: Node) -> None:
    root.left.left.value = -0.0


def another_array(root: Node) -> None:
    root.left.weights = np.zeros(3)


def no_array(root: Node) -> None:
    root.left.weights = None


def another_child(root: Node) -> None:
    root.left.right = Node(8.0)


def children_in_turn(root: Node) -> None:
    root.left.left, root.left.right = root.left.right, root.left.left


def an_element(root: Node) -> None:
    root.left.steps[0] = 4


def one_more(root: Node) -> None:
    root.left.steps.append(4)


def another_list(root: Node) -> None:
    root.left.steps = [5]


def from_list_to_list(root: Node) -> None:
    """One list has an element more, the next one less: all of them together are the same elements."""
    root.left.left.steps.append(root.left.right.steps.pop(0))


def another_shape(root: Node) -> None:
    with warnings.catch_warnings(action="ignore"):  # NumPy 2.5 deprecates it
        root.left.weights.shape = (3, 1)


def another_method(root: Node) -> None:
    root.left.left.factor = root.left.factor


def a_scalar_of_numpy(root: Node) -> None:
    root.left.left.value = np.float64(0.0)


def another_class(root: Node) -> None:
    root.left.left.__class__ = Other


def hidden(root: Node) -> None:
    root.left.left.factor = lambda: 5.0


def without(root: Node) -> None:
    del root.left.left.value


CHANGES = [
    in_place, another_number, negative_zero, another_array, no_array, another_child, children_in_turn, an_element,
    one_more, another_list, from_list_to_list, another_shape, another_method, a_scalar_of_numpy, another_class, hidden,
    without,
]  # fmt: skip
XS = [np.ones(3), np.array([-1.0, 2.0, 0.5])]


def of(run: Callable[[], Any]) -> Any:
    """Return what is returned; "failed" if anything is raised."""
    try:
        return [float(v).hex() for v in run()]
    except (AttributeError, AcronumbaError, TypeError, ValueError):
        return "failed"


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.__name__)
def test_every_change_is_seen(change: Callable[[Node], None]) -> None:
    root = tree()
    for _ in range(4):
        assert of(lambda: f.batch(XS, root=root)) == of(lambda: [f(x, root=root) for x in XS])
    change(root)
    for _ in range(3):
        got = of(lambda: f.batch(XS, root=root))
        assert got in (
            of(lambda: [f(x, root=root) for x in XS]),
            "failed" if change in (hidden, another_method, another_class) else got[:0],
        )


def test_what_is_the_same_is_packed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    packed = pack.Packer.pack

    def counted(self: Any, columns: Any, *rest: Any) -> Any:
        calls.append(self.schema.params)
        return packed(self, columns, *rest)

    root = tree()
    f.batch(XS, root=root)
    monkeypatch.setattr(pack.Packer, "pack", counted)
    for _ in range(5):
        f.batch(XS, root=root)
    first = len(calls)
    for _ in range(5):
        f.batch(XS, root=root)
    instances = 5
    assert len(calls) == first + instances
    root.left.value = 3.0
    calls.clear()
    f.batch(XS, root=root)
    assert len(calls) > 1


def test_a_tree_that_changes_each_time_is_seen_each_time() -> None:
    root = tree()
    for k in range(12):
        root.left.value = float(k)
        assert of(lambda: f.batch(XS, root=root)) == of(lambda: [f(x, root=root) for x in XS])
