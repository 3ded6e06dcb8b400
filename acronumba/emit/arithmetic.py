"""Arithmetic of the language in Python, where that differs from Python's or NumPy's.

In: types. Out: functions of values of these types.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from acronumba.emit.tree import Ty

Vector: TypeAlias = NDArray[Any]
Value: TypeAlias = Any  # bool, int, float or numpy.float32; a `Vector` where the type has lanes
Unary: TypeAlias = Callable[[Value], Value]
Binary: TypeAlias = Callable[[Value, Value], Value]

_DTYPES: dict[str, type[np.generic]] = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f32": np.float32, "f64": np.float64,
}  # fmt: skip


def dtype(type: Ty) -> np.dtype[np.generic]:
    """Return NumPy's type of one element."""
    out: np.dtype[np.generic] = np.dtype(_DTYPES[str(type.scalar)])
    return out


def float_div(a: float, b: float) -> float:
    return float(np.float64(a) / np.float64(b))


def int_div(a: int, b: int, bits: int, rest: bool) -> int:
    if b == 0:
        raise ZeroDivisionError("integer division by zero")
    q = abs(a) // abs(b)
    q = -q if (a < 0) != (b < 0) else q
    if q == 1 << (bits - 1):
        raise OverflowError("integer quotient out of range")
    return a - q * b if rest else q


def wrap(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half & 2 * half - 1) - half


def shift(op: str, a: Value, b: Value, type: Ty) -> Value:
    if np.any((np.asarray(b) < 0) | (np.asarray(b) >= type.bits)):
        raise ValueError(f"shift of {type} by {b}")
    if op == "lshr":
        return (
            wrap((a & (1 << type.bits) - 1) >> b, type.bits)
            if type.lanes == 1
            else _signed(_unsigned(a) >> _unsigned(b))
        )
    if type.lanes > 1:
        return a << b if op == "<<" else a >> b
    return wrap(a << b, type.bits) if op == "<<" else a >> b


def _unsigned(a: Vector) -> Vector:
    return a.view(a.dtype.str.replace("i", "u"))


def _signed(a: Vector) -> Vector:
    return a.view(a.dtype.str.replace("u", "i"))


def by_unsigned(f: Binary, type: Ty) -> Binary:
    if type.lanes > 1:
        return lambda a, b: _signed(f(_unsigned(a), _unsigned(b)))
    mask = (1 << type.bits) - 1
    return lambda a, b: wrap(f(a & mask, b & mask), type.bits)


def compare_unsigned(f: Binary, type: Ty) -> Binary:
    if type.lanes > 1:
        return lambda a, b: f(_unsigned(a), _unsigned(b))
    mask = (1 << type.bits) - 1
    return lambda a, b: f(a & mask, b & mask)


def checked(f: Binary) -> Binary:
    def divide(a: Value, b: Value) -> Value:
        if not np.all(b):
            raise ZeroDivisionError("integer division by zero")
        return f(a, b)

    return divide


def converter(old: Ty, new: Ty, how: str) -> Unary:
    """Return the function of one conversion."""
    if how == "spread":
        return lambda x: np.full(new.lanes, x, dtype(new))
    if how == "bits":
        if 1 in (old.bits, new.bits):
            return lambda x: _bits_of_flags(x, old, new)
        if new.lanes == 1:
            return lambda x: scalar(np.asarray(x, dtype(old)).reshape(-1).view(dtype(new))[0], new)
        return lambda x: np.asarray(x, dtype(old)).reshape(-1).view(dtype(new)).copy()
    if new.lanes > 1:
        return lambda x: _convert_vector(x, old, new, how == "unsigned")
    return lambda x: scalar(_convert_vector(np.asarray([x], dtype(old)), old, new, how == "unsigned")[0], new)


def _bits_of_flags(x: Value, old: Ty, new: Ty) -> Value:
    """The bits of a vector of i1 as an integer (lane 0 is the lowest bit), and back."""
    if new.bits == 1:
        return np.array([bool(int(x) >> k & 1) for k in range(new.lanes)])
    return wrap(sum(1 << k for k in range(old.lanes) if x[k]), new.bits)


def scalar(x: Value, type: Ty) -> Value:
    if type.kind == "f":
        return np.float32(x) if type.bits == 32 else float(x)
    return bool(x) if type.bits == 1 else int(x)


def _convert_vector(x: Vector, old: Ty, new: Ty, unsigned: bool) -> Vector:
    if new.bits == 1:
        return np.not_equal(x, 0)
    if old.kind == "i":
        return (_unsigned(x) if unsigned and old.bits > 1 else x).astype(dtype(new))
    if new.kind == "f":
        return x.astype(dtype(new))
    whole = np.trunc(x.astype(np.float64))
    low, high = (0.0, 2.0**new.bits) if unsigned else (-(2.0 ** (new.bits - 1)), 2.0 ** (new.bits - 1))
    fits = (whole >= low) & (whole < high)
    number = np.where(fits, whole, 0)
    if unsigned:
        out = _signed(number.astype(dtype(new).str.replace("i", "u")))
    else:
        out = number.astype(dtype(new))
    out[~fits] = -(1 << (new.bits - 1))
    return out


@functools.cache
def libm(name: str, count: int, bits: int) -> Callable[..., Value]:
    kind = ctypes.c_float if bits == 32 else ctypes.c_double
    for library in (None, "libm.so.6", "ucrtbase"):
        try:
            f = getattr(ctypes.CDLL(library), name + ("f" if bits == 32 else ""))
        except (OSError, AttributeError, TypeError):
            continue
        f.restype, f.argtypes = kind, [kind] * count
        return f  # type: ignore[no-any-return]
    raise OSError(f"C's library has no {name}")


def lanewise(name: str, type: Ty) -> Callable[..., Value]:
    if type.lanes == 1:
        return lambda *args: scalar(libm(name, len(args), type.bits)(*map(float, args)), type)

    def vector(*args: Value) -> Value:
        f = libm(name, len(args), type.bits)
        return np.array([f(*map(float, lane)) for lane in zip(*args, strict=True)], dtype(type))

    return vector


def _fma_f32(a: Value, b: Value, c: Value) -> Vector:
    """Return a * b + c with one rounding: the sum in double is rounded to odd, so that rounding to float32 is right."""
    product = np.float64(a) * np.float64(b)  # exact: 24 + 24 bits
    wide = np.float64(c)
    total = np.asarray(product + wide)
    back = total - product
    error = np.asarray((product - (total - back)) + (wide - back))
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & np.isfinite(error) & (error != 0) & (bits & 1 == 0)
    odd = bits + np.where((error > 0) == (total > 0), 1, -1)
    return np.where(inexact, odd, bits).view(np.float64).astype(np.float32)


def fma(type: Ty) -> Callable[[Value, Value, Value], Value]:
    if type.bits == 64:
        return lanewise("fma", type)
    return _fma_f32 if type.lanes > 1 else lambda a, b, c: np.float32(_fma_f32(a, b, c))


def halving(step: Binary, type: Ty) -> Unary:
    def reduce(v: Vector) -> Value:
        while len(v) > 1:
            half = len(v) // 2
            v = step(v[:half], v[half:])
        return scalar(v[0], type)

    return reduce


def insert(v: Vector, k: int, x: Value) -> Vector:
    if not 0 <= k < len(v):
        raise IndexError(f"lane {k} of {len(v)}")
    out = v.copy()
    out[k] = x
    return out


def extract(type: Ty) -> Callable[[Vector, int], Value]:
    def extract(v: Vector, k: int) -> Value:
        if not 0 <= k < len(v):
            raise IndexError(f"lane {k} of {len(v)}")
        return scalar(v[k], type)

    return extract


def overflows(f: Callable[[int, int], int]) -> Callable[[int, int], bool]:
    return lambda a, b: not -(1 << 63) <= f(a, b) < 1 << 63


def shuffle(low: bool, type: Ty) -> Callable[[Vector, Vector, int], Vector]:
    n = type.lanes

    def shuffle(a: Vector, b: Vector, d: int) -> Vector:
        if low:
            lanes = [i if not i & d else n + i - d for i in range(n)]
        else:
            lanes = [i + d if not i & d else n + i for i in range(n)]
        return np.concatenate((a, b))[lanes]

    return shuffle


def pairs(a: Vector, b: Vector) -> Vector:
    """Return the sums of neighbouring products of i16; only -32768 times itself twice is more than 32 bits hold."""
    products: Vector = a.astype(np.int32) * b.astype(np.int32)
    return products[0::2] + products[1::2]


def dots(c: Vector, a: Vector, b: Vector) -> Vector:
    """Return sums of products of unsigned and signed bytes, four by four, added to `c`."""
    products: Vector = a.view(np.uint8).astype(np.int32) * b.astype(np.int32)
    sums: Vector = products.reshape(-1, 4).sum(axis=1, dtype=np.int32)
    total: Vector = c + sums
    return total


_LEAST = np.float64(2.0**-126)  # of float32 that is no denormal


def to_bf16(x: Value) -> Vector:
    """Return the upper halves of float32, rounded to even, as int16; denormals are zeros."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    upper = bits >> 16
    rounded = (bits + 0x7FFF + (upper & 1)) >> 16
    out = np.where(bits & 0x7FFFFFFF > 0x7F800000, upper | 0x40, np.where(bits & 0x7F800000, rounded, upper & 0x8000))
    return out.astype(np.uint16).view(np.int16)


def from_bf16(x: Vector) -> Vector:
    """Return the float32 with these upper halves."""
    return (x.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def _without_denormals(x: Vector) -> Vector:
    return np.where(np.abs(x) < _LEAST, np.copysign(np.float32(0), x), x)


def fma_without_denormals(a: Vector, b: Vector, c: Vector) -> Vector:
    """Return a * b + c in float32, where what is denormal once it is rounded to 24 bits is 0, as denormals in it."""
    a, b, c = map(_without_denormals, (a, b, c))
    sums = _fma_f32(a, b, c)
    large = np.float32(2.0**24)  # the same sum where float32 has all 24 bits
    with np.errstate(over="ignore", invalid="ignore"):
        tiny = (np.abs(sums) < _LEAST) | (np.abs(_fma_f32(a * large, b, c * large)) < _LEAST * large)
    return np.where(tiny, np.copysign(np.float32(0), sums), sums)


def dots_bf16(c: Vector, a: Vector, b: Vector) -> Vector:
    """Return sums of products of pairs of bf16 added to `c`: the odd ones first."""
    x, y = from_bf16(a), from_bf16(b)
    return fma_without_denormals(x[0::2], y[0::2], fma_without_denormals(x[1::2], y[1::2], c))


def pick(a: Vector, b: Vector, at: Vector) -> Vector:
    """Return lanes of `a` and `b` by their numbers."""
    picked: Vector = np.concatenate((a, b))[at & (2 * len(a) - 1)]
    return picked


def scalar_by(f: Callable[..., Value], type: Ty) -> Callable[..., Value]:
    return f if type.lanes > 1 else lambda *args: scalar(f(*args), type)


def absolute(type: Ty) -> Unary:
    if type.lanes > 1 or type.kind == "f":
        return scalar_by(np.abs, type)
    return lambda a: wrap(abs(a), type.bits)


def divider(type: Ty, rest: bool) -> Binary:
    if type.lanes == 1:
        return lambda a, b: int_div(a, b, type.bits, rest)

    def divide(a: Value, b: Value) -> Value:
        lanes = zip(a.tolist(), b.tolist(), strict=True)
        return np.array([int_div(x, y, type.bits, rest) for x, y in lanes], dtype(type))

    return divide


# For each intrinsic: a function from the type of a result to its implementation.
RULES: dict[str, Callable[[Ty], Callable[..., Value]]] = {
    "fma": fma,
    "sqrt": lambda type: scalar_by(np.sqrt, type),
    "floor": lambda type: scalar_by(np.floor, type),
    "abs": absolute,
    "copysign": lambda type: scalar_by(np.copysign, type),
    "umin": lambda type: by_unsigned(np.minimum if type.lanes > 1 else min, type),
    "umax": lambda type: by_unsigned(np.maximum if type.lanes > 1 else max, type),
    "udiv": lambda type: checked(by_unsigned(lambda a, b: a // b, type)),
    "urem": lambda type: checked(by_unsigned(lambda a, b: a % b, type)),
    "lshr": lambda type: lambda a, b: shift("lshr", a, b, type),
    "pairs": lambda type: pairs,
    "dots": lambda type: dots,
    "to_bf16": lambda type: to_bf16 if type.lanes > 1 else lambda x: int(to_bf16(x)),
    "dots_bf16": lambda type: dots_bf16,
    "pick": lambda type: pick,
    "lanes": lambda type: lambda x=0: np.arange(type.lanes).astype(dtype(type)),
    "hsum": lambda type: halving(lambda a, b: a + b, type),
    "hmax": lambda type: halving(lambda a, b: np.where((a > b) | (a != a), a, b), type),
    "hmin": lambda type: halving(lambda a, b: np.where((a < b) | (a != a), a, b), type),
    "extract": extract,
    "insert": lambda type: insert,
    "add_overflows": lambda type: overflows(lambda a, b: a + b),
    "sub_overflows": lambda type: overflows(lambda a, b: a - b),
    "mul_overflows": lambda type: overflows(lambda a, b: a * b),
    "seldom": lambda type: lambda condition: condition,
    "prefetch": lambda type: lambda address: None,
    "prefetch_far": lambda type: lambda address: None,
    "flush_denormals": lambda type: lambda on: None,
    "pause": lambda type: lambda: None,
    "give_way": lambda type: lambda: None,
    "shuffle_low": lambda type: shuffle(True, type),
    "shuffle_high": lambda type: shuffle(False, type),
}
