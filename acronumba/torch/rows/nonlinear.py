"""Activations: `relu` and its relatives, `softmax`."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

from acronumba import nn
from acronumba.torch.implements import implements, numpy_dtype, promoted


@implements(torch.relu, torch.Tensor.relu, asks=True)
def relu(input):
    return np.where(input <= 0, input.dtype.type(0), input)


@implements(F.relu, asks=True)
def relu_of(input, inplace=False):
    return relu(input)


@implements(F.relu6, asks=True)
def relu6(input, inplace=False):
    return np.where(input <= 0, input.dtype.type(0), np.where(input >= 6, input.dtype.type(6), input))


@implements(F.leaky_relu, asks=True)
def leaky_relu(input, negative_slope=0.01, inplace=False):
    return np.where(input > 0, input, input * negative_slope)


@implements(F.prelu, torch.prelu, torch.Tensor.prelu, asks=True)
def prelu(input, weight):
    slope = weight if weight.ndim == 0 or weight.shape[0] == 1 or input.ndim < 3 else along(weight, input.ndim - 2)
    return np.where(input > 0, input, input * slope)


def along(weight, after):
    """Return weights of the second axis, followed by axes of extent 1."""
    return weight.reshape(weight.shape + (1,) * after)


@implements(F.elu, asks=True)
def elu(input, alpha=1.0, inplace=False):
    return np.where(input > 0, input, alpha * np.expm1(np.where(input > 0, input.dtype.type(0), input)))


@implements(F.selu, torch.selu, asks=True)
def selu(input, inplace=False):
    return 1.0507009873554804934193349852946 * elu(input, 1.6732632423543772848170429916717)


@implements(F.celu, torch.celu, asks=True)
def celu(input, alpha=1.0, inplace=False):
    return np.where(input > 0, input, alpha * np.expm1(np.where(input > 0, input.dtype.type(0), input) / alpha))


@implements(F.gelu, asks=True)
def gelu(input, *, approximate="none"):
    if approximate == "tanh":
        return 0.5 * input * (1 + np.tanh(0.7978845608028654 * (input + 0.044715 * input * input * input)))
    return 0.5 * input * (1 + nn.erf(input * 0.7071067811865476))


@implements(F.silu, asks=True)
def silu(input, inplace=False):
    return input * nn.sigmoid(input)


@implements(F.mish, asks=True)
def mish(input, inplace=False):
    return input * np.tanh(softplus(input))


@implements(F.softplus, asks=True)
def softplus(input, beta=1, threshold=20):
    scaled = input * beta
    low = np.where(scaled > threshold, input.dtype.type(0), scaled)
    return np.where(scaled > threshold, input, np.log1p(np.exp(low)) / beta)


@implements(F.softsign, asks=True)
def softsign(input):
    (x,) = promoted(input, floats=True)
    return x / (1 + np.abs(x))


@implements(F.tanhshrink, asks=True)
def tanhshrink(input):
    (x,) = promoted(input, floats=True)
    return x - np.tanh(x)


@implements(F.softshrink, asks=True)
def softshrink(input, lambd=0.5):
    inside = np.where(np.isnan(input), input, input.dtype.type(0))
    return np.where(input > lambd, input - lambd, np.where(input < -lambd, input + lambd, inside))


@implements(F.hardshrink, torch.hardshrink, torch.Tensor.hardshrink, asks=True)
def hardshrink(input, lambd=0.5):
    return np.where((input >= -lambd) & (input <= lambd), input.dtype.type(0), input)


@implements(F.threshold, torch.threshold, asks=True)
def threshold_of(input, threshold, value, inplace=False):
    return np.where(input <= threshold, input.dtype.type(value), input)


@implements(F.hardtanh, asks=True)
def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    low, high = input.dtype.type(min_val), input.dtype.type(max_val)
    return np.where(input <= low, low, np.where(input >= high, high, input))


@implements(F.hardsigmoid, asks=True)
def hardsigmoid(input, inplace=False):
    zero, one = input.dtype.type(0), input.dtype.type(1)
    return np.where(input <= -3, zero, np.where(input >= 3, one, (input + 3) / 6))


@implements(F.hardswish, asks=True)
def hardswish(input, inplace=False):
    return np.where(input <= -3, input * 0, np.where(input >= 3, input, input * (input + 3) / 6))


@implements(F.logsigmoid, asks=True)
def logsigmoid(input):
    return nn.log_sigmoid(input)


@implements(F.glu, asks=True)
def glu(input, dim=-1):
    x, gate = np.split(input, 2, axis=dim)
    return x * nn.sigmoid(gate)


# ---- distributions over an axis


def axis_of(x, dim):
    """Return the axis that PyTorch takes where `dim` is None."""
    return (0 if x.ndim in (0, 1, 3) else 1) if dim is None else dim


@implements(torch.softmax, torch.Tensor.softmax, asks=True)
def softmax(input, dim, dtype=None):
    x = input if dtype is None else input.astype(numpy_dtype(dtype))
    return nn.softmax(x, axis_of(x, dim)) if x.ndim else np.exp(x - x)


@implements(F.softmax, asks=True)
def softmax_of(input, dim=None, _stacklevel=3, dtype=None):
    return softmax(input, dim, dtype)


@implements(F.softmin, asks=True)
def softmin(input, dim=None, _stacklevel=3, dtype=None):
    return softmax(-input, dim, dtype)


@implements(torch.log_softmax, torch.Tensor.log_softmax, asks=True)
def log_softmax(input, dim, dtype=None):
    x = input if dtype is None else input.astype(numpy_dtype(dtype))
    return nn.log_softmax(x, axis_of(x, dim)) if x.ndim else x - x


@implements(F.log_softmax, asks=True)
def log_softmax_of(input, dim=None, _stacklevel=3, dtype=None):
    return log_softmax(input, dim, dtype)
