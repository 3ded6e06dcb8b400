"""Layout: addresses of the results of each batch.

In: the batches of `schedule`. Out: value records filled in. The results of a batch are contiguous rows in its order, in
one arena of bytes; each result of each batch begins at a multiple of 64 bytes, or of more (`spread`). If results are
large, see `plenty`, `liveness` lets them reuse memory of dead results.
"""

from __future__ import annotations

from acronumba.emit.language import call_address, i64, ld, ld32, lds, st
from acronumba.runtime.library.extents import extents_of, plan_node
from acronumba.runtime.library.liveness import share_places
from acronumba.runtime.library.records import result_of, results_at
from acronumba.runtime.library.rows import count_rows, rows_width
from acronumba.runtime.state import DONE, GROW_ARENA, GROW_SCRATCH, GROW_WORK, LARGEST_GRANULE, LEAST_GRANULE, NEVER

from acronumba.runtime.library.words import (  # isort: skip
    ARENA, ARENA_SIZE, ARENA_USED, AREAS, ARGS, BATCHES, BKEY, BSTART, COARSE, COPY_AT, GRANULE, INSTANCES, KEPT,
    KEYTAB, K_ARGS, K_DIMS, K_PLAN, K_RESULTS, K_ROWS, K_WORDS, LARGEST, MORE, MOST, N, NEED, NOTED_FROM, NOTING,
    OFFSET, PART_END, PART_START, PLANNED, PLENTY, RECORD_DATA, RECORD_HEAD, RESULT_BYTES, SCRATCH_SIZE,
    SCRATCH_WANTED, SIZES, STRIDE, TABLE, WORK, WORK_SIZE, WORK_USED,
)  # fmt: skip


def layout(ST: i64) -> i64:
    """Assign memory to the results of all batches and write their addresses into the value records."""
    if ld(ST, PLANNED) == 0:
        status = measure(ST)
        if status != DONE:
            return status
        plenty = ld(ST, PLENTY)
        if plenty < NEVER and ld(ST, PART_END) - ld(ST, PART_START) < ld(ST, INSTANCES):
            plenty = -1  # other parts use the places of this one
        kept, size = lds(ST, KEPT, RESULT_BYTES)
        if plenty >= 0 and kept > size:
            plenty = NEVER  # the last round has little of all that would have to be looked through
        if ld(ST, MORE) == 0 and size // (ld(ST, N) + 4096) > plenty:
            st(ST, PLANNED, 1)
    if ld(ST, PLANNED) == 1:
        status = share_places(ST)
        if status != DONE:
            return status
        st(ST, PLANNED, 2)
    if ld(ST, ARENA_USED) > ld(ST, ARENA_SIZE):
        st(ST, NEED, ld(ST, ARENA_USED))
        return GROW_ARENA
    if ld(ST, WORK_USED) > ld(ST, WORK_SIZE):
        st(ST, NEED, ld(ST, WORK_USED))
        return GROW_WORK
    if ld(ST, SCRATCH_WANTED) > ld(ST, SCRATCH_SIZE):
        st(ST, NEED, ld(ST, SCRATCH_WANTED))
        return GROW_SCRATCH
    st(ST, NOTING, 0)
    if ld(ST, PLANNED) == 2 and ld(ST, N) >= ld(ST, NOTED_FROM):
        st(ST, NOTING, 1)
    give_addresses(ST)
    return DONE


def measure(ST: i64) -> i64:
    """Compute the sizes of all results, disjoint offsets for them, and the scratch that is needed."""
    most, sizes, offset, bstart, bkey, keytab = lds(ST, MOST, SIZES, OFFSET, BSTART, BKEY, KEYTAB)
    table, batches = lds(ST, TABLE, BATCHES)
    total = 0
    scratch = 0
    space = 0
    largest = ld(ST, LARGEST)
    large = 0
    for b in range(batches):
        key = ld32(bkey, b)
        k = K_WORDS * ld(keytab, 2 * key)
        count = count_rows(ST, k, ld32(bstart, b), ld32(bstart, b + 1))
        if ld(table, k + K_ROWS) != 0:
            space = max(space, count * rows_width(ST, k))
        if ld(table, k + K_DIMS) != 0:
            plan_nodes(ST, k, b)
            count = 1
        else:
            call_address(ld(table, k + K_PLAN), 0, sizes)
        results = ld(table, k + K_RESULTS)
        if count == 0:  # rows of arrays that have none: how long they would be says nothing
            for j in range(results):
                st(offset, 2 * (b * most + j), total)
                st(offset, 2 * (b * most + j) + 1, 0)
        elif ld(sizes, 1 + results) > largest:
            large = 1
            for j in range(results):
                st(offset, 2 * (b * most + j) + 1, ld(sizes, 1 + results))
        else:
            if ld(sizes) > scratch:
                scratch = ld(sizes)
            for j in range(results):
                size = ld(sizes, 1 + j)
                st(offset, 2 * (b * most + j), total)
                st(offset, 2 * (b * most + j) + 1, size)
                if size > 1 << 31 or count > 1 << 28:  # or else it cannot overflow
                    if size > (1 << 60) // max(count, 1):
                        large = 1
                        size = 0
                total = (total + count * size + 63) & -64
                if total > 1 << 60:
                    large = 1
                    total = 0
    if large != 0:
        st(ST, ARENA_USED, 1 << 62)
        st(ST, NEED, 1 << 62)
        return GROW_ARENA
    total = spread(ST, total)
    st(ST, RESULT_BYTES, total)
    st(ST, ARENA_USED, total)
    stride = (scratch + 127) & -64
    st(ST, STRIDE, stride)
    st(ST, SCRATCH_WANTED, space + stride * ld(ST, AREAS))
    return DONE


def spread(ST: i64, total: i64) -> i64:
    """Move results so that each of each batch begins at a granule; return the bytes of all."""
    most, batches, offset, coarse = lds(ST, MOST, BATCHES, OFFSET, COARSE)
    granule = LEAST_GRANULE
    while coarse != 0 and granule < LARGEST_GRANULE and batches * most <= total >> (granule + 1 + coarse):
        granule = granule + 1
    st(ST, GRANULE, granule)
    if granule > LEAST_GRANULE:
        bkey, keytab, table = lds(ST, BKEY, KEYTAB, TABLE)
        moved = 0
        for b in range(batches):
            for j in range(ld(table, K_WORDS * ld(keytab, 2 * ld32(bkey, b)) + K_RESULTS)):
                before = ld(offset, 2 * (b * most + j))
                moved = ((before + moved + (1 << granule) - 1) & -(1 << granule)) - before
                st(offset, 2 * (b * most + j), before + moved)
        total = total + moved
    return total


def plan_nodes(ST: i64, k: i64, b: i64) -> None:
    """Fill `sizes` for a batch of nodes with run-time extents: sums of the sizes of results, maxima of the others."""
    sizes, offset, bstart = lds(ST, SIZES, OFFSET, BSTART)
    results = ld(ld(ST, TABLE), k + K_RESULTS)
    at = offset + 16 * b * ld(ST, MOST)
    scratch = 0
    largest = 0
    known = 0
    for j in range(results):
        st(at, 2 * j + 1, 0)
    for i in range(ld32(bstart, b), ld32(bstart, b + 1)):
        rows = count_rows(ST, k, i, i + 1)
        if rows != 0:  # of arrays that have none, how long they would be says nothing
            known = plan_node(ST, k, extents_of(ST, k, i), known)
            scratch = max(scratch, ld(sizes))
            largest = max(largest, ld(sizes, 1 + results))
            for j in range(results):
                st(at, 2 * j + 1, min(ld(at, 2 * j + 1) + times_rows(ld(sizes, 1 + j), rows), 1 << 61))
    st(sizes, 0, scratch)
    for j in range(results):
        st(sizes, 1 + j, ld(at, 2 * j + 1))
    st(sizes, 1 + results, largest)


def times_rows(size: i64, rows: i64) -> i64:
    """Return the bytes of some rows; at most 1 << 61."""
    if rows > 1:
        if size > (1 << 61) // rows:
            return 1 << 61
        return size * rows
    return min(size, 1 << 61)


def give_addresses(ST: i64) -> None:
    """Write the addresses of all results into the value records; results of a round before the last become inputs."""
    most, offset, bstart, bkey, keytab, table = lds(ST, MOST, OFFSET, BSTART, BKEY, KEYTAB, TABLE)
    args, arena, sizes = lds(ST, ARGS, ARENA, SIZES)
    work = arena
    if ld(ST, PLANNED) == 2:
        work = ld(ST, WORK)
        st(ST, COPY_AT, ld(ST, COPY_AT) + arena)
    more = ld(ST, MORE)
    for b in range(ld(ST, BATCHES)):
        k = K_WORDS * ld(keytab, 2 * ld32(bkey, b))
        record = results_at(ld(table, k + K_ARGS), ld(table, k + K_DIMS))
        for j in range(ld(table, k + K_RESULTS)):
            data = ld(offset, 2 * (b * most + j))
            if data >= 0:
                data = data + work
            else:
                data = arena - data - 1
            st(offset, 2 * (b * most + j), data)
            size = ld(offset, 2 * (b * most + j) + 1)
            if ld(table, k + K_DIMS) != 0:
                known = 0
                for i in range(ld32(bstart, b), ld32(bstart, b + 1)):
                    known = plan_node(ST, k, extents_of(ST, k, i), known)
                    st(result_of(ld(args, i), record, j), RECORD_DATA, data)
                    data = data + ld(sizes, 1 + j) * count_rows(ST, k, i, i + 1)
            elif ld(table, k + K_ROWS) == 0:
                for i in range(ld32(bstart, b), ld32(bstart, b + 1)):
                    st(result_of(ld(args, i), record, j), RECORD_DATA, data)
                    data = data + size
            else:
                for i in range(ld32(bstart, b), ld32(bstart, b + 1)):
                    st(result_of(ld(args, i), record, j), RECORD_DATA, data)
                    data = data + size * count_rows(ST, k, i, i + 1)
            if more != 0:
                for i in range(ld32(bstart, b), ld32(bstart, b + 1)):
                    st(result_of(ld(args, i), record, j), RECORD_HEAD, -1)
