"""Models and data for the tests of promises and robustness; importable, so that other processes find them by name."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from acronumba import model
from acronumba.api.model import Model


@dataclass
class Node:
    """A chain."""

    x: float = 0.0
    next: Node | None = None
    note: object = None  # never read


@dataclass
class Tree:
    word: int = -1
    left: Tree | None = None
    right: Tree | None = None


@dataclass
class Params:
    embed: np.ndarray  # [V, H]
    w: np.ndarray  # [H, 2H]
    b: np.ndarray  # [H]


WORDS, H = 16, 8


def encode(t: Tree, p: Params) -> Any:
    if t.left is None:
        return np.tanh(p.embed[t.word])
    return np.tanh(p.w @ np.concatenate([encode(t.left, p), encode(t.right, p)]) + p.b)


@model
def tree_rnn(t: Tree, *, p: Params) -> Any:
    h = encode(t, p)
    return h, np.sum(h * h)


@model
def by_recursion(c: Node) -> float:
    if c.next is None:
        return c.x
    return by_recursion(c.next) + c.x


@model
def by_loop(c: Node) -> float:
    total = 0.0
    while c is not None:
        total += c.x
        c = c.next
    return total


@model
def tensor_chain(c: Node, *, w: np.ndarray) -> Any:
    h = w * 0.0
    while c is not None:
        h = np.tanh(h + w * c.x)
        c = c.next
    return h


@model
def by_values(c: Node, *, w: np.ndarray) -> Any:
    """Goes once more through the chain until the state has come to rest."""
    h, before = w * 0.0, w
    while not float(np.abs(h - before).max()) <= 1e-3:  # for ever, of NaN
        before = h
        at = c
        while at is not None:
            h = np.tanh(h + w * at.x)
            at = at.next
    return h


@model
def tensor_recursion(c: Node, *, w: np.ndarray) -> Any:
    if c.next is None:
        return w * c.x
    return np.tanh(tensor_recursion(c.next, w=w) + w)


@model
def linear(x, *, w):
    return w @ x


@dataclass
class Search:
    """Looks for something in the rows of `keys`, step by step."""

    x: np.ndarray  # [WIDE]
    keys: np.ndarray  # [any, WIDE]
    picks: list[int]


@dataclass
class Searcher:
    w: np.ndarray  # [WIDE, WIDE]
    u: np.ndarray  # [3 * WIDE, WIDE]
    table: np.ndarray  # [WORDS, WIDE]


WIDE = 304  # no multiple of a vector's lanes; wide enough that two rows of a product are worth a second thread


@model
def search(t: Search, *, p: Searcher) -> Any:
    """Products, reductions of them, products of those, matrices of an instance's own, and lookups that may fail."""
    h = t.x
    for k in t.picks:
        z = p.w @ h
        e = np.exp(z - np.max(z))
        a, b, c = np.split(p.u @ (e / np.sum(e)) + p.table[k].sum(), 3)
        s = t.keys @ np.tanh(a)
        d = np.exp(s - np.max(s))
        h = np.tanh((d / np.sum(d)) @ t.keys + b) * c + p.table[k]
    return h


def searches(count: int, wrong: Sequence[int] = ()) -> tuple[Searcher, list[Search]]:
    """Return parameters and instances; those numbered in `wrong` fail in their second step."""
    r = np.random.default_rng(5)

    def draw(*shape: int) -> Any:
        return (r.standard_normal(shape) * 0.3).astype(np.float32)

    xs = [
        Search(draw(WIDE), draw(3 + k % 2, WIDE), [k % WORDS, WORDS if k in wrong else 2, *[1] * (k % 3)])
        for k in range(count)
    ]
    return Searcher(draw(WIDE, WIDE), draw(3 * WIDE, WIDE), draw(WORDS, WIDE)), xs


class Mine(ValueError):
    """An exception with arguments of its own."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")
        self.pair = a, b


@dataclass
class Case:
    kind: int
    x: np.ndarray
    numbers: list[int]
    f: float = 0.0


@model
def failing(t: Case, *, w: np.ndarray) -> Any:
    """Fails in another way for each kind but 0."""
    if t.kind == 0:
        return np.sum(w @ t.x)
    if t.kind == 1:
        raise Mine(t.kind, 7)
    if t.kind == 2:
        return np.sum(t.x) * float(1 // t.numbers[0])
    if t.kind == 3:
        return np.sum(t.x) * float(t.numbers[99])
    if t.kind == 4:
        assert len(t.numbers) > 5, "too short"
        return np.sum(t.x)
    if t.kind == 5:
        return np.sum(w[t.numbers[1]])
    if t.kind == 6:
        return np.sum(w @ np.concatenate([t.x, t.x]))
    if t.kind == 7:
        return np.sum(t.x) * math.sqrt(t.f)
    if t.kind == 8:
        return np.sum(t.x.reshape(7))
    if t.kind == 9:
        return np.sum(t.x) * float(int(t.f / 0.5))
    if t.kind == 10:
        empty = [1]
        empty.pop()
        return np.sum(t.x) * float(empty.pop())
    if t.kind == 11:
        raise NotImplementedError(f"kind {t.kind}, {t.f:.1f}")
    if t.kind == 12:
        return np.max(t.x[4:])
    if t.kind == 13:
        a, b = t.numbers
        return np.sum(t.x) * float(a + b)
    if t.kind == 14:
        return np.sum(t.x) * float(1 << t.numbers[3])
    if t.kind == 15:
        return np.sum(t.x) * (2.0 ** t.numbers[2])
    if t.kind == 16:
        return np.sum(np.zeros(t.numbers[3]))
    if t.kind == 17:
        first = t.numbers[9]  # of two failures the first counts
        return np.sum(t.x) * float(first // t.numbers[0])
    return np.sum(t.x) * float(t.numbers[1] ** 62)


KINDS = 18  # whose failure is the plain call's own; the kind after them overflows 64 bits


@model
def sized(n: int) -> Any:
    return np.ones(n) * 2.0


@model
def summed(n: int) -> Any:
    return np.sum(np.ones((n, n)))


@model
def filled(n: int) -> int:
    return len([7] * n)


def chain(length: int, x: float = 1.0) -> Node:
    out = Node(x)
    for _ in range(length - 1):
        out = Node(x, out)
    return out


def cycle() -> Node:
    out = chain(3)
    assert out.next is not None and out.next.next is not None
    out.next.next.next = out
    return out


def params(seed: int = 0, h: int = H) -> Params:
    rng = np.random.default_rng(seed)
    return Params(*((rng.standard_normal(s) * 0.4).astype(np.float32) for s in ((WORDS, h), (h, 2 * h), (h,))))


def trees(count: int, seed: int = 1) -> list[Tree]:
    rng = np.random.default_rng(seed)

    def make(leaves: int) -> Tree:
        if leaves == 1:
            return Tree(word=int(rng.integers(WORDS)))
        k = int(rng.integers(1, leaves))
        return Tree(left=make(k), right=make(leaves - k))

    return [make(1 + k % 7) for k in range(count)]


def case(kind: int) -> Case:
    return Case(kind, np.arange(1, 4, dtype=np.float32), [0, 77, 100000, -1], -1.0 if kind == 7 else float("nan"))


def bits(value: Any) -> Any:
    """Return everything that two results must share to be the same bit for bit."""
    if isinstance(value, np.ndarray | np.generic):
        return type(value), value.dtype.str, np.shape(value), np.asarray(value).tobytes()
    if isinstance(value, float):
        return value.hex()
    if is_dataclass(value):
        return type(value), [bits(getattr(value, f.name)) for f in fields(value)]
    if isinstance(value, list | tuple):
        return type(value), [bits(v) for v in value]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [bits(v) for v in value]
    return repr(value)


def digest(value: Any) -> str:
    return hashlib.sha256(repr(bits(value)).encode()).hexdigest()[:16]


def run_batch(f: Model, columns: Any, p: Any) -> Any:
    """Run a batch; other processes are given this function."""
    return f.batch(columns, p=p)


def run_digest(seed: int = 0) -> str:
    return digest(list(tree_rnn.batch(trees(12), p=params(seed))))


if __name__ == "__main__":
    print(digest(list(by_loop.batch([chain(3), chain(5)]))))
