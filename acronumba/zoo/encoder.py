"""Transformer encoder (Vaswani et al. 2017): layers of attention over sentences of any length, without padding.

In: a list of word numbers. Out: a vector for each word. Every layer normalises after it adds, as in the paper; the
feed-forward network is four times as wide as the words and uses gelu, as in BERT (Devlin et al. 2019). With
`Params.causal` a word sees those before it and itself only.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

import numpy as np

from acronumba import model, nn
from acronumba.zoo import birnn
from acronumba.zoo.data import Array, hidden_size, normal

SIZES = {"small": 256, "large": 512}  # H
VOCABULARY = 4096  # V
LENGTH = 512  # T: places that have a vector
HEADS = 8
LAYERS = 2


@dataclass
class Layer:
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


@dataclass
class Params:
    embed: np.ndarray  # [V, H]
    position: np.ndarray  # [T, H]
    layers: list[Layer]
    heads: int
    causal: bool  # whether a word sees none that follow it


def apply(x: Array, layer: Layer, heads: int, causal: bool) -> Array:
    """Return the words after one layer, float32[words, H] (Vaswani et al. 2017, section 3.1)."""
    attended = nn.multi_head_attention(x, x, layer.wq, layer.wk, layer.wv, layer.wo, heads, causal=causal)
    x = nn.layer_norm(x + attended, layer.scale_attention, layer.shift_attention)
    hidden = nn.gelu(x @ layer.w_in.T + layer.b_in)
    return nn.layer_norm(x + (hidden @ layer.w_out.T + layer.b_out), layer.scale, layer.shift)


@model
def encode(words: list[int], *, p: Params) -> Array:
    """Return a vector for each word, float32[words, H]."""
    x = np.stack([p.embed[word] for word in words])
    x = nn.layer_norm(x + p.position[: len(words)])
    for layer in p.layers:
        x = apply(x, layer, p.heads, p.causal)
    return x


def params(
    size: str | int = "small",
    seed: int = 0,
    vocabulary: int = VOCABULARY,
    layers: int = LAYERS,
    causal: bool = False,  # whether a word sees none that follow it
) -> Params:
    """Return random weights; `size` is a name of `SIZES` or H itself, a multiple of 8."""
    h, rng = hidden_size(size, SIZES), np.random.default_rng(seed)

    def layer() -> Layer:
        return Layer(
            wq=normal(rng, h, h),
            wk=normal(rng, h, h),
            wv=normal(rng, h, h),
            wo=normal(rng, h, h),
            scale_attention=np.ones(h, np.float32),
            shift_attention=np.zeros(h, np.float32),
            w_in=normal(rng, 4 * h, h),
            b_in=np.zeros(4 * h, np.float32),
            w_out=normal(rng, h, 4 * h),
            b_out=np.zeros(h, np.float32),
            scale=np.ones(h, np.float32),
            shift=np.zeros(h, np.float32),
        )

    embed, position = normal(rng, vocabulary, h), normal(rng, LENGTH, h)
    return Params(embed, position, [layer() for _ in range(layers)], HEADS, causal)


def instances(n: int, seed: int = 0, vocabulary: int = VOCABULARY) -> list[list[int]]:
    """Return `n` sentences of 4 to 64 words, those of `birnn.instances`."""
    return birnn.instances(n, seed, vocabulary)


def read_sst(path: str | PathLike[str], vocabulary: int = VOCABULARY) -> list[list[int]]:
    """Read the sentences of a file of the Stanford Sentiment Treebank; words get numbers by `word_id`."""
    return birnn.read_sst(path, vocabulary)
