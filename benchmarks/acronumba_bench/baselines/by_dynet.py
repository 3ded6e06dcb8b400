"""DyNet with autobatch (Neubig, Goldberg & Dyer 2017), from its wheel `dyNET38`: models written for one instance.

In: weights and instances of a model. Out: a `Program` that builds the graph of the mini-batch and lets DyNet batch and
compute it, as its users do; the time to read the values is excluded. Each gate has a separate product: DyNet computes
that faster than one product for all gates, which is then split. The wheel uses one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import dynet_config
import numpy as np

from acronumba.bench.by_hand.program import Program
from acronumba.zoo import birnn, tree_lstm

dynet_config.set(mem=2048, autobatch=1, random_seed=1)  # before DyNet is imported

import dynet as dy  # noqa: E402

__all__ = ["AUTOBATCHED", "Expression", "dy", "own_parameter", "split_gates"]

Expression: TypeAlias = Any


def sentiment(p: tree_lstm.Params, xs: Sequence[tree_lstm.Tree]) -> Program:
    """Prepare `tree_lstm.sentiment`."""
    model = dy.ParameterCollection()  # owns the parameters: `run` must hold it
    embed, n = model.lookup_parameters_from_numpy(p.embed), p.embed.shape[1]
    leaf_gates = [(own_parameter(model, b), own_parameter(model, w)) for b, w in split_gates(3, p.b_leaf, p.w_leaf)]
    gates = [
        (own_parameter(model, b), own_parameter(model, w[:, :n]), own_parameter(model, w[:, n:]))
        for b, w in split_gates(5, p.b, p.w)
    ]
    w_out, b_out = own_parameter(model, p.w_out), own_parameter(model, p.b_out)

    def encode(t: Any) -> tuple[Expression, Expression]:
        if t.left is None:
            x = dy.lookup(embed, t.word, update=False)
            i, o, u = (dy.affine_transform([b, w, x]) for b, w in leaf_gates)
            c = dy.cmult(dy.logistic(i), dy.tanh(u))
            return dy.cmult(dy.logistic(o), dy.tanh(c)), c
        hl, cl = encode(t.left)
        hr, cr = encode(t.right)
        i, fl, fr, o, u = (dy.affine_transform([b, left, hl, right, hr]) for b, left, right in gates)
        kept = dy.cmult(dy.logistic(fl), cl) + dy.cmult(dy.logistic(fr), cr)
        c = dy.cmult(dy.logistic(i), dy.tanh(u)) + kept
        return dy.cmult(dy.logistic(o), dy.tanh(c)), c

    def classes(t: tree_lstm.Tree) -> Expression:
        return dy.softmax(dy.affine_transform([b_out, w_out, encode(t)[0]]))

    return _program(model, lambda: [[classes(t)] for t in xs], lambda rows: rows[0])


def tag_words(p: birnn.Params, xs: Sequence[list[int]]) -> Program:
    """Prepare `birnn.tag`."""
    model = dy.ParameterCollection()
    embed = model.lookup_parameters_from_numpy(p.embed)
    onward, back = (
        tuple(own_parameter(model, a) for a in (cell.b, cell.w, cell.u, cell.start)) for cell in (p.forward, p.backward)
    )
    w_out, b_out = own_parameter(model, p.w_out), own_parameter(model, p.b_out)

    def read(vectors: Sequence[Expression], cell: tuple[Any, ...]) -> list[Expression]:
        b, w, u, h = cell
        states = []
        for x in vectors:
            h = dy.tanh(dy.affine_transform([b, w, x, u, h]))
            states.append(h)
        return states

    def tag(words: list[int]) -> list[Expression]:
        vectors = [dy.lookup(embed, word, update=False) for word in words]
        both = zip(read(vectors, onward), reversed(read(vectors[::-1], back)), strict=True)
        return [dy.softmax(dy.affine_transform([b_out, w_out, dy.concatenate(list(states))])) for states in both]

    return _program(model, lambda: [tag(words) for words in xs], lambda rows: rows)


def split_gates(count: int, *arrays: Any) -> list[tuple[Any, ...]]:
    return list(zip(*(np.split(a, count) for a in arrays), strict=True))


def own_parameter(model: Any, array: Any) -> Any:
    return model.parameters_from_numpy(np.ascontiguousarray(array))


def _program(model: Any, build: Callable[[], list[list[Expression]]], result: Callable[[list[Any]], Any]) -> Program:
    def run(_model: Any = model) -> list[list[Expression]]:
        dy.renew_cg()
        outs = build()
        dy.forward([expression for row in outs for expression in row])
        return outs

    def results(outs: list[list[Expression]]) -> list[Any]:
        """Copy the values, which are valid until the next run."""
        return [result([expression.npvalue().astype(np.float32) for expression in row]) for row in outs]

    return Program(run=run, results=results)


AUTOBATCHED: Mapping[str, Callable[..., Program]] = {"tree_lstm": sentiment, "birnn": tag_words}
