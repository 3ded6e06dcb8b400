"""Layout and execution: where the results of each batch lie, and the calls of the kernels.

In: the batches of `schedule`. Out: value records filled in, kernels run. The results of a batch are contiguous rows
in its order, in one arena of bytes; each result of each batch begins at a multiple of 64 bytes. Where they are
large, see `plenty`, `liveness` gives places anew once nothing reads what lies there. Compiled library code, like
`schedule`. A node of several rows has one result record, whose shape begins with the number of rows; just
before its batch runs, each row gets argument words of its own (`split_rows`), so that kernels see a row as they see a
node. Threads share a batch by its rows or, where these are few, by the stages of its kernel (`run_batch`). `drive` is
the one function that is called per mini-batch: it runs all stages, and returns early only where the caller must make
room. A mini-batch whose values would not fit into the caches runs in parts, one after the other: the machine starts
some instances only, and when they have run, their work area, columns and scratch serve the next ones (`grow_part`).
"""

from __future__ import annotations

NEVER = 1 << 62  # value of `plenty`: no two results share a place
NODE_BYTES = 256  # that a node takes beside its results, about: arguments, value records, entries in columns

SOURCE = f'''
NEVER = {NEVER}
NODE_BYTES = {NODE_BYTES}


def layout(ST: i64) -> i64:
    """Place the results of all batches and write their addresses into the value records."""
    if ld(ST, PLANNED) == 0:
        status = measure(ST)
        if status != DONE:
            return status
        plenty = ld(ST, PLENTY)
        if plenty < NEVER and ld(ST, BATCH) - ld(ST, PART) < ld(ST, INSTANCES):
            plenty = -1  # other parts use the places of this one
        if ld(ST, MORE) == 0 and ld(ST, PLAIN) // (ld(ST, N) + 4096) > plenty:
            st(ST, PLANNED, 1)
    if ld(ST, PLANNED) == 1:
        status = share_places(ST)
        if status != DONE:
            return status
        st(ST, PLANNED, 2)
    if ld(ST, USED) > ld(ST, ASIZE):
        st(ST, NEED, ld(ST, USED))
        return GROW_ARENA
    if ld(ST, WUSED) > ld(ST, WSIZE):
        st(ST, NEED, ld(ST, WUSED))
        return GROW_WORK
    if ld(ST, SPACE) > ld(ST, SSIZE):
        st(ST, NEED, ld(ST, SPACE))
        return GROW_SCRATCH
    give_addresses(ST)
    return DONE


def measure(ST: i64) -> i64:
    """Find the sizes of all results, places for them none of which two share, and how much scratch is needed."""
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
    space = 0
    largest = ld(ST, LARGEST)
    large = 0
    for b in range(batches):
        key = ld32(bkey, b)
        k = K_WIDTH * ld(keytab, 2 * key)
        count = count_rows(ST, k, ld32(bstart, b), ld32(bstart, b + 1))
        if ld(table, k + K_ROWS) != 0:
            space = max(space, count * rows_width(ST, k))
        call_address(ld(table, k + K_PLAN), ld(keytab, 2 * key + 1), sizes)
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
        st(ST, USED, 1 << 62)
        st(ST, NEED, 1 << 62)
        return GROW_ARENA
    st(ST, PLAIN, total)
    st(ST, USED, total)
    stride = (scratch + 127) & -64
    st(ST, STRIDE, stride)
    st(ST, SPACE, space + stride * ld(ST, THREADS))
    return DONE


def give_addresses(ST: i64):
    """Write the addresses of all results into the value records; those of a round that is not the last are inputs."""
    most = ld(ST, MOST)
    offset = ld(ST, OFFSET)
    bstart = ld(ST, BSTART)
    bkey = ld(ST, BKEY)
    keytab = ld(ST, KEYTAB)
    table = ld(ST, TABLE)
    args = ld(ST, ARGS)
    arena = ld(ST, ARENA)
    work = arena
    if ld(ST, PLANNED) == 2:
        work = ld(ST, WORK)
        st(ST, COPIES, ld(ST, COPIES) + arena)
    more = ld(ST, MORE)
    for b in range(ld(ST, BATCHES)):
        k = K_WIDTH * ld(keytab, 2 * ld32(bkey, b))
        record = 8 * (ld(table, k + K_ARGS) + ld(table, k + K_DIMS))
        for j in range(ld(table, k + K_RESULTS)):
            data = ld(offset, 2 * (b * most + j))
            if data >= 0:
                data = data + work
            else:
                data = arena - data - 1
            st(offset, 2 * (b * most + j), data)
            size = ld(offset, 2 * (b * most + j) + 1)
            if ld(table, k + K_ROWS) == 0:
                for i in range(ld32(bstart, b), ld32(bstart, b + 1)):
                    st(ld(args, i) + record + 24 * j, 0, data)
                    data = data + size
            else:
                for i in range(ld32(bstart, b), ld32(bstart, b + 1)):
                    st(ld(args, i) + record + 24 * j, 0, data)
                    data = data + size * count_rows(ST, k, i, i + 1)
            if more != 0:
                for i in range(ld32(bstart, b), ld32(bstart, b + 1)):
                    st(ld(args, i) + record + 24 * j, 1, -1)


def count_rows(ST: i64, k: i64, low: i64, high: i64) -> i64:
    """Return how many rows the nodes at low..high of the order have, all of one kernel; at most 1 << 40."""
    table = ld(ST, TABLE)
    if ld(table, k + K_ROWS) == 0:
        return high - low
    args = ld(ST, ARGS)
    record = ld(table, k + K_ARGS) + ld(table, k + K_DIMS)
    count = 0
    for i in range(low, high):
        count = min(count + min(ld(ld(ld(args, i), record + 2)), 1 << 40), 1 << 40)
    return count


def rows_width(ST: i64, k: i64) -> i64:
    """Return the bytes that a row of a kernel takes while its batch runs: see `split_rows`."""
    table = ld(ST, TABLE)
    return 8 * (2 + ld(table, k + K_ARGS) + ld(table, k + K_TENSORS))


def split_rows(ST: i64, k: i64, low: i64, high: i64, words: i64, count: i64):
    """Give each row of the nodes at low..high argument words of its own.

    At `words` are the addresses of the rows' words, then `count` words for failures, then for each row its argument
    words and, for each of its tensors, the first word of a value record.
    """
    table = ld(ST, TABLE)
    args = ld(ST, ARGS)
    how = ld(table, k + K_ROWS)
    given = ld(table, k + K_ARGS)
    width = given + ld(table, k + K_TENSORS)
    at = words + 16 * count
    for r in range(count):
        st(words, r, at + 8 * width * r)
    for i in range(low, high):
        node = ld(args, i)
        rows = count_rows(ST, k, i, i + 1)
        for j in range(given):
            word = ld(node, j)
            size = ld(how, j)
            to = at + 8 * j
            if size == 0:
                for r in range(rows):
                    st(to, width * r, word)
            else:
                data = ld(word)
                if size < 0:
                    for r in range(rows):
                        st(to, width * r, ld(data, r))
                else:
                    shape = ld(word, 2)
                    for axis in range(1, ld(how, given + j)):
                        size = size * ld(shape, axis)
                    record = at + 8 * (given + j)
                    for r in range(rows):
                        st(record, width * r, data + size * r)
                        st(to, width * r, record + 8 * width * r)
        at = at + 8 * width * rows


def run_rows(ST: i64, k: i64, low: i64, high: i64) -> i64:
    """Run a batch of nodes of several rows; a node fails as its first row that fails. Return how many rows it has."""
    table = ld(ST, TABLE)
    count = count_rows(ST, k, low, high)
    words = ld(ST, SCRATCH) + ld(ST, STRIDE) * ld(ST, THREADS)
    fails = words + 8 * count
    split_rows(ST, k, low, high, words, count)
    params = ld(table, k + K_PARAMS)
    st(params, 0, words)
    st(params, 1, fails)
    if ld(table, k + K_FALLIBLE) == 0:
        run_batch(ST, k, count)
        return count
    fill_bytes(fails, 0, 8 * count)
    run_batch(ST, k, count)
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
    most = ld(ST, MOST)
    offset = ld(ST, OFFSET)
    bstart = ld(ST, BSTART)
    bkey = ld(ST, BKEY)
    keytab = ld(ST, KEYTAB)
    table = ld(ST, TABLE)
    args = ld(ST, ARGS)
    fail = ld(ST, FAIL)
    shared = ld(ST, PLANNED)
    failures = ld(ST, FAILURES)
    patience = ld(ST, PATIENCE)
    time = 0
    first = ld(ST, RUN_BATCHES)
    for b in range(first, ld(ST, BATCHES)):
        if b > first and time > patience:
            st(ST, RUN_BATCHES, b)
            st(ST, FAILURES, failures)
            st(ST, TAKEN, ld(ST, TAKEN) + time)
            return PAUSE
        key = ld32(bkey, b)
        k = K_WIDTH * ld(keytab, 2 * key)
        low = ld32(bstart, b)
        count = ld32(bstart, b + 1) - low
        params = ld(table, k + K_PARAMS)
        st(params, 0, args + 8 * low)
        st(params, 1, fail + 8 * low)
        st(params, 2, ld(keytab, 2 * key + 1))
        st(params, 3, ld(params, 3) + 1)
        for j in range(ld(table, k + K_RESULTS)):
            st(params, 4 + j, ld(offset, 2 * (b * most + j)))
        if ld(table, k + K_ROWS) != 0:
            rows = run_rows(ST, k, low, low + count)
            time = time + (rows - count) * ld(table, k + K_COST)
        else:
            if ld(table, k + K_FALLIBLE) == 0:
                run_batch(ST, k, count)
            else:
                fill_bytes(fail + 8 * low, 0, 8 * count)
                run_batch(ST, k, count)
        if shared != 0:
            settle(ST, b)
        if ld(table, k + K_FALLIBLE) != 0:
            for i in range(low, low + count):
                failures = failures | ld(fail, i)
        time = time + count * ld(table, k + K_COST)
    st(ST, FAILURES, failures)
    st(ST, TAKEN, ld(ST, TAKEN) + time)
    return DONE


def run_batch(ST: i64, k: i64, count: i64):
    """Run a kernel over a batch: by all threads where that pays.

    They share the rows of a large batch. Where a kernel has stages and a thread would have less than a block of rows,
    they share each stage of a block: otherwise every thread would read all weights.
    """
    table = ld(ST, TABLE)
    run = ld(table, k + K_RUN)
    params = ld(table, k + K_PARAMS)
    units = 1
    if ld(ST, POOL) != 0:
        threads = ld(ST, THREADS)
        worth = units_of(count * ld(table, k + K_COST))
        units = min(worth, count)
        if ld(table, k + K_BEGIN) != 0:
            if count // 48 < min(worth, threads):
                run_stages(ST, k, count)
                return
            units = min(worth, count // 24)
        if units > threads:
            units = threads * min(units // threads, 4)
    if units > 1:
        pool_run(ld(ST, POOL), run, params, count, units, ld(ST, SCRATCH), ld(ST, STRIDE), ld(ST, THREADS))
    else:
        call_address(run, params, 0, count, ld(ST, SCRATCH))


def units_of(time: i64) -> i64:
    """Return into how many units it pays to cut so many nanoseconds of work."""
    return time // 4000


def run_stages(ST: i64, k: i64, count: i64):
    """Run a kernel block by block and stage by stage, each stage by all threads where that pays.

    A thread gets one unit: from batch to batch it is mostly the same part of the weights, which stays in its cache.
    """
    table = ld(ST, TABLE)
    params = ld(table, k + K_PARAMS)
    threads = ld(ST, THREADS)
    scratch = ld(ST, SCRATCH)
    low = 0
    while low < count:
        high = call_address_i64(ld(table, k + K_BEGIN), params, low, count, scratch)
        for s in range(ld(table, k + K_STAGES)):
            stage = ld(table, k + K_SHARES) + 24 * s
            run = ld(stage)
            many = ld(scratch, 3 + s)
            units = min(units_of(max((high - low) * ld(stage, 1), ld(stage, 2))), min(many, threads))
            if units > 1:
                pool_run(ld(ST, POOL), run, scratch, many, units, scratch, ld(ST, STRIDE), threads)
            else:
                call_address(run, scratch, 0, many, scratch)
        low = high


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


def next_round(ST: i64):
    """Forget the nodes that have run and let the fibers that wait for them go on, in the order in which they came.

    What has run is input from now on: `layout` has made its results values of no node.
    """
    runnable = ld(ST, RUNNABLE)
    waiting = ld(ST, WAITING)
    count = ld(ST, WTOP)
    for k in range(count):
        st(runnable, 2 * k, ld(waiting, 2 * (count - 1 - k)))
        st(runnable, 2 * k + 1, ld(waiting, 2 * (count - 1 - k) + 1))
    st(ST, RTOP, count)
    st(ST, WTOP, 0)
    st(ST, MORE, 0)
    forget(ST)


def forget(ST: i64):
    """Begin to record anew; results of what has run stay where they are."""
    used = ld(ST, USED)
    st(ST, KEPT, ld(ST, KEPT) + used)
    st(ST, ARENA, ld(ST, ARENA) + used)
    st(ST, ASIZE, ld(ST, ASIZE) - used)
    st(ST, USED, 0)
    st(ST, PLAINS, ld(ST, PLAINS) + ld(ST, PLAIN))
    st(ST, PLAIN, 0)
    st(ST, PAST, ld(ST, PAST) + ld(ST, N))
    st(ST, N, 0)
    st(ST, EDGES, 0)
    st(ST, BATCHES, 0)
    st(ST, RUN_BATCHES, 0)
    st(ST, PLANNED, 0)
    st(ST, STAGE, 0)


def next_part(ST: i64):
    """Go on with the instances after those that have run."""
    st(ST, WMOST, max(ld(ST, WMOST), ld(ST, WUSED)))
    st(ST, WUSED, 0)
    st(ST, WEIGHED, 0)
    st(ST, WEIGHT, 0)
    st(ST, PART, ld(ST, BATCH))
    st(ST, BATCH, ld(ST, BATCH) + 1)
    forget(ST)


def weigh(ST: i64):
    """Add what the nodes take that were recorded since the last call to `weight`."""
    kind = ld(ST, KIND)
    row = ld(ST, ROW)
    table = ld(ST, TABLE)
    sizes = ld(ST, SIZES)
    weight = ld(ST, WEIGHT)
    for v in range(ld(ST, WEIGHED), ld(ST, N)):
        k = K_WIDTH * ld32(kind, v)
        size = ld(table, k + K_BYTES)
        if size == 0:
            at = ld(row, v) + 8 * ld(table, k + K_ARGS)
            call_address(ld(table, k + K_PLAN), at, sizes)
            for j in range(ld(table, k + K_RESULTS)):
                size = min(size + ld(sizes, 1 + j), 1 << 40)
            if ld(table, k + K_ROWS) != 0:
                size = size * min(ld(ld(at, ld(table, k + K_DIMS) + 2)), 1 << 20)
            size = size + NODE_BYTES
        weight = min(weight + size, 1 << 60)
    st(ST, WEIGHED, ld(ST, N))
    st(ST, WEIGHT, weight)


def grow_part(ST: i64) -> i64:
    """Return whether the part should have more instances; if so, let the machine record some of them.

    The more are recorded, the better is known what they take. All parts that are left should take the same; they take
    a little more each where the last would have less than a quarter.
    """
    if ld(ST, BATCH) == ld(ST, INSTANCES):
        return 0
    mine = ld(ST, BATCH) - ld(ST, PART)
    rest = ld(ST, INSTANCES) - ld(ST, PART)
    mean = ld(ST, N) * ld(ST, HEAVIEST) // mine + 1
    if ld(ST, AIM) // mean < rest:  # or else there is no need to know it exactly
        weigh(ST)
        mean = ld(ST, WEIGHT) // mine + 1
    each = max(max(ld(ST, AIM) // mean, min(ld(ST, LEAST), ld(ST, CEILING) // mean)), 1)
    parts = max((rest + each - 1 - each // 4) // each, 1)
    goal = (rest + parts - 1) // parts
    if mine >= goal:
        return 0
    st(ST, BATCH, ld(ST, BATCH) + min(mine, (goal - mine + 1) // 2))
    return 1


def unfinished(ST: i64) -> i64:
    """Return whether another round or part follows."""
    left = ld(ST, MORE)
    if ld(ST, BATCH) < ld(ST, INSTANCES):
        left = 1
    return left


def drive(ST: i64) -> i64:
    """Run the stages from `stage` to `stop`, round by round or part by part; called again, go on where it returned."""
    stop = ld(ST, STOP)
    while 1 != 0:
        if ld(ST, STAGE) == 4:
            if ld(ST, SINGLE) != 0 and stop == 4:
                return DONE
            if ld(ST, MORE) != 0:
                next_round(ST)
            elif ld(ST, BATCH) < ld(ST, INSTANCES):
                next_part(ST)
        if ld(ST, STAGE) == 0 and stop > 0:
            if ld(ST, N) == 0 and ld(ST, ROUNDS) == 0:
                warm_up(ST)
            status = DONE
            more = 1
            while more != 0:
                status = call_address_i64(ld(ST, MACHINE), ST)
                more = 0
                if status == DONE:
                    more = grow_part(ST)
            if status == WAIT:
                st(ST, MORE, 1)
            elif status != DONE:
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
            st(ST, ROUNDS, ld(ST, ROUNDS) + 1)
            if unfinished(ST) != 0:
                if ld(ST, FAILURES) != 0:
                    return NODES_FAILED
                if ld(ST, MORE) == 0:
                    return PAUSE
                if ld(ST, ROUNDS) & 63 == 0:
                    return PAUSE
        if ld(ST, STAGE) < 4:
            return DONE
        if unfinished(ST) == 0:
            return DONE
    return DONE
'''
