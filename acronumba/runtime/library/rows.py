"""Nodes of several rows: how many there are, and argument words for each.

A node of several rows has one result record, whose shape begins with the number of rows. Just before its batch runs,
each row gets argument words of its own, so that kernels see a row as they see a node.
"""

from __future__ import annotations

from acronumba.emit.language import i64, ld, lds, st

from acronumba.runtime.library.words import (  # isort: skip
    ARGS, K_ARGS, K_DIMS, K_ROWS, K_TENSORS, RECORD_DATA, RECORD_SHAPE, TABLE,
)  # fmt: skip


def count_rows(ST: i64, k: i64, low: i64, high: i64) -> i64:
    """Return how many rows the nodes at low..high of the order have, all of one kernel; at most 1 << 40."""
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
    """Return the bytes that a row of a kernel takes while its batch runs: see `split_rows`."""
    table = ld(ST, TABLE)
    return 8 * (2 + ld(table, k + K_ARGS) + ld(table, k + K_TENSORS))


def split_rows(ST: i64, k: i64, low: i64, high: i64, words: i64, count: i64) -> None:
    """Give each row of the nodes at low..high argument words of its own.

    At `words` are the addresses of the rows' words, then `count` words for failures, then for each row its argument
    words and, for each of its tensors, the first word of a value record.
    """
    table, args = lds(ST, TABLE, ARGS)
    how = ld(table, k + K_ROWS)
    given = ld(table, k + K_ARGS)
    width = given + ld(table, k + K_TENSORS)
    at = words + 16 * count
    for r in range(count):
        st(words, r, at + 8 * width * r)
    for i in range(low, high):
        node = ld(args, i)
        rows = count_rows(ST, k, i, i + 1)
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
                    record = at + 8 * (given + j)
                    for r in range(rows):
                        st(record, width * r, data + size * r)
                        st(to, width * r, record + 8 * width * r)
        at = at + 8 * width * rows
