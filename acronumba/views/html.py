"""A traced run as one HTML file that needs nothing else: no scripts, no fonts, no network.

In: a `TraceData`. Out: the text of a page with the report of `views.report`; its headline stays in view while the rest
scrolls.
"""

from __future__ import annotations

import html as escaping

from rich.terminal_theme import TerminalTheme

from acronumba.runtime.trace import TraceData
from acronumba.views.console import console_in_memory
from acronumba.views.report import bound_text, trace_view

_THEME = TerminalTheme(
    (255, 255, 255),
    (36, 41, 46),
    [
        (36, 41, 46),
        (176, 29, 61),
        (17, 108, 59),
        (138, 90, 0),
        (3, 90, 166),
        (120, 60, 170),
        (0, 112, 122),
        (87, 96, 106),
    ],
    [
        (87, 96, 106),
        (207, 34, 78),
        (31, 136, 61),
        (154, 103, 0),
        (9, 105, 218),
        (130, 80, 223),
        (0, 130, 140),
        (36, 41, 46),
    ],
)
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>TITLE</title>
<style>
body {{ margin: 0; color: {foreground}; background: {background}; }}
h1 {{ position: sticky; top: 0; margin: 0; padding: 0.6em 1em; font: bold 1em sans-serif; background: #eef1f4; }}
pre {{ margin: 1em; font: 14px/1.35 Menlo, Consolas, "DejaVu Sans Mono", monospace; overflow-x: auto; }}
</style>
</head>
<body>
<h1>TITLE</h1>
<pre>{code}</pre>
</body>
</html>
"""


def trace_html(trace: TraceData, name: str = "", width: int = 110) -> str:
    """Return the report as a page of HTML."""
    console = console_in_memory(
        record=True, width=width, color_system="truecolor", force_terminal=True, no_color=False,
        legacy_windows=False,
    )  # fmt: skip
    console.print(trace_view(trace, limit=500))
    title = escaping.escape(f"{name or 'trace'}: {trace.nodes:,} nodes in {bound_text(trace)}")
    page = _PAGE.replace("TITLE", title.replace("{", "{{").replace("}", "}}"))
    return console.export_html(theme=_THEME, inline_styles=True, code_format=page)
