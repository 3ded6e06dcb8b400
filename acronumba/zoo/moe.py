"""Mixture of experts with one expert for each token (Shazeer et al. 2017; top-1 as in Fedus, Zoph & Shazeer 2022).

In: a list of word numbers. Out: for each word, its vector after the layer. A router decides by a computed value
which of eight experts sees a word. `mix` takes the expert's weights from a stack of all, by an index that stays a
tensor; `route` takes the expert from a list, so that Python itself must know the index: a wait per word. In
`route_emulated` that index is part of the data.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from os import PathLike

import numpy as np

from acronumba import model, nn
from acronumba.zoo import birnn
from acronumba.zoo.data import Array, hidden_size, normal

SIZES = {"small": 256, "large": 512}  # H
VOCABULARY = 4096  # V
EXPERTS = 8  # E


@dataclass
class Tokens:
    words: list[int]
    experts: list[int]  # of each word, in `route_emulated`


@dataclass
class Expert:
    w_in: np.ndarray  # [4H, H]; in the stack all arrays have E in front
    b_in: np.ndarray  # [4H]
    w_out: np.ndarray  # [H, 4H]
    b_out: np.ndarray  # [H]


@dataclass
class Params:
    embed: np.ndarray  # [V, H]
    w_router: np.ndarray  # [E, H]
    stack: Expert  # of all experts
    experts: list[Expert]  # the same weights, one by one


def apply(e: Expert, x: Array) -> Array:
    """Return what an expert makes of a vector, float32[H]."""
    return e.w_out @ nn.relu(e.w_in @ x + e.b_in) + e.b_out


@model
def mix(tokens: Tokens, *, p: Params) -> list[Array]:
    """Return the vector of each word, float32[H] each; the weights are rows that a computed index names."""
    out = []
    for word in tokens.words:
        x = p.embed[word]
        gates = nn.softmax(p.w_router @ x)
        k = np.argmax(gates)
        hidden = nn.relu(p.stack.w_in[k] @ x + p.stack.b_in[k])
        out.append(x + gates[k] * (p.stack.w_out[k] @ hidden + p.stack.b_out[k]))
    return out


@model
def route(tokens: Tokens, *, p: Params) -> list[Array]:
    """Return the vector of each word, float32[H] each; the expert is an element of a list."""
    out = []
    for word in tokens.words:
        x = p.embed[word]
        gates = nn.softmax(p.w_router @ x)
        k = int(np.argmax(gates))
        out.append(x + gates[k] * apply(p.experts[k], x))
    return out


@model
def route_emulated(tokens: Tokens, *, p: Params) -> list[Array]:
    """Return the vector of each word, float32[H] each; the data says which expert."""
    out = []
    for word, k in zip(tokens.words, tokens.experts):  # noqa: B905  # one expert per word
        x = p.embed[word]
        gates = nn.softmax(p.w_router @ x)
        out.append(x + gates[k] * apply(p.experts[k], x))
    return out


def params(size: str | int = "small", seed: int = 0, vocabulary: int = VOCABULARY) -> Params:
    """Return random weights; `size` is a name of `SIZES` or H itself."""
    h, rng = hidden_size(size, SIZES), np.random.default_rng(seed)
    embed, w_router = normal(rng, vocabulary, h), normal(rng, EXPERTS, h)
    stack = Expert(
        w_in=normal(rng, EXPERTS, 4 * h, h),
        b_in=normal(rng, EXPERTS, 4 * h),
        w_out=normal(rng, EXPERTS, h, 4 * h),
        b_out=normal(rng, EXPERTS, h),
    )
    experts = [Expert(stack.w_in[k], stack.b_in[k], stack.w_out[k], stack.b_out[k]) for k in range(EXPERTS)]
    return Params(embed=embed, w_router=w_router, stack=stack, experts=experts)


def instances(n: int, seed: int = 0, vocabulary: int = VOCABULARY) -> list[Tokens]:
    """Return the names and constants of `n` functions of Python's standard library, each with a random expert."""
    return _with_experts(birnn.instances(n, seed, vocabulary), seed)


def read_sst(path: str | PathLike[str], vocabulary: int = VOCABULARY) -> list[Tokens]:
    """Read the sentences of a file of the Stanford Sentiment Treebank; each word gets a random expert."""
    return _with_experts(birnn.read_sst(path, vocabulary), 0)


def _with_experts(sentences: list[list[int]], seed: int) -> list[Tokens]:
    rng = random.Random(seed)
    return [Tokens(words, [rng.randrange(EXPERTS) for _ in words]) for words in sentences]
