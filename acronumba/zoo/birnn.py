"""Bidirectional RNN (Schuster & Paliwal 1997) with a class for every word.

In: a list of word numbers. Out: for each word, the probabilities of 16 classes. Two loops over the same words, one
forward and one backward, each with its own weights, and a third that puts their states together.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

import numpy as np

from acronumba import model, nn
from acronumba.zoo.data import Array, function_syntax, hidden_size, normal, python_functions, read_sst_syntax, word_id
from acronumba.zoo.data import words as words_of

SIZES = {"small": 256, "large": 512}  # H
VOCABULARY = 4096  # V
CLASSES = 16  # C


@dataclass
class Cell:
    w: np.ndarray  # [H, H]: of the word's vector
    u: np.ndarray  # [H, H]: of the last state
    b: np.ndarray  # [H]
    start: np.ndarray  # [H]


@dataclass
class Params:
    embed: np.ndarray  # [V, H]
    forward: Cell
    backward: Cell
    w_out: np.ndarray  # [C, 2H]
    b_out: np.ndarray  # [C]


def read(vectors: list[Array], cell: Cell) -> list[Array]:
    """Return the state after each word, float32[H] each."""
    h = cell.start
    states = []
    for x in vectors:
        h = np.tanh(cell.w @ x + cell.b + cell.u @ h)
        states.append(h)
    return states


@model
def tag(words: list[int], *, p: Params) -> list[Array]:
    """Return the probabilities of the classes for each word, float32[C] each."""
    vectors = [p.embed[w] for w in words]
    forward = read(vectors, p.forward)
    backward = read(vectors[::-1], p.backward)
    classes = []
    for f, b in zip(forward, reversed(backward)):  # noqa: B905  # one state per word in both
        classes.append(nn.softmax(p.w_out @ np.concatenate([f, b]) + p.b_out))
    return classes


def params(size: str | int = "small", seed: int = 0, vocabulary: int = VOCABULARY) -> Params:
    """Return random weights; `size` is a name of `SIZES` or H itself."""
    h, rng = hidden_size(size, SIZES), np.random.default_rng(seed)

    def cell() -> Cell:
        return Cell(w=normal(rng, h, h), u=normal(rng, h, h), b=normal(rng, h), start=normal(rng, h))

    return Params(
        embed=normal(rng, vocabulary, h),
        forward=cell(),
        backward=cell(),
        w_out=normal(rng, CLASSES, 2 * h),
        b_out=normal(rng, CLASSES),
    )


def instances(n: int, seed: int = 0, vocabulary: int = VOCABULARY) -> list[list[int]]:
    """Return the names and constants of `n` functions of Python's standard library, in order, as word numbers."""
    return [[word_id(w, vocabulary) for w in words_of(function_syntax(f))] for f in python_functions(n, seed)]


def read_sst(path: str | PathLike[str], vocabulary: int = VOCABULARY) -> list[list[int]]:
    """Read the sentences of a file of the Stanford Sentiment Treebank; words get numbers by `word_id`."""
    return [[word_id(w, vocabulary) for w in words_of(s)] for s in read_sst_syntax(path)]
