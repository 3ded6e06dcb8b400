"""Statements: sequences of them, assignment, unpacking, `raise`.

A refusal is caught at its statement, noted, and the walk goes on after it: all refusals of a function come at once.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Sequence
from typing import Any

from acronumba.data.shared import field_names
from acronumba.frontend.calls.objects import python_class
from acronumba.frontend.emitter import (
    Dead,
    Refused,
    Resweep,
)  # fmt: skip
from acronumba.frontend.expressions import MAGIC, OPERATORS
from acronumba.frontend.source import Source, assigned_names, is_forbidden
from acronumba.frontend.values import (
    DictVal,
    Enumerate,
    Func,
    Generator,
    ListVal,
    NoneVal,
    Poison,
    Record,
    Ref,
    Reversed,
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
    number,
)  # fmt: skip
from acronumba.frontend.walker import Walker
from acronumba.ir.nodes import SharedArg
from acronumba.ir.types import Array0T, TensorT, members


class Statements(Walker):
    """Statements: sequences of them, assignment, unpacking, `raise`."""

    # ---- statements

    def body(self, stmts: Sequence[ast.stmt]) -> None:
        for stmt in stmts:
            if self.block is None:
                return
            self.loc = self.at(stmt)
            try:
                self.statement(stmt)
            except Dead:
                self.block = None
            except Refused as error:
                self.recover(error, stmt)

    def recover(self, error: Refused, stmt: ast.stmt) -> None:
        """Note a refusal and go on after the statement, with the names that it would have bound unusable."""
        if error.error is not None:
            self.errors.append(error.error)
        outer = stmt.names if isinstance(stmt, ast.Global | ast.Nonlocal) else ()
        for name in (*assigned_names([stmt]), *outer):
            self.state[(self.frame.scope, name)] = Poison()
        if isinstance(stmt, ast.Return | ast.Raise):
            self.block = None
        elif self.block is None:
            self.block = self.new_block()

    def statement(self, stmt: ast.stmt) -> None:
        match stmt:
            case ast.Assign(targets=targets, value=value):
                val = self.expr(value)
                if len(targets) > 1:
                    self.alias(val)
                for target in targets:
                    self.assign(target, val)
            case ast.AnnAssign(target=target, value=value):
                if value is not None:
                    self.assign(target, self.expr(value))
            case ast.AugAssign():
                self.augmented(stmt)
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(value=value):
                self.expr(value)
            case ast.Return(value=value):
                val = self.expr(value) if value is not None else NoneVal()
                self.check_poison(val)
                if self.block is not None:
                    if isinstance(val, Generator):
                        raise self.refuse("ACR114", val.node)
                    self.frame.returns.append((self.point(), val, self.at(value or stmt)))
                    self.block = None
            case ast.If(test=test, body=yes, orelse=no):
                self.if_statement(test, yes, no)
            case ast.While():
                self.while_loop(stmt)
            case ast.For():
                self.for_loop(stmt)
            case ast.Break() | ast.Continue():
                loop = self.frame.loops[-1]
                (loop.breaks if isinstance(stmt, ast.Break) else loop.continues).append(self.point())
                self.block = None
            case ast.Assert(test=test, msg=msg):
                holds, broken = self.branch(test)
                if broken:
                    self.join(broken)
                    self.fail("AssertionError", self.message(msg), stmt)
                self.join(holds)
            case ast.Raise():
                self.raise_statement(stmt)
            case ast.Match():
                self.match_statement(stmt)
            case ast.FunctionDef():
                if stmt.decorator_list:
                    raise self.refuse("ACR210", stmt.decorator_list[0], seen=f"a decorator on {stmt.name}")
                self.state[(self.frame.scope, stmt.name)] = self.nested(stmt, stmt.name, stmt.args)
            case _:
                if is_forbidden(stmt):  # noted when its function was read
                    raise Refused(None)
                raise self.refuse("ACR108", stmt, seen=type(stmt).__name__)

    def nested(self, node: ast.FunctionDef | ast.Lambda, name: str, args: ast.arguments) -> Func:
        outer = self.frame
        source = Source(node, outer.func.source.file, f"{outer.func.source.name}.{name}")
        defaults = tuple(self.expr(d) for d in args.defaults)
        kw = {a.arg: self.expr(d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d is not None}
        scope = outer.overlays[-1][0] if outer.overlays else outer.scope
        return Func(source, outer.func.globals, outer.func.closure, scope, None, defaults, kw)

    def message(self, msg: ast.expr | None) -> str:
        match msg:
            case None:
                return ""
            case ast.Constant(value=value):
                return str(value).replace("{", "{{").replace("}", "}}")
        return ast.unparse(msg).replace("{", "{{").replace("}", "}}")

    def raise_statement(self, stmt: ast.Raise) -> None:
        exc = stmt.exc
        name, text = "RuntimeError", ""
        if isinstance(exc, ast.Call):
            text = self.message(exc.args[0]) if exc.args else ""
            exc = exc.func
        if isinstance(exc, ast.Name | ast.Attribute):
            name = exc.id if isinstance(exc, ast.Name) else exc.attr
        elif exc is not None:
            raise self.refuse("ACR108", stmt, seen="raise of something that is not an exception's name")
        self.fail(name, text, stmt)

    def if_statement(self, test: ast.expr, yes: Sequence[ast.stmt], no: Sequence[ast.stmt]) -> None:
        on, off = self.branch(test)
        points = []
        for starts, stmts in ((on, yes), (off, no)):
            self.join(starts)
            if self.block is not None:
                self.body(stmts)
            if self.block is not None:
                points.append(self.point())
                self.block = None
        self.join(points)

    # ---- assignment

    def assign(self, target: ast.expr, val: Val) -> None:
        match target:
            case ast.Name(id=name):
                self.check_free(val, target)
                self.bind(name, val)
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                if any(isinstance(e, ast.Starred) for e in elts):
                    self.assign_starred(elts, val, target)
                    return
                items = self.unpack(val, len(elts), target)
                for e, v in zip(elts, items, strict=True):
                    self.assign(e, v)
            case ast.Subscript():
                self.set_item(*self.place_of(target), target, val)
            case ast.Attribute():
                raise self.refuse("ACR113", target, seen=f"an assignment to the field .{target.attr}")
            case _:
                raise self.refuse("ACR109", target, seen=type(target).__name__)

    def assign_starred(self, elts: Sequence[ast.expr], val: Val, node: ast.AST) -> None:
        items = self.items_of(val)
        at = next(k for k, e in enumerate(elts) if isinstance(e, ast.Starred))
        after = len(elts) - at - 1
        if items is None:
            xs = self.to_list(self.not_none(val, node) if isinstance(val, UnionVal) else val, node)
            n = self.list_lengths(xs, node)
            text = f"not enough values to unpack (expected at least {at + after}, got {{0}})"
            self.check(self.scalar("ge", n, number(at + after)), "ValueError", text, (n,), node)
            for k, e in enumerate(elts):
                if isinstance(e, ast.Starred):
                    rest = self.scalar("sub", n, number(at + after))
                    self.assign(e.value, self.list_slice(xs, number(at), 1, rest, node))
                    continue
                place = number(k) if k < at else self.scalar("sub", n, number(len(elts) - k))
                self.assign(e, self.list_get(xs, place, node))
            return
        if len(items) < at + after:
            raise self.refuse("ACR305", node, seen=f"{len(items)} values for at least {at + after} names")
        star = elts[at]
        assert isinstance(star, ast.Starred)
        middle = items[at : len(items) - after]
        for e, v in zip(elts[:at], items[:at], strict=True):
            self.assign(e, v)
        self.assign(star.value, self.new_list(middle, node))
        for e, v in zip(elts[at + 1 :], items[len(items) - after :], strict=True):
            self.assign(e, v)

    def check_free(self, val: Val, node: ast.AST) -> None:
        if isinstance(val, Generator):
            raise self.refuse("ACR114", val.node)

    def bind(self, name: str, val: Val) -> None:
        """Bind a local name; what was known of its parts is forgotten."""
        scope = self.frame.scope
        for overlay, names in reversed(self.frame.overlays):
            if name in names:
                scope = overlay
                break
        self.forget(scope, name)
        self.name_views(val)
        self.code.note_name(val, name)
        self.state[(scope, name)] = val

    def forget(self, scope: Any, name: str) -> None:
        for key in [k for k in self.state if len(k) > 2 and k[0] == scope and k[1] == name]:
            del self.state[key]

    def name_views(self, val: Val) -> None:
        """Note that a value gets a name: if it has one, or is a view of what has one, there are two from now on."""
        match val:
            case Tensor():
                if val.named or (val.base is not None and not val.own):
                    val.seen()
                val.named = True
            case TupleVal() | DictVal() | Record() | StaticList():
                for v in val.items:
                    self.name_views(v)
            case _:
                for v in held(val):  # by a function's defaults, or a method
                    self.alias(v)

    def alias(self, val: Val) -> None:
        """Note that a value has another name."""
        match val:
            case Tensor():
                val.seen()
            case TupleVal() | DictVal() | Record() | StaticList():
                for v in val.items:
                    self.alias(v)

    def unpack(self, val: Val, count: int, node: ast.AST) -> Sequence[Val]:
        """Return the items of a value that is unpacked into `count` names."""
        self.check_poison(val)
        items = self.items_of(val)
        if items is not None:
            if len(items) != count:
                raise self.refuse("ACR305", node, seen=f"{len(items)} values for {count} names")
            return items
        match val:
            case Tensor() if val.type.rank:
                n = self.same_extent(val.dims[0], count, "values to unpack", node)
                x = self.refine(val, (n, *val.dims[1:]))
                return [self.take(x, number(k), 0, node) for k in range(count)]
            case ListVal():
                length = self.list_lengths(val, node)
                text = f"expected {count} values to unpack, got {{0}}"
                self.check(self.scalar("eq", length, number(count)), "ValueError", text, (length,), node)
                return [self.list_get(val, number(k), node) for k in range(count)]
            case UnionVal():
                got = self.each(val, lambda v: TupleVal(tuple(self.unpack(v, count, node))), node)
                if isinstance(got, TupleVal):
                    return got.items
        raise self.refuse("ACR305", node, seen=f"{self.describe(val)} cannot be unpacked")

    def items_of(self, val: Val) -> tuple[Val, ...] | None:
        """Return the items of an iterable that are known one by one, else None."""
        match val:
            case TupleVal() | StaticList():
                return val.items
            case Record() if issubclass(val.cls, tuple):
                return val.items
            case SharedVal(node=node):
                if node.kind == "dict":
                    return tuple(StrVal(n) for n in node.names)
                if node.kind != "object" or issubclass(node.cls, tuple):
                    return self.shared_items(val)
            case DictVal():
                return tuple(StrVal(k) for k in val.keys)
            case Generator():
                return self.items_of(self.comprehend(val.node))
            case Ref() if len(val.classes) == 1 and issubclass(val.classes[0], tuple):
                cls = val.classes[0]
                return tuple(self.load(val, n, None) for n in field_names(cls))
            case Static(value=value) if isinstance(value, enum.EnumMeta):
                return tuple(self.constant(member) for member in list[Any](value))
            case Zip():
                columns = [c for c in map(self.items_of, val.parts) if c is not None]
                if len(columns) < len(val.parts):
                    return None
                lengths = set(map(len, columns))
                if val.strict and len(lengths) > 1:
                    raise self.refuse("ACR305", None, seen=f"zip of {sorted(lengths)} items")
                return tuple(TupleVal(t) for t in zip(*columns, strict=False))
            case Enumerate():
                inner = self.items_of(val.inner)
                if inner is None:
                    return None
                return tuple(TupleVal((self.scalar("add", val.start, number(k)), v)) for k, v in enumerate(inner))
            case Reversed():
                inner = self.items_of(val.inner)
                return None if inner is None else tuple(reversed(inner))
        return None

    def augmented(self, stmt: ast.AugAssign) -> None:
        target = stmt.target
        if isinstance(target, ast.Subscript):
            base, where = self.place_of(target)
            old = self.get_item(base, where, target)
            if any(isinstance(t, Array0T) or (isinstance(t, TensorT) and t.rank) for t in members(self.type_of(old))):
                place = ast.unparse(target)  # of a list: the array may have other names
                seen = f"{place}, {self.describe(old)}, may be seen elsewhere"
                raise self.refuse("ACR112", stmt, seen=seen, rewrite=_written_out(stmt))
            self.set_item(base, where, target, self.in_place(old, self.expr(stmt.value), stmt))
            return
        if not isinstance(target, ast.Name):
            raise self.refuse("ACR113", target, seen="an augmented assignment to a field")
        old = self.expr(ast.copy_location(ast.Name(target.id, ast.Load()), target))
        new = self.in_place(old, self.expr(stmt.value), stmt)
        if new is not old:
            self.forget(self.frame.scope, target.id)
            self.bind(target.id, new)

    def in_place(self, old: Val, value: Val, stmt: ast.AugAssign) -> Val:
        """Return the value of `old op= value`: the same list, changed, or what `old op value` is."""
        self.check_poison(old, value)
        if isinstance(old, UnionVal):
            return self.each(old, lambda v: self.in_place(v, value, stmt), stmt)
        cls = python_class(old)
        if cls is list and not isinstance(value, Tensor):  # NumPy takes an array's operator before the list's
            if isinstance(stmt.op, ast.Mult):
                seen = f"*= of {self.describe(old)}, which may have another name"
                raise self.refuse("ACR209", stmt, seen=seen, rewrite=_written_out(stmt))
            if isinstance(old, SharedVal):
                raise self.refuse("ACR113", stmt, seen=f"a change of {self.describe(old)}")
            if isinstance(stmt.op, ast.Add):
                if isinstance(old, StaticList):
                    self.make_real(old.cell)
                    raise Resweep
                assert isinstance(old, ListVal)
                self.extend(old, value, stmt)
                return old
        magic = f"__i{MAGIC[type(stmt.op)]}__"
        if cls not in (list, dict) and self.has(cls, magic):
            raise self.refuse("ACR209", stmt, seen=magic, rewrite=_written_out(stmt))
        new = self.binary(stmt.op, old, value, stmt)
        if isinstance(old, Tensor) and (old.type.rank or old.array0 is not None):
            self.check_in_place(old, new, stmt)
        if isinstance(new, Tensor):
            kept = old.array0 if isinstance(old, Tensor) else None
            new = Tensor(new.type, new.ref, new.dims, fresh=True, array0=kept)
        return new

    def check_in_place(self, old: Tensor, new: Val, stmt: ast.AugAssign) -> None:
        """Refuse `x op= y` where it is not the same as `x = x op y`."""
        name = ast.unparse(stmt.target)
        rewrite = _written_out(stmt)
        if old.array0 is not None and old.array0.const is not True:
            seen = f"{name} may be an array of rank 0, which keeps its place, or a NumPy scalar"
            raise self.refuse("ACR112", stmt, seen=seen, rewrite=rewrite)
        if not old.own or isinstance(old.ref, SharedArg):
            raise self.refuse(
                "ACR112", stmt, seen=f"{name}, {self.describe(old)}, may be seen elsewhere", rewrite=rewrite
            )
        if isinstance(new, Tensor) and (new.type.dtype != old.type.dtype or new.type.rank != old.type.rank):
            seen = f"{self.describe(old)} would become {self.describe(new)}"
            raise self.refuse("ACR112", stmt, seen=seen, rewrite=rewrite)
        if isinstance(new, Tensor):
            for a, b in zip(old.dims, new.dims, strict=True):
                self.same_extent(a, b, "in-place result", stmt)


def _written_out(stmt: ast.AugAssign) -> str:
    """Return the assignment that makes a new value: `x = x + y` for `x += y`."""
    place = ast.unparse(stmt.target)
    return f"{place} = {place} {OPERATORS[type(stmt.op)]} {ast.unparse(stmt.value)}"
