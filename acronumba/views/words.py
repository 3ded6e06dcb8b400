"""Numbers as words and letters, for all output to people: "1 batch", "1,500 nodes", kernel B."""

from __future__ import annotations


def counted(n: int, what: str) -> str:
    """Return a count with its noun: "1 batch", "2 batches"."""
    if n == 1:
        return f"1 {what}"
    return f"{n:,} {what}{'es' if what.endswith('ch') else 's'}"


def letter(number: int) -> str:
    """Return A, B, ..., Z, AA, AB, ... for 0, 1, ..."""
    text = ""
    number += 1
    while number:
        number, digit = divmod(number - 1, 26)
        text = chr(ord("A") + digit) + text
    return text
