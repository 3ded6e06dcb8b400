"""Functions of `scipy.special` and `scipy.linalg` in the compiled language.

SciPy is optional: its functions get rows once their module is imported. The plain call of a model uses SciPy's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from acronumba import nn
from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.library.decorators import implements, primitive, rejected

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


def _complement(w: Walker, a: Args) -> Val:
    x = a.tensor("x")
    return w.ops.element("erfc", [x], x.type.dtype)


@primitive(rule=_complement)
def complement(x):
    """Return 1 minus the error function."""
    return 1 - nn.erf(x)


@implements("scipy.special.expit")
def expit(x):
    """Return the logistic function."""
    return nn.sigmoid(x)


@implements("scipy.special.logit")
def logit(x):
    """Return ``log(x / (1 - x))``, exact near 1/2 too."""
    near = 2 * (x - 0.5)
    return np.where((x < 0.3) | (x > 0.65), np.log(x / (1 - x)), np.log1p(near) - np.log1p(-near))


@implements("scipy.special.softmax")
def softmax(x, axis):
    """Return the exponentials, normalized to sum to 1 along an axis."""
    x = np.asarray(x)
    x = x if x.dtype.kind == "f" else x.astype(np.float64)
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


@implements("scipy.special.log_softmax")
def log_softmax(x, axis):
    """Return the logarithms of `softmax`."""
    x = np.asarray(x)
    x = x if x.dtype.kind == "f" else x.astype(np.float64)
    most = np.max(x, axis=axis, keepdims=True)
    apart = x - np.where(np.isfinite(most), most, 0)
    return apart - np.log(np.sum(np.exp(apart), axis=axis, keepdims=True))


@implements("scipy.special.logsumexp")
def logsumexp(a, axis, b, keepdims, return_sign):
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


@implements("scipy.special.erf")
def erf(x):
    """Return the error function."""
    return nn.erf(x)


@implements("scipy.special.erfc")
def erfc(x):
    """Return 1 minus the error function, without cancellation for large x."""
    return complement(x)


@implements("scipy.special.ndtr")
def ndtr(x):
    """Return the cumulative distribution function of the standard normal distribution."""
    return 0.5 * complement(-x * x.dtype.type(0.7071067811865476))


@implements("scipy.special.xlogy")
def xlogy(x, y):
    """Return ``x log y``, and 0 where x is 0."""
    return np.where((x == 0) & ~np.isnan(y), 0, x * np.log(y))


@implements("scipy.special.xlog1py")
def xlog1py(x, y):
    """Return ``x log(1 + y)``, and 0 where x is 0."""
    return np.where((x == 0) & ~np.isnan(y), 0, x * np.log1p(y))


@implements("scipy.special.entr")
def entr(x):
    """Return ``-x log x``, 0 where x is 0, and minus infinity where x is negative."""
    return np.where(x > 0, -x * np.log(x), np.where(x == 0, 0, np.where(x < 0, -np.inf, x)))


@implements("scipy.special.rel_entr")
def rel_entr(x, y):
    """Return ``x log(x / y)`` for positive x and y, 0 where x is 0 and y >= 0, and infinity otherwise."""
    usual = x * np.log(x / y)
    other = np.where((x == 0) & (y >= 0), x.dtype.type(0), x.dtype.type(np.inf))
    return np.where(np.isnan(x) | np.isnan(y), x + y, np.where((x > 0) & (y > 0), usual, other))


@implements("scipy.special.softplus")
def softplus(x):
    """Return ``log(1 + exp x)``."""
    return np.logaddexp(0, x)


@implements("scipy.special.huber")
def huber(delta, r):
    """Return the Huber loss: ``r * r / 2`` up to delta, linear beyond; infinity if delta is negative."""
    far = np.abs(r)
    usual = np.where(far <= delta, 0.5 * r * r, delta * (far - 0.5 * delta))
    return np.where(delta < 0, np.inf, usual)


@implements("scipy.special.log1p")
def log1p(x):
    """Return ``log(1 + x)``, exact near 0."""
    return np.log1p(x)


@implements("scipy.special.expm1")
def expm1(x):
    """Return ``exp(x) - 1``, exact near 0."""
    return np.expm1(x)


# ---- linear algebra, by the functions of `np.linalg`


def checked(a):
    """Return an array; its elements must be finite, as in SciPy."""
    a = np.asarray(a)
    if not np.all(np.isfinite(a)):
        raise ValueError("array must not contain infs or NaNs")
    return a


def square(a):
    """Return a matrix, which must be square and finite."""
    a = checked(a)
    if a.ndim != 2:
        rejected("scipy.linalg of a stack of matrices", "a call for each matrix: [inv(x) for x in xs]")
    if a.shape[0] != a.shape[1]:
        raise ValueError("expected square matrix")
    return a


@implements("scipy.linalg.cholesky")
def cholesky(a, lower):
    """Return the Cholesky factor, upper triangular unless `lower`."""
    a = square(a)
    return np.linalg.cholesky(a) if lower else np.linalg.cholesky(a.T).T


@implements("scipy.linalg.inv")
def inv(a):
    """Return the inverse of a square matrix."""
    return np.linalg.inv(square(a))


@implements("scipy.linalg.det")
def det(a):
    """Return the determinant of a square matrix."""
    return np.linalg.det(square(a))


@implements("scipy.linalg.solve")
def solve(a, b):
    """Return the solution x of ``a @ x = b``."""
    return np.linalg.solve(square(a), checked(b))


@implements("scipy.linalg.solve_triangular")
def solve_triangular(a, b, trans, lower, unit_diagonal):
    """Solve ``t @ x = b`` for a triangle t of a matrix, or its transpose."""
    a = square(a)
    a = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        a = np.where(np.eye(a.shape[0], dtype=np.bool_), 1, a)
    if trans == 1 or trans == "T":
        a = a.T
    return np.linalg.solve(a, checked(b))


@implements("scipy.linalg.pinv")
def pinv(a):
    """Return the Moore-Penrose pseudo-inverse."""
    return np.linalg.pinv(checked(a))
