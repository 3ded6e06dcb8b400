"""Alias tracking of arrays: which are bound to a name, which are aliased, which allocation sites are unified."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from acronumba.frontend.kinds.arrays import AllocationSite
from acronumba.frontend.kinds.value import Val


def note_named(val: Val) -> None:
    """Note that a value is bound to a name, as are merged values of the state."""
    if val.marked is not None:
        val.marked.named = True
    if val.compound:
        for v in val.children():
            note_named(v)


def note_shared(val: Val) -> None:
    """Note that the named arrays in a value, and the views, are aliased by it."""
    x = val.marked
    if x is not None and (x.named or x.lent or (x.base is not None and not x.own)):
        x.seen()
    for v in val.children():
        note_shared(v)


def note_unified(places: Sequence[AllocationSite]) -> AllocationSite:
    """Unify allocation sites of arrays of one kind that may be bound to one name; return the representative."""
    first, *rest = dict.fromkeys(p.find() for p in places)
    for other in rest:
        first.written |= other.written
        first.copied |= other.copied
        first.looked_up |= other.looked_up
        first.counted |= other.counted
        first.reshaped |= other.reshaped
        first.seen_through |= other.seen_through
        first.passed |= other.passed
        first.writes |= other.writes
        other.link = first
    return first


def by_kind(places: Iterable[AllocationSite]) -> list[list[AllocationSite]]:
    """Return different allocation sites in groups of one kind; views may be of other kinds than their arrays."""
    out: dict[tuple[str, int], list[AllocationSite]] = {}
    for p in dict.fromkeys(p.find() for p in places):
        out.setdefault(p.kind, []).append(p)
    return list(out.values())


def loosest(vals: list[Val]) -> Val:
    """Return one of several equal values, aliased if any is."""
    for v in vals:
        if v.marked is not None and v.marked.aliased:
            return v
    return vals[0]
