"""Methods of classes of `collections` in the compiled language."""

from __future__ import annotations


def most_common(pairs, n=None):
    """Return (element, count) pairs by decreasing count: the first `n`, or all."""
    out = sorted(pairs, key=lambda pair: pair[1], reverse=True)
    return out if n is None else out[:n]


def rotate(q, n=1):
    """Move the last `n` items of a deque to its front; the first -n to its end."""
    items = list(q)
    if len(items) > 0:
        k = len(items) - n % len(items)
        q.clear()
        q.extend(items[k:])
        q.extend(items[:k])
