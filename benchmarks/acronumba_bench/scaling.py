"""Time per instance as a function of the number of instances in a mini-batch.

In: workloads, sizes, numbers of instances. Out: a `Scaling` of plain numbers. The numbers of instances of one model
take turns, so that a busy moment of the machine affects all of them alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from acronumba import pack
from acronumba.api.effects import count
from acronumba.bench.measure import Quartiles, Traced, interleaved, machine, medians
from acronumba.bench.workloads import Workload, inputs

BATCHES = (1, 4, 16, 64, 256, 1024, 4096)
_TRACES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale(Traced):
    """One workload, at one size and number of instances."""

    seconds: Quartiles  # of a mini-batch of packed data

    @property
    def gflops(self) -> float:
        """Operations of products per second of the whole mini-batch, in 10^9."""
        return self.product_flops / self.seconds.median / 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Everything that was measured."""

    rounds: int
    threads: int
    machine: dict[str, Any]
    rows: tuple[Scale, ...]


def measure(
    workloads: Sequence[Workload],
    *,
    sizes: Sequence[str | int] = ("small",),
    batches: Sequence[int] = BATCHES,
    trees: str | None = None,
    rounds: int = 15,
    threads: int = 1,
    step: Callable[[int, str], None] = lambda n, text: None,
) -> Scaling:
    """Measure workloads, with the parameters of `speed.measure`."""
    rows: list[Scale] = []
    for size in sizes:
        for workload in workloads:
            step(1, f"{workload.name}, {size}")
            rows += _rows(workload, size, batches, trees, rounds, threads)
    return Scaling(rounds=rounds, threads=threads, machine=machine(), rows=tuple(rows))


def _rows(
    workload: Workload, size: str | int, batches: Sequence[int], trees: str | None, rounds: int, threads: int
) -> list[Scale]:
    xs, p = inputs(workload, size, max(batches), trees)
    shared = pack(p)
    model = workload.model.with_options(threads=threads)
    packed = {n: pack(xs[:n]) for n in batches}
    seconds = interleaved({str(n): partial(model.batch, packed[n], p=shared) for n in batches}, rounds)
    out = []
    for n in batches:
        traces = [model.trace(packed[n], p=shared).data for _ in range(_TRACES)]
        out.append(
            Scale(
                workload=workload.name,
                size=size,
                instances=n,
                seconds=seconds[str(n)],
                stages=medians([t.seconds for t in traces]),
                product_flops=count(traces[0], model.options).product_flops,
                nodes=traces[0].nodes,
                batches=len(traces[0].batches),
            )
        )
    return out
