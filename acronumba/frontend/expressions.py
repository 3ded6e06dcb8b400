"""Expressions that consist of others: constants, displays, operators and calls.

In: nodes of the syntax tree. Out: abstract values; what can be computed now is, the rest becomes IR.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import partial

from acronumba.frontend.comprehensions import extend, to_list
from acronumba.frontend.functions import nested_function
from acronumba.frontend.handlers import EXPRESSIONS, handles
from acronumba.frontend.known_texts import known, made
from acronumba.frontend.lists import append, new_list
from acronumba.frontend.magic import one_string, text_of
from acronumba.frontend.names import bind_name, part_of, read_name
from acronumba.frontend.source import spot
from acronumba.frontend.texts import joined
from acronumba.frontend.values import (
    ListVal,
    Static,
    StaticList,
    StrVal,
    Text,
    TupleVal,
    Val,
)
from acronumba.frontend.walker import Walker


def elements(w: Walker, elts: Sequence[ast.expr]) -> tuple[Val, ...]:
    """Evaluate the elements of a tuple."""
    out: list[Val] = []
    for e in elts:
        if isinstance(e, ast.Starred):
            items = w.items_of(w.value(e.value))
            if items is None:
                raise w.refuse("ACR109", e, seen=ast.unparse(e))
            out += items
        else:
            out.append(part_of(w, e))
    return tuple(out)


def list_display(w: Walker, elts: Sequence[ast.expr], node: ast.List) -> Val:
    """`[a, *b, c]`: known items one by one, others appended at run time."""
    parts = [items_or_list(w, e) if isinstance(e, ast.Starred) else (part_of(w, e),) for e in elts]
    if not any(isinstance(p, ListVal) for p in parts):
        return new_list(w, [v for p in parts if not isinstance(p, ListVal) for v in p], node)
    cell = w.cell(("display", w.frame.path, *spot(node)))
    w.make_real(cell)
    out = w.realise(StaticList((), cell))
    for p in parts:
        if isinstance(p, ListVal):
            extend(w, out, p, node)
            continue
        for v in p:
            append(w, out, v, node)
    return out


def items_or_list(w: Walker, node: ast.Starred) -> tuple[Val, ...] | ListVal:
    """Evaluate `*x` of a list display: its items, or a list at run time."""
    val = w.value(node.value)
    items = w.items_of(val)
    return to_list(w, val, node) if items is None else items


@handles(EXPRESSIONS, ast.Constant)
def _constant(w: Walker, node: ast.Constant) -> Val:
    if node.value is Ellipsis or isinstance(node.value, bytes | complex):
        return Static(node.value)
    return w.constant(node.value)


@handles(EXPRESSIONS, ast.Name)
def _name(w: Walker, node: ast.Name) -> Val:
    return read_name(w, node.id, node)


@handles(EXPRESSIONS, ast.Tuple)
def _tuple(w: Walker, node: ast.Tuple) -> Val:
    return TupleVal(elements(w, node.elts))


@handles(EXPRESSIONS, ast.List)
def _list(w: Walker, node: ast.List) -> Val:
    return list_display(w, node.elts, node)


@handles(EXPRESSIONS, ast.NamedExpr)
def _named(w: Walker, node: ast.NamedExpr) -> Val:
    val = w.value(node.value)
    bind_name(w, node.target.id, val, node)
    return val


@handles(EXPRESSIONS, ast.Lambda)
def _lambda(w: Walker, node: ast.Lambda) -> Val:
    return nested_function(w, node, "<lambda>", node.args)


@handles(EXPRESSIONS, ast.JoinedStr)
def _formatted(w: Walker, node: ast.JoinedStr) -> Val:
    """Evaluate an f-string of strings, and of what is known when the model is compiled."""
    out: list[Val] = []
    for part in node.values:
        if not isinstance(part, ast.FormattedValue):
            assert isinstance(part, ast.Constant)
            out.append(StrVal(str(part.value)))
            continue
        val = one_string(w, w.expr(part.value))
        if part.format_spec is None and part.conversion in (-1, ord("s")):
            val = text_of(w, val, part)
            if isinstance(val, Text):
                out.append(val)
                continue
        value = known(w, val, part)
        form = known(w, w.expr(part.format_spec), part) if part.format_spec is not None else ""
        if part.conversion >= 0:
            value = (
                str(value) if part.conversion == ord("s") else (ascii if part.conversion == ord("a") else repr)(value)
            )
        out.append(StrVal(made(w, partial(format, value, form), node)))
    return joined(w, out, node)


@handles(EXPRESSIONS, ast.Slice)
def _slice(w: Walker, node: ast.Slice) -> Val:
    raise w.refuse("ACR117", node)
