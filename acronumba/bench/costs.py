"""Estimated and measured time of each kernel.

In: workloads. Out: a `Costs` of plain numbers. A traced run executes batch after batch; each batch counts with its
fastest of several runs, by the thread's CPU time, which excludes other programs. The overhead of a stop after each
batch is measured with a model that does nothing else, and subtracted.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from acronumba import model, pack
from acronumba.api.model import Model
from acronumba.bench.ablate import inputs
from acronumba.bench.measure import machine, timed
from acronumba.bench.workloads import Workload
from acronumba.ir.spec import KernelSpec
from acronumba.kernels.cost import Estimate, of_kernel
from acronumba.runtime.driver import CLOCK
from acronumba.runtime.trace import BatchRecord, TraceData
from acronumba.zoo.data import Array

WITHIN = 1.5  # times too much or too little that an estimate may be
_STEPS = 400  # batches of the model that does nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCost:
    """A kernel in a mini-batch."""

    workload: str
    size: str | int
    instances: int
    kernel: str
    rows: int  # nodes, or rows of nodes that are several
    batches: int
    measured: float  # seconds of all batches
    estimated: float

    @property
    def ratio(self) -> float:
        """Ratio of the estimated to the measured time."""
        return self.estimated / self.measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Everything that was measured."""

    rounds: int
    stop: float  # seconds that were taken off each batch
    machine: dict[str, Any]
    rows: tuple[KernelCost, ...]

    def within(self, instances: int, share: float = 0.0) -> tuple[int, int]:
        """Return the numbers of good estimates and of all, over kernels with at least a share of their mini-batch."""
        rows = [row for row in self.rows if row.instances == instances]
        total: dict[tuple[str, str | int], float] = defaultdict(float)
        for row in rows:
            total[row.workload, row.size] += row.measured
        rows = [row for row in rows if row.measured >= share * total[row.workload, row.size]]
        return sum(1 / WITHIN <= row.ratio <= WITHIN for row in rows), len(rows)


def measure(
    workloads: Sequence[Workload],
    *,
    sizes: Sequence[str | int] = ("small",),
    batches: Sequence[int] = (64,),
    trees: str | None = None,
    rounds: int = 15,
    step: Callable[[int, str], None] = lambda n, text: None,
) -> Costs:
    """Compare estimates with measured times, on one thread.

    Parameters
    ----------
    workloads
    sizes
        Of the models: "small", "large" or a number.
    batches
        Instances per mini-batch.
    trees
        A file of trees to take the instances from, where the workload can read one.
    rounds
        Traced runs of each mini-batch.
    step
        Called with the number of finished steps and a text for the next one.
    """
    stop = time_to_stop()
    rows: list[KernelCost] = []
    for workload in workloads:
        for size in sizes:
            step(1, f"{workload.name}, {size}")
            xs, p = inputs(workload, size, max(batches), trees)
            shared = pack(p)
            one = workload.model.with_options(threads=1)
            for n in batches:
                found = _kernels(one, pack(xs[:n]), shared, rounds, stop)
                rows += [KernelCost(workload=workload.name, size=size, instances=n, **known) for known in found]
    return Costs(rounds=rounds, stop=stop, machine=machine(), rows=tuple(rows))


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


def _kernels(one: Model, xs: Any, shared: Any, rounds: int, stop: float) -> list[dict[str, Any]]:
    """Return the fields of `KernelCost` for each kernel of a mini-batch."""
    estimates: dict[str, Estimate] = {}
    out: dict[str, dict[str, Any]] = {}
    for record, spec, seconds in timed_batches(one, xs, shared, rounds, stop):
        name = record.kernel
        if name not in estimates:
            estimates[name] = of_kernel(spec, one.options.decisions)
            out[name] = {"kernel": name, "rows": 0, "batches": 0, "measured": 0.0, "estimated": 0.0}
        row = out[name]
        row["rows"] += record.rows or record.size
        row["batches"] += 1
        row["measured"] += seconds
        row["estimated"] += estimated(record, estimates[name])
    return list(out.values())


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
