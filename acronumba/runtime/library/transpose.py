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
from acronumba.runtime.library.records import halves, node_of, result_of, results_at

from acronumba.runtime.library.words import (  # isort: skip
    ARGS, BATCHES, BKEY, BSTART, DEPTH, INSTANCE, KEYTAB, KIND, K_ARGS, K_DIMS, K_LISTS, K_PLAN, K_RESULTS,
    K_TENSORS, K_WORDS, LIST_ITEMS, LIST_LENGTH, MOST, N, OFFSET, ORDER, RECORD_BYTES, RECORD_DATA, RECORD_HEAD,
    RECORD_SHAPE, ROW, SIZES, TABLE,
)  # fmt: skip

from acronumba.runtime.library.back_words import (  # isort: skip
    AS_NUMBER, BK_ACTIVE, BK_ARGS, BK_BYTES, BK_DTYPES, BK_FIRST, BK_FORWARD, BK_GIVEN, BK_GIVES, BK_KERNEL, BK_OWN,
    BK_PARTS, BK_RECORDS, BK_RESULTS, BK_ROWS, BK_SOURCES, BK_SUMMED, BK_WIDTH, B_ADDS, B_ALIVE, B_ARRAYS, B_BATCHES,
    B_COUNTS, B_ENTRIES, B_HEADS, B_LARGEST, B_LINKS, B_LINKS_END, B_LOSSES, B_LOSSES_COUNT, B_LOSS_OF, B_LOST,
    B_MADE, B_MOST, B_OWN, B_OWNS, B_PLACE, B_PLACES, B_ROWS, B_ROW_BYTES, B_ROW_OF, B_SCRATCH, B_SEEDS, B_SHARED,
    B_SHAREDS, B_SIZES, B_TABLE, B_ZEROS, EXTENT_COUNT, EXTENT_DIMS, EXTENT_FACTOR, GIVE_ARG, GIVE_AT, GIVE_BYTES,
    GIVE_LIST, GIVE_PART, GIVE_ROW, GIVE_ROWS, GIVE_SIZE, GIVE_SOURCE, GIVE_WAY, GIVE_WIDTH, HEAD_BYTES, HEAD_KEY,
    HEAD_SOURCE, LINK_BYTES, LINK_INDEX, LINK_KEY, LINK_LAST, LINK_NEXT, LINK_SIZE, LINK_SOURCE, LINK_START,
    LINK_WIDTH, OF_ADJOINT, OF_ARGUMENT, OF_BACKWARD, OF_ITEMS, OF_RESULT, OF_ROWS, OWN_ADDS, OWN_BYTES, OWN_SIZE,
    PART_ALL, PART_BYTES, PART_READ, PART_ROWS, PART_SOURCE, PART_STEP, SOURCE_BYTES, SOURCE_KIND, SOURCE_NUMBER,
    SOURCE_ROWS, SOURCE_ROW_BYTES, SOURCE_ROW_KIND, SOURCE_ROW_NUMBER, SOURCE_START, SUM_BYTES, SUM_LINKS, SUM_SIZE,
    SUM_TO,
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
            open_batch(W, BT, ld(ld(W, B_ADDS), k), 0)
            st(ld(BT, ARGS), ld(W, B_MADE), sum_at(W, head, ld(ld(W, B_SIZES), k)))
            st(W, B_MADE, ld(W, B_MADE) + 1)
    add_up_own(W, BT, ld(W, B_HEADS) + HEAD_BYTES * (n * ld(W, B_MOST) + ld(W, B_SHAREDS)))
    st32(ld(BT, BSTART), ld(W, B_BATCHES), ld(W, B_MADE))


def join(ST: i64) -> None:
    """Number the nodes of all rounds, in their value records too; find depths of which no round is the bottom."""
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
    """Return the depth of the node that computes a value; -1: it was given."""
    v = node_of(ld(record, RECORD_HEAD))
    if v < 0:
        return -1
    return ld32(depth, v)


def add_up_own(W: i64, BT: i64, heads: i64) -> None:
    """Make batches of sums for the adjoints of arrays of instances that have several parts; `heads`: the first's."""
    last = -1
    for k in range(ld(W, B_OWNS)):
        head = heads + HEAD_BYTES * k
        row = ld(W, B_OWN) + OWN_BYTES * k
        if ld(head, HEAD_KEY) < 0:
            if ld(row, OWN_ADDS) != last:
                last = ld(row, OWN_ADDS)
                open_batch(W, BT, last, 0)
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
    key = ld(ST, KEYTAB) + 16 * ld32(ld(ST, BKEY), b)
    call_address(ld(ld(ST, TABLE), K_WORDS * ld(key) + K_PLAN), ld(key, 1), ld(ST, SIZES))
    for j in range(ld(kernel, BK_OWN)):
        st(W, B_LARGEST, max(ld(W, B_LARGEST), ld(ld(ST, SIZES), 1 + j)))
    add_up(ST, W, BT, kernel, alive)
    entries = 0
    for a in range(alive):
        entries = entries + rows_of(ST, kernel, ld(ld(W, B_ALIVE), a))
    number = ld(kernel, BK_KERNEL)
    offset = ld(BT, OFFSET) + 16 * ld(W, B_BATCHES) * ld(BT, MOST)
    made = ld(W, B_MADE)
    if entries == 0:
        return
    if number >= 0:
        sizes = ld(BT, SIZES)
        call_address(ld(ld(BT, TABLE), K_WORDS * number + K_PLAN), ld(key, 1), sizes)
        st(W, B_SCRATCH, max(ld(W, B_SCRATCH), ld(sizes)))
        for r in range(ld(kernel, BK_RESULTS)):
            st(offset, 2 * r, take_place(W, entries * ld(sizes, 1 + r)))
            st(offset, 2 * r + 1, ld(sizes, 1 + r))
        open_batch(W, BT, number, ld(key, 1))
    entry = 0
    for a in range(alive):
        v = ld(ld(W, B_ALIVE), a)
        st(ld(W, B_ROW_OF), v, ld(W, B_ROWS))
        for r in range(rows_of(ST, kernel, v)):
            if number >= 0:
                st(ld(BT, ARGS), made + entry, ld(W, B_ROWS))
            write_row(ST, W, kernel, v, r, offset, entry)
            entry = entry + 1
    if number >= 0:
        st(W, B_MADE, made + entries)
    for a in range(alive):
        v = ld(ld(W, B_ALIVE), a)
        give_all(ST, W, kernel, v)
        count_rows(ST, W, kernel, v)


def make_room(ST: i64, W: i64) -> None:
    """Find how many entries and bytes all backward nodes need at most."""
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


def rows_of(ST: i64, kernel: i64, v: i64) -> i64:
    """Return how many rows a node is."""
    if ld(kernel, BK_ROWS) == 0:
        return 1
    return ld(ld(ld(ld(ST, ROW), v) + ld(kernel, BK_RECORDS), RECORD_SHAPE))


def forward_of(ST: i64, W: i64, kernel: i64, v: i64, r: i64) -> i64:
    """Return the row of a forward node; of a node of several rows what stands for one, behind its backward row."""
    if ld(kernel, BK_ROWS) == 0:
        return ld(ld(ST, ROW), v)
    words = ld(kernel, BK_ARGS) + ld(kernel, BK_RESULTS) + ld(kernel, BK_OWN)
    return ld(ld(W, B_ROW_OF), v) + r * ld(kernel, BK_WIDTH) + 8 * words


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


def add_up(ST: i64, W: i64, BT: i64, kernel: i64, alive: i64) -> None:
    """Make batches of sums for the adjoints that have several parts, one for each result."""
    heads, most = lds(W, B_HEADS, B_MOST)
    for j in range(ld(kernel, BK_OWN)):
        adds = ld(ld(kernel, BK_DTYPES), j)
        first = ld(W, B_MADE)
        made = first
        for a in range(alive):
            head = heads + HEAD_BYTES * (ld(ld(W, B_ALIVE), a) * most + j)
            if ld(head, HEAD_KEY) < 0:
                if made == first:
                    open_batch(W, BT, adds, 0)
                size = ld(ld(ST, SIZES), 1 + j) * rows_of(ST, kernel, ld(ld(W, B_ALIVE), a))
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


def open_batch(W: i64, BT: i64, number: i64, extents: i64) -> None:
    """Begin a batch at the next entry of `args`; each batch has a key of its own."""
    nb = ld(W, B_BATCHES)
    st32(ld(BT, BSTART), nb, ld(W, B_MADE))
    st32(ld(BT, BKEY), nb, nb)
    st(ld(BT, KEYTAB), 2 * nb, number)
    st(ld(BT, KEYTAB), 2 * nb + 1, extents)
    st(W, B_BATCHES, nb + 1)


def write_row(ST: i64, W: i64, kernel: i64, v: i64, r: i64, offset: i64, entry: i64) -> None:
    """Write the next backward row: of row r of a node, which is an entry of the batch whose results are at `offset`."""
    row = ld(W, B_ROWS)
    st(W, B_ROWS, row + ld(kernel, BK_WIDTH))
    args, results = lds(kernel, BK_ARGS, BK_RESULTS)
    for k in range(results):
        st(row, args + k, ld(offset, 2 * k) + entry * ld(offset, 2 * k + 1))
    heads = ld(W, B_HEADS) + HEAD_BYTES * v * ld(W, B_MOST)
    sizes = ld(ST, SIZES) + 8
    adjoints = row + 8 * (args + results)
    for j in range(ld(kernel, BK_OWN)):
        if ld(heads + HEAD_BYTES * j, HEAD_KEY) == 0:
            st(adjoints, j, ld(W, B_ZEROS))
        else:
            st(adjoints, j, ld(heads + HEAD_BYTES * j, HEAD_SOURCE) + r * ld(sizes, j))
    forward = forward_of(ST, W, kernel, v, r)
    if ld(kernel, BK_ROWS) != 0:
        stand_in(ST, kernel, ld32(ld(ST, KIND), v), ld(ld(ST, ROW), v), r, forward, sizes)
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


def stand_in(ST: i64, kernel: i64, k: i64, node: i64, r: i64, to: i64, sizes: i64) -> None:
    """Write what stands for row r of a forward node: argument words, extents, and the places of results.

    Behind it lies, for each argument of which the row has its own part, the first word of a value record.
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


def give_all(ST: i64, W: i64, kernel: i64, v: i64) -> None:
    """Note what a node gives to the adjoints of its arguments."""
    heads = ld(W, B_HEADS) + HEAD_BYTES * v * ld(W, B_MOST)
    rows = rows_of(ST, kernel, v)
    for g in range(ld(kernel, BK_GIVES)):
        what = ld(kernel, BK_GIVEN) + GIVE_BYTES * g
        source = what + 8 * GIVE_SOURCE
        there = rows
        if ld(source, SOURCE_KIND) == OF_ADJOINT:
            if ld(heads + HEAD_BYTES * ld(source, SOURCE_NUMBER), HEAD_KEY) == 0:
                there = 0
        if ld(what, GIVE_WAY) == OF_ROWS:
            there = min(there, 1)  # all rows lie side by side
        for k in range(there):  # the last one first: of links of one node, the latest comes first
            give_row(ST, W, kernel, v, there - 1 - k, what, (v << 16) + g)


def give_row(ST: i64, W: i64, kernel: i64, v: i64, r: i64, what: i64, key: i64) -> None:
    """Note what row r of a node gives to one argument."""
    row = ld(ld(W, B_ROW_OF), v) + r * ld(kernel, BK_WIDTH)
    forward = forward_of(ST, W, kernel, v, r)
    dims = forward + 8 * ld(kernel, BK_FORWARD)
    data = locate(W, kernel, forward, row, what + 8 * GIVE_SOURCE)
    word = ld(ld(ld(ST, ROW), v), ld(what, GIVE_ARG))
    if ld(what, GIVE_WAY) == OF_ITEMS:
        word = ld(ld(word, LIST_ITEMS), r)
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


def count_rows(ST: i64, W: i64, kernel: i64, v: i64) -> None:
    """Count the rows that a node adds to the parts of sums."""
    dims = ld(ld(ST, ROW), v) + 8 * ld(kernel, BK_FORWARD)
    rows = rows_of(ST, kernel, v)
    counts = ld(W, B_COUNTS) + 8 * ld(kernel, BK_FIRST)
    for p in range(ld(kernel, BK_SUMMED)):
        each = extent(ld(kernel, BK_PARTS) + PART_BYTES * p + 8 * PART_ROWS, dims)
        st(counts, p, ld(counts, p) + each * rows)


def collect(ST: i64, W: i64) -> None:
    """Write down where the rows of parts of sums are, of the nodes of each kernel in the order of recording."""
    for v in range(ld(ST, N)):
        kernel = ld(W, B_TABLE) + BK_BYTES * ld32(ld(ST, KIND), v)
        if ld(kernel, BK_SUMMED) != 0 and ld(ld(W, B_ROW_OF), v) != 0:
            for r in range(rows_of(ST, kernel, v)):
                collect_row(ST, W, kernel, v, r)


def collect_row(ST: i64, W: i64, kernel: i64, v: i64, r: i64) -> None:
    """Write down where the parts of one row of a node are."""
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


def pack_turned(array: i64, stride: i64, to: i64, k: i64, gates: i64, n: i64, columns: i64, size: i64) -> None:
    """Write an array of gates * n rows of k elements in the layout of `kernels.tiles.Packing`, piece by piece."""
    for panel in range((n + columns - 1) // columns):
        many = min(columns, n - panel * columns)
        for gate in range(gates):
            for low in range(0, k, 16):
                for first in range(0, many, 16):
                    source = array + stride * (gate * n + panel * columns + first) + size * low
                    place = to + size * (((panel * k + low) * gates + gate) * columns + first)
                    turn(source, stride, place, size * gates * columns, min(16, k - low), min(16, many - first), size)


def turn(source: i64, stride: i64, to: i64, step: i64, rows: i64, columns: i64, size: i64) -> None:
    """Write a piece transposed."""
    if size == 4:
        for i in range(rows):
            for c in range(columns):
                st32(to + step * i, c, ld32(source + stride * c, i))
    else:
        for i in range(rows):
            for c in range(columns):
                st(to + step * i, c, ld(source + stride * c, i))
