"""Alias tracking of arrays: which are bound to a name, which are aliased, which allocation sites are unified."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from acronumba.frontend.values import (
    AllocationSite,
    DictVal,
    Kept,
    ListVal,
    MapVal,
    StaticList,
    Tensor,
    TupleVal,
    UnionVal,
    Val,
)  # fmt: skip


def note_named(val: Val) -> None:
    """Note that a value is bound to a name, as are merged values of the state."""
    if isinstance(val, Tensor):
        val.named = True
    if val.compound:
        for v in val.children():
            note_named(v)


def note_shared(val: Val) -> None:
    """Note that the named arrays in a value, and the views, are aliased by it."""
    if isinstance(val, Tensor) and (val.named or (val.base is not None and not val.own)):
        val.seen()
    for v in val.children():
        note_shared(v)


def note_unified(places: Sequence[AllocationSite]) -> AllocationSite:
    """Unify allocation sites of arrays that may be bound to one name; return the representative."""
    first, *rest = dict.fromkeys(p.find() for p in places)
    for other in rest:
        first.written |= other.written
        first.copied |= other.copied
        first.looked_up |= other.looked_up
        first.counted |= other.counted
        first.passed |= other.passed
        first.writes |= other.writes
        other.link = first
    return first


def loosest(vals: list[Val]) -> Val:
    """Return one of several equal values, aliased if any is."""
    for v in vals:
        if isinstance(v, Tensor) and v.aliased:
            return v
    return vals[0]


def within(val: Val, base: ListVal | MapVal) -> Val:
    """Return a value read from a list or dict with a reference to that container, whose item type it may widen."""
    match val:
        case ListVal():
            return replace(val, outer=base, own=val.own or base.cell.pure)
        case Kept(kind=kind, inner=ListVal() as inner) if kind is tuple:
            return replace(val, inner=replace(inner, outer=base, own=inner.own or base.cell.pure))
        case MapVal() | UnionVal():
            return replace(val, outer=base)
        case TupleVal() | DictVal() | StaticList():
            return replace(val, items=tuple(within(v, base) for v in val.items))
    return val


def with_places(val: Val, places: Sequence[AllocationSite]) -> Val:
    """Return a value read from a container with the possible allocation sites of the arrays in it."""
    match val:
        case Tensor() if val.type.rank or val.array0 is not None:
            kind = (val.type.dtype, val.type.rank)
            val.places, val.passed = tuple(p for p in places if p.kind == kind), True
        case TupleVal() | DictVal() | StaticList():
            return replace(val, items=tuple(with_places(v, places) for v in val.items))
        case UnionVal():
            return replace(val, places=tuple(places))
    return val
