"""How fast the models of the zoo are, against the plain calls and against NumPy batched by hand.

In: workloads, a size, a number of instances. Out: a `Speeds` of plain numbers. All competitors run in this process,
in turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from typing import Any

import numpy as np

from acronumba import pack
from acronumba.bench import yardsticks
from acronumba.bench.ablate import inputs
from acronumba.bench.measure import Quartiles, interleaved, machine
from acronumba.bench.workloads import Workload
from acronumba.zoo import tree_lstm

PLAIN, HAND, OBJECTS, PACKED = "plain", "NumPy by hand", "ours, objects", "ours, packed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """One workload."""

    workload: str
    seconds: dict[str, Quartiles]  # of a mini-batch, per competitor; "NumPy by hand" only where there is such a program
    difference: float  # largest difference from the plain calls, relative to the largest result
    nodes: int
    batches: int
    lower_bound: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """Everything that was measured."""

    size: str | int
    instances: int
    rounds: int
    threads: int
    machine: dict[str, Any]
    rows: tuple[Speed, ...]


def by_hand(workload: Workload, p: Any, xs: Any) -> Callable[[], Any] | None:
    """Return the same model batched by hand in NumPy, on data prepared for it; None if nobody has written it."""
    if workload.model is not tree_lstm.sentiment:
        return None
    return partial(yardsticks.tree_lstm_by_level(p), yardsticks.flatten(xs))


def measure(
    workloads: Sequence[Workload],
    *,
    size: str | int = "small",
    batch: int = 64,
    trees: str | None = None,
    rounds: int = 15,
    threads: int = 1,
    step: Callable[[int, str], None] = lambda n, text: None,
) -> Speeds:
    """Measure workloads; see `ablate` for the parameters."""
    rows = []
    for workload in workloads:
        step(1, workload.name)
        xs, p = inputs(workload, size, batch, trees)
        ours = workload.model.with_options(threads=threads)
        packed, shared = pack(xs), pack(p)
        competitors: dict[str, Callable[[], Any]] = {
            PLAIN: partial(yardsticks.plain, workload.model, xs, p),
            OBJECTS: partial(ours.batch, xs, p=p),
            PACKED: partial(ours.batch, packed, p=shared),
        }
        if hand := by_hand(workload, p, xs):
            competitors[HAND] = hand
        trace = ours.trace(xs, p=p)
        rows.append(
            Speed(
                workload=workload.name,
                seconds=interleaved(competitors, rounds),
                difference=difference(list(trace.results), yardsticks.plain(workload.model, xs, p)),
                nodes=trace.nodes,
                batches=len(trace.batches),
                lower_bound=trace.lower_bound,
            )
        )
    return Speeds(size=size, instances=batch, rounds=rounds, threads=threads, machine=machine(), rows=tuple(rows))


def difference(a: Any, b: Any) -> float:
    """Return the largest difference of two results of one structure, relative to the largest number."""
    if is_dataclass(b):
        return max((difference(getattr(a, x.name), getattr(b, x.name)) for x in fields(b)), default=0.0)
    if isinstance(a, list | tuple):
        return max((difference(x, y) for x, y in zip(a, b, strict=True)), default=0.0)
    return float(np.abs(np.asarray(a) - b).max() / max(float(np.abs(b).max()), 1e-30))
