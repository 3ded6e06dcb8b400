"""Handlers of NumPy's functions that join, split, reshape, reorder, copy and index arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from acronumba.frontend.attributes import not_none
from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.objects import is_tuple
from acronumba.frontend.calls.tables import Handler, row
from acronumba.frontend.comprehensions import all_items, concat_list, stack_list, uniform
from acronumba.frontend.conditions import host_value
from acronumba.frontend.exceptions import Dead
from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.lists import ListVal
from acronumba.frontend.kinds.numbers import EnumVal, NoneVal, Num, number
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.unions import UnionVal
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.lists import new_list
from acronumba.frontend.subscripts import slice_bound
from acronumba.ir import nodes as ir
from acronumba.ir.types import BOOL, NEVER, Array0T, TensorT

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


def _tensor_items(w: Walker, a: Args) -> list[Tensor]:
    """Return the arrays in the argument `arrays`; their number must be known at compile time."""
    with w.at_node(a.where["arrays"]):
        return _tensors_of(w, a["arrays"])


def _tensors_of(w: Walker, val: Val) -> list[Tensor]:
    if val.is_lazy:
        val = all_items(w, val)
    items = w.items_of(val)
    if items is None and isinstance(val, Tensor) and val.type.rank and isinstance(val.dims[0], int):
        items = tuple(w.ops.take(val, number(k), 0) for k in range(val.dims[0]))
    if items is None:
        raise w.reject("ACR202", seen=f"{w.describe(val)}, whose length is known only at run time",
                       rewrite="add the parts up one by one, or keep them in the list")  # fmt: skip
    return [w.ops.as_tensor(not_none(w, v)) for v in items]


def _by_items(w: Walker, a: Args, handler: Handler) -> Val | None:
    """Call the handler once per alternative of the first union in `arrays`; None if there is no union, or over four."""
    items = None if a["arrays"].is_lazy else w.items_of(a["arrays"])
    several = [k for k, v in enumerate(items or ()) if isinstance(v, UnionVal)]
    if items is None or not 0 < len(several) <= 4:
        return None
    k = several[0]

    def one(case: Val) -> Val:
        return handler(w, a.replaced("arrays", TupleVal((*items[:k], case, *items[k + 1 :]))))

    return w.each(items[k], one)


@row("arrays axis dtype casting", np.concatenate)
def _concatenate(w: Walker, a: Args) -> Val:
    split = _by_items(w, a, _concatenate)
    if split is not None:
        return split
    runtime = runtime_list(w, a["arrays"])
    if runtime is not None and runtime.item == NEVER:  # the list is empty: no axis is valid
        w.ops.some_arrays(runtime, "concatenate")
    if runtime is not None and a.static("axis") is None:
        return w.ops.flatten(_as_asked(w, a, stack_list(w, runtime, 0)))
    if runtime is not None:
        axis = a.axis("axis", _item_rank(runtime) or 1)
        return _as_asked(w, a, concat_list(w, runtime, axis))
    tensors, dtype = _tensor_items(w, a), a.dtype()
    if not tensors:
        w.fail("ValueError", "need at least one array to concatenate")
        raise Dead
    a.may_cast(tensors, dtype)
    if a.static("axis") is None:
        return w.ops.concat([w.ops.flatten(t) for t in tensors], 0, dtype)
    return w.ops.concat(tensors, a.axis("axis", _rank(tensors) or 1), dtype)


def _rank(tensors: list[Tensor]) -> int:
    return max((t.type.rank for t in tensors), default=1)


@row("arrays axis dtype casting", np.stack)
def _stack(w: Walker, a: Args) -> Val:
    split = _by_items(w, a, _stack)
    if split is not None:
        return split
    runtime = runtime_list(w, a["arrays"])
    if runtime is not None:
        if runtime.item == NEVER:  # the list is empty: no axis is valid
            w.ops.some_arrays(runtime, "stack")
        return _as_asked(w, a, stack_list(w, runtime, a.axis("axis", _item_rank(runtime) + 1)))
    tensors, dtype = _tensor_items(w, a), a.dtype()
    if not tensors:
        w.fail("ValueError", "need at least one array to stack")
        raise Dead
    a.may_cast(tensors, dtype)
    if dtype is not None:
        tensors = [w.ops.cast(t, dtype) for t in tensors]
    return w.ops.stack(tensors, a.axis("axis", _rank(tensors) + 1))


def runtime_list(w: Walker, val: Val) -> ListVal | None:
    if val.is_lazy:
        val = all_items(w, val)
    if isinstance(val, ListVal) and isinstance(val.item, Array0T):
        return uniform(w, val)
    return val if isinstance(val, ListVal) else None


def _item_rank(runtime: ListVal) -> int:
    return len(runtime.item.shape) if isinstance(runtime.item, TensorT) else 0


def _as_asked(w: Walker, a: Args, x: Tensor) -> Tensor:
    """Cast to the argument `dtype`, if `casting` allows it."""
    dtype = a.dtype()
    a.may_cast([x], dtype)
    return x if dtype is None else w.ops.cast(x, dtype)


def _side_by_side(w: Walker, a: Args, rank: int, axis: int) -> Val:
    """Concatenate along `axis` (vectors along axis 0), with leading axes added to arrays of less than `rank` axes."""
    split = _by_items(w, a, lambda w, a: _side_by_side(w, a, rank, axis))
    if split is not None:
        return split
    runtime = runtime_list(w, a["arrays"])
    if runtime is not None:
        own = _item_rank(runtime)
        if own >= rank:
            return _as_asked(w, a, concat_list(w, runtime, 0 if own == 1 else axis))
        x = _as_asked(w, a, stack_list(w, runtime, 0))  # the list is the first axis; added axes have extent 1
        return w.ops.reshape(x, (x.dims[0], *(1,) * (rank - 1 - own), *x.dims[1:]))
    tensors, dtype = _tensor_items(w, a), a.dtype()
    a.may_cast(tensors, dtype)
    tensors = [w.ops.reshape(t, (*(1,) * (rank - t.type.rank), *t.dims)) for t in tensors]
    return w.ops.concat(tensors, 0 if _rank(tensors) == 1 else axis, dtype)


@row("arrays dtype casting", np.hstack)
def _hstack(w: Walker, a: Args) -> Val:
    return _side_by_side(w, a, 1, 1)


@row("arrays dtype casting", np.vstack)
def _vstack(w: Walker, a: Args) -> Val:
    return _side_by_side(w, a, 2, 0)


@row("x sections axis", np.split)
def _split(w: Walker, a: Args) -> Val:
    x = a.tensor("x")
    axis = a.axis("axis", x.type.rank)
    sections = a["sections"]
    if isinstance(sections, Num):
        if a["x"].python_class is not object:  # NumPy asks for its shape
            seen = f"np.split of {w.describe(a['x'])} into a number of parts"
            raise w.reject("ACR301", a.where["x"], seen=seen, rewrite="np.split(np.array(xs), n)")
        parts = w.ops.split(x, a.whole("sections"), axis)
        return new_list(w, parts)
    items = w.items_of(sections)
    if items is None:
        raise w.reject("ACR301", a.where["sections"], seen=f"a split at {w.describe(sections)}")
    with w.at_node(a.where["sections"]):
        cuts = [slice_bound(w, v) for v in items]
    if not all(isinstance(v, Num) for v in cuts):
        raise w.reject("ACR301", a.where["sections"], seen=f"a split at {w.describe(sections)}")
    return new_list(w, w.ops.split(x, cuts, axis))  # type: ignore[arg-type]


def _shape(w: Walker, a: Args, name: str = "shape") -> list[Num]:
    """Return the extents in the argument of a shape: a single one, or a sequence."""
    val, where = a[name], a.where[name]
    items = w.items_of(val)
    if items is None and (val.is_list or is_tuple(val)):
        raise w.reject("ACR403", where, seen=f"a shape {w.describe(val)}")
    with w.at_node(where):
        out = [host_value(w, v, "a shape", index=True) for v in ((val,) if items is None else items)]
    if any(n.type == BOOL for n in out):
        raise w.reject("ACR301", where, seen="a shape of bool", rewrite="int(x)")
    return out


def extents(w: Walker, a: Args, name: str = "shape") -> list[ir.Extent]:
    return [w.as_extent(n) for n in _shape(w, a, name)]


def _reshaped(w: Walker, a: Args, shape: list[Num]) -> Tensor:
    """Reshape; Fortran order, where the first axis varies fastest, is C order with all axes reversed."""
    x = a.tensor("x")
    if a.choice("order", "C", "F") == "C":
        return w.ops.reshape_to(x, shape)
    return _reversed(w, w.ops.reshape_to(_reversed(w, x), shape[::-1]))


def _reversed(w: Walker, x: Tensor) -> Tensor:
    return w.ops.transpose(x, tuple(reversed(range(x.type.rank))))


@row("x shape order", np.reshape, rank0="first")
def _reshape(w: Walker, a: Args) -> Val:
    return _reshaped(w, a, _shape(w, a))


@row("x *shape order", np.ndarray.reshape, rank0="first")
def _reshape_method(w: Walker, a: Args) -> Val:
    parts = a.rest
    if not parts:
        raise w.reject("ACR203", seen=".reshape without a shape")
    return _reshaped(w, a, _shape(w, a.replaced("*shape", parts[0]) if len(parts) == 1 else a, "*shape"))


def _transposed(w: Walker, a: Args, name: str) -> Tensor:
    x = a.tensor("x")
    order = a.axes(name, x.type.rank, lists=True)
    if len(order) != x.type.rank:
        raise w.reject("ACR402", a.where[name], seen=f"axes {order} of a tensor of rank {x.type.rank}")
    return w.ops.transpose(x, order)


@row("x axes", np.transpose, rank0="first")
def _transpose(w: Walker, a: Args) -> Val:
    return _reversed(w, a.tensor("x")) if a.static("axes") is None else _transposed(w, a, "axes")


@row("x *axes", np.ndarray.transpose, rank0="first")
def _transpose_method(w: Walker, a: Args) -> Val:
    parts = a.rest
    if not parts or (len(parts) == 1 and isinstance(parts[0], NoneVal)):
        return _reversed(w, a.tensor("x"))
    return _transposed(w, a.replaced("*axes", parts[0]) if len(parts) == 1 else a, "*axes")


@row("x i j", np.swapaxes, np.ndarray.swapaxes)
def _swapaxes(w: Walker, a: Args) -> Val:
    x = a.tensor("x")
    order = list(range(x.type.rank))
    i, j = a.axis("i", x.type.rank), a.axis("j", x.type.rank)
    order[i], order[j] = order[j], order[i]
    return w.ops.transpose(x, order)


@row("x source destination", np.moveaxis, rank0="first")
def _moveaxis(w: Walker, a: Args) -> Val:
    x = a.tensor("x")
    source, to = (a.axes(k, x.type.rank, lists=True) for k in ("source", "destination"))
    if len(source) != len(to):
        raise w.reject("ACR402", a.where["destination"], seen=f"{len(source)} axes moved to {len(to)} places")
    order = [k for k in range(x.type.rank) if k not in source]
    for place, axis in sorted(zip(to, source, strict=True)):
        order.insert(place, axis)
    return w.ops.transpose(x, order)


@row("x axis", np.expand_dims, rank0="array")
def _expand_dims(w: Walker, a: Args) -> Val:
    x = a.tensor("x")
    axis = a.static("axis")
    rank = x.type.rank + (len(axis) if isinstance(axis, tuple) else 1)
    where = a.axes("axis", rank, lists=True)
    rest = iter(x.dims)
    return w.ops.reshape(x, tuple(1 if k in where else next(rest) for k in range(rank)))


@row("x axis", np.squeeze, np.ndarray.squeeze, rank0="first")
def _squeeze(w: Walker, a: Args) -> Val:
    x = a.tensor("x")
    if a.static("axis") is None:
        if any(not isinstance(d, int) for d in x.dims):
            raise w.reject("ACR403", seen=f"np.squeeze of {w.describe(x)} without axis", rewrite="give the axis")
        axes = tuple(k for k, d in enumerate(x.dims) if d == 1)
    else:
        axes = a.axes("axis", x.type.rank)
        for k in axes:
            w.ops.same_extent(x.dims[k], 1, "an axis to squeeze")
    return w.ops.reshape(x, tuple(d for k, d in enumerate(x.dims) if k not in axes))


@row("x shape", np.broadcast_to, rank0="array")
def _broadcast_to(w: Walker, a: Args) -> Val:
    shape = extents(w, a)
    w.ops.not_negative(shape)
    out = w.ops.broadcast_to(a.tensor("x"), shape)
    return out if shape else replace(out, array0=number(True), aliased=True)  # an array that is read-only


@row("x order", np.ravel, np.ndarray.ravel)
def _ravel(w: Walker, a: Args) -> Val:
    return _reshaped(w, a, [number(-1)]) if a.static("order") != "C" else w.ops.flatten(a.tensor("x"))


@row("x order", np.ndarray.flatten)
def _flatten(w: Walker, a: Args) -> Val:
    out = _ravel(w, a)
    return copied(w, out) if isinstance(out, Tensor) else out


@row("x window_shape axis", np.lib.stride_tricks.sliding_window_view, rank0="array")
def _sliding_window_view(w: Walker, a: Args) -> Val:
    x, sizes = a.tensor("x"), extents(w, a, "window_shape")
    if a.static("axis") is None:
        axes = tuple(range(x.type.rank))
    else:
        axes = a.axes("axis", x.type.rank, lists=True)
    if len(axes) != len(sizes):
        raise w.reject("ACR402", a.where["window_shape"], seen=f"windows of {len(sizes)} axes along {len(axes)}")
    with w.at_node(a.where["window_shape"]):
        w.ops.not_negative(sizes)
    for size, axis in zip(sizes, axes, strict=True):
        x = w.ops.windows(x, size, axis)
        order = [k for k in range(x.type.rank) if k != axis + 1]
        x = w.ops.transpose(x, (*order, axis + 1))
    return x


@row("x axis", np.flip)
def _flip(w: Walker, a: Args) -> Val:
    x = a.tensor("x")
    axes = a.reduced("axis", x.type.rank)
    parts = [w.ops.slice_part(d, None, None, -1 if k in axes else 1) for k, d in enumerate(x.dims)]
    return w.ops.slice(x, parts)


@row("x index axis mode", np.take, np.ndarray.take)
def _take(w: Walker, a: Args) -> Val:
    out = _taken(w, a)  # a copy, whatever the index is
    return Tensor(out.type, out.ref, out.dims, fresh=True, array0=out.array0)


def _taken(w: Walker, a: Args) -> Tensor:
    x = a.tensor("x")
    if a.static("axis") is None:
        x, axis = w.ops.flatten(x), 0
    else:
        axis = a.axis("axis", x.type.rank)
    index, mode = a["index"], a.choice("mode", "raise", "clip", "wrap")
    if isinstance(index, Num | EnumVal) and mode == "raise":
        with w.at_node(a.where["index"]):
            at = host_value(w, index, "an index", index=True)
        return w.ops.take(x, at, axis)
    if mode == "raise":
        return w.ops.take(x, a.tensor("index"), axis)
    n = w.extent(x.dims[axis])
    if mode == "wrap":
        places = w.ops.ufunc("mod", (a.tensor("index"), w.ops.from_number(w.scalar("max", n, number(1)), "int64")))
        return w.ops.take(x, places, axis)
    last = w.ops.from_number(w.scalar("sub", n, number(1)), "int64")
    return w.ops.take(x, w.ops.ufunc("clip", (a.tensor("index"), number(0), last)), axis)


@row("*arrays", np.atleast_1d)
def _atleast_1d(w: Walker, a: Args) -> Val:
    out = tuple(with_axis(w, x) for x in a.tensors("*arrays"))
    return out[0] if len(out) == 1 else TupleVal(out)


def with_axis(w: Walker, x: Tensor) -> Tensor:
    return x if x.type.rank else w.ops.reshape(x, (1,))


@row("x", np.ndarray.copy, rank0="first")
def _copy(w: Walker, a: Args) -> Val:
    return copied(w, a.tensor("x"))


def copied(w: Walker, x: Tensor) -> Tensor:
    """Return a copy of an array, with data of its own."""
    return Tensor(x.type, w.tensor_var(Tensor(x.type, x.ref, x.dims)), x.dims, fresh=True, array0=x.array0)


@row("x", np.copy, rank0="array")
def _np_copy(w: Walker, a: Args) -> Val:
    return _copy(w, a)


@row("x", np.shape)
def _np_shape(w: Walker, a: Args) -> Val:
    return TupleVal(tuple(w.extent(d) for d in a.tensor("x").dims))


@row("x", np.ndim)
def _np_ndim(w: Walker, a: Args) -> Val:
    return number(a.tensor("x").type.rank)
