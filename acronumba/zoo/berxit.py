"""BERxiT (Xin, Tang, Yu & Lin 2021): a Transformer that stops as soon as it is sure.

In: a sentence of 128 word numbers. Out: the probabilities of two classes and the number of layers that were used.
After each application of the layer, a head on the first token predicts how certain a classification would be now
("learning to exit"); the loop ends when that is more than a half, and at the latest after seven. All
applications share their weights (as in ALBERT, Lan et al. 2020).

In `classify_emulated` the data says after how many layers to stop.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from acronumba import model, nn
from acronumba.zoo.data import Array, hidden_size, normal

SIZES = {"small": 768, "large": 1024}  # H
HEADS = {768: 12, 1024: 16}  # other sizes: 4
LENGTH = 128  # T
VOCABULARY = 4096  # V
CLASSES = 2  # C
LAYERS = 7  # at most


@dataclass
class Sentence:
    words: list[int]  # T of them, or fewer
    layers: int  # how many, in `classify_emulated`


@dataclass
class Params:
    embed: np.ndarray  # [V, H]
    position: np.ndarray  # [T, H]
    wq: np.ndarray  # [H, H]
    wk: np.ndarray  # [H, H]
    wv: np.ndarray  # [H, H]
    wo: np.ndarray  # [H, H]
    scale_attention: np.ndarray  # [H]: of the layer normalisation after attention
    shift_attention: np.ndarray  # [H]
    w_in: np.ndarray  # [4H, H]
    b_in: np.ndarray  # [4H]
    w_out: np.ndarray  # [H, 4H]
    b_out: np.ndarray  # [H]
    scale: np.ndarray  # [H]: of the layer normalisation after the feed-forward network
    shift: np.ndarray  # [H]
    w_certain: np.ndarray  # [H]
    b_certain: np.ndarray  # []
    w_class: np.ndarray  # [C, H]
    b_class: np.ndarray  # [C]
    heads: int


def embed(words: list[int], p: Params) -> Array:
    """Return the vectors of the tokens, float32[T, H]."""
    x = np.stack([p.embed[word] for word in words])
    return nn.layer_norm(x + p.position[: len(words)])


def layer(x: Array, p: Params) -> Array:
    """Return the tokens after one more layer, float32[T, H] (Vaswani et al. 2017, section 3.1)."""
    attended = nn.multi_head_attention(x, x, p.wq, p.wk, p.wv, p.wo, p.heads)
    x = nn.layer_norm(x + attended, p.scale_attention, p.shift_attention)
    hidden = nn.gelu_tanh(x @ p.w_in.T + p.b_in)
    return nn.layer_norm(x + (hidden @ p.w_out.T + p.b_out), p.scale, p.shift)


@model
def classify(sentence: Sentence, *, p: Params) -> tuple[Array, int]:
    """Return the probabilities of the classes, float32[C], and how many layers were used."""
    x = layer(embed(sentence.words, p), p)
    used = 1
    while used < LAYERS and float(nn.sigmoid(p.w_certain @ x[0] + p.b_certain)) < 0.5:
        x = layer(x, p)
        used += 1
    return nn.softmax(p.w_class @ x[0] + p.b_class), used


@model
def classify_emulated(sentence: Sentence, *, p: Params) -> tuple[Array, Array]:
    """Return the probabilities of the classes, float32[C], and the certainty, float32[], after the layers asked for."""
    x = layer(embed(sentence.words, p), p)
    certain = nn.sigmoid(p.w_certain @ x[0] + p.b_certain)
    for _ in range(sentence.layers - 1):
        x = layer(x, p)
        certain = nn.sigmoid(p.w_certain @ x[0] + p.b_certain)
    return nn.softmax(p.w_class @ x[0] + p.b_class), certain


def params(size: str | int = "small", seed: int = 0, vocabulary: int = VOCABULARY) -> Params:
    """Return random weights with which the common part of all sentences does not decide.

    `size` is a name of `SIZES` or H itself, a multiple of 4; sizes that `HEADS` does not name have 4 heads.
    """
    h, rng = hidden_size(size, SIZES), np.random.default_rng(seed)
    w_out = normal(rng, h, 4 * h)
    one, zero = np.ones(h, np.float32), np.zeros(h, np.float32)
    return Params(
        embed=normal(rng, vocabulary, h),
        position=0.1 * normal(rng, LENGTH, h),
        wq=4 * normal(rng, h, h),  # a token attends to few others
        wk=normal(rng, h, h),
        wv=normal(rng, h, h),
        wo=normal(rng, h, h),
        scale_attention=one,
        shift_attention=zero,
        w_in=normal(rng, 4 * h, h),
        b_in=np.zeros(4 * h, np.float32),
        w_out=w_out - w_out.mean(axis=1, keepdims=True),
        b_out=np.zeros(h, np.float32),
        scale=one,
        shift=zero,
        w_certain=normal(rng, h),
        b_certain=np.array(-0.25, np.float32),
        w_class=normal(rng, CLASSES, h),
        b_class=normal(rng, CLASSES),
        heads=HEADS.get(h, 4),
    )


def instances(n: int, seed: int = 0, vocabulary: int = VOCABULARY, length: int = LENGTH) -> list[Sentence]:
    """Return `n` sentences of `length` random words, each with a number of layers for `classify_emulated`."""
    rng = random.Random(seed)
    return [Sentence([rng.randrange(vocabulary) for _ in range(length)], rng.randint(1, LAYERS)) for _ in range(n)]
