"""NumPy's sums, differences, products, statistics and methods of ufuncs, in the compiled language."""

from __future__ import annotations

import numpy as np

from acronumba.frontend.library.decorators import implements, rejected
from acronumba.frontend.library.numpy_elementwise import root

# ---- sums and differences


@implements(np.cumulative_sum)
def cumulative_sum(x, axis, dtype, include_initial):
    """Return the cumulative sums, preceded by 0 if `include_initial`."""
    x = np.asarray(x)
    axis = 0 if axis is None else axis
    out = np.cumsum(x, axis=axis, dtype=dtype)
    return (
        np.concatenate([np.zeros_like(np.sum(out, axis=axis, keepdims=True)), out], axis=axis)
        if include_initial
        else out
    )


@implements(np.cumulative_prod)
def cumulative_prod(x, axis, dtype, include_initial):
    """Return the cumulative products, preceded by 1 if `include_initial`."""
    x = np.asarray(x)
    axis = 0 if axis is None else axis
    out = np.cumprod(x, axis=axis, dtype=dtype)
    return (
        np.concatenate([np.ones_like(np.sum(out, axis=axis, keepdims=True)), out], axis=axis)
        if include_initial
        else out
    )


@implements(np.diff)
def diff(a, n, axis):
    """Return the n-th differences of adjacent elements."""
    out = np.moveaxis(np.asarray(a), axis, -1)
    for _ in range(n):
        out = out[..., 1:] != out[..., :-1] if out.dtype == np.bool_ else out[..., 1:] - out[..., :-1]
    return np.moveaxis(out, -1, axis)


@implements(np.ediff1d)
def ediff1d(ary):
    """Return the differences of adjacent elements of the flattened array."""
    flat = np.ravel(ary)
    return flat[1:] - flat[:-1]


@implements(np.trapezoid)
def trapezoid(y, x, dx, axis):
    """Return the integral by the trapezoidal rule."""
    y = np.moveaxis(np.asarray(y), axis, -1)
    step = dx if x is None else np.diff(np.asarray(x))
    return np.sum(step * (y[..., 1:] + y[..., :-1]) / 2.0, axis=-1)


@implements(np.ptp, axis="several")
def ptp(a, axis, keepdims):
    """Return the maximum minus the minimum."""
    return np.max(a, axis=axis, keepdims=keepdims) - np.min(a, axis=axis, keepdims=keepdims)


@implements(np.average)
def average(a, axis, weights, keepdims):
    """Return the mean, weighted if there are weights."""
    a = np.asarray(a)
    if weights is None:
        return np.mean(a, axis=axis, keepdims=keepdims)
    weights = np.asarray(weights)
    kind = (
        np.result_type(a.dtype, weights.dtype)
        if a.dtype.kind == "f"
        else np.result_type(a.dtype, weights.dtype, np.float64)
    )
    if a.ndim != weights.ndim:
        weights = np.moveaxis(np.broadcast_to(weights, (1,) * (a.ndim - 1) + weights.shape), -1, axis)
    weights = np.broadcast_to(weights.astype(kind), a.shape)
    total = np.sum(weights, axis=axis, keepdims=keepdims)
    if np.any(total == 0):
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    return np.sum(a.astype(kind) * weights, axis=axis, keepdims=keepdims) / total


# ---- without NaN


def known(a, other):
    """Return an array with NaN replaced by another number."""
    a = np.asarray(a)
    return np.where(np.isnan(a), a.dtype.type(other), a) if a.dtype.kind == "f" else a


def there(a, axis, keepdims):
    """Return the number of elements that are not NaN."""
    return np.sum(~np.isnan(a), axis=axis, keepdims=keepdims)


@implements(np.nansum, axis="several")
def nansum(a, axis, dtype, keepdims):
    """Return the sum of the elements that are not NaN."""
    return np.sum(known(a, 0), axis=axis, dtype=dtype, keepdims=keepdims)


@implements(np.nanprod, axis="several")
def nanprod(a, axis, dtype, keepdims):
    """Return the product of the elements that are not NaN."""
    return np.prod(known(a, 1), axis=axis, dtype=dtype, keepdims=keepdims)


@implements(np.nancumsum)
def nancumsum(a, axis, dtype):
    """Return the cumulative sums, with NaN taken as 0."""
    return np.cumsum(known(a, 0), axis=axis, dtype=dtype)


@implements(np.nancumprod)
def nancumprod(a, axis, dtype):
    """Return the cumulative products, with NaN taken as 1."""
    return np.cumprod(known(a, 1), axis=axis, dtype=dtype)


@implements(np.nanmax, axis="several")
def nanmax(a, axis, keepdims):
    """Return the largest element that is not NaN."""
    a = np.asarray(a)
    if a.dtype.kind != "f":
        return np.max(a, axis=axis, keepdims=keepdims)
    out = np.max(known(a, -np.inf), axis=axis, keepdims=keepdims)
    return np.where(there(a, axis, keepdims) == 0, a.dtype.type(np.nan), out)[()]


@implements(np.nanmin, axis="several")
def nanmin(a, axis, keepdims):
    """Return the smallest element that is not NaN."""
    a = np.asarray(a)
    if a.dtype.kind != "f":
        return np.min(a, axis=axis, keepdims=keepdims)
    out = np.min(known(a, np.inf), axis=axis, keepdims=keepdims)
    return np.where(there(a, axis, keepdims) == 0, a.dtype.type(np.nan), out)[()]


@implements(np.nanmean, axis="several")
def nanmean(a, axis, keepdims):
    """Return the mean of the elements that are not NaN."""
    a = np.asarray(a)
    if a.dtype.kind != "f":
        return np.mean(a, axis=axis, keepdims=keepdims)
    return np.sum(known(a, 0), axis=axis, keepdims=keepdims) / there(a, axis, keepdims).astype(a.dtype)


@implements(np.nanvar, axis="several")
def nanvar(a, axis, ddof, keepdims):
    """Return the variance of the elements that are not NaN."""
    a = np.asarray(a)
    if a.dtype.kind != "f":
        return np.var(a, axis=axis, ddof=ddof, keepdims=keepdims)
    apart = known(a - np.nanmean(a, axis=axis, keepdims=True), 0)
    n = there(a, axis, keepdims) - ddof
    out = np.sum(apart * apart, axis=axis, keepdims=keepdims) / n.astype(a.dtype)
    return np.where(n <= 0, a.dtype.type(np.nan), out)[()]


@implements(np.nanstd, axis="several")
def nanstd(a, axis, ddof, keepdims):
    """Return the standard deviation of the elements that are not NaN."""
    return root(np.nanvar(a, axis=axis, ddof=ddof, keepdims=keepdims))


@implements(np.nanargmax)
def nanargmax(a, axis, keepdims):
    """Return the index of the largest element that is not NaN."""
    if np.any(there(a, axis, False) == 0):
        raise ValueError("All-NaN slice encountered")
    return np.argmax(known(a, -np.inf), axis=axis, keepdims=keepdims)


@implements(np.nanargmin)
def nanargmin(a, axis, keepdims):
    """Return the index of the smallest element that is not NaN."""
    if np.any(there(a, axis, False) == 0):
        raise ValueError("All-NaN slice encountered")
    return np.argmin(known(a, np.inf), axis=axis, keepdims=keepdims)


# ---- products


@implements(np.vecdot, axis="one")
def vecdot(x1, x2, axis):
    """Return the dot products of vectors along an axis, the last one by default."""
    x1, x2 = np.asarray(x1), np.asarray(x2)
    if x1.ndim == 0 or x2.ndim == 0:
        raise ValueError("vecdot: an operand does not have enough dimensions")
    if axis is not None:
        x1, x2 = np.moveaxis(x1, axis, -1), np.moveaxis(x2, axis, -1)
    return np.sum(x1 * x2, axis=-1, dtype=np.result_type(x1, x2))


@implements(np.matvec)
def matvec(x1, x2):
    """Return the products of matrices with vectors."""
    x1, x2 = np.asarray(x1), np.asarray(x2)
    if x1.ndim < 2 or x2.ndim == 0:
        raise ValueError("matvec: an operand does not have enough dimensions")
    return np.matmul(x1, x2[..., None])[..., 0]


@implements(np.vecmat)
def vecmat(x1, x2):
    """Return the products of vectors with matrices."""
    x1, x2 = np.asarray(x1), np.asarray(x2)
    if x1.ndim == 0 or x2.ndim < 2:
        raise ValueError("vecmat: an operand does not have enough dimensions")
    return np.matmul(x1[..., None, :], x2)[..., 0, :]


@implements(np.kron)
def kron(a, b):
    """Return the Kronecker product of arrays of at most two axes."""
    a, b = np.asarray(a), np.asarray(b)
    rank = max(a.ndim, b.ndim)
    a, b = a.reshape((1,) * (rank - a.ndim) + a.shape), b.reshape((1,) * (rank - b.ndim) + b.shape)
    if rank == 0:
        return a * b
    if rank == 1:
        return (a[:, None] * b[None, :]).reshape(-1)
    if rank == 2:
        return (a[:, None, :, None] * b[None, :, None, :]).reshape(a.shape[0] * b.shape[0], a.shape[1] * b.shape[1])
    return rejected("np.kron of more than two axes", "np.einsum, and reshape")


@implements(np.linalg.cross, np.cross)
def cross_of_three(x1, x2):
    """Return the cross products of vectors with three components."""
    a, b = np.asarray(x1), np.asarray(x2)
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ValueError("both input arrays must be (arrays of) 3-dimensional vectors")
    a, b = np.broadcast_arrays(a, b)
    return np.stack([a[..., i] * b[..., j] - a[..., j] * b[..., i] for i, j in ((1, 2), (2, 0), (0, 1))], axis=-1)


@implements(np.convolve, choices={"mode": ["full", "same", "valid"]})
def convolve(a, v, mode):
    """Return the discrete convolution of two sequences."""
    a, v = np.atleast_1d(a), np.atleast_1d(v)
    if len(a) == 0 or len(v) == 0:
        raise ValueError("a and v cannot be empty")
    kind = np.result_type(a, v)
    long, short = (a.astype(kind), v.astype(kind)) if len(a) >= len(v) else (v.astype(kind), a.astype(kind))
    n, m = len(long), len(short)
    zeros = np.zeros(m - 1, kind)
    padded = np.concatenate([zeros, long, zeros])
    full = np.arange(n + m - 1)[:, None] + np.arange(m)[None, :]
    out = np.sum(padded[full] * short[::-1], axis=1, dtype=kind)
    if mode == "full":
        return out
    return out[m - 1 : n] if mode == "valid" else out[(m - 1) // 2 : (m - 1) // 2 + n]


@implements(np.correlate, choices={"mode": ["full", "same", "valid"]})
def correlate(a, v, mode):
    """Return the cross-correlation of two sequences."""
    return np.convolve(a, np.asarray(v)[::-1], mode)


@implements(np.polyval)
def polyval(p, x):
    """Return the values of a polynomial, given by its coefficients, the highest power first, by Horner's rule."""
    p, x = np.asarray(p), np.asarray(x)
    y = np.zeros_like(x)
    for coefficient in p:
        y = y * x + coefficient
    return y


@implements(np.cov, choices={"ddof": [None, 0, 1]})
def cov(m, rowvar, bias, ddof):
    """Return the covariance matrix of rows (columns unless `rowvar`)."""
    x = np.asarray(m)
    x = x if x.dtype == np.float64 else x.astype(np.float64)
    less = (0 if bias else 1) if ddof is None else ddof
    if x.ndim == 1:
        x = x - np.mean(x)
        return np.asarray(np.sum(x * x) / max(x.shape[0] - less, 0))
    c = _of_rows(x if rowvar else x.T, less)
    if c.shape[0] == 1:
        return np.asarray(c[0, 0])
    return c


@implements(np.corrcoef)
def corrcoef(x, rowvar):
    """Return the correlation matrix of rows (columns unless `rowvar`)."""
    x = np.asarray(x)
    if x.ndim == 1:
        c = np.cov(x)
        return c / c
    x = x if rowvar else x.T
    if x.shape[0] == 1:
        c = np.cov(x[0])
        return c / c
    c = _of_rows(x if x.dtype == np.float64 else x.astype(np.float64), 1)
    root = np.sqrt(np.diagonal(c))
    return np.clip(c / root[:, None] / root[None, :], -1, 1)


def _of_rows(x, less):
    """Return the covariance matrix of rows; the divisor is their length minus `less`."""
    x = x - np.mean(x, axis=1, keepdims=True)
    return x @ x.T / max(x.shape[1] - less, 0)


# ---- methods of ufuncs


def by_segments(total, least):
    """Return the method `reduceat` of a ufunc, from its reduction along axis 1 and its identity in a dtype."""

    def reduceat(array, indices, axis, dtype):
        x, starts = np.moveaxis(np.asarray(array), axis, 0), np.asarray(indices).astype(np.int64)
        n, many = x.shape[0], starts.shape[0]
        kind = total(np.zeros((1, 1), x.dtype), dtype).dtype
        x = x.astype(kind)
        alone = x[np.where(starts < 0, n, starts)]  # the result where the next segment starts no later
        if n == 0:
            return np.moveaxis(alone, 0, axis)
        ends = np.concatenate([starts[1:], np.full(1, n)])[:many]
        places = np.arange(n)
        inside = (places >= starts[:, None]) & (places < ends[:, None])
        one = (1,) * (x.ndim - 1)
        out = total(np.where(inside.reshape((many, n, *one)), x[None], least(kind)), dtype)
        return np.moveaxis(np.where((ends > starts).reshape((many, *one)), out, alone), 0, axis)

    return reduceat


def summed(x, kind):
    """Return the sums along axis 1; unlike in `np.sum`, a sum of nothing but -0 is -0."""
    out = np.sum(x, axis=1, dtype=kind)
    if out.dtype.kind != "f":
        return out
    return np.where(np.all((x == 0) & np.signbit(x), axis=1), out.dtype.type(-0.0), out)


def in_dtype(x, kind):
    """Return an array cast to a dtype, unless that is None."""
    return x if kind is None else x.astype(kind)


def lowest(dtype):
    """Return the least value of a dtype: the identity of `np.maximum`."""
    return dtype.type(-np.inf) if dtype.kind == "f" else dtype.type(0 if dtype == np.bool_ else np.iinfo(dtype).min)


def highest(dtype):
    """Return the greatest value of a dtype: the identity of `np.minimum`."""
    return dtype.type(np.inf) if dtype.kind == "f" else dtype.type(1 if dtype == np.bool_ else np.iinfo(dtype).max)


implements(np.add.reduceat)(by_segments(summed, lambda kind: kind.type(-0.0)))
implements(np.multiply.reduceat)(by_segments(lambda x, kind: np.prod(x, axis=1, dtype=kind), lambda kind: kind.type(1)))
implements(np.maximum.reduceat)(by_segments(lambda x, kind: np.max(in_dtype(x, kind), axis=1), lowest))
implements(np.minimum.reduceat)(by_segments(lambda x, kind: np.min(in_dtype(x, kind), axis=1), highest))


@implements(np.logaddexp.reduce)
def logaddexp_reduce(array, axis, keepdims):
    """Return the logarithm of the sum of exponentials along an axis."""
    x = np.asarray(array)
    most = np.max(
        np.concatenate([x, np.full_like(np.sum(x, axis=axis, keepdims=True), -np.inf)], axis=axis),
        axis=axis,
        keepdims=True,
    )
    base = np.where(np.isinf(most), x.dtype.type(0), most)
    total = np.sum(np.exp(x - base), axis=axis, keepdims=True)
    nothing = total == 0
    out = np.where(nothing, -np.inf, np.log(np.where(nothing, 1, total))) + base
    return out if keepdims else np.squeeze(out, axis)[()]


@implements(np.bitwise_or.reduce)
def bitwise_or_reduce(array, axis):
    """Return the bitwise or of the elements along an axis."""
    rows = np.moveaxis(np.asarray(array), axis, 0)
    out = np.zeros(rows.shape[1:], rows.dtype)
    for k in range(len(rows)):
        out = out | rows[k]
    return out[()]


@implements(np.bitwise_xor.reduce)
def bitwise_xor_reduce(array, axis):
    """Return the bitwise exclusive or of the elements along an axis."""
    rows = np.moveaxis(np.asarray(array), axis, 0)
    out = np.zeros(rows.shape[1:], rows.dtype)
    for k in range(len(rows)):
        out = out ^ rows[k]
    return out[()]
