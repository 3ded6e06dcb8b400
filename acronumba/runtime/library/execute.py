"""Execution: the calls of the kernels, batch by batch.

In: the batches, with addresses of their results. Out: the results. Threads share a batch by its rows or, if these are
few, by the units of its kernel's stages (`run_batch`).
"""

from __future__ import annotations

from acronumba.emit.language import call_address, call_address_i64, fill_bytes, i64, ld, ld32, lds, st
from acronumba.ir.spec import FIXED
from acronumba.runtime.library.cuts import cut_blocks, cut_nodes
from acronumba.runtime.library.extents import extents_of, plan_node
from acronumba.runtime.library.liveness import settle
from acronumba.runtime.library.rows import count_rows, split_rows
from acronumba.runtime.library.workers import pool_run, run_part
from acronumba.runtime.state import DONE, GROUP, PARTS, PAUSE

from acronumba.runtime.library.words import (  # isort: skip
    AREAS, ARGS, BATCHES, BKEY, BLOCK_BYTES, BLOCK_FINER, BLOCK_LAST, BSTART, CUTS, FAIL, FAILURES, FIRSTS, KEYTAB,
    K_BEGIN, K_BLOCK, K_COST, K_DIMS, K_FALLIBLE, K_PARAMS, K_RESULTS, K_ROWS, K_RUN, K_SHARES, K_STAGES, K_WORDS,
    MOST, OFFSET, PARAMETERS_BEGUN, PARAMETERS_FAILS, PARAMETERS_NODES, PLANNED, POOL, RUN_BATCHES, RUN_SLICE,
    SCRATCH, SIZES, STAGE_BYTES, STAGE_RUN, STAGE_WEIGHTS, STRIDE, TABLE, TAKEN, THREADS, UNIT, UNITS_BYTES,
    UNITS_COUNT, UNITS_STARTS, UNITS_TIME, UNITS_TIMES,
)  # fmt: skip


def run_rows(ST: i64, k: i64, low: i64, high: i64) -> i64:
    """Run a batch of nodes of several rows; a node fails like its first failing row. Return the number of rows."""
    table = ld(ST, TABLE)
    count = count_rows(ST, k, low, high)
    words = ld(ST, SCRATCH) + ld(ST, STRIDE) * ld(ST, AREAS)
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
    """Run the kernels, batch by batch; a further call resumes where the last one returned."""
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
    """Estimate the time of each node, or row, of a kernel with run-time extents; return the most nanoseconds.

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
    """Run a kernel over a batch: by all threads if that pays.

    Threads share the nodes of a large batch. If a kernel has stages and a thread would have less than a block of rows,
    threads share each stage of a block: otherwise every thread would read all weights. Without weights, nodes are
    shared if each thread gets at least four, none of them long.

    Parameters
    ----------
    low
        Position of the first node in the order; -1: the batch consists of rows of nodes.
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
                block = ld(table, k + K_BLOCK)
                if count // block < min(worth, threads):
                    run_stages(ST, k, count)
                    return
                units = min(units, max(2 * count // block, 1))
        if units > threads:
            units = threads * min(units // threads, PARTS)
        if units > 1 and longest > 0:
            if low >= 0:
                cuts = ld(ST, CUTS)
                cut_nodes(ST, k, low, low + count, units)
    if units > 1:
        pool_run(ld(ST, POOL), run, params, count, units, cuts, 0, ld(ST, SCRATCH), ld(ST, STRIDE), ld(ST, THREADS))
    else:
        call_address(run, params, 0, count, ld(ST, SCRATCH))


def weights_of(kernel: i64) -> i64:
    """Estimate the nanoseconds of reading the shared weights of a kernel with stages."""
    total = 0
    for s in range(ld(kernel, K_STAGES)):
        total = total + ld(ld(kernel, K_SHARES) + STAGE_BYTES * s, STAGE_WEIGHTS)
    return total


def units_of(ST: i64, time: i64) -> i64:
    """Return the number of units into which it pays to cut so many nanoseconds of work."""
    return time // ld(ST, UNIT)


def run_stages(ST: i64, k: i64, count: i64) -> None:
    """Run a kernel stage by stage, some blocks at once: each stage by all threads if that pays.

    Units are equal, and a thread gets one: for a single block that is mostly the same part of the weights in each
    batch, which stays in the thread's cache.
    """
    table, threads = lds(ST, TABLE, THREADS)
    kernel = table + 8 * k
    first = ld(ST, SCRATCH)
    if ld(ST, AREAS) > threads:
        first = first + ld(ST, STRIDE) * threads
    low = 0
    while low < count:
        finer = 0
        blocks = begin_blocks(ST, kernel, first, low, count, finer)
        while wants_finer(ST, kernel, first, blocks, finer) != 0:
            finer = finer + 1
            blocks = begin_blocks(ST, kernel, first, low, count, finer)
        for s in range(ld(kernel, K_STAGES)):
            share_stage(ST, kernel, s, first, blocks)
        low = ld(first + ld(ST, STRIDE) * (blocks - 1), BLOCK_LAST)


def begin_blocks(ST: i64, kernel: i64, first: i64, low: i64, count: i64, finer: i64) -> i64:
    """Describe blocks from node `low` on, as many as threads share at once; return their number."""
    stride, threads = lds(ST, STRIDE, THREADS)
    most = max(ld(ST, AREAS) - threads, 1)
    enough = ld(ST, UNIT) * GROUP * threads
    blocks = 0
    time = 0
    while blocks < most and low < count and time < enough:
        block = first + stride * blocks
        st(block, BLOCK_FINER, finer)
        low = call_address_i64(ld(kernel, K_BEGIN), ld(kernel, K_PARAMS), low, count, block)
        for s in range(ld(kernel, K_STAGES)):
            time = min(time + ld(block + BLOCK_BYTES + UNITS_BYTES * s, UNITS_TIME), 1 << 60)
        blocks = blocks + 1
    return blocks


def share_stage(ST: i64, kernel: i64, s: i64, first: i64, blocks: i64) -> None:
    """Run a stage of some blocks: by all threads if that pays."""
    threads, scratch, stride, firsts = lds(ST, THREADS, SCRATCH, STRIDE, FIRSTS)
    stage = ld(kernel, K_SHARES) + STAGE_BYTES * s
    known = first + BLOCK_BYTES + UNITS_BYTES * s
    many = 0
    time = 0
    for b in range(blocks):
        st(firsts, b, many)
        many = many + ld(known + stride * b, UNITS_COUNT)
        time = min(time + ld(known + stride * b, UNITS_TIME), 1 << 60)
    st(firsts, blocks, many)
    worth = units_of(ST, max(time, ld(stage, STAGE_WEIGHTS)))
    units = min(worth, min(many, threads))
    if units < 2:
        run_part(ld(stage, STAGE_RUN), first, 0, many, scratch, firsts, stride)
        return
    cuts = 0
    if ld(known, UNITS_TIMES) != 0 or blocks > 1:
        rounds = min(worth, many) // threads
        if ld(known, UNITS_TIMES) == 0 and many < 32 * threads:
            rounds = 1  # units cannot be cut: in small parts, a unit more or less counts
        if rounds > 0:
            units = threads * min(rounds, PARTS)
        cuts = ld(ST, CUTS)
        cut_blocks(ST, s, first, blocks, units)
    pool_run(ld(ST, POOL), ld(stage, STAGE_RUN), first, many, units, cuts, firsts, scratch, stride, threads)


def wants_finer(ST: i64, kernel: i64, first: i64, blocks: i64, finer: i64) -> i64:
    """Return whether tiles of blocks should have fewer rows: they are few per thread, and long."""
    if finer == 2:
        return 0
    threads, stride = lds(ST, THREADS, STRIDE)
    for s in range(ld(kernel, K_STAGES)):
        many = 0
        time = 0
        starts = 0
        for b in range(blocks):
            known = first + stride * b + BLOCK_BYTES + UNITS_BYTES * s
            many = many + ld(known, UNITS_COUNT)
            time = min(time + ld(known, UNITS_TIME), 1 << 60)
            starts = ld(known, UNITS_STARTS)
        if starts != 0 and many < min(16 * threads, units_of(ST, time)):
            return 1
    return 0
