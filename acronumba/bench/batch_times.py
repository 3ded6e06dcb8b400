"""Estimated and measured times of batches.

In: a model and a mini-batch. Out: seconds of each batch. A traced run executes batch after batch; each counts with its
fastest of several runs, by the thread's CPU time, which excludes other programs. The overhead of a stop after each
batch is measured with a model that does nothing else, and subtracted.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from acronumba import model, pack
from acronumba.api.model import Model
from acronumba.bench.measure import timed
from acronumba.ir.spec import KernelSpec
from acronumba.kernels.cost import Estimate
from acronumba.runtime.driver import CLOCK
from acronumba.runtime.trace import BatchRecord, TraceData
from acronumba.zoo.data import Array

_STEPS = 400  # batches of the model that does nothing


def estimated(record: BatchRecord, estimate: Estimate) -> float:
    """Return the seconds that a batch takes by the cost model."""
    each = record.rows / record.size if record.rows else 1.0
    groups = [(extents, many * each) for extents, many in record.extents] or [((), record.size * each)]
    return 1e-9 * estimate.batch(groups)


def timed_batches(
    one: Model, xs: Any, shared: Any, rounds: int, stop: float
) -> list[tuple[BatchRecord, KernelSpec, float]]:
    """Return the batches of a mini-batch, each with its kernel and its seconds: the least of several runs."""
    with by_thread():
        traces: list[TraceData] = [one.trace(xs, p=shared).data for _ in range(rounds + 1)][1:]
    specs = dict(zip(traces[0].kernels, traces[0].specs, strict=True))
    out = []
    for records in zip(*(t.batches for t in traces), strict=True):
        least = min(r.seconds for r in records if r.seconds is not None)
        out.append((records[0], specs[records[0].kernel], max(least - stop, 1e-7)))
    return out


@contextmanager
def by_thread() -> Iterator[None]:
    """Time the batches of traced runs by the CPU time of the thread."""
    before = CLOCK.set(time.thread_time)
    try:
        yield
    finally:
        CLOCK.reset(before)


@model
def nothing(n: int, *, p: Array) -> Array:
    """Return an array after `n` steps that are a batch each."""
    for _ in range(n):
        p = np.tanh(p)
    return p


def time_to_stop() -> float:
    """Return the seconds that a traced run takes to stop after a batch."""
    one, p = nothing.with_options(threads=1), np.ones(8, np.float32)
    xs = pack([_STEPS])
    with by_thread():
        steps = [r.seconds for _ in range(5) for r in one.trace(xs, p=p).batches if r.seconds is not None]
    together = min(timed(lambda: one.batch(xs, p=p), time.thread_time)[0] for _ in range(9))
    return max(statistics.median(steps) - together / _STEPS, 0.0)
