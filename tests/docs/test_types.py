"""Type checkers and editors see the installed package, and the code of README and of two pages has types.

A page's program is checked in a folder of its own, by what runs there: nothing is found but what is installed.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

from tests.support.chosen import one_in

PAGES = ("README.md", "docs/first_model.md", "docs/training.md")
CHECKERS = {
    "mypy": ["--python-executable", sys.executable, "--cache-dir", "cache"],
    "basedpyright": ["--pythonpath", sys.executable, "--level", "error"],  # pyright, and what it needs, as a wheel
}
PROGRAM = re.compile(r"<!-- run -->\n```python\n(.*?)```\n", re.S)
checked_by = pytest.mark.parametrize(
    "checker",
    [
        pytest.param(
            name,
            marks=[
                pytest.mark.long,
                pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f'no {name}: pip install ".[types]"'),
            ],
        )
        for name in CHECKERS
    ],
)


def errors_of(checker: str, file: Path) -> str:
    """Return what a checker says of a file, empty if all is well."""
    done = subprocess.run(
        [sys.executable, "-m", checker, *CHECKERS[checker], file.name],
        cwd=file.parent,
        env={name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


@checked_by
@pytest.mark.parametrize("page", one_in(2, PAGES, mark="slow"))
def test_code_of_pages_has_types(root: Path, tmp_path: Path, page: str, checker: str) -> None:
    program = tmp_path / "program.py"
    program.write_text("".join(PROGRAM.findall((root / page).read_text(encoding="utf-8"))), encoding="utf-8")
    assert not (said := errors_of(checker, program)), said


@checked_by
def test_checkers_know_the_types_of_models(tmp_path: Path, checker: str) -> None:
    """The package is seen, and not as something of which nothing is known."""
    program = tmp_path / "program.py"
    program.write_text(
        "from acronumba import model\n\n\n@model\ndef f(x: float, *, w: float) -> float:\n    return w * x\n\n\n"
        'f(1.0, w="two")\n'
    )
    assert re.search(r'"?str"?|Literal\[', errors_of(checker, program))


def test_an_editable_install_is_a_path_that_checkers_read(root: Path) -> None:
    """Not an import hook, which only a running Python follows."""
    installed = [
        one for one in distributions(name="acronumba") if "editable" in (one.read_text("direct_url.json") or "")
    ]
    if not installed:
        pytest.skip("no editable install")
    for one in installed:
        (file,) = (file for file in one.files or () if file.name.startswith("__editable__"))
        assert file.suffix == ".pth" and Path(file.read_text().strip()) == root
