"""Threads that share batches: the workers of this process.

In: the number of threads. Out: a `ThreadPool` whose address is passed to compiled code. Its workers are Python daemon
threads that run compiled code without the GIL (`runtime.library.workers`); between mini-batches they sleep in Python. A
forked child makes a new pool.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import numpy as np

from acronumba import config
from acronumba.memory import address, aligned
from acronumba.runtime.library.records import high_half
from acronumba.runtime.state import POOL

_WANTED = POOL.at["wanted"]
_IDLE_TURNS = 20_000  # idle turns, about 0.2 to 1 ms, before a worker sleeps


class ThreadPool:
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
        self._memory = aligned(POOL.size).view(np.int64)
        self._memory[:] = 0
        self._users: list[int] = []  # threads that each mini-batch that runs may use
        self._awake: list[threading.Event] = []
        self.address = address(self._memory)

    @property
    def jobs(self) -> int:
        """Number of batches, or stages of batches, that were shared (until the number starts again)."""
        return high_half(int(self._memory[POOL.at["claim"]]))

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
        """Undo a call of `enter`."""
        with self._lock:
            self._end(threads)

    def _serve(self, awake: threading.Event, slot: int, pool: int) -> None:
        memory = self._memory  # keeps it alive
        while True:
            awake.wait()
            self._worker(pool, slot, _IDLE_TURNS)
            with self._lock:
                if slot >= memory[_WANTED]:
                    awake.clear()


def available_threads() -> int:
    """Return the number of threads worth running at once: one for each core that the process may use."""
    if config.interpreted():
        return 1
    try:
        processors = os.sched_getaffinity(0)
    except AttributeError:
        return os.cpu_count() or 1
    siblings = (_read(f"/sys/devices/system/cpu/cpu{k}/topology/thread_siblings_list") or str(k) for k in processors)
    return max(1, min([len(set(siblings)), *_quotas()]))


def _quotas() -> Iterator[int]:
    """Yield the CPUs that each control group (of a container) grants the process: quota / period, rounded up."""
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
    """Return the text of a system file, or "" if it cannot be read."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
