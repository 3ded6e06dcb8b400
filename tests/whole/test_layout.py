"""The tests themselves: what they share is in `support`, and the folders are the rooms of the package."""

from __future__ import annotations

import ast
from pathlib import Path

FOLDERS = {"docs", "golden", "support", "whole"}  # that are no rooms


def imported(path: Path) -> set[str]:
    """Return the modules that a file imports, and what it takes from packages."""
    out = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            out |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            out |= {f"{'.' * node.level}{node.module or ''}.{name.name}" for name in node.names}
    return out


def test_no_test_file_imports_another(root: Path) -> None:
    wrong = {
        f"{path.relative_to(root)}: {name}"
        for path in (root / "tests").rglob("*.py")
        for name in imported(path)
        if name.startswith(".") or any(part.startswith("test_") for part in name.split(".")[:-1])
    }
    assert not wrong


def test_folders_are_rooms(root: Path) -> None:
    folders = {p.name for p in (root / "tests").iterdir() if p.is_dir() and not p.name.startswith(("_", "."))}
    rooms = {p.name for p in (root / "acronumba").iterdir() if p.is_dir()}
    assert folders - FOLDERS <= rooms
