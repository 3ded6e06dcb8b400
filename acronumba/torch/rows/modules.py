"""Modules: `torch.nn.Module.__call__`, containers, and the `forward` of layers without windows and without a state."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.kinds.objects import SharedVal
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.library.decorators import primitive, rejected
from acronumba.frontend.walker import Walker
from acronumba.nn import stop_gradient
from acronumba.torch.implements import implements
from acronumba.torch.library import modules_in
from acronumba.torch.primitives import each, number_in, of_one_dtype, refused


@implements(nn.Module.__call__, tensors=True)
def call(self, *args, **kwargs):
    return self.forward(*args, **kwargs)


# ---- containers


def _modules(w: Walker, a: Args) -> Val:
    module = a["module"]
    if not isinstance(module, SharedVal):
        raise w.reject("ACR202", seen=f"the modules of {w.describe(module)}", rewrite="a module made outside")
    return w.shared_value(modules_in(module.node))


@primitive(rule=_modules, rank0="any", whole=True)
def modules_of(module):
    """Return the submodules of a module as a list."""
    raise NotImplementedError(module)


@implements(nn.Sequential.forward, tensors=True)
def sequential(self, input):
    for module in modules_of(self):
        input = module(input)
    return input


@implements(nn.Sequential.__iter__, nn.ModuleList.__iter__, tensors=True)
def modules_in_turn(self):
    return modules_of(self)


@implements(nn.Sequential.__len__, nn.ModuleList.__len__, tensors=True)
def count_of_modules(self):
    return len(modules_of(self))


@implements(nn.Sequential.__getitem__, nn.ModuleList.__getitem__, tensors=True)
def module_at(self, idx):
    return modules_of(self)[idx]


# ---- linear layers and tables


@implements(nn.Linear.forward, tensors=True)
def linear(self, input):
    return F.linear(input, self.weight, self.bias)


@implements(F.linear, asks=True)
def linear_of(input, weight, bias=None):
    y = input @ weight.T
    return y if bias is None else y + bias


@implements(nn.Bilinear.forward, tensors=True)
def bilinear(self, input1, input2):
    return F.bilinear(input1, input2, self.weight, self.bias)


@implements(F.bilinear, torch.bilinear, asks=True)
def bilinear_of(input1, input2, weight, bias=None):
    inner = np.tensordot(input1, weight, ((-1,), (1,)))  # [..., M, N2]
    y = np.sum(inner * np.expand_dims(input2, -2), axis=-1)
    return y if bias is None else y + bias


@implements(nn.Embedding.forward, tensors=True)
def embedding(self, input):
    return F.embedding(
        input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
    )


@implements(F.embedding)
def embedding_of(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    if scale_grad_by_freq or sparse:
        rejected("an embedding with scale_grad_by_freq or sparse gradients", "nn.Embedding(n, size)")
    if max_norm is not None:
        rejected("an embedding with max_norm, which writes to its table", "normalize the rows after the look-up")
    if input.dtype != np.int64 and input.dtype != np.int32:
        refused("an embedding of what is not an integer", "x.long()")
    at = None if padding_idx is None else padding_idx if padding_idx >= 0 else padding_idx + weight.shape[0]
    k = number_in(input)
    if k is not None:
        if k < 0:
            raise IndexError("index out of range in self")
        row = np.array(weight[k] if at is None or k != at else stop_gradient(weight[k]))
        return row.reshape((*input.shape, *row.shape))
    found = weight[np.where(input < 0, weight.shape[0], input)]  # a negative index is out of range
    return found if at is None else np.where(np.expand_dims(input == at, -1), stop_gradient(found), found)


# ---- layers that change nothing but the form


@implements(nn.Identity.forward, tensors=True)
def identity(self, input):
    return input


@implements(nn.Flatten.forward, tensors=True)
def flatten(self, input):
    return input.flatten(self.start_dim, self.end_dim)


@implements(nn.Unflatten.forward, tensors=True)
def unflatten(self, input):
    return input.unflatten(self.dim, self.unflattened_size)


# ---- normalisation


@implements(nn.LayerNorm.forward, tensors=True)
def layer_norm(self, input):
    return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


@implements(F.layer_norm, torch.layer_norm)
def layer_norm_of(input, normalized_shape, weight=None, bias=None, eps=1e-05):
    of_one_dtype(input, weight, bias)
    axes = _last_axes(input, normalized_shape)
    d = input - np.mean(input, axis=axes, keepdims=True)
    y = d / np.sqrt(np.mean(d * d, axis=axes, keepdims=True) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


@implements(nn.RMSNorm.forward, tensors=True)
def rms_norm(self, input):
    return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)


@implements(F.rms_norm, torch.rms_norm)
def rms_norm_of(input, normalized_shape, weight=None, eps=None):
    of_one_dtype(input, weight)
    axes = _last_axes(input, normalized_shape)
    least = np.finfo(input.dtype).eps if eps is None else eps
    y = input / np.sqrt(np.mean(input * input, axis=axes, keepdims=True) + least)
    return y if weight is None else y * weight


def _last_axes(input, shape):
    if tuple(input.shape[input.ndim - len(shape) :]) != tuple(shape):
        raise RuntimeError("the last dimensions of the input are not the normalized shape")
    return each(input.ndim)[input.ndim - len(shape) :]


@implements(nn.modules.batchnorm._BatchNorm.forward, tensors=True)
def batch_norm(self, input):
    if self.training or self.running_mean is None:
        rejected("batch normalisation in training, whose statistics are over instances", "net.eval(), or nn.LayerNorm")
    return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)


@implements(F.batch_norm, asks=True)
def batch_norm_of(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05):
    if training or running_mean is None:
        rejected("batch normalisation in training, whose statistics are over instances", "training=False")
    scale = 1 / np.sqrt(running_var + eps)
    scale = scale if weight is None else scale * weight
    shift = -running_mean * scale if bias is None else bias - running_mean * scale
    return input * _channels(scale, input) + _channels(shift, input)


def _channels(x, input):
    """Return a vector of channels, which are axis 1 of the input, in the form that broadcasts to it."""
    return np.reshape(x, (x.shape[0],) + (1,) * (input.ndim - 2))


@implements(nn.GroupNorm.forward, tensors=True)
def group_norm(self, input):
    return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


@implements(F.group_norm, torch.group_norm)
def group_norm_of(input, num_groups, weight=None, bias=None, eps=1e-05):
    of_one_dtype(input, weight, bias)
    x = np.reshape(input, (input.shape[0], num_groups, -1))
    d = x - np.mean(x, axis=2, keepdims=True)
    y = np.reshape(d / np.sqrt(np.mean(d * d, axis=2, keepdims=True) + eps), input.shape)
    y = y if weight is None else y * _channels(weight, input)
    return y if bias is None else y + _channels(bias, input)


@implements(nn.modules.instancenorm._InstanceNorm.forward, tensors=True)
def instance_norm(self, input):
    if self.track_running_stats:
        rejected("instance normalisation with running statistics", "track_running_stats=False")
    batched = input.dim() == (
        5 if isinstance(self, nn.InstanceNorm3d) else 4 if isinstance(self, nn.InstanceNorm2d) else 3
    )
    y = F.instance_norm(input if batched else input.unsqueeze(0), weight=self.weight, bias=self.bias, eps=self.eps)
    return y if batched else y.squeeze(0)


@implements(F.instance_norm)
def instance_norm_of(
    input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-05
):
    if not use_input_stats or running_mean is not None:
        rejected("instance normalisation with running statistics", "use_input_stats=True")
    of_one_dtype(input, weight, bias)
    axes = each(input.ndim)[2:]
    d = input - np.mean(input, axis=axes, keepdims=True)
    y = d / np.sqrt(np.mean(d * d, axis=axes, keepdims=True) + eps)
    y = y if weight is None else y * _channels(weight, input)
    return y if bias is None else y + _channels(bias, input)


# ---- distances


@implements(nn.CosineSimilarity.forward, tensors=True)
def cosine_similarity(self, x1, x2):
    return F.cosine_similarity(x1, x2, self.dim, self.eps)


@implements(nn.PairwiseDistance.forward, tensors=True)
def pairwise_distance(self, x1, x2):
    return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
