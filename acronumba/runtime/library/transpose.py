"""The recorded graph, transposed: backward nodes, batch by batch from the last forward batch to the first.

In: a mini-batch that was recorded, scheduled and laid out (`ST`); the tables of each kernel's derivative and the value
records of the losses (`W`, see `back_words`). Out: batches for `execute` (`BT`, the state table of the backward pass):
for each forward batch the nodes whose results have an adjoint, and before them the sums of adjoints with several parts.

Readers come before their operands, so the head of an adjoint is complete when its node's turn comes, and addresses are
final when they are written. A single part is read in place. Several are added in the order in which their forward nodes
were recorded, whatever the schedule.
"""

from __future__ import annotations

from acronumba.emit.language import copy_bytes, fill_bytes, i64, ld, ld32, lds, prefetch, st, st32
from acronumba.runtime.library.adjoints import (
    count_rows,
    extent,
    forward_of,
    give,
    head_of,
    locate,
    new_link,
    rows_of,
    stand_in,
    sum_at,
    take_place,
)
from acronumba.runtime.library.extents import plan_node
from acronumba.runtime.library.records import halves, node_of, result_of, results_at

from acronumba.runtime.library.words import (  # isort: skip
    ARGS, BATCHES, BKEY, BSTART, DEPTH, KEYTAB, KIND, K_ARGS, K_DIMS, K_LISTS, K_RESULTS, K_TENSORS,
    K_WORDS, LIST_ITEMS, LIST_LENGTH, N, MOST, OFFSET, ORDER, RECORD_BYTES, RECORD_DATA, RECORD_HEAD, ROW, SIZES, TABLE,
)  # fmt: skip

from acronumba.runtime.library.back_words import (  # isort: skip
    AS_NUMBER, BK_ACTIVE, BK_ARGS, BK_BEFORE, BK_BYTES, BK_DTYPES, BK_FORWARD, BK_GIVEN, BK_GIVES, BK_KERNEL, BK_OWN,
    BK_RECORDS, BK_RESULTS, BK_ROWS, BK_SOURCES, BK_WIDTH, B_ADDS, B_ALIVE, B_BATCHES, B_ENTRIES, B_FIRSTS, B_HEADS,
    B_LARGEST, B_LOSSES, B_LOSSES_COUNT, B_MADE, B_MOST, B_OF, B_OWN, B_OWNS, B_ROWS, B_ROW_BYTES, B_ROW_OF, B_SCRATCH,
    B_SEEDS, B_SHAREDS, B_SIZES, B_TABLE, B_THERE, B_TURNS, B_ZEROS, GIVE_ARG, GIVE_AT, GIVE_BYTES, GIVE_LIST,
    GIVE_PART, GIVE_ROW, GIVE_ROWS, GIVE_SIZE, GIVE_SOURCE, GIVE_WAY, GIVE_WIDTH, HEAD_BYTES, HEAD_KEY, HEAD_SOURCE,
    JOB_ARRAY, JOB_BYTES, JOB_COLUMNS, JOB_GATES, JOB_K, JOB_N, JOB_PANELS, JOB_SIZE, JOB_STEP, JOB_STRIDE, JOB_TO,
    JOB_TURNED, OF_ADJOINT, OF_ITEMS, OF_RESULT, OF_ROWS, OWN_ADDS, OWN_BYTES, OWN_SIZE, PART_ALL, SOURCE_BYTES,
    SOURCE_KIND, SOURCE_NUMBER, SUM_LINKS,
)  # fmt: skip


def transpose(ST: i64, W: i64, BT: i64) -> None:
    """Make the batches of the backward pass."""
    n, batches = lds(ST, N, BATCHES)
    fill_bytes(ld(W, B_HEADS), 0, HEAD_BYTES * (n * ld(W, B_MOST) + ld(W, B_SHAREDS) + ld(W, B_OWNS)))
    fill_bytes(ld(W, B_ROW_OF), 0, 8 * n)
    losses, seeds = lds(W, B_LOSSES, B_SEEDS)
    for k in range(ld(W, B_LOSSES_COUNT)):
        head = head_of(ST, W, ld(losses, k), n + k)
        if head != 0:
            give(W, head, ld(seeds, k), (n + k) << 16, -1, 0, 0, 0, 0)
    for b in range(batches):
        back(ST, W, BT, batches - 1 - b)
    fill_bytes(ld(W, B_FIRSTS), 0, 8 * (ld(W, B_SHAREDS) + ld(W, B_OWNS)))
    for k in range(ld(W, B_SHAREDS)):
        head = ld(W, B_HEADS) + HEAD_BYTES * (n * ld(W, B_MOST) + k)
        if ld(head, HEAD_KEY) > 0:
            st(head, HEAD_SOURCE, new_link(W, ld(head, HEAD_SOURCE), ld(head, HEAD_KEY) - 1))
        if ld(head, HEAD_KEY) != 0:
            open_batch(W, BT, ld(ld(W, B_ADDS), k))
            add_up_parts(W, BT, head, ld(ld(W, B_SIZES), k), k)
    add_up_own(W, BT, ld(W, B_HEADS) + HEAD_BYTES * (n * ld(W, B_MOST) + ld(W, B_SHAREDS)))
    st32(ld(BT, BSTART), ld(W, B_BATCHES), ld(W, B_MADE))


def read_scalars(records: i64, count: i64, size: i64, to: i64) -> None:
    """Copy the elements of tensors without axes, given their value records; `size`: bytes of each."""
    for k in range(count):
        copy_bytes(to + size * k, ld(ld(records, k), RECORD_DATA), size)


def join(ST: i64) -> None:
    """Number the nodes of all rounds, in their value records too; compute their depths over all rounds."""
    kind, row, depth, table = lds(ST, KIND, ROW, DEPTH, TABLE)
    for v in range(ld(ST, N)):
        k, at = table + 8 * K_WORDS * ld32(kind, v), ld(row, v)
        tensors = ld(k, K_TENSORS)
        deep = -1
        for j in range(tensors):
            deep = max(deep, depth_of_value(depth, ld(at, j)))
        for j in range(ld(k, K_LISTS)):
            items = ld(ld(at, tensors + j), LIST_ITEMS)
            for i in range(ld(ld(at, tensors + j), LIST_LENGTH)):
                deep = max(deep, depth_of_value(depth, ld(items, i)))
        st32(depth, v, deep + 1)
        for j in range(ld(k, K_RESULTS)):
            st(result_of(at, results_at(ld(k, K_ARGS), ld(k, K_DIMS)), j), RECORD_HEAD, halves(v, 0))


def depth_of_value(depth: i64, record: i64) -> i64:
    """Return the depth of the node that computes a value; -1: the value was given."""
    v = node_of(ld(record, RECORD_HEAD))
    if v < 0:
        return -1
    return ld32(depth, v)


def add_up_own(W: i64, BT: i64, heads: i64) -> None:
    """Make batches of sums for adjoints of arrays of instances with several parts; `heads`: the head of the first."""
    last = -1
    for k in range(ld(W, B_OWNS)):
        head = heads + HEAD_BYTES * k
        row = ld(W, B_OWN) + OWN_BYTES * k
        if ld(head, HEAD_KEY) < 0:
            if ld(row, OWN_ADDS) != last:
                last = ld(row, OWN_ADDS)
                open_batch(W, BT, last)
            add_up_parts(W, BT, head, ld(row, OWN_SIZE), ld(W, B_SHAREDS) + k)


def add_up_parts(W: i64, BT: i64, head: i64, size: i64, k: i64) -> None:
    """Add the adjoint of input k (shared tensors, then arrays of instances) to a batch of sums; remember its links."""
    row = sum_at(W, head, size)
    st(ld(BT, ARGS), ld(W, B_MADE), row)
    st(W, B_MADE, ld(W, B_MADE) + 1)
    st(ld(W, B_FIRSTS), k, ld(row, SUM_LINKS))


def back(ST: i64, W: i64, BT: i64, b: i64) -> None:
    """Make the backward batches of a forward batch."""
    key = ld(ST, KEYTAB) + 16 * ld32(ld(ST, BKEY), b)
    kernel = ld(W, B_TABLE) + BK_BYTES * ld(key)
    if ld(kernel, BK_ACTIVE) == 0:
        return
    k = K_WORDS * ld(key)
    number = ld(kernel, BK_KERNEL)
    alive = find_alive(ST, W, kernel, k, b)
    if alive == 0:
        return
    add_up(ST, W, BT, kernel, k, alive)
    first, width, made = ld(W, B_ROWS), ld(kernel, BK_WIDTH), ld(W, B_MADE)
    entries = find_entries(ST, W, kernel, k, alive)
    if entries == 0:
        return
    offset = ld(BT, OFFSET) + 16 * ld(W, B_BATCHES) * ld(BT, MOST)
    if number >= 0:
        plan_results(W, BT, kernel, entries, offset)
        open_batch(W, BT, number)
        for e in range(entries):
            st(ld(BT, ARGS), made + e, first + width * e)
        st(W, B_MADE, made + entries)
    write_rows(ST, W, BT, kernel, k, first, entries, offset)
    st(W, B_ROWS, first + width * entries)
    for g in range(ld(kernel, BK_GIVES)):  # the last one first: see `give`
        give_all(ST, W, kernel, first, entries, ld(kernel, BK_GIVES) - 1 - g)
    count_rows(W, kernel, entries)


def make_room(ST: i64, W: i64) -> None:
    """Compute upper bounds of the entries and bytes of all backward nodes."""
    entries = 0
    total = 0
    for v in range(ld(ST, N)):
        kernel = ld(W, B_TABLE) + BK_BYTES * ld32(ld(ST, KIND), v)
        if ld(kernel, BK_ACTIVE) != 0:
            rows = rows_of(ST, kernel, v)
            entries = entries + rows
            total = total + rows * ld(kernel, BK_WIDTH)
    st(W, B_ENTRIES, entries)
    st(W, B_ROW_BYTES, total)


def plan_results(W: i64, BT: i64, kernel: i64, entries: i64, offset: i64) -> None:
    """Allocate the results of a batch of backward nodes, and note its scratch."""
    k, results, forward = K_WORDS * ld(kernel, BK_KERNEL), ld(kernel, BK_RESULTS), ld(kernel, BK_FORWARD)
    sizes = ld(BT, SIZES)
    for r in range(results):
        st(offset, 2 * r + 1, 0)
    known = 0
    for e in range(entries):
        known = plan_node(BT, k, ld(ld(W, B_THERE), e) + 8 * forward, known)
        st(W, B_SCRATCH, max(ld(W, B_SCRATCH), ld(sizes)))
        for r in range(results):
            st(offset, 2 * r + 1, ld(offset, 2 * r + 1) + ld(sizes, 1 + r))
    for r in range(results):
        st(offset, 2 * r, take_place(W, ld(offset, 2 * r + 1)))


def find_alive(ST: i64, W: i64, kernel: i64, k: i64, b: i64) -> i64:
    """Write the nodes of a batch with an adjoint of any result; note the largest size; return their number."""
    heads, most, alive = lds(W, B_HEADS, B_MOST, B_ALIVE)
    order, bstart = lds(ST, ORDER, BSTART)
    count = 0
    known = 0
    for i in range(ld32(bstart, b), ld32(bstart, b + 1)):
        v = ld32(order, i)
        any = 0
        for j in range(ld(kernel, BK_OWN)):
            any = any | ld(heads + HEAD_BYTES * (v * most + j), HEAD_KEY)
        if any != 0:
            st(alive, count, v)
            count = count + 1
            before = known
            known = plan_node(ST, k, ld(ld(ST, ROW), v) + 8 * ld(kernel, BK_FORWARD), known)
            if known != before:
                for j in range(ld(kernel, BK_OWN)):
                    st(W, B_LARGEST, max(ld(W, B_LARGEST), ld(ld(ST, SIZES), 1 + j)))
    return count


def find_entries(ST: i64, W: i64, kernel: i64, k: i64, alive: i64) -> i64:
    """Write an entry for each row of the nodes that have an adjoint; return the number of entries.

    An entry is the node, the number of the row in it, and its forward row, or stand-in for a node of several rows.
    """
    there, of, turns = lds(W, B_THERE, B_OF, B_TURNS)
    first, width = ld(W, B_ROWS), ld(kernel, BK_WIDTH)
    known = 0
    e = 0
    for a in range(alive):
        v = ld(ld(W, B_ALIVE), a)
        row = ld(ld(ST, ROW), v)
        st(ld(W, B_ROW_OF), v, first + width * e)
        if ld(kernel, BK_ROWS) == 0:
            for at in range(0, ld(kernel, BK_RECORDS), 64):
                prefetch(row + at)
            st(there, e, row)
            st(of, e, v)
            st(turns, e, 0)
            e = e + 1
        else:
            known = plan_node(ST, k, row + 8 * ld(kernel, BK_FORWARD), known)
            for r in range(rows_of(ST, kernel, v)):
                forward = forward_of(ST, W, kernel, v, r)
                stand_in(ST, kernel, ld32(ld(ST, KIND), v), row, r, forward, ld(ST, SIZES) + 8)
                st(there, e, forward)
                st(of, e, v)
                st(turns, e, r)
                e = e + 1
    return e


def add_up(ST: i64, W: i64, BT: i64, kernel: i64, k: i64, alive: i64) -> None:
    """Make batches of sums for adjoints with several parts, a batch for each result of the kernel."""
    heads, most = lds(W, B_HEADS, B_MOST)
    for j in range(ld(kernel, BK_OWN)):
        adds = ld(ld(kernel, BK_DTYPES), j)
        first = ld(W, B_MADE)
        made = first
        known = 0
        for a in range(alive):
            v = ld(ld(W, B_ALIVE), a)
            head = heads + HEAD_BYTES * (v * most + j)
            if ld(head, HEAD_KEY) < 0:
                if made == first:
                    open_batch(W, BT, adds)
                known = plan_node(ST, k, ld(ld(ST, ROW), v) + 8 * ld(kernel, BK_FORWARD), known)
                size = ld(ld(ST, SIZES), 1 + j) * rows_of(ST, kernel, v)
                st(ld(BT, ARGS), made, sum_at(W, head, size))
                made = made + 1
        st(W, B_MADE, made)


def open_batch(W: i64, BT: i64, number: i64) -> None:
    """Begin a batch at the next entry of `args`; each batch has a new key."""
    nb = ld(W, B_BATCHES)
    st32(ld(BT, BSTART), nb, ld(W, B_MADE))
    st32(ld(BT, BKEY), nb, nb)
    st(ld(BT, KEYTAB), 2 * nb, number)
    st(ld(BT, KEYTAB), 2 * nb + 1, 0)
    st(W, B_BATCHES, nb + 1)


def write_rows(ST: i64, W: i64, BT: i64, kernel: i64, k: i64, first: i64, entries: i64, offset: i64) -> None:
    """Write backward rows, from `first` on, with results at the addresses in `offset`."""
    there, of, turns = lds(W, B_THERE, B_OF, B_TURNS)
    args, before, results, width = lds(kernel, BK_ARGS, BK_BEFORE, BK_RESULTS, BK_WIDTH)
    extents = 8 * ld(kernel, BK_FORWARD)
    for a in range(args):
        source = ld(kernel, BK_SOURCES) + SOURCE_BYTES * a
        kind, number = lds(source, SOURCE_KIND, SOURCE_NUMBER)
        if kind == OF_RESULT:
            for e in range(entries):
                st(first + width * e, a, ld(there, e) + ld(kernel, BK_RECORDS) + RECORD_BYTES * number)
        elif kind == OF_ADJOINT:
            for e in range(entries):
                st(first + width * e, a, first + width * e + 8 * (before + results + number))
        else:
            for e in range(entries):
                st(first + width * e, a, ld(ld(there, e), number))
    if before > args:
        for e in range(entries):
            copy_bytes(first + width * e + 8 * args, ld(there, e) + extents, 8 * (before - args))
    for i in range(results):
        data = ld(offset, 2 * i)
        known = 0
        for e in range(entries):
            known = plan_node(BT, K_WORDS * ld(kernel, BK_KERNEL), ld(there, e) + extents, known)
            st(first + width * e, before + i, data)
            data = data + ld(ld(BT, SIZES), 1 + i)
    heads, most, zeros = lds(W, B_HEADS, B_MOST, B_ZEROS)
    for j in range(ld(kernel, BK_OWN)):
        known = 0
        for e in range(entries):
            known = plan_node(ST, k, ld(there, e) + extents, known)
            size = ld(ld(ST, SIZES), 1 + j)
            head = heads + HEAD_BYTES * (ld(of, e) * most + j)
            data = zeros
            if ld(head, HEAD_KEY) != 0:
                data = ld(head, HEAD_SOURCE) + ld(turns, e) * size
            st(first + width * e, before + results + j, data)


def give_all(ST: i64, W: i64, kernel: i64, first: i64, entries: i64, g: i64) -> None:
    """Add the parts that nodes give to the adjoints of one of their arguments, the last node first."""
    what = ld(kernel, BK_GIVEN) + GIVE_BYTES * g
    of, turns, heads, most = lds(W, B_OF, B_TURNS, B_HEADS, B_MOST)
    adjoint = -1
    if ld(what, GIVE_SOURCE + SOURCE_KIND) == OF_ADJOINT:
        adjoint = ld(what, GIVE_SOURCE + SOURCE_NUMBER)
    for k in range(entries):
        e = entries - 1 - k
        v = ld(of, e)
        there = 1
        if adjoint >= 0:
            there = ld(heads + HEAD_BYTES * (v * most + adjoint), HEAD_KEY)
        if ld(what, GIVE_WAY) == OF_ROWS:
            if ld(turns, e) != 0:  # all rows lie side by side
                there = 0
        if there != 0:
            give_row(ST, W, kernel, v, first + ld(kernel, BK_WIDTH) * e, e, what, (v << 16) + g)


def give_row(ST: i64, W: i64, kernel: i64, v: i64, row: i64, e: i64, what: i64, key: i64) -> None:
    """Add the part that an entry gives to the adjoint of one argument."""
    forward = ld(ld(W, B_THERE), e)
    dims = forward + 8 * ld(kernel, BK_FORWARD)
    data = locate(W, kernel, forward, row, what + 8 * GIVE_SOURCE)
    word = ld(ld(ld(ST, ROW), v), ld(what, GIVE_ARG))
    if ld(what, GIVE_WAY) == OF_ITEMS:
        word = ld(ld(word, LIST_ITEMS), ld(ld(W, B_TURNS), e))
    if ld(what, GIVE_LIST) != 0:
        items = ld(word, LIST_ITEMS)
        step = extent(what + 8 * GIVE_SIZE, dims)
        for k in range(ld(word, LIST_LENGTH)):
            head = head_of(ST, W, ld(items, k), v)
            if head != 0:
                give(W, head, data + k * step, key, -1, 0, 0, 0, 0)
    else:
        head = head_of(ST, W, word, v)
        if head != 0:
            if ld(what, GIVE_PART) == PART_ALL:
                give(W, head, data, key, -1, 0, 0, 0, 0)
            else:
                give_part(W, kernel, forward, row, what, dims, head, data, key)


def give_part(
    W: i64, kernel: i64, forward: i64, row: i64, what: i64, dims: i64, head: i64, data: i64, key: i64
) -> None:
    """Add a part that is rows of an adjoint; the first row is a constant, a host number, or computed."""
    size = extent(what + 8 * GIVE_SIZE, dims)
    width = extent(what + 8 * GIVE_WIDTH, dims)
    rows = extent(what + 8 * GIVE_ROWS, dims)
    if rows * width == 0:
        return
    last = rows - max(size // width, 1)
    index = ld(what, GIVE_AT)
    source = what + 8 * GIVE_ROW
    if ld(what, GIVE_PART) != PART_ALL + 1:
        index = locate(W, kernel, forward, row, source)
        if ld(source, SOURCE_KIND) != AS_NUMBER:
            give(W, head, data, key, size, 0, index, width, last)
            return
    give(W, head, data, key, size, max(min(index, last), 0) * width, 0, 0, 0)


def pack_all(jobs: i64, count: i64) -> None:
    """Write arrays in the layout of `kernels.tiles.Packing`; `jobs`: rows of JOB."""
    for j in range(count):
        job = jobs + JOB_BYTES * j
        if ld(job, JOB_TURNED) != 0:
            pack_turned(job)
        else:
            pack_straight(job)


def pack_turned(job: i64) -> None:
    """Write an array of gates * n rows of k elements, piece by piece."""
    array, stride, to, k = lds(job, JOB_ARRAY, JOB_STRIDE, JOB_TO, JOB_K)
    gates, n, columns = lds(job, JOB_GATES, JOB_N, JOB_COLUMNS)
    size, panels, step = lds(job, JOB_SIZE, JOB_PANELS, JOB_STEP)
    for panel in range((n + columns - 1) // columns):
        many = min(columns, n - panel * columns)
        for gate in range(gates):
            for low in range(0, k, 16):
                for first in range(0, many, 16):
                    source = array + stride * (gate * n + panel * columns + first) + size * low
                    place = to + panels * panel + step * low + size * (gate * columns + first)
                    turn(source, stride, place, step, min(16, k - low), min(16, many - first), size)


def pack_straight(job: i64) -> None:
    """Write an array of k rows of gates * n elements."""
    array, stride, to, k = lds(job, JOB_ARRAY, JOB_STRIDE, JOB_TO, JOB_K)
    gates, n, columns = lds(job, JOB_GATES, JOB_N, JOB_COLUMNS)
    size, panels, step = lds(job, JOB_SIZE, JOB_PANELS, JOB_STEP)
    for panel in range((n + columns - 1) // columns):
        many = min(columns, n - panel * columns)
        for low in range(k):
            for gate in range(gates):
                source = array + stride * low + size * (gate * n + panel * columns)
                copy_bytes(to + panels * panel + step * low + size * gate * columns, source, size * many)


def turn(source: i64, stride: i64, to: i64, step: i64, rows: i64, columns: i64, size: i64) -> None:
    """Write a piece of an array transposed."""
    if size == 4:
        for i in range(rows):
            for c in range(columns):
                st32(to + step * i, c, ld32(source + stride * c, i))
    else:
        for i in range(rows):
            for c in range(columns):
                st(to + step * i, c, ld(source + stride * c, i))
