"""Writing into arrays: items, slices, masks and arrays of indices, with the meaning of NumPy (see `arrays`)."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from acronumba.frontend.arrays import (
    each_part,
    elements,
    index_known,
    index_of_axes,
    is_advanced,
    note_write,
    part_at,
    view,
)
from acronumba.frontend.attributes import not_none
from acronumba.frontend.block import Dead
from acronumba.frontend.subscripts import index_of_each_axis
from acronumba.frontend.values import ArrayRef, Axis, Cut, NoneVal, Num, Tensor, UnionVal, Val, number
from acronumba.frontend.walker import Walker
from acronumba.ir import nodes as ir
from acronumba.ir.types import TensorT


def assign_item(w: Walker, ref: ArrayRef, where: Sequence[Any], val: Val, node: ast.AST, chosen: bool = False) -> None:
    """`x[i] = v` with the meaning of NumPy; `chosen`: by a mask, from an array that has an element for each of `x`."""
    val = w.whole(val)
    if isinstance(val, UnionVal) and len({getattr(getattr(t, "seen", t), "rank", 0) for t in val.possible}) > 1:

        def store(v: Val) -> Val:
            assign_item(w, ref, where, v, node, chosen)
            return NoneVal()

        w.each(not_none(w, val, node), store, node)
        return
    for k, at in enumerate(where):
        if isinstance(at, UnionVal):  # an int on one path and a scalar of NumPy on the other, for example

            def one(e: Val, k: int = k) -> Val:
                assign_item(w, ref, (*where[:k], e, *where[k + 1 :]), val, node, chosen)
                return NoneVal()

            w.each(at, one, node)
            return
    parts, _ = index_of_each_axis(w, ref, where, node, masks=True)
    places = [index_of_axes(w, e, node) for e in parts]
    numbers, others = set(ref.indexed), set()
    rest = iter(ref.axes)
    for e in places:
        if isinstance(e, NoneVal):
            continue
        a = next(rest)
        if isinstance(e, Tensor) and e.type.dtype == "bool":
            others |= {b.number for b in ref.axes}
        if isinstance(e, Num):
            numbers.add(a.number)
        elif not isinstance(e, slice):
            others.add(a.number)
    note_write(w, ref, frozenset(numbers), frozenset(others), node)
    if not is_advanced(ref, places):
        assign(w, view(w, ref, places, node), val, node)
        return
    whole = elements(w, ref, node)
    assign(w, ref, put_by_array(w, whole, where, places, val, node, chosen), node)


def assign(w: Walker, ref: ArrayRef, val: Val, node: ast.AST) -> None:
    """Give all that is seen of an array new elements."""
    v = as_elements(w, val, ref.type.dtype, node)
    while v.type.rank > len(ref.axes) and v.dims[0] == 1:
        v = w.reshape(v, v.dims[1:], node)
    listed = [a for a in ref.axes if a.stride is not None]
    inside = [a for a in ref.axes if a.stride is None]
    if not listed:
        store_part(w, ref, ref.offset, ordered(w, fitted(w, v, ref.dims, node), ref, inside, node), node)
        return
    trailing = 0
    for a in reversed(ref.axes):
        if a.stride is not None:
            break
        trailing += 1
    if v.type.rank <= trailing == len(inside):  # every part becomes the same
        same = ordered(w, fitted(w, v, tuple(a.extent for a in inside), node), ref, inside, node)
        each_part(w, ref.offset, listed, lambda offset: store_part(w, ref, offset, same, node), node)
        return
    v = fitted(w, v, ref.dims, node)
    v = w.transpose(v, [ref.axes.index(a) for a in (*listed, *inside)], node)
    rows = w.reshape(v, (w.as_extent(w.count([a.extent for a in listed])), *(a.extent for a in inside)), node)
    key = (w.frame.scope, f"#row{w.counter}")
    w.counter += 1
    w.state[key] = number(0)

    def one(offset: Num) -> None:
        k = w.state[key]
        assert isinstance(k, Num)
        row = index_known(w, rows, k, 0, node)
        store_part(w, ref, offset, ordered(w, row, ref, inside, node), node)
        w.state[key] = w.scalar("add", k, number(1))

    each_part(w, ref.offset, listed, one, node, (key,))
    w.state.pop(key, None)


def fitted(w: Walker, v: Tensor, dims: Sequence[ir.Extent], node: ast.AST) -> Tensor:
    """Return new elements with the extents that they have to fill: one of 1 is repeated, if it may be one."""
    same = v.type.rank == len(dims) and all(
        have == want or (isinstance(have, int) and have != 1) for have, want in zip(v.dims, dims, strict=True)
    )
    if not same:
        return w.broadcast_to(v, dims, node)
    both = [
        w.same_extent(have, want, "the elements and their place", node) for have, want in zip(v.dims, dims, strict=True)
    ]
    return w.refine(v, both)


def ordered(w: Walker, v: Tensor, ref: ArrayRef, inside: Sequence[Axis], node: ast.AST) -> Tensor:
    """Return new elements with the axes of a part: those that are cut by an index are left out."""
    kept = sorted((a for a in inside if a.cut >= 0), key=lambda a: a.cut)
    have = [a for a in inside if a.cut >= 0]
    if len(have) < len(inside):
        v = w.reshape(v, tuple(a.extent for a in have), node)
    return w.transpose(v, [have.index(a) for a in kept], node)


def store_part(w: Walker, ref: ArrayRef, offset: Num, v: Tensor, node: ast.AST) -> None:
    """Store new elements in the place of what is seen of one part."""
    if any(c.index is not None or c.count is not None for c in ref.cuts):
        v = put(w, part_at(w, ref, offset, node), ref.cuts, v, node)
    item = ref.parts.item
    assert isinstance(item, TensorT)
    known = zip(item.shape, ref.cuts, v.dims, strict=True)
    dims = tuple(m if m is not None else c.extent if isinstance(c.extent, int) else n for m, c, n in known)
    v = w.as_scalar(w.refine(v, dims))
    if w.block is None:
        return
    words = (ref.parts.var, w.word(w.read(offset)), *w.to_words(replace(v, array0=None), item))
    w.emit(ir.ListOp(outs=(), op="set", width=1, args=words, loc=w.at(node)))


def as_elements(w: Walker, val: Val, dtype: str, node: ast.AST) -> Tensor:
    """Return a value as NumPy stores it in an array of a dtype."""
    val = w.whole(val)
    if isinstance(val, NoneVal) and dtype[0] in "fb":
        val = number(float("nan") if dtype[0] == "f" else False)
    elif isinstance(val, NoneVal):
        w.fail(
            "TypeError", "int() argument must be a string, a bytes-like object or a real number, not 'NoneType'", node
        )
        raise Dead
    if isinstance(val, UnionVal):
        out = w.each(val, lambda v: as_elements(w, v, dtype, node), node)
        if not isinstance(out, Tensor):  # every alternative fails
            raise Dead
        return out
    if isinstance(val, Num):
        return w.from_number(val, dtype, node)
    if isinstance(val, Tensor):
        scalar = not val.type.rank and val.array0 is None
        if scalar and np.dtype(dtype).kind == "i" and not np.can_cast(val.type.dtype, dtype):
            return w.from_number(w.host(val, "an element of an array of integers", node), dtype, node)
        out = w.cast(val, dtype, node)
    else:
        out = w.cast(w.as_tensor(val, node=node), dtype, node)
    return Tensor(out.type, out.ref, out.dims, aliased=True)  # its elements are copied


def put(w: Walker, x: Tensor, cuts: Sequence[Cut], v: Tensor, node: ast.AST, axis: int = 0) -> Tensor:
    """Return an array with other elements in the place of what is seen of it."""
    while axis < len(cuts) and cuts[axis].index is None and cuts[axis].count is None:
        axis += 1
    if axis == len(cuts):
        return v
    c, n = cuts[axis], x.dims[axis]
    more = any(d.index is not None or d.count is not None for d in cuts[axis + 1 :])
    if c.index is None:
        assert c.count is not None
        if more:
            part = w.slice(x, [(c.start, c.step, c.count) if k == axis else (0, 1, d) for k, d in enumerate(x.dims)])
            v = put(w, part, cuts, v, node, axis + 1)
        return put_slice(w, x, axis, c, v, node)
    if more:
        taken = index_known(w, x, c.index, axis, node) if isinstance(c.index, Num) else w.take(x, c.index, axis, node)
        v = put(w, taken, [*cuts[:axis], *cuts[axis + 1 :]], v, node, axis)
    at = index_of_place(w, c.index, n, node)
    here = w.element("eq", [places_along(w, x, axis, node), at], "bool", node)
    return w.element(
        "where", [here, w.reshape(v, (*x.dims[:axis], 1, *x.dims[axis + 1 :]), node), x], x.type.dtype, node
    )


def index_of_place(w: Walker, index: Num | Tensor, n: ir.Extent, node: ast.AST) -> Tensor:
    """Return an index as a tensor, counted from the front; the instance fails where it is out of range."""
    if isinstance(index, Num):
        return w.from_number(index, "int64", node)
    return w.take(w.iota(n, "int64", node), index, 0, node)


def places_along(w: Walker, x: Tensor, axis: int, node: ast.AST) -> Tensor:
    """Return the numbers of the places along one axis, in a shape that goes with the array's."""
    n = x.dims[axis]
    return w.reshape(w.iota(n, "int64", node), (n, *(1 for _ in x.dims[axis + 1 :])), node)


def put_slice(w: Walker, x: Tensor, axis: int, c: Cut, v: Tensor, node: ast.AST) -> Tensor:
    """Return an array with other elements in the place of a slice along one axis."""
    assert c.count is not None
    n = x.dims[axis]

    def some(start: ir.Extent, count: ir.Extent) -> list[Tensor]:
        if count == 0:
            return []
        return [w.slice(x, [(start, 1, count) if k == axis else (0, 1, d) for k, d in enumerate(x.dims)], node)]

    if c.step == 1:
        end = w.scalar("add", w.extent(c.start), w.extent(c.count))
        rest = w.as_extent(w.scalar("sub", w.extent(n), end))
        pieces = [*some(0, c.start), *([] if c.count == 0 else [v]), *some(w.as_extent(end), rest)]
        out = w.concat(pieces, axis, node) if pieces else x
        return (
            Tensor(out.type, out.ref, tuple(x.dims), fresh=True)
            if out.type.shape == x.type.shape
            else w.refine(out, x.dims)
        )
    if c.count == 0:
        return x
    places = w.iota(n, "int64", node)
    start, step = w.from_number(w.extent(c.start), "int64", node), w.from_number(number(c.step), "int64", node)
    gone = w.element("sub", [places, start], "int64", node)
    turn = w.element("floordiv", [gone, step], "int64", node)
    hit = w.element("eq", [w.element("mul", [turn, step], "int64", node), gone], "bool", node)
    low = w.element("ge", [turn, w.from_number(number(0), "int64", node)], "bool", node)
    high = w.element("lt", [turn, w.from_number(w.extent(c.count), "int64", node)], "bool", node)
    hit = w.element("and", [hit, w.element("and", [low, high], "bool", node)], "bool", node)
    some_row = w.full((*v.dims[:axis], 1, *v.dims[axis + 1 :]), number(0), v.type.dtype, node)
    padded = w.concat([v, some_row], axis, node)
    index = w.element("where", [hit, turn, w.from_number(w.extent(c.count), "int64", node)], "int64", node)
    taken = w.take(padded, index, axis, node)
    hit = w.reshape(hit, (n, *(1 for _ in x.dims[axis + 1 :])), node)
    return w.element("where", [hit, taken, x], x.type.dtype, node)


def put_by_array(
    w: Walker, x: Tensor, where: Sequence[Any], places: Sequence[Any], val: Val, node: ast.AST, chosen: bool = False
) -> Tensor:
    """Return an array with other elements where a mask or arrays of indices say."""
    arrays = [k for k, e in enumerate(places) if not isinstance(e, slice)]
    if any(isinstance(e, slice) and (e.start, e.stop, e.step) != (None, None, 1) for e in places):
        raise w.refuse("ACR202", node, seen="an assignment by an array together with slices",
                       rewrite="assign to one row at a time")  # fmt: skip
    v = as_elements(w, val, x.type.dtype, node)
    only = places[arrays[0]] if len(arrays) == 1 else None
    if isinstance(only, Tensor) and only.type.dtype == "bool":
        rest = x.dims[arrays[0] + only.type.rank :]
        while v.type.rank > len(rest) and v.dims[0] == 1:
            v = w.reshape(v, v.dims[1:], node)
        if chosen or (arrays[0] == 0 and v.type.rank <= len(rest)):
            return put_by_mask(w, x, only, v if chosen else w.broadcast_to(v, rest, node), node)
    if isinstance(only, Tensor) and not only.type.rank:
        axis = arrays[0]
        dims = (*x.dims[:axis], *x.dims[axis + 1 :])
        here = w.element(
            "eq", [places_along(w, x, axis, node), index_of_place(w, only, x.dims[axis], node)], "bool", node
        )
        v = w.reshape(w.broadcast_to(v, dims, node), (*x.dims[:axis], 1, *x.dims[axis + 1 :]), node)
        return w.element("where", [here, v, x], x.type.dtype, node)
    places, _ = index_of_each_axis(w, x, where, node)
    return put_by_indices(w, x, places, v, node)


def put_by_mask(w: Walker, x: Tensor, mask: Tensor, v: Tensor, node: ast.AST) -> Tensor:
    """`x[mask] = v` with a value that does not depend on how many are chosen, or one that has all elements."""
    for have, n in zip(x.dims, mask.dims, strict=False):
        w.same_extent(have, n, "a mask and the array", node)
    mask = w.reshape(mask, (*mask.dims, *(1 for _ in x.dims[mask.type.rank :])), node)
    return w.element("where", [mask, v, x], x.type.dtype, node)


def put_by_indices(w: Walker, x: Tensor, parts: Sequence[Any], v: Tensor, node: ast.AST) -> Tensor:
    """`x[i, j] = v` with arrays of indices, which are broadcast together: of equal places the last counts."""
    axes = [k for k, e in enumerate(parts) if not isinstance(e, slice)]
    places: list[Tensor] = []
    for axis in axes:
        e = index_of_axes(w, parts[axis], node)
        if not isinstance(e, Num | Tensor):
            raise w.refuse("ACR301", node, seen=f"an index of an array that is {w.describe(e)}")
        e = w.from_number(e, "int64", node) if isinstance(e, Num) else w.signed(e, node)
        places.append(w.checked(e, x.dims[axis], axis, node))
    shape = w.broadcast_dims([p.dims for p in places], node)
    rest = [a for a in range(x.type.rank) if a not in axes]
    together = axes == list(range(axes[0], axes[-1] + 1))
    first = sum(a < axes[0] for a in rest) if together else 0
    dims = [x.dims[a] for a in rest]
    v = w.broadcast_to(v, (*dims[:first], *shape, *dims[first:]), node)
    n = len(shape)
    v = w.transpose(v, (*range(first, first + n), *range(first), *range(first + n, v.type.rank)), node)
    many = w.as_extent(w.count(shape))
    v = w.reshape(v, (many, *dims), node)
    moved = w.transpose(x, (*axes, *rest), node)
    at = places[0]
    for p, d in zip(places[1:], moved.dims[1:], strict=False):
        at = w.element("mul", [at, w.from_number(w.extent(d), "int64", node)], "int64", node)
        at = w.element("add", [at, p], "int64", node)
    at = w.reshape(w.broadcast_to(at, shape, node), (many,), node)
    flat = w.reshape(moved, (w.as_extent(w.count(moved.dims[: len(axes)])), *dims), node)
    out = w.reshape(put_rows(w, flat, at, v, node), moved.dims, node)
    back = [(*axes, *rest).index(a) for a in range(x.type.rank)]
    return w.transpose(out, back, node)


def put_rows(w: Walker, x: Tensor, at: Tensor, v: Tensor, node: ast.AST) -> Tensor:
    """Return an array with other rows at some places, which are checked: of equal ones the last counts."""
    n, m = x.dims[0], at.dims[0]
    zero = w.from_number(number(0), "int64", node)
    places = w.reshape(w.iota(n, "int64", node), (n, 1), node)
    hits = w.element("eq", [places, w.reshape(at, (1, m), node)], "bool", node)
    turns = w.element("add", [w.iota(m, "int64", node), w.from_number(number(1), "int64", node)], "int64", node)
    turns = w.element("where", [hits, w.reshape(turns, (1, m), node), zero], "int64", node)
    none = w.full((n, 1), number(0), "int64", node)
    last = w.reduce("max", w.concat([none, turns], 1, node), (1,), False, node)
    before = w.full((1, *v.dims[1:]), number(0), v.type.dtype, node)
    taken = w.take(w.concat([before, v], 0, node), last, 0, node)
    hit = w.reshape(w.element("gt", [last, zero], "bool", node), (n, *(1 for _ in x.dims[1:])), node)
    return w.element("where", [hit, taken, x], x.type.dtype, node)
