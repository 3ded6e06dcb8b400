"""Pages of the documentation as notebooks of Jupyter: the lessons, and pages whose blocks of code are one program.

In: the text of a page. Out: the JSON of a notebook. A lesson has cells with tags (MyST); of another page, the blocks
after ``<!-- run -->`` are cells. Links lead to other notebooks of the same folder; of other links the text remains.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from acronumba.generics import Value

CODE = re.compile(
    r"^```\{code-cell\}[^\n]*\n(?::tags: \[([^\]]*)\]\n(?::[^\n]*\n)*\n)?(.*?)^```$"
    r"|^<!-- run -->\n```python\n(?P<run>.*?)^```$",
    re.M | re.S,
)
HIDDEN = re.compile(
    r"\A---\n.*?\n---\n|^```\{toctree\}.*?^```$|^<!-- prints -->\n```text\n.*?^```\n|<!--.*?-->\n?", re.M | re.S
)
PICTURE = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)([^)#\s]*)(#[^)]*)?\)")
SOLUTION = "solution"
OF_CODE: dict[str, Value] = {"cell_type": "code", "execution_count": None, "outputs": []}


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a notebook."""

    tags: tuple[str, ...]
    is_code: bool
    source: str


def cells(page: str) -> Iterator[Cell]:
    """Yield the cells of a page in order."""
    at = 0
    for found in CODE.finditer(page):
        yield from _text(page[at : found.start()])
        at = found.end()
        tags = tuple(tag.strip() for tag in (found[1] or "").split(",") if tag.strip())
        yield Cell(tags, True, found[2] or found["run"])
    yield from _text(page[at:])


def _text(page: str) -> Iterator[Cell]:
    if text := HIDDEN.sub("", page).strip():
        yield Cell((), False, text)


def notebook(page: str, *, solutions: bool = True, others: frozenset[str] = frozenset()) -> str:
    """Return a page as a notebook.

    Parameters
    ----------
    page : str
        Its text.
    solutions : bool
        Whether cells with the tag "solution" are in it; they are folded.
    others : set of str
        Names of the pages that are notebooks beside it.
    """

    def linked(link: re.Match[str]) -> str:
        name = link[2].rpartition("/")[2].removesuffix(".md")
        return f"[{link[1]}]({name}.ipynb)" if name in others and link[2] == f"{name}.md" else link[1]

    out: list[dict[str, Value]] = []
    for k, cell in enumerate(c for c in cells(page) if solutions or SOLUTION not in c.tags):
        about: dict[str, Value] = {"tags": list(cell.tags)} if cell.tags else {}
        if SOLUTION in cell.tags:
            about["jupyter"] = {"source_hidden": True}
        source = cell.source.strip("\n") if cell.is_code else LINK.sub(linked, PICTURE.sub(r"*\1*", cell.source))
        kind = OF_CODE if cell.is_code else {"cell_type": "markdown"}
        out.append({"id": f"cell-{k}", "metadata": about, "source": source.splitlines(keepends=True), **kind})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": out, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
