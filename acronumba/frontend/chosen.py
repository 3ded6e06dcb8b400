"""Advanced indexing of arrays that are written to: the selected elements, their layout, and their assignment.

An index with arrays consists of slices, new axes, numbers and arrays (`Chosen`). Its slices are applied first, which
gives a view, and are whole slices of that. If a mask is the only array, the numbers are applied to the view, too. Then
the assignment of a value that is equal for all selected elements needs no list of positions: it is a `where` by the
mask.
"""

from __future__ import annotations

from collections.abc import Sequence

from acronumba.frontend.arrays import is_advanced, view
from acronumba.frontend.kinds.arrays import ArrayRef, Tensor
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.value import AxisIndex
from acronumba.frontend.subscripts import WHOLE, Entry, array_axes, is_mask, layout
from acronumba.frontend.walker import Walker
from acronumba.ir import nodes as ir
from acronumba.records import record


@record(kw_only=True)
class Chosen:
    """A view of an array that is written to, and an index with arrays into it."""

    ref: ArrayRef
    places: tuple[AxisIndex, ...]  # for each axis of `ref` a whole slice, a number or an array; None for each new axis
    mask: Tensor | None  # the only array, if all other indices are applied in `ref`; its first axis is `at`
    at: int
    layout: tuple[Entry, ...]  # of the result of the index, by the axes of `ref`


def is_array(e: AxisIndex) -> bool:
    """Whether an index is advanced in NumPy's sense, so that reading makes a copy."""
    return isinstance(e, Tensor) and (e.type.rank > 0 or e.type.dtype == "bool")


def chosen(w: Walker, ref: ArrayRef, places: Sequence[AxisIndex]) -> Chosen:
    """Return the selection of an index; a mask stands at its first axis, and whole slices at its other axes."""
    masks = [e for e in places if is_mask(e)]
    arrays = [e for e in places if is_array(e)]
    each = [e for e in places if e is not None]
    order = layout(places)
    if len(masks) == len(arrays) == 1:  # all other indices are basic
        basic = [WHOLE if is_mask(e) else e for e in each]
        if not is_advanced(ref, basic):
            kept = [k for k, e in enumerate(basic) if isinstance(e, slice)]
            at = kept.index(next(k for k, e in enumerate(each) if is_mask(e)))
            order = tuple(kept.index(e) if isinstance(e, int) else e for e in order)
            rest = [e for e in places if isinstance(e, slice | None) or is_mask(e)]
            part = view(w, ref, basic)
            return Chosen(ref=part, places=_whole(rest), mask=masks[0], at=at, layout=order)
    slices = [e if isinstance(e, slice) else WHOLE for e in each]
    if any(e != WHOLE for e in slices) and not is_advanced(ref, slices):
        ref, places = view(w, ref, slices), _whole(places)
    return Chosen(ref=ref, places=tuple(places), mask=None, at=0, layout=order)


def _whole(places: Sequence[AxisIndex]) -> tuple[AxisIndex, ...]:
    return tuple(WHOLE if isinstance(e, slice) else e for e in places)


def with_places(w: Walker, one: Chosen) -> Chosen:
    """Return a selection with masks replaced by the positions of their true elements, whose number is awaited."""
    if not any(map(is_mask, one.places)):
        return one
    out: list[AxisIndex] = []
    skip = 0
    for e in one.places:
        if skip:
            skip -= 1
        elif is_mask(e):
            out += w.ops.places(e, "a mask as an index")
            skip = e.type.rank - 1
        else:
            out.append(e)
    return Chosen(ref=one.ref, places=tuple(out), mask=None, at=0, layout=one.layout)


def for_all(w: Walker, one: Chosen, v: Tensor) -> Tensor | None:
    """Return a value broadcast to the array, with extent 1 along the mask's axes; None if it varies along them."""
    if one.mask is None or v.type.rank > len(one.layout):
        return None
    lead = len(one.layout) - v.type.rank
    extents: dict[Entry, ir.Extent] = {}
    for e, d in zip(one.layout[lead:], v.dims, strict=True):
        if e in ("new", "chosen") and d != 1:
            return None
        extents[e] = d
    if all(d == 1 for d in v.dims):  # one element
        return w.ops.reshape(v, ())
    mine = range(one.at, one.at + one.mask.type.rank)
    axes = range(0 if one.at else one.mask.type.rank, len(one.ref.dims))  # leading axes need not be given
    v = w.ops.reshape(v, tuple(1 if a in mine else extents.get(a, 1) for a in axes))
    return w.ops.broadcast_to(v, tuple(1 if a in mine else one.ref.dims[a] for a in axes))


def mask_of(w: Walker, one: Chosen) -> Tensor:
    """Return the mask with an axis of extent 1 for each axis of the array after its own."""
    assert one.mask is not None
    behind = len(one.ref.axes) - one.at - one.mask.type.rank
    return w.ops.reshape(one.mask, (*one.mask.dims, *(1 for _ in range(behind))))


def index_of_place(w: Walker, index: Num | Tensor, n: ir.Extent) -> Tensor:
    """Return an index as a tensor, counted from the front; the instance fails where it is out of range."""
    if isinstance(index, Num):
        return w.ops.from_number(index, "int64")
    return w.ops.take(w.ops.iota(n, "int64"), index, 0)


def places_along(w: Walker, x: Tensor, axis: int) -> Tensor:
    """Return the positions along one axis, in a shape that broadcasts against the array."""
    n = x.dims[axis]
    return w.ops.reshape(w.ops.iota(n, "int64"), (n, *(1 for _ in x.dims[axis + 1 :])))


def without_ones(w: Walker, v: Tensor, rank: int) -> Tensor:
    """Return an assigned value without its leading axes of extent 1 beyond `rank`."""
    more = v.type.rank - rank
    if more <= 0:
        return v
    for d in v.dims[:more]:
        if isinstance(d, int) and d != 1:
            raise w.reject("ACR401", seen=f"{w.describe(v)} for a place of {rank} axes")
        w.ops.same_extent(d, 1, "an axis that the place does not have")
    return w.ops.reshape(v, v.dims[more:])


def put(w: Walker, x: Tensor, one: Chosen, v: Tensor) -> Tensor:
    """Return an array with the selected elements replaced by `v`; of equal positions the last counts."""
    if one.mask is not None:
        v = without_ones(w, v, len(one.layout))
    same = for_all(w, one, v)
    if same is not None:
        return w.ops.element("where", [mask_of(w, one), same, x], x.type.dtype)
    one = with_places(w, one)
    if any(isinstance(e, slice) and e != WHOLE for e in one.places):
        raise w.reject("ACR202", seen="an assignment by an array together with slices",
                       rewrite="assign to one row at a time")  # fmt: skip
    axes, places = array_axes(w, one.places)
    alone = len(places) == 1 and not places[0].type.rank
    if not alone:
        places = [w.ops.checked(p, x.dims[a], a) for a, p in zip(axes, places, strict=True)]
    shape = w.ops.broadcast_dims([p.dims for p in places])
    dims = [d for e in one.layout for d in (shape if e == "chosen" else (1 if e == "new" else x.dims[e],))]
    v = w.ops.broadcast_to(without_ones(w, v, len(dims)), dims)
    if "new" in one.layout:
        old = [d for e in one.layout if e != "new" for d in (shape if e == "chosen" else (x.dims[e],))]
        v = w.ops.reshape(v, old)
    if alone:
        return _put_alone(w, x, axes[0], places[0], v)
    first, rank = [e for e in one.layout if e != "new"].index("chosen"), len(shape)
    v = w.ops.transpose(v, (*range(first, first + rank), *range(first), *range(first + rank, v.type.rank)))
    return _put_many(w, x, axes, places, shape, v)


def _put_alone(w: Walker, x: Tensor, axis: int, place: Tensor, v: Tensor) -> Tensor:
    """Return an array with the part at one position of an axis replaced."""
    at = index_of_place(w, place, x.dims[axis])
    here = w.ops.element("eq", [places_along(w, x, axis), at], "bool")
    v = w.ops.reshape(v, (*x.dims[:axis], 1, *x.dims[axis + 1 :]))
    return w.ops.element("where", [here, v, x], x.type.dtype)


def _put_many(
    w: Walker, x: Tensor, axes: Sequence[int], places: Sequence[Tensor], shape: Sequence[ir.Extent], v: Tensor
) -> Tensor:  # fmt: skip
    """Return an array with parts at positions along some axes replaced; the axes of the positions come first in `v`."""
    rest = [a for a in range(x.type.rank) if a not in axes]
    many = w.as_extent(w.ops.count(shape))
    moved = w.ops.transpose(x, (*axes, *rest))
    dims = moved.dims[len(axes) :]
    v = w.ops.reshape(v, (many, *dims))
    at = places[0]
    for p, d in zip(places[1:], moved.dims[1:], strict=False):
        at = w.ops.element("mul", [at, w.ops.from_number(w.extent(d), "int64")], "int64")
        at = w.ops.element("add", [at, p], "int64")
    at = w.ops.reshape(w.ops.broadcast_to(at, shape), (many,))
    flat = w.ops.reshape(moved, (w.as_extent(w.ops.count(moved.dims[: len(axes)])), *dims))
    out = w.ops.reshape(_put_rows(w, flat, at, v), moved.dims)
    back = [(*axes, *rest).index(a) for a in range(x.type.rank)]
    return w.ops.transpose(out, back)


def _put_rows(w: Walker, x: Tensor, at: Tensor, v: Tensor) -> Tensor:
    """Return an array with rows at checked positions replaced; of equal positions the last counts."""
    n, m = x.dims[0], at.dims[0]
    zero = w.ops.from_number(number(0), "int64")
    places = w.ops.reshape(w.ops.iota(n, "int64"), (n, 1))
    hits = w.ops.element("eq", [places, w.ops.reshape(at, (1, m))], "bool")
    turns = w.ops.element("add", [w.ops.iota(m, "int64"), w.ops.from_number(number(1), "int64")], "int64")
    turns = w.ops.element("where", [hits, w.ops.reshape(turns, (1, m)), zero], "int64")
    none = w.ops.full((n, 1), number(0), "int64")
    last = w.ops.reduce("max", w.ops.concat([none, turns], 1), (1,), False)
    before = w.ops.full((1, *v.dims[1:]), number(0), v.type.dtype)
    taken = w.ops.take(w.ops.concat([before, v], 0), last, 0)
    hit = w.ops.reshape(w.ops.element("gt", [last, zero], "bool"), (n, *(1 for _ in x.dims[1:])))
    return w.ops.element("where", [hit, taken, x], x.type.dtype)
