"""Scheduling: which nodes of the recorded dataflow graph run together, and in which order.

In: the node columns of the state table. Out: `order` (nodes in order of execution; the nodes of a batch in the order
in which they were recorded, which keeps instances in order) and the batches: nodes of one key, that is kernel and
run-time extents. It is compiled library code, the same for every model; `SOURCE` is its definition, in the language
of `emit.parse`.

depth    A node's level is its depth: 1 + that of its deepest operand (ACRoBat, TensorFlow Fold). With phases, the
         strongly connected components of the graph of kernels (an edge where a node of one feeds a node of the other)
         run one after the other in topological order, and depth counts inside a component. Some optimal schedule runs
         component by component: a stable sort of any schedule by component keeps all dependences and splits no batch.
         So nothing is lost, and leaf transforms, hoisted products and classifiers become one batch each. Components
         found for one mini-batch are tried on the next: one pass then both measures depths and proves that the graph
         of kernels is still the same.
agenda   DyNet (Neubig et al. 2017): run all ready nodes of the key whose nodes have the least mean depth, and again.
caller   The levels are given: batch numbers from a user's function, checked by `check_levels`.

`lower_bound` is the sum over keys of the longest chain of a key's own nodes: no schedule has fewer batches.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SOURCE = '''
def number_keys(ST: i64):
    """Give each node the number of its (kernel, extents); without extents that is the kernel's."""
    n = ld(ST, N)
    kernels = ld(ST, KERNELS)
    keytab = ld(ST, KEYTAB)
    for k in range(kernels):
        st(keytab, 2 * k, k)
        st(keytab, 2 * k + 1, 0)
    count = kernels
    if ld(ST, KEYED) != 0:
        kind = ld(ST, KIND)
        key = ld(ST, KEY)
        row = ld(ST, ROW)
        table = ld(ST, TABLE)
        hash = ld(ST, HASH)
        mask = ld(ST, HASHES) - 1
        fill_bytes(hash, 0, 4 * (mask + 1))
        for v in range(n):
            k = ld32(kind, v)
            dims = ld(table, K_WIDTH * k + K_DIMS)
            if dims == 0:
                st32(key, v, k)
            else:
                at = ld(row, v) + 8 * ld(table, K_WIDTH * k + K_ARGS)
                h = k + 1
                for j in range(dims):
                    h = (h ^ ld(at, j)) * 6364136223846793005
                    h = h ^ lshr(h, 29)
                slot = h & mask
                found = -1
                while found < 0:
                    there = ld32(hash, slot)
                    if there == 0:
                        st32(hash, slot, count + 1)
                        st(keytab, 2 * count, k)
                        st(keytab, 2 * count + 1, at)
                        found = count
                        count = count + 1
                    else:
                        same = 0
                        if ld(keytab, 2 * there - 2) == k:
                            other = ld(keytab, 2 * there - 1)
                            same = 1
                            for j in range(dims):
                                if ld(other, j) != ld(at, j):
                                    same = 0
                        if same != 0:
                            found = there - 1
                        slot = (slot + 1) & mask
                st32(key, v, found)
    st(ST, KEYS, count)


def components(ST: i64):
    """Number the strongly connected components of the graph `known`, in topological order: by the number of kernels
    that lead to it, then by its smallest kernel."""
    kernels = ld(ST, KERNELS)
    words = ld(ST, WORDS)
    reach = ld(ST, REACH)
    component = ld(ST, COMPONENT)
    copy_bytes(reach, ld(ST, KNOWN), 8 * kernels * words)
    for k in range(kernels):
        for i in range(kernels):
            if (ld(reach, i * words + (k >> 6)) >> (k & 63)) & 1 != 0:
                for w in range(words):
                    st(reach, i * words + w, ld(reach, i * words + w) | ld(reach, k * words + w))
    rank = ld(ST, SPARE)
    for t in range(kernels):
        st32(rank, t, rank_of(ST, t))
    last = -1
    number = 0
    done = 0
    while done < kernels:
        best = kernels * kernels
        for t in range(kernels):
            if ld32(rank, t) > last:
                if ld32(rank, t) < best:
                    best = ld32(rank, t)
        for t in range(kernels):
            if ld32(rank, t) == best:
                st32(component, t, number)
                done = done + 1
        number = number + 1
        last = best


def rank_of(ST: i64, t: i64) -> i64:
    """Return what orders the component of kernel t."""
    kernels = ld(ST, KERNELS)
    words = ld(ST, WORDS)
    reach = ld(ST, REACH)
    first = t
    before = 0
    for s in range(kernels):
        if (ld(reach, s * words + (t >> 6)) >> (t & 63)) & 1 != 0:
            if (ld(reach, t * words + (s >> 6)) >> (s & 63)) & 1 == 0:
                before = before + 1
            else:
                if s < first:
                    first = s
    return before * kernels + first


def by_phase(ST: i64):
    """Give each node its level by (phase, depth in the phase)."""
    n = ld(ST, N)
    kernels = ld(ST, KERNELS)
    words = ld(ST, WORDS)
    kind = ld(ST, KIND)
    row = ld(ST, ROW)
    level = ld(ST, LEVEL)
    table = ld(ST, TABLE)
    adjacent = ld(ST, ADJACENT)
    known = ld(ST, KNOWN)
    component = ld(ST, COMPONENT)
    deepest = ld(ST, DEEPEST)
    ghosts = ld(ST, GHOSTS)
    recorded = ld(ST, DEPTH)
    again = 1
    while again != 0:
        fill_bytes(adjacent, 0, 8 * kernels * words)
        fill_bytes(deepest, 0, 4 * kernels)
        for v in range(n):
            k = ld32(kind, v)
            phase = ld32(component, k)
            at = ld(row, v)
            bit = 1 << (k & 63)
            word = adjacent + 8 * (k >> 6)
            depth = 0
            deep = 0 - 1
            tensors = ld(table, K_WIDTH * k + K_TENSORS)
            for j in range(tensors):
                u = ld(ld(at, j), 1) >> 32
                if u >= 0:
                    if ghosts != 0:
                        deep = max(deep, ld32(recorded, u))
                    s = ld32(kind, u)
                    bits = ld(word, s * words)
                    if bits & bit == 0:
                        st(word, s * words, bits | bit)
                    if ld32(component, s) == phase:
                        d = ld32(level, u) + 1
                        if d > depth:
                            depth = d
            for j in range(ld(table, K_WIDTH * k + K_LISTS)):
                items = ld(ld(at, tensors + j), 0)
                for i in range(ld(ld(at, tensors + j), 1)):
                    u = ld(ld(items, i), 1) >> 32
                    if u >= 0:
                        if ghosts != 0:
                            deep = max(deep, ld32(recorded, u))
                        s = ld32(kind, u)
                        bits = ld(word, s * words)
                        if bits & bit == 0:
                            st(word, s * words, bits | bit)
                        if ld32(component, s) == phase:
                            d = ld32(level, u) + 1
                            if d > depth:
                                depth = d
            if ghosts != 0:
                if depth > 0 or deep < 0:
                    depth = depth + ld32(recorded, v) - 1 - deep
            st32(level, v, depth)
            if depth >= ld32(deepest, phase):
                st32(deepest, phase, depth + 1)
        again = 0
        for w in range(kernels * words):
            if ld(adjacent, w) != ld(known, w):
                again = 1
        if again != 0:
            copy_bytes(known, adjacent, 8 * kernels * words)
            components(ST)
    total = 0
    for c in range(kernels):
        d = ld32(deepest, c)
        st32(deepest, c, total)
        total = total + d
    st(ST, LEVELS, total)
    counts = ld(ST, COUNTS)
    fill_bytes(counts, 0, 4 * (total + 1))
    for v in range(n):
        l = ld32(level, v) + ld32(deepest, ld32(component, ld32(kind, v)))
        st32(level, v, l)
        st32(counts, l, ld32(counts, l) + 1)


def by_depth(ST: i64):
    """Give each node its depth as level."""
    n = ld(ST, N)
    depth = ld(ST, DEPTH)
    level = ld(ST, LEVEL)
    most = -1
    for v in range(n):
        d = ld32(depth, v)
        st32(level, v, d)
        if d > most:
            most = d
    st(ST, LEVELS, most + 1)


def edges(ST: i64) -> i64:
    """List the operands of each node that are nodes."""
    n = ld(ST, N)
    kind = ld(ST, KIND)
    row = ld(ST, ROW)
    table = ld(ST, TABLE)
    first = ld(ST, EFIRST)
    source = ld(ST, EFROM)
    room = ld(ST, ECAP)
    m = 0
    st32(first, 0, 0)
    for v in range(n):
        at = ld(row, v)
        k = K_WIDTH * ld32(kind, v)
        tensors = ld(table, k + K_TENSORS)
        for j in range(tensors):
            u = ld(ld(at, j), 1) >> 32
            if u >= 0:
                if m < room:
                    st32(source, m, u)
                m = m + 1
        for j in range(ld(table, k + K_LISTS)):
            items = ld(ld(at, tensors + j), 0)
            for i in range(ld(ld(at, tensors + j), 1)):
                u = ld(ld(items, i), 1) >> 32
                if u >= 0:
                    if m < room:
                        st32(source, m, u)
                    m = m + 1
        st32(first, v + 1, m)
    st(ST, EDGES, m)
    st(ST, NEED, m)
    if m > room:
        return GROW_EDGES
    return DONE


def agenda(ST: i64) -> i64:
    """Give each node the number of its batch as level, by the agenda."""
    status = edges(ST)
    if status != DONE:
        return status
    n = ld(ST, N)
    keys = ld(ST, KEYS)
    key = ld(ST, KEY)
    depth = ld(ST, DEPTH)
    level = ld(ST, LEVEL)
    first = ld(ST, EFIRST)
    source = ld(ST, EFROM)
    next = ld(ST, SFIRST)
    after = ld(ST, SNEXT)
    degree = ld(ST, DEGREE)
    mean = ld(ST, MEAN)
    ready = ld(ST, READY)
    queue = ld(ST, SPARE)
    fill_bytes(next, 0, 4 * (n + 1))
    for e in range(ld(ST, EDGES)):
        u = ld32(source, e)
        st32(next, u + 1, ld32(next, u + 1) + 1)
    for v in range(n):
        st32(next, v + 1, ld32(next, v + 1) + ld32(next, v))
    for v in range(n):
        for e in range(ld32(first, v), ld32(first, v + 1)):
            u = ld32(source, e)
            st32(after, ld32(next, u), v)
            st32(next, u, ld32(next, u) + 1)
    for k in range(keys):
        st32(ready, 2 * k, 0)
        stf(mean, k, 0.0)
    for v in range(n):
        k = ld32(key, v)
        st32(ready, 2 * k, ld32(ready, 2 * k) + 1)
        stf(mean, k, ldf(mean, k) + f64(ld32(depth, v)))
    total = 0
    for k in range(keys):
        count = ld32(ready, 2 * k)
        if count > 0:
            stf(mean, k, ldf(mean, k) / f64(count))
        st32(ready, 2 * k, total)
        st32(ready, 2 * k + 1, total)
        total = total + count
    for v in range(n):
        d = ld32(first, v + 1) - ld32(first, v)
        st32(degree, v, d)
        if d == 0:
            k = ld32(key, v)
            st32(queue, ld32(ready, 2 * k + 1), v)
            st32(ready, 2 * k + 1, ld32(ready, 2 * k + 1) + 1)
    done = 0
    batch = 0
    while done < n:
        best = -1
        least = 0.0
        for k in range(keys):
            if ld32(ready, 2 * k) < ld32(ready, 2 * k + 1):
                m = ldf(mean, k)
                better = 0
                if best < 0:
                    better = 1
                else:
                    if m < least:
                        better = 1
                if better != 0:
                    best = k
                    least = m
        low = ld32(ready, 2 * best)
        high = ld32(ready, 2 * best + 1)
        st32(ready, 2 * best, high)
        done = done + high - low
        for i in range(low, high):
            v = ld32(queue, i)
            st32(level, v, batch)
            begin = 0
            if v > 0:
                begin = ld32(next, v - 1)
            for e in range(begin, ld32(next, v)):
                u = ld32(after, e)
                d = ld32(degree, u) - 1
                st32(degree, u, d)
                if d == 0:
                    k = ld32(key, u)
                    st32(queue, ld32(ready, 2 * k + 1), u)
                    st32(ready, 2 * k + 1, ld32(ready, 2 * k + 1) + 1)
        batch = batch + 1
    st(ST, LEVELS, batch)
    return DONE


def count_levels(ST: i64):
    """Count the nodes of each level."""
    level = ld(ST, LEVEL)
    counts = ld(ST, COUNTS)
    fill_bytes(counts, 0, 4 * (ld(ST, LEVELS) + 1))
    for v in range(ld(ST, N)):
        l = ld32(level, v)
        st32(counts, l, ld32(counts, l) + 1)


def sort_level(ST: i64, low: i64, high: i64):
    """Order positions low..high, all of one level, by key; nodes of one key keep their order."""
    order = ld(ST, ORDER)
    key = ld(ST, KEY)
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
        spare = ld(ST, SPARE)
        tally = ld(ST, TALLY)
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


def make_batches(ST: i64):
    """Sort the nodes by (level, key), and cut where either changes; `counts` holds the nodes of each level."""
    n = ld(ST, N)
    key = ld(ST, KEY)
    level = ld(ST, LEVEL)
    levels = ld(ST, LEVELS)
    order = ld(ST, ORDER)
    counts = ld(ST, COUNTS)
    row = ld(ST, ROW)
    args = ld(ST, ARGS)
    bstart = ld(ST, BSTART)
    bkey = ld(ST, BKEY)
    blevel = ld(ST, BLEVEL)
    total = 0
    for l in range(levels):
        c = ld32(counts, l)
        st32(counts, l, total)
        total = total + c
    for v in range(n):
        l = ld32(level, v)
        i = ld32(counts, l)
        st32(order, i, v)
        st32(counts, l, i + 1)
    batch = 0
    low = 0
    for l in range(levels):
        high = ld32(counts, l)
        if low < high:
            k = ld32(key, ld32(order, low))
            mixed = 0
            for i in range(low, high):
                v = ld32(order, i)
                st(args, i, ld(row, v))
                mixed = mixed | (ld32(key, v) ^ k)
            st32(bstart, batch, low)
            st32(bkey, batch, k)
            st32(blevel, batch, l)
            batch = batch + 1
            if mixed != 0:
                sort_level(ST, low, high)
                batch = batch - 1
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
    st32(bstart, batch, n)
    st(ST, BATCHES, batch)


def schedule(ST: i64) -> i64:
    """Make the batches of all recorded nodes."""
    number_keys(ST)
    policy = ld(ST, POLICY)
    if policy == 0 and ld(ST, PHASED) != 0:
        by_phase(ST)
    else:
        if policy == 0:
            by_depth(ST)
        if policy == 1:
            status = agenda(ST)
            if status != DONE:
                return status
        count_levels(ST)
    make_batches(ST)
    return DONE
'''


def lower_bound(keys: NDArray[np.int32], first: NDArray[np.int32], source: NDArray[np.int32]) -> int:
    """Return a number of batches that no schedule of the graph can go below.

    Parameters
    ----------
    keys
        int32[n]: the nodes of a batch have one key.
    first, source
        int32[n + 1], int32[m]: the operands of node v are `source[first[v]:first[v + 1]]`, all below v.

    Notes
    -----
    For each key, the most nodes of that key on one path; those run in different batches. The sum over keys.
    """
    count = len(keys)
    if not count:
        return 0
    names, number = np.unique(keys, return_inverse=True)
    chains = np.zeros((count, len(names)), np.int32)  # most nodes of each key on a path that ends here
    starts, sources = first.tolist(), source.tolist()
    for v, k in enumerate(number.tolist()):
        low, high = starts[v], starts[v + 1]
        if high > low:
            chains[v] = chains[sources[low:high]].max(axis=0)
        chains[v, k] += 1
    return int(chains.max(axis=0).sum())


def check_levels(
    levels: NDArray[np.int32], keys: NDArray[np.int32], first: NDArray[np.int32], source: NDArray[np.int32]
) -> None:
    """Raise `ValueError` unless each batch has one key and every operand is in an earlier batch than what reads it."""
    if levels.shape != keys.shape:
        raise ValueError(f"a schedule gives {len(keys)} nodes a batch number, this one {levels.shape}")
    if not len(levels):
        return
    if levels.min() < 0 or levels.max() >= len(levels):
        raise ValueError("batch numbers count from 0 and are below the number of nodes")
    order = np.argsort(levels, kind="stable")
    same = levels[order[1:]] == levels[order[:-1]]
    wrong = np.flatnonzero(same & (keys[order[1:]] != keys[order[:-1]]))
    if len(wrong):
        a, b = int(order[wrong[0]]), int(order[wrong[0] + 1])
        raise ValueError(f"batch {int(levels[a])} has nodes {a} and {b}, which are of different kernels or extents")
    to = np.repeat(np.arange(len(levels)), np.diff(first))
    wrong = np.flatnonzero(levels[source] >= levels[to])
    if len(wrong):
        u, v = int(source[wrong[0]]), int(to[wrong[0]])
        raise ValueError(f"node {v} in batch {int(levels[v])} reads node {u}, which is in batch {int(levels[u])}")
