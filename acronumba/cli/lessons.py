"""`acronumba lessons`: the lessons of the documentation, and the README, as notebooks in a folder.

In: a folder. Out: a notebook for each lesson and the README; their number is printed. Files that are there stay, since
a reader has worked in them.
"""

from __future__ import annotations

import argparse
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from acronumba.views.notebooks import notebook

LESSONS = Path(__file__).resolve().parents[1] / "lessons"


def lessons(args: argparse.Namespace) -> int:
    """Write the notebooks; return the exit status."""
    folder = Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    new = 0
    for name, text in notebooks(solutions=args.solutions).items():
        if not (path := folder / f"{name}.ipynb").exists():
            path.write_text(text, encoding="utf-8")
            new += 1
            print(path)
    print(f"{new} written" + (", the others were there" if new < len(pages()) else "") + f": jupyter lab {folder}")
    return 0


def notebooks(*, solutions: bool) -> dict[str, str]:
    """Return the notebooks by name."""
    found = pages()
    return {name: notebook(text, solutions=solutions, others=frozenset(found)) for name, text in found.items()}


def pages() -> dict[str, str]:
    """Return the texts of the lessons and of the README by name."""
    found = {path.stem: path.read_text(encoding="utf-8") for path in sorted(LESSONS.glob("[0-9]*.md"))}
    return {"README": _readme()} | found


def _readme() -> str:
    """Return the README of the sources, or of the installed package, whose description it is."""
    if (there := LESSONS.parents[1] / "README.md").exists():
        return there.read_text(encoding="utf-8")
    try:
        return str(metadata("acronumba").json["description"])
    except PackageNotFoundError:
        return ""
