"""Handlers of NumPy's element-wise functions, reductions and products, and of operations of `nn` and `random`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from acronumba import nn, random
from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.of_arrays import as_dtype
from acronumba.frontend.calls.tables import Handler, row
from acronumba.frontend.conditions import host_value
from acronumba.frontend.exceptions import Dead
from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import NOT_CONST, Val
from acronumba.frontend.magic import call_special, is_array_like
from acronumba.frontend.ufuncs import CALLED
from acronumba.ir.types import INT

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


# ---- NumPy: element-wise


def _float_unary(op: str) -> Handler:
    """Return the handler of `nn.sigmoid` or `nn.erf`, which is an operation of the IR on float arrays."""

    def handler(w: Walker, a: Args) -> Val:
        x = a.tensor("x")
        dtype = x.type.dtype if x.type.dtype.startswith("float") else "float64"
        return w.ops.element(op, [w.ops.cast(x, dtype)], dtype)

    return handler


row("x", nn.sigmoid)(_float_unary("sigmoid"))
row("x", nn.erf)(_float_unary("erf"))


@row("x factor", nn.scale_gradient)
def _scale_gradient(w: Walker, a: Args) -> Val:
    factor = w.known(a["factor"]) if isinstance(a["factor"], Num) else NOT_CONST
    if factor is NOT_CONST:
        seen = f"a factor {w.describe(a['factor'])}"
        raise w.reject("ACR403", a.where["factor"], seen=seen, message="the factor of a gradient is a constant",
                       rewrite="nn.scale_gradient(x, 0.5)")  # fmt: skip
    x = a["x"]
    if not isinstance(x, Tensor) or not x.type.dtype.startswith("float"):
        return x
    return w.ops.op("scale_gradient", (x.ref,), x.type.dtype, x.dims, (float(factor),), base=x)


@row("x ids n", nn.segment_sum)
def _segment_sum(w: Walker, a: Args) -> Val:
    x, ids = a.tensor("x"), a.tensor("ids")
    if not x.type.rank or ids.type.rank != 1:
        raise w.reject("ACR402", seen=f"segments of {w.describe(x)} by {w.describe(ids)}")
    with w.at_node(a.where["n"]):
        n = w.as_extent(host_value(w, a["n"], "a number of segments", index=True))
        w.ops.not_negative((n,))
    rows, many = w.extent(x.dims[0]), w.extent(ids.dims[0])
    w.check(w.scalar("eq", rows, many), "ValueError", "{0} rows, but {1} ids", (rows, many))
    if x.type.dtype == "bool":
        x = w.ops.cast(x, "int64")
    places = w.ops.checked(w.ops.signed(ids) if ids.type.dtype == "uint64" else ids, n, 0)
    return w.ops.scatter(x, w.ops.refine(places, x.dims[:1]), n)


@row("key counter", random.threefry)
def _threefry(w: Walker, a: Args) -> Val:
    parts = [w.ops.as_operand(a["key"]), w.ops.as_operand(a["counter"])]
    for v in parts:
        if isinstance(v, Tensor) and v.type.dtype != "uint64":
            raise w.reject("ACR301", seen=f"threefry of {w.describe(v)}", rewrite="x.astype(np.uint64)")
    return w.ops.element("threefry", [as_dtype(w, v, "uint64") for v in parts], "uint64")


def _ufunc(op: str) -> Handler:
    def handler(w: Walker, a: Args) -> Val:
        return w.ops.ufunc(op, tuple(a.values.values()))

    return handler


for _op, _f in CALLED.items():
    row("x" if _f.nin == 1 else "x y", _f)(_ufunc(_op))


def _logical(op: str) -> Handler:
    def handler(w: Walker, a: Args) -> Val:
        parts = [w.ops.cast(w.ops.as_tensor(v), "bool") for v in a.values.values()]
        return w.ops.element(op, parts, "bool")

    return handler


row("x y", np.logical_and)(_logical("and"))
row("x y", np.logical_or)(_logical("or"))
row("x y", np.logical_xor)(_logical("xor"))
row("x", np.logical_not)(_logical("not"))


@row("x min max", np.ndarray.clip)
def _clip(w: Walker, a: Args) -> Val:
    x = a.tensor("x")  # also of a number: its dtype is not weak
    bounds = [None if a.is_none(name) else a[name] for name in ("min", "max")]
    if np.dtype(x.type.dtype).kind in "iu":
        info = np.iinfo(x.type.dtype)
        for k, bound in enumerate(bounds):
            if isinstance(bound, Num) and bound.type == INT:
                bounds[k] = w.ops.bound_of(bound, bool(k), int(info.max if k else info.min))
    low, high = bounds
    if low is None and high is None:
        return w.ops.ufunc("positive", (x,))
    if low is None or high is None:
        op, bound = ("minimum", high) if low is None else ("maximum", low)
        assert bound is not None
        return w.ops.ufunc(op, (x, bound))
    return w.ops.ufunc("clip", (x, low, high))


@row("x a_min a_max min max", np.clip)
def _np_clip(w: Walker, a: Args) -> Val:
    old, new = {"a_min", "a_max"} & a.given, {"min", "max"} & a.given
    if old and (new or len(old) == 1):
        raise w.reject("ACR203", a.where[min(new or old)], seen=f"np.clip with {', '.join(sorted(a.given - {'x'}))}",
                       rewrite="np.clip(x, low, high)")  # fmt: skip
    if not old:
        return _clip(w, a)
    return _clip(w, a.replaced("min", a["a_min"]).replaced("max", a["a_max"]))


@row("cond x y", np.where, rank0="array")
def _where(w: Walker, a: Args) -> Val:
    if not {"x", "y"} & a.given:
        return _nonzero(w, a)
    if not {"x", "y"} <= a.given:
        raise w.reject("ACR203", a.where["x"], seen="np.where with one of two values", rewrite="np.where(cond, x, y)")
    return w.ops.where(a["cond"], a["x"], a["y"])


@row("cond", np.nonzero, np.ndarray.nonzero)
def _nonzero(w: Walker, a: Args) -> Val:
    x = a.tensor("cond")
    if not x.type.rank:
        raise w.reject("ACR402", a.where["cond"], seen=f"the places of {w.describe(x)}", rewrite="np.atleast_1d(x)")
    return TupleVal(tuple(w.ops.places(x, "how many elements are not zero")))


# ---- NumPy: reductions


def _reduction(op: str) -> Handler:
    def handler(w: Walker, a: Args) -> Val:
        x = a.tensor("a")
        dtype = a.dtype() if "dtype" in a.values else None
        axes, keepdims = a.reduced("axis", x.type.rank), a.flag("keepdims")
        initial = a["initial"] if "initial" in a.given and not a.is_none("initial") else None
        mask = mask_of(w, a)
        if mask is not None:
            if initial is None and op in ("max", "min"):
                message = f"reduction operation '{op}imum' does not have an identity, so to use a where mask one has to"
                w.fail("ValueError", f"{message} specify 'initial'")
                raise Dead
            other = initial if op in ("max", "min") and initial is not None else _neutral(op, x)
            x = w.ops.where(mask, x, other)
        if initial is None:
            return w.ops.reduce(op, x, axes, keepdims, dtype)
        return w.ops.reduce_from(op, x, initial, axes, keepdims, dtype)

    return handler


def _neutral(op: str, x: Tensor) -> Num:
    """Return the identity of a reduction, its result for no elements, which replaces masked-out elements."""
    return number(getattr(np, op)(np.zeros(0, x.type.dtype)).item())


def mask_of(w: Walker, a: Args) -> Tensor | None:
    """Return the argument `where` as a mask; None if it is True. Arrays must be of bools, as in NumPy."""
    val, place = a["where"], a.where["where"]
    with w.at_node(place):
        return _mask(w, a, val)


def _mask(w: Walker, a: Args, val: Val) -> Tensor | None:
    if w.static(val) is True:
        return None
    mask = w.ops.as_tensor(val)
    if not isinstance(val, Num) and mask.type.dtype != "bool":
        raise w.reject("ACR301", seen=f"{w.describe(val)} for where of {a.what}", rewrite="where=x != 0")
    return w.ops.cast(mask, "bool")


row("a axis dtype keepdims initial where", np.sum, np.ndarray.sum)(_reduction("sum"))
row("a axis dtype keepdims initial where", np.prod, np.ndarray.prod)(_reduction("prod"))
row("a axis keepdims initial where", np.max, np.amax, np.ndarray.max)(_reduction("max"))
row("a axis keepdims initial where", np.min, np.amin, np.ndarray.min)(_reduction("min"))
row("a axis keepdims where", np.any, np.ndarray.any)(_reduction("any"))
row("a axis keepdims where", np.all, np.ndarray.all)(_reduction("all"))


@row("a axis dtype keepdims where", np.mean, np.ndarray.mean)
def _mean(w: Walker, a: Args) -> Val:
    x, dtype = a.tensor("a"), a.dtype()
    mask = mask_of(w, a)
    if mask is not None:
        out = dtype or (x.type.dtype if x.type.dtype.startswith("float") else "float64")
        axes, keepdims = a.reduced("axis", x.type.rank), a.flag("keepdims")
        many = w.ops.reduce("sum", w.ops.broadcast_to(w.ops.cast(mask, "bool"), x.dims), axes, keepdims)
        total = w.ops.reduce("sum", w.ops.where(mask, x, number(0)), axes, keepdims, out)
        return w.ops.element("div", [total, w.ops.cast(many, out)], out)
    if dtype is not None and not dtype.startswith("float"):
        raise w.reject("ACR202", a.where["dtype"], seen=f"a mean of {dtype}", rewrite="np.mean(x).astype(dtype)")
    return w.ops.mean(x, a.reduced("axis", x.type.rank), a.flag("keepdims"), dtype)


@row("a axis ddof keepdims", np.var, np.ndarray.var)
def _var(w: Walker, a: Args) -> Val:
    x = a.tensor("a")
    with w.at_node(a.where["ddof"]):
        ddof = host_value(w, a["ddof"], "ddof")
    return w.ops.variance(x, a.reduced("axis", x.type.rank), a.flag("keepdims"), ddof)


@row("a axis ddof keepdims", np.std, np.ndarray.std)
def _std(w: Walker, a: Args) -> Val:
    square = _var(w, a)
    assert isinstance(square, Tensor)
    return w.ops.root(square, 2)


def _arg_reduction(op: str) -> Handler:
    def handler(w: Walker, a: Args) -> Val:
        x = a.tensor("a")
        axis = None if a.static("axis") is None else a.axis("axis", x.type.rank)
        return w.ops.arg_reduce(op, x, axis, a.flag("keepdims"))

    return handler


row("a axis keepdims", np.argmax, np.ndarray.argmax)(_arg_reduction("argmax"))
row("a axis keepdims", np.argmin, np.ndarray.argmin)(_arg_reduction("argmin"))


def _scan(op: str) -> Handler:
    def handler(w: Walker, a: Args) -> Val:
        x = a.tensor("a")
        if a.static("axis") is None or not x.type.rank:
            x = w.ops.flatten(x)
        axis = 0 if a.static("axis") is None else a.axis("axis", x.type.rank)
        return w.ops.scan(op, x, axis, a.dtype())

    return handler


@row("x axis kind stable order", np.argsort, np.ndarray.argsort, rank0="array")
def _argsort(w: Walker, a: Args) -> Val:
    a.choice("order", None)
    x = a.tensor("x")
    if a.static("axis") is None or not x.type.rank:
        return w.ops.order(w.ops.flatten(x), 0)
    return w.ops.order(x, a.axis("axis", x.type.rank))


row("a axis dtype", np.cumsum, np.ndarray.cumsum)(_scan("sum"))
row("a axis dtype", np.cumprod, np.ndarray.cumprod)(_scan("prod"))


@row("x ord axis keepdims", np.linalg.norm)
def _norm(w: Walker, a: Args) -> Val:
    """Return norms of vectors (one axis) or of matrices (two axes); by default, the 2-norm of all elements."""
    x = a.tensor("x")
    axes, order = a.reduced("axis", x.type.rank), a.static("ord")
    everything = order is None and a.static("axis") is None
    if not everything and len(axes) not in (1, 2):
        raise w.reject("ACR402", a.where["axis"], seen=f"np.linalg.norm over {len(axes)} axes")
    x = w.ops.cast(x, x.type.dtype if x.type.dtype.startswith("float") else "float64")
    if not everything and order not in ((None, 2) if len(axes) == 1 else (None, "fro")):
        if len(axes) == 2 and x.type.rank == 2 and not isinstance(order, float) and order in (2, -2, "nuc"):
            sizes = w.ops.as_tensor(w.call(w.constant(np.linalg.svdvals), (x,), {}))
            out = w.ops.reduce({2: "max", -2: "min"}.get(order, "sum"), sizes, (0,), False)
            return w.ops.reshape(out, (1, 1)) if a.flag("keepdims") else out
        numbers = isinstance(order, int | float) and (len(axes) == 1 or abs(order) in (1, np.inf))
        if isinstance(order, bool) or not numbers:
            what = {1: "vectors", 2: "matrices"}[len(axes)]
            raise w.reject("ACR202", a.where["ord"], seen=f"np.linalg.norm with ord={order!r} of {what}",
                           rewrite="leave out ord: the root of the sum of squares")  # fmt: skip
        size = w.ops.ufunc("abs", (x,))
        if len(axes) == 1:
            return _vector_norm(w, size, float(order), axes, a.flag("keepdims"))
        first, last = a.axes("axis", x.type.rank) if a.static("axis") is not None else axes
        summed, chosen = (first, last) if abs(order) == 1 else (last, first)
        total = w.ops.reduce("sum", size, (summed,), True)
        out = w.ops.reduce("max" if order > 0 else "min", total, (chosen,), True)
        rest = out.dims if a.flag("keepdims") else [d for k, d in enumerate(out.dims) if k not in (first, last)]
        return w.ops.reshape(out, tuple(rest))
    total = w.ops.reduce("sum", w.ops.ufunc("mul", (x, x)), axes, a.flag("keepdims"))
    return w.ops.root(total, 2)


def _vector_norm(w: Walker, size: Tensor, order: float, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """Return the norms of vectors, for a given order, from the absolute values of their elements."""
    if order == np.inf:
        return w.ops.reduce_from("max", size, number(0), axes, keepdims)
    if order == -np.inf:
        return w.ops.reduce("min", size, axes, keepdims)
    if order == 0:
        some = w.ops.ufunc("ne", (size, number(0)))
        return w.ops.reduce("sum", w.ops.cast(some, size.type.dtype), axes, keepdims)
    if order == 1:
        return w.ops.reduce("sum", size, axes, keepdims)
    total = w.ops.reduce("sum", w.ops.ufunc("pow", (size, number(order))), axes, keepdims)
    return w.ops.root(total, order)


# ---- NumPy: products


@row("x y", np.matmul)
def _matmul(w: Walker, a: Args) -> Val:
    for mine, other, name in (("x", "y", "__matmul__"), ("y", "x", "__rmatmul__")):
        if is_array_like(a[mine]):
            return call_special(w, a[mine], name, (a[other],))
    return w.ops.matmul(a.tensor("x"), a.tensor("y"))


@row("x y", np.dot, np.ndarray.dot)
def _dot(w: Walker, a: Args) -> Val:
    return w.ops.dot(a.tensor("x"), a.tensor("y"))


@row("x y", np.inner)
def _inner(w: Walker, a: Args) -> Val:
    x, y = a.tensor("x"), a.tensor("y")
    if x.type.rank and y.type.rank > 1:  # for a scalar x, `dot` multiplies y as it is
        y = w.ops.transpose(y, (*range(y.type.rank - 2), y.type.rank - 1, y.type.rank - 2))
    return w.ops.dot(x, y)


@row("x y", np.vdot)
def _vdot(w: Walker, a: Args) -> Val:
    return w.ops.dot(w.ops.flatten(a.tensor("x")), w.ops.flatten(a.tensor("y")))


@row("x y", np.outer)
def _outer(w: Walker, a: Args) -> Val:
    return w.ops.outer(a.tensor("x"), a.tensor("y"))


@row("spec *operands", np.einsum)
def _einsum(w: Walker, a: Args) -> Val:
    spec = w.static(a["spec"])
    if not isinstance(spec, str):
        raise w.reject("ACR202", a.where["spec"], seen=f"np.einsum of {w.describe(a['spec'])}",
                       rewrite="np.einsum('ij,j->i', x, y)")  # fmt: skip
    return w.ops.einsum(spec, [w.ops.as_tensor(v) for v in a.rest])
