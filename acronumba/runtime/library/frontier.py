"""The frontier: the ready nodes, by kind, for the agenda and the search of `lookahead`.

In: the nodes, of one component or all. Out: operands and successors of each (`graph`), and the nodes that are ready at
first (`start`) and after a step (`advance`). The agenda (DyNet, Neubig et al. 2017) repeatedly runs all ready nodes of
the key whose nodes have the least mean depth.
"""

from __future__ import annotations

from acronumba.emit.language import f64, fill_bytes, i64, inf, ld, ld32, ldf, lds, st, st32, stf
from acronumba.runtime.library.records import node_of
from acronumba.runtime.state import DONE, GROW_EDGES

from acronumba.runtime.library.words import (  # isort: skip
    BFIRST, BSTART, DEGREE, DEPTH, ECAP, EDGES, EFIRST, EFROM, GKINDS, KEY, KEYS, KIND, K_LISTS, K_TENSORS, K_WORDS,
    LEVEL, LEVELS, LFIRST, LIST_ITEMS, LIST_LENGTH, LOCAL, MEAN, MEMBERS, N, NEED, ORDER, POSITION, QUEUE, READY,
    RECORD_HEAD, ROW, SCAP, SFIRST, SIZE, SKIND, SNEXT, SSTART, TABLE,
)  # fmt: skip


def edges(ST: i64) -> i64:
    """List, for all nodes, the operands that nodes compute."""
    return operands(ST, -1)


def operands(ST: i64, c: i64) -> i64:
    """List, for each node of component c (-1: all nodes), the operands that are in the component.

    Members are numbered by their position in `order`, or (-1) as they were recorded.
    """
    low = 0
    high = ld(ST, N)
    least = -1 << 40
    bstart, bfirst = lds(ST, BSTART, BFIRST)
    if c >= 0:
        low = ld32(bstart, ld32(bfirst, c))
        high = ld32(bstart, ld32(bfirst, c + 1))
        least = ld32(ld(ST, LFIRST), c)
    st(ST, MEMBERS, high - low)
    if ld(ST, N) >= ld(ST, SCAP):
        st(ST, NEED, 2 * ld(ST, N))
        return GROW_EDGES
    kind, row, order, level, position, table = lds(ST, KIND, ROW, ORDER, LEVEL, POSITION, TABLE)
    first, source, room = lds(ST, EFIRST, EFROM, ECAP)
    m = 0
    st32(first, 0, 0)
    for x in range(low, high):
        v = x
        if c >= 0:
            v = ld32(order, x)
        st32(position, v, x - low)
        at = ld(row, v)
        k = table + 8 * K_WORDS * ld32(kind, v)
        tensors = ld(k, K_TENSORS)
        for j in range(tensors):
            u = node_of(ld(ld(at, j), RECORD_HEAD))
            if u >= 0:
                if ld32(level, u) >= least:
                    if m < room:
                        st32(source, m, ld32(position, u))
                    m = m + 1
        for j in range(ld(k, K_LISTS)):
            items = ld(ld(at, tensors + j), LIST_ITEMS)
            for i in range(ld(ld(at, tensors + j), LIST_LENGTH)):
                u = node_of(ld(ld(items, i), RECORD_HEAD))
                if u >= 0:
                    if ld32(level, u) >= least:
                        if m < room:
                            st32(source, m, ld32(position, u))
                        m = m + 1
        st32(first, x - low + 1, m)
    st(ST, EDGES, m)
    if m > room:
        st(ST, NEED, m + (m >> 2))
        return GROW_EDGES
    return DONE


def graph(ST: i64, c: i64) -> i64:
    """List operands, successors and kinds of the members of component c (-1: of all nodes)."""
    status = operands(ST, c)
    if status != DONE:
        return status
    n, key, order, local, first, source = lds(ST, MEMBERS, KEY, ORDER, LOCAL, EFIRST, EFROM)
    next, after, kind, start = lds(ST, SFIRST, SNEXT, SKIND, SSTART)
    low = 0
    kinds = ld(ST, KEYS)
    if c >= 0:
        low = ld32(ld(ST, BSTART), ld32(ld(ST, BFIRST), c))
        kinds = ld32(ld(ST, SIZE), c)
    st(ST, GKINDS, kinds)
    fill_bytes(start, 0, 4 * (kinds + 1))
    for v in range(n):
        t = ld32(key, v)
        if c >= 0:
            t = ld32(local, ld32(key, ld32(order, low + v)))
        st32(kind, v, t)
        st32(start, t + 1, ld32(start, t + 1) + 1)
    for t in range(kinds):
        st32(start, t + 1, ld32(start, t + 1) + ld32(start, t))
    fill_bytes(next, 0, 4 * (n + 1))
    for e in range(ld(ST, EDGES)):
        u = ld32(source, e)
        st32(next, u, ld32(next, u) + 1)
    total = 0
    for v in range(n):
        total = total + ld32(next, v)
        st32(next, v, total)
    st32(next, n, total)
    for x in range(n):
        v = n - 1 - x
        for e in range(ld32(first, v), ld32(first, v + 1)):
            u = ld32(source, e)
            i = ld32(next, u) - 1
            st32(after, i, v)
            st32(next, u, i)
    return DONE


def start(ST: i64, back: i64) -> None:
    """Make all members without operands (back: without successors) ready."""
    n = ld(ST, MEMBERS)
    first = ld(ST, SFIRST if back else EFIRST)
    kind, begin, degree, queue, ready = lds(ST, SKIND, SSTART, DEGREE, QUEUE, READY)
    for t in range(ld(ST, GKINDS)):
        st32(ready, 2 * t, ld32(begin, t))
        st32(ready, 2 * t + 1, ld32(begin, t))
    for v in range(n):
        d = ld32(first, v + 1) - ld32(first, v)
        st32(degree, v, d)
        if d == 0:
            t = ld32(kind, v)
            i = ld32(ready, 2 * t + 1)
            st32(queue, i, v)
            st32(ready, 2 * t + 1, i + 1)


def advance(ST: i64, back: i64, t: i64, number: i64, step: i64) -> None:
    """Run all ready members of kind t, as step `number`, which is noted in the column `step`."""
    first = ld(ST, EFIRST if back else SFIRST)
    next = ld(ST, EFROM if back else SNEXT)
    kind, degree, queue, ready = lds(ST, SKIND, DEGREE, QUEUE, READY)
    low = ld32(ready, 2 * t)
    high = ld32(ready, 2 * t + 1)
    st32(ready, 2 * t, high)
    for i in range(low, high):
        v = ld32(queue, i)
        st32(step, v, number)
        for e in range(ld32(first, v), ld32(first, v + 1)):
            u = ld32(next, e)
            d = ld32(degree, u) - 1
            st32(degree, u, d)
            if d == 0:
                k = ld32(kind, u)
                j = ld32(ready, 2 * k + 1)
                st32(queue, j, u)
                st32(ready, 2 * k + 1, j + 1)


def agenda(ST: i64, step: i64) -> i64:
    """Number the batches of the agenda, in the column `step`."""
    status = graph(ST, -1)
    if status != DONE:
        return status
    n, keys, key, depth, mean, begin, ready = lds(ST, N, KEYS, KEY, DEPTH, MEAN, SSTART, READY)
    for k in range(keys):
        stf(mean, k, 0.0)
    for v in range(n):
        k = ld32(key, v)
        stf(mean, k, ldf(mean, k) + f64(ld32(depth, v)))
    for k in range(keys):
        stf(mean, k, ldf(mean, k) / f64(max(ld32(begin, k + 1) - ld32(begin, k), 1)))
    start(ST, 0)
    done = 0
    batch = 0
    while done < n:
        best = -1
        least = inf
        for k in range(keys):
            if ld32(ready, 2 * k) < ld32(ready, 2 * k + 1):
                if ldf(mean, k) < least:
                    best = k
                    least = ldf(mean, k)
        done = done + ld32(ready, 2 * best + 1) - ld32(ready, 2 * best)
        advance(ST, 0, best, batch, step)
        batch = batch + 1
    st(ST, LEVELS, batch)
    return DONE
