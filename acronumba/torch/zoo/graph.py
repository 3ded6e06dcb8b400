"""Messages along the edges of a graph, with gated updates of its nodes (Li et al. 2016).

In: a graph, here the syntax of a Python function with edges between parents and children and between neighbours. Out:
log-probabilities of five classes. No two graphs have the same nodes or edges.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from acronumba.zoo.child_sum_lstm import CLASSES, KINDS
from acronumba.zoo.data import hidden_size, python_functions

SIZES = {"small": 256, "large": 512}  # H
ROUNDS = 3


@dataclass
class Graph:
    kinds: torch.Tensor  # int64[n], indices into KINDS
    sources: torch.Tensor  # int64[m], of edges
    targets: torch.Tensor  # int64[m]


class GatedGraph(nn.Module):
    """Three rounds of messages, then a weighted sum of the nodes."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(KINDS), size)
        self.message = nn.Linear(size, size)
        self.update = nn.GRUCell(size, size)
        self.weight = nn.Linear(size, 1)
        self.out = nn.Linear(size, CLASSES)

    def forward(self, graph: Graph) -> torch.Tensor:
        """Return log-probabilities, float32[C]."""
        h = self.embed(graph.kinds)
        for _ in range(ROUNDS):
            sent = self.message(h)[graph.sources]
            received = torch.zeros_like(h).index_add(0, graph.targets, sent)
            h = self.update(received, h)
        a = torch.softmax(self.weight(h), dim=0)
        return F.log_softmax(self.out((a * h).sum(0)), dim=-1)


def module(size: str | int = "small", seed: int = 0) -> GatedGraph:
    """Return a module with random weights; `size` is a name of `SIZES` or H itself."""
    torch.manual_seed(seed)
    return GatedGraph(hidden_size(size, SIZES))


def instances(n: int, seed: int = 0) -> list[Graph]:
    """Return the syntax of `n` functions of Python's standard library as graphs."""
    return [_graph(f) for f in python_functions(n, seed)]


def _graph(function: ast.AST) -> Graph:
    nodes = [node for node in ast.walk(function) if not isinstance(node, ast.expr_context)]
    number = {id(node): k for k, node in enumerate(nodes)}
    edges = [
        (number[id(node)], number[id(child)])
        for node in nodes
        for child in ast.iter_child_nodes(node)
        if id(child) in number
    ]
    edges += [(k, k + 1) for k in range(len(nodes) - 1)]
    pairs = torch.tensor(edges + [(b, a) for a, b in edges])
    kinds = torch.tensor([KINDS.index(type(node).__name__) for node in nodes])
    return Graph(kinds=kinds, sources=pairs[:, 0].contiguous(), targets=pairs[:, 1].contiguous())
