"""Choices at run time, unions, aliases of lists."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from acronumba import nn
from tests.support.model_cases import H, V, case, weights

INTS = [0, 1, 2, 3]
XS = [weights(H) for _ in range(4)]
W = [weights(H, H) for _ in range(3)]


def double(x):
    return x * 2


def tanh(x):
    return np.tanh(x)


ACTIONS = (double, tanh, nn.relu, np.sin)


@case(INTS, XS)
def function_by_index(n, x):
    return ACTIONS[n](x)


@case([[0, 3, 1], [2], []], XS[:3])
def program_of_functions(ops, x):
    for op in ops:
        x = ACTIONS[op](x)
    return x


@case(INTS, XS)
def function_by_branch(n, x):
    f = double
    for k in range(n):
        if k == 1:
            f = tanh
        elif k == 2:
            f = lambda v: v - n
        x = f(x)
    return f(x)


@case([[2, 3], [5], []])
def membership(xs):
    return 3 in xs, 5 not in xs, len(xs) in xs, 2 in range(len(xs) + 1), [x for x in range(4) if x in xs]


@dataclass
class Circle:
    r: float

    def area(self):
        return 3.0 * self.r**2

    @property
    def name(self):
        return 1


@dataclass
class Square:
    a: float
    b: float | None = None

    def area(self):
        return self.a * (self.b if self.b is not None else self.a)

    @property
    def name(self):
        return 2


@dataclass
class Group:
    shapes: list[Circle | Square | Group] = field(default_factory=list)

    def area(self):
        return sum(s.area() for s in self.shapes)

    @property
    def name(self):
        return 3


SHAPES = [
    Circle(1.0),
    Square(2.0),
    Square(2.0, 0.5),
    Group([Circle(2.0), Group([Square(1.0)]), Square(3.0, 2.0)]),
    Group(),
]


@case(SHAPES)
def dispatch(s):
    return s.area(), s.name


@case([[Circle(1.0), Square(2.0)], [Square(1.0, 1.0)], [Circle(0.5)]])
def largest(shapes):
    best = max(shapes, key=lambda s: s.area())
    total = sum([s.area() for s in shapes])
    return best, total, [s.name for s in shapes], sorted(shapes, key=lambda s: -s.area())[0].area()


@case([[1, 2], [3]])
def aliases(xs):
    a = []
    b = a
    for x in xs:
        b.append(x)
    c = [a, b]
    c[0].append(9)
    grid = [[0] * 2] * 2
    grid[0][1] = 5
    return a, c, grid, len(c[1])


@case([[[1], [2, 3]], [[4]]])
def rows_of_data(rows):
    out = [list(r) for r in rows]
    for r in out:
        r.append(len(r))
        r[0] += 10
    picked = out[0]
    picked.sort()
    return out, rows[0], picked


@case(INTS, XS)
def either_shape(n, x):
    if n == 0:
        y = x
    elif n == 1:
        y = x.sum()
    else:
        y = x[:, None] * x
    return (y * y).mean(), (y * 2).sum() + 1, np.exp(y).shape


@case(INTS)
def union_of_numbers(n):
    v = None
    if n == 1:
        v = 3
    elif n == 2:
        v = 2.5
    elif n == 3:
        v = (1, 2)
    if v is None:
        return -1
    if isinstance(v, tuple):
        return v[0] + v[1]
    return v * 2


@case([[weights(n, H) for n in (1, 3, 2)], [weights(2, H)]])
def concatenate_data(parts):
    x = np.concatenate(parts)
    y = np.concatenate([p[:1] for p in parts], axis=0)
    return x, y, np.stack([p.sum(0) for p in parts], axis=1), np.array([len(p) for p in parts])


@case([[0, 2, 1], [1]], p=weights(V, H))
def index_by_list(ids, *, p):
    return p[ids], p[[0, 1]], p[np.array(ids) + 1].sum(axis=0), p[[i + 1 for i in ids]].mean(), p[1:][ids, :]


@case(XS)
def in_place(x):
    y = np.zeros_like(x)
    for k in range(3):
        y += x * k
    z = y.reshape(1, -1) * 1.0
    z -= 1
    total = x.sum(keepdims=True)
    total *= 2
    return y, z, total


@case([[3, 4, 5, 6], [1, 2]])
def unpack_run_time(xs):
    first, *rest = xs
    *init, last = xs
    a, *middle, b = [x * 2 for x in xs]
    return first, rest, init, last, a, middle, b, [*xs, 0, *rest], [0, *reversed(xs)]


@case([[3, 4], []])
def unpack_too_few(xs):
    first, *rest = xs
    return first, rest


@case(INTS)
def text_constants(n):
    mode = "up" if n > 1 else "down"
    kinds = "a,b,c".split(",")
    return mode == "up", mode.startswith("d"), len(kinds), mode.upper() == "UP", {"up": 1, "down": 2}[mode]


@case(INTS)
def while_with_state(n):
    todo, done = [n, n + 1], []
    while todo:
        k = todo.pop(0)
        if k > 6 or k in done:
            continue
        done.append(k)
        todo.extend([k + 2, k * 2])
        if len(done) > 5:
            break
    return done, todo
