"""Batches: nodes of one level and key, in the order in which they were recorded.

In: the level of each node. Out: `order` (nodes in order of execution; within a batch, in order of recording, and so of
instances), `args`, and the start and the key of each batch.
"""

from __future__ import annotations

from acronumba.emit.language import fill_bytes, i64, ld, ld32, lds, st, st32

from acronumba.runtime.library.words import (  # isort: skip
    ARGS, BATCHES, BFIRST, BKEY, BLEVEL, BSTART, COUNTS, GROUPS, KEY, KEYS, LEVEL, LEVELS, LFIRST, MIXED, N, ORDER,
    ROW, SPARE, TALLY,
)  # fmt: skip


def count_levels(ST: i64) -> None:
    """Count the nodes of each level."""
    level, counts = lds(ST, LEVEL, COUNTS)
    fill_bytes(counts, 0, 4 * (ld(ST, LEVELS) + 1))
    for v in range(ld(ST, N)):
        l = ld32(level, v)
        st32(counts, l, ld32(counts, l) + 1)


def sort_level(ST: i64, low: i64, high: i64) -> None:
    """Sort positions low..high, all of one level, by key, stably."""
    order, key = lds(ST, ORDER, KEY)
    if high - low < 24:
        for i in range(low + 1, high):
            v = ld32(order, i)
            k = ld32(key, v)
            j = i
            more = 1
            while more != 0:
                more = 0
                if j > low:
                    u = ld32(order, j - 1)
                    if ld32(key, u) > k:
                        st32(order, j, u)
                        j = j - 1
                        more = 1
            st32(order, j, v)
    else:
        spare, tally = lds(ST, SPARE, TALLY)
        for i in range(low, high):
            v = ld32(order, i)
            st32(spare, i, v)
            k = ld32(key, v)
            st32(tally, k, ld32(tally, k) + 1)
        at = low
        for k in range(ld(ST, KEYS)):
            count = ld32(tally, k)
            st32(tally, k, at)
            at = at + count
        for i in range(low, high):
            v = ld32(spare, i)
            k = ld32(key, v)
            j = ld32(tally, k)
            st32(order, j, v)
            st32(tally, k, j + 1)
        fill_bytes(tally, 0, 4 * ld(ST, KEYS))


def make_batches(ST: i64, by_component: i64) -> None:
    """Sort the nodes by (level, key), and cut where either changes; `counts` holds the nodes of each level.

    With `by_component`, the levels are those of the components.
    """
    level, levels, order, counts, row, args = lds(ST, LEVEL, LEVELS, ORDER, COUNTS, ROW, ARGS)
    total = 0
    for l in range(levels):
        c = ld32(counts, l)
        st32(counts, l, total)
        total = total + c
    for v in range(ld(ST, N)):
        l = ld32(level, v)
        i = ld32(counts, l)
        st32(order, i, v)
        st(args, i, ld(row, v))
        st32(counts, l, i + 1)
    batch = 0
    if by_component != 0:
        lfirst, bfirst, mixed = lds(ST, LFIRST, BFIRST, MIXED)
        for c in range(ld(ST, GROUPS)):
            st32(bfirst, c, batch)
            batch = cut(ST, batch, ld32(lfirst, c), ld32(lfirst, c + 1), ld32(mixed, c))
        st32(bfirst, ld(ST, GROUPS), batch)
    else:
        batch = cut(ST, 0, 0, levels, 1)
    st32(ld(ST, BSTART), batch, ld(ST, N))
    st(ST, BATCHES, batch)


def cut(ST: i64, batch: i64, begin: i64, end: i64, mixed: i64) -> i64:
    """Make batches of levels begin..end, numbered from `batch`; with `mixed`, a level may hold several keys."""
    key, order, counts, row, args, bstart, bkey = lds(ST, KEY, ORDER, COUNTS, ROW, ARGS, BSTART, BKEY)
    blevel = ld(ST, BLEVEL)
    low = 0
    if begin > 0:
        low = ld32(counts, begin - 1)
    for l in range(begin, end):
        high = ld32(counts, l)
        if low < high:
            k = ld32(key, ld32(order, low))
            several = 0
            if mixed != 0:
                for i in range(low, high):
                    several = several | (ld32(key, ld32(order, i)) ^ k)
            if several == 0:
                st32(bstart, batch, low)
                st32(bkey, batch, k)
                st32(blevel, batch, l)
                batch = batch + 1
            else:
                sort_level(ST, low, high)
                k = -1
                for i in range(low, high):
                    v = ld32(order, i)
                    st(args, i, ld(row, v))
                    if ld32(key, v) != k:
                        k = ld32(key, v)
                        st32(bstart, batch, i)
                        st32(bkey, batch, k)
                        st32(blevel, batch, l)
                        batch = batch + 1
        low = high
    return batch
