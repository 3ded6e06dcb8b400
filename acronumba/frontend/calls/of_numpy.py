"""Calls of NumPy's functions and of the methods of arrays."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba import nn, random
from acronumba.frontend.calls.tables import Args, Handler, Node, row
from acronumba.frontend.emitter import Dead
from acronumba.frontend.tensors import PYTHON
from acronumba.frontend.values import (
    NOT_CONST,
    EnumVal,
    Generator,
    ListVal,
    NoneVal,
    Num,
    Static,
    StrVal,
    Tensor,
    TupleVal,
    UnionVal,
    Val,
    number,
)  # fmt: skip
from acronumba.ir.nodes import Extent
from acronumba.ir.types import BOOL, INT, NEVER, Array0T, FloatT, IntT, TensorT

if TYPE_CHECKING:
    from acronumba.frontend.lower import Lowerer


# ---- NumPy: element-wise


def _float_unary(op: str) -> Handler:
    """`nn.sigmoid` and `nn.erf`: operations of their own, on float arrays."""

    def handler(w: Lowerer, a: Args, node: Node) -> Val:
        x = a.tensor("x")
        dtype = x.type.dtype if x.type.dtype.startswith("float") else "float64"
        return w.element(op, [w.cast(x, dtype, node)], dtype, node)

    return handler


row("x", nn.sigmoid)(_float_unary("sigmoid"))
row("x", nn.erf)(_float_unary("erf"))


@row("key counter", random.threefry)
def _threefry(w: Lowerer, a: Args, node: Node) -> Val:
    parts = [v if isinstance(v, Num) else w.as_tensor(v, node=node) for v in (a["key"], a["counter"])]
    for v in parts:
        if isinstance(v, Tensor) and v.type.dtype != "uint64":
            raise w.refuse("ACR301", node, seen=f"threefry of {w.describe(v)}", rewrite="x.astype(np.uint64)")
    return w.element("threefry", [as_dtype(w, v, "uint64", node) for v in parts], "uint64", node)


def _ufunc(op: str) -> Handler:
    def handler(w: Lowerer, a: Args, node: Node) -> Val:
        return w.ufunc(op, tuple(a.values.values()), node)

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


@row("x min max", method="clip")
def _clip(w: Lowerer, a: Args, node: Node) -> Val:
    x = a["x"] if isinstance(a["x"], Num) else a.tensor("x")
    x = w.from_number(x, w.natural(x, node), node) if isinstance(x, Num) else x  # as an array: strong
    bounds = [None if isinstance(a[name], NoneVal) else a[name] for name in ("min", "max")]
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


@row("x a_min a_max min max", np.clip)
def _np_clip(w: Lowerer, a: Args, node: Node) -> Val:
    old, new = {"a_min", "a_max"} & a.given, {"min", "max"} & a.given
    if old and (new or len(old) == 1):
        raise w.refuse("ACR203", a.where[min(new or old)], seen=f"np.clip with {', '.join(sorted(a.given - {'x'}))}",
                       rewrite="np.clip(x, low, high)")  # fmt: skip
    if not old:
        return _clip(w, a, node)
    return _clip(w, a.replaced("min", a["a_min"]).replaced("max", a["a_max"]), node)


@row("cond x y", np.where, rank0="array")
def _where(w: Lowerer, a: Args, node: Node) -> Val:
    if not {"x", "y"} <= a.given:
        raise w.refuse(
            "ACR202", a.where["x"] if "x" in a.given else node,
            seen="np.where without values to choose from: the extent would depend on values",
            rewrite="np.where(cond, x, y)",
        )  # fmt: skip
    return w.where(a["cond"], a["x"], a["y"], node)


# ---- NumPy: reductions


def _reduction(op: str) -> Handler:
    def handler(w: Lowerer, a: Args, node: Node) -> Val:
        x = a.tensor("a")
        dtype = a.dtype() if "dtype" in a.values else None
        return w.reduce(op, x, a.reduced("axis", x.type.rank), a.flag("keepdims"), node, dtype)

    return handler


row("a axis dtype keepdims", np.sum, method="sum")(_reduction("sum"))
row("a axis dtype keepdims", np.prod, method="prod")(_reduction("prod"))
row("a axis keepdims", np.max, np.amax, method="max")(_reduction("max"))
row("a axis keepdims", np.min, np.amin, method="min")(_reduction("min"))
row("a axis keepdims", np.any, method="any")(_reduction("any"))
row("a axis keepdims", np.all, method="all")(_reduction("all"))


@row("a axis dtype keepdims", np.mean, method="mean")
def _mean(w: Lowerer, a: Args, node: Node) -> Val:
    x, dtype = a.tensor("a"), a.dtype()
    if dtype is not None and not dtype.startswith("float"):
        raise w.refuse("ACR202", a.where["dtype"], seen=f"a mean of {dtype}", rewrite="np.mean(x).astype(dtype)")
    return w.mean(x, a.reduced("axis", x.type.rank), a.flag("keepdims"), node, dtype)


@row("a axis ddof keepdims", np.var, method="var")
def _var(w: Lowerer, a: Args, node: Node) -> Val:
    x, ddof = a.tensor("a"), w.host_value(a["ddof"], a.where["ddof"], "ddof")
    return w.variance(x, a.reduced("axis", x.type.rank), a.flag("keepdims"), ddof, node)


@row("a axis ddof keepdims", np.std, method="std")
def _std(w: Lowerer, a: Args, node: Node) -> Val:
    return w.ufunc("sqrt", (_var(w, a, node),), node)


def _arg_reduction(op: str) -> Handler:
    def handler(w: Lowerer, a: Args, node: Node) -> Val:
        x = a.tensor("a")
        axis = None if a.static("axis") is None else a.axis("axis", x.type.rank)
        return w.arg_reduce(op, x, axis, a.flag("keepdims"), node)

    return handler


row("a axis keepdims", np.argmax, method="argmax")(_arg_reduction("argmax"))
row("a axis keepdims", np.argmin, method="argmin")(_arg_reduction("argmin"))


@row("x ord axis keepdims", np.linalg.norm)
def _norm(w: Lowerer, a: Args, node: Node) -> Val:
    """The root of the sum of squares: of vectors, or of matrices (the Frobenius norm); of all elements by default."""
    x = a.tensor("x")
    axes, order = a.reduced("axis", x.type.rank), a.static("ord")
    everything = order is None and a.static("axis") is None
    if not everything and order not in ((None, 2) if len(axes) == 1 else (None, "fro")):
        what = {1: "vectors", 2: "matrices"}.get(len(axes), f"{len(axes)} axes")
        raise w.refuse("ACR202", a.where["ord"], seen=f"np.linalg.norm with ord={order!r} of {what}",
                       rewrite="leave ord out: the root of the sum of squares")  # fmt: skip
    if not everything and len(axes) not in (1, 2):
        raise w.refuse("ACR402", a.where["axis"], seen=f"np.linalg.norm over {len(axes)} axes")
    x = w.cast(x, x.type.dtype if x.type.dtype.startswith("float") else "float64", node)
    total = w.reduce("sum", w.ufunc("mul", (x, x), node), axes, a.flag("keepdims"), node)
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
    if x.type.rank and y.type.rank > 1:  # a number times an array is the array times the number, axis by axis
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
    spec = a.static("spec") if isinstance(a["spec"], StrVal) else None
    if spec is None:
        raise w.refuse("ACR202", a.where["spec"], seen=f"np.einsum of {w.describe(a['spec'])}",
                       rewrite="np.einsum('ij,j->i', x, y)")  # fmt: skip
    return w.einsum(spec, [w.as_tensor(v, node=node) for v in a.rest], node)


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
        return handler(w, a.replaced("arrays", TupleVal((*items[:k], case, *items[k + 1 :]))), node)

    return w.each(items[k], one, node)


@row("arrays axis dtype casting", np.concatenate)
def _concatenate(w: Lowerer, a: Args, node: Node) -> Val:
    split = _by_items(w, a, node, _concatenate)
    if split is not None:
        return split
    runtime = _runtime_list(w, a["arrays"], node)
    if runtime is not None and runtime.item == NEVER:  # no axis can be right
        w.some_arrays(runtime, "concatenate", node)
    if runtime is not None and a.static("axis") is None:
        return w.flatten(_as_asked(w, a, w.stack_list(runtime, 0, node), node), node)
    if runtime is not None:
        axis = a.axis("axis", _item_rank(runtime) or 1)
        return _as_asked(w, a, w.concat_list(runtime, axis, node), node)
    tensors, dtype = _tensor_items(w, a["arrays"], a.where["arrays"]), a.dtype()
    if not tensors:
        w.fail("ValueError", "need at least one array to concatenate", node)
        raise Dead
    a.may_cast(tensors, dtype)
    if a.static("axis") is None:
        return w.concat([w.flatten(t, node) for t in tensors], 0, node, dtype)
    return w.concat(tensors, a.axis("axis", _rank(tensors) or 1), node, dtype)


def _rank(tensors: list[Tensor]) -> int:
    return max((t.type.rank for t in tensors), default=1)


@row("arrays axis dtype casting", np.stack)
def _stack(w: Lowerer, a: Args, node: Node) -> Val:
    split = _by_items(w, a, node, _stack)
    if split is not None:
        return split
    runtime = _runtime_list(w, a["arrays"], node)
    if runtime is not None:
        if runtime.item == NEVER:  # no axis can be right
            w.some_arrays(runtime, "stack", node)
        return _as_asked(w, a, w.stack_list(runtime, a.axis("axis", _item_rank(runtime) + 1), node), node)
    tensors, dtype = _tensor_items(w, a["arrays"], a.where["arrays"]), a.dtype()
    if not tensors:
        w.fail("ValueError", "need at least one array to stack", node)
        raise Dead
    a.may_cast(tensors, dtype)
    if dtype is not None:
        tensors = [w.cast(t, dtype, node) for t in tensors]
    return w.stack(tensors, a.axis("axis", _rank(tensors) + 1), node)


def _runtime_list(w: Lowerer, val: Val, node: Node) -> ListVal | None:
    if isinstance(val, Generator):
        val = w.comprehend(val.node)
    if isinstance(val, ListVal) and isinstance(val.item, Array0T):
        return w.uniform(val, node)
    return val if isinstance(val, ListVal) else None


def _item_rank(runtime: ListVal) -> int:
    return len(runtime.item.shape) if isinstance(runtime.item, TensorT) else 0


def _as_asked(w: Lowerer, a: Args, x: Tensor, node: Node) -> Tensor:
    """Cast to the argument `dtype`, if `casting` allows it."""
    dtype = a.dtype()
    a.may_cast([x], dtype)
    return x if dtype is None else w.cast(x, dtype, node)


def _side_by_side(w: Lowerer, a: Args, node: Node, rank: int, axis: int) -> Val:
    """Concatenate along an axis arrays that have at least so many axes."""
    split = _by_items(w, a, node, lambda w, a, node: _side_by_side(w, a, node, rank, axis))
    if split is not None:
        return split
    runtime = _runtime_list(w, a["arrays"], node)
    if runtime is not None:
        own = _item_rank(runtime)
        if own >= rank:
            return _as_asked(w, a, w.concat_list(runtime, 0 if own == 1 else axis, node), node)
        x = _as_asked(w, a, w.stack_list(runtime, 0, node), node)  # the list gives one axis; others have extent 1
        return w.reshape(x, (x.dims[0], *(1,) * (rank - 1 - own), *x.dims[1:]), node)
    tensors, dtype = _tensor_items(w, a["arrays"], a.where["arrays"]), a.dtype()
    a.may_cast(tensors, dtype)
    tensors = [w.reshape(t, (*(1,) * (rank - t.type.rank), *t.dims), node) for t in tensors]
    return w.concat(tensors, 0 if _rank(tensors) == 1 else axis, node, dtype)


@row("arrays dtype casting", np.hstack)
def _hstack(w: Lowerer, a: Args, node: Node) -> Val:
    return _side_by_side(w, a, node, 1, 1)


@row("arrays dtype casting", np.vstack)
def _vstack(w: Lowerer, a: Args, node: Node) -> Val:
    return _side_by_side(w, a, node, 2, 0)


@row("x sections axis", np.split)
def _split(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    axis = a.axis("axis", x.type.rank)
    sections = a["sections"]
    if isinstance(sections, Num):
        if not isinstance(a["x"], Tensor | UnionVal):  # NumPy asks for its shape
            seen = f"np.split of {w.describe(a['x'])} into a number of parts"
            raise w.refuse("ACR301", a.where["x"], seen=seen, rewrite="np.split(np.array(xs), n)")
        parts = w.split(x, a.whole("sections"), axis, node)
        return w.new_list(parts, node or ast.Constant(0))
    items = w.items_of(sections)
    if items is None:
        raise w.refuse("ACR301", a.where["sections"], seen=f"a split at {w.describe(sections)}")
    cuts = [w.slice_bound(v, a.where["sections"]) for v in items]
    if not all(isinstance(v, Num) for v in cuts):
        raise w.refuse("ACR301", a.where["sections"], seen=f"a split at {w.describe(sections)}")
    return w.new_list(w.split(x, cuts, axis, node), node or ast.Constant(0))  # type: ignore[arg-type]


def _shape(w: Lowerer, a: Args, name: str = "shape") -> list[Num]:
    """Return the extents that an argument gives: one, or a sequence of them."""
    val, where = a[name], a.where[name]
    items = (val,) if isinstance(val, Num | Tensor | EnumVal) else w.items_of(val)
    if items is None:
        raise w.refuse("ACR403", where, seen=f"a shape {w.describe(val)}")
    out = [w.host_value(v, where, "a shape", index=True) for v in items]
    if any(n.type == BOOL for n in out):
        raise w.refuse("ACR301", where, seen="a shape of bool", rewrite="int(x)")
    return out


def _extents(w: Lowerer, a: Args, name: str = "shape") -> list[Extent]:
    return [w.as_extent(n) for n in _shape(w, a, name)]


def _reshaped(w: Lowerer, a: Args, shape: list[Num], node: Node) -> Tensor:
    """Reshape; in the order of Fortran the first axis changes fastest, as in the reverse of both."""
    x = a.tensor("x")
    if a.choice("order", "C", "F") == "C":
        return w.reshape_to(x, shape, node)
    return _reversed(w, w.reshape_to(_reversed(w, x, node), shape[::-1], node), node)


def _reversed(w: Lowerer, x: Tensor, node: Node) -> Tensor:
    return w.transpose(x, tuple(reversed(range(x.type.rank))), node)


@row("x shape order", np.reshape, rank0="first")
def _reshape(w: Lowerer, a: Args, node: Node) -> Val:
    return _reshaped(w, a, _shape(w, a), node)


@row("x *shape order", method="reshape", rank0="first")
def _reshape_method(w: Lowerer, a: Args, node: Node) -> Val:
    parts = a.rest
    if not parts:
        raise w.refuse("ACR203", node, seen=".reshape without a shape")
    return _reshaped(w, a, _shape(w, a.replaced("*shape", parts[0]) if len(parts) == 1 else a, "*shape"), node)


def _transposed(w: Lowerer, a: Args, name: str, node: Node) -> Tensor:
    x = a.tensor("x")
    order = a.axes(name, x.type.rank, lists=True)
    if len(order) != x.type.rank:
        raise w.refuse("ACR402", a.where[name], seen=f"axes {order} of a tensor of rank {x.type.rank}")
    return w.transpose(x, order, node)


@row("x axes", np.transpose, rank0="first")
def _transpose(w: Lowerer, a: Args, node: Node) -> Val:
    return _reversed(w, a.tensor("x"), node) if a.static("axes") is None else _transposed(w, a, "axes", node)


@row("x *axes", method="transpose", rank0="first")
def _transpose_method(w: Lowerer, a: Args, node: Node) -> Val:
    parts = a.rest
    if not parts or (len(parts) == 1 and isinstance(parts[0], NoneVal)):
        return _reversed(w, a.tensor("x"), node)
    return _transposed(w, a.replaced("*axes", parts[0]) if len(parts) == 1 else a, "*axes", node)


@row("x i j", np.swapaxes, method="swapaxes")
def _swapaxes(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    order = list(range(x.type.rank))
    i, j = a.axis("i", x.type.rank), a.axis("j", x.type.rank)
    order[i], order[j] = order[j], order[i]
    return w.transpose(x, order, node)


@row("x source destination", np.moveaxis, rank0="first")
def _moveaxis(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    source, to = (a.axes(k, x.type.rank, lists=True) for k in ("source", "destination"))
    if len(source) != len(to):
        raise w.refuse("ACR402", a.where["destination"], seen=f"{len(source)} axes moved to {len(to)} places")
    order = [k for k in range(x.type.rank) if k not in source]
    for place, axis in sorted(zip(to, source, strict=True)):
        order.insert(place, axis)
    return w.transpose(x, order, node)


@row("x axis", np.expand_dims, rank0="array")
def _expand_dims(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    axis = a.static("axis")
    rank = x.type.rank + (len(axis) if isinstance(axis, tuple) else 1)
    where = a.axes("axis", rank, lists=True)
    rest = iter(x.dims)
    return w.reshape(x, tuple(1 if k in where else next(rest) for k in range(rank)), node)


@row("x axis", np.squeeze, method="squeeze", rank0="first")
def _squeeze(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    if a.static("axis") is None:
        if any(not isinstance(d, int) for d in x.dims):
            raise w.refuse("ACR403", node, seen=f"np.squeeze of {w.describe(x)} without axis", rewrite="give the axis")
        axes = tuple(k for k, d in enumerate(x.dims) if d == 1)
    else:
        axes = a.axes("axis", x.type.rank)
        for k in axes:
            w.same_extent(x.dims[k], 1, "an axis to squeeze", node)
    return w.reshape(x, tuple(d for k, d in enumerate(x.dims) if k not in axes), node)


@row("x shape", np.broadcast_to, rank0="array")
def _broadcast_to(w: Lowerer, a: Args, node: Node) -> Val:
    shape = _extents(w, a)
    w.not_negative(shape, node)
    out = w.broadcast_to(a.tensor("x"), shape, node)
    return out if shape else replace(out, array0=number(True), aliased=True)  # which cannot be written to


@row("x order", np.ravel, method="ravel")
def _ravel(w: Lowerer, a: Args, node: Node) -> Val:
    return _reshaped(w, a, [number(-1)], node) if a.static("order") != "C" else w.flatten(a.tensor("x"), node)


@row("x order", method="flatten")
def _flatten(w: Lowerer, a: Args, node: Node) -> Val:
    return _ravel(w, a, node)


@row("x axis", np.flip)
def _flip(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    axes = a.reduced("axis", x.type.rank)
    parts = [w.slice_part(d, None, None, -1 if k in axes else 1, node) for k, d in enumerate(x.dims)]
    return w.slice(x, parts, node)


@row("x index axis", np.take, method="take")
def _take(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    if a.static("axis") is None:
        x, axis = w.flatten(x, node), 0
    else:
        axis = a.axis("axis", x.type.rank)
    index = a["index"]
    if isinstance(index, Num | EnumVal):
        return w.take(x, w.host_value(index, a.where["index"], "an index", index=True), axis, node)
    return w.take(x, a.tensor("index"), axis, node)


@row("*arrays", np.atleast_1d)
def _atleast_1d(w: Lowerer, a: Args, node: Node) -> Val:
    out = tuple(_with_axis(w, w.as_tensor(v, node=a.where["*arrays"]), node) for v in a.rest)
    return out[0] if len(out) == 1 else TupleVal(out)


def _with_axis(w: Lowerer, x: Tensor, node: Node) -> Tensor:
    return x if x.type.rank else w.reshape(x, (1,), node)


@row("x reps", np.tile)
def _tile(w: Lowerer, a: Args, node: Node) -> Val:
    x, k = a.tensor("x"), a.static("reps")
    if not isinstance(k, int) or x.type.rank != 1:
        raise w.refuse(
            "ACR202", a.where["reps"], seen="np.tile of more than one axis", rewrite="np.concatenate([x] * n)"
        )
    if k < 0:
        w.fail("ValueError", "negative dimensions are not allowed", node)
        raise Dead
    return w.concat([x] * k, 0, node) if k else w.slice(x, [(0, 1, 0)], node)


@row("x", method="copy", rank0="first")
def _copy(w: Lowerer, a: Args, node: Node) -> Val:
    x = a.tensor("x")
    return Tensor(x.type, w.tensor_var(Tensor(x.type, x.ref, x.dims)), x.dims, fresh=True, array0=x.array0)


@row("x", np.copy, rank0="array")
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
        return w.full(_extents(w, a), number(value), dtype, node)

    return handler


row("shape dtype", np.zeros, np.empty, rank0="array")(_filled(0.0))
row("shape dtype", np.ones, rank0="array")(_filled(1.0))


@row("shape fill_value dtype", np.full, rank0="array")
def _full(w: Lowerer, a: Args, node: Node) -> Val:
    value = a["fill_value"]
    if not isinstance(value, Num | Tensor):
        raise w.refuse("ACR301", node, seen=f"np.full of {w.describe(value)}")
    return w.full(_extents(w, a), value, a.dtype(), node)


def _like(value: float | None) -> Handler:
    def handler(w: Lowerer, a: Args, node: Node) -> Val:
        x = a.tensor("x")
        fill = number(value) if value is not None else a["fill_value"]
        if not isinstance(fill, Num | Tensor):
            raise w.refuse("ACR301", node, seen=f"np.full_like of {w.describe(fill)}")
        dims = x.dims if isinstance(a["shape"], NoneVal) else _extents(w, a)
        return w.full(dims, fill, a.dtype() or x.type.dtype, node)

    return handler


row("x dtype shape", np.zeros_like, np.empty_like, rank0="array")(_like(0.0))
row("x dtype shape", np.ones_like, rank0="array")(_like(1.0))
row("x fill_value dtype shape", np.full_like, rank0="array")(_like(None))


@row("start stop step dtype", np.arange)
def _arange(w: Lowerer, a: Args, node: Node) -> Val:
    start, stop = a["start"], a["stop"]
    if isinstance(stop, NoneVal):
        start, stop = number(0), start
    elif "start" not in a.given:
        start = number(0)
    if isinstance(stop, NoneVal) or (isinstance(a["stop"], NoneVal) and isinstance(a.where["start"], ast.keyword)):
        raise w.refuse("ACR203", node, seen="np.arange without stop")
    if isinstance(start, NoneVal):
        raise w.refuse("ACR301", a.where["start"], seen="None for start of np.arange", rewrite="np.arange(0, stop)")
    first, last, step = (w.host_value(v, node, "np.arange()") for v in (start, stop, a["step"]))
    return w.arange(first, last, step, a.dtype(), node)


@row("n m k dtype", np.eye)
def _eye(w: Lowerer, a: Args, node: Node) -> Val:
    n = _extents(w, a, "n")[0]
    m = n if isinstance(a["m"], NoneVal) else _extents(w, a, "m")[0]
    return w.eye(n, m, a.whole("k"), a.dtype() or "float64", node)


@row("n dtype", np.identity)
def _identity(w: Lowerer, a: Args, node: Node) -> Val:
    n = _extents(w, a, "n")[0]
    return w.eye(n, n, 0, a.dtype() or "float64", node)


@row("x dtype", np.array, np.asarray, rank0="array")
def _array(w: Lowerer, a: Args, node: Node) -> Val:
    dtype = a.dtype()
    val = a["x"]
    if isinstance(val, Num):
        return w.from_number(val, dtype or w.natural(val, node), node)
    runtime = _runtime_list(w, val, node)
    if runtime is not None:
        if dtype is not None:
            _check_list(w, runtime, dtype, node)
        return w.array_of(runtime, dtype, node)
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


@row("x dtype", np.ascontiguousarray)
def _ascontiguousarray(w: Lowerer, a: Args, node: Node) -> Val:
    x = _array(w, a, node)
    return _with_axis(w, x, node) if isinstance(x, Tensor) else x


def as_dtype(w: Lowerer, val: Val, dtype: str, node: Node) -> Tensor:
    if isinstance(val, Num):
        return w.from_number(val, dtype, node)
    return w.cast(w.as_tensor(val, node=node), dtype, node)


@row("x dtype casting copy", method="astype", rank0="first")
def _astype(w: Lowerer, a: Args, node: Node) -> Val:
    x, dtype = a.tensor("x"), a.dtype() or "float64"
    a.may_cast([x], dtype)
    out = w.cast(x, dtype, node)
    if out is x and a.flag("copy"):
        return Tensor(out.type, out.ref, out.dims, fresh=True, array0=x.array0)
    return out


@row("*args", np.result_type)
def _result_type(w: Lowerer, a: Args, node: Node) -> Val:
    return Static(np.result_type(*(_kind(w, v, a.where["*args"]) for v in a.rest)))


@row("x y", np.promote_types)
def _promote_types(w: Lowerer, a: Args, node: Node) -> Val:
    return Static(np.promote_types(a.static("x"), a.static("y")))


def _kind(w: Lowerer, val: Val, node: Node) -> Any:
    """Return what NumPy's rules of promotion see of a value."""
    if isinstance(val, Num):
        return PYTHON[val.type](0)
    out = np.dtype(val.type.dtype) if isinstance(val, Tensor) else w.static(val, node)
    if out is NOT_CONST:
        raise w.refuse("ACR301", node, seen=f"np.result_type of {w.describe(val)}")
    return out


@row("x", np.finfo, np.iinfo)
def _finfo(w: Lowerer, a: Args, node: Node) -> Val:
    dtype = np.dtype(a.static("x"))
    return Static(np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype))


@row("x *args", method="item")
def _item(w: Lowerer, a: Args, node: Node) -> Val:
    x, where = a.tensor("x"), [w.host_value(v, a.where["*args"], ".item()", index=True) for v in a.rest]
    if not where:
        message = "can only convert an array of size 1 to a Python scalar"
        return w.host(w.only_element(x, message, message, node), ".item()", node)
    if any(i.type == BOOL for i in where):
        raise w.refuse("ACR301", a.where["*args"], seen=".item() of bool", rewrite="int(i)")
    if len(where) == 1:
        x = w.flatten(x, node)
    if len(where) != x.type.rank:
        raise w.refuse("ACR402", a.where["*args"], seen=f"{len(where)} indices for {w.describe(x)}")
    for i in where:
        x = w.take(x, i, 0, node)
    return w.host(x, ".item()", node)


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
