"""The decorator of the rows: `implements` registers the code of functions, methods and modules of PyTorch.

A row is written in the language of models, with NumPy. It gets the arrays of tensors, of rank 0 as arrays of rank 0;
the arrays in its result become tensors. PyTorch's promotion of dtypes is the primitive `promoted`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch.nn import functional

from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.tables import row
from acronumba.frontend.comprehensions import to_list
from acronumba.frontend.exceptions import Dead
from acronumba.frontend.kinds.arrays import ArrayRef, Tensor
from acronumba.frontend.kinds.lists import ElementInfo, ListVal
from acronumba.frontend.kinds.numbers import NoneVal, Num
from acronumba.frontend.kinds.torch_tensors import TorchTensor, as_arrays, as_detached, as_torch
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.unions import UnionVal
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.library.decorators import _bound, primitive
from acronumba.frontend.torch_math import array_in, array_of, stopped
from acronumba.frontend.torch_math import promoted as promoted_operands
from acronumba.frontend.torch_writes import change, write_into
from acronumba.frontend.walker import Walker
from acronumba.ir.types import TensorT, Type, as_array, members, type_text, union
from acronumba.torch.asking import NAMES, ODD, TENSORS, Answer, check_classes, checked
from acronumba.torch.devices import is_this, place

F = TypeVar("F", bound=Callable[..., Any])

# Functions that raise `RuntimeError` for shapes that do not fit, and `IndexError` for indices out of range.
CLEAR = frozenset(
    (functional.linear, functional.embedding, torch.matmul, torch.mm, torch.mv, torch.bmm, torch.cat, torch.stack)
)

# What PyTorch accepts for the names of parameters, besides its own.
ALIASES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "x2": "other", "self": "input"}


def implements(
    *functions: Any, tensors: bool = False, arrays: bool = False, views: bool = False, asks: bool = False,
    changes: bool = False
) -> Callable[[F], F]:  # fmt: skip
    """Register the decorated function as the code of functions, methods and `forward` of modules of PyTorch.

    With `tensors`, it gets tensors as they are; with `arrays`, arrays in its result stay arrays; with `views`, it gets
    arrays that are written to themselves, not their current elements, so that it can return views of them. With `asks`,
    PyTorch is asked whether it takes arguments of these dtypes and ranks, and of which dtypes and ranks the result is:
    only for functions that take tensors of any shape, of which all extents are 2. With `changes`, the first argument is
    a tensor, which gets the elements of the result in place, and is the result of the call.
    """

    def register(f: F) -> F:
        names = " ".join(f"*{p.name}" if p.kind == p.VAR_POSITIONAL else p.name for p in _parameters(f))
        for function in functions:
            shown = views or changes
            add = row(names, function, rank0="any", whole=tensors, views=shown, signature=f, aliases=ALIASES)
            handler = _handler(f, function, tensors, arrays, asks, views)
            add(_changing(handler) if changes else handler)
        return f

    return register


def _check_device(w: Walker, a: Args) -> None:
    """Reject the name of a device other than the CPU."""
    given = a.values.get("device")
    device = None if given is None else w.static(given)
    if isinstance(device, str | int | torch.device) and not is_this(device):
        seen = f"device={device!r} of {a.what}: a model computes on the {place()}"
        rewrite = 'device=x.device of a tensor, or a device that is "cpu" here'
        raise w.reject("ACR202", a.where.get("device"), seen=seen, rewrite=rewrite)


def _parameters(f: Callable[..., Any]) -> Sequence[inspect.Parameter]:
    return list(inspect.signature(f).parameters.values())


def _handler(
    f: Callable[..., Any], function: Any, tensors: bool, arrays: bool, asks: bool = False, views: bool = False
) -> Any:  # fmt: skip
    def handler(w: Walker, a: Args) -> Val:
        if "out" in a.given and not a.is_none("out"):
            return _into(w, a, handler, any(p.name == "dtype" for p in _parameters(f)))
        _check_device(w, a)
        said = None
        if asks:
            said = checked(w, a.what, function, *_given(f, a))
        elif _may_be_wrong(w, a):
            check_classes(w, a.what, function, *_given(f, a))
        without_gradient = [v for v in a.values.values() if isinstance(v, TorchTensor) and v.detached]
        if not tensors:
            for name, val in a.values.items():
                if isinstance(val, TorchTensor) or name.startswith("*"):
                    a = a.replaced(name, as_arrays(w, val))
        unclear, w.unclear = w.unclear, function not in CLEAR
        try:
            out = w.call(w.constant(f), *_bound(f, a))
        finally:
            w.unclear = unclear
        if arrays:
            return out
        out = _wrapped(w, out)
        if without_gradient:
            out = as_detached(_stopped(w, out) if views else out, without_gradient)
        if said is not None:
            _agrees(w, a.what, out, said)
        return out

    return handler


def _into(w: Walker, a: Args, handler: Any, makes: bool) -> Val:
    """Return the tensor given as `out`, with the elements of a tensor that is made of numbers, in its dtype."""
    x = a.into
    makes &= not any(isinstance(v, TorchTensor | Tensor | ArrayRef) for k, v in a.values.items() if k != "out")
    dtype = next((d for d, name in NAMES.items() if isinstance(x, TorchTensor) and name == x.dtype), None)
    asked = w.static(a["dtype"]) if "dtype" in a.given else None
    if not makes or not isinstance(x, TorchTensor) or dtype is None or asked not in (None, dtype):
        raise w.reject("ACR202", a.where["out"], seen=f"out= of {a.what}", rewrite="leave it out")
    new = handler(w, a.replaced("out", NoneVal()).replaced("dtype", w.constant(dtype)))
    w.check_poison(new)
    return w.each(new, lambda v: write_into(w, x, array_of(w, v), f"out= of {a.what}"))


def _stopped(w: Walker, val: Val) -> Val:
    """Return views of a detached tensor: no gradient flows through those that are copies of its elements."""
    if isinstance(val, TupleVal):
        return TupleVal(tuple(_stopped(w, v) for v in val.items))
    inner = val.inner if isinstance(val, TorchTensor) else None
    return as_torch(stopped(w, inner)) if isinstance(inner, Tensor) else val


def _changing(handler: Any) -> Any:
    """Return a handler that writes the elements of the result into the first argument."""

    def changing(w: Walker, a: Args) -> Val:
        name, x = next(iter(a.values.items()))
        if not isinstance(x, TorchTensor):
            raise w.reject("ACR301", a.where[name], seen=f"{w.describe(x)}, which {a.what} would change")
        for key, val in a.values.items():
            a = a.replaced(key, w.whole(val))
        new = handler(w, a)
        w.check_poison(new)
        return w.each(new, lambda v: change(w, x, array_of(w, v), a.what))

    return changing


def _may_be_wrong(w: Walker, a: Args) -> bool:
    """Whether an argument may be of a class that PyTorch does not take; in rows arrays are in the place of tensors."""
    given = [v for name, val in a.values.items() for v in (val.children() if name.startswith("*") else (val,))]
    if any(isinstance(v, Tensor | ArrayRef) for v in given):
        return w.outer_loc is None
    named = (isinstance(a.values.get(name), Num | NoneVal) for name in TENSORS)
    return any(named) or any(issubclass(v.python_class, ODD) for v in given)


def _given(f: Callable[..., Any], a: Args) -> tuple[list[Val], dict[str, Val]]:
    """Return the arguments of a call that were given, by position as far as possible."""
    args: list[Val] = []
    named: dict[str, Val] = {}
    for p in _parameters(f):
        if p.kind == p.VAR_POSITIONAL:
            args += a.rest
        elif p.name not in a.given:
            continue
        elif p.kind == p.POSITIONAL_OR_KEYWORD and not named and len(args) == _parameters(f).index(p):
            args.append(a[p.name])
        else:
            named[p.name] = a[p.name]
    return args, named


def _agrees(w: Walker, what: str, out: Val, said: Answer) -> None:
    """Reject a call whose result has another dtype or rank than PyTorch's: its row does not cover it."""
    tensors = [v for v in (out, *out.children()) if isinstance(v, TorchTensor)]
    for v, dtype, rank in zip(tensors, said.dtypes, said.ranks, strict=False):
        if (v.dtype, v.rank) != (dtype, rank):
            seen = f"{what}, whose result is a {dtype or 'complex'} tensor with {rank} axes"
            raise w.reject("ACR202", seen=seen, message="this function of PyTorch is not supported for these dtypes",
                           rewrite="x.float()")  # fmt: skip


def _wrapped(w: Walker, val: Val) -> Val:
    """Return the result of a row with its arrays as tensors."""
    if isinstance(val, UnionVal):
        return w.each(val, lambda v: _wrapped(w, v))
    if isinstance(val, ListVal) and isinstance(val.item, TensorT):  # of a length that only run time knows
        made = w.call(w.constant(_each_tensor), (val.plain,), {})
        return replace(made, cls=val.cls) if isinstance(made, ListVal) else made
    return as_torch(val)


def _each_tensor(arrays: Any) -> Any:
    return [tensor(x) for x in arrays]


# ---- primitives


def _promoted(w: Walker, a: Args) -> Val:
    floats = a.static("floats")
    return TupleVal(tuple(promoted_operands(w, a.rest, floats)))


@primitive(rule=_promoted, rank0="any")
def promoted(*operands: Any, floats: bool = False) -> Any:
    """Return arrays and Python numbers as arrays of the dtype that PyTorch computes with."""
    raise NotImplementedError(operands, floats)


def _array(w: Walker, a: Args) -> Val:
    return array_in(w, a["x"])


@primitive(rule=_array, rank0="any", whole=True)
def array(x: Any) -> Any:
    """Return the array of a tensor, and any other value as it is."""
    return x.detach().numpy() if isinstance(x, torch.Tensor) else x


def _tensor(w: Walker, a: Args) -> Val:
    return _wrapped(w, a["x"])


@primitive(rule=_tensor, rank0="any", whole=True)
def tensor(x: Any) -> Any:
    """Return an array as a tensor."""
    return torch.from_numpy(np.asarray(x))


def _arrays(w: Walker, a: Args) -> Val:
    val = a["tensors"]
    if isinstance(val, TorchTensor):
        raise w.reject("ACR301", seen=f"{w.describe(val)} where PyTorch expects a list of tensors", rewrite="list(x)")
    items = w.items_of(val)
    if items is not None:
        for k, v in enumerate(items):
            if isinstance(v, Num | NoneVal):
                w.fail("TypeError", f"expected Tensor as element {k} in argument 0, but got {_class_name(v)}")
                raise Dead
        return TupleVal(tuple(array_in(w, v) for v in items))
    found = to_list(w, val)
    cell = ElementInfo(item=_unmarked(found.item), real=True, fixed=True)
    return replace(found, cell=cell, cls=list, extra=None, own=False)


def _class_name(val: Num | NoneVal) -> str:
    return "NoneType" if isinstance(val, NoneVal) else type_text(val.type)


def _unmarked(t: Type) -> Type:
    """Return the type of the arrays of tensors."""
    return union(*map(as_array, members(t)))


@primitive(rule=_arrays, rank0="any", whole=True)
def arrays(tensors: Any) -> Any:
    """Return the arrays of the tensors in a list or tuple."""
    raise NotImplementedError(tensors)


def _is_tensor(w: Walker, a: Args) -> Val:
    val = a["x"]
    return w.constant(isinstance(val, TorchTensor | Tensor | ArrayRef))


@primitive(rule=_is_tensor, rank0="any", whole=True)
def is_tensor(x: Any) -> Any:
    """Whether a value is a tensor, or the array of one: known when the model is compiled."""
    raise NotImplementedError(x)


def _dtype(w: Walker, a: Args) -> Val:
    value = w.static(a["dtype"])
    if value is None:
        return NoneVal()
    if value not in NAMES:
        raise w.reject("ACR310", seen=w.describe(a["dtype"]), rewrite="torch.float32")
    return w.constant(np.dtype(NAMES[value]))


@primitive(rule=_dtype, rank0="any", whole=True)
def numpy_dtype(dtype: Any) -> Any:
    """Return NumPy's dtype for one of PyTorch; None for None."""
    return None if dtype is None else np.dtype(NAMES[dtype])
