"""Child-sum Tree-LSTM (Tai, Socher & Manning 2015, section 3.1): nodes with any number of children.

In: a tree whose nodes have a kind, here the syntax of a Python function. Out: the probabilities of five classes. A
loop over the children inside a recursion, with a forget gate for each child.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

import numpy as np

from acronumba import model, nn
from acronumba.zoo.data import Array, hidden_size, normal, python_functions

SIZES = {"small": 256, "large": 512}  # H
CLASSES = 5  # C
KINDS = tuple(sorted(k for k, c in vars(ast).items() if isinstance(c, type) and issubclass(c, ast.AST)))  # V of them


@dataclass
class Node:
    kind: int  # index into KINDS
    children: list[Node] = field(default_factory=list)


@dataclass
class Params:
    embed: np.ndarray  # [V, H]
    w: np.ndarray  # [4H, H]: of the node's own vector, for i, o, u, f
    b: np.ndarray  # [4H]
    u: np.ndarray  # [3H, H]: of the sum of the children's states, for i, o, u
    u_forget: np.ndarray  # [H, H]: of one child's state, for f
    w_out: np.ndarray  # [C, H]
    b_out: np.ndarray  # [C]


def encode(node: Node, p: Params) -> tuple[Array, Array]:
    """Return state h and memory c of a node, float32[H] each (equations 2 to 8)."""
    xi, xo, xu, xf = np.split(p.w @ p.embed[node.kind] + p.b, 4)
    total = np.zeros_like(xf)
    kept = np.zeros_like(xf)
    for child in node.children:
        h, c = encode(child, p)
        total = total + h
        kept = kept + nn.sigmoid(xf + p.u_forget @ h) * c
    i, o, u = np.split(p.u @ total, 3)
    memory = nn.sigmoid(xi + i) * np.tanh(xu + u) + kept
    return nn.sigmoid(xo + o) * np.tanh(memory), memory


@model
def classify(node: Node, *, p: Params) -> Array:
    """Return the probabilities of the classes, float32[C]."""
    h, _ = encode(node, p)
    return nn.softmax(p.w_out @ h + p.b_out)


def params(size: str | int = "small", seed: int = 0) -> Params:
    """Return random weights; `size` is a name of `SIZES` or H itself."""
    h, rng = hidden_size(size, SIZES), np.random.default_rng(seed)
    return Params(
        embed=normal(rng, len(KINDS), h),
        w=normal(rng, 4 * h, h),
        b=normal(rng, 4 * h),
        u=normal(rng, 3 * h, h),
        u_forget=normal(rng, h, h),
        w_out=normal(rng, CLASSES, h),
        b_out=normal(rng, CLASSES),
    )


def instances(n: int, seed: int = 0) -> list[Node]:
    """Return `n` functions of Python's standard library as trees of the kinds of their syntax."""
    return [_node(f) for f in python_functions(n, seed)]


def _node(tree: ast.AST) -> Node:
    children = [_node(c) for c in ast.iter_child_nodes(tree) if not isinstance(c, ast.expr_context)]
    return Node(kind=KINDS.index(type(tree).__name__), children=children)
