"""Compile-time values that contain others: a function its defaults, a method its object, a range its bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from acronumba.frontend.values import (
    Bound,
    Columns,
    Enumerate,
    Func,
    Kept,
    MapView,
    Method,
    NonlocalCell,
    Partial,
    Range,
    Reversed,
    SliceVal,
    Stream,
    Val,
    Zip,
)


def held(val: Val) -> tuple[Val, ...]:
    """Return the values contained in a compile-time value: the defaults of a function, the object of a method."""
    match val:
        case Func():
            return (*val.defaults, *val.kw_defaults.values())
        case Bound():
            return (val.self,)
        case Method():
            return (val.owner,)
        case Range() | SliceVal():
            return (val.start, val.stop, val.step)
        case Zip():
            return val.parts
        case Enumerate():
            return (val.inner, val.start)
        case Columns():
            return (val.rows,)
        case Reversed() | Stream() | NonlocalCell():
            return (val.inner,)
        case Partial():
            return (val.func, *val.args, *val.named)
        case Kept():
            return (val.inner, *val.extra)
        case MapView():
            return (val.base,)
    return ()


def holding(val: Val, items: Sequence[Val]) -> Val:
    """Return a compile-time value with the values it contains, `held(val)`, replaced by `items`."""
    match val:
        case Func():
            n = len(val.defaults)
            kw = dict(zip(val.kw_defaults, items[n:], strict=True))
            return replace(val, defaults=tuple(items[:n]), kw_defaults=kw)
        case Bound():
            return Bound(val.func, *items)
        case Method():
            return Method(items[0], val.name)
        case Range():
            return Range(*items)  # type: ignore[arg-type]
        case SliceVal():
            return SliceVal(*items)
        case Zip():
            return Zip(tuple(items), val.strict)
        case Enumerate():
            return Enumerate(*items)  # type: ignore[arg-type]
        case Reversed():
            return Reversed(*items)
        case Stream():
            return Stream(items[0], val.depth)
        case NonlocalCell():
            return NonlocalCell(items[0])  # type: ignore[arg-type]
        case Columns():
            return Columns(items[0])  # type: ignore[arg-type]
        case Partial():
            n = 1 + len(val.args)
            return Partial(items[0], tuple(items[1:n]), val.names, tuple(items[n:]))
        case Kept():
            return Kept(val.kind, items[0], tuple(items[1:]))  # type: ignore[arg-type]
        case MapView():
            return MapView(items[0], val.what)  # type: ignore[arg-type]
    return val
