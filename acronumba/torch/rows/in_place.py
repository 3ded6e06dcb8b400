"""Functions and methods that write into a tensor: `x.tanh_()`, `x.fill_(v)`, `F.relu(x, inplace=True)`.

Most are derived: `x.f_(...)` gives a tensor the elements of `x.f(...)`, if that has a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.call import distribute
from acronumba.frontend.calls.tables import ROWS, Row, row, row_of
from acronumba.frontend.kinds.torch_tensors import TorchTensor
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.library.decorators import rejected
from acronumba.frontend.torch_math import array_of
from acronumba.frontend.torch_writes import change, reshape_in_place
from acronumba.frontend.walker import Walker
from acronumba.torch.implements import ALIASES, implements, is_tensor

T = torch.Tensor

# Methods whose elements are not those of the method without the underscore, or which are no writes.
OTHERS = frozenset(
    "bernoulli_ detach_ requires_grad_ share_memory_ resize_ resize_as_ set_ as_strided_ index_put_ put_ map_ map2_ "
    "apply_ random_ normal_ uniform_ sparse_resize_ rename_".split()
)
# Methods that give a tensor another shape, not other elements.
SHAPES = frozenset("squeeze_ unsqueeze_ t_ transpose_ swapaxes_ swapdims_".split())


# ---- written as models are


@implements(T.fill_, torch.fill_, changes=True)
def fill(input, value):
    return np.broadcast_to(element(value, input.dtype), input.shape)


def element(value, dtype):
    """Return a number, or the element of a tensor of rank 0, in a dtype."""
    if not is_tensor(value):
        return np.full((), value, dtype)
    if value.ndim != 0:
        rejected("fill_ with a tensor that has dimensions", "x.copy_(value)")
    return value.astype(dtype)


@implements(T.zero_, torch.zero_, changes=True)
def zero(input):
    return np.zeros(input.shape, input.dtype)


@implements(T.copy_, changes=True)
def copy(input, src, non_blocking=False):
    return np.broadcast_to(src, input.shape).astype(input.dtype)


@implements(T.fill_diagonal_, changes=True)
def fill_diagonal(input, fill_value, wrap=False):
    if wrap or input.ndim != 2:
        rejected("fill_diagonal_ with wrap=True, or of a tensor that is no matrix", "x[k, k] = v")
    on = np.arange(input.shape[0])[:, None] == np.arange(input.shape[1])
    return np.where(on, np.full((), fill_value, input.dtype), input)


@implements(T.detach_, torch.detach_, tensors=True)
def detach(input):
    return input.copy_(input.data)


@implements(T.index_put_, torch.index_put_, tensors=True)
def index_put(input, indices, values, accumulate=False):
    if not accumulate:
        input[tuple(indices)] = values
        return input
    if len(indices) != 1 or indices[0].dtype == torch.bool:
        rejected("index_put_ with accumulate=True and more than one index", "x.index_add_(0, index, values)")
    return input.index_add_(0, indices[0], values.expand(len(indices[0]), *input.shape[1:]))


# ---- derived


def _first(a: Args) -> tuple[str, TorchTensor]:
    name, val = next(iter(a.values.items()))
    if not isinstance(val, TorchTensor):
        raise a.w.reject("ACR301", a.where[name], seen=f"{a.w.describe(val)}, which {a.what} would change")
    return name, val


def _read(w: Walker, a: Args) -> Args:
    """Return arguments with the current elements of tensors that are written to."""
    for name, val in a.values.items():
        if name.startswith("*") and isinstance(val, TupleVal):
            a = a.replaced(name, TupleVal(tuple(map(w.whole, val.items))))
        else:
            a = a.replaced(name, w.whole(val))
    return a


def _changed(w: Walker, a: Args, out: Row) -> Val:
    """Give the first argument the elements that a function computes; return it."""
    _, x = _first(a)
    new = distribute(w, out, a if out.whole else _read(w, a))
    w.check_poison(new)
    return w.each(new, lambda v: change(w, x, array_of(w, v), a.what))


def _in_place(out: Row) -> Any:
    return lambda w, a: _changed(w, a, out)


def _shape_in_place(out: Row) -> Any:
    return lambda w, a: reshape_in_place(w, _first(a)[1], distribute(w, out, a), a.what)


def _if_asked(out: Row) -> Any:
    """Return the handler of a function with a parameter `inplace`."""

    def handler(w: Walker, a: Args) -> Val:
        if a.static("inplace"):
            return _changed(w, a, out)
        return distribute(w, out, a if out.whole else _read(w, a))

    return handler


def _pairs() -> Iterator[tuple[str, Any, Any]]:
    """Yield the functions that write into a tensor, each with its name and the function of the same elements."""
    for holder in (T, torch, F):
        for name in dir(holder):
            if name.endswith("_") and not name.startswith("_") and name not in OTHERS:
                yield name, getattr(holder, name), getattr(holder, name[:-1], None)


def derive() -> None:
    """Add the rows of functions that write into a tensor; the rows of other functions have been added."""
    for r in list(ROWS.values()):
        if "inplace" in r.honoured.split() and _of_torch(r.function):
            ROWS[r.function] = replace(r, views=not r.whole, handler=_if_asked(r))
    for name, function, other in _pairs():
        out = None if other is None else row_of(other)
        if out is None or row_of(function) is not None or not _of_torch(function):
            continue
        make = _shape_in_place if name in SHAPES else _in_place
        add = row(out.honoured, function, views=True, rank0="any", signature=out.signature, aliases=ALIASES)
        add(make(replace(out, what=f".{name}", handler=out.handler)))


def _of_torch(function: Any) -> bool:
    module = getattr(function, "__module__", None) or getattr(getattr(function, "__objclass__", None), "__module__", "")
    return (module or "torch").split(".")[0] == "torch"
