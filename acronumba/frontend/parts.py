"""Abstract values compared and taken apart: whether two are the same, the numbers of an array, the cases of a union."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from acronumba.frontend.values import (
    NOT_CONST,
    ArrayRef,
    Bound,
    Choice,
    DictVal,
    Enumerate,
    EnumVal,
    Func,
    Kept,
    ListVal,
    Made,
    MapVal,
    MapView,
    Maybe,
    Method,
    NoneVal,
    Num,
    Partial,
    Range,
    Record,
    Ref,
    Reversed,
    SharedVal,
    Static,
    Stream,
    StrVal,
    Tensor,
    TupleVal,
    UnionVal,
    Val,
    Zip,
    array_form,
    array_numbers,
    held,
    number,
)
from acronumba.ir import nodes as ir
from acronumba.ir.types import (
    INT,
    ArrayT,
    TensorT,
    Type,
    UnionT,
    union_cases,
    words,
)


def array_of_numbers(ref: ArrayRef, vals: Sequence[Val]) -> ArrayRef:
    """Return the array of the form of `ref` that has `vals` for what may differ."""
    rest = iter(vals)

    def extent() -> ir.Extent:
        num = next(rest)
        assert isinstance(num, Num)
        return num.const if num.var is None else num.var

    parts, offset = next(rest), next(rest)
    assert isinstance(parts, ListVal) and isinstance(offset, Num)
    axes = tuple(
        replace(a, extent=extent(), stride=None if a.stride is None else next(rest))  # type: ignore[arg-type]
        for a in ref.axes
    )
    cuts = tuple(
        replace(
            c, extent=extent(), start=extent(), count=_like(c.count, extent), index=_like(c.index, partial(next, rest))
        )
        for c in ref.cuts
    )
    t = TensorT(ref.type.dtype, tuple(a.extent if isinstance(a.extent, int) else None for a in axes))
    return replace(ref, type=t, parts=parts, offset=offset, axes=axes, cuts=cuts, latest=False)


def _like(old: Any, new: Callable[[], Any]) -> Any:
    """Return something new where there was something."""
    return None if old is None else new()


def array_of_words(ref: ArrayRef, t: ArrayT, vars: Sequence[ir.Var]) -> ArrayRef:
    """Return the array of the form of `ref` that lies in the words of a type; constant extents stay constant."""
    nums: list[Val] = [ListVal(ref.parts.cell, vars[0]), *(Num(INT, var=v) for v in vars[1:])]
    at = 2
    for a, n in zip(ref.axes, t.seen.shape, strict=True):
        nums[at] = nums[at] if n is None else number(n)
        at += 1 if a.stride is None else 2
    for c, n in zip(ref.cuts, t.item.shape, strict=True):
        nums[at] = nums[at] if n is None else number(n)
        at += 2 + (c.count is not None) + (c.index is not None)
    return array_of_numbers(ref, nums)


def case_slices(t: UnionT) -> list[tuple[Type, slice]]:
    """Return the cases of a tagged union with the places of their words behind the tag."""
    out, at = [], 1
    for case in union_cases(t):
        width = len(words(case))
        out.append((case, slice(at, at + width)))
        at += width
    return out


# What is the same if it is alike and holds the same.
HOLDERS = (Func, Bound, Method, Range, Zip, Enumerate, Reversed, MapView, Stream, Partial, Kept)


def same(a: Any, b: Any) -> bool:
    """Whether two abstract values are certainly the same value."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    match a:
        case Num():
            if a.const is not NOT_CONST or b.const is not NOT_CONST:
                return type(a.const) is type(b.const) and (a.const == b.const) and repr(a.const) == repr(b.const)
            return a.var is b.var and (a.var is not None or a.shared == b.shared)
        case EnumVal():
            return a.cls is b.cls and a.var is b.var and a.const is b.const
        case NoneVal():
            return True
        case StrVal():
            return bool(a.value == b.value)
        case Tensor():
            kinds = a.array0 is b.array0 or (a.array0 is not None and b.array0 is not None and same(a.array0, b.array0))
            return bool(a.ref == b.ref and a.type == b.type and kinds)
        case ArrayRef():
            return array_form(a) == array_form(b) and all(map(same, array_numbers(a), array_numbers(b)))
        case Ref():
            return a.var is b.var and a.classes == b.classes
        case Made():
            return bool(a.key == b.key)
        case TupleVal():
            return len(a.items) == len(b.items) and all(map(same, a.items, b.items))
        case DictVal():
            return a.keys == b.keys and all(map(same, a.items, b.items))
        case Record():
            return a.cls is b.cls and all(map(same, a.items, b.items))
        case ListVal() | MapVal():
            return a.var is b.var
        case UnionVal():
            return bool(a.vars == b.vars and a.possible == b.possible)
        case SharedVal():
            return bool(a.node.path == b.node.path)
        case Static():
            return a.value is b.value or (
                type(a.value) is type(b.value) and isinstance(a.value, type) is False and _equal(a.value, b.value)
            )
        case _ if isinstance(a, HOLDERS):
            return alike(a, b) and all(map(same, held(a), held(b)))
        case Maybe():
            return same(a.value, b.value) and same(a.bound, b.bound)
        case Choice():
            return len(a.options) == len(b.options) and all(map(same, a.options, b.options)) and same(a.index, b.index)
    return False


def alike(a: Val, b: Val) -> bool:
    """Whether two values are the same but for what they hold."""
    match a, b:
        case (Func(), Func()):
            return a.key == b.key
        case (Bound(), Bound()):
            return alike(a.func, b.func)
        case (Method(), Method()):
            return a.name == b.name
        case (Partial(), Partial()):
            return len(a.args) == len(b.args) and a.names == b.names
        case (Kept(), Kept()):
            return a.kind is b.kind and len(a.extra) == len(b.extra)
        case (MapView(), MapView()):
            return a.what == b.what
        case (Zip(), Zip()):
            return a.strict == b.strict and len(a.parts) == len(b.parts)
        case (Range(), Range()) | (Enumerate(), Enumerate()) | (Reversed(), Reversed()) | (Stream(), Stream()):
            return True
    return same(a, b)


def _equal(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except Exception:  # objects of other people may raise anything when compared
        return False
