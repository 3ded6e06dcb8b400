"""The small typed language of generated code, as a tree.

Host programs, kernels and the run-time library are built from these nodes. One tree has three readings: `text` prints
it as Python that reads as if written by hand, `interpret` runs it in plain Python with checked memory (the definition,
and the test double), `llvm` writes it as LLVM's text.

    type   = i1 | i8 | i16 | i32 | i64 | f32 | f64 | vector of one of them         (addresses are i64, in bytes)
    expr   = const | local | expr op expr | -expr | not expr | select | convert | load | call
    stmt   = local = expr | store | if | while | for | break | continue | return | expr | comment
           | dispatch local {label: stmt*} | goto label                              (numbered blocks of one function)
    module = function*

Arithmetic is exact about its types: both sides must agree (a Python number takes the other side's type; a scalar beside
a vector is spread over its lanes). Integers wrap; `//` and `%` on integers truncate toward zero as the machine does
(the generators add Python's rounding and the checks); no operation on floats is ever reordered or contracted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from acronumba.emit.intrinsics import INTRINSICS
from acronumba.emit.words import RecordLayout
from acronumba.errors import Loc
from acronumba.records import record


@record()
class Ty:
    """A type: `kind` is "i" (integer) or "f" (float), `bits` per element, `lanes` (1: a scalar)."""

    kind: str
    bits: int
    lanes: int = 1

    def vector(self, lanes: int) -> Ty:
        return Ty(self.kind, self.bits, lanes)

    @property
    def scalar(self) -> Ty:
        return Ty(self.kind, self.bits)

    def __str__(self) -> str:
        return f"{self.kind}{self.bits}" + (f"x{self.lanes}" if self.lanes > 1 else "")


I1, I8, I16, I32, I64, F32, F64 = (
    Ty("i", 1), Ty("i", 8), Ty("i", 16), Ty("i", 32), Ty("i", 64), Ty("f", 32), Ty("f", 64),
)  # fmt: skip


class Expr:
    """Base of all expressions; `type` is the type of the value. Python's operators build trees."""

    __slots__ = ()
    type: Ty

    def __add__(self, other: Operand) -> Expr:
        return binary("+", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return binary("+", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return binary("-", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return binary("-", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return binary("*", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return binary("*", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return binary("/", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return binary("/", other, self)

    def __floordiv__(self, other: Operand) -> Expr:
        return binary("//", self, other)

    def __mod__(self, other: Operand) -> Expr:
        return binary("%", self, other)

    def __lshift__(self, other: Operand) -> Expr:
        return binary("<<", self, other)

    def __rshift__(self, other: Operand) -> Expr:
        return binary(">>", self, other)

    def __and__(self, other: Operand) -> Expr:
        return binary("&", self, other)

    def __or__(self, other: Operand) -> Expr:
        return binary("|", self, other)

    def __xor__(self, other: Operand) -> Expr:
        return binary("^", self, other)

    def __neg__(self) -> Expr:
        return Unary("-", self, self.type)

    def __invert__(self) -> Expr:
        return Unary("~", self, self.type)

    def __lt__(self, other: Operand) -> Expr:
        return compare("<", self, other)

    def __le__(self, other: Operand) -> Expr:
        return compare("<=", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return compare(">", self, other)

    def __ge__(self, other: Operand) -> Expr:
        return compare(">=", self, other)

    def eq(self, other: Operand) -> Expr:
        return compare("==", self, other)

    def ne(self, other: Operand) -> Expr:
        return compare("!=", self, other)


Operand: TypeAlias = "Expr | int | float | bool"
Note: TypeAlias = "int | float | str | Sequence[Note] | Mapping[str, Note] | None"


@record(eq=False)
class Const(Expr):
    """A number, or a vector with this number in every lane. Floats may be inf and NaN."""

    value: int | float
    type: Ty


@record(eq=False)
class Local(Expr):
    """A local variable or parameter of the function, by name."""

    name: str
    type: Ty


@record(eq=False)
class Binary(Expr):
    """`op` is one of + - * / // % << >> & | ^ (>> on integers keeps the sign)."""

    op: str
    left: Expr
    right: Expr
    type: Ty


@record(eq=False)
class Unary(Expr):
    """`op` is - or ~ (on i1: not)."""

    op: str
    arg: Expr
    type: Ty


@record(eq=False)
class Compare(Expr):
    """`op` is one of < <= > >= == !=, prefixed by u for unsigned integers. NaN compares as in IEEE: only != holds."""

    op: str
    left: Expr
    right: Expr
    type: Ty


@record(eq=False)
class Select(Expr):
    """`yes` where `cond` holds, else `no`; both are evaluated."""

    cond: Expr
    yes: Expr
    no: Expr
    type: Ty


@record(eq=False)
class Convert(Expr):
    """Change of type. how: "value" (C's conversion: sign-extends, truncates, float <-> int; i1 is 0 or 1), "unsigned"
    (the integer side is unsigned), "bits" (same bits, same size), "spread" (scalar to all lanes).
    """

    arg: Expr
    how: str
    type: Ty


@record(eq=False)
class Load(Expr):
    """The value at `address` (bytes), aligned to one element; an i1 takes a byte. `lanes_left`: a masked load
    of a vector, lanes at and beyond it read as `fill`.
    """

    address: Expr
    type: Ty
    lanes_left: Expr | None = None
    fill: float | int = 0


@record(eq=False)
class Call(Expr):
    """A call: `name` is a function of the module, an intrinsic (`emit.intrinsics`), or "call_address" (args[0] is the
    address of a compiled function of i64 parameters; `type` is its result's).
    """

    name: str
    args: tuple[Expr, ...]
    type: Ty  # VOID for no result


VOID = Ty("v", 0)


@record(eq=False)
class Assign:
    """`name = value`; the first assignment fixes the local's type."""

    target: Local
    value: Expr


@record(eq=False)
class Store:
    address: Expr
    value: Expr
    lanes_left: Expr | None = None  # masked: only lanes before it are written


@record(eq=False)
class If:
    cond: Expr
    yes: Body
    no: Body


@record(eq=False)
class While:
    cond: Expr
    body: Body


@record(eq=False)
class For:
    """`for var in range(start, stop, step)` with step a positive constant; var keeps its last value afterwards."""

    var: Local
    start: Expr
    stop: Expr
    step: int
    body: Body


@record(eq=False)
class Break:
    """Leave the innermost `While` or `For`."""


@record(eq=False)
class Continue:
    """Next turn of the innermost `While` or `For`."""


@record(eq=False)
class Return:
    value: Expr | None


@record(eq=False)
class Do:
    """An expression for its effect."""

    expr: Expr


@record(eq=False)
class Comment:
    text: str  # "": it prints nothing
    loc: Loc | None = None  # position in the user's source of the statements that follow in this body


@record(eq=False)
class Dispatch:
    """Run the block whose number `var` holds, over and over: a block ends by `Goto` (a direct jump), `Again` (dispatch
    on `var` anew) or `Return`. Prints as `while True: if var == 0: ... elif ...`.
    """

    var: Local
    blocks: Sequence[tuple[int, str, Body]]  # (number, comment, statements)
    # the only numbers `var` holds at the start and at `Again` (None: any); a switch on these alone keeps the locals of
    # all other blocks out of the dispatch
    entries: frozenset[int] | None = None


@record(eq=False)
class Goto:
    """Inside a Dispatch, outside loops: continue with the block of this number. Prints as `pc = 7; continue`."""

    block: int


@record(eq=False)
class Again:
    """Inside a Dispatch, outside loops: dispatch on the variable's value. Prints as `continue`."""


Stmt: TypeAlias = Assign | Store | If | While | For | Break | Continue | Return | Do | Comment | Dispatch | Goto | Again
Body: TypeAlias = list[Stmt]


@record(eq=False)
class Function:
    name: str
    params: tuple[Local, ...]
    result: Ty  # VOID for none
    body: Body
    inline: str = "auto"  # "always" (vector maths) | "never" (tiles) | "auto"
    doc: str = ""


@record(eq=False)
class Module:
    """Functions that call each other by name.

    `exports` are the entry points: all their parameters are i64. The code of a `compact` module is optimised for size:
    loops over scattered data gain nothing from larger code. `notes` are stored with the code: lists, numbers and
    strings that describe the module.
    """

    name: str
    functions: tuple[Function, ...]
    exports: tuple[str, ...]
    header: str = ""  # comment lines: the model, the source
    compact: bool = False
    notes: Sequence[Note] = ()
    tables: Mapping[str, RecordLayout] = field(default_factory=dict)  # by parameter: names of its words


def const(value: Operand, type: Ty) -> Expr:
    """Return a number as an expression of the type; expressions pass through, a scalar is spread over all lanes.

    There is one NaN, whose sign is plus: two numbers that are written alike are one constant.
    """
    if isinstance(value, Expr):
        if value.type == type:
            return value
        if value.type == type.scalar:
            return Convert(value, "spread", type)
        raise TypeError(f"{value.type} where {type} is expected")
    if type.kind == "f":
        number = float(value)
        return Const(math.nan if number != number else number, type)
    return Const(int(value), type)


def _pair(left: Operand, right: Operand) -> tuple[Expr, Expr]:
    types = [x.type for x in (left, right) if isinstance(x, Expr)]
    if not types:
        raise TypeError("two plain numbers")
    type = max(types, key=lambda t: t.lanes)
    return const(left, type), const(right, type)


def binary(op: str, left: Operand, right: Operand) -> Expr:
    a, b = _pair(left, right)
    return Binary(op, a, b, a.type)


def compare(op: str, left: Operand, right: Operand) -> Expr:
    a, b = _pair(left, right)
    return Compare(op, a, b, Ty("i", 1, a.type.lanes))


def select(cond: Expr, yes: Operand, no: Operand) -> Expr:
    a, b = _pair(yes, no)
    if cond.type.lanes == 1 and a.type.lanes > 1:
        cond = Convert(cond, "spread", Ty("i", 1, a.type.lanes))
    return Select(cond, a, b, a.type)


def convert(arg: Expr, type: Ty, how: str = "value") -> Expr:
    return arg if arg.type == type else Convert(arg, how, type)


def load(base: Expr, index: Operand = 0, type: Ty = I64) -> Expr:
    """Return `type` element number `index` of the array at address `base`."""
    return Load(_at(base, index, type), type)


def _at(base: Expr, index: Operand, type: Ty) -> Expr:
    if isinstance(index, int) and index == 0:
        return base
    return base + index * (max(type.bits, 8) // 8)


def intrinsic(name: str, *args: Expr, type: Ty | None = None) -> Expr:
    if name not in INTRINSICS:
        raise KeyError(name)
    return Call(name, args, type or args[0].type)


def call_address(address: Expr, *args: Expr, result: Ty = VOID) -> Call:
    """Call a compiled function by address; its parameters are i64."""
    return Call("call_address", (address, *args), result)


@dataclass
class Builder:
    """Collects the statements of one function.

    >>> f = Builder("total", [("a", I64), ("n", I64)], result=F64)
    >>> s = f.let("s", const(0.0, F64))
    >>> with f.loop("k", 0, f["n"]) as k:
    ...     f.set(s, s + load(f["a"], k, F64))
    >>> f.ret(s)
    >>> total = f.function()
    """

    name: str
    params: Sequence[tuple[str, Ty]]
    result: Ty = VOID
    inline: str = "auto"
    doc: str = ""
    body: Body = field(default_factory=list)
    locals: dict[str, Local] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)  # where `fresh` goes on counting, by name
    reserved: frozenset[str] = frozenset()  # names that no local may have

    def __post_init__(self) -> None:
        for name, type in self.params:
            self.locals[name] = Local(name, type)

    def __getitem__(self, name: str) -> Local:
        return self.locals[name]

    def fresh(self, name: str) -> str:
        """Return `name`, or the first of `name_1`, `name_2`, ... that is not taken."""
        out, k = name, self.numbers.get(name, 0)
        while out in self.locals or out in self.reserved:
            k += 1
            out = f"{name}_{k}"
        self.numbers[name] = max(k - 1, 0)
        return out

    def let(self, name: str, value: Operand, type: Ty | None = None) -> Local:
        """Assign to a new local (the name is made unique) and return it."""
        expr = value if isinstance(value, Expr) else const(value, type or (F64 if isinstance(value, float) else I64))
        if type is not None:
            expr = const(expr, type)
        local = Local(self.fresh(name), expr.type)
        self.locals[local.name] = local
        self.body.append(Assign(local, expr))
        return local

    def set(self, local: Local, value: Operand) -> None:
        self.body.append(Assign(local, const(value, local.type)))

    def store(self, base: Expr, index: Operand, value: Operand, type: Ty | None = None) -> None:
        """Store to element `index` of the array at address `base`; `type` is needed for a plain number."""
        expr = value if isinstance(value, Expr) and type is None else const(value, type or I64)
        self.body.append(Store(_at(base, index, expr.type.scalar), expr))

    def store_lanes(self, address: Expr, value: Expr, lanes_left: Expr | None = None) -> None:
        self.body.append(Store(address, value, lanes_left))

    def do(self, expr: Expr) -> None:
        self.body.append(Do(expr))

    def comment(self, text: str, loc: Loc | None = None) -> None:
        self.body.append(Comment(text, loc))

    def ret(self, value: Operand | None = None) -> None:
        self.body.append(Return(None if value is None else const(value, self.result)))

    def leave(self) -> None:
        """Leave the innermost loop."""
        self.body.append(Break())

    def goto(self, block: int) -> None:
        self.body.append(Goto(block))

    def again(self) -> None:
        self.body.append(Again())

    @contextmanager
    def nested(self) -> Iterator[Body]:
        """Collect the statements written inside in a separate list, which the caller uses."""
        outer, self.body = self.body, []
        inner = self.body
        try:
            yield inner
        finally:
            self.body = outer

    @contextmanager
    def when(self, cond: Expr) -> Iterator[None]:
        with self.nested() as yes:
            yield
        self.body.append(If(cond, yes, []))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """Directly after a `when`: its else."""
        last = self.body.pop()
        if not isinstance(last, If) or last.no:
            raise SyntaxError("`otherwise` must follow a `when`")
        with self.nested() as no:
            yield
        self.body.append(If(last.cond, last.yes, no))

    @contextmanager
    def loop(self, name: str, start: Operand, stop: Operand, step: int = 1) -> Iterator[Local]:
        var = Local(self.fresh(name), I64)
        self.locals[var.name] = var
        with self.nested() as inner:
            yield var
        self.body.append(For(var, const(start, I64), const(stop, I64), step, inner))

    @contextmanager
    def while_(self, cond: Expr) -> Iterator[None]:
        with self.nested() as inner:
            yield
        self.body.append(While(cond, inner))

    def function(self) -> Function:
        params = tuple(self.locals[name] for name, _ in self.params)
        return Function(self.name, params, self.result, self.body, self.inline, self.doc)
