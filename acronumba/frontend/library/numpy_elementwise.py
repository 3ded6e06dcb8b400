"""NumPy's element-wise functions as compositions of others, in the compiled language."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from acronumba import nn
from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.library.decorators import implements, primitive

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


def _root(w: Walker, a: Args) -> Val:
    return w.ops.root(a.tensor("total"), 2)


@primitive(rule=_root)
def root(total):
    """Return the square root of a sum of squares; its derivative at 0 is 0."""
    return np.sqrt(total)


@implements(np.logaddexp)
def logaddexp(x, y):
    """Return ``log(exp(x) + exp(y))``, without overflow."""
    return np.maximum(x, y) + np.log1p(np.exp(-apart(x, y)))


def apart(x, y):
    """Return ``abs(x - y)``; where they are equal, infinities too, it is 0 and has derivative 0."""
    same = x == y
    return np.abs(np.where(same, 0, x) - np.where(same, 0, y))


@implements(np.logaddexp2)
def logaddexp2(x, y):
    """Return ``log2(2**x + 2**y)``, without overflow."""
    return np.maximum(x, y) + np.log1p(np.exp2(-apart(x, y))) * 1.4426950408889634


@implements(np.exp2)
def exp2(x):
    """Return 2 to the power of x."""
    return np.power(x.dtype.type(2), x)


@implements(np.cbrt)
def cbrt(x):
    """Return the cube root: a power, refined by one Newton step."""
    size = np.abs(x)
    some = (size > 0) & (size < np.inf)
    a = np.where(some, size, x.dtype.type(1))
    y = np.power(a, x.dtype.type(1 / 3))
    better = y - (y - a / (y * y)) / 3
    return np.copysign(np.where(some, better, size), x)


@implements(np.hypot)
def hypot(x, y):
    """Return ``sqrt(x * x + y * y)``; x and y are scaled by a power of 2 where squares overflow or underflow."""
    power = 600 if x.dtype == np.float64 else 100
    far = 2.0**500 if x.dtype == np.float64 else 2.0**60  # from 1 / far to far, squares are normal floats
    kind = x.dtype.type
    most = np.maximum(np.abs(x), np.abs(y))
    scale = np.where(most > far, kind(2.0**-power), np.where(most < 1 / far, kind(2.0**power), kind(1)))
    u, v = x * scale, y * scale
    return np.where(np.isinf(x) | np.isinf(y), kind(np.inf), root(u * u + v * v) / scale)


@implements(np.ceil)
def ceil(x):
    """Return the smallest integer that is not less than x."""
    return -np.floor(-x) if x.dtype.kind == "f" else x.copy()


@implements(np.trunc)
def trunc(x):
    """Return x rounded toward zero."""
    return np.copysign(np.floor(np.abs(x)), x) if x.dtype.kind == "f" else x.copy()


@implements(np.rint)
def rint(x):
    """Return the nearest integer, ties to even."""
    big = x.dtype.type(4503599627370496.0 if x.dtype == np.float64 else 8388608.0)  # from here on floats are integers
    a = np.abs(x)
    return nn.stop_gradient(np.copysign(np.where(a < big, (a + big) - big, a), x))


@implements(np.signbit)
def signbit(x):
    """Return whether the sign bit is set, also of zeros and NaN."""
    return np.copysign(1, x) < 0


@implements(np.isinf)
def isinf(x):
    """Return whether a number is infinite."""
    return np.abs(x) == np.inf if x.dtype.kind == "f" else x != x


@implements(np.isfinite)
def isfinite(x):
    """Return whether a number is neither infinite nor NaN."""
    return np.abs(x) < np.inf if x.dtype.kind == "f" else x == x


@implements(np.fmod)
def fmod(x, y):
    """Return the remainder of ``x / y``, with the sign of x."""
    if x.dtype.kind == "f":
        nothing = (x == 0) & (np.abs(y) > 0)  # x itself, since the derivative of np.abs(x) at 0 is 0
        return np.where(nothing, x, np.copysign(np.remainder(np.abs(x), np.abs(y)), x))
    rest = np.remainder(x, y)
    return np.where((rest != 0) & ((x < 0) != (y < 0)), rest - y, rest)


@implements(np.fabs)
def fabs(x):
    """Return the absolute value, a float."""
    return np.abs(x)


@implements(np.positive)
def positive(x):
    """Return a copy of x."""
    return x.copy()


@implements(np.conjugate)
def conjugate(x):
    """Return a copy of x: a real number is its own conjugate."""
    return x.copy()


@implements(np.ndarray.conj)
def conj(x):
    """Return x, which is its own conjugate."""
    return x


@implements(np.fmax)
def fmax(x, y):
    """Return the larger number; NaN only if both are NaN."""
    return np.where((x >= y) | np.isnan(y), x, y)


@implements(np.fmin)
def fmin(x, y):
    """Return the smaller number; NaN only if both are NaN."""
    return np.where((x <= y) | np.isnan(y), x, y)


@implements(np.heaviside)
def heaviside(x, y):
    """Return 0, y or 1 where x is negative, zero or positive."""
    return np.where(x == 0, y, np.where(x < 0, x.dtype.type(0), np.where(x > 0, x.dtype.type(1), x)))


@implements(np.float_power)
def float_power(x, y):
    """Return ``x**y`` in float64."""
    return np.power(x, y)


@implements(np.deg2rad, np.radians)
def radians(x):
    """Return an angle in radians."""
    return x * (np.pi / 180)


@implements(np.rad2deg, np.degrees)
def degrees(x):
    """Return an angle in degrees."""
    return x * (180 / np.pi)


@implements(np.ldexp)
def ldexp(x, y):
    """Return ``x * 2**y``, in four steps, as the power alone may overflow or underflow."""
    most = 600 if x.dtype == np.float64 else 80  # four steps lead from the smallest float past the largest
    y = np.clip(y.astype(np.int64), -4 * most, 4 * most)
    for _ in range(4):
        step = np.clip(y, -most, most)
        x, y = x * x.dtype.type(2) ** step.astype(x.dtype), y - step
    return x


def without_sign(x):
    """Return the absolute values of integers as uint64, which holds that of the least int64."""
    return np.abs(x.astype(np.int64)).astype(np.uint64) if x.dtype.kind == "i" else x.astype(np.uint64)


@implements(np.gcd)
def gcd(x, y):
    """Return the greatest common divisor: Euclid's algorithm, until it is done for all elements."""
    kind = x.dtype
    x, y = without_sign(x), without_sign(y)
    while np.any(y != 0):
        x, y = np.where(y == 0, x, y), np.remainder(x, y)
    return x.astype(kind)


@implements(np.lcm)
def lcm(x, y):
    """Return the least common multiple, which wraps on overflow."""
    kind = x.dtype
    x, y = without_sign(x), without_sign(y)
    return (x // np.maximum(np.gcd(x, y), 1) * y).astype(kind)


# ---- functions that are no ufuncs


@implements(np.real)
def real(val):
    """Return the real part: the number itself."""
    return np.asarray(val)[()]


@implements(np.imag)
def imag(val):
    """Return the imaginary part: zeros."""
    return np.zeros_like(val)


@implements(np.angle)
def angle(z, deg):
    """Return the angle to the positive real axis: 0 or pi."""
    out = np.arctan2(0, z)
    return out * (180 / np.pi) if deg else out


@implements(np.isneginf)
def isneginf(x):
    """Return whether a number is minus infinity."""
    return np.isinf(x) & np.signbit(x)


@implements(np.isposinf)
def isposinf(x):
    """Return whether a number is infinity."""
    return np.isinf(x) & ~np.signbit(x)


@implements(np.fix)
def fix(x):
    """Return x rounded toward zero."""
    return np.trunc(x)


@implements(np.round, np.around, np.ndarray.round)
def rounded(a, decimals):
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


@implements(np.nan_to_num)
def nan_to_num(x, nan, posinf, neginf):
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


@implements(np.divmod)
def both_parts(x, y):
    """Return the floored quotient and the remainder."""
    return np.floor_divide(x, y), np.remainder(x, y)


@implements(np.modf)
def modf(x):
    """Return the fractional and the integral part, both with the sign of x."""
    whole = np.trunc(x)
    fraction = np.where(x == 0, x, np.copysign(np.where(np.isinf(x), 0, x - whole), x))
    return fraction * x.dtype.type(1), whole  # the product is a scalar where np.where gives an array of rank 0


@implements(np.sinc)
def sinc(x):
    """Return ``sin(pi x) / (pi x)``, and 1 at 0."""
    x = np.asarray(x)
    x = x if x.dtype.kind == "f" else x.astype(np.float64)
    turned = np.pi * np.where(x == 0, x.dtype.type(1e-20), x)
    return np.sin(turned) / turned


@implements(np.isclose)
def isclose(a, b, rtol, atol, equal_nan):
    """Return whether ``abs(a - b) <= atol + rtol * abs(b)``, for each element."""
    b = np.asarray(b)
    b = b if b.dtype.kind == "f" else b.astype(np.float64)
    near = (np.abs(a - b) <= atol + rtol * np.abs(b)) & np.isfinite(b) | (a == b)
    return near | (np.isnan(a) & np.isnan(b)) if equal_nan else near


@implements(np.allclose)
def allclose(a, b, rtol, atol, equal_nan):
    """Return whether `isclose` holds for all elements."""
    return bool(np.all(np.isclose(a, b, rtol, atol, equal_nan)))


@implements(np.array_equal)
def array_equal(a1, a2, equal_nan):
    """Return whether two arrays have the same shape and elements."""
    a1, a2 = np.asarray(a1), np.asarray(a2)
    if a1.ndim != a2.ndim or a1.shape != a2.shape:
        return False
    same = a1 == a2
    return bool(np.all(same | (np.isnan(a1) & np.isnan(a2)) if equal_nan else same))


@implements(np.select)
def select(condlist, choicelist, default):
    """Return the choice of the first condition that holds, else the default."""
    out = default
    for k in range(len(condlist) - 1, -1, -1):
        out = np.where(condlist[k], choicelist[k], out)
    return out


@implements(np.choose, choices={"mode": ["raise"]})
def choose(a, choices, mode):
    """Return, for each index in `a`, the element at its position in the array ``choices[index]``."""
    a = np.asarray(a)
    if np.any((a < 0) | (a >= len(choices))):
        raise ValueError("invalid entry in choice array")
    out = choices[0]
    for k in range(1, len(choices)):
        out = np.where(a == k, choices[k], out)
    return out
