"""Doubly recurrent network (Alvarez-Melis & Jaakkola 2017): it grows a tree from the top.

In: the number of a start vector. Out: a tree of words. Each node has two states: the ancestral one comes from its
parent, the fraternal one from the sibling before it. From both the network predicts whether the node has children,
whether it has another sibling, and its word. What is dynamic is therefore computed: no tree is known before it is
made. Subtrees of siblings do not depend on each other.

In `generate_emulated` the data says how the tree grows; words are still computed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from acronumba import model, nn
from acronumba.zoo.cells import GRU, gru, gru_params
from acronumba.zoo.data import Array, hidden_size, normal

SIZES = {"small": 256, "large": 512}  # H
STARTS = 1024  # S
WORDS = 64  # V
SIBLINGS = 4  # at most
LEVELS = 4  # at most


@dataclass
class Shape:
    """How a tree grows from here, in `generate_emulated`: the children of a node."""

    children: list[Shape]


@dataclass
class Start:
    vector: int  # row of the table of start vectors
    shape: Shape


@dataclass
class Node:
    word: Array  # int64[]
    probabilities: Array  # float32[V]: of the words
    children: list[Node]


@dataclass
class Sibling:
    word: Array  # int64[]
    probabilities: Array  # float32[V]
    x: Array  # float32[H]: the word's vector
    parent: bool  # whether it has children


@dataclass
class Params:
    start: np.ndarray  # [S, H]
    embed: np.ndarray  # [V, H]
    ancestral: GRU  # g^a
    fraternal: GRU  # g^f
    first_h: np.ndarray  # [H]: fraternal state before the first sibling
    first_x: np.ndarray  # [H]: and its vector
    u_ancestral: np.ndarray  # [H, H]: U^a
    u_fraternal: np.ndarray  # [H, H]: U^f
    topology_a: np.ndarray  # [H]: u^a, for "has children"
    topology_f: np.ndarray  # [H]: u^f, for "has another sibling"
    w: np.ndarray  # [V, H]: of the prediction, for words
    v_ancestral: np.ndarray  # [V]: v^a, added if there are children
    v_fraternal: np.ndarray  # [V]: v^f, added if there is another sibling


def label(h: Array, parent: bool, more: bool, p: Params) -> Array:
    """Return the probabilities of the words of a node, float32[V]."""
    return nn.softmax(p.w @ h + parent * p.v_ancestral + more * p.v_fraternal)


def family(h_parent: Array, x_parent: Array, level: int, p: Params) -> list[Node]:
    """Return the children of a node with all that is below them."""
    ancestral = gru(p.ancestral, x_parent, h_parent)
    fraternal, x = p.first_h, p.first_x
    siblings: list[Sibling] = []
    more = True
    while more:
        fraternal = gru(p.fraternal, x, fraternal)
        h = np.tanh(p.u_fraternal @ fraternal + p.u_ancestral @ ancestral)
        children, sibling = nn.sigmoid(p.topology_a @ h), nn.sigmoid(p.topology_f @ h)
        parent = level < LEVELS and float(children) > 0.5
        more = len(siblings) + 1 < SIBLINGS and float(sibling) > 0.5
        probabilities = label(h, parent, more, p)
        word = np.argmax(probabilities)
        x = p.embed[word]
        siblings.append(Sibling(word, probabilities, x, parent))
    return [Node(s.word, s.probabilities, family(ancestral, s.x, level + 1, p) if s.parent else []) for s in siblings]


@model
def generate(start: Start, *, p: Params) -> list[Node]:
    """Return the topmost nodes of a tree, 1 to 4 with at most 4 levels."""
    s = p.start[start.vector]
    return family(s, s, 1, p)


def family_emulated(h_parent: Array, x_parent: Array, shape: Shape, p: Params) -> list[Node]:
    """Return the children of a node with all their descendants, in the numbers given by `shape`."""
    ancestral = gru(p.ancestral, x_parent, h_parent)
    fraternal, x = p.first_h, p.first_x
    siblings = []
    for k, child in enumerate(shape.children):
        fraternal = gru(p.fraternal, x, fraternal)
        h = np.tanh(p.u_fraternal @ fraternal + p.u_ancestral @ ancestral)
        parent, more = len(child.children) > 0, k + 1 < len(shape.children)
        probabilities = label(h, parent, more, p)
        word = np.argmax(probabilities)
        x = p.embed[word]
        siblings.append(Sibling(word, probabilities, x, parent))
    return [
        Node(s.word, s.probabilities, family_emulated(ancestral, s.x, child, p) if s.parent else [])
        for s, child in zip(siblings, shape.children)  # noqa: B905  # one sibling per child
    ]


@model
def generate_emulated(start: Start, *, p: Params) -> list[Node]:
    """Return the topmost nodes of a tree that grows as the data says."""
    s = p.start[start.vector]
    return family_emulated(s, s, start.shape, p)


def params(size: str | int = "small", seed: int = 0) -> Params:
    """Return random weights; `size` is a name of `SIZES` or H itself."""
    h, rng = hidden_size(size, SIZES), np.random.default_rng(seed)
    return Params(
        start=normal(rng, STARTS, h),
        embed=normal(rng, WORDS, h),
        ancestral=gru_params(rng, h, h),
        fraternal=gru_params(rng, h, h),
        first_h=normal(rng, h),
        first_x=normal(rng, h),
        u_ancestral=normal(rng, h, h),
        u_fraternal=normal(rng, h, h),
        topology_a=normal(rng, h),
        topology_f=normal(rng, h),
        w=normal(rng, WORDS, h),
        v_ancestral=normal(rng, WORDS),
        v_fraternal=normal(rng, WORDS),
    )


def instances(n: int, seed: int = 0) -> list[Start]:
    """Return `n` start vectors, each with a tree for `generate_emulated`; every decision in it is a toss of a coin."""
    rng = random.Random(seed)

    def shape(level: int) -> Shape:
        children = []
        more = True
        while more:
            children.append(shape(level + 1) if level < LEVELS and rng.random() < 0.5 else Shape([]))
            more = len(children) < SIBLINGS and rng.random() < 0.5
        return Shape(children)

    return [Start(rng.randrange(STARTS), shape(1)) for _ in range(n)]
