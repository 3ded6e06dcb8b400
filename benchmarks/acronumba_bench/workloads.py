"""All measured models: those of the zoo, and small ones in which particular options matter.

The small ones are models like any other: plain functions for one sentence (a list of word numbers), with the products
and branches for which one option matters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from acronumba import model, nn
from acronumba.bench.workloads import WAITING, ZOO, Workload
from acronumba.zoo import birnn
from acronumba.zoo.data import Array, hidden_size, normal

SIZES = {"small": 256, "large": 512}  # H
VOCABULARY = 4096  # V
CLASSES = 16  # C
EXPERTS = 8  # E


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


def _small(model: Any, params: Callable[[str | int], Any], why: str) -> Workload:
    return Workload(
        name=model.__name__, model=model, params=params, instances=birnn.instances, read=birnn.read_sst, why=why
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
