"""The measured models: those of `acronumba.zoo`, and small ones in which particular options matter.

The small ones are models like any other: plain functions for one sentence (a list of word numbers), with the products
and branches for which one option matters. `WORKLOADS` names all models.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from acronumba import model, nn
from acronumba.zoo import (
    beam_decoder,
    berxit,
    bilstm_tagger,
    birnn,
    child_sum_lstm,
    decoder,
    drnn,
    encoder,
    graph_rnn,
    listops,
    moe,
    mv_rnn,
    nested_rnn,
    stack_rnn,
    tree_lstm,
)
from acronumba.zoo.data import Array, hidden_size, normal

SIZES = {"small": 256, "large": 512}  # H
VOCABULARY = 4096  # V
CLASSES = 16  # C
EXPERTS = 8  # E


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A model with data and weights."""

    name: str
    model: Any  # a `Model` of one positional parameter and `p`
    params: Callable[[str | int], Any]  # from a size
    instances: Callable[[int], Any]  # how many
    read: Callable[[str], Any] | None  # reads a file of trees; None: instances have no words
    why: str  # purpose
    waits: bool = False  # whether computed values decide its control flow


# --------------------------------------------------------------------------------- a loop whose data decides: lookahead


@dataclass
class Branches:
    embed: np.ndarray  # [V, H]
    start: np.ndarray  # [H]
    short: np.ndarray  # [H, H]: the arm of one product
    first: np.ndarray  # [H, H]: the arm of two or three: this one,
    second: np.ndarray  # [H, H]: then this one or none,
    third: np.ndarray  # [H, H]: then this one
    join: np.ndarray  # [H, H]


@model
def branches(words: list[int], *, p: Branches) -> Array:
    """Return a state, float32[H], to which each word adds one step or several."""
    h = p.start
    for w in words:
        if w % 3 == 0:
            h = np.tanh(p.short @ h)
        elif w % 3 == 1:
            h = nn.sigmoid(h)
        else:
            h = np.tanh(p.first @ h)
            if w % 2 == 0:
                h = np.tanh(p.second @ h)
            h = nn.sigmoid(p.third @ h)
        h = np.tanh(p.join @ h + p.embed[w])
    return h


def branches_params(size: str | int = "small") -> Branches:
    h, rng = hidden_size(size, SIZES), np.random.default_rng(0)
    return Branches(normal(rng, VOCABULARY, h), normal(rng, h), *(normal(rng, h, h) for _ in range(5)))


# --------------------------------------------------------------------- one helper for two directions: duplicate, phases


@dataclass
class Direction:
    w: np.ndarray  # [H, H]
    u: np.ndarray  # [H, H]
    b: np.ndarray  # [H]
    start: np.ndarray  # [H]


@dataclass
class Directions:
    embed: np.ndarray  # [V, H]
    forward: Direction
    backward: Direction
    w_out: np.ndarray  # [C, 2H]


def fold(words: list[int], at: int, step: int, d: Direction, p: Directions) -> Array:
    """Return the state after the words from `at` on, read from the far end."""
    if at < 0 or at >= len(words):
        return d.start
    h = fold(words, at + step, step, d, p)
    return np.tanh(d.w @ p.embed[words[at]] + d.u @ h + d.b)


@model
def directions(words: list[int], *, p: Directions) -> Array:
    """Return the probabilities of the classes of a sentence, float32[C], from both of its ends."""
    h = np.concatenate([fold(words, 0, 1, p.forward, p), fold(words, len(words) - 1, -1, p.backward, p)])
    return nn.softmax(p.w_out @ h)


def directions_params(size: str | int = "small") -> Directions:
    h, rng = hidden_size(size, SIZES), np.random.default_rng(0)

    def direction() -> Direction:
        return Direction(normal(rng, h, h), normal(rng, h, h), normal(rng, h), normal(rng, h))

    return Directions(normal(rng, VOCABULARY, h), direction(), direction(), normal(rng, CLASSES, 2 * h))


# -------------------------------------------------------------------- several products of one operand: horizontal, fuse


@dataclass
class Gates:
    embed: np.ndarray  # [V, H]
    start: np.ndarray  # [H]
    w_reset: np.ndarray  # [H, H]
    w_update: np.ndarray  # [H, H]
    w_new: np.ndarray  # [H, H]
    u_reset: np.ndarray  # [H, H]
    u_update: np.ndarray  # [H, H]
    u_new: np.ndarray  # [H, H]
    w_query: np.ndarray  # [H, H]
    w_key: np.ndarray  # [H, H]
    w_value: np.ndarray  # [H, H]


@model
def gates(words: list[int], *, p: Gates) -> Array:
    """Return float32[H]: a GRU (Cho et al. 2014) over the words, then attention of the last state over all of them."""
    h = p.start
    keys, values = [], []
    for w in words:
        x = p.embed[w]
        reset = nn.sigmoid(p.w_reset @ x + p.u_reset @ h)
        update = nn.sigmoid(p.w_update @ x + p.u_update @ h)
        new = np.tanh(p.w_new @ x + reset * (p.u_new @ h))
        h = (1 - update) * new + update * h
        keys.append(p.w_key @ h)
        values.append(p.w_value @ h)
    weights = nn.softmax(np.stack(keys) @ (p.w_query @ h))
    return weights @ np.stack(values)


def gates_params(size: str | int = "small") -> Gates:
    h, rng = hidden_size(size, SIZES), np.random.default_rng(0)
    return Gates(normal(rng, VOCABULARY, h), normal(rng, h), *(normal(rng, h, h) for _ in range(9)))


# ----------------------------------------------------------- work in a loop that the loop does not carry: hoist, phases


@dataclass
class Projections:
    embed: np.ndarray  # [V, H]
    start: np.ndarray  # [H]
    w: np.ndarray  # [H, H]
    b: np.ndarray  # [H]
    u: np.ndarray  # [H, H]
    w_out: np.ndarray  # [C, H]


@model
def projections(words: list[int], *, p: Projections) -> list[Array]:
    """Return the probabilities of the classes for each word; projection, step and classifier are in one loop."""
    h = p.start
    classes = []
    for w in words:
        h = np.tanh(nn.sigmoid(p.w @ p.embed[w] + p.b) + p.u @ h)
        classes.append(nn.softmax(p.w_out @ h))
    return classes


def projections_params(size: str | int = "small") -> Projections:
    h, rng = hidden_size(size, SIZES), np.random.default_rng(0)
    parts = (normal(rng, h), normal(rng, h, h), normal(rng, h), normal(rng, h, h), normal(rng, CLASSES, h))
    return Projections(normal(rng, VOCABULARY, h), *parts)


# ----------------------------------------------------------------------------- one product over all words: hoist (rows)


@model
def sentences(words: list[int], *, p: Projections) -> Array:
    """Return the probabilities of the classes for each word, float32[words, C], by one product for the sentence."""
    h = p.start
    states = []
    for w in words:
        h = np.tanh(p.embed[w] + p.u @ h)
        states.append(h)
    return nn.softmax(np.stack(states) @ p.w_out.T)


# ----------------------------------------------------------- weights that data chooses: reuse, gather_fusion, lookahead


@dataclass
class Experts:
    embed: np.ndarray  # [V, H]
    w: np.ndarray  # [E, H, H]
    b: np.ndarray  # [E, H]
    start: np.ndarray  # [H]
    u: np.ndarray  # [H, H]


@model
def experts(words: list[int], *, p: Experts) -> Array:
    """Return a state, float32[H], to which each word adds through the expert that is its own (Shazeer et al. 2017)."""
    h = p.start
    for w in words:
        e = w % 8
        x = np.tanh(p.w[e] @ p.embed[w] + p.b[e])
        h = np.tanh(x + p.u @ h)
    return h


def experts_params(size: str | int = "small") -> Experts:
    h, rng = hidden_size(size, {"small": 128, "large": 256}), np.random.default_rng(0)
    parts = (normal(rng, EXPERTS, h, h), normal(rng, EXPERTS, h), normal(rng, h), normal(rng, h, h))
    return Experts(normal(rng, VOCABULARY, h), *parts)


# ---------------------------------------------------------------------------------------------------------- all of them


def _zoo(module: ModuleType, model: Any, why: str, suffix: str = "", waits: bool = False) -> Workload:
    return Workload(
        name=module.__name__.rpartition(".")[2] + suffix,
        model=model,
        params=module.params,
        instances=module.instances,
        read=getattr(module, "read_sst", None),
        why=why,
        waits=waits,
    )


def _small(model: Any, params: Callable[[str | int], Any], why: str) -> Workload:
    return Workload(
        name=model.__name__, model=model, params=params, instances=birnn.instances, read=birnn.read_sst, why=why
    )


ZOO: tuple[Workload, ...] = (
    _zoo(tree_lstm, tree_lstm.sentiment, "binary trees"),
    _zoo(child_sum_lstm, child_sum_lstm.classify, "trees with any number of children"),
    _zoo(mv_rnn, mv_rnn.sentiment, "a matrix per node"),
    _zoo(birnn, birnn.tag, "two directions, a class per word"),
    _zoo(bilstm_tagger, bilstm_tagger.tag, "rare words are spelled"),
    _zoo(nested_rnn, nested_rnn.encode, "a loop in a loop"),
    _zoo(listops, listops.classify, "a loop in a recursion"),
    _zoo(encoder, encoder.encode, "attention over sentences of any length"),
    _zoo(moe, moe.mix, "weights chosen by a computed index"),
    _zoo(moe, moe.route_emulated, "a list of experts, chosen by data", "_emulated"),
    _zoo(drnn, drnn.generate_emulated, "trees grown as the data says", "_emulated"),
    _zoo(berxit, berxit.classify_emulated, "as many layers as the data says", "_emulated"),
    _zoo(stack_rnn, stack_rnn.parse_emulated, "a parser that is told its actions", "_emulated"),
    _zoo(graph_rnn, graph_rnn.generate_emulated, "a loop in a loop, with edges from the data", "_emulated"),
    _zoo(beam_decoder, beam_decoder.decode_emulated, "a beam that is told what to keep", "_emulated"),
    _zoo(decoder, decoder.generate_emulated, "attention over keys and values that grow", "_emulated"),
)
WAITING: tuple[Workload, ...] = (  # models of the zoo whose control flow depends on computed values
    _zoo(moe, moe.route, "a list of experts, chosen by a router", "_route", waits=True),
    _zoo(drnn, drnn.generate, "trees that decide how they grow", waits=True),
    _zoo(berxit, berxit.classify, "early exit from a stack of layers", waits=True),
    _zoo(stack_rnn, stack_rnn.parse, "a parser that decides its actions", waits=True),
    _zoo(graph_rnn, graph_rnn.generate, "a graph whose edges are drawn", waits=True),
    _zoo(beam_decoder, beam_decoder.decode, "beam search", waits=True),
    _zoo(decoder, decoder.generate, "sentences that decide when they end", waits=True),
)
SMALL: tuple[Workload, ...] = (
    _small(branches, branches_params, "branches of different depth: lookahead"),
    _small(directions, directions_params, "one helper for two directions: duplicate"),
    _small(gates, gates_params, "matrix products of one operand: horizontal, fuse"),
    _small(projections, projections_params, "work that the loop does not carry: hoist, phases"),
    _small(sentences, projections_params, "one matrix product over a sentence: rows"),
    _small(experts, experts_params, "weights chosen by data: reuse, gather_fusion"),
)
WORKLOADS: dict[str, Workload] = {w.name: w for w in (*ZOO, *WAITING, *SMALL)}
