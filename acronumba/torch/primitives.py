"""Primitives of the rows: sizes and axes as PyTorch's functions take them, checked indices, rows put in places."""

from __future__ import annotations

from typing import Any

import numpy as np

from acronumba.frontend.arrays import elements, times, view
from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.objects import is_tuple
from acronumba.frontend.calls.of_shapes import copied
from acronumba.frontend.calls.of_views import reshaped_view
from acronumba.frontend.chosen import _put_rows
from acronumba.frontend.conditions import host_value
from acronumba.frontend.kinds.arrays import ArrayRef, Tensor
from acronumba.frontend.kinds.functions import Static
from acronumba.frontend.kinds.numbers import NoneVal, Num, number
from acronumba.frontend.kinds.torch_tensors import TorchTensor
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import NOT_CONST, Val
from acronumba.frontend.library.decorators import primitive
from acronumba.frontend.subscripts import WHOLE
from acronumba.frontend.torch_math import note_turned
from acronumba.frontend.walker import Walker
from acronumba.ir.types import BOOL


def _sizes(w: Walker, a: Args) -> Val:
    given = w.items_of(a["sizes"]) or ()
    if len(given) == 1 and (given[0].is_list or is_tuple(given[0])):
        found = w.items_of(given[0])
        if found is None:
            raise w.reject("ACR403", seen="sizes in a list whose length is known only at run time")
        given = found
    return TupleVal(tuple(_size(w, v) for v in given))


def _size(w: Walker, val: Val) -> Num:
    if isinstance(val, Static):
        raise w.reject("ACR202", seen=f"{w.describe(val)} as a size", rewrite="x.to(dtype)")
    return host_value(w, val.inner if isinstance(val, TorchTensor) else val, "a size", index=True)


@primitive(rule=_sizes, rank0="any", whole=True)
def sizes(sizes: Any) -> Any:
    """Return the arguments of a `*` parameter, or the one tuple or list among them, as a tuple of ints."""
    given = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], tuple | list) else sizes
    return tuple(map(int, given))


def _is_view(ref: ArrayRef) -> bool:
    """Whether an array of another shape is a view; else it is a copy, until a write or a name asks for a view."""
    place = ref.place.find()
    place.reshaped = True
    return place.seen_through


def _reshaped(w: Walker, a: Args) -> Val:
    shape = w.items_of(a["shape"]) or ()
    if isinstance(a["x"], ArrayRef):
        found = reshaped_view(w, a["x"], [n for n in shape if isinstance(n, Num)])
        if found is not None and _is_view(a["x"]):
            return found
    return w.call(w.constant(np.reshape), (a["x"], a["shape"]), {})


@primitive(rule=_reshaped, rank0="any", whole=True)
def reshaped(x: Any, shape: Any) -> Any:
    """Return an array of another shape, a tuple of ints: of one that is written to, a view if there is one."""
    return np.reshape(x, shape)


def _reshaped_or_copied(w: Walker, a: Args) -> Val:
    x = a["x"]
    if not (isinstance(x, ArrayRef) and _may_be_turned(w, x)):
        return _reshaped(w, a)
    out = w.call(w.constant(np.reshape), (elements(w, x), a["shape"]), {})
    return Tensor(out.type, out.ref, out.dims, aliased=True, read_from=x) if isinstance(out, Tensor) else out


@primitive(rule=_reshaped_or_copied, rank0="any", whole=True)
def reshaped_or_copied(x: Any, shape: Any) -> Any:
    """Return an array of another shape: of one that is written to a view, or what may be a view or a copy."""
    return np.reshape(x, shape)


def _may_be_turned(w: Walker, x: ArrayRef) -> bool:
    """Whether PyTorch may keep the elements of an array that was made in the call in another order of its axes."""
    place = x.place.find()
    return w.facts.turned and place.copied and place.kind[1] > 1


def _turning(w: Walker, a: Args) -> Val:
    x = a["x"]
    assert isinstance(x, Tensor | ArrayRef)
    note_turned(w, x.type.rank)
    return x


@primitive(rule=_turning, rank0="any", whole=True)
def turning(x: Any) -> Any:
    """Return an array whose axes are about to be exchanged."""
    return x


def _contiguous(w: Walker, a: Args) -> Val:
    x = a["x"]
    if isinstance(x, Tensor) and x.repeated:
        return copied(w, x)
    if not isinstance(x, ArrayRef):
        return x
    if _may_be_turned(w, x):
        return elements(w, x)
    packed = w.known(_is_packed(w, x))
    if packed is NOT_CONST:
        return elements(w, x)  # a copy or not, as run time knows: neither may be written to
    return x if packed else w.call(w.constant(np.copy), (x,), {})


def _is_packed(w: Walker, x: ArrayRef) -> Num:
    """Whether the elements of a view are in the order of the rows of a new array, without gaps."""
    outer, size = x.place.find().apart, number(1)
    if outer != frozenset(range(len(outer))):
        return Num(BOOL, var=w.var("", BOOL))  # unknown
    steps: list[Num] = []  # from one index of an axis of a part to the next, in elements
    for c in reversed(x.cuts):
        steps.insert(0, times(w, size, number(c.step)))
        size = times(w, size, w.extent(c.extent))
    packed, expected = number(True), number(1)
    for axis in reversed(x.axes):
        step, n = expected, w.extent(axis.extent)
        if axis.stride is not None:
            step = times(w, axis.stride, size)
        elif axis.cut >= 0:
            step = steps[axis.cut]
        fits = w.either(w.scalar("eq", n, number(1)), w.scalar("eq", step, expected))
        packed, expected = w.scalar("both", packed, fits), times(w, expected, n)
    return packed


@primitive(rule=_contiguous, rank0="any", whole=True)
def as_contiguous(x: Any) -> Any:
    """Return an array whose elements are in order: of one that is written to, itself or a copy."""
    return np.ascontiguousarray(x)


def _seen_in(w: Walker, a: Args) -> Val:
    found, x = a.tensor("found"), a["x"]
    if isinstance(x, ArrayRef):
        out = Tensor(found.type, found.ref, found.dims, aliased=True, read_from=x)
    else:
        assert isinstance(x, Tensor)
        out = Tensor(found.type, found.ref, found.dims, aliased=True, base=x)
    before = (*(1 for _ in range(out.type.rank - len(x.dims))), *x.dims)
    out.repeated = any(n == 1 and isinstance(m, int) and m > 1 for n, m in zip(before, out.dims, strict=False))
    return out


@primitive(rule=_seen_in, rank0="any", whole=True)
def seen_in(found: Any, x: Any) -> Any:
    """Return elements of an array that are a view of it in PyTorch, and a copy here: neither may be written to."""
    return found


def _without_made(w: Walker, a: Args) -> Val:
    out = w.call(w.constant(np.squeeze), (a["x"], a["axis"]), {})
    return Tensor(out.type, out.ref, out.dims, fresh=True, array0=out.array0) if isinstance(out, Tensor) else out


@primitive(rule=_without_made, rank0="array", whole=True)
def without_made_axis(x: Any, axis: Any) -> Any:
    """Return an array that a row has made, and does not use again, without an axis of extent 1: no view."""
    return np.squeeze(x, axis)


def _without(w: Walker, a: Args) -> Val:
    x, axis = a["x"], a.whole("axis")
    if isinstance(x, ArrayRef) and _is_view(x):
        return view(w, x, [number(0) if k == axis else WHOLE for k in range(x.type.rank)])
    return w.call(w.constant(np.squeeze), (x, a["axis"]), {})


@primitive(rule=_without, rank0="any", whole=True)
def without_axis(x: Any, axis: Any) -> Any:
    """Return the view of an array without an axis, of which the extent is 1."""
    return np.squeeze(x, axis)


def _axis(w: Walker, a: Args) -> Val:
    return number(w.ops.axes_of(a.whole("dim"), max(a.whole("rank"), 1))[0])


@primitive(rule=_axis, rank0="any")
def axis_of(dim: Any, rank: Any) -> Any:
    """Return a dimension counted from the front; one that does not exist is rejected."""
    raise NotImplementedError(dim, rank)


def _number_in(w: Walker, a: Args) -> Val:
    x = a["x"]
    return x.known if isinstance(x, Tensor) and x.known is not None else NoneVal()


@primitive(rule=_number_in, rank0="any")
def number_in(x: Any) -> Any:
    """Return the int that an array with one element was made of; None if it is not known without a wait."""
    raise NotImplementedError(x)


def _known(w: Walker, a: Args) -> Val:
    return number(w.known(a["n"]) is not NOT_CONST if isinstance(a["n"], Num) else False)


@primitive(rule=_known, rank0="any")
def is_known(n: Any) -> Any:
    """Whether a number is known when the model is compiled."""
    raise NotImplementedError(n)


def _refused(w: Walker, a: Args) -> Val:
    rejection = w.reject("ACR301", seen=a.static("what"), rewrite=a.static("instead"))
    raise w.fails("RuntimeError", rejection)


@primitive(rule=_refused)
def refused(what: Any, instead: Any) -> Any:
    """Let the instance fail: PyTorch raises an error for these arguments, too, whatever their elements are."""
    raise NotImplementedError(what, instead)


def _lacks(w: Walker, a: Args) -> Val:
    val, name = a["x"], a.static("name")
    cls = val.python_class
    rejection = w.reject("ACR301", seen=f"{w.describe(val)} as {a.static('what')}", rewrite=a.static("instead"))
    raise w.fails("AttributeError", rejection, f"'{cls.__name__}' object has no attribute '{name}'")


@primitive(rule=_lacks, rank0="any", whole=True)
def lacks(x: Any, name: Any, what: Any, instead: Any) -> Any:
    """Let the instance fail: PyTorch reads an attribute of a value that is no tensor."""
    raise NotImplementedError(x, name, what, instead)


def _decides_rank(w: Walker, a: Args) -> Val:
    n = a["n"]
    if w.facts.one_rank or not isinstance(n, Num) or w.known(n) is not NOT_CONST:
        return number(False)
    w.facts.several_ranks = True
    return number(True)


@primitive(rule=_decides_rank, rank0="any")
def decides_rank(n: Any) -> Any:
    """Whether a size is known only at run time, and may decide there of which rank a tensor is."""
    raise NotImplementedError(n)


def _rank_unknown(w: Walker, a: Args) -> Val:
    if not isinstance(a["x"], ArrayRef):
        return NoneVal()
    seen = "squeeze, by a size that only run time knows, of a tensor that is written to"
    raise w.reject("ACR403", seen=seen, rewrite="x[0] where the size is 1, or x.clone().squeeze(...)")


@primitive(rule=_rank_unknown, rank0="any", whole=True)
def rank_unknown(x: Any) -> None:
    """Reject an array that is written to, of which a size that only run time knows would decide the rank."""


def _each(w: Walker, a: Args) -> Val:
    return TupleVal(tuple(number(k) for k in range(a.whole("n"))))


@primitive(rule=_each, rank0="any")
def each(n: Any) -> Any:
    """Return the numbers below a constant as a tuple: a loop over it is written out."""
    raise NotImplementedError(n)


def _same(w: Walker, a: Args) -> Val:
    x, y = w.static(a["n"]), w.static(a["m"])
    return number(a["n"].same(a["m"]) if NOT_CONST in (x, y) else x == y)


@primitive(rule=_same, rank0="any")
def is_same(n: Any, m: Any) -> Any:
    """Whether two numbers are certainly equal: known when the model is compiled."""
    raise NotImplementedError(n, m)


def _inside(w: Walker, a: Args) -> Val:
    index, n = a.tensor("index"), a["n"]
    assert isinstance(n, Num)
    index = w.ops.cast(index, "int64")
    low = w.ops.ufunc("lt", (index, number(0)))
    index = w.ops.element("where", [low, w.ops.from_number(n, "int64"), index], "int64")
    return w.ops.checked(index, w.as_extent(n), a.whole("axis"))


@primitive(rule=_inside, rank0="array")
def inside(index: Any, n: Any, axis: Any) -> Any:
    """Return an array of ints, of which each must be at least 0 and below `n`: else the instance fails."""
    raise NotImplementedError(index, n, axis)


def _with_rows(w: Walker, a: Args) -> Val:
    return _put_rows(w, a.tensor("x"), a.tensor("at"), a.tensor("rows"))


@primitive(rule=_with_rows)
def with_rows(x: Any, at: Any, rows: Any) -> Any:
    """Return an array with rows at checked positions replaced; of equal positions the last counts."""
    raise NotImplementedError(x, at, rows)


def _of_one_dtype(w: Walker, a: Args) -> Val:
    dtypes = {v.type.dtype for v in map(_inner, a.rest) if isinstance(v, Tensor | ArrayRef)}
    if len(dtypes) > 1:
        seen = f"{' and '.join(sorted(dtypes))} tensors together"
        raise w.fails("RuntimeError", w.reject("ACR301", seen=seen, rewrite="x.to(dtype)"))
    return NoneVal()


def _inner(val: Val) -> Val:
    return val.inner if isinstance(val, TorchTensor) else val


@primitive(rule=_of_one_dtype, rank0="any", whole=True)
def of_one_dtype(*arrays: Any) -> None:
    """Let the instance fail if arrays are of several dtypes, for functions that do not promote; None is left out."""
