"""Code of one element: a table with a row per element-wise operation, with NumPy's results for every dtype.

In: the arguments as scalars or vectors of the tree language. Out: the result. bool is an i1 in registers and a byte in
memory. Where NumPy's result depends on the machine (casts out of range) it is x86's, on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from acronumba.emit.tree import F32, F64, I1, I8, I16, I32, I64, Const, Expr, Ty, const, convert, intrinsic, select
from acronumba.ir.ops import TENSORS
from acronumba.records import record


class NeedScalar(Exception):
    """Raised by an operation without a vector form, which is then computed lane by lane."""


@record()
class Dtype:
    """A NumPy dtype as kernels see it."""

    name: str
    kind: str  # "b" | "i" | "u" | "f"
    ty: Ty  # in registers
    memory: Ty  # in memory
    size: int  # bytes

    @property
    def smallest(self) -> float | int:
        if self.kind == "f":
            return float("-inf")
        return -(1 << (self.ty.bits - 1)) if self.kind == "i" else 0

    @property
    def largest(self) -> float | int:
        """Largest value; for unsigned integers, its bits as a signed number."""
        if self.kind == "f":
            return float("inf")
        return (1 << (self.ty.bits - 1)) - 1 if self.kind == "i" else -1 if self.kind == "u" else 1


def _dtypes() -> dict[str, Dtype]:
    out = {"bool": Dtype("bool", "b", I1, I8, 1), "float32": Dtype("float32", "f", F32, F32, 4),
           "float64": Dtype("float64", "f", F64, F64, 8)}  # fmt: skip
    for bits in (8, 16, 32, 64):
        ty = Ty("i", bits)
        out[f"int{bits}"] = Dtype(f"int{bits}", "i", ty, ty, bits // 8)
        out[f"uint{bits}"] = Dtype(f"uint{bits}", "u", ty, ty, bits // 8)
    out["bf16"] = Dtype("bf16", "u", I16, I16, 2)  # of factors, in kernels alone; nothing but products reads them
    return out


DTYPES: Mapping[str, Dtype] = _dtypes()


class Functions(Protocol):
    """Services of the surrounding kernel for element-wise code."""

    def bind(self, name: str, expr: Expr) -> Expr:
        """Bind an expression that is used more than once to a local."""

    def math(self, name: str, *args: Expr) -> Expr:
        """Call a function of `kernels.write.math`."""

    def helper(self, name: str, *args: Expr) -> Expr:
        """Call a scalar function of `HELPERS`, adding it to the module."""


def like(value: float | int, other: Expr) -> Expr:
    return const(value, other.type)


def cast(x: Expr, source: Dtype, target: Dtype) -> Expr:
    """Convert as `ndarray.astype` does on x86; nothing is undefined."""
    if source == target:
        return x
    lanes = x.type.lanes
    ty = target.ty.vector(lanes)
    if target.name == "bf16":
        return intrinsic("to_bf16", x, type=ty)
    if target.kind == "b":
        return x.ne(like(0, x))
    if source.kind == "b":
        return convert(x, ty, "unsigned")
    if source.kind == "f":
        return convert(x, ty) if target.kind == "f" else _to_integer(x, source, target)
    if target.kind == "f":
        return convert(x, ty, "unsigned" if source.kind == "u" else "value")
    if source.ty == target.ty:
        return x
    return convert(x, ty, "unsigned" if source.kind == "u" else "value")


def _to_integer(x: Expr, source: Dtype, target: Dtype) -> Expr:
    """Truncate a float. Small integers go through int32 and uint32 through int64, as C compilers do."""
    lanes = x.type.lanes
    bits = target.ty.bits
    if target.name == "uint64":
        big = x >= float(1 << 63)
        low = _through(select(big, x - float(1 << 63), x), source, I64.vector(lanes))
        return select(big, low ^ like(-(1 << 63), low), low)
    wide = I64 if bits == 64 or target.name == "uint32" else I32
    return convert(_through(x, source, wide.vector(lanes)), target.ty.vector(lanes))


def _through(x: Expr, source: Dtype, ty: Ty) -> Expr:
    limit = float(1 << (ty.bits - 1))
    if ty.bits == 32 and source.name == "float64":
        inside = (x > -limit - 1.0) & (x < limit)
    else:
        inside = (x >= -limit) & (x < limit)
    return select(inside, convert(select(inside, x, 0.0), ty), const(-(1 << (ty.bits - 1)), ty))


Rule = Callable[[Functions, list[Expr], Dtype], Expr]  # (kernel, arguments alike in lanes, their dtype) -> result


def _unsigned(op: str, a: Expr, b: Expr) -> Expr:
    from acronumba.emit.tree import compare

    return compare("u" + op, a, b)


def _compare(op: str) -> Rule:
    def rule(w: Functions, args: list[Expr], t: Dtype) -> Expr:
        from acronumba.emit.tree import compare

        a, b = args
        if t.kind == "b":
            a, b = (convert(x, I8.vector(x.type.lanes), "unsigned") for x in (a, b))
        elif t.kind == "u" and op not in ("==", "!="):
            return _unsigned(op, a, b)
        return compare(op, a, b)

    return rule


def less(a: Expr, b: Expr, t: Dtype) -> Expr:
    """A < b; bools must be bytes already."""
    return _unsigned("<", a, b) if t.kind == "u" else a < b


def larger_of(a: Expr, b: Expr, t: Dtype) -> Expr:
    """NumPy's maximum: NaN of either side wins."""
    if t.kind == "b":
        return a | b
    if t.kind == "u":
        return intrinsic("umax", a, b)
    return select((a > b) | a.ne(a) if t.kind == "f" else a > b, a, b)


def smaller_of(a: Expr, b: Expr, t: Dtype) -> Expr:
    if t.kind == "b":
        return a & b
    if t.kind == "u":
        return intrinsic("umin", a, b)
    return select((a < b) | a.ne(a) if t.kind == "f" else a < b, a, b)


def _neg(w: Functions, args: list[Expr], t: Dtype) -> Expr:
    return ~args[0] if t.kind == "b" else -args[0]


def _abs(w: Functions, args: list[Expr], t: Dtype) -> Expr:
    (x,) = args
    if t.kind == "f":
        return intrinsic("abs", x)
    return select(x < 0, -x, x) if t.kind == "i" else x


def _sign(w: Functions, args: list[Expr], t: Dtype) -> Expr:
    (x,) = args
    if t.kind == "b":
        return x
    if t.kind == "u":
        return select(x.ne(like(0, x)), like(1, x), like(0, x))
    y = select(x > 0, like(1, x), select(x < 0, like(-1, x), like(0, x)))
    return select(x.ne(x), x, y) if t.kind == "f" else y


def _math(name: str) -> Rule:
    return lambda w, args, t: w.math(name, *args)


def _floor(w: Functions, args: list[Expr], t: Dtype) -> Expr:
    return intrinsic("floor", args[0]) if t.kind == "f" else args[0]


def _isnan(w: Functions, args: list[Expr], t: Dtype) -> Expr:
    (x,) = args
    return x.ne(x) if t.kind == "f" else const(False, I1.vector(x.type.lanes))


def _arithmetic(op: str, bool_op: str) -> Rule:
    from acronumba.emit.tree import binary

    return lambda w, args, t: binary(bool_op if t.kind == "b" else op, *args)


def _floordiv(w: Functions, args: list[Expr], t: Dtype) -> Expr:
    a, b = args
    if t.kind == "f":
        return w.math("floordiv", a, b)
    if t.kind == "b":
        return a & b
    zero = w.bind("zero", b.eq(like(0, b)))
    if t.kind == "u":
        return select(zero, like(0, a), intrinsic("udiv", a, select(zero, like(1, b), b)))
    plain = w.bind("plain", zero | b.eq(like(-1, b)))
    safe = w.bind("safe", select(plain, like(1, b), b))
    quotient = w.bind("quotient", a // safe)
    down = (a - quotient * safe).ne(like(0, a)) & ((a < 0) ^ (b < 0))
    quotient = select(down, quotient - 1, quotient)
    return select(zero, like(0, a), select(plain, -a, quotient))


def _mod(w: Functions, args: list[Expr], t: Dtype) -> Expr:
    a, b = args
    if t.kind == "f":
        return w.math("mod", a, b)
    if t.kind == "b":
        return const(False, a.type)
    zero = w.bind("zero", b.eq(like(0, b)))
    if t.kind == "u":
        return select(zero, like(0, a), intrinsic("urem", a, select(zero, like(1, b), b)))
    plain = w.bind("plain", zero | b.eq(like(-1, b)))
    safe = w.bind("safe", select(plain, like(1, b), b))
    rest = w.bind("rest", a - (a // safe) * safe)
    rest = select(rest.ne(like(0, a)) & ((a < 0) ^ (b < 0)), rest + safe, rest)
    return select(plain, like(0, a), rest)


def _pow(w: Functions, args: list[Expr], t: Dtype) -> Expr:
    a, b = args
    if t.kind == "f":
        if isinstance(b, Const):
            return power(w, a, float(b.value), b)
        return w.math("pow", a, b)
    if t.kind == "b":
        return a | ~b
    if a.type.lanes > 1:
        raise NeedScalar
    return w.helper(f"power_{a.type}", a, b)


def power(w: Functions, a: Expr, exponent: float, b: Expr) -> Expr:
    """A float to a constant power, by products where NumPy does so."""
    if exponent == 1.0:
        return a
    if exponent == 2.0:
        return a * a
    if exponent == 3.0:
        return a * a * a
    if exponent == 0.5:
        return select(a.eq(like(float("-inf"), a)), like(float("inf"), a), intrinsic("sqrt", a) + 0.0)
    return w.math("pow", a, b)


def _lshift(w: Functions, args: list[Expr], t: Dtype) -> Expr:
    a, by = args
    whole, inside = _within(by, t)
    return a << inside if whole is None else select(whole, a << inside, like(0, a))


def _rshift(w: Functions, args: list[Expr], t: Dtype) -> Expr:
    a, by = args
    whole, inside = _within(by, t)
    if t.kind == "i":
        return a >> inside  # by one bit less than all of them: 0 or -1, as by more
    shifted = intrinsic("lshr", a, inside)
    return shifted if whole is None else select(whole, shifted, like(0, a))


def _within(by: Expr, t: Dtype) -> tuple[Expr | None, Expr]:
    """Return whether a shift leaves any bit (None: certainly), and the shift, at most by all bits but one.

    NumPy reads a negative shift as one by more than all bits.
    """
    most = t.ty.bits - 1
    if isinstance(by, Const) and 0 <= by.value <= most:
        return None, by
    return _unsigned("<=", by, like(most, by)), intrinsic("umin", by, like(most, by))


def _index(w: Functions, args: list[Expr], t: Dtype) -> Expr:
    x, n = args
    return select(x < 0, x + n, x)


def _copysign(w: Functions, args: list[Expr], t: Dtype) -> Expr:
    """Return copysign; a NaN counts as positive, as IEEE 754 leaves its sign open."""
    size, sign = args
    return intrinsic("copysign", size, sign if isinstance(sign, Const) else select(sign.ne(sign), like(1, sign), sign))


def _where(w: Functions, args: list[Expr], t: Dtype) -> Expr:
    return select(*args)


ELEMENT: Mapping[str, Rule] = {
    "neg": _neg, "abs": _abs, "sign": _sign,
    **{name: _math(name) for name, row in TENSORS.items() if row.called},
    "sqrt": lambda w, args, t: intrinsic("sqrt", args[0]),
    "floor": _floor,
    "copysign": _copysign,
    "not": lambda w, args, t: ~args[0],
    "isnan": _isnan,
    "add": _arithmetic("+", "|"), "sub": _arithmetic("-", "^"), "mul": _arithmetic("*", "&"),
    "div": _arithmetic("/", "/"),
    "floordiv": _floordiv, "mod": _mod, "pow": _pow,
    "maximum": lambda w, args, t: larger_of(args[0], args[1], t),
    "minimum": lambda w, args, t: smaller_of(args[0], args[1], t),
    "and": _arithmetic("&", "&"), "or": _arithmetic("|", "|"), "xor": _arithmetic("^", "^"),
    "lshift": _lshift, "rshift": _rshift,
    "eq": _compare("=="), "ne": _compare("!="), "lt": _compare("<"), "le": _compare("<="), "gt": _compare(">"),
    "ge": _compare(">="),
    "where": _where, "index": _index,
    "cast": lambda w, args, t: args[0],
}  # fmt: skip


def combine(op: str, a: Expr, x: Expr, t: Dtype) -> Expr:
    """Return one step of a reduction: `a` is the accumulator, `x` the next element."""
    if op == "sum":
        return a | x if t.kind == "b" else a + x
    if op == "prod":
        return a & x if t.kind == "b" else a * x
    if op == "any":
        return a | x
    if op == "all":
        return a & x
    return larger_of(x, a, t) if op == "max" else smaller_of(x, a, t)


def identity(op: str, t: Dtype) -> float | int:
    """Return the identity of a reduction."""
    if op == "max":
        return t.smallest
    if op == "min":
        return t.largest
    return 1 if op in ("prod", "all") else 0
