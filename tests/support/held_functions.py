"""Random programs over objects that hold functions: they are called, compared, kept in lists and returned."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

HEADER = """
import math
import operator

import numpy as np


class Node:
    def __init__(self, f=None, g=None, kids=(), x=1.0, pairs=(), k=0):
        self.f, self.g, self.kids, self.x, self.pairs, self.k = f, g, list(kids), x, pairs, k


class Box:
    def __init__(self, x):
        self.x = x


def double(v):
    return 2 * v


def ident(v):
    return v


def neg(v):
    return -v


def add(a, b):
    return a + b


def optional(a, b=2.0):
    return a * b


def rec(v):
    return v if v < 2 else rec(v - 1) + 1


def plus(k):
    return lambda v: v + k


def twice(f, k=1):
    def inner(v):
        return f(v) * k

    return inner


def tripled():
    return lambda v, k=3: v * k


def num(v):
    return float(v) if isinstance(v, (int, float, np.generic)) else 0.25


def call(f, v):
    return f(v)
"""
FUNCTIONS = [
    "math.tanh", "math.sqrt", "math.floor", "math.isnan", "abs", "float", "int", "bool", "round", "double", "ident",
    "neg", "rec", "operator.neg", "np.tanh", "np.abs", "np.sign", "plus(2)", "plus(3.5)", "twice(double)", "tripled()",
    "twice(plus(1), 3)", "optional", "np.float64", "operator.add", "add", "math.pow", "operator.lt", "len", "sum",
    "Box", "np.exp", "operator.not_",
]  # fmt: skip
STATEMENTS = [
    "if n.f is not None:\n        acc += num(n.f(n.x))",
    "if n.g:\n        acc += num(n.g(acc))",
    "for f in [n.f, n.g]:\n        if f is not None:\n            acc += num(f(0.5))",
    "fs = []\n    for c in n.kids:\n        fs.append(c.f)\n"
    "    for f in fs:\n        if f:\n            acc = num(f(acc))",
    "acc += num(call(n.f or ident, n.x))",
    "acc += 1 if n.f is double else 0",
    "acc += 2 if n.f == abs else 0",
    "out = n.f",
    "out = (n.f, n.g, acc)",
    "out = [c.f for c in n.kids]",
    'out = n.f.__name__ if n.f is not None and n.k < 3 else ""',
    "f = n.f if n.k > 1 else double\n    if f is not None:\n        acc += num(f(n.x))",
    "f = n.f if n.f is not None else math.tanh\n    acc += num(f(n.x))",
    "d = {1: n.f, 2: double}\n    if d[1] is not None:\n        acc += num(d[1](1.5))",
    "for f, w in n.pairs:\n        acc = num(f(acc * w))",
    "acc += sum(num(f(1.0)) for f, _ in n.pairs)",
    "if n.f:\n        acc += num(n.f(*[c.x for c in n.kids]))",
    "if n.f:\n        acc += num(n.f(n.x, 2.0))",
    "h = n.g\n    for _ in range(n.k):\n        if h is None:\n            break\n        acc = num(h(acc)) / 2\n"
    "        h = n.f if n.k > 2 else h",
    "acc += callable(n.f)",
    "fs = [f for f, _ in n.pairs]\n    if fs:\n        acc += num(fs[n.k % len(fs)](n.x))",
    "acc += num([neg, n.f or ident, abs][n.k % 3](n.x))",
    "acc += sorted([1.5, -2.0, 0.5], key=n.f or neg)[0]",
]


def program(seed: int) -> str:
    """Return the source of a module with a model `main` of one object."""
    body = "\n    ".join(random.Random(seed).choices(STATEMENTS, k=3))
    return f"{HEADER}\n\ndef main(n):\n    acc, out = 0.5, None\n    {body}\n    return acc, out\n"


def instances(module: ModuleType, seed: int) -> list[Any]:
    """Return objects of the module of a program, which hold some of its functions."""
    rng = random.Random(seed)
    some = rng.sample(FUNCTIONS, rng.randint(1, 6))

    def function(none: float) -> Any:
        return None if rng.random() < none else eval(rng.choice(some), vars(module))

    def node(depth: int) -> Any:
        kids = [node(depth + 1) for _ in range(rng.choice([0, 1, 2]) if depth < 2 else 0)]
        pairs = [(function(0), rng.choice([1.0, 2.0])) for _ in range(rng.choice([0, 1, 2]))]
        return module.Node(function(0.3), function(0.6), kids, rng.choice([0.5, -1.0, 2.0]), pairs, rng.randint(0, 4))

    return [node(0) for _ in range(rng.choice([1, 2, 4, 6]))]
