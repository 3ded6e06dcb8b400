"""Types of models, as type checkers see them. Skipped without mypy."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
TYPED = ROOT / "tests" / "support" / "typed.py"


@pytest.mark.long
def test_models_keep_the_types_of_their_functions(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    cache = ["--strict", "--cache-dir", str(tmp_path / "cache")]
    out, _, status = api.run([*cache, str(TYPED)])
    assert not status, out
    wrong = tmp_path / "wrong.py"
    wrong.write_text("from tests.support.typed import depth, Tree\ndepth('text')\nx: str = depth.batch([Tree(1)])[0]\n")
    out, _, status = api.run([*cache, str(wrong)])
    assert status and "arg-type" in out and "assignment" in out


@pytest.mark.long
@pytest.mark.skipif(shutil.which("pyright") is None, reason="needs pyright")
def test_pyright_knows_the_same_types() -> None:
    done = subprocess.run(
        ["pyright", "--pythonpath", sys.executable, str(TYPED)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stdout
