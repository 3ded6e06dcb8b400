"""Training steps in hand-written NumPy, with an explicit backward pass: optimised with patience.

In: weights, the columns of a mini-batch, a learning rate. Out: a `Step`. The forward pass is as in `trees` and
`sequences`, and keeps the values that the backward pass reads. The gradient of each weight is one product over all rows
at the end, that of the table of words a sum for each word that occurs. All arrays have the dtype of the weights: in
float64 it is the reference for rounding errors.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from acronumba.bench.by_hand.arrays import Array
from acronumba.bench.by_hand.by_numpy import NUMPY
from acronumba.bench.by_hand.program import Steps, steps
from acronumba.bench.by_hand.trees import flatten
from acronumba.storage import leaves
from acronumba.zoo import birnn, tree_lstm
from acronumba_bench.baselines.cells import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The gradient of a table: of the rows that are used, each once."""

    index: Array
    rows: Array


def copied(p: Any) -> dict[str, Array]:
    """Return copies of the weights by name."""
    return {name: w.copy() for name, w in leaves(p)}


def _step(weights: dict[str, Array], gradients: Callable[[], tuple[float, dict[str, Any]]], rate: float) -> Step:
    def run() -> None:
        _, found = gradients()
        for name, g in found.items():
            if isinstance(g, Rows):
                weights[name][g.index] -= rate * g.rows
            else:
                g *= rate
                weights[name] -= g

    def dense() -> tuple[float, dict[str, Any]]:
        value, found = gradients()
        return value, {name: _dense(g, weights[name]) if isinstance(g, Rows) else g for name, g in found.items()}

    return Step(run=run, gradients=dense)


def _dense(g: Rows, table: Array) -> Array:
    out = np.zeros_like(table)
    out[g.index] = g.rows
    return out


def _by_word(words: Array) -> Callable[[Array], Rows]:
    """Return a function that sums the rows of equal words, with indices computed beforehand."""
    order = np.argsort(words, kind="stable")
    index, first = np.unique(words[order], return_index=True)
    return lambda rows: Rows(index=index, rows=np.add.reduceat(rows[order], first, axis=0))


def cross_entropy(z: Array, labels: Array, share: float) -> tuple[float, Array]:
    """Return the sum of the losses times `share`, and its gradient by `z`, which it destroys."""
    k = np.arange(len(z))
    z -= z.max(axis=1, keepdims=True)
    right = z[k, labels].copy()
    np.exp(z, out=z)
    sums = z.sum(axis=1)
    z /= sums[:, None]
    z[k, labels] -= 1
    z *= share
    return float((np.log(sums) - right).sum() * share), z


class TreeLSTM:
    """State of the forward and backward pass of a mini-batch of trees."""

    def __init__(self, p: tree_lstm.Params, columns: Sequence[Any]) -> None:
        forest, found = flatten(columns[0])
        self.labels, self.words, self.roots = np.array(columns[1]), np.array(found), forest.roots
        self.levels = [(level.start, level.stop, level.children) for level in forest.levels]
        self.n, self.leaves, count = p.embed.shape[1], len(found), forest.count
        self.w, self.by_word = copied(p), _by_word(self.words)
        n, inner = self.n, count - self.leaves
        self.h, self.c, self.tanh_c, self.dh, self.dc = (np.empty((count, n), p.embed.dtype) for _ in range(5))
        self.leaf_gates = np.empty((self.leaves, 3 * n), p.embed.dtype)
        self.gates, self.below = np.empty((inner, 5 * n), p.embed.dtype), np.empty((inner, 2 * n), p.embed.dtype)

    def up(self) -> Array:
        """Fill gates, states and memories; return the vectors of the leaves."""
        n, w, g = self.n, self.w, self.leaf_gates
        x = w["embed"][self.words]
        np.matmul(x, w["w_leaf"].T, out=g)
        g += w["b_leaf"]
        NUMPY.sigmoid_(g[:, : 2 * n])
        NUMPY.tanh_(g[:, 2 * n :])
        np.multiply(g[:, :n], g[:, 2 * n :], out=self.c[: self.leaves])
        self._states(0, self.leaves, g[:, n : 2 * n])
        for start, stop, children in self.levels:
            g, hs = (a[start - self.leaves : stop - self.leaves] for a in (self.gates, self.below))
            np.take(self.h, children, axis=0, out=hs.reshape(-1, n))
            np.matmul(hs, w["w"].T, out=g)
            g += w["b"]
            NUMPY.sigmoid_(g[:, : 4 * n])
            NUMPY.tanh_(g[:, 4 * n :])
            cs = self.c[children].reshape(-1, 2 * n)
            cs *= g[:, n : 3 * n]
            memory = self.c[start:stop]
            np.multiply(g[:, :n], g[:, 4 * n :], out=memory)
            memory += cs[:, :n]
            memory += cs[:, n:]
            self._states(start, stop, g[:, 3 * n : 4 * n])
        return x

    def _states(self, start: int, stop: int, o: Array) -> None:
        np.tanh(self.c[start:stop], out=self.tanh_c[start:stop])
        np.multiply(o, self.tanh_c[start:stop], out=self.h[start:stop])

    def down(self) -> None:
        """Overwrite gates by the adjoints of their inputs, from the adjoints of the states of the roots."""
        n = self.n
        for start, stop, children in reversed(self.levels):
            g = self.gates[start - self.leaves : stop - self.leaves]
            i, left, right, o, u = (g[:, k * n : (k + 1) * n] for k in range(5))
            memory = self._into_memory(start, stop, o)
            cs = self.c[children].reshape(-1, 2, n)
            below = np.stack([memory * left, memory * right], axis=1)
            left[...] = memory * cs[:, 0] * left * (1 - left)
            right[...] = memory * cs[:, 1] * right * (1 - right)
            self._of_input(memory, i, u)
            self.dh[children] = (g @ self.w["w"]).reshape(-1, n)  # a node has one parent: nothing is added
            self.dc[children] = below.reshape(-1, n)
        i, o, u = (self.leaf_gates[:, k * n : (k + 1) * n] for k in range(3))
        self._of_input(self._into_memory(0, self.leaves, o), i, u)

    def _into_memory(self, start: int, stop: int, o: Array) -> Array:
        """Return the adjoints of the memories of some nodes, and overwrite output gates by adjoints of their inputs."""
        d, t, memory = self.dh[start:stop], self.tanh_c[start:stop], self.dc[start:stop]
        memory += d * o * (1 - t * t)
        o[...] = d * t * o * (1 - o)
        return memory

    @staticmethod
    def _of_input(memory: Array, i: Array, u: Array) -> None:
        """Overwrite input gates and candidates by the adjoints of their inputs."""
        di = memory * u * i * (1 - i)
        u[...] = memory * i * (1 - u * u)
        i[...] = di

    def gradients(self) -> tuple[float, dict[str, Any]]:
        """Return the loss and the gradients."""
        w, x = self.w, self.up()
        top = self.h[self.roots]
        value, dz = cross_entropy(top @ w["w_out"].T + w["b_out"], self.labels, 1 / len(self.roots))
        self.dh[self.roots], self.dc[self.roots] = dz @ w["w_out"], 0
        self.down()
        return value, {
            "embed": self.by_word(self.leaf_gates @ w["w_leaf"]),
            "w_leaf": self.leaf_gates.T @ x,
            "b_leaf": self.leaf_gates.sum(axis=0),
            "w": self.gates.T @ self.below,
            "b": self.gates.sum(axis=0),
            "w_out": dz.T @ top,
            "b_out": dz.sum(axis=0),
        }


def sentiment(p: tree_lstm.Params, columns: Sequence[Any], rate: float) -> Step:
    """Prepare a step of a Tree-LSTM with a loss at the root: levels up, then the same levels down."""
    trees = TreeLSTM(p, columns)
    return _step(trees.w, trees.gradients, rate)


def before(order: Steps, onward: bool) -> list[tuple[int, int, int, int]]:
    """Return the steps of one direction, in order: first row, end row, and the rows of the previous states.

    The last two numbers are the first previous row and the number of these; the other sequences begin in this step.
    """
    spans = order.spans if onward else order.spans[::-1]
    out = [(*spans[0], 0, 0)] if spans else []
    for (at, to), (start, stop) in itertools.pairwise(spans):
        out.append((start, stop, at, min(stop - start, to - at)))
    return out


class BiRNN:
    """State of the forward and backward pass of a mini-batch of sentences, in both directions."""

    def __init__(self, p: birnn.Params, columns: Sequence[Any]) -> None:
        order = steps([len(x) for x in columns[0]])
        self.count = len(columns[0])
        self.words, self.labels = (np.concatenate([np.array(x, np.int64) for x in c])[order.at] for c in columns)
        self.n, self.w, self.by_word = p.embed.shape[1], copied(p), _by_word(self.words)
        self.ways = {"forward": before(order, True), "backward": before(order, False)}
        rows, dtype = len(self.words), p.embed.dtype
        self.both = np.empty((rows, 2 * self.n), dtype)
        self.last, self.sums = ({way: np.empty((rows, self.n), dtype) for way in self.ways} for _ in range(2))
        self.halves = {"forward": slice(0, self.n), "backward": slice(self.n, 2 * self.n)}

    def there(self) -> Array:
        """Fill the states; return the vectors of the words."""
        w, x = self.w, self.w["embed"][self.words]
        for way, found in self.ways.items():
            states, previous, total = self.both[:, self.halves[way]], self.last[way], self.sums[way]
            np.matmul(x, w[f"{way}.w"].T, out=total)
            total += w[f"{way}.b"]
            for start, stop, at, there in found:
                previous[start : start + there] = states[at : at + there]
                previous[start + there : stop] = w[f"{way}.start"]
                part = total[start:stop]
                part += previous[start:stop] @ w[f"{way}.u"].T
                np.tanh(part, out=states[start:stop])
        return x

    def back(self, way: str, d: Array) -> Array:
        """Overwrite the sums of one direction by their adjoints, from those of the states; return that of the start."""
        states, total = self.both[:, self.halves[way]], self.sums[way]
        first = np.zeros(self.n, total.dtype)
        for start, stop, at, there in reversed(self.ways[way]):
            s, part = states[start:stop], total[start:stop]
            np.multiply(s, s, out=part)
            np.subtract(1, part, out=part)
            part *= d[start:stop]
            down = part @ self.w[f"{way}.u"]
            d[at : at + there] += down[:there]
            first += down[there:].sum(axis=0)
        return first

    def gradients(self) -> tuple[float, dict[str, Any]]:
        """Return the loss and the gradients."""
        w, x = self.w, self.there()
        value, dz = cross_entropy(self.both @ w["w_out"].T + w["b_out"], self.labels, 1 / self.count)
        d_both = dz @ w["w_out"]
        out: dict[str, Any] = {"w_out": dz.T @ self.both, "b_out": dz.sum(axis=0)}
        dx = np.zeros_like(x)
        for way, half in self.halves.items():
            out[f"{way}.start"] = self.back(way, d_both[:, half])
            total = self.sums[way]
            out[f"{way}.w"], out[f"{way}.u"] = total.T @ x, total.T @ self.last[way]
            out[f"{way}.b"] = total.sum(axis=0)
            dx += total @ w[f"{way}.w"]
        return value, out | {"embed": self.by_word(dx)}


def tag_words(p: birnn.Params, columns: Sequence[Any], rate: float) -> Step:
    """Prepare a step of a bidirectional RNN with a loss at each word: steps of time, then the same steps back."""
    sentences = BiRNN(p, columns)
    return _step(sentences.w, sentences.gradients, rate)


TRAINED: Mapping[str, Callable[[Any, Sequence[Any], float], Step]] = {"tree_lstm": sentiment, "birnn": tag_words}
