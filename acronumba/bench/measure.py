"""Timing in turns, so that a busy moment of the machine affects all competitors alike.

In: functions. Out: medians and quartiles, or the ratio of two of them with an interval that holds it.
"""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

SLOW = 0.25  # seconds: a slower competitor takes part in three rounds only,
SLOWEST = 2.5  # a competitor slower than this takes part in one
HOST = ("record", "schedule", "layout")  # stages before the execution of batches
SHORT = 5e-3  # seconds: a shorter run is repeated until it takes this long
MOST = 100  # calls in a turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Quartiles:
    """A median and the quartiles around it."""

    median: float
    low: float
    high: float

    def scaled(self, factor: float) -> Quartiles:
        """Return them in another unit."""
        return Quartiles(median=self.median * factor, low=self.low * factor, high=self.high * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Ratio of the times of two functions, from interleaved pairs."""

    median: float
    low: float  # from six pairs on, the true median lies between these in 19 of 20 measurements
    high: float
    pairs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """Measurements by traced runs of a workload, at one size and number of instances."""

    workload: str
    size: str | int
    instances: int
    stages: dict[str, float]  # seconds of each of our stages, and "total": medians of runs on packed data
    product_flops: int  # of our kernels' products, two for each term
    nodes: int
    batches: int

    @property
    def host_share(self) -> float:
        """Share of recording, scheduling and layout in the time without packing."""
        return sum(self.stages[name] for name in HOST) / (self.stages["total"] - self.stages["pack"])


def medians(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of each name's seconds over all runs."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def timed(f: Callable[[], T], clock: Callable[[], float] = time.perf_counter) -> tuple[float, T]:
    """Return the seconds that a call takes by a clock, and its result."""
    start = clock()
    result = f()
    return clock() - start, result


def quartiles(values: Sequence[float]) -> Quartiles:
    """Return the median and quartiles of some numbers."""
    if len(values) == 1:
        return Quartiles(median=values[0], low=values[0], high=values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Quartiles(median=median, low=low, high=high)


def interleaved(
    competitors: Mapping[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, Quartiles]:
    """Return the seconds of a call of each competitor; they take turns.

    Parameters
    ----------
    competitors : mapping from name to function
        Each is called once before, untimed. One that takes longer than 0.25 s takes part in three rounds, one that
        takes longer than 2.5 s in one. A turn of the others begins with an untimed call, since the caches hold the data
        of the previous competitor, and has as many timed ones as take `SHORT`, but 100 at most.
    rounds : int
    clock : function
        Of seconds.
    """
    times: dict[str, list[float]] = {name: [] for name in competitors}
    for f in competitors.values():
        f()

    def calls(f: Callable[[], object], count: int) -> None:
        for _ in range(count):
            f()

    for k in range(rounds):
        for name, f in competitors.items():
            before = statistics.median(times[name]) if times[name] else 0.0
            if before <= (SLOWEST if k < 3 else SLOW):
                if before <= SLOW:
                    f()
                count = min(max(1, math.ceil(SHORT / before)), MOST) if before else 1
                times[name].append(timed(partial(calls, f, count), clock)[0] / count)
    return {name: quartiles(values) for name, values in times.items()}


def pairs(a: Callable[[], object], b: Callable[[], object], count: int = 15) -> tuple[Quartiles, Quartiles, Ratio]:
    """Return the seconds of `a` and of `b`, and how many times longer `a` takes: the ratios of `count` pairs.

    Each is first in every second pair. Short runs are repeated, and the fastest counts, since other programs may
    interrupt a run.
    """
    a(), b()
    repeats = [max(1, math.ceil(SHORT / max(min(timed(f)[0] for _ in range(2)), 1e-7))) for f in (a, b)]

    def seconds(f: Callable[[], object], times: int) -> float:
        return min(timed(f)[0] for _ in range(times))

    first: list[float] = []
    second: list[float] = []
    for k in range(count):
        order = ((a, repeats[0], first), (b, repeats[1], second))
        for f, times, into in order if k % 2 == 0 else reversed(order):
            into.append(seconds(f, times))
    return quartiles(first), quartiles(second), ratio(first, second)


def ratio(a: Sequence[float], b: Sequence[float]) -> Ratio:
    """Return the median of the ratios of pairs, with the order statistics between which the true median lies.

    The interval assumes nothing about the distribution: the probability that the true median is below the k-th smallest
    of n ratios is that of fewer than k heads in n coin tosses (David & Nagaraja, Order Statistics, 7.1).
    """
    ratios = sorted(x / y for x, y in zip(a, b, strict=True))
    n = len(ratios)
    k, below = 0, 0.0
    while k < (n - 1) // 2 and below + math.comb(n, k) / 2**n <= 0.025:
        below += math.comb(n, k) / 2**n
        k += 1
    k = max(k - 1, 0)
    return Ratio(median=statistics.median(ratios), low=ratios[k], high=ratios[n - 1 - k], pairs=n)


def machine() -> dict[str, str | int | None]:
    """Return the facts that measurements depend on: CPU, versions, settings."""
    import numba
    import numpy as np

    import acronumba
    from acronumba.emit.target import host

    target = host()
    return {
        "processor": target.name,
        "vector bits": target.vector_bits,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "acronumba": acronumba.__version__,
        "python": platform.python_version(),
        "numba": numba.__version__,
        "numpy": np.__version__,
        "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE", ""),
    }


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]], **facts: Any) -> None:
    """Write rows of measurements to a JSON file, with the facts of the machine and others beside them."""
    text = json.dumps({"machine": machine(), **facts, "rows": rows}, indent=1)
    path.write_text(text + "\n", encoding="utf-8")
