"""Elements chosen by indices and masks, written by them out of place, and put in order."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

from acronumba import nn
from acronumba.frontend.library.decorators import rejected
from acronumba.torch.implements import implements, is_tensor, promoted
from acronumba.torch.primitives import axis_of, inside, is_known, is_same, refused, with_rows
from acronumba.torch.returned import Sort, TopK

T = torch.Tensor


# ---- elements by index


@implements(torch.index_select, T.index_select)
def index_select(input, dim, index):
    at = axis_of(dim, input.ndim)
    return np.take(input, inside(np.reshape(index, (-1,)), input.shape[at], at), at)


@implements(torch.gather, T.gather)
def gather(input, dim, index, *, sparse_grad=False):
    if input.ndim == 0:
        return np.reshape(np.reshape(input, (1,))[inside(np.reshape(index, (-1,)), 1, 0)], index.shape)
    at = axis_of(dim, input.ndim)
    return np.take_along_axis(cut_to(input, index, at), inside(index, input.shape[at], at), at)


def cut_to(input, index, dim):
    """Return the part of a tensor that has the sizes of an index, but for one dimension."""
    if input.ndim != index.ndim:
        refused("an index of another number of dimensions than the tensor", "index.unsqueeze(dim)")
    for k in range(input.ndim):
        if k != dim and not is_same(input.shape[k], index.shape[k]):
            if index.shape[k] > input.shape[k]:
                raise RuntimeError("the index has a dimension that is larger than that of the tensor")
            input = np.moveaxis(np.moveaxis(input, k, 0)[: index.shape[k]], 0, k)
    return input


@implements(torch.take, T.take)
def take(input, index):
    return np.take(input, index)


@implements(torch.take_along_dim, T.take_along_dim)
def take_along_dim(input, indices, dim=None):
    if dim is None:
        return np.reshape(input, (-1,))[np.reshape(indices, (-1,))]
    return np.take_along_axis(input, indices, dim)


@implements(torch.masked_select, T.masked_select)
def masked_select(input, mask):
    x, chosen = np.broadcast_arrays(input, mask)
    return np.reshape(x, (-1,))[np.reshape(chosen, (-1,))]


@implements(torch.masked_fill, T.masked_fill, asks=True)
def masked_fill(input, mask, value):
    if mask.dtype != bool:
        rejected("masked_fill with a mask that is no tensor of bools", "x.masked_fill(mask.bool(), value)")
    return np.where(mask, element_of(input, value), input)


def element_of(input, value):
    """Return a number or tensor as elements of the dtype of a tensor."""
    return value.astype(input.dtype) if is_tensor(value) else input.dtype.type(value)


@implements(torch.where, asks=True)
def where(condition, input=None, other=None):
    if input is None and other is None:
        return np.nonzero(np.reshape(condition, (-1,)) if condition.ndim == 0 else condition)
    x, y = promoted(input, other)
    return np.where(condition, x, y)


@implements(T.where, asks=True)
def where_method(input, condition, other):
    x, y = promoted(input, other)
    return np.where(condition, x, y)


@implements(torch.nonzero, T.nonzero)
def nonzero(input, *, as_tuple=False):
    if as_tuple:
        return np.nonzero(np.reshape(input, (-1,)) if input.ndim == 0 else input)
    return np.argwhere(input)


@implements(torch.argwhere, T.argwhere)
def argwhere(input):
    return np.argwhere(input)


@implements(F.one_hot)
def one_hot(tensor, num_classes=-1):
    n = num_classes if num_classes >= 0 else int(np.max(tensor)) + 1
    return (inside(tensor, n, 0)[..., None] == np.arange(n)).astype(np.int64)


# ---- elements written out of place


@implements(torch.scatter, T.scatter)
def scatter(input, dim, index, src=None, value=None, *, reduce=None):
    new = value if src is None else src
    if reduce is not None:
        rejected("scatter with reduce=", "x.scatter_add(dim, index, src)")
    if input.ndim == 0:
        return np.where(np.reshape(index, ()) == 0, element_of(input, new), input)
    at = axis_of(dim, input.ndim)
    for k in range(input.ndim):
        if k != at and not is_same(input.shape[k], index.shape[k]):
            rest = np.moveaxis(input, k, 0)
            n = index.shape[k]
            if n > input.shape[k]:
                raise RuntimeError("the index has a dimension that is larger than that of the tensor")
            done = scattered(np.moveaxis(rest[:n], 0, k), at, index, new)
            return np.concatenate([done, np.moveaxis(rest[n:], 0, k)], k)
    return scattered(input, at, index, new)


def scattered(input, dim, index, new):
    for k in range(input.ndim):
        if k != dim and not is_same(input.shape[k], index.shape[k]) and is_known(input.shape[k]):
            rejected("scatter with an index that is smaller along several dimensions", "x[i, j] = v")
    x = np.moveaxis(input, dim, -1)
    at = np.moveaxis(inside(index, input.shape[dim], dim), dim, -1)
    n, m = x.shape[-1], at.shape[-1]
    hits = at[..., None, :] == np.arange(n)[:, None]
    if not is_tensor(new) or new.ndim == 0:
        return np.moveaxis(np.where(np.any(hits, -1), element_of(input, new), x), -1, dim)
    if new.dtype != input.dtype:
        refused("scatter of a tensor of another dtype", "src.to(x.dtype)")
    src = np.moveaxis(cut_to(new, index, -1), dim, -1)
    none = np.zeros((*at.shape[:-1], n, 1), np.int64)
    last = np.max(np.concatenate([none, np.where(hits, np.arange(m) + 1, 0)], -1), -1)
    taken = np.take_along_axis(np.concatenate([np.zeros((*at.shape[:-1], 1), src.dtype), src], -1), last, -1)
    return np.moveaxis(np.where(last > 0, taken, x), -1, dim)


@implements(torch.scatter_add, T.scatter_add)
def scatter_add(input, dim, index, src):
    if src.dtype != input.dtype:
        refused("scatter_add of a tensor of another dtype", "src.to(x.dtype)")
    if input.ndim == 0:
        return input + src
    d = axis_of(dim, input.ndim)
    for k in range(input.ndim):
        if k != d and not is_same(input.shape[k], index.shape[k]) and is_known(input.shape[k]):
            rejected("scatter_add with an index that is smaller than the tensor", "x.index_add(dim, index, src)")
        if k != d and index.shape[k] != input.shape[k]:
            raise RuntimeError("scatter_add with an index that is smaller than the tensor is not supported")
    n = input.shape[d]
    at = np.moveaxis(inside(index, n, d), d, -1)
    values = np.moveaxis(cut_to(src, index, -1), d, -1)
    rows = np.reshape(at, (-1, at.shape[-1]))
    flat = np.reshape(rows + np.arange(rows.shape[0])[:, None] * n, (-1,))
    sums = nn.segment_sum(np.reshape(values, (-1,)), flat, rows.shape[0] * n)
    return input + np.moveaxis(np.reshape(sums, (*at.shape[:-1], n)), -1, d)


@implements(torch.index_add, T.index_add)
def index_add(input, dim, index, source, *, alpha=1):
    if source.dtype != input.dtype:
        refused("index_add of a tensor of another dtype", "source.to(x.dtype)")
    d = axis_of(dim, input.ndim)
    at = inside(np.reshape(index, (-1,)), input.shape[d], d)
    sums = nn.segment_sum(np.moveaxis(source, d, 0), at, input.shape[d])
    sums = np.moveaxis(sums if is_same(alpha, 1) else sums * np.full((), alpha, input.dtype), 0, d)
    return input + sums


@implements(torch.index_copy, T.index_copy)
def index_copy(input, dim, index, source):
    if source.dtype != input.dtype:
        refused("index_copy of a tensor of another dtype", "source.to(x.dtype)")
    d = axis_of(dim, input.ndim)
    at = inside(np.reshape(index, (-1,)), input.shape[d], d)
    return np.moveaxis(with_rows(np.moveaxis(input, d, 0), at, np.moveaxis(source, d, 0)), 0, d)


@implements(torch.index_fill, T.index_fill)
def index_fill(input, dim, index, value):
    d = axis_of(dim, input.ndim)
    at = inside(np.reshape(index, (-1,)), input.shape[d], d)
    hit = np.any(at[:, None] == np.arange(input.shape[d]), 0)
    return np.moveaxis(np.where(hit, element_of(input, value), np.moveaxis(input, d, -1)), -1, d)


@implements(torch.masked_scatter, T.masked_scatter)
def masked_scatter(input, mask, source):
    shape = np.broadcast_shapes(input.shape, mask.shape)
    chosen = np.reshape(np.broadcast_to(mask, shape), (-1,))
    x = np.reshape(np.broadcast_to(input, shape), (-1,))
    at = np.where(chosen, np.cumsum(chosen) - 1, 0)
    return np.reshape(np.where(chosen, np.reshape(source, (-1,))[at], x), shape)


@implements(torch.index_put, T.index_put)
def index_put(input, indices, values, accumulate=False):
    rejected("index_put", "x[indices] = values")


# ---- order


@implements(torch.argsort, T.argsort)
def argsort(input, dim=-1, descending=False, stable=False):
    if input.ndim == 0:
        return np.zeros((), np.int64)
    if not descending:
        return np.argsort(input, dim)
    n = input.shape[dim]
    return np.flip((n - 1) - np.argsort(np.flip(input, dim), dim), dim)


@implements(torch.sort, T.sort)
def sort(input, dim=-1, descending=False, stable=False):
    order = argsort(input, dim, descending)
    return Sort(np.take_along_axis(input, order, dim) if input.ndim else input, order)


@implements(torch.msort, T.msort)
def msort(input):
    return np.sort(input, 0)


@implements(torch.topk, T.topk)
def topk(input, k, dim=-1, largest=True, sorted=True):
    if input.ndim == 0:
        return TopK(input, np.zeros((), np.int64))
    if k < 0 or k > input.shape[dim]:
        raise RuntimeError("selected index k out of range")
    d = axis_of(dim, input.ndim)
    order = argsort(input, d, largest)
    order = np.moveaxis(np.moveaxis(order, d, 0)[:k], 0, d)
    return TopK(np.take_along_axis(input, order, d), order)


@implements(torch.searchsorted)
def searchsorted(sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None):
    from_right = right if side is None else side == "right"
    return np.searchsorted(sorted_sequence, input, side="right" if from_right else "left")


@implements(torch.bucketize)
def bucketize(input, boundaries, *, out_int32=False, right=False):
    return np.searchsorted(boundaries, input, side="right" if right else "left")


@implements(torch.bincount, T.bincount)
def bincount(input, weights=None, minlength=0):
    if weights is None:
        return np.bincount(input, None, minlength)
    return np.bincount(input, weights, minlength).astype(weights.dtype if weights.dtype.kind == "f" else np.float64)


@implements(torch.unique, T.unique)
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    if dim is not None:
        rejected("unique along a dimension", "unique of one vector")
    return np.unique(input, return_inverse=return_inverse, return_counts=return_counts)
