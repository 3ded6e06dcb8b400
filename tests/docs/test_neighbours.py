"""What the pages show beside other libraries runs, where these are installed."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BLOCK = re.compile(r"<!-- with: ([\w ]+) -->\n```python\n(.*?)```", re.S)
FOUND = [
    pytest.param(found[1].split(), found[2], id=f"{page.stem}-{number}")
    for page in sorted((ROOT / "docs").glob("*.md"))
    for number, found in enumerate(BLOCK.finditer(page.read_text(encoding="utf-8")))
]


def test_there_are_programs() -> None:
    assert len(FOUND) == 8


@pytest.mark.parametrize(("libraries", "program"), FOUND)
def test_programs_with_other_libraries_run(libraries: list[str], program: str, tmp_path: Path) -> None:
    for name in libraries:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    script = tmp_path / "program.py"
    script.write_text(program)
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
