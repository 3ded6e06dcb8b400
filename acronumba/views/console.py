"""Consoles of rich that write to a text, and to nothing else.

In: a renderable. Out: its plain text. Rich shows what is printed in the page of a notebook, wherever a console was told
to write: these are told that there is no notebook.
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
    """Whether what a cell ends with is shown as a page: in Jupyter, not in a terminal."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")
