"""Simple and compound statements; loops, `match`, `del` and assignment have files of their own.

A rejection is caught at its statement and noted, and the walk continues after it: a function's errors are reported
together.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import importlib.util
import sys
import types
from collections.abc import Hashable, Sequence

from acronumba.foreign import Library
from acronumba.frontend.attributes import static_attribute
from acronumba.frontend.block import Point
from acronumba.frontend.calls.of_settings import CONTEXTS, check_setting
from acronumba.frontend.exceptions import Dead, Rejected
from acronumba.frontend.handlers import STATEMENTS, handles
from acronumba.frontend.kinds.functions import Static
from acronumba.frontend.kinds.numbers import NoneVal
from acronumba.frontend.managers import manager_of, walk_with
from acronumba.frontend.memos import begin_memo, is_bounded
from acronumba.frontend.names import begin, bind_name, nested_function
from acronumba.frontend.telling import only_tells
from acronumba.frontend.trying import raise_class, suppressed, try_except
from acronumba.frontend.walker import Walker


def if_statement(w: Walker, test: ast.expr, yes: Sequence[ast.stmt], no: Sequence[ast.stmt]) -> None:
    """Walk an `if` statement. If its condition is rejected, both branches are walked, to find the errors in them."""
    try:
        on, off = w.branch(test)
    except Rejected as error:
        w.note_rejection(error)
        w.go_on()
        on, off = w.fork(w.unknown_bool())
    points: list[Point] = []
    for starts, stmts in ((on, yes), (off, no)):
        w.join(starts)
        w.body(stmts)
        points += w.leave()
    w.join(points)


@handles(STATEMENTS, ast.Pass, ast.Nonlocal)
def _pass(w: Walker, stmt: ast.Pass) -> None:
    pass


@handles(STATEMENTS, ast.Import, ast.ImportFrom)
def _import(w: Walker, stmt: ast.Import | ast.ImportFrom) -> None:
    """Bind modules, or names of one; a module is imported when the model is compiled."""
    package = w.frame.func.globals.get("__package__")
    for name in stmt.names:
        if not isinstance(stmt, ast.ImportFrom):
            module = _module(w, name.name)
            first = module if name.asname else sys.modules[name.name.partition(".")[0]]
            bind_name(w, name.asname or name.name.partition(".")[0], Static(first))
            continue
        path = "." * stmt.level + (stmt.module or "")
        module = _module(w, importlib.util.resolve_name(path, package) if package else path)
        if not hasattr(module, name.name) and hasattr(module, "__path__"):
            _module(w, f"{module.__name__}.{name.name}")
        bind_name(w, name.asname or name.name, static_attribute(w, module, name.name))


def _module(w: Walker, path: str) -> types.ModuleType:
    try:
        return importlib.import_module(path)
    except (ImportError, TypeError) as error:
        raise w.reject("ACR106", seen=str(error)) from None


@handles(STATEMENTS, ast.Expr)
def _expression(w: Walker, stmt: ast.Expr) -> None:
    if not isinstance(stmt.value, ast.Constant) and not only_tells(w, stmt.value):
        w.expr(stmt.value)


@handles(STATEMENTS, ast.Return)
def _return(w: Walker, stmt: ast.Return) -> None:
    val = w.value(stmt.value) if stmt.value is not None else NoneVal()
    w.check_poison(val)
    if w.block is not None:
        if val.is_iterator:
            val = begin(w, val.origin)
        w.end_call(val, w.at(stmt.value or stmt))


@handles(STATEMENTS, ast.If)
def _if(w: Walker, stmt: ast.If) -> None:
    if_statement(w, stmt.test, stmt.body, stmt.orelse)


@handles(STATEMENTS, ast.Break, ast.Continue)
def _leave_turn(w: Walker, stmt: ast.Break | ast.Continue) -> None:
    loop = w.frame.loops[-1]
    points = loop.breaks if isinstance(stmt, ast.Break) else loop.continues
    points += w.leave()


@handles(STATEMENTS, ast.Assert)
def _assert(w: Walker, stmt: ast.Assert) -> None:
    holds, broken = w.branch(stmt.test)
    if broken:
        w.join(broken)
        told = [stmt.msg] if stmt.msg is not None else []
        try:
            raise_class(w, AssertionError, "AssertionError", told)
        except Dead:  # behind a message that always fails
            w.block = None
    w.join(holds)


@handles(STATEMENTS, ast.With)
def _with(w: Walker, stmt: ast.With) -> None:
    """Walk a `with` over `suppress`, a generator, or settings that change no value; reject other context managers."""
    before = w.following
    try:
        _within(w, stmt.items, stmt.body)
    finally:
        w.following = before


def _within(w: Walker, items: Sequence[ast.withitem], body: list[ast.stmt]) -> None:
    if not items:
        w.body(body)
        return
    item, *rest = items
    with w.at_node(item.context_expr):
        classes = suppressed(w, item)
    if classes is not None:
        inner = [ast.copy_location(ast.With(rest, body), item.context_expr)] if rest else body
        try_except(w, inner, [(classes, None)], ())
        return
    manager = manager_of(w, item.context_expr)
    if manager is not None:
        walk_with(w, manager, item, body, lambda: _within(w, rest, body))
        return
    _enter(w, item)
    _within(w, rest, body)


def _enter(w: Walker, item: ast.withitem) -> None:
    """Enter a context manager over settings of warnings or printing, or over gradients of PyTorch."""
    call = item.context_expr
    if _is_empty(w, call):
        assert isinstance(call, ast.Call)
        entered = w.value(call.args[0]) if call.args else NoneVal()
        if item.optional_vars is not None:
            w.assign(item.optional_vars, entered)
        return
    func = w.expr(call.func) if isinstance(call, ast.Call) else None
    if not isinstance(func, Static) or not isinstance(call, ast.Call) or item.optional_vars is not None:
        raise w.reject("ACR102")
    follows = Library.contexts.get(func.value) if isinstance(func.value, Hashable) else None
    if follows is not None:
        with w.at_node(call):
            given = [w.static(w.expr(a)) for a in (*call.args, *(k.value for k in call.keywords))]
            follow = follows(*given)
            if not isinstance(follow, bool | None):
                raise w.reject("ACR102", seen=f"{ast.unparse(call)}, which is known only at run time")
            w.following = w.following if follow is None else follow
        return
    if all(func.value is not c for c in CONTEXTS):
        raise w.reject("ACR102")
    if call.args:
        raise w.reject("ACR203", call.args[0], seen=f"an argument of {func.value.__name__} without its name")
    with w.at_node(call):
        check_setting(w, func.value, {k.arg or "**": w.expr(k.value) for k in call.keywords})


def _is_empty(w: Walker, call: ast.expr) -> bool:
    """Whether an expression is a call of `contextlib.nullcontext`."""
    func = w.expr(call.func) if isinstance(call, ast.Call) and len(call.args) < 2 and not call.keywords else None
    return isinstance(func, Static) and func.value is contextlib.nullcontext


@handles(STATEMENTS, ast.FunctionDef)
def _definition(w: Walker, stmt: ast.FunctionDef) -> None:
    for node in stmt.decorator_list:
        known = w.expr(node.func if isinstance(node, ast.Call) else node)
        if not isinstance(known, Static) or known.value not in (functools.lru_cache, functools.cache):
            raise w.reject("ACR210", node, seen=f"a decorator on {stmt.name}")
        w.cached[stmt] = is_bounded(node, known.value)
    func = nested_function(w, stmt, stmt.name, stmt.args)
    if stmt in w.cached:
        begin_memo(w, func)
    w.state[(w.frame.scope, stmt.name)] = func
