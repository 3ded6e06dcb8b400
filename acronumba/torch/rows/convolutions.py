"""Convolutions and pools in one and two dimensions, padding and upsampling, of inputs with or without a batch axis."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from acronumba.frontend.library.decorators import rejected
from acronumba.torch.implements import implements
from acronumba.torch.primitives import each, is_known, is_same, of_one_dtype

# ---- windows


def _pair(value):
    """Return a size for both axes."""
    return (value, value) if isinstance(value, int) else (value[0], value[0]) if len(value) == 1 else tuple(value)


def _single(value):
    return value if isinstance(value, int) else value[0]


def _padded(x, before, after, border):
    """Return an array with a border on its last two axes."""
    if before[0] != 0 or after[0] != 0:
        top, bottom = (np.full((*x.shape[:-2], k, x.shape[-1]), border, x.dtype) for k in (before[0], after[0]))
        x = np.concatenate([top, x, bottom], axis=-2)
    if before[1] != 0 or after[1] != 0:
        left, right = (np.full((*x.shape[:-1], k), border, x.dtype) for k in (before[1], after[1]))
        x = np.concatenate([left, x, right], axis=-1)
    return x


def _windows(x, size, stride, dilation):
    """Return, for each offset in a window over the last two axes, the elements at this offset of all windows."""
    rows = x.shape[-2] - (size[0] - 1) * dilation[0]
    columns = x.shape[-1] - (size[1] - 1) * dilation[1]
    if rows <= 0 or columns <= 0:
        raise RuntimeError("Calculated padded input size per channel is smaller than the kernel size")
    return [
        x[
            ...,
            i * dilation[0] : i * dilation[0] + rows : stride[0],
            j * dilation[1] : j * dilation[1] + columns : stride[1],
        ]
        for i in each(size[0])
        for j in each(size[1])
    ]


# ---- convolutions


def _convolved(x, weight, bias, stride, padding, dilation, groups):
    """Return the convolution over the last two axes; the third last has the channels."""
    of_one_dtype(x, weight, bias)
    size = weight.shape[2:]
    if not is_known(size[1]):
        plain = groups == 1 and stride == (1, 1) and dilation == (1, 1) and padding == (0, 0) and is_same(size[0], 1)
        return _along_rows(x, weight, bias, plain)
    if isinstance(padding, str):
        whole = ((size[0] - 1) * dilation[0], (size[1] - 1) * dilation[1]) if padding == "same" else (0, 0)
        before = (whole[0] // 2, whole[1] // 2)
        x = _padded(x, before, (whole[0] - before[0], whole[1] - before[1]), 0)
    else:
        x = _padded(x, padding, padding, 0)
    if groups == 1:
        y = _product(x, weight, stride, dilation)
    else:
        some = weight.shape[1]
        outs = weight.shape[0] // groups
        parts = [
            _product(x[..., g * some : (g + 1) * some, :, :], weight[g * outs : (g + 1) * outs], stride, dilation)
            for g in each(groups)
        ]
        y = np.concatenate(parts, axis=-3)
    return y if bias is None else y + np.reshape(bias, (-1, 1, 1))


def _along_rows(x, weight, bias, plain):
    """Return the convolution along the last axis with a kernel of one row, whose size only run time knows."""
    if not plain:
        rejected("a convolution with a kernel whose size is known only at run time", "F.conv1d(x, weight, bias)")
    if x.shape[-1] < weight.shape[-1] or weight.shape[-1] < 1:
        raise RuntimeError("Calculated padded input size per channel is smaller than the kernel size")
    if x.shape[-3] != weight.shape[1]:
        raise RuntimeError("the input of a convolution has another number of channels than its weight")
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[-1], -1)  # [..., C, 1, columns, K]
    y = np.tensordot(weight[:, :, 0], windows[..., 0, :, :], ((1, 2), (-3, -1)))
    y = np.expand_dims(np.moveaxis(y, 0, -2), -2)
    return y if bias is None else y + np.reshape(bias, (-1, 1, 1))


def _product(x, weight, stride, dilation):
    found = _windows(x, weight.shape[2:], stride, dilation)
    rows, columns = found[0].shape[-2:]
    stacked = np.stack(found, axis=-3)  # [..., C, K, rows, columns]
    inner = np.reshape(stacked, (*x.shape[:-3], weight.shape[1] * len(found), rows * columns))
    y = np.reshape(weight, (weight.shape[0], -1)) @ inner
    return np.reshape(y, (*x.shape[:-3], weight.shape[0], rows, columns))


@implements(F.conv2d)
def conv2d_of(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    around = padding if isinstance(padding, str) else _pair(padding)
    return _convolved(input, weight, bias, _pair(stride), around, _pair(dilation), groups)


@implements(F.conv1d)
def conv1d_of(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    around = padding if isinstance(padding, str) else (0, _single(padding))
    flat, kernel = np.expand_dims(input, -2), np.expand_dims(weight, -2)
    y = _convolved(flat, kernel, bias, (1, _single(stride)), around, (1, _single(dilation)), groups)
    return np.squeeze(y, -2)


@implements(nn.Conv2d.forward, tensors=True)
def conv2d(self, input):
    if self.padding_mode != "zeros":
        rejected(f"padding_mode={self.padding_mode!r} of a convolution", "F.pad(x, padding, mode) before it")
    return F.conv2d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


@implements(nn.Conv1d.forward, tensors=True)
def conv1d(self, input):
    if self.padding_mode != "zeros":
        rejected(f"padding_mode={self.padding_mode!r} of a convolution", "F.pad(x, padding, mode) before it")
    return F.conv1d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


# ---- pools


def _pooled(x, size, stride, padding, dilation, ceil_mode, return_indices):
    """Return the largest element of each window over the last two axes, the first of equal ones."""
    if ceil_mode or return_indices:
        rejected("ceil_mode or return_indices of a pool", "F.pad(x, padding), and no indices")
    found = _windows(_padded(x, padding, padding, -np.inf), size, stride, dilation)
    out = found[0]
    for part in found[1:]:
        out = np.where((part > out) | (part != part), part, out)
    return out


def _one_window(x, axis, size, plain):
    """Return the largest of a dimension, whose size is that of a window that only run time knows."""
    if not plain or not is_same(size, x.shape[axis]):
        return rejected("a pool whose size is known only at run time, and is not that of the dimension", "x.max(dim)")
    return np.take_along_axis(x, np.argmax(x, axis, keepdims=True), axis)


@implements(F.max_pool2d, torch.max_pool2d)
def max_pool2d_of(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    size = _pair(kernel_size)
    plain = stride is None and _pair(padding) == (0, 0) and _pair(dilation) == (1, 1) and not return_indices
    if not is_known(size[0]):
        input, size = _one_window(input, -2, size[0], plain), (1, size[1])
    if not is_known(size[1]):
        input, size = _one_window(input, -1, size[1], plain), (size[0], 1)
    step = size if stride is None or stride == () else _pair(stride)
    return _pooled(input, size, step, _pair(padding), _pair(dilation), ceil_mode, return_indices)


@implements(F.max_pool1d, torch.max_pool1d)
def max_pool1d_of(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    size = _single(kernel_size)
    if not is_known(size):
        return _one_window(input, -1, size, stride is None and not return_indices and padding == 0 and dilation == 1)
    step = size if stride is None or stride == () else _single(stride)
    flat, around = np.expand_dims(input, -2), (0, _single(padding))
    return np.squeeze(
        _pooled(flat, (1, size), (1, step), around, (1, _single(dilation)), ceil_mode, return_indices), -2
    )


def _means(x, size, stride, padding, ceil_mode, count_include_pad, divisor):
    if ceil_mode:
        rejected("ceil_mode of a pool", "F.pad(x, padding)")
    total = sum(_windows(_padded(x, padding, padding, 0), size, stride, (1, 1)))
    if divisor is not None:
        return total / divisor
    if count_include_pad or (padding[0] == 0 and padding[1] == 0):
        return total / (size[0] * size[1])
    ones = np.ones(x.shape[-2:], x.dtype)
    return total / sum(_windows(_padded(ones, padding, padding, 0), size, stride, (1, 1)))


@implements(F.avg_pool2d)
def avg_pool2d_of(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    size = _pair(kernel_size)
    step = size if stride is None else _pair(stride)
    return _means(input, size, step, _pair(padding), ceil_mode, count_include_pad, divisor_override)


@implements(F.avg_pool1d)
def avg_pool1d_of(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    size = _single(kernel_size)
    step = size if stride is None else _single(stride)
    flat, around = np.expand_dims(input, -2), (0, _single(padding))
    return np.squeeze(_means(flat, (1, size), (1, step), around, ceil_mode, count_include_pad, None), -2)


def _part(x, k, count):
    """Return the part of the last axis for result `k` of `count` of an adaptive pool."""
    n = x.shape[-1]
    return x[..., k * n // count : ((k + 1) * n + count - 1) // count]


@implements(F.adaptive_avg_pool1d, torch.adaptive_avg_pool1d)
def adaptive_avg_pool1d_of(input, output_size):
    count = _single(output_size)
    return np.stack([np.mean(_part(input, k, count), axis=-1) for k in each(count)], axis=-1)


@implements(F.adaptive_avg_pool2d)
def adaptive_avg_pool2d_of(input, output_size):
    rows, columns = _pair(output_size)
    x = input if columns is None else adaptive_avg_pool1d_of(input, columns)
    return x if rows is None else np.swapaxes(adaptive_avg_pool1d_of(np.swapaxes(x, -1, -2), rows), -1, -2)


def _largest(x, count):
    return np.stack([_picked(_part(x, k, count)) for k in each(count)], axis=-1)


def _picked(x):
    """Return the first of the largest elements along the last axis."""
    rows = np.reshape(x, (-1, x.shape[-1]))
    return np.reshape(rows[np.arange(len(rows)), np.argmax(rows, axis=-1)], x.shape[:-1])


@implements(F.adaptive_max_pool1d, torch.adaptive_max_pool1d)
def adaptive_max_pool1d_of(input, output_size, return_indices=False):
    if return_indices:
        rejected("the indices of a pool", "return_indices=False")
    return _largest(input, _single(output_size))


@implements(F.adaptive_max_pool2d)
def adaptive_max_pool2d_of(input, output_size, return_indices=False):
    if return_indices:
        rejected("the indices of a pool", "return_indices=False")
    rows, columns = _pair(output_size)
    x = input if columns is None else _largest(input, columns)
    return x if rows is None else np.swapaxes(_largest(np.swapaxes(x, -1, -2), rows), -1, -2)


@implements(nn.MaxPool2d.forward, tensors=True)
def max_pool2d(self, input):
    return F.max_pool2d(
        input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
    )


@implements(nn.MaxPool1d.forward, tensors=True)
def max_pool1d(self, input):
    return F.max_pool1d(
        input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
    )


@implements(nn.AvgPool2d.forward, tensors=True)
def avg_pool2d(self, input):
    return F.avg_pool2d(
        input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
        self.divisor_override,
    )  # fmt: skip


@implements(nn.AvgPool1d.forward, tensors=True)
def avg_pool1d(self, input):
    return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


@implements(nn.AdaptiveAvgPool1d.forward, tensors=True)
def adaptive_avg_pool1d(self, input):
    return F.adaptive_avg_pool1d(input, self.output_size)


@implements(nn.AdaptiveAvgPool2d.forward, tensors=True)
def adaptive_avg_pool2d(self, input):
    return F.adaptive_avg_pool2d(input, self.output_size)


@implements(nn.AdaptiveMaxPool1d.forward, tensors=True)
def adaptive_max_pool1d(self, input):
    return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


@implements(nn.AdaptiveMaxPool2d.forward, tensors=True)
def adaptive_max_pool2d(self, input):
    return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


# ---- padding and upsampling


@implements(nn.modules.padding._ConstantPadNd.forward, tensors=True)
def constant_pad(self, input):
    return F.pad(input, self.padding, "constant", self.value)


@implements(F.interpolate, torch.nn.functional.upsample)
def interpolate(
    input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
    antialias=False
):  # fmt: skip
    if mode != "nearest" or size is not None or antialias:
        rejected("an interpolation other than by a whole factor with mode='nearest'", "scale_factor=2")
    axes = input.ndim - 2
    factors = (scale_factor,) * axes if isinstance(scale_factor, int | float) else tuple(scale_factor)
    x = input
    for k in each(axes):
        if int(factors[k]) != factors[k]:
            rejected("an interpolation by a factor that is not whole", "scale_factor=2")
        x = np.repeat(x, int(factors[k]), axis=k + 2)
    return x


@implements(nn.Upsample.forward, tensors=True)
def upsample(self, input):
    return F.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners)
