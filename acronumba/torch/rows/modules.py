"""Modules: `torch.nn.Module.__call__`, and the `forward` of the classes of `torch.nn`."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from acronumba.torch.implements import implements


@implements(nn.Module.__call__, tensors=True)
def call(self, *args, **kwargs):
    return self.forward(*args, **kwargs)


@implements(nn.Linear.forward, tensors=True)
def linear(self, input):
    return F.linear(input, self.weight, self.bias)


@implements(F.linear)
def linear_of(input, weight, bias=None):
    y = input @ weight.T
    return y if bias is None else y + bias


@implements(nn.Embedding.forward, tensors=True)
def embedding(self, input):
    return F.embedding(input, self.weight)


@implements(F.embedding)
def embedding_of(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    return weight[input]


@implements(torch.tanh, torch.Tensor.tanh)
def tanh(input):
    return np.tanh(input)


@implements(torch.sigmoid, torch.Tensor.sigmoid)
def sigmoid(input):
    return 1 / (1 + np.exp(-input))
