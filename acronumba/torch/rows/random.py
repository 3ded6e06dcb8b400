"""Dropout and random numbers: draw `n` of an instance is made from child `n` of its key."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from acronumba import random
from acronumba.frontend.draws import draws
from acronumba.frontend.library.decorators import rejected
from acronumba.torch.implements import array, implements, numpy_dtype, tensor
from acronumba.torch.primitives import sizes
from acronumba.torch.random_numbers import in_plain_calls

T = torch.Tensor

# ---- draws: these functions run in plain calls, too


def next_key():
    """Return the key of the next draw of the instance."""
    mine = draws()
    mine.count += 1
    return random.Key(mine.bits).child(mine.count)


def kept(shape, p):
    """Return where dropout keeps elements: each with probability 1 - p."""
    return random.uniform(next_key(), shape) >= p


def uniform(shape, dtype):
    return random.uniform(next_key(), shape, dtype)


def normal(shape, dtype):
    return random.normal(next_key(), shape, dtype)


def integers(low, high, shape):
    return random.integers(next_key(), low, high, shape)


def happens(p):
    """Return where an event of probability `p` happens."""
    return random.bernoulli(next_key(), p)


def gumbel(shape, dtype):
    return random.gumbel(next_key(), shape, dtype)


def chosen(weights, count, again):
    """Return the indices of chosen items, by their weights along the last axis; `again`: an item may be chosen twice.

    Of exponential clocks, at the rates of the weights, those that ring first.
    """
    n = weights.shape[-1]
    times = (count, n) if again else (n,)
    clocks = np.exp(-random.gumbel(next_key(), (*weights.shape[:-1], *times), np.float64))
    rates = weights.astype(np.float64)
    if again:
        return np.argmax(np.expand_dims(rates, -2) / clocks, axis=-1)
    return np.argsort(-(rates / clocks), axis=-1, kind="stable")[..., :count]


# ---- rows, which run in plain calls, too


def of_random(*functions):
    """Register the decorated function as the code of functions of PyTorch, in models and in plain calls."""

    def register(f):
        implements(*functions, tensors=True)(f)
        return in_plain_calls(*functions)(f)

    return register


def _dropped(input, mask, p):
    return torch.zeros_like(input) if p == 1 else torch.where(tensor(mask), input / (1 - p), 0.0)


@of_random(F.dropout, torch.dropout)
def dropout_of(input, p=0.5, training=True, inplace=False, train=True):
    if not training or not train or p == 0:
        return input
    if inplace:
        input[...] = _dropped(input, kept(tuple(input.shape), p), p)
        return input
    return _dropped(input, kept(tuple(input.shape), p), p)


def _of_channels(input, p, training, inplace, axes):
    """Drop whole channels, which are along the last of the first `axes` axes."""
    if not training or p == 0:
        return input
    if inplace:
        rejected("dropout of channels in place", "inplace=False")
    return _dropped(input, kept((*input.shape[:axes], *(1,) * (input.ndim - axes)), p), p)


@of_random(F.dropout1d)
def dropout1d_of(input, p=0.5, training=True, inplace=False):
    return _of_channels(input, p, training, inplace, 1 if input.ndim == 2 else 2)


@of_random(F.dropout2d)
def dropout2d_of(input, p=0.5, training=True, inplace=False):
    return _of_channels(input, p, training, inplace, 2)


@of_random(F.dropout3d)
def dropout3d_of(input, p=0.5, training=True, inplace=False):
    return _of_channels(input, p, training, inplace, 1 if input.ndim == 4 else 2)


@of_random(F.alpha_dropout)
def alpha_dropout_of(input, p=0.5, training=False, inplace=False):
    if not training or p == 0:
        return input
    if inplace:
        rejected("alpha dropout in place", "inplace=False")
    low = -1.7580993408473766
    scale = 1 / ((1 - p) * (1 + p * low * low)) ** 0.5
    return torch.where(tensor(kept(tuple(input.shape), p)), input, low) * scale - scale * low * p


@of_random(F.rrelu, torch.rrelu)
def rrelu_of(input, lower=0.125, upper=1 / 3, training=False, inplace=False):
    if inplace:
        rejected("rrelu in place", "inplace=False")
    if not training:
        return torch.where(input >= 0, input, input * ((lower + upper) / 2))
    slope = tensor(uniform(tuple(input.shape), np.float32)) * (upper - lower) + lower
    return torch.where(input >= 0, input, input * slope)


@of_random(F.gumbel_softmax)
def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    noise = tensor(gumbel(tuple(logits.shape), numpy_dtype(logits.dtype)))
    soft = torch.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    chosen = torch.zeros_like(logits).scatter(dim, soft.argmax(dim, keepdim=True), 1.0)
    return chosen - soft.detach() + soft


# ---- modules


@implements(nn.Dropout.forward, tensors=True)
def dropout(self, input):
    return F.dropout(input, self.p, self.training, self.inplace)


@implements(nn.Dropout1d.forward, tensors=True)
def dropout1d(self, input):
    return F.dropout1d(input, self.p, self.training, self.inplace)


@implements(nn.Dropout2d.forward, tensors=True)
def dropout2d(self, input):
    return F.dropout2d(input, self.p, self.training, self.inplace)


@implements(nn.Dropout3d.forward, tensors=True)
def dropout3d(self, input):
    return F.dropout3d(input, self.p, self.training, self.inplace)


@implements(nn.AlphaDropout.forward, tensors=True)
def alpha_dropout(self, input):
    return F.alpha_dropout(input, self.p, self.training)


# ---- numbers


def _unkeyed(generator):
    if generator is not None:
        rejected("a generator of random numbers", "leave it out: each instance has a key, drawn from the default one")


def _float(dtype):
    return np.float32 if dtype is None else numpy_dtype(dtype)


@of_random(torch.rand)
def rand(
    *shape, size=None, generator=None, out=None, dtype=None, layout=None, device=None, requires_grad=False,
    pin_memory=False
):  # fmt: skip
    _unkeyed(generator)
    return tensor(uniform(sizes(shape) if size is None else tuple(size), _float(dtype)))


@of_random(torch.randn)
def randn(
    *shape, size=None, generator=None, out=None, dtype=None, layout=None, device=None, requires_grad=False,
    pin_memory=False
):  # fmt: skip
    _unkeyed(generator)
    return tensor(normal(sizes(shape) if size is None else tuple(size), _float(dtype)))


@of_random(torch.rand_like)
def rand_like(input, *, dtype=None, layout=None, device=None, requires_grad=False, memory_format=None):
    return tensor(uniform(tuple(input.shape), numpy_dtype(input.dtype if dtype is None else dtype)))


@of_random(torch.randn_like)
def randn_like(input, *, dtype=None, layout=None, device=None, requires_grad=False, memory_format=None):
    return tensor(normal(tuple(input.shape), numpy_dtype(input.dtype if dtype is None else dtype)))


@of_random(torch.randint)
def randint(
    *bounds, low=0, high=None, size=None, generator=None, out=None, dtype=None, layout=None, device=None,
    requires_grad=False
):  # fmt: skip
    _unkeyed(generator)
    shape = bounds[-1] if size is None else size
    ends = bounds[:-1] if size is None else bounds
    least = ends[0] if len(ends) == 2 else low
    most = ends[-1] if high is None else high
    x = tensor(integers(int(least), int(most), tuple(shape)))
    return x if dtype is None else x.to(dtype)


@of_random(torch.randperm)
def randperm(n, *, generator=None, out=None, dtype=torch.int64, layout=None, device=None, requires_grad=False):
    _unkeyed(generator)
    return tensor(np.argsort(uniform((int(n),), np.float64), kind="stable")).to(dtype)


@of_random(torch.normal)
def normal_of(mean=0.0, std=1.0, size=None, *, generator=None, out=None, dtype=None):
    _unkeyed(generator)
    if size is not None:
        return tensor(normal(tuple(size), _float(dtype))) * std + mean
    like = mean + std * 1.0
    return tensor(normal(tuple(like.shape), numpy_dtype(like.dtype))) * std + mean


@of_random(torch.bernoulli, T.bernoulli)
def bernoulli(input, p=None, *, generator=None, out=None):
    _unkeyed(generator)
    if p is None:
        return tensor(happens(array(input))).to(input.dtype)
    chance = array(torch.full_like(input, p, dtype=torch.float64) if isinstance(p, float | int) else p.expand_as(input))
    return tensor(happens(chance)).to(input.dtype)


@of_random(torch.multinomial, T.multinomial)
def multinomial(input, num_samples, replacement=False, *, generator=None, out=None):
    _unkeyed(generator)
    return tensor(chosen(array(input), int(num_samples), replacement))


@of_random(T.bernoulli_)
def bernoulli_(input, p=0.5, *, generator=None):
    input[...] = bernoulli(input, p, generator=generator)
    return input


@of_random(T.normal_)
def normal_(input, mean=0.0, std=1.0, *, generator=None):
    _unkeyed(generator)
    input[...] = randn_like(input) * std + mean
    return input


@of_random(T.uniform_)
def uniform_(input, low=0.0, high=1.0, *, generator=None):
    _unkeyed(generator)
    input[...] = rand_like(input) * (high - low) + low
    return input


# ---- recurrent modules in plain calls: their layers one by one, with dropout between them


def _by_layers(function):
    def plain(input, hx, weights, bias, layers, dropout, training, bidirectional, batch_first=False):
        if not training or dropout == 0 or layers == 1:
            return function(input, hx, weights, bias, layers, dropout, training, bidirectional, batch_first)
        sides, several = 1 + bidirectional, isinstance(hx, tuple | list)
        count = len(weights) // layers
        lasts = []
        for layer in range(layers):
            own = [h[layer * sides : (layer + 1) * sides] for h in (hx if several else (hx,))]
            mine = weights[layer * count : (layer + 1) * count]
            input, *last = function(
                input, own if several else own[0], mine, bias, 1, 0.0, training, bidirectional, batch_first
            )
            lasts.append(last)
            if layer < layers - 1:
                steps = dropout_of(input.transpose(0, 1) if batch_first else input, dropout, True)
                input = steps.transpose(0, 1) if batch_first else steps
        return input, *(torch.cat(h) for h in zip(*lasts, strict=True))

    return plain


for _function in (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu):
    in_plain_calls(_function)(_by_layers(_function))
