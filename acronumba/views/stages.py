"""The texts of the compiler's stages for the terminal, with colours for Python.

In: a mapping from names of stages to texts. Out: printed text; no line is cut or wrapped, so that it can be copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.rule import Rule
from rich.syntax import Syntax
from rich.text import Text


def lexer(name: str) -> str:
    """Return the language that a stage's text is highlighted as."""
    python = name in ("source", "ir", "plan", "host") or name.startswith(("kernels/", "tiles/"))
    return "python" if python else "text"


def highlight(name: str, text: str) -> Text:
    """Return the text of a stage with colours; it ends with a line break."""
    out = Syntax(text, lexer(name), theme="ansi_dark", background_color="default").highlight(text)
    out.no_wrap = True
    out.overflow = "ignore"
    return out


def print_stages(stages: Mapping[str, str], names: Sequence[str] = (), console: Console | None = None) -> None:
    """Print stages.

    Parameters
    ----------
    stages
        The text of every stage, in order.
    names
        Stages to print; all if empty. A name also stands for all stages that begin with it and a slash.
    console
        Console to print to; standard output by default.

    Raises
    ------
    KeyError
        A name is no stage; the message lists those there are.
    """
    console = console or Console()
    chosen = list(stages) if not names else []
    for name in names:
        found = [s for s in stages if s == name or s.startswith(f"{name}/")]
        if not found:
            raise KeyError(f"no stage {name!r}; there are: {', '.join(stages)}")
        chosen += found
    for name in chosen:
        if len(chosen) > 1:
            console.print(Rule(Text(name), align="left"))
        console.print(highlight(name, stages[name]), soft_wrap=True, end="")
