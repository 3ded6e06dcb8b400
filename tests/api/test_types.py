"""Types of models, as type checkers see them. Skipped without mypy or pyright."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import get_type_hints

import pytest

from acronumba.config import Changes, Options

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
@pytest.mark.skipif(find_spec("basedpyright") is None, reason='no basedpyright: pip install ".[types]"')
def test_pyright_knows_the_same_types() -> None:
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--level", "error", str(TYPED)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stdout


def test_type_checkers_know_every_option() -> None:
    assert get_type_hints(Changes) == get_type_hints(Options)
