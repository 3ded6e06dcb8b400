"""Comparison and search of containers and objects, in the compiled language.

The rules of the primitives are in `frontend.comparisons`, which calls the functions.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any


def same(a, b):
    """Return whether two elements are equal as in containers: identical, or equal by `==`."""
    return a is b or a == b


def fields(obj):
    """Return the tuple of the fields by which an object is compared."""
    raise NotImplementedError


# Comparison of objects that may hold others of their kind: recursive functions.
BY_FIELDS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: lambda a, b: fields(a) == fields(b),
    ast.NotEq: lambda a, b: fields(a) != fields(b),
    ast.Lt: lambda a, b: fields(a) < fields(b),
    ast.LtE: lambda a, b: fields(a) <= fields(b),
    ast.Gt: lambda a, b: fields(a) > fields(b),
    ast.GtE: lambda a, b: fields(a) >= fields(b),
}


def contains(x, iterable):
    """Return whether an element of an iterable equals x."""
    for y in iterable:
        if same(y, x):
            return True
    return False


def index_of(x, iterable):
    """Return the index of the first element of an iterable that equals x; -1 if there is none."""
    for k, y in enumerate(iterable):
        if same(y, x):
            return k
    return -1


# ---- lists: compared by the first elements that differ, else by their lengths


def equal(a, b):
    if len(a) != len(b):
        return False
    for x, y in zip(a, b, strict=False):
        if not same(x, y):
            return False
    return True


def less(a, b):
    for x, y in zip(a, b, strict=False):
        if not same(x, y):
            return x < y
    return len(a) < len(b)


def less_or_equal(a, b):
    for x, y in zip(a, b, strict=False):
        if not same(x, y):
            return x <= y
    return len(a) <= len(b)


def greater(a, b):
    for x, y in zip(a, b, strict=False):
        if not same(x, y):
            return x > y
    return len(a) > len(b)


def greater_or_equal(a, b):
    for x, y in zip(a, b, strict=False):
        if not same(x, y):
            return x >= y
    return len(a) >= len(b)


LISTS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: equal, ast.Lt: less, ast.LtE: less_or_equal, ast.Gt: greater, ast.GtE: greater_or_equal,
}  # fmt: skip
