"""Calls: arguments, inlining of helpers, instances of recursive functions.

A function that does not call itself is walked in place. One that does is walked once for each set of argument
types.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from acronumba.config import COPIES
from acronumba.data.shared import Shared, SharedLeaf, SharedNode, shared_key
from acronumba.errors import Loc
from acronumba.frontend.calls.tables import bind
from acronumba.frontend.emitter import (
    Abandoned,
    Dead,
    FunctionCode,
    Refused,
    Resweep,
    TChoice,
    Template,
    TList,
    TParts,
    TPoison,
    TStatic,
    TTensor,
    TType,
    endless,
    equal_templates,
    is_own,
    is_several,
)  # fmt: skip
from acronumba.frontend.source import spot
from acronumba.frontend.values import (
    NOT_CONST,
    Bound,
    Choice,
    DictVal,
    EnumVal,
    Func,
    Generator,
    ListVal,
    Maybe,
    Method,
    NoneVal,
    Num,
    Poison,
    Record,
    Ref,
    SharedVal,
    Static,
    StaticList,
    StrVal,
    Tensor,
    TupleVal,
    UnionVal,
    Val,
    Zip,
    held,
)  # fmt: skip
from acronumba.frontend.walker import Frame, Instance, Walker
from acronumba.ir import nodes as ir
from acronumba.ir.nodes import SharedArg, Var
from acronumba.ir.types import (
    Array0T,
    BoolT,
    EnumT,
    FloatT,
    IntT,
    ListT,
    TensorT,
    type_text,
    union,
    words,
)  # fmt: skip

if TYPE_CHECKING:
    from acronumba.frontend.lower import Lowerer

# Modules whose functions are walked like the user's, but what is said of them is said of the line that calls them.
LIBRARY = frozenset(("acronumba.nn", "acronumba.random", "acronumba.frontend.calls.of_math"))


NEVER = "this call never returns"


def fails_itself(code: FunctionCode | None, sites: Mapping[ir.Site, int]) -> bool:
    """Whether a function that never returns has a place where it fails, other than by calling what never returns."""
    numbers = {number for site, number in sites.items() if site.text != NEVER}
    return code is not None and any(isinstance(end, ir.Fail) and end.site in numbers for end in code.ends)


class Functions(Walker):
    """Calls: arguments, inlining of helpers, instances of recursive functions."""

    # ---- calls

    def call_expr(self, node: ast.Call) -> Val:
        if isinstance(node.func, ast.Name) and node.func.id == "isinstance" and len(node.args) == 2:
            return self.truth_value(node)
        func = self.callee(node.func)
        args: list[Val] = []
        for a in node.args:
            if isinstance(a, ast.Starred):
                items = self.items_of(self.expr(a.value))
                if items is None:
                    raise self.refuse("ACR203", a, seen="* of a value whose length is known only at run time")
                args += items
            else:
                args.append(self.expr(a))
        kwargs: dict[str, Val] = {}
        for kw in node.keywords:
            if kw.arg is not None:
                given = {kw.arg: self.expr(kw.value)}
                self._add_keywords(kwargs, given, kw)
                continue
            val = self.expr(kw.value)
            if not isinstance(val, DictVal | SharedVal):
                raise self.refuse("ACR203", kw.value, seen=f"** of {self.describe(val)}")
            shared = self.materialise(val) if isinstance(val, SharedVal) else val
            assert isinstance(shared, DictVal)
            self._add_keywords(kwargs, dict(zip(shared.keys, shared.items, strict=True)), kw.value)
        self.check_poison(func, *args, *kwargs.values())
        if self.block is None:
            return Poison()
        return self.call(func, args, kwargs, node)

    def _add_keywords(self, kwargs: dict[str, Val], given: Mapping[str, Val], node: ast.AST) -> None:
        for name, val in given.items():
            if name in kwargs:
                raise self.refuse("ACR203", node, seen=f"{name} given twice")
            kwargs[name] = val

    def callee(self, node: ast.expr) -> Val:
        """Evaluate what is called; the method of one of several objects is looked up in each when it is called."""
        if not isinstance(node, ast.Attribute) or self.path_of(node) in self.state:
            return self.expr(node)
        owner = self.attribute_owner(node)
        val: Val = Method(owner, node.attr) if is_several(owner) else self.attribute_of(owner, node)
        if self.block is None:
            raise Dead
        return val

    def call(self, func: Val, args: Sequence[Val], kwargs: Mapping[str, Val], node: ast.AST | None) -> Val:
        """Call anything."""
        from acronumba.frontend.calls.call import call_method, call_static

        match func:
            case Func():
                return self.call_function(func, args, kwargs, node)
            case Bound(func=inner, self=owner):
                return self.call_function(inner, (owner, *args), kwargs, node)
            case Method(owner=owner) if is_several(owner):
                return self.each(
                    owner, lambda o: self.call(self.attribute(o, func.name, node), args, kwargs, node), node
                )
            case Method():
                return call_method(cast("Lowerer", self), func, list(args), dict(kwargs), node)
            case Static(value=value):
                wrapped = self.behind(value)
                inner_func = self.function(wrapped, node) if wrapped is not None else func
                if isinstance(inner_func, Func):
                    return self.call_function(inner_func, args, kwargs, node)
                return call_static(cast("Lowerer", self), value, list(args), dict(kwargs), node)
            case Ref() | UnionVal() | Choice() if is_several(func):
                return self.each(func, lambda f: self.call(f, args, kwargs, node), node)
            case Ref() | Record() | SharedVal():
                return self.call_object(func, args, kwargs, node)
        raise self.refuse("ACR301", node, seen=f"{self.describe(func)} cannot be called")

    def call_object(self, func: Val, args: Sequence[Val], kwargs: Mapping[str, Val], node: ast.AST | None) -> Val:
        cls = (
            func.classes[0] if isinstance(func, Ref) else func.cls if isinstance(func, Record)
            else func.node.cls if isinstance(func, SharedVal) else None
        )  # fmt: skip
        if cls is None or not self.has(cls, "__call__"):
            raise self.refuse("ACR301", node, seen=f"{self.describe(func)} cannot be called")
        return self.call(self.class_attribute(func, cls, "__call__", node), args, kwargs, node)

    def bind_arguments(
        self, func: Func, args: Sequence[Val], kwargs: Mapping[str, Val], node: ast.AST | None
    ) -> dict[str, Val]:
        """Return the parameters of a function with their values."""
        a = func.source.node.args
        name = func.source.name
        out, _ = bind(self, name, parameters_of(a), args, kwargs, node)
        self.add_defaults(func, out)
        missing = [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs) if p.arg not in out]
        if missing:
            raise self.refuse("ACR203", node, seen=f"{name} without {', '.join(missing)}")
        return out

    def add_defaults(self, func: Func, params: dict[str, Val]) -> None:
        """Give the parameters of a function that have no value their defaults."""
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
            for name, k in zip(
                given if isinstance(given, dict) else names[len(names) - len(given) :], places, strict=True
            ):
                if name not in params:
                    params[name] = self.default_value(given[k], given, k, f"{func.source.name}({name})")

    def call_function(self, func: Func, args: Sequence[Val], kwargs: Mapping[str, Val], node: ast.AST | None) -> Val:
        """Call a function of the user: inlined, or by a call if it is recursive."""
        params = self.bind_arguments(func, args, kwargs, node)
        for v in params.values():
            self.alias(v)
            if isinstance(v, Generator):
                raise self.refuse("ACR114", v.node)
        code = func.code
        if code in self.know.recursive:
            return self.call_instance(func, params, node)
        if any(f.func.code == code for f in self.frames):
            self.know.recursive.add(code)
            raise Resweep
        return self.inline(func, params, node)

    def inline(self, func: Func, params: Mapping[str, Val], node: ast.AST | None) -> Val:
        here = spot(node)
        frame = self.push(func, (*self.frame.path, func.source.node.lineno, here))
        saved = self.source, self.loc, self.outer_loc
        if func.globals.get("__name__") in LIBRARY and node is not None:
            self.outer_loc = self.at(node)
        self.source = func.source
        for name, val in params.items():
            self.state[(frame.scope, name)] = val
        self.body(func.source.body)
        if self.block is not None:
            frame.returns.append((self.point(), NoneVal(), self.loc))
            self.block = None
        self.source, self.loc, self.outer_loc = saved
        self.frames.pop()
        points = []
        for (block, state), _, _ in frame.returns:
            if not func.source.facts.nests:
                state = {k: v for k, v in state.items() if k[0] != frame.scope}
            points.append((block, state))
        return self.join_values(points, [v for _, v, _ in frame.returns])

    def push(self, func: Func, path: tuple[Any, ...]) -> Frame:
        a = func.source.node.args
        params = [
            p.arg
            for p in (
                *a.posonlyargs,
                *a.args,
                *a.kwonlyargs,
                *([a.vararg] if a.vararg else []),
                *([a.kwarg] if a.kwarg else []),
            )
        ]
        self.counter += 1
        names = func.source.facts.assigned | frozenset(params)
        scope = (self.counter, func.source.name)
        frame = Frame(func, scope, path, names)
        self.scopes[scope] = (names, func)
        self.frames.append(frame)
        return frame

    # ---- recursion

    def call_instance(self, func: Func, params: dict[str, Val], node: ast.AST | Loc | None) -> Val:
        """Call a recursive function: one instance for each set of argument types."""
        if self.trying:
            raise Abandoned
        code = func.code
        captured, scopes = self.captured(func, params.values())
        given = [*params.values(), *captured.values()]
        same_code = [i for i in self.instances.values() if i.func.code == code]
        plain = self.know.plain.setdefault(code, set())
        carried = self.know.carried.get(code)
        if carried is not None:
            given = [self.carried(v, carried) for v in given]
        templates: list[Template] = []
        for k, val in enumerate(given):
            templates.append(self.parameter(val, (code, k), k in plain, code in self.know.loose))
        key = (code, tuple(map(self.template_key, templates)), scopes)
        instance = self.instances.get(key)
        if instance is None:
            for other in same_code:
                if not other.walking:
                    continue
                for k, (old, new) in enumerate(zip(other.templates, templates, strict=False)):
                    if k not in plain and _is_number(old) and _is_number(new) and not equal_templates(old, new):
                        plain.add(k)
                        raise Resweep
            kind = (code, tuple(self.template_key(t, which=False) for t in templates), scopes)
            if sum(i.kind == kind for i in same_code) >= COPIES and carried is None:
                self.know.carried[code] = set()
                raise Resweep
            kinds = {i.kind for i in same_code} | {kind}
            if len(kinds) > 13 and code not in self.know.loose:
                self.know.loose.add(code)
                raise Resweep
            if len(kinds) > 61:
                raise self.refuse("ACR303", node, seen=f"{func.source.name} is called with ever new types of arguments")
            instance = Instance(key, kind, len(self.functions), func, tuple(templates))
            self.instances[key] = instance
            self.functions.append(None)
            self.walk_instance(instance, [*params], captured)
        flat: list[Var] = []
        for shape, val in zip(instance.templates, given, strict=True):
            flat += self.template_words(shape, val)
        result = self.know.results.get(key)
        if result is None:
            if self.block is not None:
                self.emit(ir.Call(outs=(), function=instance.index, args=tuple(flat), loc=self.at(node)))
                self.fail("RecursionError", NEVER, node)
            return Poison()
        if self.block is None:
            return Poison()
        outs = tuple(self.var(f"{func.source.name.rsplit('.', 1)[-1]}", w) for w in words(result))
        self.emit(ir.Call(outs=outs, function=instance.index, args=tuple(flat), loc=self.at(node)))
        return self.from_words(result, outs)

    def captured(self, func: Func, args: Iterable[Val]) -> tuple[dict[Any, Val], tuple[int, ...]]:
        """Return what nested functions use of enclosing calls: a function, those in its arguments, those they use.

        In an order that is the same for all calls with functions from the same places. Also returns which of these
        functions have a scope in common.
        """
        out: dict[Any, Val] = {}
        todo = [func, *(f for v in args for f in functions_in(v))]
        seen = set()
        scopes: dict[Any, int] = {}
        ranks = []
        for inner in todo:  # it grows
            ranks.append(scopes.setdefault(inner.scope, len(scopes)))
            if inner.key in seen:
                continue
            seen.add(inner.key)
            scope, outer = inner.scope, inner
            while scope is not None:
                names, outer = self.scopes[scope]
                for name in sorted(inner.source.facts.named & names):
                    val = self.state.get((scope, name))
                    if val is not None and not isinstance(val, Poison) and (scope, name) not in out:
                        out[(scope, name)] = val
                        todo += functions_in(val)
                scope = outer.scope
        return out, tuple(ranks)

    def carried(self, val: Val, classes: set[type]) -> Val:
        """Return an argument with its shared tensors as values of run time: there are too many for instances."""
        match val:
            case Tensor(ref=SharedArg()):
                return replace(self.tensor(self.tensor_var(val)), array0=val.array0)
            case SharedVal(node=node) if node.kind != "list":
                if node.kind == "object":
                    classes.add(node.cls)
                return self.carried(self.materialise(val), classes)
            case TupleVal() | DictVal() | Record():
                return replace(val, items=tuple(self.carried(v, classes) for v in val.items))
        return val

    def parameter(self, val: Val, where: tuple[Any, ...], plain: bool, loose: bool) -> Template:
        """Return what the callee may know of an argument; `where`: code of the callee, number, numbers of parts."""
        match val:
            case Num() if not plain and val.const is not NOT_CONST:
                return TStatic(val)
            case Num():
                return TType(val.type)
            case EnumVal():
                return TStatic(val) if val.const is not NOT_CONST and not plain else self.template(val)
            case Tensor() if isinstance(val.ref, SharedArg):
                return TStatic(val)
            case Tensor():
                dims = tuple(None if loose or not isinstance(d, int) else d for d in val.dims)
                if isinstance(val.python_type, Array0T):
                    return TType(val.python_type)
                return TTensor(TensorT(val.type.dtype, dims), dims, False, False)
            case TupleVal() | DictVal() | Record():
                kind = "tuple" if isinstance(val, TupleVal) else "dict" if isinstance(val, DictVal) else "record"
                meta: Any = len(val.items)
                if isinstance(val, DictVal):
                    meta = val.keys
                if isinstance(val, Record):
                    if val.cls not in self.know.carried.get(where[0], ()):
                        return TType(self.type_of(val))
                    meta = (val.cls, val.names)
                parts = enumerate(val.items)
                return TParts(kind, meta, tuple(self.parameter(v, (*where, k), plain, loose) for k, v in parts))
            case ListVal() | StaticList():
                if isinstance(val, StaticList):
                    self.make_real(val.cell)
                    self.type_of(val)
                cell = val.cell.find()
                if not is_own(val):
                    return TType(ListT(cell.item))
                mine = self.cell(("parameter", where))
                mine.real = True
                if self.stays_empty(mine, cell):
                    return TType(ListT(cell.item))
                return TList(self.unify_cells(mine, cell), True)
            case Maybe():
                raise self.refuse("ACR306", None, seen="an argument that may have no value")
            case SharedVal():
                return TStatic(val)
            case Choice():
                return TChoice(tuple(self.parameter(v, (*where, k), plain, loose) for k, v in enumerate(val.options)))
        if held(val):
            parts = enumerate(held(val))
            return TParts("holder", val, tuple(self.parameter(v, (*where, k), plain, loose) for k, v in parts))
        shape = self.template(val)
        if loose and isinstance(shape, TType):
            return shape
        return shape

    def template_key(self, shape: Template, which: bool = True) -> Any:
        """Return what tells a parameter apart; not `which`: but for which shared tensors it is."""

        def keys(items: Iterable[Template]) -> tuple[Any, ...]:
            return tuple(self.template_key(item, which) for item in items)

        match shape:
            case TStatic(val=val):
                return ("static", self.static_key(val, which))
            case TParts(kind="holder"):
                return (self.holder_key(shape.meta), keys(shape.items))
            case TParts():
                return (shape.kind, shape.meta, keys(shape.items))
            case TChoice(options=options):
                return ("choice", keys(options))
            case TTensor():
                return self.template_type(shape)
            case TList():
                return ("list", id(shape.cell.find()), shape.cell.find().item)
            case TType():
                return shape.type
        return repr(shape)

    def static_key(self, val: Val, which: bool = True) -> Any:
        match val:
            case Num():
                return (val.type, repr(val.const), val.shared and val.shared.path)
            case EnumVal():
                return (val.cls, val.const)
            case Tensor(ref=SharedArg(index=index)):
                return ("shared", self.shared_params[index].path if which else val.type, val.python_type)
            case SharedVal(node=node):
                return ("shared", node.path if which else structure(node))
            case Func():
                return (val.code, val.scope if val.scope is None else val.scope[1:])
            case Bound():
                return (self.static_key(val.func, which), self.static_key(val.self, which))
            case StrVal(value=value):
                return value
            case NoneVal():
                return None
            case Static(value=value):
                return id(value)
            case TupleVal():
                return tuple(self.static_key(v, which) for v in val.items)
        return id(val)

    def holder_key(self, val: Val) -> Any:
        """Return what tells a value apart, but for what it holds."""
        match val:
            case Func():
                return self.static_key(val)
            case Bound(func=func):
                return ("bound", self.static_key(func))
            case Method(name=name):
                return ("method", name)
            case Zip(strict=strict):
                return ("zip", strict)
        return type(val)

    def template_words(self, shape: Template, val: Val) -> list[Var]:
        """Return the argument words of a value for a parameter."""
        match shape:
            case TStatic() | TPoison():
                return []
            case TParts(kind="holder"):
                return [w for s, v in zip(shape.items, held(val), strict=True) for w in self.template_words(s, v)]
            case TChoice():
                assert isinstance(val, Choice)
                parts = zip(shape.options, val.options, strict=True)
                return [self.word(val.index), *(w for s, v in parts for w in self.template_words(s, v))]
            case TParts():
                assert isinstance(val, TupleVal | DictVal | Record)
                return [w for s, v in zip(shape.items, val.items, strict=True) for w in self.template_words(s, v)]
        return list(self.to_words(val, self.template_type(shape)))

    def walk_instance(self, instance: Instance, names: Sequence[str], captured: Mapping[Any, Val]) -> None:
        """Write the code of a recursive function for one set of argument types."""
        func = instance.func
        saved = self.code, self.block, self.state, self.source, self.loc, self.frames
        self.code = FunctionCode(self.function_name(func), func.source.loc(func.source.node))
        self.loc = self.code.loc
        self.source = func.source
        self.frames = []
        frame = self.push(func, (func.source.name, func.source.node.lineno))
        self.block = self.new_block()
        self.state = {}
        params: list[Var] = []
        keys = [*((frame.scope, n) for n in names), *captured]
        for key, shape in zip(keys, instance.templates, strict=True):
            val, vars = self.instantiate(shape, key[1])
            params += vars
            self.state[key] = val
        self.code.params = tuple(params)
        self.settle_all()
        self.body(func.source.body)
        if self.block is not None:
            frame.returns.append((self.point(), NoneVal(), self.loc))
            self.block = None
        self.finish(instance.key, frame)
        self.functions[instance.index] = self.code
        instance.walking = False
        self.code, self.block, self.state, self.source, self.loc, self.frames = saved

    def function_name(self, func: Func) -> str:
        base = func.source.name.rsplit(".", 1)[-1].strip("<>")
        name, k = base, 1
        while name in self.taken:
            k += 1
            name = f"{base}_{k}"
        self.taken.add(name)
        return name

    def finish(self, key: Any, frame: Frame) -> None:
        """Return the values of all returns as one type."""
        old = self.know.results.get(key)
        types_ = []
        for point, val, self.loc in frame.returns:
            self.enter(point)
            try:
                types_.append(self.type_of(val))
            except Refused as error:
                if error.error is not None:
                    self.errors.append(error.error)
        if not types_:
            self.know.results.setdefault(key, None)
            if old is not None:  # what was found to return in an earlier sweep, before more was known
                self.code.results = words(old)
            return
        result = union(*types_, *(() if old is None else (old,)))
        if endless(result):
            self.errors.append(self.refuse("ACR303", self.code.loc, seen=type_text(result)[:200]).error)  # type: ignore[arg-type]
            return
        if result != old:
            self.know.results[key] = result
            self.know.changed = True
        self.code.results = words(result)
        for point, val, self.loc in frame.returns:
            self.enter(point)
            try:
                args = self.to_words(val, result)
                if self.block is not None:
                    self.end(ir.Return(args=args, loc=self.loc))
            except Refused as error:
                if error.error is not None:
                    self.errors.append(error.error)


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


def structure(shared: Shared) -> Any:
    """Return what shared values have in common that are the same but for their places."""
    match shared:
        case SharedNode(kind=kind, cls=cls, names=names, items=items):
            return kind, cls, names, tuple(map(structure, items))
        case SharedLeaf(type=t):
            return t
    return shared_key(shared)


def functions_in(val: Val) -> list[Func]:
    """Return the functions that a value consists of."""
    match val:
        case Func():
            return [val, *(f for v in held(val) for f in functions_in(v))]
        case Bound(func=func):
            return [func, *functions_in(val.self)]
        case TupleVal(items=parts) | DictVal(items=parts) | Record(items=parts) | Choice(options=parts):
            return [f for v in parts for f in functions_in(v)]
    return [f for v in held(val) for f in functions_in(v)]


def _is_number(shape: Template) -> bool:
    if isinstance(shape, TStatic):
        return isinstance(shape.val, Num | EnumVal)
    return isinstance(shape, TType) and isinstance(shape.type, IntT | FloatT | BoolT | EnumT)
