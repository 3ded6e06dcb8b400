"""The README is true: its programs run and print what it shows, its commands and links exist.

The blocks after ``<!-- run -->`` are one program, in order; what it prints is compared with the blocks after
``<!-- prints -->``. ``--update-golden`` writes what is printed into the README.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

BLOCK = re.compile(r"<!-- (run|prints) -->\n```(?:python|text)\n(.*?)```\n", re.S)
CUT = "-- cut --"


def printed(root: Path, text: str, folder: Path) -> list[str]:
    """Run the program of the README; return what it prints for each block of output."""
    program = ""
    for kind, body in BLOCK.findall(text):
        program += body if kind == "run" else f'print("{CUT}")\n'
    script = folder / "readme.py"
    script.write_text(program)
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", str(script)],
        env={**os.environ, "PYTHONPATH": str(root), "NO_COLOR": "1", "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    out = done.stdout.replace(str(folder) + os.sep, "")
    parts = out.split(CUT + "\n")
    assert parts.pop() == "", "something is printed after the last block of output"
    return parts


def test_programs_print_what_the_readme_shows(root: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path = root / "README.md"
    text = path.read_text(encoding="utf-8")
    outputs = iter(printed(root, text, tmp_path))

    def filled(match: re.Match[str]) -> str:
        if match[1] == "run":
            return match[0]
        return f"<!-- prints -->\n```text\n{next(outputs)}```\n"

    new = BLOCK.sub(filled, text)
    if request.config.getoption("--update-golden"):
        path.write_text(new, encoding="utf-8")
    else:
        assert new == text, "run with --update-golden, and read the README"
    assert text.count("<!-- prints -->") == 3


def test_commands_of_the_readme_exist(root: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (root / "Makefile").read_text(), re.M))
    commands = set(re.findall(r"(?:^|`)make ([a-z]+)\b", (root / "README.md").read_text(), re.M))
    assert {"demo", "test", "lint"} <= commands
    assert commands <= targets


@pytest.mark.parametrize("name", ["README.md", "docs/language.md", "docs/architecture.md", "docs/tour.md"])
def test_links_lead_somewhere(root: Path, name: str) -> None:
    page = root / name
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")) if "://" not in link]
    assert all((page.parent / link).exists() for link in links)
    assert links or name != "README.md"


def test_every_function_of_nn_is_in_the_language_page(root: Path) -> None:
    from acronumba import nn

    page = set(re.findall(r"[a-z_]+", (root / "docs" / "language.md").read_text(encoding="utf-8")))
    assert set(nn.__all__) <= page


def test_options_of_the_language_page_exist(root: Path) -> None:
    from acronumba import Options

    page = (root / "docs" / "language.md").read_text(encoding="utf-8")
    paragraph = page[page.index("`Options` are") : page.index("## Failures")]
    names = set(re.findall(r"`([a-z_]+)`", paragraph)) - {"with_options"}
    assert names <= set(Options.__dataclass_fields__)
    assert len(names) >= 15
