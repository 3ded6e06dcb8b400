"""The rooms of the package: imports go down, and there is no circle.

The list of rooms, from the roof down, is the table in `docs/architecture.md`. Every import counts, also those inside of
functions and under `TYPE_CHECKING`.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import networkx as nx
import pytest

from tests import house_counts

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"

MOST_LINES = 700  # of a file
MOST_OF_A_FUNCTION = 60  # lines, unless it is a table
TABLES = {"errors.codes:_table", "ir.ops:_table"}


@functools.cache
def rooms() -> list[str]:
    """Return the rooms from the roof down: what stands in backticks in the first column of the table."""
    out = []
    for line in PAGE.read_text(encoding="utf-8").split("| room |", 1)[1].splitlines()[2:]:
        if not line.startswith("|"):
            break
        out += [name.strip("/").replace("/", ".") for name in re.findall(r"`([^`]+)`", line.split("|")[1])]
    return out


@functools.cache
def files() -> dict[str, Path]:
    """Return the files of the package by the names of their modules, without `acronumba.`."""
    out = {}
    for path in sorted((ROOT / "acronumba").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        out[".".join(parts[1:-1] if parts[-1] == "__init__" else parts[1:]) or "acronumba"] = path
    return out


@functools.cache
def imports(types: bool = True) -> dict[str, set[str]]:
    """Return for each file the files that it imports; `types`: also those that only type checkers read."""
    out: dict[str, set[str]] = {}
    for name, path in files().items():
        found = out[name] = set()
        tree = tree_of(path)
        checked = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
        unread = set() if types else {inner for n in checked for inner in ast.walk(n)}
        for node in ast.walk(tree):
            if node in unread:
                continue
            if isinstance(node, ast.Import):
                found |= {_short(a.name) for a in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert not node.level and node.module, f"{path}, line {node.lineno}: an import that is relative"
                for a in node.names:
                    inner = _short(f"{node.module}.{a.name}")
                    found.add(inner if inner in files() else _short(node.module))
        out[name] = (found & files().keys()) - {name}
    return out


def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file of the package."""
    return house_counts.trees()[str(path.relative_to(house_counts.PACKAGE))]


def _short(module: str) -> str:
    return module.removeprefix("acronumba.") if module.partition(".")[0] == "acronumba" else f"({module})"


def room_of(name: str) -> str:
    """Return the room of a file: the longest name in the table that its own begins with."""
    found = [room for room in rooms() if name == room or name.startswith(f"{room}.")]
    assert found, f"{name} is in no room of {PAGE.name}"
    return max(found, key=len)


def test_each_room_is_there() -> None:
    assert len(rooms()) == len(set(rooms()))
    assert {room_of(name) for name in files()} == set(rooms())


def test_imports_go_down() -> None:
    up: list[str] = []
    for name, found in imports().items():
        for other in sorted(found):
            a, b = room_of(name), room_of(other)
            if rooms().index(a) > rooms().index(b):
                up.append(f"{name} imports {other}")
    assert not up, "\n".join(up)


def test_there_is_no_circle() -> None:
    # A value's methods take the walker, whose methods take values: they know each other's types alone.
    graph = nx.DiGraph([(name, other) for name, found in imports(types=False).items() for other in found])
    assert not [sorted(c) for c in nx.strongly_connected_components(graph) if len(c) > 1]


def test_files_say_what_they_are_and_can_be_read_at_one_sitting() -> None:
    wrong = []
    for name, path in files().items():
        text = path.read_text(encoding="utf-8")
        tree = tree_of(path)
        if not ast.get_docstring(tree):
            wrong.append(f"{name}: no docstring")
        if (lines := text.count("\n")) > MOST_LINES:
            wrong.append(f"{name}: {lines} lines")
        functions = [f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and f"{name}:{f.name}" not in TABLES]
        long = (f.name for f in functions if (f.end_lineno or 0) - f.lineno >= MOST_OF_A_FUNCTION)
        wrong += [f"{name}: {f} is too long" for f in long]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", house_counts.COUNTS)
def test_the_house_gets_simpler(name: str) -> None:
    count, most = house_counts.COUNTS[name]
    assert count() <= most


def test_what_is_counted_is_there() -> None:
    assert {"Num", "Tensor", "ListVal"} <= house_counts.kinds()
    f = ast.parse(
        "def f(x):\n    match x:\n        case Num() | Tensor(): pass\n    return isinstance(x, ListVal | str)"
    )
    assert house_counts.told_apart(f.body[0]) == {"Num", "Tensor", "ListVal"}  # type: ignore[arg-type]
