"""Small programs as people write them: features that meet each other, each compared with its plain call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba import model
from tests.support.chosen import by_ways
from tests.support.everywhere import difference
from tests.support.plain_call import outcomes, plain

W = np.random.default_rng(5).standard_normal((3, 3)).astype(np.float32)


class Square:
    def __init__(self, side: Any) -> None:
        self.side = side


class Circle:
    def __init__(self, radius: Any) -> None:
        self.radius = radius


class Node:
    def __init__(self, word: Any = None, kids: Any = ()) -> None:
        self.word, self.kids = word, list(kids)


TREES = [Node(None, [Node("a"), Node("b")]), Node(None, [Node(None, [Node("d")])]), Node("b")]


def maybe_one_of_several(xs, n):
    shapes = [Square(v) if v % 2 else Circle(v) for v in xs]
    for s in shapes:  # noqa: B007
        pass
    if n > 1:
        s = 2
    if n > 2:
        s = (2, 3)
    return s if n > 1 or xs else 3


def sum_of_a_recursion(t):
    def enc(t):
        if t.word is not None:
            h = np.ones(3, np.float32)
        else:
            h = np.tanh(W @ sum([enc(k) for k in t.kids]))
        return h

    return enc(t)


def one_name_in_two_scopes(t):
    def show(t):
        return t.word if t.word is not None else "(" + "".join(show(k) for k in t.kids) + ")"

    def leaves(t):
        return [t.word] if not t.kids else [w for k in t.kids for w in leaves(k)]

    text, count = show(t), {}
    for w in leaves(t):
        count[w] = count.get(w, 0) + 1
    return text, leaves(t), count


def clipped_in_place(x, n):
    a, b = np.zeros_like(x), np.zeros((3, 2), np.float32)
    for _ in range(n):
        a += np.dot(x, np.ones((1, 1)))
        b += x.sum()
    for d in [a, b]:
        np.clip(d, -1.5, 2, out=d)
    g = {"a": a * 3, "b": b + 1}
    for k in g:
        np.clip(g[k], 0, n, out=g[k])
    y = x.copy()
    return a, b, g, y.clip(0, 1, out=y), y, np.clip(x, 0, 1, out=np.empty_like(x))


def equally_far_apart(f, g, n):
    return (
        np.linspace(0, f, 3),
        np.linspace(f, g, 4),
        np.linspace(f, n, 3),
        np.linspace([0, 1], f, 3),
        np.linspace(g, n),
    )


COLUMNS = [np.array([[0.5], [-2.0]], np.float32), np.zeros((1, 1), np.float32)]
CASES: dict[Any, tuple[Any, ...]] = {
    maybe_one_of_several: ([[1, 2, 3], [], [2], [], []], [1, 2, 0, 0, 4]),
    sum_of_a_recursion: (TREES,),
    one_name_in_two_scopes: (TREES,),
    clipped_in_place: (COLUMNS, [3, 0]),
    equally_far_apart: ([np.float32(1.5), np.float32(0)], [2.5, -1.0], [3, 0]),
}


@pytest.mark.parametrize(("way", "f"), by_ways(list(CASES), [f.__name__ for f in CASES], compiled=2, simulated=2))
def test_ordinary_programs(way, f):
    f, columns = model(f), CASES[f]
    run = {"interpreted": f._interpret, "compiled": f.batch, "simulated": f.on("simulator").batch}[way]
    wanted = plain(f.__wrapped__, *columns)
    for k, (mine, theirs) in enumerate(zip(outcomes(run, *columns), wanted, strict=True)):
        assert not difference(mine, theirs, 8), k
