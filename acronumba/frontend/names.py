"""Names: look-up in a function, its enclosing functions, its module and the builtins; binding and aliasing."""

from __future__ import annotations

import ast
import builtins
import functools
import types
from dataclasses import replace
from typing import Any, cast

from acronumba.data.shared import SharedConst, describe_value, values_of
from acronumba.data.source_guard import ABSENT
from acronumba.foreign import Library, is_of_numba
from acronumba.frontend.advice import near
from acronumba.frontend.calls.objects import as_function, is_foreign
from acronumba.frontend.calls.tables import row_of
from acronumba.frontend.exceptions import Dead, Restart
from acronumba.frontend.handlers import WAITING
from acronumba.frontend.kinds.arrays import Lent, Tensor
from acronumba.frontend.kinds.functions import Func, Static
from acronumba.frontend.kinds.iterators import Begun, Cursor, Generator, Range, Stream
from acronumba.frontend.kinds.lists import ListVal, StaticList
from acronumba.frontend.kinds.numbers import number
from acronumba.frontend.kinds.objects import MutableObject
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.source import NoSource, Source, read_source
from acronumba.frontend.walker import GlobalRead, Walker
from acronumba.ir.types import INT


def path_of(w: Walker, node: ast.expr) -> tuple[Any, ...] | None:
    """Return the state key of a name or attribute path, which a test may narrow; None for other expressions."""
    match node:
        case ast.Name(id=name):
            scope = scope_of(w, name)[0]
            return None if scope is None or (scope, name) in w.boxes else (scope, name)
        case ast.Attribute(value=value, attr=attr):
            base = path_of(w, value)
            owner = None if base is None else w.state.get(base)
            if w.facts.changing and owner is not None and is_computed(w, owner, attr):
                return None  # its value may be different at each read
            if isinstance(owner, MutableObject):
                return (owner.key, attr)
            return None if base is None else (*base, attr)
        case ast.NamedExpr(target=target):
            return path_of(w, target)
    return None


def name_of_copy(w: Walker, node: ast.expr) -> str:
    """Return the name proposed for a copy of a variable: its own if it is local, "own" if it is global."""
    outer = isinstance(node, ast.Name) and scope_of(w, node.id)[0] is None
    return "own" if outer else ast.unparse(node)


def is_computed(w: Walker, owner: Val, name: str) -> bool:
    """Whether an attribute of an object is a property."""
    return any(isinstance(w.source_guard.attribute(c, name), property) for c in owner.object_classes())


def forget(w: Walker, scope: Any, name: str) -> None:
    """Forget the narrowed parts of a name, which is rebound."""
    for key in [k for k in w.state if len(k) > 2 and k[0] == scope and k[1] == name]:
        del w.state[key]


def forget_field(w: Walker, name: str) -> None:
    """Forget the narrowed fields of this name of all objects: one of them is assigned, and may be aliased."""
    w.state = {k: v for k, v in w.state.items() if len(k) < 3 or name not in k[2:]}


def forget_assigned(w: Walker) -> None:
    """Forget the narrowed fields that are assigned anywhere in the program: the following call may assign them."""
    for name in w.facts.assigned:
        forget_field(w, name)


def bind_name(w: Walker, name: str, val: Val) -> None:
    """Bind a local name, and forget its narrowed parts."""
    scope = w.frame.scope
    for overlay, names, _ in reversed(w.frame.overlays):
        if name in names:
            scope = overlay
            break
    if scope == w.frame.scope and name in w.frame.func.source.facts.outer:
        scope = scope_of(w, name)[0]
        if scope is None:
            raise w.reject("ACR103", seen=f"{name}, a variable outside the model")
    if (scope, name) in w.boxes:
        w.boxes[scope, name].bind(w, val)
        return
    forget(w, scope, name)
    if val.is_iterator:
        val = cursor(w, val, name) or waiting(w, val, name) or named_iterator(w, val)
    w.kept(val)
    name_views(val, w.frame.lent)
    w.code.note_name(val, name)
    w.state[(scope, name)] = val


def named_iterator(w: Walker, val: Val) -> Stream:
    """Return an iterator that is bound to a name."""
    return Stream(begin(w, val.origin), w.loops_around)


def waiting(w: Walker, val: Val, name: str, func: Func | None = None) -> Val | None:
    """Return an iterator that is asked for items at several places, if the name to which it is bound is read there."""
    if ((func or w.frame.func).code, name) not in w.facts.waiting:
        return None
    found: Val | None = WAITING[type(val)](w, val)
    return found


def begin(w: Walker, val: Val) -> Val:
    """Return an iterator that is read later: from now on, the sizes of the dicts and sets in it must not change."""
    if val.resizable:
        size = val.length(w)
        return val if size is None else Begun(val, size)
    if isinstance(val, Generator):
        over = [v for v in (val.params.get(name) for name in ITERATED) if v is not None]
        if val.scope is None and not val.func.of_library:  # it begins with its first item
            return val
        return val.with_children([begin(w, v) if v in over else v for v in val.children()])
    if isinstance(val, Stream) and val.backward and val.size is None and val.inner.is_list:
        return replace(val, size=val.inner.length(w) or number(len(w.items_of(val.inner) or ())))
    return val.with_children([begin(w, v) for v in val.children()]) if val.is_iterator else val


ITERATED = (".0", "iterable")  # parameters of generator expressions and functions of the library, as iterated over


def cursor(w: Walker, val: Val, name: str) -> Cursor | None:
    """Return an iterator whose position run time knows, if `next` advances the name to which it is bound."""
    return as_cursor(w, val) if name in advanced_names(w.frame.func.source.node) else None


def as_cursor(w: Walker, val: Val) -> Cursor | None:
    """Return an iterator as one whose position run time knows; None if what it is over has no places, or may change."""
    if not isinstance(val, Stream) or not val.advances:
        return None
    inner = val.inner
    if isinstance(inner, StaticList):
        if inner.cell.find().real:
            return None
        w.make_real(inner.cell)  # as it may be mutated later
        raise Restart
    items = inner.sequence(w)
    if items is not None:
        inner = w.realise(StaticList(items, w.cell(("items", w.frame.path, *w.site))))
    cell = w.cell(("position", w.frame.path, *w.site))
    cell.real = True
    return Cursor(cast("ListVal | Range", inner), w.realise(StaticList((number(0),), cell)))


@functools.lru_cache(maxsize=1024)
def advanced_names(body: ast.AST) -> frozenset[str]:
    """Return the names that are arguments of `next` anywhere in a function."""
    calls = (n for n in ast.walk(body) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.args)
    return frozenset(c.args[0].id for c in calls if c.func.id == "next" and isinstance(c.args[0], ast.Name))  # type: ignore[attr-defined]


def name_views(val: Val, lent: list[Lent] | None = None) -> None:
    """Note that a value is bound to a name; if it has a name already, or is a view, it becomes aliased.

    A name of a function that is being inlined is noted in `lent`, as it ends with the function.
    """
    x = val.marked
    if x is not None:
        again = x.named or x.lent or (x.base is not None and not x.own)
        if lent is not None:
            x.lend(lent, again)
        else:
            if again:
                x.seen()
            x.named = True
    for v in val.children():
        if val.compound:
            name_views(v, lent)
        else:  # the defaults of a function, the object of a method
            alias(v)


def lend(val: Val, lent: list[Lent]) -> None:
    """Note that a value is given to a function that is being inlined."""
    if val.marked is not None:
        val.marked.lend(lent, True)
    if val.compound:
        for v in val.children():
            lend(v, lent)


def take_back(lent: list[Lent]) -> None:
    """Forget the names that ended with a function."""
    for x, one, several in reversed(lent):
        x.lent, x.lent_again = one, several


def alias(val: Val) -> None:
    """Note that a value is aliased."""
    if val.marked is not None:
        val.marked.seen()
    if val.compound:
        for v in val.children():
            alias(v)


def in_use(w: Walker, x: Tensor) -> bool:
    """Whether a part of an expression around the current one, evaluated before, is an array, or a view of it."""
    return any(_sees(v, x) for v in w.parts[: w.before])


def _sees(val: Val, x: Tensor) -> bool:
    y = val.marked
    while y is not None:
        if y is x or y is x.base:
            return True
        y = y.base
    return any(_sees(v, x) for v in val.children())


def check_free(w: Walker, val: Val) -> None:
    """Reject a generator as a value: it can only be iterated over where it is written."""
    if isinstance(val, Generator):
        node = None if val.func.of_library else val.node
        raise w.reject("ACR114", node, seen="" if val.scope else w.describe(val), rewrite="make it a list: list(...)")


def check_part(w: Walker, val: Val) -> None:
    """Reject an iterator or generator as an element or field, from which it could be read several times."""
    check_free(w, val)
    if val.is_iterator:
        raise w.reject("ACR114", seen="an iterator that is stored", rewrite="make it a list: list(...)")


def part_of(w: Walker, node: ast.expr) -> Val:
    """Evaluate an expression whose value is stored in another one, so that it is aliased."""
    val = w.part(node)
    if not w.frame.func.of_library:
        with w.at_node(node):
            check_part(w, val)
    if not isinstance(node, ast.Constant):
        alias(val)
    return val


def read_name(w: Walker, name: str) -> Val:
    """Return the value of a name, looked up as in Python: local, enclosing, global, builtin."""
    scope, func = scope_of(w, name)
    if scope is None:
        return outer_name(w, func, name)
    if (scope, name) in w.boxes:
        return w.boxes[scope, name].read(w, name)
    return bound_value(w, w.state.get((scope, name)), name, (scope, name))


def scope_of(w: Walker, name: str) -> tuple[Any, Func]:
    """Return the scope that binds a name, or None, and the function in whose scope the look-up ended."""
    frame = w.frame
    for overlay, names, _ in reversed(frame.overlays):
        if name in names:
            return overlay, frame.func
    scope: Any = frame.scope
    func = frame.func
    local = frame.locals
    while name not in local:
        if func.scope is None:
            return None, func
        scope = func.scope
        local, func = w.scopes[scope]
    return scope, func


def bound_value(w: Walker, val: Val | None, name: str, key: Any) -> Val:
    """Return the value of a local name; the instance fails where it has none."""
    text = f"cannot access local variable '{name}' where it is not associated with a value"
    if val is None:  # unbound on all paths to here that are known so far
        w.fail("UnboundLocalError", text)
        raise Dead
    return val.bound_as(w, name, key)


def outer_name(w: Walker, func: Func, name: str) -> Val:
    """Return a closure variable of a function object, a global or a builtin."""
    if name in func.closure:
        cell = func.closure[name]
        try:
            return outside(w, cell.cell_contents, name, cell)
        except ValueError:
            raise w.reject("ACR306", seen=name) from None
    if name in func.globals:
        return outside(w, func.globals[name], name, func.globals)
    w.source_guard.item(func.globals, name)  # a global of this name would hide the builtin
    builtin = w.source_guard.item(builtins, name)
    if builtin is not ABSENT:
        return Static(builtin)
    known = {*func.globals, *vars(builtins), *func.closure, *w.frame.locals}
    rewrite = near(name, known) or "define the name, or import it"
    seen = f"the name {name} does not exist"
    raise w.reject("ACR306", seen=seen, rewrite=rewrite, message="this name is not defined")


def default_value(w: Walker, value: Any, holder: Any, name: Any, path: str) -> Val:
    """Return a default of a parameter or field: a constant, or else a shared value, read anew at each mini-batch.

    Its replacement by another object is detected (see `SourceGuard.function` and `SourceGuard.layout`), but an array or
    list may be mutated in between.
    """
    if type(value) in (int, float):
        return number(value)
    function = behind(w, value)
    if function is not None:
        return function_value(w, function)
    shared = describe_value(path, value)
    return w.constant(value) if isinstance(shared, SharedConst) else outside(w, value, name, holder, path)


def outside(w: Walker, value: Any, name: Any, holder: Any, label: str = "") -> Val:
    """Return the value of a global or closure variable: a shared value, read anew at each mini-batch."""
    key = (id(holder), name)
    known = w.globals.get(key)
    if known is None:
        shared = describe_value(label or name, value)
        taken = {g.path for g in w.globals.values()} | w.roots
        path = label or name
        while path in taken:
            path += "'"
        if path != (label or name):
            shared = describe_value(path, value)
        known = w.globals[key] = GlobalRead(path=path, holder=holder, name=name, shared=shared)
        w.shared_roots.append(shared)
        w.facts.same.add(shared, value)
        if known.fixed:
            w.source_guard.place(holder, name)
        w.constants |= {leaf.path: v for leaf, v in values_of(shared, value) if leaf.type == INT}
    if isinstance(known.shared, SharedConst):
        function = behind(w, value)
        if function is not None:
            return function_value(w, function)
    return w.shared_value(known.shared)


def behind(w: Walker, value: Any) -> types.FunctionType | None:
    """Return the function of a function object, a model or a cached function; None for other values."""
    function = as_function(value)
    if function is not None and function is not value:
        w.source_guard.item(value, "__wrapped__")
        w.unwrapped.add(function)
        if isinstance(value, functools._lru_cache_wrapper):
            w.cached[function.__code__] = value.cache_parameters()["maxsize"] is not None
        w.by_source = w.by_source or is_of_numba(value)
    return function


def function_value(w: Walker, fn: types.FunctionType) -> Val:
    """Return a function object as a value: a `Func` to be walked, or a `Static` if it is primitive or foreign."""
    body = w.source_guard.function(fn)
    inside = Library.undecorated(fn)
    if inside is not None:
        return function_value(w, inside)
    if row_of(fn) is not None or is_foreign(fn):
        return Static(fn)
    try:
        source = read_source(fn, body)
    except NoSource as error:
        raise w.reject("ACR204", seen=f"{fn.__qualname__}: {error}") from None
    if source.node not in w.scanned:
        w.scanned.add(source.node)
        for code, bad in source.facts.forbidden:
            w.errors.append(w.reject(code, source.loc(bad)).error)  # type: ignore[arg-type]
    closure = dict(zip(body.co_freevars, fn.__closure__ or (), strict=True))
    return Func(source, fn.__globals__, closure, None, fn)


def nested_function(w: Walker, node: ast.FunctionDef | ast.Lambda, name: str, args: ast.arguments) -> Func:
    """Return the value of a nested function definition or lambda."""
    outer = w.frame
    source = Source(node, outer.func.source.file, f"{outer.func.source.name}.{name}")
    defaults = tuple(w.value(d) for d in args.defaults)
    kw = {a.arg: w.value(d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d is not None}
    scope: Any = outer.overlays[-1][0] if outer.overlays else outer.scope
    taken = source.facts.free | source.facts.outer
    while scope is not None and taken.isdisjoint(w.scopes[scope][0]):  # the function uses no name of this scope
        scope = w.scopes[scope][1].scope
    return Func(source, outer.func.globals, outer.func.closure, scope, None, defaults, kw)
