"""Estimated and measured time of each kernel.

In: workloads. Out: a `Costs` of plain numbers, from the times of `acronumba.bench.batch_times`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from acronumba import pack
from acronumba.api.model import Model
from acronumba.bench.batch_times import estimated, time_to_stop, timed_batches
from acronumba.bench.measure import machine
from acronumba.bench.workloads import Workload, inputs
from acronumba.kernels.cost import Estimate, of_kernel

WITHIN = 1.5  # times too much or too little that an estimate may be


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


def _kernels(one: Model, xs: Any, shared: Any, rounds: int, stop: float) -> list[dict[str, Any]]:
    """Return the fields of `KernelCost` for each kernel of a mini-batch."""
    estimates: dict[str, Estimate] = {}
    out: dict[str, dict[str, Any]] = {}
    for record, spec, seconds in timed_batches(one, xs, shared, rounds, stop):
        name = record.kernel
        if name not in estimates:
            estimates[name] = of_kernel(spec, one.options.decisions, None, one.options.precision)
            out[name] = {"kernel": name, "rows": 0, "batches": 0, "measured": 0.0, "estimated": 0.0}
        row = out[name]
        row["rows"] += record.rows or record.size
        row["batches"] += 1
        row["measured"] += seconds
        row["estimated"] += estimated(record, estimates[name])
    return list(out.values())
