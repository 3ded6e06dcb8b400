"""Text to trees: library code written by hand in a small subset of Python.

In: source text, or files of it that import each other. Out: `tree.Function`s. The language is that of `text` (see there
for loads, stores and conversions):

    LOG2E = 1.4426950408889634           a constant of the file

    @inline
    def sigmoid(x: vec) -> vec:          parameters without annotation are i64; no `->`: no result
        y = exp(-x)                      a local has the type of its first assignment (whole numbers i64, others f64)
        return 1.0 / (1.0 + y)           a number takes the type of the other side; a scalar beside a vector is spread

`x, y = a, b` is `x = a`, then `y = b`, which must not read `x`; `x, y = lds(a, 3, 5)` is `x, y = ld(a, 3), ld(a, 5)`.
`if`, `elif`, `else`, `while`, `for k in range(...)`, `break`, `continue`, `return`, `pass`; `and`, `or` and `not`
on conditions: the right side is evaluated only if needed where it stands in an `if` or `while`, and must be free of
loads and calls elsewhere. `a if c else b`, `min` and `max` evaluate both sides. `//` and `%` truncate toward zero.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TypeAlias

from acronumba.emit import tree
from acronumba.emit.intrinsics import INTRINSICS
from acronumba.emit.tree import F32, F64, I1, I8, I16, I32, I64, VOID, Expr, Ty

Value: TypeAlias = "Expr | int | float | bool"  # numbers have no type until something beside them gives one

LANGUAGE = "acronumba.emit.language"

_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.LShift: "<<",
           ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}  # fmt: skip
_COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_UNSIGNED = {"ult": "u<", "ule": "u<=", "ugt": "u>", "uge": "u>="}
_WIDTHS = {"": I64, "f": F64, "f32": F32, "32": I32, "16": I16, "8": I8}
_SCALARS = {str(t): t for t in (I1, I8, I16, I32, I64, F32, F64)}
_NUMBERS = {"inf": float("inf"), "nan": float("nan")}


def parse_type(name: str, types: Mapping[str, Ty] | None = None) -> Ty | None:
    """Return the type that a name stands for ("f32", "f32x16", a name of `types`), or None."""
    if types and name in types:
        return types[name]
    scalar, _, lanes = name.partition("x")
    if scalar not in _SCALARS or (lanes and not lanes.isdecimal()) or (not lanes and "x" in name):
        return None
    return _SCALARS[scalar].vector(int(lanes)) if lanes else _SCALARS[scalar]


class _Parser:
    """Parses one function."""

    def __init__(
        self,
        types: Mapping[str, Ty],
        constants: Mapping[str, int | float],
        signatures: Mapping[str, tuple[tuple[Ty, ...], Ty]],
        macros: Mapping[str, Callable[..., Value]],
    ) -> None:
        self.types, self.constants, self.signatures, self.macros = types, constants, signatures, macros
        self.locals: dict[str, tree.Local] = {}
        self.result = VOID
        self.dispatch: list[tuple[str, frozenset[int], int]] = []  # variable, numbers of its blocks, loops around it
        self.loops = 0

    def wrong(self, node: ast.AST, message: str) -> SyntaxError:
        text = ast.unparse(node).split("\n")[0]
        return SyntaxError(f"line {getattr(node, 'lineno', '?')}: {message}: {text}")

    def type_of(self, node: ast.expr) -> Ty | None:
        return parse_type(node.id, self.types) if isinstance(node, ast.Name) else None

    def annotation(self, node: ast.expr | None, default: Ty) -> Ty:
        if node is None or (isinstance(node, ast.Constant) and node.value is None):
            return default
        type = self.type_of(node)
        if type is None:
            raise self.wrong(node, "no type")
        return type

    def function(self, node: ast.FunctionDef) -> tree.Function:
        modes = {"inline": "always", "noinline": "never"}
        inline = "auto"
        for d in node.decorator_list:
            if not isinstance(d, ast.Name) or d.id not in modes:
                raise self.wrong(d, "only @inline and @noinline")
            inline = modes[d.id]
        params = tuple(tree.Local(a.arg, self.annotation(a.annotation, I64)) for a in node.args.args)
        self.locals = {p.name: p for p in params}
        self.result = self.annotation(node.returns, VOID)
        doc = ast.get_docstring(node) or ""
        body = self.body(node.body[1:] if doc else node.body)
        return tree.Function(node.name, params, self.result, body, inline, doc)

    # ---- statements

    def body(self, nodes: Sequence[ast.stmt]) -> tree.Body:
        out: tree.Body = []
        k = 0
        while k < len(nodes):
            jump = self.goto(nodes, k)
            if jump is not None:
                out.append(jump)
                k += 2
                continue
            self.stmt(nodes[k], out)
            k += 1
        return out

    def goto(self, nodes: Sequence[ast.stmt], k: int) -> tree.Goto | None:
        """`pc = 7; continue` inside a dispatch, outside its loops."""
        if not self.dispatch or k + 1 >= len(nodes) or not isinstance(nodes[k + 1], ast.Continue):
            return None
        name, blocks, loops = self.dispatch[-1]
        match nodes[k]:
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Constant(value=int() as number)):
                if target == name and number in blocks and loops == self.loops:
                    return tree.Goto(number)
        return None

    def assign(self, node: ast.stmt, name: str, value: Value, type: Ty | None) -> tree.Assign:
        known = self.locals.get(name)
        if known is not None and type is not None and known.type != type:
            raise self.wrong(node, f"{name!r} is {known.type}")
        wanted = known.type if known is not None else type
        typed = self.typed(node, value, wanted)
        target = known or tree.Local(name, typed.type)
        self.locals[name] = target
        return tree.Assign(target, typed)

    def stmt(self, node: ast.stmt, out: tree.Body) -> None:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                out.append(self.assign(node, name, self.expr(value), None))
            case ast.Assign(
                targets=[ast.Tuple(elts=names)],
                value=ast.Call(func=ast.Name(id="lds"), args=[ast.Name() as array, *places]),
            ) if len(names) == len(places):
                for target, place in zip(names, places, strict=True):
                    load = ast.Call(ast.Name("ld"), [array, place], [])
                    self.stmt(ast.copy_location(ast.Assign([target], load), node), out)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(values):
                for k, (target, value) in enumerate(zip(names, values, strict=True)):
                    assigned = {ast.unparse(name) for name in names[:k]}
                    if any(isinstance(n, ast.Name) and n.id in assigned for n in ast.walk(value)):
                        raise self.wrong(node, "a value reads what the same statement assigns")
                    self.stmt(ast.copy_location(ast.Assign([target], value), node), out)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=note, value=ast.expr() as value):
                out.append(self.assign(node, name, self.expr(value), self.annotation(note, I64)))
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                if name not in self.locals:
                    raise self.wrong(node, f"{name!r} is not assigned yet")
                new = self.binary(node, op, self.locals[name], self.expr(value))
                out.append(self.assign(node, name, new, None))
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=args) as call):
                store = self.store(call, name, args)
                out.append(store if store is not None else tree.Do(self.typed(node, self.expr(call), None)))
            case ast.If(test=test, body=yes, orelse=no):
                self.if_(test, yes, no, out)
            case ast.While(test=test, body=body, orelse=[]):
                out.append(self.dispatch_of(node) or self.while_(test, body))
            case ast.For(
                target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=args), body=body, orelse=[]
            ):
                out.append(self.for_(node, name, args, body))
            case ast.Break():
                out.append(tree.Break())
            case ast.Continue():
                inside = self.dispatch and self.dispatch[-1][2] == self.loops
                out.append(tree.Again() if inside else tree.Continue())
            case ast.Return(value=None):
                out.append(tree.Return(None))
            case ast.Return(value=ast.expr() as value):
                out.append(tree.Return(self.typed(node, self.expr(value), self.result)))
            case _:
                raise self.wrong(node, "no such statement in this language")

    def parts(self, test: ast.expr) -> list[ast.expr]:
        """The conditions that must all hold, where the later ones may only be evaluated if the earlier hold."""
        if (
            isinstance(test, ast.BoolOp)
            and isinstance(test.op, ast.And)
            and any(not self.pure(v) for v in test.values[1:])
        ):
            return [part for v in test.values for part in self.parts(v)]
        return [test]

    def if_(self, test: ast.expr, yes: list[ast.stmt], no: list[ast.stmt], out: tree.Body) -> None:
        first, *rest = self.parts(test)
        cond = self.condition(first)
        inner: tree.Body = []
        if rest:
            self.if_(rest[0] if len(rest) == 1 else ast.BoolOp(ast.And(), rest), yes, no, inner)
        else:
            inner = self.body(yes)
        out.append(tree.If(cond, inner, self.body(no)))

    def while_(self, test: ast.expr, nodes: list[ast.stmt]) -> tree.While:
        parts = self.parts(test)
        self.loops += 1
        if len(parts) == 1:
            cond = self.condition(test)
            loop = tree.While(cond, self.body(nodes))
        else:
            leave = [tree.If(~self.condition(p), [tree.Break()], []) for p in parts]
            loop = tree.While(tree.Const(1, I1), [*leave, *self.body(nodes)])
        self.loops -= 1
        return loop

    def for_(self, node: ast.For, name: str, args: list[ast.expr], body: list[ast.stmt]) -> tree.For:
        values = [self.expr(a) for a in args]
        step = values.pop() if len(values) == 3 else 1
        if not isinstance(step, int) or step <= 0:
            raise self.wrong(node, "the step must be a positive number")
        start, stop = values if len(values) == 2 else (0, values[0])
        var = self.locals.setdefault(name, tree.Local(name, I64))
        first, last = self.typed(node, start, I64), self.typed(node, stop, I64)
        self.loops += 1
        loop = tree.For(var, first, last, step, self.body(body))
        self.loops -= 1
        return loop

    def dispatch_of(self, node: ast.While) -> tree.Dispatch | None:
        """`while True: if pc == 0: ... elif pc == 1: ...` with nothing else, on a local called pc or pc_..."""
        if not (isinstance(node.test, ast.Constant) and node.test.value is True and len(node.body) == 1):
            return None
        arms: list[tuple[int, list[ast.stmt]]] = []
        var = ""
        rest = node.body
        while rest:
            match rest:
                case [
                    ast.If(test=ast.Compare(left=ast.Name(id=name), ops=[ast.Eq()]) as test, body=body, orelse=orelse)
                ]:
                    (other,) = test.comparators
                    if (var or name) != name or name.split("_")[0] != "pc":
                        return None
                    if not (isinstance(other, ast.Constant) and type(other.value) is int):
                        return None
                    k = other.value
                    var = name
                    arms.append((k, body))
                    rest = orelse
                case _:
                    return None
        if var not in self.locals:
            return None
        self.dispatch.append((var, frozenset(k for k, _ in arms), self.loops))
        blocks = [(k, "", self.body(body)) for k, body in arms]
        self.dispatch.pop()
        return tree.Dispatch(self.locals[var], blocks)

    def store(self, node: ast.Call, name: str, args: list[ast.expr]) -> tree.Store | None:
        if name in self.signatures:
            return None
        if name == "store" and len(args) in (2, 3):
            left = self.typed(node, self.expr(args[2]), I64) if len(args) == 3 else None
            return tree.Store(
                self.typed(node, self.expr(args[0]), I64), self.typed(node, self.expr(args[1]), None), left
            )
        if not name.startswith("st") or name[2:] not in _WIDTHS or len(args) != 3:
            return None
        type = _WIDTHS[name[2:]]
        address = self.element(node, self.expr(args[0]), self.expr(args[1]), type)
        value = self.expr(args[2])
        if isinstance(value, Expr) and type.kind == "i" and value.type.kind == "i":
            value = tree.convert(value, type)
        return tree.Store(address, self.typed(node, value, type))

    def element(self, node: ast.expr, base: Value, index: Value, type: Ty) -> Expr:
        load = tree.load(
            self.typed(node, base, I64), index if isinstance(index, int) else self.typed(node, index, I64), type
        )
        assert isinstance(load, tree.Load)
        return load.address

    # ---- expressions

    def typed(self, node: ast.AST, value: Value, type: Ty | None) -> Expr:
        """Return a value as an expression of a type: a number gets the type, a scalar is spread to a vector."""
        if not isinstance(value, Expr):
            default = I1 if isinstance(value, bool) else I64 if isinstance(value, int) else F64
            if type is not None and type.kind == "i" and isinstance(value, float):
                raise self.wrong(node, f"{value!r} where {type} is expected")
            return tree.const(value, type or default)
        if type is None or value.type == type:
            return value
        if value.type == type.scalar:
            return tree.const(value, type)
        raise self.wrong(node, f"{value.type} where {type} is expected")

    def condition(self, node: ast.expr) -> Expr:
        value = self.expr(node)
        if isinstance(value, Expr) and value.type == I64:
            return value.ne(0)
        return self.typed(node, value if isinstance(value, Expr) else bool(value), I1)

    def pure(self, node: ast.expr) -> bool:
        return not any(isinstance(n, ast.Call) for n in ast.walk(node))

    def pair(self, node: ast.AST, a: Value, b: Value) -> tuple[Expr, Expr]:
        if isinstance(a, Expr) and isinstance(b, Expr):
            type = a.type if a.type.lanes >= b.type.lanes else b.type
        else:
            type = a.type if isinstance(a, Expr) else b.type if isinstance(b, Expr) else F64 if float in (
                a.__class__, b.__class__) else I64  # fmt: skip
        return self.typed(node, a, type), self.typed(node, b, type)

    def binary(self, node: ast.AST, op: ast.operator, a: Value, b: Value) -> Value:
        if type(op) not in _BINARY:
            raise self.wrong(node, "no such operator in this language")
        name = _BINARY[type(op)]
        if isinstance(a, bool) and isinstance(b, bool):
            a = tree.Const(a, I1)
        if not isinstance(a, Expr) and not isinstance(b, Expr):
            number = self.fold(name, a, b)
            if number is not None:
                return number
        left, right = self.pair(node, a, b)
        if (name == "/") if left.type.kind == "i" else name in ("//", "%", "<<", ">>", "&", "|", "^"):
            raise self.wrong(node, f"{name} on {left.type}")
        return tree.Binary(name, left, right, left.type)

    def fold(self, op: str, a: float, b: float) -> int | float | None:
        """Return the result of an operation on two numbers if it does not depend on a type, else None."""
        match op:
            case "+":
                return a + b
            case "-":
                return a - b
            case "*":
                return a * b
            case "/" if b:
                return a / b
            case "<<" if isinstance(a, int) and isinstance(b, int) and b >= 0:
                return a << b
            case "|" if isinstance(a, int) and isinstance(b, int):
                return a | b
        return None

    def comparison(self, node: ast.AST, op: str, a: Value, b: Value) -> Expr:
        left, right = self.pair(node, a, b)
        return tree.compare(op, left, right)

    def expr(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant(value=bool() | int() | float() as number):
                return number
            case ast.Name(id=name):
                if name in self.locals:
                    return self.locals[name]
                if name in self.constants:
                    return self.constants[name]
                if name in _NUMBERS:
                    return _NUMBERS[name]
                raise self.wrong(node, f"{name!r} is not assigned yet")
            case ast.UnaryOp(op=ast.Not(), operand=arg):
                value = self.expr(arg)
                if isinstance(value, Expr) and value.type.bits == 1:
                    return ~value
                return ~self.condition(arg)
            case ast.UnaryOp(op=ast.USub(), operand=arg):
                return -self.expr(arg)
            case ast.UnaryOp(op=ast.Invert(), operand=arg):
                return ~self.typed(node, self.expr(arg), None)
            case ast.BinOp(left=a, op=op, right=b):
                return self.binary(node, op, self.expr(a), self.expr(b))
            case ast.BoolOp(op=op, values=values):
                return self.logic(node, "&" if isinstance(op, ast.And) else "|", values)
            case ast.Compare(left=a, ops=ops, comparators=others):
                sides = [self.expr(x) for x in (a, *others)]
                out = [self.comparison(node, _COMPARE[type(op)], sides[k], sides[k + 1]) for k, op in enumerate(ops)]
                whole = out[0]
                for more in out[1:]:
                    whole = whole & more
                return whole
            case ast.IfExp(test=c, body=a, orelse=b):
                return self.select(node, self.condition(c), self.expr(a), self.expr(b))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                return self.call(node, name, args)
        raise self.wrong(node, "no such expression in this language")

    def logic(self, node: ast.expr, op: str, values: Sequence[ast.expr]) -> Expr:
        if any(not self.pure(v) for v in values[1:]):
            for n in values[1:]:
                for c in ast.walk(n):
                    name = c.func.id if isinstance(c, ast.Call) and isinstance(c.func, ast.Name) else ""
                    acts = name in INTRINSICS and INTRINSICS[name].effect
                    if acts or name in self.signatures or name.startswith(("ld", "load", "call_address")):
                        raise self.wrong(node, "the right side would be evaluated in any case")
        whole: Expr | None = None
        for v in values:
            x = self.expr(v)
            cond = x if isinstance(x, Expr) and x.type.bits == 1 else self.condition(v)
            whole = cond if whole is None else tree.binary(op, whole, cond)
        assert whole is not None
        return whole

    def select(self, node: ast.AST, cond: Expr, a: Value, b: Value) -> Expr:
        yes, no = self.pair(node, a, b)
        if cond.type.lanes > 1 and yes.type.lanes == 1:
            wide = yes.type.vector(cond.type.lanes)
            yes, no = tree.const(yes, wide), tree.const(no, wide)
        return tree.select(cond, yes, no)

    def call(self, node: ast.Call, name: str, nodes: list[ast.expr]) -> Value:
        if name in self.macros:
            return self.macros[name](*map(self.expr, nodes))
        if name in self.signatures:
            params, result = self.signatures[name]
            if len(params) != len(nodes):
                raise self.wrong(node, f"{name} takes {len(params)} arguments")
            given = tuple(self.typed(node, self.expr(a), p) for a, p in zip(nodes, params, strict=True))
            return tree.Call(name, given, result)
        type = parse_type(name, self.types)
        if type is not None and len(nodes) == 1:
            return self.conversion(node, self.expr(nodes[0]), type)
        first = self.type_of(nodes[0]) if nodes else None
        if first is not None:
            values = [self.expr(a) for a in nodes[1:]]
            if name == "lanes" and not values:
                return tree.intrinsic("lanes", tree.Const(0, first), type=first)
            if name in ("bits", "unsigned") and len(values) == 1:
                return tree.Convert(self.typed(node, values[0], None), name, first)
            if name == "load" and len(values) in (1, 2, 3):
                left = self.typed(node, values[1], I64) if len(values) > 1 else None
                fill = values[2] if len(values) == 3 else 0
                if isinstance(fill, Expr):
                    raise self.wrong(node, "the filling must be a number")
                return tree.Load(self.typed(node, values[0], I64), first, left, fill)
            if name in INTRINSICS and "t" in INTRINSICS[name].result and len(values) == len(INTRINSICS[name].args):
                return tree.intrinsic(name, *(self.typed(node, v, None) for v in values), type=first)
            raise self.wrong(node, f"no {name!r} takes a type so")
        values = [self.expr(a) for a in nodes]
        if name in _UNSIGNED and len(values) == 2:
            return self.comparison(node, _UNSIGNED[name], *values)
        if name == "select" and len(values) == 3:
            return self.select(node, self.typed(node, values[0], None), values[1], values[2])
        if name in ("min", "max") and len(values) == 2:
            a, b = self.pair(node, *values)
            return tree.select(tree.compare("<" if name == "min" else ">", b, a), b, a)
        if name.startswith("ld") and name[2:] in _WIDTHS and len(values) in (1, 2):
            width = _WIDTHS[name[2:]]
            address = self.element(node, values[0], values[1] if len(values) == 2 else 0, width)
            return (
                tree.convert(tree.Load(address, width), I64) if width in (I8, I16, I32) else tree.Load(address, width)
            )
        if name == "call_address" or name.startswith("call_address_"):
            result = parse_type(name.removeprefix("call_address_")) or VOID
            address, *rest = [self.typed(node, v, I64) for v in values]
            return tree.call_address(address, *rest, result=result)
        if name in INTRINSICS:
            return self.intrinsic(node, name, values)
        raise self.wrong(node, f"unknown function {name!r}")

    def conversion(self, node: ast.AST, value: Value, type: Ty) -> Expr:
        if not isinstance(value, Expr):
            return self.typed(node, value, type)
        if value.type.lanes == 1 and type.lanes > 1:
            return tree.const(tree.convert(value, type.scalar), type)
        if value.type.lanes != type.lanes:
            raise self.wrong(node, f"{value.type} to {type}")
        return tree.convert(value, type)

    def intrinsic(self, node: ast.AST, name: str, values: list[Value]) -> Expr:
        """Return a call of an intrinsic; arguments get the types of its row, all of letter v the same type."""
        row = INTRINSICS[name]
        if "t" in row.args or len(values) != len(row.args):
            raise self.wrong(node, f"{name} takes {len(row.args)} arguments")
        given = [v.type for v, letter in zip(values, row.args, strict=True) if letter == "v" and isinstance(v, Expr)]
        lead = max(given, key=lambda t: t.lanes, default=F64)
        types = {"v": lead, "s": lead.scalar, "i": I64, "c": I64, "b": I1, "x": None, "-": VOID}
        args = tuple(self.typed(node, v, types[letter]) for v, letter in zip(values, row.args, strict=True))
        return tree.Call(name, args, types[row.result] or VOID)


def parse(
    source: str, types: Mapping[str, Ty] | None = None, functions: Sequence[tree.Function] = ()
) -> tuple[tree.Function, ...]:
    """Read functions written in the language of this module.

    Parameters
    ----------
    source : str
        Definitions of functions and constants, indented or not.
    types : mapping of str to Ty, optional
        More names of types: `{"vec": F32.vector(16)}`.
    functions : sequence of tree.Function, optional
        Functions from elsewhere that the source calls.

    Returns
    -------
    tuple of tree.Function
        In the order of the source.

    Raises
    ------
    SyntaxError
        With the line, for anything outside the language and any disagreement of types.
    """
    signatures = {f.name: (tuple(p.type for p in f.params), f.result) for f in functions}
    read = _File(textwrap.dedent(source), types or {}, signatures)
    return tuple(read.function(node) for node in read.definitions)


def parse_files(names: Sequence[str]) -> tuple[tree.Function, ...]:
    """Read files in the language of this module, which import each other.

    To an editor they are Python: they import names of the language from `emit.language`, and functions from each other.
    From any other module they import numbers, whose values are inserted, and Python functions, which are macros: they
    get the trees of their arguments and return the tree that replaces the call.

    Parameters
    ----------
    names : sequence of str
        Names of the files as modules: `acronumba.runtime.library.drive`.

    Returns
    -------
    tuple of tree.Function
        File by file, each in its order.

    Raises
    ------
    SyntaxError
        As `parse`, and for an import of what there is not.
    """
    signatures: dict[str, tuple[tuple[Ty, ...], Ty]] = {}
    files: dict[str, _File] = {}
    for name in names:
        found = find_spec(name)
        assert found is not None and found.origin is not None, name
        files[name] = _File(Path(found.origin).read_text(encoding="utf-8"), {}, signatures, names)
    for file in files.values():
        file.link(files)
    return tuple(file.function(node) for file in files.values() for node in file.definitions)


class _File:
    """The functions and constants of a text, which may import those of other files."""

    def __init__(
        self,
        source: str,
        types: Mapping[str, Ty],
        signatures: dict[str, tuple[tuple[Ty, ...], Ty]],
        others: Sequence[str] = (),
    ) -> None:
        self.types, self.signatures, self.others = types, signatures, others
        self.constants: dict[str, int | float] = {}
        self.macros: dict[str, Callable[..., Value]] = {}
        self.definitions: list[ast.FunctionDef] = []
        self.imports: list[ast.ImportFrom] = []  # of other files
        for node in ast.parse(source).body:
            self.read(node)

    def parser(self) -> _Parser:
        return _Parser(self.types, self.constants, self.signatures, self.macros)

    def read(self, node: ast.stmt) -> None:
        parser = self.parser()
        match node:
            case ast.FunctionDef(name=name, args=args, returns=returns):
                params = tuple(parser.annotation(a.annotation, I64) for a in args.args)
                self.signatures[name] = (params, parser.annotation(returns, VOID))
                self.definitions.append(node)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                number = parser.expr(value)
                if isinstance(number, Expr):
                    raise parser.wrong(node, "a constant of the file is a number")
                self.constants[name] = number
            case ast.ImportFrom(module="__future__") if self.others:
                pass
            case ast.ImportFrom(module=str() as module) if self.others and module in self.others:
                self.imports.append(node)
            case ast.ImportFrom(module=str() as module) if self.others:
                for alias in node.names:
                    self.take(node, import_module(module), alias)
            case ast.Expr(value=ast.Constant()):
                pass
            case _:
                raise parser.wrong(node, "only functions and constants")

    def take(self, node: ast.ImportFrom, module: ModuleType, alias: ast.alias) -> None:
        """Import a number or a function of a module; names of the language need no import."""
        known = getattr(module, alias.name, None)
        if module.__name__ == LANGUAGE and known is not None:
            return
        if isinstance(known, FunctionType) and not alias.asname:
            self.macros[alias.name] = known
            return
        if alias.asname or not isinstance(known, int | float):
            raise self.parser().wrong(node, f"no number and no function: {alias.name!r}")
        self.constants[alias.name] = known

    def link(self, files: Mapping[str, _File]) -> None:
        """Resolve the file's imports from the other files."""
        for node in self.imports:
            other = files[str(node.module)]
            for alias in node.names:
                if alias.asname or alias.name not in {d.name for d in other.definitions} | other.constants.keys():
                    raise self.parser().wrong(node, f"no function of that file, and no number: {alias.name!r}")
                if alias.name in other.constants:
                    self.constants[alias.name] = other.constants[alias.name]

    def function(self, node: ast.FunctionDef) -> tree.Function:
        return self.parser().function(node)
