"""What the compiler is measured against: the same models, batched by hand or not at all, in NumPy alone.

In: the instances and weights of a model of `acronumba.zoo`. Out: the same results. Each yardstick is written as
well as one would write it by hand; what can be prepared once per mini-batch (`flatten`) is kept apart, so that it
need not be timed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from acronumba import nn
from acronumba.zoo import tree_lstm

Array: TypeAlias = Any  # np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The inner nodes of all trees whose deepest leaf is equally far below."""

    nodes: Array  # int64[k]: their numbers
    left: Array  # int64[k]: numbers of their left children
    right: Array  # int64[k]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flat:
    """A mini-batch of trees as arrays."""

    count: int  # nodes in all trees
    leaves: Array  # int64[k]: numbers of the leaves
    words: Array  # int64[k]: their word ids
    levels: tuple[Level, ...]  # from the leaves up
    roots: Array  # int64[trees]


def flatten(trees: Sequence[tree_lstm.Tree]) -> Flat:
    """Number the nodes of all trees and sort the inner ones by height."""
    leaves: list[tuple[int, int]] = []
    levels: list[list[tuple[int, int, int]]] = []
    count = 0

    def number(t: tree_lstm.Tree) -> tuple[int, int]:
        nonlocal count
        if t.left is None or t.right is None:
            leaves.append((count, t.word))
            height = 0
        else:
            left, below_left = number(t.left)
            right, below_right = number(t.right)
            height = 1 + max(below_left, below_right)
            if len(levels) < height:
                levels.append([])
            levels[height - 1].append((count, left, right))
        count += 1
        return count - 1, height

    roots = [number(t)[0] for t in trees]
    table = np.array(leaves, np.int64).reshape(-1, 2)
    return Flat(
        count=count,
        leaves=table[:, 0].copy(),
        words=table[:, 1].copy(),
        levels=tuple(Level(nodes=a[0], left=a[1], right=a[2]) for a in (np.array(rows, np.int64).T for rows in levels)),
        roots=np.array(roots, np.int64),
    )


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))  # faster than nn.sigmoid; the arguments here are far from overflow


def tree_lstm_by_level(p: tree_lstm.Params) -> Callable[[Flat], Array]:
    """Return the Tree-LSTM classifier for flat trees: all leaves in one product, then one product per level.

    Parameters
    ----------
    p : Params
        Its matrices are transposed once, here.

    Returns
    -------
    function
        From `Flat` to the probabilities, float32 [trees, C].
    """
    w_leaf, w, w_out = (np.ascontiguousarray(m.T) for m in (p.w_leaf, p.w, p.w_out))
    size = len(p.b_leaf) // 3

    def run(flat: Flat) -> Array:
        h, c = np.empty((flat.count, size), np.float32), np.empty((flat.count, size), np.float32)
        i, o, u = np.split(p.embed[flat.words] @ w_leaf + p.b_leaf, 3, axis=1)
        c[flat.leaves] = memory = _sigmoid(i) * np.tanh(u)
        h[flat.leaves] = _sigmoid(o) * np.tanh(memory)
        for level in flat.levels:
            x = np.concatenate([h[level.left], h[level.right]], axis=1)
            i, fl, fr, o, u = np.split(x @ w + p.b, 5, axis=1)
            memory = _sigmoid(i) * np.tanh(u) + _sigmoid(fl) * c[level.left] + _sigmoid(fr) * c[level.right]
            c[level.nodes] = memory
            h[level.nodes] = _sigmoid(o) * np.tanh(memory)
        return nn.softmax(h[flat.roots] @ w_out + p.b_out)

    return run


def plain(model: Callable[..., Any], instances: Sequence[Any], p: Any) -> list[Any]:
    """Return the results of the plain calls, one instance after the other."""
    return [model(x, p=p) for x in instances]
