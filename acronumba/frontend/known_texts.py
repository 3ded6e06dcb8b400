"""Texts of what is known when the model is compiled: `str`, `repr`, `format`, f-strings, `%` and methods of strings.

Python itself makes the text, of strings, numbers, bools and None; what is known at run time has no text (ACR116).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from acronumba.frontend.block import Dead
from acronumba.frontend.lists import new_list
from acronumba.frontend.values import (
    NOT_CONST,
    ListVal,
    Num,
    StaticList,
    StrVal,
    TupleVal,
    Val,
    as_list,
)
from acronumba.frontend.walker import Walker


def known(w: Walker, val: Val, node: ast.AST | None) -> Any:
    """Return the string, number, bool or None that a value is, of which a text is made."""
    value = w.decided(val) if isinstance(val, Num) else w.static(val, node)
    if value is NOT_CONST or not isinstance(value, str | int | float | bool | None):
        raise w.refuse("ACR116", node, seen=f"the text of {w.describe(val)}, known only at run time")
    return value


def made(w: Walker, make: Callable[[], Any], node: ast.AST | None) -> Any:
    """Return what Python makes; the instance fails as Python does."""
    try:
        return make()
    except (TypeError, ValueError, LookupError) as error:
        w.fail(type(error).__name__, str(error).replace("{", "{{").replace("}", "}}"), node)
        raise Dead from None


def percent(w: Walker, text: str, val: Val, node: ast.AST) -> Val:
    """Return `text % val`."""
    values = tuple(known(w, v, node) for v in val.items) if isinstance(val, TupleVal) else known(w, val, node)
    return StrVal(made(w, lambda: text % values, node))


def method(
    w: Walker, owner: StrVal, name: str, args: Sequence[Val], kwargs: Mapping[str, Val], node: ast.AST | None
) -> Val:
    """Call a method of a string."""
    if name.startswith("_") or not hasattr(str, name) or name == "format_map":
        raise w.refuse("ACR209", node, seen=f"the method .{name} of {w.describe(owner)}")
    read = known if name == "format" else _argument
    values = [read(w, v, node) for v in args]
    named = {k: read(w, v, node) for k, v in kwargs.items()}
    out = made(w, lambda: getattr(owner.value, name)(*values, **named), node)
    if isinstance(out, list):
        return new_list(w, [w.constant(v) for v in out], node or ast.Constant(0))
    return TupleVal(tuple(map(w.constant, out))) if isinstance(out, tuple) else w.constant(out)


def _argument(w: Walker, val: Val, node: ast.AST | None) -> Any:
    """Return an argument of a method: a text or number, or several."""
    items = val.items if isinstance(val, TupleVal | StaticList) else None
    if items is None:
        if isinstance(as_list(val), ListVal):
            raise w.refuse("ACR116", node, seen="a text of the elements of a list of run time")
        value = w.static(val, node)
        return value if isinstance(value, tuple) else known(w, val, node)
    return tuple(known(w, v, node) for v in items)
