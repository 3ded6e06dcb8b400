"""A shared tree is not packed again while nothing in it has changed; every change of it is seen."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import acronumba
from acronumba import model
from acronumba.data import pack, unchanged
from acronumba.errors import AcronumbaError
from acronumba.pipeline import packed_shared


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


class Branch:
    """A tree whose children are in a dict, with a tuple, a set and a table of numbers."""

    def __init__(self, value: float, left: Any = None, right: Any = None) -> None:
        self.value = value
        self.kids = {0: left, 1: right} if left is not None else {}
        self.pair = (value, [1.0, value])
        self.table = {"a": value, "b": 2.0}
        self.marks = {1, 5}


def below(node, x):
    out = node.value * x + node.pair[0] + sum(node.pair[1])
    for key in sorted(node.table):
        out = out * 2.0 + node.table[key] * len(key)
    for mark in sorted(node.marks):
        out = out * 2.0 + mark
    for k in node.kids:
        out = out * 1.5 + below(node.kids[k], x) * (k + 1)
    return out


@model
def g(x, *, root, words, numbers, chosen):
    out = below(root, x)
    for n in numbers:
        out = out + n * 3.0
    return out + words.get("w3", 100.0) * 7.0 + (1000.0 if 7 in chosen else 0.0) + len(words) * 0.5


def given() -> dict[str, Any]:
    return {
        "root": Branch(1.0, Branch(2.0), Branch(3.0, Branch(4.0), Branch(5.0))),
        "words": {f"w{k}": k / 2 for k in range(40)},
        "numbers": [k / 4 for k in range(20)],
        "chosen": {3, 4},
    }


def _kids(p: dict[str, Any]) -> Any:
    return p["root"].kids[1].kids


PARTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "a number": lambda p: setattr(_kids(p)[0], "value", 9.0),
    "another child": lambda p: _kids(p).update({0: Branch(8.0)}),
    "another dict": lambda p: setattr(p["root"].kids[1], "kids", {1: Branch(7.0), 0: Branch(6.0)}),
    "a child less": lambda p: _kids(p).pop(0),
    "children in turn": lambda p: _kids(p).update({0: _kids(p)[1], 1: _kids(p)[0]}),
    "another order": lambda p: _kids(p).update({0: _kids(p).pop(0)}),
    "in a tuple": lambda p: setattr(_kids(p)[0], "pair", (2.0, [1.0])),
    "in a list in a tuple": lambda p: _kids(p)[0].pair[1].append(3.0),
    "an entry": lambda p: _kids(p)[0].table.update(a=0.5),
    "a zero": lambda p: (_kids(p)[0].table.update(a=0.0), _kids(p)[0].table.update(a=-0.0)),
    "an element": lambda p: _kids(p)[0].marks.add(2),
    "an element for another": lambda p: (_kids(p)[0].marks.remove(1), _kids(p)[0].marks.add(2)),
    "a word": lambda p: p["words"].update(w3=0.25),
    "a word less": lambda p: p["words"].pop("w3"),
    "a number of a list": lambda p: p["numbers"].__setitem__(3, 8.0),
    "a number more": lambda p: p["numbers"].append(1.0),
    "a set": lambda p: p["chosen"].add(7),
}


@pytest.mark.parametrize("part", PARTS)
def test_every_change_of_a_container_is_seen(part: str) -> None:
    p = given()
    for _ in range(3):
        assert of(lambda: g.batch([1.0, 2.0], **p)) == of(lambda: [g(x, **p) for x in (1.0, 2.0)])
    before = of(lambda: g.batch([1.0, 2.0], **p))
    PARTS[part](p)
    for _ in range(2):
        assert of(lambda: g.batch([1.0, 2.0], **p)) == of(lambda: [g(x, **p) for x in (1.0, 2.0)])
    assert part == "a zero" or of(lambda: g.batch([1.0, 2.0], **p)) != before


@pytest.mark.parametrize("frozen", [False, True])
def test_no_call_packs_what_the_last_one_has_packed(frozen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    p = given()
    if frozen:
        p = {"root": acronumba.pack(p["root"]), "words": acronumba.pack(p["words"])} | {
            name: p[name] for name in ("numbers", "chosen")
        }
    m = model(g.__wrapped__)
    want = of(lambda: m.batch([1.0, 2.0], **p))
    packed: list[Any] = []
    monkeypatch.setattr(packed_shared.PackedShared, "_pack", lambda self, value: packed.append(value))
    if frozen:
        monkeypatch.setattr(unchanged._Table, "is_valid", lambda self: type(self._owned[0]) is not Branch)
    for _ in range(3):
        assert of(lambda: m.batch([1.0, 2.0], **p)) == want
    assert not packed


def test_a_value_and_its_snapshot_are_not_mistaken_for_one_another() -> None:
    p = given()
    snapshot = acronumba.pack(p["root"])
    for _ in range(2):
        for root, value in ((snapshot, snapshot), (p["root"], p["root"]), (snapshot.value, snapshot.value)):
            assert of(partial(g.batch, [1.0], **p | {"root": root})) == [float(g(1.0, **p | {"root": value})).hex()]
        snapshot.value.kids[0].value += 1.0  # as nobody should
        assert of(lambda: g.batch([1.0], **p | {"root": snapshot.value})) == of(
            lambda: [g(1.0, **p | {"root": snapshot.value})]
        )
        snapshot.value.kids[0].value -= 1.0


@model
def first_child(x, *, root):
    return root.value * x, root.left


def test_who_was_given_a_part_of_a_snapshot_may_change_it() -> None:
    root = acronumba.pack(tree())
    for k in range(3):
        (value, part), (want, same) = first_child.batch([2.0], root=root)[0], first_child(2.0, root=root)
        assert value == want and part is same
        part.value = float(k)
        assert first_child.batch([2.0], root=root)[0][1].value == k
        assert of(lambda: f.batch(XS, root=root.value)) == of(lambda: [f(x, root=root.value) for x in XS])


def test_a_tree_that_changes_each_time_is_seen_each_time() -> None:
    root = tree()
    for k in range(12):
        root.left.value = float(k)
        assert of(lambda: f.batch(XS, root=root)) == of(lambda: [f(x, root=root) for x in XS])


def test_a_value_that_comes_while_another_is_packed_is_not_taken_for_it() -> None:
    """As where two threads call a model with other weights each."""

    class Always:
        def is_valid(self) -> bool:
            return True

    for frozen in (False, True):
        latest, one, other = unchanged.Latest(), [1], [2]

        def ask(value: Any, packed: Callable[[], Any], latest: Any = latest, frozen: bool = frozen) -> Any:
            return latest.batch(value, frozen, packed, lambda value, batch: Always())

        def pack_one(ask: Any = ask, other: Any = other) -> str:
            assert ask(other, lambda: "other") == "other"
            return "one"

        assert ask(one, pack_one) == "one"
        assert ask(other, lambda: "other") == "other" and ask(one, lambda: "one") == "one"
