"""Static summaries for notebooks: a table, and the schedule as a strip. Without scripts, so that they are readable
where scripts are stripped, and in exported notebooks.

In: a `TraceData`, or a few numbers. Out: a piece of HTML below 30 KB.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from acronumba.memory import native
from acronumba.runtime.trace import BatchRecord, TraceData
from acronumba.views.report import bytes_text, seconds_text
from acronumba.views.words import counted, letter

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#8d959d")  # Okabe and Ito
BARS = 120  # of a strip: neighbours share a bar where there are more batches
TALL = 86  # pixels of a strip
ROWS = 12  # of a table
CHARACTERS = 20_000  # of a text


def trace_summary(trace: TraceData, name: str, instances: int) -> str:
    """Return a summary of a trace: its counts, its kernels, its schedule."""
    letters = kernel_letters(trace.batches)
    bound = "proved optimal" if trace.optimal else f"at least {trace.lower_bound:,}"
    facts = [
        counted(instances, "instance"),
        f"{counted(trace.nodes, 'node')} in {counted(len(trace.batches), 'batch')} ({bound})",
        *([f"{len(trace.sharers):,} saved, equal to others"] if len(trace.sharers) else []),
        *([counted(trace.rounds, "execution round")] if trace.rounds > 1 else []),
        f"{bytes_text(trace.peak_bytes)} at the peak",
        f"{seconds_text(trace.seconds.get('execute', 0.0))} to execute",
    ]
    nodes = np.bincount(native(trace.kernel), minlength=len(trace.kernels)).tolist()
    count = dict(zip(trace.kernels, nodes, strict=True))
    rows = [(letters[k], k, f"{count[k]:,}", f"{sum(b.kernel == k for b in trace.batches):,}") for k in letters]
    parts = [_table(("", "kernel", "nodes", "batches"), rows), strip(trace.batches, letters)] if letters else []
    return _titled(name, ", ".join(facts), parts)


def strip(batches: Sequence[BatchRecord], letters: dict[str, str]) -> str:
    """Return the batches as bars, as a piece of SVG for a page."""
    label, wide, bars = strip_bars(batches, letters)
    return (
        f'<svg role="img" aria-label="{label}" width="{wide:.0f}" height="{TALL}" font-size="10" '
        f'font-family="monospace" fill="currentColor"><title>{label}</title>{"".join(bars)}</svg>'
    )


def strip_bars(batches: Sequence[BatchRecord], letters: dict[str, str]) -> tuple[str, float, list[str]]:
    """Return the batches in words, the total width of their bars, and the bars as SVG, `TALL` pixels high.

    The height of a bar is the number of nodes, which is printed above it if it fits; colour and letter identify the
    kernel.
    """
    each = -(-len(batches) // BARS)
    shown = [max(batches[k : k + each], key=lambda b: b.size) for k in range(0, len(batches), each)]
    most, wide = max(b.size for b in shown), min(40.0, 700 / len(shown))
    bars = []
    for k, b in enumerate(shown):
        tall = max(2.0, 56 * b.size / most)
        bars.append(
            f'<rect x="{k * wide:.1f}" y="{70 - tall:.1f}" width="{max(wide - 1, 0.5):.1f}" height="{tall:.1f}" '
            f'fill="{kernel_colour(letters, b.kernel)}"/>'
        )
        middle = f'x="{(k + 0.5) * wide:.1f}" text-anchor="middle"'
        if wide >= 14:
            bars.append(f'<text {middle} y="82">{letters[b.kernel]}</text>')
        if wide >= 7 * len(f"{b.size:,}"):
            bars.append(f'<text {middle} y="{67 - tall:.1f}">{b.size:,}</text>')
    return f"{counted(len(batches), 'batch')}: heights are nodes, the most are {most:,}", len(shown) * wide, bars


def kernel_letters(batches: Sequence[BatchRecord]) -> dict[str, str]:
    """Return a letter for each kernel, in order of execution."""
    return {kernel: letter(k) for k, kernel in enumerate(dict.fromkeys(b.kernel for b in batches))}


def kernel_colour(letters: dict[str, str], kernel: str) -> str:
    """Return the colour of a kernel: kernels have them in the order of their letters."""
    return COLOURS[list(letters).index(kernel) % len(COLOURS)]


def table_summary(title: str, words: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a title, a sentence and a table of at most `ROWS` rows."""
    return _titled(title, words, [_table(heads, list(rows))])


def preformatted(text: str) -> str:
    """Return plain text as a block of at most `CHARACTERS` characters, cut at the end of a line."""
    if len(text) > CHARACTERS:
        text = text[: text.rindex("\n", 0, CHARACTERS)] + "\n..."
    return f"<pre>{escape(text, quote=False)}</pre>"


def _titled(title: str, words: str, parts: Sequence[str]) -> str:
    return f"<div><strong>{escape(title)}</strong>: {escape(words)}{''.join(parts)}</div>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(text[:200])}</td>' for text in row)}</tr>" for row in rows[:ROWS])
    more = f'<tr><td colspan="{len(heads)}">and {len(rows) - ROWS:,} more</td></tr>' if len(rows) > ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}{more}</tbody></table>"
