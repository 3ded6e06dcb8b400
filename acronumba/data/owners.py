"""Objects that several instances of a mini-batch contain.

In: a packed mini-batch, and classes. Out: the instances that reach an object of these classes that another one reaches,
too. The walk is breadth-first over whole columns, as in `data.reach`, with the instance from which each piece was
reached first.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from acronumba.data.heap import Heap, Region, reference_columns
from acronumba.data.words import LIST
from acronumba.ir.types import words
from acronumba.memory import Words

if TYPE_CHECKING:
    from acronumba.data.pack import Batch

NOBODY, SEVERAL = -1, -2  # instead of the number of an instance


def sharing(batch: Batch, classes: Collection[type]) -> list[int]:
    """Return the numbers of the instances that contain an object of some classes that another one contains."""
    heaps = [heap for heap in batch.heaps if any(r.rows and r.cls in classes for r in heap.regions)]
    if len(heaps) > 1:  # the same object may be in two of them
        return list(range(len(batch)))
    if not heaps or heaps[0].distinct or len(batch) < 2:
        return []
    (heap,) = heaps
    types = [w for t in batch.schema.params for w in words(t)]
    roots = batch.roots[:, list(reference_columns(types))]
    count, width = roots.shape
    owner = _owners(heap, roots.ravel(), np.repeat(np.arange(count), width))
    many = np.concatenate([_starts(r)[owner[_starts(r)] == SEVERAL] for r in heap.regions if r.cls in classes])
    if not len(many):
        return []
    return [k for k in range(count) if (_owners(heap, roots[k], np.full(width, k))[many] != NOBODY).any()]


def _starts(region: Region) -> Words:
    """Return the first words of the rows of a region."""
    return np.arange(region.start, region.start + region.size, region.width)


def _owners(heap: Heap, addresses: Words, instances: Words) -> Words:
    """Return for the first word of each piece of a heap the instance that reaches it, `SEVERAL` or `NOBODY`."""
    regions = sorted((r for r in heap.regions if r.size), key=lambda r: r.start)
    first = np.array([r.start for r in regions], np.int64)
    owner = np.full(len(heap.words), NOBODY, np.int64)
    while len(addresses):
        inside = (addresses >= heap.base) & (addresses < heap.base + heap.words.nbytes)
        if not inside.any():
            break
        at, by = (addresses[inside] - heap.base) // 8, instances[inside]
        order = np.lexsort((by, at))
        at, by = at[order], by[order]
        starts = np.flatnonzero(np.diff(at, prepend=-1))
        lasts = np.append(starts[1:], len(at)) - 1
        at, new = at[starts], np.where(by[starts] == by[lasts], by[starts], SEVERAL)
        old = owner[at]
        new = np.where((old == NOBODY) | (old == new), new, SEVERAL)
        changed = new != old
        at, new = at[changed], new[changed]
        owner[at] = new
        of = np.searchsorted(first, at, "right") - 1
        inner = [_inside(heap, regions, first, regions[k], at[of == k], new[of == k]) for k in np.unique(of).tolist()]
        addresses = np.concatenate([np.zeros(0, np.int64), *(a for pairs in inner for a, _ in pairs)])
        instances = np.concatenate([np.zeros(0, np.int64), *(by for pairs in inner for _, by in pairs)])
    return owner


def _inside(
    heap: Heap, regions: list[Region], first: Words, region: Region, at: Words, by: Words
) -> list[tuple[Words, Words]]:
    """Return the references in some pieces of a region, with the instances of the pieces."""
    table = heap.words
    if region.kind == "rows":
        return [(table[at + column], by) for column in region.refs]
    if region.kind != "heads":
        return []
    lengths = table[at + LIST.at["length"]]
    full = lengths > 0
    starts, lengths, by = (table[at[full]] - heap.base) // 8, lengths[full], by[full]
    out: list[tuple[Words, Words]] = []
    of = np.searchsorted(first, starts, "right") - 1
    for k in np.unique(of).tolist():
        items, mine = regions[k], of == k
        if items.kind != "items":
            continue
        counts = lengths[mine]
        ends = counts.cumsum()
        number = np.arange(int(ends[-1])) - (ends - counts).repeat(counts)
        rows = starts[mine].repeat(counts) + number * items.width
        out += [(table[rows + column], by[mine].repeat(counts)) for column in items.refs]
    return out
