"""Names: what they are bound to, in a function, around it, in its module and in Python; how values get them."""

from __future__ import annotations

import ast
import builtins
import functools
import types
from typing import Any

from acronumba.data.shared import SharedConst, describe_value, values_of
from acronumba.data.source_guard import ABSENT
from acronumba.frontend.advice import near
from acronumba.frontend.block import (
    Dead,
    Rejected,
    conversion,
)
from acronumba.frontend.calls.objects import as_function, is_foreign
from acronumba.frontend.handlers import NAME_BOUND, NAME_READ
from acronumba.frontend.holders import held
from acronumba.frontend.source import NoSource, read_source
from acronumba.frontend.values import (
    Columns,
    DictVal,
    Enumerate,
    ErrorValue,
    Func,
    Generator,
    MaybeUnbound,
    MutableObject,
    NoneVal,
    NonlocalCell,
    ObjectValue,
    Ref,
    Reversed,
    Static,
    StaticList,
    Stream,
    Tensor,
    TupleVal,
    Val,
    Yields,
    Zip,
    number,
)
from acronumba.frontend.walker import GlobalRead, Walker
from acronumba.ir.types import INT

# Functions written in NumPy that are no code to the compiler: an operation, or a rejection.
PRIMITIVES = frozenset((
    "acronumba.nn.sigmoid", "acronumba.nn.erf", "acronumba.nn.scale_gradient", "acronumba.nn.segment_sum",
    "acronumba.random.threefry", "acronumba.compressed.sums", "acronumba.compressed.whole_numbers",
    "acronumba.compressed.rows_of",
    "acronumba.frontend.calls.by_fields.fields", "acronumba.frontend.calls.written.rejected",
    "acronumba.frontend.calls.written.root",
    "acronumba.frontend.calls.written_special.complement", "acronumba.frontend.calls.written_orders.place_among",
))  # fmt: skip


def path_of(w: Walker, node: ast.expr) -> tuple[Any, ...] | None:
    """Return the state key of a name or of a part of it: what a test may narrow."""
    match node:
        case ast.Name(id=name):
            scope = scope_of(w, name)[0]
            return None if scope is None or isinstance(w.state.get((scope, name)), NonlocalCell) else (scope, name)
        case ast.Attribute(value=value, attr=attr):
            base = path_of(w, value)
            owner = None if base is None else w.state.get(base)
            if w.facts.changing and owner is not None and is_computed(w, owner, attr):
                return None  # it may be another each time
            if isinstance(owner, MutableObject):
                return (owner.key, attr)
            return None if base is None else (*base, attr)
        case ast.NamedExpr(target=target):
            return path_of(w, target)
    return None


def name_of_copy(w: Walker, node: ast.expr) -> str:
    """Return the name for a copy of what a local name stands for: itself; a global one stays what it is."""
    outer = isinstance(node, ast.Name) and scope_of(w, node.id)[0] is None
    return "own" if outer else ast.unparse(node)


def is_computed(w: Walker, owner: Val, name: str) -> bool:
    """Whether a property gives an attribute of an object."""
    classes = (
        owner.classes
        if isinstance(owner, Ref)
        else (owner.cls,)
        if isinstance(owner, MutableObject | ObjectValue)
        else ()
    )
    return any(isinstance(w.source_guard.attribute(c, name), property) for c in classes)


def forget(w: Walker, scope: Any, name: str) -> None:
    """Forget what is known of the parts of a name: it is bound anew."""
    for key in [k for k in w.state if len(k) > 2 and k[0] == scope and k[1] == name]:
        del w.state[key]


def forget_field(w: Walker, name: str) -> None:
    """Forget what is known of all fields of a name: one is assigned, and which object it is of, others may know."""
    w.state = {k: v for k, v in w.state.items() if len(k) < 3 or name not in k[2:]}


def forget_assigned(w: Walker) -> None:
    """Forget what is known of fields that are assigned anywhere in the program: what comes next may do it."""
    for name in w.facts.assigned:
        forget_field(w, name)


def bind_name(w: Walker, name: str, val: Val) -> None:
    """Bind a local name; what was known of its parts is forgotten."""
    scope = w.frame.scope
    for overlay, names, _ in reversed(w.frame.overlays):
        if name in names:
            scope = overlay
            break
    if scope == w.frame.scope and name in w.frame.func.source.facts.outer:
        scope = scope_of(w, name)[0]
        if scope is None:
            raise w.reject("ACR103", seen=f"{name}, a variable outside the model")
    bound = NAME_BOUND.get(type(w.state.get((scope, name))))
    if bound is not None:
        bound(w, w.state[(scope, name)], val)
        return
    forget(w, scope, name)
    w.state.pop(("#consumed", (scope, name)), None)
    if is_iterator(val):
        val = named_iterator(w, val)
    w.kept(val)
    name_views(val)
    w.code.note_name(val, name)
    w.state[(scope, name)] = val


def is_iterator(val: Val) -> bool:
    """Whether a value gives its items only once."""
    return isinstance(val, Zip | Enumerate | Reversed | Stream | Columns)


def loops_around(w: Walker) -> int:
    """Return in how many loops the walk is."""
    return len(w.loops_around)


def named_iterator(w: Walker, val: Val) -> Stream:
    """Return an iterator that gets a name."""
    return Stream(val.inner if isinstance(val, Stream) else val, loops_around(w))


def consumed(w: Walker, val: Stream, name: str, key: Any) -> Val:
    """Return what an iterator gives, which is read by its name: once, and not in a loop that began later."""
    mark = ("#consumed", key)
    if mark in w.state or loops_around(w) > val.depth:
        raise w.reject("ACR114", seen=f"the iterator {name}, which is read again", rewrite="make it a list: list(...)")
    w.state[mark] = NoneVal()
    return val.inner


def name_views(val: Val) -> None:
    """Note that a value gets a name: if it has one, or is a view of what has one, there are two from now on."""
    match val:
        case Tensor():
            if val.named or (val.base is not None and not val.own):
                val.seen()
            val.named = True
        case TupleVal() | DictVal() | ObjectValue() | StaticList():
            for v in val.items:
                name_views(v)
        case _:
            for v in held(val):  # by a function's defaults, or a method
                alias(v)


def alias(val: Val) -> None:
    """Note that a value has another name."""
    match val:
        case Tensor():
            val.seen()
        case TupleVal() | DictVal() | ObjectValue() | StaticList():
            for v in val.items:
                alias(v)


def check_free(w: Walker, val: Val) -> None:
    """Reject a generator, which is walked where it is written, as a value."""
    if isinstance(val, Generator):
        raise w.reject("ACR114", val.node)
    if isinstance(val, Yields):
        raise w.reject(
            "ACR114", val.node, seen=f"what {val.func.source.name} yields", rewrite="make it a list: list(...)"
        )


def check_part(w: Walker, val: Val) -> None:
    """Reject an iterator as a part of something, by which it could be read several times."""
    check_free(w, val)
    if is_iterator(val):
        raise w.reject("ACR114", seen="an iterator that is stored", rewrite="make it a list: list(...)")


def part_of(w: Walker, node: ast.expr) -> Val:
    """Evaluate an expression that becomes part of something: it has another name from then on."""
    val = w.part(node)
    check_part(w, val)
    if not isinstance(node, ast.Constant):
        alias(val)
    return val


def read_name(w: Walker, name: str) -> Val:
    """Return what a name stands for, as Python looks it up: in the function, around it, outside."""
    scope, func = scope_of(w, name)
    if scope is None:
        return outer_name(w, func, name)
    val = w.state.get((scope, name))
    read = NAME_READ.get(type(val))
    if read is not None:
        return read(w, val, name)  # type: ignore[no-any-return]
    return bound_value(w, val, name, (scope, name))


def scope_of(w: Walker, name: str) -> tuple[Any, Func]:
    """Return the scope that binds a name, or None, and the function around all scopes that were looked in."""
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
    if val is None:  # on none of the paths to here, of those that are known so far
        w.fail("UnboundLocalError", text)
        raise Dead
    if isinstance(val, MaybeUnbound):
        w.check(val.bound, "UnboundLocalError", text)
        if w.block is not None:
            w.state[key] = val.value
        val = val.value
    if isinstance(val, ErrorValue):
        if val.why:
            raise w.reject(val.code or "ACR303", seen=f"{name}: {val.why}", rewrite=conversion(val.why))
        raise Rejected(None)
    return consumed(w, val, name, key) if isinstance(val, Stream) else val


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
    w.source_guard.item(func.globals, name)  # one of this name would hide the builtin
    builtin = w.source_guard.item(builtins, name)
    if builtin is not ABSENT:
        return Static(builtin)
    known = {*func.globals, *vars(builtins), *func.closure, *w.frame.locals}
    rewrite = near(name, known) or "define the name, or import it"
    seen = f"the name {name} does not exist"
    raise w.reject("ACR306", seen=seen, rewrite=rewrite, message="this name is not defined")


def default_value(w: Walker, value: Any, holder: Any, name: Any, path: str) -> Val:
    """Return a default of a parameter or field: a constant, or else a shared value, read anew at each mini-batch.

    Nobody can put another in its place unnoticed (see `SourceGuard.function` and `SourceGuard.layout`), but an array or
    a list may be changed.
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
        if known.fixed:
            w.source_guard.place(holder, name)
        w.constants |= {leaf.path: v for leaf, v in values_of(shared, value) if leaf.type == INT}
    if isinstance(known.shared, SharedConst):
        function = behind(w, value)
        if function is not None:
            return function_value(w, function)
    return w.shared_value(known.shared)


def behind(w: Walker, value: Any) -> types.FunctionType | None:
    """Return a function itself, or the one behind a model, else None."""
    function = as_function(value)
    if function is not None and function is not value:
        w.source_guard.item(value, "__wrapped__")
        if isinstance(value, functools._lru_cache_wrapper):
            w.cached.add(function.__code__)
    return function


def function_value(w: Walker, fn: types.FunctionType) -> Val:
    """Return a function object as a value; those of `PRIMITIVES` stay themselves."""
    body = w.source_guard.function(fn)
    if f"{fn.__module__}.{fn.__name__}" in PRIMITIVES or is_foreign(fn):
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
