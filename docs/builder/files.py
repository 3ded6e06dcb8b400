"""Files that are written only where they change, so that Sphinx reads no page twice."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "docs"  # what is kept from one time to the next


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


def version(more: Iterable[Path] = ()) -> str:
    """Return what stands for the text of the package, and of more files."""
    return hashlib.sha256(b"".join([_package(), *(path.read_bytes() for path in more)])).hexdigest()[:16]


@cache
def _package() -> bytes:
    kinds = (".py", ".js", ".css", ".html")
    files = sorted(path for path in (ROOT / "acronumba").rglob("*") if path.suffix in kinds)
    return b"".join(path.read_bytes() for path in files)
