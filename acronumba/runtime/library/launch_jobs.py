"""Sums over nodes behind a backward pass: the launches of `kernels.cuda.sums` that add up the gradients.

In: rows of JOB, one for each sum, whose rows have addresses of the processor. Out: in the buffer of a stream of
`kernels.cuda.marshal`, behind the launches that are there, the addresses of the rows on the GPU, the words of the
functions, and a launch for each level and kernel. Jobs of one level do not depend on each other.

A long sum is cut into parts, to occupy more warps: the same ones on every device. Their sums come in the first level,
and what adds them up in one behind it. Jobs that add to the same total come one after the other.
"""

from __future__ import annotations

from acronumba.emit.language import copy_bytes, fill_bytes, i64, ld, lds, st
from acronumba.ir.spec import FIXED
from acronumba.kernels.cuda.marshal import region_of
from acronumba.kernels.cuda.sums import COLUMNS, OUTER, ROWS, SPANS
from acronumba.runtime.library.launch_sums import add_launch, room_for

from acronumba.runtime.library.launch_words import (  # isort: skip
    COLUMNS_C, COLUMNS_COUNT, COLUMNS_FIRST, COLUMNS_G, COLUMNS_K, JOB_BYTES, JOB_COLUMNS, JOB_HEIGHT, JOB_ITEM,
    JOB_KERNEL, JOB_LEVEL, JOB_MANY, JOB_PARTS, JOB_PLACE, JOB_SHIFT, JOB_SIZE, JOB_SPAN, JOB_TASKS, JOB_TOTAL,
    JOB_WHAT, JOB_WORDS, JOB_WORDS_COUNT, OUTER_C, OUTER_COUNT, OUTER_FIRST, OUTER_G, OUTER_K, OUTER_M, OUTER_STEP,
    OUTER_X, ROWS_C, ROWS_G, ROWS_INDEX, ROWS_ORDER, ROWS_STARTS, SPANS_APART, SPANS_C, SPANS_COUNT, SPANS_FIRST,
    SPANS_K, SPANS_M, SPANS_PANELS, SPANS_PARTS, SPANS_STEP, STREAM_CAPACITY, STREAM_DELTA, STREAM_LAUNCHES,
    STREAM_LEVELS, STREAM_MISSING, STREAM_TOP, TASKS_BYTES, TASKS_END, TASKS_FIRST, TASKS_WHAT, TASKS_WORDS,
)  # fmt: skip

LANES = 32


def cut_jobs(jobs: i64, count: i64, outer: i64, columns: i64, most: i64) -> i64:
    """Cut long sums into parts, and give each job its level; return the bytes of the sums of all parts.

    Parameters
    ----------
    outer, columns
        Rows of a part of these functions, at least.
    most
        Bytes that the parts of a sum may take, about.
    """
    total = 0
    for j in range(count):
        job = jobs + JOB_BYTES * j
        what, many = lds(job, JOB_WHAT, JOB_MANY)
        words = job + 8 * JOB_WORDS
        span = many
        if what == OUTER:
            span = outer
            st(job, JOB_HEIGHT, ld(words, OUTER_M))
            st(job, JOB_COLUMNS, ld(words, OUTER_K))
        elif what == COLUMNS:
            span = columns
            st(job, JOB_HEIGHT, 1)
            st(job, JOB_COLUMNS, ld(words, COLUMNS_K))
        parts = 0
        if many > span:
            size = ld(job, JOB_HEIGHT) * ld(job, JOB_COLUMNS) * ld(job, JOB_ITEM)
            span = span * max((many * size + span * most - 1) // (span * most), 1)
            parts = (many + span - 1) // span
            st(job, JOB_SPAN, span)
            st(job, JOB_SIZE, size)
            st(job, JOB_PLACE, total)
            total = total + parts * size
        st(job, JOB_PARTS, parts)
        level = min(parts, 1)
        if ld(job, JOB_TOTAL) >= 0:  # the last job before that adds to the same total
            level = max(level, ld(jobs + JOB_BYTES * ld(job, JOB_TOTAL), JOB_LEVEL) + 1)
        st(job, JOB_LEVEL, level)
    return total


def note_jobs(stream: i64, jobs: i64, count: i64, kernel: i64, kernels: i64, parts: i64) -> None:
    """Write what jobs need, and their launches; `parts`: the GPU's address of the sums of parts.

    `kernel`: the first of the kernels that do jobs.
    """
    levels = 0
    size = 0
    for j in range(count):
        job = jobs + JOB_BYTES * j
        levels = max(levels, ld(job, JOB_LEVEL) + 1)
        size = size + 8 * (3 * ld(job, JOB_MANY) + ld(job, JOB_TASKS) + 1)
        size = size + (ld(job, JOB_PARTS) + 1) * (TASKS_BYTES + 8 * (FIXED + JOB_WORDS_COUNT))
    launches = levels * kernels
    before = ld(stream, STREAM_LEVELS)
    if room_for(stream, ld(stream, STREAM_TOP) + size + 32 * launches) == 0:
        return
    if ld(stream, STREAM_LAUNCHES) + launches > ld(stream, STREAM_CAPACITY):
        st(stream, STREAM_MISSING, 64)
        return
    for j in range(count):
        translate(stream, jobs + JOB_BYTES * j, parts)
    for level in range(levels):
        for k in range(kernel, kernel + kernels):
            add_level(stream, jobs, count, level, k, before + level)


def translate(stream: i64, job: i64, parts: i64) -> None:
    """Write what a job reads, and put addresses of the GPU in place of the processor's."""
    what, many, shift = lds(job, JOB_WHAT, JOB_MANY, JOB_SHIFT)
    words = job + 8 * JOB_WORDS
    st(job, JOB_PLACE, ld(job, JOB_PLACE) + parts)
    if what == OUTER:
        st(words, OUTER_C, ld(words, OUTER_C) + shift)
        st(words, OUTER_X, write_places(stream, ld(words, OUTER_X), many))
        st(words, OUTER_G, write_places(stream, ld(words, OUTER_G), many))
    elif what == COLUMNS:
        st(words, COLUMNS_C, ld(words, COLUMNS_C) + shift)
        st(words, COLUMNS_G, write_places(stream, ld(words, COLUMNS_G), many))
    elif what == ROWS:
        st(words, ROWS_C, ld(words, ROWS_C) + shift)
        st(words, ROWS_G, write_places(stream, ld(words, ROWS_G), many))
        st(words, ROWS_ORDER, write_numbers(stream, ld(words, ROWS_ORDER), many))
        st(words, ROWS_INDEX, write_numbers(stream, ld(words, ROWS_INDEX), many))
        st(words, ROWS_STARTS, write_numbers(stream, ld(words, ROWS_STARTS), ld(job, JOB_TASKS) + 1))


def write_numbers(stream: i64, source: i64, count: i64) -> i64:
    """Copy numbers to the buffer; return the GPU's address of the copy."""
    to = ld(stream, STREAM_TOP)
    copy_bytes(to, source, 8 * count)
    st(stream, STREAM_TOP, to + 8 * count)
    return to + ld(stream, STREAM_DELTA)


def write_places(stream: i64, source: i64, count: i64) -> i64:
    """Copy addresses to the buffer as those of the GPU, 0 for what is in no region; return where the GPU has them."""
    to = ld(stream, STREAM_TOP)
    start = 0
    end = 0
    shift = 0
    for k in range(count):
        at = ld(source, k)
        if (at < start) | (at >= end):
            region = region_of(stream, at)
            if region != 0:
                start, end, shift = lds(region, 0, 1, 2)
        if (at < start) | (at >= end):
            st(to, k, 0)
        else:
            st(to, k, at + shift)
    st(stream, STREAM_TOP, to + 8 * count)
    return to + ld(stream, STREAM_DELTA)


def add_level(stream: i64, jobs: i64, count: i64, level: i64, kernel: i64, behind: i64) -> None:
    """Add the launch of a kernel for a level of jobs; `behind`: the level of the launch."""
    rows = 0
    for j in range(count):
        job = jobs + JOB_BYTES * j
        if ld(job, JOB_KERNEL) == kernel:
            if level == 0:
                rows = rows + ld(job, JOB_PARTS)
            if ld(job, JOB_LEVEL) == level:
                rows = rows + 1
    if rows == 0:
        return
    top, delta = lds(stream, STREAM_TOP, STREAM_DELTA)
    table = top + 16
    words = table + TASKS_BYTES * rows
    st(top, 0, table + delta)
    st(top, 1, rows)
    tasks = 0
    for j in range(count):
        job = jobs + JOB_BYTES * j
        if ld(job, JOB_KERNEL) == kernel:
            if level == 0:
                for k in range(ld(job, JOB_PARTS)):
                    begin_task(table, words, ld(job, JOB_WHAT), tasks, ld(job, JOB_TASKS), delta)
                    write_span(job, words + 8 * FIXED, k)
                    tasks = tasks + ld(job, JOB_TASKS)
                    table = table + TASKS_BYTES
                    words = words + 8 * (FIXED + JOB_WORDS_COUNT)
            if ld(job, JOB_LEVEL) == level:
                tasks = write_whole(job, table, words, tasks, delta)
                table = table + TASKS_BYTES
                words = words + 8 * (FIXED + JOB_WORDS_COUNT)
    st(stream, STREAM_TOP, (words + 15) & -16)
    add_launch(stream, kernel, tasks, top + delta, behind)


def begin_task(table: i64, words: i64, what: i64, before: i64, tasks: i64, delta: i64) -> None:
    """Write a row of TASKS, and the words that all functions have."""
    st(table, TASKS_FIRST, before)
    st(table, TASKS_END, before + tasks)
    st(table, TASKS_WHAT, what)
    st(table, TASKS_WORDS, words + delta)
    fill_bytes(words, 0, 8 * (FIXED + JOB_WORDS_COUNT))


def write_span(job: i64, to: i64, k: i64) -> None:
    """Write the words of part k of a long sum."""
    copy_bytes(to, job + 8 * JOB_WORDS, 8 * JOB_WORDS_COUNT)
    low = k * ld(job, JOB_SPAN)
    many = min(ld(job, JOB_SPAN), ld(job, JOB_MANY) - low)
    place = ld(job, JOB_PLACE) + k * ld(job, JOB_SIZE)
    if ld(job, JOB_WHAT) == OUTER:
        st(to, OUTER_X, ld(to, OUTER_X) + 8 * low)
        st(to, OUTER_G, ld(to, OUTER_G) + 8 * low)
        st(to, OUTER_COUNT, many)
        st(to, OUTER_C, place)
        st(to, OUTER_STEP, ld(job, JOB_COLUMNS) * ld(job, JOB_ITEM))
        st(to, OUTER_FIRST, 1)
    else:
        st(to, COLUMNS_G, ld(to, COLUMNS_G) + 8 * low)
        st(to, COLUMNS_COUNT, many)
        st(to, COLUMNS_C, place)
        st(to, COLUMNS_FIRST, 1)


def write_whole(job: i64, table: i64, words: i64, before: i64, delta: i64) -> i64:
    """Write the task of a job, or of what adds up its parts; return the number of tasks up to it."""
    given = job + 8 * JOB_WORDS
    to = words + 8 * FIXED
    if ld(job, JOB_PARTS) == 0:
        begin_task(table, words, ld(job, JOB_WHAT), before, ld(job, JOB_TASKS), delta)
        copy_bytes(to, given, 8 * JOB_WORDS_COUNT)
        return before + ld(job, JOB_TASKS)
    rows, columns = lds(job, JOB_HEIGHT, JOB_COLUMNS)
    panels = (columns + LANES - 1) // LANES
    begin_task(table, words, SPANS, before, rows * panels, delta)
    st(to, SPANS_PARTS, ld(job, JOB_PLACE))
    st(to, SPANS_APART, ld(job, JOB_SIZE))
    st(to, SPANS_COUNT, ld(job, JOB_PARTS))
    st(to, SPANS_M, rows)
    st(to, SPANS_K, columns)
    st(to, SPANS_PANELS, panels)
    if ld(job, JOB_WHAT) == OUTER:
        st(to, SPANS_C, ld(given, OUTER_C))
        st(to, SPANS_STEP, ld(given, OUTER_STEP))
        st(to, SPANS_FIRST, ld(given, OUTER_FIRST))
    else:
        st(to, SPANS_C, ld(given, COLUMNS_C))
        st(to, SPANS_FIRST, ld(given, COLUMNS_FIRST))
    return before + rows * panels
