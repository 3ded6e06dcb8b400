"""Functions of `math`, and methods of numbers, in the compiled language.

In: ints of 64 bits, or floats. Out: Python's result, or an `OverflowError` of the instance if it does not fit into 64
bits. Other functions of `math` are operations of the host program (`of_python`), or made of others (`written_math`).
"""

from __future__ import annotations

import math


def gcd(a: int, b: int) -> int:
    """Return the greatest common divisor, never negative."""
    while b != 0:
        a, b = b, a % b
    return abs(a)


def lcm(a: int, b: int) -> int:
    """Return the least common multiple, never negative."""
    if a == 0 or b == 0:
        return 0
    return abs(a // gcd(a, b) * b)


def factorial(n: int) -> int:
    """Return n!."""
    if n < 0:
        raise ValueError("factorial() not defined for negative values")
    out = 1
    for k in range(2, n + 1):
        out *= k
    return out


def isqrt(n: int) -> int:
    """Return the integer part of the square root."""
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


def comb(n: int, k: int) -> int:
    """Return the number of combinations of k of n elements."""
    if n < 0:
        raise ValueError("n must be a non-negative integer")
    if k < 0:
        raise ValueError("k must be a non-negative integer")
    if k > n:
        return 0
    out = 1
    for i in range(min(k, n - k)):
        shared = gcd(out, i + 1)  # no intermediate value exceeds the result
        out = out // shared * ((n - i) // ((i + 1) // shared))
    return out


def perm(n: int, k: int) -> int:
    """Return the number of permutations of k of n elements."""
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


def degrees(x: float) -> float:
    """Return an angle in degrees."""
    return x * (180.0 / math.pi)


def radians(x: float) -> float:
    """Return an angle in radians."""
    return x * (math.pi / 180.0)


def isclose(a: float, b: float, rel_tol: float, abs_tol: float) -> bool:
    """Return whether two numbers are equal within a relative or an absolute tolerance."""
    if rel_tol < 0.0 or abs_tol < 0.0:
        raise ValueError("tolerances must be non-negative")
    if a == b:
        return True
    if math.isinf(a) or math.isinf(b):
        return False
    difference = abs(b - a)
    return difference <= abs(rel_tol * b) or difference <= abs(rel_tol * a) or difference <= abs_tol


def pow_mod(base: int, exponent: int, mod: int) -> int:
    """Return ``pow(base, exponent, mod)``."""
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


def bit_length(n: int) -> int:
    """Return ``n.bit_length()``."""
    out = 0
    n = abs(n)
    while n > 0:
        n = n >> 1
        out += 1
    return out


def is_integer(x: float) -> bool:
    """Return ``x.is_integer()``."""
    return math.isfinite(x) and x % 1.0 == 0.0


def fsum(numbers: list[float]) -> float:
    """Return the sum, rounded once, by exact non-overlapping partial sums (Shewchuk), as CPython does."""
    parts: list[float] = []
    special, infinite = 0.0, 0.0
    for number in numbers:
        x = float(number)
        if not math.isfinite(x):
            special += x
            if math.isinf(x):
                infinite += x
            continue
        kept: list[float] = []
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
