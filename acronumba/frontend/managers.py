"""Context managers of the user: generator functions under `contextlib.contextmanager`.

The body of the `with` statement is walked at the `yield`, as that of a loop over the generator.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

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
    last = manager.source.body[-1]
    inner = [n for stmt in manager.source.body for n in ast.walk(stmt)]
    once = sum(isinstance(n, ast.Yield | ast.YieldFrom) for n in inner) == 1
    if not once or any(isinstance(n, ast.For | ast.While | ast.If | ast.Return | ast.YieldFrom) for n in inner):
        raise w.reject("ACR102", seen=f"{name}, a context manager with other than one `yield` on every path")
    ends = isinstance(last, ast.Expr) and isinstance(last.value, ast.Yield)
    if _leaves(body) and not (ends and not any(isinstance(n, ast.Break | ast.Continue) for n in _parts(body))):
        seen = f"a `return`, `break` or `continue` out of the block of {name}"
        raise w.reject("ACR102", seen=seen, rewrite="set a variable in the block, and leave after it")
    gen = w.value(item.context_expr)
    assert isinstance(gen, Generator)

    def turn(val: Val) -> None:
        if item.optional_vars is not None:
            w.assign(item.optional_vars, val)
        inside()

    code = ast.For(item.optional_vars or ast.Tuple([], ast.Store()), item.context_expr, body, [])
    iterate(w, gen, turn, ast.copy_location(code, item.context_expr))


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
