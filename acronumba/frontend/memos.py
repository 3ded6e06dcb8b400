"""Results of recursive functions under `functools.cache` or `lru_cache`, so that each is computed once in a call.

A function of a module has a dict of results from where the call begins, and a nested function a new one at each
definition. Keys are the form of the call and its arguments, if these are ints, strings and tuples of them; other calls
are computed anew. What would differ from Python then is rejected (`check_cached`): side effects, arguments of several
types that may be equal, and objects that may be mutated between two calls.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from acronumba.frontend.calls.objects import runtime_class
from acronumba.frontend.exceptions import Rejected, Restart
from acronumba.frontend.keyed import filled, find, present, put
from acronumba.frontend.kinds.functions import Func
from acronumba.frontend.kinds.maps import MapVal
from acronumba.frontend.kinds.numbers import number
from acronumba.frontend.kinds.objects import MutableObject, Ref
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import NOT_CONST, Val
from acronumba.frontend.loops import unless
from acronumba.frontend.source import FunctionNode
from acronumba.frontend.walker import Walker
from acronumba.ir.types import (
    FLOAT,
    NEVER,
    Array0T,
    BoolT,
    EnumT,
    FloatT,
    IntT,
    ListT,
    NeverT,
    NoneT,
    ScalarT,
    StrT,
    TensorT,
    TextT,
    TupleT,
    Type,
    UnionT,
    all_parts,
    members,
    type_text,
    union,
    wrong_key,
)

# Types of results that are kept: of values that cannot be mutated.
_KEPT = (IntT, FloatT, BoolT, NoneT, StrT, TextT, EnumT, TensorT, TupleT, ListT, UnionT, NeverT)

_NUMBERS = (IntT, BoolT, FloatT, ScalarT)
_MUTATING = {
    *("append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "add", "discard", "update"),
    *("setdefault", "popitem", "appendleft", "popleft", "extendleft", "rotate"),
}

Place = tuple[Any, str]  # key of the dict in the state


def memo_name(name: str) -> str:
    """Return the name of the dict of a nested function, in the scope of its definition."""
    return f"{name} (results)"


def _place(func: Func) -> Place:
    if func.scope is None:
        return ("overlay", ("results", func.code)), "results"  # every recursive function gets it: `overlays_of`
    return func.scope, memo_name(func.source.name.rpartition(".")[2])


def _begin(w: Walker, place: Place, site: tuple[Any, ...]) -> None:
    cell = w.cell(("results", *site))
    cell.real = True
    w.state[place] = filled(w, cell, ())


def begin_memos(w: Walker) -> None:
    """Begin a call: make the dicts of the functions of modules."""
    for code, place in w.facts.memos.items():
        if place[0][0] == "overlay":
            _begin(w, place, (code,))


def begin_memo(w: Walker, func: Func) -> None:
    """Make the dict of a nested function where it is defined."""
    if func.code in w.facts.memos:
        _begin(w, _place(func), (func.code, w.frame.path))


def _may_be_mutated(t: Type) -> bool:
    lists = (isinstance(t, ListT) and not t.tupled) or (isinstance(t, TupleT) and t.listed)
    return lists or not isinstance(t, _KEPT)


def _forget(w: Walker, func: Func) -> NoReturn:
    """Compute the results of a function anew from now on."""
    w.facts.forgetful.add(func.code)
    w.facts.begin_again()
    raise Restart


def remembered(
    w: Walker, func: Func, args: Sequence[Val], kwargs: Mapping[str, Val], params: Mapping[str, Val],
    compute: Callable[[], Val],
) -> Val:  # fmt: skip
    """Return the result of a call, computed unless it is known."""
    forms = w.forms.setdefault(func.code, [])
    form = len(args), tuple(kwargs)
    if form not in forms:
        forms.append(form)
    key = TupleVal((number(forms.index(form)), *params.values()))
    types = [v.word_type() for v in key.items]
    known = [t for t in types if t is not None]
    if w.cached[_definition(w, func)]:
        check_effects(w, func, "with a finite maxsize")
    if len(known) < len(types) or func.code in w.facts.forgetful or wrong_key(TupleT(tuple(known))):
        check_effects(w, func, "with arguments or results that are not kept")
        return compute()
    memo = w.state.get(_place(func))
    if memo is None and func.code in w.facts.memos:
        check_effects(w, func, "that is called where it is not defined")
        return compute()
    if memo is None:
        w.facts.memos[func.code] = _place(func)
        w.facts.begin_again()
        raise Restart
    if not isinstance(memo, MapVal):
        seen = f"{func.source.name}, a recursive function under a cache that is defined in a branch"
        raise _rejection(w, seen, "define it before the `if`, or leave out the cache")
    kept = memo.type.key
    if kept != NEVER and wrong_key(union(kept, TupleT(tuple(known)))):  # of several types that may be equal
        _forget(w, func)
    index = find(w, memo, key)

    def computed() -> Val:
        out = compute()
        if w.block is not None:
            if any(_may_be_mutated(u) for u in all_parts(w.type_of(out))):
                _forget(w, func)
            put(w, memo, key, out)
        return out

    return w.cond(present(w, index), lambda: memo.value_at(w, index), computed)


# ---- calls that Python's cache would answer otherwise


def _rejection(w: Walker, seen: str, rewrite: str) -> Rejected:
    message = "this use of functools.cache or lru_cache is not supported"
    return w.reject("ACR210", seen=seen, rewrite=rewrite, message=message)


def check_cached(w: Walker, func: Func, params: Mapping[str, Val]) -> dict[str, Val]:
    """Return the arguments of a cached function; fail or reject where they cannot be looked up as in Python."""
    out = {}
    for name, val in params.items():
        out[name] = val = _hashable(w, val)
        _check_type(w, func, name, val)
        made = isinstance(val, MutableObject) or (isinstance(val, Ref) and val.own is not False)
        if made and not all(_is_frozen(cls) for cls in val.object_classes()):
            seen = f"{name} of the cached function {func.source.name}, an object that was made in the call"
            raise _rejection(w, seen, "leave out the cache, or keep the results in a dict of the object")
    return out


def _definition(w: Walker, func: Func) -> object:
    return func.source.node if func.source.node in w.cached else func.fn.__code__


def is_cached(w: Walker, func: Func) -> bool:
    """Whether a function is under `functools.cache` or `lru_cache`."""
    return func.source.node in w.cached or (func.fn is not None and func.fn.__code__ in w.cached)


def is_bounded(decorator: ast.expr, function: object) -> bool:
    """Whether the decorator of a nested function is an `lru_cache` of a finite size."""
    if not isinstance(decorator, ast.Call):
        return function is lru_cache
    given = [*decorator.args[:1], *(k.value for k in decorator.keywords if k.arg == "maxsize")]
    return not given or not isinstance(given[0], ast.Constant) or given[0].value is not None


def _is_frozen(cls: type) -> bool:
    params = getattr(cls, "__dataclass_params__", None)
    return params is not None and bool(params.frozen)


def _is_unhashable(cls: object) -> bool:
    return isinstance(cls, type) and getattr(cls, "__hash__") is None  # noqa: B009


def _is_array(t: Type | None) -> bool:
    return (isinstance(t, TensorT) and t.rank > 0) or (isinstance(t, Array0T) and t.sure)


def _hashable(w: Walker, val: Val) -> Val:
    """Return an argument; it fails where Python cannot hash it."""
    if isinstance(val, TupleVal) and not _is_unhashable(val.python_class):
        for v in val.items:
            _hashable(w, v)
        return val
    if val.is_several:
        classes = {runtime_class(t) for t in members(w.type_of(val))}
        for cls in sorted(filter(_is_unhashable, classes), key=lambda c: c.__name__):
            val = unless(w, val, lambda t: runtime_class(t) is cls, f"unhashable type: '{cls.__name__}'")  # noqa: B023
        return val
    cls = np.ndarray if _is_array(val.word_type()) else val.python_class
    if not _is_unhashable(cls):
        return val
    text = f"unhashable type: '{cls.__module__ + '.' if cls.__module__ == 'numpy' else ''}{cls.__name__}'"
    raise w.fails("TypeError", w.reject("ACR309", seen=f"{w.describe(val)} as an argument of a cached function"), text)


def _check_type(w: Walker, func: Func, name: str, val: Val) -> None:
    """Reject an argument that may be equal to one of another type in another call."""
    t = val.word_type()
    if t is None or w.block is None:
        return
    known = w.keys.setdefault((func.code, name), [])
    const = w.static(val)
    if not isinstance(const, int | float | str):
        const = NOT_CONST
    for u in members(t):
        if any(_may_be_confused(u, const, *other) for other in known):
            both = " and ".join(dict.fromkeys(type_text(v) for v in (*(v for v, _ in known), u)))
            seen = f"{both}, which may be equal, as {name} of the cached function {func.source.name}"
            raise _rejection(w, seen, "convert them to one type, or leave out the cache")
        if (u, const) not in known:
            known.append((u, const))


def _may_be_confused(a: Type, x: object, b: Type, y: object) -> bool:
    """Whether values (`NOT_CONST`: unknown) of two types may be equal, but not the same."""
    if NOT_CONST not in (x, y):
        return bool(x == y) and (a != b or repr(x) != repr(y))
    if any(isinstance(v, float) and not v.is_integer() and t != FLOAT for v, t in ((x, b), (y, a))):
        return False
    return a != b and _may_be_equal(a, b)


def _may_be_equal(a: Type, b: Type) -> bool:
    if isinstance(a, TupleT | ListT) and isinstance(b, TupleT | ListT):
        parts = [t.items if isinstance(t, TupleT) else (t.item,) for t in (a, b)]
        if isinstance(a, ListT) or isinstance(b, ListT):
            parts = [(union(*p),) for p in parts]
        pairs = [(u, v) for x, y in zip(*parts, strict=False) for u in members(x) for v in members(y)]
        return len(parts[0]) == len(parts[1]) and any(u != v and _may_be_equal(u, v) for u, v in pairs)
    if isinstance(a, EnumT) or isinstance(b, EnumT):
        classes = [t.cls for t in (a, b) if isinstance(t, EnumT)]
        others = [t for t in (a, b) if not isinstance(t, EnumT)]
        numbers = all(issubclass(c, int) for c in classes) and all(isinstance(t, _NUMBERS) for t in others)
        return numbers or (
            all(issubclass(c, str) for c in classes) and all(isinstance(t, StrT | TextT) for t in others)
        )
    return isinstance(a, _NUMBERS) and isinstance(b, _NUMBERS)


def check_effects(w: Walker, func: Func, which: str) -> None:
    """Reject a cached function that depends on when it runs, where it runs more often than in Python."""
    node = func.source.node
    if any(name is None or name not in _names(node) for _, name in _changes(node)):
        seen = f"the cached function {func.source.name} {which}, which changes values outside of it"
        raise _rejection(w, seen, "leave out the cache, or return the values instead")
    outer = w.scopes[func.scope][1] if func.scope is not None else None
    for line, name in _changes(outer.source.node) if outer is not None else ():
        if name in func.source.facts.free and line > node.lineno:
            seen = f"the cached function {func.source.name} {which}; it reads {name}, which may change between calls"
            raise _rejection(w, seen, f"leave out the cache, or make {name} an argument")


def _own(node: FunctionNode) -> Iterator[ast.AST]:
    """Yield the nodes of a function's body."""
    for part in node.body if isinstance(node.body, list) else [node.body]:
        yield from ast.walk(part)


@lru_cache(maxsize=1024)
def _names(node: FunctionNode) -> frozenset[str]:
    """Return the names that a function assigns to."""
    return frozenset(n.id for n in _own(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


@lru_cache(maxsize=1024)
def _changes(node: FunctionNode) -> tuple[tuple[int, str | None], ...]:
    """Return where the code of a function may change which names or their values; None: a name of another scope."""

    def root(n: ast.expr) -> str:
        while isinstance(n, ast.Attribute | ast.Subscript):
            n = n.value
        return n.id if isinstance(n, ast.Name) else ""

    out: list[tuple[int, str | None]] = []
    for n in _own(node):
        match n:
            case ast.Nonlocal() | ast.Global():
                out.append((n.lineno, None))
            case ast.Name() | ast.Attribute() | ast.Subscript() if not isinstance(n.ctx, ast.Load):
                out.append((n.lineno, root(n)))
            case ast.Call(func=ast.Attribute(attr=attr, value=value)) if attr in _MUTATING:
                out.append((n.lineno, root(value)))
            case ast.Expr(value=ast.Call(args=[first, *_])):
                out.append((n.lineno, root(first)))
    return tuple((line, name) for line, name in out if name != "")
