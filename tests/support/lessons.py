"""The lessons of `docs/lessons` as programs: the cells of their notebooks, one after the other, without Jupyter."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import types
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from acronumba.learn import NotYet
from acronumba.views.notebooks import notebook

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "lessons"
AGAIN = 3  # so often a check is run once more: what is random in it differs each time
LESSONS = sorted(path.stem for path in FOLDER.glob("[0-9]*.md"))


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of code of a notebook."""

    tags: frozenset[str]
    code: str


def cells(lesson: str) -> list[Cell]:
    """Return the cells of code of a lesson's notebook in order."""
    made = json.loads(notebook((FOLDER / f"{lesson}.md").read_text(encoding="utf-8")))["cells"]
    code = [cell for cell in made if cell["cell_type"] == "code"]
    return [Cell(frozenset(cell["metadata"].get("tags", ())), "".join(cell["source"]) + "\n") for cell in code]


class Run:
    """A reader: runs cells in a module of its own. Models need source, so what is run lies in files."""

    def __init__(self, lesson: str, folder: Path) -> None:
        self.name = f"lesson_{lesson}"
        self.module = sys.modules[self.name] = types.ModuleType(self.name)
        self.folder, self.files = folder, 0

    def __call__(self, code: str) -> str:
        """Run code; return what it prints."""
        self.files += 1
        path = self.folder / f"{self.name}_{self.files}.py"
        path.write_text(code, encoding="utf-8")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(path), "exec"), vars(self.module))
        return printed.getvalue()

    def hint(self, code: str) -> str:
        """Run a check that must fail; return what it says."""
        with pytest.raises(NotYet) as raised:
            self(code)
        return str(raised.value)


def solve(lesson: str, folder: Path, wrong: list[list[tuple[str, str]]]) -> str:
    """Read a lesson; every exercise unsolved, solved wrongly, and solved. Return what it prints.

    Parameters
    ----------
    wrong
        For each exercise: wrong answers, each with what the check says of it (a regular expression).
    """
    with np.errstate():  # what a lesson changes ends with it
        return _solved(Run(lesson, folder), lesson, wrong)


def _solved(run: Run, lesson: str, wrong: list[list[tuple[str, str]]]) -> str:
    said, hints = "", []
    answers = iter(wrong)
    for cell in cells(lesson):
        if "check" in cell.tags:
            hints.append(run.hint(cell.code))
            for answer, pattern in next(answers):
                run(answer)
                hints.append(run.hint(cell.code.splitlines()[-1]))  # which calls the check
                assert re.search(pattern, hints[-1]), f"{pattern!r} is not in what is said of {answer!r}: {hints[-1]}"
        else:
            printed = run(cell.code)
            if "solution" in cell.tags:
                assert printed.endswith("right\n"), printed
                again = [run(cell.code) for _ in range(AGAIN)]
                assert not [more for more in again if not more.endswith("right\n")], "right once, wrong for other draws"
            said += printed
    assert next(answers, None) is None, "there are fewer exercises"
    assert all(hints)
    del sys.modules[run.name]
    return said
