"""Reductions, scans and norms."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

from acronumba import nn
from acronumba.frontend.library.decorators import rejected
from acronumba.frontend.library.numpy_elementwise import root
from acronumba.torch.implements import implements, is_tensor, numpy_dtype, promoted
from acronumba.torch.primitives import without_made_axis
from acronumba.torch.returned import Max, Min


def axes_of(dim):
    """Return the axes of a reduction: all for None or no axes."""
    if dim is None:
        return None
    if isinstance(dim, tuple | list):
        return tuple(dim) if len(dim) else None
    return dim


def in_dtype(x, dtype):
    """Return an array in a dtype of PyTorch, if one is given."""
    return x if dtype is None else x.astype(numpy_dtype(dtype))


# ---- sums


@implements(torch.sum, torch.Tensor.sum, asks=True)
def total(input, dim=None, keepdim=False, *, dtype=None, out=None):
    x = in_dtype(input, dtype)
    if dtype is None and x.dtype.kind != "f":
        x = x.astype(np.int64)
    return np.sum(x, axis=axes_of(dim), keepdims=keepdim, dtype=x.dtype) if x.ndim else x.copy()


@implements(torch.mean, torch.Tensor.mean, asks=True)
def mean(input, dim=None, keepdim=False, *, dtype=None, out=None):
    x = in_dtype(input, dtype)
    return np.mean(x, axis=axes_of(dim), keepdims=keepdim) if x.ndim else x.copy()


@implements(torch.prod, torch.Tensor.prod, asks=True)
def prod(input, dim=None, keepdim=False, *, dtype=None, out=None):
    x = in_dtype(input, dtype)
    if dtype is None and x.dtype.kind != "f":
        x = x.astype(np.int64)
    return np.prod(x, axis=dim, keepdims=keepdim, dtype=x.dtype) if x.ndim else x.copy()


@implements(torch.any, torch.Tensor.any, asks=True)
def any_of(input, dim=None, keepdim=False, *, out=None):
    y = np.any(input, axis=axes_of(dim), keepdims=keepdim) if input.ndim else input != 0
    return y.astype(np.uint8) if input.dtype == np.uint8 else y


@implements(torch.all, torch.Tensor.all, asks=True)
def all_of(input, dim=None, keepdim=False, *, out=None):
    y = np.all(input, axis=axes_of(dim), keepdims=keepdim) if input.ndim else input != 0
    return y.astype(np.uint8) if input.dtype == np.uint8 else y


@implements(torch.count_nonzero, torch.Tensor.count_nonzero, asks=True)
def count_nonzero(input, dim=None):
    return np.sum((input != 0).astype(np.int64), axis=axes_of(dim)) if input.ndim else (input != 0).astype(np.int64)


# ---- the largest and smallest


@implements(torch.amax, torch.Tensor.amax, asks=True)
def amax(input, dim=(), keepdim=False, *, out=None):
    return np.max(input, axis=axes_of(dim), keepdims=keepdim) if input.ndim else input.copy()


@implements(torch.amin, torch.Tensor.amin, asks=True)
def amin(input, dim=(), keepdim=False, *, out=None):
    return np.min(input, axis=axes_of(dim), keepdims=keepdim) if input.ndim else input.copy()


@implements(torch.max, torch.Tensor.max, asks=True)
def largest(input, dim=None, keepdim=False, *, other=None, out=None):
    if is_tensor(dim) or other is not None:
        x, y = promoted(input, dim if other is None else other)
        return np.maximum(x, y)
    if dim is None:
        return np.max(input) if input.ndim else input.copy()
    if not input.ndim:
        return Max(input.copy(), np.zeros((), np.int64))
    return Max(*at_index(input, np.argmax(input, axis=dim), dim, keepdim))


@implements(torch.min, torch.Tensor.min, asks=True)
def smallest(input, dim=None, keepdim=False, *, other=None, out=None):
    if is_tensor(dim) or other is not None:
        x, y = promoted(input, dim if other is None else other)
        return np.minimum(x, y)
    if dim is None:
        return np.min(input) if input.ndim else input.copy()
    if not input.ndim:
        return Min(input.copy(), np.zeros((), np.int64))
    return Min(*at_index(input, np.argmin(input, axis=dim), dim, keepdim))


def at_index(x, index, dim, keepdim):
    """Return the elements at an index along an axis, and the index; gradients are those of these elements alone."""
    index = np.expand_dims(index, dim)
    values = np.take_along_axis(x, index, axis=dim)
    if keepdim:
        return values, index
    return without_made_axis(values, dim), without_made_axis(index, dim)


@implements(torch.argmax, torch.Tensor.argmax, asks=True)
def argmax(input, dim=None, keepdim=False):
    return np.argmax(input, axis=dim, keepdims=keepdim) if input.ndim else np.zeros((), np.int64)


@implements(torch.argmin, torch.Tensor.argmin, asks=True)
def argmin(input, dim=None, keepdim=False):
    return np.argmin(input, axis=dim, keepdims=keepdim) if input.ndim else np.zeros((), np.int64)


@implements(torch.aminmax, torch.Tensor.aminmax)
def aminmax(input, *, dim=None, keepdim=False):
    return rejected("torch.aminmax", "x.amin(), x.amax()")


@implements(torch.median, torch.Tensor.median, asks=True)
def median(input, dim=None, keepdim=False):
    if dim is not None:
        return rejected("torch.median of an axis, whose indices depend on the machine", "x.sort(dim)")
    flat = np.sort(np.reshape(input, -1))
    n = flat.shape[0]
    if input.dtype.kind != "f":
        return flat[(n - 1) // 2]
    middle = nn.stop_gradient(np.where(np.isnan(flat[n - 1]), flat[n - 1], flat[(n - 1) // 2]))
    chosen = (input == middle) | (np.isnan(input) & np.isnan(middle))
    share = np.sum(np.where(chosen, input - nn.stop_gradient(input), input.dtype.type(0)))  # 0, for the derivative
    return middle + share / np.sum(chosen).astype(input.dtype) if input.ndim else input.copy()


# ---- spread, norms


@implements(torch.var, torch.Tensor.var, asks=True)
def var(input, dim=None, unbiased=None, keepdim=False, *, correction=None, out=None):
    if isinstance(dim, bool):
        return np.var(input, ddof=float(dim))
    ddof = (1.0 if unbiased is None else float(unbiased)) if correction is None else float(correction)
    return np.var(input, axis=axes_of(dim) if input.ndim else None, ddof=ddof, keepdims=keepdim)


@implements(torch.std, torch.Tensor.std, asks=True)
def std(input, dim=None, unbiased=None, keepdim=False, *, correction=None, out=None):
    if isinstance(dim, bool):
        return root(np.var(input, ddof=float(dim)))
    ddof = (1.0 if unbiased is None else float(unbiased)) if correction is None else float(correction)
    return root(np.var(input, axis=axes_of(dim) if input.ndim else None, ddof=ddof, keepdims=keepdim))


@implements(torch.norm, torch.Tensor.norm, asks=True)
def norm(input, p="fro", dim=None, keepdim=False, dtype=None, out=None):
    x = in_dtype(input, dtype)
    return norm_of(x, 2 if p == "fro" else p, axes_of(dim), keepdim)


def norm_of(x, p, axis, keepdim):
    """Return the p-norm of the elements over axes; derivatives are 0 where it is 0."""
    axis = axis if x.ndim else None
    if isinstance(p, str):
        return rejected("torch.norm with p=" + p, "a number for p")
    if p == 2:
        return root(np.sum(x * x, axis=axis, keepdims=keepdim))
    if p == 1:
        return np.sum(np.abs(x), axis=axis, keepdims=keepdim)
    if p == 0:
        return np.sum((x != 0).astype(x.dtype), axis=axis, keepdims=keepdim)
    if p == float("inf"):
        return np.max(np.abs(x), axis=axis, keepdims=keepdim)
    if p == -float("inf"):
        return np.min(np.abs(x), axis=axis, keepdims=keepdim)
    powers = np.sum(np.power(np.abs(x), p), axis=axis, keepdims=keepdim)
    nothing = powers == 0
    return np.where(nothing, x.dtype.type(0), np.power(np.where(nothing, x.dtype.type(1), powers), 1 / p))


@implements(torch.linalg.norm, torch.linalg.vector_norm, asks=True)
def vector_norm(input, ord=2, dim=None, keepdim=False, *, dtype=None, out=None):
    x = in_dtype(input, dtype)
    if ord is None:
        return norm_of(x, 2, axes_of(dim), keepdim)
    return norm_of(x, ord, axes_of(dim), keepdim)


@implements(torch.dist, torch.Tensor.dist, asks=True)
def dist(input, other, p=2):
    x, y = promoted(input, other)
    return norm_of(x - y, p, None, False)


@implements(torch.logsumexp, torch.Tensor.logsumexp, asks=True)
def logsumexp(input, dim, keepdim=False, *, out=None):
    (x,) = promoted(input, floats=True)
    axis = axes_of(dim)
    if not x.ndim:
        return x.copy()
    most = nn.stop_gradient(np.max(x, axis=axis, keepdims=True))
    most = np.where(np.isinf(most), x.dtype.type(0), most)
    y = np.log(np.sum(np.exp(x - most), axis=axis, keepdims=True)) + most
    return y if keepdim else without_made_axis(y, axis)


@implements(torch.cumsum, torch.Tensor.cumsum, asks=True)
def cumsum(input, dim, *, dtype=None, out=None):
    x = in_dtype(input, dtype)
    x = x.astype(np.int64) if dtype is None and x.dtype.kind != "f" else x
    return np.cumsum(x, axis=dim, dtype=x.dtype) if x.ndim else x.copy()


@implements(torch.cumprod, torch.Tensor.cumprod, asks=True)
def cumprod(input, dim, *, dtype=None, out=None):
    x = in_dtype(input, dtype)
    x = x.astype(np.int64) if dtype is None and x.dtype.kind != "f" else x
    return np.cumprod(x, axis=dim, dtype=x.dtype) if x.ndim else x.copy()


# ---- distances


@implements(F.cosine_similarity, torch.cosine_similarity, asks=True)
def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    x, y = np.broadcast_arrays(*promoted(x1, x2))
    a = np.maximum(root(np.sum(x * x, axis=dim, keepdims=True)), x.dtype.type(eps))
    b = np.maximum(root(np.sum(y * y, axis=dim, keepdims=True)), x.dtype.type(eps))
    return np.sum((x / a) * (y / b), axis=dim)


@implements(F.normalize, asks=True)
def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    size = norm_of(input, p, axes_of(dim), True)
    return input / np.where(size < eps, input.dtype.type(eps), size)


@implements(torch.cdist, asks=True)
def cdist(x1, x2, p=2.0, compute_mode=None):
    if p < 1 or p == float("inf"):
        return rejected("torch.cdist with another p than a finite one from 1 on", "the formula of the distance")
    x, y = promoted(x1, x2)
    return norm_of(np.expand_dims(x, -2) - np.expand_dims(y, -3), p, -1, False)


@implements(F.pairwise_distance, torch.pairwise_distance, asks=True)
def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    x, y = promoted(x1, x2)
    (apart,) = promoted(x - y, floats=True)
    return norm_of(apart + eps, p, -1, keepdim)
