"""Nodes of several rows: the number of rows, and argument words for each.

A node of several rows has one result record, whose shape begins with the number of rows. Just before its batch runs,
each row gets separate argument words, so that kernels see a row as they see a node.
"""

from __future__ import annotations

from acronumba.emit.language import i64, ld, lds, st
from acronumba.runtime.library.extents import plan_node
from acronumba.runtime.library.records import results_at

from acronumba.runtime.library.words import (  # isort: skip
    ARGS, K_ARGS, K_DIMS, K_RESULTS, K_ROWS, K_TENSORS, RECORD_BYTES, RECORD_DATA, RECORD_SHAPE, SIZES, TABLE,
)  # fmt: skip


def count_rows(ST: i64, k: i64, low: i64, high: i64) -> i64:
    """Return the number of rows of the nodes at low..high of the order, all of one kernel; at most 1 << 40."""
    table = ld(ST, TABLE)
    if ld(table, k + K_ROWS) == 0:
        return high - low
    args = ld(ST, ARGS)
    record = ld(table, k + K_ARGS) + ld(table, k + K_DIMS)
    count = 0
    for i in range(low, high):
        count = min(count + min(ld(ld(ld(args, i), record + RECORD_SHAPE)), 1 << 40), 1 << 40)
    return count


def rows_width(ST: i64, k: i64) -> i64:
    """Return the bytes of scratch for a row of a kernel while its batch runs: see `split_rows`."""
    kernel = ld(ST, TABLE) + 8 * k
    args, dims, results, tensors = lds(kernel, K_ARGS, K_DIMS, K_RESULTS, K_TENSORS)
    if dims != 0:
        return results_at(args, dims) + RECORD_BYTES * results + 8 * (2 + tensors)
    return 8 * (2 + args + tensors)


def split_rows(ST: i64, k: i64, low: i64, high: i64, words: i64, count: i64) -> None:
    """Write separate argument words for each row of the nodes at low..high.

    At `words` are the addresses of the rows' words, then `count` words for failures, then for each row its argument
    words; if there are run-time extents, these and records of its results, as in the row of a node; and for each of its
    tensors the first word of a value record.
    """
    table, args = lds(ST, TABLE, ARGS)
    how = ld(table, k + K_ROWS)
    given = ld(table, k + K_ARGS)
    width = rows_width(ST, k) // 8 - 2
    behind = width - ld(table, k + K_TENSORS)
    at = words + 16 * count
    for r in range(count):
        st(words, r, at + 8 * width * r)
    for i in range(low, high):
        node = ld(args, i)
        rows = count_rows(ST, k, i, i + 1)
        if ld(table, k + K_DIMS) != 0:
            extend_rows(ST, k, node, rows, at, width)
        for j in range(given):
            word = ld(node, j)
            size = ld(how, j)
            to = at + 8 * j
            if size == 0:
                for r in range(rows):
                    st(to, width * r, word)
            else:
                data = ld(word, RECORD_DATA)
                if size < 0:
                    for r in range(rows):
                        st(to, width * r, ld(data, r))
                else:
                    shape = ld(word, RECORD_SHAPE)
                    for axis in range(1, ld(how, given + j)):
                        size = size * ld(shape, axis)
                    record = at + 8 * (behind + j)
                    for r in range(rows):
                        st(record, width * r, data + size * r)
                        st(to, width * r, record + 8 * width * r)
        at = at + 8 * width * rows


def extend_rows(ST: i64, k: i64, node: i64, rows: i64, at: i64, width: i64) -> None:
    """Write run-time extents and addresses of results for each row of a node, `width` words each from `at` on."""
    kernel = ld(ST, TABLE) + 8 * k
    args, dims, results = lds(kernel, K_ARGS, K_DIMS, K_RESULTS)
    for j in range(args, args + dims):
        for r in range(rows):
            st(at + 8 * j, width * r, ld(node, j))
    plan_node(ST, k, node + 8 * args, 0)
    for j in range(results):
        place = results_at(args, dims) + RECORD_BYTES * j
        size = ld(ld(ST, SIZES), 1 + j)
        for r in range(rows):
            st(at + place, width * r + RECORD_DATA, ld(node + place, RECORD_DATA) + size * r)
