"""New tensors: of a value, of sequences and numbers, of Python's data."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from acronumba import nn
from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.of_shapes import runtime_list
from acronumba.frontend.calls.tables import row
from acronumba.frontend.comprehensions import array_of_range
from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.iterators import Range
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.torch_tensors import TorchTensor, as_torch
from acronumba.frontend.kinds.unions import UnionVal
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.library.decorators import primitive, rejected
from acronumba.frontend.torch_math import array_of, promoted_dtypes, python_dtype
from acronumba.frontend.walker import Walker
from acronumba.ir.types import BOOL, FLOAT, INT, ListT, TensorT, TorchT, Type
from acronumba.torch.implements import arrays, implements, is_tensor, numpy_dtype
from acronumba.torch.library import DTYPES
from acronumba.torch.primitives import sizes

# ---- of a shape and a value


def shape_of(given, size):
    """Return a shape that is given as ints, as one tuple or list, or as `size=`."""
    return sizes(given) if size is None else sizes((size,))


def known_dtype(dtype, default):
    """Return NumPy's dtype for one of PyTorch, or a default."""
    return default if dtype is None else numpy_dtype(dtype)


@implements(torch.zeros)
def zeros(*shape, size=None, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    return np.zeros(shape_of(shape, size), known_dtype(dtype, np.float32))


@implements(torch.empty)
def empty(
    *shape, size=None, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False,
    memory_format=None
):  # fmt: skip
    return np.zeros(shape_of(shape, size), known_dtype(dtype, np.float32))


@implements(torch.ones)
def ones(*shape, size=None, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    return np.ones(shape_of(shape, size), known_dtype(dtype, np.float32))


@implements(torch.full)
def full(size, fill_value, *, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    return filled(sizes((size,)), fill_value, None if dtype is None else numpy_dtype(dtype))


def filled(shape, value, dtype):
    """Return an array with one value; without a dtype, in PyTorch's for the value."""
    if dtype is not None:
        return np.full(shape, value, dtype)
    if isinstance(value, float):
        return np.full(shape, value, np.float32)
    return np.full(shape, value)


@implements(torch.zeros_like)
def zeros_like(
    input, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, memory_format=None
):
    return np.zeros(input.shape, known_dtype(dtype, input.dtype))


@implements(torch.empty_like)
def empty_like(
    input, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, memory_format=None
):
    return np.zeros(input.shape, known_dtype(dtype, input.dtype))


@implements(torch.ones_like)
def ones_like(
    input, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, memory_format=None
):
    return np.ones(input.shape, known_dtype(dtype, input.dtype))


@implements(torch.full_like)
def full_like(
    input, fill_value, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False,
    memory_format=None
):  # fmt: skip
    return np.full(input.shape, fill_value, known_dtype(dtype, input.dtype))


@implements(torch.Tensor.new_zeros)
def new_zeros(input, *shape, size=None, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    return np.zeros(shape_of(shape, size), known_dtype(dtype, input.dtype))


@implements(torch.Tensor.new_empty)
def new_empty(input, *shape, size=None, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    return np.zeros(shape_of(shape, size), known_dtype(dtype, input.dtype))


@implements(torch.Tensor.new_ones)
def new_ones(input, *shape, size=None, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    return np.ones(shape_of(shape, size), known_dtype(dtype, input.dtype))


@implements(torch.Tensor.new_full)
def new_full(input, size, fill_value, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    return np.full(sizes((size,)), fill_value, known_dtype(dtype, input.dtype))


# ---- sequences


@implements(torch.arange)
def arange(
    start=0, end=None, step=1, *, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False
):
    first, last = (0, start) if end is None else (start, end)
    floats = isinstance(first, float) or isinstance(last, float) or isinstance(step, float)
    kind = known_dtype(dtype, np.float32 if floats else np.int64)
    if floats and kind != np.float32 and kind != np.float64:
        if kind != np.int64:
            return rejected("torch.arange of floats in a dtype of small ints", "torch.arange(int(start), int(end))")
        return np.arange(int(first), int(last), int(step))  # as PyTorch does
    return np.arange(first, last, step).astype(kind)


@implements(torch.linspace)
def linspace(
    start, end, steps, *, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False
):
    kind = known_dtype(dtype, np.float32)
    if kind != np.float32 and kind != np.float64:
        return rejected("torch.linspace of ints", "torch.arange(start, end, step)")
    return np.linspace(start, end, steps).astype(kind)


@implements(torch.eye)
def eye(n, m=None, *, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    return np.eye(n, m, dtype=known_dtype(dtype, np.float32))


# ---- of data


@primitive(rule=lambda w, a: _made(w, a["data"], _name(w, a, "dtype"), a.static("default")), rank0="any", whole=True)
def made_of(data, dtype, default):
    """Return Python's data as an array of a dtype; else of the one that PyTorch infers."""
    raise NotImplementedError(data, dtype, default)


def _name(w: Walker, a: Args, name: str) -> str | None:
    dtype = a.static(name)
    return None if dtype is None else str(np.dtype(dtype).name)


def _made(w: Walker, data: Val, dtype: str | None, default: str) -> Val:
    data = w.whole(data)
    if isinstance(data, UnionVal):
        return w.each(data, lambda v: _made(w, v, dtype, default))
    if isinstance(data, Num):
        kind = dtype or python_dtype(data, default)
        return w.ops.as_array(_number(w, data, kind))
    if isinstance(data, TorchTensor | Tensor):
        return w.ops.as_array(w.ops.cast(array_of(w, data), dtype or array_of(w, data).type.dtype))
    if isinstance(data, Range):
        return w.ops.as_array(w.ops.cast(array_of_range(w, data, dtype and "int64"), dtype or "int64"))
    kinds = _leaves(w, data, default)
    if kinds is None:
        raise w.reject(
            "ACR301", seen=f"a tensor of {w.describe(data)}", rewrite="a number, a list of numbers, or an array"
        )
    found = dtype or (promoted_dtypes(kinds) if kinds else default)
    return w.ops.as_array(_gathered(w, data, found))


def _number(w: Walker, num: Num, dtype: str) -> Tensor:
    """Return a number in a dtype; a float becomes an int as in a cast."""
    if num.type == FLOAT and not dtype.startswith("float"):
        return w.ops.cast(w.ops.from_number(num, "float64"), dtype)
    if dtype == "bool":
        return w.ops.cast(w.ops.from_number(num, python_dtype(num, "float32")), dtype)
    return w.ops.from_number(num, dtype)


def _leaves(w: Walker, val: Val, default: str) -> list[str] | None:
    """Return the dtypes of the numbers, tensors and arrays in nested sequences; None if others are in them."""
    items = val.sequence(w)
    if items is not None:
        out: list[str] = []
        for v in items:
            found = _leaves(w, w.whole(v), default)
            if found is None:
                return None
            out += found
        return out
    if isinstance(val, Num):
        return [python_dtype(val, default)]
    if isinstance(val, TorchTensor | Tensor):
        return [array_of(w, val).type.dtype]
    runtime = runtime_list(w, val)
    return None if runtime is None else _item_dtype(runtime.item, default)


def _item_dtype(t: Type | None, default: str) -> list[str] | None:
    if isinstance(t, ListT):
        return _item_dtype(t.item, default)
    if t in (BOOL, INT, FLOAT):
        return [{BOOL: "bool", INT: "int64"}.get(t, default)]
    inner = t.inner if isinstance(t, TorchT) else t
    return [inner.dtype] if isinstance(inner, TensorT) else None


def _gathered(w: Walker, val: Val, dtype: str) -> Tensor:
    """Return nested sequences as an array of a dtype."""
    items = val.sequence(w)
    if items == ():
        return w.ops.full((0,), number(0), dtype)
    if items is not None:
        return w.ops.stack([_gathered(w, w.whole(v), dtype) for v in items], 0)
    if isinstance(val, Num):
        return _number(w, val, dtype)
    if isinstance(val, TorchTensor | Tensor):
        return w.ops.cast(array_of(w, val), dtype)
    runtime = runtime_list(w, val)
    assert runtime is not None
    if isinstance(runtime.item, TorchT):
        plain = w.call(w.constant(arrays), (runtime,), {})
        runtime = runtime_list(w, plain)
        assert runtime is not None
    return w.ops.cast(w.ops.as_tensor(runtime), dtype)


@implements(torch.tensor)
def tensor_of(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    return nn.stop_gradient(made_of(data, numpy_dtype(dtype), "float32"))


@implements(torch.as_tensor, torch.asarray)
def as_tensor(data, dtype=None, device=None):
    if is_tensor(data):
        return data if dtype is None else data.astype(numpy_dtype(dtype))
    return nn.stop_gradient(made_of(data, numpy_dtype(dtype), "float32"))


@implements(torch.scalar_tensor)
def scalar_tensor(s, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    return made_of(s, known_dtype(dtype, np.float32), "float32")


@implements(torch.from_numpy, views=True)
def from_numpy(ndarray):
    return ndarray


@implements(torch.Tensor.new_tensor)
def new_tensor(input, data, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    return nn.stop_gradient(made_of(data, known_dtype(dtype, input.dtype), "float32"))


# ---- the old classes of tensors: of a size, or of data


def _is_size(w: Walker, node: ast.AST | None, val: Val) -> bool:
    """Tell a size from data by the code, since a `torch.Size` is a tuple here."""
    node = node.value if isinstance(node, ast.Starred) else node
    call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "size"
    if call or (isinstance(node, ast.Attribute) and node.attr == "shape"):
        return True
    if issubclass(val.python_class, tuple) and not isinstance(node, ast.Tuple):
        raise w.reject("ACR202", node, seen="a tuple that may be a size or data", rewrite="x.new_zeros(size)")
    return False


def _old(w: Walker, node: ast.AST | None, given: Sequence[Val], dtype: str, default: str) -> Val:
    """Return a tensor of an old class: with zeros if it is given a size; without elements if it is given nothing."""
    given = given or [number(0)]
    if len(given) == 1 and not isinstance(given[0], Num):
        (data,) = given
        if isinstance(data, TorchTensor):
            if data.dtype != dtype:
                raise w.reject("ACR301", node, seen=f"a {dtype} tensor of {w.describe(data)}", rewrite="x.float()")
            return data
        if not _is_size(w, node, data):
            return as_torch(_made(w, data, dtype, default))
        given = [data]
    return w.call(w.constant(torch.zeros), given, {"dtype": w.constant(DTYPES[dtype])})


def _of_class(dtype: str) -> Any:
    return lambda w, a: _old(w, a.where["*args"], a.rest, dtype, "float32")


def _args(*args): ...


_CLASSES = {
    torch.Tensor: "float32", torch.FloatTensor: "float32", torch.DoubleTensor: "float64", torch.LongTensor: "int64",
    torch.IntTensor: "int32", torch.ShortTensor: "int16", torch.CharTensor: "int8", torch.ByteTensor: "uint8",
    torch.BoolTensor: "bool",
}  # fmt: skip
for _class, _dtype in _CLASSES.items():
    row("*args", _class, rank0="any", signature=_args)(_of_class(_dtype))


def _new(self, *args): ...


@row("self *args", torch.Tensor.new, rank0="any", signature=_new)
def _new_of(w: Walker, a: Args) -> Val:
    x = a["self"]
    assert isinstance(x, TorchTensor)
    return _old(w, a.where["*args"], a.rest, x.dtype, "float32")
