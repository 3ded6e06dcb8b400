"""Which acronumba this is: what is compiled depends on its source, and so do the names under which it is kept."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path


@functools.cache
def source_version() -> str:
    """Return a digest of acronumba's own source: what generators make may change with any of it."""
    digest = hashlib.sha256()
    root = Path(__file__).parent.parent
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


source_version()  # now, with the other imports: the source may be another one when the first module is loaded
