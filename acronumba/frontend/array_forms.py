"""Arrays that are written to, rebuilt in the form of another: from other numbers, or from the words of a type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from acronumba.frontend.kinds.arrays import ArrayRef
from acronumba.frontend.kinds.lists import ListVal
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.value import Val
from acronumba.ir import nodes as ir
from acronumba.ir.types import INT, ArrayT, TensorT


def array_of_numbers(ref: ArrayRef, vals: Sequence[Val]) -> ArrayRef:
    """Return an array of the form of `ref`, with its parts, offset, extents, strides and cuts taken from `vals`."""
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
    """Return `new()` if `old` is not None, else None."""
    return None if old is None else new()


def array_of_words(ref: ArrayRef, t: ArrayT, vars: Sequence[ir.Var]) -> ArrayRef:
    """Return an array of the form of `ref`, read from the words of a type; constant extents stay constant."""
    nums: list[Val] = [ListVal(ref.parts.cell, vars[0]), *(Num(INT, var=v) for v in vars[1:])]
    at = 2
    for a, n in zip(ref.axes, t.seen.shape, strict=True):
        nums[at] = nums[at] if n is None else number(n)
        at += 1 if a.stride is None else 2
    for c, n in zip(ref.cuts, t.item.shape, strict=True):
        nums[at] = nums[at] if n is None else number(n)
        at += 2 + (c.count is not None) + (c.index is not None)
    return array_of_numbers(ref, nums)
