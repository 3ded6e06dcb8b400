"""Conversions of tensors: to other dtypes, to Python's numbers and NumPy's arrays, to tensors without a gradient."""

from __future__ import annotations

import numpy as np
import torch

from acronumba import nn
from acronumba.frontend.library.decorators import rejected
from acronumba.torch.implements import implements, is_tensor, numpy_dtype

# ---- dtypes


@implements(torch.Tensor.float)
def to_float(input, memory_format=torch.preserve_format):
    return cast(input, np.float32)


@implements(torch.Tensor.double)
def to_double(input, memory_format=torch.preserve_format):
    return cast(input, np.float64)


@implements(torch.Tensor.long)
def to_long(input, memory_format=torch.preserve_format):
    return cast(input, np.int64)


@implements(torch.Tensor.int)
def to_int(input, memory_format=torch.preserve_format):
    return cast(input, np.int32)


@implements(torch.Tensor.short)
def to_short(input, memory_format=torch.preserve_format):
    return cast(input, np.int16)


@implements(torch.Tensor.char)
def to_char(input, memory_format=torch.preserve_format):
    return cast(input, np.int8)


@implements(torch.Tensor.byte)
def to_byte(input, memory_format=torch.preserve_format):
    return cast(input, np.uint8)


@implements(torch.Tensor.bool)
def to_bool(input, memory_format=torch.preserve_format):
    return cast(input, np.bool_)


@implements(torch.Tensor.half, torch.Tensor.bfloat16)
def to_half(input, memory_format=torch.preserve_format):
    return rejected("a tensor of 16-bit floats", "x.float()")


def cast(x, dtype):
    """Return an array in a dtype: itself if it has it."""
    return x if x.dtype == dtype else x.astype(dtype)


@implements(torch.Tensor.type_as)
def type_as(input, other):
    return cast(input, other.dtype)


@implements(torch.Tensor.to)
def to(input, *args, dtype=None, device=None, non_blocking=False, copy=False, memory_format=torch.preserve_format):
    if device is not None and str_of(device) != "cpu":
        return rejected(".to() of another device", 'x.to("cpu")')
    if dtype is not None:
        out = cast(input, numpy_dtype(dtype))
    elif len(args) == 0:
        out = input
    elif is_tensor(args[0]):
        out = cast(input, args[0].dtype)
    elif isinstance(args[0], torch.dtype):
        out = cast(input, numpy_dtype(args[0]))
    elif str_of(args[0]) != "cpu":
        return rejected(".to() of another device", 'x.to("cpu")')
    elif len(args) > 1 and args[1] is not None:
        out = cast(input, numpy_dtype(args[1]))
    else:
        out = input
    return out.copy() if copy else out


def str_of(device):
    """Return the name of a device."""
    return device if isinstance(device, str) else device.type


# ---- the same elements


@implements(torch.Tensor.cpu)
def cpu(input, memory_format=torch.preserve_format):
    return input


@implements(torch.Tensor.clone, torch.clone)
def clone(input, *, memory_format=torch.preserve_format):
    return input.copy()


@implements(torch.Tensor.requires_grad_, tensors=True)
def requires_grad_(self, requires_grad=True):
    return self


@implements(torch.autograd.Variable)
def variable(data, requires_grad=False, volatile=False):
    return data


@implements(torch.Tensor.detach, torch.detach, torch.Tensor.detach_)
def detach(input):
    return nn.stop_gradient(input)


@implements(torch.Tensor.cuda)
def cuda(input, device=None, non_blocking=False, memory_format=torch.preserve_format):
    return rejected(".cuda(): a model computes on the CPU", "x.to(device), with a device that is the CPU's")


# ---- numbers and arrays


@implements(torch.Tensor.item)
def item(input):
    return input.item()


@implements(torch.Tensor.tolist, arrays=True)
def tolist(input):
    return input.tolist()


@implements(torch.Tensor.numpy, arrays=True)
def numpy(input, *, force=False):
    return input


# ---- facts


@implements(torch.is_tensor, tensors=True)
def is_tensor_of(obj):
    return is_tensor(obj)


@implements(torch.is_floating_point, torch.Tensor.is_floating_point)
def is_floating_point(input):
    return input.dtype.kind == "f"


@implements(torch.is_complex, torch.Tensor.is_complex)
def is_complex(input):
    return False


@implements(torch.Tensor.is_contiguous)
def is_contiguous(input, memory_format=torch.contiguous_format):
    return True


@implements(torch.get_default_dtype)
def default_dtype():
    return torch.float32
