"""The record of one traced run, which `driver` fills and `views` draw.

In: columns of the recorded dataflow graph (one entry per node), the schedule (one record per batch), the time of each
stage. Out: plain arrays and numbers, no behaviour, so that views and engine do not depend on each other. See
`acronumba.views.report` for the printed report and `acronumba.views.graphs` for the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from acronumba.errors import Loc
from acronumba.ir.spec import KernelSpec
from acronumba.records import record

STAGES = ("pack", "record", "schedule", "layout", "execute")  # numbered as `state.TO_RECORD` and what follows it
TIMED = ("compile", *STAGES)  # keys of `TraceData.seconds`

# Of the nodes of a batch: run-time extents, in the order of the specification, and how many nodes have them.
Extents: TypeAlias = tuple[tuple[tuple[int, ...], int], ...]


@record(kw_only=True)
class BatchRecord:
    """One batch: nodes of one kernel that are computed together."""

    phase: int  # component of the kernel graph, counted in order of execution
    depth: int  # depth of its nodes inside the phase
    kernel: str  # name of the kernel
    size: int  # nodes
    seconds: float | None = None  # time of its execution, where it was measured
    round: int = 0  # number of the round it belongs to
    rows: int = 0  # rows of all nodes, if a node is several rows; else 0
    extents: Extents = ()

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Minimum and maximum of each run-time extent of the nodes."""
        return tuple((min(n), max(n)) for n in zip(*(found for found, _ in self.extents), strict=True))


@record(kw_only=True)
class BackRecord:
    """One batch of the backward pass."""

    kernel: str  # name of the backward kernel or of the sum; or "adjoints"
    what: str  # "nodes"; "adjoints": parts of adjoints of several readers; "sum": over nodes, for a gradient
    size: int  # nodes, rows of nodes that are several, adjoints, or rows that are added up
    seconds: float | None = None  # time of its execution, where it was measured
    spec: KernelSpec | None = None  # of a backward kernel


@record(kw_only=True)
class Wait:
    """A fiber that waited, for a value of this round."""

    round: int
    instance: int
    loc: Loc  # position of the read


@record(kw_only=True, eq=False)
class TraceData:
    """The dataflow graph, its schedule, and their cost. n nodes, m edges."""

    nodes: int  # n
    kernel: NDArray[np.int32]  # int32[n]: number of the node's kernel in `kernels`
    depth: NDArray[np.int32]  # int32[n]: depth in its phase, from 0
    phase: NDArray[np.int32]  # int32[n]: phase it is executed in
    instance: NDArray[np.int32]  # int32[n]: instance that recorded it
    batch: NDArray[np.int32]  # int32[n]: number of its batch in `batches`
    order: NDArray[np.int32]  # int32[n]: nodes in order of execution
    edges: NDArray[np.int32]  # int32[m, 2]: producer, consumer
    kernels: tuple[str, ...]  # names of the kernels
    specs: tuple[KernelSpec, ...]  # specifications of the kernels, in the same order
    batches: tuple[BatchRecord, ...]  # in order of execution
    lower_bound: int  # no schedule has fewer batches
    optimal: bool  # proved: len(batches) == lower_bound, or as a certificate says
    rounds: int  # number of executions: each time that all fibers waited, and at the end; 1 without waits
    parts: int = 1  # into which the mini-batch was cut, one run after the other
    waits: tuple[Wait, ...] = ()  # by round, in the order in which they came
    read: NDArray[np.int64] | None = (
        None  # int64[r, 3]: values of tensors that were read, if they were noted: instance,
    )
    # number of the read, value; each read of an instance in its order
    seconds: Mapping[str, float] = field(default_factory=dict)  # per name of `TIMED`, and "total"
    peak_bytes: int = 0  # of memory for values
    sharers: NDArray[np.int32] = field(default_factory=lambda: np.zeros((0, 2), np.int32))
    # int32[s, 2]: a node, and an instance that takes it where it would have recorded an equal one; see `Options.equal`
    unshared_bytes: int = 0  # of the same if no two results shared a place
    back: tuple[BackRecord, ...] = ()  # of gradients: the batches of the backward pass, in order of execution

    @property
    def takers(self) -> NDArray[np.int32]:
        """int32[n + s, 2]: nodes, and the instances that recorded or share them."""
        own = np.stack([np.arange(self.nodes, dtype=np.int32), self.instance], axis=1)
        return np.concatenate([own, self.sharers])

    def nodes_of(self, instance: int) -> NDArray[np.int32]:
        """Return the nodes of an instance, nodes shared with other instances included."""
        takers = self.takers
        return np.unique(takers[takers[:, 1] == instance, 0])

    @property
    def kinds(self) -> NDArray[np.int32]:
        """Former name of `kernel`, for one release."""
        return self.kernel

    @property
    def inst(self) -> NDArray[np.int32]:
        """Former name of `instance`, for one release."""
        return self.instance


def empty_trace() -> TraceData:
    """Return the trace of a run without instances."""
    none = np.zeros(0, np.int32)
    return TraceData(
        nodes=0, kernel=none, depth=none, phase=none, instance=none, batch=none, order=none,
        edges=np.zeros((0, 2), np.int32),
        kernels=(), specs=(), batches=(), lower_bound=0, optimal=True, rounds=0,
        seconds=dict.fromkeys((*TIMED, "total"), 0.0),
    )  # fmt: skip


def joined(runs: Sequence[tuple[TraceData, NDArray[np.int64]]]) -> TraceData:
    """Return the trace of a mini-batch of traces of runs, one after the other, and the numbers of their instances."""
    traces = [trace for trace, _ in runs]
    if len(runs) == 1 and np.array_equal(runs[0][1], np.arange(len(runs[0][1]))):
        return traces[0]
    starts, firsts, rounds, phases = (
        np.cumsum([0, *counts])
        for counts in (
            [t.nodes for t in traces],
            [len(t.batches) for t in traces],
            [t.rounds for t in traces],
            [1 + max((b.phase for b in t.batches), default=-1) for t in traces],
        )
    )
    waiting = any(t.waits or t.rounds > 1 for t in traces)

    def column(name: str, offsets: NDArray[np.int64] | None = None) -> NDArray[np.int32]:
        parts = [getattr(t, name) for t in traces]
        parts = parts if offsets is None else [part + at for part, at in zip(parts, offsets, strict=False)]
        return np.concatenate(parts).astype(np.int32)

    sharers = [np.stack([t.sharers[:, 0] + at, numbers[t.sharers[:, 1]]], axis=1)
               for (t, numbers), at in zip(runs, starts, strict=False)]  # fmt: skip
    batches = tuple(
        replace(b, phase=b.phase + int(phase), round=b.round + int(at) if waiting else b.round)
        for t, phase, at in zip(traces, phases, rounds, strict=False)
        for b in t.batches
    )
    waits = tuple(
        replace(w, round=w.round + int(at), instance=int(numbers[w.instance]))
        for (t, numbers), at in zip(runs, rounds, strict=False)
        for w in t.waits
    )
    names = {name for t in traces for name in t.seconds}
    bound = sum(t.lower_bound for t in traces)
    return replace(
        traces[0],
        nodes=int(starts[-1]),
        kernel=column("kernel"),
        depth=column("depth"),
        phase=column("phase", phases),
        instance=np.concatenate([numbers[t.instance] for t, numbers in runs]).astype(np.int32),
        batch=column("batch", firsts),
        order=column("order", starts),
        edges=column("edges", starts),
        batches=batches,
        lower_bound=bound,
        optimal=len(batches) == bound,
        rounds=int(rounds[-1]) if waiting else 1,
        parts=sum(t.parts for t in traces),
        waits=waits,
        read=None,
        seconds={name: sum(t.seconds.get(name, 0.0) for t in traces) for name in sorted(names)},
        peak_bytes=max(t.peak_bytes for t in traces),
        sharers=np.concatenate(sharers).astype(np.int32),
        unshared_bytes=max(t.unshared_bytes for t in traces),
    )
