"""LSTM decoder with beam search (Sutskever, Vinyals & Le 2014): the four best beginnings of a sentence go on.

In: the number of a start vector. Out: up to four sentences with their log-probabilities, the best first. Each round
extends every beginning that has not ended by its four most probable words and keeps the best four of all; the search
ends when all have ended, or at the greatest length. Which beginnings survive and when they end is computed.

In `decode_emulated` the data says which to keep and which of them end; their words are still computed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from acronumba import model, nn
from acronumba.zoo.cells import LSTM, lstm, lstm_params
from acronumba.zoo.data import Array, hidden_size, normal, vectors

SIZES = {"small": 256, "large": 512}  # H
STARTS = 1024  # S
VOCABULARY = 64  # V
BEAM = 4
LENGTH = 20  # at most
END = 0  # the word that ends a sentence


@dataclass
class Choice:
    candidate: int
    ends: bool


@dataclass
class Start:
    vector: int  # row of the table of start vectors
    rounds: list[list[Choice]]  # the hypotheses that survive each round, in `decode_emulated`


@dataclass
class Hypothesis:
    words: list[Array]  # int64[] each
    score: Array  # float32[]: the logarithm of its probability
    x: Array  # float32[H]: vector of the last word
    h: Array  # float32[H]
    c: Array  # float32[H]
    ended: bool


@dataclass
class Sentence:
    words: list[Array]  # int64[] each
    score: Array  # float32[]


@dataclass
class Params:
    cell: LSTM
    start: np.ndarray  # [S, H]
    embed: np.ndarray  # [V, H]
    begin: np.ndarray  # [H]: vector of the word before the first
    w_out: np.ndarray  # [V, H]
    b_out: np.ndarray  # [V]


def extended(hypothesis: Hypothesis, p: Params) -> list[Hypothesis]:
    """Return a hypothesis with each of its four most probable next words."""
    h, c = lstm(p.cell, hypothesis.x, hypothesis.h, hypothesis.c)
    scores = nn.log_softmax(p.w_out @ h + p.b_out) + hypothesis.score
    longer = []
    for _ in range(BEAM):
        word = np.argmax(scores)
        longer.append(Hypothesis(hypothesis.words + [word], scores[word], p.embed[word], h, c, False))  # noqa: RUF005
        scores = np.where(np.arange(VOCABULARY) == word, -np.inf, scores)
    return longer


def candidates(beam: list[Hypothesis], p: Params) -> list[Hypothesis]:
    """Return all hypotheses of the next round: those that have ended, and the others with a word more."""
    found = []
    for hypothesis in beam:
        if hypothesis.ended:
            found.append(hypothesis)
        else:
            found.extend(extended(hypothesis, p))
    return found


@model
def decode(start: Start, *, p: Params) -> list[Sentence]:
    """Return the sentences found, the best first."""
    s = p.start[start.vector]
    beam = [Hypothesis([], np.float32(0), p.begin, s, s, False)]
    length = 0
    while length < LENGTH and any(not hypothesis.ended for hypothesis in beam):
        best = sorted(candidates(beam, p), key=lambda hypothesis: -hypothesis.score)
        beam = []
        for b in best[:BEAM]:
            beam.append(Hypothesis(b.words, b.score, b.x, b.h, b.c, b.ended or int(b.words[-1]) == END))
        length += 1
    return [Sentence(hypothesis.words, hypothesis.score) for hypothesis in beam]


@model
def decode_emulated(start: Start, *, p: Params) -> list[Sentence]:
    """Return the sentences that the data chooses."""
    s = p.start[start.vector]
    beam = [Hypothesis([], np.float32(0), p.begin, s, s, False)]
    for choices in start.rounds:
        found = candidates(beam, p)
        beam = []
        for choice in choices:
            b = found[choice.candidate]
            beam.append(Hypothesis(b.words, b.score, b.x, b.h, b.c, choice.ends))
    return [Sentence(hypothesis.words, hypothesis.score) for hypothesis in beam]


def params(size: str | int = "small", seed: int = 0) -> Params:
    """Return random weights with which sentences have from two to twenty words.

    `size` is a name of `SIZES` or H itself.
    """
    h, rng = hidden_size(size, SIZES), np.random.default_rng(seed)
    w_out, b_out = 8 * normal(rng, VOCABULARY, h), np.zeros(VOCABULARY, np.float32)
    w_out[END], b_out[END] = 0, 3.25  # the end is often among the four best words, and seldom the best
    return Params(
        cell=lstm_params(rng, h, h),
        start=vectors(rng, STARTS, h),
        embed=vectors(rng, VOCABULARY, h),
        begin=vectors(rng, h),
        w_out=w_out,
        b_out=b_out,
    )


def instances(n: int, seed: int = 0) -> list[Start]:
    """Return `n` start vectors, each with choices for `decode_emulated`; one hypothesis in eight ends in a round."""
    rng = random.Random(seed)

    def rounds() -> list[list[Choice]]:
        ended = [False]
        found: list[list[Choice]] = []
        while len(found) < LENGTH and not all(ended):
            last = [e for e in ended for _ in range(1 if e else BEAM)]  # whether each candidate had ended before
            chosen = sorted(rng.sample(range(len(last)), min(BEAM, len(last))))
            found.append([Choice(k, last[k] or rng.random() < 0.125) for k in chosen])
            ended = [choice.ends for choice in found[-1]]
        return found

    return [Start(rng.randrange(STARTS), rounds()) for _ in range(n)]
