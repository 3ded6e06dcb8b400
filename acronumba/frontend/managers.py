"""Context managers of the user: generator functions under `contextlib.contextmanager`.

The body of the `with` statement is walked at the `yield`, as that of a loop over the generator.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from dataclasses import replace

from acronumba.frontend.calls.objects import is_manager
from acronumba.frontend.kinds.functions import Func, Partial, Static
from acronumba.frontend.kinds.iterators import Generator
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.loops import iterate
from acronumba.frontend.names import function_value
from acronumba.frontend.walker import Walker


def manager_of(w: Walker, call: ast.expr) -> Func | None:
    """Return the generator function of a call of a context manager; None for other expressions."""
    func = w.expr(call.func) if isinstance(call, ast.Call) else None
    func = func.func if isinstance(func, Partial) else func
    if not isinstance(func, Static) or not is_manager(func.value):
        return None
    found = function_value(w, w.source_guard.item(func.value, "__wrapped__")).functions()
    return found[0] if found and found[0].source.facts.generates else None


def walk_with(w: Walker, manager: Func, item: ast.withitem, body: list[ast.stmt], inside: Callable[[], None]) -> None:
    """Walk a `with` statement over a generator; `inside` walks what the manager is around, the statements `body`."""
    name = manager.source.name
    function = manager.source.node
    assert isinstance(function, ast.FunctionDef)
    apart = not w.handlers and all(f.func.code not in w.facts.recursive for f in w.frames)  # nothing catches exceptions
    node = _without_finally(function) if apart else function
    last = node.body[-1]
    inner = [n for stmt in node.body for n in ast.walk(stmt)]
    if sum(isinstance(n, ast.Yield) for n in inner) != 1 or any(isinstance(n, _BRANCHES) for n in inner):
        seen = f"{name}, a context manager with other than one `yield` on every path, or one in a `try` statement"
        raise w.reject("ACR102", seen=seen)
    ends = isinstance(last, ast.Expr) and isinstance(last.value, ast.Yield)
    if _leaves(body) and not (ends and not any(isinstance(n, ast.Break | ast.Continue) for n in _parts(body))):
        seen = f"a `return`, `break` or `continue` out of the block of {name}"
        raise w.reject("ACR102", seen=seen, rewrite="set a variable in the block, and leave after it")
    made = w.value(item.context_expr)
    assert isinstance(made, Generator)
    gen = Generator(replace(made.func, source=replace(made.func.source, node=node)), made.params, made.node)

    def turn(val: Val) -> None:
        if item.optional_vars is not None:
            w.assign(item.optional_vars, val)
        inside()

    code = ast.For(item.optional_vars or ast.Tuple([], ast.Store()), item.context_expr, body, [])
    iterate(w, gen, turn, ast.copy_location(code, item.context_expr))


_BRANCHES = (ast.For, ast.While, ast.If, ast.Match, ast.Return, ast.Raise, ast.Try, ast.YieldFrom)


@functools.lru_cache(maxsize=1024)
def _without_finally(function: ast.FunctionDef) -> ast.FunctionDef:
    """Return a function with the clauses of `try` and `finally` one after the other: no exception is caught."""
    body: list[ast.stmt] = []
    for stmt in function.body:
        plain = isinstance(stmt, ast.Try) and not stmt.handlers and not stmt.orelse
        body += [*stmt.body, *stmt.finalbody] if isinstance(stmt, ast.Try) and plain else [stmt]
    return ast.copy_location(ast.FunctionDef(function.name, function.args, body, []), function)


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether statements contain one that leaves them."""
    return any(isinstance(n, ast.Return | ast.Break | ast.Continue) for n in _parts(body))


def _parts(body: list[ast.stmt]) -> list[ast.AST]:
    """Return the nodes of statements, without those of nested functions, and without loops that they leave alone."""
    todo: list[ast.AST] = [*body]
    for node in todo:  # it grows
        if isinstance(node, ast.For | ast.While):
            todo += [n for n in ast.walk(node) if isinstance(n, ast.Return)]
        elif not isinstance(node, ast.FunctionDef | ast.Lambda):
            todo += ast.iter_child_nodes(node)
    return todo
