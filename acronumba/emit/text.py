"""Trees printed as Python that reads as if written by hand.

In: a function or a module of `tree`. Out: its text, for people and golden tests. The text is in the language of
`parse`, which reads it back.

    ld(a, i)  st(a, i, v)          int64 element i of the array at address a (ldf, stf: float64; ldf32, stf32: float32)
    ld32(a, i)  st32(a, i, v)      int32 element, widened to int64 and narrowed from it   (ld16, st16, ld8, st8 alike)
    load(f32x16, a[, n[, fill]])   any type at address a; only its first n lanes
    store(a, v[, n])               any type; only its first n lanes
    f32(x)  bits(i32, x)  unsigned(f64, x)      conversions: the value (a vector type spreads), the bits, unsigned
    select(c, a, b)  ult(a, b) ...              both sides evaluated; unsigned comparisons
    call_address(f, a, b)                       a compiled function by address, call_address_i64 with a result

Words of a table (`Module.tables`) are named by the constants of `emit.words`, as files of the library import them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from acronumba.emit import tree
from acronumba.emit.tree import F32, F64, I8, I16, I32, I64, VOID, Expr, Ty
from acronumba.emit.words import RecordLayout
from acronumba.errors import Loc

# how strongly operators bind, as in Python
_OR, _AND, _NOT, _COMPARE, _BITOR, _BITXOR, _BITAND, _SHIFT, _SUM, _PRODUCT, _SIGN, _ATOM = range(12)
_LEVELS = {"|": _BITOR, "^": _BITXOR, "&": _BITAND, "<<": _SHIFT, ">>": _SHIFT, "+": _SUM, "-": _SUM, "*": _PRODUCT,
           "/": _PRODUCT, "//": _PRODUCT, "%": _PRODUCT}  # fmt: skip
_UNSIGNED = {"u<": "ult", "u<=": "ule", "u>": "ugt", "u>=": "uge"}
_WORDS = {I64: "", F64: "f", F32: "f32"}  # ld, ldf, ldf32
_NARROW = {I32: "32", I16: "16", I8: "8"}  # ld32: widened to int64


def number_text(value: int | float) -> str:
    """Return the text of a number."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if value != value else "inf" if value > 0 else "-inf"
    return repr(value)


def _typed(e: Expr) -> str:
    """Return a constant with its type where the type is not the default one."""
    assert isinstance(e, tree.Const)
    text = number_text(e.value)
    if e.type in (I64, F64):
        return text
    if e.type == tree.I1:
        return "True" if int(e.value) & 1 else "False"
    return f"{e.type}({text})"


class _Printer:
    def __init__(self, names: Sequence[str], tables: Mapping[str, RecordLayout] | None = None) -> None:
        self.names = frozenset(names)
        self.tables = tables or {}
        self.lines: list[str] = []
        self.places: list[Loc | None] = []  # of the lines, as far as `place_lines` was called
        self.loc: Loc | None = None  # source position of the statement being printed

    # ---- expressions: text and how strongly its outermost operator binds

    def expr(self, e: Expr, at_least: int = 0) -> str:
        text, level = self.leveled(e)
        return f"({text})" if level < at_least else text

    def free(self, e: Expr, at_least: int = 0) -> str:
        """Return an operand whose type follows from the other operand: constants bare, spreads left out."""
        if isinstance(e, tree.Const):
            if e.type.bits == 1:
                return "True" if int(e.value) & 1 else "False"
            text = number_text(e.value)
            return f"({text})" if text.startswith("-") and at_least > _SIGN else text
        if isinstance(e, tree.Convert) and e.how == "spread":
            return self.free(e.arg, at_least) if isinstance(e.arg, tree.Const) else self.expr(e.arg, at_least)
        return self.expr(e, at_least)

    def bare(self, e: Expr) -> bool:
        return isinstance(e, tree.Const) or (isinstance(e, tree.Convert) and e.how == "spread")

    def pair(self, left: Expr, right: Expr, low: int, high: int) -> tuple[str, str]:
        """Both sides of an operator; at least one of them shows the type."""
        if not self.bare(right):
            return self.free(left, low), self.expr(right, high)
        return self.expr(left, low), self.free(right, high)

    def leveled(self, e: Expr) -> tuple[str, int]:
        match e:
            case tree.Const():
                text = _typed(e)
                return text, _SIGN if text.startswith("-") else _ATOM
            case tree.Local(name):
                return name, _ATOM
            case tree.Binary(op, left, right, type):
                if type == tree.I1 and op in "&|":
                    level = _AND if op == "&" else _OR
                    a, b = self.expr(left, level), self.expr(right, level + 1)
                    return f"{a} {'and' if op == '&' else 'or'} {b}", level
                level = _LEVELS[op]
                a, b = self.pair(left, right, level, level + 1)
                return f"{a} {op} {b}", level
            case tree.Unary(op, arg, type):
                if type == tree.I1:
                    return f"not {self.expr(arg, _NOT)}", _NOT
                if isinstance(arg, tree.Const):
                    return f"{op}({self.expr(arg)})", _SIGN
                return f"{op}{self.expr(arg, _SIGN)}", _SIGN
            case tree.Compare(op, left, right, _):
                if op in _UNSIGNED:
                    a, b = self.pair(left, right, 0, 0)
                    return f"{_UNSIGNED[op]}({a}, {b})", _ATOM
                a, b = self.pair(left, right, _BITOR, _BITOR)
                return f"{a} {op.removeprefix('u')} {b}", _COMPARE
            case tree.Select(cond, yes, no, type):
                c = self.expr(cond.arg) if isinstance(cond, tree.Convert) and cond.how == "spread" else self.expr(cond)
                a, b = self.pair(yes, no, 0, 0)
                return f"select({c}, {a}, {b})", _ATOM
            case tree.Convert(arg, how, type):
                return self.convert(e, arg, how, type), _ATOM
            case tree.Load(address, type, None):
                if type in _WORDS:
                    return f"ld{_WORDS[type]}({self.place(address, type)})", _ATOM
                return f"load({type}, {self.expr(address)})", _ATOM
            case tree.Load(address, type, left, fill):
                tail = "" if fill == 0 else f", {number_text(fill)}"
                return f"load({type}, {self.expr(address)}, {self.expr(left)}{tail})", _ATOM  # type: ignore[arg-type]
            case tree.Call():
                return self.call(e), _ATOM
        raise TypeError(f"no expression: {e!r}")

    def convert(self, e: Expr, arg: Expr, how: str, type: Ty) -> str:
        if how == "value" and type == I64 and isinstance(arg, tree.Load) and arg.type in _NARROW and not arg.lanes_left:
            return f"ld{_NARROW[arg.type]}({self.place(arg.address, arg.type)})"
        if how == "spread":
            return f"{type}({self.free(arg)})"
        if how == "value":
            return f"{type}({self.expr(arg)})"
        return f"{how}({type}, {self.expr(arg)})"

    def place(self, address: Expr, type: Ty, always: bool = False) -> str:
        """Return `array, index` of an address, or `array` alone (never if `always`)."""
        size = type.bits // 8
        match address:
            case tree.Binary("+", tree.Local(name), tree.Const(number)) if name in self.tables:
                return f"{name}, {self.tables[name].constant(int(number) // size)}"
            case tree.Local(name) if name in self.tables:
                return f"{name}, {self.tables[name].constant(0)}"
            case tree.Binary("+", base, tree.Binary("*", index, tree.Const(number))) if number == size:
                return f"{self.expr(base)}, {self.expr(index)}"
            case tree.Binary("+", base, tree.Const(number)) if number % size == 0:
                return f"{self.expr(base)}, {int(number) // size}"
        return self.expr(address) + (", 0" if always else "")

    def call(self, e: tree.Call) -> str:
        if e.name == "call_address":
            tail = "" if e.type == VOID else f"_{e.type}"
            return f"call_address{tail}({', '.join(self.expr(a) for a in e.args)})"
        if e.name == "lanes":
            return f"lanes({e.type})"
        if e.name in self.names or not e.args or self.bare(e.args[0]):
            return f"{e.name}({', '.join(self.expr(a) for a in e.args)})"
        args = [self.expr(e.args[0])] + [self.free(a) if a.type == e.args[0].type else self.expr(a) for a in e.args[1:]]
        return f"{e.name}({', '.join(args)})"

    # ---- statements

    def body(self, body: tree.Body, depth: int, goto: str = "") -> None:
        start, outer = len(self.lines), self.loc
        self.loc = first_place(body) or outer
        for s in body:
            if isinstance(s, tree.Comment):
                self.loc = s.loc or self.loc
            self.stmt(s, depth, goto)
            self.place_lines()
        self.loc = outer
        if not any(not line.lstrip().startswith("#") for line in self.lines[start:]):
            self.lines.append("    " * depth + "pass")

    def place_lines(self) -> None:
        """Assign the lines printed since the last call to the current source position."""
        self.places += [self.loc] * (len(self.lines) - len(self.places))

    def stmt(self, s: tree.Stmt, depth: int, goto: str) -> None:
        pad, out = "    " * depth, self.lines.append
        match s:
            case tree.Assign(target, tree.Binary(op, tree.Local(name), right, type)) if (
                name == target.name and type != tree.I1
            ):
                out(f"{pad}{name} {op}= {self.free(right)}")
            case tree.Assign(target, value):
                out(f"{pad}{target.name} = {self.expr(value)}")
            case tree.Store(address, value, left):
                out(pad + self.store(address, value, left))
            case tree.If():
                self.if_(s, depth, goto, "if")
            case tree.While(cond, body):
                always = isinstance(cond, tree.Const) and cond.value
                out(f"{pad}while {'True' if always else self.expr(cond)}:")
                self.body(body, depth + 1)
            case tree.For(var, start, stop, step, body):
                zero = isinstance(start, tree.Const) and start.value == 0
                bounds = ([] if zero and step == 1 else [self.expr(start)]) + [self.expr(stop)]
                out(f"{pad}for {var.name} in range({', '.join(bounds + ([str(step)] if step != 1 else []))}):")
                self.body(body, depth + 1)
            case tree.Break():
                out(pad + "break")
            case tree.Continue() | tree.Again():
                out(pad + "continue")
            case tree.Return(value):
                out(pad + "return" + (f" {self.free(value)}" if value is not None else ""))
            case tree.Do(expr):
                out(pad + self.expr(expr))
            case tree.Comment(text) if text:
                self.lines += [f"{pad}# {line}".rstrip() for line in text.split("\n")]
            case tree.Dispatch(var, blocks):
                out(f"{pad}while True:")
                self.place_lines()
                for k, (number, comment, body) in enumerate(blocks):
                    out(f"{pad}    {'el' if k else ''}if {var.name} == {number}:")
                    if comment:
                        self.lines += [f"{pad}        # {line}".rstrip() for line in comment.split("\n")]
                    self.body(body, depth + 2, var.name)
            case tree.Goto(block):
                out(f"{pad}{goto} = {block}")
                out(pad + "continue")

    def if_(self, s: tree.If, depth: int, goto: str, word: str) -> None:
        pad = "    " * depth
        self.lines.append(f"{pad}{word} {self.expr(s.cond)}:")
        self.body(s.yes, depth + 1, goto)
        if len(s.no) == 1 and isinstance(s.no[0], tree.If):
            self.if_(s.no[0], depth, goto, "elif")
        elif s.no:
            self.lines.append(f"{pad}else:")
            self.body(s.no, depth + 1, goto)

    def store(self, address: Expr, value: Expr, left: Expr | None) -> str:
        type = value.type
        if left is not None:
            return f"store({self.expr(address)}, {self.expr(value)}, {self.expr(left)})"
        if type in _WORDS:
            return f"st{_WORDS[type]}({self.place(address, type, True)}, {self.free(value)})"
        if type in _NARROW:
            place = self.place(address, type, True)
            if isinstance(value, tree.Const):
                return f"st{_NARROW[type]}({place}, {number_text(value.value)})"
            if isinstance(value, tree.Convert) and value.how == "value" and value.arg.type == I64:
                return f"st{_NARROW[type]}({place}, {self.expr(value.arg)})"
        return f"store({self.expr(address)}, {self.expr(value)})"


def first_place(body: tree.Body) -> Loc | None:
    """Return the first source position of a comment in statements, inner ones included, or None."""
    for s in body:
        match s:
            case tree.Comment(loc=loc):
                found = loc
            case tree.For(body=inner) | tree.While(body=inner):
                found = first_place(inner)
            case tree.If(yes=yes, no=no):
                found = first_place(yes) or first_place(no)
            case _:
                continue
        if found is not None:
            return found
    return None


_MODES = {"always": "@inline", "never": "@noinline"}

Placed: TypeAlias = tuple[str, Loc | None]  # a line of text, and its position in the user's source


def function_text(function: tree.Function, names: Sequence[str] = ()) -> str:
    """Return the text of one function; `names` are the functions beside it."""
    return joined(function_lines(function, names))


def function_lines(
    function: tree.Function, names: Sequence[str] = (), tables: Mapping[str, RecordLayout] | None = None
) -> list[Placed]:
    """Return the lines of `function_text`; `tables` as of `Module`."""
    printer = _Printer([*names, function.name], tables)
    out = printer.lines
    if function.inline in _MODES:
        out.append(_MODES[function.inline])
    params = ", ".join(p.name if p.type == I64 else f"{p.name}: {p.type}" for p in function.params)
    result = "" if function.result == VOID else f" -> {function.result}"
    out.append(f"def {function.name}({params}){result}:")
    out += doc_lines(function.doc)
    printer.place_lines()
    printer.body(function.body, 1)
    printer.place_lines()
    return list(zip(out, printer.places, strict=True))


def doc_lines(doc: str) -> list[str]:
    """Return the lines of a docstring in a function."""
    if not doc:
        return []
    first, *rest = doc.strip().replace("\\", "\\\\").replace('"""', "'''").split("\n")
    out = ['    """' + first + ("" if rest else '"""')]
    return out + [f"    {line.strip()}".rstrip() for line in rest] + (['    """'] if rest else [])


def module_text(module: tree.Module) -> str:
    """Return the text of a module: its header, then its functions, entry points last."""
    return joined(module_lines(module))


def module_lines(module: tree.Module) -> list[Placed]:
    """Return the lines of `module_text`."""
    names = [f.name for f in module.functions]
    order = sorted(module.functions, key=lambda f: f.name in module.exports)
    out = header_lines(module)
    for k, function in enumerate(order):
        out += [("", None)] * (2 if k else 0)
        out += function_lines(function, names, module.tables)
    return out


def header_lines(module: tree.Module) -> list[Placed]:
    """Return the comment above a module."""
    return [(f"# {line}".rstrip(), None) for line in module.header.split("\n")] if module.header else []


def joined(lines: Sequence[Placed]) -> str:
    """Return lines as one text."""
    return "".join(f"{line}\n" for line, _ in lines)
