"""Tables and plots of the measurements that a checkout has beside the speed of models.

In: the measurements of another module of the folder, such as `ablate.Ablation`. Out: rich tables of 80 to 120 columns,
a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from acronumba.bench.view import HEADS, machine_text, need_matplotlib, ratio_text, three
from acronumba.views.report import bytes_text

if TYPE_CHECKING:
    from acronumba_bench.ablate import Ablation, Row
    from acronumba_bench.ablate import Table as Measured
    from acronumba_bench.costs import Costs
    from acronumba_bench.ragged import Attention, Layer, Ragged
    from acronumba_bench.scaling import Scaling
    from acronumba_bench.starts import Starts
    from acronumba_bench.training import Steps

SURE = 6  # pairs from which on an interval holds the true median in 19 of 20 measurements
WIDE = 104  # columns from which on tables are complete


def ablation_view(a: Ablation, width: int = 120) -> RenderableType:
    """Return a table per model and one for the options; below `WIDE` columns some are left out."""
    head = f"{a.instances} instances, size {a.size}, {a.pairs} interleaved pairs, {machine_text(a.machine)}"
    parts: list[RenderableType] = [Text(head, "bold")]
    for table in a.tables:
        parts += ["", _measured(table, width >= WIDE)]
    legend = _LEGEND if a.pairs >= SURE else _LEGEND.replace(_SURELY, _HARDLY)
    parts += ["", Text(legend, "dim"), "", _options(a)]
    return Group(*parts)


_SURELY = "and where the true median lies (19 in 20)"
_HARDLY = f"least and most (with less than {SURE} pairs this proves nothing)"
_LEGEND = (
    "batches: per schedule, * proved optimal; bound: lower bound of batches; stages: kernel stages of all batches;\n"
    "host ns: recording and scheduling, per node; ms: a mini-batch, median; times: how many times longer it\n"
    f"takes than with all options on (those of depth: with that schedule), {_SURELY}."
)


def _measured(m: Measured, wide: bool) -> Table:
    table = Table(
        title=f"{m.workload}: {m.why}", title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0)
    )
    schedules = [c.schedule for c in m.rows[0].counts]
    table.add_column("options", no_wrap=True)
    names = ["nodes", *schedules]
    names += ["bound", "stages", "bytes", "host ns"] if wide else []
    for name in [*names, "ms", "times"]:
        table.add_column(name, justify="right", no_wrap=True)
    if wide:
        table.add_column("between", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for row in m.rows:
        table.add_row(*_cells(row, schedules, wide))
    return table


def _cells(row: Row, schedules: Sequence[str], wide: bool) -> list[str | Text]:
    mine = row.counts[0]
    by_name = {c.schedule: c for c in row.counts}
    cells: list[str | Text] = [row.variant, f"{mine.nodes:,}"]
    cells += [f"{by_name[s].batches:,}{'*' if by_name[s].optimal else ' '}" for s in schedules]
    if wide:
        cells += [f"{mine.lower_bound:,}", f"{mine.launches:,}", bytes_text(mine.bytes).replace("bytes", "B")]
        cells.append(f"{row.record_ns:.0f}+{row.schedule_ns:.0f}")
    cells.append(f"{row.seconds.median * 1e3:.2f}" if row.seconds else "")
    cells.append(f"{row.ratio.median:.2f}" if row.ratio else "")
    if wide:
        cells.append(f"{row.ratio.low:.2f}..{row.ratio.high:.2f}" if row.ratio else "")
    return [*cells, _coloured(row.verdict)]


def _coloured(verdict: str) -> Text:
    word = verdict.partition(" ")[0]
    return Text(verdict, {"pays": "green", "costs": "red", "free": "", "same": "dim"}.get(word, ""))


def _options(a: Ablation) -> Table:
    table = Table(title="What each option saves", title_justify="left", title_style="bold", box=None)
    for name in ("option", "slower without", "in", "batches", "at worst", "in", "verdict"):
        table.add_column(name, no_wrap=name in ("option", "verdict"), justify="right" if "w" in name else "left")
    for o in a.options:
        most, least = (f"{o.times:.2f}x" if o.model else "", f"{1 / o.cost:.2f}x" if o.worst else "")
        table.add_row(o.option, most, o.model, o.batches, least, o.worst, _coloured(o.verdict))
    return table


def costs_view(c: Costs) -> RenderableType:
    """Return a table of kernels: measured and estimated times."""
    from acronumba_bench.costs import WITHIN

    parts: list[RenderableType] = [Text(f"{machine_text(c.machine)}, 1 thread", "bold")]
    for name, size, n in dict.fromkeys((row.workload, row.size, row.instances) for row in c.rows):
        title = f"{name}, size {size}, {n:,} instance{'s' if n > 1 else ''}"
        table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0))
        table.add_column("kernel", no_wrap=True)
        for head in ("rows", "batches", "us", "estimated", "ratio"):
            table.add_column(head, justify="right", no_wrap=True)
        for row in c.rows:
            if (row.workload, row.size, row.instances) == (name, size, n):
                good = 1 / WITHIN <= row.ratio <= WITHIN
                cells = (f"{row.rows:,}", f"{row.batches:,}", three(row.measured * 1e6), three(row.estimated * 1e6))
                table.add_row(row.kernel, *cells, Text(f"{row.ratio:.2f}", "" if good else "red"))
        parts += ["", table]
    for n in dict.fromkeys(row.instances for row in c.rows):
        (close, every), (heavy, of) = c.within(n), c.within(n, 0.02)
        text = f"{n} instances: {close} of {every} estimates within {WITHIN} times; kernels above 2%: {heavy} of {of}"
        parts += ["", Text(text)]
    return Group(*parts)


def scaling_view(s: Scaling) -> RenderableType:
    """Return a table per model and size: time per instance by number of instances."""
    parts: list[RenderableType] = [
        Text(f"{machine_text(s.machine)}, {s.threads} thread{'s' if s.threads > 1 else ''}", "bold")
    ]
    for name, size in dict.fromkeys((row.workload, row.size) for row in s.rows):
        table = Table(
            title=f"{name}, size {size}", title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0)
        )
        for head in ("instances", "ms", "±", "us each", "nodes", "ns each", "batches", "GF/s", "host"):
            table.add_column(head, justify="right", no_wrap=True)
        for row in s.rows:
            if (row.workload, row.size) == (name, size):
                own = row.seconds
                table.add_row(
                    f"{row.instances:,}",
                    three(own.median * 1e3),
                    f"{(own.high - own.low) / own.median / 2:.0%}",
                    three(own.median / row.instances * 1e6),
                    f"{row.nodes:,}",
                    three(own.median / max(row.nodes, 1) * 1e9),
                    f"{row.batches:,}",
                    f"{row.gflops:.0f}",
                    f"{row.host_share:.1%}",
                )
        parts += ["", table]
    return Group(*parts, "", Text(_SCALING_LEGEND, "dim"))


_SCALING_LEGEND = (
    "ms: a mini-batch from packed data to results, median; ±: half of the runs are\n"
    "within; each: per instance, per node; host: share of the time for recording,\n"
    "scheduling and layout."
)


def starts_view(s: Starts) -> RenderableType:
    """Return how long models take to start."""
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("model", no_wrap=True)
    for head in ("size", "import", "cold", "second", "comment", "factor", "branch", "warm", "batch"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in s.rows:
        times = (row.imported, row.cold, row.second, row.comment, row.constant, row.structure, row.warm, row.batch)
        table.add_row(row.workload, str(row.size), *("" if t is None else f"{t:.2f}" for t in times))
    return Group(Text(machine_text(s.machine), "bold"), "", table, "", Text(_STARTS_LEGEND, "dim"))


_STARTS_LEGEND = (
    "Seconds of processor time in new processes. import: `import acronumba`, less\n"
    "NumPy's own. Then first mini-batches. cold: with an empty disk cache; second:\n"
    "with what another model compiled; comment, factor, branch: after an edit, of two\n"
    "lines of comment above the model, of one factor more in it, of one branch more;\n"
    "warm: all is compiled. batch: a later mini-batch, of the same instances."
)


def training_view(s: Steps) -> RenderableType:
    """Return a table per size and number of instances, 80 columns wide."""
    from acronumba_bench.baselines import BASELINES
    from acronumba_bench.training import BARE, OBJECTS, OURS

    parts: list[RenderableType] = [
        Text(f"{machine_text(s.machine)}, {s.threads} thread{'s' if s.threads > 1 else ''}", "bold")
    ]
    meters = sorted({meter for row in s.rows for of in row.joules.values() for meter in of})
    for size, instances in dict.fromkeys((row.size, row.instances) for row in s.rows):
        title = f"a training step: size {size}, {instances} instances"
        table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0))
        table.add_column("model", no_wrap=True, vertical="bottom")
        heads = ["ms", "±", "pack", "update", "of\nloss", "of\nideal", *map(HEADS.__getitem__, BASELINES)]
        for name in (*heads, *(f"J\n{meter}" for meter in meters)):
            table.add_column(name, justify="right", no_wrap=True)
        for row in (row for row in s.rows if (row.size, row.instances) == (size, instances)):
            own, bare = row.seconds[OURS], row.seconds[BARE].median
            table.add_row(
                Text(row.workload, "red" if OURS in row.wrong else ""),
                three(own.median * 1e3),
                f"{(own.high - own.low) / own.median / 2:.0%}",
                three(max(0.0, row.seconds[OBJECTS].median - own.median) * 1e3),
                three(max(0.0, own.median - bare) * 1e3),
                three(row.of_inference),
                three(row.of_ideal),
                *(Text("wrong", "red") if n in row.wrong else ratio_text(row.times(n)) for n in BASELINES),
                *(three(row.joules[OURS][meter]) for meter in meters),
            )
        parts += ["", table]
    for name, why in dict.fromkeys((name, why) for row in s.rows for name, why in row.reasons.items()):
        parts += ["", Text(f"No {name}: {why}")]
    if not meters:
        parts += ["", Text(f"Joules: not measurable here ({', '.join(s.unmeasured)})")]
    return Group(*parts, "", Text(_TRAINING_LEGEND, "dim"))


_TRAINING_LEGEND = (
    "ms: a step from packed data: loss, gradients of all weights, update by gradient\n"
    "descent; median; ±: half of the runs are within; pack: additional ms from\n"
    "Python objects; update: ms of the update; of loss: how many times longer loss\n"
    "and gradients take than the loss alone; of ideal: than the matrix products of\n"
    "both at the peak rate of multiply-adds. Then how many times longer the\n"
    "baselines take for a step, with prepared data. Losses and gradients of all were\n"
    "compared before."
)


def ragged_view(r: Ragged) -> RenderableType:
    """Return a table per hidden size and number of sentences, and one of attention alone, 80 columns wide."""
    torch = f"PyTorch {r.torch}" if r.torch else "PyTorch is not installed: ours alone"
    threads = f"{r.threads} thread{'s' if r.threads > 1 else ''}"
    parts: list[RenderableType] = [Text(f"{machine_text(r.machine)}, {threads}, {torch}", "bold")]
    for width, sentences in dict.fromkeys((row.width, row.sentences) for row in r.layers):
        rows = [row for row in r.layers if (row.width, row.sentences) == (width, sentences)]
        parts += ["", _layers(rows, f"a layer of the encoder: size {width}, {sentences} sentences")]
    parts += ["", _attention(r.attention)] if r.attention else []
    parts += ["", _kernels(r.layers)] if r.layers else []
    wrong = [f"{row.title}: {name}" for row in r.rows for name in row.wrong]
    if wrong:
        parts += ["", Text("Not the results of the plain calls: " + ", ".join(wrong), "red")]
    for name, why in dict.fromkeys((name, why) for row in r.layers for name, why in row.reasons.items()):
        parts += ["", Text(f"No PyTorch {name}: {why}")]
    return Group(*parts, "", Text(_RAGGED_LEGEND, "dim"))


_RAGGED_LEGEND = (
    "diff: number of different lengths; attn: share of attention in the operations;\n"
    "pad: how many times as many operations with padding to the longest sentence;\n"
    "batch: batches of a mini-batch, and with ragged=False; ms: a mini-batch from\n"
    "packed data to results, with one thread the median of its CPU time, with more\n"
    "the fastest turn; ±: half of the runs are within; peak: share of the cores' rate\n"
    "of multiply-adds in the same turns. Then how many times longer PyTorch takes, in\n"
    "the fastest of several forms of each way. All results were compared before.\n"
    "full: time of causal attention, or in a window of 64 words, relative to full\n"
    "attention."
)


def _layers(rows: Sequence[Layer], title: str) -> Table:
    from acronumba_bench.ragged import OURS, WAYS

    there = [way for way in WAYS if any(way in row.seconds for row in rows)]
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0))
    table.add_column("set", no_wrap=True)
    for name in ("words", "diff", "attn", "pad", "batch", "ms", "±", "peak", *there):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            Text(row.lengths_of, "red" if row.wrong else ""),
            f"{row.words:,}",
            f"{row.lengths:,}",
            f"{row.attention:.0%}",
            f"{row.padded:.2f}",
            f"{row.batches}/{row.batches_unragged}",
            three(row.best(OURS) * 1e3),
            f"{row.spread:.0%}",
            f"{row.share():.0%}",
            *(ratio_text(row.times(way) if way in row.seconds else None) for way in there),
        )
    if len(rows) > 1:
        means = [ratio_text(geometric_mean([row.times(way) for row in rows if way in row.seconds])) for way in there]
        table.add_row("geomean", *[""] * 7, f"{geometric_mean([row.share() for row in rows]):.0%}", *means)
    return table


def _attention(rows: Sequence[Attention]) -> Table:
    from acronumba_bench.ragged import CAUSAL, CAUSAL_WINDOW, OURS, TORCH, TORCH_CAUSAL, WINDOW

    title = "attention alone, equal lengths"
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0))
    torch = ["torch"] if any(TORCH in row.seconds for row in rows) else []
    for name in (
        "words",
        "many",
        "ms",
        "peak",
        *torch,
        "causal\nms",
        "of\nfull",
        "peak",
        *torch,
        "window\nof full",
        "causal\nwindow",
    ):
        table.add_column(name, justify="right", no_wrap=True, vertical="bottom")
    for row in rows:
        table.add_row(
            Text(f"{row.length:,}", "red" if row.wrong else ""),
            f"{row.sentences:,}",
            three(row.best(OURS) * 1e3),
            f"{row.share():.0%}",
            *(ratio_text(row.times(TORCH) if TORCH in row.seconds else None) for _ in torch),
            three(row.best(CAUSAL) * 1e3),
            f"{row.times(CAUSAL):.2f}",
            f"{row.causal_share:.0%}",
            *(ratio_text(row.times(TORCH_CAUSAL, CAUSAL) if TORCH_CAUSAL in row.seconds else None) for _ in torch),
            *(f"{row.times(name):.2f}" if name in row.seconds else "" for name in (WINDOW, CAUSAL_WINDOW)),
        )
    return table


def _kernels(rows: Sequence[Layer]) -> Table:
    """Return a table of the times of the kernels."""
    title = "kernels: ms, 10^9 operations of matrix products per second"
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0))
    for name in ("set", "size", "many", "kernels"):
        table.add_column(name, overflow="fold")
    for row in rows:
        texts = [
            f"{name} {three(seconds * 1e3)} {row.kernel_flops[name] / seconds / 1e9:.0f}"
            for name, seconds in row.kernels.items()
        ]
        table.add_row(row.lengths_of, str(row.width), str(row.sentences), ", ".join(texts))
    return table


def plot_scaling(s: Scaling, path: str | Path) -> Path:
    """Plot the time per instance over the number of instances, a line per model and size; write the plot to `path`.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    need_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for name, size in dict.fromkeys((row.workload, row.size) for row in s.rows):
        rows = [row for row in s.rows if (row.workload, row.size) == (name, size)]
        times = [row.seconds.median / row.instances * 1e6 for row in rows]
        axes.plot([row.instances for row in rows], times, marker="o", markersize=4, label=f"{name}, {size}")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("instances in a mini-batch")
    axes.set_ylabel("microseconds for an instance")
    axes.grid(which="both", alpha=0.3)
    axes.legend(fontsize="small")
    figure.suptitle(f"{machine_text(s.machine)}, threads: {s.threads}", fontsize="medium")
    figure.savefig(path, dpi=150)
    return Path(path)


def plot(a: Ablation, path: str | Path) -> Path:
    """Plot times and batches without each option, relative to all options on; write the plot to `path`.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    need_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    variants = [row.variant for row in a.tables[0].rows[1:]]
    figure = Figure(figsize=(10, 2 + 0.06 * len(variants) * (4 + len(a.tables))), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, 2, sharey=True)
    for number, table in enumerate(a.tables):
        places = [k + 0.7 * ((number + 0.5) / len(a.tables) - 0.5) for k in range(len(variants))]
        on, *rows = table.rows
        spans = [(r.ratio.low, r.ratio.median, r.ratio.high) if r.ratio else (1.0, 1.0, 1.0) for r in rows]
        errors = [m - low for low, m, _ in spans], [high - m for _, m, high in spans]
        batches = [r.counts[0].batches / max(on.counts[0].batches, 1) for r in rows]
        style = {"fmt": "o", "markersize": 4, "color": f"C{number}"}
        axes[0].errorbar([m for _, m, _ in spans], places, xerr=errors, label=table.workload, **style)
        axes[1].errorbar(batches, places, **style)
    for ax, title in zip(axes, ("time of a mini-batch", "batches"), strict=True):
        ax.set_xlabel(f"{title}, all on = 1")
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.axvline(1, color="black", linewidth=0.8)
        ax.grid(axis="x", which="both", alpha=0.3)
        for k in range(len(variants) - 1):
            ax.axhline(k + 0.5, color="black", linewidth=0.3)
    axes[0].set_yticks(range(len(variants)), variants)
    axes[0].invert_yaxis()
    figure.legend(loc="outside right upper", fontsize="small")
    figure.suptitle(f"{a.instances} instances, size {a.size}, {machine_text(a.machine)}", fontsize="medium")
    figure.savefig(path, dpi=150)
    return Path(path)
