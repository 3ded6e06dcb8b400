"""Ablation of the options: every model with each option off alone, all of them off, and all of them on.

In: workloads, a size, a number of instances. Out: an `Ablation` of plain numbers, which `report` prints and `plot`
draws. Nodes, batches and the bytes that kernels read and write are counted, for every schedule; times come from
interleaved pairs of mini-batches, on against off. An option that changes neither the code of a model nor its schedule
is not timed.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from acronumba import config, pack
from acronumba.api.dispatch import bind
from acronumba.api.effects import count
from acronumba.api.model import Model
from acronumba.bench.measure import Quartiles, Ratio, machine, pairs, quartiles
from acronumba.bench.workloads import Workload, inputs
from acronumba.config import OF_DEPTH, OPTIMISATIONS
from acronumba.views.explained import Count

ON, OFF = "all on", "all off"
TOLERANCE = 1.03  # an option may cost this much on a model that it does nothing for
_AT_RUN_TIME = ("phases", "schedule", "effort")  # work on the recorded graph: equal code may run otherwise
_TRACES = 15


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
    """The models for which an option gains most, and costs most."""

    option: str
    model: str  # where switching it off costs most; "" if nowhere
    times: float  # how many times longer a mini-batch takes there without it
    batches: str  # "18 instead of 61 (birnn, depth)": the largest saving
    worst: str  # where it costs most
    cost: float  # how many times longer a mini-batch takes there with it
    verdict: str  # "pays", "free", "costs": the last if the cost is more than 3% and outside the spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """Everything that was measured."""

    size: str | int
    instances: int
    pairs: int
    machine: dict[str, Any]
    tables: tuple[Table, ...]
    options: tuple[Best, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Options to measure, and those to compare them with."""

    name: str
    changes: dict[str, Any]  # of the options of the model
    against: dict[str, Any]  # likewise
    option: str = ""  # the one that is switched off


def variants() -> tuple[Variant, ...]:
    """Return the variants to measure, all on first, all off last. Options for a schedule are switched off in it."""
    default = config.Options().schedule
    out = [Variant(name=ON, changes={}, against={})]
    for name in OPTIMISATIONS:
        base = {"schedule": "depth"} if name in OF_DEPTH and default != "depth" else {}
        title = f"no {name}" + ", depth" * bool(base)
        out.append(Variant(name=title, changes={**base, name: False}, against=base, option=name))
    others: list[dict[str, Any]] = [{"schedule": name} for name in config.SCHEDULES if name != default]
    others += [{"effort": level} for level in range(4)]
    for change in others:
        ((name, value),) = change.items()
        out.append(Variant(name=f"{name} {value}", changes=change, against={}))
    return (*out, Variant(name=OFF, changes=dict.fromkeys(OPTIMISATIONS, False), against={}))


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
        options=tuple(_best(name, tables) for name in OPTIMISATIONS),
    )


def _rows(name: str, model: Model, xs: Any, p: Any, count: int, step: Callable[[int, str], None]) -> list[Row]:
    packed, shared = pack(xs), pack(p)
    # A separate model for each set of options, so that its specialisations are freed after the measurement.
    bases: dict[str, _Measured] = {}

    def made(changes: dict[str, Any]) -> _Measured:
        return _Measured(Model(model.__wrapped__, options=model.options.replace(**changes)), xs, p)

    def base(changes: dict[str, Any]) -> _Measured:
        return bases.get(str(changes)) or bases.setdefault(str(changes), made(changes))

    rows: list[Row] = []
    own: list[float] = []  # medians of "all on", one for every variant that it was compared with
    for variant in variants():
        step(1, f"{name}: {variant.name}")
        on = base(variant.against)
        it = made(variant.changes) if variant.changes != variant.against else on
        seconds: Quartiles | None = None
        ratio: Ratio | None = None
        if it is not on and it.differs(on, variant):
            run, run_on = (partial(v.model.batch, packed, p=shared) for v in (it, on))
            seconds, taken, ratio = pairs(run, run_on, count)
            own += [taken.median] if not variant.against else []
        host = it.host_times(packed, shared) if seconds or it is on else on.host_times(packed, shared)
        nodes = max(it.counts[0].nodes, 1)
        rows.append(
            Row(
                variant=variant.name,
                option=variant.option,
                counts=it.counts,
                record_ns=host[0] / nodes * 1e9,
                schedule_ns=host[1] / nodes * 1e9,
                seconds=seconds,
                ratio=ratio,
                verdict=verdict(ratio) if it is not on else "",
            )
        )
    rows[0] = replace(rows[0], seconds=quartiles(own) if own else None)
    return rows


class _Measured:
    """A workload recorded under one set of options, and under every schedule."""

    def __init__(self, model: Model, xs: Any, p: Any) -> None:
        self.model = model
        self._host: tuple[float, float] | None = None
        call = bind(model, (xs,), {"p": p})
        compiled, _, self.trace = model._record(call)
        self.code = [compiled.artifacts.text("plan"), compiled.artifacts.host_text()]
        self.code += [compiled.artifacts.kernel_text(k) for k in range(len(compiled.plan.kernels))]
        counts = [count(self.trace, model.options)]
        for name in config.SCHEDULES:
            if name != model.options.schedule:
                options = model.options.replace(schedule=name)
                counts.append(count(Model(model.__wrapped__, options=options)._record(call)[2], options))
        self.counts = tuple(counts)

    def differs(self, other: _Measured, variant: Variant) -> bool:
        """Whether a variant is to be timed: it has other code, another schedule, or another scheduler."""
        return (
            any(variant.changes.get(name) != variant.against.get(name) for name in _AT_RUN_TIME)
            or self.code != other.code
            or not np.array_equal(self.trace.batch, other.trace.batch)
        )

    def host_times(self, packed: Any, shared: Any) -> tuple[float, float]:
        """Return the median seconds of recording and of scheduling."""
        if self._host is None:  # only times are kept: traces hold memory
            runs = [self.model.trace(packed, p=shared).seconds for _ in range(_TRACES)]
            record, schedule = (statistics.median(s[stage] for s in runs) for stage in ("record", "schedule"))
            self._host = record, schedule
        return self._host


def verdict(ratio: Ratio | None) -> str:
    """Return the verdict on an option, from the ratio of the time without it to the time with it.

    "pays": the whole interval is above 1. "free": it costs at most 3%, or 1 is inside the interval. "costs N%"
    otherwise. "same": the option was not timed.
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
    saved, text = 1.0, ""
    for name, on, row in rows:
        before = {c.schedule: c.batches for c in on.counts}
        for c in row.counts:
            if c.batches > saved * max(before[c.schedule], 1):
                saved = c.batches / max(before[c.schedule], 1)
                text = f"{before[c.schedule]:,} instead of {c.batches:,} ({name}, {c.schedule})"
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
