"""The result of `Model.trace`: public interface of `runtime.trace.TraceData`, with text and plots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import networkx

    from acronumba.api.exploration import Exploration
    from acronumba.api.lines import Lines
    from acronumba.api.results import Results
    from acronumba.api.traced_run import TracedRun
    from acronumba.runtime.trace import BackRecord, BatchRecord, TraceData, Wait


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
    """The recording of a mini-batch by `Model.trace`.

    Parameters
    ----------
    model : str
        Name of the model.
    results : Results
        The results of the instances (None where one failed).
    data : TraceData
        The dataflow graph, its schedule and their costs.
    errors : dict
        The exceptions of the instances that failed.
    ran : TracedRun, optional
        The model, its arguments and specialisation; None for a trace that was pickled.
    """

    model: str
    results: Results
    data: TraceData
    errors: Mapping[int, BaseException] = field(default_factory=dict)
    ran: TracedRun | None = field(default=None, repr=False)

    @property
    def nodes(self) -> int:
        """Number of nodes of the dataflow graph."""
        return self.data.nodes

    @property
    def saved(self) -> int:
        """Number of nodes that were not recorded because an equal one was; `graph` shows the sharing instances."""
        return len(self.data.sharers)

    @property
    def batches(self) -> tuple[BatchRecord, ...]:
        """The batches in order of execution, each with `phase`, `depth`, `kernel` (name) and `size`.

        `ranges` of a batch has the minimum and maximum of each dynamic dimension of its nodes.
        """
        return self.data.batches

    @property
    def back(self) -> tuple[BackRecord, ...]:
        """Batches of the backward pass in order of execution, each with `kernel`, `what` and `size`."""
        return self.data.back

    @property
    def lower_bound(self) -> int:
        """A lower bound of the number of batches of any schedule; with several micro-batches, of these."""
        return self.data.lower_bound

    @property
    def optimal(self) -> bool:
        """Whether the number of batches is proved to be minimal."""
        return self.data.optimal

    @property
    def rounds(self) -> int:
        """Number of execution rounds: one whenever all instances wait for values, and one at the end."""
        return self.data.rounds

    @property
    def waits(self) -> tuple[Wait, ...]:
        """The waits for computed values, in order, each with `round`, `instance` and `loc` (`loc.line`).

        A wait belongs to the round that computes its value.
        """
        return self.data.waits

    @property
    def parts(self) -> int:
        """The number of micro-batches, which ran one after the other, so that values stay in the caches."""
        return self.data.parts

    @property
    def seconds(self) -> Mapping[str, float]:
        """The seconds of ``compile``, ``pack``, ``record``, ``schedule``, ``layout``, ``execute`` and ``total``.

        ``compile`` is 0 unless the call compiled, or loaded compiled code from the disk cache.
        """
        return self.data.seconds

    @property
    def peak_bytes(self) -> int:
        """Peak of the memory in use, in bytes, as `memory_limit` counts it."""
        return self.data.peak_bytes

    @property
    def graph(self) -> networkx.DiGraph[int]:
        """The dataflow graph as a `networkx.DiGraph`.

        Its nodes are numbers, with ``kernel``, ``depth``, ``phase``, ``batch``, ``instance``, ``instances``
        (all instances that share the node) and ``shapes``.
        """
        from acronumba.views import graphs

        return graphs.graph(self.data)

    def lines(self) -> Lines:
        """Return the time of each source line, forward and backward: those of its kernels' batches.

        A kernel of several lines has its time divided by the estimated work of their operations. Backward times are
        there in the trace of `value_and_grad`, without the sums of gradients over nodes.
        """
        from acronumba.api.lines import lines

        return lines(self)

    def __repr__(self) -> str:
        from acronumba.views.words import counted

        bound = "proved optimal" if self.optimal else f"at least {self.lower_bound:,}"
        size = f"{counted(len(self.results), 'instance')}, {counted(self.nodes, 'node')}"
        return f"<trace of {self.model}: {size} in {counted(len(self.batches), 'batch')} ({bound})>"

    def __str__(self) -> str:
        from acronumba.views import report

        return report.trace_text(self.data, self.model)

    def __rich__(self) -> Any:
        from acronumba.views import report

        return report.trace_view(self.data, self.model)

    def __reduce__(self) -> Any:
        return _restored, (self.model, self.results, self.data, dict(self.errors))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from acronumba.views.explorer.summary import trace_summary

        return {"text/plain": str(self), "text/html": trace_summary(self.data, self.model, len(self.results))}

    def explored(self, *, schedules: bool = True, options: bool | None = None) -> Exploration:
        """Return the explorer's view of the trace: data, a page, JSON.

        Parameters
        ----------
        schedules : bool
            Whether to include the other schedules.
        options : bool, optional
            Whether to include the effect of each option; by default, unless the model waits for values.
        """
        from acronumba.api.exploration import exploration

        count = len(self.results)
        return exploration(self.model, self.data, self.errors, count, self.ran, schedules=schedules, options=options)

    def html(self, path: str | Path, *, schedules: bool = True, options: bool | None = None) -> Path:
        """Write the explorer, a self-contained page; return its path. See `explored`."""
        return self.explored(schedules=schedules, options=options).html(path)

    def json(self, path: str | Path, *, schedules: bool = True, options: bool | None = None) -> Path:
        """Write the data of the explorer; return the path. See `explored`."""
        return self.explored(schedules=schedules, options=options).json(path)

    def show(self, *, schedules: bool = True, options: bool | None = None) -> None:
        """Show the explorer in a frame of the notebook. See `explored`."""
        from acronumba.views.explorer.page import display

        display(self.explored(schedules=schedules, options=options).data)

    def to_html(self, path: str | Path) -> Path:
        """Deprecated alias of `html`."""
        return self.html(path)

    def to_dot(self, path: str | Path) -> Path:
        """Write the dataflow graph for Graphviz; return its path."""
        from acronumba.views import graphs

        return _write(path, graphs.trace_dot(self.data))

    def to_perfetto(self, path: str | Path) -> Path:
        """Write the times and batches for ui.perfetto.dev; return its path."""
        from acronumba.views import perfetto

        return _write(path, perfetto.trace_json(self.data))


def _restored(model: str, results: Results, data: TraceData, errors: Mapping[int, BaseException]) -> Trace:
    return Trace(model=model, results=results, data=data, errors=errors)


def _write(path: str | Path, text: str) -> Path:
    Path(path).write_text(text, encoding="utf-8")
    return Path(path)
