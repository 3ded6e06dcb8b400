"""What each option is worth: every model with every option off alone, all of them off, and all of them on.

In: workloads, a size, a number of instances. Out: an `Ablation` of plain numbers, which `report` prints and `plot`
draws. Nodes, batches and the bytes that kernels read and write are counted, for every schedule; times come from
interleaved pairs of mini-batches, on against off. Where an option changes neither the code of a model nor its
schedule, there is nothing to time.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from acronumba import config, pack
from acronumba.api import Model
from acronumba.bench.measure import Quartiles, Ratio, machine, pairs, quartiles
from acronumba.bench.workloads import Workload
from acronumba.effects import switchable
from acronumba.kernels.spec import Dim, KernelSpec
from acronumba.runtime.trace import TraceData

ON, OFF = "all on", "all off"
TOLERANCE = 1.03  # an option may cost this much on a model that it does nothing for
_AT_RUN_TIME = (
    "phases",
    "schedule",
    "effort",
)  # options that work on the recorded graph, so that equal code may run otherwise
_TRACES = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """What a mini-batch comes to under one schedule."""

    schedule: str
    nodes: int
    batches: int
    lower_bound: int  # no schedule of these nodes has fewer batches
    optimal: bool  # proved: there are no fewer
    launches: int  # calls of kernels
    bytes: int  # that kernels read and write, without caches: operands and results of nodes, shared operands of batches


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A workload with some options changed."""

    variant: str  # "all on", "all off", "no hoist", or a schedule
    option: str  # that was switched off; "" where it is not one
    counts: tuple[Count, ...]  # per schedule, the model's own first
    record_ns: float  # nanoseconds per node
    schedule_ns: float
    seconds: Quartiles | None  # of a mini-batch; None: the same code and schedule as with all on
    ratio: Ratio | None  # how many times longer it takes than with all on
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows of one workload."""

    workload: str
    why: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """Where an option is worth most, and where it costs most."""

    option: str
    model: str  # where switching it off costs most; "" if nowhere
    times: float  # how many times longer a mini-batch takes there without it
    batches: str  # "18 instead of 61": the largest saving
    worst: str  # where it costs most
    cost: float  # how many times longer a mini-batch takes there with it
    verdict: str  # "pays", "free", "costs": the last where it costs more than 3% and outside the spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """Everything that was measured."""

    size: str | int
    instances: int
    pairs: int
    machine: dict[str, Any]
    tables: tuple[Table, ...]
    options: tuple[Best, ...]


def variants() -> dict[str, dict[str, Any]]:
    """Return the changes of options by the name of the variant: all on first, all off last."""
    out: dict[str, dict[str, Any]] = {ON: {}}
    out |= {f"no {name}": {name: False} for name in switchable()}
    out |= {f"schedule {name}": {"schedule": name} for name in config.SCHEDULES if name != config.Options().schedule}
    if "effort" not in config.NO_EFFECT:
        out |= {f"effort {level}": {"effort": level} for level in range(4)}
    out[OFF] = dict.fromkeys(switchable(), False)
    return out


def ablate(
    workloads: Sequence[Workload],
    *,
    size: str | int = "small",
    batch: int = 64,
    trees: str | None = None,
    count: int = 15,
    threads: int = 1,
    step: Callable[[int, str], None] = lambda n, text: None,
) -> Ablation:
    """Measure workloads.

    Parameters
    ----------
    workloads
    size
        Of the models: "small", "large" or a number.
    batch
        Instances per mini-batch.
    trees
        A file of trees to take the instances from, where the workload can read one.
    count
        Pairs of mini-batches per option.
    threads
        That run kernels.
    step
        Called with 1 and a text after each variant.
    """
    tables = []
    for workload in workloads:
        xs, p = inputs(workload, size, batch, trees)
        model = workload.model.with_options(threads=threads)
        rows = _rows(workload.name, model, xs, p, count, step)
        tables.append(Table(workload=workload.name, why=workload.why, rows=tuple(rows)))
    return Ablation(
        size=size,
        instances=batch,
        pairs=count,
        machine=machine(),
        tables=tuple(tables),
        options=tuple(_best(name, tables) for name in switchable()),
    )


def inputs(workload: Workload, size: str | int, batch: int, trees: str | None) -> tuple[Any, Any]:
    """Return instances and weights; those of a file are taken again from its beginning where there are too few."""
    p = workload.params(size)
    if trees is None or workload.read is None:
        return workload.instances(batch), p
    found = list(workload.read(trees))
    return [found[k % len(found)] for k in range(batch)], p


def _rows(name: str, model: Model, xs: Any, p: Any, count: int, step: Callable[[int, str], None]) -> list[Row]:
    packed, shared = pack(xs), pack(p)
    on = _Variant(model, xs, p)
    run_on = partial(model.batch, packed, p=shared)
    run_on()
    host = _host_times(model, packed, shared)
    rows: list[Row] = []
    own: list[float] = []  # medians of "all on", one for every variant that it was compared with
    for variant, changes in variants().items():
        step(1, f"{name}: {variant}")
        if not changes:
            rows.append(_row(variant, changes, on, host))
            continue
        # A model of its own, so that what is compiled for the variant goes when it has been measured.
        other = Model(model.__wrapped__, options=model.options.replace(**changes))
        made = _Variant(other, xs, p)
        if not made.differs(on, changes):
            rows.append(_row(variant, changes, made, host))
            continue
        seconds, base, ratio = pairs(partial(other.batch, packed, p=shared), run_on, count)
        own.append(base.median)
        rows.append(_row(variant, changes, made, _host_times(other, packed, shared), seconds, ratio))
    rows[0] = replace(rows[0], seconds=quartiles(own) if own else None)
    return rows


def _row(
    variant: str,
    changes: dict[str, Any],
    made: _Variant,
    host: tuple[float, float],
    seconds: Quartiles | None = None,
    ratio: Ratio | None = None,
) -> Row:
    nodes = max(made.counts[0].nodes, 1)
    return Row(
        variant=variant,
        option=next(iter(changes)) if list(changes.values()) == [False] else "",
        counts=made.counts,
        record_ns=host[0] / nodes * 1e9,
        schedule_ns=host[1] / nodes * 1e9,
        seconds=seconds,
        ratio=ratio,
        verdict=verdict(ratio) if changes else "",
    )


def _host_times(model: Model, packed: Any, shared: Any) -> tuple[float, float]:
    """Return the median seconds of recording and of scheduling."""
    runs = [model.trace(packed, p=shared).seconds for _ in range(_TRACES)]  # the traces themselves hold memory
    return statistics.median(s["record"] for s in runs), statistics.median(s["schedule"] for s in runs)


class _Variant:
    """A workload recorded under one set of options, and under every schedule."""

    def __init__(self, model: Model, xs: Any, p: Any) -> None:
        call = model._bind((xs,), {"p": p})
        compiled, self.trace = model._record(call)
        self.code = [compiled.text("plan"), compiled.host_text()]
        self.code += [compiled.kernel_text(k) for k in range(len(compiled.plan.kernels))]
        counts = [count(str(model.options.schedule), self.trace)]
        for name in config.SCHEDULES:
            if name != model.options.schedule:
                options = model.options.replace(schedule=name)
                counts.append(count(name, Model(model.__wrapped__, options=options)._record(call)[1]))
        self.counts = tuple(counts)

    def differs(self, other: _Variant, changes: dict[str, Any]) -> bool:
        """Whether there is something to time: other code, another schedule, or another way to make it."""
        return (
            any(name in _AT_RUN_TIME for name in changes)
            or self.code != other.code
            or not np.array_equal(self.trace.batch, other.trace.batch)
        )


def count(schedule: str, trace: TraceData) -> Count:
    """Return what a trace comes to."""
    return Count(
        schedule=schedule,
        nodes=trace.nodes,
        batches=len(trace.batches),
        lower_bound=trace.lower_bound,
        optimal=trace.optimal,
        launches=len(trace.batches),
        bytes=moved(trace),
    )


def moved(trace: TraceData) -> int:
    """Return the bytes that kernels read and write: those of each node, and shared operands once per batch."""
    total = 0
    specs = dict(zip(trace.kernels, trace.specs, strict=True))
    for batch, extents in zip(trace.batches, trace.extents, strict=True):
        own, shared = _bytes(specs[batch.kernel], extents)
        total += own * batch.size + shared
    return total


def _bytes(spec: KernelSpec, extents: Sequence[int]) -> tuple[int, int]:
    """Return the bytes that a kernel reads and writes per node, and those it reads per batch."""

    def size(dtype: str, shape: tuple[int | Dim, ...]) -> int:
        return math.prod(extents[n.index] if isinstance(n, Dim) else n for n in shape) * np.dtype(dtype).itemsize

    own = shared = 0
    for k, o in enumerate(spec.operands):
        readers = [op for op in spec.body if k in op.args]
        if o.shape and all(op.op == "take" and op.args[0] == k for op in readers):  # of a table, only rows are read
            own += sum(size(op.dtype, op.shape) for op in readers)
        elif o.kind == "shared":
            shared += size(o.dtype, o.shape)
        else:
            own += size(o.dtype, o.shape)
    for value in spec.results:
        op = spec.body[value - len(spec.operands)]
        own += size(op.dtype, op.shape)
    return own, shared


def verdict(ratio: Ratio | None) -> str:
    """Say what an option is worth, from the ratio of the time without it to the time with it.

    "pays": the whole interval is above 1. "free": it costs at most 3%, or 1 is inside the interval. "costs N%"
    otherwise. "same": there was nothing to time.
    """
    if ratio is None:
        return "same"
    if ratio.low > 1:
        return f"pays {ratio.median:.2f}x"
    if ratio.high >= 1 or 1 / ratio.median <= TOLERANCE:
        return "free"
    return f"costs {(1 / ratio.median - 1) * 100:.0f}%"


def _best(option: str, tables: Sequence[Table]) -> Best:
    rows = [(t.workload, t.rows[0], r) for t in tables for r in t.rows if r.option == option]
    timed = [(name, r.ratio) for name, _, r in rows if r.ratio is not None]
    model, most = max(timed, key=lambda m: m[1].median, default=("", None))
    worst, least = min(timed, key=lambda m: m[1].median, default=("", None))
    saved = max(rows, key=lambda m: m[2].counts[0].batches / max(m[1].counts[0].batches, 1), default=None)
    text = ""
    if saved is not None and saved[2].counts[0].batches > saved[1].counts[0].batches:
        text = f"{saved[1].counts[0].batches:,} instead of {saved[2].counts[0].batches:,} ({saved[0]})"
    verdicts = [r.verdict for _, _, r in rows]
    if any(v.startswith("costs") for v in verdicts):
        end = "costs"
    else:
        end = "pays" if any(v.startswith("pays") for v in verdicts) else "free" if timed else "same"
    return Best(
        option=option,
        model=model,
        times=most.median if most else 1.0,
        batches=text,
        worst=worst,
        cost=1 / least.median if least else 1.0,
        verdict=end,
    )
