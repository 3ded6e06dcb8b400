"""Marshalling of the sums of adjoints: the CPU runs this code in place of a GPU's sums, to write their parameters.

In: sums of adjoints, as `runtime.library.transpose` has written them. Out: the same rows and links in the buffer of a
stream of `kernels.cuda.marshal`, with GPU addresses, and a launch of `kernels.cuda.sums` for them. The table P ends
with the address of the stream and the number of the kernel, as for the kernels of a plan.
"""

from __future__ import annotations

from acronumba.emit.language import i64, ld, ld32, lds, st, st32
from acronumba.ir.spec import FIXED
from acronumba.kernels.cuda.marshal import region_of
from acronumba.kernels.cuda.sums import ADJOINTS
from acronumba.runtime.library.words import PARAMETERS_NODES

from acronumba.runtime.library.back_words import (  # isort: skip
    LINK_BYTES, LINK_INDEX, LINK_KEY, LINK_LAST, LINK_NEXT, LINK_SIZE, LINK_SOURCE, LINK_START, LINK_WIDTH,
    SUM_BYTES, SUM_LINKS, SUM_SIZE, SUM_TO,
)  # fmt: skip

from acronumba.runtime.library.launch_words import (  # isort: skip
    ROW_BATCH, ROW_BYTES, ROW_FAILS, ROW_KERNEL, ROW_LEVEL, ROW_NODES, ROW_P, ROW_STARTS, ROW_WARP, STREAM_ARENA,
    STREAM_CAPACITY, STREAM_DELTA, STREAM_END, STREAM_GRANULE, STREAM_LAUNCHES, STREAM_LEVELS, STREAM_MARKS,
    STREAM_MARK_ROOM, STREAM_MISSING, STREAM_MOST, STREAM_TABLE, STREAM_TOP, STREAM_TOTAL, STREAM_USED, TASKS_BYTES,
    TASKS_END, TASKS_FIRST, TASKS_WHAT, TASKS_WORDS,
)  # fmt: skip


def note_sums(P: i64, low: i64, high: i64, S: i64) -> None:
    """Write the parameters of the sums low..high: the table P, one job, addresses of the rows, the rows, the links."""
    stream, kernel = lds(P, FIXED, FIXED + 1)
    given = ld(P, PARAMETERS_NODES)
    count = high - low
    top, delta = lds(stream, STREAM_TOP, STREAM_DELTA)
    job = top + 16
    table = job + TASKS_BYTES
    places = table + 8
    row = places + 8 * count
    link = row + SUM_BYTES * count
    end = (link + LINK_BYTES * count_links(given, low, high) + 15) & -16
    if room_for(stream, end) == 0:
        return
    st(top, 0, job + delta)
    st(top, 1, 1)
    st(job, TASKS_END, count)
    st(job, TASKS_FIRST, 0)
    st(job, TASKS_WHAT, ADJOINTS)
    st(job, TASKS_WORDS, table + delta)
    st(table, 0, places + delta)
    marked = marked_bytes(stream)
    level = 0
    if marked != ld(ld(stream, STREAM_USED)):
        level = ld(stream, STREAM_LEVELS)
    for k in range(count):
        source = ld(given, low + k)
        st(places, k, row + delta)
        st(row, SUM_TO, there(stream, ld(source, SUM_TO)))
        st(row, SUM_SIZE, ld(source, SUM_SIZE))
        next = ld(source, SUM_LINKS)
        st(row, SUM_LINKS, 0)
        if next != 0:
            st(row, SUM_LINKS, link + delta)
        while next != 0:
            level = max(level, mark_at(stream, marked, ld(next, LINK_SOURCE)))
            level = max(level, mark_at(stream, marked, ld(next, LINK_INDEX)))
            write_link(stream, next, link, delta)
            next = ld(next, LINK_NEXT)
            link = link + LINK_BYTES
        row = row + SUM_BYTES
    for k in range(count):
        source = ld(given, low + k)
        mark(stream, marked, ld(source, SUM_TO), ld(source, SUM_SIZE), level + 1)
    st(stream, STREAM_TOP, end)
    add_launch(stream, kernel, count, top + delta, level)


def marked_bytes(stream: i64) -> i64:
    """Return the bytes of the arena that marks say levels of: all, or none. See `kernels.cuda.marshal`."""
    used = ld(ld(stream, STREAM_USED))
    if used >> ld(ld(stream, STREAM_GRANULE)) < ld(stream, STREAM_MARK_ROOM):
        return used
    return 0


def mark_at(stream: i64, marked: i64, at: i64) -> i64:
    """Return the level behind which what lies at an address of the processor is computed."""
    offset = at - ld(ld(stream, STREAM_ARENA))
    if (offset < 0) | (offset >= marked):
        return 0
    return ld32(ld(stream, STREAM_MARKS), offset >> ld(ld(stream, STREAM_GRANULE)))


def mark(stream: i64, marked: i64, at: i64, size: i64, level: i64) -> None:
    """Note that so many bytes at an address of the processor are computed in front of a level."""
    first = at - ld(ld(stream, STREAM_ARENA))
    granule = ld(ld(stream, STREAM_GRANULE))
    if (first >= 0) & (first + size <= marked):
        for k in range(first >> granule, ((first + size - 1) >> granule) + 1):
            st32(ld(stream, STREAM_MARKS), k, level)


def count_links(given: i64, low: i64, high: i64) -> i64:
    """Return the number of links of sums."""
    count = 0
    for k in range(low, high):
        next = ld(ld(given, k), SUM_LINKS)
        while next != 0:
            count = count + 1
            next = ld(next, LINK_NEXT)
    return count


def room_for(stream: i64, end: i64) -> i64:
    """Return whether the buffer and the table of launches have room; if not, count the missing bytes."""
    full = ld(stream, STREAM_MISSING)
    if ld(stream, STREAM_LAUNCHES) >= ld(stream, STREAM_CAPACITY):
        full = 1
    if end > ld(stream, STREAM_END):
        full = 1
    if full == 0:
        return 1
    st(stream, STREAM_MISSING, ld(stream, STREAM_MISSING) + end - ld(stream, STREAM_TOP))
    return 0


def write_link(stream: i64, link: i64, to: i64, delta: i64) -> None:
    """Copy a link; the next one, if it has one, is written behind it."""
    st(to, LINK_SOURCE, there(stream, ld(link, LINK_SOURCE)))
    st(to, LINK_KEY, ld(link, LINK_KEY))
    st(to, LINK_NEXT, 0)
    if ld(link, LINK_NEXT) != 0:
        st(to, LINK_NEXT, to + LINK_BYTES + delta)
    st(to, LINK_SIZE, ld(link, LINK_SIZE))
    st(to, LINK_START, ld(link, LINK_START))
    st(to, LINK_INDEX, there(stream, ld(link, LINK_INDEX)))
    st(to, LINK_WIDTH, ld(link, LINK_WIDTH))
    st(to, LINK_LAST, ld(link, LINK_LAST))


def there(stream: i64, at: i64) -> i64:
    """Return the GPU address for a CPU address; 0 if it is in no region, or 0."""
    region = region_of(stream, at)
    if region == 0:
        return 0
    return at + ld(region, 2)


def add_launch(stream: i64, kernel: i64, nodes: i64, table: i64, level: i64) -> None:
    """Add a row to the table of launches."""
    count = ld(stream, STREAM_LAUNCHES)
    row = ld(stream, STREAM_TABLE) + ROW_BYTES * count
    st(row, ROW_KERNEL, kernel)
    st(row, ROW_NODES, nodes)
    st(row, ROW_P, table)
    st(row, ROW_FAILS, 0)
    st(row, ROW_BATCH, 0)
    st(row, ROW_WARP, 0)
    st(row, ROW_STARTS, 0)
    st(row, ROW_LEVEL, level)
    st(stream, STREAM_LEVELS, max(ld(stream, STREAM_LEVELS), level + 1))
    st(stream, STREAM_TOTAL, ld(stream, STREAM_TOTAL) + nodes)
    st(stream, STREAM_MOST, max(ld(stream, STREAM_MOST), nodes))
    st(stream, STREAM_LAUNCHES, count + 1)
