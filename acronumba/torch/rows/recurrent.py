"""Recurrent modules: the cells, and `RNN`, `LSTM` and `GRU` over sequences, with layers and in both directions."""

from __future__ import annotations

import numpy as np
from torch import nn
from torch.nn import functional as F

from acronumba.frontend.library.decorators import rejected
from acronumba.nn import relu, sigmoid
from acronumba.torch.implements import array, arrays, implements, is_tensor, tensor
from acronumba.torch.primitives import each, is_same, lacks, of_one_dtype, refused

# ---- cells


@implements(nn.LSTMCell.forward, tensors=True)
def lstm_cell(self, input, hx=None):
    x = _row(input)
    if hx is None:
        h = c = np.zeros((*x.shape[:-1], self.hidden_size), x.dtype)
    else:
        h, c = _checked(array(hx[0]), x, self.hidden_size), _checked(array(hx[1]), x, self.hidden_size)
    h, c = _lstm_step(_product(x, self.weight_ih, self.bias_ih), h, c, self.weight_hh, self.bias_hh)
    return tensor(h), tensor(c)


@implements(nn.GRUCell.forward, tensors=True)
def gru_cell(self, input, hx=None):
    x = _row(input)
    _check_alone(hx)
    h = np.zeros((*x.shape[:-1], self.hidden_size), x.dtype) if hx is None else _checked(array(hx), x, self.hidden_size)
    return tensor(_gru_step(_product(x, self.weight_ih, self.bias_ih), h, self.weight_hh, self.bias_hh))


@implements(nn.RNNCell.forward, tensors=True)
def rnn_cell(self, input, hx=None):
    x = _row(input)
    _check_alone(hx)
    h = np.zeros((*x.shape[:-1], self.hidden_size), x.dtype) if hx is None else _checked(array(hx), x, self.hidden_size)
    z = _product(x, self.weight_ih, self.bias_ih) + _product(h, self.weight_hh, self.bias_hh)
    return tensor(np.tanh(z) if self.nonlinearity == "tanh" else relu(z))


def _row(input):
    """Return the input of a cell as an array."""
    if input.ndim != 1 and input.ndim != 2:
        refused("the input of a cell with neither 1 nor 2 axes", "a row: x[k]")
    return array(input)


def _check_alone(hx):
    """Let the instance fail if the state of a cell with one is a tuple, as that of an LSTM."""
    if isinstance(hx, tuple | list):
        lacks(hx, "dim", "the state of a cell that has one tensor", "h in place of (h, c)")


def _product(x, weight, bias):
    of_one_dtype(x, weight, bias)
    y = x @ array(weight).T
    return y if bias is None else y + array(bias)


def _checked(h, x, size):
    """Return the state of a cell, or of a sequence, if it has a row for each row of the input."""
    of_one_dtype(h, x)
    if h.shape != (*x.shape[:-1], size):
        raise RuntimeError("the shape of the hidden state does not fit the input")
    return h


def _lstm_step(z, h, c, weight, bias):
    i, f, g, o = np.split(z + _product(h, weight, bias), 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def _gru_step(z, h, weight, bias):
    xr, xz, xn = np.split(z, 3, axis=-1)
    hr, hz, hn = np.split(_product(h, weight, bias), 3, axis=-1)
    update = sigmoid(xz + hz)
    n = np.tanh(xn + sigmoid(xr + hr) * hn)
    return n + update * (h - n)


# ---- sequences


@implements(nn.LSTM.forward, tensors=True)
def lstm(self, input, hx=None):
    xs, batched = _steps(self, input)
    sides = 2 if self.bidirectional else 1
    hs, cs = [], []
    for layer in each(self.num_layers):
        outs = []
        for side in each(sides):
            k = layer * sides + side
            if hx is None:
                h = np.zeros((*xs.shape[1:-1], self.proj_size or self.hidden_size), xs.dtype)
                c = np.zeros((*xs.shape[1:-1], self.hidden_size), xs.dtype)
            else:
                h = _state(xs, hx[0], k, self.num_layers * sides, self.proj_size or self.hidden_size)
                c = _state(xs, hx[1], k, self.num_layers * sides, self.hidden_size)
            ys, h, c = _lstm_over(self, xs, h, c, f"_l{layer}_reverse" if side else f"_l{layer}", side)
            outs.append(ys)
            hs.append(h)
            cs.append(c)
        xs = _next_layer(self, outs, layer)
    return _whole(self, xs, batched), (tensor(np.stack(hs)), tensor(np.stack(cs)))


def _lstm_over(self, xs, h, c, name, backward):
    weight = getattr(self, "weight_hh" + name)
    bias = getattr(self, "bias_hh" + name) if self.bias else None
    zs = _products(self, xs, name)
    outs = []
    for t in range(len(xs)):
        h, c = _lstm_step(zs[len(xs) - 1 - t if backward else t], h, c, weight, bias)
        if self.proj_size > 0:
            h = h @ array(getattr(self, "weight_hr" + name)).T
        outs.append(h)
    return _over_time(xs, outs, h, backward), h, c


@implements(nn.GRU.forward, tensors=True)
def gru(self, input, hx=None):
    return _layers(self, input, hx, _gru_over)


@implements(nn.RNN.forward, tensors=True)
def rnn(self, input, hx=None):
    return _layers(self, input, hx, _rnn_over)


def _layers(self, input, hx, over):
    """Return the outputs and last states of layers with one state; `over` computes one layer in one direction."""
    _check_alone(hx)
    xs, batched = _steps(self, input)
    sides = 2 if self.bidirectional else 1
    hs = []
    for layer in each(self.num_layers):
        outs = []
        for side in each(sides):
            h = _initial(self, xs, hx, layer * sides + side)
            ys, h = over(self, xs, h, f"_l{layer}_reverse" if side else f"_l{layer}", side)
            outs.append(ys)
            hs.append(h)
        xs = _next_layer(self, outs, layer)
    return _whole(self, xs, batched), tensor(np.stack(hs))


def _gru_over(self, xs, h, name, backward):
    weight = getattr(self, "weight_hh" + name)
    bias = getattr(self, "bias_hh" + name) if self.bias else None
    zs = _products(self, xs, name)
    outs = []
    for t in range(len(xs)):
        h = _gru_step(zs[len(xs) - 1 - t if backward else t], h, weight, bias)
        outs.append(h)
    return _over_time(xs, outs, h, backward), h


def _rnn_over(self, xs, h, name, backward):
    weight = getattr(self, "weight_hh" + name)
    bias = getattr(self, "bias_hh" + name) if self.bias else None
    zs = _products(self, xs, name)
    outs = []
    for t in range(len(xs)):
        z = zs[len(xs) - 1 - t if backward else t] + _product(h, weight, bias)
        h = np.tanh(z) if self.nonlinearity == "tanh" else relu(z)
        outs.append(h)
    return _over_time(xs, outs, h, backward), h


def _over_time(xs, outs, last, backward):
    """Return the outputs of all steps; those of a sequence of one step keep the known size of 1."""
    if is_same(len(xs), 1):
        return np.expand_dims(last, 0)
    return np.stack(outs[::-1] if backward else outs)


def _steps(self, input):
    """Return the steps of a sequence along axis 0, and whether it has a batch axis."""
    if not is_tensor(input):
        rejected("a packed sequence", "pass the sequence of one instance itself: its length is that of the tensor")
    xs = array(input)
    if xs.ndim != 2 and xs.ndim != 3:
        refused("a sequence with neither 2 nor 3 axes", "a tensor of shape [T, size], or [T, batch, size]")
    batched = xs.ndim == 3
    if batched and self.batch_first:
        xs = np.swapaxes(xs, 0, 1)
    if xs.shape[0] == 0:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    return xs, batched


def _initial(self, xs, hx, k):
    if hx is None:
        return np.zeros((*xs.shape[1:-1], self.hidden_size), xs.dtype)
    return _state(xs, hx, k, self.num_layers * (2 if self.bidirectional else 1), self.hidden_size)


def _state(xs, hx, k, count, size):
    """Return initial state `k` of `count` that are given."""
    given = array(hx)
    if given.ndim != xs.ndim:
        refused("a hidden state and an input of which one has a batch axis", "h.unsqueeze(1), or x.unsqueeze(1)")
    if given.shape[0] != count:
        raise RuntimeError("there is not one hidden state for each layer and direction")
    return _checked(given[k], xs[0], size)


def _products(self, xs, name):
    return _product(xs, getattr(self, "weight_ih" + name), getattr(self, "bias_ih" + name) if self.bias else None)


def _next_layer(self, outs, layer):
    xs = np.concatenate(outs, axis=-1) if self.bidirectional else outs[0]
    if self.training and self.dropout > 0 and layer < self.num_layers - 1:
        xs = array(F.dropout(tensor(xs), self.dropout, True))
    return xs


def _whole(self, xs, batched):
    return tensor(np.swapaxes(xs, 0, 1) if batched and self.batch_first else xs)


@implements(nn.utils.rnn.pad_sequence)
def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    rows = arrays(sequences)
    count = max([len(x) for x in rows])
    padded = []
    for x in rows:
        rest = np.full((count - len(x), *x.shape[1:]), padding_value, x.dtype)
        padded.append(np.concatenate([rest, x] if padding_side == "left" else [x, rest]))
    return np.stack(padded, axis=0 if batch_first else 1)
