"""Partition of a batch, whose nodes take different times, into parts of equal time for threads.

In: nanoseconds before each node. Out: bounds of the parts, in nodes or in units of a stage; a part may begin inside of
a node. If the parts are more than the threads, the first ones are larger: the end of the work is shared out in small
parts.
"""

from __future__ import annotations

from acronumba.emit.language import i64, ld, lds, st
from acronumba.runtime.library.extents import extents_of, plan_node

from acronumba.runtime.library.words import (  # isort: skip
    BLOCK_BYTES, BLOCK_FIRST, BLOCK_LAST, CUTS, FIRSTS, K_COST, K_RESULTS, SIZES, STRIDE, TABLE, THREADS, UNITS_BYTES,
    UNITS_STARTS, UNITS_TIMES,
)  # fmt: skip


def end_of_part(total: i64, k: i64, parts: i64, threads: i64) -> i64:
    """Return the amount of work before part k: one half in as many parts as threads, then a quarter, ..."""
    if parts != 4 * threads:
        return total * k // parts
    done = 4 * min(k, threads) + 2 * min(max(k - threads, 0), threads) + max(k - 2 * threads, 0)
    return total * done // (8 * threads)


def cut_units(
    times: i64, starts: i64, nodes: i64, before: i64, first: i64, total: i64, k: i64, parts: i64, threads: i64,
    cuts: i64,
) -> i64:  # fmt: skip
    """Write the starts, in units, of parts k, k + 1, ... within the nodes of a block; return the first later part.

    Parameters
    ----------
    times, starts
        As in `ir.spec.UNITS`.
    before, first
        Nanoseconds and units of earlier blocks.
    total
        Nanoseconds of all blocks.
    """
    node = 0
    while k < parts:
        end = end_of_part(total, k, parts, threads) - before
        while node < nodes and ld(times, node + 1) <= end:
            node = node + 1
        if node == nodes:
            return k
        unit = node
        if starts != 0:
            inside = end - ld(times, node)
            unit = ld(starts, node)
            unit = unit + (ld(starts, node + 1) - unit) * inside // (ld(times, node + 1) - ld(times, node))
        st(cuts, k, first + unit)
        k = k + 1
    return k


def cut_blocks(ST: i64, s: i64, first: i64, blocks: i64, parts: i64) -> None:
    """Cut a stage of blocks into parts that take equal times."""
    threads, stride, cuts, firsts = lds(ST, THREADS, STRIDE, CUTS, FIRSTS)
    total = ld(firsts, blocks)
    if ld(first + BLOCK_BYTES + UNITS_BYTES * s, UNITS_TIMES) == 0:
        for part in range(parts + 1):
            st(cuts, part, end_of_part(total, part, parts, threads))
        return
    total = 0
    for b in range(blocks):
        block = first + stride * b
        nodes = ld(block, BLOCK_LAST) - ld(block, BLOCK_FIRST)
        total = min(total + ld(ld(block + BLOCK_BYTES + UNITS_BYTES * s, UNITS_TIMES), nodes), 1 << 60)
    st(cuts, 0, 0)
    k = 1
    before = 0
    for b in range(blocks):
        block = first + stride * b
        nodes = ld(block, BLOCK_LAST) - ld(block, BLOCK_FIRST)
        known = block + BLOCK_BYTES + UNITS_BYTES * s
        times, starts = lds(known, UNITS_TIMES, UNITS_STARTS)
        k = cut_units(times, starts, nodes, before, ld(firsts, b), total, k, parts, threads, cuts)
        before = before + ld(times, nodes)
    while k <= parts:
        st(cuts, k, ld(firsts, blocks))
        k = k + 1


def cut_nodes(ST: i64, k: i64, low: i64, high: i64, parts: i64) -> None:
    """Cut the nodes low..high of the order, all of a kernel with run-time extents whose `cost` is their mean."""
    table, sizes, threads, cuts = lds(ST, TABLE, SIZES, THREADS, CUTS)
    time = 2 + ld(table, k + K_RESULTS)
    total = ld(table, k + K_COST) * (high - low)
    before = 0
    known = 0
    i = low
    st(cuts, 0, 0)
    for part in range(1, parts):
        end = end_of_part(total, part, parts, threads)
        while i < high and before < end:
            known = plan_node(ST, k, extents_of(ST, k, i), known)
            before = before + ld(sizes, time)
            i = i + 1
        st(cuts, part, i - low)
    st(cuts, parts, high - low)
