"""Python's builtin functions in the compiled language."""

from __future__ import annotations

from acronumba.frontend.library.decorators import implements


@implements(filter, iterator=True)
def filter_(function, iterable):
    if function is None:
        return [x for x in iterable if x]
    return [x for x in iterable if function(x)]
