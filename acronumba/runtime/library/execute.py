"""Execution: the calls of the kernels, batch by batch.

In: the batches with their places. Out: kernels run. Threads share a batch by its rows or, where these are few, by the
stages of its kernel (`run_batch`).
"""

from __future__ import annotations

from acronumba.emit.language import call_address, call_address_i64, fill_bytes, i64, ld, ld32, lds, st
from acronumba.ir.spec import FIXED
from acronumba.runtime.library.cuts import cut_nodes, cut_units
from acronumba.runtime.library.extents import extents_of, plan_node
from acronumba.runtime.library.liveness import settle
from acronumba.runtime.library.rows import count_rows, split_rows
from acronumba.runtime.library.workers import pool_run
from acronumba.runtime.state import DONE, PARTS, PAUSE

from acronumba.runtime.library.words import (  # isort: skip
    ARGS, BATCHES, BKEY, BLOCK_BYTES, BLOCK_FINER, BSTART, CUTS, FAIL, FAILURES, KEYTAB, K_BEGIN, K_COST, K_DIMS,
    K_FALLIBLE, K_PARAMS, K_RESULTS, K_ROWS, K_RUN, K_SHARES, K_STAGES, K_WORDS, MOST, OFFSET, PARAMETERS_BEGUN,
    PARAMETERS_FAILS, PARAMETERS_NODES, PLANNED, POOL, RUN_BATCHES, RUN_SLICE, SCRATCH, SIZES, STAGE_BYTES,
    STAGE_RUN, STAGE_WEIGHTS, STRIDE, TABLE, TAKEN, THREADS, UNIT, UNITS_BYTES, UNITS_COUNT, UNITS_STARTS, UNITS_TIME,
    UNITS_TIMES,
)  # fmt: skip


def run_rows(ST: i64, k: i64, low: i64, high: i64) -> i64:
    """Run a batch of nodes of several rows; a node fails as its first row that fails. Return how many rows it has."""
    table = ld(ST, TABLE)
    count = count_rows(ST, k, low, high)
    words = ld(ST, SCRATCH) + ld(ST, STRIDE) * ld(ST, THREADS)
    fails = words + 8 * count
    split_rows(ST, k, low, high, words, count)
    params = ld(table, k + K_PARAMS)
    st(params, PARAMETERS_NODES, words)
    st(params, PARAMETERS_FAILS, fails)
    if ld(table, k + K_FALLIBLE) == 0:
        run_batch(ST, k, -1, count, 0)
        return count
    fill_bytes(fails, 0, 8 * count)
    run_batch(ST, k, -1, count, 0)
    fail = ld(ST, FAIL)
    at = 0
    for i in range(low, high):
        found = 0
        for r in range(at, at + count_rows(ST, k, i, i + 1)):
            if found == 0:
                found = ld(fails, r)
        st(fail, i, found)
        at = at + count_rows(ST, k, i, i + 1)
    return count


def execute(ST: i64) -> i64:
    """Run the kernels, batch by batch; go on where it returned before if called again."""
    most, offset, bstart, bkey, keytab, table = lds(ST, MOST, OFFSET, BSTART, BKEY, KEYTAB, TABLE)
    args, fail, shared, failures, run_slice = lds(ST, ARGS, FAIL, PLANNED, FAILURES, RUN_SLICE)
    time = 0
    first = ld(ST, RUN_BATCHES)
    for b in range(first, ld(ST, BATCHES)):
        if b > first and time > run_slice:
            st(ST, RUN_BATCHES, b)
            st(ST, FAILURES, failures)
            st(ST, TAKEN, ld(ST, TAKEN) + time)
            return PAUSE
        key = ld32(bkey, b)
        k = K_WORDS * ld(keytab, 2 * key)
        low = ld32(bstart, b)
        count = ld32(bstart, b + 1) - low
        params = ld(table, k + K_PARAMS)
        st(params, PARAMETERS_NODES, args + 8 * low)
        st(params, PARAMETERS_FAILS, fail + 8 * low)
        st(params, PARAMETERS_BEGUN, ld(params, PARAMETERS_BEGUN) + 1)
        longest = 0
        if ld(table, k + K_DIMS) != 0:
            longest = weigh_nodes(ST, k, low, low + count)
        else:
            for j in range(ld(table, k + K_RESULTS)):
                st(params, FIXED + j, ld(offset, 2 * (b * most + j)))
        if ld(table, k + K_ROWS) != 0:
            rows = run_rows(ST, k, low, low + count)
            time = time + (rows - count) * ld(table, k + K_COST)
        else:
            if ld(table, k + K_FALLIBLE) != 0:
                fill_bytes(fail + 8 * low, 0, 8 * count)
            run_batch(ST, k, low, count, longest)
        if shared != 0:
            settle(ST, b)
        if ld(table, k + K_FALLIBLE) != 0:
            for i in range(low, low + count):
                failures = failures | ld(fail, i)
        time = min(time + count * ld(table, k + K_COST), 1 << 60)
    st(ST, FAILURES, failures)
    st(ST, TAKEN, ld(ST, TAKEN) + time)
    return DONE


def weigh_nodes(ST: i64, k: i64, low: i64, high: i64) -> i64:
    """Find how long the nodes, or their rows, of a kernel with run-time extents take; return the most nanoseconds.

    The mean becomes `cost` of the kernel.
    """
    table, sizes = lds(ST, TABLE, SIZES)
    at = 2 + ld(table, k + K_RESULTS)
    total = 0
    most = 0
    count = 0
    known = 0
    for i in range(low, high):
        known = plan_node(ST, k, extents_of(ST, k, i), known)
        rows = count_rows(ST, k, i, i + 1)
        total = min(total + min(rows, 1 << 20) * ld(sizes, at), 1 << 60)
        most = max(most, ld(sizes, at))
        count = count + rows
    st(table, k + K_COST, total // max(count, 1))
    return most


def run_batch(ST: i64, k: i64, low: i64, count: i64, longest: i64) -> None:
    """Run a kernel over a batch: by all threads where that pays.

    They share the nodes of a large batch. Where a kernel has stages and a thread would have less than a block of rows,
    they share each stage of a block: otherwise every thread would read all weights. Without weights it takes four nodes
    for each thread, none of which is long.

    Parameters
    ----------
    low
        Place of the first node in the order; -1: they are rows of nodes.
    longest
        Nanoseconds of the longest node of a kernel with run-time extents, otherwise 0.
    """
    table = ld(ST, TABLE)
    run = ld(table, k + K_RUN)
    params = ld(table, k + K_PARAMS)
    units = 1
    cuts = 0
    if ld(ST, POOL) != 0:
        threads = ld(ST, THREADS)
        time = count * ld(table, k + K_COST)
        worth = units_of(ST, time)
        units = min(worth, count)
        if ld(table, k + K_BEGIN) != 0:
            if weights_of(table + 8 * k) == 0:
                if count < 4 * threads or longest > time // (4 * threads):
                    run_stages(ST, k, count)
                    return
            else:
                if count // 48 < min(worth, threads):
                    run_stages(ST, k, count)
                    return
                units = min(worth, count // 24)
        if units > threads:
            units = threads * min(units // threads, PARTS)
        if units > 1 and longest > 0:
            if low >= 0:
                cuts = ld(ST, CUTS)
                cut_nodes(ST, k, low, low + count, units)
    if units > 1:
        pool_run(ld(ST, POOL), run, params, count, units, cuts, ld(ST, SCRATCH), ld(ST, STRIDE), ld(ST, THREADS))
    else:
        call_address(run, params, 0, count, ld(ST, SCRATCH))


def weights_of(kernel: i64) -> i64:
    """Return about how many nanoseconds it takes to read the shared weights of a kernel with stages."""
    total = 0
    for s in range(ld(kernel, K_STAGES)):
        total = total + ld(ld(kernel, K_SHARES) + STAGE_BYTES * s, STAGE_WEIGHTS)
    return total


def units_of(ST: i64, time: i64) -> i64:
    """Return into how many units it pays to cut so many nanoseconds of work."""
    return time // ld(ST, UNIT)


def run_stages(ST: i64, k: i64, count: i64) -> None:
    """Run a kernel block by block and stage by stage, each stage by all threads where that pays.

    A thread gets one unit of equal ones: from batch to batch it is mostly the same part of the weights, which stays in
    its cache.
    """
    table = ld(ST, TABLE)
    params = ld(table, k + K_PARAMS)
    threads, scratch = lds(ST, THREADS, SCRATCH)
    low = 0
    while low < count:
        st(scratch, BLOCK_FINER, 0)
        high = call_address_i64(ld(table, k + K_BEGIN), params, low, count, scratch)
        while wants_finer(ST, table + 8 * k, scratch, threads) != 0:
            st(scratch, BLOCK_FINER, ld(scratch, BLOCK_FINER) + 1)
            high = call_address_i64(ld(table, k + K_BEGIN), params, low, count, scratch)
        for s in range(ld(table, k + K_STAGES)):
            stage = ld(table, k + K_SHARES) + STAGE_BYTES * s
            run = ld(stage, STAGE_RUN)
            known = scratch + BLOCK_BYTES + UNITS_BYTES * s
            many, time, times, starts = lds(known, UNITS_COUNT, UNITS_TIME, UNITS_TIMES, UNITS_STARTS)
            worth = units_of(ST, max(time, ld(stage, STAGE_WEIGHTS)))
            units = min(worth, min(many, threads))
            cuts = 0
            if times != 0 and units > 1:
                if units == threads:
                    units = threads * min(min(worth, many) // threads, PARTS)
                cuts = ld(ST, CUTS)
                cut_units(times, starts, high - low, units, threads, cuts)
            if units > 1:
                pool_run(ld(ST, POOL), run, scratch, many, units, cuts, scratch, ld(ST, STRIDE), threads)
            else:
                call_address(run, scratch, 0, many, scratch)
        low = high


def wants_finer(ST: i64, kernel: i64, block: i64, threads: i64) -> i64:
    """Return whether tiles of a block had better have fewer rows: there are few for each thread, and they are long."""
    if ld(block, BLOCK_FINER) == 2:
        return 0
    for s in range(ld(kernel, K_STAGES)):
        known = block + BLOCK_BYTES + UNITS_BYTES * s
        many, time, starts = lds(known, UNITS_COUNT, UNITS_TIME, UNITS_STARTS)
        if starts != 0 and many < min(16 * threads, units_of(ST, time)):
            return 1
    return 0
