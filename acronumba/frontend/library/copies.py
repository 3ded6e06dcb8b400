"""Copies of lists in the compiled language."""

from __future__ import annotations


def with_own_type(xs):
    """Return a copy to which elements of other types may be added: a list of another type."""
    return [x for x in xs]  # noqa: C416
