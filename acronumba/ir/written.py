"""Elements of result arrays that the model has written to, read when the call is over."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from acronumba.ir.types import ArrayT


def elements(t: ArrayT, numbers: Sequence[int], part: Callable[[int], Any]) -> Any:
    """Return the array described by the numbers of an `ArrayT`, see `ArrayForm`.

    Parameters
    ----------
    t
        The type of the array.
    numbers
        Its words behind the list of its parts.
    part
        Returns a part, by its index in that list.
    """
    rest = iter(numbers)
    offset = next(rest)
    extents: list[int] = []
    listed: list[tuple[int, int, int]] = []  # the axes along the list: their number, extent and stride
    inside: list[tuple[int, int]] = []  # the axes inside of a part: which of the part, and their number
    for axis, (apart, cut, _) in enumerate(t.form.axes):
        extents.append(next(rest))
        if apart:
            listed.append((axis, extents[axis], next(rest)))
        elif cut >= 0:
            inside.append((cut, axis))
    where: list[Any] = []
    for index, step, whole in t.form.cuts:
        _, start = next(rest), next(rest)
        count = None if whole else next(rest)
        where.append(next(rest) if index else slice(None) if count is None else _slice(start, step, count))
    inside.sort()
    turns = itertools.product(*(range(n) for _, n, _ in listed))
    strides = [stride for _, _, stride in listed]
    parts = [part(offset + sum(k * n for k, n in zip(turn, strides, strict=True)))[tuple(where)] for turn in turns]
    if listed:
        shape = [*(n for _, n, _ in listed), *(extents[axis] for _, axis in inside)]
        out = (np.stack(parts) if parts else np.empty(0, t.item.dtype)).reshape(shape)
    else:
        out = np.asarray(parts[0])
    order = [axis for axis, _, _ in listed] + [axis for _, axis in inside]
    return out.transpose([order.index(axis) for axis in sorted(order)]).reshape(extents)


def _slice(start: int, step: int, count: int) -> slice:
    """Return the slice of so many elements."""
    stop = start + step * count
    return slice(start, None if stop < 0 else stop, step) if count else slice(0, 0)
