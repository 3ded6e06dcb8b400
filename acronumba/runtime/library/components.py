"""Levels of nodes: by depth within the strongly connected components of the graph of keys, or by depth alone.

In: the nodes with their keys. Out: `level`, `counts`. The graph of keys has an edge if a node of one key feeds a node
of the other. Its components run one after the other in topological order, and depth counts inside a component. Some
optimal schedule runs component by component: a stable sort of any schedule by component preserves all dependences and
splits no batch. So nothing is lost, and leaf transforms, hoisted products and classifiers become one batch each.
Graphs of keys are cached with their components, and the expected one is tried first: the machine records the depth of
each node in its component, and the edges that prove the graph to be the expected one. Depths are measured anew if it is
another, or if nodes have been dropped.
"""

from __future__ import annotations

from acronumba.emit.language import copy_bytes, fill_bytes, i64, ld, ld32, lds, lshr, st, st32
from acronumba.runtime.library.extents import same_words
from acronumba.runtime.library.records import component_of, deeper, depth_of, group_of, node_of, outside
from acronumba.runtime.state import MEASURED, MOST_GRAPHS, RECORDED

from acronumba.runtime.library.words import (  # isort: skip
    ADJACENT, BEFORE, COMPONENT, COMPONENT_FIRST, COUNTS, DEEPEST, DEPTH, FOLLOWED, GRAPH, GRAPHS, GROUP, GROUPS,
    KERNELS, KEY, KEYED, KEYS, KEYTAB, KFIRST, KIND, KINDS, KNOWN, KNOWN_FIRST, KNOWN_GROUPS, K_LISTS, K_TENSORS,
    K_WORDS, LEAF_USES, LEVEL, LEVELS, LFIRST, LIST_ITEMS, LIST_LENGTH, LOCAL, MARKS, MIXED, MOST, MOST_GROUPS, N,
    NOTED_USES, NOTING, PLACE, PLACED, RECORD_HEAD, REPLACED, ROW, SIZE, TABLE, VISIT,
)  # fmt: skip


def begin_places(ST: i64) -> None:
    """Begin a round: choose the graph for which the machine records places, unless groups depend on extents."""
    st(ST, PLACED, MEASURED)
    if ld(ST, KEYED) == 0:
        expect_graph(ST, ld(ST, KERNELS))
        fill_bytes(ld(ST, ADJACENT), 0, 8 * ld(ST, GROUPS) * ld(ST, MARKS))
        fill_bytes(ld(ST, LEAF_USES), 0, 8 * ld(ST, KERNELS) * ld(ST, MOST))
        st(ld(ST, PLACE), -1, outside(ld(ST, GROUPS)))
        st(ST, PLACED, RECORDED)


def expect_graph(ST: i64, groups: i64) -> None:
    """Make the graph that followed the last graph before the current one: mini-batches are alike, and so are rounds."""
    marks = (groups >> 6) + 1
    st(ST, GROUPS, groups)
    st(ST, MARKS, marks)
    followed = ld(ST, FOLLOWED)
    if groups != ld(ST, KNOWN_GROUPS):
        st(ST, KNOWN_GROUPS, groups)
        st(ST, GRAPHS, 1)
        st(followed, 0, 0)
        take_graph(ST, 0)
        fill_bytes(ld(ST, KNOWN), 255, 8 * groups * marks)  # every group reads every other:
        fill_bytes(ld(ST, COMPONENT), 0, 4 * groups)  # one component
    st(ST, BEFORE, ld(ST, GRAPH))
    take_graph(ST, ld(followed, ld(ST, GRAPH)))


def find_components(ST: i64) -> None:
    """Set the component and depth of each node, in one pass if the graph of groups is the expected one.

    The machine has done so when it recorded the nodes, unless some have been dropped.
    """
    keys, group = lds(ST, KEYS, KEY)
    groups = keys
    if keys > ld(ST, MOST_GROUPS):
        groups, group = lds(ST, KERNELS, KIND)
    st(ST, GROUP, group)
    st(ST, NOTED_USES, ld(ST, NOTING) if ld(ST, PLACED) == RECORDED else 0)
    if ld(ST, PLACED) != RECORDED:
        expect_graph(ST, groups)
        measure_depths(ST)
    marks = ld(ST, MARKS)
    if same_words(ld(ST, ADJACENT), ld(ST, KNOWN), groups * marks) == 0:
        graph = 0
        while graph < ld(ST, GRAPHS):
            take_graph(ST, graph)
            if same_words(ld(ST, ADJACENT), ld(ST, KNOWN), groups * marks) != 0:
                break
            graph = graph + 1
        if graph == ld(ST, GRAPHS):
            add_graph(ST)
        st(ld(ST, FOLLOWED), ld(ST, BEFORE), ld(ST, GRAPH))
        st(ST, NOTED_USES, 0)
        measure_depths(ST)
    st(ST, PLACED, MEASURED)  # the search of `lookahead` changes them
    find_deepest(ST)
    sort_keys(ST)
    component_levels(ST)


def take_graph(ST: i64, graph: i64) -> None:
    """Make the cached graph of groups with this number the current one."""
    groups, marks = lds(ST, GROUPS, MARKS)
    st(ST, GRAPH, graph)
    st(ST, KNOWN, ld(ST, KNOWN_FIRST) + 8 * graph * groups * marks)
    st(ST, COMPONENT, ld(ST, COMPONENT_FIRST) + 4 * graph * groups)


def add_graph(ST: i64) -> None:
    """Cache the nodes' graph of groups, with its components; if the cache is full, in place of another."""
    graph = ld(ST, GRAPHS)
    if graph == MOST_GRAPHS:
        graph = (ld(ST, REPLACED) + 1) % MOST_GRAPHS
        st(ST, REPLACED, graph)
    else:
        st(ST, GRAPHS, graph + 1)
    st(ld(ST, FOLLOWED), graph, graph)
    take_graph(ST, graph)
    copy_bytes(ld(ST, KNOWN), ld(ST, ADJACENT), 8 * ld(ST, GROUPS) * ld(ST, MARKS))
    components(ST)


def measure_depths(ST: i64) -> None:
    """Set the depth of each node in its component, and record the edges between groups."""
    n, groups, group, marks = lds(ST, N, GROUPS, GROUP, MARKS)
    kind, row, place, table, adjacent = lds(ST, KIND, ROW, PLACE, TABLE, ADJACENT)
    component = ld(ST, COMPONENT)
    fill_bytes(adjacent, 0, 8 * groups * marks)
    st(place, -1, outside(groups))
    for v in range(n):
        g, k, at = ld32(group, v), table + 8 * K_WORDS * ld32(kind, v), ld(row, v)
        reads = adjacent + 8 * marks * g
        here = ld32(component, g) << 48
        tensors = ld(k, K_TENSORS)
        for j in range(tensors):
            p = ld(place, node_of(ld(ld(at, j), RECORD_HEAD)))
            s = group_of(p)
            bits = ld(reads, s >> 6)
            if bits & (1 << (s & 63)) == 0:
                st(reads, s >> 6, bits | (1 << (s & 63)))
            here = max(here, deeper(p))
        for j in range(ld(k, K_LISTS)):
            items = ld(ld(at, tensors + j), LIST_ITEMS)
            for i in range(ld(ld(at, tensors + j), LIST_LENGTH)):
                p = ld(place, node_of(ld(ld(items, i), RECORD_HEAD)))
                s = group_of(p)
                bits = ld(reads, s >> 6)
                if bits & (1 << (s & 63)) == 0:
                    st(reads, s >> 6, bits | (1 << (s & 63)))
                here = max(here, deeper(p))
        st(place, v, here | g)


def find_deepest(ST: i64) -> None:
    """Count the levels of each component."""
    place, deepest = lds(ST, PLACE, DEEPEST)
    fill_bytes(deepest, 0, 4 * ld(ST, GROUPS))
    for v in range(ld(ST, N)):
        p = ld(place, v)
        c, depth = component_of(p), depth_of(p)
        if depth >= ld32(deepest, c):
            st32(deepest, c, depth + 1)


def components(ST: i64) -> None:
    """Number the strongly connected components of `known` in topological order, operands first (Tarjan 1972)."""
    groups, marks, known, component, number = lds(ST, GROUPS, MARKS, KNOWN, COMPONENT, VISIT)
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


def sort_keys(ST: i64) -> None:
    """List the keys of each component."""
    keys, groups, component, keytab, size, mixed = lds(ST, KEYS, GROUPS, COMPONENT, KEYTAB, SIZE, MIXED)
    first, local, kinds = lds(ST, KFIRST, LOCAL, KINDS)
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


def component_levels(ST: i64) -> None:
    """Number the levels of the components one after the other; count the nodes of each."""
    deepest, lfirst, place, level, counts = lds(ST, DEEPEST, LFIRST, PLACE, LEVEL, COUNTS)
    total = 0
    for c in range(ld(ST, GROUPS)):
        st32(lfirst, c, total)
        total = total + ld32(deepest, c)
    st32(lfirst, ld(ST, GROUPS), total)
    st(ST, LEVELS, total)
    fill_bytes(counts, 0, 4 * (total + 1))
    for v in range(ld(ST, N)):
        p = ld(place, v)
        l = ld32(lfirst, component_of(p)) + depth_of(p)
        st32(level, v, l)
        st32(counts, l, ld32(counts, l) + 1)


def by_depth(ST: i64) -> None:
    """Set the level of each node to its depth."""
    n, depth, level = lds(ST, N, DEPTH, LEVEL)
    most = -1
    for v in range(n):
        d = ld32(depth, v)
        st32(level, v, d)
        if d > most:
            most = d
    st(ST, LEVELS, most + 1)
