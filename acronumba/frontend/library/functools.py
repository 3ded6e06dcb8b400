"""Functions of `functools` in the compiled language."""

from __future__ import annotations

import functools

from acronumba.frontend.library.decorators import implements


@implements(functools.reduce)
def reduce(function, iterable, *initial):
    if len(initial) > 0:
        out = initial[0]
        for x in iterable:
            out = function(out, x)
        return out
    items = list(iterable)
    if len(items) == 0:
        raise TypeError("reduce() of empty iterable with no initial value")
    out = items[0]
    for x in items[1:]:
        out = function(out, x)
    return out
