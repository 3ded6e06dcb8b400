"""Python's builtin functions in the compiled language."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING

from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.comprehensions import FIRST
from acronumba.frontend.kinds.iterators import Generator
from acronumba.frontend.kinds.maps import MapVal, MapView
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.library.decorators import implements, primitive
from acronumba.frontend.library.math import pow_mod
from acronumba.ir.types import BOOL, INT, NEVER

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


def in_any_order(w: Walker, val: Val) -> Val:
    """Return an iterable whose order does not matter: of a set, a view of its elements in any order."""
    return MapView(val, "elements") if isinstance(val, MapVal) and val.is_set else val.plain


def _unordered(w: Walker, a: Args) -> Val:
    val = a["iterable"]
    if isinstance(val, Generator) and isinstance(val.node, ast.GeneratorExp) and len(val.node.generators) == 1:
        counts = isinstance(val.node.elt, ast.Constant)  # what is added does not depend on the order
        source = in_any_order(w, val.params[FIRST]) if counts or not a.flag("exact") else val.params[FIRST]
        return Generator(val.func, {**val.params, FIRST: source}, val.node, val.scope)
    inexact = isinstance(val, MapVal) and val.type.key not in (INT, BOOL, NEVER)
    return val if inexact and a.flag("exact") else in_any_order(w, val)


@primitive(rule=_unordered, whole=True)
def unordered(iterable, exact):
    """Return the elements of a set in any order, other iterables as they are; with `exact` only of sets of ints."""
    return iterable


def with_keys(iterable, key):
    """Return the items of an iterable, and their keys."""
    items, keys = [], []
    for x in iterable:
        items.append(x)
        keys.append(key(x))
    return items, keys


@implements(any)
def any_(iterable, /):
    for x in unordered(iterable, False):
        if x:
            return True
    return False


@implements(all)
def all_(iterable, /):
    for x in unordered(iterable, False):
        if not x:
            return False
    return True


@implements(sum)
def sum_(iterable, /, start=0):
    for x in unordered(iterable, True):
        start = start + x
    return start


@implements(map, iterator=True)
def map_(function, iterable, /, *iterables):
    if len(iterables) == 0:
        return mapped(function, iterable)
    return starmapped(function, zip(iterable, *iterables, strict=False))


def mapped(function, iterable):
    for x in iterable:
        yield function(x)


def starmapped(function, iterable):
    for xs in iterable:
        yield function(*xs)


@implements(filter, iterator=True)
def filter_(function, iterable, /):
    for x in iterable:
        if x if function is None else function(x):
            yield x


@implements(sys.exit)
def exit_(status=None, /):
    raise SystemExit(status)


@implements(divmod)
def divmod_(x, y, /):
    return x // y, x % y


@implements(pow)
def pow_(base, exp, mod=None):
    return base**exp if mod is None else pow_mod(base, exp, mod)


def first(iterable, *default):
    """Return the first item of an iterable: the others are not computed."""
    for x in iterable:
        return x
    if len(default) == 0:
        raise StopIteration
    return default[0]


def advance(items, position, *default):
    """Return the next item of an iterator over `items`, of which `position[0]` were read; it ends once and for all."""
    k = position[0]
    if k < len(items):
        position[0] = k + 1
        return items[k]
    position[0] = 2**62
    if len(default) == 0:
        raise StopIteration
    return default[0]


def rest(items, position):
    """Yield the items of an iterator that were not yet read."""
    while position[0] < len(items):
        position[0] += 1
        yield items[position[0] - 1]
    position[0] = 2**62
