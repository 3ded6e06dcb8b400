"""Functions of numbers as functions of arrays: `vectorize` without a loop over elements.

In: the definition of a function. Out: a definition of one expression for whole arrays, or None. An `if` that returns
becomes `np.where`, which computes both values; so only operations that cannot fail are taken.
"""

from __future__ import annotations

import ast
import copy
import types
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from acronumba.frontend.kinds.functions import Func
from acronumba.frontend.source import NoSource, read_source
from acronumba.generics import Value

_CELLS = {
    f"#{f.__name__}": types.CellType(f) for f in (np.where, np.logical_and, np.logical_or, np.logical_not)
}  # names that no function has
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
_MOST = 500  # nodes of an expression: names that stand for others repeat them


def of_whole_arrays(func: Func) -> Func | None:
    """Return the function for arrays, None if it needs a loop."""
    node = func.source.node
    made = _definition(node) if isinstance(node, ast.FunctionDef) else None
    if made is None or not _calls_ufuncs(made, func):
        return None
    return replace(func, source=replace(func.source, node=made), closure={**func.closure, **_CELLS})


def whole_function(fn: types.FunctionType) -> types.FunctionType | None:
    """Return the function for arrays as a function of Python, for plain calls."""
    try:
        source = read_source(fn, fn.__code__)
    except NoSource:
        return None
    whole = of_whole_arrays(Func(source, fn.__globals__, {}, None, fn))
    if whole is None:
        return None
    made = copy.copy(whole.source.node)
    assert isinstance(made, ast.FunctionDef)
    made.decorator_list, made.returns = [], None
    names = {**fn.__globals__, **{name: cell.cell_contents for name, cell in _CELLS.items()}}
    exec(compile(ast.Module([made], []), source.file, "exec"), names)  # the user's own code
    found: types.FunctionType = names[made.name]
    return found


@lru_cache(maxsize=256)
def _definition(node: ast.FunctionDef) -> ast.FunctionDef | None:
    found = _value(node.body, {})
    if found is None or sum(1 for _ in ast.walk(found)) > _MOST:
        return None
    made = copy.copy(node)
    made.body = [ast.copy_location(ast.Return(found), node.body[-1])]
    return made


def _value(body: Sequence[ast.stmt], names: Mapping[str, ast.expr]) -> ast.expr | None:
    """Return the value that statements return, as an expression of the parameters."""
    if not body:
        return None
    first, *rest = body
    match first:
        case ast.Expr(value=ast.Constant()):  # the docstring
            return _value(rest, names)
        case ast.Return(value=ast.IfExp(test=test, body=yes, orelse=no)):
            parts = [_condition(test, names), _number(yes, names), _number(no, names)]
            return _call("#where", parts, first)
        case ast.Return(value=ast.expr() as value):
            return _number(value, names) or _condition(value, names)
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            given = _number(value, names)
            return None if given is None else _value(rest, {**names, name: given})
        case ast.If(test=test, body=yes, orelse=no):
            parts = [_condition(test, names), _value([*yes, *rest], names), _value([*no, *rest], names)]
            return _call("#where", parts, first)
    return None


def _call(name: str, parts: Sequence[ast.expr | None], at: ast.AST) -> ast.expr | None:
    if any(p is None for p in parts):
        return None
    made = ast.Call(ast.Name(name, ast.Load()), [p for p in parts if p is not None], [])
    return ast.fix_missing_locations(ast.copy_location(made, at))


def _condition(expression: ast.expr, names: Mapping[str, ast.expr]) -> ast.expr | None:
    match expression:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if not isinstance(op, ast.Is | ast.IsNot | ast.In):
            a, b = _number(left, names), _number(right, names)
            return None if a is None or b is None else ast.copy_location(ast.Compare(a, [op], [b]), expression)
        case ast.BoolOp(op=op, values=[a, b]):
            name = "#logical_and" if isinstance(op, ast.And) else "#logical_or"
            return _call(name, [_condition(a, names), _condition(b, names)], expression)
        case ast.UnaryOp(op=ast.Not(), operand=a):
            return _call("#logical_not", [_condition(a, names)], expression)
    return None


def _number(expression: ast.expr, names: Mapping[str, ast.expr]) -> ast.expr | None:
    match expression:
        case ast.Name(id=name):
            return names.get(name, expression)
        case ast.Constant(value=bool() | int() | float()):
            return expression
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _OPERATORS):
            a, b = _number(left, names), _number(right, names)
            return None if a is None or b is None else ast.copy_location(ast.BinOp(a, op, b), expression)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            a = _number(operand, names)
            return None if a is None else ast.copy_location(ast.UnaryOp(expression.op, a), expression)
        case ast.Call(func=ast.Attribute(value=ast.Name()), args=args, keywords=[]):
            parts = [_number(a, names) for a in args]
            if any(p is None for p in parts):
                return None
            return ast.copy_location(ast.Call(expression.func, [p for p in parts if p is not None], []), expression)
    return None


def _calls_ufuncs(node: ast.FunctionDef, func: Func) -> bool:
    """Whether all names are parameters and numbers, and all calls those of NumPy's element-wise functions."""
    parameters = {a.arg for a in (*node.args.posonlyargs, *node.args.args)}
    modules = {n.func.value for n in ast.walk(node.body[0]) if _is_of_module(n)}  # type: ignore[attr-defined]
    for n in ast.walk(node.body[0]):
        if _is_of_module(n):
            module: Value = func.globals.get(n.func.value.id)  # type: ignore[attr-defined]
            f = getattr(module, n.func.attr, None)  # type: ignore[attr-defined]
            if module is not np or not isinstance(f, np.ufunc) or f.nout != 1 or f is np.power:
                return False
            if any(t.startswith("d") and t.endswith("?") for t in f.types):
                return False  # arithmetic with bools may raise
        elif isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div | ast.FloorDiv | ast.Mod):
            divisor = n.right.value if isinstance(n.right, ast.Constant) else 0
            if not divisor and not any(isinstance(x, ast.Name) and x.id in parameters for x in ast.walk(n)):
                return False  # Python's numbers raise where arrays do not
        elif isinstance(n, ast.Name) and n.id not in parameters and n not in modules and n.id not in _CELLS:
            if type(func.globals.get(n.id)) not in (int, float):
                return False
    return True


def _is_of_module(found: ast.AST) -> bool:
    return isinstance(found, ast.Call) and isinstance(found.func, ast.Attribute)
