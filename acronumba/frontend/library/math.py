"""Functions of `math`, `round`, and methods of numbers, in the compiled language.

In: ints of 64 bits, or floats. Out: Python's result, or an `OverflowError` of the instance if it does not fit into 64
bits. Other functions of `math` are operations of the host program (`of_python`).
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING

from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.conditions import host_value
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.library.decorators import implements, primitive

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


def _index(w: Walker, a: Args) -> Val:
    return w.as_int(host_value(w, a["x"], a.static("what"), index=True))


@primitive(rule=_index, whole=True)
def index(x, what):
    """Return an int as it is; other numbers, which Python rejects in a call of `what`, are rejected."""
    return operator.index(x)


@implements(math.gcd)
def gcd(*integers):
    """Return the greatest common divisor, never negative."""
    out = 0
    for x in integers:
        out = divisor(out, index(x, "math.gcd()"))
    return abs(out)


def divisor(a, b):
    """Return the greatest common divisor or its negative, since -2**63 has no absolute value."""
    while b != 0:
        a, b = b, a % b
    return a


@implements(math.lcm)
def lcm(*integers):
    """Return the least common multiple, never negative."""
    out = 1
    for x in integers:
        n = index(x, "math.lcm()")
        out = 0 if out == 0 or n == 0 else out // divisor(out, n) * n
    return abs(out)


@implements(math.factorial)
def factorial(n, /):
    """Return n!."""
    n = index(n, "math.factorial()")
    if n < 0:
        raise ValueError("factorial() not defined for negative values")
    out = 1
    for k in range(2, n + 1):
        out *= k
    return out


@implements(math.isqrt)
def isqrt(n, /):
    """Return the integer part of the square root."""
    n = index(n, "math.isqrt()")
    if n < 0:
        raise ValueError("isqrt() argument must be nonnegative")
    if n == 0:
        return 0
    root = int(math.sqrt(n))  # at most one off; `n // root` is used since a square may overflow
    while root > n // root:
        root -= 1
    while root + 1 <= n // (root + 1):
        root += 1
    return root


@implements(math.comb)
def comb(n, k, /):
    """Return the number of combinations of k of n elements."""
    n, k = index(n, "math.comb()"), index(k, "math.comb()")
    if n < 0:
        raise ValueError("n must be a non-negative integer")
    if k < 0:
        raise ValueError("k must be a non-negative integer")
    if k > n:
        return 0
    out = 1
    for i in range(min(k, n - k)):
        shared = divisor(out, i + 1)  # no intermediate value exceeds the result
        out = out // shared * ((n - i) // ((i + 1) // shared))
    return out


@implements(math.perm)
def perm(n, k=None, /):
    """Return the number of permutations of k of n elements."""
    if k is None:
        return math.factorial(n)
    n, k = index(n, "math.perm()"), index(k, "math.perm()")
    if n < 0:
        raise ValueError("n must be a non-negative integer")
    if k < 0:
        raise ValueError("k must be a non-negative integer")
    if k > n:
        return 0
    out = 1
    for i in range(k):
        out *= n - i
    return out


@implements(math.degrees)
def degrees(x, /):
    """Return an angle in degrees."""
    return float(x) * (180.0 / math.pi)


@implements(math.radians)
def radians(x, /):
    """Return an angle in radians."""
    return float(x) * (math.pi / 180.0)


@implements(math.isclose)
def isclose(a, b, *, rel_tol=1e-09, abs_tol=0.0):
    """Return whether two numbers are equal within a relative or an absolute tolerance."""
    a, b, rel_tol, abs_tol = float(a), float(b), float(rel_tol), float(abs_tol)
    if rel_tol < 0.0 or abs_tol < 0.0:
        raise ValueError("tolerances must be non-negative")
    if a == b:
        return True
    if math.isinf(a) or math.isinf(b):
        return False
    difference = abs(b - a)
    return difference <= abs(rel_tol * b) or difference <= abs(rel_tol * a) or difference <= abs_tol


def pow_mod(base, exponent, mod):
    """Return ``pow(base, exponent, mod)``."""
    base, exponent, mod = index(base, "pow()"), index(exponent, "pow()"), index(mod, "pow()")
    if mod == 0:
        raise ValueError("pow() 3rd argument cannot be 0")
    if exponent < 0:
        raise TypeError("pow() of a negative exponent and a modulus: compute the inverse first")
    out = 1 % mod
    base = base % mod
    while exponent > 0:
        if exponent % 2 == 1:
            out = out * base % mod
        base = base * base % mod
        exponent = exponent // 2
    return out


@implements(int.bit_length)
def bit_length(n):
    """Return ``n.bit_length()``."""
    out = 0
    n = abs(n)
    while n > 0:
        n = n >> 1
        out += 1
    return out


@implements(int.bit_count)
def bit_count(n):
    """Return ``n.bit_count()``."""
    if n == -(2**63):
        return 1
    out = 0
    n = abs(n)
    while n > 0:
        n = n & (n - 1)
        out += 1
    return out


@implements(float.is_integer)
def is_integer(x):
    """Return ``x.is_integer()``."""
    return math.isfinite(x) and x % 1.0 == 0.0


@implements(math.fsum)
def fsum(numbers):
    """Return the sum, rounded once, by exact non-overlapping partial sums (Shewchuk), as CPython does."""
    parts = []
    special, infinite = 0.0, 0.0
    for number in numbers:
        x = float(number)
        if not math.isfinite(x):
            special += x
            if math.isinf(x):
                infinite += x
            continue
        kept = []
        for part in parts:
            y = part
            if abs(x) < abs(y):
                x, y = y, x
            high = x + y
            low = y - (high - x)
            if low != 0.0:
                kept.append(low)
            x = high
        if not math.isfinite(x):
            raise OverflowError("intermediate overflow in fsum")
        kept.append(x)
        parts = kept
    if special != 0.0:
        if math.isnan(infinite):
            raise ValueError("-inf + inf in fsum")
        return special
    total, rest = 0.0, 0.0
    while len(parts) > 0 and rest == 0.0:
        x = total
        y = parts.pop()
        total = x + y
        rest = y - (total - x)
    # `rest` may be half a unit in the last place: the sign of the next partial sum decides how to round.
    if len(parts) > 0 and ((rest < 0.0 and parts[-1] < 0.0) or (rest > 0.0 and parts[-1] > 0.0)):
        y = rest * 2.0
        x = total + y
        if y == x - total:
            total = x
    return total


@implements(math.cbrt)
def cbrt(x):
    """Return the cube root: a power, refined by one Newton step."""
    x = float(x)
    a = abs(x)
    if a == 0.0 or math.isinf(a) or math.isnan(a):
        return x
    y = a ** (1 / 3)
    return math.copysign(y - (y - a / (y * y)) / 3.0, x)


@implements(math.exp2)
def exp2(x):
    """Return 2 to the power of x."""
    return math.pow(2.0, float(x))


@implements(math.ldexp)
def ldexp(x, i):
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


@implements(math.modf)
def modf(x):
    """Return the fractional and the integral part, both with the sign of x."""
    x = float(x)
    if math.isinf(x):
        return math.copysign(0.0, x), x
    if math.isnan(x):
        return x, x
    rest = math.fmod(x, 1.0)
    return math.copysign(rest, x), math.copysign(x - rest, x)


@implements(math.remainder)
def remainder(x, y):
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


@implements(math.dist)
def dist(p, q):
    """Return the Euclidean distance of two points."""
    if len(p) != len(q):
        raise ValueError("both points must have the same number of dimensions")
    total = 0.0
    for a, b in zip(p, q):  # noqa: B905 -- they are of one length
        total = math.hypot(total, float(a) - float(b))
    return total


MOST_DIGITS = 22  # powers of 10 up to 10**22 are exact floats


def rounded_float(x, ndigits):
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


def _beyond(x, y, product):
    """Return `x * y - product` exactly, if it is a float: x and y are split into halves (Dekker 1971)."""
    a, b = x * 134217729.0, y * 134217729.0
    high, top = a - (a - x), b - (b - y)
    low, rest = x - high, y - top
    return ((high * top - product) + high * rest + low * top) + low * rest


def rounded_int(x, ndigits):
    """Return `round(x, ndigits)` of an int for a negative `ndigits`, ties to the even multiple."""
    step = 10**-ndigits
    many, rest = x // step, x % step
    if rest > step - rest or (rest == step - rest and many % 2 == 1):
        many = many + 1
    return many * step


@implements(math.prod)
def prod(iterable, /, *, start=1):
    for x in iterable:
        start = start * x
    return start
