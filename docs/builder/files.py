"""Files that are written only where they change, so that Sphinx reads no page twice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def write(path: Path, text: str) -> None:
    """Write a file, unless it holds the text already."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def fill(folder: Path, texts: Mapping[str, str]) -> None:
    """Let a folder hold these files by name, and no other pages."""
    for path in folder.glob("*.md"):
        if path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        write(folder / name, text)
