"""The examples of docstrings print what they say."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import acronumba

FOLDER = Path(acronumba.__file__).parent
NEED = {"torch": "torch", "ray.py": "ray"}  # what a folder or file imports
FILES = sorted(p.relative_to(FOLDER).as_posix() for p in FOLDER.rglob("*.py") if ">>> " in p.read_text("utf-8"))


@pytest.mark.parametrize("file", FILES)
def test_examples_of_docstrings_run(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(NEED.get(file.partition("/")[0], "numpy"))
    monkeypatch.chdir(tmp_path)
    name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    module = importlib.import_module(f"acronumba.{name}")
    assert not doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).failed
