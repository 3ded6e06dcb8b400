"""Models of trees, batched by hand: all leaves together, then level by level up to the roots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from acronumba.bench.yardsticks.arrays import Array, Library
from acronumba.bench.yardsticks.program import Program
from acronumba.zoo import child_sum_lstm, listops, mv_rnn, tree_lstm

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


class _Heights:
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
    heights = _Heights()
    words: list[int] = []

    def place(t: tree_lstm.Tree) -> Place:
        if t.left is None or t.right is None:
            words.append(t.word)
            return 0, t.word if by_word else len(words) - 1
        return heights.add(place(t.left), place(t.right))

    roots = [place(t) for t in trees]
    return heights.forest(by_word or len(words), roots), words


def _leaves_(t: Library, gates: Array, h: Array, c: Array) -> None:
    """Fill states and memories of leaves from the sums of their gates i, o, u."""
    n = h.shape[1]
    t.sigmoid_(gates[:, : 2 * n])
    t.tanh_(gates[:, 2 * n :])
    t.multiply(gates[:, :n], gates[:, 2 * n :], out=c)
    t.tanh(c, out=h)
    h *= gates[:, n : 2 * n]


def _compose_(t: Library, levels: Sequence[tuple[int, int, Array]], h: Array, c: Array, w: Array, b: Array) -> None:
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


def _rows(t: Library, probabilities: Array) -> list[Array]:
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
        _leaves_(t, t.affine(b_leaf, t.take(embed, words), w_leaf), h[:leaves], c[:leaves])
        _compose_(t, levels, h, c, w, b)
        return t.softmax(t.affine(b_out, t.take(h, roots), w_out))

    return Program(run=run, results=lambda out: _rows(t, out))


def classify_expressions(t: Library, p: listops.Params, xs: Sequence[listops.Expression]) -> Program:
    """Prepare `listops.classify`: the few symbols are the leaves, each computed once."""
    heights = _Heights()

    def place(e: listops.Expression) -> Place:
        at = 0, e.symbol
        if e.symbol < 10:
            return at
        for argument in e.arguments:
            at = heights.add(at, place(argument))
        return heights.add(at, (0, listops.CLOSE))

    symbols = len(listops.SYMBOLS)
    forest = heights.forest(symbols, [place(e) for e in xs])
    levels = [(level.start, level.stop, t.index(level.children)) for level in forest.levels]
    roots = t.index(forest.roots)
    w_leaf, w, w_out = map(t.weight, (p.w_leaf, p.w, p.w_out))
    embed, b_leaf, b, b_out = map(t.array, (p.embed, p.b_leaf, p.b, p.b_out))
    n = p.embed.shape[1]

    def run() -> Array:
        h, c = t.empty(forest.count, n), t.empty(forest.count, n)
        _leaves_(t, t.affine(b_leaf, embed, w_leaf), h[:symbols], c[:symbols])
        _compose_(t, levels, h, c, w, b)
        return t.softmax(t.affine(b_out, t.take(h, roots), w_out))

    return Program(run=run, results=lambda out: _rows(t, out))


def matrices_and_vectors(t: Library, p: mv_rnn.Params, xs: Sequence[tree_lstm.Tree]) -> Program:
    """Prepare `mv_rnn.sentiment`.

    The tables of words have room for phrases at the end, so that leaves need no copy. Both matrices of a node's
    children are gathered once; the columns of the weight are exchanged instead. Matrices of roots are not computed.
    """
    n, vocabulary = p.vectors.shape[1], len(p.vectors)
    forest, _ = flatten(xs, by_word=vocabulary)
    vectors, matrices = t.empty(forest.count, n), t.empty(forest.count, n, n)
    vectors[:vocabulary], matrices[:vocabulary] = t.array(p.vectors), t.array(p.matrices)
    levels = []
    for level in forest.levels:
        exchanged = level.children.reshape(-1, 2)[:, ::-1].reshape(-1)
        levels.append((level.start, level.roots, level.stop, t.index(level.children), t.index(exchanged)))
    roots = t.index(forest.roots)
    w = t.weight(np.concatenate([p.w[:, n:], p.w[:, :n]], axis=1))
    w_matrix, w_out, b, b_out = t.array(p.w_matrix), t.weight(p.w_out), t.array(p.b), t.array(p.b_out)

    def run() -> Array:
        for start, top, stop, children, exchanged in levels:
            below = t.take(matrices, children)  # Ml, Mr
            crossed = t.products(below, t.take(vectors, exchanged).reshape(-1, n, 1))  # Ml vr, Mr vl
            t.tanh(t.affine(b, crossed.reshape(-1, 2 * n), w), out=vectors[start:stop])
            if top > start:
                pairs = below[: 2 * (top - start)].reshape(-1, 2 * n, n)
                matrices[start:top] = t.products(w_matrix, pairs)
        return t.softmax(t.affine(b_out, t.take(vectors, roots), w_out))

    return Program(run=run, results=lambda out: _rows(t, out))


def classify_syntax(t: Library, p: child_sum_lstm.Params, xs: Sequence[child_sum_lstm.Node]) -> Program:
    """Prepare `child_sum_lstm.classify`: each kind is multiplied once, and leaves need no other products."""
    kinds: list[list[int]] = []  # of the nodes of each height
    below: list[list[list[Place]]] = []  # and their children

    def place(node: child_sum_lstm.Node) -> Place:
        children = [place(child) for child in node.children]
        height = 1 + max((h for h, _ in children), default=-1)
        if len(kinds) == height:
            kinds.append([])
            below.append([])
        kinds[height].append(node.kind)
        below[height].append(children)
        return height, len(kinds[height]) - 1

    found = [place(x) for x in xs]
    starts = [0, *np.cumsum([len(k) for k in kinds]).tolist()]
    roots = t.index([starts[h] + k for h, k in found])
    levels = []
    for height in range(1, len(kinds)):
        counts = np.array([len(children) for children in below[height]])
        numbers = [starts[h] + k for children in below[height] for h, k in children]
        owners = np.repeat(np.arange(len(counts)), counts)
        first = np.cumsum(counts) - counts
        owner_kinds = np.array(kinds[height])[owners]
        parts = (kinds[height], numbers, first, owners, owner_kinds)
        levels.append((starts[height], starts[height + 1], *map(t.index, parts)))
    leaf_kinds, leaves = t.index(kinds[0]), starts[1]
    w, u, u_forget, w_out = map(t.weight, (p.w, p.u, p.u_forget, p.w_out))
    embed, b, b_out = map(t.array, (p.embed, p.b, p.b_out))
    n = p.embed.shape[1]

    def run() -> Array:
        h, c = t.empty(starts[-1], n), t.empty(starts[-1], n)
        table = t.affine(b, embed, w)  # i, o, u, f
        gates, forget = table[:, : 3 * n], table[:, 3 * n :]
        _leaves_(t, t.take(gates, leaf_kinds), h[:leaves], c[:leaves])
        for start, stop, kind, children, first, owner, owner_kind in levels:
            states = t.take(h, children)
            keep = t.take(forget, owner_kind)
            t.add_product_(keep, states, u_forget)
            t.sigmoid_(keep)
            keep *= t.take(c, children)
            sums = t.take(gates, kind)
            t.add_product_(sums, t.segment_sums(states, first, owner), u)
            t.sigmoid_(sums[:, : 2 * n])
            t.tanh_(sums[:, 2 * n :])
            memory, state = c[start:stop], h[start:stop]
            t.multiply(sums[:, :n], sums[:, 2 * n :], out=memory)
            memory += t.segment_sums(keep, first, owner)
            t.tanh(memory, out=state)
            state *= sums[:, n : 2 * n]
        return t.softmax(t.affine(b_out, t.take(h, roots), w_out))

    return Program(run=run, results=lambda out: _rows(t, out))
