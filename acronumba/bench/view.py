"""The table of a speed measurement, and results of measurements as JSON.

In: `speed.Speeds`. Out: rich tables of 80 columns, plain numbers.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from acronumba.bench.speed import Speed, Speeds

HEADS = {  # of the columns, in their order
    "plain": "plain",
    "ours, on the processor": "ours\nCPU",
    "NumPy by hand": "NumPy\nhand",
    "PyTorch one by one": "torch\n1x1",
    "PyTorch by hand": "torch\nhand",
    "DyNet": "DyNet\nauto",
    "PyTorch by hand in a CUDA graph": "torch\ngraph",
}
ONE_STRUCTURE = ("JAX, one structure", "JAX, in buckets", "onnxruntime, one shape")


def machine_text(machine: Mapping[str, object]) -> str:
    return f"{machine['processor']}, Python {machine['python']}, numba {machine['numba']}"


def speeds_view(s: Speeds) -> RenderableType:
    """Return a table per size and number of instances, 80 columns wide."""
    c = s.ceiling
    where = f"{s.threads} thread{'s' if s.threads > 1 else ''}" if s.device == "cpu" else s.device
    parts: list[RenderableType] = [Text(f"{machine_text(s.machine)}, {where}", "bold")]
    if c is not None:
        what = "one core" if s.device == "cpu" else f"a launch takes {c.launch * 1e6:.1f} us"
        parts.append(Text(f"{what}: {c.gflops:.0f} GFLOP/s multiplied and added at most, {c.copied:.1f} GB/s copied"))
    for size, instances in dict.fromkeys((row.size, row.instances) for row in s.rows):
        rows = [row for row in s.rows if (row.size, row.instances) == (size, instances)]
        parts += ["", _speeds(rows, f"size {size}, {instances} instances"), *_of_one_structure(rows)]
    parts += ["", _shares(s.rows), *_joules(s)]
    wrong = [f"{row.workload}: {name}" for row in s.rows for name in row.wrong]
    if wrong:
        parts += ["", Text("Not the results of the plain calls: " + ", ".join(wrong), "red")]
    for name, why in dict.fromkeys((name, why) for row in s.rows for name, why in row.reasons.items()):
        those = dict.fromkeys(row.workload for row in s.rows if row.reasons.get(name) == why)
        parts += ["", Text(f"No {name} ({why}): {', '.join(those)}")]
    return Group(*parts, "", Text(_SPEEDS_LEGEND if s.device == "cpu" else _DEVICE_LEGEND, "dim"))


def _of_one_structure(rows: Sequence[Speed]) -> list[RenderableType]:
    """Return a table of compilers that want the structure of a mini-batch fixed, if there are any."""
    there = [name for name in ONE_STRUCTURE if any(name in (*row.seconds, *row.wrong) for row in rows)]
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("compiled for one structure", no_wrap=True, vertical="bottom")
    for name in there:
        table.add_column(name, justify="right")
    for row in rows:
        cells = [Text("wrong", "red") if name in row.wrong else ratio_text(row.times(name)) for name in there]
        if any(cell.plain for cell in cells):
            table.add_row(row.workload, *cells)
    return [table] if there else []


def _joules(s: Speeds) -> list[RenderableType]:
    """Return a table of joules for each counter, or the reason why there is none."""
    parts: list[RenderableType] = []
    for meter in sorted({meter for row in s.rows for of in row.joules.values() for meter in of}):
        table = Table(box=None, padding=(0, 1, 0, 0))
        table.add_column("model", no_wrap=True, vertical="bottom")
        names = list(dict.fromkeys(name for row in s.rows for name in row.joules))
        for name in ("size", "inst", *names):
            table.add_column(name, justify="right")
        for row in s.rows:
            used = (row.joules.get(name, {}).get(meter) for name in names)
            cells = ("" if j is None else f"{j:.3g}" for j in used)
            table.add_row(row.workload, str(row.size), str(row.instances), *cells)
        parts += ["", Text(f"Joules of a mini-batch, counted by {meter}", "bold"), table]
    if not parts and s.unmeasured:
        parts += ["", Text(f"Joules: not measurable here ({', '.join(s.unmeasured)})")]
    return parts


_SPEEDS_LEGEND = (
    "ms: a mini-batch from packed data to results, median; ±: half of the runs are\n"
    "within; pack: additional ms from Python objects. Then how many times longer the\n"
    "baselines take: plain calls one by one (compared with Python objects), and\n"
    "NumPy, PyTorch and DyNet with prepared data (compared with packed data).\n"
    "GF/s: operations of matrix products per second, whole time; peak: share of the\n"
    "cores' rate of multiply-adds in the same turns; host: share of the time for\n"
    "recording, scheduling and layout."
)


_DEVICE_LEGEND = (
    "ms: a mini-batch from packed data to results on the CPU, median; ±: half of the\n"
    "runs are within; pack: additional ms from Python objects. Then how many times\n"
    "longer others take: acronumba on the CPU; PyTorch with weights, data and\n"
    "indices on the GPU before, and results there after. GF/s: operations of matrix\n"
    "products per second, whole time; launch: number of launches; host: share of the\n"
    "time for recording, scheduling and layout."
)


def _shares(rows: Sequence[Speed], most: int = 3) -> Table:
    """Return a table of the shares of our time: the stages, and the slowest kernels."""
    title = "What the time is made of: stages, then the kernels that take most, in %"
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0))
    table.add_column("model", no_wrap=True, vertical="bottom")
    for name in ("size", "inst", "rec", "sch", "lay", "exe"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("kernels", overflow="fold")
    for row in rows:
        total = row.stages["total"] - row.stages["pack"]
        stages = [f"{100 * row.stages[name] / total:.1f}" for name in ("record", "schedule", "layout")]
        stages.append(f"{100 * row.stages['execute'] / total:.0f}")
        first = sorted(row.kernels.items(), key=lambda item: -item[1])[:most]
        kernels = ", ".join(f"{name} {100 * seconds / total:.0f}" for name, seconds in first)
        table.add_row(row.workload, str(row.size), str(row.instances), *stages, kernels)
    return table


def _speeds(rows: Sequence[Speed], title: str) -> Table:
    from acronumba.bench.speed import BURST, OBJECTS, PACKED

    there = [name for name in HEADS if any(name in row.seconds for row in rows)]
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0))
    table.add_column("model", no_wrap=True, vertical="bottom")
    for name in (
        "ms",
        "±",
        "pack",
        *map(HEADS.__getitem__, there),
        "GF\n/s",
        "peak" if BURST in rows[0].seconds else "launch",
        "host",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        own = row.seconds[PACKED]
        cells = [Text("wrong", "red") if name in row.wrong else ratio_text(row.times(name)) for name in there]
        table.add_row(
            Text(row.workload, "red" if OBJECTS in row.wrong else ""),
            three(own.median * 1e3),
            f"{(own.high - own.low) / own.median / 2:.0%}",
            three(max(0.0, row.seconds[OBJECTS].median - own.median) * 1e3),
            *cells,
            f"{row.gflops:.0f}",
            f"{row.peak:.0%}" if BURST in row.seconds else f"{row.launches:,}",
            f"{row.host_share:.1%}" if row.host_share < 0.0995 else f"{row.host_share:.0%}",
        )
    return table


def three(x: float) -> str:
    """Return about three digits."""
    return f"{x:.0f}" if x >= 99.95 else f"{x:.1f}" if x >= 9.995 else f"{x:.2f}"


def ratio_text(x: float | None) -> Text:
    return Text("" if x is None else three(x), "red" if x is not None and x < 1 else "")


def numbers(result: Any) -> dict[str, Any]:
    """Return a result of a benchmark as values for JSON."""
    return dataclasses.asdict(result)


def need_matplotlib() -> None:
    """Raise `ImportError` with advice if matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError("a plot needs matplotlib, which is not installed: pip install matplotlib")
