"""Code of the threads that share batches, which runs without the GIL. `runtime.threads` starts them.

One job at a time: a function of a range, the rows of a batch or the units of a stage, cut into units; a unit is claimed
by compare-and-swap on one word, epoch << 32 | next unit, so the caller waits only for units that were really claimed,
and a late worker touches nothing. Waiting threads yield the CPU now and then. A caller that finds the pool busy does
its job alone. No result depends on which thread computes it.
"""

from __future__ import annotations

from acronumba.emit.language import (
    atomic_add,
    atomic_cas,
    atomic_load,
    atomic_store,
    call_address,
    give_way,
    i64,
    ld,
    pause,
    st,
)
from acronumba.runtime.library.records import high_half, low_half

from acronumba.runtime.library.words import (  # isort: skip
    JOB_BYTES, JOB_CUTS, JOB_FIRSTS, JOB_PARAMS, JOB_ROWS, JOB_RUN, JOB_SCRATCH, JOB_SLOTS, JOB_STRIDE, JOB_UNITS,
    POOL_CLAIM, POOL_FINISHED, POOL_JOBS, POOL_LOCK, POOL_WANTED,
)  # fmt: skip


def run_part(run: i64, params: i64, low: i64, high: i64, scratch: i64, firsts: i64, stride: i64) -> None:
    """Call a function of a range, block by block if it lies in blocks: see `state.JOB`."""
    if firsts == 0:
        call_address(run, params, low, high, scratch)
        return
    block = 0
    while low < high:
        while ld(firsts, block + 1) <= low:
            block = block + 1
        first = ld(firsts, block)
        end = min(high, ld(firsts, block + 1))
        call_address(run, params + stride * block, low - first, end - first, scratch)
        low = end


def pool_work(pool: i64, slot: i64) -> None:
    """Claim and run units of the current job until none is left."""
    more = 1
    while more != 0:
        more = 0
        claim = atomic_load(pool + 8 * POOL_CLAIM)
        job = pool + 8 * POOL_JOBS + JOB_BYTES * (high_half(claim) & 1)
        run = ld(job, JOB_RUN)
        params = ld(job, JOB_PARAMS)
        rows = ld(job, JOB_ROWS)
        units = ld(job, JOB_UNITS)
        cuts = ld(job, JOB_CUTS)
        scratch = ld(job, JOB_SCRATCH)
        stride = ld(job, JOB_STRIDE)
        slots = ld(job, JOB_SLOTS)
        firsts = ld(job, JOB_FIRSTS)
        unit = low_half(claim)
        if unit < units:
            if slot < slots:
                more = 1
                if atomic_cas(pool + 8 * POOL_CLAIM, claim, claim + 1):
                    low = rows * unit // units
                    high = rows * (unit + 1) // units
                    if cuts != 0:
                        low = ld(cuts, unit)
                        high = ld(cuts, unit + 1)
                    run_part(run, params, low, high, scratch + slot * stride, firsts, stride)
                    atomic_add(pool + 8 * POOL_FINISHED, 1)


def wait_turn(turn: i64) -> None:
    """Wait a moment; now and then yield the CPU, which the awaited thread may need."""
    if turn & 1023 == 0:
        give_way()
    else:
        pause()


def pool_worker(pool: i64, slot: i64, idle_turns: i64) -> None:
    """Work as long as a mini-batch uses this worker; return after `idle_turns` turns without one."""
    idle = 0
    turn = 1
    while idle < idle_turns:
        claim = atomic_load(pool + 8 * POOL_CLAIM)
        job = pool + 8 * POOL_JOBS + JOB_BYTES * (high_half(claim) & 1)
        if low_half(claim) < ld(job, JOB_UNITS):
            pool_work(pool, slot)
            idle = 0
            turn = 1
        if slot >= atomic_load(pool + 8 * POOL_WANTED):
            idle = idle + 1
        wait_turn(turn)
        turn = turn + 1


def pool_run(
    pool: i64, run: i64, params: i64, rows: i64, units: i64, cuts: i64, firsts: i64, scratch: i64, stride: i64,
    slots: i64,
) -> None:  # fmt: skip
    """Call run(params, low, high, scratch) for ranges that partition 0..rows, shared with free workers.

    `cuts`, int64[units + 1], has the bounds of the ranges; 0: they are equally long. If `firsts` is not 0, the rows lie
    in blocks (`state.JOB`). Threads have separate scratch, `stride` bytes apart; the caller's is the first.
    """
    if atomic_cas(pool + 8 * POOL_LOCK, 0, 1):
        epoch = (high_half(atomic_load(pool + 8 * POOL_CLAIM)) + 1) & 1073741823
        job = pool + 8 * POOL_JOBS + JOB_BYTES * (epoch & 1)
        st(job, JOB_RUN, run)
        st(job, JOB_PARAMS, params)
        st(job, JOB_ROWS, rows)
        st(job, JOB_UNITS, units)
        st(job, JOB_CUTS, cuts)
        st(job, JOB_FIRSTS, firsts)
        st(job, JOB_SCRATCH, scratch)
        st(job, JOB_STRIDE, stride)
        st(job, JOB_SLOTS, slots)
        atomic_store(pool + 8 * POOL_FINISHED, 0)
        atomic_store(pool + 8 * POOL_CLAIM, epoch << 32)
        pool_work(pool, 0)
        turn = 1
        while atomic_load(pool + 8 * POOL_FINISHED) < units:
            wait_turn(turn)
            turn = turn + 1
        atomic_store(pool + 8 * POOL_LOCK, 0)
    else:
        run_part(run, params, 0, rows, scratch, firsts, stride)
