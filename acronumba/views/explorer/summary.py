"""Static summaries for notebooks: a table, and the schedule as a strip. No script: they are readable wherever scripts
are stripped, and in what is exported.

In: a `TraceData`, or a few numbers. Out: a piece of HTML below 30 KB.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from acronumba.runtime.trace import BatchRecord, TraceData
from acronumba.views.report import bytes_text, seconds_text
from acronumba.views.words import counted, letter

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#8d959d")  # Okabe and Ito
BARS = 120  # of a strip: neighbours share a bar where there are more batches
ROWS = 12  # of a table


def trace_summary(trace: TraceData, name: str, instances: int) -> str:
    """Return a trace: what it came to, its kernels, its schedule."""
    names = list(dict.fromkeys(b.kernel for b in trace.batches))
    letters = {kernel: letter(k) for k, kernel in enumerate(names)}
    bound = "proved optimal" if trace.optimal else f"at least {trace.lower_bound:,}"
    facts = [
        counted(instances, "instance"),
        f"{counted(trace.nodes, 'node')} in {counted(len(trace.batches), 'batch')} ({bound})",
        *([counted(trace.rounds, "execution round")] if trace.rounds > 1 else []),
        f"{bytes_text(trace.peak_bytes)} at the peak",
        f"{seconds_text(trace.seconds.get('execute', 0.0))} to execute",
    ]
    count = dict(zip(trace.kernels, np.bincount(trace.kernel, minlength=len(trace.kernels)).tolist(), strict=True))
    rows = [(letters[k], k, f"{count[k]:,}", f"{sum(b.kernel == k for b in trace.batches):,}") for k in names]
    parts = [_table(("", "kernel", "nodes", "batches"), rows), strip(trace.batches, letters)] if names else []
    return _titled(name, ", ".join(facts), parts)


def strip(batches: Sequence[BatchRecord], letters: dict[str, str]) -> str:
    """Return the batches as bars: the height is the number of nodes, colour and letter say the kernel."""
    each = -(-len(batches) // BARS)
    shown = [max(batches[k : k + each], key=lambda b: b.size) for k in range(0, len(batches), each)]
    most, wide = max(b.size for b in shown), min(40.0, 700 / len(shown))
    order = list(letters)
    bars = []
    for k, b in enumerate(shown):
        tall = max(2.0, 56 * b.size / most)
        colour = COLOURS[order.index(b.kernel) % len(COLOURS)]
        bars.append(
            f'<rect x="{k * wide:.1f}" y="{70 - tall:.1f}" width="{max(wide - 1, 0.5):.1f}" height="{tall:.1f}" '
            f'fill="{colour}"/>'
        )
        if wide >= 14:
            bars.append(f'<text x="{(k + 0.5) * wide:.1f}" y="82" text-anchor="middle">{letters[b.kernel]}</text>')
    label = f"{counted(len(batches), 'batch')}: heights are nodes, the most are {most:,}"
    return (
        f'<svg role="img" aria-label="{label}" width="{len(shown) * wide:.0f}" height="86" font-size="10" '
        f'font-family="monospace" fill="currentColor"><title>{label}</title>{"".join(bars)}</svg>'
    )


def table_summary(title: str, words: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a title, a sentence and a table of at most `ROWS` rows."""
    return _titled(title, words, [_table(heads, list(rows))])


def _titled(title: str, words: str, parts: Sequence[str]) -> str:
    return f"<div><strong>{escape(title)}</strong>: {escape(words)}{''.join(parts)}</div>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(text[:200])}</td>' for text in row)}</tr>" for row in rows[:ROWS])
    more = f'<tr><td colspan="{len(heads)}">and {len(rows) - ROWS:,} more</td></tr>' if len(rows) > ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}{more}</tbody></table>"
