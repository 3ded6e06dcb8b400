"""The Tree-LSTM batched by hand: all leaves together, then level by level up to the roots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from acronumba.bench.by_hand.arrays import Array, Library
from acronumba.bench.by_hand.program import Program
from acronumba.zoo import tree_lstm

Place: TypeAlias = "tuple[int, int]"  # of a node: its height, its place among the nodes of that height


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The inner nodes of equal height, with consecutive numbers."""

    start: int
    roots: int  # from here on: the roots
    stop: int
    children: Array  # int64[2k]: left and right of the first node, left and right of the second ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """A mini-batch of binary trees; leaves have the lowest numbers, inner nodes are numbered by height."""

    levels: tuple[Level, ...]  # from the leaves up
    roots: Array  # int64[trees]
    count: int  # nodes


class Heights:
    """Inner nodes as they are found, by height."""

    def __init__(self) -> None:
        self.levels: list[list[tuple[Place, Place]]] = []

    def add(self, left: Place, right: Place) -> Place:
        height = 1 + max(left[0], right[0])
        if len(self.levels) < height:
            self.levels.append([])
        self.levels[height - 1].append((left, right))
        return height, len(self.levels[height - 1]) - 1

    def forest(self, leaves: int, roots: Sequence[Place]) -> Forest:
        """Number the nodes: the roots are the last of their height."""
        tops = set(roots)
        number: dict[Place, int] = {}
        at = leaves
        levels = []
        for height, nodes in enumerate(self.levels, 1):
            places = sorted(((height, k) for k in range(len(nodes))), key=lambda place: place in tops)
            number |= {place: at + k for k, place in enumerate(places)}
            children = [
                child[1] if child[0] == 0 else number[child] for _, k in places for child in self.levels[height - 1][k]
            ]
            inner = sum(place not in tops for place in places)
            stop = at + len(nodes)
            levels.append(Level(start=at, roots=at + inner, stop=stop, children=np.array(children, np.int64)))
            at = stop
        found = [place[1] if place[0] == 0 else number[place] for place in roots]
        return Forest(levels=tuple(levels), roots=np.array(found, np.int64), count=at)


def flatten(trees: Sequence[tree_lstm.Tree], *, by_word: int = 0) -> tuple[Forest, list[int]]:
    """Number the nodes of trees, and return the words of their leaves; with `by_word`, a leaf's number is its word."""
    heights = Heights()
    words: list[int] = []

    def place(t: tree_lstm.Tree) -> Place:
        if t.left is None or t.right is None:
            words.append(t.word)
            return 0, t.word if by_word else len(words) - 1
        return heights.add(place(t.left), place(t.right))

    roots = [place(t) for t in trees]
    return heights.forest(by_word or len(words), roots), words


def leaves_(t: Library, gates: Array, h: Array, c: Array) -> None:
    """Fill states and memories of leaves from the sums of their gates i, o, u."""
    n = h.shape[1]
    t.sigmoid_(gates[:, : 2 * n])
    t.tanh_(gates[:, 2 * n :])
    t.multiply(gates[:, :n], gates[:, 2 * n :], out=c)
    t.tanh(c, out=h)
    h *= gates[:, n : 2 * n]


def compose_(t: Library, levels: Sequence[tuple[int, int, Array]], h: Array, c: Array, w: Array, b: Array) -> None:
    """Fill states and memories of inner nodes, level by level: one product each."""
    n = h.shape[1]
    for start, stop, children in levels:
        gates = t.affine(b, t.take(h, children).reshape(-1, 2 * n), w)  # i, f of the left, f of the right, o, u
        below = t.take(c, children).reshape(-1, 2 * n)
        t.sigmoid_(gates[:, : 4 * n])
        t.tanh_(gates[:, 4 * n :])
        below *= gates[:, n : 3 * n]
        memory, state = c[start:stop], h[start:stop]
        t.multiply(gates[:, :n], gates[:, 4 * n :], out=memory)
        memory += below[:, :n]
        memory += below[:, n:]
        t.tanh(memory, out=state)
        state *= gates[:, 3 * n : 4 * n]


def rows(t: Library, probabilities: Array) -> list[Array]:
    return list(t.host(probabilities))


def sentiment(t: Library, p: tree_lstm.Params, xs: Sequence[tree_lstm.Tree]) -> Program:
    """Prepare `tree_lstm.sentiment`."""
    forest, found = flatten(xs)
    words, roots = t.index(found), t.index(forest.roots)
    levels = [(level.start, level.stop, t.index(level.children)) for level in forest.levels]
    w_leaf, w, w_out = map(t.weight, (p.w_leaf, p.w, p.w_out))
    embed, b_leaf, b, b_out = map(t.array, (p.embed, p.b_leaf, p.b, p.b_out))
    n, leaves = p.embed.shape[1], len(found)

    def run() -> Array:
        h, c = t.empty(forest.count, n), t.empty(forest.count, n)
        leaves_(t, t.affine(b_leaf, t.take(embed, words), w_leaf), h[:leaves], c[:leaves])
        compose_(t, levels, h, c, w, b)
        return t.softmax(t.affine(b_out, t.take(h, roots), w_out))

    return Program(run=run, results=lambda out: rows(t, out))
