"""Functions of `scipy.special` in the compiled language, and the registration of all those of SciPy.

SciPy is optional: its functions get rows once their module is imported. The plain call of a model uses SciPy's own.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba import nn
from acronumba.frontend.calls import written_distances, written_linalg
from acronumba.frontend.calls.tables import ROWS, Args, Row, row, table_key
from acronumba.frontend.calls.written import rejected, stands_for
from acronumba.frontend.values import Val

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker

_KNOWN: list[Any] = []  # the modules whose functions have rows


def scipy_row(value: Any) -> Row | None:
    """Add rows for the SciPy modules imported so far; return the row of a value, None if it has none."""
    for path, functions in MODULES.items():
        module = sys.modules.get(path)
        if module is None or module in _KNOWN:
            continue
        for name, f in functions.items():
            if hasattr(module, name):
                stands_for(getattr(module, name), choices=written_distances.CHOICES.get(name))(f)
        _KNOWN.append(module)
    return ROWS.get(table_key(value))


def complement(x: Any) -> Any:
    """Return 1 minus the error function: an operation of the compiler."""
    raise NotImplementedError


@row("x", complement)
def _complement(w: Walker, a: Args) -> Val:
    x = a.tensor("x")
    return w.element("erfc", [x], x.type.dtype)


def expit(x: Any) -> Any:
    """Return the logistic function."""
    return nn.sigmoid(x)


def logit(x: Any) -> Any:
    """Return ``log(x / (1 - x))``, exact near 1/2 too."""
    near = 2 * (x - 0.5)
    return np.where((x < 0.3) | (x > 0.65), np.log(x / (1 - x)), np.log1p(near) - np.log1p(-near))


def softmax(x: Any, axis: Any) -> Any:
    """Return the exponentials, normalized to sum to 1 along an axis."""
    x = np.asarray(x)
    x = x if x.dtype.kind == "f" else x.astype(np.float64)
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def log_softmax(x: Any, axis: Any) -> Any:
    """Return the logarithms of `softmax`."""
    x = np.asarray(x)
    x = x if x.dtype.kind == "f" else x.astype(np.float64)
    most = np.max(x, axis=axis, keepdims=True)
    apart = x - np.where(np.isfinite(most), most, 0)
    return apart - np.log(np.sum(np.exp(apart), axis=axis, keepdims=True))


def logsumexp(a: Any, axis: Any, b: Any, keepdims: Any, return_sign: Any) -> Any:
    """Return the logarithm of the sum of exponentials, weighted by `b` if it is given."""
    if return_sign:
        rejected("logsumexp with return_sign", "leave it out")
    a = np.asarray(a)
    a = a if a.dtype.kind == "f" else a.astype(np.float64)
    least = np.full_like(np.sum(a, axis=axis, keepdims=True), -np.inf)
    most = np.maximum(np.max(a, axis=axis, keepdims=True, initial=-np.inf), least)
    base = np.where(np.isfinite(most), most, 0)
    e = np.exp(a - base)
    total = np.sum(e if b is None else np.where(np.asarray(b) == 0, 0, b * e), axis=axis, keepdims=True)
    out = np.log(total) + base
    if keepdims:
        return out
    return np.sum(out, axis=axis)


def erf(x: Any) -> Any:
    """Return the error function."""
    return nn.erf(x)


def erfc(x: Any) -> Any:
    """Return 1 minus the error function, without cancellation for large x."""
    return complement(x)


def ndtr(x: Any) -> Any:
    """Return the cumulative distribution function of the standard normal distribution."""
    return 0.5 * complement(-x * x.dtype.type(0.7071067811865476))


def xlogy(x: Any, y: Any) -> Any:
    """Return ``x log y``, and 0 where x is 0."""
    return np.where((x == 0) & ~np.isnan(y), 0, x * np.log(y))


def xlog1py(x: Any, y: Any) -> Any:
    """Return ``x log(1 + y)``, and 0 where x is 0."""
    return np.where((x == 0) & ~np.isnan(y), 0, x * np.log1p(y))


def entr(x: Any) -> Any:
    """Return ``-x log x``, 0 where x is 0, and minus infinity where x is negative."""
    return np.where(x > 0, -x * np.log(x), np.where(x == 0, 0, np.where(x < 0, -np.inf, x)))


def rel_entr(x: Any, y: Any) -> Any:
    """Return ``x log(x / y)`` for positive x and y, 0 where x is 0 and y >= 0, and infinity otherwise."""
    usual = x * np.log(x / y)
    other = np.where((x == 0) & (y >= 0), x.dtype.type(0), x.dtype.type(np.inf))
    return np.where(np.isnan(x) | np.isnan(y), x + y, np.where((x > 0) & (y > 0), usual, other))


def softplus(x: Any) -> Any:
    """Return ``log(1 + exp x)``."""
    return np.logaddexp(0, x)


def huber(delta: Any, r: Any) -> Any:
    """Return the Huber loss: ``r * r / 2`` up to delta, linear beyond; infinity if delta is negative."""
    far = np.abs(r)
    usual = np.where(far <= delta, 0.5 * r * r, delta * (far - 0.5 * delta))
    return np.where(delta < 0, np.inf, usual)


def log1p(x: Any) -> Any:
    """Return ``log(1 + x)``, exact near 0."""
    return np.log1p(x)


def expm1(x: Any) -> Any:
    """Return ``exp(x) - 1``, exact near 0."""
    return np.expm1(x)


FUNCTIONS = {
    "expit": expit, "logit": logit, "softmax": softmax, "log_softmax": log_softmax, "logsumexp": logsumexp, "erf": erf,
    "erfc": erfc, "ndtr": ndtr, "xlogy": xlogy, "xlog1py": xlog1py, "entr": entr, "rel_entr": rel_entr,
    "softplus": softplus, "huber": huber, "log1p": log1p, "expm1": expm1,
}  # fmt: skip
MODULES = {
    "scipy.special": FUNCTIONS,
    "scipy.spatial.distance": written_distances.FUNCTIONS,
    "scipy.linalg": written_linalg.FUNCTIONS,
}
