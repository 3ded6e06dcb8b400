"""Basic expressions: constants, names, displays, lambdas and f-strings.

In: nodes of the syntax tree. Out: abstract values; constants are folded, other computations become IR.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from acronumba.frontend.comprehensions import as_iterable, extend, to_list
from acronumba.frontend.handlers import EXPRESSIONS, handles
from acronumba.frontend.kinds.iterators import Generator
from acronumba.frontend.kinds.lists import ListVal, StaticList
from acronumba.frontend.kinds.strings import joined, known
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.lists import append, new_list
from acronumba.frontend.magic import one_string
from acronumba.frontend.names import nested_function, part_of, read_name
from acronumba.frontend.texts import converted
from acronumba.frontend.walker import Walker

Parts: TypeAlias = "list[tuple[Val, ...] | ListVal]"


def display_parts(w: Walker, elts: Sequence[ast.expr]) -> Parts:
    """Evaluate the parts of a display: known items, and run-time lists."""
    return [items_or_list(w, e) if isinstance(e, ast.Starred) else (part_of(w, e),) for e in elts]


def known_parts(parts: Parts) -> list[Val] | None:
    """Return the items of a display; None if some are known only at run time."""
    known = [p for p in parts if not isinstance(p, ListVal)]
    return [v for p in known for v in p] if len(known) == len(parts) else None


def list_display(w: Walker, elts: Sequence[ast.expr]) -> Val:
    """`[a, *b, c]`."""
    parts = display_parts(w, elts)
    items = known_parts(parts)
    return appended(w, parts) if items is None else new_list(w, items)


def appended(w: Walker, parts: Parts) -> ListVal:
    """Return a new run-time list of the parts of a display."""
    cell = w.cell(("display", w.frame.path, *w.site))
    w.make_real(cell)
    out = w.realise(StaticList((), cell))
    for p in parts:
        if isinstance(p, ListVal):
            extend(w, out, p)
            continue
        for v in p:
            append(w, out, v)
    return out


def items_or_list(w: Walker, node: ast.Starred) -> tuple[Val, ...] | ListVal:
    """Evaluate `*x` in a display: its items, or a run-time list."""
    val = w.value(node.value)
    with w.at_node(node):
        if val.is_lazy:
            val = as_iterable(w, val)
        items = w.items_of(val)
        return to_list(w, val) if items is None else items


@handles(EXPRESSIONS, ast.Constant)
def _constant(w: Walker, node: ast.Constant) -> Val:
    return w.constant(node.value)


@handles(EXPRESSIONS, ast.Name)
def _name(w: Walker, node: ast.Name) -> Val:
    return read_name(w, node.id)


@handles(EXPRESSIONS, ast.Tuple)
def _tuple(w: Walker, node: ast.Tuple) -> Val:
    """`(a, *b, c)`."""
    parts = display_parts(w, node.elts)
    items = known_parts(parts)
    return replace(appended(w, parts), cls=tuple) if items is None else w.tagged(TupleVal(tuple(items)))


@handles(EXPRESSIONS, ast.List)
def _list(w: Walker, node: ast.List) -> Val:
    return list_display(w, node.elts)


@handles(EXPRESSIONS, ast.NamedExpr)
def _named(w: Walker, node: ast.NamedExpr) -> Val:
    val = w.value(node.value)
    w.assign(node.target, val)
    return read_name(w, node.target.id) if isinstance(val, Generator) else val


@handles(EXPRESSIONS, ast.Lambda)
def _lambda(w: Walker, node: ast.Lambda) -> Val:
    return nested_function(w, node, "<lambda>", node.args)


@handles(EXPRESSIONS, ast.JoinedStr)
def _formatted(w: Walker, node: ast.JoinedStr) -> Val:
    """Evaluate an f-string."""
    out: list[Val] = []
    for part in node.values:
        if not isinstance(part, ast.FormattedValue):
            assert isinstance(part, ast.Constant)
            out.append(w.constant(str(part.value)))
            continue
        with w.at_node(part):
            conversion = chr(part.conversion) if part.conversion >= 0 else ""
            val = one_string(w, w.expr(part.value))
            spec = known(w, w.expr(part.format_spec)) if part.format_spec is not None else ""
            out.append(converted(w, val, conversion, spec))
    return joined(w, out)


@handles(EXPRESSIONS, ast.Slice)
def _slice(w: Walker, node: ast.Slice) -> Val:
    raise w.reject("ACR117")
