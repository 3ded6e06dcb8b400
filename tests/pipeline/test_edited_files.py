"""Source files that are no longer what was imported: a model whose text cannot be trusted is rejected."""

from __future__ import annotations

import doctest
import importlib
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acronumba import Unsupported as Rejected
from acronumba import model
from tests.support.chosen import one_in

# ---- the file is not what was imported

IMPORTED = """\
from acronumba import model

def helper(x):
    total = 0.0
    for k in range(2):
        total = total + x * 2.0
    return total

class Scale:
    @staticmethod
    def run(x):
        return x + 1.0

@model
def f(x):
    return Scale.run(helper(x))

g = model(lambda x: x * 2.0); h = model(lambda x: x * 3.0)
"""
EDITS = {
    "an operator": ("x * 2.0\n", "x + 2.0\n"),
    "a number": ("x * 2.0\n", "x * 4.0\n"),
    "an int for a float": ("x * 2.0\n", "x * 2\n"),
    "a name": ("range(2)", "range(x)"),
    "a branch": ("    return total", "    if x > 3:\n        return x\n    return total"),
    "the helper is gone": ("def helper", "def another"),
    "another parameter": ("def helper(x)", "def helper(x, y=1)"),
    "a method": ("x + 1.0", "x - 1.0"),
    "the model": ("Scale.run(helper(x))", "helper(Scale.run(x))"),
    "no Python": ("return total", "return"),
}


@pytest.fixture
def imported(tmp_path: Path, patch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Path]]:
    """A module that nothing has read the source of, and its file."""
    patch.syspath_prepend(tmp_path)
    patch.setattr(sys, "dont_write_bytecode", True)
    name = f"imported_{tmp_path.name}".replace("-", "_")
    file = tmp_path / f"{name}.py"
    file.write_text(IMPORTED)
    yield importlib.import_module(name), file
    del sys.modules[name]


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_file_is_rejected(edit: str, imported: tuple[Any, Path]) -> None:
    m, file = imported
    old, new = EDITS[edit]
    assert old in IMPORTED
    file.write_text(IMPORTED.replace(old, new))
    with pytest.raises(Rejected, match="ACR204") as caught:
        m.f.batch([3.0])
    assert "has changed since it was imported" in str(caught.value)
    assert m.f(3.0) == 13.0
    file.write_text(IMPORTED)
    assert m.f.batch([3.0]) == [13.0]
    file.write_text(IMPORTED.replace(old, new))  # what was read is kept
    assert m.f.batch([3.0, 4.0]) == [13.0, 17.0]


def test_an_edit_elsewhere_changes_nothing(imported: tuple[Any, Path]) -> None:
    m, file = imported
    file.write_text('"""A text."""\n\n' + IMPORTED.replace("def f(x)", "def f(  x  )  ").replace("x * 3.0", "x * 5.0"))
    assert m.f.batch([3.0]) == [m.f(3.0)]
    assert m.g.batch([3.0]) == [m.g(3.0)] == [6.0]
    with pytest.raises(Rejected, match="ACR204"):
        m.h.batch([3.0])


@model
def asserts(x: float) -> float:
    assert x > 0.0, "positive numbers only"
    return x * 2.0


def test_pytest_may_have_rewritten_the_module() -> None:
    assert asserts.batch([3.0]) == [6.0]


def test_a_rewritten_module_whose_file_changes_is_rejected(imported: tuple[Any, Path]) -> None:
    m, file = imported
    m.__spec__.loader = types.SimpleNamespace()
    m.f.__wrapped__.__code__ = (lambda x: x * 7.0).__code__.replace(
        co_name="f", co_firstlineno=m.f.__wrapped__.__code__.co_firstlineno, co_filename=str(file)
    )
    with pytest.raises(Rejected, match="ACR204"):
        m.f.batch([3.0])


RUNS = """\
import sys
from acronumba import model

@model
def f(x):
    "What it does."
    assert x > 0, "positive"
    return x * 2.0

assert f.batch([3.0]) == [6.0], "wrong"
if f.batch([3.0]) != [6.0]:
    sys.exit(1)
"""


@pytest.mark.parametrize("flags", one_in(3, [["-OO"], ["-O"], ["-X", "no_debug_ranges"]]))
def test_python_may_be_told_to_compile_otherwise(flags: list[str], tmp_path: Path) -> None:
    file = tmp_path / "runs.py"
    file.write_text(RUNS)
    run = subprocess.run([sys.executable, *flags, str(file)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_source_of_a_doctest() -> None:
    text = """
    >>> from acronumba import model
    >>> @model
    ... def f(x):
    ...     return x * 2.0
    >>> list(f.batch([3.0]))
    [6.0]
    """
    test = doctest.DocTestParser().get_doctest(text, {"__name__": "a_doctest"}, "a_doctest", None, 0)
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0
