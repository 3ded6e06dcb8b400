"""Scalar operations of the host program, with Python's semantics.

In: a `Scalar`. Out: its code. Floor division, checks of overflow, division by zero and domain: each a failure of the
instance at a site.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from acronumba.emit import tree
from acronumba.emit.intrinsics import OF_C
from acronumba.emit.tree import F64, I1, I64, Expr, const, convert, intrinsic, select
from acronumba.host.texts import TEXTS
from acronumba.host.writer import Writer
from acronumba.ir.nodes import Scalar
from acronumba.ir.ops import MATH, SCALARS, TENSORS
from acronumba.ir.types import FloatT

_LEAST = -(1 << 63)
_Make = Callable[..., Expr]


def scalar(w: Writer, instr: Scalar) -> None:
    args = [w[a] for a in instr.args]
    floats = isinstance(instr.args[0].type, FloatT)
    make = (_FLOATS if floats else _INTS).get(instr.op) or _ANY.get(instr.op) or TEXTS.get(instr.op)
    if make is None and instr.op in MATH:
        _math(w, instr, args)
        return
    if make is None:
        raise ValueError(f"scalar operation {instr.op!r} of {instr.args[0].type}")
    w.assign(instr.out, make(w, instr, *args))


def _math(w: Writer, instr: Scalar, args: list[Expr]) -> None:
    """A function of `math`: NaN from numbers and infinity from finite ones are its failures."""
    b = w.b
    name = instr.op
    if name == "copysign":  # a NaN counts as positive
        args[1] = select(args[1].ne(args[1]), 1.0, args[1])
    y = b.let("y", intrinsic(OF_C[name].name, *args))
    if instr.site >= 0 and not SCALARS[name].total:
        w.unless(_undefined(y, args), instr)
    w.assign(instr.out, y)


def _undefined(y: Expr, args: list[Expr]) -> Expr:
    """Whether a result of `math` is NaN from numbers, or infinite from finite ones."""
    numbers, finite = args[0].eq(args[0]), _finite(args[0])
    for a in args[1:]:
        numbers, finite = numbers & a.eq(a), finite & _finite(a)
    return y.ne(y) & numbers | _infinite(y) & finite


def _defined(name: str) -> _Make:
    def make(w: Writer, i: Scalar, *args: Expr) -> Expr:
        y = w.b.let("y", intrinsic("libm_pow" if name == "pow" else OF_C[name].name, *args))
        return ~_undefined(y, list(args))

    return make


def _infinite(x: Expr) -> Expr:
    return intrinsic("abs", x).eq(math.inf)


def _finite(x: Expr) -> Expr:
    return intrinsic("abs", x) < math.inf


def _checked(op: str, name: str) -> _Make:
    def make(w: Writer, i: Scalar, x: Expr, y: Expr) -> Expr:
        if i.site >= 0:
            w.unless(intrinsic(f"{name}_overflows", x, y, type=I1), i)
        return tree.binary(op, x, y)

    return make


def _int_floordiv(w: Writer, i: Scalar, x: Expr, y: Expr) -> Expr:
    w.unless(y.eq(0) | x.eq(_LEAST) & y.eq(-1), i)
    q = w.b.let("q", x // y)
    r = x - q * y
    return q - convert(r.ne(0) & ((r ^ y) < 0), I64, "unsigned")


def _int_quotient(w: Writer, i: Scalar, x: Expr, y: Expr) -> Expr:
    """The quotient of two ints as a float. Where one has more than 53 bits, a quotient of 56 bits is rounded once."""
    b = w.b
    w.unless(y.eq(0), i)
    out = b.let("ratio", convert(x, F64) / convert(y, F64))
    a, d = b.let("above", select(x < 0, -x, x)), b.let("below", select(y < 0, -y, y))
    with b.when(intrinsic("umax", a, d).ne(intrinsic("umin", intrinsic("umax", a, d), const(1 << 53, I64)))):
        whole, rest = b.let("whole", intrinsic("udiv", a, d)), b.let("rest", intrinsic("urem", a, d))
        scale = b.let("scale", 1.0)
        with b.while_((whole.eq(0) | (intrinsic("lshr", whole, const(55, I64)).eq(0))) & x.ne(0)):
            left = b.let("left", d - rest)
            bit = b.let("bit", intrinsic("umin", rest, left).eq(left))
            b.set(rest, select(bit, rest - left, rest + rest))
            b.set(whole, whole + whole + convert(bit, I64, "unsigned"))
            b.set(scale, scale * 0.5)
        b.set(whole, whole | convert(rest.ne(0), I64, "unsigned"))
        b.set(out, convert(whole, F64, "unsigned") * scale)
        with b.when((x ^ y) < 0):
            b.set(out, -out)
    return out


def _int_rest(w: Writer, i: Scalar, x: Expr) -> Expr:
    near = w.b.let("near", convert(x, F64))
    most = near.eq(2.0**63)  # which an int64 does not hold
    return (
        x
        - convert(select(most, 0.0, near), I64)
        - select(most, const((1 << 63) - 1, I64), 0)
        - convert(most, I64, "unsigned")
    )


def _int_mod(w: Writer, i: Scalar, x: Expr, y: Expr) -> Expr:
    w.unless(y.eq(0), i)
    d = w.b.let("divisor", select(y.eq(-1), 1, y))  # the machine cannot divide the least integer by -1
    r = w.b.let("r", x % d)
    return r + select(r.ne(0) & ((r ^ y) < 0), y, 0)


def _int_pow(w: Writer, i: Scalar, x: Expr, y: Expr) -> Expr:
    b = w.b
    w.unless(y < 0, i)
    base, left, out = b.let("base", x), b.let("left", y), b.let("power", 1)
    bad = b.let("bad", const(False, I1))
    with b.while_((left > 0) & ~bad):
        with b.when((left & 1).ne(0)):
            b.set(bad, bad | intrinsic("mul_overflows", out, base, type=I1))
            b.set(out, out * base)
        b.set(left, left >> 1)
        with b.when(left > 0):
            b.set(bad, bad | intrinsic("mul_overflows", base, base, type=I1))
            b.set(base, base * base)
    w.unless(bad, i)
    return out


def _int_neg(w: Writer, i: Scalar, x: Expr) -> Expr:
    if i.site >= 0:
        w.unless(x.eq(_LEAST), i)
    return -x


def _int_abs(w: Writer, i: Scalar, x: Expr) -> Expr:
    if i.site >= 0:
        w.unless(x.eq(_LEAST), i)
    return select(x < 0, -x, x)


def _lshift(w: Writer, i: Scalar, x: Expr, y: Expr) -> Expr:
    w.unless(y < 0, i)
    small = w.b.let("shift", select(y < 63, y, 63))
    out = w.b.let("shifted", x << small)
    w.unless(x.ne(0) & ((y > 63) | (out >> small).ne(x)), i)
    return out


def _rshift(w: Writer, i: Scalar, x: Expr, y: Expr) -> Expr:
    w.unless(y < 0, i)
    return x >> select(y < 63, y, 63)


def _float_divmod(w: Writer, i: Scalar, x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """Python's definition, step by step."""
    b = w.b
    w.unless(y.eq(0.0), i)
    rest = b.let("rest", intrinsic("libm_fmod", x, y))
    quotient = b.let("quotient", (x - rest) / y)
    with b.when(rest.eq(0.0)):
        b.set(rest, intrinsic("copysign", const(0.0, F64), y))
    with b.otherwise(), b.when((y < 0.0).ne(rest < 0.0)):
        b.set(rest, rest + y)
        b.set(quotient, quotient - 1.0)
    down = b.let("down", intrinsic("copysign", const(0.0, F64), x / y))
    with b.when(quotient.ne(0.0)):
        b.set(down, intrinsic("floor", quotient))
        with b.when(quotient - down > 0.5):
            b.set(down, down + 1.0)
    return down, rest


def _float_div(w: Writer, i: Scalar, x: Expr, y: Expr) -> Expr:
    w.unless(y.eq(0.0), i)
    return x / y


def _float_pow(w: Writer, i: Scalar, x: Expr, y: Expr) -> Expr:
    b = w.b
    whole = intrinsic("floor", y).eq(y)
    w.unless(_finite(x) & _finite(y) & (x.eq(0.0) & (y < 0.0) | (x < 0.0) & ~whole), i)
    out = b.let("power", intrinsic("libm_pow", x, y))
    w.unless(_infinite(out) & _finite(x) & _finite(y), i)
    return out


def _to_int(w: Writer, i: Scalar, x: Expr) -> Expr:
    """Return the integer equal to an integral float; NaN and numbers beyond 64 bits fail."""
    w.unless(~((x >= -(2.0**63)) & (x < 2.0**63)), i)
    return convert(x, I64)


def _round(w: Writer, i: Scalar, x: Expr) -> Expr:
    b = w.b
    low = b.let("low", intrinsic("floor", x))
    rest = b.let("rest", x - low)
    odd = (low - intrinsic("floor", low * 0.5) * 2.0).eq(1.0)
    return _to_int(w, i, b.let("rounded", select((rest > 0.5) | rest.eq(0.5) & odd, low + 1.0, low)))


def _compared(op: str) -> _Make:
    return lambda w, i, x, y: tree.compare(op, x, y)


_BOTH: dict[str, _Make] = {
    "min": lambda w, i, x, y: select(y < x, y, x),
    "max": lambda w, i, x, y: select(y > x, y, x),
    **{name: _compared(row.sign) for name, row in TENSORS.items() if row.compares},
}

_ANY: dict[str, _Make] = {"select": lambda w, i, c, x, y: select(c, x, y), "same": lambda w, i, x, y: x.eq(y)}

_INTS: dict[str, _Make] = {
    **_BOTH,
    "add": _checked("+", "add"),
    "sub": _checked("-", "sub"),
    "mul": _checked("*", "mul"),
    "quotient": _int_quotient,
    "rest": _int_rest,
    "floordiv": _int_floordiv,
    "mod": _int_mod,
    "pow": _int_pow,
    "neg": _int_neg,
    "abs": _int_abs,
    "and": lambda w, i, x, y: x & y,
    "or": lambda w, i, x, y: x | y,
    "xor": lambda w, i, x, y: x ^ y,
    "invert": lambda w, i, x: ~x,
    "lshift": _lshift,
    "rshift": _rshift,
    "not": lambda w, i, x: ~x,
    "both": lambda w, i, x, y: x & y,
    "either": lambda w, i, x, y: x | y,
    "differ": lambda w, i, x, y: x ^ y,
    "int": lambda w, i, x: convert(x, I64, "unsigned"),
    "float": lambda w, i, x: convert(x, F64),
    "bool": lambda w, i, x: x.ne(0),
}

_FLOATS: dict[str, _Make] = {
    **_BOTH,
    "add": lambda w, i, x, y: x + y,
    "sub": lambda w, i, x, y: x - y,
    "mul": lambda w, i, x, y: x * y,
    "div": _float_div,
    "floordiv": lambda w, i, x, y: _float_divmod(w, i, x, y)[0],
    "mod": lambda w, i, x, y: _float_divmod(w, i, x, y)[1],
    "pow": _float_pow,
    "neg": lambda w, i, x: -x,
    "abs": lambda w, i, x: intrinsic("abs", x),
    "bool": lambda w, i, x: x.ne(0.0),
    "trunc": _to_int,
    "floor": lambda w, i, x: _to_int(w, i, w.b.let("low", intrinsic("floor", x))),
    "ceil": lambda w, i, x: _to_int(w, i, w.b.let("high", -intrinsic("floor", -x))),
    "round": _round,
    "isnan": lambda w, i, x: x.ne(x),
    "isinf": lambda w, i, x: _infinite(x),
    "isfinite": lambda w, i, x: _finite(x),
    **{name: _defined(name.removeprefix("defined_")) for name in SCALARS if name.startswith("defined_")},
}
