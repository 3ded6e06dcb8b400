"""`getattr` of a name that only run time knows: one of the attributes whose names fit."""

from __future__ import annotations

import ast
import functools
import types
from collections.abc import Callable

from acronumba.data.classes import field_names, is_record
from acronumba.data.shared import SharedNode
from acronumba.frontend.attributes import attribute, names_of_module
from acronumba.frontend.comparisons import compare_values
from acronumba.frontend.conditions import truth
from acronumba.frontend.exceptions import Dead
from acronumba.frontend.kinds.errors import ErrorValue
from acronumba.frontend.kinds.maps import DictVal
from acronumba.frontend.kinds.numbers import ALWAYS, Num, number
from acronumba.frontend.kinds.objects import SharedVal
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.overlay import has
from acronumba.frontend.subscripts import get_item
from acronumba.frontend.walker import Walker
from acronumba.ir.types import INT, StrT, TextT, members


def attribute_by_name(w: Walker, obj: Val, name: Val, expression: ast.AST | None, default: Val | None) -> Val | None:
    """Return the attribute of an object under a run-time name; None if there is none that may be meant.

    Of an object of the instance it is one of the fields. Of a shared one, the constant parts of the name, as in
    ``f"cell_{kind}"``, tell which attributes fit. A name without constant parts is that of an object among the
    attributes, such as a module.
    """
    types_of_name = members(w.type_of(name))
    if not all(isinstance(t, StrT | TextT) for t in types_of_name):
        return None
    if isinstance(module := w.static(obj), types.ModuleType):
        return _of_module(w, module, name, default)
    if not isinstance(obj, SharedVal):
        return _field_by_name(w, obj, name, default)
    first, last = _ends(expression)
    fits, pattern = _fitting(w, expression, first, last)
    fitting = _fits(obj.node, fits, pattern)
    methods = _methods(obj.node.cls, fits) if first or last else []
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


def _of_module(w: Walker, module: types.ModuleType, name: Val, default: Val | None) -> Val:
    """Return the attribute of a module that has a name of run time; not a structure beside functions and numbers."""
    table = names_of_module(w, module).unshared(w)
    items = [ErrorValue(v.node.path, "ACR501") if isinstance(v, SharedVal) else v for v in table.children()]
    table = table.with_children(items)
    there = table.contains(w, name)
    assert isinstance(there, Num)
    if default is not None:
        return w.cond(there, lambda: get_item(w, table, name), lambda: default)
    w.check(there, "AttributeError", "a name that is none of this module")
    if w.block is None:
        raise Dead
    return get_item(w, table, name)


def _field_by_name(w: Walker, obj: Val, name: Val, default: Val | None) -> Val | None:
    """Return the field of an object of the instance that has a name of run time; None if it is no such object."""
    classes = obj.object_classes()
    if not classes:
        return None
    if len(classes) > 1:
        raise w.reject("ACR308", seen=f"getattr of {w.describe(obj)}", rewrite="test its class first: isinstance(x, C)")
    cls = classes[0]
    names = field_names(cls) if is_record(cls) else sorted({*w.facts.fields.get(cls, ()), *obj.fields(w)})

    def is_named(field: str) -> Num:
        return truth(w, compare_values(w, ast.Eq(), name, w.constant(field)))

    def read(field: str) -> Val:
        if default is None:
            return attribute(w, obj, field)
        return w.cond(has(w, obj, field), lambda: attribute(w, obj, field), lambda: default)

    def missing() -> Val:
        others = [n for n in dir(cls) if n not in names and not n.startswith("__")]
        none = w.negate(functools.reduce(w.either, map(is_named, others), number(False)))
        w.check(none if default is not None else number(False), "AttributeError", METHOD)
        if w.block is None or default is None:
            raise Dead
        return default

    return w.switch([*((is_named(n), functools.partial(read, n)) for n in names), (ALWAYS, missing)])


METHOD = "a name that is no field of this object"


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


def _fitting(w: Walker, expression: ast.AST | None, first: str, last: str) -> tuple[Callable[[str], bool], str]:
    """Return whether a name may be the value of an expression, of which an int has a digit; and a text for that."""

    def fits(name: str) -> bool:
        if not _is_between(name, first, last):
            return False
        return not counted or any(c.isdigit() for c in name[len(first) : len(name) - len(last)])

    parts = expression.values if isinstance(expression, ast.JoinedStr) else []
    counted = any(_is_int(w, part) for part in parts)
    return fits, f"{first}{'#' if counted else '*'}{last}"


def _is_int(w: Walker, part: ast.expr) -> bool:
    """Whether a part of an f-string is a variable that is an int, not formatted."""
    match part:
        case ast.FormattedValue(value=ast.Name() as name, conversion=-1, format_spec=None):
            return w.type_of(w.expr(name)) == INT
    return False


def other_names(obj: Val, expression: ast.AST | None) -> str:
    """Return a remark on the methods that a name may be, for errors."""
    first, last = _ends(expression)
    if not isinstance(obj, SharedVal) or not (first or last):
        return ""
    methods = _methods(obj.node.cls, lambda name: _is_between(name, first, last))
    return f"; it may be that of a method, such as {methods[0]}" if methods else ", and that fits no attribute"


def _fits(shared: SharedNode, fits: Callable[[str], bool], pattern: str) -> SharedNode:
    """Return the attributes of a shared object whose names fit as a dict; without a text, those that are objects."""
    found = [
        (name, item)
        for name, item in zip(shared.names, shared.items, strict=True)
        if isinstance(name, str) and fits(name)
        and (pattern != "*" or (isinstance(item, SharedNode) and item.kind == "object"))
    ]  # fmt: skip
    path = f"{shared.path}.{pattern}"
    return SharedNode(path, "dict", dict, tuple(name for name, _ in found), tuple(item for _, item in found))


def _is_between(name: str, first: str, last: str) -> bool:
    return len(name) >= len(first) + len(last) and name.startswith(first) and name.endswith(last)


def _methods(cls: type, fits: Callable[[str], bool]) -> list[str]:
    """Return the names of the methods of a class that fit."""
    found = [n for n in dir(cls) if fits(n)]
    return [n for n in found if isinstance(getattr(cls, n), types.FunctionType | types.MethodType)]
