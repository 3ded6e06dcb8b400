"""A network of modules (Andreas et al. 2016): the kind of each node names the module that computes it.

In: an expression of Python as a tree. Out: a vector. Which modules run, and how they are composed, is in the data.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

import torch
from torch import nn

from acronumba.zoo.data import hidden_size, python_functions

SIZES = {"small": 256, "large": 512}  # H
UNARY = ("Attribute", "Starred", "UnaryOp")
BINARY = ("BinOp", "BoolOp", "Compare", "Subscript")


@dataclass
class Expression:
    kind: str  # the name of a module
    word: int = 0  # of a leaf
    parts: list[Expression] = field(default_factory=list)


class Binary(nn.Module):
    """A gated sum of two vectors."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.gate = nn.Linear(2 * size, size)
        self.value = nn.Linear(2 * size, size)

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """Return float32[H]."""
        both = torch.cat([left, right])
        return torch.sigmoid(self.gate(both)) * torch.tanh(self.value(both))


class Unary(nn.Module):
    """A residual layer."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return float32[H]."""
        return x + self.layer(x)


class ModuleNetwork(nn.Module):
    """One module for each kind of expression; any other kind is the mean of its parts."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.words = nn.Embedding(1024, size)
        self.unary = nn.ModuleDict({kind: Unary(size) for kind in UNARY})
        self.binary = nn.ModuleDict({kind: Binary(size) for kind in BINARY})

    def forward(self, e: Expression) -> torch.Tensor:
        """Return float32[H]."""
        if not e.parts:
            return self.words(torch.tensor(e.word))
        values = [self.forward(part) for part in e.parts]
        if e.kind in self.unary:
            return self.unary[e.kind](values[0])
        if e.kind in self.binary:
            out = values[0]
            for value in values[1:]:
                out = self.binary[e.kind](out, value)
            return out
        return torch.stack(values).mean(0)


def module(size: str | int = "small", seed: int = 0) -> ModuleNetwork:
    """Return a module with random weights; `size` is a name of `SIZES` or H itself."""
    torch.manual_seed(seed)
    return ModuleNetwork(hidden_size(size, SIZES))


def instances(n: int, seed: int = 0) -> list[Expression]:
    """Return the largest expressions of `n` functions of Python's standard library."""
    return [_largest(f) for f in python_functions(n, seed)]


def _largest(function: ast.AST) -> Expression:
    every = [node for node in ast.walk(function) if isinstance(node, ast.expr)]
    return _expression(max(every, key=lambda node: sum(1 for _ in ast.walk(node)), default=ast.Constant(0)))


def _expression(node: ast.expr) -> Expression:
    parts = [_expression(c) for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr)]
    kind = type(node).__name__
    word = sum(map(ord, ast.dump(node))) % 1024 if not parts else 0
    return Expression(kind=kind, word=word, parts=parts[:1] if kind in UNARY else parts)
