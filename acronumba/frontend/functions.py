"""Calls: callees, arguments, inlining of helpers.

A function that is not recursive is inlined (but see `helpers`). A recursive one is walked once for each set of argument
types (`instances`).
"""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from acronumba.frontend.arrays import end_of_library
from acronumba.frontend.attributes import attribute, attribute_of, attribute_owner, class_attribute
from acronumba.frontend.boxes import open_boxes
from acronumba.frontend.calls.arguments import bind
from acronumba.frontend.calls.call import call_method, call_static
from acronumba.frontend.calls.objects import is_manager, runtime_class
from acronumba.frontend.calls.of_library import dispatched, is_generic
from acronumba.frontend.calls.signatures import arity, has_init
from acronumba.frontend.comprehensions import as_iterable, extend, to_list
from acronumba.frontend.conditions import is_type_test, truth_value
from acronumba.frontend.exceptions import Dead, Rejected, Restart
from acronumba.frontend.handlers import CALLS, EXPRESSIONS, WORDS, handles
from acronumba.frontend.helpers import is_called, note_inlined
from acronumba.frontend.impossible import impossible
from acronumba.frontend.instances import call_instance
from acronumba.frontend.kinds.errors import ErrorValue
from acronumba.frontend.kinds.functions import Func, MethodName, OneOfFunctions, Partial, Static, method_of
from acronumba.frontend.kinds.iterators import Generator, Starred, Zip
from acronumba.frontend.kinds.lists import ListVal, StaticList
from acronumba.frontend.kinds.maps import DictVal
from acronumba.frontend.kinds.numbers import NoneVal, number
from acronumba.frontend.kinds.objects import MutableObject, ObjectValue, Ref, SharedVal
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.unions import UnionVal
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.library.decorators import APART
from acronumba.frontend.lists import append, list_slice
from acronumba.frontend.memos import check_cached, check_effects, is_cached, remembered
from acronumba.frontend.names import (
    alias,
    behind,
    check_free,
    cursor,
    default_value,
    function_value,
    lend,
    named_iterator,
    path_of,
    take_back,
    waiting,
)
from acronumba.frontend.overlay import check_uncached
from acronumba.frontend.walker import Walker
from acronumba.ir import nodes as ir
from acronumba.ir.types import BoolT, FloatT, FunctionT, IntT, MethodT, NeverT, members


@handles(EXPRESSIONS, ast.Call)
def call_expr(w: Walker, node: ast.Call) -> Val:
    """Evaluate a call: the callee, its arguments, and the call itself."""
    if is_type_test(w, node):
        return truth_value(w, node)
    func = callee(w, node.func)
    args = arguments(w, func, node)
    kwargs: dict[str, Val] = {}
    for kw in node.keywords:
        if kw.arg is not None:
            given = {kw.arg: w.part(kw.value)}
            with w.at_node(kw):
                _add_keywords(w, kwargs, given)
            continue
        val = w.expr(kw.value)
        shared = val.unshared(w)
        if not isinstance(shared, DictVal) or not all(type(k) is str for k in shared.keys):
            raise w.reject("ACR203", kw.value, seen=f"** of {w.describe(val)}")
        with w.at_node(kw.value):
            _add_keywords(w, kwargs, dict(zip(shared.keys, shared.items, strict=True)))
    w.check_poison(func, *args, *kwargs.values())
    if w.block is None:
        return ErrorValue()
    return w.call(func, args, kwargs)


def arguments(w: Walker, func: Val, node: ast.Call) -> list[Val]:
    """Evaluate the positional arguments."""
    given = [(a, _spread_out(w, a.value) if isinstance(a, ast.Starred) else w.part(a)) for a in node.args]
    args: list[Val] = []
    for a, val in given:
        items = w.items_of(val) if isinstance(a, ast.Starred) else (val,)
        if items is None and isinstance(func, Static) and func.value in (min, max):
            return [_compared(w, node, given)]
        if items is None and isinstance(func, Static) and func.value is zip and len(given) == 1:
            return [Zip((rows_of(w, val),), starred=True)]
        if items is None and a is given[-1][0] and (isinstance(val, ListVal) or val.is_iterator) and takes_list(func):
            items = (Starred(rows_of(w, val)),)
        if items is None:
            raise w.reject("ACR203", a, seen="* of a value whose length is known only at run time")
        args += items
    return args


def _spread_out(w: Walker, part: ast.expr) -> Val:
    """Evaluate the iterable of an argument `*x`; all items of a lazy iterator are computed."""
    val = w.expr(part)
    return as_iterable(w, val) if val.is_lazy else val


def _compared(w: Walker, call: ast.Call, given: Sequence[tuple[ast.expr, Val]]) -> ListVal:
    """Return the arguments of `max(*xs)` as a list; a single one would be an iterable."""
    if any(k.arg == "default" for k in call.keywords):
        raise w.reject("ACR203", seen="default= of several values")
    out = listed(w, [(isinstance(e, ast.Starred), v) for e, v in given])
    if sum(not isinstance(e, ast.Starred) for e, _ in given) < 2:
        numbers = all(isinstance(t, IntT | FloatT | BoolT | NeverT) for t in members(out.item))
        enough = w.scalar("ge", w.ops.list_lengths(out), number(2))
        w.check(enough, "TypeError", "min() or max() of a single argument, from *", ours=not numbers)
    return out


def takes_list(func: Val) -> bool:
    """Whether a function can be given `*xs` of run-time length: of the library, if it takes a fixed number."""
    return (
        not isinstance(func, Static)
        or isinstance(func.value, MethodName)
        or has_init(func.value)
        or arity(func.value) is not None
    )


def rows_of(w: Walker, val: Val) -> ListVal:
    """Return the argument of `zip(*rows)`: a copy of the list, not affected by later mutation."""
    rows = to_list(w, val)
    return list_slice(w, rows, number(0), 1, w.ops.list_lengths(rows))


def listed(w: Walker, given: Sequence[tuple[bool, Val]]) -> ListVal:
    """Return arguments of a call as one list; `*xs` of run-time length are marked."""
    cell = w.cell(("arguments", w.frame.path, *w.site))
    w.make_real(cell)
    out = w.realise(StaticList((), cell))
    for starred, val in given:
        if starred:
            extend(w, out, val)
        else:
            append(w, out, val)
    return out


def _add_keywords(w: Walker, kwargs: dict[str, Val], given: Mapping[str, Val]) -> None:
    for name, val in given.items():
        if name in kwargs:
            raise w.reject("ACR203", seen=f"{name} given twice")
        kwargs[name] = val


def callee(w: Walker, node: ast.expr) -> Val:
    """Evaluate the callee; a method of a union of objects is looked up in each of them when it is called."""
    if not isinstance(node, ast.Attribute) or path_of(w, node) in w.state:
        return w.expr(node)
    with w.at_node(node):
        owner = attribute_owner(w, node)
        val: Val = method_of(owner, node.attr) if owner.is_several else attribute_of(w, owner, node)
    if w.block is None:
        raise Dead
    return val


def not_callable(w: Walker, func: Val) -> Exception:
    """Return the exception to raise for a call of a value that is no function."""
    return impossible(w, lambda f: f(), (func,), w.reject("ACR301", seen=f"{w.describe(func)} cannot be called"))


def call_object(w: Walker, func: Val, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val:
    """Call the `__call__` of an object."""
    cls = next(iter(func.object_classes()), None)
    if cls is None or not w.has(cls, "__call__"):
        raise not_callable(w, func)
    return w.call(class_attribute(w, func, cls, "__call__"), args, kwargs)


def bind_arguments(w: Walker, func: Func, args: Sequence[Val], kwargs: Mapping[str, Val]) -> dict[str, Val]:
    """Return a mapping of the parameters of a function to their values."""
    a = func.source.node.args
    name = func.source.name
    if args and isinstance(args[-1], Starred):
        args = spread(w, func, args, kwargs)
    try:
        out, _ = bind(w, name, parameters_of(a), args, kwargs)
    except Rejected as error:
        raise w.fails("TypeError", error) from None
    if a.vararg is not None and args and isinstance(args[-1], Starred):
        out[a.vararg.arg] = replace(args[-1].inner, cls=tuple)
    add_defaults(w, func, out)
    missing = [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs) if p.arg not in out]
    if missing:
        rejection = w.reject("ACR203", seen=f"{name} without {', '.join(missing)}")
        raise w.fails("TypeError", rejection, f"{name}() missing {len(missing)} arguments: {', '.join(missing)}")
    return out


def spread(w: Walker, func: Func, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Sequence[Val]:
    """Return the arguments of a call that ends with `*xs`: a parameter behind its items gets its default."""
    *before, star = args
    assert isinstance(star, Starred)
    a = func.source.node.args
    plain = [p.arg for p in (*a.posonlyargs, *a.args)]
    if a.vararg is not None and len(before) == len(plain):
        return args
    if a.vararg is not None and len(before) > len(plain):
        rest = listed(w, [(False, v) for v in before[len(plain) :]] + [(True, star.inner)])
        return [*before[: len(plain)], Starred(rest)]
    defaults: dict[str, Val] = {}
    add_defaults(w, func, defaults)
    left = [name for name in plain[len(before) :] if name not in kwargs]
    values = star.spread(w, [defaults.get(name) for name in left], a.vararg is not None, func.source.name)
    if a.vararg is None:
        return [*before, *values]
    n = w.ops.list_lengths(star.inner)
    size = w.scalar("max", w.scalar("sub", n, number(len(left))), number(0))
    start = w.scalar("sub", n, size)
    return [*before, *values, Starred(list_slice(w, star.inner, start, 1, size))]


def add_defaults(w: Walker, func: Func, params: dict[str, Val]) -> None:
    """Set missing parameters of a function to their defaults."""
    a = func.source.node.args
    names = [p.arg for p in (*a.posonlyargs, *a.args)]
    if func.fn is None:
        names = names[len(names) - len(func.defaults) :]
        for name, val in (*zip(names, func.defaults, strict=True), *func.kw_defaults.items()):
            params.setdefault(name, val)
        return
    given: Any
    for given in (func.fn.__defaults__ or (), func.fn.__kwdefaults__ or {}):
        places = given if isinstance(given, dict) else range(len(given))
        for name, k in zip(given if isinstance(given, dict) else names[len(names) - len(given) :], places, strict=True):
            if name not in params:
                params[name] = default_value(w, given[k], given, k, f"{func.source.name}({name})")


@handles(WORDS, FunctionT)
def _of_words(w: Walker, t: FunctionT, vars: Sequence[ir.Var]) -> Val:
    return function_value(w, t.fn) if isinstance(t.fn, types.FunctionType) else w.constant(t.fn)


@handles(WORDS, MethodT)
def _method_of_words(w: Walker, t: MethodT, vars: Sequence[ir.Var]) -> Val:
    return Partial(w.constant(t.fn), (w.from_words(t.inner, tuple(vars)),), is_method=True)


@handles(CALLS, Func)
def call_function(w: Walker, func: Func, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val:
    """Call a function of the user: inlined, or by a call if it is recursive."""
    params = bind_arguments(w, func, args, kwargs)
    ends = not func.source.facts.nests and not func.source.facts.generates and func.code not in w.facts.recursive
    for v in params.values():
        if not ends:
            alias(v)
        if func.code in w.facts.recursive and not func.source.facts.generates:
            check_free(w, v)
    code = func.code
    if func.source.facts.generates:
        if code not in w.facts.recursive and not func.of_library and any(f.func.code == code for f in w.frames):
            w.facts.recursive.add(code)
            raise Restart
        return Generator(func, params, w.here)
    if func.fn in APART:
        handlers, w.handlers = w.handlers, []
        try:
            return call_instance(w, func, params)
        finally:
            w.handlers = handlers
    recursive = code in w.facts.recursive
    if not recursive and _is_walked(w, func):
        w.facts.recursive.add(code)
        raise Restart
    called = recursive or is_called(w, func, params.values())
    if not func.of_library:
        for frame in w.frames:
            frame.calls_user = True
    cached = is_cached(w, func)
    if cached:
        params = check_cached(w, func, params)
    w.inside_cached += cached
    try:
        if recursive and w.inside_cached and w.facts.overlaid:
            check_uncached(w, func.source.name)
        if cached and recursive:
            out = remembered(w, func, args, kwargs, params, lambda: call_instance(w, func, params))
        else:
            out = call_instance(w, func, params) if called else inline(w, func, params, ends)
    finally:
        w.inside_cached -= cached
    if cached and not recursive:
        check_effects(w, func, "that does not call itself")
    return shared_by_calls(w, out, func.source.name) if cached else out


def _is_walked(w: Walker, func: Func) -> bool:
    """Whether a function calls itself, directly or not.

    A function of the library may be in the arguments of its own call, as in `sum(sum(row) for row in rows)`: it calls
    itself only if its code has its name.
    """
    if func.of_library and func.fn is not None:
        name = func.fn.__name__
        if name != "<lambda>" and name not in func.fn.__code__.co_names:
            return False
    return any(f.func.code == func.code for f in w.frames)


def shared_by_calls(w: Walker, val: Val, name: str) -> Val:
    """Return the result of a cached function (`functools.lru_cache`), which all calls share and none may mutate."""
    val = w.whole(val)
    if isinstance(val, TupleVal):
        return TupleVal(tuple(shared_by_calls(w, v, name) for v in val.items))
    out = val.shared_by_calls()
    if out is None:
        seen = f"{w.describe(val)}, which all calls of {name} share"
        raise w.reject("ACR210", seen=seen, rewrite="return a tuple, or leave out the cache")
    return out


def inline(w: Walker, func: Func, params: Mapping[str, Val], ends: bool = False) -> Val:
    """Inline a call: walk the body of the function; `ends`: no name of it is used behind the call."""
    frame = w.push(func, (*w.frame.path, func.source.node.lineno, w.site))
    saved = w.source, w.here, w.loc, w.outer_loc, w.caller, w.asked, w.unclear
    frame.of_library, first, before = func.of_library, len(w.events), w.steps
    w.outer_loc = w.loc if frame.of_library else None
    w.asked, w.unclear = (w.asked, w.unclear) if frame.of_library else ([], False)
    w.source, w.caller = func.source, w.loc
    frame.lent = [] if ends else None
    for name, val in params.items():
        if frame.lent is not None:
            lend(val, frame.lent)
        if val.is_iterator:
            val = cursor(w, val, name) or waiting(w, val, name) or named_iterator(w, val)
        w.kept(val)
        w.state[(frame.scope, name)] = val
    open_boxes(w, frame)
    w.body(func.source.body)
    w.end_call(NoneVal(), frame.last)
    w.source, w.here, w.loc, w.outer_loc, w.caller, w.asked, w.unclear = saved
    w.frames.pop()
    note_inlined(w, func, w.steps - before)
    take_back(frame.lent or [])
    points = []
    for (block, state), _, _ in frame.returns:
        if not func.source.facts.nests:
            state = {k: v for k, v in state.items() if k[0] != frame.scope}
        points.append((block, state))
    out = w.join_values(points, [v for _, v, _ in frame.returns])
    if frame.of_library:
        end_of_library(w, frame, first, (*params.values(), out))
    return out


def parameters_of(a: ast.arguments) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function of the user by name, without their defaults."""
    kinds: list[tuple[Sequence[ast.arg | None], Any]] = [
        (a.posonlyargs, inspect.Parameter.POSITIONAL_ONLY),
        (a.args, inspect.Parameter.POSITIONAL_OR_KEYWORD),
        ([a.vararg], inspect.Parameter.VAR_POSITIONAL),
        (a.kwonlyargs, inspect.Parameter.KEYWORD_ONLY),
        ([a.kwarg], inspect.Parameter.VAR_KEYWORD),
    ]
    return {p.arg: inspect.Parameter(p.arg, kind) for names, kind in kinds for p in names if p is not None}


@handles(CALLS, Static)
def _call_known(w: Walker, func: Static, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val:
    if isinstance(func.value, MethodName):
        return _call_by_name(w, func.value.name, args[0], args[1:], kwargs)
    if is_manager(func.value):
        return w.call(function_value(w, w.source_guard.item(func.value, "__wrapped__")), args, kwargs)
    if is_generic(func.value) and args:
        return w.each(args[0], lambda first: dispatched(w, func.value, [first, *args[1:]], kwargs), itself=True)
    wrapped = behind(w, func.value)
    inner = function_value(w, wrapped) if wrapped is not None else func
    if isinstance(inner, Func):
        return call_function(w, inner, args, kwargs)
    return call_static(w, func.value, list(args), dict(kwargs))


def _call_by_name(w: Walker, name: str, owner: Val, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val:
    """Call a method of a value, or of each alternative of a union."""
    if owner.is_several:
        return w.each(owner, lambda o: w.call(attribute(w, o, name), args, kwargs), itself=True)
    return call_method(w, owner, name, list(args), dict(kwargs))


@handles(CALLS, Ref, UnionVal, OneOfFunctions, ObjectValue, MutableObject, SharedVal)
def _call_objects(w: Walker, func: Val, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val:
    if not func.is_several:
        return call_object(w, func, args, kwargs)
    rejected: list[Rejected] = []
    called = []

    def one(f: Val) -> Val:
        try:
            out = w.call(f, [_of_class(w, func, f, a) for a in args], kwargs)
        except Rejected as error:
            code = "" if error.error is None else error.error.code
            if not isinstance(f, Static) or code not in ("ACR201", "ACR210", "ACR302"):
                raise
            rejected.append(error)
            w.fail("ACR302" if code == "ACR302" else "ACR201", w.describe(f), ours=True)
            raise Dead from None
        called.append(f)
        return out

    result = w.each(func, one)
    if rejected and not called:
        raise rejected[0]
    return result


def _of_class(w: Walker, func: Val, cls: Val, arg: Val) -> Val:
    """Return an argument of `type(x)` as it is where the class is one of those: `x` itself is narrowed to the class."""
    if not isinstance(func, OneOfFunctions) or func.of is None or not func.of.narrows(arg):
        return arg
    kept = w.keep(func.of, lambda t: runtime_class(t) is w.static(cls))
    return w.narrowed(kept) if kept.possible else arg
