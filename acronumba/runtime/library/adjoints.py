"""Adjoints while the graph is transposed: their parts, the addresses of these, and the rows of sums over nodes.

An adjoint has a head (`HEAD`). A single part is named in the head; several are links of a list, which is sorted, when
they are added up, by the order in which their forward nodes were recorded.
"""

from __future__ import annotations

from acronumba.emit.language import i64, ld, ld32, lds, st
from acronumba.runtime.library.own import number_of_own
from acronumba.runtime.library.records import node_of

from acronumba.runtime.library.words import (  # isort: skip
    INSTANCE, KIND, N, K_ARGS, K_DIMS, K_RESULTS, K_WORDS, RECORD_BYTES, RECORD_DATA, RECORD_HEAD, RECORD_SHAPE, ROW,
    TABLE,
)  # fmt: skip

from acronumba.runtime.library.back_words import (  # isort: skip
    AS_NUMBER, BK_BEFORE, BK_BYTES, BK_DTYPES, BK_FIRST, BK_FORWARD, BK_OWN, BK_PARTS, BK_RECORDS, BK_RESULTS, BK_ROWS,
    BK_SUMMED, BK_WIDTH, B_ARRAYS, B_COUNTS, B_HEADS, B_LINKS, B_LINKS_END, B_LOSS_OF, B_LOST,
    B_MOST, B_OWN, B_OWNS, B_PLACE, B_PLACES, B_ROWS, B_ROW_OF, B_SHARED, B_SHAREDS, B_TABLE, B_THERE,
    EXTENT_COUNT, EXTENT_DIMS, EXTENT_FACTOR, HEAD_BYTES, HEAD_KEY, HEAD_SOURCE, LINK_BYTES, LINK_INDEX, LINK_KEY,
    LINK_LAST, LINK_NEXT, LINK_SIZE, LINK_SOURCE, LINK_START, LINK_WIDTH, OF_ADJOINT, OF_ARGUMENT, OF_BACKWARD,
    OF_RESULT, PART_BYTES, PART_READ, PART_ROWS, PART_SOURCE, PART_STEP, SOURCE_KIND, SOURCE_NUMBER, SOURCE_ROWS,
    SOURCE_ROW_BYTES, SOURCE_ROW_KIND, SOURCE_ROW_NUMBER, SOURCE_START, SUM_BYTES, SUM_LINKS, SUM_SIZE, SUM_TO,
)  # fmt: skip


def rows_of(ST: i64, kernel: i64, v: i64) -> i64:
    """Return the number of rows of a node."""
    if ld(kernel, BK_ROWS) == 0:
        return 1
    return ld(ld(ld(ld(ST, ROW), v) + ld(kernel, BK_RECORDS), RECORD_SHAPE))


def forward_of(ST: i64, W: i64, kernel: i64, v: i64, r: i64) -> i64:
    """Return the row of a forward node; for a node of several rows, the stand-in for row r, behind its backward row."""
    if ld(kernel, BK_ROWS) == 0:
        return ld(ld(ST, ROW), v)
    words = ld(kernel, BK_BEFORE) + ld(kernel, BK_RESULTS) + ld(kernel, BK_OWN)
    return ld(ld(W, B_ROW_OF), v) + r * ld(kernel, BK_WIDTH) + 8 * words


def stand_in(ST: i64, kernel: i64, k: i64, node: i64, r: i64, to: i64, sizes: i64) -> None:
    """Write the stand-in for row r of a forward node: argument words, extents, and addresses of results.

    Behind it lies, for each argument of which the row reads a part, the first word of a value record.
    """
    at = ld(ST, TABLE) + 8 * K_WORDS * k
    args, dims, results = lds(at, K_ARGS, K_DIMS, K_RESULTS)
    how = ld(kernel, BK_ROWS)
    behind = to + ld(kernel, BK_RECORDS) + RECORD_BYTES * results
    for j in range(args):
        size = ld(how, j)
        word = ld(node, j)
        if size == 0:
            st(to, j, word)
        elif size < 0:
            st(to, j, ld(ld(word, RECORD_DATA), r))
        else:
            shape = ld(word, RECORD_SHAPE)
            for axis in range(1, ld(how, args + j)):
                size = size * ld(shape, axis)
            st(behind, j, ld(word, RECORD_DATA) + size * r)
            st(to, j, behind + 8 * j)
    for j in range(args, args + dims):
        st(to, j, ld(node, j))
    for j in range(results):
        place = ld(kernel, BK_RECORDS) + RECORD_BYTES * j
        st(to + place, RECORD_DATA, ld(node + place, RECORD_DATA) + r * ld(sizes, j))


def head_of(ST: i64, W: i64, record: i64, reader: i64) -> i64:
    """Return the head of the adjoint of a value that a node (or n + a loss) reads; 0 if the value has none."""
    v = node_of(ld(record, RECORD_HEAD))
    heads = ld(W, B_HEADS)
    most = ld(W, B_MOST)
    if v >= 0:
        kernel = ld(W, B_TABLE) + BK_BYTES * ld32(ld(ST, KIND), v)
        j = (record - ld(ld(ST, ROW), v) - ld(kernel, BK_RECORDS)) // RECORD_BYTES
        if ld(ld(kernel, BK_DTYPES), j) < 0:
            return 0
        return heads + HEAD_BYTES * (v * most + j)
    n = ld(ST, N)
    k = (record - ld(W, B_SHARED)) // RECORD_BYTES
    if record < ld(W, B_SHARED):
        k = -1
    if k >= ld(W, B_SHAREDS):
        k = -1
    if k < 0:
        if ld(W, B_OWNS) == 0:
            return 0
        if reader >= n:
            instance = ld(ld(W, B_LOSS_OF), reader - n)
        else:
            instance = ld32(ld(ST, INSTANCE), reader)
        k = number_of_own(ld(W, B_OWN), ld(W, B_OWNS), ld(record, RECORD_DATA), instance)
        if k < 0:
            return 0
        k = k + ld(W, B_SHAREDS)
    return heads + HEAD_BYTES * (n * most + k)


def give(W: i64, head: i64, source: i64, key: i64, size: i64, start: i64, index: i64, width: i64, last: i64) -> None:
    """Add a part to an adjoint; links are sorted as long as later parts have lower keys, see `in_order`."""
    known = ld(head, HEAD_KEY)
    if known == 0:
        if size < 0:
            st(head, HEAD_SOURCE, source)
            st(head, HEAD_KEY, key + 1)
            return
        st(head, HEAD_SOURCE, 0)
    if known > 0:
        st(head, HEAD_SOURCE, new_link(W, ld(head, HEAD_SOURCE), known - 1))
    st(head, HEAD_KEY, -1)
    link = new_link(W, source, key)
    if link == 0:
        return
    st(link, LINK_SIZE, size)
    st(link, LINK_START, start)
    st(link, LINK_INDEX, index)
    st(link, LINK_WIDTH, width)
    st(link, LINK_LAST, last)
    st(link, LINK_NEXT, ld(head, HEAD_SOURCE))
    st(head, HEAD_SOURCE, link)


def new_link(W: i64, source: i64, key: i64) -> i64:
    """Return a new link for the only part of an adjoint; 0 if the memory of links is full."""
    link = ld(W, B_LINKS)
    st(W, B_LINKS, link + LINK_BYTES)
    if link + LINK_BYTES > ld(W, B_LINKS_END):
        st(W, B_LOST, 1)
        return 0
    st(link, LINK_SOURCE, source)
    st(link, LINK_KEY, key)
    st(link, LINK_NEXT, 0)
    st(link, LINK_SIZE, -1)
    st(link, LINK_START, 0)
    st(link, LINK_INDEX, 0)
    return link


def in_order(first: i64) -> i64:
    """Sort links by their keys, stably; return the first one."""
    if first == 0:  # there was no room for links
        return 0
    while ld(last_in_order(first), LINK_NEXT) != 0:
        rest = first
        first = 0
        last = 0
        while rest != 0:  # merge two runs
            a = rest
            end = last_in_order(a)
            b = ld(end, LINK_NEXT)
            st(end, LINK_NEXT, 0)
            rest = 0
            if b != 0:
                end = last_in_order(b)
                rest = ld(end, LINK_NEXT)
                st(end, LINK_NEXT, 0)
            while a != 0 and b != 0:
                link = a
                if ld(b, LINK_KEY) < ld(a, LINK_KEY):
                    link = b
                    b = ld(b, LINK_NEXT)
                else:
                    a = ld(a, LINK_NEXT)
                if last == 0:
                    first = link
                else:
                    st(last, LINK_NEXT, link)
                last = link
            if a == 0:
                a = b
            if last == 0:
                first = a
            else:
                st(last, LINK_NEXT, a)
            last = last_in_order(a)
    return first


def last_in_order(link: i64) -> i64:
    """Return the last link of the run of non-decreasing keys that begins with `link`."""
    while ld(link, LINK_NEXT) != 0 and ld(ld(link, LINK_NEXT), LINK_KEY) >= ld(link, LINK_KEY):
        link = ld(link, LINK_NEXT)
    return link


def sum_at(W: i64, head: i64, size: i64) -> i64:
    """Return a new row for the sum of an adjoint's parts; the sum replaces them as the only part."""
    row = ld(W, B_ROWS)
    st(W, B_ROWS, row + SUM_BYTES)
    to = take_place(W, size)
    st(row, SUM_TO, to)
    st(row, SUM_SIZE, size)
    st(row, SUM_LINKS, in_order(ld(head, HEAD_SOURCE)))
    st(head, HEAD_SOURCE, to)
    st(head, HEAD_KEY, 1)
    return row


def rows_of_links(link: i64, width: i64, to: i64) -> i64:
    """Write the rows that the parts of an adjoint are for, unless `to` is 0; return their number; -1: one is for all.

    Parameters
    ----------
    link
        The first part, when the backward pass has run.
    width
        Bytes of a row.
    to
        int64[...], or 0.
    """
    count = 0
    while link != 0:
        size = ld(link, LINK_SIZE)
        if size < 0:
            return -1
        first = ld(link, LINK_START) // width
        if ld(link, LINK_INDEX) != 0:
            first = max(min(ld(ld(link, LINK_INDEX)), ld(link, LINK_LAST)), 0)
        for k in range(size // width):
            if to != 0:
                st(to, count, first + k)
            count = count + 1
        link = ld(link, LINK_NEXT)
    return count


def take_place(W: i64, size: i64) -> i64:
    """Allocate so many bytes; return the address."""
    place = ld(W, B_PLACE)
    st(W, B_PLACE, place + ((size + 63) & -64))
    return place


def extent(at: i64, dims: i64) -> i64:
    """Return a product of extents."""
    out = ld(at, EXTENT_FACTOR)
    numbers = ld(at, EXTENT_DIMS)
    for k in range(ld(at, EXTENT_COUNT)):
        out = out * ld(dims, ld(numbers, k))
    return out


def locate(W: i64, kernel: i64, forward: i64, row: i64, source: i64) -> i64:
    """Return the address of a source's data; for AS_NUMBER, the number itself."""
    kind, number, start = lds(source, SOURCE_KIND, SOURCE_NUMBER, SOURCE_START)
    if kind == AS_NUMBER:
        return ld(forward, number)
    if kind == OF_ARGUMENT:
        return ld(ld(forward, number), RECORD_DATA) + start
    if kind == OF_RESULT:
        return ld(forward + ld(kernel, BK_RECORDS) + RECORD_BYTES * number, RECORD_DATA) + start
    if kind == OF_BACKWARD:
        return ld(row, ld(kernel, BK_BEFORE) + number) + start
    if kind == OF_ADJOINT:
        return ld(row, ld(kernel, BK_BEFORE) + ld(kernel, BK_RESULTS) + number) + start
    index = 0
    of, place = lds(source, SOURCE_ROW_KIND, SOURCE_ROW_NUMBER)
    if of == AS_NUMBER:
        index = ld(forward, place)
    elif of == OF_ARGUMENT:
        index = ld(ld(ld(forward, place), RECORD_DATA))
    elif of == OF_RESULT:
        index = ld(ld(forward + ld(kernel, BK_RECORDS) + RECORD_BYTES * place, RECORD_DATA))
    else:
        index = ld(ld(row, ld(kernel, BK_BEFORE) + place))
    index = max(min(index, ld(source, SOURCE_ROWS) - 1), 0)
    return ld(ld(W, B_ARRAYS), number) + index * ld(source, SOURCE_ROW_BYTES) + start


def count_rows(W: i64, kernel: i64, entries: i64) -> None:
    """Count the rows that entries add to the parts of sums."""
    counts = ld(W, B_COUNTS) + 8 * ld(kernel, BK_FIRST)
    for p in range(ld(kernel, BK_SUMMED)):
        rows = ld(kernel, BK_PARTS) + PART_BYTES * p + 8 * PART_ROWS
        if ld(rows, EXTENT_COUNT) == 0:
            st(counts, p, ld(counts, p) + entries * ld(rows, EXTENT_FACTOR))
        else:
            for e in range(entries):
                dims = ld(ld(W, B_THERE), e) + 8 * ld(kernel, BK_FORWARD)
                st(counts, p, ld(counts, p) + extent(rows, dims))


def collect(ST: i64, W: i64) -> None:
    """Write the addresses of the rows of parts of sums, for each kernel's nodes in the order of recording."""
    for v in range(ld(ST, N)):
        kernel = ld(W, B_TABLE) + BK_BYTES * ld32(ld(ST, KIND), v)
        if ld(kernel, BK_SUMMED) != 0 and ld(ld(W, B_ROW_OF), v) != 0:
            for r in range(rows_of(ST, kernel, v)):
                collect_row(ST, W, kernel, v, r)


def collect_row(ST: i64, W: i64, kernel: i64, v: i64, r: i64) -> None:
    """Write the addresses of the parts of one row of a node."""
    row = ld(ld(W, B_ROW_OF), v) + r * ld(kernel, BK_WIDTH)
    forward = forward_of(ST, W, kernel, v, r)
    dims = forward + 8 * ld(kernel, BK_FORWARD)
    places = ld(W, B_PLACES) + 8 * ld(kernel, BK_FIRST)
    for p in range(ld(kernel, BK_SUMMED)):
        part = ld(kernel, BK_PARTS) + PART_BYTES * p
        many = extent(part + 8 * PART_ROWS, dims)
        step = extent(part + 8 * PART_STEP, dims)
        data = locate(W, kernel, forward, row, part + 8 * PART_SOURCE)
        to = ld(places, p)
        for k in range(many):
            if ld(part, PART_READ) != 0:
                st(to, k, ld(data + k * step))
            else:
                st(to, k, data + k * step)
        st(places, p, to + 8 * many)
