"""Methods of dicts in the compiled language."""

from __future__ import annotations

from acronumba.frontend.library.decorators import implements


@implements(vars(dict)["fromkeys"])
def fromkeys(iterable, value=None):
    out = {}
    for k in iterable:
        out[k] = value
    return out
