"""NumPy's functions that compute: element-wise, reductions, products."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from acronumba import nn, random
from acronumba.frontend.block import Dead
from acronumba.frontend.calls.of_arrays import as_dtype
from acronumba.frontend.calls.tables import Args, Handler, Node, row
from acronumba.frontend.conditions import host_value
from acronumba.frontend.magic import call_special, is_array_like
from acronumba.frontend.ufuncs import CALLED
from acronumba.frontend.values import (
    NOT_CONST,
    NoneVal,
    Num,
    StrVal,
    Tensor,
    TupleVal,
    Val,
    number,
)  # fmt: skip
from acronumba.ir.types import INT

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


# ---- NumPy: element-wise


def _float_unary(op: str) -> Handler:
    """`nn.sigmoid` and `nn.erf`: operations of their own, on float arrays."""

    def handler(w: Walker, a: Args, node: Node) -> Val:
        x = a.tensor("x")
        dtype = x.type.dtype if x.type.dtype.startswith("float") else "float64"
        return w.element(op, [w.cast(x, dtype, node)], dtype, node)

    return handler


row("x", nn.sigmoid)(_float_unary("sigmoid"))
row("x", nn.erf)(_float_unary("erf"))


@row("x factor", nn.scale_gradient)
def _scale_gradient(w: Walker, a: Args, node: Node) -> Val:
    factor = w.known(a["factor"]) if isinstance(a["factor"], Num) else NOT_CONST
    if factor is NOT_CONST:
        seen = f"a factor {w.describe(a['factor'])}"
        raise w.refuse("ACR403", a.where["factor"], seen=seen, message="the factor of a gradient is a constant",
                       rewrite="nn.scale_gradient(x, 0.5)")  # fmt: skip
    x = a["x"]
    if not isinstance(x, Tensor) or not x.type.dtype.startswith("float"):
        return x
    return w.op("scale_gradient", (x.ref,), x.type.dtype, x.dims, (float(factor),), node, base=x)


@row("x ids n", nn.segment_sum)
def _segment_sum(w: Walker, a: Args, node: Node) -> Val:
    x, ids = a.tensor("x"), a.tensor("ids")
    if not x.type.rank or ids.type.rank != 1:
        raise w.refuse("ACR402", node, seen=f"segments of {w.describe(x)} by {w.describe(ids)}")
    n = w.as_extent(host_value(w, a["n"], a.where["n"], "a number of segments", index=True))
    w.not_negative((n,), a.where["n"])
    rows, many = w.extent(x.dims[0]), w.extent(ids.dims[0])
    w.check(w.scalar("eq", rows, many), "ValueError", "{0} rows, but {1} ids", (rows, many), node)
    if x.type.dtype == "bool":
        x = w.cast(x, "int64", node)
    places = w.checked(w.signed(ids, node) if ids.type.dtype == "uint64" else ids, n, 0, node)
    return w.scatter(x, w.refine(places, x.dims[:1]), n, node)


@row("key counter", random.threefry)
def _threefry(w: Walker, a: Args, node: Node) -> Val:
    parts = [v if isinstance(v, Num) else w.as_tensor(v, node=node) for v in (a["key"], a["counter"])]
    for v in parts:
        if isinstance(v, Tensor) and v.type.dtype != "uint64":
            raise w.refuse("ACR301", node, seen=f"threefry of {w.describe(v)}", rewrite="x.astype(np.uint64)")
    return w.element("threefry", [as_dtype(w, v, "uint64", node) for v in parts], "uint64", node)


def _ufunc(op: str) -> Handler:
    def handler(w: Walker, a: Args, node: Node) -> Val:
        return w.ufunc(op, tuple(a.values.values()), node)

    return handler


for _op, _f in CALLED.items():
    row("x" if _f.nin == 1 else "x y", _f)(_ufunc(_op))


def _logical(op: str, count: int) -> Handler:
    def handler(w: Walker, a: Args, node: Node) -> Val:
        parts = [w.cast(w.as_tensor(v, node=node), "bool", node) for v in a.values.values()]
        return w.element(op, parts, "bool", node)

    return handler


row("x y", np.logical_and)(_logical("and", 2))
row("x y", np.logical_or)(_logical("or", 2))
row("x y", np.logical_xor)(_logical("xor", 2))
row("x", np.logical_not)(_logical("not", 1))


@row("x min max", method="clip")
def _clip(w: Walker, a: Args, node: Node) -> Val:
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
def _np_clip(w: Walker, a: Args, node: Node) -> Val:
    old, new = {"a_min", "a_max"} & a.given, {"min", "max"} & a.given
    if old and (new or len(old) == 1):
        raise w.refuse("ACR203", a.where[min(new or old)], seen=f"np.clip with {', '.join(sorted(a.given - {'x'}))}",
                       rewrite="np.clip(x, low, high)")  # fmt: skip
    if not old:
        return _clip(w, a, node)
    return _clip(w, a.replaced("min", a["a_min"]).replaced("max", a["a_max"]), node)


@row("cond x y", np.where, rank0="array")
def _where(w: Walker, a: Args, node: Node) -> Val:
    if not {"x", "y"} & a.given:
        return _nonzero(w, a, node)
    if not {"x", "y"} <= a.given:
        raise w.refuse("ACR203", a.where["x"], seen="np.where with one of two values", rewrite="np.where(cond, x, y)")
    return w.where(a["cond"], a["x"], a["y"], node)


@row("cond", np.nonzero, method="nonzero")
def _nonzero(w: Walker, a: Args, node: Node) -> Val:
    x = a.tensor("cond")
    if not x.type.rank:
        raise w.refuse("ACR402", a.where["cond"], seen=f"the places of {w.describe(x)}", rewrite="np.atleast_1d(x)")
    return TupleVal(tuple(w.places(x, "how many elements are not zero", node)))


# ---- NumPy: reductions


def _reduction(op: str) -> Handler:
    def handler(w: Walker, a: Args, node: Node) -> Val:
        x = a.tensor("a")
        dtype = a.dtype() if "dtype" in a.values else None
        axes, keepdims = a.reduced("axis", x.type.rank), a.flag("keepdims")
        initial = a["initial"] if "initial" in a.given and not isinstance(a["initial"], NoneVal) else None
        mask = mask_of(w, a)
        if mask is not None:
            if initial is None and op in ("max", "min"):
                message = f"reduction operation '{op}imum' does not have an identity, so to use a where mask one has to"
                w.fail("ValueError", f"{message} specify 'initial'", node)
                raise Dead
            other = initial if op in ("max", "min") and initial is not None else _neutral(op, x)
            x = w.where(mask, x, other, node)
        if initial is None:
            return w.reduce(op, x, axes, keepdims, node, dtype)
        return w.reduce_from(op, x, initial, axes, keepdims, node, dtype)

    return handler


def _neutral(op: str, x: Tensor) -> Num:
    """Return what changes nothing, where a mask leaves elements out: what NumPy gives of no elements."""
    return number(getattr(np, op)(np.zeros(0, x.type.dtype)).item())


def mask_of(w: Walker, a: Args) -> Tensor | None:
    """Return the argument `where`, None if it leaves nothing out; NumPy takes no other arrays than of bools for it."""
    val, place = a["where"], a.where["where"]
    if w.static(val, place) is True:
        return None
    mask = w.as_tensor(val, node=place)
    if not isinstance(val, Num) and mask.type.dtype != "bool":
        raise w.refuse("ACR301", place, seen=f"{w.describe(val)} for where of {a.what}", rewrite="where=x != 0")
    return w.cast(mask, "bool", place)


row("a axis dtype keepdims initial where", np.sum, method="sum")(_reduction("sum"))
row("a axis dtype keepdims initial where", np.prod, method="prod")(_reduction("prod"))
row("a axis keepdims initial where", np.max, np.amax, method="max")(_reduction("max"))
row("a axis keepdims initial where", np.min, np.amin, method="min")(_reduction("min"))
row("a axis keepdims where", np.any, method="any")(_reduction("any"))
row("a axis keepdims where", np.all, method="all")(_reduction("all"))


@row("a axis dtype keepdims where", np.mean, method="mean")
def _mean(w: Walker, a: Args, node: Node) -> Val:
    x, dtype = a.tensor("a"), a.dtype()
    mask = mask_of(w, a)
    if mask is not None:
        out = dtype or (x.type.dtype if x.type.dtype.startswith("float") else "float64")
        axes, keepdims = a.reduced("axis", x.type.rank), a.flag("keepdims")
        many = w.reduce("sum", w.broadcast_to(w.cast(mask, "bool", node), x.dims, node), axes, keepdims, node)
        total = w.reduce("sum", w.where(mask, x, number(0), node), axes, keepdims, node, out)
        return w.element("div", [total, w.cast(many, out, node)], out, node)
    if dtype is not None and not dtype.startswith("float"):
        raise w.refuse("ACR202", a.where["dtype"], seen=f"a mean of {dtype}", rewrite="np.mean(x).astype(dtype)")
    return w.mean(x, a.reduced("axis", x.type.rank), a.flag("keepdims"), node, dtype)


@row("a axis ddof keepdims", np.var, method="var")
def _var(w: Walker, a: Args, node: Node) -> Val:
    x, ddof = a.tensor("a"), host_value(w, a["ddof"], a.where["ddof"], "ddof")
    return w.variance(x, a.reduced("axis", x.type.rank), a.flag("keepdims"), ddof, node)


@row("a axis ddof keepdims", np.std, method="std")
def _std(w: Walker, a: Args, node: Node) -> Val:
    square = _var(w, a, node)
    assert isinstance(square, Tensor)
    return w.root(square, 2, node)


def _arg_reduction(op: str) -> Handler:
    def handler(w: Walker, a: Args, node: Node) -> Val:
        x = a.tensor("a")
        axis = None if a.static("axis") is None else a.axis("axis", x.type.rank)
        return w.arg_reduce(op, x, axis, a.flag("keepdims"), node)

    return handler


row("a axis keepdims", np.argmax, method="argmax")(_arg_reduction("argmax"))
row("a axis keepdims", np.argmin, method="argmin")(_arg_reduction("argmin"))


def _scan(op: str) -> Handler:
    def handler(w: Walker, a: Args, node: Node) -> Val:
        x = a.tensor("a")
        if a.static("axis") is None or not x.type.rank:
            x = w.flatten(x, node)
        axis = 0 if a.static("axis") is None else a.axis("axis", x.type.rank)
        return w.scan(op, x, axis, a.dtype(), node)

    return handler


@row("x axis kind stable order", np.argsort, method="argsort", rank0="array")
def _argsort(w: Walker, a: Args, node: Node) -> Val:
    a.choice("order", None)
    x = a.tensor("x")
    if a.static("axis") is None or not x.type.rank:
        return w.order(w.flatten(x, node), 0, node)
    return w.order(x, a.axis("axis", x.type.rank), node)


row("a axis dtype", np.cumsum, method="cumsum")(_scan("sum"))
row("a axis dtype", np.cumprod, method="cumprod")(_scan("prod"))


@row("x ord axis keepdims", np.linalg.norm)
def _norm(w: Walker, a: Args, node: Node) -> Val:
    """The root of the sum of squares: of vectors, or of matrices (the Frobenius norm); of all elements by default."""
    x = a.tensor("x")
    axes, order = a.reduced("axis", x.type.rank), a.static("ord")
    everything = order is None and a.static("axis") is None
    if not everything and len(axes) not in (1, 2):
        raise w.refuse("ACR402", a.where["axis"], seen=f"np.linalg.norm over {len(axes)} axes")
    x = w.cast(x, x.type.dtype if x.type.dtype.startswith("float") else "float64", node)
    if not everything and order not in ((None, 2) if len(axes) == 1 else (None, "fro")):
        if len(axes) == 2 and x.type.rank == 2 and not isinstance(order, float) and order in (2, -2, "nuc"):
            sizes = w.as_tensor(w.call(w.constant(np.linalg.svdvals), (x,), {}, node))
            out = w.reduce({2: "max", -2: "min"}.get(order, "sum"), sizes, (0,), False, node)
            return w.reshape(out, (1, 1), node) if a.flag("keepdims") else out
        numbers = isinstance(order, int | float) and (len(axes) == 1 or abs(order) in (1, np.inf))
        if isinstance(order, bool) or not numbers:
            what = {1: "vectors", 2: "matrices"}[len(axes)]
            raise w.refuse("ACR202", a.where["ord"], seen=f"np.linalg.norm with ord={order!r} of {what}",
                           rewrite="leave ord out: the root of the sum of squares")  # fmt: skip
        size = w.ufunc("abs", (x,), node)
        if len(axes) == 1:
            return _vector_norm(w, size, float(order), axes, a.flag("keepdims"), node)
        first, last = a.axes("axis", x.type.rank) if a.static("axis") is not None else axes
        summed, chosen = (first, last) if abs(order) == 1 else (last, first)
        total = w.reduce("sum", size, (summed,), True, node)
        out = w.reduce("max" if order > 0 else "min", total, (chosen,), True, node)
        rest = out.dims if a.flag("keepdims") else [d for k, d in enumerate(out.dims) if k not in (first, last)]
        return w.reshape(out, tuple(rest), node)
    total = w.reduce("sum", w.ufunc("mul", (x, x), node), axes, a.flag("keepdims"), node)
    return w.root(total, 2, node)


def _vector_norm(
    w: Walker, size: Tensor, order: float, axes: tuple[int, ...], keepdims: bool, node: Node
) -> Tensor:  # fmt: skip
    """Return the norm of that order of vectors whose elements have these sizes."""
    if order == np.inf:
        return w.reduce_from("max", size, number(0), axes, keepdims, node)
    if order == -np.inf:
        return w.reduce("min", size, axes, keepdims, node)
    if order == 0:
        some = w.ufunc("ne", (size, number(0)), node)
        return w.reduce("sum", w.cast(some, size.type.dtype, node), axes, keepdims, node)
    if order == 1:
        return w.reduce("sum", size, axes, keepdims, node)
    total = w.reduce("sum", w.ufunc("pow", (size, number(order)), node), axes, keepdims, node)
    return w.root(total, order, node)


# ---- NumPy: products


@row("x y", np.matmul)
def _matmul(w: Walker, a: Args, node: Node) -> Val:
    for mine, other, name in (("x", "y", "__matmul__"), ("y", "x", "__rmatmul__")):
        if is_array_like(a[mine]):
            return call_special(w, a[mine], name, (a[other],), node)
    return w.matmul(a.tensor("x"), a.tensor("y"), node)


@row("x y", np.dot, method="dot")
def _dot(w: Walker, a: Args, node: Node) -> Val:
    return w.dot(a.tensor("x"), a.tensor("y"), node)


@row("x y", np.inner)
def _inner(w: Walker, a: Args, node: Node) -> Val:
    x, y = a.tensor("x"), a.tensor("y")
    if x.type.rank and y.type.rank > 1:  # a number times an array is the array times the number, axis by axis
        y = w.transpose(y, (*range(y.type.rank - 2), y.type.rank - 1, y.type.rank - 2), node)
    return w.dot(x, y, node)


@row("x y", np.vdot)
def _vdot(w: Walker, a: Args, node: Node) -> Val:
    return w.dot(w.flatten(a.tensor("x"), node), w.flatten(a.tensor("y"), node), node)


@row("x y", np.outer)
def _outer(w: Walker, a: Args, node: Node) -> Val:
    return w.outer(a.tensor("x"), a.tensor("y"), node)


@row("spec *operands", np.einsum)
def _einsum(w: Walker, a: Args, node: Node) -> Val:
    spec = a.static("spec") if isinstance(a["spec"], StrVal) else None
    if spec is None:
        raise w.refuse("ACR202", a.where["spec"], seen=f"np.einsum of {w.describe(a['spec'])}",
                       rewrite="np.einsum('ij,j->i', x, y)")  # fmt: skip
    return w.einsum(spec, [w.as_tensor(v, node=node) for v in a.rest], node)
