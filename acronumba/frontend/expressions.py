"""Expressions: names, attributes, operators, comparisons.

In: nodes of the syntax tree. Out: abstract values; what can be computed now is, the rest becomes IR.
"""

from __future__ import annotations

import ast
import builtins
import enum
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from acronumba.data.shared import SharedConst, can_hide, describe_value, field_names, hiding, values_of
from acronumba.data.witness import ABSENT
from acronumba.errors import Loc
from acronumba.frontend.calls.objects import as_function, is_foreign, is_tuple, python_class
from acronumba.frontend.emitter import (
    ZERO_DIVISION,
    Dead,
    Point,
    Refused,
    conversion,
    members_of,
)  # fmt: skip
from acronumba.frontend.source import NoSource, is_forbidden, read_source, spot
from acronumba.frontend.values import (
    NOT_CONST,
    PRIMITIVES,
    Bound,
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
    Range,
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
    number,
)  # fmt: skip
from acronumba.frontend.walker import GlobalRead, Walker
from acronumba.ir import nodes as ir
from acronumba.ir.nodes import Var
from acronumba.ir.types import (
    BOOL,
    FLOAT,
    INT,
    BoolT,
    NoneT,
    OpaqueT,
    UnionT,
    words,
)  # fmt: skip


class Expressions(Walker):
    """Expressions: names, attributes, operators, comparisons."""

    # ---- expressions

    def expr(self, node: ast.expr) -> Val:
        """Evaluate an expression."""
        saved = self.loc
        self.loc = self.at(node)
        try:
            val = self._expr(node)
        finally:
            self.loc = saved
        if self.block is None:
            raise Dead
        return val

    def _expr(self, node: ast.expr) -> Val:
        match node:
            case ast.Constant(value=value):
                if value is Ellipsis or isinstance(value, bytes | complex):
                    return Static(value)
                return self.constant(value)
            case ast.Name(id=name):
                return self.name(name, node)
            case ast.Attribute():
                return self.attribute_expr(node)
            case ast.Tuple(elts=elts):
                return TupleVal(self.elements(elts))
            case ast.List(elts=elts):
                return self.list_display(elts, node)
            case ast.Dict(keys=keys, values=values):
                names = [self.expr(k) if k is not None else None for k in keys]
                texts = tuple(n.value for n in names if isinstance(n, StrVal))
                if len(texts) < len(names):
                    raise self.refuse("ACR115", node, seen="a dict whose keys are not constant strings")
                return DictVal(texts, tuple(map(self.part, values)))
            case ast.BinOp(left=left, op=op, right=right):
                a = self.expr(left)
                return self.binary(op, a, self.expr(right), node)
            case ast.UnaryOp(op=ast.Not()):
                return self.truth_value(node)
            case ast.UnaryOp(op=op, operand=operand):
                return self.unary(op, self.expr(operand), node)
            case ast.BoolOp():
                return self.bool_op(node)
            case ast.Compare():
                return self.compare_expr(node)
            case ast.IfExp(test=test, body=yes, orelse=no):
                return self.conditional(test, lambda: self.expr(yes), lambda: self.expr(no))
            case ast.Call():
                return self.call_expr(node)
            case ast.Subscript(value=value, slice=index):
                return self.subscript(self.expr(value), index, node)
            case ast.Lambda(args=args):
                return self.nested(node, "<lambda>", args)
            case ast.ListComp():
                return self.comprehend(node)
            case ast.GeneratorExp():
                return Generator(node, self.frame.scope)
            case ast.NamedExpr(target=target, value=value):
                val = self.expr(value)
                self.bind(target.id, val)
                return val
            case ast.JoinedStr():
                raise self.refuse("ACR116", node)
            case ast.SetComp() | ast.DictComp() | ast.Set():
                raise self.refuse("ACR115", node)
            case ast.Slice():
                raise self.refuse("ACR117", node)
        if is_forbidden(node):
            raise Refused(None)
        raise self.refuse("ACR117", node, seen=type(node).__name__)

    def part(self, node: ast.expr) -> Val:
        """Evaluate an expression that becomes part of something: it has another name from then on."""
        val = self.expr(node)
        if isinstance(val, Generator):
            raise self.refuse("ACR114", val.node)
        if not isinstance(node, ast.Constant):
            self.alias(val)
        return val

    def elements(self, elts: Sequence[ast.expr]) -> tuple[Val, ...]:
        out: list[Val] = []
        for e in elts:
            if isinstance(e, ast.Starred):
                items = self.items_of(self.expr(e.value))
                if items is None:
                    raise self.refuse("ACR109", e, seen="* of a value whose length is known only at run time")
                out += items
            else:
                out.append(self.part(e))
        return tuple(out)

    def list_display(self, elts: Sequence[ast.expr], node: ast.List) -> Val:
        """`[a, *b, c]`: known items one by one, others appended at run time."""
        parts = [self.items_or_list(e) if isinstance(e, ast.Starred) else (self.part(e),) for e in elts]
        if not any(isinstance(p, ListVal) for p in parts):
            return self.new_list([v for p in parts if not isinstance(p, ListVal) for v in p], node)
        cell = self.cell(("display", self.frame.path, *spot(node)))
        self.make_real(cell)
        out = self.realise(StaticList((), cell))
        for p in parts:
            if isinstance(p, ListVal):
                self.extend(out, p, node)
                continue
            for v in p:
                self.append(out, v, node)
        return out

    def items_or_list(self, node: ast.Starred) -> tuple[Val, ...] | ListVal:
        val = self.expr(node.value)
        items = self.items_of(val)
        return self.to_list(val, node) if items is None else items

    def new_list(self, items: Sequence[Val], node: ast.AST) -> Val:
        """Return the list of some items made at a place of the source."""
        cell = self.cell(("list", self.frame.path, *spot(node)))
        val = StaticList(tuple(items), cell)
        return self.realise(val) if cell.find().real and self.block is not None else val

    def name(self, name: str, node: ast.AST) -> Val:
        frame = self.frame
        for overlay, names in reversed(frame.overlays):
            if name in names:
                return self.bound(self.state.get((overlay, name)), name, (overlay, name), node)
        scope: Any = frame.scope
        func = frame.func
        local = frame.locals
        while True:
            if name in local:
                return self.bound(self.state.get((scope, name)), name, (scope, name), node)
            if func.scope is None:
                break
            scope = func.scope
            local, func = self.scopes[scope]
        return self.free(func, name, node)

    def bound(self, val: Val | None, name: str, key: Any, node: ast.AST) -> Val:
        if val is None:
            raise self.refuse("ACR306", node, seen=f"{name} has no value on any path to here")
        if isinstance(val, Maybe):
            text = f"cannot access local variable '{name}' where it is not associated with a value"
            self.check(val.bound, "UnboundLocalError", text, (), node)
            if self.block is not None:
                self.state[key] = val.value
            val = val.value
        if isinstance(val, Poison):
            if val.why:
                raise self.refuse(val.code or "ACR303", node, seen=f"{name}: {val.why}")
            raise Refused(None)
        return val

    def free(self, func: Func, name: str, node: ast.AST) -> Val:
        """Return a closure variable of a function object, a global or a builtin."""
        if name in func.closure:
            cell = func.closure[name]
            try:
                return self.outside(cell.cell_contents, name, cell, node)
            except ValueError:
                raise self.refuse("ACR306", node, seen=name) from None
        if name in func.globals:
            return self.outside(func.globals[name], name, func.globals, node)
        self.witness.item(func.globals, name)  # one of this name would hide the builtin
        builtin = self.witness.item(builtins, name)
        if builtin is not ABSENT:
            return Static(builtin)
        raise self.refuse("ACR306", node, seen=f"the name {name} does not exist")

    def default_value(self, value: Any, holder: Any, name: Any, path: str) -> Val:
        """Return a default of a parameter or field: a constant, or else a shared value, read anew at each mini-batch.

        Nobody can put another in its place unnoticed (see `Witness.function` and `Witness.layout`), but an array or a
        list may be changed.
        """
        if type(value) in (int, float):
            return number(value)
        function = self.behind(value)
        if function is not None:
            return self.function(function, None)
        shared = describe_value(path, value)
        return (
            self.constant(value) if isinstance(shared, SharedConst) else self.outside(value, name, holder, None, path)
        )

    def outside(self, value: Any, name: Any, holder: Any, node: ast.AST | None, label: str = "") -> Val:
        """Return the value of a global or closure variable: a shared value, read anew at each mini-batch."""
        key = (id(holder), name)
        known = self.globals.get(key)
        if known is None:
            shared = describe_value(label or name, value)
            taken = {g.path for g in self.globals.values()} | self.roots
            path = label or name
            while path in taken:
                path += "'"
            if path != (label or name):
                shared = describe_value(path, value)
            known = self.globals[key] = GlobalRead(path=path, holder=holder, name=name, shared=shared)
            if known.fixed:
                self.witness.place(holder, name)
            self.constants |= {leaf.path: v for leaf, v in values_of(shared, value) if leaf.type == INT}
        if isinstance(known.shared, SharedConst):
            function = self.behind(value)
            if function is not None:
                return self.function(function, node)
        return self.shared_value(known.shared)

    def behind(self, value: Any) -> types.FunctionType | None:
        """Return a function itself, or the one behind a model, else None."""
        function = as_function(value)
        if function is not None and function is not value:
            self.witness.item(value, "__wrapped__")
        return function

    def function(self, fn: types.FunctionType, node: ast.AST | Loc | None) -> Val:
        """Return a function object as a value; those of `PRIMITIVES` stay themselves."""
        body = self.witness.function(fn)
        if f"{fn.__module__}.{fn.__name__}" in PRIMITIVES or is_foreign(fn):
            return Static(fn)
        try:
            source = read_source(fn, body)
        except NoSource as error:
            raise self.refuse("ACR204", node, seen=f"{fn.__qualname__}: {error}") from None
        if source.node not in self.scanned:
            self.scanned.add(source.node)
            for code, bad in source.facts.forbidden:
                self.errors.append(self.refuse(code, source.loc(bad)).error)  # type: ignore[arg-type]
        closure = dict(zip(body.co_freevars, fn.__closure__ or (), strict=True))
        return Func(source, fn.__globals__, closure, None, fn)

    def attribute_expr(self, node: ast.Attribute) -> Val:
        path = self.path_of(node)
        if path is not None and path in self.state:
            return self.state[path]
        return self.attribute_of(self.attribute_owner(node), node)

    def attribute_owner(self, node: ast.Attribute) -> Val:
        """Evaluate the object of an attribute, which is not None from then on."""
        owner = self.expr(node.value)
        if isinstance(owner, UnionVal):
            owner = self.not_none(owner, node)
            base = self.path_of(node.value)
            if base is not None and self.block is not None and (base in self.state or len(base) > 2):
                self.state[base] = owner
        return owner

    def attribute_of(self, owner: Val, node: ast.Attribute) -> Val:
        path = self.path_of(node)
        val = self.attribute(owner, node.attr, node)
        if path is not None and isinstance(owner, Ref) and not isinstance(val, Bound | Static | Func):
            self.state[path] = val
        return val

    def not_none(self, val: UnionVal, node: ast.AST | None) -> Val:
        """Let the instance fail if the value is None; return it without that possibility."""
        if not any(isinstance(m, NoneT) for m in val.possible):
            return val
        rest = self.keep(val, lambda t: not isinstance(t, NoneT))
        if self.block is None or not rest.possible:
            return Poison()
        good = self.is_case(val, lambda t: not isinstance(t, NoneT))
        what = f"'{node.attr}'" if isinstance(node, ast.Attribute) else "it"
        error = "AttributeError" if isinstance(node, ast.Attribute) else "TypeError"
        text = (
            f"'NoneType' object has no attribute {what}"
            if isinstance(node, ast.Attribute)
            else "this value is None here"
        )
        self.check(good, error, text, (), node)
        return self.narrowed(rest)

    def attribute(self, owner: Val, name: str, node: ast.AST | None) -> Val:
        """Read an attribute."""
        self.check_poison(owner)
        match owner:
            case Ref() if len(owner.classes) == 1:
                cls = owner.classes[0]
                if name in field_names(cls):
                    return self.load(owner, name, node)
                return self.inherited_attribute(owner, cls, name, node)
            case Ref() | UnionVal():
                return self.each(owner, lambda v: self.attribute(v, name, node), node)
            case Record():
                if name in owner.names:
                    return owner.items[owner.names.index(name)]
                return self.inherited_attribute(owner, owner.cls, name, node)
            case SharedVal(node=shared) if shared.kind == "object":
                item = shared.item(name)
                if item is not None:
                    if isinstance(item, SharedConst):
                        function = self.behind(item.value)
                        if function is not None:
                            return self.function(function, node)
                    return self.shared_value(item)
                return self.inherited_attribute(owner, shared.cls, name, node)
            case Tensor():
                return self.tensor_attribute(owner, name, node)
            case Static(value=value):
                return self.static_attribute(value, name, node)
            case Func() if name in ("batch", "on", "trace", "with_options"):
                raise self.refuse("ACR205", node, seen=f".{name}")
            case EnumVal():
                return self.enum_attribute(owner, name, node)
            case ListVal() | StaticList() | DictVal() | SharedVal() | TupleVal() if hasattr(python_class(owner), name):
                return self.method(owner, python_class(owner), name, node)
            case NoneVal():
                raise self.refuse("ACR307", node, seen=f"None has no attribute {name!r}")
            case Num() if name in ("real",):
                return owner
            case Num() | StrVal() if hasattr(python_class(owner), name):
                return self.method(owner, python_class(owner), name, node)
        raise self.refuse("ACR307", node, seen=f"{self.describe(owner)} has no attribute {name!r}")

    def method(self, owner: Val, cls: type, name: str, node: ast.AST | None) -> Method:
        """Return a method of a built-in type. Its other attributes, `x.flags`, are not in the language."""
        if name == "__class__" or not callable(getattr(cls, name)):
            rewrite = "type(x)" if name == "__class__" else ""
            raise self.refuse("ACR209", node, seen=f"{self.describe(owner)}.{name}", rewrite=rewrite)
        return Method(owner, name)

    def inherited_attribute(self, owner: Val, cls: type, name: str, node: ast.AST | None) -> Val:
        """Read what an object has by its class, as long as no attribute of its own hides it.

        That an object of the data has none is looked up when it is packed, and for shared values when they are read.
        Python itself looks up `__call__`, `__len__` and operators in the class alone: see `class_attribute`.
        """
        if can_hide(cls, self.witness.attribute(cls, name)):
            self.inherited.setdefault((cls, name), self.at(node))
            if issubclass(cls, enum.Enum):
                for member in cls:
                    if self.witness.item(member, name) is not ABSENT:
                        seen, rewrite = hiding(cls, name)
                        raise self.refuse("ACR308", node, f"{cls.__name__}.{member.name}: {seen}", rewrite)
        return self.class_attribute(owner, cls, name, node)

    def class_attribute(self, owner: Val, cls: type, name: str, node: ast.AST | None) -> Val:
        """Read a method, property or class variable of an object."""
        raw = self.witness.attribute(cls, name)
        if raw is ABSENT:
            raise self.refuse("ACR307", node, seen=f"{cls.__name__} has no attribute {name!r}")
        if isinstance(raw, property):
            if raw.fget is None:
                raise self.refuse("ACR307", node, seen=f"{cls.__name__}.{name}")
            return self.call(Bound(self._method(raw.fget, node), owner), (), {}, node)
        if isinstance(raw, staticmethod):
            return self._method(raw.__func__, node)
        if isinstance(raw, classmethod):
            return Bound(self._method(raw.__func__, node), Static(cls))
        if name in ("_replace", "_asdict") and issubclass(cls, tuple):
            return Method(owner, name)
        if as_function(raw) is not None:
            return Bound(self._method(raw, node), owner)
        holder = self.witness.owner(cls, name)
        return self.outside(raw, name, holder, node, f"{cls.__name__}.{name}") if holder else self.constant(raw)

    def _method(self, fn: Any, node: ast.AST | None) -> Func:
        function = self.behind(fn)
        if function is None:
            raise self.refuse("ACR210", node, seen=repr(fn))
        out = self.function(function, node)
        assert isinstance(out, Func)
        return out

    def static_attribute(self, value: Any, name: str, node: ast.AST | None) -> Val:
        if value is np and name == "random":
            raise self.refuse("ACR211", node)
        if isinstance(value, types.ModuleType):
            if not hasattr(value, name):
                raise self.refuse("ACR307", node, seen=f"module {value.__name__} has no attribute {name!r}")
            inner = getattr(value, name)
            if value is np or value.__name__ == "math" or name not in vars(value):
                self.witness.item(value, name)
                return self.constant(inner)
            return self.outside(inner, name, vars(value), node, f"{value.__name__.rsplit('.', 1)[-1]}.{name}")
        if isinstance(value, type):
            if issubclass(value, enum.Enum) and name in value.__members__:
                return self.constant(value[name])
            if name in ("__name__", "__qualname__", "__module__"):
                return self.constant(getattr(value, name))
            return self.class_attribute(Static(value), value, name, node)
        if type(value).__name__ == "Model" and name in ("batch", "on", "trace", "with_options"):
            raise self.refuse("ACR205", node, seen=f".{name}")
        if isinstance(value, np.dtype | np.finfo | np.iinfo) and hasattr(value, name):
            found = getattr(value, name)
            return self.scalar_constant(found, node) if isinstance(found, np.generic) else self.constant(found)
        raise self.refuse("ACR209", node, seen=f"{self.describe(Static(value))}.{name}")

    def enum_attribute(self, owner: EnumVal, name: str, node: ast.AST | None) -> Val:
        if owner.const is not NOT_CONST:
            if name in ("name", "value"):
                return self.constant(getattr(owner.const, name))
        elif name == "value":
            values = [m.value for m in members_of(owner.cls)]
            if all(type(v) is int for v in values) or all(type(v) is float for v in values):
                return self.by_member(owner, lambda member: member.value)
            raise self.refuse("ACR308", node, seen=f"values of {owner.cls.__name__} that are not all int or all float")
        return self.inherited_attribute(owner, owner.cls, name, node)

    def by_member(self, owner: EnumVal, value: Callable[[Any], Any]) -> Num:
        """Return what a number is for a member: it is known for each member, the member perhaps only at run time."""
        if owner.const is not NOT_CONST:
            return number(value(owner.const))
        values = [value(member) for member in members_of(owner.cls)]
        out: Num = number(values[-1])
        if all(v == values[-1] for v in values):
            return out
        for k, v in list(enumerate(values))[-2::-1]:
            out = self.select(self.scalar("eq", Num(INT, var=self.word(owner)), number(k)), number(v), out)
        return out

    def load(self, ref: Ref, name: str, node: ast.AST | None) -> Val:
        """Read a field of an object of one class."""
        cls = ref.classes[0]
        t = self.know.fields.get(cls, {}).get(name)
        if t is None:
            raise self.refuse("ACR304", node, seen=f"{cls.__name__}.{name}, of which no instance has a value")
        if isinstance(t, OpaqueT):
            raise self.refuse("ACR304", node, seen=f"{cls.__name__}.{name} is {t.what}", rewrite=conversion(t.what))
        if isinstance(t, UnionT) and any(isinstance(m, OpaqueT) for m in t.members):
            what = next(m.what for m in t.members if isinstance(m, OpaqueT))
            raise self.refuse("ACR304", node, seen=f"{cls.__name__}.{name} is {what} in some instances")
        self.reads.setdefault(cls, set()).add(name)
        outs = tuple(self.var(name, w) for w in words(t))
        if self.block is None:
            return Poison()
        if outs:
            self.emit(ir.Load(outs=outs, ref=ref.var, cls=cls, field=name, loc=self.at(node)))
        return self.from_words(t, outs)

    # ---- operators

    def conditional(self, test: ast.expr, yes: Callable[[], Val], no: Callable[[], Val]) -> Val:
        on, off = self.branch(test)
        points: list[Point] = []
        vals: list[Val] = []
        for starts, f in ((on, yes), (off, no)):
            self.join(starts)
            if self.block is None:
                continue
            try:
                val = f()
            except Dead:
                self.block = None
                continue
            points.append(self.point())
            vals.append(val)
            self.block = None
        return self.join_values(points, vals)

    def truth_value(self, node: ast.expr) -> Val:
        yes, no = self.branch(node)
        points = [*yes, *no]
        return self.join_values(points, [number(True)] * len(yes) + [number(False)] * len(no))

    def bool_op(self, node: ast.BoolOp) -> Val:
        """`and` and `or` as values: the last one evaluated."""
        points: list[Point] = []
        vals: list[Val] = []
        for k, value in enumerate(node.values):
            if k == len(node.values) - 1:
                try:
                    val = self.expr(value)
                except Dead:
                    self.block = None
                    break
                points.append(self.point())
                vals.append(val)
                self.block = None
                break
            try:
                val = self.expr(value)
            except Dead:
                self.block = None
                break
            some: Val = val
            none: Val = val
            if isinstance(val, UnionVal) and any(isinstance(m, NoneT) for m in val.possible):
                on, off = self.narrow(value, val, lambda t: not isinstance(t, NoneT))
                rest = self.keep(val, lambda t: not isinstance(t, NoneT))
                if isinstance(node.op, ast.And):
                    for p in off:
                        points.append(p)
                        vals.append(NoneVal())
                    self.join(on)
                else:
                    self.join(on)
                if self.block is None:
                    self.join(off)
                    continue
                some = none = self.narrowed(rest)
                yes, no = self.fork(self.truth(some, value))
                leave, stay = (no, yes) if isinstance(node.op, ast.And) else (yes, no)
                if leave is not None:
                    points.append(leave)
                    vals.append(some)
                stays = [stay] if stay is not None else []
                self.join([*stays, *(off if isinstance(node.op, ast.Or) else [])])
            else:
                yes, no = self.fork(self.truth(val, value))
                leave, stay = (no, yes) if isinstance(node.op, ast.And) else (yes, no)
                if leave is not None:
                    points.append(leave)
                    vals.append(none)
                self.join([stay] if stay is not None else [])
            if self.block is None:
                break
        return self.join_values(points, vals)

    def unary(self, op: ast.unaryop, val: Val, node: ast.AST) -> Val:
        def one(v: Val) -> Val:
            match op, v:
                case (ast.USub(), Tensor()):
                    return self.ufunc("neg", (v,), node)
                case (ast.UAdd(), Tensor()):
                    return self.ufunc("positive", (v,), node)
                case (ast.Invert(), Tensor()):
                    return self.ufunc("not", (v,), node)
                case (ast.USub(), Num()):
                    return self.scalar("neg", self.as_int(v) if v.type != FLOAT else self.read(v), node=node)
                case (ast.UAdd(), Num()):
                    return self.as_int(v)
                case (ast.Invert(), Num()) if v.type != FLOAT:
                    return self.scalar("invert", self.as_int(v), node=node)
            raise self.refuse("ACR301", node, seen=f"{type(op).__name__} of {self.describe(v)}")

        name = {ast.USub: "__neg__", ast.UAdd: "__pos__", ast.Invert: "__invert__"}.get(type(op))
        return self.each(val, lambda v: one(self.as_python(v, (name,)) if name else v), node)

    def binary(self, op: ast.operator, a: Val, b: Val, node: ast.AST) -> Val:
        self.check_poison(a, b)
        return self.each(a, lambda x: self.each(b, lambda y: self.binary_one(op, x, y, node), node), node)

    def as_python(self, val: Val, names: tuple[str, ...]) -> Val:
        """Return a member of an `IntEnum` as its int, a NamedTuple as a tuple, where Python's own operators do that."""
        if isinstance(val, EnumVal) and issubclass(val.cls, int):
            kept = all(self.witness.attribute(val.cls, name) is vars(int)[name] for name in names)
            return self.by_member(val, int) if kept else val
        cls = python_class(val) if isinstance(val, Record | Ref | SharedVal) else None
        if cls is None or not issubclass(cls, tuple):
            return val
        kept = not any(isinstance(self.witness.attribute(cls, name), types.FunctionType) for name in names)
        items = self.items_of(val) if kept else None
        return val if items is None else TupleVal(tuple(items))

    def binary_one(self, op: ast.operator, a: Val, b: Val, node: ast.AST) -> Val:
        name = _BINARY.get(type(op))
        if not isinstance(a, Tensor) and not isinstance(b, Tensor):  # for NumPy a member is no Python int: it is strong
            names = (f"__{MAGIC[type(op)]}__", f"__r{MAGIC[type(op)]}__")
            a, b = self.as_python(a, names), self.as_python(b, names)
        if isinstance(op, ast.Mult):  # an integer scalar repeats a list or tuple, as an int does
            if (_is_list(a) or is_tuple(a)) and is_index(b):
                b = self.host_value(b, node, "the length of a sequence", index=True)
            elif (_is_list(b) or is_tuple(b)) and is_index(a):
                a = self.host_value(a, node, "the length of a sequence", index=True)
        if isinstance(a, Tensor) or isinstance(b, Tensor):
            if all(isinstance(v, Tensor | Num) or self.sequence(v) is not None for v in (a, b)):
                x = a if isinstance(a, Num) else self.as_tensor(a, node=node)
                y = b if isinstance(b, Num) else self.as_tensor(b, node=node)
                if isinstance(op, ast.MatMult):
                    return self.matmul(self.as_tensor(x), self.as_tensor(y), node)
                if name is None:
                    raise self.refuse("ACR202", node, seen=f"{OPERATORS[type(op)]} of arrays")
                if name == "pow":
                    return self.power(x, y, node)
                return self.ufunc(name, (x, y), node)
        if isinstance(a, Num) and isinstance(b, Num):
            return self.arithmetic(name, a, b, node)
        if isinstance(op, ast.BitOr) and all(isinstance(v, Static | NoneVal) for v in (a, b)):  # isinstance(x, A | B)
            return TupleVal((a, b))
        if isinstance(op, ast.Add):
            if isinstance(a, TupleVal) and isinstance(b, TupleVal):
                return TupleVal(a.items + b.items)
            if isinstance(a, StrVal) and isinstance(b, StrVal):
                return StrVal(a.value + b.value)
            if _is_list(a) and _is_list(b):
                head, tail = self.items_of(a), self.items_of(b)
                if head is not None and tail is not None:
                    return self.new_list((*head, *tail), node)
                return self.list_concat(a, b, node)
        if isinstance(op, ast.Mult):
            for seq, times in ((a, b), (b, a)):
                if isinstance(times, Num) and times.type == INT:
                    if isinstance(seq, TupleVal) and self.known(times) is not NOT_CONST:
                        return TupleVal(seq.items * self.known(times))
                    if isinstance(seq, StaticList | ListVal):
                        return self.list_repeat(seq, times, node)
        magic = self.operator_method(op, a, b, node)
        if magic is not None:
            return magic
        raise self.refuse("ACR301", node, seen=f"{self.describe(a)} {OPERATORS[type(op)]} {self.describe(b)}")

    def operator_method(self, op: ast.operator, a: Val, b: Val, node: ast.AST) -> Val | None:
        """Call `__add__` and so on of a dataclass."""
        cls = a.classes[0] if isinstance(a, Ref) else a.cls if isinstance(a, Record) else None
        name = f"__{MAGIC[type(op)]}__"
        if cls is None or not self.has(cls, name) or issubclass(cls, tuple):
            return None
        return self.call(self.class_attribute(a, cls, name, node), (b,), {}, node)

    def arithmetic(self, op: str | None, a: Num, b: Num, node: ast.AST) -> Num:
        """Arithmetic on Python numbers."""
        if op is None:
            raise self.refuse("ACR301", node, seen=f"{self.describe(a)} @ {self.describe(b)}")
        if op in ("and", "or", "xor") and a.type == BOOL and b.type == BOOL:
            if op == "xor":
                return self.scalar("differ", self.read(a), self.read(b), node=node)
            return (self.both if op == "and" else self.either)(self.read(a), self.read(b))
        if op in ("and", "or", "xor", "lshift", "rshift"):
            if FLOAT in (a.type, b.type):
                raise self.refuse("ACR301", node, seen=f"{self.describe(a)} {op} {self.describe(b)}")
            a, b = self.read(self.as_int(a)), self.read(self.as_int(b))
            if op in ("lshift", "rshift"):
                self.check(self.scalar("ge", b, number(0)), "ValueError", "negative shift count", (), node)
            return self.scalar(op, a, b, node=node)
        if op == "pow" and FLOAT not in (a.type, b.type):
            exponent = self.known(b)
            if exponent is not NOT_CONST and exponent < 0:
                return self.float_power(a, b, "ZeroDivisionError", "0.0 cannot be raised to a negative power", node)
            whole = self.scalar("ge", self.as_int(b), number(0))
            self.check(whole, "TypeError", "an int to a negative power is a float: write float(a) ** b", (), node)
        if op == "pow" and FLOAT in (a.type, b.type):
            return self.float_power(a, b, "ZeroDivisionError", "0.0 cannot be raised to a negative power", node)
        if FLOAT in (a.type, b.type):
            return self.scalar(op, self.as_float(a), self.as_float(b), node=node)
        if op == "div" and _is_float(a) and _is_float(b):
            return self.scalar(op, self.as_float(a), self.as_float(b), node=node)
        if op == "div":
            return self.scalar("quotient", self.as_int(a), self.as_int(b), node=node)
        a, b = self.read(self.as_int(a)), self.read(self.as_int(b))
        if op == "floordiv":  # which may also overflow
            self.check(self.scalar("ne", b, number(0)), "ZeroDivisionError", ZERO_DIVISION, (), node)
        return self.scalar(op, a, b, node=node)

    def compare_expr(self, node: ast.Compare) -> Val:
        if len(node.ops) == 1:
            op, right = node.ops[0], node.comparators[0]
            if isinstance(op, ast.Is | ast.IsNot) and isinstance(right, ast.Constant) and right.value is None:
                return self.truth_value(node)
            return self.compare(op, self.expr(node.left), self.expr(right), node)
        left = self.expr(node.left)
        points: list[Point] = []
        vals: list[Val] = []
        for k, (op, comparator) in enumerate(zip(node.ops, node.comparators, strict=True)):
            try:
                right_val = self.expr(comparator)
            except Dead:
                self.block = None
                break
            result = self.compare(op, left, right_val, node)
            left = right_val
            if k == len(node.ops) - 1:
                if self.block is not None:
                    points.append(self.point())
                    vals.append(result)
                    self.block = None
                break
            yes, no = self.fork(self.truth(result, node))
            if no is not None:
                points.append(no)
                vals.append(result if isinstance(result, Tensor) else number(False))
            self.join([yes] if yes is not None else [])
            if self.block is None:
                break
        return self.join_values(points, vals)

    def compare(self, op: ast.cmpop, a: Val, b: Val, node: ast.AST) -> Val:
        self.check_poison(a, b)
        if isinstance(op, ast.In | ast.NotIn):
            found = self.contains(a, b, node)
            return self.negate(found) if isinstance(op, ast.NotIn) else found
        return self.each(a, lambda x: self.each(b, lambda y: self.compare_one(op, x, y, node), node), node)

    def compare_one(self, op: ast.cmpop, a: Val, b: Val, node: ast.AST) -> Val:
        name = _COMPARE.get(type(op))
        equality = isinstance(op, ast.Eq | ast.NotEq | ast.Is | ast.IsNot)
        negated = isinstance(op, ast.NotEq | ast.IsNot)
        if isinstance(op, ast.Is | ast.IsNot):
            if isinstance(a, Ref) and isinstance(b, Ref):
                out = self.scalar_same(a.var, b.var)
                return self.negate(out) if negated else out
            if isinstance(a, Tensor | Record) or isinstance(b, Tensor | Record):
                raise self.refuse("ACR117", node, seen=f"`is` of {self.describe(a)} and {self.describe(b)}")
        elif (isinstance(a, Tensor) or isinstance(b, Tensor)) and name is not None:
            if isinstance(a, NoneVal | StrVal) or isinstance(b, NoneVal | StrVal):
                raise self.refuse("ACR301", node, seen=f"{self.describe(a)} compared with {self.describe(b)}")
            return self.ufunc(name, (a, b), node)
        if isinstance(a, Num) and isinstance(b, Num) and name is not None:
            if isinstance(op, ast.Is | ast.IsNot) and a.type != b.type:
                return number(negated)
            if FLOAT in (a.type, b.type):
                return self.compare_floats(name, a, b, node)
            return self.scalar(name, self.as_int(a), self.as_int(b), node=node)
        if isinstance(a, EnumVal) or isinstance(b, EnumVal):
            known = self.compare_enum(op, a, b, node)
            if known is not None:
                return known
        if isinstance(a, EnumVal) and isinstance(b, EnumVal) and a.cls is b.cls and equality:
            if a.const is not NOT_CONST and b.const is not NOT_CONST:
                return number((a.const is b.const) != negated)
            x, y = (Num(INT, var=self.word(v)) for v in (a, b))
            return self.scalar("ne" if negated else "eq", x, y)
        if isinstance(a, EnumVal) and issubclass(a.cls, int) and isinstance(b, Num):
            return self.compare_one(op, self.by_member(a, int), b, node)
        if isinstance(b, EnumVal) and issubclass(b.cls, int) and isinstance(a, Num):
            return self.compare_one(op, a, self.by_member(b, int), node)
        if isinstance(a, StrVal) and isinstance(b, StrVal):
            table = {
                ast.Lt: a.value < b.value,
                ast.Gt: a.value > b.value,
                ast.LtE: a.value <= b.value,
                ast.GtE: a.value >= b.value,
            }
            return number(table.get(type(op), (a.value == b.value) != negated))
        if equality and (isinstance(a, NoneVal) or isinstance(b, NoneVal)):
            return number((isinstance(a, NoneVal) and isinstance(b, NoneVal)) != negated)
        if equality and (isinstance(a, Static) or isinstance(b, Static)):
            return self.compare_known(op, a, b, node)
        if isinstance(a, TupleVal) and isinstance(b, TupleVal) and equality and not isinstance(op, ast.Is | ast.IsNot):
            if len(a.items) != len(b.items):
                return number(negated)
            out = number(True)
            for x2, y2 in zip(a.items, b.items, strict=True):
                out = self.both(out, self.truth(self.compare(ast.Eq(), x2, y2, node), node))
            return self.negate(out) if negated else out
        if isinstance(a, TupleVal) and isinstance(b, TupleVal) and name is not None and not equality:
            out = self.truth(self.compare(op, number(len(a.items)), number(len(b.items)), node), node)
            for x2, y2 in reversed(list(zip(a.items, b.items, strict=False))):  # the first that differ decide
                less = self.truth(self.compare(op, x2, y2, node), node)
                out = self.select(self.truth(self.compare(ast.Eq(), x2, y2, node), node), out, less)
            return out
        kinds = {_KINDS.get(type(v)) for v in (a, b)}
        if equality and len(kinds) == 2 and None not in kinds:  # a string never equals a tuple
            return number(negated)
        lists = isinstance(a, ListVal | StaticList) and isinstance(b, ListVal | StaticList)
        rewrite = "len(a) == len(b) and all(x == y for x, y in zip(a, b))" if lists and equality else ""
        seen = f"{self.describe(a)} compared with {self.describe(b)}"
        raise self.refuse("ACR301", node, seen=seen, rewrite=rewrite)

    def compare_enum(self, op: ast.cmpop, a: Val, b: Val, node: ast.AST) -> Num | None:
        """Compare a member of an enum with something else, where the result is known for each member; else None."""
        for v in (a, b):
            own = self.deciding(v.cls, f"__{_COMPARE[type(op)]}__") if isinstance(v, EnumVal) else ""
            if own and not isinstance(op, ast.Is | ast.IsNot):
                raise self.refuse("ACR209", node, seen=f"{own} of {self.describe(v)}")
        test = _COMPARE_BY[type(op)]
        member, other = (a, b) if isinstance(a, EnumVal) else (b, a)
        assert isinstance(member, EnumVal)
        cls: Any = member.cls
        if isinstance(op, ast.Is | ast.IsNot) and not isinstance(other, EnumVal):
            return number(isinstance(op, ast.IsNot))
        if isinstance(op, ast.Eq | ast.NotEq) and cls.__eq__ is object.__eq__ and type(other) in _KINDS:
            return number(isinstance(op, ast.NotEq))
        known = other.value if isinstance(other, StrVal) else NOT_CONST
        if isinstance(other, Num | EnumVal):
            known = other.const
        if known is NOT_CONST or (isinstance(other, EnumVal) and isinstance(a, EnumVal) and a.cls is other.cls):
            return None
        try:
            return self.by_member(member, lambda m: bool(test(m, known) if member is a else test(known, m)))
        except TypeError:  # of `<`
            return None

    def compare_known(self, op: ast.cmpop, a: Val, b: Val, node: ast.AST) -> Num:
        """Compare what is known when the model is compiled: dtypes, classes, modules."""
        x, y = self.static(a, node), self.static(b, node)
        if x is not NOT_CONST and y is not NOT_CONST:
            try:
                return number(bool(_COMPARE_BY[type(op)](x, y)))
            except TypeError:  # a dtype and a string that is none
                pass
        raise self.refuse("ACR301", node, seen=f"{self.describe(a)} compared with {self.describe(b)}")

    def compare_floats(self, name: str, a: Num, b: Num, node: ast.AST) -> Num:
        """Compare Python's numbers of which one is a float; an int that is no float is not rounded."""
        x, y = self.as_float(a), self.as_float(b)
        near = self.scalar(name, x, y, node=node)
        if _is_float(a) or _is_float(b):
            return near
        rests = [number(0) if v.type == FLOAT else self.scalar("rest", self.read(v)) for v in (a, b)]
        return self.select(self.scalar("eq", x, y), self.scalar(name, *rests, node=node), near)

    def scalar_same(self, a: Var, b: Var) -> Num:
        out = self.var("", BOOL)
        self.emit(ir.Scalar(out=out, op="same", args=(a, b), site=-1, loc=self.loc))
        return Num(BOOL, var=out)

    def contains(self, a: Val, b: Val, node: ast.AST) -> Num:
        """`a in b`."""
        if isinstance(b, Range) and is_index(a):
            a = self.host_value(a, node, "`in` a range", index=True)
        if isinstance(b, Range) and isinstance(a, Num) and a.type == INT:
            inside = self.both(self.scalar("ge", a, b.start), self.scalar("lt", a, b.stop))
            if b.step.const == 1:
                return inside
        items = self.items_of(b)
        if items is None and isinstance(b, ListVal | Range):
            return self.contains_at_run_time(a, b, node)
        if items is None:
            raise self.refuse("ACR301", node, seen=f"`in` {self.describe(b)}", rewrite="any(x == a for x in xs)")
        out = number(False)
        for item in items:
            out = self.either(out, self.truth(self.compare(ast.Eq(), a, item, node), node))
        return out

    def contains_at_run_time(self, a: Val, b: Val, node: ast.AST) -> Num:
        """`a in b` by a loop that ends where it is found."""
        self.counter += 1
        key = (self.frame.scope, f"#in{self.counter}")
        self.state[key] = number(False)

        def turn() -> None:
            item = self.state[(self.frame.scope, "#item")]
            yes, no = self.fork(self.truth(self.compare(ast.Eq(), a, item, node), node))
            if yes is not None:
                self.enter(yes)
                self.state[key] = number(True)
                self.frame.loops[-1].breaks.append(self.point())
                self.block = None
            self.join([no] if no is not None else [])

        self.iterate(b, node, ast.Name("#item", ast.Store()), turn, (), (key,))
        found = self.state.pop(key)
        assert isinstance(found, Num)
        return found

    # ---- attributes of arrays

    def tensor_attribute(self, x: Tensor, name: str, node: ast.AST | None) -> Val:
        match name:
            case "T":
                return self.transpose(x, tuple(reversed(range(x.type.rank))), node)
            case "shape":
                return TupleVal(tuple(self.extent(d) for d in x.dims))
            case "ndim":
                return number(x.type.rank)
            case "size":
                return self.count(x.dims)
            case "dtype":
                return Static(np.dtype(x.type.dtype))
            case "itemsize":
                return number(np.dtype(x.type.dtype).itemsize)
            case "nbytes":
                return self.scalar("mul", self.count(x.dims), number(np.dtype(x.type.dtype).itemsize))
        if not hasattr(np.ndarray, name):
            raise self.refuse("ACR307", node, seen=f"an array has no attribute {name!r}")
        return self.method(x, np.ndarray, name, node)


_BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "lshift", ast.RShift: "rshift",
}  # fmt: skip
OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>", ast.MatMult: "@",
}  # fmt: skip
MAGIC = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "lshift", ast.RShift: "rshift",
    ast.MatMult: "matmul",
}  # fmt: skip
_COMPARE = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Is: "eq",
    ast.IsNot: "ne",
}  # fmt: skip
_COMPARE_BY: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
}  # fmt: skip
# What never equals a value of another of these kinds.
_KINDS: dict[type, str] = {
    Num: "number", StrVal: "string", NoneVal: "None", TupleVal: "tuple", DictVal: "dict", ListVal: "list",
    StaticList: "list", Range: "range", Func: "function",
}  # fmt: skip


def _is_float(num: Num) -> bool:
    """Whether a number is certainly a float, or becomes one without being rounded; so does what equals it."""
    if num.const is NOT_CONST:
        return isinstance(num.type, BoolT)
    return not abs(num.const) > 2**53


def _is_list(val: Val) -> bool:
    return isinstance(val, ListVal | StaticList) or (isinstance(val, SharedVal) and val.node.kind == "list")


def is_index(val: Val) -> bool:
    """Whether a value is an integer scalar of NumPy, which repeats a list (an array of rank 0 does not)."""
    return (
        isinstance(val, Tensor)
        and val.array0 is None
        and not val.type.rank
        and val.type.dtype.startswith(("int", "uint"))
    )
