"""Version of acronumba's source, which is part of the cache keys of compiled code."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

# Rooms that no code is generated from. A model of the zoo is as a user's: its code has keys of its own.
ASIDE = frozenset({"__main__.py", "bench", "cli", "views", "zoo"})


def sources(root: Path) -> list[Path]:
    """Return the files of the package that code is generated from."""
    return [root / path for path in sorted(_files(str(root)))]


def _files(folder: str, inside: str = "") -> Iterator[str]:
    """Yield the files of Python in a folder, by their paths from the root. (`Path.rglob` takes ten times as long.)"""
    with os.scandir(folder) as entries:
        for entry in entries:
            if not inside and entry.name in ASIDE:
                continue
            if entry.name.endswith(".py"):
                yield inside + entry.name
            elif entry.is_dir():
                yield from _files(entry.path, f"{inside}{entry.name}/")


@functools.cache
def source_version() -> str:
    """Return a digest of acronumba's source, any part of which may change generated code."""
    digest = hashlib.sha256()
    root = str(Path(__file__).parent.parent)
    for path in sorted(_files(root)):
        with open(f"{root}/{path}", "rb", buffering=0) as file:
            digest.update(path.encode() + b"\0" + file.read() + b"\0")
    return digest.hexdigest()


source_version()  # now, with the other imports: the source may be another one when the first module is loaded
