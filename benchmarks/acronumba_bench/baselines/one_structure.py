"""Four models of the zoo written for compilers that want the structure of a mini-batch fixed: JAX and onnxruntime.

In: the operations of a library (`Operations`), weights and instances. Out: a function that computes the mini-batch. All
row numbers and extents in it are constants: another mini-batch needs another compilation. The order of work is that of
the programs by hand: level by level, step by step, all words of all sentences together. Nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from acronumba.bench.by_hand.arrays import Array
from acronumba.bench.by_hand.program import steps
from acronumba.bench.by_hand.sequences import flat
from acronumba.bench.by_hand.trees import Forest, flatten
from acronumba.zoo import birnn, encoder, listops, tree_lstm
from acronumba_bench.baselines.trees import forest_of

Results = Callable[[Any], list[Any]]  # from the computed array to the results by instance
Computation = tuple[Callable[[], Array], Results]


class Operations(Protocol):
    """The operations of a library; its arrays are values that are not there yet."""

    def array(self, a: Any) -> Array: ...  # of an array of NumPy
    def weight(self, m: Any) -> Array: ...  # of a matrix [out, in], as `affine` wants it
    def take(self, table: Array, index: Any) -> Array: ...
    def affine(self, x: Array, w: Array, b: Array | None = None) -> Array: ...
    def product(self, a: Array, b: Array) -> Array: ...  # of pairs of matrices
    def add(self, a: Array, b: Array) -> Array: ...
    def multiply(self, a: Array, b: Array) -> Array: ...
    def sigmoid(self, x: Array) -> Array: ...
    def tanh(self, x: Array) -> Array: ...
    def gelu(self, x: Array) -> Array: ...
    def softmax(self, x: Array) -> Array: ...
    def layer_norm(self, x: Array, scale: Array | None, shift: Array | None, width: int) -> Array: ...
    def part(self, x: Array, start: int, stop: int, axis: int = 0) -> Array: ...
    def concat(self, parts: Sequence[Array], axis: int = 0) -> Array: ...
    def reshape(self, x: Array, *shape: int) -> Array: ...
    def transpose(self, x: Array, *axes: int) -> Array: ...
    def spread(self, row: Array, count: int) -> Array: ...  # copies of a vector as rows


def _parts(o: Operations, x: Array, count: int, width: int) -> list[Array]:
    return [o.part(x, k * width, (k + 1) * width, 1) for k in range(count)]


def _forest(o: Operations, p: Any, forest: Forest, words: Sequence[int]) -> Callable[[], Array]:
    """Return the computation of Tree-LSTMs whose leaves are `words`."""
    n = p.embed.shape[1]
    embed, b_leaf, b, b_out = map(o.array, (p.embed, p.b_leaf, p.b, p.b_out))
    w_leaf, w, w_out = map(o.weight, (p.w_leaf, p.w, p.w_out))

    def run() -> Array:
        i, out, u = _parts(o, o.affine(o.take(embed, np.array(words)), w_leaf, b_leaf), 3, n)
        c = o.multiply(o.sigmoid(i), o.tanh(u))
        h = o.multiply(o.sigmoid(out), o.tanh(c))
        for level in forest.levels:
            below = o.reshape(o.take(h, level.children), -1, 2 * n)
            cl, cr = _parts(o, o.reshape(o.take(c, level.children), -1, 2 * n), 2, n)
            i, fl, fr, out, u = _parts(o, o.affine(below, w, b), 5, n)
            own = o.multiply(o.sigmoid(i), o.tanh(u))
            kept = o.add(o.multiply(o.sigmoid(fl), cl), o.multiply(o.sigmoid(fr), cr))
            new = o.add(own, kept)
            c, h = o.concat([c, new]), o.concat([h, o.multiply(o.sigmoid(out), o.tanh(new))])
        return o.softmax(o.affine(o.take(h, forest.roots), w_out, b_out))

    return run


def sentiment(o: Operations, p: tree_lstm.Params, xs: Sequence[tree_lstm.Tree]) -> Computation:
    """Return the computation of `tree_lstm.sentiment`."""
    forest, words = flatten(xs)
    return _forest(o, p, forest, words), list


def classify(o: Operations, p: listops.Params, xs: Sequence[listops.Expression]) -> Computation:
    """Return the computation of `listops.classify`: the few symbols are the leaves, each computed once."""
    return _forest(o, p, forest_of(xs), range(len(listops.SYMBOLS))), list


def tag(o: Operations, p: birnn.Params, xs: Sequence[list[int]]) -> Computation:
    """Return the computation of `birnn.tag`: sentences in order of their lengths, a step for each word."""
    order, n = steps([len(x) for x in xs]), p.embed.shape[1]
    words = flat(xs)[order.at]
    w = o.weight(np.concatenate([p.forward.w, p.backward.w]))
    b = o.array(np.concatenate([p.forward.b, p.backward.b]))
    embed, w_out, b_out = o.array(p.embed), o.weight(p.w_out), o.array(p.b_out)
    directions = [
        (column, o.weight(cell.u), o.array(cell.start), order.spans[::step])
        for column, cell, step in ((0, p.forward, 1), (n, p.backward, -1))
    ]

    def run() -> Array:
        inputs = o.affine(o.take(embed, words), w, b)
        found = []
        for column, u, first, spans in directions:
            own = o.part(inputs, column, column + n, 1)
            states: list[Array] = []
            count = spans[0][1] - spans[0][0]
            h = o.spread(first, count)
            for start, stop in spans:
                live = stop - start
                if live < count:
                    h = o.part(h, 0, live)
                elif live > count:
                    h = o.concat([h, o.spread(first, live - count)])
                count = live
                h = o.tanh(o.add(o.part(own, start, stop), o.affine(h, u)))
                states.append(h)
            found.append(o.concat(states if spans is order.spans or spans[0][0] == 0 else states[::-1]))
        return o.softmax(o.affine(o.concat(found, 1), w_out, b_out))

    return run, order.of_each


def encode(o: Operations, p: encoder.Params, xs: Sequence[list[int]]) -> Computation:
    """Return the computation of `encoder.encode`: attention is per sentence, all else of all words at once."""
    n, heads, ends = p.embed.shape[1], p.heads, np.cumsum([len(x) for x in xs]).tolist()
    spans = [(end - len(x), end) for end, x in zip(ends, xs, strict=True)]
    words, places = flat(xs), flat([range(len(x)) for x in xs])
    embed, position, width = o.array(p.embed), o.array(p.position), n // heads

    def layer(of: encoder.Layer) -> Callable[[Array], Array]:
        wq, wk, wv = o.weight(of.wq / np.float32(np.sqrt(width))), o.weight(of.wk), o.weight(of.wv)
        wo, w_in, w_out = o.weight(of.wo), o.weight(of.w_in), o.weight(of.w_out)
        b_in, b_out = o.array(of.b_in), o.array(of.b_out)
        norm = o.array(of.scale_attention), o.array(of.shift_attention)
        last = o.array(of.scale), o.array(of.shift)

        def apply(x: Array) -> Array:
            of_words = [o.affine(x, w) for w in (wq, wk, wv)]
            attended = []
            for start, stop in spans:
                q, k, v = (o.reshape(o.part(a, start, stop), stop - start, heads, width) for a in of_words)
                scores = o.softmax(o.product(o.transpose(q, 1, 0, 2), o.transpose(k, 1, 2, 0)))
                mixed = o.transpose(o.product(scores, o.transpose(v, 1, 0, 2)), 1, 0, 2)
                attended.append(o.reshape(mixed, stop - start, n))
            x = o.layer_norm(o.add(x, o.affine(o.concat(attended), wo)), norm[0], norm[1], n)
            inner = o.affine(o.gelu(o.affine(x, w_in, b_in)), w_out, b_out)
            return o.layer_norm(o.add(x, inner), last[0], last[1], n)

        return apply

    layers = [layer(of) for of in p.layers]

    def run() -> Array:
        x = o.layer_norm(o.add(o.take(embed, words), o.take(position, places)), None, None, n)
        for apply in layers:
            x = apply(x)
        return x

    return run, lambda rows: [rows[start:stop] for start, stop in spans]


OF_ONE_STRUCTURE: Mapping[str, Callable[..., Computation]] = {
    "tree_lstm": sentiment,
    "birnn": tag,
    "listops": classify,
    "encoder": encode,
}
