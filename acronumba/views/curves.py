"""Curves, in plain characters and as SVG.

In: series of numbers over steps. Out: text for a terminal, or the text of an SVG file. No plotting package is needed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

INK = "#6e7781"  # of text in pictures: it is read on light and on dark pages
MARKS = "*o+x"  # of the lines of a panel, in this order
COLOURS = ("#1f5fa8", "#c8541b", "#2b8a4b", "#7a3fa0")
_DASHES = "6 6"  # of all lines but the first
_LEFT, _RIGHT, _TOP, _BOTTOM, _GAP = 60, 16, 34, 30, 20  # pixels around a panel


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One curve."""

    name: str
    x: Sequence[float]  # steps, rising
    y: Sequence[float]  # as many as x; numbers that are not finite are gaps


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Curves over the same steps and in the same unit."""

    title: str
    lines: Sequence[Line]

    @property
    def points(self) -> list[tuple[float, float]]:
        """All points that can be drawn."""
        return [point for line in self.lines for run in _runs(line) for point in run]


def curves_text(panels: Sequence[Panel], width: int = 72, height: int = 10) -> str:
    """Return panels one below the other, `width` columns wide and `height` lines high each."""
    return "\n\n".join(_panel_text(p, width, height) for p in panels)


def _panel_text(p: Panel, width: int, height: int) -> str:
    names = [f"{_mark(k)} {line.name}" for k, line in enumerate(p.lines)]
    head = p.title if len(p.lines) == 1 else f"{p.title}   {'   '.join(names)}"
    if not p.points:
        return f"{head}\n(nothing to draw)"
    (left, right), (low, high) = _range([x for x, _ in p.points]), _range([y for _, y in p.points])
    margin = max(len(_number(low)), len(_number(high)))
    columns = width - margin - 3
    cells = [[" "] * columns for _ in range(height)]
    for k, line in enumerate(p.lines):
        for column, y in (point for run in _runs(line) for point in _by_column(run, left, right, columns)):
            row = round((high - y) / (high - low) * (height - 1))
            cells[row][column] = _mark(k)
    side = [_number(high), *[""] * (height - 2), _number(low)]
    rows = [f"{text:>{margin}} |{''.join(row)}".rstrip() for text, row in zip(side, cells, strict=True)]
    foot = f"{_number(left)}{_number(right):>{columns - len(_number(left))}}"
    return "\n".join([head, *rows, f"{'':>{margin}} +{'-' * columns}", f"{'':>{margin}}  {foot}"])


def _by_column(
    points: Sequence[tuple[float, float]], left: float, right: float, columns: int
) -> list[tuple[int, float]]:
    """Return a value for each column from the first to the last that has one; between two, a straight line."""
    means = _means(points, left, right, columns)
    out = means[:1]
    for (a, ya), (b, yb) in itertools.pairwise(means):
        out += [(c, ya + (yb - ya) * (c - a) / (b - a)) for c in range(a + 1, b + 1)]
    return out


def _means(points: Sequence[tuple[float, float]], left: float, right: float, columns: int) -> list[tuple[int, float]]:
    """Return the columns into which points fall, with the mean of their values."""
    found: dict[int, list[float]] = {}
    for x, y in points:
        found.setdefault(round((x - left) / (right - left) * (columns - 1)), []).append(y)
    return [(c, math.fsum(ys) / len(ys)) for c, ys in sorted(found.items())]


def curves_svg(panels: Sequence[Panel], width: int = 640, height: int = 220) -> str:
    """Return panels one below the other as SVG, `width` by `height` pixels each."""
    full = height * len(panels)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{full}" viewBox="0 0 {width} {full}"'
    parts = [f'{head} font-family="sans-serif" font-size="12" fill="{INK}">']
    for k, p in enumerate(panels):
        parts += [f'<g transform="translate(0 {k * height})">', *_panel_svg(p, width, height), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _panel_svg(p: Panel, width: int, height: int) -> list[str]:
    w, h = width - _LEFT - _RIGHT, height - _TOP - _BOTTOM
    out = [f'<text x="{_LEFT}" y="18" font-weight="bold">{escape(p.title)}</text>']
    if not p.points:
        return out
    (left, right), (low, high) = _range([x for x, _ in p.points]), _range([y for _, y in p.points])
    for value in ticks(low, high):
        y = _TOP + (high - value) / (high - low) * h
        out.append(f'<path d="M{_LEFT} {y:.1f}h{w}" stroke="{INK}" stroke-opacity="0.3"/>')
        out.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_number(value)}</text>')
    for step in ticks(left, right):
        x = _LEFT + (step - left) / (right - left) * w
        out.append(f'<text x="{x:.1f}" y="{_TOP + h + 18}" text-anchor="middle">{_number(step)}</text>')
    at = _LEFT + 12 + 8 * len(p.title)
    for k, line in enumerate(p.lines):
        colour = COLOURS[k % len(COLOURS)]
        dashes = f' stroke-dasharray="{_DASHES}"' if k else ""  # a line below, if it is the same, is seen
        for run in _runs(line):
            means = _means(run, left, right, w + 1)
            points = " ".join(f"{_LEFT + x},{_TOP + (high - y) / (high - low) * h:.1f}" for x, y in means)
            out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"{dashes}/>')
        if len(p.lines) > 1:
            out.append(f'<text x="{at + _GAP}" y="18" fill="{colour}">{escape(line.name)}</text>')
            at += _GAP + 8 * len(line.name)
    return out


def ticks(low: float, high: float) -> list[float]:
    """Return two to seven round numbers from one to the other: multiples of 1, 2 or 5 times a power of ten.

    >>> ticks(1, 120)
    [20.0, 40.0, 60.0, 80.0, 100.0, 120.0]
    """
    power = 10.0 ** math.floor(math.log10((high - low) / 5))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= (high - low) / 6)
    return [float(f"{k * step:.12g}") for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _runs(line: Line) -> list[list[tuple[float, float]]]:
    """Return the parts of a line between its gaps."""
    points = [(float(x), float(y)) for x, y in zip(line.x, line.y, strict=True)]
    return [list(run) for finite, run in itertools.groupby(points, lambda point: math.isfinite(point[1])) if finite]


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Return the least and the largest value; if they are equal, the value and 0, in order."""
    low, high = min(values), max(values)
    return (low, high) if high > low else (min(low, 0.0), max(high, 0.0)) if low else (0.0, 1.0)


def _mark(k: int) -> str:
    return MARKS[k % len(MARKS)]


def _number(x: float) -> str:
    return f"{x:.0f}" if x == int(x) and abs(x) < 1e6 else f"{x:.3g}"
