"""Numbers in words, as all that people read has them: "1 batch", "1,500 nodes"."""

from __future__ import annotations


def counted(n: int, what: str) -> str:
    """Return a number of things: "1 batch", "2 batches"."""
    if n == 1:
        return f"1 {what}"
    return f"{n:,} {what}{'es' if what.endswith('ch') else 's'}"
