"""A page for each error code, and their table, from the pages that the package has."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

from acronumba.errors.codes import CODES, Code
from builder.files import fill

NAMED = re.compile(r"\n(\w+):\n\n```python")  # the name of a program
GROUPS = {
    "1": "Statements and expressions",
    "2": "Calls and functions",
    "3": "Types and data",
    "4": "Shapes",
    "5": "Shared parameters",
    "6": "Values of tensors that Python needs",
    "7": "At run time",
}


def write(folder: Path) -> None:
    """Write the pages of the codes."""
    pages = {f"{code}.md": page(entry) for code, entry in CODES.items()}
    fill(folder, {"index.md": index(), **pages})


def page(entry: Code) -> str:
    """Return the page of a code: the package's own, with the exception and what to write instead."""
    source = resources.files("acronumba.errors") / "pages" / f"{entry.code}.md"
    title, _, rest = source.read_text(encoding="utf-8").partition("\n")
    rest = NAMED.sub(r"\n**\1**\n\n```python", rest)
    facts = f"Raised as {{py:class}}`acronumba.{entry.error.__name__}`. Instead: {entry.rewrite}."
    return f"{title}\n\n{facts}\n{rest}"


def index() -> str:
    """Return the table of all codes."""
    parts = [
        "# Error codes\n\nEvery error of acronumba has a code that never changes its meaning. The page of a code says "
        "what it means, shows a program that raises it, and one that works. At a terminal: `acronumba error ACR101`. "
        "[My model is rejected, what now?](../rejected.md) says how to go on.\n"
    ]
    for number, group in GROUPS.items():
        rows = [f"| [{c.code}]({c.code}.md) | {c.title} |" for c in CODES.values() if c.code[3] == number]
        parts += [f"## {group}\n", "| code | |", "|---|---|", *rows, ""]
    parts += ["```{toctree}", ":hidden:", "", *(f"{code} <{code}>" for code in CODES), "```", ""]
    return "\n".join(parts)
