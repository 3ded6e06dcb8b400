"""Scheduling: which nodes of the recorded dataflow graph run together, and in which order.

In: the node columns of the state table. Out: `order` (nodes in order of execution; the nodes of a batch in the order
in which they were recorded, which keeps instances in order) and the batches: nodes of one key, that is kernel and
run-time extents. It is compiled library code, the same for every model; `SOURCE` is its definition, in the language
of `emit.parse`.

depth      A node's level is its depth: 1 + that of its deepest operand (ACRoBat, TensorFlow Fold). With phases, the
           strongly connected components of the graph of keys (an edge where a node of one feeds a node of the other)
           run one after the other in topological order, and depth counts inside a component. Some optimal schedule
           runs component by component: a stable sort of any schedule by component keeps all dependences and splits no
           batch. So nothing is lost, and leaf transforms, hoisted products and classifiers become one batch each.
           Components found for one mini-batch are tried on the next: one pass then both measures depths and proves
           that the graph of keys is still the same.
agenda     DyNet (Neubig et al. 2017): run all ready nodes of the key whose nodes have the least mean depth, and again.
lookahead  Always by components; a search where depth is not proved optimal. See `lookahead`.
caller     The levels are given: batch numbers from a user's function, checked by `check_levels`.

The frontier (`graph`, `start`, `advance`: which nodes are ready, by kind) serves the agenda and the search.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from acronumba.errors.codes import refuse

# What a schedule is written to.
COLUMNS = ("level", "order", "args", "bstart", "bkey", "blevel")

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
        slots = 2  # as many as this round needs: clearing all that the largest one needed would cost each of them
        while slots < 2 * n:
            slots = 2 * slots
        mask = slots - 1
        fill_bytes(hash, 0, 4 * slots)
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


def find_components(ST: i64):
    """Give each node its component and its depth in it, in one pass if the graph of groups is the last one."""
    n = ld(ST, N)
    keys = ld(ST, KEYS)
    groups = keys
    group = ld(ST, KEY)
    if keys > ld(ST, MOST_GROUPS):
        groups = ld(ST, KERNELS)
        group = ld(ST, KIND)
    marks = (groups >> 6) + 1
    st(ST, GROUPS, groups)
    st(ST, GROUP, group)
    st(ST, MARKS, marks)
    kind = ld(ST, KIND)
    row = ld(ST, ROW)
    place = ld(ST, PLACE)
    table = ld(ST, TABLE)
    adjacent = ld(ST, ADJACENT)
    known = ld(ST, KNOWN)
    component = ld(ST, COMPONENT)
    deepest = ld(ST, DEEPEST)
    ghosts = ld(ST, GHOSTS)
    recorded = ld(ST, DEPTH)
    if groups != ld(ST, KNOWN_GROUPS):
        st(ST, KNOWN_GROUPS, groups)
        fill_bytes(known, 255, 8 * groups * marks)  # every group reads every other:
        fill_bytes(component, 0, 4 * groups)  # one component
    st(place, -1, groups - 65536)  # what is no node: of a group of its own, and not deep enough to count
    again = 1
    while again != 0:
        fill_bytes(adjacent, 0, 8 * groups * marks)
        fill_bytes(deepest, 0, 4 * groups)
        for v in range(n):
            g = ld32(group, v)
            k = table + 8 * K_WIDTH * ld32(kind, v)
            at = ld(row, v)
            reads = adjacent + 8 * marks * g
            c = ld32(component, g)
            here = c << 48
            tensors = ld(k, K_TENSORS)
            for j in range(tensors):
                p = ld(place, ld(ld(at, j), 1) >> 32)
                s = p & 65535
                bits = ld(reads, s >> 6)
                if bits & (1 << (s & 63)) == 0:
                    st(reads, s >> 6, bits | (1 << (s & 63)))
                here = max(here, (p | 65535) + 1)
            for j in range(ld(k, K_LISTS)):
                items = ld(ld(at, tensors + j), 0)
                for i in range(ld(ld(at, tensors + j), 1)):
                    p = ld(place, ld(ld(items, i), 1) >> 32)
                    s = p & 65535
                    bits = ld(reads, s >> 6)
                    if bits & (1 << (s & 63)) == 0:
                        st(reads, s >> 6, bits | (1 << (s & 63)))
                    here = max(here, (p | 65535) + 1)
            if ghosts != 0:
                deep = deepest_operand(ST, v)
                if (here >> 16) & 4294967295 > 0 or deep < 0:
                    here = here + ((ld32(recorded, v) - 1 - deep) << 16)
            st(place, v, here | g)
            depth = (here >> 16) & 4294967295
            if depth >= ld32(deepest, c):
                st32(deepest, c, depth + 1)
        again = 0
        for w in range(groups * marks):
            if ld(adjacent, w) != ld(known, w):
                again = 1
        if again != 0:
            copy_bytes(known, adjacent, 8 * groups * marks)
            components(ST)
    sort_keys(ST)
    component_levels(ST)


def deepest_operand(ST: i64, v: i64) -> i64:
    """Return the largest recorded depth of the nodes that a node reads, -1 without: what it is deeper by are ghosts."""
    depth = ld(ST, DEPTH)
    at = ld(ld(ST, ROW), v)
    k = ld(ST, TABLE) + 8 * K_WIDTH * ld32(ld(ST, KIND), v)
    tensors = ld(k, K_TENSORS)
    deep = 0 - 1
    for j in range(tensors):
        u = ld(ld(at, j), 1) >> 32
        if u >= 0:
            deep = max(deep, ld32(depth, u))
    for j in range(ld(k, K_LISTS)):
        items = ld(ld(at, tensors + j), 0)
        for i in range(ld(ld(at, tensors + j), 1)):
            u = ld(ld(items, i), 1) >> 32
            if u >= 0:
                deep = max(deep, ld32(depth, u))
    return deep


def components(ST: i64):
    """Number the strongly connected components of `known`, what is read before what reads it (Tarjan 1972)."""
    groups = ld(ST, GROUPS)
    marks = ld(ST, MARKS)
    known = ld(ST, KNOWN)
    component = ld(ST, COMPONENT)
    number = ld(ST, VISIT)
    lowest = number + 4 * groups
    stack = lowest + 4 * groups
    path = stack + 4 * groups
    spot = path + 4 * groups
    fill_bytes(number, 0, 4 * groups)
    fill_bytes(component, 255, 4 * groups)
    visited = 0
    found = 0
    held = 0
    for root in range(groups):
        length = 0
        down = root
        if ld32(number, root) != 0:
            down = -1
        while down >= 0 or length > 0:
            if down >= 0:
                visited = visited + 1
                st32(number, down, visited)
                st32(lowest, down, visited)
                st32(spot, down, 0)
                st32(stack, held, down)
                held = held + 1
                st32(path, length, down)
                length = length + 1
            t = ld32(path, length - 1)
            j = ld32(spot, t)
            down = -1
            while j < groups and down < 0:
                bits = lshr(ld(known, t * marks + (j >> 6)), j & 63)
                if bits == 0:
                    j = j | 63
                else:
                    if bits & 1 != 0:
                        if ld32(number, j) == 0:
                            down = j
                        else:
                            if ld32(component, j) < 0:
                                st32(lowest, t, min(ld32(lowest, t), ld32(number, j)))
                j = j + 1
            st32(spot, t, j)
            if down < 0:
                if ld32(lowest, t) == ld32(number, t):
                    s = -1
                    while s != t:
                        held = held - 1
                        s = ld32(stack, held)
                        st32(component, s, found)
                    found = found + 1
                length = length - 1
                if length > 0:
                    s = ld32(path, length - 1)
                    st32(lowest, s, min(ld32(lowest, s), ld32(lowest, t)))


def sort_keys(ST: i64):
    """List the keys of each component."""
    keys = ld(ST, KEYS)
    groups = ld(ST, GROUPS)
    component = ld(ST, COMPONENT)
    keytab = ld(ST, KEYTAB)
    size = ld(ST, SIZE)
    mixed = ld(ST, MIXED)
    first = ld(ST, KFIRST)
    local = ld(ST, LOCAL)
    kinds = ld(ST, KINDS)
    fill_bytes(size, 0, 4 * groups)
    for k in range(keys):
        c = ld32(component, k if groups == keys else ld(keytab, 2 * k))
        st32(local, k, ld32(size, c))
        st32(size, c, ld32(size, c) + 1)
    total = 0
    for c in range(groups):
        st32(first, c, total)
        total = total + ld32(size, c)
        st32(mixed, c, 1 if ld32(size, c) > 1 else 0)
    st32(first, groups, total)
    for k in range(keys):
        c = ld32(component, k if groups == keys else ld(keytab, 2 * k))
        st32(kinds, ld32(first, c) + ld32(local, k), k)


def component_levels(ST: i64):
    """Number the levels of the components one after the other; count the nodes of each."""
    deepest = ld(ST, DEEPEST)
    lfirst = ld(ST, LFIRST)
    place = ld(ST, PLACE)
    level = ld(ST, LEVEL)
    counts = ld(ST, COUNTS)
    total = 0
    for c in range(ld(ST, GROUPS)):
        st32(lfirst, c, total)
        total = total + ld32(deepest, c)
    st32(lfirst, ld(ST, GROUPS), total)
    st(ST, LEVELS, total)
    fill_bytes(counts, 0, 4 * (total + 1))
    for v in range(ld(ST, N)):
        p = ld(place, v)
        l = ld32(lfirst, p >> 48) + ((p >> 16) & 4294967295)
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
    """List the operands of all nodes that are nodes."""
    return operands(ST, -1)


def operands(ST: i64, c: i64) -> i64:
    """List the operands of each node of component c (-1: of all nodes) that are in it.

    Its members are numbered by their place in `order`, or as they were recorded.
    """
    low = 0
    high = ld(ST, N)
    least = -1 << 40
    bstart = ld(ST, BSTART)
    bfirst = ld(ST, BFIRST)
    if c >= 0:
        low = ld32(bstart, ld32(bfirst, c))
        high = ld32(bstart, ld32(bfirst, c + 1))
        least = ld32(ld(ST, LFIRST), c)
    st(ST, MEMBERS, high - low)
    if ld(ST, N) >= ld(ST, SCAP):
        st(ST, NEED, 2 * ld(ST, N))
        return GROW_EDGES
    kind = ld(ST, KIND)
    row = ld(ST, ROW)
    order = ld(ST, ORDER)
    level = ld(ST, LEVEL)
    position = ld(ST, POSITION)
    table = ld(ST, TABLE)
    first = ld(ST, EFIRST)
    source = ld(ST, EFROM)
    room = ld(ST, ECAP)
    m = 0
    st32(first, 0, 0)
    for x in range(low, high):
        v = x
        if c >= 0:
            v = ld32(order, x)
        st32(position, v, x - low)
        at = ld(row, v)
        k = table + 8 * K_WIDTH * ld32(kind, v)
        tensors = ld(k, K_TENSORS)
        for j in range(tensors):
            u = ld(ld(at, j), 1) >> 32
            if u >= 0:
                if ld32(level, u) >= least:
                    if m < room:
                        st32(source, m, ld32(position, u))
                    m = m + 1
        for j in range(ld(k, K_LISTS)):
            items = ld(ld(at, tensors + j), 0)
            for i in range(ld(ld(at, tensors + j), 1)):
                u = ld(ld(items, i), 1) >> 32
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
    n = ld(ST, MEMBERS)
    key = ld(ST, KEY)
    order = ld(ST, ORDER)
    local = ld(ST, LOCAL)
    first = ld(ST, EFIRST)
    source = ld(ST, EFROM)
    next = ld(ST, SFIRST)
    after = ld(ST, SNEXT)
    kind = ld(ST, SKIND)
    start = ld(ST, SSTART)
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


def start(ST: i64, back: i64):
    """Make those members ready that have no operands (back: no successors)."""
    n = ld(ST, MEMBERS)
    first = ld(ST, SFIRST if back else EFIRST)
    kind = ld(ST, SKIND)
    begin = ld(ST, SSTART)
    degree = ld(ST, DEGREE)
    queue = ld(ST, QUEUE)
    ready = ld(ST, READY)
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


def advance(ST: i64, back: i64, t: i64, number: i64, step: i64):
    """Run all members of kind t that are ready, as step `number`, which is noted in the column `step`."""
    first = ld(ST, EFIRST if back else SFIRST)
    next = ld(ST, EFROM if back else SNEXT)
    kind = ld(ST, SKIND)
    degree = ld(ST, DEGREE)
    queue = ld(ST, QUEUE)
    ready = ld(ST, READY)
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
    n = ld(ST, N)
    keys = ld(ST, KEYS)
    key = ld(ST, KEY)
    depth = ld(ST, DEPTH)
    mean = ld(ST, MEAN)
    begin = ld(ST, SSTART)
    ready = ld(ST, READY)
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


def make_batches(ST: i64, parts: i64):
    """Sort the nodes by (level, key), and cut where either changes; `counts` holds the nodes of each level.

    With `parts`, the levels are those of the components.
    """
    level = ld(ST, LEVEL)
    levels = ld(ST, LEVELS)
    order = ld(ST, ORDER)
    counts = ld(ST, COUNTS)
    row = ld(ST, ROW)
    args = ld(ST, ARGS)
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
    if parts != 0:
        lfirst = ld(ST, LFIRST)
        bfirst = ld(ST, BFIRST)
        mixed = ld(ST, MIXED)
        for c in range(ld(ST, GROUPS)):
            st32(bfirst, c, batch)
            batch = cut(ST, batch, ld32(lfirst, c), ld32(lfirst, c + 1), ld32(mixed, c))
        st32(bfirst, ld(ST, GROUPS), batch)
    else:
        batch = cut(ST, 0, 0, levels, 1)
    st32(ld(ST, BSTART), batch, ld(ST, N))
    st(ST, BATCHES, batch)


def cut(ST: i64, batch: i64, begin: i64, end: i64, mixed: i64) -> i64:
    """Make batches of levels begin..end, of which each may hold several keys if `mixed`; number them from `batch`."""
    key = ld(ST, KEY)
    order = ld(ST, ORDER)
    counts = ld(ST, COUNTS)
    row = ld(ST, ROW)
    args = ld(ST, ARGS)
    bstart = ld(ST, BSTART)
    bkey = ld(ST, BKEY)
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


def schedule(ST: i64) -> i64:
    """Make the batches of all recorded nodes."""
    number_keys(ST)
    policy = ld(ST, POLICY)
    if policy == BY_LOOKAHEAD:
        return lookahead(ST, 1)
    if policy == BY_DEPTH and ld(ST, PHASED) != 0:
        find_components(ST)
        make_batches(ST, 1)
        return DONE
    if policy == BY_DEPTH:
        by_depth(ST)
    if policy == BY_AGENDA:
        status = agenda(ST, ld(ST, LEVEL))
        if status != DONE:
            return status
    count_levels(ST)
    make_batches(ST, 0)
    return DONE


def bound(ST: i64) -> i64:
    """Compute the lower bound of batches, for a schedule that did not need it."""
    number_keys(ST)
    return lookahead(ST, 0)
'''


def check_levels(
    levels: NDArray[Any], keys: NDArray[np.int32], first: NDArray[np.int32], source: NDArray[np.int32]
) -> None:
    """Raise `ScheduleError` unless each batch has one key and every operand is in an earlier batch than what reads it.

    Parameters
    ----------
    levels
        What a user's function returned: the number of each node's batch.
    keys
        int32[n].
    first, source
        int32[n + 1], int32[m]: the operands of node v are `source[first[v]:first[v + 1]]`.
    """
    if not len(keys) and not levels.size:
        return
    if levels.dtype.kind not in "iu" or levels.shape != keys.shape:
        returned = f"{levels.dtype}[{', '.join(map(str, levels.shape))}]"
        raise refuse("ACR711", message=f"a schedule returns int32[{len(keys)}], a batch number per node", seen=returned)
    if levels.min() < 0 or levels.max() >= len(levels):
        seen = f"numbers from {levels.min()} to {levels.max()} for {len(levels)} nodes"
        raise refuse("ACR711", message="batch numbers count from 0 and are below the number of nodes", seen=seen)
    order = np.argsort(levels, kind="stable")
    same = levels[order[1:]] == levels[order[:-1]]
    wrong = np.flatnonzero(same & (keys[order[1:]] != keys[order[:-1]]))
    if len(wrong):
        a, b = int(order[wrong[0]]), int(order[wrong[0] + 1])
        seen = f"nodes {a} and {b} in batch {levels[a]}"
        raise refuse("ACR711", message="a batch has nodes of different kernels or extents", seen=seen)
    to = np.repeat(np.arange(len(levels)), np.diff(first))
    wrong = np.flatnonzero(levels[source] >= levels[to])
    if len(wrong):
        u, v = int(source[wrong[0]]), int(to[wrong[0]])
        seen = f"node {v} in batch {levels[v]} reads node {u}, which is in batch {levels[u]}"
        raise refuse("ACR711", message="a batch needs what is not computed before it", seen=seen)
