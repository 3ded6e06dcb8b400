"""Where threads cut a batch whose nodes take different times: into parts that take equal ones.

In: nanoseconds before each node. Out: where parts begin and end, in nodes or in units of a stage; a part may begin
inside of a node. If there are more parts than threads, the first ones are larger: what is left at the end is shared out
in small parts.
"""

from __future__ import annotations

from acronumba.emit.language import i64, ld, lds, st
from acronumba.runtime.library.extents import extents_of, plan_node

from acronumba.runtime.library.words import (  # isort: skip
    CUTS, K_COST, K_RESULTS, SIZES, TABLE, THREADS,
)  # fmt: skip


def end_of_part(total: i64, k: i64, parts: i64, threads: i64) -> i64:
    """Return how much of a total lies before part k of several: a half in as many as threads, then a quarter, ..."""
    if parts != 4 * threads:
        return total * k // parts
    done = 4 * min(k, threads) + 2 * min(max(k - threads, 0), threads) + max(k - 2 * threads, 0)
    return total * done // (8 * threads)


def cut_units(times: i64, starts: i64, nodes: i64, parts: i64, threads: i64, cuts: i64) -> None:
    """Cut the units of some nodes; `times` and `starts` as in `ir.spec.UNITS`."""
    node = 0
    total = ld(times, nodes)
    st(cuts, 0, 0)
    for k in range(1, parts):
        end = end_of_part(total, k, parts, threads)
        while node < nodes and ld(times, node + 1) <= end:
            node = node + 1
        unit = node
        if starts != 0:
            unit = ld(starts, node)
        if node < nodes:
            if starts != 0:
                inside = end - ld(times, node)
                unit = unit + (ld(starts, node + 1) - unit) * inside // (ld(times, node + 1) - ld(times, node))
        st(cuts, k, unit)
    many = nodes
    if starts != 0:
        many = ld(starts, nodes)
    st(cuts, parts, many)


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
