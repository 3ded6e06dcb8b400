"""Without Numba and llvmlite models run in plain Python and NumPy: the same graph, schedule, results and training."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba.errors import AcronumbaError
from tests.support.without_numba import MODELS, summary, trained

QUICK = ("tree_lstm", "birnn")


def without_numba(root: Path, *names: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.without_numba", *names],
        cwd=root, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("names", [QUICK, pytest.param(tuple(MODELS), marks=pytest.mark.slow)])
def test_models_run_as_compiled_ones(root: Path, names: tuple[str, ...]) -> None:
    *found, theirs = without_numba(root, *names)
    assert found == [summary(name) for name in names] and all(one["check"] for one in found)
    mine = trained()
    assert theirs.pop("failure") == mine.pop("failure")
    for name, values in mine.items():
        np.testing.assert_allclose(theirs[name], values, rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_the_readme_prints_what_it_shows(root: Path, tmp_path: Path) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    program = tmp_path / "readme.py"
    program.write_text("\n".join(re.findall(r"<!-- run -->\n```python\n(.*?)```", text, re.S)), encoding="utf-8")
    start = "import runpy, sys; from tests.support.without_numba import Missing; sys.meta_path.insert(0, Missing()); "
    done = subprocess.run(
        [sys.executable, "-c", f"{start}runpy.run_path({str(program)!r})"],
        cwd=root, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    shown = "".join(re.findall(r"<!-- prints -->\n```text\n(.*?)```", text, re.S))
    assert done.stdout.replace(f"{tmp_path}/", "") == shown, done.stderr


def test_the_engine_is_one_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    from acronumba.config import interpreted

    assert not interpreted()
    monkeypatch.setenv("ACRONUMBA_ENGINE", "interpreted")
    assert interpreted()
    monkeypatch.setenv("ACRONUMBA_ENGINE", "numba")
    with pytest.raises(AcronumbaError, match="ACRONUMBA_ENGINE must be compiled or interpreted"):
        interpreted()
