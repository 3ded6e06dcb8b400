"""Shapes: views, joined and split tensors, repeated elements, borders."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch.nn import functional as F

from acronumba.frontend.library.decorators import rejected
from acronumba.torch import returned
from acronumba.torch.implements import arrays, implements, promoted, tensor
from acronumba.torch.primitives import (
    as_contiguous,
    axis_of,
    decides_rank,
    each,
    is_known,
    is_same,
    rank_unknown,
    refused,
    reshaped,
    reshaped_or_copied,
    seen_in,
    sizes,
    turning,
    without_axis,
)

T = torch.Tensor


# ---- queries


@implements(T.size)
def size(input, dim=None):
    return returned.size(input.shape) if dim is None else input.shape[axis_of(dim, input.ndim)]


@implements(T.dim, T.ndimension)
def dim_of(input):
    return input.ndim


@implements(T.numel, T.nelement, torch.numel)
def numel(input):
    return input.size


# ---- views


@implements(T.view, T.resize, views=True)
def view(input, *shape):
    return reshaped(input, sizes(shape))


@implements(T.reshape, views=True)
def reshape_method(input, *shape):
    return reshaped_or_copied(input, sizes(shape))


@implements(torch.reshape, views=True)
def reshape(input, shape):
    return reshaped_or_copied(input, sizes((shape,)))


@implements(T.view_as, views=True)
def view_as(input, other):
    return reshaped(input, other.shape)


@implements(T.reshape_as, views=True)
def reshape_as(input, other):
    return reshaped_or_copied(input, other.shape)


@implements(torch.flatten, T.flatten, views=True)
def flatten(input, start_dim=0, end_dim=-1):
    first, last = axis_of(start_dim, input.ndim), axis_of(end_dim, input.ndim)
    if first == last and input.ndim:
        return input
    n = math.prod(input.shape[first : last + 1])
    return reshaped_or_copied(input, (*input.shape[:first], n, *input.shape[last + 1 :]))


@implements(torch.ravel, T.ravel, views=True)
def ravel(input):
    return reshaped_or_copied(input, (-1,))


@implements(torch.unflatten, T.unflatten, views=True)
def unflatten(input, dim, sizes):
    at = axis_of(dim, input.ndim)
    return reshaped(input, (*input.shape[:at], *sizes, *input.shape[at + 1 :]))


@implements(torch.squeeze, T.squeeze, views=True)
def squeeze(input, dim=None):
    if dim is None:
        return without_ones(np.squeeze(input, ones_of(input)))
    if isinstance(dim, tuple | list):
        return np.squeeze(input, tuple(axis_of(d, input.ndim) for d in dim if is_one(input, d)))
    at = axis_of(dim, max(input.ndim, 1))
    if input.ndim and decides_rank(input.shape[at]):
        return without_axis(input, at) if input.shape[at] == 1 else input
    return without_axis(input, at) if is_one(input, dim) else input


def is_one(input, dim):
    """Return whether the size of a dimension is 1.

    Where it must not decide the rank, a size that only run time knows must be 1; but that of a last dimension must not,
    as columns of sizes 1 are known. Of a tensor that is written to it is rejected.
    """
    at = axis_of(dim, max(input.ndim, 1))
    n = input.shape[at] if input.ndim else 0
    if is_known(n):
        return n == 1
    rank_unknown(input)
    if input.ndim > 1 and at == input.ndim - 1:
        if n == 1:
            raise RuntimeError("squeeze(dim) of a last dimension whose size of 1 only run time knows")
        return False
    if n != 1:
        raise RuntimeError("squeeze(dim) of a dimension whose size only run time knows, and that is not 1")
    return True


def ones_of(input):
    """Return the dimensions that are known to be of size 1."""
    return tuple(k for k, n in enumerate(input.shape) if is_known(n) and n == 1)


def without_ones(input):
    """Return an array without its dimensions of size 1, where only run time knows which these are.

    Where the sizes must not decide the rank, an instance fails that has such a dimension; a tensor that is written to
    is rejected.
    """
    rank = input.ndim
    for k in each(rank):
        n = input.shape[rank - 1 - k]
        if decides_rank(n):
            input = without_axis(input, rank - 1 - k) if n == 1 else input
        elif not is_known(n):
            rank_unknown(input)
            if n == 1:
                raise RuntimeError("squeeze() of a dimension whose size of 1 only run time knows: write squeeze(dim)")
    return input


@implements(torch.unsqueeze, T.unsqueeze, views=True)
def unsqueeze(input, dim):
    return np.expand_dims(input, axis_of(dim, input.ndim + 1))


@implements(torch.transpose, T.transpose, torch.swapaxes, T.swapaxes, torch.swapdims, T.swapdims, views=True)
def transpose(input, dim0, dim1):
    return np.swapaxes(turning(input), dim0, dim1) if input.ndim else input


@implements(torch.t, T.t, views=True)
def t(input):
    if input.ndim > 2:
        refused("t() of a tensor of more than two dimensions", "x.transpose(0, 1)")
    return np.transpose(turning(input))


@implements(T.adjoint, views=True)
def adjoint(input):
    return np.swapaxes(turning(input), -2, -1)


@implements(T.permute, views=True)
def permute_method(input, *dims):
    return np.transpose(turning(input), sizes(dims))


@implements(torch.permute, views=True)
def permute(input, dims):
    return np.transpose(turning(input), tuple(dims))


@implements(torch.movedim, T.movedim, torch.moveaxis, T.moveaxis, views=True)
def movedim(input, source, destination):
    return np.moveaxis(turning(input), source, destination)


@implements(T.expand, views=True)
def expand(input, *size):
    return expanded(input, sizes(size))


def expanded(input, shape):
    lead = len(shape) - input.ndim
    if lead < 0:
        refused("expand to fewer dimensions than the tensor has", "x.expand(*sizes), with a size for each dimension")
    wanted = tuple(input.shape[k - lead] if k >= lead and is_same(n, -1) else n for k, n in enumerate(shape))
    return seen_in(np.broadcast_to(input, wanted), input)


@implements(torch.broadcast_to, views=True)
def broadcast_to(input, size):
    return expanded(input, sizes((size,)))


@implements(T.broadcast_to, views=True)
def broadcast_to_method(input, *size):
    return expanded(input, sizes(size))


@implements(T.expand_as, views=True)
def expand_as(input, other):
    return seen_in(np.broadcast_to(input, other.shape), input)


@implements(torch.broadcast_tensors, views=True)
def broadcast_tensors(*tensors):
    given = arrays(tensors)
    return tuple(seen_in(found, x) for found, x in zip(np.broadcast_arrays(*given), given, strict=True))


@implements(torch.diagonal, T.diagonal, views=True)
def diagonal(input, offset=0, dim1=0, dim2=1):
    return seen_in(np.diagonal(input, offset, dim1, dim2), input)


@implements(T.unfold)
def unfold(input, dimension, size, step):
    at = axis_of(dimension, input.ndim)
    windows = np.lib.stride_tricks.sliding_window_view(turning(input), size, at)
    return windows if is_same(step, 1) else np.moveaxis(np.moveaxis(windows, at, 0)[::step], 0, at)


@implements(T.contiguous, views=True)
def contiguous(input, *, memory_format=None):
    return as_contiguous(input)


# ---- parts


@implements(torch.split, T.split, T.split_with_sizes, torch.split_with_sizes, views=True)
def split(input, split_size_or_sections, dim=0):
    at = axis_of(dim, input.ndim)
    n = input.shape[at]
    if isinstance(split_size_or_sections, int):
        return parts_of(input, at, n, split_size_or_sections)
    sections = tuple(split_size_or_sections)
    if sum(sections) != n:
        raise RuntimeError("split_with_sizes expects split_sizes to sum exactly to the size of the dimension")
    out, first = (), 0
    for size in sections:
        out = (*out, part_of(input, at, first, first + size))
        first = first + size
    return out


def parts_of(input, dim, n, size):
    """Return parts of `size` elements of a dimension of `n`, of which the last may have fewer."""
    if is_known(n) and is_known(size):
        count = max(-(-n // max(size, 1)), 1)
        return tuple(part_of(input, dim, k * size, min((k + 1) * size, n)) for k in each(count))
    if size < 1:
        raise RuntimeError("split expects split_size to be positive")
    every = range(max(-(-n // size), 1))
    return tuple([tensor(part_of(input, dim, k * size, min((k + 1) * size, n))) for k in every])


def part_of(input, dim, first, last):
    if dim == 0:
        return input[first:last]
    if dim == 1:
        return input[:, first:last]
    return np.moveaxis(np.moveaxis(input, dim, 0)[first:last], 0, dim)


@implements(torch.chunk, T.chunk, views=True)
def chunk(input, chunks, dim=0):
    at = axis_of(dim, input.ndim)
    n = input.shape[at]
    return parts_of(input, at, n, max(-(-n // chunks), 1))


@implements(torch.tensor_split, T.tensor_split)
def tensor_split(input, indices_or_sections, dim=0):
    return tuple(np.array_split(input, indices_or_sections, dim))


@implements(torch.unbind, T.unbind, views=True)
def unbind(input, dim=0):
    rows = np.moveaxis(input, dim, 0)
    if is_known(rows.shape[0]):
        return tuple(rows[k] for k in each(rows.shape[0]))
    return tuple([tensor(row) for row in rows])


@implements(torch.narrow, T.narrow, views=True)
def narrow(input, dim, start, length):
    at = axis_of(dim, input.ndim)
    n = input.shape[at]
    first = int(start)
    first = first + n if first < 0 else first
    if first < 0 or length < 0 or first + length > n:
        raise RuntimeError("narrow: start and length are out of the range of the dimension")
    return part_of(input, at, first, first + length)


@implements(torch.select, T.select, views=True)
def select(input, dim, index):
    at = axis_of(dim, input.ndim)
    return input[index] if at == 0 else input[:, index] if at == 1 else np.moveaxis(input, at, 0)[index]


# ---- joined


@implements(torch.cat, torch.concat, torch.concatenate)
def cat(tensors, dim=0):
    return np.concatenate(joinable(tensors), axis=dim)


def joinable(tensors):
    """Return the arrays of tensors in the dtype that PyTorch promotes them to; none of shape (0,) among others."""
    xs = arrays(tensors)
    if not is_known(len(xs)):
        return xs
    rank = max([x.ndim for x in xs])
    return promoted(*[x for x in xs if x.ndim == rank or not is_same(x.shape[0], 0)])


@implements(torch.stack)
def stack(tensors, dim=0):
    xs = arrays(tensors)
    return np.stack(promoted(*xs) if is_known(len(xs)) else xs, axis=dim)


@implements(torch.hstack)
def hstack(tensors):
    return np.hstack(joinable(tensors))


@implements(torch.vstack, torch.row_stack)
def vstack(tensors):
    return np.vstack(joinable(tensors))


@implements(torch.dstack)
def dstack(tensors):
    return np.dstack(joinable(tensors))


@implements(torch.column_stack)
def column_stack(tensors):
    return np.column_stack(joinable(tensors))


@implements(torch.meshgrid)
def meshgrid(*tensors, indexing="ij"):
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    return np.meshgrid(*arrays(given), indexing=indexing)


# ---- repeated, moved


@implements(T.repeat)
def repeat(input, *repeats):
    times = sizes(repeats)
    if len(times) < input.ndim:
        refused("repeat with fewer numbers than the tensor has dimensions", "x.repeat(*times), one per dimension")
    return np.tile(input, times)


@implements(T.tile)
def tile_method(input, *dims):
    return np.tile(input, sizes(dims))


@implements(torch.tile)
def tile(input, dims):
    return np.tile(input, sizes((dims,)))


@implements(torch.repeat_interleave, T.repeat_interleave)
def repeat_interleave(input, repeats, dim=None, *, output_size=None):
    return np.repeat(input, repeats, dim)


@implements(T.flip)
def flip_method(input, *dims):
    return np.flip(input, sizes(dims))


@implements(torch.flip)
def flip(input, dims):
    return np.flip(input, sizes((dims,)))


@implements(torch.fliplr, T.fliplr)
def fliplr(input):
    return np.flip(input, 1)


@implements(torch.flipud, T.flipud)
def flipud(input):
    return np.flip(input, 0)


@implements(torch.roll, T.roll)
def roll(input, shifts, dims=None):
    return np.roll(input, shifts, dims)


@implements(torch.rot90, T.rot90)
def rot90(input, k=1, dims=(0, 1)):
    return np.rot90(input, k, dims)


@implements(torch.tril, T.tril)
def tril(input, diagonal=0):
    return np.tril(input, diagonal)


@implements(torch.triu, T.triu)
def triu(input, diagonal=0):
    return np.triu(input, diagonal)


@implements(torch.diag, T.diag)
def diag(input, diagonal=0):
    return np.diag(input, diagonal)


@implements(F.pad)
def pad(input, pad, mode="constant", value=None):
    many = len(pad) // 2
    if many * 2 != len(pad) or many > input.ndim:
        rejected("padding that is not a pair of sizes for each of the last dimensions", "F.pad(x, (left, right))")
    width = ((0, 0),) * (input.ndim - many) + tuple((pad[2 * k], pad[2 * k + 1]) for k in range(many - 1, -1, -1))
    if mode == "constant":
        return np.pad(input, width, constant_values=0 if value is None else value)
    if mode == "replicate":
        return np.pad(input, width, "edge")
    if mode == "circular":
        return np.pad(input, width, "wrap")
    return np.pad(input, width, "reflect")
