"""Handlers of NumPy's functions for tiling, padding, grids, blocks, columns and splits, and of `np.tensordot`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.of_shapes import _shape, _tensor_items, copied, extents, with_axis
from acronumba.frontend.calls.tables import Handler, row
from acronumba.frontend.conditions import host_value
from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.library.numpy_shapes import bordered, continued
from acronumba.frontend.lists import new_list
from acronumba.ir import nodes as ir

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


@row("x reps", np.tile)
def _tile(w: Walker, a: Args) -> Val:
    x, reps = a.tensor("x"), extents(w, a, "reps")
    with w.at_node(a.where["reps"]):
        w.ops.not_negative(reps)
    rank = max(x.type.rank, len(reps))
    dims: list[ir.Extent] = [*(1,) * (rank - x.type.rank), *x.dims]
    times: list[ir.Extent] = [*(1,) * (rank - len(reps)), *reps]
    pairs = [d for pair in zip((1,) * rank, dims, strict=True) for d in pair]
    wide = w.ops.broadcast_to(w.ops.reshape(x, pairs), [d for p in zip(times, dims, strict=True) for d in p])
    out = w.ops.reshape(wide, [w.as_extent(w.ops.count(p)) for p in zip(times, dims, strict=True)])
    return replace(copied(w, out), filled=x.filled)  # no view, whatever its shape


def _pairs(w: Walker, a: Args, name: str, rank: int) -> list[tuple[Val, Val]]:
    """Return a (before, after) pair per axis, from one number, one pair, or a pair per axis."""
    val, where = a[name], a.where[name]
    items = w.items_of(val)
    if items is None:
        return [(val, val)] * rank
    inner = list(map(w.items_of, items))
    if inner and all(i is None for i in inner):
        pair = (items[0], items[-1])
        if len(items) > 2:
            raise w.reject("ACR202", where, seen=f"{len(items)} numbers for {name} of {a.what}")
        return [pair] * rank
    pairs = [(i[0], i[-1]) for i in inner if i]
    if len(pairs) == 1:
        pairs = pairs * rank
    if len(pairs) != rank:
        raise w.reject("ACR401", where, seen=f"{len(pairs)} pairs for {rank} axes")
    return pairs


@row("x width mode constant_values", np.pad, rank0="array")
def _pad(w: Walker, a: Args) -> Val:
    x: Val = a.tensor("x")
    assert isinstance(x, Tensor)
    modes = ("constant", "edge", "reflect", "symmetric", "wrap")
    mode = a.choice("mode", *modes)
    with w.at_node(a.where["width"]):
        widths = [
            tuple(host_value(w, v, "a width", index=True) for v in pair) for pair in _pairs(w, a, "width", x.type.rank)
        ]
    values: Sequence[tuple[Val, Val]] = [(number(0), number(0))] * x.type.rank
    if "constant_values" in a.given and mode != "constant":
        raise w.reject("ACR203", a.where["constant_values"], seen=f"constant_values with mode={mode!r}")
    if "constant_values" in a.given:
        values = _pairs(w, a, "constant_values", x.type.rank)
    for axis, (low, high) in enumerate(widths):
        good = w.both(w.scalar("ge", low, number(0)), w.scalar("ge", high, number(0)))
        with w.at_node(a.where["width"]):
            w.check(good, "ValueError", "index can't contain negative values")
        if mode == "constant":
            x = w.call(w.constant(bordered), (x, number(axis), low, high, *values[axis]), {})
        elif (w.known(low), w.known(high)) != (0, 0):
            x = w.call(w.constant(continued), (x, number(axis), low, high, w.constant(mode)), {})
    return x


def _grids(w: Walker, rows: Sequence[Tensor], sparse: bool) -> list[Tensor]:
    """Return vectors as coordinate grids: the one of vector `k` varies along axis `k`; not broadcast if `sparse`."""
    rank = len(rows)
    dims = [r.dims[0] for r in rows]
    out = []
    for k, r in enumerate(rows):
        x = w.ops.reshape(r, [r.dims[0] if a == k else 1 for a in range(rank)])
        out.append(x if sparse else w.ops.broadcast_to(x, dims))
    return out


@row("*xi indexing sparse", np.meshgrid)
def _meshgrid(w: Walker, a: Args) -> Val:
    rows = [w.ops.flatten(x) for x in a.tensors("*xi")]
    swapped = a.choice("indexing", "xy", "ij") == "xy" and len(rows) > 1
    grids = _grids(w, [rows[1], rows[0], *rows[2:]] if swapped else rows, a.flag("sparse"))
    return TupleVal(tuple([grids[1], grids[0], *grids[2:]] if swapped else grids))


def _counted(w: Walker, dims: Sequence[ir.Extent], dtype: str) -> list[Tensor]:
    """Return the numbers of the places along each of several axes."""
    w.ops.not_negative(dims)
    return [w.ops.iota(d, dtype) for d in dims]


@row("dimensions dtype sparse", np.indices)
def _indices(w: Walker, a: Args) -> Val:
    rows = _counted(w, extents(w, a, "dimensions"), a.dtype() or "int64")
    grids = _grids(w, rows, a.flag("sparse"))
    return TupleVal(tuple(grids)) if a.flag("sparse") else w.ops.stack(grids, 0)


@row("function shape dtype", np.fromfunction, whole=True)
def _fromfunction(w: Walker, a: Args) -> Val:
    rows = _counted(w, extents(w, a), a.dtype() or "float64")
    return w.call(a["function"], tuple(_grids(w, rows, False)), {})


@row("n ndim", np.diag_indices)
def _diag_indices(w: Walker, a: Args) -> Val:
    n = w.as_extent(w.scalar("max", number(0), w.extent(extents(w, a, "n")[0])))
    return TupleVal((w.ops.iota(n, "int64"),) * a.whole("ndim"))


@row("*args", np.ix_)
def _ix(w: Walker, a: Args) -> Val:
    rows = a.tensors("*args")
    for r, where in zip(rows, a.places, strict=True):
        if r.type.dtype == "bool" or r.type.rank != 1:
            raise w.reject("ACR202", where, seen=f"np.ix_ of {w.describe(r)}", rewrite="np.nonzero(mask)[0]")
    return TupleVal(tuple(_grids(w, rows, True)))


# ---- joining


@row("arrays", np.column_stack)
def _column_stack(w: Walker, a: Args) -> Val:
    columns = [with_axis(w, t) for t in _tensor_items(w, a)]
    return w.ops.concat([w.ops.reshape(t, (*t.dims, 1)) if t.type.rank == 1 else t for t in columns], 1)


@row("arrays", np.dstack)
def _dstack(w: Walker, a: Args) -> Val:
    tensors = _tensor_items(w, a)
    return w.ops.concat([_of_rank_3(w, t) for t in tensors], 2)


def _of_rank_3(w: Walker, x: Tensor) -> Tensor:
    if x.type.rank > 2:
        return x
    dims = {0: (1, 1, 1), 1: (1, *x.dims, 1), 2: (*x.dims, 1)}[x.type.rank]
    return w.ops.reshape(x, dims)


def _each(f: Any) -> Handler:
    def handler(w: Walker, a: Args) -> Val:
        out = tuple(f(w, x) for x in a.tensors("*arrays"))
        return out[0] if len(out) == 1 else TupleVal(out)

    return handler


def _of_rank_2(w: Walker, x: Tensor) -> Tensor:
    return x if x.type.rank > 1 else w.ops.reshape(x, (*(1,) * (2 - x.type.rank), *x.dims))


row("*arrays", np.atleast_2d)(_each(_of_rank_2))
row("*arrays", np.atleast_3d)(_each(_of_rank_3))


@row("arrays", np.block)
def _block(w: Walker, a: Args) -> Val:
    def depth(v: Val) -> int:
        items = w.items_of(v)
        return 0 if not items else 1 + depth(items[0])

    def joined(v: Val, levels: int) -> Tensor:
        items = w.items_of(v)
        if items is None:
            return w.ops.as_tensor(v)
        parts = [joined(i, levels - 1) for i in items]
        rank = max(levels, *(p.type.rank for p in parts), most)
        parts = [w.ops.reshape(p, (*(1,) * (rank - p.type.rank), *p.dims)) for p in parts]
        return w.ops.concat(parts, rank - levels)

    most = depth(a["arrays"])
    return joined(a["arrays"], most)


@row("*args", np.broadcast_arrays)
def _broadcast_arrays(w: Walker, a: Args) -> Val:
    parts = a.tensors("*args")
    dims = w.ops.broadcast_dims([p.dims for p in parts])
    return TupleVal(tuple(w.ops.as_array(w.ops.broadcast_to(p, dims)) for p in parts))


@row("*parts", np.r_)
def _r(w: Walker, a: Args) -> Val:
    if any(isinstance(w.static(v), str) for v in a.rest):
        raise w.reject("ACR202", a.where["*parts"], seen="np.r_ with a string", rewrite="np.concatenate(xs, axis)")
    return w.ops.concat([with_axis(w, w.ops.as_tensor(v)) for v in a.rest], 0)


@row("*parts", np.c_)
def _c(w: Walker, a: Args) -> Val:
    columns = [with_axis(w, w.ops.as_tensor(v)) for v in a.rest]
    rank = max(2, *(t.type.rank for t in columns))
    columns = [w.ops.reshape(t, (*t.dims, *(1,) * (rank - t.type.rank))) for t in columns]
    return w.ops.concat(columns, rank - 1)


@row("*parts", np.mgrid)
def _mgrid(w: Walker, a: Args) -> Val:
    rows = [w.ops.as_tensor(v) for v in a.rest]
    return rows[0] if len(rows) == 1 else w.ops.stack(_grids(w, rows, False), 0)


@row("*parts", np.ogrid)
def _ogrid(w: Walker, a: Args) -> Val:
    rows = [w.ops.as_tensor(v) for v in a.rest]
    return rows[0] if len(rows) == 1 else TupleVal(tuple(_grids(w, rows, True)))


# ---- splitting


@row("x sections axis", np.array_split)
def _array_split(w: Walker, a: Args) -> Val:
    x = a.tensor("x")
    axis = a.axis("axis", x.type.rank)
    if not isinstance(a["sections"], Num):
        return w.call(w.constant(np.split), (x, a["sections"], number(axis)), {})
    many = a.whole("sections")
    if many <= 0:
        raise w.reject("ACR404", a.where["sections"], seen=f"a split into {many} parts")
    n = w.extent(x.dims[axis])
    size, longer = w.scalar("floordiv", n, number(many)), w.scalar("mod", n, number(many))
    cuts = [w.scalar("add", w.scalar("mul", size, number(k)), w.scalar("min", longer, number(k))) for k in range(many)]
    return new_list(w, w.ops.split(x, cuts[1:], axis))


def _along(axis: int, least: int) -> Handler:
    def handler(w: Walker, a: Args) -> Val:
        x = a.tensor("x")
        if x.type.rank < least:
            raise w.reject("ACR402", a.where["x"], seen=f"{a.what} of {w.describe(x)}")
        where = number(0 if x.type.rank == 1 else axis)
        return w.call(w.constant(np.split), (x, a["sections"], where), {})

    return handler


row("x sections", np.hsplit)(_along(1, 1))
row("x sections", np.vsplit)(_along(0, 2))
row("x sections", np.dsplit)(_along(2, 3))


@row("x axis", np.unstack)
def _unstack(w: Walker, a: Args) -> Val:
    x = a.tensor("x")
    axis = a.axis("axis", x.type.rank)
    n = x.dims[axis]
    if not isinstance(n, int):
        where = a.where["axis" if "axis" in a.given else "x"]
        raise w.reject("ACR403", where, seen=f"np.unstack of {w.describe(x)}", rewrite="[row for row in x]")
    return TupleVal(tuple(w.ops.take(x, number(k), axis) for k in range(n)))


# ---- products


@row("x y axes", np.tensordot, rank0="array")
def _tensordot(w: Walker, a: Args) -> Val:
    x, y, axes = a.tensor("x"), a.tensor("y"), a.static("axes")
    if isinstance(axes, int):
        left, right = list(range(x.type.rank - axes, x.type.rank)), list(range(axes))
    else:
        left, right = ([v] if isinstance(v, int) else list(v) for v in axes)
    wrong = len(left) != len(right) or not all(-x.type.rank <= k < x.type.rank for k in left)
    if wrong or not all(-y.type.rank <= k < y.type.rank for k in right):
        raise w.reject("ACR402", a.where["axes"], seen=f"axes {axes} of {w.describe(x)} and {w.describe(y)}")
    letters = [chr(97 + k) for k in range(x.type.rank + y.type.rank)]
    mine, theirs = letters[: x.type.rank], letters[x.type.rank :]
    for p, q in zip(left, right, strict=True):
        theirs[q] = mine[p]
    both = {mine[p] for p in left}
    out = "".join(c for c in (*mine, *theirs) if c not in both)
    return w.ops.einsum(f"{''.join(mine)},{''.join(theirs)}->{out}", [x, y])


# ---- queries of shapes


@row("x axis", np.size)
def _size(w: Walker, a: Args) -> Val:
    x = a.tensor("x")
    return w.ops.count(x.dims) if a.is_none("axis") else w.extent(x.dims[a.axis("axis", x.type.rank)])


@row("*args", np.broadcast_shapes)
def _broadcast_shapes(w: Walker, a: Args) -> Val:
    shapes = [[w.as_extent(n) for n in _shape(w, a.replaced("*args", v), "*args")] for v in a.rest]
    return TupleVal(tuple(w.extent(d) for d in w.ops.broadcast_dims(shapes)))
