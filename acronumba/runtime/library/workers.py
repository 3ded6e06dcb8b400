"""Threads that share batches.

In: the number of threads. Out: a `Pool` whose address compiled code is given. Its workers are Python daemon threads
that sit in compiled code without the GIL; between mini-batches they sleep in Python. One job at a time: a function of
a range, the rows of a batch or the units of a stage, cut into units; a unit is claimed by compare-and-swap on one
word, epoch << 32 | next unit, so the caller waits only for units that were really claimed, and a late worker touches
nothing. Who waits lets other threads of the system run now and then. A caller that finds the pool busy does its job
alone. No result depends on who computes what. A forked child makes a pool of its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import numpy as np

from acronumba.memory import address, aligned

SOURCE = '''
POOL_CLAIM = 0
POOL_JOBS = 64
POOL_FINISHED = 192
POOL_LOCK = 256
POOL_WANTED = 320


def pool_work(pool: i64, slot: i64):
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
                    old = atomic_add(pool + POOL_FINISHED, 1)


def wait_turn(turn: i64):
    """Wait a moment; now and then let others have the processor: it may be them one waits for."""
    if turn & 1023 == 0:
        give_way()
    else:
        pause()


def pool_worker(pool: i64, slot: i64, patience: i64):
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


def pool_run(pool: i64, run: i64, params: i64, rows: i64, units: i64, scratch: i64, stride: i64, slots: i64):
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
'''

_WORDS = 48  # of the pool's memory; each part has a cache line of its own
_WANTED = 40  # most threads that any of the mini-batches that run may use, their callers' included
_PATIENCE = 20_000  # idle turns, about 0.2 to 1 ms, before a worker sleeps


class Pool:
    """Workers of this process.

    Parameters
    ----------
    worker
        Compiled `pool_worker`, called without the GIL.
    """

    def __init__(self, worker: Callable[[int, int, int], object]) -> None:
        self._worker = worker
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._memory = aligned(8 * _WORDS).view(np.int64)
        self._memory[:] = 0
        self._users: list[int] = []  # threads that each mini-batch that runs may use
        self._awake: list[threading.Event] = []
        self.address = address(self._memory)

    @property
    def jobs(self) -> int:
        """Number of batches, or stages of batches, that were shared (until the number starts again)."""
        return int(self._memory[0]) >> 32

    def enter(self, threads: int) -> int:
        """Wake workers for a run that may use so many threads, the caller's included; return the pool's address."""
        with self._lock:
            self._users.append(threads)
            self._memory[_WANTED] = max(self._users)
            try:
                self._wake(threads - 1)
            except BaseException:  # Ctrl-C
                self._end(threads)
                raise
        return self.address

    def _end(self, threads: int) -> None:
        self._users.remove(threads)
        self._memory[_WANTED] = max(self._users, default=0)

    def _wake(self, count: int) -> None:
        while len(self._awake) < count:
            awake = threading.Event()
            args = (awake, len(self._awake) + 1, self.address)
            try:
                threading.Thread(target=self._serve, args=args, daemon=True, name="acronumba worker").start()
            except RuntimeError:  # the system gives no more threads: those that there are do the work
                break
            self._awake.append(awake)
        for event in self._awake[:count]:
            if not event.is_set():
                event.set()

    def leave(self, threads: int) -> None:
        """End what `enter` began."""
        with self._lock:
            self._end(threads)

    def _serve(self, awake: threading.Event, slot: int, pool: int) -> None:
        memory = self._memory  # keeps it alive
        while True:
            awake.wait()
            self._worker(pool, slot, _PATIENCE)
            with self._lock:
                if slot >= memory[_WANTED]:
                    awake.clear()


def available_threads() -> int:
    """Return how many threads are worth running at once: one for each core that the process may use."""
    try:
        processors = os.sched_getaffinity(0)
    except AttributeError:
        return os.cpu_count() or 1
    siblings = (_read(f"/sys/devices/system/cpu/cpu{k}/topology/thread_siblings_list") or str(k) for k in processors)
    return max(1, min([len(set(siblings)), *_quotas()]))


def _quotas() -> Iterator[int]:
    """Yield the processors that control groups, those of containers, grant the process: their time, rounded up."""
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "cpu", "cpu,cpuacct"):
            continue
        for folder in (PurePosixPath(path), *PurePosixPath(path).parents):
            at = PurePosixPath("/sys/fs/cgroup", controllers, folder.relative_to("/"))
            limit, _, period = _read(f"{at}/cpu.max").partition(" ")
            if controllers:
                limit, period = _read(f"{at}/cpu.cfs_quota_us"), _read(f"{at}/cpu.cfs_period_us")
            if limit.isdecimal() and period.isdecimal():
                yield -(-int(limit) // max(int(period), 1))


def _read(path: str) -> str:
    """Return what a file of the system says, nothing if there is no such file."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
