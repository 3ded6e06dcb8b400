"""Operations of the tests' own: sums with decay, with a gradient; three results of a kernel that raises."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from acronumba import operation


@numba.njit
def _decay(x, c, out):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(len(x)):
        total = c * total + x[i]
        out[i] = total


@numba.njit
def _decay_back(x, c, d):  # type: ignore[no-untyped-def]
    out = np.empty_like(d)
    total = 0.0
    for i in range(len(d) - 1, -1, -1):
        total = c * total + d[i]
        out[i] = total
    return out


def _decay_back_there(x, c, d, out):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(len(d) - 1, -1, -1):
        total = c * total + d[i]
        out[i] = total


@operation(
    shape=lambda x, c, d: x.shape, dtype=lambda x, c, d: x.dtype, kernel=_decay_back, cuda=_decay_back_there
)  # fmt: skip
def decay_back(x: Any, c: float, d: Any) -> Any:
    """Return the adjoint of the argument of `decay`."""
    return np.array([sum(d[k] * c ** (k - i) for k in range(i, len(d))) for i in range(len(x))], x.dtype)


@operation(
    shape=lambda x, c=0.5: x.shape,
    dtype=lambda x, c=0.5: x.dtype,
    kernel=_decay,
    cuda=_decay,
    gradient=lambda x, c, out, d: (decay_back(x, c, d), None),
    pure=True,
)
def decay(x: Any, c: float = 0.5) -> Any:
    """Return the sums of all elements so far, of which each step multiplies the sum by `c`."""
    out, total = np.empty_like(x), 0.0
    for i, v in enumerate(x):
        total = c * total + v
        out[i] = total
    return out


@numba.njit
def _spread(x, k, scaled, both, count):  # type: ignore[no-untyped-def]
    if k < 0:
        raise ValueError("negative")
    for i in range(len(x)):
        scaled[i] = x[i] * (k + 1)
        both[i, 0], both[i, 1] = x[i], x[len(x) - 1 - i]
    count[0] = k + len(x)


def _spread_there(x, k, scaled, both, count):  # type: ignore[no-untyped-def]
    if k < 0:
        return True
    for i in range(len(x)):
        scaled[i] = x[i] * (k + 1)
        both[i, 0], both[i, 1] = x[i], x[len(x) - 1 - i]
    count[0] = k + len(x)
    return False


@operation(
    shape=lambda x, k: (x.shape, (len(x), 2), ()),
    dtype=(np.float64, np.float64, np.int64),
    kernel=_spread,
    cuda=_spread_there,
    gradient=lambda x, k, scaled, both, count, d, d_both, d_count: (d * (k + 1), None),
)
def spread(x: Any, k: int) -> Any:
    """Return three results; a negative `k` is an error."""
    if k < 0:
        raise ValueError(f"{k} is negative")
    return x * (k + 1), np.stack([x, x[::-1]], axis=1), k + len(x)
