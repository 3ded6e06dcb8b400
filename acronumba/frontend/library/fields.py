"""Recursive comparison, field by field, of objects that may hold others of their kind, in the compiled language."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any


def fields(obj):
    """Return the tuple of the fields by which an object is compared: its rule is in `comparisons`."""
    raise NotImplementedError


BY_FIELDS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: lambda a, b: fields(a) == fields(b),
    ast.NotEq: lambda a, b: fields(a) != fields(b),
    ast.Lt: lambda a, b: fields(a) < fields(b),
    ast.LtE: lambda a, b: fields(a) <= fields(b),
    ast.Gt: lambda a, b: fields(a) > fields(b),
    ast.GtE: lambda a, b: fields(a) >= fields(b),
}
