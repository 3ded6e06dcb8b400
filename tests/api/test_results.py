"""Results that are read many at once are those that are read one by one, and those of the plain calls."""

from __future__ import annotations

import enum
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from acronumba import InstanceErrors, model
from acronumba.api.results import FEW, MANY, equal
from acronumba.data import classes

COUNT = MANY + FEW + 3  # several pieces, of which the last is small


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Pair(NamedTuple):
    first: int
    rest: list[float]


@dataclass(frozen=True)
class Leaf:
    value: float
    colour: Colour


class Plain:
    def __init__(self, n: int) -> None:
        self.n = n
        if n % 2:
            self.odd = [n]


class Tree:
    def __init__(self, n: int) -> None:
        self.n = n
        self.left = Tree(n - 1) if n > 1 else None
        self.right = Tree(n - 2) if n > 2 else None


def numbers(n: int, x: np.ndarray) -> Any:
    return n, n / 3, n > 2, None, "same", Colour.RED if n % 2 else Colour.BLUE


def nested_lists(n: int, x: np.ndarray) -> Any:
    return [[float(j) for j in range(k)] for k in range(n)], [(k, k % 2 == 0) for k in range(n)], [None] * n


def dicts(n: int, x: np.ndarray) -> Any:
    out = {}
    for k in range(n):
        out[k, k + 1] = {"a": float(k), "b": [k] * k}
    return out, {"abcdefgh"[k : k + n]: k for k in range(n)}, {k % 3 for k in range(n)}, {"only": n, "these": x}


def fixed_dicts(n: int, x: np.ndarray) -> Any:
    return [{"x": k, "y": k / 2, "z": "t"} for k in range(n)]


def arrays(n: int, x: np.ndarray) -> Any:
    return (
        x,
        x[:2] * 2,
        [x * k for k in range(n)],
        x.sum(),
        [x[k] for k in range(3)],
        np.array(x[0]),
        x.astype(np.float32),
    )


def empty_arrays(n: int, x: np.ndarray) -> Any:
    return x[:0], [x[:0] for _ in range(n)], x[n % 2 :]


def written(n: int, x: np.ndarray) -> Any:
    out = np.zeros((n, 3))
    for k in range(n):
        out[k] = x * k
    row = np.zeros(n)
    for k in range(n):
        row[k] = k / 2
    return out, row, out.T


def objects(n: int, x: np.ndarray) -> Any:
    return Plain(n), [Leaf(k / 2, Colour.RED) for k in range(n)], Pair(n, [x.sum().item()] * n)


def optional(n: int, x: np.ndarray) -> Any:
    return (
        x if n % 2 else None,
        [n] if n % 3 else None,
        "text" + "s" * n if n % 2 else None,
        Plain(n) if n % 3 else None,
    )


def either(n: int, x: np.ndarray) -> Any:
    if n % 3 == 0:
        return n
    return [n, n] if n % 3 == 1 else (n / 2, x)


def of_two_classes(n: int, x: np.ndarray) -> Any:
    return [Leaf(n / 2, Colour.BLUE) if k % 2 else Plain(k) for k in range(n)]


def the_same_twice(n: int, x: np.ndarray) -> Any:
    inner = [n]
    lists = [inner, [n, n], inner]
    found = {"a": inner}
    return lists, inner, lists, found


def what_was_given(n: int, x: np.ndarray) -> Any:
    return x, [x, x], n


def a_tree(n: int, x: np.ndarray) -> Any:
    return Tree(n % 5), n


def made_of_words(n: int, x: np.ndarray) -> Any:
    return Counter([k % 3 for k in range(n)]), deque([n, n + 1]), tuple([k + 1 for k in range(n)])


ALL: Sequence[Callable[..., Any]] = (
    numbers, nested_lists, dicts, fixed_dicts, arrays, empty_arrays, written, objects, optional, either, of_two_classes,
    the_same_twice, what_was_given, a_tree, made_of_words,
)  # fmt: skip


def columns() -> tuple[list[int], list[np.ndarray]]:
    return [k % 7 for k in range(COUNT)], [np.arange(3.0) + k for k in range(COUNT)]


def shape_of(value: Any, seen: dict[int, int]) -> Any:
    """Return what is one object in a value: the number of each list, dict and object, where it is met."""
    if isinstance(value, list | dict | set | tuple) or hasattr(value, "__dict__"):
        if isinstance(value, enum.Enum):
            return None
        parts = list(value.values()) if isinstance(value, dict) else None
        if parts is None:
            parts = (
                [v for _, v in sorted(vars(value).items())]
                if hasattr(value, "__dict__")
                else []
                if isinstance(value, set)
                else value
            )
        known = id(value) in seen
        number = seen.setdefault(id(value), len(seen))
        mine = None if isinstance(value, tuple) else number  # Python may make one tuple of equal ones
        return mine, None if known and mine is not None else [shape_of(part, seen) for part in parts]
    return None


@pytest.mark.parametrize("fn", ALL, ids=lambda fn: fn.__name__)
def test_all_at_once_and_one_by_one(fn: Callable[..., Any]) -> None:
    f = model(fn)
    ns, xs = columns()
    plain = [fn(n, x) for n, x in zip(ns, xs, strict=True)]
    whole = f.batch(ns, xs)
    together = list(whole)
    assert all(a is b for a, b in zip(together, whole, strict=True))
    single = [f.batch(ns, xs)[k] for k in (0, 1, 5, COUNT - 1)]
    for k, a in zip((0, 1, 5, COUNT - 1), single, strict=True):
        assert equal(a, together[k])
    for a, b in zip(together, plain, strict=True):
        assert equal(a, b)
        assert repr(type(a)) == repr(type(b))
        assert shape_of(a, {}) == shape_of(b, {})
    counted = f.batch(ns, xs)
    assert all(equal(counted[k], plain[k]) for k in range(COUNT))  # more and more of them at a time
    assert all(map(equal, f.batch(ns, xs)[3 : COUNT - 2], plain[3 : COUNT - 2]))


def test_instances_share_nothing() -> None:
    results = list(model(nested_lists).batch(*columns()))
    results[0][2].append("mine")
    lists = [id(part) for value in results for part in value]
    assert len(set(lists)) == len(lists)


def test_the_users_own_objects() -> None:
    @model
    def pick(trees: list[Leaf], n: int) -> Any:
        return [trees[n], trees[0]], trees

    given = [[Leaf(k / 2, Colour.RED), Leaf(1.0, Colour.BLUE)] for k in range(COUNT)]
    for value, own in zip(pick.batch(given, [k % 2 for k in range(COUNT)]), given, strict=True):
        assert value[1] is own
        assert value[0][1] is own[0]


def test_of_some_that_fail() -> None:
    @model
    def f(n: int) -> Any:
        return [10 // n], {"n": n}

    ns = [k % 4 for k in range(COUNT)]
    with pytest.raises(InstanceErrors) as caught:
        f.batch(ns)
    assert list(caught.value.results) == [([10 // n], {"n": n}) if n else None for n in ns]


class Found(NamedTuple):
    value: int
    index: int


def test_a_named_tuple_that_is_shown_as_another_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classes, "_shown", {Found: frozenset})

    def found(k: int) -> tuple[Found, list[Found]]:
        return Found(k, 2), [Found(k + 1, 3)] * k

    outs = model(found).batch([5, 2, 0])
    assert list(outs) == [(frozenset({k, 2}), [frozenset({k + 1, 3})] * k) for k in (5, 2, 0)]
    assert model(found).batch([5])[0] == (frozenset({5, 2}), [frozenset({6, 3})] * 5)
