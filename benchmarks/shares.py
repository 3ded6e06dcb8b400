"""What part of many threads would be busy: computed on one, from the times of what they would share.

    python benchmarks/shares.py [--models NAME ...] [--size small|large|N] [--batch N] [--lengths FOLDER]
                                [--threads N ...] [--json FILE]

A mini-batch is cut as for so many threads, and one thread computes all parts, each of them timed. A batch, or a stage
of one, is over when the last of its parts is; parts are taken in order by whichever thread is free. `share` is the sum
of all parts over threads times the time that passes, so 1.00 means that no thread waits. The host program, waking of
threads and the memory that they compete for are not in it. With `--lengths`, a layer of the encoder (H = 512) is
measured on the first 32 sentences of each set. Each part counts with the fastest of some runs.
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
from acronumba.bench import lengths  # noqa: E402
from acronumba.bench.measure import machine  # noqa: E402
from acronumba.bench.ragged import layer  # noqa: E402
from acronumba.bench.workloads import WAITING, WORKLOADS, ZOO  # noqa: E402
from acronumba.runtime.driver import Executable  # noqa: E402
from acronumba.runtime.threads import Pool  # noqa: E402
from acronumba.zoo import encoder  # noqa: E402

RUNS = 3
SENTENCES, WIDTH = 32, 512
LONG = 1e6  # seconds: the last run is taken for so long that all threads are worth waking
Part = tuple[int, int, int, int]  # function, first of what it computes, last + 1, nanoseconds; it begins a job
_WORDS = ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
_FUNCTION, _BEGIN = ctypes.CFUNCTYPE(None, *_WORDS), ctypes.CFUNCTYPE(ctypes.c_int64, *_WORDS)


@contextmanager
def nobody_wakes() -> Iterator[None]:
    """Let the caller of a mini-batch compute all parts."""
    wake, Pool._wake = Pool._wake, lambda self, count: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        Pool._wake = wake  # type: ignore[method-assign]


def timing(executable: Executable, parts: list[Part]) -> set[int]:
    """Let each call of a kernel, or of a stage of one, append how long it took; return what is never shared."""
    keep: list[Any] = []

    def timed(address: int, kind: Any = _FUNCTION) -> int:
        function = kind(address)

        def call(params: int, low: int, high: int, scratch: int) -> Any:
            start = time.thread_time_ns()
            out = function(params, low, high, scratch)
            parts.append((address, low, high, time.thread_time_ns() - start))
            return out

        keep.append(kind(call))
        return ctypes.cast(keep[-1], ctypes.c_void_p).value or 0

    alone = {kernel.begin for kernel in executable.kernels}
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
    return alone


def timer() -> int:
    """Return the nanoseconds that the timing of a part adds to it: those of a function that does nothing."""
    nothing = _FUNCTION(ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p).value or 0)
    found = []
    for _ in range(1000):
        start = time.thread_time_ns()
        nothing(0, 0, 0, 0)
        found.append(time.thread_time_ns() - start)
    return min(found)


def makespan(times: list[int], threads: int) -> int:
    """Return when the last of some parts is over that threads take in order."""
    free = [0] * min(threads, len(times))
    for t in times:
        heapq.heapreplace(free, free[0] + t)
    return max(free)


def share(model: Model[Any], xs: Any, shared: dict[str, Any], threads: int) -> tuple[float, int]:
    """Return the share of so many threads, and how many parts they would take."""
    fresh = Model(model.__wrapped__, options=model.options.replace(threads=threads))
    compiled = fresh._compiled((xs,), shared)
    executable: Executable = compiled.executable
    parts: list[Part] = []
    alone = timing(executable, parts)
    packed, values = pack(xs), {name: pack(value) for name, value in shared.items()}
    runs = []
    with nobody_wakes():
        for _ in range(1 + RUNS):
            parts.clear()
            executable._recent = LONG
            fresh.batch(packed, **values)
            runs.append(list(parts))
    kept = [run for run in runs[1:] if [p[:3] for p in run] == [p[:3] for p in runs[1]]]
    times = np.maximum(0, np.min([[p[3] for p in run] for run in kept], axis=0) - timer()).tolist()
    jobs: list[list[int]] = []
    for (address, low, _, _), t in zip(runs[1], times, strict=True):
        if low == 0 or address in alone:
            jobs.append([])
        jobs[-1].append(t)
    return sum(times) / threads / sum(makespan(job, threads) for job in jobs), len(times)


def workloads(args: argparse.Namespace) -> Iterator[tuple[str, Model[Any], Any, dict[str, Any]]]:
    """Yield names, models, instances and what these share."""
    if not args.lengths:
        for w in map(WORKLOADS.__getitem__, args.models):
            yield w.name, w.model, w.instances(args.batch), {"p": w.params(args.size)}
        return
    p = encoder.params(WIDTH)
    for name, path in lengths.sets(args.lengths).items():
        r = np.random.default_rng(0)
        words = lengths.read(path)[:SENTENCES] if path is not None else []
        yield name, layer, [r.standard_normal((n, WIDTH)).astype(np.float32) for n in words], {"p": p}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [w.name for w in (*ZOO, *WAITING)]
    parser.add_argument("--models", nargs="+", default=names, choices=names, metavar="NAME")
    parser.add_argument("--size", default="small")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lengths", metavar="FOLDER")
    parser.add_argument("--threads", type=int, nargs="+", default=[2, 16, 64])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    args.size = int(args.size) if args.size.isdecimal() else args.size
    rows: dict[str, dict[int, float]] = {}
    for name, model, xs, shared in workloads(args):
        found = {n: share(model, xs, shared, n) for n in args.threads}
        rows[name] = {n: one for n, (one, _) in found.items()}
        told = "  ".join(f"{n} threads {one:.2f} ({many:,} parts)" for n, (one, many) in found.items())
        print(f"{name:22} {told}", flush=True)
    if args.json:
        text = json.dumps({"size": args.size, "batch": args.batch, "machine": machine(), "shares": rows}, indent=2)
        args.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
