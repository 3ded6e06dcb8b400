"""A traced run as JSON for Perfetto (ui.perfetto.dev) or chrome://tracing.

In: a `TraceData`. Out: text with one track per stage and, in a track of each phase, one slice per batch. Batches whose
time was not measured share the time of `execute` by their number of nodes; their slices say so.
"""

from __future__ import annotations

import json
from typing import TypeAlias

from acronumba.runtime.trace import TIMED, TraceData
from acronumba.views.explorer.columns import Json

Event: TypeAlias = dict[str, Json]


def events(trace: TraceData) -> list[Event]:
    """Return the events; times are microseconds from the start of the run."""
    out: list[Event] = [_named("process_name", 0, "acronumba")]
    clock = 0.0
    execute = (0.0, 0.0)
    for track, stage in enumerate(TIMED, 1):
        if stage not in trace.seconds:
            continue
        long = trace.seconds[stage] * 1e6
        out += [_named("thread_name", track, stage), _slice(track, stage, clock, long, {})]
        if stage == "execute":
            execute = (clock, long)
        clock += long
    out += _batches(trace, *execute)
    return out


def _batches(trace: TraceData, start: float, long: float) -> list[Event]:
    out: list[Event] = []
    measured = sum(b.seconds * 1e6 for b in trace.batches if b.seconds is not None)
    unmeasured = sum(b.size for b in trace.batches if b.seconds is None)
    rest = max(long - measured, 0.0)
    clock = start
    first = len(TIMED) + 1
    for phase in sorted({b.phase for b in trace.batches}):
        out.append(_named("thread_name", first + phase, f"execute, phase {phase}"))
    for number, b in enumerate(trace.batches):
        time = b.seconds * 1e6 if b.seconds is not None else rest * b.size / unmeasured
        args: dict[str, int | str] = {"batch": number, "phase": b.phase, "depth": b.depth, "nodes": b.size}
        if b.seconds is None:
            args["time"] = "a share by nodes, not measured"
        out.append(_slice(first + b.phase, b.kernel, clock, time, args))
        clock += time
    return out


def _slice(track: int, name: str, start: float, long: float, args: dict[str, int | str]) -> Event:
    times = {"ts": round(start, 3), "dur": round(long, 3)}
    return {"name": name, "ph": "X", "pid": 1, "tid": track, **times, "args": args}


def _named(what: str, track: int, name: str) -> Event:
    return {"name": what, "ph": "M", "pid": 1, "tid": track, "args": {"name": name}}


def trace_json(trace: TraceData) -> str:
    """Return the run as JSON in the format of Chrome's traces."""
    return json.dumps({"traceEvents": events(trace), "displayTimeUnit": "ms"}, indent=1)
