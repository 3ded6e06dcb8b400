"""Writes into arrays by items, slices, masks and arrays of indices, with NumPy's semantics (see `arrays`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from acronumba.frontend.arrays import each_part, elements, index_known, is_advanced, note_write, part_at, view
from acronumba.frontend.attributes import not_none
from acronumba.frontend.calls.objects import is_tuple
from acronumba.frontend.chosen import (
    chosen,
    for_all,
    index_of_place,
    is_array,
    mask_of,
    places_along,
    put,
    with_places,
    without_ones,
)
from acronumba.frontend.exceptions import Dead
from acronumba.frontend.kinds.arrays import ArrayRef, Axis, Cut, Tensor
from acronumba.frontend.kinds.numbers import NoneVal, Num, number
from acronumba.frontend.kinds.unions import UnionVal
from acronumba.frontend.kinds.value import AxisIndex, Index, Val
from acronumba.frontend.subscripts import index_of_each_axis, is_mask, taken
from acronumba.frontend.walker import Walker
from acronumba.ir import nodes as ir
from acronumba.ir.types import TensorT

Change = Callable[[Tensor, Val, Tensor | None], Val]


def assign_item(w: Walker, ref: ArrayRef, where: Sequence[Index], val: Val) -> None:
    """`x[i] = v` with NumPy's semantics."""
    val = w.whole(val)
    if isinstance(val, UnionVal) and len({getattr(getattr(t, "seen", t), "rank", 0) for t in val.possible}) > 1:

        def store(v: Val) -> Val:
            assign_item(w, ref, where, v)
            return NoneVal()

        w.each(not_none(w, val), store)
        return
    if each_index(w, where, lambda at: assign_item(w, ref, at, val)):
        return
    places = index_places(w, ref, where)
    note_places(w, ref, places)
    v = as_elements(w, val, ref.type.dtype)
    if not any(map(is_array, places)):
        _check_rank(w, ref, where, places, v, isinstance(val, Tensor))
    store_at(w, ref, where, places, v)


def store_at(w: Walker, ref: ArrayRef, where: Sequence[Index], places: Sequence[AxisIndex], v: Tensor) -> None:
    """Store new elements at the places of an index."""
    if not is_advanced(ref, places):
        assign(w, view(w, ref, places), v)
        return
    if len(where) == 1 < v.type.rank and is_mask(places[0]) and places[0].type.rank == len(ref.axes):
        seen = f"{w.describe(v)} for the elements of {w.describe(ref)} that a mask chooses"
        raise w.reject("ACR401", seen=seen, rewrite="give it one axis, or none")
    if not any(map(is_array, places)):
        seen = f"an assignment into a part of an axis that None has made, of {w.describe(ref)}"
        raise w.reject("ACR111", seen=seen, rewrite="write into the array itself, without that axis")
    one = chosen(w, ref, places)
    assign(w, one.ref, put(w, elements(w, one.ref), one, v))


def _check_rank(
    w: Walker, ref: ArrayRef, where: Sequence[Index], places: Sequence[AxisIndex], v: Tensor, array: bool
) -> None:
    """Reject a value with more axes than NumPy accepts; `array`: it is an array, not made of lists or tuples."""
    if all(isinstance(e, Num | Tensor) for e in places) and len(where) == len(ref.axes):
        if v.type.rank:
            raise w.reject("ACR301", seen=f"{w.describe(v)} for one element", rewrite="v.item(), or one of them")
    elif not array and v.type.rank > sum(isinstance(e, slice | None) for e in places):
        raise w.reject("ACR401", seen=f"lists that are {w.describe(v)} for a place of fewer axes")


def change_item(
    w: Walker, ref: ArrayRef, places: Sequence[AxisIndex], value: Callable[[], Val], change: Change
) -> None:
    """`x[i] op= v` by arrays, with NumPy's semantics: the selected elements are copied, changed and stored.

    `value` evaluates the expression `v`; `change` returns new elements for old elements, the value and an optional
    mask.
    """
    one = chosen(w, ref, places)
    x = elements(w, one.ref)  # read before the value is evaluated, which may change them

    def store(v: Val) -> Val:
        same: Val | None = v if isinstance(v, Num) and one.mask is not None else None
        if isinstance(v, Tensor):
            same = for_all(w, one, v)
        if same is not None:
            mask = mask_of(w, one)
            new = as_elements(w, change(x, same, mask), x.type.dtype)
            new = w.ops.element("where", [mask, new, elements(w, one.ref)], x.type.dtype)
        else:
            two = with_places(w, one)
            new = as_elements(w, change(taken(w, x, two.places, two.layout), v, None), x.type.dtype)
            new = put(w, elements(w, two.ref), two, new)
        assign(w, one.ref, new)
        return NoneVal()

    v = value()
    w.check_poison(v)
    note_places(w, ref, places)
    w.each(w.whole(v), lambda v: store(v if v.sequence(w) is None else w.ops.as_tensor(v)))


def each_index(w: Walker, where: Sequence[Index], f: Callable[[Sequence[Index]], None]) -> bool:
    """If an index is a union (an int or a NumPy scalar, for example), call `f` for each alternative.

    Return whether one is.
    """
    for k, at in enumerate(where):
        if isinstance(at, UnionVal):

            def one(e: Val, k: int = k) -> Val:
                f((*where[:k], e, *where[k + 1 :]))
                return NoneVal()

            w.each(at, one)
            return True
    return False


def index_places(w: Walker, ref: ArrayRef, where: Sequence[Index]) -> list[AxisIndex]:
    """Return the index of each axis of a write; a mask stands at the first of its axes."""
    return index_of_each_axis(w, ref, where, masks=True)[0]


def note_places(w: Walker, ref: ArrayRef, places: Sequence[AxisIndex]) -> None:
    """Note a write, with the axes that it indexes by host numbers and by other indices."""
    numbers, others = set(ref.indexed), set()
    for e, a in zip((e for e in places if e is not None), ref.axes, strict=False):
        if is_mask(e):
            others |= {b.number for b in ref.axes}
        if isinstance(e, Num):
            numbers.add(a.number)
        elif not isinstance(e, slice):
            others.add(a.number)
    note_write(w, ref, frozenset(numbers), frozenset(others))


def assign(w: Walker, ref: ArrayRef, val: Val) -> None:
    """Replace all elements of an array or view."""
    v = as_elements(w, val, ref.type.dtype)
    v = without_ones(w, v, len(ref.axes))
    listed = [a for a in ref.axes if a.stride is not None]
    inside = [a for a in ref.axes if a.stride is None]
    if not listed:
        store_part(w, ref, ref.offset, ordered(w, fitted(w, v, ref.dims), inside))
        return
    trailing = 0
    for a in reversed(ref.axes):
        if a.stride is not None:
            break
        trailing += 1
    if v.type.rank <= trailing == len(inside):  # every part becomes the same
        same = ordered(w, fitted(w, v, tuple(a.extent for a in inside)), inside)
        each_part(w, ref.offset, listed, lambda offset: store_part(w, ref, offset, same))
        return
    v = fitted(w, v, ref.dims)
    v = w.ops.transpose(v, [ref.axes.index(a) for a in (*listed, *inside)])
    rows = w.ops.reshape(v, (w.as_extent(w.ops.count([a.extent for a in listed])), *(a.extent for a in inside)))
    key = (w.frame.scope, f"#row{w.counter}")
    w.counter += 1
    w.state[key] = number(0)

    def one(offset: Num) -> None:
        k = w.state[key]
        assert isinstance(k, Num)
        row = index_known(w, rows, k, 0)
        store_part(w, ref, offset, ordered(w, row, inside))
        w.state[key] = w.scalar("add", k, number(1))

    each_part(w, ref.offset, listed, one, (key,))
    w.state.pop(key, None)


def fitted(w: Walker, v: Tensor, dims: Sequence[ir.Extent]) -> Tensor:
    """Broadcast new elements to the extents they fill; if the extents may all be equal, check that they are."""
    same = v.type.rank == len(dims) and all(
        have == want or (isinstance(have, int) and have != 1) for have, want in zip(v.dims, dims, strict=True)
    )
    if not same:
        return w.ops.broadcast_to(v, dims)
    both = [
        w.ops.same_extent(have, want, "the elements and their place") for have, want in zip(v.dims, dims, strict=True)
    ]
    return w.ops.refine(v, both)


def ordered(w: Walker, v: Tensor, inside: Sequence[Axis]) -> Tensor:
    """Return new elements with their axes in the order of a part's axes, without new axes (of extent 1)."""
    kept = sorted((a for a in inside if a.cut >= 0), key=lambda a: a.cut)
    have = [a for a in inside if a.cut >= 0]
    if len(have) < len(inside):
        v = w.ops.reshape(v, tuple(a.extent for a in have))
    return w.ops.transpose(v, [have.index(a) for a in kept])


def store_part(w: Walker, ref: ArrayRef, offset: Num, v: Tensor) -> None:
    """Replace the elements of one part that are visible through `ref`."""
    if any(c.index is not None or c.count is not None for c in ref.cuts):
        v = put_cuts(w, part_at(w, ref, offset), ref.cuts, v)
    item = ref.parts.item
    assert isinstance(item, TensorT)
    known = zip(item.shape, ref.cuts, v.dims, strict=True)
    dims = tuple(m if m is not None else c.extent if isinstance(c.extent, int) else n for m, c, n in known)
    v = w.ops.as_scalar(w.ops.refine(v, dims))
    if w.block is None:
        return
    words = (ref.parts.var, w.word(w.read(offset)), *w.to_words(replace(v, array0=None), item))
    w.emit(ir.ListOp(outs=(), op="set", width=1, args=words, loc=w.loc))


def as_elements(w: Walker, val: Val, dtype: str) -> Tensor:
    """Convert a value to the elements that NumPy stores in an array of a dtype."""
    out = w.each(w.whole(val), lambda v: _as_elements(w, v, dtype))
    if not isinstance(out, Tensor):  # every alternative fails
        raise Dead
    return Tensor(out.type, out.ref, out.dims, aliased=True)  # its elements are copied


def _as_elements(w: Walker, val: Val, dtype: str) -> Tensor:
    if isinstance(val, Tensor) and not val.type.rank and val.array0 is None:
        if np.dtype(dtype).kind == "i" and not np.can_cast(val.type.dtype, dtype):
            return w.ops.from_number(w.ops.host(val, "an element of an array of integers"), dtype)
    return w.ops.cast(w.ops.as_tensor(val, None if val.is_list or is_tuple(val) else dtype), dtype)


def put_cuts(w: Walker, x: Tensor, cuts: Sequence[Cut], v: Tensor, axis: int = 0) -> Tensor:
    """Return a part with the elements selected by its cuts replaced by `v`."""
    while axis < len(cuts) and cuts[axis].index is None and cuts[axis].count is None:
        axis += 1
    if axis == len(cuts):
        return v
    c, n = cuts[axis], x.dims[axis]
    more = any(d.index is not None or d.count is not None for d in cuts[axis + 1 :])
    if c.index is None:
        assert c.count is not None
        if more:
            part = w.ops.slice(
                x, [(c.start, c.step, c.count) if k == axis else (0, 1, d) for k, d in enumerate(x.dims)]
            )
            v = put_cuts(w, part, cuts, v, axis + 1)
        return put_slice(w, x, axis, c, v)
    if more:
        inner = index_known(w, x, c.index, axis) if isinstance(c.index, Num) else w.ops.take(x, c.index, axis)
        v = put_cuts(w, inner, [*cuts[:axis], *cuts[axis + 1 :]], v, axis)
    at = index_of_place(w, c.index, n)
    here = w.ops.element("eq", [places_along(w, x, axis), at], "bool")
    return w.ops.element("where", [here, w.ops.reshape(v, (*x.dims[:axis], 1, *x.dims[axis + 1 :])), x], x.type.dtype)


def put_slice(w: Walker, x: Tensor, axis: int, c: Cut, v: Tensor) -> Tensor:
    """Return an array with a slice along one axis replaced by `v`."""
    assert c.count is not None
    n = x.dims[axis]

    def some(start: ir.Extent, count: ir.Extent) -> list[Tensor]:
        if count == 0:
            return []
        return [w.ops.slice(x, [(start, 1, count) if k == axis else (0, 1, d) for k, d in enumerate(x.dims)])]

    if c.step == 1:
        end = w.scalar("add", w.extent(c.start), w.extent(c.count))
        rest = w.as_extent(w.scalar("sub", w.extent(n), end))
        pieces = [*some(0, c.start), *([] if c.count == 0 else [v]), *some(w.as_extent(end), rest)]
        out = w.ops.concat(pieces, axis) if pieces else x
        return (
            Tensor(out.type, out.ref, tuple(x.dims), fresh=True)
            if out.type.shape == x.type.shape
            else w.ops.refine(out, x.dims)
        )
    if c.count == 0:
        return x
    places = w.ops.iota(n, "int64")
    start, step = w.ops.from_number(w.extent(c.start), "int64"), w.ops.from_number(number(c.step), "int64")
    gone = w.ops.element("sub", [places, start], "int64")
    turn = w.ops.element("floordiv", [gone, step], "int64")
    hit = w.ops.element("eq", [w.ops.element("mul", [turn, step], "int64"), gone], "bool")
    low = w.ops.element("ge", [turn, w.ops.from_number(number(0), "int64")], "bool")
    high = w.ops.element("lt", [turn, w.ops.from_number(w.extent(c.count), "int64")], "bool")
    hit = w.ops.element("and", [hit, w.ops.element("and", [low, high], "bool")], "bool")
    some_row = w.ops.full((*v.dims[:axis], 1, *v.dims[axis + 1 :]), number(0), v.type.dtype)
    padded = w.ops.concat([v, some_row], axis)
    index = w.ops.element("where", [hit, turn, w.ops.from_number(w.extent(c.count), "int64")], "int64")
    taken = w.ops.take(padded, index, axis)
    hit = w.ops.reshape(hit, (n, *(1 for _ in x.dims[axis + 1 :])))
    return w.ops.element("where", [hit, taken, x], x.type.dtype)
