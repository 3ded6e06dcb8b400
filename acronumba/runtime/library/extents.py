"""Nodes of ragged kernels: those of all run-time extents are one batch.

What a node takes, `plan` says for its extents. A batch runs as calls of the kernel, each for neighbours with the same
extents. Threads share the nodes of a kernel without stages (`run_each`): the parameter table of a call is a copy in the
thread's scratch. A kernel with stages works on blocks of nodes with the same extents: they become neighbours first
(`sort_extents`), in other batches the order is that of recording.
"""

from __future__ import annotations

from acronumba.emit.language import call_address, copy_bytes, fill_bytes, i64, ld, ld32, lds, lshr, st, st32
from acronumba.ir.spec import FIXED
from acronumba.runtime.library.records import results_at

from acronumba.runtime.library.words import (  # isort: skip
    ARGS, K_ARGS, K_DIMS, K_PARAMS, K_PLAN, K_RAGGED, K_RESULTS, K_RUN, K_STEP, ORDER, PARAMETERS_BEGUN,
    PARAMETERS_EXTENTS, PARAMETERS_FAILS, PARAMETERS_NODES, ROW, SIZES, SPARE, TABLE,
    TALLY,
)  # fmt: skip


def extents_of(ST: i64, k: i64, i: i64) -> i64:
    """Return the address of the run-time extents of the node at place i of the order."""
    return ld(ld(ST, ARGS), i) + 8 * ld(ld(ST, TABLE), k + K_ARGS)


def same_words(one: i64, other: i64, count: i64) -> i64:
    """Return whether so many words are the same at both places."""
    for j in range(count):
        if ld(one, j) != ld(other, j):
            return 0
    return 1


def is_after(one: i64, other: i64, count: i64) -> i64:
    """Return whether the first of so many words that differ are larger at the first place."""
    for j in range(count):
        if ld(one, j) > ld(other, j):
            return 1
        if ld(one, j) < ld(other, j):
            return 0
    return 0


def hash_words(at: i64, count: i64, h: i64) -> i64:
    """Return a number that so many words make of another."""
    for j in range(count):
        h = (h ^ ld(at, j)) * 6364136223846793005
        h = h ^ lshr(h, 29)
    return h


def sort_extents(ST: i64, k: i64, low: i64, high: i64) -> None:
    """Order nodes low..high of a batch so that those with the same extents are neighbours, which keep their order.

    They are dealt out to buckets first, by a hash of their extents; few buckets have several lengths to be sorted.
    """
    order, spare, args, row, tally, table = lds(ST, ORDER, SPARE, ARGS, ROW, TALLY, TABLE)
    dims = ld(table, k + K_DIMS)
    at = 8 * ld(table, k + K_ARGS)
    if are_sorted(args, at, dims, low, high) != 0:
        return
    buckets = 1
    while 2 * buckets <= high - low:
        buckets = 2 * buckets
    for i in range(low, high):
        b = hash_words(ld(args, i) + at, dims, 0) & (buckets - 1)
        st32(spare, i, b)
        st32(tally, b, ld32(tally, b) + 1)
    end = low
    for b in range(buckets):
        many = ld32(tally, b)
        st32(tally, b, end)
        end = end + many
    for i in range(low, high):
        b = ld32(spare, i)
        st(args, ld32(tally, b), ld32(order, i))
        st32(tally, b, ld32(tally, b) + 1)
    for i in range(low, high):
        st32(order, i, ld(args, i))
        st(args, i, ld(row, ld32(order, i)))
    begin = low
    for b in range(buckets):
        end = ld32(tally, b)
        if are_sorted(args, at, dims, begin, end) == 0:
            merge_sort(order, spare, row, at, dims, begin, end)
            for i in range(begin, end):
                st(args, i, ld(row, ld32(order, i)))
        begin = end
    fill_bytes(tally, 0, 4 * buckets)


def are_sorted(nodes: i64, at: i64, dims: i64, low: i64, high: i64) -> i64:
    """Return whether the extents of nodes low..high, which lie at `at` in their rows, do not fall."""
    for i in range(low + 1, high):
        if is_after(ld(nodes, i - 1) + at, ld(nodes, i) + at, dims) != 0:
            return 0
    return 1


def merge_sort(order: i64, spare: i64, row: i64, at: i64, dims: i64, low: i64, high: i64) -> None:
    """Order nodes low..high by their extents; those with the same ones keep their order."""
    width = 1
    while width < high - low:
        begin = low
        while begin < high:
            middle = min(begin + width, high)
            merge(order, spare, row, at, dims, begin, middle, min(middle + width, high))
            begin = middle + width
        copy_bytes(order + 4 * low, spare + 4 * low, 4 * (high - low))
        width = 2 * width


def merge(order: i64, spare: i64, row: i64, at: i64, dims: i64, low: i64, middle: i64, high: i64) -> None:
    """Write nodes low..middle and middle..high of the order, each sorted by extents, to `spare` in one order."""
    left = low
    right = middle
    for i in range(low, high):
        from_right = 0
        if left == middle:
            from_right = 1
        elif right < high:
            from_right = is_after(ld(row, ld32(order, left)) + at, ld(row, ld32(order, right)) + at, dims)
        if from_right != 0:
            st32(spare, i, ld32(order, right))
            right = right + 1
        else:
            st32(spare, i, ld32(order, left))
            left = left + 1


def plan_node(ST: i64, k: i64, at: i64, known: i64) -> i64:
    """Leave in `sizes` what a node takes whose extents lie at an address; return that address.

    `known` is what this has returned for another node of the kernel, or 0: with the same extents `sizes` stays, and it
    is returned.
    """
    table = ld(ST, TABLE)
    if known != 0:
        if same_words(at, known, ld(table, k + K_DIMS)) != 0:
            return known
    call_address(ld(table, k + K_PLAN), at, ld(ST, SIZES))
    return at


def table_bytes(words: i64) -> i64:
    """Return the bytes of scratch that a copy of a parameter table takes."""
    return (8 * words + 63) & -64


def end_of_run(nodes: i64, low: i64, high: i64, args: i64, dims: i64) -> i64:
    """Return where the nodes with the same extents as the first of low..high end."""
    extents = ld(nodes, low) + 8 * args
    end = low + 1
    more = 1
    while more != 0:
        more = 0
        if end < high:
            more = same_words(ld(nodes, end) + 8 * args, extents, dims)
            end = end + more
    return end


def begin_run(kernel: i64, params: i64, nodes: i64, fails: i64, low: i64) -> None:
    """Fill in a parameter table for nodes with the same extents, from `low` on."""
    args, dims = lds(kernel, K_ARGS, K_DIMS)
    st(params, PARAMETERS_BEGUN, ld(params, PARAMETERS_BEGUN) + 1)
    node = ld(nodes, low)
    st(params, PARAMETERS_NODES, nodes + 8 * low)
    st(params, PARAMETERS_FAILS, fails + 8 * low)
    st(params, PARAMETERS_EXTENTS, node + 8 * args)
    result = node + results_at(args, dims)
    for j in range(ld(kernel, K_RESULTS)):
        st(params, FIXED + j, ld(result))
        result = result + ld(kernel, K_STEP)


def run_each(kernel: i64, low: i64, high: i64, scratch: i64) -> None:
    """Run nodes low..high of a batch of a ragged kernel, whose row of the table is given."""
    params, args, dims, words = lds(kernel, K_PARAMS, K_ARGS, K_DIMS, K_RAGGED)
    nodes, fails = lds(params, PARAMETERS_NODES, PARAMETERS_FAILS)
    copy_bytes(scratch, params, 8 * words)
    i = low
    while i < high:
        end = end_of_run(nodes, i, high, args, dims)
        begin_run(kernel, scratch, nodes, fails, i)
        call_address(ld(kernel, K_RUN), scratch, 0, end - i, scratch + table_bytes(words))
        i = end
