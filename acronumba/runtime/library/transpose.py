"""The recorded graph, transposed: backward nodes, batch by batch from the last forward batch to the first.

In: a mini-batch that was recorded, scheduled and laid out (`ST`), what is known of each kernel's derivative, and where
the losses lie (`W`, see `back_words`). Out: batches for `execute` (`BT`, the state table of the way back): of each
forward batch the nodes whose results have an adjoint, and before it the sums of those adjoints that have several parts.

Readers come before what they read, so the head of an adjoint is complete when its node's turn comes, and every address
is final at once. A single part is read where it lies. Several are added in the order in which the forward nodes that
give them were recorded, whatever the schedule.
"""

from __future__ import annotations

from acronumba.emit.language import call_address, fill_bytes, i64, ld, ld32, lds, st, st32
from acronumba.runtime.library.own import number_of_own
from acronumba.runtime.library.records import node_of

from acronumba.runtime.library.words import (  # isort: skip
    ARGS, BATCHES, BKEY, BSTART, INSTANCE, KEYTAB, KIND, K_PLAN, K_WORDS, LIST_ITEMS, LIST_LENGTH, MOST, N, OFFSET,
    ORDER, RECORD_BYTES, RECORD_DATA, RECORD_HEAD, ROW, SIZES, TABLE,
)  # fmt: skip

from acronumba.runtime.library.back_words import (  # isort: skip
    AS_NUMBER, BK_ACTIVE, BK_ARGS, BK_BYTES, BK_DTYPES, BK_FORWARD, BK_GIVEN, BK_GIVES, BK_KERNEL, BK_OWN,
    BK_RECORDS, BK_RESULTS, BK_SOURCES, B_ADDS, B_ALIVE, B_ARRAYS, B_BATCHES, B_HEADS, B_LINKS, B_LINKS_END,
    B_LOSSES, B_LOSS_OF, B_LOST, B_MADE, B_MOST, B_OWN, B_OWNS, B_PLACE, B_ROWS, B_ROW_OF, B_SCRATCH, B_SEEDS,
    B_LOSSES_COUNT, B_SHARED, B_SHAREDS, B_SIZES, B_TABLE, B_ZEROS, EXTENT_COUNT, EXTENT_DIMS, EXTENT_FACTOR,
    GIVE_ARG, GIVE_AT, GIVE_BYTES, GIVE_LIST, GIVE_PART, GIVE_ROW, GIVE_ROWS, GIVE_SIZE, GIVE_SOURCE, GIVE_WIDTH,
    HEAD_BYTES, HEAD_KEY, HEAD_SOURCE, LINK_BYTES, LINK_INDEX, LINK_KEY, LINK_LAST, LINK_NEXT, LINK_SIZE,
    LINK_SOURCE, LINK_START, LINK_WIDTH, OF_ADJOINT, OF_ARGUMENT, OF_BACKWARD, OF_RESULT, OWN_ADDS, OWN_BYTES,
    OWN_SIZE, PART_ALL, PART_BYTES, PART_READ, PART_ROWS, PART_SOURCE, PART_STEP, PART_TO, SOURCE_BYTES,
    SOURCE_KIND, SOURCE_NUMBER, SOURCE_ROWS, SOURCE_ROW_BYTES, SOURCE_ROW_KIND, SOURCE_ROW_NUMBER, SOURCE_START,
    SUM_BYTES, SUM_LINKS, SUM_SIZE, SUM_TO,
)  # fmt: skip


def transpose(ST: i64, W: i64, BT: i64) -> None:
    """Make the batches of the way back."""
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
    for k in range(ld(W, B_SHAREDS)):
        head = ld(W, B_HEADS) + HEAD_BYTES * (n * ld(W, B_MOST) + k)
        if ld(head, HEAD_KEY) > 0:
            st(head, HEAD_SOURCE, new_link(W, ld(head, HEAD_SOURCE), ld(head, HEAD_KEY) - 1))
        if ld(head, HEAD_KEY) != 0:
            open_batch(ST, W, BT, ld(ld(W, B_ADDS), k), 0)
            st(ld(BT, ARGS), ld(W, B_MADE), sum_at(W, head, ld(ld(W, B_SIZES), k)))
            st(W, B_MADE, ld(W, B_MADE) + 1)
    add_up_own(W, BT, ld(W, B_HEADS) + HEAD_BYTES * (n * ld(W, B_MOST) + ld(W, B_SHAREDS)))
    st32(ld(BT, BSTART), ld(W, B_BATCHES), ld(W, B_MADE))


def add_up_own(W: i64, BT: i64, heads: i64) -> None:
    """Make batches of sums for the adjoints of arrays of instances that have several parts; `heads`: the first's."""
    last = -1
    for k in range(ld(W, B_OWNS)):
        head = heads + HEAD_BYTES * k
        row = ld(W, B_OWN) + OWN_BYTES * k
        if ld(head, HEAD_KEY) < 0:
            if ld(row, OWN_ADDS) != last:
                last = ld(row, OWN_ADDS)
                open_batch(0, W, BT, last, 0)
            st(ld(BT, ARGS), ld(W, B_MADE), sum_at(W, head, ld(row, OWN_SIZE)))
            st(W, B_MADE, ld(W, B_MADE) + 1)


def head_of(ST: i64, W: i64, record: i64, reader: i64) -> i64:
    """Return the head of the adjoint of a value that a node (or n + a loss) reads; 0 if nobody asks for it."""
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
    """Note a part of an adjoint."""
    known = ld(head, HEAD_KEY)
    if known == 0:
        if size < 0:
            st(head, HEAD_SOURCE, source)
            st(head, HEAD_KEY, key + 1)
            return
    if known > 0:
        only = new_link(W, ld(head, HEAD_SOURCE), known - 1)
        st(head, HEAD_SOURCE, only)
    if known == 0:
        st(head, HEAD_SOURCE, 0)
    st(head, HEAD_KEY, -1)
    link = new_link(W, source, key)
    if link == 0:
        return
    st(link, LINK_SIZE, size)
    st(link, LINK_START, start)
    st(link, LINK_INDEX, index)
    st(link, LINK_WIDTH, width)
    st(link, LINK_LAST, last)
    before = 0
    at = ld(head, HEAD_SOURCE)
    while at != 0 and ld(at, LINK_KEY) < key:
        before = at
        at = ld(at, LINK_NEXT)
    st(link, LINK_NEXT, at)
    if before == 0:
        st(head, HEAD_SOURCE, link)
    else:
        st(before, LINK_NEXT, link)


def new_link(W: i64, source: i64, key: i64) -> i64:
    """Return a link for all of an adjoint, 0 if there is no room."""
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


def take_place(W: i64, size: i64) -> i64:
    """Return a place for so many bytes."""
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


def back(ST: i64, W: i64, BT: i64, b: i64) -> None:
    """Make the batches that go back over a forward batch."""
    kernel = ld(W, B_TABLE) + BK_BYTES * ld(ld(ST, KEYTAB), 2 * ld32(ld(ST, BKEY), b))
    if ld(kernel, BK_ACTIVE) == 0:
        return
    alive = find_alive(ST, W, kernel, b)
    if alive == 0:
        return
    add_up(ST, W, BT, kernel, b, alive)
    results = ld(kernel, BK_RESULTS)
    args = ld(kernel, BK_ARGS)
    number = ld(kernel, BK_KERNEL)
    made = ld(W, B_MADE)
    nb = ld(W, B_BATCHES)
    offset = ld(BT, OFFSET) + 16 * nb * ld(BT, MOST)
    if number >= 0:
        extents = ld(ld(ST, KEYTAB), 2 * ld32(ld(ST, BKEY), b) + 1)
        sizes = ld(BT, SIZES)
        call_address(ld(ld(BT, TABLE), K_WORDS * number + K_PLAN), extents, sizes)
        st(W, B_SCRATCH, max(ld(W, B_SCRATCH), ld(sizes)))
        for r in range(results):
            st(offset, 2 * r, take_place(W, alive * ld(sizes, 1 + r)))
            st(offset, 2 * r + 1, ld(sizes, 1 + r))
        open_batch(ST, W, BT, number, extents)
    for a in range(alive):
        v = ld(ld(W, B_ALIVE), a)
        forward = ld(ld(ST, ROW), v)
        row = ld(W, B_ROWS)
        st(W, B_ROWS, row + 8 * (args + results + ld(kernel, BK_OWN)))
        st(ld(W, B_ROW_OF), v, row)
        if number >= 0:
            st(ld(BT, ARGS), made + a, row)
        for r in range(results):
            st(row, args + r, ld(offset, 2 * r) + a * ld(offset, 2 * r + 1))
        write_arguments(W, kernel, v, forward, row)
    if number >= 0:
        st(W, B_MADE, made + alive)
    for a in range(alive):
        v = ld(ld(W, B_ALIVE), a)
        give_all(ST, W, kernel, v, ld(ld(ST, ROW), v))


def find_alive(ST: i64, W: i64, kernel: i64, b: i64) -> i64:
    """Write down the nodes of a batch of which a result has an adjoint; return how many there are."""
    heads, most, alive = lds(W, B_HEADS, B_MOST, B_ALIVE)
    order, bstart = lds(ST, ORDER, BSTART)
    count = 0
    for i in range(ld32(bstart, b), ld32(bstart, b + 1)):
        v = ld32(order, i)
        any = 0
        for j in range(ld(kernel, BK_OWN)):
            any = any | ld(heads + HEAD_BYTES * (v * most + j), HEAD_KEY)
        if any != 0:
            st(alive, count, v)
            count = count + 1
    return count


def add_up(ST: i64, W: i64, BT: i64, kernel: i64, b: i64, alive: i64) -> None:
    """Make batches of sums for the adjoints that have several parts, one for each result."""
    heads, most = lds(W, B_HEADS, B_MOST)
    offset = ld(ST, OFFSET) + 16 * b * ld(ST, MOST)
    for j in range(ld(kernel, BK_OWN)):
        adds = ld(ld(kernel, BK_DTYPES), j)
        first = ld(W, B_MADE)
        made = first
        for a in range(alive):
            head = heads + HEAD_BYTES * (ld(ld(W, B_ALIVE), a) * most + j)
            if ld(head, HEAD_KEY) < 0:
                if made == first:
                    open_batch(ST, W, BT, adds, 0)
                size = ld(offset, 2 * j + 1)
                st(ld(BT, ARGS), made, sum_at(W, head, size))
                made = made + 1
        st(W, B_MADE, made)


def sum_at(W: i64, head: i64, size: i64) -> i64:
    """Return a row for the sum of an adjoint's parts; from now on the sum is its only part."""
    row = ld(W, B_ROWS)
    st(W, B_ROWS, row + SUM_BYTES)
    to = take_place(W, size)
    st(row, SUM_TO, to)
    st(row, SUM_SIZE, size)
    st(row, SUM_LINKS, ld(head, HEAD_SOURCE))
    st(head, HEAD_SOURCE, to)
    st(head, HEAD_KEY, 1)
    return row


def open_batch(ST: i64, W: i64, BT: i64, number: i64, extents: i64) -> None:
    """Begin a batch at the next entry of `args`; each batch has a key of its own."""
    nb = ld(W, B_BATCHES)
    st32(ld(BT, BSTART), nb, ld(W, B_MADE))
    st32(ld(BT, BKEY), nb, nb)
    st(ld(BT, KEYTAB), 2 * nb, number)
    st(ld(BT, KEYTAB), 2 * nb + 1, extents)
    st(W, B_BATCHES, nb + 1)


def write_arguments(W: i64, kernel: i64, v: i64, forward: i64, row: i64) -> None:
    """Write the adjoints of a node's results, and the argument words of its backward node."""
    heads = ld(W, B_HEADS) + HEAD_BYTES * v * ld(W, B_MOST)
    args = ld(kernel, BK_ARGS)
    adjoints = row + 8 * (args + ld(kernel, BK_RESULTS))
    for j in range(ld(kernel, BK_OWN)):
        if ld(heads + HEAD_BYTES * j, HEAD_KEY) == 0:
            st(adjoints, j, ld(W, B_ZEROS))
        else:
            st(adjoints, j, ld(heads + HEAD_BYTES * j, HEAD_SOURCE))
    for a in range(args):
        source = ld(kernel, BK_SOURCES) + SOURCE_BYTES * a
        number = ld(source, SOURCE_NUMBER)
        kind = ld(source, SOURCE_KIND)
        if kind == OF_RESULT:
            st(row, a, forward + ld(kernel, BK_RECORDS) + RECORD_BYTES * number)
        elif kind == OF_ADJOINT:
            st(row, a, adjoints + 8 * number)
        else:
            st(row, a, ld(forward, number))


def locate(W: i64, kernel: i64, forward: i64, row: i64, source: i64) -> i64:
    """Return the address of what a source is; or the number, of AS_NUMBER."""
    kind, number, start = lds(source, SOURCE_KIND, SOURCE_NUMBER, SOURCE_START)
    if kind == AS_NUMBER:
        return ld(forward, number)
    if kind == OF_ARGUMENT:
        return ld(ld(forward, number), RECORD_DATA) + start
    if kind == OF_RESULT:
        return ld(forward + ld(kernel, BK_RECORDS) + RECORD_BYTES * number, RECORD_DATA) + start
    if kind == OF_BACKWARD:
        return ld(row, ld(kernel, BK_ARGS) + number) + start
    if kind == OF_ADJOINT:
        return ld(row, ld(kernel, BK_ARGS) + ld(kernel, BK_RESULTS) + number) + start
    index = 0
    of, place = lds(source, SOURCE_ROW_KIND, SOURCE_ROW_NUMBER)
    if of == AS_NUMBER:
        index = ld(forward, place)
    elif of == OF_ARGUMENT:
        index = ld(ld(ld(forward, place), RECORD_DATA))
    elif of == OF_RESULT:
        index = ld(ld(forward + ld(kernel, BK_RECORDS) + RECORD_BYTES * place, RECORD_DATA))
    else:
        index = ld(ld(row, ld(kernel, BK_ARGS) + place))
    index = max(min(index, ld(source, SOURCE_ROWS) - 1), 0)
    return ld(ld(W, B_ARRAYS), number) + index * ld(source, SOURCE_ROW_BYTES) + start


def give_all(ST: i64, W: i64, kernel: i64, v: i64, forward: i64) -> None:
    """Note what a node gives to the adjoints of its arguments."""
    row = ld(ld(W, B_ROW_OF), v)
    heads = ld(W, B_HEADS) + HEAD_BYTES * v * ld(W, B_MOST)
    dims = forward + 8 * ld(kernel, BK_FORWARD)
    for g in range(ld(kernel, BK_GIVES)):
        what = ld(kernel, BK_GIVEN) + GIVE_BYTES * g
        source = what + 8 * GIVE_SOURCE
        there = 1
        if ld(source, SOURCE_KIND) == OF_ADJOINT:
            there = ld(heads + HEAD_BYTES * ld(source, SOURCE_NUMBER), HEAD_KEY)
        if there != 0:
            data = locate(W, kernel, forward, row, source)
            word = ld(forward, ld(what, GIVE_ARG))
            if ld(what, GIVE_LIST) != 0:
                items = ld(word, LIST_ITEMS)
                step = extent(what + 8 * GIVE_SIZE, dims)
                for k in range(ld(word, LIST_LENGTH)):
                    head = head_of(ST, W, ld(items, k), v)
                    if head != 0:
                        give(W, head, data + k * step, (v << 16) + g, -1, 0, 0, 0, 0)
            else:
                head = head_of(ST, W, word, v)
                if head != 0:
                    if ld(what, GIVE_PART) == PART_ALL:
                        give(W, head, data, (v << 16) + g, -1, 0, 0, 0, 0)
                    else:
                        give_part(W, kernel, forward, row, what, dims, head, data, (v << 16) + g)


def give_part(
    W: i64, kernel: i64, forward: i64, row: i64, what: i64, dims: i64, head: i64, data: i64, key: i64
) -> None:
    """Note rows of an adjoint, from one on that is a constant, a number, or computed."""
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


def collect(ST: i64, W: i64, of: i64, parts: i64, count: i64) -> None:
    """Write down where the rows of parts of sums over the nodes of a kernel are, in the order of recording."""
    kernel = ld(W, B_TABLE) + BK_BYTES * of
    kind, rows = lds(ST, KIND, ROW)
    row_of = ld(W, B_ROW_OF)
    for v in range(ld(ST, N)):
        if ld32(kind, v) == of and ld(row_of, v) != 0:
            forward = ld(rows, v)
            dims = forward + 8 * ld(kernel, BK_FORWARD)
            for p in range(count):
                part = parts + PART_BYTES * p
                source = part + 8 * PART_SOURCE
                many = extent(part + 8 * PART_ROWS, dims)
                step = extent(part + 8 * PART_STEP, dims)
                data = locate(W, kernel, forward, ld(row_of, v), source)
                to = ld(part, PART_TO)
                for k in range(many):
                    if ld(part, PART_READ) != 0:
                        st(to, k, ld(data + k * step))
                    else:
                        st(to, k, data + k * step)
                st(part, PART_TO, to + 8 * many)


def count_rows_of(ST: i64, W: i64, of: i64, rows: i64) -> i64:
    """Return how many rows a part of a sum has over the nodes of a kernel."""
    kernel = ld(W, B_TABLE) + BK_BYTES * of
    kind, row = lds(ST, KIND, ROW)
    total = 0
    for v in range(ld(ST, N)):
        if ld32(kind, v) == of and ld(ld(W, B_ROW_OF), v) != 0:
            total = total + extent(rows, ld(row, v) + 8 * ld(kernel, BK_FORWARD))
    return total
