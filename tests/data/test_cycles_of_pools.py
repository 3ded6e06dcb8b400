"""Results whose types contain themselves: several are read in waves, and are what each is that is read alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

from acronumba import model
from acronumba.data import unpack_columns
from acronumba.data.pools import Deep
from acronumba.data.unpack_columns import ColumnReader


@dataclass
class Tree:
    word: int
    kids: list[Tree]


@dataclass
class Found:
    h: np.ndarray
    kids: list[Found]
    first: Found | None
    named: dict[str, Found]
    pair: tuple[Found | None, int]
    given: Tree


@model
def grow(t: Tree, *, w: np.ndarray) -> Found:
    """Return a tree, parts of which occur several times, and which holds what it was made of."""
    kids = [grow(k, w=w) for k in t.kids]
    h = w[t.word]
    for k in kids:
        h = h + k.h
    first = kids[0] if len(kids) > 0 else None
    return Found(h, kids + kids[:1], first, {"self": kids[-1]} if len(kids) > 1 else {}, (first, t.word), t)


@dataclass
class Ring:
    h: np.ndarray
    next: Ring | None = None
    all: list[Ring] = field(default_factory=list)


@model
def ring(n: int, *, w: np.ndarray) -> Ring:
    first = Ring(w[0])
    last = first
    for k in range(1, n):
        new = Ring(w[k % 3] + last.h)
        last.next = new
        first.all.append(new)
        last = new
    last.next = first
    return first


@model
def chain(n: int, *, w: np.ndarray) -> Ring:
    out = Ring(w[0])
    for k in range(n):
        out = Ring(w[k % 3], out)
    return out


class Link(NamedTuple):
    n: int
    next: Link | None


@model
def linked(n: int) -> Link:
    out = Link(0, None)
    for k in range(n):
        out = Link(k, out)
    return out


@dataclass
class Leaf:
    h: np.ndarray


@dataclass
class Fork:
    parts: list[Leaf | Fork]
    met: dict[int, Fork]


@model
def forks(t: Tree, *, w: np.ndarray) -> Leaf | Fork:
    if len(t.kids) == 0:
        return Leaf(w[t.word])
    return Fork([forks(k, w=w) for k in t.kids], {})


W = np.arange(12, dtype=np.float32).reshape(3, 4)


def tree(k: int, depth: int = 4) -> Tree:
    return Tree(k % 3, [tree(k + 2 * j + 1, depth - 1) for j in range((k * 7 + depth) % 4)] if depth else [])


def written(value: Any, given: Any = ()) -> list[Any]:
    """Return a value as a flat list in which what occurs again is a number; what was given is one by its identity."""
    out: list[Any] = []
    numbers: dict[int, int] = {}
    todo = [value]
    while todo:
        v = todo.pop()
        if isinstance(v, int | float | str | None):
            out.append(v)
            continue
        if id(v) in numbers:
            out.append(("again", numbers[id(v)]))
            continue
        numbers[id(v)] = len(numbers)
        if isinstance(v, np.ndarray | np.generic):
            out.append((type(v), v.dtype, v.shape, v.tobytes(), getattr(v, "flags", W.flags).writeable))
        elif isinstance(v, list | tuple):
            out.append((type(v), len(v)))
            todo += v
        elif isinstance(v, dict):
            out.append((dict, list(v)))
            todo += v.values()
        elif isinstance(v, Tree):
            out.append(id(v))
        else:
            out.append((type(v), list(vars(v))))
            todo += vars(v).values()
    return out


def alike(results: Any, n: int) -> None:
    decode = results._decode
    together = decode.many(range(n))
    for k in range(n):
        assert written(together[k]) == written(decode.one(k))


TREES = [tree(k) for k in range(40)]


@pytest.fixture
def waves(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How mini-batches were read in columns."""
    read, told = ColumnReader.read, list[str]()

    def noted(self: ColumnReader, *given: Any) -> Any:
        try:
            found = read(self, *given)
        except Deep:
            told.append("deep")
            raise
        told.append("waves" if self.cyclic else "columns")
        return found

    monkeypatch.setattr(unpack_columns.ColumnReader, "read", noted)
    return told


def test_trees_with_parts_that_occur_again(waves: list[str]) -> None:
    alike(grow.batch(TREES, w=W), len(TREES))
    assert waves == ["waves"]


def test_what_was_given_is_what_it_was() -> None:
    for t, found in zip(TREES, grow.batch(TREES, w=W), strict=True):
        assert found.given is t and all(a.given is b for a, b in zip(found.kids, t.kids, strict=False))


def test_objects_of_several_classes(waves: list[str]) -> None:
    alike(forks.batch(TREES, w=W), len(TREES))
    assert waves == ["waves"]


def test_rings(waves: list[str]) -> None:
    alike(ring.batch(list(range(1, 40)), w=W), 39)
    assert waves == ["waves"]


def test_few_long_chains_are_read_one_by_one(waves: list[str]) -> None:
    alike(chain.batch([3000, 2], w=W), 2)
    assert waves == ["deep"]


def test_many_chains_are_read_together(waves: list[str]) -> None:
    alike(chain.batch([200] * 64, w=W), 64)
    assert waves == ["waves"]


def test_what_is_made_with_all_that_it_holds_is_read_one_by_one(waves: list[str]) -> None:
    found = linked.batch([3, 5])
    alike(found, 2)
    assert found[0] == Link(2, Link(1, Link(0, Link(0, None))))
    assert waves == []


def test_instances_share_nothing_that_was_made() -> None:
    a, b = grow.batch([TREES[5], TREES[5]], w=W)
    assert a is not b and a.kids is not b.kids and a.given is b.given
