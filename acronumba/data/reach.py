"""Reachability in a heap: the part that some instances of a pack reach, so that a slice can be pickled alone.

In: a heap, and addresses in it. Out: a smaller heap, the map from old to new addresses, and the rows that it keeps. The
walk is breadth-first over whole columns: one round for each level of depth.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from acronumba.data.heap import Heap, Move, Pool, Region, aligned
from acronumba.data.texts import HEAD
from acronumba.data.words import LIST, RECORD
from acronumba.memory import Words, native
from acronumba.records import record

MOST_ROUNDS = 10_000  # beyond which a walk takes longer than to send everything


@record(kw_only=True)
class Reached:
    """A part of a heap."""

    heap: Heap
    move: Move  # maps addresses of the whole heap to addresses of the part
    rows: Mapping[Region, Words]  # by region of the part: row numbers of its objects and lists in the whole heap


def reached(heap: Heap, addresses: Words) -> Reached | None:
    """Return the part of a heap that is reachable from addresses; None if it is deeper than `MOST_ROUNDS`."""
    walk = _Walk(heap)
    for _ in range(MOST_ROUNDS):
        if not len(addresses):
            return walk.part()
        addresses = walk.round(addresses)
    return None


def _ranges(starts: Words, lengths: Words) -> Words:
    """Return the concatenated ranges `start .. start + length`."""
    ends = lengths.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    out: Words = np.arange(total) + (starts - ends + lengths).repeat(native(lengths))
    return out


class _Walk:
    """The visited pieces of a heap, by region: each is a range of words, known by the first one."""

    def __init__(self, heap: Heap) -> None:
        self._heap = heap
        self._regions = sorted((r for r in heap.regions if r.size), key=lambda r: r.start)
        self._first = np.array([r.start for r in self._regions], np.int64)
        self._seen = {r: np.zeros(r.size, np.bool_) for r in self._regions}  # untouched memory is not allocated
        self._starts: dict[Region, list[Words]] = {r: [] for r in self._regions}
        self._lengths: dict[Region, list[Words]] = {r: [] for r in self._regions}

    def round(self, addresses: Words) -> Words:
        """Mark the pieces at some addresses; return the addresses inside the pieces that are new."""
        at = np.unique(addresses[addresses > 0] - self._heap.base) // 8
        of = np.searchsorted(self._first, at, "right") - 1
        found = [self._visit(self._regions[k], at[of == k]) for k in np.unique(of).tolist()]
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def _visit(self, region: Region, at: Words) -> Words:
        """Mark pieces of a region by their first words; return the addresses inside the new ones."""
        seen = self._seen[region]
        at = at[~seen[at - region.start]]
        seen[at - region.start] = True
        words = self._heap.words
        if region.kind in ("texts", "tables"):
            self._keep(region, at, words[at] + (HEAD if region.kind == "texts" else 2))
        else:
            self._keep(region, at, np.full(len(at), region.width))
        if region.kind == "heads":
            return self._lists(region, at)
        # Records refer to extents alone: these are few, and always kept.
        return self._references(region, at if region.kind != "records" else at[:0])

    def _lists(self, region: Region, heads: Words) -> Words:
        """Mark the elements of lists and dicts; return the addresses inside them, and those of hash tables."""
        words = self._heap.words
        full = heads[words[heads + LIST.at["length"]] > 0]
        starts = (words[full + LIST.at["items"]] - self._heap.base) // 8
        inner = [words[heads + column] for column in region.refs if column != LIST.at["items"]]
        of = np.searchsorted(self._first, starts, "right") - 1
        for k in np.unique(of).tolist():
            items = self._regions[k]
            if items.kind != "items":  # elements without words
                continue
            mine = of == k
            counts = words[full[mine] + LIST.at["length"]]
            self._keep(items, starts[mine], counts * items.width)
            inner.append(self._references(items, _ranges(starts[mine], counts * items.width)[:: items.width]))
        return np.concatenate([np.zeros(0, np.int64), *inner])

    def _references(self, region: Region, rows: Words) -> Words:
        found = [self._heap.words[rows + column] for column in region.refs]
        return np.concatenate([np.zeros(0, np.int64), *found])

    def _keep(self, region: Region, starts: Words, lengths: Words) -> None:
        self._starts[region].append(starts)
        self._lengths[region].append(lengths)

    def part(self) -> Reached:
        """Return the heap of all that was found."""
        heap, none = self._heap, np.zeros(0, np.int64)
        regions: list[Region] = []
        olds, news, sizes = [none], [none], [none]  # of the pieces: first words in the old and in the new heap, lengths
        rows: dict[Region, Words] = {}
        size = 0
        for region in heap.regions:
            starts = np.concatenate([none, *self._starts.get(region, ())])
            lengths = np.concatenate([none, *self._lengths.get(region, ())])
            if region.kind == "extents":
                starts, lengths = np.array([region.start]), np.array([region.size])
            order = np.argsort(starts)
            starts, lengths = starts[order], lengths[order]
            total = int(lengths.sum())
            kept = region._replace(start=size, rows=total // region.width if region.width else 0)
            regions.append(kept)
            olds.append(starts)
            sizes.append(lengths)
            news.append(size + lengths.cumsum() - lengths)
            if region.kind in ("rows", "heads"):
                rows[kept] = (starts - region.start) // region.width
            size += total
        old, new, length = (np.concatenate(parts) for parts in (olds, news, sizes))
        words = aligned(size, np.int64)
        words[_ranges(new, length)] = heap.words[_ranges(old, length)]
        pools, moves = self._pools(regions, words)
        out = Heap(words=words, regions=tuple(regions), pools=pools)
        move = _mover(heap.base + 8 * old, out.base + 8 * new)
        for region in regions:
            table = out.table(region)
            for column in (RECORD.at["shape"],) if region.kind == "records" else region.refs:
                table[:, column] = move(table[:, column])
            if region.kind == "records":
                table[:, RECORD.at["data"]] = moves[region]
        return Reached(heap=out, move=move, rows=rows)

    def _pools(self, regions: list[Region], words: Words) -> tuple[dict[str, Pool], dict[Region, Words]]:
        """Return the data of the visited arrays, and the offset of each, by the region of their records."""
        pools: dict[str, Pool] = {}
        moves: dict[Region, Words] = {}
        for region, kept in zip(self._heap.regions, regions, strict=True):
            if region.kind != "records":
                continue
            pool = self._heap.pools[region.dtype]
            at, base = self._heap.table(region)[:, RECORD.at["data"]], pool.ctypes.data
            found = np.concatenate([np.zeros(0, np.int64), *self._starts.get(region, ())])
            number = (np.sort(found) - region.start) // region.width
            # Records are in the order of their data, so that each array ends at the start of the next one.
            ends = np.where(number + 1 < region.rows, at[np.minimum(number + 1, region.rows - 1)], base + pool.nbytes)
            begin = (at[number] - base) // pool.itemsize
            counts = (ends - base) // pool.itemsize - begin
            data = aligned(int(counts.sum()), pool.dtype)
            data[:] = pool[_ranges(begin, counts)]
            pools[region.dtype] = data
            moves[kept] = data.ctypes.data + pool.itemsize * (counts.cumsum() - counts)
        return pools, moves


def _mover(old: Words, new: Words) -> Move:
    """Return the function that maps addresses of pieces to those of their copies.

    Addresses that are not positive stay as they are. With no pieces at all every other address becomes 0: the lists are
    empty, and their item addresses are never read.
    """
    order = np.argsort(old, kind="stable")
    old, new = old[order], new[order]

    def move(addresses: Words) -> Words:
        if not len(old):
            return np.minimum(addresses, 0)
        k = np.maximum(np.searchsorted(old, addresses, "right") - 1, 0)
        return np.where(addresses <= 0, addresses, new[k] + addresses - old[k])

    return move
