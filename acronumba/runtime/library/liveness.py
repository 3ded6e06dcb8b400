"""Liveness of results: memory is reused once nothing reads the result in it.

In: the batches of `schedule` and the sizes of their results. Out: the position in memory of each result of each batch,
for `layout`. First the values reachable from results of the model are found (`mark_returned`): only these outlive the
run. Then one pass over the nodes finds the last batch that reads each result of each batch, and one over the batches
allocates memory by best fit and frees it (the linear scan of Poletto and Sarkar, TOPLAS 1999, for pieces of memory
instead of registers).

If there were many nodes the last time, the machine has noted the largest place of those that read a result in its
value record, and the first pass reads one word of each (`find_last`). Places are in the order of batches, unless they
were measured anew, or a search has changed the schedule: then, and if there are few nodes, the pass goes through the
operands of all nodes (`read_operands`).

There are two areas. The arena holds returned values, and lives as long as any array of it: if at least half of a
batch's result is returned, the batch writes it there; otherwise the returned nodes are copied there as soon as the
batch has run, so that they do not keep the other nodes alive. All other results lie in the work area, which other runs
use as soon as this one is over. Only the last round is planned, as reads of waiting fibers are not known.
"""

from __future__ import annotations

from acronumba.data.words import MADE
from acronumba.emit.language import copy_bytes, fill_bytes, i64, ld, ld32, lds, move_bytes, st, st32
from acronumba.runtime.forms import A_ROW, A_TENSOR
from acronumba.runtime.library.extents import extents_of, plan_node
from acronumba.runtime.library.records import component_of, depth_of, group_of, halves, result_of, results_at
from acronumba.runtime.library.rows import count_rows
from acronumba.runtime.state import DONE, GROW_FOUND, GROW_LIVES, MARKED, PIECES

from acronumba.runtime.library.words import (  # isort: skip
    ARENA_USED, ARGS, BATCHES, BESIDE, BFIRST, BKEY, BLEVEL, BSTART, CHUNKS, COPY_AT, DYING, FORMS, FOUND, FOUND_ROOM,
    FREE_COUNT, FREE_PIECES, HEAP, KEYTAB, K_ARGS, K_DIMS, K_LISTS, K_RESULTS, K_TENSORS, K_WORDS, LAST, LEAF_USES,
    LFIRST, LIST_CAPACITY, LIST_ITEMS, LIST_LENGTH, MOST, NEED, NOTED_USES, OFFSET, PART_END, PART_START, RECORD_DATA,
    RECORD_HEAD, RESULTS, RETURNED, ROOM, SIZES, SPOIL, TABLE, WORK_USED, XCAP,
)  # fmt: skip


def in_heap(ST: i64, address: i64) -> i64:
    """Return whether an address is in the heap of the machine, and not in a packed instance."""
    heap = ld(ST, HEAP)
    for c in range(ld(ST, CHUNKS)):
        if ld(heap, 2 * c) <= address and address < ld(heap, 2 * c + 1):
            return 1
    return 0


def mark_returned(ST: i64) -> i64:
    """Mark the value records of this round's nodes that are reachable from results of this part.

    An entry of `found` is a row or a list, as: address of the items, their number, their form, and address of the word
    whose bits are inverted as long as the entry exists, so that nothing is entered twice.
    """
    room = ld(ST, FOUND_ROOM)
    if room == 0:
        return GROW_FOUND
    found, form_of = lds(ST, FOUND, FORMS)
    st(found, 0, ld(ST, RESULTS) + 8 * ld(ld(form_of)) * ld(ST, PART_START))
    st(found, 1, ld(ST, PART_END) - ld(ST, PART_START))
    st(found, 2, ld(form_of))
    end = 1
    k = 0
    full = 0
    while k < end and full == 0:
        at = ld(found, 4 * k)
        form = ld(found, 4 * k + 2)
        width = 8 * ld(form)
        parts = ld(form, 1)
        for _ in range(ld(found, 4 * k + 1)):
            for j in range(parts):
                word = ld(at, ld(form, 2 + 2 * j))
                kind = ld(form, 3 + 2 * j)
                if word == 0:
                    pass
                elif kind == A_TENSOR:
                    if ld(word, RECORD_HEAD) >= 0:
                        st(word, RECORD_HEAD, ld(word, RECORD_HEAD) | MARKED)
                elif in_heap(ST, word) != 0:
                    flag = word
                    if kind != A_ROW:
                        flag = word + 8 * LIST_CAPACITY
                    if ld(flag) >= 0:
                        if end == room:
                            full = 1
                        else:
                            if kind == A_ROW:
                                st(found, 4 * end, word)
                                st(found, 4 * end + 1, 1)
                                st(found, 4 * end + 2, ld(form_of, 1 + (ld(word) & (MADE - 1))))
                            else:
                                st(found, 4 * end, ld(word, LIST_ITEMS))
                                st(found, 4 * end + 1, ld(word, LIST_LENGTH))
                                st(found, 4 * end + 2, kind)
                            st(found, 4 * end + 3, flag)
                            st(flag, 0, -1 - ld(flag))
                            end = end + 1
            at = at + width
        k = k + 1
    for k in range(1, end):
        flag = ld(found, 4 * k + 3)
        st(flag, 0, -1 - ld(flag))
    if full != 0:
        return GROW_FOUND
    return DONE


def node_bytes(ST: i64, k: i64, i: i64, x: i64, j: i64) -> i64:
    """Return the bytes of result j, whose number is x, of the node at position i of the order."""
    if ld(ld(ST, TABLE), k + K_DIMS) != 0:
        plan_node(ST, k, extents_of(ST, k, i), 0)
        return ld(ld(ST, SIZES), 1 + j) * count_rows(ST, k, i, i + 1)
    return ld(ld(ST, OFFSET), 2 * x + 1) * count_rows(ST, k, i, i + 1)


def find_last(ST: i64) -> None:
    """Find the last batch that reads each result of each batch, and the bytes of each that are returned."""
    most, bstart, bkey, keytab, table, args = lds(ST, MOST, BSTART, BKEY, KEYTAB, TABLE, ARGS)
    last, returned, noted, leaf_uses = lds(ST, LAST, RETURNED, NOTED_USES, LEAF_USES)
    for b in range(ld(ST, BATCHES)):
        kernel = ld(keytab, 2 * ld32(bkey, b))
        k = K_WORDS * kernel
        if noted == 0:
            read_operands(ST, k, b)
        record = results_at(ld(table, k + K_ARGS), ld(table, k + K_DIMS))
        for j in range(ld(table, k + K_RESULTS)):
            x = b * most + j
            latest = ld(leaf_uses, most * kernel + j) if noted else 0
            some = 0
            for i in range(ld32(bstart, b), ld32(bstart, b + 1)):
                it = result_of(ld(args, i), record, j)
                if noted == 0:
                    st(it, RECORD_DATA, x)
                else:
                    latest = max(latest, ld(it, RECORD_DATA))
                if ld(it, RECORD_HEAD) & MARKED != 0:
                    some = some + ((node_bytes(ST, k, i, x, j) + 15) & -16)
            st(returned, x, some)
            st32(last, x, b)
            if latest != 0:
                st32(last, x, batch_at(ST, latest))


def read_operands(ST: i64, k: i64, b: i64) -> None:
    """Note that batch b reads the results that its nodes have as operands.

    Until `layout` writes addresses into the value records, they hold the numbers of their results.
    """
    bstart, table, args, last = lds(ST, BSTART, TABLE, ARGS, LAST)
    tensors = ld(table, k + K_TENSORS)
    for i in range(ld32(bstart, b), ld32(bstart, b + 1)):
        at = ld(args, i)
        for j in range(tensors):
            it = ld(at, j)
            if ld(it, RECORD_HEAD) >= 0:
                st32(last, ld(it, RECORD_DATA), b)
        for j in range(tensors, tensors + ld(table, k + K_LISTS)):
            items = ld(ld(at, j), LIST_ITEMS)
            for m in range(ld(ld(at, j), LIST_LENGTH)):
                it = ld(items, m)
                if ld(it, RECORD_HEAD) >= 0:
                    st32(last, ld(it, RECORD_DATA), b)


def batch_at(ST: i64, place: i64) -> i64:
    """Return the batch of the nodes with a place, if levels are those of the components and groups are keys."""
    lfirst, bfirst, bkey, blevel = lds(ST, LFIRST, BFIRST, BKEY, BLEVEL)
    c = component_of(place)
    wanted = halves(ld32(lfirst, c) + depth_of(place), group_of(place))
    low = ld32(bfirst, c) + depth_of(place)  # where each level is one batch
    high = ld32(bfirst, c + 1)
    if halves(ld32(blevel, low), ld32(bkey, low)) == wanted:
        return low
    while low < high:
        b = (low + high) >> 1
        if halves(ld32(blevel, b), ld32(bkey, b)) < wanted:
            low = b + 1
        else:
            high = b
    return low


def take_place(ST: i64, size: i64) -> i64:
    """Allocate so many bytes of the work area, by best fit; return the offset."""
    free, count = lds(ST, FREE_PIECES, FREE_COUNT)
    best = -1
    least = 1 << 62
    for i in range(count):
        some = ld(free, 2 * i + 1)
        if some >= size and some < least:
            best = i
            least = some
    if best >= 0:
        at = ld(free, 2 * best)
        if least > size:
            st(free, 2 * best, at + size)
            st(free, 2 * best + 1, least - size)
            return at
        move_bytes(free + 16 * best, free + 16 * (best + 1), 16 * (count - best - 1))
        st(ST, FREE_COUNT, count - 1)
        return at
    at = ld(ST, WORK_USED)
    if count > 0:
        i = count - 1
        if ld(free, 2 * i) + ld(free, 2 * i + 1) == at:
            at = ld(free, 2 * i)
            st(ST, FREE_COUNT, i)
    st(ST, WORK_USED, at + size)
    return at


def give_place(ST: i64, at: i64, size: i64) -> None:
    """Free bytes of the work area, and merge them with free neighbours."""
    free, count = lds(ST, FREE_PIECES, FREE_COUNT)
    i = count
    while i > 0 and ld(free, 2 * i - 2) > at:
        i = i - 1
    joined = 0
    if i > 0:
        if ld(free, 2 * i - 2) + ld(free, 2 * i - 1) == at:
            joined = 1
            i = i - 1
            st(free, 2 * i + 1, ld(free, 2 * i + 1) + size)
    next = i + joined
    if next < count and ld(free, 2 * next) == at + size:
        if joined != 0:
            st(free, 2 * i + 1, ld(free, 2 * i + 1) + ld(free, 2 * next + 1))
            move_bytes(free + 16 * next, free + 16 * (next + 1), 16 * (count - next - 1))
            st(ST, FREE_COUNT, count - 1)
        else:
            st(free, 2 * next, at)
            st(free, 2 * next + 1, ld(free, 2 * next + 1) + size)
    elif joined == 0 and count < PIECES:
        move_bytes(free + 16 * (i + 1), free + 16 * i, 16 * (count - i))
        st(free, 2 * i, at)
        st(free, 2 * i + 1, size)
        st(ST, FREE_COUNT, count + 1)


def share_places(ST: i64) -> i64:
    """Assign each result of each batch an offset: in the arena, as -1 - offset, or in the work area."""
    most, batches = lds(ST, MOST, BATCHES)
    if batches * most > ld(ST, XCAP):
        st(ST, NEED, batches * most)
        return GROW_LIVES
    status = mark_returned(ST)
    if status != DONE:
        return status
    find_last(ST)
    bstart, bkey, keytab, table, offset, last = lds(ST, BSTART, BKEY, KEYTAB, TABLE, OFFSET, LAST)
    room, dying, beside, returned = lds(ST, ROOM, DYING, BESIDE, RETURNED)
    fill_bytes(dying, 0, 4 * batches)
    st(ST, FREE_COUNT, 0)
    st(ST, WORK_USED, 0)
    kept = 0
    copies = 0
    for b in range(batches):
        k = K_WORDS * ld(keytab, 2 * ld32(bkey, b))
        count = 1
        if ld(table, k + K_DIMS) == 0:
            count = count_rows(ST, k, ld32(bstart, b), ld32(bstart, b + 1))
        for j in range(ld(table, k + K_RESULTS)):
            x = b * most + j
            size = count * ld(offset, 2 * x + 1)
            whole = (size + 63) & -64
            some = ld(returned, x)
            if some > 0 and 2 * some >= size:
                st(offset, 2 * x, -1 - kept)
                st(returned, x, 0)
                kept = kept + whole
            elif whole == 0:
                st(offset, 2 * x, 0)
            else:
                copies = copies + some
                st(offset, 2 * x, take_place(ST, whole))
                st(room, x, whole)
                end = ld32(last, x)
                st32(beside, x, ld32(dying, end))
                st32(dying, end, x + 1)
        x = ld32(dying, b) - 1
        while x >= 0:
            give_place(ST, ld(offset, 2 * x), ld(room, x))
            x = ld32(beside, x) - 1
    st(ST, ARENA_USED, (kept + copies + 63) & -64)
    st(ST, COPY_AT, kept)
    return DONE


def settle(ST: i64, b: i64) -> None:
    """Copy the returned nodes of a batch to the arena; overwrite dead results, if that is requested for tests."""
    most, bstart, table, args, offset, returned = lds(ST, MOST, BSTART, TABLE, ARGS, OFFSET, RETURNED)
    k = K_WORDS * ld(ld(ST, KEYTAB), 2 * ld32(ld(ST, BKEY), b))
    record = results_at(ld(table, k + K_ARGS), ld(table, k + K_DIMS))
    for j in range(ld(table, k + K_RESULTS)):
        x = b * most + j
        if ld(returned, x) > 0:
            to = ld(ST, COPY_AT)
            st(ST, COPY_AT, to + ld(returned, x))
            for i in range(ld32(bstart, b), ld32(bstart, b + 1)):
                it = result_of(ld(args, i), record, j)
                if ld(it, RECORD_HEAD) & MARKED != 0:
                    size = node_bytes(ST, k, i, x, j)
                    copy_bytes(to, ld(it, RECORD_DATA), size)
                    st(it, RECORD_DATA, to)
                    to = to + ((size + 15) & -16)
    if ld(ST, SPOIL) != 0:
        x = ld32(ld(ST, DYING), b) - 1
        while x >= 0:
            fill_bytes(ld(offset, 2 * x), 255, ld(ld(ST, ROOM), x))
            x = ld32(ld(ST, BESIDE), x) - 1
