"""A loop in a loop: a GRU over sentences, each read by an RNN (as the hierarchical reader of Lin et al. 2015).

In: a text, a list of sentences of word numbers. Out: the state after the last sentence. Both loops run as often as
the data says: 20 to 40 times in the generated texts, drawn anew for each text and each sentence (the setting of Fegade
et al. 2024).
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from acronumba import model
from acronumba.zoo.cells import GRU, gru, gru_params
from acronumba.zoo.data import Array, hidden_size, normal

SIZES = {"small": 256, "large": 512}  # H
VOCABULARY = 4096  # V
ITERATIONS = (20, 40)  # of either loop


@dataclass
class Params:
    embed: np.ndarray  # [V, H]
    w: np.ndarray  # [H, H]: of the word's vector
    u: np.ndarray  # [H, H]: of the last state
    b: np.ndarray  # [H]
    first: np.ndarray  # [H]: state before the first word
    outer: GRU
    start: np.ndarray  # [H]: state before the first sentence


def sentence(words: list[int], p: Params) -> Array:
    """Return the state after the last word, float32[H]."""
    h = p.first
    for word in words:
        h = np.tanh(p.w @ p.embed[word] + p.b + p.u @ h)
    return h


@model
def encode(text: list[list[int]], *, p: Params) -> Array:
    """Return the state after the last sentence, float32[H]."""
    h = p.start
    for words in text:
        h = gru(p.outer, sentence(words, p), h)
    return h


def params(size: str | int = "small", seed: int = 0, vocabulary: int = VOCABULARY) -> Params:
    """Return random weights; `size` is a name of `SIZES` or H itself."""
    h, rng = hidden_size(size, SIZES), np.random.default_rng(seed)
    return Params(
        embed=normal(rng, vocabulary, h),
        w=normal(rng, h, h),
        u=normal(rng, h, h),
        b=normal(rng, h),
        first=normal(rng, h),
        outer=gru_params(rng, h, h),
        start=normal(rng, h),
    )


def instances(
    n: int, seed: int = 0, vocabulary: int = VOCABULARY, iterations: tuple[int, int] = ITERATIONS
) -> list[list[list[int]]]:
    """Return `n` texts of random words.

    Parameters
    ----------
    n : int
    seed : int
    vocabulary : int
        Words are numbers below it.
    iterations : (int, int)
        The least and the most sentences of a text, and words of a sentence.
    """
    rng = random.Random(seed)

    def sentence() -> list[int]:
        return [rng.randrange(vocabulary) for _ in range(rng.randint(*iterations))]

    return [[sentence() for _ in range(rng.randint(*iterations))] for _ in range(n)]
