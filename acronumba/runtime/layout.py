"""Layout and execution: where the results of each batch lie, and the calls of the kernels.

In: the batches of `schedule`. Out: value records filled in, kernels run. The results of a batch are contiguous rows
in its order, in one arena of bytes; each result of each batch begins at a multiple of 64 bytes. Compiled library
code, like `schedule`. `drive` is the one function that is called per mini-batch: it runs all stages, and returns
early only where the caller must make room.
"""

from __future__ import annotations

SOURCE = '''
def layout(ST: i64) -> i64:
    """Place the results of all batches and write their addresses into the value records."""
    most = ld(ST, MOST)
    sizes = ld(ST, SIZES)
    offset = ld(ST, OFFSET)
    bstart = ld(ST, BSTART)
    bkey = ld(ST, BKEY)
    keytab = ld(ST, KEYTAB)
    table = ld(ST, TABLE)
    args = ld(ST, ARGS)
    batches = ld(ST, BATCHES)
    total = 0
    scratch = 0
    largest = ld(ST, LARGEST)
    large = 0
    for b in range(batches):
        key = ld32(bkey, b)
        k = K_WIDTH * ld(keytab, 2 * key)
        count = ld32(bstart, b + 1) - ld32(bstart, b)
        call_address(ld(table, k + K_PLAN), ld(keytab, 2 * key + 1), sizes)
        results = ld(table, k + K_RESULTS)
        if ld(sizes, 1 + results) > largest:
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
                if size > 1 << 31:  # or else no number of nodes makes it overflow
                    if size > (1 << 60) // count:
                        large = 1
                        size = 0
                total = (total + count * size + 63) & -64
                if total > 1 << 60:
                    large = 1
                    total = 0
    st(ST, USED, total)
    if large != 0:
        st(ST, NEED, 1 << 62)
        return GROW_ARENA
    if total > ld(ST, ASIZE):
        st(ST, NEED, total)
        return GROW_ARENA
    stride = (scratch + 127) & -64
    st(ST, STRIDE, stride)
    if stride * ld(ST, THREADS) > ld(ST, SSIZE):
        st(ST, NEED, stride * ld(ST, THREADS))
        return GROW_SCRATCH
    arena = ld(ST, ARENA)
    for b in range(batches):
        k = K_WIDTH * ld(keytab, 2 * ld32(bkey, b))
        record = 8 * (ld(table, k + K_ARGS) + ld(table, k + K_DIMS))
        for j in range(ld(table, k + K_RESULTS)):
            data = arena + ld(offset, 2 * (b * most + j))
            size = ld(offset, 2 * (b * most + j) + 1)
            for i in range(ld32(bstart, b), ld32(bstart, b + 1)):
                st(ld(args, i) + record + 24 * j, 0, data)
                data = data + size
    return DONE


def execute(ST: i64) -> i64:
    """Run the kernels, batch by batch; go on where it returned before if called again."""
    most = ld(ST, MOST)
    offset = ld(ST, OFFSET)
    bstart = ld(ST, BSTART)
    bkey = ld(ST, BKEY)
    keytab = ld(ST, KEYTAB)
    table = ld(ST, TABLE)
    args = ld(ST, ARGS)
    fail = ld(ST, FAIL)
    arena = ld(ST, ARENA)
    failures = ld(ST, FAILURES)
    time = 0
    for b in range(ld(ST, RUN_BATCHES), ld(ST, BATCHES)):
        if time > PATIENCE:
            st(ST, RUN_BATCHES, b)
            st(ST, FAILURES, failures)
            return PAUSE
        key = ld32(bkey, b)
        k = K_WIDTH * ld(keytab, 2 * key)
        low = ld32(bstart, b)
        count = ld32(bstart, b + 1) - low
        params = ld(table, k + K_PARAMS)
        st(params, 0, args + 8 * low)
        st(params, 1, fail + 8 * low)
        st(params, 2, ld(keytab, 2 * key + 1))
        for j in range(ld(table, k + K_RESULTS)):
            st(params, 3 + j, arena + ld(offset, 2 * (b * most + j)))
        if ld(table, k + K_FALLIBLE) == 0:
            run_batch(ST, k, count)
        else:
            fill_bytes(fail + 8 * low, 0, 8 * count)
            run_batch(ST, k, count)
            for i in range(low, low + count):
                failures = failures | ld(fail, i)
        time = time + count * ld(table, k + K_COST)
    st(ST, FAILURES, failures)
    return DONE


def run_batch(ST: i64, k: i64, count: i64):
    """Run a kernel over a batch: by all threads where that pays, in units of at least 24 rows where it can be."""
    table = ld(ST, TABLE)
    threads = ld(ST, THREADS)
    units = 1
    if ld(ST, POOL) != 0 and count * ld(table, k + K_COST) > 8000:
        units = threads * max(1, min(4, count // (24 * threads)))
    if units > 1 and units <= count:
        run = ld(table, k + K_RUN)
        params = ld(table, k + K_PARAMS)
        pool_run(ld(ST, POOL), run, params, count, units, ld(ST, SCRATCH), ld(ST, STRIDE), threads)
    else:
        call_address(ld(table, k + K_RUN), ld(table, k + K_PARAMS), 0, count, ld(ST, SCRATCH))


def warm_up(ST: i64):
    """Fetch what the machine is about to read and write.

    Kernels of the last mini-batch have driven it out of the cache, and the machine, which follows references, would
    wait for each line by itself.
    """
    warm = ld(ST, WARM)
    for k in range(ld(ST, WARMS)):
        at = ld(warm, 2 * k)
        for b in range(0, ld(warm, 2 * k + 1), 64):
            prefetch(at + b)


def drive(ST: i64) -> i64:
    """Run the stages from `stage` to `stop`; go on where it returned before if called again."""
    stop = ld(ST, STOP)
    if ld(ST, STAGE) == 0 and stop > 0:
        if ld(ST, N) == 0:
            warm_up(ST)
        status = call_address_i64(ld(ST, MACHINE), ST)
        if status != DONE:
            return status
        st(ST, STAGE, 1)
    if ld(ST, STAGE) == 1 and stop > 1:
        status = schedule(ST)
        if status != DONE:
            return status
        st(ST, STAGE, 2)
    if ld(ST, STAGE) == 2 and stop > 2:
        status = layout(ST)
        if status != DONE:
            return status
        st(ST, STAGE, 3)
    if ld(ST, STAGE) == 3 and stop > 3:
        status = execute(ST)
        if status != DONE:
            return status
        st(ST, STAGE, 4)
    return DONE
'''
