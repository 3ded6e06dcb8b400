"""A traced run for the terminal: summary, schedule, dataflow graph.

In: a `TraceData`. Out: rich renderables that fit 80 columns, or plain text. Long lists are cut, with the number of
items left out. Colours are for people at a terminal; `NO_COLOR` switches them off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from acronumba.memory import native
from acronumba.runtime.trace import TIMED, BatchRecord, TraceData
from acronumba.views.console import plain_text
from acronumba.views.graphs import operands_of, result_shapes
from acronumba.views.words import counted

_STYLES = ("cyan", "yellow", "green", "magenta", "blue", "red", "bright_cyan", "bright_yellow", "bright_green", "white")


class Bar:
    """A horizontal bar as wide as its column allows; `share` of it is filled, at least one cell if it is not 0."""

    def __init__(self, share: float, style: str = "cyan", width: int | None = None) -> None:
        self.share = min(max(share, 0.0), 1.0)
        self.style = style
        self.width = width

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        width = min(self.width or options.max_width, options.max_width)
        cells = max(round(self.share * width), int(self.share > 0))
        yield Segment(("#" if options.ascii_only else "█") * cells, Style.parse(self.style))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(4, self.width or options.max_width)


def seconds_text(seconds: float) -> str:
    """Return a time with three digits: "1.23 ms"."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1 or unit == "us":
            value = seconds * scale
            return f"{value:.{max(0, 2 - (value >= 10) - (value >= 100))}f} {unit}"
    raise AssertionError


def bytes_text(n: int) -> str:
    """Return a size: "1.5 MiB"."""
    value = float(n)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{n} bytes" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError


def bound_text(trace: TraceData) -> str:
    """Return "N batches, at least M": the number of scheduled batches and the lower bound of any schedule."""
    end = ", proved optimal" if trace.optimal else ""
    return f"{counted(len(trace.batches), 'batch')}, at least {trace.lower_bound:,}{end}"


def summary(trace: TraceData) -> Table:
    """Return a table of the run's counts, memory, and the time of each stage."""
    table = Table(title="Summary", show_header=False, box=None, title_justify="left", padding=(0, 1))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right", overflow="fold")
    table.add_column(ratio=1)
    table.expand = True
    table.add_row("nodes", f"{trace.nodes:,}", "kernel calls without batching")
    if len(trace.sharers):
        table.add_row("equal nodes", f"{len(trace.sharers):,}", "not computed: equal to one of the nodes")
    table.add_row("batches", f"{len(trace.batches):,}", _mean(trace))
    table.add_row("at least", f"{trace.lower_bound:,}", _bound(trace))
    table.add_row("rounds", f"{trace.rounds:,}", "separated by sync points" if trace.rounds > 1 else "")
    if trace.parts > 1:
        table.add_row("micro-batches", f"{trace.parts:,}", "one after the other")
    saved = trace.unshared_bytes > trace.peak_bytes
    without = f"; {bytes_text(trace.unshared_bytes)} without reuse of memory" if saved else ""
    table.add_row("memory", bytes_text(trace.peak_bytes), f"at the peak{without}")
    named = [s for s in TIMED if trace.seconds.get(s)] + sorted(set(trace.seconds) - {*TIMED, "total"})
    total = trace.seconds.get("total", sum(trace.seconds[s] for s in named))
    times = {stage: trace.seconds[stage] for stage in named}
    if (rest := total - sum(times.values())) > 0.01 * total:  # weights, buffers, Python
        times["other"] = rest
    for stage, taken in times.items():
        table.add_row(stage, seconds_text(taken), Bar(taken / total if total > 0 else 0.0, width=30))
    if trace.seconds:
        table.add_row("total", seconds_text(total), "")
    return table


def _mean(trace: TraceData) -> str:
    return f"kernel calls with batching: {trace.nodes / len(trace.batches):.1f} nodes each" if trace.batches else ""


def _bound(trace: TraceData) -> str:
    return "no schedule has fewer batches" + (", so this one is optimal" if trace.optimal else "")


def schedule(trace: TraceData, limit: int = 40) -> Group:
    """Return the schedule: a line and a bar per batch, in order of execution, of which at most `limit` are shown."""
    table = Table(title="Schedule", box=None, title_justify="left", padding=(0, 1), expand=True)
    for heading in ("batch", "phase", "depth"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("kernel", overflow="ellipsis", no_wrap=True, min_width=8)
    table.add_column("nodes", justify="right", no_wrap=True)
    lengths = any(b.ranges for b in trace.batches[:limit])
    if lengths:
        table.add_column("lengths", overflow="ellipsis", no_wrap=True)
    table.add_column("", ratio=1, min_width=4)
    largest = max((b.size for b in trace.batches), default=1)
    numbers = {name: k for k, name in reversed(list(enumerate(trace.kernels)))}
    last: tuple[int, int] | None = None
    for k, b in enumerate(trace.batches[:limit]):
        same = (b.phase, b.depth) == last
        last = (b.phase, b.depth)
        style = _STYLES[numbers.get(b.kernel, 0) % len(_STYLES)]
        where = ("", "") if same else (str(b.phase), str(b.depth))
        about = (_nodes(b), _lengths(b)) if lengths else (_nodes(b),)
        table.add_row(str(k), *where, Text(b.kernel, style), *about, Bar(b.size / largest, style))
    return Group(table, *_more(len(trace.batches) - limit, "batches"))


_WHAT = {"nodes": "", "adjoints": "adjoints of several readers", "sum": "over nodes, for a gradient"}


def backward_batches(trace: TraceData, limit: int = 40) -> Group:
    """Return the backward pass: a line and a bar per batch, in order of execution."""
    table = Table(title="Backward pass", box=None, title_justify="left", padding=(0, 1), expand=True)
    table.add_column("batch", justify="right", no_wrap=True)
    table.add_column("kernel", overflow="ellipsis", no_wrap=True, min_width=8)
    table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("", overflow="fold", max_width=32)
    table.add_column("", ratio=1, min_width=4)
    largest = max((b.size for b in trace.back), default=1)
    numbers = {f"{name}_back": k for k, name in reversed(list(enumerate(trace.kernels)))}
    for k, b in enumerate(trace.back[:limit]):
        style = _STYLES[numbers[b.kernel] % len(_STYLES)] if b.kernel in numbers else "dim"
        table.add_row(str(k), Text(b.kernel, style), f"{b.size:,}", _WHAT[b.what], Bar(b.size / largest, style))
    return Group(table, *_more(len(trace.back) - limit, "batches"))


def _lengths(b: BatchRecord) -> str:
    return ", ".join(f"{least}" if least == most else f"{least}..{most}" for least, most in b.ranges)


def _nodes(b: BatchRecord) -> str:
    return f"{b.size:,} of {b.rows:,} rows" if b.rows else f"{b.size:,}"


def kernels(trace: TraceData, limit: int = 20) -> Group:
    """Return the kernels with the nodes and batches of each."""
    table = Table(title="Kernels", box=None, title_justify="left", padding=(0, 1), expand=True)
    table.add_column("kernel", overflow="ellipsis", no_wrap=True)
    table.add_column("nodes", justify="right", no_wrap=True)
    table.add_column("batches", justify="right", no_wrap=True)
    if measured := sum(b.seconds or 0.0 for b in trace.batches):
        table.add_column("time", justify="right", no_wrap=True)
    table.add_column("results", overflow="fold", ratio=1)
    nodes = np.bincount(native(trace.kernel), minlength=len(trace.kernels))
    counts: dict[str, int] = {}
    seconds: dict[str, float] = {}
    for b in trace.batches:
        counts[b.kernel] = counts.get(b.kernel, 0) + 1
        seconds[b.kernel] = seconds.get(b.kernel, 0.0) + (b.seconds or 0.0)
    ran = [k for k in range(len(trace.kernels)) if nodes[k]]
    for k in ran[:limit]:
        name = trace.kernels[k]
        shapes = ", ".join(result_shapes(trace.specs[k])) if k < len(trace.specs) else ""
        cells = [f"{nodes[k]:,}", f"{counts.get(name, 0):,}"]
        if measured:
            cells.append(f"{seconds.get(name, 0.0) / measured:.0%}")
        table.add_row(Text(name, _STYLES[k % len(_STYLES)]), *cells, Text(shapes))
    idle = [name for k, name in enumerate(trace.kernels) if not nodes[k]]
    left = [Text(f" without nodes: {', '.join(idle)} (computed once per mini-batch, or not reached)")] if idle else []
    return Group(table, *_more(len(ran) - limit, "kernels"), *left)


def dataflow(trace: TraceData, limit: int = 30, deepest: int = 10) -> Group:
    """Return the graph as a tree from its last values down to their operands, at most `limit` lines.

    A node that was shown before is not expanded again; below `deepest` levels, only "..." is shown.
    """
    start, producers = operands_of(trace)
    used = np.zeros(trace.nodes, bool)
    used[producers] = True
    tree = Tree("Dataflow", guide_style="dim")
    stack = [(int(node), tree, 0) for node in np.flatnonzero(~used)[::-1]]
    seen: set[int] = set()
    lines = 0
    while stack and lines < limit:
        node, parent, level = stack.pop()
        lines += 1
        kind = int(trace.kernel[node])
        label = Text(no_wrap=True, overflow="ellipsis")
        label.append(f"{node} ", "dim")
        label.append(trace.kernels[kind], _STYLES[kind % len(_STYLES)])
        label.append(f"  instance {trace.instance[node]}, depth {trace.depth[node]}, batch {trace.batch[node]}", "dim")
        operands = list(dict.fromkeys(producers[start[node] : start[node + 1]].tolist()))
        if node in seen and len(operands):
            label.append("  (above)", "dim")
            parent.add(label)
            continue
        seen.add(node)
        branch = parent.add(label)
        if level + 1 >= deepest and len(operands):
            branch.add(Text("...", "dim"))
            continue
        stack += [(int(p), branch, level + 1) for p in operands[::-1]]
    return Group(tree, *_more(trace.nodes - len(seen), "nodes"))


def rounds(trace: TraceData, limit: int = 20) -> Group:
    """Return a table of the rounds: nodes, batches and instances of each, and the fibers that waited for its values."""
    table = Table(title="Execution rounds", box=None, title_justify="left", padding=(0, 1), expand=True)
    for heading in ("round", "nodes", "batches", "instances", "fibers wait"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("at the sync point", ratio=1, overflow="fold")
    for k in range(min(trace.rounds, limit)):
        mine = np.flatnonzero(np.array([b.round == k for b in trace.batches]))
        nodes = np.isin(trace.batch, mine)
        instances = np.unique(trace.takers[nodes[trace.takers[:, 0]], 1])
        waits = [w for w in trace.waits if w.round == k]
        lines = Counter(f"{w.loc.function}, line {w.loc.line}" for w in waits)
        where = "; ".join(f"{line} ({count:,})" if len(lines) > 1 else line for line, count in lines.most_common(4))
        table.add_row(
            str(k), f"{nodes.sum():,}", f"{len(mine):,}", f"{len(instances):,}",
            f"{len(waits):,}", Text(where),
        )  # fmt: skip
    return Group(table, *_more(trace.rounds - limit, "rounds"))


def timeline(trace: TraceData, limit: int = 16, width: int = 64) -> Group:
    """Return a table with a row per instance and a character per round.

    A digit is the number of its fibers that waited for values of the round (+: ten or more); a dot means that it ended.
    """
    table = Table(title="Timeline", box=None, title_justify="left", padding=(0, 1), expand=True)
    table.add_column("instance", justify="right", no_wrap=True)
    table.add_column("fibers that wait, by round; . the instance ends", ratio=1, no_wrap=True, overflow="crop")
    round_of = np.array([b.round for b in trace.batches], np.int32)[trace.batch]
    count = int(max(trace.takers[:, 1].max(initial=-1), max((w.instance for w in trace.waits), default=-1))) + 1
    waiting = np.zeros((count, trace.rounds), np.int64)
    for w in trace.waits:
        waiting[w.instance, w.round] += 1
    ran = np.zeros((count, trace.rounds), bool)
    nodes, instances = trace.takers.T
    ran[instances, round_of[nodes]] = True
    for k in range(min(count, limit)):
        active = np.flatnonzero(ran[k] | (waiting[k] > 0))
        end = int(active[-1]) + 1 if len(active) else 0
        if end and waiting[k, end - 1]:
            end += 1  # it took the last value, and ended without computing anything
        cells = "".join("." if n == 0 else str(n) if n < 10 else "+" for n in [*waiting[k], 0][: min(end, width)])
        table.add_row(str(k), Text(cells + ("..." if end > width else "")))
    return Group(table, *_more(count - limit, "instances"))


def _more(count: int, what: str) -> list[Text]:
    return [Text(f"  ... and {count:,} more {what}", "dim")] if count > 0 else []


def trace_view(trace: TraceData, name: str = "", limit: int = 40, graph: bool = True) -> RenderableType:
    """Return the whole report, or all but the dataflow graph."""
    head = Text(f"{name}: " if name else "", "bold").append(
        f"{counted(trace.nodes, 'node')} in {bound_text(trace)}", "bold"
    )
    parts: list[RenderableType] = [head, "", summary(trace)]
    if trace.nodes:
        parts += ["", rounds(trace), "", timeline(trace)] if trace.rounds > 1 else []
        parts += ["", kernels(trace), "", schedule(trace, limit)]
        parts += ["", backward_batches(trace, limit)] if trace.back else []
        parts += ["", dataflow(trace)] if graph else []
    return Group(*parts)


def print_trace(trace: TraceData, name: str = "", console: Console | None = None, graph: bool = True) -> None:
    """Print the report to the console, by default standard output."""
    (console or Console()).print(trace_view(trace, name, graph=graph))


def trace_text(trace: TraceData, name: str = "", width: int = 80) -> str:
    """Return the report as plain text."""
    return plain_text(trace_view(trace, name), width) + "\n"
