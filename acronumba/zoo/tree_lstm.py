"""Binary Tree-LSTM with a classifier at the root (Tai, Socher & Manning 2015, section 3.2, with N = 2).

In: a binary tree with word numbers at its leaves. Out: the probabilities of five classes. The recursion follows the
tree of each instance, so no two instances need the same operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

import numpy as np

from acronumba import model, nn
from acronumba.zoo.data import (
    Array,
    Syntax,
    binarised,
    function_syntax,
    hidden_size,
    normal,
    python_functions,
    read_sst_syntax,
    word_id,
)

SIZES = {"small": 256, "large": 512}  # H
VOCABULARY = 4096  # V
CLASSES = 5  # C


@dataclass
class Tree:
    word: int = -1  # a leaf's word id
    left: Tree | None = None
    right: Tree | None = None


@dataclass
class Params:
    embed: np.ndarray  # [V, H]
    w_leaf: np.ndarray  # [3H, H]: gates i, o, u
    b_leaf: np.ndarray  # [3H]
    w: np.ndarray  # [5H, 2H]: gates i, f of the left, f of the right, o, u
    b: np.ndarray  # [5H]
    w_out: np.ndarray  # [C, H]
    b_out: np.ndarray  # [C]


def encode(t: Tree, p: Params) -> tuple[Array, Array]:
    """Return state h and memory c of a phrase, float32[H] each."""
    if t.left is None:
        i, o, u = np.split(p.w_leaf @ p.embed[t.word] + p.b_leaf, 3)
        c = nn.sigmoid(i) * np.tanh(u)
        return nn.sigmoid(o) * np.tanh(c), c
    hl, cl = encode(t.left, p)
    hr, cr = encode(t.right, p)
    i, fl, fr, o, u = np.split(p.w @ np.concatenate([hl, hr]) + p.b, 5)
    c = nn.sigmoid(i) * np.tanh(u) + nn.sigmoid(fl) * cl + nn.sigmoid(fr) * cr
    return nn.sigmoid(o) * np.tanh(c), c


@model
def sentiment(t: Tree, *, p: Params) -> Array:
    """Return the probabilities of the classes, float32[C]."""
    h, _ = encode(t, p)
    return nn.softmax(p.w_out @ h + p.b_out)


def params(size: str | int = "small", seed: int = 0, vocabulary: int = VOCABULARY) -> Params:
    """Return random weights; `size` is a name of `SIZES` or H itself."""
    h, rng = hidden_size(size, SIZES), np.random.default_rng(seed)
    return Params(
        embed=normal(rng, vocabulary, h),
        w_leaf=normal(rng, 3 * h, h),
        b_leaf=normal(rng, 3 * h),
        w=normal(rng, 5 * h, 2 * h),
        b=normal(rng, 5 * h),
        w_out=normal(rng, CLASSES, h),
        b_out=normal(rng, CLASSES),
    )


def instances(n: int, seed: int = 0, vocabulary: int = VOCABULARY) -> list[Tree]:
    """Return `n` functions of Python's standard library as binary trees over their names and constants."""
    return [tree(function_syntax(f), vocabulary) for f in python_functions(n, seed)]


def read_sst(path: str | PathLike[str], vocabulary: int = VOCABULARY) -> list[Tree]:
    """Read the trees of a file of the Stanford Sentiment Treebank; words get numbers by `word_id`."""
    return [tree(syntax, vocabulary) for syntax in read_sst_syntax(path)]


def tree(syntax: Syntax, vocabulary: int = VOCABULARY) -> Tree:
    """Return the syntax as a binary tree; words get numbers by `word_id`."""

    def build(part: Syntax) -> Tree:
        if isinstance(part, str):
            return Tree(word=word_id(part, vocabulary))
        left, right = part
        return Tree(left=build(left), right=build(right))

    return build(binarised(syntax))
