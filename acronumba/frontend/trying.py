"""`try` statements, `raise`, and `contextlib.suppress`.

In: a statement. Out: its code. While the body of a `try` statement is walked, its clauses are in `Walker.handlers`. An
operation that fails, or a `raise`, branches to the first clause that catches its exception; each such point is kept,
with the exception as a value, and the clause begins where they all join. So neither the program nor the machine knows
of exceptions. What no clause catches is a failure of the instance, as without `try`.

A recursive function that is called in a `try` statement is compiled for the classes that its callers catch, and
returns such an exception beside its results (see `instances`).
"""

from __future__ import annotations

import ast
import contextlib
import operator
import types
from collections.abc import Callable, Sequence
from functools import partial

from acronumba.errors import Loc
from acronumba.frontend.block import Cases, Point, State
from acronumba.frontend.exceptions import Rejected
from acronumba.frontend.handlers import STATEMENTS, handles
from acronumba.frontend.impossible import impossible
from acronumba.frontend.kinds.functions import Func, Static
from acronumba.frontend.kinds.numbers import ALWAYS, NoneVal
from acronumba.frontend.kinds.objects import ObjectValue
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.names import alias, bind_name, function_value, path_of
from acronumba.frontend.raised import LIMITS, Clause, Handler
from acronumba.frontend.raising import caught_kind, check_class
from acronumba.frontend.source import yields
from acronumba.frontend.telling import is_quiet
from acronumba.frontend.walker import Walker

Except = tuple[tuple[type, ...], ast.ExceptHandler | None]  # what a clause catches, and its code


# ---- raise


@handles(STATEMENTS, ast.Raise)
def raise_statement(w: Walker, stmt: ast.Raise) -> None:
    """Walk a `raise` statement: the instance fails, unless a clause catches the exception."""
    exc = stmt.exc
    if exc is None:
        if w.handling:
            throw(w, w.handling[-1])
        else:
            raise_class(w, RuntimeError, "RuntimeError", ())
        return
    call = exc if isinstance(exc, ast.Call) else None
    named = exc if call is None else call.func
    local = not isinstance(named, ast.Name | ast.Attribute) or path_of(w, named) in w.state
    name = ast.unparse(named).rpartition(".")[2]
    if not w.handlers and not local:
        w.fail(name, message_text(call.args[0]) if call is not None and call.args else "")
        return
    func = w.value(named)
    if isinstance(func, Static) and isinstance(func.value, type) and issubclass(func.value, BaseException):
        raise_class(w, func.value, func.value.__name__ if local else name, call.args if call else (), call, stmt.cause)
        return
    val = func if call is None else w.value(exc)
    if caught_kind(val) is None:
        raise w.reject("ACR108", exc, seen=f"raise of {w.describe(val)}")
    if stmt.cause is not None and w.handlers:
        _take_cause(w, stmt.cause, None)
    throw(w, val)


def raise_class(
    w: Walker, cls: type, name: str, args: Sequence[ast.expr], call: ast.Call | None = None,
    cause: ast.expr | None = None,
) -> None:  # fmt: skip
    """Raise an exception of a known class; its arguments and cause are evaluated only in a `try` statement."""
    text = message_text(args[0]) if args else ""
    if w.block is None:
        return
    if w.unclear:
        w.catches(cls.__name__)
    named = call.keywords if call is not None else ()
    calm = all(map(is_calm, [*args, *named, *([cause] if cause is not None else ())]))
    caught = w.catcher(cls) is not None
    ours = w.outer_loc is not None
    if not (caught or (w.handlers and not (ours and calm))) or (ours and text in LIMITS):
        w.fail(name, text, ours=True)
        return
    if ours and calm:
        throw(w, ObjectValue(cls, (), ()))  # the library has other messages than Python
        return
    before, jumps = w.mark(), _caught_points(w)
    source = w.value(cause) if cause is not None and call is None else None  # Python calls the class after that
    val = _exception(w, cls, args, named, caught)
    if cause is not None:
        _take_cause(w, cause, source)
    if w.block is None:
        return
    if caught:
        throw(w, ObjectValue(cls, (), ()) if ours else val)
        return
    if calm and _caught_points(w) == jumps:  # nothing of this fails
        w.go_back(before)
    w.fail(name, text, ours=True)


def _caught_points(w: Walker) -> int:
    """Return how many points of the program raise an exception that a clause catches."""
    return sum(len(clause.raised) for handler in w.handlers for clause in handler.clauses)


def _take_cause(w: Walker, cause: ast.expr, val: Val | None) -> None:
    """Make the cause of an exception that is raised, from its value; it is evaluated here if that is None."""

    def check(v: Val) -> Val:
        if isinstance(v, Static) and isinstance(v.value, type) and issubclass(v.value, BaseException):
            v = w.call(v, (), {})
        if caught_kind(v) is None and not isinstance(v, NoneVal):
            rejection = w.reject("ACR108", cause, seen=f"raise from {w.describe(v)}")
            raise impossible(w, lambda c: setattr(Exception(), "__cause__", c), (v,), rejection)
        return NoneVal()

    w.each(w.value(cause) if val is None else val, check)


def _exception(
    w: Walker, cls: type, args: Sequence[ast.expr], named: Sequence[ast.keyword], caught: bool
) -> Val:  # fmt: skip
    """Make an exception that is raised in a `try` statement."""
    if caught:
        check_class(w, cls, len(args))
    before = w.mark()
    try:
        given = [w.expr(a) for a in args]
        return w.call(w.constant(cls), given, {k.arg or "**": w.expr(k.value) for k in named})
    except Rejected:  # of an argument, such as a text that the language does not have: it is needed only if read
        init = w.source_guard.attribute(cls, "__init__")
        if not all(map(is_calm, [*args, *named])) or (isinstance(init, types.FunctionType) and not _stores(w, init)):
            raise
        w.go_back(before)
        return ObjectValue(cls, (), ())


def is_calm(expr: ast.AST) -> bool:
    """Whether an expression neither fails nor changes anything, so that it need not be evaluated."""
    match expr:
        case ast.Call():
            if not is_quiet(expr):
                return False
        case ast.BinOp(op=ast.Add()) | ast.BinOp(left=ast.Constant(value=str()), op=ast.Mod()):
            pass
        case ast.BinOp() | ast.Subscript() | ast.NamedExpr() | ast.Starred() | ast.comprehension():
            return False
    return all(map(is_calm, ast.iter_child_nodes(expr)))


def _stores(w: Walker, init: types.FunctionType) -> bool:
    """Whether an `__init__` does no more than store its arguments, and hand some on to that of its base."""
    func = function_value(w, init)
    if not isinstance(func, Func):
        return False
    for stmt in func.source.body:
        match stmt:
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="__init__"), args=args)) if all(map(is_calm, args)):
                pass
            case ast.Assign(targets=[ast.Attribute(value=ast.Name())], value=value) if is_calm(value):
                pass
            case _:
                return False
    return True


def message_text(msg: ast.expr | None) -> str:
    """Return the text of an exception's argument: a constant, or else the source of the expression."""
    match msg:
        case None:
            return ""
        case ast.Constant(value=value):
            return str(value).replace("{", "{{").replace("}", "}}")
    return ast.unparse(msg).replace("{", "{{").replace("}", "}}")


def throw(w: Walker, val: Val, handlers: Sequence[Handler] | None = None) -> None:
    """Branch to the clauses that catch an exception, by its class; where none does, the instance fails."""
    w.check_poison(val)
    inner = w.handlers if handlers is None else handlers
    w.meet_again(w.along(_ways(w, val, [(h, c) for h in reversed(inner) for c in h.clauses]), operator.call)[0])
    assert w.block is None


def _ways(w: Walker, rest: Val, clauses: Sequence[tuple[Handler, Clause]]) -> Cases[Callable[[], None]]:
    """Yield the ways that an exception takes, by its class: into clauses, or out of the model."""
    for handler, clause in clauses:
        split = rest.split(w, caught_kind_in(clause))
        cls = caught_kind(rest)
        if split is not None:
            test, mine, rest = split
            yield test, partial(catch, w, handler, clause, mine)
        elif cls is not None and clause.catches(cls):
            yield ALWAYS, partial(catch, w, handler, clause, rest)
            return
    yield ALWAYS, partial(_uncaught, w, rest)


def _uncaught(w: Walker, val: Val) -> None:
    def fail(v: Val) -> Val:
        cls = caught_kind(v)
        w.fail("RuntimeError" if cls is None else cls.__name__, "", ours=True)
        return v

    w.each(val, fail)


def caught_kind_in(clause: Clause) -> Callable[..., bool]:
    """Return the predicate on types of exceptions that a clause catches."""
    return lambda t: clause.catches(t.cls)


def catch(w: Walker, handler: Handler, clause: Clause, val: Val) -> None:
    """Continue in a clause with an exception."""
    if w.block is None:
        return
    ends = any(f.func.source.facts.generates for f in w.frames[handler.depth :])
    if ends and issubclass(caught_kind(val) or object, StopIteration):  # Python makes another one of it
        throw(w, ObjectValue(RuntimeError, (), ()), w.handlers[: w.handlers.index(handler) + 1])
        return
    w.kept(val)
    alias(val)
    clause.note(w.leave(), val)


# ---- try


@handles(STATEMENTS, ast.Try)
def _try(w: Walker, stmt: ast.Try) -> None:
    if stmt.finalbody:
        with_finally(w, lambda: _try_one(w, stmt), stmt)
    else:
        _try_one(w, stmt)


def _try_one(w: Walker, stmt: ast.Try) -> None:
    clauses: list[Except] = []
    for node in stmt.handlers:
        clauses.append((_classes(w, node.type), node))
    try_except(w, stmt.body, clauses, stmt.orelse)


def _classes(w: Walker, named: ast.expr | None) -> tuple[type, ...]:
    """Return the classes that a clause names."""
    if named is None:
        return (BaseException,)
    with w.at_node(named):
        value = w.static(w.expr(named))
        found = value if isinstance(value, tuple) else (value,)
        if not all(isinstance(c, type) and issubclass(c, BaseException) for c in found):
            raise w.reject("ACR108", named, seen=f"except {ast.unparse(named)}: not a class of exceptions")
        return found


def try_except(
    w: Walker, body: Sequence[ast.stmt], clauses: Sequence[Except], orelse: Sequence[ast.stmt]
) -> None:  # fmt: skip
    """Walk the body of a `try` statement, then its `else` clause and the clauses that catch something."""
    found = [Clause(classes) for classes, _ in clauses]
    handler = Handler(found, len(w.frames), w.counter)
    entry = set(w.state)
    w.handlers.append(handler)
    w.body(body)
    w.handlers.remove(handler)
    w.body(orelse)
    ends = w.leave()
    for clause, (_, node) in zip(found, clauses, strict=True):
        val = joined(w, handler, clause, entry)
        if val is not None and node is not None:
            _walk_clause(w, val, node)
        ends += w.leave()
    w.join(ends)


def joined(w: Walker, handler: Handler, clause: Clause, entry: set[object]) -> Val | None:
    """Continue where a clause begins; return the exception that it caught, None if it catches none."""
    if not clause.raised:
        return None
    points = [(block, _outside(w, state, handler, entry)) for (block, state), _ in clause.raised]
    return w.join_values(points, [val for _, val in clause.raised])


def _outside(w: Walker, state: State, handler: Handler, entry: set[object]) -> State:
    """Return the part of a state that exists outside of a `try` statement: without the names of inlined calls."""

    def ended(key: tuple[object, ...]) -> bool:
        scope = key[0]
        if not isinstance(scope, tuple) or scope[0] == "object" or key in entry:
            return False
        if isinstance(key[1], str) and key[1].startswith("#"):
            return True
        known = w.scopes.get(scope)
        new = any(isinstance(k, int) and k > handler.counter for k in scope)
        return new and not (known is not None and known[1].source.facts.nests)

    return {k: v for k, v in state.items() if not ended(k)}


def _walk_clause(w: Walker, val: Val, node: ast.ExceptHandler) -> None:
    """Walk the code of a clause; the name of its exception ends with it."""
    jumps, raised = _exits(w)
    before = [*map(len, jumps), *map(len, raised)]
    if node.name:
        bind_name(w, node.name, val)
    w.handling.append(val)
    w.body(node.body)
    w.handling.pop()
    if not node.name:
        return
    key = (w.frame.scope, node.name)
    states = [w.state] if w.block is not None else []
    ends = [*jumps, *([point for point, _ in found] for found in raised)]
    states += [state for points, n in zip(ends, before, strict=True) for _, state in points[n:]]
    for state in states:
        state.pop(key, None)


def _exits(w: Walker) -> tuple[list[list[Point]], list[list[tuple[Point, Val]]]]:
    """Return the lists of points to which a statement may jump, but those of returns."""
    jumps = [points for loop in w.frame.loops[-1:] for points in (loop.breaks, loop.continues)]
    return jumps, [clause.raised for handler in w.handlers for clause in handler.clauses]


# ---- finally


def with_finally(w: Walker, inner: Callable[[], None], stmt: ast.Try) -> None:
    """Walk a statement and, on each way out of it, the code of its `finally` clause."""
    frame = w.frame
    if yields([stmt]):
        raise w.reject("ACR101", stmt, seen="`yield` inside of a `try` statement with `finally`")
    loop = frame.loops[-1] if frame.loops else None
    everything = Clause((BaseException,))
    handler = Handler([everything], len(w.frames), w.counter)
    entry = set(w.state)
    returns, frame.returns = frame.returns, []
    jumps = (loop.breaks, loop.continues) if loop is not None else ([], [])
    if loop is not None:
        loop.breaks, loop.continues = [], []
    catching = bool(w.handlers) or _jumps(stmt.finalbody)
    if catching:
        w.handlers.append(handler)
    try:
        inner()
    finally:
        mine, frame.returns = frame.returns, returns
        left: tuple[list[Point], list[Point]] = (loop.breaks, loop.continues) if loop is not None else ([], [])
        if loop is not None:
            loop.breaks, loop.continues = jumps
    if catching:
        w.handlers.remove(handler)
    final = partial(w.body, stmt.finalbody)
    final()
    ends = w.leave()
    _return_after(w, mine, final)
    for points, target in zip(left, jumps, strict=True):
        w.join(points)
        final()
        target += w.leave()
    val = joined(w, handler, everything, entry)
    if val is not None:
        final()
        if w.block is not None:
            throw(w, val)
    w.join(ends)


def _return_after(w: Walker, returns: Sequence[tuple[Point, Val, Loc]], final: Callable[[], None]) -> None:
    """Return values from the current function after the code of a `finally` clause."""
    for point, val, loc in returns:
        w.enter([point])
        w.kept(val)
        alias(val)
        final()
        w.end_call(val, loc)


def _jumps(body: Sequence[ast.AST]) -> bool:
    """Whether statements may leave a `finally` clause, so that the exception ends."""
    todo = [*body]
    for node in todo:  # it grows
        if isinstance(node, ast.Return | ast.Break | ast.Continue):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            todo += ast.iter_child_nodes(node)
    return False


# ---- suppress


def suppressed(w: Walker, item: ast.withitem) -> tuple[type, ...] | None:
    """Return the classes of `contextlib.suppress(...)`; None for another context manager."""
    call = item.context_expr
    if not isinstance(call, ast.Call) or item.optional_vars is not None or call.keywords:
        return None
    func = w.expr(call.func)
    if not isinstance(func, Static) or func.value is not contextlib.suppress:
        return None
    return tuple(cls for a in call.args for cls in _classes(w, a))
