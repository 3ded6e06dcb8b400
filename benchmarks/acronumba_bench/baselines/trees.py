"""Other models of trees, batched by hand: all leaves together, then level by level up to the roots."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from acronumba.bench.by_hand.arrays import Array, Library
from acronumba.bench.by_hand.program import Program
from acronumba.bench.by_hand.trees import Forest, Heights, Place, compose_, flatten, leaves_, rows
from acronumba.zoo import child_sum_lstm, expressions, listops, mv_rnn, tree_lstm


def forest_of(xs: Sequence[listops.Expression]) -> Forest:
    """Return the levels of expressions; the symbols are the leaves."""
    heights = Heights()

    def place(e: listops.Expression) -> Place:
        at = 0, e.symbol
        if e.symbol < 10:
            return at
        for argument in e.arguments:
            at = heights.add(at, place(argument))
        return heights.add(at, (0, listops.CLOSE))

    return heights.forest(len(listops.SYMBOLS), [place(e) for e in xs])


def classify_expressions(t: Library, p: listops.Params, xs: Sequence[listops.Expression]) -> Program:
    """Prepare `listops.classify`: the few symbols are the leaves, each computed once."""
    symbols, forest = len(listops.SYMBOLS), forest_of(xs)
    levels = [(level.start, level.stop, t.index(level.children)) for level in forest.levels]
    roots = t.index(forest.roots)
    w_leaf, w, w_out = map(t.weight, (p.w_leaf, p.w, p.w_out))
    embed, b_leaf, b, b_out = map(t.array, (p.embed, p.b_leaf, p.b, p.b_out))
    n = p.embed.shape[1]

    def run() -> Array:
        h, c = t.empty(forest.count, n), t.empty(forest.count, n)
        leaves_(t, t.affine(b_leaf, embed, w_leaf), h[:symbols], c[:symbols])
        compose_(t, levels, h, c, w, b)
        return t.softmax(t.affine(b_out, t.take(h, roots), w_out))

    return Program(run=run, results=lambda out: rows(t, out))


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

    return Program(run=run, results=lambda out: rows(t, out))


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
        leaves_(t, t.take(gates, leaf_kinds), h[:leaves], c[:leaves])
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

    return Program(run=run, results=lambda out: rows(t, out))


class Forms:
    """The nodes of expressions: rows of tables, then numbers, then operators, which are ~0, ~1 ... until the end."""

    def __init__(self, p: expressions.Params) -> None:
        self.rows = {name: len(p.embed) + k for k, name in enumerate(p.operators)}
        self.table = np.concatenate([p.embed, *(v[None] for v in p.operators.values())])
        self.sizes: list[float] = []  # of the numbers
        self.inner: list[tuple[int, int, int, tuple[int, ...]]] = []  # height, how many operands, operator, operands

    def place(self, e: expressions.Expression) -> int:
        match e:
            case ("number", value):
                self.sizes.append(np.sign(value) * np.log1p(abs(value)))
                return len(self.table) + len(self.sizes) - 1
            case ("name", word):
                return int(word)
            case ("unary", name, operand):
                return self._add(name, self.place(operand))
            case ("binary", name, left, right):
                return self._add(name, self.place(left), self.place(right))
        _, name, parts = e
        state = self.rows[name]
        for part in parts:
            state = self._add(name, state, self.place(part))
        return state

    def _add(self, name: str, *operands: int) -> int:
        height = 1 + max(self.inner[~node][0] if node < 0 else 0 for node in operands)
        self.inner.append((height, len(operands), self.rows[name], operands))
        return ~(len(self.inner) - 1)

    def groups(self) -> tuple[list[tuple[int, int, list[int], list[int]]], dict[int, int]]:
        """Return operators of equal height and kind, as first and last node, operators, operands; and all numbers."""
        order = sorted(range(len(self.inner)), key=lambda k: self.inner[k][:2])
        first = len(self.table) + len(self.sizes)
        number = {~k: first + at for at, k in enumerate(order)}
        found = []
        for _, group in itertools.groupby(order, key=lambda k: self.inner[k][:2]):
            members = list(group)
            nodes = [self.inner[k] for k in members]
            operands = [number.get(node, node) for *_, below in nodes for node in below]
            found.append((number[~members[0]], number[~members[-1]] + 1, [row for *_, row, _ in nodes], operands))
        return found, number


def classify_tuples(t: Library, p: expressions.Params, xs: Sequence[expressions.Expression]) -> Program:
    """Prepare `expressions.classify`: names and operators are rows of a table that has room for all other nodes."""
    of = Forms(p)
    places = [of.place(x) for x in xs]
    groups, number = of.groups()
    roots = t.index([number.get(node, node) for node in places])
    first, n = len(of.table), p.embed.shape[1]
    inner = first + len(of.sizes)
    states = t.empty(inner + len(of.inner), n)
    states[:first] = t.array(of.table)
    size, w_number = t.array(np.array(of.sizes, np.float32)[:, None]), t.array(p.w_number[None])
    w_unary, w, w_out = map(t.weight, (p.w_unary, p.w, p.w_out))
    b_number, b_out = map(t.array, (p.b_number, p.b_out))
    steps = [
        (w if len(operands) > len(operators) else w_unary, start, stop, t.index(operators), t.index(operands))
        for start, stop, operators, operands in groups
    ]

    def run() -> Array:
        t.tanh(t.affine(b_number, size, w_number), out=states[first:inner])
        for weight, start, stop, operators, operands in steps:
            sums = t.take(states, operators)
            t.add_product_(sums, t.take(states, operands).reshape(stop - start, -1), weight)
            t.tanh(sums, out=states[start:stop])
        return t.softmax(t.affine(b_out, t.take(states, roots), w_out))

    return Program(run=run, results=lambda out: rows(t, out))
