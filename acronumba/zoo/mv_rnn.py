"""MV-RNN (Socher, Huval, Manning & Ng 2012): every word and every phrase has a vector and a matrix.

In: a binary tree with word numbers at its leaves. Out: the probabilities of five classes. The matrix of each child
changes the vector of the other before they are put together: products whose left operand differs from node to node.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

import numpy as np

from acronumba import model, nn
from acronumba.zoo import tree_lstm
from acronumba.zoo.data import Array, hidden_size, normal
from acronumba.zoo.tree_lstm import Tree

SIZES = {"small": 64, "large": 128}  # H
VOCABULARY = 512  # V: each word has a matrix
CLASSES = 5  # C


@dataclass
class Params:
    vectors: np.ndarray  # [V, H]
    matrices: np.ndarray  # [V, H, H]
    w: np.ndarray  # [H, 2H]: for vectors
    b: np.ndarray  # [H]
    w_matrix: np.ndarray  # [H, 2H]: for matrices
    w_out: np.ndarray  # [C, H]
    b_out: np.ndarray  # [C]


def compose(t: Tree, p: Params) -> tuple[Array, Array]:
    """Return the vector, float32[H], and the matrix, float32[H, H], of a phrase (equations 2 and 3)."""
    if t.left is None:
        return p.vectors[t.word], p.matrices[t.word]
    vl, ml = compose(t.left, p)
    vr, mr = compose(t.right, p)
    v = np.tanh(p.w @ np.concatenate([mr @ vl, ml @ vr]) + p.b)
    return v, p.w_matrix @ np.concatenate([ml, mr])


@model
def sentiment(t: Tree, *, p: Params) -> Array:
    """Return the probabilities of the classes, float32[C]."""
    v, _ = compose(t, p)
    return nn.softmax(p.w_out @ v + p.b_out)


def params(size: str | int = "small", seed: int = 0, vocabulary: int = VOCABULARY) -> Params:
    """Return random weights; `size` is a name of `SIZES` or H itself."""
    h, rng = hidden_size(size, SIZES), np.random.default_rng(seed)
    return Params(
        vectors=normal(rng, vocabulary, h),
        matrices=normal(rng, vocabulary, h, h),
        w=normal(rng, h, 2 * h),
        b=normal(rng, h),
        w_matrix=normal(rng, h, 2 * h),
        w_out=normal(rng, CLASSES, h),
        b_out=normal(rng, CLASSES),
    )


def instances(n: int, seed: int = 0, vocabulary: int = VOCABULARY) -> list[Tree]:
    """Return `n` functions of Python's standard library as binary trees over their names and constants."""
    return tree_lstm.instances(n, seed, vocabulary)


def read_sst(path: str | PathLike[str], vocabulary: int = VOCABULARY) -> list[Tree]:
    """Read the trees of a file of the Stanford Sentiment Treebank; words get numbers by `word_id`."""
    return tree_lstm.read_sst(path, vocabulary)
