"""Operators, attributes and methods of tensors of PyTorch: its promotion of dtypes, then NumPy's operations."""

from __future__ import annotations

import ast
import functools
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from acronumba.foreign import Library
from acronumba.frontend.arrays import keep_made, transposed
from acronumba.frontend.handlers import ARRAYS, ATTRIBUTES, EQUALS, KEPT, MADE, OPERANDS, READ, WORDS, handles
from acronumba.frontend.kinds.arrays import ArrayRef, Tensor
from acronumba.frontend.kinds.functions import Static
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.torch_tensors import TorchTensor, as_torch
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.walker import Walker
from acronumba.ir import nodes as ir
from acronumba.ir.types import BOOL, FLOAT, INT, TorchT

DEFAULT = "float32"  # PyTorch's default dtype
_PYTHON = {BOOL: "bool", INT: "int64"}


# ---- representation


@handles(WORDS, TorchT)
def _tensor_of_words(w: Walker, t: TorchT, vars: tuple[ir.Var, ...]) -> Val:
    array = w.from_words(t.inner, vars)
    return as_torch(array) if w.facts.tensors else array


@handles(READ, TorchTensor)
def _elements(w: Walker, val: TorchTensor) -> Val:
    return as_torch(elements(w, val))


@handles(KEPT, TorchTensor)
def _kept(w: Walker, val: TorchTensor) -> None:
    w.kept(val.inner)


@handles(MADE, TorchTensor)
def _made(w: Walker, val: TorchTensor) -> Val:
    return TorchTensor(keep_made(w, val.inner)) if isinstance(val.inner, Tensor) else val  # type: ignore[arg-type]


@handles(ARRAYS, TorchTensor)
def _no_array(w: Walker, val: TorchTensor, dtype: str | None) -> Tensor:
    raise w.reject("ACR301", seen=f"{w.describe(val)} where NumPy expects an array", rewrite=_in_torch(w))


_NAMES = {
    "concatenate": "cat", "maximum": "maximum", "power": "pow", "linspace": "linspace", "expand_dims": "unsqueeze",
    "take_along_axis": "gather", "tile": "tile", "copy": "clone", "flip": "flip", "array": "as_tensor",
    "asarray": "as_tensor", "absolute": "abs", "isnan": "isnan",
}  # fmt: skip


def _in_torch(w: Walker) -> str:
    """Return PyTorch's call for the call of NumPy that is being compiled, if PyTorch has one of this name."""
    node = w.here
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.keywords:
        name = _NAMES.get(node.func.attr, node.func.attr)
        if name in Library.functions():
            return f"torch.{name}({', '.join(map(ast.unparse, node.args))})"
    if isinstance(node, ast.List | ast.Tuple):
        return f"torch.cat({ast.unparse(node)}) or torch.stack({ast.unparse(node)}), whichever it is in PyTorch"
    return f"{ast.unparse(node)}.numpy()" if isinstance(node, ast.Name | ast.Attribute) else "x.numpy()"


# ---- operators


def category(dtype: str) -> int:
    """Return 0 for bool, 1 for ints, 2 for floats."""
    return {"b": 0, "f": 2}.get(np.dtype(dtype).kind, 1)


def promoted_dtype(operands: Sequence[Val]) -> str:
    """Return the dtype that PyTorch computes with: dimensions count before rank 0, and that before Python numbers.

    An operand of a lower rank of these decides only if its category (bool, int, float) is higher.
    """
    levels: list[list[str]] = [[], [], []]
    for v in operands:
        level_and_dtype = v.promotes_as()
        if level_and_dtype is not None:
            levels[level_and_dtype[0]].append(level_and_dtype[1])
    out = ""
    for level in reversed(levels):
        for dtype in level[1:]:
            level[0] = _promoted(level[0], dtype)
        out = _combined(level[0], out) if level else out
    return out


def python_dtype(num: Num, default: str = DEFAULT) -> str:
    """Return PyTorch's dtype of a Python number."""
    return default if num.type == FLOAT else _PYTHON.get(num.type, "int64")


def promoted_dtypes(dtypes: Sequence[str]) -> str:
    """Return PyTorch's dtype for several, which count alike."""
    return functools.reduce(_promoted, dtypes)


def _combined(higher: str, lower: str) -> str:
    if not lower or category(higher) == 2:
        return higher
    return _promoted(higher, lower) if category(higher) == 0 or category(lower) == 2 else higher


def _promoted(a: str, b: str) -> str:
    """Return PyTorch's dtype for two: an int and a float are of the float's dtype."""
    if category(a) != category(b):
        return a if category(a) > category(b) else b
    return str(np.promote_types(a, b).name)


def promoted(w: Walker, operands: Sequence[Val], floats: bool = False) -> list[Tensor]:
    """Return operands, of which one may be a Python number, as arrays of the dtype that PyTorch computes with.

    With `floats`, ints become floats of the default dtype.
    """
    dtype = promoted_dtype(operands)
    if floats and category(dtype) < 2:
        dtype = DEFAULT
    return [w.ops.from_number(v, dtype) if isinstance(v, Num) else w.ops.cast(array_of(w, v), dtype) for v in operands]


def array_of(w: Walker, val: Val) -> Tensor:
    """Return the elements of a tensor as an array; of rank 0, as a scalar."""
    array = elements(w, val) if isinstance(val, TorchTensor) else w.whole(val)
    assert isinstance(array, Tensor)
    return w.ops.as_scalar(array)


def elements(w: Walker, val: TorchTensor) -> Tensor:
    """Return the current elements of a tensor as an array."""
    x = w.whole(val.inner)
    assert isinstance(x, Tensor)
    return stopped(w, x, val.detached) if val.detached else x


def array_in(w: Walker, val: Val) -> Val:
    """Return the array of a tensor, also one that is written to, and any other value as it is."""
    if val.is_several:
        return w.each(val, lambda v: array_in(w, v))
    if not isinstance(val, TorchTensor):
        return val
    return elements(w, val) if val.detached else val.inner


def stopped(w: Walker, x: Tensor, alias: int = 0) -> Tensor:
    """Return an array through which no gradient flows, as a view.

    `alias`: the detached name that it is read through, or, if negative, written through. What is written through it has
    a gradient in PyTorch if it is read through it again: this is rejected when gradients are asked for.
    """
    if not x.type.dtype.startswith("float"):
        return x
    out = w.ops.op("scale_gradient", (x.ref,), x.type.dtype, x.dims, (0.0, alias) if alias else (0.0,), base=x)
    return out if x.array0 is None else replace(out, array0=x.array0)


def is_operand(val: Val) -> bool:
    """Whether an operator of tensors takes a value: a tensor, or a number of Python."""
    return isinstance(val, TorchTensor | Num)


def _number(w: Walker, val: Val) -> Val:
    """Return a NumPy scalar, such as `np.sqrt(n)`, as the number of Python that PyTorch takes it for."""
    is_scalar = isinstance(val, Tensor) and not val.type.rank and val.array0 is None
    return w.ops.host(val, "a NumPy scalar beside a tensor") if is_scalar else val  # type: ignore[arg-type]


@handles(OPERANDS, TorchTensor)
def _operator(w: Walker, op: ast.operator, a: Val, b: Val) -> Val | None:
    a, b = _number(w, a), _number(w, b)
    if not is_operand(a) or not is_operand(b):
        return None
    if isinstance(op, ast.MatMult) and not (isinstance(a, TorchTensor) and isinstance(b, TorchTensor)):
        return None
    out: Val = Library.operate(w, type(op), (a, b))
    return out


@handles(EQUALS, TorchTensor)
def _compared(w: Walker, op: ast.cmpop, a: Val, b: Val) -> Val | None:
    if isinstance(op, ast.Is | ast.IsNot):
        return number(_is(w, a, b) is isinstance(op, ast.Is))
    a, b = _number(w, a), _number(w, b)
    if any(isinstance(v, Tensor | ArrayRef) for v in (a, b)):
        raise w.reject(
            "ACR301", seen=f"a comparison of {w.describe(a)} and {w.describe(b)}", rewrite="torch.from_numpy(y)"
        )
    if not is_operand(a) or not is_operand(b):
        return number(isinstance(op, ast.NotEq)) if isinstance(op, ast.Eq | ast.NotEq) else None
    out: Val = Library.operate(w, type(op), (a, b))
    return out


def _is(w: Walker, a: Val, b: Val) -> bool:
    """Whether two values are certainly one tensor; False if they certainly are not."""
    if not isinstance(a, TorchTensor) or not isinstance(b, TorchTensor) or a.detached != b.detached:
        return False
    if a.inner.same(b.inner):
        return True
    shared = [isinstance(v.inner, Tensor) and isinstance(v.inner.ref, ir.SharedArg) for v in (a, b)]
    if all(shared) or a.is_own or b.is_own or (a.dtype, a.rank) != (b.dtype, b.rank):
        return False
    seen = "tensors that may be one object or two, as only run time knows"
    raise w.reject("ACR301", seen=seen, rewrite="compare indices or names in place of tensors")


# ---- attributes


@handles(ATTRIBUTES, TorchTensor)
def _attribute(w: Walker, val: TorchTensor, name: str) -> Val | None:
    """Read an attribute that tells the form of a tensor, or a view; methods are rows of `acronumba.torch.rows`."""
    inner = val.inner
    match name:
        case "shape":
            return TupleVal(tuple(w.extent(d) for d in inner.dims), shown=Library.size)
        case "ndim":
            return number(val.rank)
        case "dtype":
            return w.constant(torch_dtype(val.dtype))
        case "device":
            return w.constant(torch_device())
        case "is_cuda":
            return number(Library.device().type == "cuda")
        case "is_sparse" | "is_quantized":
            return number(False)
        case "requires_grad" if not val.dtype.startswith("float"):
            return number(False)
        case "requires_grad":
            seen = f".requires_grad of {w.describe(val)}, which may differ from instance to instance"
            raise w.reject("ACR209", seen=seen, rewrite="a flag of the module, such as self.training")
        case "grad" | "grad_fn":
            seen = f".{name} of {w.describe(val)}: a batch has gradients when all of it has been computed"
            raise w.reject("ACR209", seen=seen, rewrite="read it after `.backward()` of what the batch returns")
        case "data":
            return without_gradient(w, val)
        case "is_leaf" | "names" | "layout" | "real" | "imag" | "itemsize" | "nbytes":
            raise w.reject("ACR209", seen=f".{name} of {w.describe(val)}")
        case "T" | "mT" | "H":
            return _turned(w, val, name)
    return None


def _turned(w: Walker, val: TorchTensor, name: str) -> Val:
    """Return the view with all axes reversed (`T`), or the last two exchanged (`mT`, `H`)."""
    inner, rank = val.inner, val.rank
    if (name == "mT" and rank < 2) or (name == "H" and rank not in (0, 2)):
        raise w.reject("ACR402", seen=f".{name} of {w.describe(val)}")
    note_turned(w, rank)
    order = list(reversed(range(rank))) if name != "mT" else [*range(rank - 2), rank - 1, rank - 2]
    if isinstance(inner, ArrayRef):
        return TorchTensor(transposed(inner, order), val.detached)
    return as_torch(w.ops.transpose(inner, order))


def note_turned(w: Walker, rank: int) -> None:
    """Note that axes of a tensor are exchanged: results of operations on it may have PyTorch's order of its axes."""
    if rank > 1:
        w.facts.changed |= not w.facts.turned
        w.facts.turned = True


def without_gradient(w: Walker, val: TorchTensor) -> Val:
    """Return a tensor with the same memory, through which no gradient flows."""
    if not val.dtype.startswith("float"):
        return val
    if isinstance(val.inner, ArrayRef):
        return TorchTensor(val.inner, detached_at(w))
    return as_torch(stopped(w, val.inner))


def detached_at(w: Walker) -> int:
    """Return a number for the place in the source that makes a detached name of an array."""
    return 1 + zlib.crc32(f"{w.loc} {w.loc.caller}".encode())


def get_attribute(w: Walker, val: Val, name: str) -> Val:
    found = val.attribute(w, name)
    assert found is not None
    return found


def torch_dtype(name: str) -> object:
    """Return PyTorch's dtype of a name."""
    return Library.dtypes[name]


def torch_device() -> object:
    return Library.device()


def call_in(w: Walker, function: object, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val:
    return w.call(Static(function), args, kwargs)
