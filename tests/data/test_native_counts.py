"""On 32 bits, as in a browser, NumPy refuses counts of 64: `repeat` and `bincount` are given `native` ones."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np

from acronumba.memory import native

ELSEWHERE = ("frontend/library", "torch")  # functions of users: they are given what the user's are


def _given(call: ast.Call) -> ast.expr | None:
    """Return the counts that a call of NumPy's is given."""
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np"), attr="repeat"), args=[_, counts, *_]):
            return counts
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np"), attr="bincount"), args=[counts, *_]):
            return counts
        case ast.Call(func=ast.Attribute(value=value, attr="repeat"), args=[counts]) if ast.unparse(value) != "self":
            return counts
    return None


def _fits(counts: ast.expr) -> bool:
    match counts:
        case ast.Call(func=ast.Name(id="native")) | ast.Constant() | ast.ListComp():
            return True
    return False


def test_repeat_and_bincount_are_given_native_counts(root: Path) -> None:
    package, found, wrong = root / "acronumba", 0, []
    for file in sorted(package.rglob("*.py")):
        text = file.read_text()
        if file.relative_to(package).as_posix().startswith(ELSEWHERE) or not ("repeat(" in text or "bincount(" in text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and (counts := _given(node)) is not None:
                found += 1
                if not _fits(counts):
                    wrong.append(f"{file.relative_to(root)}:{node.lineno}: {ast.unparse(node)}")
    assert found >= 20 and not wrong


def test_native_counts_are_of_the_size_of_a_pointer() -> None:
    counts = native(np.array([1, 2], np.int64))
    assert counts.dtype == np.intp and np.arange(2).repeat(counts).tolist() == [0, 1, 1]
