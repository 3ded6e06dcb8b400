"""The float64 run follows the plain call, whatever a model is made of."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from acronumba import model, nn, random
from acronumba.api.check import compare, together
from acronumba.api.plain import PlainCall
from acronumba.api.reference import Reference
from acronumba.api.shadow import narrow, wide

F = np.float32
X = np.array([0.3, -1.2, 2.7], F)


class Color(enum.Enum):
    RED = 1

    def weight(self):
        return np.float32(self.value) * 0.5


class Base:
    SCALE = np.array([0.1, 0.2, 0.3], F)

    def __init__(self, w):
        self.w = w
        self.k = 0.5

    def run(self, x):
        return self.w * x * self.SCALE + self.k

    @property
    def norm(self):
        return float(np.sqrt((self.w * self.w).sum()))

    @staticmethod
    def half(x):
        return x * np.float32(0.5)

    @classmethod
    def make(cls, x):
        return cls(x)


class Derived(Base):
    def __init__(self, w):
        super().__init__(w)
        self.b = w + 1

    def run(self, x):
        return super().run(x) + self.b

    def __add__(self, other):
        return Derived(self.w + other.w)

    def __len__(self):
        return len(self.w)

    def __getitem__(self, k):
        return self.w[k]


@dataclass
class Linked:
    value: Any
    next: Linked | None = None


def plain_classes(x, given):
    d = Derived(x) + Derived.make(x * 2)
    return d.run(x), d.norm, d.half(x), len(d), d[1], given.run(x), given.norm


def a_long_chain(node):
    total = 0.0
    while node is not None:
        total = total + node.value
        node = node.next
    return total


def writes(x):
    y = np.zeros(3, F)
    y[0] = x[1]
    y[1:] = x[:2] * 0.3
    y += x
    y *= 0.7
    part = y[1:]
    part[0] = x[2] * 0.1
    np.add(y, x, out=y)
    return y, part


def matches(x):
    v = float(x[0])
    match v:
        case float():
            n = 1
        case _:
            n = 2
    match Linked(x, None):
        case Linked(value=a, next=None):
            return n + 10, a
    return n, x


def texts(x):
    return f"{float(x[0]):.3f} {x[1]}", str(x.dtype)


def replaced(x):
    return replace(Linked(x * 0.1), next=Linked(x * 2))


def enums(c, x):
    return c.weight() * x, c is Color.RED


def generators(x):
    low = min(float(v) for v in x)
    return sum(v * v for v in x), any(v > 2 for v in x), max(x), low, tuple(v * 0.1 for v in x), sum([0.1, 0.2, 0.3])


def integers(x):
    k = np.arange(5)
    i = k.astype(np.float32) * 0.1, (k % 3).sum(), np.int64(3) * x, x[np.argmax(x)], x[k[:2]], x[x > 0]
    return i, x.astype(np.int32), np.floor(x), x // 0.5, x % 0.5, np.sign(x), np.round(x, 1), round(float(x[2]), 1)


def mathematics(x):
    v = float(x[2])
    whole = math.floor(v), int(v), round(v), divmod(v, 0.7), v // 0.31, bool(v)
    return whole, math.sqrt(v), math.pi * v, math.hypot(v, 1.0), v**2, 2**v, -v, abs(-v), max(v, 1.0), min(v, 3)


def arrays(x):
    parts = (
        np.split(x, 3),
        np.broadcast_to(x, (2, 3)),
        x.reshape(3, 1),
        np.expand_dims(x, 0),
        x[None] @ np.ones((3, 2), F),
    )
    made = np.full((2,), x[0] * 0.1), np.concatenate([x, [1.0]]), np.stack([x, x * 0.1]).T, np.array([x[0], x[1] * 2])
    sums = x.mean(), x.var(), x.sum(axis=0, keepdims=True), np.einsum("i,j->ij", x, x) @ x, np.linalg.norm(x)
    return parts, made, sums, np.where(x > 0, x, 0), np.clip(x, -1, 1), np.float32(x[0] * 0.1), np.float64(x[0]) * x[1]


def dtypes(x):
    zeros = np.zeros(3, dtype="float32") + 0.1
    return (
        x.astype(np.float64) / 3,
        x.astype("f4"),
        x.astype("float64"),
        zeros,
        np.float64(2) * x[0],
        x.dtype == np.float32,
    )


def functions(x):
    return nn.gelu(x), nn.layer_norm(x), nn.one_hot(2, 4), nn.attention(x[None], x[None], x[None]), nn.softplus(x)


def draws(key):
    few = random.integers(key, 0, 7), random.choice(key, np.array([0.1, 0.9], F)), random.bernoulli(key, 0.3)
    return (
        few,
        random.normal(key, 3),
        random.gumbel(key, 3),
        random.uniform(key),
        random.normal(key.child(2), 2, np.float64),
    )


@model
def inner(x):
    return np.tanh(x) * 0.3


def nested(x):
    def scaled(y):
        return y * x * np.float32(0.3)

    return inner(x) + inner(x * 2) + scaled(x) + (lambda z: z / 3)(x)


def recursion(n, x):
    return x if n == 0 else np.tanh(recursion(n - 1, x)) * 1.1


def classes(x):
    of_array = isinstance(x, np.ndarray), isinstance(x[0], np.float32), isinstance(x[0], np.floating)
    return of_array, isinstance(x[0], float), isinstance(float(x[0]), float), isinstance(3, float)


def containers(d, x):
    return d["w"] * x, d["n"] * x, {**d}, list(d.items()), [a * b for a, b in zip(x, reversed(list(x)), strict=True)]


def lists(x):
    h = x.copy()
    h -= 0.1
    out = [x]
    out.append(h)
    out.extend([h, x])
    out.insert(0, h)
    out.pop()
    out.sort(key=lambda v: float(v[0]))
    return out, sorted(x, key=lambda v: -v), sorted(x.tolist())


def not_finite(x):
    return np.log(x), np.sqrt(x), x / np.zeros(3, F)


class Few(tuple):
    pass


class Bag(dict):
    pass


def odd_values(numbers, few, bag, kind, dtype=np.float32, made=float):
    scaled = [made(v) * dtype(0.1) for v in numbers]
    return scaled, few[0] * 0.3, bag["a"] * 0.3, dtype(numbers[0]) == numbers[0], kind(numbers[1])


def cycle(node):
    return node.value[0] * 0.1, node.value[1] is node


def fails(x):
    if x[0] > 0:
        raise ValueError(f"bad {x[0]} and {float(x[1])} {x}")


def clashes(x):
    return x + np.ones(2)


def chain():
    out = None
    for k in range(20_000):
        out = Linked(0.1 * k, out)
    return out


def around():
    out = Linked([X])
    out.value.append(out)
    return out


ALONE = (
    writes,
    matches,
    texts,
    replaced,
    generators,
    integers,
    mathematics,
    arrays,
    dtypes,
    functions,
    nested,
    classes,
)
CASES = {
    **dict.fromkeys((*ALONE, classes, lists, not_finite), (X,)), cycle: (around(),), enums: (Color.RED, X),
    plain_classes: (X, Derived(X)), a_long_chain: (chain(),), draws: (random.key(5),), recursion: (200, X),
    odd_values: ([0.3, np.float32(0.7), np.float64(0.1)], Few((X, 1)), Bag(a=X), np.float32),
    containers: ({"w": X, "n": 0.3}, X),
}  # fmt: skip


@pytest.mark.parametrize("fn", CASES, ids=lambda fn: fn.__name__)
def test_the_float64_run_follows_the_plain_call(fn):
    """Types, dtypes and bits are the plain call's; the second values are near, and have no error of float32."""
    found = Reference(PlainCall(fn, {}, 10**6)).run(CASES[fn])
    with np.errstate(all="ignore"):
        expected = fn(*CASES[fn])
    assert found.error is None, found.error
    for a, b in together(expected, found.result):
        one = narrow(b.value)
        assert a.step == b.step and (type(a.value) is type(one) or isinstance(a.value, enum.Enum))
        if isinstance(a.value, np.ndarray | np.generic | float):
            assert np.array_equal(a.value, one, equal_nan=True) and wide(b.value) is not None
        else:
            assert a.value == one
    verdict, error, *_ = compare(expected, found.result, found.result, single=found.single)
    assert verdict == "close" and error < 1e-6


@pytest.mark.parametrize("fn", [fails, clashes])
def test_the_float64_run_fails_as_the_plain_call(fn):
    error = Reference(PlainCall(fn, {}, 10**6)).run([X]).error
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        fn(X)
    assert type(error) is ValueError and str(error) == str(caught.value)
