"""Small programs as people write them: features that meet each other, each compared with its plain call."""

from __future__ import annotations

import enum
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


class Box:
    def __init__(self, f: Any) -> None:
        self.f = f

    def __iter__(self):
        return iter((self.f, 1))


def add_along(a, k):
    if k <= 0:
        return a
    a[k % len(a)] += k
    return add_along(a, k - 1)


def either(a, b, n):
    return a if n > 1 else b


def passed_to_a_recursion(x, n):
    m, a = np.zeros((2, 3)), np.zeros(3)
    add_along(m[0], n)
    add_along(a, n)
    return m, a


def one_of_two_in_a_field(x, n):
    a, b = np.zeros(3), x.copy()
    o = Box(a)
    o.f[0] = 1
    a = either(b, a, n)
    b[0] = 2.5
    return o.f, a, b


def another_array_of_the_name(x, n):
    c = np.zeros(3)
    kept, d, t, u = [], {"p": c}, (c, 1), c
    kept.append(c)
    d["q"] = c
    for i in range(n):
        c = np.ones(3) * i
        u[1] -= 1
        kept.append(u)
        kept.append(c)
    t[0][0] += x[0]
    return kept, d, c


def on_some_paths(x, n):
    m = np.zeros((2, 3))
    if n > 1:
        n = n + 1
    else:
        for _ in range(n):
            for q in m:
                q[0] += 2.5
    for q in m:
        q[0] += 3
    return m, n


def unpacked(x, n):
    a, b = Box(n)
    c, d = (v * 2 for v in range(n, n + 2))
    e, f, g = (v + 1 for v in x)
    (i, h), (j, k) = enumerate(sorted([n, 1]))
    p, q = {n: 1, n + 1: 2}
    return a, b, c, d, e, f, g, h, i, j, k, p, q


class Expr:
    def __init__(self, op: Any, args: Any = ()) -> None:
        self.op, self.args = op, args


EXPRS = [Expr("a", [Expr("b"), Expr("c", [Expr("d")])]), Expr("e"), Expr("f", (Expr("g"), Expr("h")))]


def lists_or_tuples(e):
    def depth(e):
        return 1 + max((depth(a) for a in e.args), default=0)

    def every(e):
        out = [e.op]
        for i, a in enumerate(e.args):
            out += [i] if i > 5 else every(a)
        return out

    return (
        depth(e),
        every(e),
        [a.op for a, _ in zip(e.args, e.args[1:], strict=False)],
        [a.op for a in reversed(e.args)],
    )


class Kind(enum.Enum):
    A = "alpha"
    B = "b"

    @property
    def label(self):
        return self.name.lower()


def texts_of_members(kinds):
    text = "-".join(k.value for k in kinds)
    return text, [k.name for k in kinds], [k.label for k in kinds], {k.name: k.value == "b" for k in kinds}


def equally_far_apart(f, g, n):
    return (
        np.linspace(0, f, 3),
        np.linspace(f, g, 4),
        np.linspace(f, n, 3),
        np.linspace([0, 1], f, 3),
        np.linspace(g, n),
    )


COLUMNS = [np.array([[0.5], [-2.0]], np.float32), np.zeros((1, 1), np.float32)]
ARRAYS = [np.array([0.5, -1.0, 2.0]), np.array([-1.0, 3.0, 0.0]), np.array([4.0, 3.0, 0.0])], [2, 0, 1]
CASES: dict[Any, tuple[Any, ...]] = {
    passed_to_a_recursion: ARRAYS,
    one_of_two_in_a_field: ARRAYS,
    another_array_of_the_name: ARRAYS,
    on_some_paths: ARRAYS,
    unpacked: ARRAYS,
    lists_or_tuples: (EXPRS,),
    texts_of_members: ([[Kind.A, Kind.B, Kind.A], [], [Kind.B]],),
    maybe_one_of_several: ([[1, 2, 3], [], [2], [], []], [1, 2, 0, 0, 4]),
    sum_of_a_recursion: (TREES,),
    one_name_in_two_scopes: (TREES,),
    clipped_in_place: (COLUMNS, [3, 0]),
    equally_far_apart: ([np.float32(1.5), np.float32(0)], [2.5, -1.0], [3, 0]),
}


@pytest.mark.parametrize(("way", "f"), by_ways(list(CASES), [f.__name__ for f in CASES], compiled=4, simulated=2))
def test_ordinary_programs(way, f):
    f, columns = model(f), CASES[f]
    run = {"interpreted": f._interpret, "compiled": f.batch, "simulated": f.on("simulator").batch}[way]
    wanted = plain(f.__wrapped__, *columns)
    for k, (mine, theirs) in enumerate(zip(outcomes(run, *columns), wanted, strict=True)):
        assert not difference(mine, theirs, 8), k
