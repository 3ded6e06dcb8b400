"""Arrays that are written to: `x[i] = v`, views, and reads of their current elements.

An array made in the call is an immutable value as long as nothing writes into it. An array that is written to is stored
as a run-time list of parts (`ArrayRef`). The axes that writes in inner loops index by host numbers are split: their
parts are separate elements of the list. Writing a part stores one word, reading one loads it, reading several stacks
them. A write inside a part makes a new part. A view is the same list with other offsets and strides, as in NumPy, so
that a write is seen under all names of an array.

A result that cannot be such a view (a reshaped array, an element of a list) is a copy, read at once. If the array may
be written to while the copy is still in use, the later of read and write is rejected: `note_event`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from acronumba.frontend.attributes import tensor_attribute
from acronumba.frontend.comprehensions import built
from acronumba.frontend.conditions import host_value
from acronumba.frontend.exceptions import Restart
from acronumba.frontend.handlers import ARRAYS, ATTRIBUTES, KEPT, MADE, PROTOCOLS, READ, SUBSCRIPTS, handles
from acronumba.frontend.kinds.arrays import AllocationSite, ArrayRef, Axis, Cut, Tensor
from acronumba.frontend.kinds.functions import Partial, method_of
from acronumba.frontend.kinds.iterators import Range
from acronumba.frontend.kinds.lists import ListVal
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import NOT_CONST, AxisIndex, Index, Val
from acronumba.frontend.loops import iterate
from acronumba.frontend.names import name_of_copy, path_of
from acronumba.frontend.subscripts import WHOLE, cut, index_of_each_axis, index_tensor
from acronumba.frontend.walker import UNROLL, Event, Frame, Walker
from acronumba.ir import nodes as ir
from acronumba.ir.types import ListT, TensorT, union

# ---- making


@handles(MADE, Tensor)
def keep_made(w: Walker, x: Tensor) -> Val:
    """Note the allocation site of a new array; if arrays of that site are written to, return its `ArrayRef`."""
    array = x.type.rank or (x.array0 is not None and x.array0.const is True)
    if not array or x.places or x.named or x.lent or not x.own or isinstance(x.ref, ir.SharedArg):
        return x
    kind = x.type.dtype, x.type.rank
    place = w.facts.places.setdefault((w.frame.path, *w.site, kind), AllocationSite(kind)).find()
    if x.base is not None:
        x.filled = x.base.filled
    if place.written:
        return made_array(w, x, place)
    x.places = (place,)
    return x


def made_array(w: Walker, x: Tensor, place: AllocationSite) -> ArrayRef:
    """Split a new array into the list of its parts."""
    rank = x.type.rank
    if x.filled is None and not place.copied:
        place.copied = True
        w.facts.changed = True
    apart = [a for a in range(rank) if a in place.apart]
    inner = [a for a in range(rank) if a not in place.apart]
    item = union(place.cell.item, TensorT(x.type.dtype, tuple(x.type.shape[a] for a in inner)))
    if not isinstance(item, TensorT):
        raise w.reject("ACR303", seen=f"arrays of several kinds, of which one is written to: {w.describe(x)}")
    if item != place.cell.item:
        place.cell.item = item
        w.facts.changed = True
    strides: dict[int, Num] = {}
    count = number(1)
    for a in reversed(apart):
        strides[a] = count
        count = w.scalar("mul", count, w.extent(x.dims[a]))
    parts = _parts(w, x, place, apart, inner, count)
    axes = tuple(
        Axis(extent=x.dims[a], stride=strides.get(a), cut=inner.index(a) if a in inner else -1, number=a)
        for a in range(rank)
    )
    cuts = tuple(Cut(extent=x.dims[a]) for a in inner)
    ref = ArrayRef(
        type=x.type, parts=parts, offset=number(0), axes=axes, cuts=cuts, indexed=frozenset(), place=place
    )  # fmt: skip
    note_event(w, "made", ref)
    return ref


def _parts(
    w: Walker, x: Tensor, place: AllocationSite, apart: Sequence[int], inner: Sequence[int], count: Num
) -> ListVal:
    """Return the list of the parts of an array."""
    item = place.cell.item
    out = ListVal(place.cell, w.var("parts", ListT(item)))
    if x.filled is not None:
        part = w.ops.broadcast_to(x.filled, tuple(x.dims[a] for a in inner))
        args = (w.word(count), *w.to_words(w.ops.as_scalar(part), item))
        w.emit(ir.ListOp(outs=(out.var,), op="fill", width=1, args=args, loc=w.loc))
        return out
    if not apart:
        args = w.to_words(replace(x, array0=None), item)
        w.emit(ir.ListNew(out=out.var, width=1, args=args, count=1, loc=w.loc))
        return out
    rows = w.ops.transpose(x, (*apart, *inner))
    rows = w.ops.reshape(rows, (w.as_extent(count), *(x.dims[a] for a in inner)))
    every = Range(number(0), count, number(1))
    got = built(w, every, lambda k: _row(w, rows, k), "parts")
    w.unify_cells(place.cell, got.cell)
    return ListVal(place.cell, got.var)


def _row(w: Walker, rows: Tensor, k: Val) -> Tensor:
    assert isinstance(k, Num)
    return w.ops.as_scalar(index_known(w, rows, k, 0))


def index_known(w: Walker, x: Tensor, index: Num, axis: int) -> Tensor:
    """Index one axis by a number that is known to be in range."""
    dims = (*x.dims[:axis], *x.dims[axis + 1 :])
    return w.ops.op("take", (x.ref, w.ops.argument(w.read(index))), x.type.dtype, dims, (axis,), base=x)


# ---- reading


@handles(READ, ArrayRef)
def elements(w: Walker, ref: ArrayRef) -> Tensor:
    """Return the current elements of an array that is written to."""
    listed = [a for a in ref.axes if a.stride is not None]
    inside = [a for a in ref.axes if a.stride is None and a.cut >= 0]
    if not listed:
        out = seen_of(w, part_at(w, ref, ref.offset), ref, 0)
    else:
        rows, count = listed_parts(w, ref, listed)
        item = ref.parts.item
        assert isinstance(item, TensorT)
        out = w.ops.op("stack", (rows.var,), item.dtype, (count, *(c.extent for c in ref.cuts)))
        out = seen_of(w, out, ref, 1)
        out = w.ops.reshape(out, (*(a.extent for a in listed), *out.dims[1:]))
    inside.sort(key=lambda a: a.cut)
    order = [*listed, *inside]
    wanted = [a for a in ref.axes if a in order]
    out = w.ops.transpose(out, [order.index(a) for a in wanted])
    out = w.ops.reshape(out, ref.dims)
    flag = None if ref.axes else number(True)
    return Tensor(out.type, out.ref, out.dims, aliased=True, array0=flag, read_from=ref)


def listed_parts(w: Walker, ref: ArrayRef, listed: Sequence[Axis]) -> tuple[ListVal, ir.Extent]:
    """Return the list of the parts visible through `ref`, in order, and their number."""
    count = w.ops.count([a.extent for a in listed])
    last = listed[-1]
    assert last.stride is not None
    if len(listed) == 1 or _row_major(w, listed):
        stride = last.stride
        return _slice_of(w, ref.parts, ref.offset, stride, count), w.as_extent(count)
    cell = ref.parts.cell.find()
    out = ListVal(cell, w.var("seen", ListT(cell.item)))
    w.emit(ir.ListNew(out=out.var, width=1, args=(), count=0, loc=w.loc))

    def row(offset: Num) -> None:
        assert last.stride is not None
        some = _slice_of(w, ref.parts, offset, last.stride, w.extent(last.extent))
        w.emit(ir.ListOp(outs=(), op="extend", width=1, args=(out.var, some.var), loc=w.loc))

    each_part(w, ref.offset, listed[:-1], row)
    return _slice_of(w, out, number(0), number(1), count), w.as_extent(count)  # a list that nothing changes


def _row_major(w: Walker, listed: Sequence[Axis]) -> bool:
    """Whether the strides are known at compile time to be row-major."""
    strides = [a.stride for a in listed]
    consts = [w.known(s) if s is not None else NOT_CONST for s in strides]
    if NOT_CONST not in consts and all(isinstance(a.extent, int) for a in listed[1:]):
        return all(consts[k] == consts[k + 1] * a.extent for k, a in enumerate(listed[1:]))
    return False


def _slice_of(w: Walker, parts: ListVal, start: Num, stride: Num, count: Num) -> ListVal:
    """Return a new list of some parts, which nothing changes: its reader runs later."""
    out = ListVal(parts.cell, w.var("seen", parts.var.type))
    args = (parts.var, w.word(w.read(start)), w.word(w.read(stride)), w.word(w.read(count)))
    w.emit(ir.ListOp(outs=(out.var,), op="slice", width=1, args=args, loc=w.loc))
    return out


def part_at(w: Walker, ref: ArrayRef, offset: Num) -> Tensor:
    """Return the part at an offset in the list."""
    item = ref.parts.item
    assert isinstance(item, TensorT)
    out = w.var("part", item)
    w.emit(ir.ListOp(outs=(out,), op="get", width=1, args=(ref.parts.var, w.word(w.read(offset))), loc=w.loc))
    dims = tuple(c.extent for c in ref.cuts)
    x = Tensor(item, out, tuple(d if n is None else n for n, d in zip(item.shape, dims, strict=True)), aliased=True)
    return w.ops.refine(x, dims)


def seen_of(w: Walker, x: Tensor, ref: ArrayRef, lead: int) -> Tensor:
    """Return the elements of a part visible through `ref`; `x` may be several parts, stacked along `lead` axes."""
    where: list[tuple[ir.Extent, int, ir.Extent]] = [(0, 1, n) for n in x.dims[:lead]]
    where += [(0, 1, c.extent) if c.count is None else (c.start, c.step, c.count) for c in ref.cuts]
    out = w.ops.slice(x, where)
    axis = lead
    for c in ref.cuts:
        if isinstance(c.index, Num):
            out = index_known(w, out, c.index, axis)
        elif c.index is not None:
            out = w.ops.take(out, c.index, axis)
        else:
            axis += 1
    return out


@handles(ARRAYS, ArrayRef)
def _as_array(w: Walker, ref: ArrayRef, dtype: str | None) -> Tensor:
    out = elements(w, ref)
    return out if dtype is None else w.ops.cast(out, dtype)


def each_part(
    w: Walker, offset: Num, listed: Sequence[Axis], f: Callable[[Num], None], carried: Sequence[tuple[Any, str]] = ()
) -> None:
    """Call `f` with the offset of each part along some axes, in order."""
    if not listed:
        f(offset)
        return
    a, rest = listed[0], listed[1:]
    assert a.stride is not None
    stride = a.stride

    def turn(k: Val) -> None:
        assert isinstance(k, Num)
        each_part(w, plus(w, offset, times(w, k, stride)), rest, f, carried)

    if isinstance(a.extent, int) and a.extent <= UNROLL:
        for k in range(a.extent):
            turn(number(k))
        return
    offset, stride = w.read(offset), w.read(stride)
    every = Range(number(0), w.extent(a.extent), number(1))
    iterate(w, every, turn, carried=tuple(carried))


# ---- views


@handles(SUBSCRIPTS, ArrayRef)
def item(w: Walker, ref: ArrayRef, where: Sequence[Index]) -> Val:
    """Read an item of an array that is written to: a view, or, by arrays and masks, a copy."""
    places, ellipsis = index_of_each_axis(w, ref, where, masks=True)
    basic = not any(isinstance(e, Tensor) and (e.type.rank or e.type.dtype == "bool") for e in places)
    if basic and ref.place.find().counted:
        places = [_counted(w, e) if isinstance(e, Tensor) else e for e in places]
    if is_advanced(ref, places):
        seen = index_tensor(w, elements(w, ref), where)
        if not basic or not isinstance(seen, Tensor) or not seen.type.rank:
            return seen
        ref.place.find().looked_up = True
        return Tensor(seen.type, seen.ref, seen.dims, aliased=True, read_from=ref)
    out = view(w, ref, places)
    if out.axes or ellipsis:
        return out
    x = elements(w, out)
    return Tensor(x.type, x.ref, (), fresh=True)


def _counted(w: Walker, e: Tensor) -> Num:
    """Return a NumPy scalar used as an index as a host number."""
    return host_value(w, e, "an index of an array that is written to", index=True)


def count_indices(w: Walker, place: AllocationSite) -> None:
    """Make copies that could be views of arrays of a site views, if any were read.

    They are reshaped, or items at NumPy scalars, which become host numbers.
    """
    place = place.find()
    if (place.looked_up and not place.counted) or (place.reshaped and not place.seen_through):
        place.counted |= place.looked_up
        place.seen_through |= place.reshaped
        w.facts.changed = True
        raise Restart


def is_advanced(ref: ArrayRef, places: Sequence[AxisIndex]) -> bool:
    """Whether one of the indices makes a copy, as in NumPy's advanced indexing, or needs the elements."""
    for e, a in zip((e for e in places if e is not None), ref.axes, strict=False):
        if isinstance(e, Tensor):
            if e.type.rank or e.type.dtype == "bool" or a.cut < 0 or ref.cuts[a.cut].count is not None:
                return True
        elif isinstance(e, slice) and a.cut < 0 and a.stride is None and e != WHOLE:
            return True
    return False


def view(w: Walker, ref: ArrayRef, places: Sequence[AxisIndex]) -> ArrayRef:
    """Return the view of an array that is written to under basic indexing: slices, numbers and new axes."""
    offset, cuts, indexed = ref.offset, list(ref.cuts), set(ref.indexed)
    axes: list[Axis] = []
    rest = iter(ref.axes)
    for axis, e in enumerate(places):
        if e is None:
            axes.append(Axis(extent=1))
            continue
        a = next(rest)
        if isinstance(e, slice):
            start, step, count = cut(w, a.extent, e)
            if (start, step) == (0, 1) and count == a.extent:
                axes.append(a)
                continue
            if a.stride is not None:
                offset = plus(w, offset, times(w, w.extent(start), a.stride))
                a = replace(a, stride=times(w, a.stride, number(step)))
            else:
                c = cuts[a.cut]
                first = w.scalar("add", w.extent(c.start), times(w, w.extent(start), number(c.step)))
                cuts[a.cut] = replace(c, start=w.as_extent(first), step=c.step * step, count=count)
            axes.append(replace(a, extent=count))
            continue
        if isinstance(e, Num):
            indexed |= {a.number} - {-1}
            e = w.ops.inside(e, a.extent, axis)
            if a.stride is not None:
                offset = plus(w, offset, times(w, e, a.stride))
        if a.cut >= 0:
            c = cuts[a.cut]
            if c.count is not None and isinstance(e, Num):
                e = w.scalar("add", w.extent(c.start), times(w, e, number(c.step)))
            cuts[a.cut] = replace(c, index=e, count=None, start=0, step=1)
    t = TensorT(ref.type.dtype, tuple(a.extent if isinstance(a.extent, int) else None for a in axes))
    return replace(
        ref, type=t, offset=offset, axes=tuple(axes), cuts=tuple(cuts), indexed=frozenset(indexed)
    )  # fmt: skip


def plus(w: Walker, a: Num, b: Num) -> Num:
    return b if a.const == 0 else a if b.const == 0 else w.scalar("add", a, b)


def times(w: Walker, a: Num, b: Num) -> Num:
    return b if a.const == 1 else a if b.const == 1 else w.scalar("mul", a, b)


def transposed(ref: ArrayRef, order: Sequence[int]) -> ArrayRef:
    """Return the transposed view of an array that is written to."""
    axes = tuple(ref.axes[k] for k in order)
    return replace(ref, type=TensorT(ref.type.dtype, tuple(ref.type.shape[k] for k in order)), axes=axes)


@handles(ATTRIBUTES, ArrayRef)
def attribute(w: Walker, ref: ArrayRef, name: str) -> Val:
    """Read an attribute of an array that is written to: its shape and dtype, a view, or a method."""
    order = tuple(range(ref.type.rank))
    if name == "T":
        return transposed(ref, order[::-1])
    if name == "mT" and len(order) > 1:
        return transposed(ref, (*order[:-2], order[-1], order[-2]))
    if name == "real":
        return ref
    found = tensor_attribute(w, Tensor(ref.type, ref.parts.var, ref.dims), name)
    return method_of(ref, name) if isinstance(found, Partial) else found


@handles(PROTOCOLS, ArrayRef)
def rows(w: Walker, ref: ArrayRef) -> tuple[Callable[[], Num], Callable[[Num], Val]]:
    """Return two functions: one gives the number of rows, the other one row, as a view or an element."""
    if not ref.axes:
        raise w.reject("ACR301", seen="iteration over a rank-0 array")
    full = [WHOLE] * (len(ref.axes) - 1)
    n = w.extent(ref.axes[0].extent)
    return lambda: n, lambda i: item(w, ref, (i, *full))


# ---- aliasing


def written_tensor(w: Walker, x: Tensor, what: str) -> None:
    """Mark the allocation sites of an array as written to; reject the write if the array is an input or a copy.

    The sites take effect in the next iteration: there the array is made as an `ArrayRef`.
    """
    whole = x.whole
    if whole.read_from is not None:
        count_indices(w, whole.read_from.place)
        seen = f"{what} into {w.describe(x)}, a view of an array that is written to"
        rewrite = as_view(w, x, _name_of(w)) or "write into the array itself, by an index"
        raise w.reject("ACR111", seen=seen, rewrite=rewrite)
    if not whole.places and not came_in(w, x):
        seen = f"{what} into {w.describe(x)}, which may be one of several arrays, or have come in"
        raise w.reject("ACR111", seen=seen, rewrite=WHERE_IT_WAS_MADE)
    if not whole.places:
        seen = f"{what} into {w.describe(x)}, which was not made in this call"
        raise w.reject("ACR111", seen=seen, rewrite=as_view(w, x, _name_of(w)) or _own_copy(w))
    for p in whole.places:
        w.facts.changed |= not p.find().written
        p.find().written = True
    w.unify_places(whole.places)
    if whole.passed:
        w.pass_itself(whole.places)
        seen = f"{what} into {w.describe(x)}, which may have come in"
        raise w.reject("ACR111", seen=seen, rewrite=WHERE_IT_WAS_MADE)


WHERE_IT_WAS_MADE = (
    "write into an array that was made in this call by the name under which it was made; of one that came in, change a "
    "copy, .copy(), and use that in its place"
)


def came_in(w: Walker, x: Tensor) -> bool:
    """Whether an array, or the base of a view, certainly was not made in the call: then a copy can take its place."""
    while x.base is not None:
        x = x.base
    return isinstance(x.ref, ir.SharedArg) or x.ref in w.came_in


def as_view(w: Walker, x: Tensor, name: str) -> str:
    """Return the rewrite of a write into a view of a named array, so that both see it; "" if `x` is no such view."""
    reshaped = {i.out for instrs in w.code.blocks for i in instrs if isinstance(i, ir.Op) and i.op == "reshape"}
    base, other = x, False
    while base.base is not None:
        other |= base.ref in reshaped
        base = base.base
    first = _first_name(w, base) if base is not x else ""
    if not first or first == name or not name.isidentifier():
        return ""
    if other:
        return f"{name} = {name}.copy(), and `{first} = {name}.reshape({first}.shape)` behind what is written"
    return f"{first} = {first}.copy(), before `{name}` becomes a view of it"


def own_root(w: Walker, name: str) -> str:
    """Return the rewrite that copies the object that contains `name`, if it is an input; "" if the call made it."""
    root = _root(name)
    copied, owner = name_of_copy(w, root), w.state.get(path_of(w, root))
    came_in = (owner is not None and owner.is_input) or copied != ast.unparse(root)
    return f"{copied} = copy.deepcopy({ast.unparse(root)})" if came_in and ast.unparse(root) != name else ""


def _root(name: str) -> ast.expr:
    root = ast.parse(name, mode="eval").body
    while isinstance(root, ast.Attribute | ast.Subscript):
        root = root.value
    return root


def _own_copy(w: Walker) -> str:
    """Return the rewrite that copies the array written into, or the object through which it is reached."""
    name = _name_of(w)
    if w.facts.tensors and not (name := _tensor_name(w)).isidentifier():
        return f"y = {name}.clone(), and write into y"
    root = _root(name)
    copied = name_of_copy(w, root)
    owner = w.state.get(path_of(w, root))
    first = _first_name(w, owner) if isinstance(root, ast.Name) and copied == root.id else ""
    if first and first != name:  # another name would still refer to the input
        return f"{first} = {first}.copy(), before `{name}` becomes another name of it"
    if own := own_root(w, name):
        return own
    return f"{copied if copied != ast.unparse(root) else name} = {name}.copy()"


def _tensor_name(w: Walker) -> str:
    """Return the source text of the tensor that a statement or an in-place method writes into."""
    match w.here:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="F" | "torch")), args=[node, *_]):  # F.relu(x, inplace=True)
            pass
        case ast.Call(func=ast.Attribute(value=node)) | ast.Subscript(value=node) | ast.AugAssign(target=node):
            pass
        case node:
            pass
    while isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr == "data"):
        node = node.value
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else "x"


def _first_name(w: Walker, val: Val | None) -> str:
    """Return the first local name of an array; "" if it has none."""

    def same(v: Val) -> bool:
        if isinstance(v, ArrayRef) and isinstance(val, Tensor) and val.read_from is not None:
            return v.place.find() is val.read_from.place.find() and v.dims == val.dims
        return isinstance(v, Tensor) and isinstance(val, Tensor) and v.ref is val.ref

    names = (str(key[1]) for key, v in w.state.items() if len(key) == 2 and same(v))
    return next((name for name in names if name.isidentifier()), "")


def _name_of(w: Walker) -> str:
    """Return the user's expression for the array written into; "x" if it is not known."""
    match w.here:
        case ast.Subscript(value=value) | ast.AugAssign(target=value):
            return ast.unparse(value)
        case ast.Name(id=name):
            return name
    return "x"


def note_write(w: Walker, ref: ArrayRef, numbers: frozenset[int], others: frozenset[int]) -> None:
    """Note the axes and the loop depth of a write; reject it if a copy read before is still in use."""
    place = ref.place.find()
    made = next((e for e in reversed(w.events) if e.kind == "made" and e.place.find() is place), None)
    depth = len(w.loops_around) - (len(made.loops) if made is not None else 0)
    key = (w.frame.path, *w.site)
    # An index may be one of several values: each of them writes at this site.
    deep, by_number, by_other = place.writes.get(key, (0, frozenset(), frozenset()))
    found = max(depth, deep), numbers | by_number, others | by_other
    if place.writes.get(key) != found:
        before = place.apart
        place.writes[key] = found
        w.facts.changed = True
        if place.passed and place.apart != before:
            w.facts.begin_again()
            raise Restart
    note_event(w, "written", ref)


@handles(KEPT, Tensor)
def note_kept(w: Walker, val: Tensor) -> None:
    """Note that a copy read from an array that is written to is bound to a name or stored."""
    ref = val.whole.read_from
    if w.outer_loc is not None and not w.stored_now:  # a name inside a function of the library, which ends with it
        return
    if ref is not None and (val.type.rank or val.array0 is not None):
        note_event(w, "kept", ref, whole=val.base is None)


def note_event(w: Walker, kind: Literal["made", "written", "kept"], ref: ArrayRef, whole: bool = False) -> None:
    """Note an event of an array; reject a write that a kept copy would miss, and such a copy in a loop."""
    place, parts = ref.place.find(), ref.parts.var if ref.latest else None
    bound = kind == "kept" and isinstance(getattr(w.here, "ctx", None), ast.Store)
    loc = w.frame.last if bound else w.loc  # of an assignment, the whole statement
    within = w.frame if kind == "kept" and w.frame.of_library and w.outer_loc is not None else None
    new = Event(kind=kind, place=place, parts=parts, loops=w.loops_around, loc=loc, whole=whole, frame=within)
    old = [e for e in w.events if e.place.find() is place]
    if kind == "written":
        made = max((k for k, e in enumerate(old) if e.kind == "made" and e.parts is parts), default=-1)
        for e in old[made + 1 :]:
            if e.kind == "kept" and not _apart(e, new, old):
                _reject_kept(w, e, new)
    elif within is None:
        _check_kept(w, new, old)
    w.events.append(new)


def _check_kept(w: Walker, new: Event, events: Sequence[Event]) -> None:
    """Reject a copy if the next iteration of a loop may write into the array, after a write in this one."""
    if new.kind == "kept":
        for e in events:
            if e.kind == "written" and e.place.find() is new.place.find() and _comes_again(e, new, events):
                _reject_kept(w, new, e)


def end_of_library(w: Walker, frame: Frame, first: int, seen: Sequence[Val]) -> None:
    """Forget the copies that a function of the library has stored, such as the windows of a convolution.

    They end with it if neither its arguments nor its result, `seen`, can hold them, and if it has called no function
    of the user. `first`: the number of events before it.
    """
    events = [e for e in w.events[first:] if e.frame is frame]
    if not events:
        return
    outer = w.frame if w.frame.of_library else None
    ended = not frame.calls_user and not _holds_copies(seen[-1]) and not any(map(_holds_lists, seen))
    for k in reversed(range(first, len(w.events))):
        if w.events[k].frame is not frame:
            continue
        if ended:
            del w.events[k]
            continue
        w.events[k] = replace(w.events[k], frame=outer)
        if outer is None:
            _check_kept(w, w.events[k], w.events[:k])


def _holds_copies(val: Val) -> bool:
    """Whether a value may be a copy of an array's elements, or have one in it."""
    return any(map(_holds_copies, val.children())) if val.is_tensor or isinstance(val, TupleVal) else not val.is_own


def _holds_lists(val: Val) -> bool:
    """Whether a value may have lists, dicts or objects in it to which something can be added."""
    if val.is_tensor or isinstance(val, TupleVal):
        return any(map(_holds_lists, val.children()))
    return not (val.immutable or val.is_input or val.numeric)


def _apart(a: Event, b: Event, events: Sequence[Event]) -> bool:
    """Whether two events certainly are of two arrays: the walk has met the making of each, apart from the other."""
    if a.parts is b.parts:
        return False
    made = [e.parts for e in events if e.kind == "made"]
    return all(any(e.parts is parts for parts in made) for e in (a, b))


def _comes_again(written: Event, kept: Event, events: Sequence[Event]) -> bool:
    """Whether the next iteration of a loop may write into the array that was read in this one."""
    if _apart(written, kept, events):
        return False
    for loop in written.loops:
        if loop not in kept.loops:
            continue
        made = (e.parts for e in events if e.kind == "made" and loop in e.loops)
        if not any(parts is written.parts and parts is kept.parts for parts in made):
            return True
    return False


def _reject_kept(w: Walker, kept: Event, written: Event) -> None:
    count_indices(w, kept.place)
    if kept.whole:
        w.pass_itself([kept.place])
    seen = f"line {written.loc.line} writes into an array of which line {kept.loc.line} keeps what was read"
    raise w.reject("ACR112", kept.loc, seen=seen, rewrite="add .copy() to what is kept")


# ---- results


def present(w: Walker, val: Val) -> Val:
    """Return a value with each array that is written to replaced by its current elements.

    Lists, dicts and objects keep the arrays themselves, which are read after the call (`ir.written`).
    """
    parts = val.result_parts()
    read = [present(w, v) for v in parts]
    return w.whole(val) if all(a is b for a, b in zip(read, parts, strict=True)) else val.with_children(read)
