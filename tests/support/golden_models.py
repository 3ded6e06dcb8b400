"""Models whose stages are kept as expected texts: a recursion, a loop over a list, a branch on a union. Their lines are
in the texts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from acronumba import model, nn


@dataclass
class Tree:
    word: int = -1
    left: Tree | None = None
    right: Tree | None = None


@dataclass
class Params:
    embed: np.ndarray
    w: np.ndarray
    b: np.ndarray


def encode(t: Tree, p: Params) -> np.ndarray:
    if t.left is None:
        return p.embed[t.word]
    left = encode(t.left, p)
    right = encode(t.right, p)
    return np.tanh(p.w @ np.concatenate([left, right]) + p.b)


@model
def tree_rnn(t: Tree, *, p: Params) -> np.ndarray:
    return nn.softmax(encode(t, p))


@model
def sentence(words: list[int], *, p: Params) -> tuple[np.ndarray, list[np.ndarray]]:
    h = np.zeros_like(p.b)
    states = []
    for word in words:
        h = np.tanh(p.w @ np.concatenate([p.embed[word], h]))
        states.append(h)
    return h, states


@dataclass
class Square:
    side: float


@dataclass
class Circle:
    radius: float


@model
def area(shape: Square | Circle) -> float:
    match shape:
        case Square(side):
            return side * side
        case Circle(radius=r):
            return 3.14 * r**2


def params(size: int = 24) -> Params:
    rng = np.random.default_rng(0)
    draw = [rng.standard_normal(shape).astype(np.float32) for shape in ((9, size), (size, 2 * size), (size,))]
    return Params(*draw)


CASES = {
    "tree_rnn": (tree_rnn, [Tree(-1, Tree(1), Tree(-1, Tree(2), Tree(3))), Tree(4)], True),
    "sentence": (sentence, [[1, 2, 3], [4]], True),
    "area": (area, [Square(2.0), Circle(1.5)], False),
}
