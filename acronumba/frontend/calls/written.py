"""NumPy's functions as compositions of others, in the compiled language; calls of them are inlined.

This file has the element-wise ones; `written_orders`, `written_shapes` and `written_products` have most others. Facts
known at compile time (axes, ranks, dtypes, None) decide which branches are compiled.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba import nn
from acronumba.frontend.calls.tables import Args, row
from acronumba.frontend.values import NoneVal, Num, Val

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


def stands_for(
    *functions: Any, method: str = "", axis: str = "", choices: Mapping[str, Sequence[Any]] | None = None,
    writes: bool = False,
) -> Callable[[Any], Any]:  # fmt: skip
    """Register the decorated function as the code of functions of NumPy, and of the array method `method`.

    Arguments of a ufunc arrive in the dtypes in which NumPy computes, other arguments as the call gives them. The
    parameters of the decorated function are honoured: by name, or by position if NumPy's function lacks the name. An
    argument is rejected, with the caret under it, if its value is not in its `choices`, or if an axis is not an int. An
    `axis` of "flat" also allows None, "several" None and tuples, and "" None if that is NumPy's default. A function
    that `writes` gets arrays themselves, in place of their values.
    """

    def register(f: Any) -> Any:
        handler = of_function(f, axis, choices or {})
        for function in functions:
            if isinstance(function, np.ufunc) and function.signature is None:
                row("x y"[: 2 * function.nin - 1], function, rank0="scalar")(_of_ufunc(function, f))
            else:
                row(" ".join(inspect.signature(f).parameters), function, rank0="any", whole=writes)(handler)
        if method:
            row(" ".join(inspect.signature(f).parameters), method=method, rank0="any", whole=writes)(handler)
        return f

    return register


def rejected(what: str, instead: str) -> Any:
    """Reject the call that is compiled: library code calls this for arguments that it does not support."""
    raise NotImplementedError(what, instead)


@row("what instead", rejected)
def _rejected(w: Walker, a: Args) -> Val:
    raise w.reject("ACR202", seen=a.static("what"), rewrite=a.static("instead"))


def root(total: Any) -> Any:
    """Return the square root of a sum of squares; its derivative at 0 is 0."""
    return np.sqrt(total)


@row("total", root)
def _root(w: Walker, a: Args) -> Val:
    return w.root(a.tensor("total"), 2)


def _of_ufunc(ufunc: np.ufunc, f: Any) -> Callable[[Walker, Args], Val]:
    def handler(w: Walker, a: Args) -> Val:
        parts = [v if isinstance(v, Num) else w.as_tensor(v) for v in a.values.values()]
        ins, out = w.resolve(ufunc, parts)
        return w.call(w.constant(f), tuple(w.operands(parts, ins, out)), {})

    return handler


def of_function(f: Any, axis: str, choices: Mapping[str, Sequence[Any]]) -> Callable[[Walker, Args], Val]:
    """Return the handler that calls a function in the compiled language."""

    def handler(w: Walker, a: Args) -> Val:
        for name, values in choices.items():
            a.choice(name, *values)
        if "axis" in a.given:
            _check_axis(w, a, axis)
        return w.call(w.constant(f), (), a.values)

    return handler


ARRAYS = ("a", "x", "x1", "m", "arr", "array", "ar", "y", "p")  # NumPy's names of the array that has the axis


def _check_axis(w: Walker, a: Args, kinds: str) -> None:
    """Reject an axis that `kinds` does not allow, or that the array does not have."""
    value = a.static("axis")
    if value is None and (kinds in ("flat", "several") or (not kinds and "axis" in a.optional)):
        return
    if isinstance(value, tuple) and kinds != "several":
        raise w.reject("ACR202", a.where["axis"], seen=f"several axes for {a.what}", rewrite="one axis")
    name = next((n for n in ARRAYS if not isinstance(a.values.get(n, NoneVal()), NoneVal)), "")
    if not name:
        a.whole("axis")
        return
    with w.at_node(a.where[name]):
        rank = w.as_tensor(a.values[name]).type.rank
    if rank and kinds == "several":
        a.axes("axis", rank)
    elif rank:
        a.axis("axis", rank)


@stands_for(np.logaddexp)
def logaddexp(x: Any, y: Any) -> Any:
    """Return ``log(exp(x) + exp(y))``, without overflow."""
    return np.maximum(x, y) + np.log1p(np.exp(-apart(x, y)))


def apart(x: Any, y: Any) -> Any:
    """Return ``abs(x - y)``; where they are equal, infinities too, it is 0 and has derivative 0."""
    same = x == y
    return np.abs(np.where(same, 0, x) - np.where(same, 0, y))


@stands_for(np.logaddexp2)
def logaddexp2(x: Any, y: Any) -> Any:
    """Return ``log2(2**x + 2**y)``, without overflow."""
    return np.maximum(x, y) + np.log1p(np.exp2(-apart(x, y))) * 1.4426950408889634


@stands_for(np.exp2)
def exp2(x: Any) -> Any:
    """Return 2 to the power of x."""
    return np.power(x.dtype.type(2), x)


@stands_for(np.cbrt)
def cbrt(x: Any) -> Any:
    """Return the cube root: a power, refined by one Newton step."""
    size = np.abs(x)
    some = (size > 0) & (size < np.inf)
    a = np.where(some, size, x.dtype.type(1))
    y = np.power(a, x.dtype.type(1 / 3))
    better = y - (y - a / (y * y)) / 3
    return np.copysign(np.where(some, better, size), x)


@stands_for(np.hypot)
def hypot(x: Any, y: Any) -> Any:
    """Return ``sqrt(x * x + y * y)``; x and y are scaled by a power of 2 where squares overflow or underflow."""
    power = 600 if x.dtype == np.float64 else 100
    far = 2.0**500 if x.dtype == np.float64 else 2.0**60  # from 1 / far to far, squares are normal floats
    kind = x.dtype.type
    most = np.maximum(np.abs(x), np.abs(y))
    scale = np.where(most > far, kind(2.0**-power), np.where(most < 1 / far, kind(2.0**power), kind(1)))
    u, v = x * scale, y * scale
    return np.where(np.isinf(x) | np.isinf(y), kind(np.inf), root(u * u + v * v) / scale)


@stands_for(np.ceil)
def ceil(x: Any) -> Any:
    """Return the smallest integer that is not less than x."""
    return -np.floor(-x) if x.dtype.kind == "f" else x.copy()


@stands_for(np.trunc)
def trunc(x: Any) -> Any:
    """Return x rounded toward zero."""
    return np.copysign(np.floor(np.abs(x)), x) if x.dtype.kind == "f" else x.copy()


@stands_for(np.rint)
def rint(x: Any) -> Any:
    """Return the nearest integer, ties to even."""
    big = x.dtype.type(4503599627370496.0 if x.dtype == np.float64 else 8388608.0)  # from here on floats are integers
    a = np.abs(x)
    return nn.stop_gradient(np.copysign(np.where(a < big, (a + big) - big, a), x))


@stands_for(np.signbit)
def signbit(x: Any) -> Any:
    """Return whether the sign bit is set, also of zeros and NaN."""
    return np.copysign(1, x) < 0


@stands_for(np.isinf)
def isinf(x: Any) -> Any:
    """Return whether a number is infinite."""
    return np.abs(x) == np.inf if x.dtype.kind == "f" else x != x


@stands_for(np.isfinite)
def isfinite(x: Any) -> Any:
    """Return whether a number is neither infinite nor NaN."""
    return np.abs(x) < np.inf if x.dtype.kind == "f" else x == x


@stands_for(np.fmod)
def fmod(x: Any, y: Any) -> Any:
    """Return the remainder of ``x / y``, with the sign of x."""
    if x.dtype.kind == "f":
        nothing = (x == 0) & (np.abs(y) > 0)  # x itself, since the derivative of np.abs(x) at 0 is 0
        return np.where(nothing, x, np.copysign(np.remainder(np.abs(x), np.abs(y)), x))
    rest = np.remainder(x, y)
    return np.where((rest != 0) & ((x < 0) != (y < 0)), rest - y, rest)


@stands_for(np.fabs)
def fabs(x: Any) -> Any:
    """Return the absolute value, a float."""
    return np.abs(x)


@stands_for(np.positive)
def positive(x: Any) -> Any:
    """Return a copy of x."""
    return x.copy()


@stands_for(np.conjugate)
def conjugate(x: Any) -> Any:
    """Return a copy of x: a real number is its own conjugate."""
    return x.copy()


@row("x", method="conj", rank0="first")
def _conj(w: Walker, a: Args) -> Val:
    return a.tensor("x")


@stands_for(np.fmax)
def fmax(x: Any, y: Any) -> Any:
    """Return the larger number; NaN only if both are NaN."""
    return np.where((x >= y) | np.isnan(y), x, y)


@stands_for(np.fmin)
def fmin(x: Any, y: Any) -> Any:
    """Return the smaller number; NaN only if both are NaN."""
    return np.where((x <= y) | np.isnan(y), x, y)


@stands_for(np.heaviside)
def heaviside(x: Any, y: Any) -> Any:
    """Return 0, y or 1 where x is negative, zero or positive."""
    return np.where(x == 0, y, np.where(x < 0, x.dtype.type(0), np.where(x > 0, x.dtype.type(1), x)))


@stands_for(np.float_power)
def float_power(x: Any, y: Any) -> Any:
    """Return ``x**y`` in float64."""
    return np.power(x, y)


@stands_for(np.deg2rad, np.radians)
def radians(x: Any) -> Any:
    """Return an angle in radians."""
    return x * (np.pi / 180)


@stands_for(np.rad2deg, np.degrees)
def degrees(x: Any) -> Any:
    """Return an angle in degrees."""
    return x * (180 / np.pi)


@stands_for(np.ldexp)
def ldexp(x: Any, y: Any) -> Any:
    """Return ``x * 2**y``, in four steps, as the power alone may overflow or underflow."""
    most = 600 if x.dtype == np.float64 else 80  # four steps lead from the smallest float past the largest
    y = np.clip(y.astype(np.int64), -4 * most, 4 * most)
    for _ in range(4):
        step = np.clip(y, -most, most)
        x, y = x * x.dtype.type(2) ** step.astype(x.dtype), y - step
    return x


def without_sign(x: Any) -> Any:
    """Return the absolute values of integers as uint64, which holds that of the least int64."""
    return np.abs(x.astype(np.int64)).astype(np.uint64) if x.dtype.kind == "i" else x.astype(np.uint64)


@stands_for(np.gcd)
def gcd(x: Any, y: Any) -> Any:
    """Return the greatest common divisor: Euclid's algorithm, until it is done for all elements."""
    kind = x.dtype
    x, y = without_sign(x), without_sign(y)
    while np.any(y != 0):
        x, y = np.where(y == 0, x, y), np.remainder(x, y)
    return x.astype(kind)


@stands_for(np.lcm)
def lcm(x: Any, y: Any) -> Any:
    """Return the least common multiple, which wraps on overflow."""
    kind = x.dtype
    x, y = without_sign(x), without_sign(y)
    return (x // np.maximum(np.gcd(x, y), 1) * y).astype(kind)


# ---- functions that are no ufuncs


@stands_for(np.real)
def real(val: Any) -> Any:
    """Return the real part: the number itself."""
    return np.asarray(val)[()]


@stands_for(np.imag)
def imag(val: Any) -> Any:
    """Return the imaginary part: zeros."""
    return np.zeros_like(val)


@stands_for(np.angle)
def angle(z: Any, deg: Any) -> Any:
    """Return the angle to the positive real axis: 0 or pi."""
    out = np.arctan2(0, z)
    return out * (180 / np.pi) if deg else out


@stands_for(np.isneginf)
def isneginf(x: Any) -> Any:
    """Return whether a number is minus infinity."""
    return np.isinf(x) & np.signbit(x)


@stands_for(np.isposinf)
def isposinf(x: Any) -> Any:
    """Return whether a number is infinity."""
    return np.isinf(x) & ~np.signbit(x)


@stands_for(np.fix)
def fix(x: Any) -> Any:
    """Return x rounded toward zero."""
    return np.trunc(x)


@stands_for(np.round, np.around, method="round")
def rounded(a: Any, decimals: Any) -> Any:
    """Round to decimals as NumPy does: scale by a power of 10, round to the nearest integer, scale back."""
    x = np.asarray(a)
    if x.dtype == np.bool_:
        return np.rint(x.astype(np.float16))
    if x.dtype.kind != "f":
        if decimals >= 0:
            return x.copy()[()]
        step = 10**-decimals
        return (np.rint(x / step) * step).astype(x.dtype)
    if decimals == 0:
        return np.rint(x)
    if decimals > 0:
        return np.rint(x * 10.0**decimals) / 10.0**decimals
    return np.rint(x / 10.0**-decimals) * 10.0**-decimals


@stands_for(np.nan_to_num)
def nan_to_num(x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    """Return x with NaN and infinities replaced by numbers."""
    x = np.array(x)
    if x.dtype.kind != "f":
        return x[()]
    most = np.finfo(x.dtype).max if posinf is None else posinf
    least = np.finfo(x.dtype).min if neginf is None else neginf
    kind = x.dtype.type
    known = np.where(np.isnan(x), kind(nan), x)
    known = np.where(known == np.inf, kind(most), np.where(known == -np.inf, kind(least), known))
    return known[()]


@stands_for(np.divmod)
def both_parts(x: Any, y: Any) -> Any:
    """Return the floored quotient and the remainder."""
    return np.floor_divide(x, y), np.remainder(x, y)


@stands_for(np.modf)
def modf(x: Any) -> Any:
    """Return the fractional and the integral part, both with the sign of x."""
    whole = np.trunc(x)
    fraction = np.where(x == 0, x, np.copysign(np.where(np.isinf(x), 0, x - whole), x))
    return fraction * x.dtype.type(1), whole  # the product is a scalar where np.where gives an array of rank 0


@stands_for(np.sinc)
def sinc(x: Any) -> Any:
    """Return ``sin(pi x) / (pi x)``, and 1 at 0."""
    x = np.asarray(x)
    x = x if x.dtype.kind == "f" else x.astype(np.float64)
    turned = np.pi * np.where(x == 0, x.dtype.type(1e-20), x)
    return np.sin(turned) / turned


@stands_for(np.isclose)
def isclose(a: Any, b: Any, rtol: Any, atol: Any, equal_nan: Any) -> Any:
    """Return whether ``abs(a - b) <= atol + rtol * abs(b)``, for each element."""
    b = np.asarray(b)
    b = b if b.dtype.kind == "f" else b.astype(np.float64)
    near = (np.abs(a - b) <= atol + rtol * np.abs(b)) & np.isfinite(b) | (a == b)
    return near | (np.isnan(a) & np.isnan(b)) if equal_nan else near


@stands_for(np.allclose)
def allclose(a: Any, b: Any, rtol: Any, atol: Any, equal_nan: Any) -> Any:
    """Return whether `isclose` holds for all elements."""
    return bool(np.all(np.isclose(a, b, rtol, atol, equal_nan)))


@stands_for(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: Any) -> Any:
    """Return whether two arrays have the same shape and elements."""
    a1, a2 = np.asarray(a1), np.asarray(a2)
    if a1.ndim != a2.ndim or a1.shape != a2.shape:
        return False
    same = a1 == a2
    return bool(np.all(same | (np.isnan(a1) & np.isnan(a2)) if equal_nan else same))


@stands_for(np.select)
def select(condlist: Any, choicelist: Any, default: Any) -> Any:
    """Return the choice of the first condition that holds, else the default."""
    out = default
    for k in range(len(condlist) - 1, -1, -1):
        out = np.where(condlist[k], choicelist[k], out)
    return out


@stands_for(np.choose, choices={"mode": ["raise"]})
def choose(a: Any, choices: Any, mode: Any) -> Any:
    """Return, for each index in `a`, the element at its position in the array ``choices[index]``."""
    a = np.asarray(a)
    if np.any((a < 0) | (a >= len(choices))):
        raise ValueError("invalid entry in choice array")
    out = choices[0]
    for k in range(1, len(choices)):
        out = np.where(a == k, choices[k], out)
    return out
