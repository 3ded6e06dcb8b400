"""The backward pass of a mini-batch in one call: `backward` is the entry point from Python.

It transposes the graph, runs the batches, collects the rows of sums, describes the jobs of `kernels.sums` and runs
these, all in memory that is kept from one mini-batch to the next. It returns early if memory must grow, and where
`drive` does. A device runs the batches and jobs itself: for it `backward` stops when the graph is transposed.
"""

from __future__ import annotations

from acronumba.emit.language import call_address_i64, fill_bytes, i64, ld, ld32, lds, st, st32
from acronumba.ir.spec import FIXED
from acronumba.runtime.library.adjoints import collect
from acronumba.runtime.library.transpose import make_room, transpose
from acronumba.runtime.state import DONE, EXECUTED, TO_EXECUTE

from acronumba.runtime.library.words import (  # isort: skip
    BATCHES, BSTART, FAILURES, K_COST, K_PARAMS, K_RUN, K_WORDS, N, ROUNDS, RUN_BATCHES, STAGE, STOP, STRIDE, TABLE,
    TAKEN,
)  # fmt: skip

from acronumba.runtime.library.back_words import (  # isort: skip
    ADDED, BY_COLUMNS, BY_OUTER, BY_ROWS, B_ADDING, B_BATCHES, B_COUNTS, B_DRIVE, B_ENTRIES, B_FORMS, B_FORMS_COUNT,
    B_HEADS, B_HELD, B_HELD_NEED, B_HELD_ROOM, B_HELD_ROWS, B_JOBS, B_LARGEST, B_LINKS, B_LINKS_AT, B_LOST, B_MADE,
    B_MOST, B_OWNS, B_PARTS, B_PLACE, B_PLACES, B_PLACE_AT, B_PLACE_END, B_ROOM_BATCHES, B_ROOM_BYTES,
    B_ROOM_ENTRIES, B_ROOM_HEADS, B_ROOM_INPUTS, B_ROOM_NODES, B_ROWS, B_ROWS_AT, B_ROW_BYTES, B_SCRATCH, B_SHAREDS,
    B_SLOTS, B_STAGE, B_STARTS, B_STOP, B_TOTALS, B_ZEROS_SIZE, COLUMNS_C, COLUMNS_COUNT, COLUMNS_FIRST, COLUMNS_G,
    COLUMNS_K, FORM_BEGIN, FORM_BYTES, FORM_EACH, FORM_FIRST, FORM_FLOPS, FORM_HOW, FORM_K, FORM_M, FORM_PANELS,
    FORM_RUN, FORM_SLOT, FORM_SORT, FORM_STEP, FORM_TASKS, FORM_WHOLE, HEAD_BYTES, HEAD_KEY, HEAD_SOURCE,
    NEEDS_HELD, NEEDS_MEMORY, NEEDS_ROOM, NEEDS_SCRATCH, OUTER_C, OUTER_COUNT, OUTER_EACH, OUTER_FIRST, OUTER_G,
    OUTER_K, OUTER_M, OUTER_PANELS, OUTER_STEP, OUTER_X, ROWS_C, ROWS_G, ROWS_INDEX, ROWS_K, ROWS_ORDER,
    ROWS_STARTS, SUM_BYTES, TOTAL_BLANK, TOTAL_BYTES, TOTAL_COLUMNS, TOTAL_COUNT, TOTAL_SHARED, TOTAL_SIZE,
    TOTAL_TASKS, TOTAL_TO, TO_ADD, TO_COLLECT, TO_COUNT, TO_RUN, TO_TRANSPOSE,
)  # fmt: skip


def backward(ST: i64, W: i64, BT: i64) -> i64:
    """Run the stages of a backward pass up to `stop`; called again, go on where it returned."""
    if ld(W, B_STAGE) == TO_COUNT:
        make_room(ST, W)
        if lacks_room(ST, W) != 0:
            return NEEDS_ROOM
        st(W, B_STAGE, TO_TRANSPOSE)
    if ld(W, B_STAGE) == TO_TRANSPOSE:
        begin(W)
        transpose(ST, W, BT)
        lost, place, end, largest, zeros = lds(W, B_LOST, B_PLACE, B_PLACE_END, B_LARGEST, B_ZEROS_SIZE)
        if lost != 0 or place > end or largest > zeros:
            return NEEDS_MEMORY
        begin_batches(BT, ld(W, B_BATCHES))
        st(W, B_STAGE, TO_RUN)
    if ld(W, B_STAGE) == ld(W, B_STOP):
        return DONE
    if ld(W, B_STAGE) == TO_RUN:
        if ((ld(W, B_SCRATCH) + 127) & -64) > ld(BT, STRIDE):
            return NEEDS_SCRATCH
        status = call_address_i64(ld(W, B_DRIVE), BT)
        if status != DONE:
            return status
        st(W, B_STAGE, TO_COLLECT)
    if ld(W, B_STAGE) == TO_COLLECT:
        place_parts(W)
        if ld(W, B_HELD_NEED) > ld(W, B_HELD_ROOM):
            return NEEDS_HELD
        collect(ST, W)
        make_jobs(ST, W)
        begin_batches(ld(W, B_ADDING), ld(W, B_JOBS))
        st(W, B_STAGE, TO_ADD)
    if ld(W, B_STAGE) == TO_ADD:
        status = call_address_i64(ld(W, B_DRIVE), ld(W, B_ADDING))
        if status != DONE:
            return status
        st(W, B_STAGE, ADDED)
    return DONE


def lacks_room(ST: i64, W: i64) -> i64:
    """Return whether a table is too small for the recorded graph."""
    n, inputs, entries, batches = ld(ST, N), ld(W, B_SHAREDS) + ld(W, B_OWNS), ld(W, B_ENTRIES), ld(ST, BATCHES)
    heads = n * ld(W, B_MOST) + inputs
    size = ld(W, B_ROW_BYTES) + SUM_BYTES * heads
    of_nodes, of_inputs, of_heads = lds(W, B_ROOM_NODES, B_ROOM_INPUTS, B_ROOM_HEADS)
    of_entries, of_bytes, of_batches = lds(W, B_ROOM_ENTRIES, B_ROOM_BYTES, B_ROOM_BATCHES)
    lacks = 0
    if n > of_nodes or inputs > of_inputs or heads > of_heads:
        lacks = 1
    if entries > of_entries or size > of_bytes or batches > of_batches:
        lacks = 1
    return lacks


def begin(W: i64) -> None:
    """Begin the transposition, with memory that nothing has been put in."""
    st(W, B_ROWS, ld(W, B_ROWS_AT))
    st(W, B_LINKS, ld(W, B_LINKS_AT))
    st(W, B_PLACE, ld(W, B_PLACE_AT))
    st(W, B_MADE, 0)
    st(W, B_BATCHES, 0)
    st(W, B_SCRATCH, 0)
    st(W, B_LARGEST, 0)
    st(W, B_LOST, 0)
    fill_bytes(ld(W, B_COUNTS), 0, 8 * ld(W, B_PARTS))


def begin_batches(BT: i64, batches: i64) -> None:
    """Let `drive` run the first batches of a table."""
    st(BT, BATCHES, batches)
    st(BT, STAGE, TO_EXECUTE)
    st(BT, STOP, EXECUTED)
    st(BT, RUN_BATCHES, 0)
    st(BT, FAILURES, 0)
    st(BT, TAKEN, 0)
    st(BT, ROUNDS, 0)


def place_parts(W: i64) -> None:
    """Write where the rows of each part begin, and how many words these and the tables of jobs need."""
    counts, starts, places = lds(W, B_COUNTS, B_STARTS, B_PLACES)
    need = 0
    for p in range(ld(W, B_PARTS)):
        at = ld(W, B_HELD) + 8 * need
        st(starts, p, at)
        st(places, p, at)
        need = need + ld(counts, p)
    st(W, B_HELD_ROWS, need)
    for f in range(ld(W, B_FORMS_COUNT)):
        form = ld(W, B_FORMS) + FORM_BYTES * f
        if ld(form, FORM_HOW) == BY_ROWS:
            need = need + words_of_table(form, ld(counts, ld(form, FORM_FIRST)))
    st(W, B_HELD_NEED, need)


def words_of_table(form: i64, count: i64) -> i64:
    """Return the words that the job of a table needs: numbers of rows, their order, its starts, and counts."""
    return 3 * count + ld(form, FORM_M) + 2


def make_jobs(ST: i64, W: i64) -> None:
    """Describe the jobs of all sums; sums without any row are set to zeros."""
    heads = ld(W, B_HEADS) + HEAD_BYTES * ld(ST, N) * ld(W, B_MOST)
    totals, slots, counts = lds(W, B_TOTALS, B_SLOTS, B_COUNTS)
    st(W, B_JOBS, 0)
    for k in range(slots):
        total = totals + TOTAL_BYTES * k
        shared = ld(total, TOTAL_SHARED)
        st(total, TOTAL_BLANK, 1)
        if shared >= 0:
            if ld(total, TOTAL_SIZE) == 0:
                st(total, TOTAL_BLANK, 0)
            elif ld(heads + HEAD_BYTES * shared, HEAD_KEY) != 0:
                add_columns(W, total, heads + HEAD_BYTES * shared + 8 * HEAD_SOURCE)
    table = ld(W, B_HELD) + 8 * ld(W, B_HELD_ROWS)
    for f in range(ld(W, B_FORMS_COUNT)):
        form = ld(W, B_FORMS) + FORM_BYTES * f
        count = ld(counts, ld(form, FORM_FIRST))
        if count != 0:
            add_form(W, form, totals + TOTAL_BYTES * ld(form, FORM_SLOT), count, table)
            if ld(form, FORM_HOW) == BY_ROWS:
                table = table + 8 * words_of_table(form, count)
    for k in range(slots):
        total = totals + TOTAL_BYTES * k
        blank, shared = lds(total, TOTAL_BLANK, TOTAL_SHARED)
        if blank != 0 and shared >= 0:
            fill_bytes(ld(total, TOTAL_TO), 0, ld(total, TOTAL_SIZE))


def new_job(W: i64, run: i64, tasks: i64, cost: i64) -> i64:
    """Return where the words of a new job go."""
    b, batches = lds(W, B_JOBS, B_ADDING)
    st(W, B_JOBS, b + 1)
    row = ld(batches, TABLE) + 8 * K_WORDS * b
    st(row, K_RUN, run)
    st(row, K_COST, max(cost, 1))
    bstart = ld(batches, BSTART)
    st32(bstart, b + 1, ld32(bstart, b) + tasks)
    return ld(row, K_PARAMS) + 8 * FIXED


def add_columns(W: i64, total: i64, rows: i64) -> None:
    """Add the job that stores the only part of an adjoint; `rows`: where its address lies."""
    job = new_job(W, ld(total, TOTAL_COLUMNS), ld(total, TOTAL_TASKS), 1)
    st(job, COLUMNS_G, rows)
    st(job, COLUMNS_COUNT, 1)
    st(job, COLUMNS_K, ld(total, TOTAL_COUNT))
    st(job, COLUMNS_C, ld(total, TOTAL_TO))
    st(job, COLUMNS_FIRST, 1)
    st(total, TOTAL_BLANK, 0)


def add_form(W: i64, form: i64, total: i64, count: i64, table: i64) -> None:
    """Add the job of a sum of so many rows; `table`: unused words, see `words_of_table`."""
    how, first, size = ld(form, FORM_HOW), ld(total, TOTAL_BLANK), ld(total, TOTAL_SIZE)
    st(total, TOTAL_BLANK, 0)
    if size == 0:
        return
    if ld(form, FORM_WHOLE) == 0:
        if first != 0:
            fill_bytes(ld(total, TOTAL_TO), 0, size)
        first = 0
    rows = ld(W, B_STARTS) + 8 * ld(form, FORM_FIRST)
    to = ld(total, TOTAL_TO) + ld(form, FORM_BEGIN)
    tasks, flops, k = lds(form, FORM_TASKS, FORM_FLOPS, FORM_K)
    if how == BY_OUTER:
        job = new_job(W, ld(form, FORM_RUN), tasks, count * flops // (32 * max(tasks, 1)))
        st(job, OUTER_X, ld(rows, 1))
        st(job, OUTER_G, ld(rows))
        st(job, OUTER_COUNT, count)
        st(job, OUTER_K, k)
        st(job, OUTER_M, ld(form, FORM_M))
        st(job, OUTER_C, to)
        st(job, OUTER_STEP, ld(form, FORM_STEP))
        st(job, OUTER_FIRST, first)
        st(job, OUTER_PANELS, ld(form, FORM_PANELS))
        st(job, OUTER_EACH, ld(form, FORM_EACH))
    elif how == BY_COLUMNS:
        job = new_job(W, ld(form, FORM_RUN), tasks, count)
        st(job, COLUMNS_G, ld(rows))
        st(job, COLUMNS_COUNT, count)
        st(job, COLUMNS_K, k)
        st(job, COLUMNS_C, to)
        st(job, COLUMNS_FIRST, first)
    else:
        add_table(W, form, rows, to, count, table)


def add_table(W: i64, form: i64, rows: i64, to: i64, count: i64, table: i64) -> None:
    """Add the job of a table that is read by rows."""
    numbers, most, k = ld(rows), ld(form, FORM_M), ld(form, FORM_K)
    for i in range(count):
        st(table, i, max(min(ld(numbers, i), most - 1), 0))
    order = table + 8 * count
    starts = order + 8 * count
    groups = call_address_i64(ld(form, FORM_SORT), table, count, order, starts, starts + 8 * (count + 1), most)
    job = new_job(W, ld(form, FORM_RUN), groups, k // 8 + 10)
    st(job, ROWS_ORDER, order)
    st(job, ROWS_STARTS, starts)
    st(job, ROWS_INDEX, table)
    st(job, ROWS_G, ld(rows, 1))
    st(job, ROWS_K, k)
    st(job, ROWS_C, to)
