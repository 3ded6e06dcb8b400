"""`getattr` of a name that only run time knows: one of the attributes whose names fit."""

from __future__ import annotations

import ast
import types

from acronumba.data.shared import SharedNode
from acronumba.frontend.attributes import attribute
from acronumba.frontend.kinds.maps import DictVal
from acronumba.frontend.kinds.numbers import Num
from acronumba.frontend.kinds.objects import SharedVal
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.subscripts import get_item
from acronumba.frontend.walker import Walker
from acronumba.ir.types import StrT, TextT, members


def attribute_by_name(w: Walker, obj: Val, name: Val, expression: ast.AST | None, default: Val | None) -> Val | None:
    """Return the attribute of a shared object under a run-time name; None if there is none that may be meant.

    The constant parts of the name, as in ``f"cell_{kind}"``, tell which attributes fit. A name without constant parts
    is that of an object among the attributes, such as a module.
    """
    types_of_name = members(w.type_of(name))
    if not isinstance(obj, SharedVal) or not all(isinstance(t, StrT | TextT) for t in types_of_name):
        return None
    first, last = _ends(expression)
    fitting = _fits(obj.node, first, last)
    methods = _methods(obj.node.cls, first, last) if first or last else []
    if methods and not fitting.names and default is None:
        return get_item(w, DictVal(tuple(methods), tuple(attribute(w, obj, n) for n in methods)), name)
    if methods or not fitting.names:
        return None
    table = SharedVal(fitting)
    if default is None:
        return get_item(w, table, name)
    there = table.contains(w, name)
    assert isinstance(there, Num)
    return w.cond(there, lambda: get_item(w, table, name), lambda: default)


def _ends(expression: ast.AST | None) -> tuple[str, str]:
    """Return the constant text at the beginning and at the end of an expression."""
    match expression:
        case ast.Constant(value=str(text)):
            return text, text
        case ast.JoinedStr(values=[*parts]) if parts:
            return _ends(parts[0])[0], _ends(parts[-1])[1]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _ends(left)[0], _ends(right)[1]
    return "", ""


def _fits(shared: SharedNode, first: str, last: str) -> SharedNode:
    """Return the attributes of a shared object whose names fit as a dict; without a text, those that are objects."""
    found = [
        (name, item)
        for name, item in zip(shared.names, shared.items, strict=True)
        if isinstance(name, str) and _is_between(name, first, last)
        and (first or last or (isinstance(item, SharedNode) and item.kind == "object"))
    ]  # fmt: skip
    path = f"{shared.path}.{first}*{last}"
    return SharedNode(path, "dict", dict, tuple(name for name, _ in found), tuple(item for _, item in found))


def _is_between(name: str, first: str, last: str) -> bool:
    return len(name) >= len(first) + len(last) and name.startswith(first) and name.endswith(last)


def _methods(cls: type, first: str, last: str) -> list[str]:
    """Return the names of the methods of a class that fit."""
    found = [n for n in dir(cls) if _is_between(n, first, last)]
    return [n for n in found if isinstance(getattr(cls, n), types.FunctionType | types.MethodType)]
