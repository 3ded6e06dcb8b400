"""Training steps in PyTorch, by autograd: batched by hand, and one instance after the other.

In: weights, the columns of a mini-batch, a learning rate. Out: a `Step`. By hand: all rows of a level or of a step of
time in one product. States that wait for their parents are carried along, since a concatenation of all states at each
level takes longer (measured with PyTorch 2.13). The update is `torch.optim.SGD`, fused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from acronumba.bench.by_hand.arrays import Array
from acronumba.bench.by_hand.program import steps
from acronumba.bench.by_hand.trees import Forest, flatten
from acronumba.zoo import birnn, tree_lstm
from acronumba_bench.baselines.by_torch import tensor
from acronumba_bench.baselines.cells import Step
from acronumba_bench.baselines.training_numpy import before, copied

Weights = dict[str, Any]
Pair = tuple[Array, Array]


def parameters(p: Any) -> Weights:
    """Return copies of the weights as parameters, by name."""
    return {name: torch.nn.Parameter(tensor(array)) for name, array in copied(p).items()}


def _step(weights: Weights, loss: Callable[[], Any], rate: float) -> Step:
    opt = torch.optim.SGD(weights.values(), lr=rate, fused=True)

    def gradients() -> tuple[Any, dict[str, Any]]:
        opt.zero_grad(set_to_none=True)
        value = loss()
        value.backward()
        return value, {name: w.grad for name, w in weights.items()}

    def run() -> None:
        gradients()
        opt.step()

    def told() -> tuple[float, dict[str, Any]]:
        value, found = gradients()
        return float(value.detach()), {name: g.cpu().numpy().copy() for name, g in found.items()}

    return Step(run=run, gradients=told)


def _index(numbers: Any) -> Array:
    return tensor(np.ascontiguousarray(numbers, np.int64))


def leaf_cell(x: Array, w: Weights) -> Pair:
    """Return states and memories of leaves."""
    i, o, u = torch.addmm(w["b_leaf"], x, w["w_leaf"].T).chunk(3, -1)
    c = torch.sigmoid(i) * torch.tanh(u)
    return torch.sigmoid(o) * torch.tanh(c), c


def inner_cell(h: Array, left: Array, right: Array, w: Weights) -> Pair:
    """Return states and memories of inner nodes: from the states of both children side by side, and their memories."""
    i, f, g, o, u = torch.addmm(w["b"], h, w["w"].T).chunk(5, -1)
    c = torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(f) * left + torch.sigmoid(g) * right
    return torch.sigmoid(o) * torch.tanh(c), c


def carried(forest: Forest, leaves: int) -> tuple[list[tuple[Any, ...]], Any]:
    """Return for each level the rows of its children and of the waiting nodes to keep; and the rows of the roots.

    Children have three index arrays: into waiting nodes, into leaves, and their order. Roots wait until the end.
    """
    waiting: list[int] = []
    out = []
    for level in forest.levels:
        place = {number: k for k, number in enumerate(waiting)}
        inner = [int(child) for child in level.children if child >= leaves]
        outer = [int(child) for child in level.children if child < leaves]
        order, at, behind = [], 0, len(inner)
        for child in level.children:
            order.append(at if child >= leaves else behind)
            at, behind = at + (child >= leaves), behind + (child < leaves)
        used = set(inner)
        left = [k for k, number in enumerate(waiting) if number not in used]
        out.append(tuple(map(_index, ([place[child] for child in inner], outer, order, left))))
        waiting = [waiting[k] for k in left] + list(range(level.start, level.stop))
    place = {number: len(waiting) + number for number in range(leaves)} | {m: k for k, m in enumerate(waiting)}
    return out, _index([place[int(root)] for root in forest.roots])


def states(forest: Forest, leaves: int) -> Callable[[Weights, Array], Array]:
    """Return a function that computes the states of the roots from the vectors of leaves, level by level."""
    plan, roots = carried(forest, leaves)

    def run(w: Weights, x: Array) -> Array:
        n = x.shape[1]
        outer = torch.cat(leaf_cell(x, w), 1)
        waiting = outer.new_zeros((0, 2 * n))
        for inner, below, order, left in plan:
            children = torch.cat([waiting.index_select(0, inner), outer.index_select(0, below)])
            pairs = children.index_select(0, order).view(-1, 2, 2 * n)
            made = inner_cell(pairs[:, :, :n].reshape(-1, 2 * n), pairs[:, 0, n:], pairs[:, 1, n:], w)
            waiting = torch.cat([waiting.index_select(0, left), torch.cat(made, 1)])
        return torch.cat([waiting, outer]).index_select(0, roots)[:, :n]

    return run


def sentiment(p: tree_lstm.Params, columns: Sequence[Any], rate: float) -> Step:
    """Prepare a step of a Tree-LSTM with a loss at the root."""
    forest, found = flatten(columns[0])
    w, words, labels, run = parameters(p), _index(found), _index(columns[1]), states(forest, len(found))

    def loss() -> Array:
        h = run(w, F.embedding(words, w["embed"]))
        return F.cross_entropy(torch.addmm(w["b_out"], h, w["w_out"].T), labels)

    return _step(w, loss, rate)


def sentiment_each(p: tree_lstm.Params, columns: Sequence[Any], rate: float) -> Step:
    """Prepare the same, tree after tree."""
    w = parameters(p)

    def encode(t: Any) -> Pair:
        if t.left is None:
            i, o, u = torch.addmv(w["b_leaf"], w["w_leaf"], w["embed"][t.word]).chunk(3)
            c = torch.sigmoid(i) * torch.tanh(u)
            return torch.sigmoid(o) * torch.tanh(c), c
        hl, cl = encode(t.left)
        hr, cr = encode(t.right)
        i, f, g, o, u = torch.addmv(w["b"], w["w"], torch.cat([hl, hr])).chunk(5)
        c = torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(f) * cl + torch.sigmoid(g) * cr
        return torch.sigmoid(o) * torch.tanh(c), c

    labels = _index(columns[1])

    def loss() -> Array:
        z = [torch.addmv(w["b_out"], w["w_out"], encode(t)[0]) for t in columns[0]]
        return F.cross_entropy(torch.stack(z), labels)

    return _step(w, loss, rate)


def tag_words(p: birnn.Params, columns: Sequence[Any], rate: float) -> Step:
    """Prepare a step of a bidirectional RNN with a loss at each word."""
    sentences, tags = columns
    order = steps([len(x) for x in sentences])
    words = _index(np.concatenate([np.array(x, np.int64) for x in sentences])[order.at])
    labels = _index(np.concatenate([np.array(x, np.int64) for x in tags])[order.at])
    w = parameters(p)
    ways = {"forward": before(order, True), "backward": before(order, False)}

    def read(way: str, x: Array) -> Array:
        total = torch.addmm(w[f"{way}.b"], x, w[f"{way}.w"].T)
        u, start_state = w[f"{way}.u"].T, w[f"{way}.start"]
        made: dict[int, Array] = {}
        for start, stop, at, there in ways[way]:
            new = stop - start - there
            begin = [start_state.expand(new, -1)] if new else []
            previous = torch.cat([*([made[at][:there]] if there else []), *begin])
            made[start] = torch.tanh(torch.addmm(total[start:stop], previous, u))
        return torch.cat([made[start] for start in sorted(made)])

    def loss() -> Array:
        x = F.embedding(words, w["embed"])
        both = torch.cat([read("forward", x), read("backward", x)], 1)
        z = torch.addmm(w["b_out"], both, w["w_out"].T)
        return F.cross_entropy(z, labels, reduction="sum") / len(sentences)

    return _step(w, loss, rate)


def tag_words_each(p: birnn.Params, columns: Sequence[Any], rate: float) -> Step:
    """Prepare the same, sentence after sentence and word after word."""
    w = parameters(p)
    labels = [_index(tags) for tags in columns[1]]

    def read(vectors: Sequence[Array], way: str) -> list[Array]:
        h, out = w[f"{way}.start"], []
        for x in vectors:
            h = torch.tanh(torch.addmv(torch.addmv(w[f"{way}.b"], w[f"{way}.w"], x), w[f"{way}.u"], h))
            out.append(h)
        return out

    def loss() -> Array:
        total: Any = 0
        for words, tags in zip(columns[0], labels, strict=True):
            vectors = [w["embed"][word] for word in words]
            both = zip(read(vectors, "forward"), reversed(read(vectors[::-1], "backward")), strict=True)
            z = [torch.addmv(w["b_out"], w["w_out"], torch.cat(pair)) for pair in both]
            total = total + F.cross_entropy(torch.stack(z), tags, reduction="sum")
        return total / len(labels)

    return _step(w, loss, rate)


TRAINED: Mapping[str, Callable[[Any, Sequence[Any], float], Step]] = {"tree_lstm": sentiment, "birnn": tag_words}
TRAINED_EACH: Mapping[str, Callable[[Any, Sequence[Any], float], Step]] = {
    "tree_lstm": sentiment_each,
    "birnn": tag_words_each,
}
