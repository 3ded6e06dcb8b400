"""Consoles of rich that only render to a string.

In: a renderable. Out: its plain text. In a notebook, rich displays output below the cell, whatever the console's file:
these consoles have that switched off.
"""

from __future__ import annotations

import io
import sys
from typing import Any

from rich.console import Console, RenderableType


def console_in_memory(**options: Any) -> Console:
    """Return a console that writes to a text in memory, also in a notebook. `options` are rich's."""
    return Console(file=io.StringIO(), force_jupyter=False, **options)


def plain_text(view: RenderableType, width: int) -> str:
    """Return a renderable as text without colours, and without spaces or a line break at its end."""
    console = console_in_memory(color_system=None, force_terminal=False, width=width)
    with console.capture() as captured:
        console.print(view)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def in_notebook() -> bool:
    """Whether this is a notebook with HTML output: Jupyter, not IPython in a terminal."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")
