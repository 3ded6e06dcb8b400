"""Subscripts: of arrays, lists, tuples and dicts, read and assigned."""

from __future__ import annotations

import ast
import enum
import operator
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import EllipsisType, GenericAlias
from typing import Any, Literal, TypeGuard

import numpy as np

from acronumba.frontend.alternatives import note_item
from acronumba.frontend.attributes import attribute, not_none
from acronumba.frontend.calls.objects import is_tuple
from acronumba.frontend.comprehensions import extend, stack_list, to_list
from acronumba.frontend.conditions import host_value
from acronumba.frontend.exceptions import Dead, Rejected
from acronumba.frontend.handlers import EXPRESSIONS, INDEXED, SUBSCRIPTS, handles
from acronumba.frontend.impossible import impossible
from acronumba.frontend.keyed import put
from acronumba.frontend.kinds.arrays import ArrayRef, Tensor
from acronumba.frontend.kinds.errors import ErrorValue
from acronumba.frontend.kinds.functions import OneOfFunctions, Static, can_be_chosen
from acronumba.frontend.kinds.iterators import Range, SliceVal
from acronumba.frontend.kinds.lists import ListVal, StaticList, at_run_time, is_row
from acronumba.frontend.kinds.maps import MapVal
from acronumba.frontend.kinds.numbers import NoneVal, Num, number
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.unions import UnionVal
from acronumba.frontend.kinds.value import NOT_CONST, AxisIndex, Constant, Index, Val
from acronumba.frontend.lists import checked_index, list_slice, new_list, simple, widen_list
from acronumba.frontend.loops import iterate
from acronumba.frontend.magic import call_special, has_method, index_value
from acronumba.frontend.names import alias, path_of
from acronumba.frontend.walker import Walker
from acronumba.ir import nodes as ir
from acronumba.ir.types import BOOL, NEVER, IntT, TensorT, TorchT, words

MOST_CHOSEN = 16  # modules of a list that an index of run time chooses from, for each of which code is compiled
WHOLE = slice(None, None, 1)  # the index of all elements of an axis
Entry = int | Literal["new", "chosen"]  # of a result: an axis of the array, a new axis, the axes of broadcast indices


def index_of(w: Walker, node: ast.expr, ranges: bool = False) -> Index:
    """Evaluate an index: a value, or a `slice` of two bounds and a constant step, each None if it is left out.

    With `ranges`, a slice is returned with its bounds as they are: `np.r_[a:b]` makes a range of it.
    """
    if isinstance(node, ast.Tuple):
        return TupleVal(tuple(index_value(index_of(w, e, ranges)) for e in node.elts))
    if not isinstance(node, ast.Slice):
        val = w.expr(node)
        with w.at_node(node):
            return in_index(w, val)
    parts = [None if x is None else (x, w.expr(x)) for x in (node.lower, node.upper, node.step)]
    if ranges:
        return SliceVal(*(NoneVal() if part is None else part[1] for part in parts))
    out: list[Any] = [None, None, None]
    for k, part in enumerate(parts):
        if part is not None:
            with w.at_node(part[0]):
                out[k] = slice_step(w, part[1]) if k == 2 else slice_bound(w, part[1])
    return slice(*out)


def in_index(w: Walker, val: Val) -> Index:
    """Return a value as an index: a slice object as a `slice` of two bounds and a constant step."""
    if not isinstance(val, SliceVal):
        return val
    return slice(slice_bound(w, val.start), slice_bound(w, val.stop), slice_step(w, val.step))


def slice_bound(w: Walker, val: Val) -> Num | UnionVal | None:
    """Return a bound of a slice: a number, None if it is left out, or a union that may be either at run time."""
    if isinstance(val, NoneVal):
        return None
    if isinstance(val, UnionVal):
        return val
    if isinstance(val, Tensor) and val.type.dtype == "uint64":
        val = w.ops.signed(val)
    return host_value(w, val, "a slice bound", index=True)


def slice_step(w: Walker, val: Val) -> int | None:
    """Return the step of a slice, which must be a compile-time constant; None if it is left out."""
    step = w.static(val)
    if step is NOT_CONST:
        raise w.reject("ACR403", seen="a slice whose step is known only at run time")
    if step is None:
        return None
    if not isinstance(step, int):
        raise w.reject("ACR301", seen=f"a slice step of {w.describe(val)}")
    if step == 0:
        w.fail("ValueError", "slice step cannot be zero")
        raise Dead
    return int(step)


def cut(w: Walker, length: ir.Extent, where: slice) -> tuple[ir.Extent, int, ir.Extent]:
    """Return the start, step and count of a slice of a sequence of a given length."""
    step = 1 if where.step is None else where.step
    if (where.start, where.stop, step) == (None, None, 1):
        return 0, 1, length
    n = w.extent(length)
    ends = (number(0), n) if step > 0 else (w.scalar("sub", n, number(1)), w.scalar("invert", n))
    start, stop = (
        bound_or(w, v, end) if isinstance(v, UnionVal) else v
        for v, end in zip((where.start, where.stop), ends, strict=True)
    )
    return w.ops.slice_part(length, start, stop, step)


def bound_or(w: Walker, val: UnionVal, end: Num) -> Num:
    """Return a bound of a slice that may be None at run time; None stands for `end`."""

    def one(v: Val) -> Val:
        bound = slice_bound(w, v)
        return end if bound is None else w.as_int(bound) if isinstance(bound, Num) else bound

    out = w.each(val, one)
    if w.block is None:
        raise Dead
    assert isinstance(out, Num)
    return out


def subscript(w: Walker, base: Val, index: ast.expr) -> Val:
    """Read an item or slice of a value, which may be a union."""
    where = index_of(w, index, _makes_ranges(base))
    return w.each(not_none(w, base), lambda v: get_item(w, v, where), itself=True)


def named_item(w: Walker, base: ast.expr, index: ast.expr) -> Val:
    """Read an item or slice of the value of an expression."""
    owner = w.value(base)
    found = subscript(w, owner, index)
    if owner.nests and owner.is_several and isinstance(index, ast.Constant):
        note_item(w, base, owner, w.constant(index.value), found)
    return found


def get_item(w: Walker, base: Val, where: Index) -> Val:
    """Read an item or slice of a value that is no union; the index may be one."""
    w.check_poison(base)
    if isinstance(where, UnionVal) and not base.is_mapping and not base.numeric:
        where = not_none(w, where)
        if isinstance(where, UnionVal):
            return w.each(where, lambda e: get_item(w, base, e))
    part = None if isinstance(where, slice) else base.row_item(w, where)
    if part is not None:
        return part
    base = base.as_container(w)
    if base.is_several:
        return w.each(base, lambda v: get_item(w, v, where), itself=True)
    try:
        own = base.get_item(w, index_value(where) if base.is_mapping else where)
    except Rejected as rejection:
        if not isinstance(base, Tensor) or isinstance(where, slice):
            raise
        raise impossible(w, operator.getitem, (base, where), rejection) from None
    if own is not None:
        return own
    if has_method(w, base, "__getitem__"):
        return call_special(w, base, "__getitem__", (index_value(where),))
    return element(w, base, where)


@handles(INDEXED, Static)
def static_item(w: Walker, base: Static, where: Index) -> Val:
    """`Color["RED"]` of an enum; `np.r_[1:3]`; `list[int]` in an annotation."""
    if _makes_ranges(base):
        parts = where.items if isinstance(where, TupleVal) else (index_value(where),)
        return w.call(base, [_numbers(w, e) if isinstance(e, SliceVal) else e for e in parts], {})
    if is_generic(w, base.value):
        return base
    name = w.static(index_value(where)) if isinstance(base.value, enum.EnumMeta) else None
    if not isinstance(name, str):
        raise not_indexed(w, base, where)
    if name not in base.value.__members__:
        w.fail("KeyError", repr(name).replace("{", "{{").replace("}", "}}"), (w.constant(name),))
        raise Dead
    return w.constant(base.value[name])


def is_generic(w: Walker, value: Constant) -> bool:
    """Whether an object is a class that takes types as an index (`list[int]`), or a form of `typing`."""
    if isinstance(value, type):
        return not hasattr(type(value), "__getitem__") and w.has(value, "__class_getitem__")
    return isinstance(value, GenericAlias) or type(value).__module__ == "typing"


def not_indexed(w: Walker, base: Val, where: Index) -> Exception:
    """Return the exception to raise for an index of a value that has no items."""
    index = index_value(where)
    rejection = w.reject("ACR301", seen=f"{w.describe(base)} cannot be indexed by {w.describe(index)}")
    return impossible(w, operator.getitem, (base, index), rejection)


def element(w: Walker, base: Val, where: Index) -> Val:
    """Read an item or slice of a list or tuple."""
    items = w.items_of(base)
    if items is None and not isinstance(base, ListVal):
        raise not_indexed(w, base, where)
    at = where if isinstance(where, slice) else list_index(w, where, f"an index of a {base.python_class.__name__}")
    found = None if items is None else known_item(w, base, items, at)
    if found is not None:
        w.picked += not isinstance(at, slice) and is_computed(w.here) and not is_uniform(base)
        return found
    if isinstance(base, StaticList):
        w.make_real(base.cell)
    if items is not None and any(v.holds_modules for v in items):
        raise w.reject("ACR308", seen=f"one of several {items[0].python_class.__name__}s, chosen at run time",
                       rewrite="one ModuleList of all modules, with a computed index")  # fmt: skip
    inner = base if isinstance(base, ListVal) else at_run_time(w, items or ())
    n = w.ops.list_lengths(inner)
    if not isinstance(at, slice):
        return inner.item_at(w, checked_index(w, at, n, f"{inner.cls.__name__} index out of range"))
    if not inner.is_plain:
        raise w.reject("ACR301", seen="a slice of a deque", rewrite="list(q)[a:b]")
    start, step, count = cut(w, w.word(n), at)
    part = list_slice(w, inner, w.extent(start), step, w.extent(count))
    return replace(part, cls=tuple) if is_tuple(base) else part


def is_computed(node: ast.AST | None) -> bool:
    """Whether the source of an index contains a name."""
    return isinstance(node, ast.Subscript) and any(isinstance(n, ast.Name) for n in ast.walk(node.slice))


def is_uniform(base: Val) -> bool:
    """Whether the known elements of a list have one run-time type, so that it can be a run-time list."""
    types = {item.word_type() for item in base.items} if isinstance(base, StaticList) else {None}
    return len(types) == 1 and None not in types


def _makes_ranges(base: Val) -> bool:
    return isinstance(base, Static) and any(base.value is f for f in (np.r_, np.c_, np.mgrid, np.ogrid))


def no_uint64(w: Walker, *values: Val) -> None:
    """Reject uint64 among the arguments of `np.arange`."""
    if any(isinstance(v, Tensor) and v.type.dtype == "uint64" for v in map(w.whole, values)):
        seen = "np.arange of uint64: NumPy's result is float64, and a difference of its arguments wraps around"
        raise w.reject("ACR202", seen=seen, rewrite="np.arange(int(n)), of int64")


def _numbers(w: Walker, part: SliceVal) -> Tensor:
    """Return the range that a slice denotes, as an array: `np.r_[1:3]`."""
    no_uint64(w, part.start, part.stop, part.step)
    first, stop = slice_bound(w, part.start), slice_bound(w, part.stop)
    first = number(0) if first is None else first
    if not isinstance(first, Num) or not isinstance(stop, Num):
        raise w.reject("ACR202", seen="a range without a stop", rewrite="np.arange(start, stop)")
    return w.ops.arange(first, stop, number(slice_step(w, part.step) or 1), None)


@handles(INDEXED, Tensor, ArrayRef)
def array_item(w: Walker, base: Tensor | ArrayRef, where: Index) -> Val:
    """Index an array by one or several indices, each of which may be a union."""
    where = _one_place(w, where) if isinstance(base, ArrayRef) else where
    if isinstance(where, UnionVal):
        return w.each(where, lambda e: array_item(w, base, e))
    return item_of_axes(w, base, index_parts(w, base, where))


def item_of_axes(w: Walker, base: Tensor | ArrayRef, parts: Sequence[Index]) -> Val:
    """Index an array by the indices of its leading axes, each of which may be a union."""
    for k, v in enumerate(parts):
        if isinstance(v, UnionVal):  # also None, which is a new axis
            before, after = parts[:k], parts[k + 1 :]
            return w.each(v, lambda e: item_of_axes(w, base, (*before, e, *after)))  # noqa: B023
    return SUBSCRIPTS[type(base)](w, base, parts)  # type: ignore[no-any-return]


def index_parts(w: Walker, base: Tensor | ArrayRef, where: Index) -> tuple[Index, ...]:
    """Return an index as a tuple of the indices of the leading axes; a slice without a step has the step 1."""
    several = not isinstance(where, slice) and is_tuple(where)
    parts = [in_index(w, v) for v in _of_each_axis(w, base, index_value(where))] if several else [where]
    parts = [slice(e.start, e.stop, 1) if isinstance(e, slice) and e.step is None else e for e in parts]
    return tuple(_one_place(w, e) if isinstance(base, ArrayRef) else e for e in parts)


def _of_each_axis(w: Walker, base: Tensor | ArrayRef, where: Val) -> Sequence[Val]:
    """Return the items of a tuple used as an index; a tuple of run-time length must have one for each axis."""
    items = w.items_of(where)
    if items is not None:
        return items
    assert isinstance(where, ListVal)
    n, rank = w.ops.list_lengths(where), base.type.rank
    text = f"an index of {{0}} elements, known only at run time: it must have one for each of the {rank} axes"
    w.check(w.scalar("eq", n, number(rank)), "TypeError", text, (n,), ours=True)
    return [where.item_at(w, number(k)) for k in range(rank)]


def _one_place(w: Walker, e: Index) -> Index:
    """Return an index that is a union of an int and NumPy scalars as an int: each selects one position."""
    if not isinstance(e, UnionVal):
        return e
    whole = all(
        isinstance(t, IntT) or (isinstance(t, TensorT) and not t.rank and t.dtype[:3] == "int") for t in e.possible
    )
    return host_value(w, e, "an index of an array", index=True) if whole else e


def known_item(w: Walker, base: Val, items: tuple[Val, ...], where: Num | slice) -> Val | None:
    """Return the item or slice at an index among known items; None if the index is known only at run time."""
    if isinstance(where, slice):
        ends = [None if v is None else w.static(v) for v in (where.start, where.stop)]
        if NOT_CONST in ends:
            return None
        part = items[slice(ends[0], ends[1], where.step)]
        return TupleVal(part, shown=base.shown) if is_tuple(base) else new_list(w, part)
    k = w.known(w.as_int(where) if where.type == BOOL else where)
    if k is NOT_CONST and items:
        choice = can_be_chosen(items) and (len(items) <= MOST_CHOSEN or items[0].is_function)
        return OneOfFunctions(items, checked_index(w, where, number(len(items)))) if choice else None
    if k is NOT_CONST or not -len(items) <= k < len(items):
        w.fail("IndexError", "index out of range")
        return ErrorValue()
    w.check_poison(items[int(k)])
    return items[int(k)]


def list_index(w: Walker, where: Val, what: str = "an index of a list") -> Num:
    """Return the index of a list, string or other sequence as a host number."""
    if isinstance(where, Tensor) and where.type.dtype == "uint64" and not where.type.rank:
        most = w.ops.from_number(number(2**63 - 1), "uint64")
        small = w.ops.host(w.ops.ufunc("le", (where, most)), what)
        w.check(small, "IndexError", "cannot fit 'numpy.uint64' into an index-sized integer")
        where = w.ops.cast(where, "int64")
    return host_value(w, where, what, index=True)


@handles(SUBSCRIPTS, Tensor)
def index_tensor(w: Walker, x: Tensor, where: Sequence[Index]) -> Val:
    """Index an array by NumPy's rules, basic or advanced."""
    parts, ellipsis = index_of_each_axis(w, x, where)
    each = zip(x.dims, (e for e in parts if e is not None), strict=True)
    out = w.ops.slice(x, [cut(w, d, e) if isinstance(e, slice) else (0, 1, d) for d, e in each])
    if sum(isinstance(e, Num | Tensor) for e in parts) > 1 and any(map(_is_array, parts)):
        return taken(w, out, parts, layout(parts))
    axis = 0
    shape: list[ir.Extent] = []
    for e in parts:
        if e is None:
            shape.append(1)
            continue
        if isinstance(e, slice):
            kept = out.dims[axis : axis + 1]
        else:
            out, kept = w.ops.take(out, e, axis), e.dims if isinstance(e, Tensor) else ()
        shape += kept
        axis += len(kept)
    if None in parts:
        out = w.ops.reshape(out, shape)
    if ellipsis and not out.type.rank:  # an array that may be a view; else a scalar
        return out if out.array0 is not None and out.array0.const is True else replace(out, array0=number(True))
    return w.ops.as_scalar(out)


def index_of_each_axis(
    w: Walker, x: Tensor | ArrayRef, where: Sequence[Index], masks: bool = False
) -> tuple[list[AxisIndex], bool]:
    """Return an index for each axis and None for each new one, without an ellipsis; and whether there was one.

    With `masks`, a mask stands at the first of its axes, followed by whole slices; else its positions replace it.
    """
    given = [_axis_index(w, e) for e in where]
    if given.count(...) > 1:
        raise w.reject("ACR301", seen="two ellipses in one index", rewrite="write one of them as `:`")
    axes = [e.type.rank if is_mask(e) else int(e is not None and e is not ...) for e in given]
    left = x.type.rank - sum(axes)
    parts: list[AxisIndex] = []
    axis = 0
    for e, rank in zip(given, axes, strict=True):
        if e is ...:
            parts += [WHOLE] * left
            axis += left
        elif is_mask(e):
            parts += _index_of_mask(w, x, axis, e, masks)
        else:
            parts.append(e)
        axis += rank
    if left < 0:
        raise w.reject("ACR402", seen=f"{sum(axes)} indices for {w.describe(x)}")
    return parts if ... in given else parts + [WHOLE] * left, ... in given


def _axis_index(w: Walker, e: Index) -> AxisIndex | EllipsisType:
    """Return the index of an axis, or an ellipsis; an empty sequence gives an int array, as in NumPy."""
    if isinstance(e, slice):
        return e
    if isinstance(e, Static) and e.value is ...:
        return ...
    if isinstance(e, ListVal):
        return stack_list(w, e, 0, "int64" if e.item == NEVER else None, empty=True)
    return e.axis_index(w)


def is_mask(e: AxisIndex | EllipsisType) -> TypeGuard[Tensor]:
    return isinstance(e, Tensor) and e.type.dtype == "bool"


def _is_array(e: AxisIndex) -> bool:
    return isinstance(e, Tensor) and e.type.rank > 0


def _index_of_mask(w: Walker, x: Tensor | ArrayRef, axis: int, mask: Tensor, kept: bool) -> Sequence[AxisIndex]:
    """Return the indices of the axes of a mask: the mask, if it is kept, or the positions of its true elements."""
    rank = mask.type.rank
    if not rank:
        raise w.reject("ACR202", seen="a bool as an index of an array", rewrite="np.where(mask, x, 0)")
    if axis + rank > x.type.rank:
        raise w.reject("ACR402", seen=f"{w.describe(mask)} as an index of {w.describe(x)}")
    for d, n in zip(x.dims[axis : axis + rank], mask.dims, strict=True):
        text = "boolean index did not match indexed array: size of axis is {0} but size of the mask is {1}"
        same = w.scalar("eq", w.extent(d), w.extent(n))
        w.check(same, "IndexError", text, (w.extent(d), w.extent(n)))
    return [mask, *[WHOLE] * (rank - 1)] if kept else w.ops.places(mask, "a mask as an index")


def layout(places: Sequence[AxisIndex]) -> tuple[Entry, ...]:
    """Return the axes of the result of an index with arrays, by NumPy's rule.

    The axes of the broadcast arrays (and numbers) take the place of the first of these, or come first if a slice or new
    axis separates them.
    """
    found: list[tuple[bool, Entry]] = []
    axis = k = 0
    while k < len(places):
        e = places[k]
        rank = e.type.rank if is_mask(e) else 1
        k += rank
        found.append((not isinstance(e, slice | None), "new" if e is None else axis))
        axis += 0 if e is None else rank
    by = [j for j, (array, _) in enumerate(found) if array]
    together = by == list(range(by[0], by[-1] + 1))
    first = by[0] if together else 0
    rest: list[Entry] = [e for array, e in found if not array]
    return (*rest[:first], "chosen", *rest[first:])


def array_axes(w: Walker, index: Sequence[AxisIndex]) -> tuple[list[int], list[Tensor]]:
    """Return the axes indexed by numbers and arrays, and these indices as arrays."""
    axes: list[int] = []
    places: list[Tensor] = []
    for axis, e in enumerate(e for e in index if e is not None):
        if not isinstance(e, slice):
            axes.append(axis)
            places.append(w.ops.from_number(e, "int64") if isinstance(e, Num) else w.ops.signed(e))
    return axes, places


def taken(w: Walker, x: Tensor, index: Sequence[AxisIndex], order: Sequence[Entry]) -> Tensor:
    """Index an array by numbers, arrays of ints, whole slices and new axes; `order` is the layout of the result."""
    axes, places = array_axes(w, index)
    if len(places) == 1:
        out, first = w.ops.take(x, places[0], axes[0]), axes[0]
    else:
        rest = [a for a in range(x.type.rank) if a not in axes]
        checked = [w.ops.checked(p, x.dims[a], a) for a, p in zip(axes, places, strict=True)]
        out, first = w.ops.take_many(w.ops.transpose(x, (*axes, *rest)), checked), 0
    rank = out.type.rank - x.type.rank + len(axes)
    have = [a for a in range(x.type.rank) if a not in axes]
    where = {a: k if k < first else k + rank for k, a in enumerate(have)}
    moved = [k for e in order if e != "new" for k in (range(first, first + rank) if e == "chosen" else [where[e]])]
    out = w.ops.transpose(out, moved)
    if "new" not in order:
        return out
    dims = iter(out.dims)
    shape = [n for e in order for n in _extents(e, rank, dims)]
    return w.ops.reshape(out, shape)


def _extents(e: Entry, rank: int, dims: Iterator[ir.Extent]) -> list[ir.Extent]:
    return [1] if e == "new" else [next(dims) for _ in range(rank if e == "chosen" else 1)]


def item_place(w: Walker, target: ast.Subscript) -> tuple[Val, Index, Callable[[Val], Val]]:
    """Evaluate the container and the index of an assigned item: once, also for an augmented assignment.

    The function finds the container in each alternative: it reads `.data` of a name that is one of several tensors.
    """
    base, found = _container(w, target.value)
    w.check_poison(base)
    base = changeable(w, not_none(w, base))
    return base, w.expr(target.slice) if base.is_mapping else index_of(w, target.slice), found


def _container(w: Walker, expression: ast.expr) -> tuple[Val, Callable[[Val], Val]]:
    if isinstance(expression, ast.Attribute) and expression.attr == "data" and isinstance(expression.value, ast.Name):
        owner = w.value(expression.value)  # a name can be evaluated twice
        if isinstance(owner, UnionVal) and all(isinstance(t, TorchT) for t in owner.possible):
            return owner, lambda v: attribute(w, v, expression.attr)
    return w.value(expression), lambda v: v


def each_place(w: Walker, base: Val, f: Callable[[Val], None]) -> None:
    """Call `f`, which assigns to an item, for each alternative of a container that may be a union."""
    if not base.is_several:
        f(base)
        return

    def one(val: Val) -> Val:
        f(changeable(w, val))
        return NoneVal()

    w.each(base, one, itself=True)


def changeable(w: Walker, val: Val) -> Val:
    """Return a container to one of whose items a value is to be assigned: a list is made one that can change."""
    base = val.as_container(w)
    if base.assignable and base.python_class in (list, deque):
        base.mutable(w)
    return base


def not_assignable(w: Walker, base: Val) -> Exception:
    """Return the exception to raise for an item assignment to a value that has none, or that is input data."""
    message = "" if base.is_input else f"items of {w.describe(base)} cannot be assigned"
    rejection = w.reject("ACR113", seen=f"an assignment into {w.describe(base)}", message=message)
    cls = base.python_class
    own = Static(tuple.__new__(cls)) if isinstance(cls, type) and issubclass(cls, tuple) else base  # whatever its items
    return impossible(w, lambda x: operator.setitem(x, 0, 0), (own,), rejection)


def set_in_pieces(w: Walker, target: ast.Subscript, val: Val) -> bool:
    """`xs[1] = v` for a compile-time list of slices or unlike elements; return whether the list is one."""
    found = item_in_pieces(w, target)
    if found is None:
        return False
    key, old, k = found
    items = list(old.items)
    items[k] = val
    new = replace(old, items=tuple(items))
    if all(v.word_type() is not None for v in items) and not is_row(new):
        return False
    w.state[key] = new
    return True


def item_in_pieces(w: Walker, target: ast.Subscript) -> tuple[Any, StaticList, int] | None:
    """Return the state key of a compile-time list, the list, and the index of an assignable item; else None.

    An item is assignable if the list has one name, is stored nowhere else, and was made in the same loops.
    """
    key = path_of(w, target.value)
    old = None if key is None else w.state.get(key)
    if not isinstance(old, StaticList) or old.loops != w.loops_around or old.stored or old.cell.find().real:
        return None
    acts = any(isinstance(n, ast.Call | ast.NamedExpr | ast.Slice) for n in ast.walk(target.slice))
    if acts or sum(holds(v, old) for v in w.state.values()) > 1:
        return None
    where = w.expr(target.slice)
    k = w.static(where) if isinstance(where, Num) else NOT_CONST
    return (key, old, int(k)) if isinstance(k, int) and -len(old.items) <= k < len(old.items) else None


def holds(val: Val, what: Val) -> bool:
    """Whether a value is `what`, or contains it."""
    return val is what or any(holds(v, what) for v in val.children())


def set_item(w: Walker, base: Val, where: Index, target: ast.Subscript, val: Val) -> None:
    """Assign to an element or slice of a list, or to a key of a dict."""
    if base.is_mapping:
        entries = base.mutable(w)
        assert isinstance(entries, MapVal)
        if entries.is_set:
            raise w.reject("ACR301", seen=f"an assignment into {w.describe(base)}", rewrite="s.add(x)")
        put(w, entries, index_value(where), val)
        return
    assert isinstance(base, ListVal)
    if isinstance(where, slice):
        set_slice(w, base, where, val)
        return
    with w.at_node(target.slice):
        where = list_index(w, where)
    i = checked_index(w, where, w.ops.list_lengths(base), "list assignment index out of range")
    set_at(w, base, i, val)


def set_at(w: Walker, base: ListVal, i: Num, val: Val) -> None:
    """Replace the element of a list at an index that is in range."""
    alias(val)
    w.put_in(base.cell, val)
    widen_list(w, base, val)
    args = (base.var, w.word(i), *w.to_words(val, base.item))
    if w.block is not None:
        w.emit(ir.ListOp(outs=(), op="set", width=w.ops.width(base), args=args, loc=w.loc))


def set_slice(w: Walker, base: ListVal, where: slice, val: Val | None) -> None:
    """`xs[a:b] = ys`, or `del xs[a:b]` if the value is None."""
    new = None if val is None else to_list(w, val)
    n = w.ops.list_lengths(base)
    if where.step not in (None, 1):
        _set_in_steps(w, base, where, new, n)
        return
    first = _inside(w, where.start, number(0), n)
    stop = w.scalar("max", first, _inside(w, where.stop, n, n))
    with w.at_node(w.beside("head")):
        parts = [list_slice(w, base, number(0), 1, first)]
    if new is not None:  # it may be the list itself
        with w.at_node(w.beside("new")):
            parts.append(list_slice(w, new, number(0), 1, w.ops.list_lengths(new)))
    with w.at_node(w.beside("tail")):
        parts.append(list_slice(w, base, stop, 1, w.scalar("sub", n, stop)))
    simple(w, base, "erase")
    for part in parts:
        extend(w, base, part)


def _set_in_steps(w: Walker, base: ListVal, where: slice, new: ListVal | None, n: Num) -> None:
    """`xs[a:b:c] = ys`, of equal lengths, or `del xs[a:b:c]`."""
    first, step, extent = cut(w, w.as_extent(n), where)
    count = w.extent(extent)
    if new is not None:
        given = w.ops.list_lengths(new)
        text = "attempt to assign sequence of size {0} to extended slice of size {1}"
        w.check(w.scalar("eq", given, count), "ValueError", text, (given, count))
        with w.at_node(w.beside("new")):
            new = list_slice(w, new, number(0), 1, given)  # it may be the list itself

    def turn(k: Val) -> None:
        assert isinstance(k, Num)
        if new is None and step > 0:  # from the end, so that a removal moves no element still to be removed
            k = w.scalar("sub", w.scalar("sub", count, number(1)), k)
        at = w.scalar("add", w.extent(first), w.scalar("mul", k, number(step)))
        if new is not None:
            set_at(w, base, at, new.item_at(w, k))
            return
        outs = tuple(w.var("item", t) for t in words(base.item))
        w.emit(ir.ListOp(outs=outs, op="pop", width=w.ops.width(base), args=(base.var, w.word(at)), loc=w.loc))

    every = Range(number(0), count, number(1))
    iterate(w, every, turn)


def _inside(w: Walker, bound: Num | UnionVal | None, end: Num, n: Num) -> Num:
    """Return a bound of a slice of a list as an index from 0 to its length."""
    if isinstance(bound, UnionVal):
        bound = bound_or(w, bound, end)
    if bound is None:
        return end
    at = w.read(w.as_int(bound))
    at = w.select(w.scalar("lt", at, number(0)), w.scalar("add", at, n), at)
    return w.scalar("max", number(0), w.scalar("min", at, n))


@handles(EXPRESSIONS, ast.Subscript)
def _subscript_expression(w: Walker, node: ast.Subscript) -> Val:
    return named_item(w, node.value, node.slice)
