"""Calls of NumPy's functions and of the methods of arrays."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba import random
from acronumba.frontend.emitter import Refused
from acronumba.frontend.handlers import Args, Handler, Node, row
from acronumba.frontend.values import (
    NOT_CONST,
    Generator,
    ListVal,
    NoneVal,
    Num,
    Static,
    Tensor,
    TupleVal,
    UnionVal,
    Val,
    number,
)  # fmt: skip
from acronumba.ir.nodes import Extent
from acronumba.ir.types import INT, FloatT, IntT, TensorT

if TYPE_CHECKING:
    from acronumba.frontend.lower import Lowerer


# ---- NumPy: element-wise


def float_unary(w: Lowerer, name: str, val: Val, node: Node) -> Tensor:
    """`nn.sigmoid` and `nn.erf`: operations of their own, on float arrays."""
    x = w.as_tensor(val, node=node)
    dtype = x.type.dtype if x.type.dtype.startswith("float") else "float64"
    return w.element(name, [w.cast(x, dtype, node)], dtype, node)


@row("key counter", random.threefry)
def _threefry(w: Lowerer, a: Args, node: Node) -> Val:
    parts = [v if isinstance(v, Num) else w.as_tensor(v, node=node) for v in (a["key"], a["counter"])]
    for v in parts:
        if isinstance(v, Tensor) and v.type.dtype != "uint64":
            raise w.refuse("ACR301", node, seen=f"threefry of {w.describe(v)}", rewrite="x.astype(np.uint64)")
    return w.element("threefry", [as_dtype(w, v, "uint64", node) for v in parts], "uint64", node)


def _ufunc(op: str) -> Handler:
    def handler(w: Lowerer, a: Args, node: Node) -> Val:
        vals = list(a.values.values())
        if len(vals) == 1:
            return w.each(vals[0], lambda v: w.ufunc(op, (v,), node), node)
        return w.each(vals[0], lambda x: w.each(vals[1], lambda y: w.ufunc(op, (x, y), node), node), node)

    return handler


_UNARY: dict[str, tuple[Any, ...]] = {
    "neg": (np.negative,), "sign": (np.sign,), "exp": (np.exp,), "log": (np.log,), "sqrt": (np.sqrt,),
    "sin": (np.sin,), "cos": (np.cos,), "tanh": (np.tanh,), "floor": (np.floor,), "isnan": (np.isnan,),
    "abs": (np.absolute,), "not": (np.invert,), "square": (np.square,), "reciprocal": (np.reciprocal,),
}  # fmt: skip
_BINARY: dict[str, tuple[Any, ...]] = {
    "add": (np.add,), "sub": (np.subtract,), "mul": (np.multiply,), "div": (np.divide,), "floordiv": (np.floor_divide,),
    "mod": (np.mod,), "pow": (np.power,), "maximum": (np.maximum,), "minimum": (np.minimum,), "and": (np.bitwise_and,),
    "or": (np.bitwise_or,), "xor": (np.bitwise_xor,), "eq": (np.equal,), "ne": (np.not_equal,), "lt": (np.less,),
    "le": (np.less_equal,), "gt": (np.greater,), "ge": (np.greater_equal,), "lshift": (np.left_shift,),
    "rshift": (np.right_shift,),
}  # fmt: skip
for _op, _fs in _UNARY.items():
    row("x", *_fs)(_ufunc(_op))
for _op, _fs in _BINARY.items():
    row("x y", *_fs)(_ufunc(_op))


def _logical(op: str, count: int) -> Handler:
    def handler(w: Lowerer, a: Args, node: Node) -> Val:
        parts = [w.cast(w.as_tensor(v, node=node), "bool", node) for v in a.values.values()]
        return w.element(op, parts, "bool", node)

    return handler


row("x y", np.logical_and)(_logical("and", 2))
row("x y", np.logical_or)(_logical("or", 2))
row("x y", np.logical_xor)(_logical("xor", 2))
row("x", np.logical_not)(_logical("not", 1))


@row("x min=None max=None a_min=None a_max=None", np.clip, method="clip")
def _clip(w: Lowerer, a: Args, node: Node) -> Val:
    x = a["x"] if isinstance(a["x"], Num) else a.tensor("x")
    x = w.from_number(x, w.natural(x, node), node) if isinstance(x, Num) else x  # as an array: strong
    bounds: list[Val | None] = [None, None]
    for k, names in enumerate((("min", "a_min"), ("max", "a_max"))):
        for name in names:
            if not isinstance(a[name], NoneVal):
                bounds[k] = a[name]
    if np.dtype(x.type.dtype).kind in "iu":
        info = np.iinfo(x.type.dtype)
        for k, bound in enumerate(bounds):
            if isinstance(bound, Num) and bound.type == INT:
                bounds[k] = w.bound_of(bound, bool(k), int(info.max if k else info.min), node)
    low, high = bounds
    if low is None and high is None:
        return w.ufunc("positive", (x,), node)
    if low is None or high is None:
        op, bound = ("minimum", high) if low is None else ("maximum", low)
        assert bound is not None
        return w.ufunc(op, (x, bound), node)
    return w.ufunc("clip", (x, low, high), node)


@row("cond x y", np.where)
def _where(w: Lowerer, a: Args, node: Node) -> Val:
    return w.where(a["cond"], a["x"], a["y"], node)


# ---- NumPy: reductions


def _reduction(op: str) -> Handler:
    def handler(w: Lowerer, a: Args, node: Node) -> Val:
        dtype = a.dtype() if "dtype" in a.values else None
        return w.reduce(op, a.tensor("a"), a.static("axis"), bool(a.static("keepdims")), node, dtype)

    return handler


row("a axis=None dtype=None keepdims=False", np.sum, method="sum")(_reduction("sum"))
row("a axis=None dtype=None keepdims=False", np.prod, method="prod")(_reduction("prod"))
row("a axis=None keepdims=False", np.max, np.amax, method="max")(_reduction("max"))
row("a axis=None keepdims=False", np.min, np.amin, method="min")(_reduction("min"))
row("a axis=None keepdims=False", np.any, method="any")(_reduction("any"))
row("a axis=None keepdims=False", np.all, method="all")(_reduction("all"))


@row("a axis=None dtype=None keepdims=False", np.mean, method="mean")
def _mean(w: Lowerer, a: Args, node: Node) -> Val:
    return w.mean(a.tensor("a"), a.static("axis"), bool(a.static("keepdims")), node, a.dtype())


@row("a axis=None ddof=0 keepdims=False", np.var, method="var")
def _var(w: Lowerer, a: Args, node: Node) -> Val:
    return w.variance(
        a.tensor("a"), a.static("axis"), bool(a.static("keepdims")), w.host_value(a["ddof"], node, "ddof"), node
    )


@row("a axis=None ddof=0 keepdims=False", np.std, method="std")
def _std(w: Lowerer, a: Args, node: Node) -> Val:
    return w.ufunc("sqrt", (_var(w, a, node),), node)


@row("a axis=None keepdims=False", np.argmax, method="argmax")
def _argmax(w: Lowerer, a: Args, node: Node) -> Val:
    return w.arg_reduce("argmax", a.tensor("a"), a.static("axis"), bool(a.static("keepdims")), node)


@row("a axis=None keepdims=False", np.argmin, method="argmin")
def _argmin(w: Lowerer, a: Args, node: Node) -> Val:
    return w.arg_reduce("argmin", a.tensor("a"), a.static("axis"), bool(a.static("keepdims")), node)


@row("x ord=None axis=None keepdims=False", np.linalg.norm)
def _norm(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    order, axis = a.static("ord"), a.static("axis")
    if order not in (None, 2) or (order == 2 and x.type.rank != 1 and axis is None):
        raise w.refuse("ACR202", node, seen=f"np.linalg.norm with ord={order}")
    x = w.cast(x, x.type.dtype if x.type.dtype.startswith("float") else "float64", node)
    total = w.reduce("sum", w.ufunc("mul", (x, x), node), axis, bool(a.static("keepdims")), node)
    return w.ufunc("sqrt", (total,), node)


# ---- NumPy: products


@row("x y", np.matmul)
def _matmul(w: Lowerer, a: Args, node: Node) -> Val:
    return w.matmul(a.tensor("x"), a.tensor("y"), node)


@row("x y", np.dot, method="dot")
def _dot(w: Lowerer, a: Args, node: Node) -> Val:
    return w.dot(a.tensor("x"), a.tensor("y"), node)


@row("x y", np.inner)
def _inner(w: Lowerer, a: Args, node: Node) -> Val:
    x, y = a.tensor("x"), a.tensor("y")
    if y.type.rank > 1:
        y = w.transpose(y, (*range(y.type.rank - 2), y.type.rank - 1, y.type.rank - 2), node)
    return w.dot(x, y, node)


@row("x y", np.vdot)
def _vdot(w: Lowerer, a: Args, node: Node) -> Val:
    return w.dot(w.flatten(a.tensor("x"), node), w.flatten(a.tensor("y"), node), node)


@row("x y", np.outer)
def _outer(w: Lowerer, a: Args, node: Node) -> Val:
    return w.outer(a.tensor("x"), a.tensor("y"), node)


@row("spec *operands", np.einsum)
def _einsum(w: Lowerer, a: Args, node: Node) -> Val:
    return w.einsum(str(a.static("spec")), [w.as_tensor(v, node=node) for v in a.rest], node)


# ---- NumPy: shapes


def _tensor_items(w: Lowerer, val: Val, node: Node) -> list[Tensor]:
    if isinstance(val, Generator):
        val = w.comprehend(val.node)
    items = w.items_of(val)
    if items is None and isinstance(val, Tensor) and val.type.rank and isinstance(val.dims[0], int):
        items = tuple(w.take(val, number(k), 0, node) for k in range(val.dims[0]))
    if items is None:
        raise w.refuse("ACR202", node, seen=f"{w.describe(val)}, whose length is known only at run time",
                       rewrite="add the parts up one by one, or keep them in the list")  # fmt: skip
    return [w.as_tensor(w.not_none(v, node) if isinstance(v, UnionVal) else v, node=node) for v in items]


def _by_items(w: Lowerer, a: Args, node: Node, handler: Handler) -> Val | None:
    """Handle arrays of which one may be of several types, for each of them; None where there is no such array."""
    items = None if isinstance(a["arrays"], Generator) else w.items_of(a["arrays"])
    several = [k for k, v in enumerate(items or ()) if isinstance(v, UnionVal)]
    if items is None or not 0 < len(several) <= 4:
        return None
    k = several[0]

    def one(case: Val) -> Val:
        b = copy.copy(a)
        b.values = {**a.values, "arrays": TupleVal((*items[:k], case, *items[k + 1 :]))}
        return handler(w, b, node)

    return w.each(items[k], one, node)


@row("arrays axis=0 dtype=None", np.concatenate)
def _concatenate(w: Lowerer, a: Args, node: Node) -> Val:
    split = _by_items(w, a, node, _concatenate)
    if split is not None:
        return split
    runtime = _runtime_list(w, a["arrays"], node)
    if runtime is not None:
        return w.concat_list(runtime, a.static("axis"), node)
    tensors = _tensor_items(w, a["arrays"], node)
    if a.static("axis") is None:
        return w.concat([w.flatten(t, node) for t in tensors], 0, node, a.dtype())
    return w.concat(tensors, a.static("axis"), node, a.dtype())


@row("arrays axis=0", np.stack)
def _stack(w: Lowerer, a: Args, node: Node) -> Val:
    split = _by_items(w, a, node, _stack)
    if split is not None:
        return split
    runtime = _runtime_list(w, a["arrays"], node)
    if runtime is not None:
        return w.stack_list(runtime, a.static("axis"), node)
    tensors = _tensor_items(w, a["arrays"], node)
    if not tensors:
        w.fail("ValueError", "need at least one array to stack", node)
        raise Refused(None)
    return w.stack(tensors, a.static("axis"), node)


def _runtime_list(w: Lowerer, val: Val, node: Node) -> ListVal | None:
    if isinstance(val, Generator):
        val = w.comprehend(val.node)
    return val if isinstance(val, ListVal) else None


@row("arrays", np.hstack)
def _hstack(w: Lowerer, a: Args, node: Node) -> Val:
    tensors = [t if t.type.rank else w.reshape(t, (1,), node) for t in _tensor_items(w, a["arrays"], node)]
    return w.concat(tensors, 0 if tensors[0].type.rank == 1 else 1, node)


@row("arrays", np.vstack)
def _vstack(w: Lowerer, a: Args, node: Node) -> Val:
    runtime = _runtime_list(w, a["arrays"], node)
    if runtime is not None:
        return w.stack_list(runtime, 0, node)
    tensors = [
        t if t.type.rank > 1 else w.reshape(t, (1, *(t.dims or (1,))), node)
        for t in _tensor_items(w, a["arrays"], node)
    ]
    return w.concat(tensors, 0, node)


@row("x sections axis=0", np.split)
def _split(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    sections = a["sections"]
    if isinstance(sections, Num):
        k = w.known(sections)
        if k is NOT_CONST:
            raise w.refuse("ACR403", node, seen="a split into a number of parts that is known only at run time")
        return w.new_list(w.split(x, k, a.static("axis"), node), node or ast.Constant(0))
    items = w.items_of(sections)
    if items is None or not all(isinstance(v, Num) for v in items):
        raise w.refuse("ACR301", node, seen=f"a split at {w.describe(sections)}")
    parts = w.split(x, list(items), a.static("axis"), node)  # type: ignore[arg-type]
    return w.new_list(parts, node or ast.Constant(0))


def _shape(w: Lowerer, val: Val, node: Node) -> list[Num]:
    items = (val,) if isinstance(val, Num | Tensor) else w.items_of(val)
    if items is None:
        raise w.refuse("ACR403", node, seen=f"a shape {w.describe(val)}")
    return [w.host_value(v, node, "a shape", index=True) for v in items]


def _extents(w: Lowerer, val: Val, node: Node) -> list[Extent]:
    return [w.as_extent(w.as_int(n) if n.shared is None else n) for n in _shape(w, val, node)]


@row("x shape order='C'", np.reshape)
def _reshape(w: Lowerer, a: Args, node: Node) -> Val:
    return w.reshape_to(a.tensor("x"), _shape(w, a["shape"], node), node)


@row("x *shape", method="reshape")
def _reshape_method(w: Lowerer, a: Args, node: Node) -> Val:
    parts = a.rest
    shape: Val = parts[0] if len(parts) == 1 else TupleVal(tuple(parts))
    return w.reshape_to(a.tensor("x"), _shape(w, shape, node), node)


@row("x axes=None", np.transpose)
def _transpose(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    axes = a.static("axes")
    order = tuple(reversed(range(x.type.rank))) if axes is None else tuple(n % x.type.rank for n in axes)
    return w.transpose(x, order, node)


@row("x *axes", method="transpose")
def _transpose_method(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    axes = [w.static(v, node) for v in a.rest]
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], tuple)):
        axes = list(axes[0]) if axes[0] is not None else []
    order = tuple(n % x.type.rank for n in axes) if axes else tuple(reversed(range(x.type.rank)))
    return w.transpose(x, order, node)


@row("x a b", np.swapaxes, method="swapaxes")
def _swapaxes(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    order = list(range(x.type.rank))
    i, j = w.axes_of(a.static("a"), x.type.rank, node)[0], w.axes_of(a.static("b"), x.type.rank, node)[0]
    order[i], order[j] = order[j], order[i]
    return w.transpose(x, order, node)


@row("x source destination", np.moveaxis)
def _moveaxis(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    i, j = (w.axes_of(a.static(k), x.type.rank, node)[0] for k in ("source", "destination"))
    order = [k for k in range(x.type.rank) if k != i]
    order.insert(j, i)
    return w.transpose(x, order, node)


@row("x axis", np.expand_dims)
def _expand_dims(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    axis = a.static("axis")
    axes = axis if isinstance(axis, tuple) else (axis,)
    rank = x.type.rank + len(axes)
    where = w.axes_of(tuple(axes), rank, node)
    rest = iter(x.dims)
    return w.reshape(x, tuple(1 if k in where else next(rest) for k in range(rank)), node)


@row("x axis=None", np.squeeze, method="squeeze")
def _squeeze(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    axis = a.static("axis")
    if axis is None:
        if any(not isinstance(d, int) for d in x.dims):
            raise w.refuse("ACR403", node, seen=f"np.squeeze of {w.describe(x)} without axis", rewrite="give the axis")
        axes = tuple(k for k, d in enumerate(x.dims) if d == 1)
    else:
        axes = w.axes_of(axis, x.type.rank, node)
        for k in axes:
            w.same_extent(x.dims[k], 1, "an axis to squeeze", node)
    return w.reshape(x, tuple(d for k, d in enumerate(x.dims) if k not in axes), node)


@row("x shape", np.broadcast_to)
def _broadcast_to(w: Lowerer, a: Args, node: Node) -> Val:
    shape = _extents(w, a["shape"], node)
    w.not_negative(shape, node)
    return w.broadcast_to(a.tensor("x"), shape, node)


@row("x", np.ravel, method="ravel")
def _ravel(w: Lowerer, a: Args, node: Node) -> Val:
    return w.flatten(a.tensor("x"), node)


@row("x", method="flatten")
def _flatten(w: Lowerer, a: Args, node: Node) -> Val:
    return w.flatten(a.tensor("x"), node)


@row("x axis=None", np.flip)
def _flip(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    axes = w.axes_of(a.static("axis"), x.type.rank, node)
    parts = [w.slice_part(d, None, None, -1 if k in axes else 1, node) for k, d in enumerate(x.dims)]
    return w.slice(x, parts, node)


@row("x index axis=None", np.take, method="take")
def _take(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    axis = a.static("axis")
    if axis is None:
        x, axis = w.flatten(x, node), 0
    index = a["index"]
    at = index if isinstance(index, Num) else a.tensor("index")
    return w.take(x, at, w.axes_of(axis, x.type.rank, node)[0], node)


@row("x", np.atleast_1d)
def _atleast_1d(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    return x if x.type.rank else w.reshape(x, (1,), node)


@row("x reps", np.tile)
def _tile(w: Lowerer, a: Args, node: Node) -> Val:
    x, k = a.tensor("x"), a.static("reps")
    if not isinstance(k, int) or x.type.rank != 1:
        raise w.refuse("ACR202", node, seen="np.tile of more than one axis", rewrite="np.concatenate([x] * n)")
    return w.concat([x] * k, 0, node)


@row("x", method="copy")
def _copy(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    return Tensor(x.type, w.tensor_var(Tensor(x.type, x.ref, x.dims)), x.dims, fresh=True)


@row("x", np.copy)
def _np_copy(w: Lowerer, a: Args, node: Node) -> Val:
    return _copy(w, a, node)


@row("x", np.shape)
def _np_shape(w: Lowerer, a: Args, node: Node) -> Val:
    return TupleVal(tuple(w.extent(d) for d in a.tensor("x").dims))


@row("x", np.ndim)
def _np_ndim(w: Lowerer, a: Args, node: Node) -> Val:
    return number(a.tensor("x").type.rank)


# ---- NumPy: creation and dtypes


def _filled(value: float | None, default: str = "float64") -> Handler:
    def handler(w: Lowerer, a: Args, node: Node) -> Val:
        dtype = a.dtype() or default
        return w.full(_extents(w, a["shape"], node), number(value), dtype, node)

    return handler


row("shape dtype=None", np.zeros, np.empty)(_filled(0.0))
row("shape dtype=None", np.ones)(_filled(1.0))


@row("shape fill_value dtype=None", np.full)
def _full(w: Lowerer, a: Args, node: Node) -> Val:
    value = a["fill_value"]
    if not isinstance(value, Num | Tensor):
        raise w.refuse("ACR301", node, seen=f"np.full of {w.describe(value)}")
    return w.full(_extents(w, a["shape"], node), value, a.dtype(), node)


def _like(value: float | None) -> Handler:
    def handler(w: Lowerer, a: Args, node: Node) -> Val:
        x = a.tensor("x")
        fill = number(value) if value is not None else a["fill_value"]
        if not isinstance(fill, Num | Tensor):
            raise w.refuse("ACR301", node, seen=f"np.full_like of {w.describe(fill)}")
        return w.full(x.dims, fill, a.dtype() or x.type.dtype, node)

    return handler


row("x dtype=None", np.zeros_like, np.empty_like)(_like(0.0))
row("x dtype=None", np.ones_like)(_like(1.0))
row("x fill_value dtype=None", np.full_like)(_like(None))


@row("*args dtype=None", np.arange)
def _arange(w: Lowerer, a: Args, node: Node) -> Val:
    parts = [w.host_value(v, node, "np.arange()") for v in a.rest]
    start, stop, step = [number(0), *parts, number(1)] if len(parts) == 1 else [*parts, number(1)][:3]
    return w.arange(start, stop, step, a.dtype(), node)


@row("n m=None k=0 dtype=None", np.eye)
def _eye(w: Lowerer, a: Args, node: Node) -> Val:
    n = _extents(w, a["n"], node)[0]
    m = n if isinstance(a["m"], NoneVal) else _extents(w, a["m"], node)[0]
    return w.eye(n, m, a.static("k"), a.dtype() or "float64", node)


@row("n dtype=None", np.identity)
def _identity(w: Lowerer, a: Args, node: Node) -> Val:
    n = _extents(w, a["n"], node)[0]
    return w.eye(n, n, 0, a.dtype() or "float64", node)


@row("x dtype=None", np.array, np.asarray, np.ascontiguousarray)
def _array(w: Lowerer, a: Args, node: Node) -> Val:
    dtype = a.dtype()
    val = a["x"]
    if isinstance(val, Num):
        return w.from_number(val, dtype or w.natural(val, node), node)
    runtime = _runtime_list(w, val, node)
    if runtime is not None:
        if dtype is not None:
            _check_list(w, runtime, dtype, node)
        return w.stack_list(runtime, 0, node, dtype, empty=True)
    if isinstance(val, Generator):
        val = w.comprehend(val.node)
    return w.array_of(val, dtype, node)


def _check_list(w: Lowerer, val: ListVal, dtype: str, node: Node) -> None:
    """Check that the elements of a list are values of a dtype, as NumPy does where they are numbers."""
    item = val.item
    if isinstance(item, TensorT):
        w.fits_array(item, dtype, node)
    if not isinstance(item, IntT | FloatT) or np.dtype(dtype).kind not in "iu" or (item, dtype) == (INT, "int64"):
        return
    scope = (w.frame.scope, "#item")
    where, target = node or ast.Constant(0), ast.Name("#item", ast.Store())

    def turn() -> None:
        number_ = w.state[scope]
        if isinstance(number_, Num):
            w.from_number(number_, dtype, node)

    w.iterate(val, where, target, turn, (), ())


def as_dtype(w: Lowerer, val: Val, dtype: str, node: Node) -> Tensor:
    if isinstance(val, Num):
        return w.from_number(val, dtype, node)
    return w.cast(w.as_tensor(val, node=node), dtype, node)


@row("x dtype copy=True", method="astype")
def _astype(w: Lowerer, a: Args, node: Node) -> Val:
    dtype = a.dtype()
    assert dtype is not None
    x = a.tensor("x")
    out = w.cast(x, dtype, node)
    return Tensor(out.type, out.ref, out.dims, fresh=True) if out is x and a.static("copy") else out


@row("*args", np.result_type, np.promote_types)
def _result_type(w: Lowerer, a: Args, node: Node) -> Val:
    kinds = [np.dtype(v.type.dtype) if isinstance(v, Tensor) else w.static(v, node) for v in a.rest]
    return Static(np.result_type(*kinds))


@row("x", np.finfo, np.iinfo)
def _finfo(w: Lowerer, a: Args, node: Node) -> Val:
    dtype = np.dtype(a.static("x"))
    return Static(np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype))


@row("x", method="item")
def _item(w: Lowerer, a: Args, node: Node) -> Val:
    message = "can only convert an array of size 1 to a Python scalar"
    return w.host(w.only_element(a.tensor("x"), message, message, node), ".item()", node)


@row("x", method="tolist")
def _tolist(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    if not x.type.rank:
        return w.host(x, ".tolist()", node)
    if x.type.rank > 1:
        raise w.refuse("ACR202", node, seen=f".tolist() of {w.describe(x)}", rewrite="[row.tolist() for row in x]")
    where, target, item = node or ast.Constant(0), ast.Name("#item", ast.Store()), (w.frame.scope, "#item")

    def value() -> Val:
        return w.each(w.state[item], lambda v: w.host_value(v, node, ".tolist()"), node)

    rows = w.built(x, where, target, lambda: w.state[item], (), what="rows")  # all, then the value of each: one wait
    return w.built(rows, where, target, value, (), what="values")
