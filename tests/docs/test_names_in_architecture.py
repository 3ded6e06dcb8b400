"""Names of modules, classes and functions in pages about the compiler are those of the package."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

PAGES = ("architecture.md", "contributing.md", "ten_functions.md", "tour.md")
NAME = re.compile(r"`([a-z_]+(?:\.\w+)+)`")


def found(name: str) -> Any:
    """Return the object of a dotted name below `acronumba`.

    Raises
    ------
    AttributeError, ModuleNotFoundError
        If there is none.
    """
    parts = name.split(".")
    module, rest = importlib.import_module("acronumba"), parts
    for k in range(len(parts), 0, -1):
        path = ".".join(["acronumba", *parts[:k]])
        try:
            known = importlib.util.find_spec(path) is not None
        except ModuleNotFoundError:
            known = False
        if known:
            module, rest = importlib.import_module(path), parts[k:]
            break
    value: Any = module
    for part in rest:
        fields = getattr(value, "__annotations__", {})
        value = fields[part] if part in fields and not hasattr(value, part) else getattr(value, part)
    return value


@pytest.mark.parametrize("page", PAGES)
def test_names_of_the_package_exist(root: Path, page: str) -> None:
    rooms = {path.name for path in (root / "acronumba").iterdir() if (path / "__init__.py").exists()}
    text = (root / "docs" / page).read_text(encoding="utf-8")
    names = {
        name for name in NAME.findall(text) if name.partition(".")[0] in rooms and not name.endswith((".py", ".md"))
    }
    assert names or page != "architecture.md"
    missing = []
    for name in sorted(names):
        try:
            found(name)
        except (AttributeError, ModuleNotFoundError, KeyError):
            missing.append(name)
    assert not missing


def test_a_name_that_is_gone_is_found() -> None:
    with pytest.raises(AttributeError):
        found("analysis.sharing.bypass")
    assert found("ir.nodes.Block") is importlib.import_module("acronumba.ir.nodes").Block
