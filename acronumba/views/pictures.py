"""Pictures as SVG files: the schedule of a mini-batch, the dataflow graph of an instance, measurements as bars.

In: a `TraceData`, or times. Out: the text of an SVG file without scripts and fonts, in a grey that is read on light and
on dark pages. The same input gives the same text. Curves are drawn by `acronumba.views.curves`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from acronumba.runtime.trace import TraceData
from acronumba.views.curves import INK
from acronumba.views.explorer.summary import COLOURS, TALL, kernel_colour, kernel_letters, strip_bars
from acronumba.views.graphs import operands_of
from acronumba.views.words import counted

MOST_NODES = 200  # of an instance that is drawn
_EDGE = 16  # pixels around a picture
_LINE = 16  # pixels from one line of text to the next
_DARK, _PALE = "#24292f", "#8d959d"
_COLUMN, _ROW, _RADIUS = 64, 30, 11  # pixels of a dataflow graph
_NAMES, _BAR, _LENGTH = 170, 7, 420  # pixels: names beside bars, the height of a bar, the longest bar
_LEFT = 24  # pixels for bars of less than 1


def schedule_svg(trace: TraceData, name: str) -> str:
    """Return the schedule: a bar for each batch, and a legend of the kernels' letters."""
    letters = kernel_letters(trace.batches)
    if not letters:
        return _page(f"{name}: nothing was recorded", 320, 0, [])
    label, wide, bars = strip_bars(trace.batches, letters)
    bound = "no schedule has fewer" if trace.optimal else f"no schedule has fewer than {trace.lower_bound:,}"
    title = f"{name}: {counted(trace.nodes, 'node')} in {counted(len(trace.batches), 'batch')} ({bound})"
    sizes = {kernel: [b.size for b in trace.batches if b.kernel == kernel] for kernel in letters}
    legend = [
        (kernel_colour(letters, k), f"{letters[k]}  {k}: {counted(sum(n), 'node')} in {counted(len(n), 'batch')}")
        for k, n in sizes.items()
    ]
    body = ['<g font-family="monospace" font-size="10">', *bars, "</g>", *_legend(legend, TALL + 14)]
    return _page(title, max(wide, 7 * len(title)), TALL + 6 + _LINE * len(letters), body, label)


def graph_svg(trace: TraceData, name: str, instance: int) -> str:
    """Return the dataflow graph of an instance: a column for each batch that it takes part in.

    Raises
    ------
    ValueError
        If the instance has no nodes, or more than `MOST_NODES`.
    """
    nodes = trace.nodes_of(instance).tolist()
    if not 0 < len(nodes) <= MOST_NODES:
        raise ValueError(f"instance {instance} has {len(nodes):,} nodes; 1 to {MOST_NODES} can be drawn")
    start, producers = operands_of(trace)
    reads = {v: producers[start[v] : start[v + 1]].tolist() for v in nodes}  # all are its own, or shared
    columns = sorted({int(trace.batch[v]) for v in nodes})
    x = {v: _RADIUS + _COLUMN * columns.index(int(trace.batch[v])) for v in nodes}
    y = {v: _RADIUS + _ROW * row for v, row in _rows(reads, trace).items()}
    letters = kernel_letters(trace.batches)
    body = [
        f'<path d="M{x[u]} {y[u]:.1f}L{x[v]} {y[v]:.1f}" stroke="{_PALE}" stroke-width="1.5"/>'
        for v in nodes
        for u in dict.fromkeys(reads[v])
    ]
    for v in nodes:
        kernel = trace.kernels[trace.kernel[v]]
        ring = f'stroke="{kernel_colour(letters, kernel)}" stroke-width="3"'
        body.append(f'<circle cx="{x[v]}" cy="{y[v]:.1f}" r="{_RADIUS}" fill="white" {ring}/>')
        middle = f'x="{x[v]}" y="{y[v] + 4:.1f}" text-anchor="middle"'
        body.append(f'<text {middle} fill="{_DARK}">{letters[kernel]}</text>')
    tall = max(y.values()) + _RADIUS
    at = {b: _RADIUS + _COLUMN * k for k, b in enumerate(columns)}
    body += [f'<text x="{at[b]}" y="{tall + 20:.1f}" text-anchor="middle">{b}</text>' for b in columns]
    mine = {trace.kernels[k] for k in trace.kernel[nodes].tolist()}
    body += _legend([(kernel_colour(letters, k), f"{v}  {k}") for k, v in letters.items() if k in mine], tall + 44)
    title = f"{name}, instance {instance}: {counted(len(nodes), 'node')}; below, the number of the batch"
    wide = max(_COLUMN * (len(columns) - 1) + 2 * _RADIUS, 7 * len(title))
    return _page(title, wide, math.ceil(tall) + 36 + _LINE * len(mine), body)


def _rows(reads: Mapping[int, Sequence[int]], trace: TraceData) -> dict[int, float]:
    """Return a row for each node: nodes without operands one below the other, others in the middle of their operands.

    Nodes are in order of recording, so that operands come first. Nodes of one batch never share a row.
    """
    read = {u for operands in reads.values() for u in operands}
    order: list[int] = []  # from the last values down to the first, operands in their order
    stack = [v for v in reads if v not in read][::-1]
    while stack:
        v = stack.pop()
        order.append(v)
        stack += [u for u in reversed(reads[v]) if u not in order and u not in stack]
    leaves = iter(range(len(reads)))
    out: dict[int, float] = {v: float(next(leaves)) for v in order if not reads[v]}
    taken: dict[int, list[float]] = {}
    for v in reads:
        row = out[v] if v in out else sum(out[u] for u in reads[v]) / len(reads[v])
        others = taken.setdefault(int(trace.batch[v]), [])
        while any(abs(row - other) < 1 for other in others):
            row += 0.5
        others.append(row)
        out[v] = row
    return out


def _legend(items: Sequence[tuple[str, str]], top: float, left: float = 0) -> list[str]:
    """Return the SVG elements of a legend: a line for each colour and its meaning."""
    out = []
    for k, (colour, text) in enumerate(items):
        y = top + _LINE * k
        out.append(f'<rect x="{left:g}" y="{y - 9:.1f}" width="10" height="10" fill="{colour}"/>')
        out.append(f'<text x="{left + 16:g}" y="{y:.1f}">{escape(text)}</text>')
    return out


def bars_svg(title: str, bars: Mapping[str, Sequence[float | None]], names: Sequence[str], unit: str) -> str:
    """Return groups of bars on a logarithmic axis from 1.

    Parameters
    ----------
    title : str
    bars
        Map from each group to a number, or None, for each of `names`.
    names
        Names of the bars of a group, in order; at most as many as there are colours.
    unit : str
        Label of the axis.
    """
    most = max((x for row in bars.values() for x in row if x is not None), default=1.0)
    scale = _LENGTH / math.log(max(most, 2.0))
    tall = len(names) * _BAR + 6
    first = _LINE * len(names)
    bottom = first + len(bars) * tall + 4
    body = _legend(list(zip(COLOURS, names, strict=False)), 8, _NAMES)
    for mark in (1, 2, 5, 10, 20, 50, 100):
        if mark <= most:
            x = _NAMES + scale * math.log(mark)
            opacity = 1 if mark == 1 else 0.4
            body.append(f'<path d="M{x:.1f} {first}V{bottom}" stroke="{_PALE}" stroke-opacity="{opacity}"/>')
            body.append(f'<text x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{mark}</text>')
    for k, (group, row) in enumerate(bars.items()):
        top = first + k * tall + 4
        side = f'x="{_NAMES - _LEFT}" y="{top + tall / 2 + 1:.1f}"'
        body.append(f'<text {side} text-anchor="end">{escape(group)}</text>')
        for n, value in enumerate(row):
            if value is not None:
                low, high = sorted((0.0, max(scale * math.log(value), -_LEFT)))
                place = f'x="{_NAMES + low:.1f}" y="{top + n * _BAR}" width="{max(high - low, 1):.1f}"'
                body.append(f'<rect {place} height="{_BAR - 1}" fill="{COLOURS[n]}"/>')
    body.append(f'<text x="{_NAMES}" y="{bottom + 32}">{escape(unit)}</text>')
    return _page(title, _NAMES + _LENGTH + 8, bottom + 26, body)


def _page(title: str, wide: float, tall: float, body: Sequence[str], label: str = "") -> str:
    """Return an SVG file: a title, and below it the elements of `body`, on `wide` by `tall` pixels."""
    width, height = int(wide) + 2 * _EDGE, int(tall) + 2 * _EDGE + 24
    said = escape(f"{title}. {label}" if label else title)
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12" fill="{INK}">',
        f"<title>{said}</title>",
        f'<text x="{_EDGE}" y="{_EDGE + 8}" font-weight="bold">{escape(title)}</text>',
        f'<g transform="translate({_EDGE} {_EDGE + 24})">',
        *body,
        "</g>",
        "</svg>",
        "",
    ])  # fmt: skip
