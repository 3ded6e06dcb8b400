"""Functions of `math` that are made of others, written as models are; numbers of NumPy become Python's first."""

from __future__ import annotations

import math
from typing import Any

from acronumba.frontend.calls.written import stands_for


@stands_for(math.cbrt)
def cbrt(x: Any) -> Any:
    """Return the cube root: a power, and one step of Newton's."""
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
    """Return x times a power of 2, in steps: one alone may be beyond all floats."""
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
    """Return the fraction and the whole part, both with the sign of the number."""
    x = float(x)
    if math.isinf(x):
        return math.copysign(0.0, x), x
    if math.isnan(x):
        return x, x
    rest = math.fmod(x, 1.0)
    return math.copysign(rest, x), math.copysign(x - rest, x)


@stands_for(math.remainder)
def remainder(x: Any, y: Any) -> Any:
    """Return the difference from the nearest multiple, of two the even one, as CPython does."""
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
    """Return the distance of two points."""
    if len(p) != len(q):
        raise ValueError("both points must have the same number of dimensions")
    total = 0.0
    for a, b in zip(p, q):  # noqa: B905 -- they are of one length
        total = math.hypot(total, float(a) - float(b))
    return total
