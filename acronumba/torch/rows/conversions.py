"""Conversions of tensors: to other dtypes, to Python's numbers and NumPy's arrays, to tensors without a gradient."""

from __future__ import annotations

import numpy as np
import torch

from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.tables import row
from acronumba.frontend.kinds.numbers import number
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.library.decorators import primitive, rejected
from acronumba.frontend.walker import Walker
from acronumba.torch.devices import is_this, this_device
from acronumba.torch.implements import implements, is_tensor, numpy_dtype

_CLASSES = {
    "float32": "torch.FloatTensor", "float64": "torch.DoubleTensor", "int64": "torch.LongTensor",
    "int32": "torch.IntTensor", "int16": "torch.ShortTensor", "int8": "torch.CharTensor", "uint8": "torch.ByteTensor",
    "bool": "torch.BoolTensor",
}  # fmt: skip
HAS_CUDA = torch.cuda.is_available()


# ---- dtypes


@implements(torch.Tensor.float, views=True)
def to_float(input, memory_format=torch.preserve_format):
    return cast(input, np.float32)


@implements(torch.Tensor.double, views=True)
def to_double(input, memory_format=torch.preserve_format):
    return cast(input, np.float64)


@implements(torch.Tensor.long, views=True)
def to_long(input, memory_format=torch.preserve_format):
    return cast(input, np.int64)


@implements(torch.Tensor.int, views=True)
def to_int(input, memory_format=torch.preserve_format):
    return cast(input, np.int32)


@implements(torch.Tensor.short, views=True)
def to_short(input, memory_format=torch.preserve_format):
    return cast(input, np.int16)


@implements(torch.Tensor.char, views=True)
def to_char(input, memory_format=torch.preserve_format):
    return cast(input, np.int8)


@implements(torch.Tensor.byte, views=True)
def to_byte(input, memory_format=torch.preserve_format):
    return cast(input, np.uint8)


@implements(torch.Tensor.bool, views=True)
def to_bool(input, memory_format=torch.preserve_format):
    return cast(input, np.bool_)


@implements(torch.Tensor.half, torch.Tensor.bfloat16)
def to_half(input, memory_format=torch.preserve_format):
    return rejected("a tensor of 16-bit floats", "x.float()")


def cast(x, dtype):
    """Return an array in a dtype: itself if it has it."""
    return x if x.dtype == dtype else x.astype(dtype)


@implements(torch.Tensor.type_as, views=True)
def type_as(input, other):
    return cast(input, other.dtype)


@implements(torch.Tensor.to, views=True)
def to(input, *args, dtype=None, device=None, non_blocking=False, copy=False, memory_format=torch.preserve_format):
    if device is not None and not is_cpu(device):
        return rejected(".to() of another device", 'x.to("cpu")')
    wanted = dtype
    if len(args) > 0:
        if is_tensor(args[0]):
            return cast(input, args[0].dtype)
        if not is_device(args[0]):
            wanted = args[0]
        elif not is_cpu(args[0]):
            return rejected(".to() of another device", 'x.to("cpu")')
        elif len(args) > 1:
            wanted = args[1]
    out = input if wanted is None else cast(input, numpy_dtype(wanted))
    return out.copy() if copy else out


@primitive(rule=lambda w, a: number(isinstance(w.static(a["x"]), str | torch.device)), whole=True)
def is_device(x):
    """Whether an argument is a device, or the name of one."""
    raise NotImplementedError(x)


@primitive(rule=lambda w, a: number(is_this(a.static("device"))), whole=True)
def is_cpu(device):
    """Whether a device is the CPU, or the one that a model computes on."""
    raise NotImplementedError(device)


@primitive(rule=lambda w, a: number(this_device().type == a.static("kind")), whole=True)
def computes_on(kind):
    """Whether a model computes on a device of a kind."""
    raise NotImplementedError(kind)


@primitive(rule=lambda w, a: w.constant(_CLASSES[str(np.dtype(a.static("dtype")).name)]))
def class_of(dtype):
    """Return the name of PyTorch's old class of tensors of a dtype."""
    raise NotImplementedError(dtype)


def _dtype_of_class(w: Walker, a: Args) -> Val:
    value = w.static(a["dtype"])
    names = {f"torch.{value}" if not isinstance(value, str) else value, getattr(value, "__name__", "")}
    found = [d for d, name in _CLASSES.items() if name in names or name.removeprefix("torch.") in names]
    return w.constant(np.dtype(found[0])) if found else w.call(w.constant(numpy_dtype), (a["dtype"],), {})


@primitive(rule=_dtype_of_class, rank0="any", whole=True)
def dtype_of_class(dtype):
    """Return NumPy's dtype for one of PyTorch, or for an old class of tensors or its name."""
    raise NotImplementedError(dtype)


@implements(torch.Tensor.type, views=True)
def type_of(input, dtype=None, non_blocking=False):
    if dtype is None:
        return class_of(input.dtype)
    return cast(input, dtype_of_class(dtype))


# ---- devices


def _device(w: Walker, a: Args) -> Val:
    return w.constant(torch.device(*[v for v in (a.static("type"), a.static("index")) if v is not None]))


row("type index", torch.device, rank0="any", signature=lambda type, index=None: None)(_device)


@implements(torch.cuda.is_available)
def cuda_is_available():
    return HAS_CUDA


# ---- the same elements


@implements(torch.Tensor.cpu, views=True)
def cpu(input, memory_format=torch.preserve_format):
    return input


@implements(torch.Tensor.clone, torch.clone)
def clone(input, *, memory_format=torch.preserve_format):
    return input.copy()


@implements(torch.Tensor.requires_grad_, tensors=True)
def requires_grad_(self, requires_grad=True):
    return self


@implements(torch.autograd.Variable, views=True)
def variable(data, requires_grad=False, volatile=False):
    return data


@implements(torch.Tensor.detach, torch.detach, tensors=True)
def detach(input):
    return input.data


@implements(torch.Tensor.cuda, views=True)
def cuda(input, device=None, non_blocking=False, memory_format=torch.preserve_format):
    if computes_on("cuda"):
        return input
    return rejected(".cuda(): a model computes on the CPU", "x.to(device), with a device that is the CPU's")


# ---- numbers and arrays


@implements(torch.Tensor.item)
def item(input):
    return input.item()


@implements(torch.Tensor.tolist, arrays=True)
def tolist(input):
    if input.ndim == 2:
        return [row.tolist() for row in input]
    if input.ndim == 3:
        return [[row.tolist() for row in part] for part in input]
    return input.tolist()


@implements(torch.Tensor.numpy, arrays=True, views=True)
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
