"""Methods of classes of `collections` in the compiled language."""

from __future__ import annotations


def most_common(pairs, n=None):
    """Return (element, count) pairs by decreasing count: the first `n`, or all."""
    out = sorted(pairs, key=lambda pair: pair[1], reverse=True)
    return out if n is None else out[:n]
