"""Functions of `math` made of others, in the compiled language; NumPy scalars are converted to Python numbers."""

from __future__ import annotations

import math
from typing import Any

from acronumba.frontend.calls.written import stands_for


@stands_for(math.cbrt)
def cbrt(x: Any) -> Any:
    """Return the cube root: a power, refined by one Newton step."""
    x = float(x)
    a = abs(x)
    if a == 0.0 or math.isinf(a) or math.isnan(a):
        return x
    y = a ** (1 / 3)
    return math.copysign(y - (y - a / (y * y)) / 3.0, x)


@stands_for(math.exp2)
def exp2(x: Any) -> Any:
    """Return 2 to the power of x."""
    return math.pow(2.0, float(x))


@stands_for(math.ldexp)
def ldexp(x: Any, i: Any) -> Any:
    """Return ``x * 2**i``, in several steps, as the power alone may overflow or underflow."""
    x = float(x)
    while i > 1000 and x != 0.0 and not math.isinf(x):
        x, i = x * 2.0**1000, i - 1000
    while i < -1000 and x != 0.0:
        x, i = x * 2.0**-1000, i + 1000
    if x == 0.0 or math.isinf(x) or math.isnan(x):
        return x
    out = x * 2.0**i
    if math.isinf(out):
        raise OverflowError("math range error")
    return out


@stands_for(math.modf)
def modf(x: Any) -> Any:
    """Return the fractional and the integral part, both with the sign of x."""
    x = float(x)
    if math.isinf(x):
        return math.copysign(0.0, x), x
    if math.isnan(x):
        return x, x
    rest = math.fmod(x, 1.0)
    return math.copysign(rest, x), math.copysign(x - rest, x)


@stands_for(math.remainder)
def remainder(x: Any, y: Any) -> Any:
    """Return x minus the nearest multiple of y (ties to the even quotient), as CPython does."""
    x, y = float(x), float(y)
    if math.isnan(x) or math.isnan(y):
        return x + y
    if math.isinf(x) or y == 0.0:
        raise ValueError("math domain error")
    if math.isinf(y):
        return x
    a, b = abs(x), abs(y)
    low = math.fmod(a, b)
    high = b - low
    if low < high:
        out = low
    elif low > high:
        out = -high
    else:
        out = low - 2.0 * math.fmod(0.5 * (a - low), b)
    return math.copysign(1.0, x) * out


@stands_for(math.dist)
def dist(p: Any, q: Any) -> Any:
    """Return the Euclidean distance of two points."""
    if len(p) != len(q):
        raise ValueError("both points must have the same number of dimensions")
    total = 0.0
    for a, b in zip(p, q):  # noqa: B905 -- they are of one length
        total = math.hypot(total, float(a) - float(b))
    return total


MOST_DIGITS = 22  # powers of 10 up to 10**22 are exact floats


def rounded_float(x: Any, ndigits: Any) -> Any:
    """Return `round(x, ndigits)` for up to `MOST_DIGITS` digits, correctly rounded.

    A float of 2**53 or more steps of ``10**-ndigits`` is returned as it is. If the number of steps lies halfway between
    integers, the exact rounding error of the product or quotient that gave it tells on which side x lies.
    """
    step = 10.0 ** abs(ndigits)
    a = abs(x)
    many = a * step if ndigits >= 0 else a / step
    if not many < 2.0**53:
        return x
    low = math.floor(many)
    if many - low == 0.5:
        beyond = _beyond(a, step, many) if ndigits >= 0 else -_beyond(many, step, a)
        up = beyond > 0.0 or (beyond == 0.0 and low % 2 == 1)
    else:
        up = many - low > 0.5
    whole = float(low + 1 if up else low)
    return math.copysign(whole / step if ndigits >= 0 else whole * step, x)


def _beyond(x: Any, y: Any, product: Any) -> Any:
    """Return `x * y - product` exactly, if it is a float: x and y are split into halves (Dekker 1971)."""
    a, b = x * 134217729.0, y * 134217729.0
    high, top = a - (a - x), b - (b - y)
    low, rest = x - high, y - top
    return ((high * top - product) + high * rest + low * top) + low * rest


def rounded_int(x: Any, ndigits: Any) -> Any:
    """Return `round(x, ndigits)` of an int for a negative `ndigits`, ties to the even multiple."""
    step = 10**-ndigits
    many, rest = x // step, x % step
    if rest > step - rest or (rest == step - rest and many % 2 == 1):
        many = many + 1
    return many * step
