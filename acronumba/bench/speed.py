"""Speed of the models of the zoo, against the plain calls and against hand-written baselines.

In: workloads, sizes, numbers of instances. Out: a `Speeds` of plain numbers. All competitors run in this process, in
turns, after their results have been compared with those of the plain calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from acronumba import pack
from acronumba.api.dispatch import bind, specialise
from acronumba.api.effects import count
from acronumba.api.model import Model
from acronumba.bench.agreement import agreement, in_float64, plain
from acronumba.bench.by_hand.program import Program
from acronumba.bench.ceiling import Ceiling, burst
from acronumba.bench.instruments import Instruments, Maker
from acronumba.bench.measure import SLOWEST, Quartiles, Traced, interleaved, machine, medians, timed
from acronumba.bench.workloads import Workload, inputs
from acronumba.config import Options
from acronumba.runtime.devices.executor import DeviceExecutor
from acronumba.runtime.devices.persistent import APART, GRAPH, TOGETHER
from acronumba.runtime.trace import TraceData

PLAIN, OBJECTS, PACKED = "plain", "ours, objects", "ours, packed"
HERE = "ours, on the processor"  # packed, one thread: competitor of a run on another device
BURST = "multiply and add"  # peak rate of multiply-adds, measured in turns with the competitors
WRONG = "different"  # the verdict
_TRACES = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed(Traced):
    """One workload, at one size and number of instances."""

    threads: int
    seconds: dict[str, Quartiles]  # of a mini-batch, per competitor, available baseline, and `BURST`
    reasons: dict[str, str] = field(default_factory=dict)  # reasons for missing baselines
    prepared: dict[str, float]  # seconds to prepare a baseline's data and weights, once; not in `seconds`
    verdicts: dict[str, str]  # how well each competitor agrees with the plain calls: `agreement`
    first: float  # seconds of our first call in this process, which compiles, or loads what was compiled before
    difference: float  # our largest difference from a float64 run, relative to the largest number
    kernels: dict[str, float]  # seconds of the batches of each of our kernels: medians of the same
    burst_flops: int  # of a turn of `BURST`
    launches: int = 0  # of functions, one after the other; 0 on the CPU
    ways: dict[str, float] = field(default_factory=dict)  # seconds on a GPU of one launch for all, of a launch for each
    joules: dict[str, dict[str, float]] = field(default_factory=dict)  # of a mini-batch, per competitor and counter
    bytes: int = 0  # read and written by kernels, without regard to caches
    lower_bound: int

    def times(self, competitor: str) -> float | None:
        """Return the ratio of a competitor's time to ours; None if it was not run.

        The plain call is compared with our time from objects; a competitor with prepared data, with that from packed
        data.
        """
        found = self.seconds.get(competitor)
        own = self.seconds[OBJECTS if competitor in (PLAIN, OBJECTS) else PACKED]
        return None if found is None else found.median / own.median

    @property
    def wrong(self) -> tuple[str, ...]:
        """The competitors whose results are not those of the plain calls."""
        return tuple(name for name, verdict in self.verdicts.items() if verdict == WRONG)

    @property
    def gflops(self) -> float:
        """Operations of products per second of the whole mini-batch from packed data, in 10^9."""
        return self.product_flops / self.seconds[PACKED].median / 1e9

    @property
    def peak(self) -> float:
        """`gflops` as a fraction of the peak rate of `threads` cores, as measured by `BURST` in the same turns."""
        return self.gflops / (self.threads * self.burst_flops / self.seconds[BURST].median / 1e9)

    def floors(self, c: Ceiling) -> dict[str, float]:
        """Return lower bounds of the time of the mini-batch in seconds, by limiting resource."""
        return {
            "products": self.product_flops / c.gflops / 1e9 if c.gflops else 0.0,
            "bytes": self.bytes / c.copied / 1e9 if c.copied else 0.0,
            "launches": self.launches * c.launch,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """Everything that was measured."""

    rounds: int
    threads: int
    device: str = "cpu"
    machine: dict[str, str | int | None]
    ceiling: Ceiling | None  # None of the simulator
    unmeasured: tuple[str, ...] = ()  # reasons for missing energy counters
    rows: tuple[Speed, ...]


def measure(
    workloads: Sequence[Workload],
    instruments: Instruments,
    *,
    sizes: Sequence[str | int] = ("small",),
    batches: Sequence[int] = (64,),
    trees: str | None = None,
    rounds: int = 15,
    threads: int = 1,
    device: str = "cpu",
    step: Callable[[int, str], None] = lambda n, text: None,
) -> Speeds:
    """Measure workloads.

    Parameters
    ----------
    workloads
    instruments
        Baselines, limits of the device, counters of energy.
    sizes
        Of the models: "small", "large" or a number.
    batches
        Instances per mini-batch.
    trees
        A file of trees to take the instances from, where the workload can read one.
    rounds
        Turns of each competitor.
    threads
        Number of threads that run kernels, ours and PyTorch's.
    device
        Device of the kernels, as for `Model.on`.
    step
        Called with 1 and a text before each row.

    Returns
    -------
    Speeds
        A baseline whose results are not those of the plain calls is not timed; `Speed.wrong` names it.
    """
    rows = []
    for size in sizes:
        for batch in batches:
            for w in workloads:
                step(1, f"{w.name}, {size}, {batch}")
                rows.append(
                    row(w, instruments, size, batch, trees=trees, rounds=rounds, threads=threads, device=device)
                )
    return Speeds(
        rounds=rounds,
        threads=threads,
        device=device,
        machine=machine(),
        ceiling=instruments.ceiling(device),
        unmeasured=instruments.unmeasured,
        rows=tuple(rows),
    )


def row(
    workload: Workload,
    instruments: Instruments,
    size: str | int,
    batch: int,
    *,
    trees: str | None = None,
    rounds: int = 15,
    threads: int = 1,
    device: str = "cpu",
    compared: int | None = None,
    without: Sequence[str] = (),
) -> Speed:
    """Measure one workload.

    Parameters
    ----------
    workload, instruments, size, batch, trees, rounds, threads, device
        As for `measure`.
    compared
        Number of instances computed by plain calls, to compare results with; None: all.
    without
        Baselines to leave out; on another device also `HERE`.
    """
    xs, p = inputs(workload, size, batch, trees)
    ours = workload.model.with_options(threads=threads).on(device)
    packed, shared = pack(xs), pack(p)
    makers = instruments.makers(workload.name, threads, device)
    made, reasons = _made({name: make for name, make in makers.items() if name not in without}, p, xs)
    some = xs[:compared]
    results = {name: program.results(program.run())[: len(some)] for name, (_, program) in made.items()}
    first, batched = timed(partial(ours.batch, xs, p=p))
    found = _agreements(workload.model, some, p, results, list(batched)[: len(some)])
    one = burst()
    competitors = _own(ours, (xs, p), (packed, shared))
    if device == "cpu":
        competitors = {PLAIN: partial(plain, workload.model, xs, p), **competitors, BURST: one.run}
    elif HERE not in without:
        competitors[HERE] = partial(_run, ours.on("cpu"), packed, shared)
    competitors |= {name: program.run for name, (_, program) in made.items() if found[name][0] != WRONG}
    alone = threads == 1 and device == "cpu"
    seconds = interleaved(competitors, rounds, time.process_time if alone else time.perf_counter)
    used = {name: spent for name, run in competitors.items() if name != BURST and (spent := instruments.joules(run))}
    traces = _TRACES if seconds[PACKED].median < SLOWEST else 1
    return Speed(
        workload=workload.name,
        size=size,
        instances=batch,
        threads=threads,
        seconds=seconds,
        reasons=reasons,
        prepared={name: taken for name, (taken, _) in made.items()},
        verdicts={name: verdict for name, (verdict, _) in found.items()},
        first=first,
        difference=found[OBJECTS][1],
        burst_flops=one.flops,
        joules=used,
        **_recorded(ours, packed, shared, traces, device),
    )


def _own(ours: Model, objects: tuple[Any, Any], packed: tuple[Any, Any]) -> dict[str, Callable[[], object]]:
    """Return our own competitors: methods to run a mini-batch.

    Results of a GPU are copied when they are asked for, and who starts from objects wants objects: both read the first.
    """
    columns, p = packed
    there = partial(ours.batch, columns, p=p) if ours.device == "cpu" else partial(_run, ours, columns, p)
    return {OBJECTS: partial(_run, ours, *objects), PACKED: there}


def _recorded(ours: Model, packed: Any, shared: Any, traces: int, device: str) -> dict[str, Any]:
    """Return the fields of `Speed` from several traces: medians of times, and counts of the first trace."""
    trace, stages, kernels = _traced(ours, packed, shared, traces)
    counted = count(trace, ours.options)
    return {
        "stages": stages,
        "kernels": kernels,
        "launches": 0 if device == "cpu" else _launched(trace, ours.options),
        "ways": {} if device == "cpu" else _ways(ours, packed, shared),
        "bytes": counted.bytes,
        "product_flops": counted.product_flops,
        "nodes": trace.nodes,
        "batches": len(trace.batches),
        "lower_bound": trace.lower_bound,
    }


def _made(makers: Mapping[str, Maker], p: Any, xs: Any) -> tuple[dict[str, tuple[float, Program]], dict[str, str]]:
    """Return the baselines with the seconds to prepare each, and the reasons for missing ones."""
    made: dict[str, tuple[float, Program]] = {}
    reasons: dict[str, str] = {}
    for name, make in makers.items():
        try:
            made[name] = timed(partial(make, p, xs))
        except RuntimeError as error:
            reasons[name] = str(error)
    return made, reasons


def _agreements(
    model: Model, xs: Any, p: Any, results: Mapping[str, Sequence[Any]], ours: Sequence[Any]
) -> dict[str, tuple[str, float]]:
    """Return verdict and difference of the results of baselines and ours against the plain calls."""
    expected = plain(model, xs, p)
    exact = plain(model, xs, in_float64(p))
    found = {name: agreement(got, expected, exact, alone=False) for name, got in results.items()}
    found[OBJECTS] = agreement(ours, expected, exact)
    return found


def _run(f: Model, columns: Any, p: Any) -> None:
    f.batch(columns, p=p)[0]


def _traced(ours: Model, packed: Any, shared: Any, times: int) -> tuple[TraceData, dict[str, float], dict[str, float]]:
    """Return the first of some traces, and the medians of the seconds of stages and of kernels in all of them."""
    trace = ours.trace(packed, p=shared).data
    runs, kernels = [trace.seconds], [kernel_seconds(trace)]
    for _ in range(times - 1):
        again = ours.trace(packed, p=shared).data
        runs.append(again.seconds)  # only times are kept: traces hold memory
        kernels.append(kernel_seconds(again))
    return trace, medians(runs), medians(kernels)


def _launched(trace: TraceData, options: Options) -> int:
    """Return the number of functions launched for a mini-batch."""
    from acronumba.kernels.cuda.generate import generate

    wanted = {b.kernel for b in trace.batches}
    functions = {
        name: len(generate(spec, options.decisions).entries)
        for name, spec in zip(trace.kernels, trace.specs, strict=True)
        if name in wanted
    }
    return sum(functions[b.kernel] for b in trace.batches)


def _ways(ours: Model, packed: Any, shared: Any) -> dict[str, float]:
    """Return the seconds of kernels in one launch, as a graph, and with one launch each, if these were tried."""
    compiled = specialise(ours, bind(ours, (packed,), {"p": shared}))[0]
    executor = compiled.artifacts.on(ours.device).executor
    assert isinstance(executor, DeviceExecutor)
    tried = list(executor.persistent.seconds.values())
    names = {TOGETHER: "one launch", GRAPH: "a graph", APART: "a launch for each"}
    return {names[way]: tried[-1][way] for way in names if way in tried[-1]} if tried else {}


def kernel_seconds(trace: TraceData) -> dict[str, float]:
    """Return the seconds of all batches of each kernel that ran."""
    out: dict[str, float] = {}
    for b in trace.batches:
        out[b.kernel] = out.get(b.kernel, 0.0) + (b.seconds or 0.0)
    return out
