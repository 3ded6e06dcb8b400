"""`Model.explore` and `Trace.html`: the data of the explorer for a mini-batch.

In: a `TracedRun` and its trace. Out: an `Exploration`: data, a page, JSON. The schedules that did not run, and the
mini-batch with each option switched alone, are recorded and scheduled as for `Model.explain`; nothing is computed for
them, unless the model waits for values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acronumba.api.effects import accounts, changes, effects
from acronumba.api.explanation import explanation
from acronumba.config import SCHEDULES, Options
from acronumba.emit.text import Placed
from acronumba.ir.source import locs_of
from acronumba.pipeline.texts import cuda_lines, host_lines, ir_lines, kernel_lines, plan_lines, recorded_at
from acronumba.views.explorer.data import Explored, Scheduled, Text, explorer_data, placed
from acronumba.views.progress import progress

if TYPE_CHECKING:
    from acronumba.api.traced_run import TracedRun
    from acronumba.pipeline.compiled import Compiled
    from acronumba.runtime.trace import TraceData

RUNS = 5  # of a mini-batch: on a busy machine the times of a single one say little


class Exploration:
    """The explorer's view of a mini-batch; `Model.explore` makes it.

    Attributes
    ----------
    data : dict
        All data that the explorer shows, in the format of ``acronumba/views/explorer/schema.json``.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def __repr__(self) -> str:
        return f"<exploration of {self.data['model']}>"

    def html(self, path: str | Path) -> Path:
        """Write the page; return its path."""
        from acronumba.views.explorer.page import page

        Path(path).write_text(page(self.data), encoding="utf-8")
        return Path(path)

    def json(self, path: str | Path) -> Path:
        """Write the data; return the path."""
        from acronumba.views.explorer.page import json_text

        Path(path).write_text(json_text(self.data), encoding="utf-8")
        return Path(path)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from acronumba.views.explorer.page import frame

        return {"text/plain": repr(self), "text/html": frame(self.data)}


def exploration(
    name: str,
    trace: TraceData,
    errors: Mapping[int, BaseException],
    instances: int,
    ran: TracedRun | None,
    *,
    schedules: bool = True,
    options: bool | None = None,
    runs: int = 1,
) -> Exploration:
    """Return the explorer's view of a trace.

    Parameters
    ----------
    name
        Name of the model.
    trace, errors, instances
        Trace, exceptions by instance, and number of instances of the mini-batch.
    ran
        The traced run; without it (a trace that was pickled), only the run itself is shown.
    schedules
        Whether to include the other schedules.
    options
        Whether to include the effect of each option; by default, unless the model waits for values.
    runs
        How often the mini-batch ran.
    """
    if ran is None or not instances:
        known = Scheduled(name="as it ran", trace=trace, bytes=[0] * len(trace.batches))
        given = Explored(model=name, instances=instances, schedules=[known], options={}, errors=errors, runs=runs)
        return Exploration(explorer_data(given))
    of, uses = _Recorded(ran, trace), ran.compiled.plan.uses
    tried = changes(of.options) if options or (options is None and trace.rounds <= 1) else []
    others = [s for s in SCHEDULES if s != of.options.schedule] if schedules else []
    with progress(f"exploring {name}", 1 + len(tried) + len(others)) as step:
        found = effects(of.options, of, step) if tried else ()
        explained = explanation(ran.compiled, trace, ran.instances, found)
        seen = [of.scheduled(of.options)]
        for schedule in others:
            seen.append(of.scheduled(of.options.replace(schedule=schedule)))
            step(1, f"{name} with schedule={schedule!r}")
        given = Explored(
            model=name,
            instances=ran.instances,
            schedules=seen,
            options={field: getattr(of.options, field) for field in of.options.__dataclass_fields__},
            runs=runs,
            errors=errors,
            explained=explained,
            uses=uses,
            sites=ran.sites(trace) if any(len(of) > 1 for of in uses) else None,
            texts=list(_texts(ran.compiled)),
        )
        return Exploration(explorer_data(given))


class _Recorded:
    """Traces of a mini-batch with other options, recorded once per `Options`."""

    def __init__(self, ran: TracedRun, trace: TraceData) -> None:
        self.ran = ran
        self.options = ran.compiled.options
        self.known: dict[Options, TraceData] = {self.options: trace}

    def __call__(self, options: Options) -> TraceData:
        if options not in self.known:
            self.known[options] = self.ran.record(options, self.known[self.options])
        return self.known[options]

    def scheduled(self, options: Options) -> Scheduled:
        """Return the mini-batch under the schedule of some options."""
        trace = self(options)
        moved = [sum(account.bytes for account, _ in parts) for parts in accounts(trace, options)]
        name = options.schedule if isinstance(options.schedule, str) else "your function"
        return Scheduled(name=name, trace=trace, bytes=moved)


def _texts(compiled: Compiled) -> Iterator[Text]:
    """Yield the stages of the compiler, with source positions and kernels."""
    plan, options = compiled.plan, compiled.options
    for name, title, found in (
        ("ir", "IR", ir_lines(compiled.program, plan)),
        ("plan", "Plan", list(plan_lines(plan))),
    ):
        yield Text(id=name, title=title, lines=[(line.text, line.loc, line.kernel) for line in found])
    recorded = recorded_at(plan)
    host = [(text, loc, recorded.get(loc.path, -1) if loc else -1) for text, loc in host_lines(plan, options)]
    yield Text(id="host", title="Host program", lines=host)
    for k, spec in enumerate(plan.kernels):
        yield _kernel_text(f"cpu:{k}", f"{spec.name}, CPU", kernel_lines(spec, options), k)
        yield _kernel_text(f"cuda:{k}", f"{spec.name}, CUDA", cuda_lines(spec, options), k)
    places = (loc for loc in (*locs_of(compiled.program), *locs_of(plan.program)) if loc.line)
    kernels = {spec.name: k for k, spec in enumerate(plan.kernels)}
    analyses = "\n\n".join(f"# {name}\n{text.rstrip()}" for name, text in plan.texts.items())
    yield Text(id="analyses", title="Analyses", lines=list(placed(analyses, places, kernels)))


def _kernel_text(id: str, title: str, lines: list[Placed], kernel: int) -> Text:
    return Text(id=id, title=title, lines=[(text, loc, kernel) for text, loc in lines])
