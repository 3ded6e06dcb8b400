"""Threads that share batches: what they run, without Python's lock. `runtime.threads` starts them.

One job at a time: a function of a range, the rows of a batch or the units of a stage, cut into units; a unit is claimed
by compare-and-swap on one word, epoch << 32 | next unit, so the caller waits only for units that were really claimed,
and a late worker touches nothing. Who waits lets other threads of the system run now and then. A caller that finds the
pool busy does its job alone. No result depends on who computes what.
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

# The pool's memory, in bytes: each part has a cache line of its own.
POOL_CLAIM = 0
POOL_JOBS = 64
POOL_FINISHED = 192
POOL_LOCK = 256
POOL_WANTED = 320


def pool_work(pool: i64, slot: i64) -> None:
    """Claim and run units of the current job until none is left."""
    more = 1
    while more != 0:
        more = 0
        claim = atomic_load(pool + POOL_CLAIM)
        job = pool + POOL_JOBS + 64 * ((claim >> 32) & 1)
        run = ld(job, 0)
        params = ld(job, 1)
        rows = ld(job, 2)
        units = ld(job, 3)
        scratch = ld(job, 4)
        stride = ld(job, 5)
        slots = ld(job, 6)
        unit = claim & 4294967295
        if unit < units:
            if slot < slots:
                more = 1
                if atomic_cas(pool + POOL_CLAIM, claim, claim + 1):
                    low = rows * unit // units
                    high = rows * (unit + 1) // units
                    call_address(run, params, low, high, scratch + slot * stride)
                    atomic_add(pool + POOL_FINISHED, 1)


def wait_turn(turn: i64) -> None:
    """Wait a moment; now and then let others have the processor: it may be them one waits for."""
    if turn & 1023 == 0:
        give_way()
    else:
        pause()


def pool_worker(pool: i64, slot: i64, patience: i64) -> None:
    """Work while a mini-batch runs that wants this worker; return after so many idle turns in which none does."""
    idle = 0
    turn = 1
    while idle < patience:
        claim = atomic_load(pool + POOL_CLAIM)
        job = pool + POOL_JOBS + 64 * ((claim >> 32) & 1)
        if (claim & 4294967295) < ld(job, 3):
            pool_work(pool, slot)
            idle = 0
            turn = 1
        if slot >= atomic_load(pool + POOL_WANTED):
            idle = idle + 1
        wait_turn(turn)
        turn = turn + 1


def pool_run(pool: i64, run: i64, params: i64, rows: i64, units: i64, scratch: i64, stride: i64, slots: i64) -> None:
    """Call run(params, low, high, scratch) for ranges that make up 0..rows, with whoever helps.

    Each thread has scratch of its own, `stride` bytes apart; the caller's is the first.
    """
    if atomic_cas(pool + POOL_LOCK, 0, 1):
        epoch = ((atomic_load(pool + POOL_CLAIM) >> 32) + 1) & 1073741823
        job = pool + POOL_JOBS + 64 * (epoch & 1)
        st(job, 0, run)
        st(job, 1, params)
        st(job, 2, rows)
        st(job, 3, units)
        st(job, 4, scratch)
        st(job, 5, stride)
        st(job, 6, slots)
        atomic_store(pool + POOL_FINISHED, 0)
        atomic_store(pool + POOL_CLAIM, epoch << 32)
        pool_work(pool, 0)
        turn = 1
        while atomic_load(pool + POOL_FINISHED) < units:
            wait_turn(turn)
            turn = turn + 1
        atomic_store(pool + POOL_LOCK, 0)
    else:
        call_address(run, params, 0, rows, scratch)
