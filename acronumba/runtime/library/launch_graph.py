"""A mini-batch on a GPU as one launch of a graph, whose nodes do what rows of a table say (`kernels.cuda.graphs`).

In: the launches of a stream, each with the level of its first functions. Out: the table, with a row for each function
of each launch, which is copied to its place, and the launch of the graph. A level of the graph has a node for each of
its functions, which does all batches of the level that need it. A graph serves all mini-batches with the same key:

    for each run of a few levels that repeat: how often they do, rounded up to a power of two; how many levels; of each,
    how many functions it has; of each of them its number, and the blocks of its node, rounded up to a power of four

So few graphs suffice, and none is changed. Nodes that a mini-batch does not need have an empty row.

    graphed(words, stream, about) returns 0, an error of the driver, SCANT if the scratch memory is too small,
                                  UNKNOWN if there is no such graph yet (ABOUT_KEY says which), or CROWDED if there are
                                  more rows than the table has room for, more batches of a function than blocks, or
                                  more than MOST_FUNCTIONS functions
"""

from __future__ import annotations

from acronumba.emit.language import call_address_i64, fill_bytes, i64, ld, lds, st
from acronumba.runtime.library.launch import copy, ready
from acronumba.runtime.library.launch_steps import blocks_of, function_of, share_scratch, sort_steps
from acronumba.runtime.library.records import low_half

from acronumba.runtime.library.launch_words import (  # isort: skip
    ABOUT_FUNCTIONS, ABOUT_GRAPHS, ABOUT_KEY, ABOUT_KEY_WORDS, ABOUT_KNOWN, ABOUT_ROWS, ABOUT_STAGES,
    ABOUT_TABLE, CROWDED, FUNCTION_BLOCKS, FUNCTION_BYTES, GRAPH_BYTES, GRAPH_HANDLE, GRAPH_KEY, GRAPH_WORDS,
    LAUNCH_BLOCKS, LAUNCH_FUNCTIONS, LAUNCH_GRAPH, LAUNCH_SCRATCH, LAUNCH_STREAM, LAUNCH_UPLOAD, LAUNCH_WARPS,
    NODE_BLOCKS, NODE_BYTES, NODE_FIRST, NODE_MORE, NODE_NODES, NODE_P, NODE_SCRATCH, NODE_WARPS, ROW_BYTES,
    ROW_NODES, ROW_P, ROW_SCRATCH, SCANT, STREAM_LAUNCHES, STREAM_LEVELS, STREAM_TABLE, STREAM_TAIL,
    STREAM_WARP, UNKNOWN, WARPS,
)  # fmt: skip

PERIOD = 8  # levels of a run at most, before they repeat
MOST_FUNCTIONS = 62  # bits of a word


def graphed(words: i64, stream: i64, about: i64) -> i64:
    ready(words, stream)
    out = ld(stream, STREAM_TAIL)
    many = ld(about, ABOUT_STAGES) * ld(stream, STREAM_LAUNCHES)
    levels = ld(stream, STREAM_LEVELS)
    order = out + 3 * NODE_BYTES * many
    blocks = order + 8 * many
    lengths = blocks + 8 * many
    key = lengths + 16 * many
    masks = key + 40 * many
    ends = masks + 8 * many
    if ld(about, ABOUT_FUNCTIONS) > MOST_FUNCTIONS:
        return CROWDED
    sort_steps(words, stream, about, order, ends)
    sort_functions(words, stream, order, ends)
    total = ld(ends, levels - 1)
    share_scratch(words, stream, order, total)
    if ready(words, stream) == 0:
        return SCANT
    if give_blocks(words, stream, order, ends, blocks, masks) == 0:
        return CROWDED
    nodes = write_key(words, stream, about, order, ends, blocks, lengths, masks, key)
    rows = nodes + total
    if rows > ld(about, ABOUT_ROWS):
        return CROWDED
    handle = find_graph(about)
    if handle == 0:
        return UNKNOWN
    rows = write_rows(words, stream, order, ends, blocks, lengths, nodes)
    where = ld(words, LAUNCH_STREAM)
    error = low_half(call_address_i64(ld(words, LAUNCH_UPLOAD), ld(about, ABOUT_TABLE), out, rows * NODE_BYTES, where))
    if error == 0:
        error = copy(words, stream, out)
    if error == 0:
        error = low_half(call_address_i64(ld(words, LAUNCH_GRAPH), handle, where))
    return error


def number_of(words: i64, stream: i64, one: i64) -> i64:
    """Return the number of the function of a step."""
    return (function_of(words, stream, one) - ld(words, LAUNCH_FUNCTIONS)) // FUNCTION_BYTES


def sort_functions(words: i64, stream: i64, order: i64, ends: i64) -> None:
    """Sort the steps of each level by their functions."""
    begin = 0
    for level in range(ld(stream, STREAM_LEVELS)):
        end = ld(ends, level)
        for k in range(begin + 1, end):
            one = ld(order, k)
            number = number_of(words, stream, one)
            at = k
            while at > begin and number_of(words, stream, ld(order, max(at - 1, 0))) > number:
                st(order, at, ld(order, at - 1))
                at = at - 1
            st(order, at, one)
        begin = end


def end_of(words: i64, stream: i64, order: i64, begin: i64, end: i64) -> i64:
    """Return the end of the steps of one function."""
    number = number_of(words, stream, ld(order, begin))
    for k in range(begin + 1, end):
        if number_of(words, stream, ld(order, k)) != number:
            return k
    return end


def share_out(blocks: i64, begin: i64, end: i64, most: i64) -> i64:
    """Give steps their shares of so many blocks if they want more; return whether there are as many as steps."""
    total = 0
    for k in range(begin, end):
        total = total + ld(blocks, k)
    if total <= most:
        return 1
    if end - begin > most:
        return 0
    first = 0
    for k in range(begin, end):
        room = most - first - (end - 1 - k)
        mine = min(max(ld(blocks, k) * most // total, 1), room)
        st(blocks, k, mine)
        first = first + mine
    return 1


def give_blocks(words: i64, stream: i64, order: i64, ends: i64, blocks: i64, masks: i64) -> i64:
    """Write how many blocks do each step, and the functions of each level as bits; return whether that can be."""
    most = max(ld(words, LAUNCH_BLOCKS), 1)
    begin = 0
    for level in range(ld(stream, STREAM_LEVELS)):
        end = ld(ends, level)
        at = begin
        mask = 0
        while at < end:
            mask = mask | 1 << number_of(words, stream, ld(order, at))
            last = end_of(words, stream, order, at, end)
            function = function_of(words, stream, ld(order, at))
            own = max(min(ld(function, FUNCTION_BLOCKS), most), 1)
            for k in range(at, last):
                row = ld(stream, STREAM_TABLE) + (ld(order, k) >> 16) * ROW_BYTES
                st(blocks, k, blocks_of(words, function, row, own))
            if share_out(blocks, at, last, max(ld(function, FUNCTION_BLOCKS), 1)) == 0:
                return 0
            at = last
        if ld(stream, STREAM_WARP) != 0:  # each block has scratch memory
            if share_out(blocks, begin, end, most) == 0:
                return 0
        st(masks, level, mask)
        begin = end
    return 1


def repeats(masks: i64, level: i64, levels: i64, period: i64) -> i64:
    """Return how often levels repeat that begin with `level`."""
    at = level + period
    while at < levels and ld(masks, min(at, levels - 1)) == ld(masks, at - period):
        at = at + 1
    return (at - level) // period


def period_of(masks: i64, level: i64, levels: i64) -> i64:
    """Return how many levels a run has that repeat: where it is longest."""
    best = 1
    most = repeats(masks, level, levels, 1)
    for period in range(2, min(PERIOD, levels - level) + 1):
        times = repeats(masks, level, levels, period)
        if times > 1 and times * period > most:
            best = period
            most = times * period
    return best


def power(number: i64, base: i64) -> i64:
    """Return the least power of a base that is no less than a number."""
    found = 1
    while found < number:
        found = found * base
    return found


def write_key(
    words: i64, stream: i64, about: i64, order: i64, ends: i64, blocks: i64, lengths: i64, masks: i64, key: i64
) -> i64:
    """Write the key of the graph, and of each run its levels and nodes; return how many nodes there are."""
    levels = ld(stream, STREAM_LEVELS)
    at = key
    level = 0
    nodes = 0
    runs = 0
    while level < levels:
        period = period_of(masks, level, levels)
        times = repeats(masks, level, levels, period)
        padded = power(times, 2)
        st(at, 0, padded)
        st(at, 1, period)
        at = at + 16
        count = 0
        for j in range(level, level + period):
            many = 0
            for k in range(times):
                many = write_level_key(words, stream, order, ends, blocks, at, j + k * period, k)
            at = at + 8 * (1 + 2 * many)
            count = count + many
        st(lengths, 2 * runs, times * period)
        st(lengths, 2 * runs + 1, padded * count)
        nodes = nodes + padded * count
        runs = runs + 1
        level = level + times * period
    st(about, ABOUT_KEY, key)
    st(about, ABOUT_KEY_WORDS, (at - key) // 8)
    return nodes


def write_level_key(
    words: i64, stream: i64, order: i64, ends: i64, blocks: i64, at: i64, level: i64, again: i64
) -> i64:
    """Write how many functions a level has, and each with its blocks, at least what is there if `again`."""
    begin = 0
    if level > 0:
        begin = ld(ends, level - 1)
    count = 0
    while begin < ld(ends, level):
        end = end_of(words, stream, order, begin, ld(ends, level))
        function = function_of(words, stream, ld(order, begin))
        total = 0
        for j in range(begin, end):
            total = total + ld(blocks, j)
        wanted = min(power(total, 4), max(ld(function, FUNCTION_BLOCKS), 1))
        place = at + 8 * (1 + 2 * count)
        if again != 0:
            wanted = max(wanted, ld(place, 1))
        st(place, 0, number_of(words, stream, ld(order, begin)))
        st(place, 1, wanted)
        count = count + 1
        begin = end
    st(at, 0, count)
    return count


def find_graph(about: i64) -> i64:
    """Return the handle of the graph with the key; 0: there is none yet."""
    key, many = lds(about, ABOUT_KEY, ABOUT_KEY_WORDS)
    for g in range(ld(about, ABOUT_KNOWN)):
        row = ld(about, ABOUT_GRAPHS) + g * GRAPH_BYTES
        if ld(row, GRAPH_WORDS) == many:
            other = 0
            for k in range(many):
                other = other | (ld(key, k) ^ ld(ld(row, GRAPH_KEY), k))
            if other == 0:
                return ld(row, GRAPH_HANDLE)
    return 0


def write_rows(words: i64, stream: i64, order: i64, ends: i64, blocks: i64, lengths: i64, nodes: i64) -> i64:
    """Write the rows of all nodes, and behind them what nodes do besides; return how many rows there are."""
    out = ld(stream, STREAM_TAIL)
    fill_bytes(out, 0, nodes * NODE_BYTES)
    run = out  # its first row
    level = 0
    begin = 0
    while level < ld(stream, STREAM_LEVELS):
        row = run
        last = level + ld(lengths, 0)
        while level < last:
            first = 0  # of the blocks of the level
            while begin < ld(ends, level):
                end = end_of(words, stream, order, begin, ld(ends, level))
                own = 0  # blocks of the node
                here = row
                for j in range(begin, end):
                    if j > begin:
                        st(here, NODE_MORE, out + nodes * NODE_BYTES - here)
                        here = out + nodes * NODE_BYTES
                        nodes = nodes + 1
                    write_row(words, stream, here, ld(order, j), own, ld(blocks, j), first)
                    own = own + ld(blocks, j)
                    first = first + ld(blocks, j)
                row = row + NODE_BYTES
                begin = end
            level = level + 1
        run = run + ld(lengths, 1) * NODE_BYTES
        lengths = lengths + 16
    return nodes


def write_row(words: i64, stream: i64, out: i64, one: i64, own: i64, blocks: i64, first: i64) -> None:
    """Write what a node does for a step."""
    row = ld(stream, STREAM_TABLE) + (one >> 16) * ROW_BYTES
    st(out, NODE_FIRST, own)
    st(out, NODE_BLOCKS, blocks)
    st(out, NODE_NODES, ld(row, ROW_NODES))
    st(out, NODE_P, ld(row, ROW_P))
    st(out, NODE_SCRATCH, ld(words, LAUNCH_SCRATCH) + ld(row, ROW_SCRATCH))
    st(out, NODE_WARPS, ld(words, LAUNCH_WARPS) + first * WARPS * ld(stream, STREAM_WARP))
    st(out, NODE_MORE, 0)
