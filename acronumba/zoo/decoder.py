"""Transformer decoder that writes a sentence to its end (Radford et al. 2018), with keys and values that it keeps.

In: the first words of a sentence. Out: the words that follow, the last of which ends it, or as many as there is place
for, with their log-probability. All first words go through the layers together; then each new word alone does, and
attends to what the layers have kept of those before it. So a word never sees one behind it, nothing is computed twice,
and the arrays that are kept grow by a row with each word. Which word comes next, and so when the sentence ends, is
computed.

In `generate_emulated` the data says how many words follow; they are still computed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from acronumba import model, nn
from acronumba.zoo import encoder
from acronumba.zoo.data import Array, hidden_size, normal
from acronumba.zoo.encoder import Layer

SIZES = encoder.SIZES  # H
VOCABULARY = 256  # V
FIRST = (1, 24)  # first words of an instance, at least and at most
LENGTH = 32  # words that follow, at most
END = 0  # the word that ends a sentence


@dataclass
class Start:
    words: list[int]  # one at least
    follow: int  # how many words follow, in `generate_emulated`


@dataclass
class Kept:
    keys: Array  # float32[words, H]
    values: Array  # float32[words, H]


@dataclass
class Sentence:
    words: list[Array]  # int64[] each
    score: Array  # float32[]: the logarithm of their probability after the first words


@dataclass
class Params:
    embed: np.ndarray  # [V, H]
    position: np.ndarray  # [T, H]
    layers: list[Layer]
    heads: int
    w_out: np.ndarray  # [V, H]
    b_out: np.ndarray  # [V]


def split(x: Array, heads: int) -> Array:
    """Return float32[heads, words, H / heads] of float32[words, H]."""
    return np.transpose(np.reshape(x, (x.shape[0], heads, x.shape[1] // heads)), (1, 0, 2))


def apply(x: Array, kept: Kept | None, layer: Layer, heads: int) -> tuple[Array, Kept]:
    """Return new words after one layer, and what it keeps of all words up to them.

    The new words are the first ones, each of which sees those up to itself, or one more, which sees all.
    """
    q, now = x @ layer.wq.T, Kept(x @ layer.wk.T, x @ layer.wv.T)
    if kept is None:
        seen = nn.attention(split(q, heads), split(now.keys, heads), split(now.values, heads), causal=True)
    else:
        now = Kept(np.concatenate([kept.keys, now.keys]), np.concatenate([kept.values, now.values]))
        seen = nn.attention(split(q, heads), split(now.keys, heads), split(now.values, heads))
    attended = np.reshape(np.transpose(seen, (1, 0, 2)), x.shape) @ layer.wo.T
    x = nn.layer_norm(x + attended, layer.scale_attention, layer.shift_attention)
    hidden = nn.gelu(x @ layer.w_in.T + layer.b_in)
    x = nn.layer_norm(x + (hidden @ layer.w_out.T + layer.b_out), layer.scale, layer.shift)
    return x, now


def begin(words: list[int], p: Params) -> tuple[list[Array], list[Kept | None]]:
    """Return the vectors of the first words, float32[H] each, and that the layers have kept nothing."""
    return [p.embed[word] + p.position[k] for k, word in enumerate(words)], [None for _ in p.layers]


def following(new: list[Array], kept: list[Kept | None], p: Params) -> tuple[Array, Array, list[Kept | None]]:
    """Return the most probable word after new ones, int64[], its log-probability, and what the layers keep of all."""
    x = nn.layer_norm(np.stack(new))
    longer: list[Kept | None] = []
    for k, layer in enumerate(p.layers):
        x, of_layer = apply(x, kept[k], layer, p.heads)
        longer.append(of_layer)
    scores = nn.log_softmax(p.w_out @ x[-1] + p.b_out)
    word = np.argmax(scores)
    return word, scores[word], longer


@model
def generate(start: Start, *, p: Params) -> Sentence:
    """Return the words that follow."""
    new, kept = begin(start.words, p)
    words: list[Array] = []
    score = np.float32(0)
    while len(words) < LENGTH:
        word, of_word, kept = following(new, kept, p)
        words.append(word)
        score = score + of_word
        if int(word) == END:
            break
        new = [p.embed[word] + p.position[len(start.words) + len(words) - 1]]
    return Sentence(words, score)


@model
def generate_emulated(start: Start, *, p: Params) -> Sentence:
    """Return as many words as the data says."""
    new, kept = begin(start.words, p)
    words: list[Array] = []
    score = np.float32(0)
    while len(words) < start.follow:
        word, of_word, kept = following(new, kept, p)
        words.append(word)
        score = score + of_word
        new = [p.embed[word] + p.position[len(start.words) + len(words) - 1]]
    return Sentence(words, score)


def params(size: str | int = "small", seed: int = 0, layers: int = encoder.LAYERS) -> Params:
    """Return random weights with which sentences get from one more word to as many as fit.

    `size` is a name of `SIZES` or H itself, a multiple of 8.
    """
    h, rng = hidden_size(size, SIZES), np.random.default_rng(seed)
    w_out, b_out = normal(rng, VOCABULARY, h), np.zeros(VOCABULARY, np.float32)
    w_out[END], b_out[END] = 0, 2.25  # few words, and seldom none, are more probable than the end
    return Params(
        embed=normal(rng, VOCABULARY, h),
        position=normal(rng, FIRST[1] + LENGTH, h),
        layers=encoder.params(h, seed, vocabulary=1, layers=layers).layers,
        heads=encoder.HEADS,
        w_out=w_out,
        b_out=b_out,
    )


def instances(n: int, seed: int = 0) -> list[Start]:
    """Return the first words of `n` sentences, each with a number of words for `generate_emulated`."""
    rng = random.Random(seed)

    def words() -> list[int]:
        return [rng.randrange(1, VOCABULARY) for _ in range(rng.randint(*FIRST))]

    return [Start(words(), rng.randint(1, LENGTH)) for _ in range(n)]
