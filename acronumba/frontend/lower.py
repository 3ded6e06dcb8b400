"""From a plain Python function to a typed `Program`.

In: the user's function, the types of its positional parameters and of the fields of their classes, the structure of the shared
parameters. Out: a `Program` (see `ir.nodes`) and what it depends on.

The syntax tree is walked once as if it ran, on abstract values (`values`): this infers types, resolves calls, attributes and
everything that is known when the model is compiled, inlines every helper that does not call itself, and writes IR on the way.
A loop is walked until what it carries has a stable type. Functions that call themselves are walked once for each set of
argument types and called. Assumptions that proved too narrow (what a recursion returns, what a list holds) are kept widened in
`Knowledge`, and the whole program is walked again until nothing changes; the last sweep's IR counts.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import enum
import inspect
import sysconfig
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from acronumba.errors import NOWHERE, AcronumbaError, Loc, together
from acronumba.frontend.emitter import (
    Dead, FunctionCode, Knowledge, Point, Refused, Resweep, State, Template, TAbsent, TList, TParts, TStatic, TTensor, TType,
    _ClassNumber, endless, equal_templates, is_choosable, is_own, is_several,
)  # fmt: skip
from acronumba.frontend.source import NoSource, Source, assigned_names, is_forbidden, read_source, scan, spot
from acronumba.frontend.tensors import HOST, TensorOps
from acronumba.frontend.values import (
    NOT_CONST, Bound, Cell, Choice, DictVal, EnumVal, Enumerate, Func, Generator, ListVal, Maybe, Method, NoneVal, Num, Poison,
    Range, Record, Ref, Reversed, SharedVal, Static, StaticList, StrVal, Tensor, TupleVal, UnionVal, Val, Zip, number,
)  # fmt: skip
from acronumba.ir import nodes as ir
from acronumba.ir.nodes import Extent, SharedArg, Var
from acronumba.ir.types import (
    BOOL, FLOAT, INT, BoolT, EnumT, FloatT, IntT, ListT, NoneT, OpaqueT, RefT, StructT, TensorT, Type, UnionT, class_key,
    members, type_text, union, words,
)  # fmt: skip
from acronumba.shared import Shared, SharedConst, SharedLeaf, SharedTree, describe_value, field_names

_FOREIGN = (sysconfig.get_path("stdlib"), str(Path(np.__file__).parent))
UNROLL = 16  # loops over a constant range up to this long are unrolled where they index something known
SWEEPS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalRead:
    """A global or closure variable that the program depends on, read anew at each mini-batch."""

    path: str  # its name, the root of the paths of its leaves
    holder: Any = field(repr=False)  # a dict of globals, or a closure cell
    name: str
    shared: Shared  # its structure when the program was compiled

    def read(self) -> Any:
        """Return the present value; raise `KeyError` if there is none."""
        if isinstance(self.holder, types.CellType):
            return self.holder.cell_contents
        return self.holder[self.name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """What the front end returns."""

    program: ir.Program
    reads: Mapping[type, frozenset[str]]  # fields of instance data that the program reads
    demanded: frozenset[str]  # paths of shared ints that became constants
    globals: tuple[GlobalRead, ...]
    fields: Mapping[type, Mapping[str, Type]]  # types of the fields of all rows


@dataclass
class Loop:
    """An enclosing loop: where `break` and `continue` lead."""

    breaks: list[Point] = field(default_factory=list)
    continues: list[Point] = field(default_factory=list)


@dataclass
class Frame:
    """A function being walked."""

    func: Func
    scope: tuple[Any, ...]  # names of this call in the state
    path: tuple[Any, ...]  # the same in every sweep: for what is kept about places in the source
    locals: frozenset[str]
    returns: list[tuple[Point, Val, Loc]] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    overlays: list[tuple[tuple[Any, ...], frozenset[str]]] = field(default_factory=list)  # scopes of comprehensions


@dataclass
class Instance:
    """A function that is called, for one set of argument types."""

    key: Any
    index: int
    func: Func
    templates: tuple[Template, ...]
    walking: bool = True


class Lowerer(TensorOps):
    """Walks statements and expressions; see the module's text."""

    def __init__(self, knowledge: Knowledge) -> None:
        super().__init__(knowledge)
        self.frames: list[Frame] = []
        self.functions: list[FunctionCode | None] = []
        self.instances: dict[Any, Instance] = {}
        self.globals: dict[tuple[int, str], GlobalRead] = {}
        self.scopes: dict[Any, tuple[frozenset[str], Func]] = {}
        self.counter = 0
        self.scanned: set[Any] = set()
        self.taken: set[str] = set()  # names of functions

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

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
                if is_forbidden(stmt):  # `scan` has noted it
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
            case ast.Subscript(value=owner):
                base = self.expr(owner)
                if isinstance(base, Tensor):
                    raise self.refuse("ACR111", target, seen=f"an assignment into {self.describe(base)}")
                self.set_item(base, target, val)
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
                return self.items_of(self.comprehend(val.node, val))
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
            base = self.expr(target.value)
            if isinstance(base, Tensor):
                raise self.refuse("ACR111", target, seen=f"an assignment into {self.describe(base)}")
            old = self.expr(ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target))
            self.set_item(base, target, self.binary(stmt.op, old, self.expr(stmt.value), stmt))
            return
        if not isinstance(target, ast.Name):
            raise self.refuse("ACR113", target, seen="an augmented assignment to a field")
        old = self.expr(ast.copy_location(ast.Name(target.id, ast.Load()), target))
        value = self.expr(stmt.value)
        if isinstance(old, StaticList) and isinstance(stmt.op, ast.Add):
            self.make_real(old.cell)
            raise Resweep
        if isinstance(old, ListVal) and isinstance(stmt.op, ast.Add):
            self.extend(old, value, stmt)
            return
        new = self.binary(stmt.op, old, value, stmt)
        if isinstance(old, Tensor) and old.type.rank:
            self.check_in_place(old, new, stmt)
        if isinstance(new, Tensor):
            new.fresh, new.aliased, new.named, new.base = True, False, False, None
        self.forget(self.frame.scope, target.id)
        self.bind(target.id, new)

    def check_in_place(self, old: Tensor, new: Val, stmt: ast.AugAssign) -> None:
        """Refuse `x op= y` where it is not the same as `x = x op y`."""
        name = ast.unparse(stmt.target)
        rewrite = f"{name} = {name} {_OPERATORS[type(stmt.op)]} {ast.unparse(stmt.value)}"
        if not old.own or isinstance(old.ref, SharedArg):
            raise self.refuse("ACR112", stmt, seen=f"{name}, {self.describe(old)}, may be seen elsewhere", rewrite=rewrite)
        if isinstance(new, Tensor) and (new.type.dtype != old.type.dtype or new.type.rank != old.type.rank):
            seen = f"{self.describe(old)} would become {self.describe(new)}"
            raise self.refuse("ACR112", stmt, seen=seen, rewrite=rewrite)
        if isinstance(new, Tensor):
            for a, b in zip(old.dims, new.dims, strict=True):
                self.same_extent(a, b, "in-place result", stmt)

    # ---- conditions

    def path_of(self, node: ast.expr) -> tuple[Any, ...] | None:
        """Return the state key of a name or of a part of it: what a test may narrow."""
        match node:
            case ast.Name(id=name):
                for overlay, names in reversed(self.frame.overlays):
                    if name in names:
                        return (overlay, name)
                return (self.frame.scope, name) if name in self.frame.locals else None
            case ast.Attribute(value=value, attr=attr):
                base = self.path_of(value)
                return None if base is None else (*base, attr)
            case ast.NamedExpr(target=target):
                return self.path_of(target)
        return None

    def branch(self, test: ast.expr) -> tuple[list[Point], list[Point]]:
        """Evaluate a condition; return the points where it is true and false. Tests narrow what they test."""
        match test:
            case ast.BoolOp(op=op, values=values):
                rest: list[Point] = [self.point()]
                done: list[Point] = []
                for value in values:
                    self.join(rest)
                    if self.block is None:
                        rest = []
                        break
                    try:
                        yes, no = self.branch(value)
                    except Dead:
                        self.block = None
                        rest = []
                        break
                    rest, leave = (yes, no) if isinstance(op, ast.And) else (no, yes)
                    done += leave
                return (rest, done) if isinstance(op, ast.And) else (done, rest)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                yes, no = self.branch(inner)
                return no, yes
            case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]):
                yes, no = self.narrow(left, self.expr(left), lambda t: isinstance(t, NoneT))
                return (yes, no) if isinstance(op, ast.Is) else (no, yes)
            case ast.Call(func=ast.Name(id="isinstance"), args=[what, kinds]) if not test.keywords:
                wanted = self.class_filter(self.expr(kinds), kinds)
                return self.narrow(what, self.expr(what), wanted)
        val = self.expr(test)
        if self.block is None:
            return [], []
        if isinstance(val, UnionVal) and any(isinstance(m, NoneT) for m in val.possible):
            some, none = self.narrow(test, val, lambda t: not isinstance(t, NoneT))
            self.join(some)
            path = self.path_of(test)
            only = self.narrowed(self.keep(val, lambda t: not isinstance(t, NoneT)))
            if path is not None and path in self.state:
                only = self.state[path]
            on, off = self.fork(self.truth(only, test))
            return [p for p in (on,) if p], [p for p in (off,) if p] + none
        on, off = self.fork(self.truth(val, test))
        return [p for p in (on,) if p], [p for p in (off,) if p]

    def narrow(self, node: ast.expr, val: Val, wanted: Callable[[Type], bool]) -> tuple[list[Point], list[Point]]:
        """Branch on what a value is, and narrow its name on both sides."""
        self.check_poison(val)
        if self.block is None:
            return [], []
        path = self.path_of(node)
        if isinstance(val, UnionVal):
            test = self.is_case(val, wanted)
            sides = [self.keep(val, wanted), self.keep(val, lambda t: not wanted(t))]
        elif isinstance(val, Ref) and len(val.classes) > 1:
            keep = tuple(c for c in val.classes if wanted(StructT(c)))
            drop = tuple(c for c in val.classes if not wanted(StructT(c)))
            test = number(bool(keep)) if not keep or not drop else self.class_test(val.var, keep)
            sides = [Ref(keep, val.var), Ref(drop, val.var)]  # type: ignore[list-item]
        else:
            here = self.point()
            self.block = None
            kind = self.kind_of(val)
            return ([here], []) if kind is not None and wanted(kind) else ([], [here])
        points: list[list[Point]] = []
        for point, side in zip(self.fork(test), sides, strict=True):
            if point is None:
                points.append([])
                continue
            self.enter(point)
            if path is not None and (path in self.state or len(path) > 2):
                self.state[path] = self.narrowed(side) if isinstance(side, UnionVal) else side
            points.append([self.point()])
        self.block = None
        return points[0], points[1]

    def kind_of(self, val: Val) -> Type | None:
        """Return a type that stands for the class of a value, for `isinstance` and `is None`."""
        match val:
            case SharedVal(node=node):
                if node.kind == "object":
                    return StructT(node.cls)
                val = self.materialise(val)
            case Maybe():
                return self.kind_of(val.value)
        try:
            return self.type_of(val)
        except Refused:
            return None

    def class_filter(self, kinds: Val, node: ast.AST) -> Callable[[Type], bool]:
        """Return the test that `isinstance` makes of a type."""
        if isinstance(kinds, TupleVal):
            tests = [self.class_filter(k, node) for k in kinds.items]
            return lambda t: any(f(t) for f in tests)
        if isinstance(kinds, Static) and isinstance(kinds.value, types.UnionType):
            tests = [self.class_filter(Static(c), node) for c in kinds.value.__args__]
            return lambda t: any(f(t) for f in tests)
        if isinstance(kinds, NoneVal):
            return lambda t: isinstance(t, NoneT)
        if not isinstance(kinds, Static) or not isinstance(kinds.value, type):
            raise self.refuse("ACR308", node, seen=self.describe(kinds))
        cls = kinds.value
        return lambda t: issubclass(runtime_class(t), cls)

    def truth(self, val: Val, node: ast.AST | None) -> Num:
        """Return the bool that Python takes a value for."""
        self.check_poison(val)
        match val:
            case Num():
                if val.type == BOOL:
                    return self.read(val)
                val = self.read(val)
                return number(bool(val.const)) if val.const is not NOT_CONST else self.scalar("bool", val)
            case NoneVal():
                return number(False)
            case StrVal(value=value):
                return number(bool(value))
            case TupleVal() | StaticList() | DictVal():
                return number(bool(val.items))
            case ListVal():
                return self.scalar("gt", self.list_lengths(val, node), number(0))
            case Tensor():
                raise self.refuse("ACR601", node, seen=f"a condition on {self.describe(val)}")
            case Record() | Ref():
                classes = (val.cls,) if isinstance(val, Record) else val.classes
                if any(hasattr(c, "__bool__") for c in classes):
                    raise self.refuse("ACR209", node, seen="__bool__")
                if any(issubclass(c, tuple) or hasattr(c, "__len__") for c in classes):
                    if all(issubclass(c, tuple) for c in classes):
                        return number(True)
                    raise self.refuse("ACR209", node, seen="__len__ as a condition")
                return number(True)
            case SharedVal(node=shared):
                return number(bool(shared.items) or shared.kind == "object")
            case EnumVal():
                return number(True)
            case Static() | Func() | Bound() | Choice():
                return number(True)
            case UnionVal():
                out = self.each(val, lambda v: self.truth(v, node), node)
                assert isinstance(out, Num)
                return out
            case Range():
                return self.scalar("gt", self.range_count(val), number(0))
        raise self.refuse("ACR301", node, seen=f"{self.describe(val)} as a condition")

    # ---- loops

    def snapshot(self) -> tuple[Any, ...]:
        lists: list[list[Any]] = [f.returns for f in self.frames]
        lists += [x for f in self.frames for loop in f.loops for x in (loop.breaks, loop.continues)]
        return (
            len(self.code.blocks), {k: len(b) for k, b in enumerate(self.code.blocks)}, list(self.code.ends),
            dict(self.code.names), len(self.errors), [(x, len(x)) for x in lists],
        )  # fmt: skip

    def rollback(self, snap: tuple[Any, ...]) -> None:
        count, sizes, ends, names, errors, lists = snap
        del self.code.blocks[count:]
        for k, n in sizes.items():
            del self.code.blocks[k][n:]
        self.code.ends = ends
        self.code.names = names
        del self.errors[errors:]
        for x, n in lists:
            del x[n:]

    def loop(
        self,
        names: Sequence[tuple[Any, str]],
        test: Callable[[], tuple[list[Point], list[Point]]],
        body: Callable[[], None],
        advance: Callable[[], None],
    ) -> None:
        """Write a loop: `names` are the state keys that it assigns. Walked until their templates are stable."""
        entry_block, entry_state = self.point()
        assumed: dict[Any, Template] = {
            key: self.loop_template(entry_state[key]) if key in entry_state else TAbsent() for key in names
        }
        facts = {(k[0], k[1]) for k in names}
        for _ in range(20):
            snap = self.snapshot()
            self.block, self.state = entry_block, dict(entry_state)
            vars: dict[Any, tuple[Var, ...]] = {}
            head_state: State = {k: v for k, v in entry_state.items() if len(k) == 2 or (k[0], k[1]) not in facts}
            for key, shape in assumed.items():
                val, vars[key] = self.instantiate(shape, key[1])
                if val is not None:
                    head_state[key] = val
                if vars[key]:
                    self.store(shape, vars[key], entry_state.get(key))
            head = self.new_block()
            self.end(ir.Jump(block=head, loc=self.loc))
            self.block, self.state = head, head_state
            self.settle_all()
            frame = self.frame
            frame.loops.append(Loop())
            yes, no = test()
            self.join(yes)
            if self.block is not None:
                try:
                    body()
                except Dead:
                    self.block = None
            here = frame.loops.pop()
            points = [*here.continues, *([self.point()] if self.block is not None else [])]
            self.join(points)
            if self.block is not None:
                advance()
            stable = True
            if self.block is not None:
                wider = {
                    key: shape if _is_refused(self.state.get(key)) else
                    self.join_templates(shape, TStatic(self.state[key]) if key in self.state else TAbsent())
                    for key, shape in assumed.items()
                }  # fmt: skip
                stable = all(equal_templates(wider[k], assumed[k]) for k in assumed)
                if stable:
                    if not any(_is_refused(self.state.get(key)) for key in assumed):
                        self.store_back(assumed, vars)
                    self.end(ir.Jump(block=head, loc=self.loc))
                else:
                    assumed = wider
            if stable:
                self.join([*no, *here.breaks])
                return
            self.rollback(snap)
        raise self.refuse("ACR303", None, seen="a variable whose type changes at every turn of the loop")

    def store_back(self, assumed: Mapping[Any, Template], vars: Mapping[Any, tuple[Var, ...]]) -> None:
        """Assign the values at the end of a turn to the loop's variables, all at once."""
        assert self.block is not None
        start_block, start = self.block, len(self.code.blocks[self.block])
        for key, shape in assumed.items():
            if vars[key]:
                self.store(shape, vars[key], self.state.get(key))
        outs = {v for vs in vars.values() for v in vs}
        if self.block != start_block:
            return  # conversions made blocks of their own: their results are fresh variables
        tail = self.code.blocks[start_block][start:]
        written: set[Var] = set()
        hazard = False
        for instr in tail:
            hazard = hazard or any(r in written for r in ir.reads(instr))
            written.update(v for v in ir.writes(instr) if v in outs)
        if not hazard:
            return
        del self.code.blocks[start_block][start:]
        late: list[ir.Instr] = []
        for instr in tail:
            if isinstance(instr, ir.Copy) and instr.out in outs:
                temp = self.var(instr.out.name, instr.out.type)
                self.emit(replace(instr, out=temp))
                late.append(replace(instr, src=temp))
            else:
                self.emit(instr)
        for instr in late:
            self.emit(instr)

    def loop_names(self, body: Sequence[ast.stmt] | Sequence[ast.AST], *more: str) -> list[tuple[Any, str]]:
        names = sorted(assigned_names(body) | set(more))
        return [(self.frame.scope, n) for n in names]

    def while_loop(self, stmt: ast.While) -> None:
        if stmt.orelse:
            raise self.refuse("ACR110", stmt.orelse[0])
        names = self.loop_names([*stmt.body, ast.Expr(stmt.test)])
        self.loop(names, lambda: self.branch(stmt.test), lambda: self.body(stmt.body), lambda: None)

    def for_loop(self, stmt: ast.For) -> None:
        if stmt.orelse:
            raise self.refuse("ACR110", stmt.orelse[0])
        iterable = self.expr(stmt.iter)
        self.iterate(iterable, stmt, stmt.target, lambda: self.body(stmt.body), stmt.body)

    def iterate(
        self, iterable: Val, node: ast.AST, target: ast.expr, body: Callable[[], None], inner: Sequence[ast.AST],
        extra: Sequence[tuple[Any, str]] = (),
    ) -> None:  # fmt: skip
        """Walk a body for each item of an iterable: unrolled if the items are known, else as a loop."""
        self.check_poison(iterable)
        if isinstance(iterable, UnionVal):
            iterable = self.not_none(iterable, node)
            if isinstance(iterable, UnionVal):
                raise self.refuse("ACR302", node, seen=self.describe(iterable))
        items = self.items_of(iterable)
        if items is None and isinstance(iterable, Range):
            items = self.unrolled_range(iterable, target, inner)
        if items is not None:
            self.unrolled(items, target, body)
            return
        length, get = self.protocol(iterable, node)
        self.counter += 1
        index_key = (self.frame.scope, f"#{self.counter}")
        self.state[index_key] = number(0)

        def index() -> Num:
            out = self.state[index_key]
            assert isinstance(out, Num)
            return out

        def test() -> tuple[list[Point], list[Point]]:
            yes, no = self.fork(self.scalar("lt", index(), length()))
            return [p for p in (yes,) if p], [p for p in (no,) if p]

        def turn() -> None:
            self.assign(target, get(index()))
            body()

        def advance() -> None:
            self.state[index_key] = self.scalar("add", index(), number(1))

        overlay = self.frame.overlays[-1][0] if self.frame.overlays else None
        names = [*self.loop_names(inner), index_key, *extra]
        for n in sorted(assigned_names([ast.Assign([target], ast.Constant(0))])):
            scope = overlay if overlay is not None and n in self.frame.overlays[-1][1] else self.frame.scope
            names.append((scope, n))
        self.loop(list(dict.fromkeys(names)), test, turn, advance)
        self.state.pop(index_key, None)

    def unrolled(self, items: Sequence[Val], target: ast.expr, body: Callable[[], None]) -> None:
        frame = self.frame
        loop = Loop()
        frame.loops.append(loop)
        for item in items:
            if self.block is None:
                break
            try:
                self.assign(target, item)
                body()
            except Dead:
                self.block = None
            points = [*loop.continues, *([self.point()] if self.block is not None else [])]
            loop.continues = []
            self.join(points)
        frame.loops.pop()
        self.join([*([self.point()] if self.block is not None else []), *loop.breaks])

    def unrolled_range(self, r: Range, target: ast.expr, inner: Sequence[ast.AST]) -> tuple[Val, ...] | None:
        """Return the values of a short constant range whose variable indexes something, else None."""
        if not isinstance(target, ast.Name):
            return None
        used = any(
            isinstance(n, ast.Subscript) and any(isinstance(m, ast.Name) and m.id == target.id for m in ast.walk(n.slice))
            for stmt in inner
            for n in ast.walk(stmt)
        )
        if not used:
            return None
        values = [self.known(v) for v in (r.start, r.stop, r.step)]
        if NOT_CONST in values or values[2] == 0:
            return None
        span = range(*values)
        return tuple(number(k) for k in span) if len(span) <= UNROLL else None

    def range_count(self, r: Range) -> Num:
        gap = self.scalar("sub", r.stop, r.start)
        count = self.scalar("neg", self.scalar("floordiv", self.scalar("neg", gap), r.step))
        return self.scalar("max", count, number(0))

    def protocol(self, iterable: Val, node: ast.AST) -> tuple[Callable[[], Num], Callable[[Num], Val]]:
        """Return how to get the length of an iterable, and an item of it."""
        match iterable:
            case Range():
                count, step, start = self.range_count(iterable), iterable.step, iterable.start
                return lambda: count, lambda i: self.scalar("add", start, self.scalar("mul", i, step))
            case ListVal():
                return lambda: self.list_lengths(iterable, node), lambda i: self.list_get(iterable, i, node)
            case Tensor() if iterable.type.rank:
                n = self.extent(iterable.dims[0])
                return lambda: n, lambda i: self.row(iterable, i, node)
            case Enumerate():
                length, get = self.protocol(iterable.inner, node)
                start = iterable.start
                return length, lambda i: TupleVal((self.scalar("add", i, start), get(i)))
            case Reversed():
                length, get = self.protocol(iterable.inner, node)
                n = length()
                last = self.scalar("sub", n, number(1))
                return lambda: n, lambda i: get(self.scalar("sub", last, i))
            case Zip():
                parts = [self.protocol(self.at_run_time(p), node) for p in iterable.parts]
                if iterable.strict:
                    first = parts[0][0]()
                    for length, _ in parts[1:]:
                        good = self.scalar("eq", first, length())
                        self.check(good, "ValueError", "zip() arguments have different lengths", (), node)

                def shortest() -> Num:
                    out = parts[0][0]()
                    for length, _ in parts[1:]:
                        out = self.scalar("min", out, length())
                    return out

                return shortest, lambda i: TupleVal(tuple(get(i) for _, get in parts))
            case StaticList() | SharedVal() | TupleVal():
                return self.protocol(self.at_run_time(iterable), node)
            case Tensor():
                raise self.refuse("ACR301", node, seen="iteration over a rank-0 array")
        raise self.refuse("ACR301", node, seen=f"{self.describe(iterable)} cannot be iterated over")

    def at_run_time(self, val: Val) -> Val:
        """Return an iterable whose items are known as a list at run time."""
        items = self.items_of(val)
        if items is None or isinstance(val, Tensor | ListVal):
            return val
        cell = self.cell(("runtime", self.frame.path, self.loc))
        return self.realise(StaticList(items, cell))

    def row(self, x: Tensor, index: Num, node: ast.AST) -> Tensor:
        """Return row `index` of a tensor; the index is known to be inside."""
        rest = x.dims[1:]
        ref = self.word(self.read(index)) if self.block is not None else self.var("", INT)
        return self.op("take", (x.ref, ref), x.type.dtype, rest, (0,), node, base=x)

    # ---- match

    def match_statement(self, stmt: ast.Match) -> None:
        subject = self.expr(stmt.subject)
        path = self.path_of(stmt.subject)
        rest = [self.point()]
        done: list[Point] = []
        current = subject
        for case in stmt.cases:
            self.join(rest)
            rest = []
            if self.block is None:
                break
            if path is not None and path in self.state:
                current = self.state[path]
            self.pattern(case.pattern, current, rest, path)
            if case.guard is not None and self.block is not None:
                yes, no = self.branch(case.guard)
                rest += no
                self.join(yes)
            if self.block is not None:
                self.body(case.body)
            if self.block is not None:
                done.append(self.point())
                self.block = None
        self.join([*done, *rest])

    def pattern(self, p: ast.pattern, val: Val, fails: list[Point], path: tuple[Any, ...] | None) -> None:
        """Match a value: go on where it fits, collect where it does not."""
        match p:
            case ast.MatchAs(pattern=inner, name=name):
                if inner is not None:
                    self.pattern(inner, val, fails, path)
                if name is not None and self.block is not None:
                    if path is not None and path in self.state:
                        val = self.state[path]
                    self.bind(name, val)
            case ast.MatchOr(patterns=patterns):
                rest = [self.point()]
                done: list[Point] = []
                for q in patterns:
                    self.join(rest)
                    rest = []
                    if self.block is None:
                        break
                    self.pattern(q, val, rest, path)
                    if self.block is not None:
                        done.append(self.point())
                        self.block = None
                fails += rest
                self.join(done)
            case ast.MatchSingleton(value=value):
                if value is None:
                    self._split_match(val, lambda t: isinstance(t, NoneT), fails, path)
                else:
                    self._match_test(self.compare(ast.Is(), val, self.constant(value), p), fails)
            case ast.MatchValue(value=value):
                self._match_test(self.compare(ast.Eq(), val, self.expr(value), p), fails)
            case ast.MatchClass():
                self.class_pattern(p, val, fails, path)
            case ast.MatchSequence(patterns=patterns):
                self.sequence_pattern(p, patterns, val, fails)
            case _:
                raise self.refuse("ACR117", p, seen=type(p).__name__)

    def _match_test(self, test: Val, fails: list[Point]) -> None:
        yes, no = self.fork(self.truth(test, None))
        if no is not None:
            fails.append(no)
        self.join([yes] if yes is not None else [])

    def _split_match(self, val: Val, wanted: Callable[[Type], bool], fails: list[Point], path: Any) -> Val:
        """Go on where a value is of the wanted kind; return it narrowed."""
        fake = ast.Constant(value=0)
        yes, no = self.narrow(fake, val, wanted)
        fails_from = no
        inner: Val = val
        if isinstance(val, UnionVal):
            inner_u, outer_u = self.keep(val, wanted), self.keep(val, lambda t: not wanted(t))
            inner = inner_u
            for point in fails_from:
                if path is not None and outer_u.possible:
                    self.enter(point)
                    self.state[path] = self.narrowed(outer_u)
                    fails.append(self.point())
                    self.block = None
                else:
                    fails.append(point)
            self.join(yes)
            if self.block is not None:
                inner = self.narrowed(inner_u)
        elif isinstance(val, Ref) and len(val.classes) > 1:
            keep = tuple(c for c in val.classes if wanted(StructT(c)))
            drop = tuple(c for c in val.classes if not wanted(StructT(c)))
            for point in fails_from:
                if path is not None and drop:
                    point[1][path] = Ref(drop, val.var)
                fails.append(point)
            self.join(yes)
            inner = Ref(keep, val.var)
        else:
            fails += fails_from
            self.join(yes)
        if path is not None and self.block is not None:
            self.state[path] = inner
        return inner

    def class_pattern(self, p: ast.MatchClass, val: Val, fails: list[Point], path: Any) -> None:
        cls = self.expr(p.cls)
        if not isinstance(cls, Static) or not isinstance(cls.value, type):
            raise self.refuse("ACR308", p.cls, seen=self.describe(cls))
        inner = self._split_match(val, self.class_filter(cls, p), fails, path)
        if self.block is None:
            return
        kind = cls.value
        if p.patterns and kind in (int, float, bool, str):
            self.pattern(p.patterns[0], inner, fails, path)
            return
        names = list(getattr(kind, "__match_args__", ()))
        if len(p.patterns) > len(names):
            raise self.refuse("ACR203", p, seen=f"{kind.__name__}() with {len(p.patterns)} positional patterns")
        for name, q in [*zip(names, p.patterns, strict=False), *zip(p.kwd_attrs, p.kwd_patterns, strict=True)]:
            if self.block is None:
                return
            self.pattern(q, self.attribute(inner, name, p), fails, None)

    def sequence_pattern(self, p: ast.AST, patterns: Sequence[ast.pattern], val: Val, fails: list[Point]) -> None:
        star = next((k for k, q in enumerate(patterns) if isinstance(q, ast.MatchStar)), None)
        if isinstance(val, UnionVal):
            val = self._split_match(val, lambda t: runtime_class(t) in (tuple, list) or issubclass(runtime_class(t), tuple), fails, None)
            if self.block is None:
                return
        items = self.items_of(val)
        if items is None and isinstance(val, ListVal):
            n = self.list_lengths(val, p)
            fixed = len(patterns) - (star is not None)
            self._match_test(self.scalar("eq" if star is None else "ge", n, number(fixed)), fails)
            if self.block is None:
                return
            for k, q in enumerate(patterns):
                if k == star:
                    count = self.scalar("sub", n, number(fixed))
                    assert isinstance(q, ast.MatchStar)
                    if q.name:
                        self.bind(q.name, self.list_slice(val, number(k), 1, count, p))
                    continue
                back = len(patterns) - k
                at = number(k) if star is None or k < star else self.scalar("sub", n, number(back))
                self.pattern(q, self.list_get(val, at, p), fails, None)
            return
        if items is None or isinstance(val, DictVal):
            fails.append(self.point())
            self.block = None
            return
        if star is None and len(items) != len(patterns) or star is not None and len(items) < len(patterns) - 1:
            fails.append(self.point())
            self.block = None
            return
        if star is not None:
            q = patterns[star]
            assert isinstance(q, ast.MatchStar)
            after = len(patterns) - star - 1
            if q.name:
                self.bind(q.name, self.new_list(items[star : len(items) - after], p))
            pairs = [*zip(patterns[:star], items[:star], strict=True)]
            pairs += [*zip(patterns[star + 1 :], items[len(items) - after :], strict=True)]
        else:
            pairs = [*zip(patterns, items, strict=True)]
        for q, item in pairs:
            if self.block is not None:
                self.pattern(q, item, fails, None)

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
                return self.comprehend(node, None)
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
                raise self.refuse("ACR303", node, seen=f"{name}: {val.why}")
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
        if hasattr(builtins, name):
            return Static(getattr(builtins, name))
        raise self.refuse("ACR306", node, seen=f"the name {name} does not exist")

    def outside(self, value: Any, name: str, holder: Any, node: ast.AST | None, label: str = "") -> Val:
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
            if isinstance(shared, SharedLeaf) and shared.type == INT:
                self.constants[path] = value
        if isinstance(known.shared, SharedConst):
            function = as_function(value)
            if function is not None:
                return self.function(function, node)
        return self.shared_value(known.shared)

    roots: frozenset[str] = frozenset()

    def function(self, fn: types.FunctionType, node: ast.AST | Loc | None) -> Val:
        """Return a function object as a value; primitives of `acronumba.nn` stay themselves."""
        if (fn.__module__ == "acronumba.nn" and fn.__name__ in ("sigmoid", "erf")) or is_foreign(fn):
            return Static(fn)
        try:
            source = read_source(fn)
        except NoSource as error:
            raise self.refuse("ACR204", node, seen=f"{fn.__qualname__}: {error}") from None
        if source.node not in self.scanned:
            self.scanned.add(source.node)
            for code, bad in scan(source):
                self.errors.append(self.refuse(code, source.loc(bad)).error)  # type: ignore[arg-type]
        closure = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
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
        text = f"'NoneType' object has no attribute {what}" if isinstance(node, ast.Attribute) else "this value is None here"
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
                return self.class_attribute(owner, cls, name, node)
            case Ref() | UnionVal():
                return self.each(owner, lambda v: self.attribute(v, name, node), node)
            case Record():
                if name in owner.names:
                    return owner.items[owner.names.index(name)]
                return self.class_attribute(owner, owner.cls, name, node)
            case SharedVal(node=shared) if shared.kind == "object":
                item = shared.item(name)
                if item is not None:
                    if isinstance(item, SharedConst):
                        function = as_function(item.value)
                        if function is not None:
                            return self.function(function, node)
                    return self.shared_value(item)
                return self.class_attribute(owner, shared.cls, name, node)
            case Tensor():
                return self.tensor_attribute(owner, name, node)
            case Static(value=value):
                return self.static_attribute(value, name, node)
            case Func() if name in ("batch", "on", "trace", "with_options"):
                raise self.refuse("ACR205", node, seen=f".{name}")
            case EnumVal():
                return self.enum_attribute(owner, name, node)
            case ListVal() | StaticList() | DictVal() | SharedVal() | TupleVal() if hasattr(python_class(owner), name):
                return Method(owner, name)
            case NoneVal():
                raise self.refuse("ACR307", node, seen=f"None has no attribute {name!r}")
            case Num() if name in ("real",):
                return owner
            case Num() | StrVal() if hasattr(python_class(owner), name):
                return Method(owner, name)
        raise self.refuse("ACR307", node, seen=f"{self.describe(owner)} has no attribute {name!r}")

    def class_attribute(self, owner: Val, cls: type, name: str, node: ast.AST | None) -> Val:
        """Read a method, property or class variable of an object."""
        try:
            raw = inspect.getattr_static(cls, name)
        except AttributeError:
            raise self.refuse("ACR307", node, seen=f"{cls.__name__} has no attribute {name!r}") from None
        if isinstance(raw, property):
            if raw.fget is None:
                raise self.refuse("ACR307", node, seen=f"{cls.__name__}.{name}")
            return self.call(Bound(self._method(raw.fget, node), owner), (), {}, node)
        if isinstance(raw, staticmethod):
            return self._method(raw.__func__, node)
        if isinstance(raw, classmethod):
            return Bound(self._method(raw.__func__, node), Static(cls))
        function = as_function(raw)
        if function is not None:
            return Bound(self._method(function, node), owner)
        if name in ("_replace", "_asdict") and issubclass(cls, tuple):
            return Method(owner, name)
        return self.outside(raw, name, cls.__dict__, node, f"{cls.__name__}.{name}")

    def _method(self, fn: Any, node: ast.AST | None) -> Func:
        function = as_function(fn)
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
            if value is np or value.__name__ == "math":
                return self.constant(inner)
            return self.outside(inner, name, value.__dict__, node, f"{value.__name__.rsplit('.', 1)[-1]}.{name}") \
                if name in value.__dict__ else self.constant(inner)  # fmt: skip
        if isinstance(value, type):
            if issubclass(value, enum.Enum) and name in value.__members__:
                return self.constant(value[name])
            return self.class_attribute(Static(value), value, name, node)
        if type(value).__name__ == "Model" and name in ("batch", "on", "trace", "with_options"):
            raise self.refuse("ACR205", node, seen=f".{name}")
        if isinstance(value, np.dtype | np.finfo | np.iinfo) and hasattr(value, name):
            return self.constant(_python(getattr(value, name)))
        raise self.refuse("ACR209", node, seen=f"{self.describe(Static(value))}.{name}")

    def enum_attribute(self, owner: EnumVal, name: str, node: ast.AST | None) -> Val:
        if owner.const is not NOT_CONST:
            if name in ("name", "value"):
                return self.constant(getattr(owner.const, name))
        elif name == "value":
            values = [m.value for m in owner.cls]  # type: ignore[attr-defined]
            if all(type(v) is int for v in values) or all(type(v) is float for v in values):
                out: Num = number(values[-1])
                for k, v in list(enumerate(values))[-2::-1]:
                    out = self.select(self.scalar("eq", Num(INT, var=self.word(owner)), number(k)), number(v), out)
                return out
            raise self.refuse("ACR308", node, seen=f"values of {owner.cls.__name__} that are not all int or all float")
        return self.class_attribute(owner, owner.cls, name, node)

    def load(self, ref: Ref, name: str, node: ast.AST | None) -> Val:
        """Read a field of an object of one class."""
        cls = ref.classes[0]
        t = self.know.fields.get(cls, {}).get(name)
        if t is None:
            raise self.refuse("ACR304", node, seen=f"{cls.__name__}.{name}, of which no instance has a value")
        if isinstance(t, OpaqueT):
            raise self.refuse("ACR304", node, seen=f"{cls.__name__}.{name} is {t.what}")
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
            if isinstance(val, Tensor):
                raise self.refuse("ACR601", value, seen=f"{self.describe(val)} in `and` or `or`",
                                  rewrite="use & | on bool arrays, or np.where")  # fmt: skip
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
                    return v
                case (ast.Invert(), Tensor()):
                    return self.ufunc("not", (v,), node)
                case (ast.USub(), Num()):
                    return self.scalar("neg", self.as_int(v) if v.type != FLOAT else self.read(v), node=node)
                case (ast.UAdd(), Num()):
                    return self.as_int(v)
                case (ast.Invert(), Num()) if v.type != FLOAT:
                    return self.scalar("invert", self.as_int(v), node=node)
            raise self.refuse("ACR301", node, seen=f"{type(op).__name__} of {self.describe(v)}")

        return self.each(val, one, node)

    def binary(self, op: ast.operator, a: Val, b: Val, node: ast.AST) -> Val:
        self.check_poison(a, b)
        return self.each(a, lambda x: self.each(b, lambda y: self.binary_one(op, x, y, node), node), node)

    def binary_one(self, op: ast.operator, a: Val, b: Val, node: ast.AST) -> Val:
        name = _BINARY.get(type(op))
        if isinstance(a, Tensor) or isinstance(b, Tensor):
            if all(isinstance(v, Tensor | Num) or self.sequence(v) is not None for v in (a, b)):
                x = a if isinstance(a, Num) else self.as_tensor(a, node=node)
                y = b if isinstance(b, Num) else self.as_tensor(b, node=node)
                if isinstance(op, ast.MatMult):
                    return self.matmul(self.as_tensor(x), self.as_tensor(y), node)
                if name is None or name in ("lshift", "rshift"):
                    raise self.refuse("ACR202", node, seen=f"{_OPERATORS[type(op)]} of arrays")
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
        raise self.refuse("ACR301", node, seen=f"{self.describe(a)} {_OPERATORS[type(op)]} {self.describe(b)}")

    def operator_method(self, op: ast.operator, a: Val, b: Val, node: ast.AST) -> Val | None:
        """Call `__add__` and so on of a dataclass."""
        cls = a.classes[0] if isinstance(a, Ref) else a.cls if isinstance(a, Record) else None
        name = f"__{_MAGIC[type(op)]}__"
        if cls is None or not hasattr(cls, name) or issubclass(cls, tuple):
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
            return self.scalar(op, self.as_int(a), self.as_int(b), node=node)
        if op == "pow" and FLOAT not in (a.type, b.type):
            exponent = self.known(b)
            if exponent is not NOT_CONST and exponent < 0:
                return self.scalar("pow", self.as_float(a), self.as_float(b), node=node)
            whole = self.scalar("ge", self.as_int(b), number(0))
            self.check(whole, "TypeError", "an int to a negative power is a float: write float(a) ** b", (), node)
        if op == "div" or FLOAT in (a.type, b.type):
            return self.scalar(op, self.as_float(a), self.as_float(b), node=node)
        return self.scalar(op, self.as_int(a), self.as_int(b), node=node)

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
            if isinstance(result, Tensor):
                raise self.refuse("ACR601", node, seen="a chained comparison of tensors", rewrite="(a < b) & (b < c)")
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
                vals.append(number(False))
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
                return self.scalar(name, self.as_float(a), self.as_float(b), node=node)
            return self.scalar(name, self.as_int(a), self.as_int(b), node=node)
        if isinstance(a, EnumVal) and isinstance(b, EnumVal) and a.cls is b.cls and equality:
            if a.const is not NOT_CONST and b.const is not NOT_CONST:
                return number((a.const is b.const) != negated)
            x, y = (Num(INT, var=self.word(v)) for v in (a, b))
            return self.scalar("ne" if negated else "eq", x, y)
        if isinstance(a, EnumVal) and issubclass(a.cls, int) and isinstance(b, Num):
            return self.compare_one(op, self.enum_attribute(a, "value", node), b, node)
        if isinstance(a, StrVal) and isinstance(b, StrVal):
            table = {ast.Lt: a.value < b.value, ast.Gt: a.value > b.value, ast.LtE: a.value <= b.value, ast.GtE: a.value >= b.value}
            return number(table[type(op)] if type(op) in table else (a.value == b.value) != negated)
        if equality and (isinstance(a, NoneVal) or isinstance(b, NoneVal)):
            return number((isinstance(a, NoneVal) and isinstance(b, NoneVal)) != negated)
        if isinstance(a, Static) and isinstance(b, Static) and equality:
            return number((a.value == b.value) != negated)
        if isinstance(a, TupleVal) and isinstance(b, TupleVal) and equality and not isinstance(op, ast.Is | ast.IsNot):
            if len(a.items) != len(b.items):
                return number(negated)
            out = number(True)
            for x2, y2 in zip(a.items, b.items, strict=True):
                out = self.both(out, self.truth(self.compare(ast.Eq(), x2, y2, node), node))
            return self.negate(out) if negated else out
        if equality and type(a) is not type(b) and not {type(a), type(b)} & {SharedVal, Ref, Record, ListVal, StaticList, Num}:
            return number(negated)
        raise self.refuse("ACR301", node, seen=f"{self.describe(a)} compared with {self.describe(b)}")

    def scalar_same(self, a: Var, b: Var) -> Num:
        out = self.var("", BOOL)
        self.emit(ir.Scalar(out=out, op="same", args=(a, b), site=-1, loc=self.loc))
        return Num(BOOL, var=out)

    def contains(self, a: Val, b: Val, node: ast.AST) -> Num:
        """`a in b`."""
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
            if isinstance(a, StrVal) and not isinstance(item, StrVal):
                continue
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

    # ---- subscripts

    def index_of(self, node: ast.expr) -> Any:
        """Evaluate an index: a value, or a `slice` of values; a tuple of them for several axes."""
        match node:
            case ast.Slice(lower=lower, upper=upper, step=step):
                return slice(*(self.expr(x) if x is not None else None for x in (lower, upper, step)))
            case ast.Tuple(elts=elts):
                return tuple(self.index_of(e) for e in elts)
        return self.expr(node)

    def subscript(self, base: Val, index: ast.expr, node: ast.AST) -> Val:
        where = self.index_of(index)
        if isinstance(base, UnionVal):
            base = self.not_none(base, node)
        return self.each(base, lambda v: self.get_item(v, where, node), node)

    def get_item(self, base: Val, where: Any, node: ast.AST) -> Val:
        self.check_poison(base)
        if isinstance(base, Tensor):
            if isinstance(where, TupleVal):
                where = where.items
            return self.index_tensor(base, where if isinstance(where, tuple) else (where,), node)
        if isinstance(where, tuple):
            where = TupleVal(tuple(self._no_slices(where, node)))
        if isinstance(where, UnionVal):
            where = self.not_none(where, node)
            if isinstance(where, UnionVal):
                return self.each(where, lambda w: self.get_item(base, w, node), node)
        match base:
            case DictVal() | SharedVal():
                if isinstance(base, DictVal) or base.node.kind == "dict":
                    return self.dict_item(base, where, node)
            case Static(value=value) if isinstance(value, enum.EnumMeta) and isinstance(where, StrVal):
                return self.constant(value[where.value])
            case Static():  # list[int] in an annotation
                return base
        items = self.items_of(base)
        if items is not None:
            if isinstance(where, slice):
                bounds = [None if v is None else self.static(v, node) for v in (where.start, where.stop, where.step)]
                if NOT_CONST not in bounds:
                    part = items[slice(*bounds)]
                    return TupleVal(part) if isinstance(base, TupleVal | Record) else self.new_list(part, node)
            elif isinstance(where, Tensor):
                raise self.refuse("ACR601", node, seen=f"an index of {self.describe(base)} by {self.describe(where)}")
            elif isinstance(where, Num):
                k = self.known(self.as_int(where) if where.type == BOOL else where)
                if k is not NOT_CONST:
                    if not -len(items) <= k < len(items):
                        self.fail("IndexError", "index out of range", node)
                        return Poison()
                    return items[int(k)]
                if not items:
                    self.fail("IndexError", "index out of range", node)
                    return Poison()
                if all(map(is_choosable, items)):
                    return Choice(items, self.checked_index(where, number(len(items)), node))
                if isinstance(base, StaticList):
                    self.make_real(base.cell)
                base = self.at_run_time(base)
        if isinstance(base, ListVal):
            return self.index_list(base, where, node)
        raise self.refuse("ACR301", node, seen=f"{self.describe(base)} cannot be indexed by {self.describe_index(where)}")

    def _no_slices(self, where: tuple[Any, ...], node: ast.AST) -> Iterator[Val]:
        for w in where:
            if isinstance(w, slice):
                raise self.refuse("ACR301", node, seen="a slice in a tuple index of something that is not an array")
            yield w

    def describe_index(self, where: Any) -> str:
        return "a slice" if isinstance(where, slice) else self.describe(where)

    def dict_item(self, base: Val, where: Any, node: ast.AST) -> Val:
        if not isinstance(where, StrVal):
            raise self.refuse("ACR309", node, seen=self.describe_index(where))
        if isinstance(base, DictVal):
            if where.value in base.keys:
                return base.items[base.keys.index(where.value)]
        else:
            assert isinstance(base, SharedVal)
            item = base.node.item(where.value)
            if item is not None:
                return self.shared_value(item)
        self.fail("KeyError", where.value, node)
        return Poison()

    def index_list(self, base: ListVal, where: Any, node: ast.AST) -> Val:
        n = self.list_lengths(base, node)
        if isinstance(where, slice):
            step = number(1) if where.step is None else where.step
            k = self.static(step, node)
            if not isinstance(k, int) or k == 0:
                raise self.refuse("ACR403", node, seen="a slice whose step is known only at run time")
            parts = [v if isinstance(v, Num) else None for v in (where.start, where.stop)]
            start, _, count = self.slice_part(self.word(n), parts[0], parts[1], k, node)
            return self.list_slice(base, self.extent(start), k, self.extent(count), node)
        if isinstance(where, Tensor):
            raise self.refuse("ACR601", node, seen=f"an index of a list by {self.describe(where)}")
        if not isinstance(where, Num) or where.type == FLOAT:
            raise self.refuse("ACR301", node, seen=f"an index {self.describe(where)}")
        return self.list_get(base, self.checked_index(where, n, node), node)

    def checked_index(self, where: Num, n: Num, node: ast.AST, text: str = "list index out of range") -> Num:
        """Return an index counted from the front, having checked it."""
        i = self.read(self.as_int(where))
        inside = self.both(self.scalar("ge", i, self.scalar("neg", n)), self.scalar("lt", i, n))
        self.check(inside, "IndexError", text, (), node)
        if i.const is not NOT_CONST:
            return i if i.const >= 0 else self.scalar("add", i, n)
        return self.select(self.scalar("lt", i, number(0)), self.scalar("add", i, n), i)

    def list_get(self, base: ListVal, index: Num, node: ast.AST | None) -> Val:
        outs = tuple(self.var("item", w) for w in words(base.item))
        if self.block is None:
            return Poison()
        self.not_void(base, node)
        if outs:
            args = (base.var, self.word(self.read(index)))
            self.emit(ir.ListOp(outs=outs, op="get", width=len(outs), args=args, loc=self.at(node)))
        return self.element_of(base, outs)

    def element_of(self, base: ListVal, outs: tuple[Var, ...]) -> Val:
        """Return the element of a list that lies in some words."""
        if isinstance(base.item, ListT):
            return self.list_of(base.item, outs[0], base.cell.pure)
        return self.from_words(base.item, outs)

    def list_slice(self, base: ListVal, start: Num, step: int, count: Num, node: ast.AST) -> ListVal:
        if self.block is None:
            return base
        out = self.var("part", ListT(base.item))
        args = (base.var, self.word(start), self.word(number(step)), self.word(count))
        self.emit(ir.ListOp(outs=(out,), op="slice", width=self.width(base), args=args, loc=self.at(node)))
        cell = self.made_cell("slice", base.item, node)
        self.mix(cell, base.cell.pure)
        return ListVal(cell, out)

    def made_cell(self, what: str, item: Type, node: ast.AST | None) -> Cell:
        """Return what is known of the lists that an operation makes: they are new, with items of one type."""
        key = (what, self.frame.path, *spot(node))
        cell = self.cell(key)
        cell.real = True
        cell.fixed = True
        if cell.item != item:
            cell.item = item
            self.know.changed = True
        return cell

    def set_item(self, base: Val, target: ast.Subscript, val: Val) -> None:
        if isinstance(base, StaticList):
            self.make_real(base.cell)
            raise Resweep
        if not isinstance(base, ListVal):
            raise self.refuse("ACR113", target, seen=f"an assignment into {self.describe(base)}")
        self.check_mutable(base, target)
        where = self.index_of(target.slice)
        if not isinstance(where, Num):
            raise self.refuse("ACR109", target, seen="an assignment to a slice of a list")
        i = self.checked_index(where, self.list_lengths(base, target), target, "list assignment index out of range")
        self.alias(val)
        self.mix(base.cell, is_own(val))
        self.widen_cell(base.cell, self.type_of(val))
        args = (base.var, self.word(i), *self.to_words(val, base.item))
        if self.block is not None:
            self.emit(ir.ListOp(outs=(), op="set", width=self.width(base), args=args, loc=self.at(target)))

    def check_mutable(self, base: ListVal, node: ast.AST) -> None:
        self.touch(base)
        if not base.own:
            place = node.func if isinstance(node, ast.Call) else node
            name = ast.unparse(place.value) if isinstance(place, ast.Attribute | ast.Subscript) else "xs"
            rewrite = f"make a copy first: list({name})"
            raise self.refuse("ACR113", node, seen=f"a change of {self.describe(base)}", rewrite=rewrite)

    def touch(self, base: ListVal) -> None:
        """Note that lists of a type are changed."""
        cell = self.cells_by_type(ListT(base.item))
        if not cell.touched:
            cell.touched = True
            self.know.changed = True

    def index_tensor(self, x: Tensor, where: Sequence[Any], node: ast.AST) -> Val:
        """NumPy's basic indexing, and one integer array."""
        ellipsis = [k for k, w in enumerate(where) if isinstance(w, Static) and w.value is Ellipsis]
        used = sum(1 for w in where if not isinstance(w, NoneVal) and not (isinstance(w, Static) and w.value is Ellipsis))
        if used > x.type.rank:
            raise self.refuse("ACR402", node, seen=f"{used} indices for {self.describe(x)}")
        full = [slice(None)] * (x.type.rank - used)
        parts = list(where)
        if ellipsis:
            parts[ellipsis[0] : ellipsis[0] + 1] = full
        else:
            parts += full
        arrays = [w for w in parts if isinstance(w, Tensor | StaticList | TupleVal | SharedVal | ListVal) and not (isinstance(w, Tensor) and w.type.rank == 0)]
        if len(arrays) > 1 or (arrays and any(isinstance(w, Num | Tensor) and w is not arrays[0] for w in parts)):
            raise self.refuse("ACR202", node, seen="several indices that are arrays", rewrite="index one axis after the other")
        cuts: list[Any] = []
        axis = 0
        for w in parts:  # 1. slices
            if isinstance(w, NoneVal):
                continue
            if isinstance(w, slice):
                step = 1 if w.step is None else self.static(w.step, node)
                if not isinstance(step, int) or step == 0:
                    raise self.refuse("ACR403", node, seen="a slice whose step is known only at run time")
                bounds = []
                for v in (w.start, w.stop):
                    if isinstance(v, Tensor):
                        raise self.refuse("ACR601", node, seen=f"a slice bound {self.describe(v)}")
                    if isinstance(v, UnionVal):
                        v = self.not_none(v, node)
                    bounds.append(v if isinstance(v, Num) else None)
                cuts.append(self.slice_part(x.dims[axis], bounds[0], bounds[1], step, node))
            else:
                cuts.append((0, 1, x.dims[axis]))
            axis += 1
        out = self.slice(x, cuts, node)
        axis = 0
        shape: list[Any] = []
        for w in parts:  # 2. integers and arrays, 3. new axes
            if isinstance(w, NoneVal):
                shape.append(1)
                continue
            if isinstance(w, slice):
                shape.append(out.dims[axis])
                axis += 1
                continue
            if isinstance(w, UnionVal):
                w = self.not_none(w, node)
            if isinstance(w, EnumVal):
                w = self.enum_attribute(w, "value", node)
            if isinstance(w, Num) and w.type == INT:
                out = self.take(out, w, axis, node)
                continue
            if not isinstance(w, Tensor):
                if self.sequence(w) is None and not isinstance(w, ListVal):
                    raise self.refuse("ACR301", node, seen=f"an index {self.describe(w)}")
                w = self.as_tensor(w, node=node)
            if w.type.dtype == "bool":
                raise self.refuse("ACR202", node, seen="a mask as an index: the extent would depend on values",
                                  rewrite="np.where(mask, x, 0)")  # fmt: skip
            out = self.take(out, w, axis, node)
            for d in w.dims:
                shape.append(d)
                axis += 1
        if any(isinstance(w, NoneVal) for w in parts):
            out = self.reshape(out, shape, node)
        return out

    def static(self, val: Any, node: ast.AST | None) -> Any:
        """Return the Python value of something known when the model is compiled, NOT_CONST if it is not known."""
        match val:
            case Num():
                return self.known(val)
            case NoneVal():
                return None
            case StrVal(value=value) | Static(value=value):
                return value
            case EnumVal():
                return val.const
            case TupleVal() | StaticList():
                items = [self.static(v, node) for v in val.items]
                return NOT_CONST if NOT_CONST in items else tuple(items)
            case SharedVal(node=shared) if shared.kind in ("tuple", "list"):
                items = [self.static(v, node) for v in self.shared_items(val)]
                return NOT_CONST if NOT_CONST in items else tuple(items)
        return NOT_CONST

    # ---- lists

    def append(self, base: ListVal, val: Val, node: ast.AST, op: str = "append", index: Num | None = None) -> None:
        self.check_mutable(base, node)
        self.alias(val)
        self.mix(base.cell, is_own(val))
        self.widen_cell(base.cell, self.type_of(val))
        if self.block is None:
            return
        at = () if index is None else (self.word(index),)
        args = (base.var, *at, *self.to_words(val, base.item))
        self.emit(ir.ListOp(outs=(), op=op, width=self.width(base), args=args, loc=self.at(node)))

    def extend(self, base: ListVal, val: Val, node: ast.AST) -> None:
        self.check_mutable(base, node)
        items = self.items_of(val)
        if items is not None:
            for v in items:
                self.append(base, v, node)
            return
        other = self.to_list(val, node)
        self.mix(base.cell, other.cell.pure)
        self.widen_cell(base.cell, other.item)
        if other.item != base.item:
            self.unify_cells(base.cell, other.cell)
        if self.block is not None:
            args = (base.var, other.var)
            self.emit(ir.ListOp(outs=(), op="extend", width=self.width(base), args=args, loc=self.at(node)))

    def uniform(self, val: ListVal, node: Any) -> ListVal:
        """Return a list of arrays (and numbers, which become arrays) as one whose elements all have one type.

        An element of another rank than the highest fails at run time, as NumPy does.
        """
        if not isinstance(val.item, UnionT):
            return val
        kinds: set[TensorT] = set()
        for m in val.item.members:
            if isinstance(m, TensorT):
                kinds.add(TensorT(m.dtype, (None,) * m.rank))
            elif isinstance(m, IntT | FloatT | BoolT):
                kinds.add(TensorT(HOST[m], ()))
        rank = max((t.rank for t in kinds), default=0)
        kinds = {t for t in kinds if t.rank == rank}
        if len(kinds) != 1:
            raise self.refuse("ACR303", node, seen=self.describe(val))

        def one(v: Val) -> Val:
            x = self.as_tensor(v, node=node)
            if x.type.rank != rank:
                self.fail("ValueError", "all input arrays must have the same shape", node)
            return x

        item = ast.Name("#item", ast.Store())
        return self.built(val, node, item, lambda: self.each(self.state[(self.frame.scope, "#item")], one, node), ())

    def stack_list(
        self, val: ListVal, axis: int, node: Any = None, dtype: str | None = None, empty: bool = False
    ) -> Tensor:
        """Stack a list whose length is known only at run time."""
        val = self.uniform(val, node)
        item = val.item
        if not isinstance(item, TensorT) or None not in item.shape:
            return super().stack_list(val, axis, node, dtype, empty)
        axis = self.axes_of(axis, item.rank + 1, node)[0]
        out = self.join_list(val, axis, node, lambda x: self.reshape(x, (*x.dims[:axis], 1, *x.dims[axis:]), node))
        return out if dtype is None else self.cast(out, dtype, node)

    def concat_list(self, val: ListVal, axis: int, node: Any = None) -> Tensor:
        """Concatenate a list whose length is known only at run time."""
        val = self.uniform(val, node)
        item = val.item
        if not isinstance(item, TensorT) or None not in item.shape:
            return super().concat_list(val, axis, node)
        return self.join_list(val, self.axes_of(axis, item.rank, node)[0], node, lambda x: x)

    def join_list(self, val: ListVal, axis: int, node: Any, f: Callable[[Tensor], Tensor]) -> Tensor:
        """Concatenate f(x) of all arrays of a list, one after the other: their extents are known only at run time."""
        n = self.list_lengths(val, node)
        self.check(self.scalar("gt", n, number(0)), "ValueError", "need at least one array to concatenate", (), node)
        key = (self.frame.scope, "#joined")
        first = self.list_get(val, number(0), node)
        assert isinstance(first, Tensor)
        self.state[key] = f(first)

        def turn() -> None:
            joined, x = self.state[key], self.state[(self.frame.scope, "#item")]
            assert isinstance(joined, Tensor) and isinstance(x, Tensor)
            self.state[key] = self.concat([joined, f(x)], axis, node)

        rest = self.list_slice(val, number(1), 1, self.scalar("sub", n, number(1)), node)
        self.iterate(rest, node, ast.Name("#item", ast.Store()), turn, (), (key,))
        out = self.state.pop(key)
        assert isinstance(out, Tensor)
        return out

    def to_list(self, val: Val, node: ast.AST) -> ListVal:
        """Return an iterable as a list at run time (the same one if it is a list)."""
        if isinstance(val, ListVal):
            return val
        if isinstance(val, StaticList):
            return self.realise(val)
        if isinstance(val, Generator):
            got = self.comprehend(val.node, val)
            return self.to_list(got, node)
        out = self.collect(val, lambda v: v, node)
        return self.realise(out) if isinstance(out, StaticList) else out

    def collect(self, iterable: Val, f: Callable[[Val], Val], node: ast.AST) -> ListVal | StaticList:
        """Return the list of f(item) over an iterable."""
        items = self.items_of(iterable)
        if items is not None:
            got = self.new_list([f(v) for v in items], node)
            assert isinstance(got, ListVal | StaticList)
            return got
        return self.built(iterable, node, ast.Name("#item", ast.Store()), lambda: f(self.state[(self.frame.scope, "#item")]), ())

    def built(
        self, iterable: Val, node: ast.AST, target: ast.expr, value: Callable[[], Val], inner: Sequence[ast.AST],
        conditions: Sequence[ast.expr] = (),
    ) -> ListVal:  # fmt: skip
        """Build a list by a loop at run time."""
        cell = self.cell(("built", self.frame.path, *spot(node)))
        cell.real = True
        out = ListVal(cell.find(), self.var("list", ListT(cell.find().item or NoneT())))
        self.emit(ir.ListNew(out=out.var, width=self.width(out), args=(), count=0, loc=self.at(node)))

        def turn() -> None:
            for c in conditions:
                yes, no = self.branch(c)
                self.frame.loops[-1].continues += no
                self.join(yes)
                if self.block is None:
                    return
            val = value()
            if self.block is not None:
                self.append(out, val, node)

        self.iterate(iterable, node, target, turn, inner)
        return out

    def list_concat(self, a: Val, b: Val, node: ast.AST) -> ListVal:
        x, y = self.to_list(a, node), self.to_list(b, node)
        known = [part.item for part in (x, y) if part.cell.find().item is not None]
        item = union(*known) if known else NoneT()
        for part in (x, y):
            if part.item != item:
                self.widen_cell(part.cell, item)
        n = self.list_lengths(x, node)
        out = self.list_slice(x, number(0), 1, n, node)
        self.mix(out.cell, y.cell.pure)
        if self.block is not None:
            self.emit(ir.ListOp(outs=(), op="extend", width=self.width(out), args=(out.var, y.var), loc=self.at(node)))
        return out

    def list_repeat(self, seq: StaticList | ListVal, times: Num, node: ast.AST) -> Val:
        k = self.known(times)
        if isinstance(seq, StaticList) and k is not NOT_CONST and k <= UNROLL:
            return self.new_list(seq.items * k, node)
        if isinstance(seq, ListVal) or len(seq.items) != 1:
            part = self.to_list(seq, node)
            whole = self.list_slice(part, number(0), 1, number(0), node)
            turns = Range(number(0), times, number(1))
            self.iterate(turns, node, ast.Name("#item", ast.Store()), lambda: self.extend(whole, part, node), ())
            return whole
        cell = self.cell(("repeat", self.frame.path, *spot(node)))
        cell.real = True
        self.widen_cell(cell, self.type_of(seq.items[0]))
        self.mix(cell, is_own(seq.items[0]))
        out = ListVal(cell.find(), self.var("list", ListT(cell.find().item or NoneT())))
        args = (self.word(self.scalar("max", self.read(times), number(0))), *self.to_words(seq.items[0], out.item))
        self.emit(ir.ListOp(outs=(out.var,), op="fill", width=self.width(out), args=args, loc=self.at(node)))
        return out

    def comprehend(self, node: ast.ListComp | ast.GeneratorExp, generator: Generator | None) -> Val:
        """Evaluate a comprehension: known items one by one, others by a loop."""
        names = assigned_names([ast.Assign([g.target], ast.Constant(0)) for g in node.generators])
        self.counter += 1
        scope = (*self.frame.scope, "comprehension", self.counter)
        first = self.expr(node.generators[0].iter)
        self.scopes[scope] = (names, self._comprehension_func())
        self.frame.overlays.append((scope, names))
        try:
            return self.generators(node, 0, first)
        finally:
            self.frame.overlays.pop()
            for name in names:
                self.state.pop((scope, name), None)
                self.forget(scope, name)

    def _comprehension_func(self) -> Func:
        func = self.frame.func
        scope = self.frame.overlays[-1][0] if self.frame.overlays else self.frame.scope
        return Func(func.source, func.globals, func.closure, scope, func.fn)

    def generators(self, node: ast.ListComp | ast.GeneratorExp, k: int, iterable: Val) -> Val:
        gen = node.generators[k]
        if gen.is_async:
            raise self.refuse("ACR104", node)
        last = k == len(node.generators) - 1
        items = self.items_of(iterable)
        inner: list[ast.AST] = [ast.Expr(node.elt), *(ast.Expr(c) for g in node.generators[k:] for c in g.ifs)]
        if items is None and isinstance(iterable, Range):
            items = self.unrolled_range(iterable, gen.target, inner)
        if items is not None and last:
            flags = []
            out: list[Val] = []
            static = True
            if gen.ifs:
                saved = self.snapshot(), self.block, self.state
                for item in items:
                    self.assign(gen.target, item)
                    verdict: Any = True
                    for c in gen.ifs:
                        v = self.static(self.expr(c), c)
                        verdict = verdict and v if v is not NOT_CONST else NOT_CONST
                        if verdict is NOT_CONST:
                            break
                    flags.append(verdict)
                static = NOT_CONST not in flags
                self.rollback(saved[0])
                self.block, self.state = saved[1], saved[2]
            if static:
                for n, item in enumerate(items):
                    if flags and not flags[n]:
                        continue
                    self.assign(gen.target, item)
                    val = self.part(node.elt)
                    if self.block is None:
                        return Poison()
                    out.append(val)
                return self.new_list(out, node)
        if last:
            return self.built(iterable, node, gen.target, lambda: self.part(node.elt), inner, gen.ifs)
        cell = self.cell(("nested", self.frame.path, *spot(node), k))
        cell.real = True
        result = ListVal(cell.find(), self.var("list", ListT(cell.find().item or NoneT())))
        self.emit(ir.ListNew(out=result.var, width=self.width(result), args=(), count=0, loc=self.at(node)))

        def turn() -> None:
            for c in gen.ifs:
                yes, no = self.branch(c)
                self.frame.loops[-1].continues += no
                self.join(yes)
                if self.block is None:
                    return
            part = self.generators(node, k + 1, self.expr(node.generators[k + 1].iter))
            if self.block is not None:
                self.extend(result, part, node)

        self.iterate(iterable, node, gen.target, turn, inner)
        return result

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
                kwargs[kw.arg] = self.expr(kw.value)
                continue
            val = self.expr(kw.value)
            if not isinstance(val, DictVal | SharedVal):
                raise self.refuse("ACR203", kw.value, seen=f"** of {self.describe(val)}")
            shared = self.materialise(val) if isinstance(val, SharedVal) else val
            assert isinstance(shared, DictVal)
            kwargs.update(zip(shared.keys, shared.items, strict=True))
        self.check_poison(func, *args, *kwargs.values())
        if self.block is None:
            return Poison()
        return self.call(func, args, kwargs, node)

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
        from acronumba.frontend.calls import call_method, call_static

        match func:
            case Func():
                return self.call_function(func, args, kwargs, node)
            case Bound(func=inner, self=owner):
                return self.call_function(inner, (owner, *args), kwargs, node)
            case Method(owner=owner) if is_several(owner):
                return self.each(owner, lambda o: self.call(self.attribute(o, func.name, node), args, kwargs, node), node)
            case Method():
                return call_method(self, func, list(args), dict(kwargs), node)
            case Static(value=value):
                wrapped = as_function(value)
                inner_func = self.function(wrapped, node) if wrapped is not None else func
                if isinstance(inner_func, Func):
                    return self.call_function(inner_func, args, kwargs, node)
                return call_static(self, value, list(args), dict(kwargs), node)
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
        if cls is None or not hasattr(cls, "__call__"):  # noqa: B004 -- of its instances
            raise self.refuse("ACR301", node, seen=f"{self.describe(func)} cannot be called")
        return self.call(self.class_attribute(func, cls, "__call__", node), args, kwargs, node)

    def bind_arguments(self, func: Func, args: Sequence[Val], kwargs: Mapping[str, Val], node: ast.AST | None) -> dict[str, Val]:
        """Return the parameters of a function with their values."""
        a = func.source.node.args
        name = func.source.name
        positional = [p.arg for p in (*a.posonlyargs, *a.args)]
        out: dict[str, Val] = {}
        if len(args) > len(positional) and a.vararg is None:
            raise self.refuse("ACR203", node, seen=f"{len(args)} arguments for {name}({', '.join(positional)})")
        out.update(zip(positional, args, strict=False))
        if a.vararg is not None:
            out[a.vararg.arg] = TupleVal(tuple(args[len(positional) :]))
        extra: dict[str, Val] = {}
        for key, val in kwargs.items():
            if key in out and key not in extra:
                raise self.refuse("ACR203", node, seen=f"{key} given twice to {name}")
            if key in positional or key in [p.arg for p in a.kwonlyargs]:
                out[key] = val
            elif a.kwarg is not None:
                extra[key] = val
            else:
                raise self.refuse("ACR203", node, seen=f"{name} has no parameter {key}")
        if a.kwarg is not None:
            out[a.kwarg.arg] = DictVal(tuple(extra), tuple(extra.values()))
        for p, default in zip(positional[len(positional) - len(a.defaults) :], self.defaults(func), strict=True):
            out.setdefault(p, default)
        for p2, d in zip(a.kwonlyargs, a.kw_defaults, strict=True):
            if p2.arg not in out and d is not None:
                out[p2.arg] = self.kw_default(func, p2.arg)
        missing = [p for p in (*positional, *(k.arg for k in a.kwonlyargs)) if p not in out]
        if missing:
            raise self.refuse("ACR203", node, seen=f"{name} without {', '.join(missing)}")
        return out

    def defaults(self, func: Func) -> tuple[Val, ...]:
        if func.fn is None:
            return func.defaults
        return tuple(self.default(v, func, k) for k, v in enumerate(func.fn.__defaults__ or ()))

    def kw_default(self, func: Func, name: str) -> Val:
        if func.fn is None:
            return func.kw_defaults[name]
        return self.default(func.fn.__kwdefaults__[name], func, name)

    def default(self, value: Any, func: Func, what: Any) -> Val:
        if type(value) in (int, float):
            return number(value)
        function = as_function(value)
        if function is not None:
            return self.function(function, None)
        return self.shared_value(describe_value(f"{func.source.name}.{what}", value))

    def call_function(self, func: Func, args: Sequence[Val], kwargs: Mapping[str, Val], node: ast.AST | None) -> Val:
        """Call a function of the user: inlined, or by a call if it is recursive."""
        params = self.bind_arguments(func, args, kwargs, node)
        for v in params.values():
            self.alias(v)
            if isinstance(v, Generator):
                raise self.refuse("ACR114", v.node)
        code = func.source.node
        if code in self.know.recursive:
            return self.call_instance(func, params, node)
        if any(f.func.source.node is code for f in self.frames):
            self.know.recursive.add(code)
            raise Resweep
        return self.inline(func, params, node)

    def inline(self, func: Func, params: Mapping[str, Val], node: ast.AST | None) -> Val:
        here = spot(node)
        frame = self.push(func, (*self.frame.path, func.source.node.lineno, here))
        saved = self.source, self.loc, self.outer_loc
        if func.globals.get("__name__") == "acronumba.nn" and node is not None:
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
        keep = any(isinstance(n, ast.FunctionDef | ast.Lambda) for s in func.source.body for n in ast.walk(s))
        points = []
        for (block, state), _, _ in frame.returns:
            if not keep:
                state = {k: v for k, v in state.items() if k[0] != frame.scope}
            points.append((block, state))
        return self.join_values(points, [v for _, v, _ in frame.returns])

    def push(self, func: Func, path: tuple[Any, ...]) -> Frame:
        a = func.source.node.args
        params = [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs, *([a.vararg] if a.vararg else []), *([a.kwarg] if a.kwarg else []))]
        self.counter += 1
        names = assigned_names(func.source.body) | frozenset(params)
        scope = (self.counter, func.source.name)
        frame = Frame(func, scope, path, names)
        self.scopes[scope] = (names, func)
        self.frames.append(frame)
        return frame

    # ---- recursion

    def call_instance(self, func: Func, params: dict[str, Val], node: ast.AST | Loc | None) -> Val:
        """Call a recursive function: one instance for each set of argument types."""
        code = func.source.node
        captured = self.captured(func)
        given = {**params, **{f"^{k[1]}": v for k, v in captured.items()}}
        same_code = [i for i in self.instances.values() if i.func.source.node is code]
        plain = self.know.plain.setdefault(code, set())
        templates: list[Template] = []
        for k, (name, val) in enumerate(given.items()):
            templates.append(self.parameter(val, (code, k), k in plain, code in self.know.loose))
        key = (code, tuple(map(self.template_key, templates)))
        instance = self.instances.get(key)
        if instance is None:
            for other in same_code:
                if not other.walking:
                    continue
                for k, (old, new) in enumerate(zip(other.templates, templates, strict=False)):
                    if k not in plain and _is_number(old) and _is_number(new) and not equal_templates(old, new):
                        plain.add(k)
                        raise Resweep
            if len(same_code) > 12 and code not in self.know.loose:
                self.know.loose.add(code)
                raise Resweep
            if len(same_code) > 60:
                raise self.refuse("ACR303", node, seen=f"{func.source.name} is called with ever new types of arguments")
            instance = Instance(key, len(self.functions), func, tuple(templates))
            self.instances[key] = instance
            self.functions.append(None)
            self.walk_instance(instance, list(given), captured)
        flat: list[Var] = []
        for shape, val in zip(instance.templates, given.values(), strict=True):
            flat += self.template_words(shape, val)
        result = self.know.results.get(key)
        if result is None:
            if self.block is not None:
                self.fail("RecursionError", "this call never returns", node)
            return Poison()
        if self.block is None:
            return Poison()
        outs = tuple(self.var(f"{func.source.name.rsplit('.', 1)[-1]}", w) for w in words(result))
        self.emit(ir.Call(outs=outs, function=instance.index, args=tuple(flat), loc=self.at(node)))
        return self.from_words(result, outs)

    def captured(self, func: Func) -> dict[Any, Val]:
        """Return the variables of enclosing calls that a nested function uses, and those that these use."""
        out: dict[Any, Val] = {}
        todo = [func]
        seen = set()
        while todo:
            inner = todo.pop()
            if inner.key in seen:
                continue
            seen.add(inner.key)
            used = {n.id for s in inner.source.body for n in ast.walk(s) if isinstance(n, ast.Name)}
            scope, outer = inner.scope, inner
            while scope is not None:
                names, outer = self.scopes[scope]
                for name in sorted(used & names):
                    val = self.state.get((scope, name))
                    if val is not None and not isinstance(val, Poison):
                        out[(scope, name)] = val
                        if isinstance(val, Func):
                            todo.append(val)
                scope = outer.scope
        return dict(sorted(out.items(), key=lambda kv: str(kv[0])))

    def parameter(self, val: Val, where: Any, plain: bool, loose: bool) -> Template:
        """Return what the callee may know of an argument."""
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
                return TTensor(TensorT(val.type.dtype, dims), dims, False)
            case TupleVal() | DictVal() | Record():
                kind = "tuple" if isinstance(val, TupleVal) else "dict" if isinstance(val, DictVal) else "record"
                meta: Any = len(val.items)
                if isinstance(val, DictVal):
                    meta = val.keys
                if isinstance(val, Record):
                    return TType(self.type_of(val))
                return TParts(kind, meta, tuple(self.parameter(v, (where, k), plain, loose) for k, v in enumerate(val.items)))
            case ListVal() | StaticList():
                if isinstance(val, StaticList):
                    self.make_real(val.cell)
                    self.type_of(val)
                cell = val.cell.find()
                if not is_own(val):
                    return TType(ListT(cell.item or NoneT()))
                mine = self.cell(("parameter", where))
                mine.real = True
                return TList(self.unify_cells(mine, cell), True)
            case Maybe():
                raise self.refuse("ACR306", None, seen="an argument that may have no value")
            case SharedVal():
                return TStatic(val)
        shape = self.template(val)
        if loose and isinstance(shape, TType):
            return shape
        return shape

    def template_key(self, shape: Template) -> Any:
        match shape:
            case TStatic(val=val):
                return ("static", self.static_key(val))
            case TParts():
                return (shape.kind, shape.meta, tuple(map(self.template_key, shape.items)))
            case TTensor():
                return shape.type
            case TList():
                return ("list", id(shape.cell.find()), shape.cell.find().item)
            case TType():
                return shape.type
        return repr(shape)

    def static_key(self, val: Val) -> Any:
        match val:
            case Num():
                return (val.type, repr(val.const), val.shared and val.shared.path)
            case EnumVal():
                return (val.cls, val.const)
            case Tensor(ref=SharedArg(index=index)):
                return ("shared", self.shared_params[index].path)
            case SharedVal(node=node):
                return ("shared", node.path)
            case Func():
                return (val.source.node, val.scope if val.scope is None else val.scope[1:])
            case Bound():
                return (self.static_key(val.func), self.static_key(val.self))
            case StrVal(value=value):
                return value
            case NoneVal():
                return None
            case Static(value=value):
                return id(value)
            case TupleVal():
                return tuple(map(self.static_key, val.items))
        return id(val)

    def template_words(self, shape: Template, val: Val) -> list[Var]:
        """Return the argument words of a value for a parameter."""
        match shape:
            case TStatic():
                return []
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
        keys = [*((frame.scope, n) for n in names if not n.startswith("^")), *captured]
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
            return
        result = union(*types_, *([old] if old is not None else []))
        if _deep(result):
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

    # ---- hooks that `calls` fills

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
        if not hasattr(np.ndarray, name):
            raise self.refuse("ACR307", node, seen=f"an array has no attribute {name!r}")
        return Method(x, name)


_BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.Pow: "pow",
    ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "lshift", ast.RShift: "rshift",
}  # fmt: skip
_OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.BitAnd: "&",
    ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>", ast.MatMult: "@",
}  # fmt: skip
_MAGIC = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "lshift", ast.RShift: "rshift",
    ast.MatMult: "matmul",
}  # fmt: skip
_COMPARE = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Is: "eq", ast.IsNot: "ne",
}  # fmt: skip


def _is_list(val: Val) -> bool:
    return isinstance(val, ListVal | StaticList) or (isinstance(val, SharedVal) and val.node.kind == "list")


def _is_refused(val: Val | None) -> bool:
    """Whether a value is missing because an expression was refused."""
    return isinstance(val, Poison) and not val.why


def _is_number(shape: Template) -> bool:
    if isinstance(shape, TStatic):
        return isinstance(shape.val, Num | EnumVal)
    return isinstance(shape, TType) and isinstance(shape.type, IntT | FloatT | BoolT | EnumT)


def _deep(t: Type) -> bool:
    return endless(t)


def _python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def as_function(value: Any) -> types.FunctionType | None:
    """Return the plain function behind a function, a model or a `functools.wraps` wrapper, else None."""
    if isinstance(value, types.FunctionType):
        inner = inspect.unwrap(value)
        return inner if isinstance(inner, types.FunctionType) else None
    wrapped = getattr(value, "__wrapped__", None)
    if type(value).__name__ == "Model" and isinstance(wrapped, types.FunctionType):
        return wrapped
    return None


def is_foreign(fn: types.FunctionType) -> bool:
    """Whether a function belongs to Python or NumPy: it is never compiled with a model."""
    file = fn.__code__.co_filename
    return file.startswith(_FOREIGN) and (file.startswith(_FOREIGN[1]) or "site-packages" not in file)


def python_class(val: Val) -> type:
    """Return the Python class of a list, dict, tuple, string or number."""
    match val:
        case ListVal() | StaticList():
            return list
        case DictVal():
            return dict
        case SharedVal(node=node):
            return node.cls
        case Num(type=t):
            return runtime_class(t)
        case StrVal():
            return str
    return tuple


def runtime_class(t: Type) -> type:
    """Return the Python class of the values of a type."""
    from acronumba.ir.types import BoolT, DictT, EnumT, FloatT, IntT, StrT, TupleT

    match t:
        case IntT():
            return int
        case FloatT():
            return float
        case BoolT():
            return bool
        case NoneT():
            return type(None)
        case StrT():
            return str
        case EnumT(cls=cls) | StructT(cls=cls):
            return cls
        case TensorT():
            return np.ndarray if t.rank else np.dtype(t.dtype).type
        case TupleT():
            return tuple
        case DictT():
            return dict
        case ListT():
            return list
    return object


def lower(
    fn: types.FunctionType,
    params: Sequence[Type],
    fields: Mapping[type, Mapping[str, Type]],
    shared: SharedTree,
    constants: Mapping[str, Any],
) -> Lowered:
    """Compile a function to a typed program.

    Parameters
    ----------
    fn : function
        The model's plain function.
    params : sequence of Type
        Types of the positional parameters that are given.
    fields : mapping of class to mapping of field name to Type
        Fields of the classes of the instances.
    shared : SharedTree
        Structure of the keyword-only parameters.
    constants : mapping of path to int
        Values of the shared ints; those that the program needs when it is compiled are reported in `Lowered.demanded`.

    Raises
    ------
    AcronumbaError
        All refusals at once.
    """
    know = Knowledge()
    know.fields = {cls: dict(table) for cls, table in fields.items()}
    for _ in range(SWEEPS):
        know.changed = False
        sweep = Lowerer(know)
        sweep.constants = dict(constants)
        sweep.roots = frozenset(shared.roots)
        sweep.data_lists = set(_data_lists(params, fields, shared))
        try:
            result = _sweep(sweep, fn, params, shared)
        except Resweep:
            continue
        except Refused as error:
            if error.error is not None:
                sweep.errors.append(error.error)
            raise together(sweep.errors) from None
        if not know.changed:
            if sweep.errors:
                raise together(_distinct(sweep.errors))
            return result
    raise RuntimeError(f"no stable types for {fn.__qualname__} after {SWEEPS} sweeps")


def _distinct(errors: Sequence[AcronumbaError]) -> list[AcronumbaError]:
    seen: dict[Any, AcronumbaError] = {}
    for e in errors:
        seen.setdefault((e.code, e.loc, e.seen), e)
    return list(seen.values())


def _data_lists(params: Sequence[Type], fields: Mapping[type, Mapping[str, Type]], shared: SharedTree) -> Iterator[ListT]:
    def walk(t: Type) -> Iterator[ListT]:
        match t:
            case ListT():
                yield t
                yield from walk(t.item)
            case UnionT():
                for m in t.members:
                    yield from walk(m)
        for inner in getattr(t, "items", ()):
            yield from walk(inner)

    for t in (*params, *(u for table in fields.values() for u in table.values()), *(leaf.type for leaf in shared.leaves)):
        yield from walk(t)


def _sweep(sweep: Lowerer, fn: types.FunctionType, params: Sequence[Type], shared: SharedTree) -> Lowered:
    func = sweep.function(fn, None)
    assert isinstance(func, Func)
    loc = func.source.loc(func.source.node)
    a = func.source.node.args
    if a.vararg or a.kwarg or not (a.posonlyargs or a.args):
        raise sweep.refuse("ACR208", loc, seen=f"{func.source.name}({ast.unparse(a)})")
    sweep.functions.append(None)
    code = sweep.code = FunctionCode(sweep.function_name(func), loc)
    sweep.loc, sweep.source = loc, func.source
    frame = sweep.push(func, ())
    sweep.block = sweep.new_block()
    positional = [p.arg for p in (*a.posonlyargs, *a.args)]
    flat: list[Var] = []
    for name, t in zip(positional, params, strict=False):
        vars = tuple(sweep.var(name, w) for w in words(t))
        flat += vars
        sweep.state[(frame.scope, name)] = sweep.from_words(t, vars)
    code.params = tuple(flat)
    for name, default in zip(positional[len(positional) - len(a.defaults) :], sweep.defaults(func), strict=True):
        sweep.state.setdefault((frame.scope, name), default)
    for p in a.kwonlyargs:
        root = shared.roots.get(p.arg)
        if root is not None:
            function = as_function(root.value) if isinstance(root, SharedConst) else None
            sweep.state[(frame.scope, p.arg)] = sweep.function(function, loc) if function else sweep.shared_value(root)
        else:
            sweep.state[(frame.scope, p.arg)] = sweep.kw_default(func, p.arg)
    key = "entry"
    if func.source.node in sweep.know.recursive:
        given = {n: sweep.state[(frame.scope, n)] for n in [*positional, *(p.arg for p in a.kwonlyargs)]}
        val = sweep.call_instance(func, given, loc)
        if sweep.block is not None:
            frame.returns.append((sweep.point(), val, loc))
            sweep.block = None
    else:
        sweep.body(func.source.body)
        if sweep.block is not None:
            frame.returns.append((sweep.point(), NoneVal(), loc))
            sweep.block = None
    sweep.finish(key, frame)
    sweep.functions[0] = code
    never = [i for i in sweep.instances.values() if sweep.know.results.get(i.key) is None]
    result = sweep.know.results.get(key)
    if not sweep.know.changed and not sweep.errors:
        if never:
            i = never[0]
            raise sweep.refuse("ACR207", i.func.source.loc(i.func.source.node), seen=f"{i.func.source.name} always calls itself again")
        if result is None:
            result = NoneT()
    program = _program(sweep, code.name, params, result or NoneT())
    reads = {cls: frozenset(names) for cls, names in sweep.reads.items()}
    return Lowered(
        program=program,
        reads=reads,
        demanded=frozenset(sweep.demanded),
        globals=tuple(sweep.globals.values()),
        fields={cls: dict(table) for cls, table in sweep.know.fields.items()},
    )


def make_layouts(fields: Mapping[type, Mapping[str, Type]], reads: Mapping[type, Any]) -> tuple[ir.StructLayout, ...]:
    """Return the layouts of rows: the fields that are read, of all classes, sorted by name."""
    layouts = []
    for cls in sorted(fields, key=class_key):
        out, offset = [], 1
        for name in field_names(cls):
            if name not in reads.get(cls, ()) or name not in fields[cls]:
                continue
            t = fields[cls][name]
            width = len(words(t))
            out.append(ir.FieldLayout(name=name, type=t, offset=offset, width=width))
            offset += width
        layouts.append(ir.StructLayout(cls=cls, fields=tuple(out), size=offset))
    return tuple(layouts)


def _program(sweep: Lowerer, name: str, params: Sequence[Type], result: Type) -> ir.Program:
    layouts = make_layouts(sweep.know.fields, sweep.reads)
    tags = {layout.cls: k for k, layout in enumerate(layouts)}

    def settle(instr: ir.Instr) -> ir.Instr:
        if isinstance(instr, ir.Const) and isinstance(instr.value, _ClassNumber):
            return replace(instr, value=tags.get(instr.value.cls, -1))
        return instr

    functions = []
    for code in sweep.functions:
        assert code is not None
        blocks = tuple(
            ir.Block(
                instrs=tuple(map(settle, instrs)),
                end=end if end is not None else ir.Jump(block=k, loc=NOWHERE),
            )
            for k, (instrs, end) in enumerate(zip(code.blocks, code.ends, strict=True))
        )
        functions.append(
            ir.Function(name=code.name, params=code.params, results=code.results, blocks=blocks, loc=code.loc)
        )
    return ir.Program(
        name=name,
        functions=tuple(functions),
        sites=tuple(sweep.sites),
        layouts=layouts,
        shared=tuple(sweep.shared_params),
        params=tuple(params),
        result=result,
        warnings=(),
    )


