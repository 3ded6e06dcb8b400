"""Methods of lists and tuples in the compiled language."""

from __future__ import annotations

from acronumba.frontend.library.comparisons import index_of, same
from acronumba.frontend.library.decorators import implements
from acronumba.frontend.library.math import index as whole


def index_between(xs, value, bounds):
    """Return the index of the first element between bounds, if there are any, that equals a value; else -1."""
    if len(bounds) == 0:
        return index_of(value, xs)
    if len(bounds) > 2:
        raise TypeError(f"index expected at most 3 arguments, got {len(bounds) + 1}")
    n = len(xs)
    low = whole(bounds[0], ".index()")
    low = low if low >= 0 else max(low + n, 0)
    high = n if len(bounds) == 1 else whole(bounds[1], ".index()")
    high = high if high >= 0 else max(high + n, 0)
    for k, x in enumerate(xs):
        if low <= k < high and same(x, value):
            return k
    return -1


@implements(list.index)
def index(self, value, /, *bounds):
    k = index_between(self, value, bounds)
    if k < 0:
        raise ValueError("list.index(x): x not in list")
    return k


@implements(tuple.index)
def index_in_tuple(self, value, /, *bounds):
    k = index_between(self, value, bounds)
    if k < 0:
        raise ValueError("tuple.index(x): x not in tuple")
    return k


@implements(list.count, tuple.count)
def count(self, value, /):
    out = 0
    for x in self:
        out += same(x, value)
    return out


@implements(list.remove)
def remove(self, value, /):
    k = index_of(value, self)
    if k < 0:
        raise ValueError("list.remove(x): x not in list")
    self.pop(k)
