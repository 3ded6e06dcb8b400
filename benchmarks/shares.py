"""What part of many threads would be busy: computed on one, from the times of what they would share.

    python benchmarks/shares.py [--models NAME ...] [--size small|large|N ...] [--batch N] [--lengths FOLDER]
                                [--threads N ...] [--json FILE]

A mini-batch is cut as for so many threads, and one thread computes all parts, each of them timed. A batch, or a stage
of one, is over when the last of its parts is; parts are taken in order by whichever thread is free. `share` is the sum
of all parts over threads times the time that passes, so 1.00 means that no thread waits; `times` is how many times as
fast as one thread they would be. The host program, waking of threads and the memory that they compete for are not in
it. With `--lengths`, a layer of the encoder (H = 512) is measured too, on the first 32 sentences of each set. Each part
counts with the fastest of some runs.
"""

from __future__ import annotations

import argparse
import ctypes
import heapq
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import numpy as np  # noqa: E402

from acronumba import pack  # noqa: E402
from acronumba.api.model import Model  # noqa: E402
from acronumba.bench.measure import machine  # noqa: E402
from acronumba.bench.workloads import WAITING, ZOO  # noqa: E402
from acronumba.runtime.driver import Executable  # noqa: E402
from acronumba.runtime.engines import threads_of_process  # noqa: E402
from acronumba.runtime.state import JOB, POOL  # noqa: E402
from acronumba.runtime.threads import ThreadPool  # noqa: E402
from acronumba.zoo import encoder  # noqa: E402
from acronumba_bench import lengths  # noqa: E402
from acronumba_bench.ragged import layer  # noqa: E402
from acronumba_bench.workloads import WORKLOADS  # noqa: E402

RUNS, SECONDS = 7, 2.0  # of a mini-batch; once they have taken so long, three are enough
SENTENCES, WIDTH = 32, 512
LONG = 1e6  # seconds: the last run is taken for so long that all threads are worth waking
Call = tuple[int, int, int, int]  # function, number of the job, of the part, nanoseconds
_WORDS = ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
_FUNCTION, _BEGIN = ctypes.CFUNCTYPE(None, *_WORDS), ctypes.CFUNCTYPE(ctypes.c_int64, *_WORDS)
_NOTHING = _FUNCTION(ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p).value or 0)


@contextmanager
def nobody_wakes() -> Iterator[None]:
    """Let the caller of a mini-batch compute all parts."""
    wake, ThreadPool._wake = ThreadPool._wake, lambda self, count: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        ThreadPool._wake = wake  # type: ignore[method-assign]


def timing(executable: Executable, calls: list[Call]) -> None:
    """Let each call of a kernel, or of a stage of one, append how long it took."""
    keep: list[Any] = []
    pool = threads_of_process()._memory
    claim, finished, jobs = (POOL.at[name] for name in ("claim", "finished", "jobs"))
    units = [jobs + JOB.count * parity + JOB.at["units"] for parity in (0, 1)]

    def timed(address: int, kind: Any = _FUNCTION) -> int:
        function = kind(address)

        def call(params: int, low: int, high: int, scratch: int) -> Any:
            epoch = int(pool[claim]) >> 32
            shared = pool[finished] < pool[units[epoch & 1]]
            part = (epoch, int(pool[claim]) & 0xFFFFFFFF) if shared else (-len(calls), 0)
            _NOTHING(0, 0, 0, 0)  # what a call takes beside its function is in the caches now
            start = time.thread_time_ns()
            out = function(params, low, high, scratch)
            calls.append((address, *part, time.thread_time_ns() - start))
            return out

        keep.append(kind(call))
        return ctypes.cast(keep[-1], ctypes.c_void_p).value or 0

    executable.kernels = tuple(
        replace(
            kernel,
            run=timed(kernel.run),
            begin=timed(kernel.begin, _BEGIN) if kernel.begin else 0,
            stages=tuple(replace(stage, address=timed(stage.address)) for stage in kernel.stages),
            keep=(kernel.keep, keep),
        )
        for kernel in executable.kernels
    )


def timer() -> int:
    """Return the nanoseconds that the timing of a part adds to it: those of a function that does nothing."""
    found = []
    for _ in range(1000):
        start = time.thread_time_ns()
        _NOTHING(0, 0, 0, 0)
        found.append(time.thread_time_ns() - start)
    return min(found)


def makespan(times: list[int], threads: int) -> int:
    """Return when the last of some parts is over that threads take in order."""
    free = [0] * min(threads, len(times))
    for t in times:
        heapq.heapreplace(free, free[0] + t)
    return max(free)


def jobs_of(model: Model[Any], xs: Any, shared: dict[str, Any], threads: int) -> list[list[int]]:
    """Return what so many threads would do one after the other: the nanoseconds of the parts of each."""
    fresh = Model(model.__wrapped__, options=model.options.replace(threads=threads))
    executable: Executable = fresh._compiled((xs,), shared).executable
    calls: list[Call] = []
    timing(executable, calls)
    packed, values = pack(xs), {name: pack(value) for name, value in shared.items()}
    runs: list[list[Call]] = []
    with nobody_wakes():
        start = time.perf_counter()
        while len(runs) < 4 or (len(runs) < 1 + RUNS and time.perf_counter() - start < SECONDS):
            calls.clear()
            executable._recent = LONG
            fresh.batch(packed, **values)
            runs.append(list(calls))
    kept = [run for run in runs[1:] if [(c[0], c[2]) for c in run] == [(c[0], c[2]) for c in runs[1]]]
    times = np.maximum(0, np.min([[c[3] for c in run] for run in kept], axis=0) - timer()).tolist()
    jobs: dict[int, dict[int, int]] = {}
    for (_, job, part, _), t in zip(runs[1], times, strict=True):
        parts = jobs.setdefault(job, {})
        parts[part] = parts.get(part, 0) + t
    return [[*parts.values()] for parts in jobs.values()]


def share(model: Model[Any], xs: Any, shared: dict[str, Any], threads: int, alone: float) -> dict[str, float]:
    """Return what is computed for so many threads, from the nanoseconds that one thread takes."""
    jobs = jobs_of(model, xs, shared, threads)
    passed = sum(makespan(job, threads) for job in jobs)
    return {
        "share": sum(map(sum, jobs)) / threads / passed,
        "times": alone / passed,
        "parts": sum(map(len, jobs)),
        "jobs": len(jobs),
    }


def workloads(args: argparse.Namespace) -> Iterator[tuple[str, str, Model[Any], Any, dict[str, Any]]]:
    """Yield sizes, names, models, instances and what these share."""
    for size in args.size:
        for w in map(WORKLOADS.__getitem__, args.models):
            p = w.params(int(size) if size.isdecimal() else size)
            yield size, w.name, w.model, w.instances(args.batch), {"p": p}
    p = encoder.params(WIDTH)
    for name, path in lengths.sets(args.lengths).items() if args.lengths else ():
        r = np.random.default_rng(0)
        words = lengths.read(path)[:SENTENCES] if path is not None else []
        yield str(WIDTH), name, layer, [r.standard_normal((n, WIDTH)).astype(np.float32) for n in words], {"p": p}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [w.name for w in (*ZOO, *WAITING)]
    parser.add_argument("--models", nargs="*", default=names, choices=names, metavar="NAME")
    parser.add_argument("--size", nargs="+", default=["small"])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lengths", metavar="FOLDER")
    parser.add_argument("--threads", type=int, nargs="+", default=[2, 16, 64])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows: dict[str, dict[str, dict[int, dict[str, float]]]] = {}
    print(f"{'':28}" + "".join(f"{n:>5} threads: times" for n in args.threads) + "   parts of the last")
    for size, name, model, xs, shared in workloads(args):
        alone = sum(map(sum, jobs_of(model, xs, shared, 1)))
        found = {n: share(model, xs, shared, n, alone) for n in args.threads}
        rows.setdefault(size, {})[name] = found
        told = "".join(f"{one['share']:13.2f} {one['times']:6.1f}" for one in found.values())
        last = found[args.threads[-1]]
        print(f"{name:22} {size:>5}{told} {last['parts']:,} in {last['jobs']:,} jobs", flush=True)
        if args.json:
            text = json.dumps({"batch": args.batch, "machine": machine(), "shares": rows}, indent=2)
            args.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
