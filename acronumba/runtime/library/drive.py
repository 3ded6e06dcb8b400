"""All stages of a mini-batch: `drive` is the entry point from Python.

It runs machine, schedule, layout and execution, and returns early only if the caller must grow memory. A mini-batch
whose values would not fit into the caches runs in parts, one after the other: the machine starts only some instances,
and when they have run, the next ones reuse their work area, columns and scratch (`grow_part`).
"""

from __future__ import annotations

from acronumba.emit.language import call_address, call_address_i64, i64, ld, ld32, lds, prefetch, st
from acronumba.runtime.library.components import begin_places
from acronumba.runtime.library.equal import begin_equals, next_equals
from acronumba.runtime.library.execute import execute
from acronumba.runtime.library.places import layout
from acronumba.runtime.library.schedule import schedule
from acronumba.runtime.state import (
    CACHE,
    DONE,
    EXECUTED,
    NODE_BYTES,
    NODES_FAILED,
    PAUSE,
    TO_EXECUTE,
    TO_LAYOUT,
    TO_RECORD,
    TO_SCHEDULE,
    WAIT,
)

from acronumba.runtime.library.words import (  # isort: skip
    AHEAD, AHEAD_COUNT, AIM, ARENA, ARENA_SIZE, ARENA_USED, BATCHES, CEILING, EDGES, ENDED_COUNT, ETOP,
    ETOP_KNOWN, FAILURES, GIVEN, INSTANCES, KEPT, KIND, K_ARGS, K_BYTES, K_DIMS, K_PLAN, K_RESULTS, K_ROWS, K_WORDS,
    LEADS, LEAST, MACHINE, MORE, N, NODES_BEFORE, NODE_MOST, PART_BYTES, PART_END, PART_MOST, PART_NODES, PART_START,
    PLACED, PLANNED, RECORD_SHAPE, RESULT_BYTES, RESULT_BYTES_BEFORE, ROUNDS, ROW, RTOP, RUNNABLE, RUN_BATCHES, SINGLE,
    SIZES, STAGE, STOP, TABLE, UNTIL, WAITING, WEIGHTS, WORK_MOST, WORK_USED, WTOP,
)  # fmt: skip


def warm_up(ST: i64) -> None:
    """Prefetch the memory that the machine is about to read and write.

    Kernels of the last mini-batch have evicted it from the cache, and the machine, which follows references, would wait
    for each cache line in turn.
    """
    warm = ld(ST, AHEAD)
    for k in range(ld(ST, AHEAD_COUNT)):
        at = ld(warm, 2 * k)
        for b in range(0, ld(warm, 2 * k + 1), 64):
            prefetch(at + b)


def next_round(ST: i64) -> None:
    """Drop the nodes that have run and make the fibers that wait for them runnable, in the order in which they came.

    Results of these nodes are inputs from now on: `layout` has written into their records that no node computes them.
    """
    runnable, waiting, count = lds(ST, RUNNABLE, WAITING, WTOP)
    for k in range(count):
        st(runnable, 2 * k, ld(waiting, 2 * (count - 1 - k)))
        st(runnable, 2 * k + 1, ld(waiting, 2 * (count - 1 - k) + 1))
    if ld(ST, WEIGHTS) + ld(ST, RESULT_BYTES) > CACHE:
        fetch_fibers(ST, runnable, count)
    st(ST, RTOP, count)
    st(ST, WTOP, 0)
    st(ST, MORE, 0)
    forget(ST)


def fetch_fibers(ST: i64, runnable: i64, count: i64) -> None:
    """Prefetch the frames of fibers, then the data they refer to, which kernels have evicted from the cache."""
    leads = ld(ST, LEADS)
    for k in range(count):
        prefetch(ld(runnable, 2 * k))
        prefetch(ld(runnable, 2 * k) + 64)
    for k in range(count):
        frame = ld(runnable, 2 * k)
        block = ld(frame, 1)
        for j in range(ld(leads, block), ld(leads, block + 1)):
            prefetch(ld(frame, ld(leads, j)))


def forget(ST: i64) -> None:
    """Drop all recorded nodes; their results stay in memory."""
    used = ld(ST, ARENA_USED)
    st(ST, KEPT, ld(ST, KEPT) + used)
    st(ST, ARENA, ld(ST, ARENA) + used)
    st(ST, ARENA_SIZE, ld(ST, ARENA_SIZE) - used)
    st(ST, ARENA_USED, 0)
    st(ST, RESULT_BYTES_BEFORE, ld(ST, RESULT_BYTES_BEFORE) + ld(ST, RESULT_BYTES))
    st(ST, RESULT_BYTES, 0)
    st(ST, NODES_BEFORE, ld(ST, NODES_BEFORE) + ld(ST, N))
    next_equals(ST)
    st(ST, N, 0)
    st(ST, EDGES, 0)
    st(ST, BATCHES, 0)
    st(ST, RUN_BATCHES, 0)
    st(ST, PLANNED, 0)
    st(ST, PLACED, 0)
    st(ST, STAGE, TO_RECORD)


def next_part(ST: i64) -> None:
    """Begin the next part, with the instances after those that have run."""
    st(ST, WORK_MOST, max(ld(ST, WORK_MOST), ld(ST, WORK_USED)))
    st(ST, PART_MOST, max(ld(ST, PART_MOST), ld(ST, ARENA_USED) + ld(ST, WORK_USED)))
    if ld(ST, PLANNED) == 2:
        st(ST, GIVEN, ld(ST, GIVEN) + ld(ST, ARENA_USED))
    st(ST, WORK_USED, 0)
    st(ST, PART_NODES, 0)
    st(ST, PART_BYTES, 0)
    st(ST, PART_START, ld(ST, PART_END))
    st(ST, PART_END, ld(ST, PART_END) + 1)
    forget(ST)


def weigh(ST: i64) -> None:
    """Add the bytes of the nodes recorded since the last call to `part_bytes`."""
    kind, row, table, sizes, weight = lds(ST, KIND, ROW, TABLE, SIZES, PART_BYTES)
    for v in range(ld(ST, PART_NODES), ld(ST, N)):
        k = K_WORDS * ld32(kind, v)
        size = ld(table, k + K_BYTES)
        if size == 0:
            at = ld(row, v) + 8 * ld(table, k + K_ARGS)
            call_address(ld(table, k + K_PLAN), at, sizes)
            for j in range(ld(table, k + K_RESULTS)):
                size = min(size + ld(sizes, 1 + j), 1 << 40)
            if ld(table, k + K_ROWS) != 0:
                size = size * min(ld(ld(at, ld(table, k + K_DIMS) + RECORD_SHAPE)), 1 << 20)
            size = size + NODE_BYTES
        weight = min(weight + size, 1 << 60)
    st(ST, PART_NODES, ld(ST, N))
    st(ST, PART_BYTES, weight)


def grow_part(ST: i64) -> i64:
    """Return whether the part should have more instances; if so, raise the number that the machine may start.

    The estimate of an instance's bytes improves with each that is recorded. The remaining parts should be equal; they
    are a little larger if the last one would have less than a quarter.
    """
    if ld(ST, PART_END) == ld(ST, INSTANCES):
        return 0
    mine = ld(ST, PART_END) - ld(ST, PART_START)
    rest = ld(ST, INSTANCES) - ld(ST, PART_START)
    mean = ld(ST, N) * ld(ST, NODE_MOST) // mine + 1
    if ld(ST, AIM) // mean < rest:  # or else there is no need to know it exactly
        weigh(ST)
        mean = ld(ST, PART_BYTES) // mine + 1
    each = max(max(ld(ST, AIM) // mean, min(ld(ST, LEAST), ld(ST, CEILING) // mean)), 1)
    parts = max((rest + each - 1 - each // 4) // each, 1)
    goal = (rest + parts - 1) // parts
    if mine >= goal:
        return 0
    st(ST, PART_END, ld(ST, PART_END) + min(mine, (goal - mine + 1) // 2))
    return 1


def unfinished(ST: i64) -> i64:
    """Return whether another round or part follows."""
    left = ld(ST, MORE)
    if ld(ST, PART_END) < ld(ST, INSTANCES):
        left = 1
    return left


def quiet(ST: i64) -> i64:
    """Return whether another round may run before returning to the caller: see `until`."""
    until, more, ended, failed, known = lds(ST, UNTIL, MORE, ENDED_COUNT, ETOP, ETOP_KNOWN)
    going = 0
    if until != 0 and more != 0 and ended == 0 and failed == known:
        if ld(until) == 0:
            going = 1
    return going


def drive(ST: i64) -> i64:
    """Run the stages from `stage` to `stop`, round by round or part by part; called again, go on where it returned."""
    stop = ld(ST, STOP)
    while True:
        if ld(ST, STAGE) == EXECUTED:
            if ld(ST, SINGLE) == 1 and stop == EXECUTED and quiet(ST) == 0:
                return DONE
            if ld(ST, SINGLE) == 2:
                st(ST, SINGLE, 1)
            if ld(ST, MORE) != 0:
                next_round(ST)
            elif ld(ST, PART_END) < ld(ST, INSTANCES):
                next_part(ST)
        if ld(ST, STAGE) == TO_RECORD and stop > TO_RECORD:
            if ld(ST, N) == 0 and ld(ST, ROUNDS) == 0:
                begin_equals(ST)
                warm_up(ST)
            if ld(ST, PLACED) == 0:
                begin_places(ST)
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
            st(ST, STAGE, TO_SCHEDULE)
        if ld(ST, STAGE) == TO_SCHEDULE and stop > TO_SCHEDULE:
            status = schedule(ST)
            if status != DONE:
                return status
            st(ST, STAGE, TO_LAYOUT)
        if ld(ST, STAGE) == TO_LAYOUT and stop > TO_LAYOUT:
            status = layout(ST)
            if status != DONE:
                return status
            st(ST, STAGE, TO_EXECUTE)
        if ld(ST, STAGE) == TO_EXECUTE and stop > TO_EXECUTE:
            status = execute(ST)
            if status != DONE:
                return status
            st(ST, STAGE, EXECUTED)
            st(ST, ROUNDS, ld(ST, ROUNDS) + 1)
            if unfinished(ST) != 0:
                if ld(ST, FAILURES) != 0:
                    return NODES_FAILED
                if ld(ST, MORE) == 0:
                    return PAUSE
                if ld(ST, ROUNDS) & 63 == 0:
                    return PAUSE
        if ld(ST, STAGE) < EXECUTED:
            return DONE
        if unfinished(ST) == 0:
            return DONE
    return DONE
