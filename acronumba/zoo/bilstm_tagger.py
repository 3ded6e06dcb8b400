"""Bi-LSTM tagger that spells rare words (Ling et al. 2015; the tagger of DyNet's benchmarks, Neubig et al. 2017).

In: a sentence whose words know how often they occur. Out: for each word, the probabilities of 16 classes. A frequent
word has a vector of its own; the vector of a rare one is read from its letters by two more LSTMs. How frequent a word
is, and how long, differs from word to word, so sentences of one length need different operations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

import numpy as np

from acronumba import model, nn
from acronumba.zoo.cells import LSTM, lstm, lstm_params
from acronumba.zoo.data import Array, function_syntax, hidden_size, normal, python_functions, read_sst_syntax, word_id
from acronumba.zoo.data import words as words_of

SIZES = {"small": 256, "large": 512}  # H
VOCABULARY = 4096  # V
LETTERS = 128  # L
CLASSES = 16  # C
OFTEN = 5  # words with a lower frequency are spelled
SPELLED = 20  # letters of a word at most


@dataclass
class Word:
    id: int  # row of the table of vectors
    frequency: int
    letters: list[int]


@dataclass
class Reader:
    cell: LSTM
    h: np.ndarray  # [H]: state before the first step
    c: np.ndarray  # [H]


@dataclass
class Params:
    embed: np.ndarray  # [V, H]
    letter: np.ndarray  # [L, H / 4]
    spell_forward: Reader  # states of H / 2
    spell_backward: Reader  # states of H / 2
    forward: Reader
    backward: Reader
    w_out: np.ndarray  # [C, 2H]
    b_out: np.ndarray  # [C]


def read(vectors: list[Array], r: Reader) -> list[Array]:
    """Return the state after each step."""
    h, c = r.h, r.c
    states = []
    for x in vectors:
        h, c = lstm(r.cell, x, h, c)
        states.append(h)
    return states


def spell(letters: list[Array], r: Reader) -> Array:
    """Return the state after the last letter, float32[H / 2]."""
    h, c = r.h, r.c
    for x in letters:
        h, c = lstm(r.cell, x, h, c)
    return h


def vector(word: Word, p: Params) -> Array:
    """Return the vector of a word, float32[H]."""
    if word.frequency >= OFTEN:
        return p.embed[word.id]
    letters = [p.letter[x] for x in word.letters]
    return np.concatenate([spell(letters, p.spell_forward), spell(letters[::-1], p.spell_backward)])


@model
def tag(sentence: list[Word], *, p: Params) -> list[Array]:
    """Return the probabilities of the classes for each word, float32[C] each."""
    vectors = [vector(word, p) for word in sentence]
    forward = read(vectors, p.forward)
    backward = read(vectors[::-1], p.backward)
    classes = []
    for f, b in zip(forward, reversed(backward)):  # noqa: B905  # one state per word in both
        classes.append(nn.softmax(p.w_out @ np.concatenate([f, b]) + p.b_out))
    return classes


def params(size: str | int = "small", seed: int = 0, vocabulary: int = VOCABULARY) -> Params:
    """Return random weights; `size` is a name of `SIZES` or H itself, a multiple of 4."""
    h, rng = hidden_size(size, SIZES), np.random.default_rng(seed)

    def reader(h: int, x: int) -> Reader:
        return Reader(cell=lstm_params(rng, h, x), h=normal(rng, h), c=normal(rng, h))

    return Params(
        embed=normal(rng, vocabulary, h),
        letter=normal(rng, LETTERS, h // 4),
        spell_forward=reader(h // 2, h // 4),
        spell_backward=reader(h // 2, h // 4),
        forward=reader(h, h),
        backward=reader(h, h),
        w_out=normal(rng, CLASSES, 2 * h),
        b_out=normal(rng, CLASSES),
    )


def sentences(texts: Sequence[Sequence[str]], vocabulary: int = VOCABULARY) -> list[list[Word]]:
    """Return sentences as words with their frequency in all of them, number and letters."""
    frequency = Counter(word for text in texts for word in text)

    def word(text: str) -> Word:
        letters = [min(ord(x), LETTERS - 1) for x in text[:SPELLED]]
        return Word(id=word_id(text, vocabulary), frequency=frequency[text], letters=letters)

    return [[word(text) for text in texts_] for texts_ in texts]


def instances(n: int, seed: int = 0, vocabulary: int = VOCABULARY) -> list[list[Word]]:
    """Return the names and constants of `n` functions of Python's standard library; frequencies are of those."""
    return sentences([list(words_of(function_syntax(f))) for f in python_functions(n, seed)], vocabulary)


def read_sst(path: str | PathLike[str], vocabulary: int = VOCABULARY) -> list[list[Word]]:
    """Read the sentences of a file of the Stanford Sentiment Treebank; frequencies are those in the file."""
    return sentences([list(words_of(s)) for s in read_sst_syntax(path)], vocabulary)
