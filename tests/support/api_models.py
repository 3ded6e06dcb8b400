"""A tree model and others, for the tests of what a user holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from acronumba import (
    model,
    nn,
)


@dataclass
class Tree:
    word: int = -1
    left: Tree | None = None
    right: Tree | None = None
    note: object = None  # never read


@dataclass
class Params:
    embed: np.ndarray
    w: np.ndarray
    b: np.ndarray


def encode(t: Tree, p: Params):
    if t.left is None:
        return p.embed[t.word]
    both = np.concatenate([encode(t.left, p), encode(t.right, p)])
    return np.tanh(p.w @ both + p.b)


@model
def classify(t: Tree, *, p: Params):
    """Probabilities of a tree."""
    return nn.softmax(encode(t, p))


def params(seed=0, size=6, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return Params(*((rng.standard_normal(s) * 0.5).astype(dtype) for s in ((9, size), (size, 2 * size), (size,))))


def tree(rng, leaves):
    if leaves == 1:
        return Tree(word=int(rng.integers(9)))
    k = int(rng.integers(1, leaves))
    return Tree(left=tree(rng, k), right=tree(rng, leaves - k))


def trees(count=7, seed=1):
    rng = np.random.default_rng(seed)
    return [tree(rng, 1 + k % 5) for k in range(count)]


def assert_close(results, plain):
    assert len(results) == len(plain)
    for a, b in zip(results, plain, strict=True):
        assert type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@model
def double(x):
    return x + x
