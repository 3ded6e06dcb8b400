"""NumPy's functions and methods that return a view of an array that is written to, or the array itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba.frontend.arrays import transposed, view
from acronumba.frontend.calls.signatures import signature_of
from acronumba.frontend.kinds.arrays import ArrayRef
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import NOT_CONST, AxisIndex, Val
from acronumba.frontend.lists import new_list
from acronumba.frontend.subscripts import WHOLE

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker

# The view that a function returns of an array, given its other arguments (constants); None if it copies, or fails.
Given = dict[str, Any]
View = Callable[["Walker", ArrayRef, Given], Val | None]
VIEWS: dict[str, View] = {}
FIXED: dict[str, Given] = {  # implied by the names of functions that have no other arguments
    "atleast_1d": {"rank": 1}, "atleast_2d": {"rank": 2}, "atleast_3d": {"rank": 3}, "flipud": {"axis": 0},
    "fliplr": {"axis": 1},
}  # fmt: skip


def _view(*names: str) -> Callable[[View], View]:
    def register(f: View) -> View:
        VIEWS.update(dict.fromkeys(names, f))
        return f

    return register


def array_view(w: Walker, ref: ArrayRef, name: str, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val | None:
    """Return the view that a function or method returns of an array that is written to; None if it is no view."""
    if name not in VIEWS:
        return None
    if name == "transpose" and len(args) > 1:
        args = [TupleVal(tuple(args))]
    try:
        given = signature_of(getattr(np, name)).bind(None, *args, **kwargs).arguments
    except TypeError:
        return None
    known = {k: w.static(v) for k, v in list(given.items())[1:]}
    if any(v is NOT_CONST for v in known.values()):
        return None
    if name in FIXED:
        if args or kwargs:
            return None
        known = FIXED[name]
    return VIEWS[name](w, ref, known)


def function_view(w: Walker, function: Any, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val | None:
    """Return the view that a NumPy function returns of an array that is written to; None if it is no view."""
    name = getattr(function, "__name__", "")
    if not args or not isinstance(args[0], ArrayRef) or name not in VIEWS or getattr(np, name) is not function:
        return None
    return array_view(w, args[0], name, args[1:], kwargs)


def reshaped_view(w: Walker, ref: ArrayRef, shape: Sequence[Num]) -> Val | None:
    """Return the view of another shape, if that has the same extents but for those of 1; None if that is not known."""
    axes: list[AxisIndex] = []
    rest = list(ref.axes)
    free = True  # an extent of -1 has not been met
    for k, n in enumerate(shape):
        extent = w.as_extent(n)
        later = sum(m.const != 1 for m in shape[k + 1 :])
        left = sum(a.extent != 1 for a in rest)
        if extent == -1:
            if not free or left - later not in (0, 1):
                return None
            free = False
        if extent == 1 or (extent == -1 and left == later):
            axes.append(None)
            continue
        while rest and rest[0].extent == 1:
            axes.append(number(0))
            rest.pop(0)
        if not rest or extent not in (rest[0].extent, -1):
            return None
        axes.append(WHOLE)
        rest.pop(0)
    if any(a.extent != 1 for a in rest):
        return None
    return view(w, ref, [*axes, *(number(0) for _ in rest)])


def _axes(given: Any, rank: int) -> list[int] | None:
    """Return axes counted from the front; None if one of them is no valid axis."""
    axes = list(given) if isinstance(given, tuple) else [given]
    if any(type(k) is not int or not -rank <= k < rank for k in axes):
        return None
    return [k % rank for k in axes]


@_view("asarray", "asanyarray")
def _itself(w: Walker, ref: ArrayRef, given: Given) -> Val | None:
    dtype = given.get("dtype")
    same = dtype is None or np.dtype(dtype) == ref.type.dtype
    return ref if same and given.keys() <= {"dtype"} else None


@_view("ascontiguousarray")
def _contiguous(w: Walker, ref: ArrayRef, given: Given) -> Val | None:
    """Return the array itself if it is certainly contiguous: a whole allocated array with its axes in order."""
    whole = ref.offset.const == 0 and all(c.index is None and c.count is None for c in ref.cuts)
    if not ref.axes or not whole or [a.number for a in ref.axes] != list(range(ref.type.rank)):
        return None
    return _itself(w, ref, given)


@_view("transpose", "permute_dims")
def _transpose(w: Walker, ref: ArrayRef, given: Given) -> Val | None:
    rank = ref.type.rank
    axes = _axes(given.get("axes"), rank) if "axes" in given else list(reversed(range(rank)))
    return None if axes is None or sorted(axes) != list(range(rank)) else transposed(ref, axes)


@_view("matrix_transpose")
def _matrix_transpose(w: Walker, ref: ArrayRef, given: Given) -> Val | None:
    return transposed(ref, (1, 0)) if ref.type.rank == 2 else None


@_view("swapaxes")
def _swapaxes(w: Walker, ref: ArrayRef, given: Given) -> Val | None:
    axes = _axes(tuple(given.values()), ref.type.rank)
    if axes is None:
        return None
    i, j = axes
    return transposed(ref, [j if k == i else i if k == j else k for k in range(ref.type.rank)])


@_view("moveaxis")
def _moveaxis(w: Walker, ref: ArrayRef, given: Given) -> Val | None:
    axes = _axes(tuple(given.values()), ref.type.rank)
    if axes is None:
        return None
    order = [k for k in range(ref.type.rank) if k != axes[0]]
    order.insert(axes[1], axes[0])
    return transposed(ref, order)


@_view("expand_dims")
def _expand_dims(w: Walker, ref: ArrayRef, given: Given) -> Val | None:
    wanted = given["axis"]
    rank = ref.type.rank + (len(wanted) if isinstance(wanted, tuple) else 1)
    axes = _axes(wanted, rank)
    if axes is None or len(set(axes)) < len(axes):
        return None
    return view(w, ref, [None if k in axes else WHOLE for k in range(rank)])


@_view("atleast_1d", "atleast_2d", "atleast_3d")
def _at_least(w: Walker, ref: ArrayRef, given: Given) -> Val | None:
    places: list[AxisIndex] = [WHOLE] * ref.type.rank
    while len(places) < given["rank"]:  # three axes of a vector are (1, n, 1), of a matrix (m, n, 1)
        places.insert(len(places) if given["rank"] == 3 and len(places) != 1 else 0, None)
    return view(w, ref, places)


@_view("squeeze")
def _squeeze(w: Walker, ref: ArrayRef, given: Given) -> Val | None:
    axes = _axes(given.get("axis"), ref.type.rank)
    if axes is None or any(ref.axes[k].extent != 1 for k in axes):
        return None
    return view(w, ref, [number(0) if k in axes else WHOLE for k in range(ref.type.rank)])


@_view("flip", "flipud", "fliplr")
def _flip(w: Walker, ref: ArrayRef, given: Given) -> Val | None:
    rank = ref.type.rank
    axes = list(range(rank)) if given.get("axis") is None else _axes(given["axis"], rank)
    return None if axes is None else view(w, ref, [slice(None, None, -1 if k in axes else 1) for k in range(rank)])


@_view("split", "array_split")
def _split(w: Walker, ref: ArrayRef, given: Given) -> Val | None:
    axes, where = _axes(given.get("axis", 0), ref.type.rank), given["indices_or_sections"]
    extent = ref.axes[axes[0]].extent if axes else None
    if not axes or not isinstance(extent, int):
        return None
    ends = list(where) if isinstance(where, tuple) else []
    if type(where) is int and where > 0 and (extent % where == 0):
        ends = [extent // where * k for k in range(1, where)]
    elif not isinstance(where, tuple) or any(type(k) is not int for k in ends):
        return None
    bounds = zip([0, *ends], [*ends, None], strict=True)
    parts = []
    for first, last in bounds:
        part = slice(number(first), None if last is None else number(last), 1)
        parts.append(view(w, ref, [part if k == axes[0] else WHOLE for k in range(ref.type.rank)]))
    return new_list(w, parts)
