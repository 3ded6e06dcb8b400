"""Every script in `examples/` runs and finds that batched and plain results agree; so does the demo."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from acronumba.bench import openblas
from tests.support.chosen import one_in

EXAMPLES = sorted((Path(__file__).resolve().parent.parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("path", one_in(3, EXAMPLES, [p.stem for p in EXAMPLES]))
def test_example(path: Path, root: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(root), "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", str(path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), "an example shows something"


def test_the_demo_agrees_and_shows_what_was_batched(root: Path) -> None:
    code = "import sys; from acronumba.bench import demo; sys.exit(demo.run(trees=12, size=32))"
    environment = {**os.environ, "PYTHONPATH": str(root), "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "def encode(t: Tree, p: Params)" in done.stdout
    assert "they agree" in done.stdout
    assert "launches saved" in done.stdout
    for competitor in ("one tree at a time", "by hand level by level", "from Python objects", "packed once"):
        assert re.search(rf"{competitor}\s+[\d.]+ ms +[\d.]+ x", done.stdout)


def test_openblas_is_asked_for_one_thread() -> None:
    setting = openblas.best_setting(threads=1)
    assert setting["OPENBLAS_NUM_THREADS"] == "1"
    assert set(setting) <= {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_CORETYPE"}


def test_examples_compare_batched_with_plain() -> None:
    assert len(EXAMPLES) >= 6
    for path in EXAMPLES:
        text = path.read_text()
        assert ".batch(" in text
        assert "assert " in text
