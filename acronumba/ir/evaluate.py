"""One tensor operation on arrays, by its definition in `ir.ops`.

In: the name of the operation, arguments as arrays, static arguments and the result's shape as integers. Out: an array
of exactly the given shape and dtype, or `OperationFailed` if the operation fails for these values. Both interpreters of
tensor code, `ir.interpret` and `ir.reference`, call this.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from acronumba.ir.ops import TENSORS, Array, Attrs


class OperationFailed(Exception):
    """The operation fails for these values: an index out of range, the maximum of an empty array."""


class WrongResult(AssertionError):
    """The result has another shape or dtype than the program states: a bug in the compiler."""


named: Callable[[str], np.dtype[Any]] = cache(np.dtype)


def as_array(value: Array, dtype: str) -> Array:
    """Return the tensor or number as an array of `dtype`, which a tensor must have."""
    out = np.asarray(value, dtype) if isinstance(value, bool | int | float) else np.asarray(value)
    if out.dtype == named(dtype):
        return out
    raise WrongResult(f"a value of dtype {out.dtype.name} where {dtype} is announced")


class _Factors(threading.local):
    """The state of a thread."""

    bits = 24  # that the factors of matrix products have in float64, see `rounding`


factors = _Factors()


@contextmanager
def rounding(bits: int) -> Iterator[None]:
    """Context in which float64 values that are factors of float32 matrix products are rounded to `bits` bits."""
    before, factors.bits = factors.bits, bits
    try:
        yield
    finally:
        factors.bits = before


def rounded(x: Array) -> Array:
    """Return float64 values with as many bits as factors have now."""
    if factors.bits == 24 or getattr(x, "dtype", None) != np.float64:
        return x
    digits, exponent = np.frexp(x)
    return np.ldexp(np.rint(digits * 2.0**factors.bits) * 2.0**-factors.bits, exponent)


def apply(op: str, args: Sequence[Array], attrs: Attrs, shape: tuple[int, ...], dtype: str) -> Array:
    """Return the result of one operation.

    The caller silences NumPy's warnings (`np.errstate`): NaN and infinity are ordinary values.

    Parameters
    ----------
    op
        A row of `ir.ops.TENSORS`.
    args
        Arrays, rank 0 for host numbers.
    attrs, shape, dtype
        The operation's static arguments with integers for extents; the shape and dtype of its result.

    Raises
    ------
    OperationFailed
        For these values the operation has no result.
    WrongResult
        The result differs from `shape` or `dtype`.
    """
    if op == "matmul" and factors.bits < 24:
        args = list(map(rounded, args))
    try:
        out = np.asarray(TENSORS[op].reference(args, attrs, shape, dtype))
    except (IndexError, ValueError) as e:
        if TENSORS[op].fails:
            raise OperationFailed(str(e)) from e
        raise WrongResult(f"{op}{tuple(np.shape(a) for a in args)} to {shape}: {e}") from e
    if out.shape != shape:
        raise WrongResult(f"{op} gives shape {out.shape}, the program announces {shape}")
    if out.dtype != named(dtype):
        raise WrongResult(f"{op} gives {out.dtype.name}, the program announces {dtype}")
    return out
