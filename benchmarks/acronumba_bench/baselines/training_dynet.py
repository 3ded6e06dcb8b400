"""Training steps in DyNet with autobatch, from its wheel `dyNET38`: written for one instance, as its users do.

In: weights, the columns of a mini-batch, a learning rate. Out: a `Step`. As in `by_dynet` each gate has a separate
product. The update is `SimpleSGDTrainer`, which changes only the rows of the table that occur.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from acronumba.zoo import birnn, tree_lstm
from acronumba_bench.baselines.by_dynet import Expression, dy, own_parameter, split_gates
from acronumba_bench.baselines.cells import Step


def _step(
    model: Any, losses: Callable[[], Sequence[Expression]], share: float, parts: Mapping[str, Any], rate: float
) -> Step:
    """Return a step; `parts` maps each weight to its parameters: one, rows of rows, or a table."""
    trainer = dy.SimpleSGDTrainer(model, rate)
    trainer.set_clip_threshold(0)

    def forward_and_back(_model: Any = model) -> float:  # which owns the parameters
        dy.renew_cg()
        total = dy.esum(list(losses())) * share
        value = float(total.scalar_value())
        total.backward()
        return value

    def run() -> None:
        forward_and_back()
        trainer.update()

    def gradients() -> tuple[float, dict[str, Any]]:
        value = forward_and_back()
        found = {name: _gradient(part) for name, part in parts.items()}
        trainer.learning_rate = 0
        trainer.update()  # forgets them
        trainer.learning_rate = rate
        return value, found

    return Step(run=run, gradients=gradients)


def _gradient(part: Any) -> Any:
    """Return the gradient of a weight: a list is concatenated by rows, a tuple by columns."""
    if isinstance(part, list):
        return np.concatenate([_gradient(row) for row in part])
    if isinstance(part, tuple):
        return np.concatenate([_gradient(column) for column in part], axis=1)
    return part.grad_as_array().copy()


def sentiment(p: tree_lstm.Params, columns: Sequence[Any], rate: float) -> Step:
    """Prepare a step of a Tree-LSTM with a loss at the root."""
    model = dy.ParameterCollection()
    embed, n = model.lookup_parameters_from_numpy(p.embed), p.embed.shape[1]
    leaf = [(own_parameter(model, b), own_parameter(model, w)) for b, w in split_gates(3, p.b_leaf, p.w_leaf)]
    gates = [
        (own_parameter(model, b), own_parameter(model, w[:, :n]), own_parameter(model, w[:, n:]))
        for b, w in split_gates(5, p.b, p.w)
    ]
    w_out, b_out = own_parameter(model, p.w_out), own_parameter(model, p.b_out)

    def encode(t: Any) -> tuple[Expression, Expression]:
        if t.left is None:
            x = embed[t.word]
            i, o, u = (dy.affine_transform([b, w, x]) for b, w in leaf)
            c = dy.cmult(dy.logistic(i), dy.tanh(u))
            return dy.cmult(dy.logistic(o), dy.tanh(c)), c
        hl, cl = encode(t.left)
        hr, cr = encode(t.right)
        i, f, g, o, u = (dy.affine_transform([b, left, hl, right, hr]) for b, left, right in gates)
        kept = dy.cmult(dy.logistic(f), cl) + dy.cmult(dy.logistic(g), cr)
        c = dy.cmult(dy.logistic(i), dy.tanh(u)) + kept
        return dy.cmult(dy.logistic(o), dy.tanh(c)), c

    def losses() -> list[Expression]:
        return [
            dy.pickneglogsoftmax(dy.affine_transform([b_out, w_out, encode(t)[0]]), label)
            for t, label in zip(*columns, strict=True)
        ]

    parts = {
        "embed": embed,
        "w_leaf": [w for _, w in leaf],
        "b_leaf": [b for b, _ in leaf],
        "w": [(left, right) for _, left, right in gates],
        "b": [b for b, _, _ in gates],
        "w_out": w_out,
        "b_out": b_out,
    }
    return _step(model, losses, 1 / len(columns[0]), parts, rate)


def tag_words(p: birnn.Params, columns: Sequence[Any], rate: float) -> Step:
    """Prepare a step of a bidirectional RNN with a loss at each word."""
    model = dy.ParameterCollection()
    embed = model.lookup_parameters_from_numpy(p.embed)
    cells = {
        way: {name: own_parameter(model, getattr(cell, name)) for name in ("w", "u", "b", "start")}
        for way, cell in (("forward", p.forward), ("backward", p.backward))
    }
    w_out, b_out = own_parameter(model, p.w_out), own_parameter(model, p.b_out)

    def read(vectors: Sequence[Expression], cell: Mapping[str, Any]) -> list[Expression]:
        h, states = cell["start"], []
        for x in vectors:
            h = dy.tanh(dy.affine_transform([cell["b"], cell["w"], x, cell["u"], h]))
            states.append(h)
        return states

    def losses() -> list[Expression]:
        out = []
        for words, tags in zip(*columns, strict=True):
            vectors = [embed[word] for word in words]
            both = zip(read(vectors, cells["forward"]), reversed(read(vectors[::-1], cells["backward"])), strict=True)
            for states, label in zip(both, tags, strict=True):
                z = dy.affine_transform([b_out, w_out, dy.concatenate(list(states))])
                out.append(dy.pickneglogsoftmax(z, label))
        return out

    parts = {f"{way}.{name}": part for way, cell in cells.items() for name, part in cell.items()}
    parts |= {"embed": embed, "w_out": w_out, "b_out": b_out}
    return _step(model, losses, 1 / len(columns[0]), parts, rate)


TRAINED: Mapping[str, Callable[[Any, Sequence[Any], float], Step]] = {"tree_lstm": sentiment, "birnn": tag_words}
