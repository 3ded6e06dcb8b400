"""Which acronumba this is: what is compiled depends on its source, and so do the names under which it is kept."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

# Rooms that no code is generated from. A model of the zoo is as a user's: its code has keys of its own.
ASIDE = frozenset({"__main__.py", "bench", "cli", "views", "zoo"})


def sources(root: Path) -> list[Path]:
    """Return the files of the package that code is generated from."""
    return [path for path in sorted(root.rglob("*.py")) if path.relative_to(root).parts[0] not in ASIDE]


@functools.cache
def source_version() -> str:
    """Return a digest of the source that code is generated from: what generators make may change with any of it."""
    digest = hashlib.sha256()
    root = Path(__file__).parent.parent
    for path in sources(root):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


source_version()  # now, with the other imports: the source may be another one when the first module is loaded
