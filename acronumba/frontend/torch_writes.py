"""Items of tensors, and writes into tensors: `x[i] = v`, `x += y`, `x.tanh_()`.

A tensor of which no other name sees the elements gets a new value: its name is bound anew. Any other one becomes an
array that is written to (`arrays`), of which names, views and lists see every write; if it came in, the write is
rejected.

An index with arrays is applied in two steps, as PyTorch does: numbers, slices and new axes give a view, of which the
arrays and masks choose elements.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from acronumba.frontend.arrays import is_advanced, view, written_tensor
from acronumba.frontend.assignment import unpack
from acronumba.frontend.calls.objects import is_tuple
from acronumba.frontend.chosen import without_ones
from acronumba.frontend.handlers import AUGMENTED, INDEXED, STORED, UNPACKED, handles
from acronumba.frontend.kinds.arrays import ArrayRef, Tensor
from acronumba.frontend.kinds.functions import Static
from acronumba.frontend.kinds.numbers import NoneVal, Num, number
from acronumba.frontend.kinds.torch_tensors import TorchTensor, as_arrays, as_torch
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.unions import UnionVal
from acronumba.frontend.kinds.value import Index, Val
from acronumba.frontend.names import in_use
from acronumba.frontend.operators import OPERATORS, binary
from acronumba.frontend.subscripts import WHOLE, index_parts, item_of_axes
from acronumba.frontend.torch_math import array_of, category, detached_at, elements, stopped
from acronumba.frontend.walker import Walker
from acronumba.frontend.writing import assign, each_index, index_places, note_places, store_at
from acronumba.ir import nodes as ir

REST = Static(...)


# ---- items


@handles(INDEXED, TorchTensor)
def item_of(w: Walker, base: TorchTensor, where: Index) -> Val:
    """Return an item, slice or selection: a view, also of one element, unless arrays or masks choose."""
    if isinstance(where, UnionVal):
        return w.each(where, lambda e: item_of(w, base, e))
    return _item(w, base, _index(w, base, where))


def _item(w: Walker, base: TorchTensor, parts: Sequence[Index]) -> Val:
    for k, e in enumerate(parts):
        if not isinstance(e, slice) and e.is_several:
            before, after = parts[:k], parts[k + 1 :]
            return w.each(e, lambda v: _item(w, base, (*before, v, *after)))  # noqa: B023
    basic, later = steps(parts)
    if not later:
        return like(base, item_of_axes(w, base.inner, basic))
    viewed: Val = base.inner
    if any(e not in (WHOLE, REST) for e in basic):
        viewed = item_of_axes(w, base.inner, basic)
    assert isinstance(viewed, Tensor | ArrayRef)
    return as_torch(item_of_axes(w, viewed, later))


def like(x: TorchTensor, view: Val) -> Val:
    """Return a view of the array of a tensor as a tensor."""
    return TorchTensor(view, x.detached) if isinstance(view, ArrayRef) else as_torch(view)


def _index(w: Walker, base: TorchTensor, where: Index) -> tuple[Index, ...]:
    """Return the indices of the leading axes, with arrays in place of tensors."""
    parts = index_parts(w, base.inner, where if isinstance(where, slice) else as_arrays(w, where))
    for e in parts:
        if isinstance(e, slice) and e.step < 0:
            raise w.reject("ACR301", seen=f"a slice with step {e.step} of {w.describe(base)}", rewrite="x.flip(0)")
    return tuple(_as_mask(w, e) for e in parts)


def _as_mask(w: Walker, e: Index) -> Index:
    """Return a tensor of bytes used as an index as the mask that it is; any other index as it is."""
    mask = isinstance(e, Tensor | ArrayRef) and e.type.dtype == "uint8"
    return w.ops.cast(array_of(w, e), "bool") if mask and isinstance(e, Val) else e


def _chooses(e: Index) -> bool:
    """Whether an index is an array, a mask or a list."""
    if isinstance(e, Tensor | ArrayRef):
        return bool(e.type.rank) or e.type.dtype == "bool"
    return not isinstance(e, slice) and (e.is_list or is_tuple(e))


def _axes_of(index: Index) -> int:
    """Return the number of axes that an array chooses of: a mask, of as many as it has."""
    return index.type.rank if isinstance(index, Tensor | ArrayRef) and index.type.dtype == "bool" else 1


def steps(parts: Sequence[Index]) -> tuple[list[Index], list[Index]]:
    """Return the indices that give a view, and then the arrays and masks that choose of it; none if there are none."""
    basic: list[Index] = []
    later: list[Index] = []
    for e in parts:
        if _chooses(e):
            basic += [WHOLE] * _axes_of(e)
            later.append(e)
            continue
        basic.append(e)
        if isinstance(e, slice | NoneVal):
            later.append(WHOLE)
        elif e is REST or (isinstance(e, Static) and e.value is ...):
            later.append(REST)
    if not any(isinstance(e, Static) and e.value is ... for e in basic):
        basic.append(REST)
    return basic, later if any(map(_chooses, parts)) else []


@handles(UNPACKED, TorchTensor)
def _unpacked(w: Walker, val: TorchTensor, count: int) -> Sequence[Val]:
    unclear, w.unclear = w.unclear, True
    try:
        return _items(w, val, count)
    finally:
        w.unclear = unclear


def _items(w: Walker, val: TorchTensor, count: int) -> Sequence[Val]:
    if isinstance(val.inner, Tensor):
        return [as_torch(v) for v in unpack(w, val.inner, count)]
    if val.rank:
        w.ops.same_extent(val.inner.dims[0], count, "values to unpack")
        return [item_of(w, val, number(k)) for k in range(count)]
    raise w.reject("ACR305", seen=f"{w.describe(val)} cannot be unpacked")


# ---- writes


@handles(STORED, TorchTensor)
def store_item(w: Walker, base: TorchTensor, where: Index, val: Val) -> None:
    """`x[i] = v`."""
    if isinstance(base.inner, Tensor):
        written_tensor(w, base.inner, "an assignment")
        return
    parts = _index(w, base, where)
    ref = base.inner
    w.each(val, lambda v: _store(w, ref, parts, v, base.detached))


def _store(w: Walker, ref: ArrayRef, parts: Sequence[Index], val: Val, detached: int) -> Val:
    if each_index(w, parts, lambda at: _ignored(_store(w, ref, at, val, detached))):
        return NoneVal()
    basic, later = steps(parts)
    if later:
        basic = [w.ops.host(e, "an index") if isinstance(e, Tensor) and not e.type.rank else e for e in basic]
    places = index_places(w, ref, basic)
    written = val.written if isinstance(val, TorchTensor) else None
    if not later and written is not None:
        if not is_advanced(ref, places) and written.same(view(w, ref, places)):  # `x[i] += y` has changed it
            return NoneVal()
    v = elements_of(w, val, ref.type.dtype)
    if (detached or not w.following) and ref.type.dtype.startswith("float"):
        old = _item(w, TorchTensor(ref), parts)
        v = unseen(w, array_of(w, old), v, detached) if isinstance(old, TorchTensor) else v
    if later:
        viewed = view(w, ref, places)
        chosen = index_places(w, viewed, later)
        note_places(w, viewed, chosen)
        store_at(w, viewed, later, chosen, v)
        return NoneVal()
    note_places(w, ref, places)
    rank = sum(isinstance(e, slice | None) for e in places)
    store_at(w, ref, basic, places, without_ones(w, v, rank))
    return NoneVal()


def _ignored(val: Val) -> None:
    return None


def elements_of(w: Walker, val: Val, dtype: str) -> Tensor:
    """Return a value that is written into a tensor as elements of its dtype."""
    if isinstance(val, Num):
        x = w.ops.from_number(val, dtype)
    elif val.is_tensor or (isinstance(val, Tensor) and not val.type.rank and val.array0 is None):
        x = w.ops.cast(array_of(w, val), dtype)
    else:
        raise w.reject("ACR301", seen=f"{w.describe(val)} written into a tensor", rewrite="x[i] = torch.tensor(v)")
    return Tensor(x.type, x.ref, x.dims, aliased=True)  # its elements are copied


def change(w: Walker, x: TorchTensor, new: Tensor, what: str) -> TorchTensor:
    """Give a tensor new elements of its shape, in place; return it."""
    old = x.inner
    new = _fitting(w, x, new, what)
    if isinstance(old, ArrayRef):
        places = index_places(w, old, ())
        note_places(w, old, places)
        hidden = x.detached or not w.following
        assign(w, old, unseen(w, elements(w, TorchTensor(old)), new, x.detached) if hidden else new)
        return x
    if not rebindable(w, old):
        written_tensor(w, old, what)
        return x
    return _rebound(w, old, new if w.following else unseen(w, old, new))


def write_into(w: Walker, x: TorchTensor, new: Tensor, what: str) -> TorchTensor:
    """Give a tensor new elements of its dtype, in place; one that no other name sees may get another shape."""
    old = x.inner
    followed = w.following or 0 in old.dims  # no elements, no gradient
    if isinstance(old, Tensor) and rebindable(w, old) and new.type.rank == old.type.rank > 0 and followed:
        return _rebound(w, old, new)
    return change(w, x, new, what)


def unseen(w: Walker, old: Tensor, new: Tensor, detached: int = 0) -> Tensor:
    """Return new elements with the gradient of the old: those of a write through `.data` or under `no_grad()`.

    `detached`: as in a `TorchTensor`, the name that is written through.
    """
    if not new.type.dtype.startswith("float"):
        return new
    finite = w.call(w.constant(np.isfinite), (old,), {})
    zero = w.call(w.constant(np.where), (finite, w.ops.ufunc("sub", (old, stopped(w, old))), number(0)), {})
    assert isinstance(zero, Tensor)
    return w.ops.ufunc("add", (stopped(w, new, -detached if w.following else 0), w.ops.cast(zero, new.type.dtype)))


def stop_made(w: Walker, val: Val, given: Sequence[Val]) -> Val:
    """Stop gradients through the arrays of a result that are written to: those made by a call under `no_grad()`.

    The arguments themselves stay as they are, and views of them are detached.
    """
    if isinstance(val, TupleVal):
        return TupleVal(tuple(stop_made(w, v, given) for v in val.items))
    ref = val.written if isinstance(val, TorchTensor) else None
    if ref is None or not isinstance(val, TorchTensor) or not ref.type.dtype.startswith("float"):
        return val
    known = [v.written for v in given if isinstance(v, TorchTensor) and v.written is not None]
    if any(v.same(ref) for v in known):
        return val
    if any(v.place.find() is ref.place.find() for v in known):
        return TorchTensor(ref, detached_at(w))
    note_places(w, ref, index_places(w, ref, ()))
    assign(w, ref, stopped(w, elements(w, val)))
    return val


def _fitting(w: Walker, x: TorchTensor, new: Tensor, what: str) -> Tensor:
    """Return new elements in the dtype of a tensor; they must have its shape, and no higher category of dtypes."""
    if category(new.type.dtype) > category(x.dtype):
        seen = f"{what} of {w.describe(x)}, with a result of {new.type.dtype}"
        raise w.reject("ACR301", seen=seen, rewrite="x = x + y, or x.float() first")
    if new.type.rank != x.rank:
        seen = f"{what} of {w.describe(x)}, with a result of {new.type.rank} dimensions"
        raise w.reject("ACR401", seen=seen, rewrite="x = x + y")
    for a, b in zip(x.inner.dims, new.dims, strict=True):
        w.ops.same_extent(a, b, "in-place result")
    return w.ops.refine(w.ops.cast(new, x.dtype), x.inner.dims)


def rebindable(w: Walker, x: Tensor) -> bool:
    """Whether nothing but one name sees the elements of an array, so that it can be bound to a new value."""
    if not x.own or isinstance(x.ref, ir.SharedArg) or in_use(w, x):
        return False
    return not (x.named or x.lent) or bool(_keys_of(w, x))


def _keys_of(w: Walker, x: Tensor) -> list[object]:
    """Return the state keys of a tensor."""
    return [key for key, v in w.state.items() if isinstance(v, TorchTensor) and v.inner is x]


def _rebound(w: Walker, old: Tensor, new: Tensor) -> TorchTensor:
    """Bind the name of an array to new elements."""
    ref = w.variable(new)
    made = replace(
        old, ref=ref, type=new.type, dims=new.dims, fresh=True, base=None, filled=None, turned=None, known=None
    )
    out = TorchTensor(made)
    for key in _keys_of(w, old):
        w.state[key] = out
        w.rebound.add(key)
    for frame in w.frames:
        if frame.lent is not None and any(x is old for x, _, _ in frame.lent):
            frame.lent.append((made, False, False))
    return out


def reshape_in_place(w: Walker, x: TorchTensor, new: Val, what: str) -> Val:
    """Give a tensor another shape, in place (`x.unsqueeze_(0)`): its only name is bound to a view of it."""
    old = x.inner
    holders = [key for key, v in w.state.items() if _contains(v, old)]
    alone = len(holders) <= 1 and all(isinstance(w.state[key], TorchTensor) for key in holders)
    if isinstance(old, Tensor):
        alone = alone and old.own and not in_use(w, old)
    else:
        alone = alone and not old.place.find().passed and not any(_contains(v, old) for v in w.parts[: w.before])
    if not alone:
        seen, rewrite = f"{what} of {w.describe(x)}, which may be seen elsewhere", f"x = x{what.removesuffix('_')}(...)"
        raise w.reject("ACR112", seen=seen, rewrite=rewrite)
    if isinstance(old, Tensor) and isinstance(new, TorchTensor) and isinstance(new.inner, Tensor):
        made = new.inner
        made.fresh, made.aliased, made.named, made.lent = True, False, old.named, old.lent  # the other shape is gone
    for key in holders:
        w.state[key] = new
        w.rebound.add(key)
    return new


def _contains(val: Val, x: Tensor | ArrayRef) -> bool:
    return val is x or (isinstance(val, ArrayRef) and val.same(x)) or any(_contains(v, x) for v in val.children())


@handles(AUGMENTED, TorchTensor)
def _augmented(w: Walker, old: TorchTensor, op: ast.operator, value: Val) -> Val:
    """`old op= value`."""
    new = w.whole(binary(w, op, old, value))
    return w.each(new, lambda v: change(w, old, array_of(w, v), f"{OPERATORS[type(op)]}="))
