"""NumPy's functions of sums, products and matrices, written as models are."""

from __future__ import annotations

from typing import Any

import numpy as np

from acronumba.frontend.calls.written import stands_for

# ---- sums and differences


@stands_for(np.cumulative_sum)
def cumulative_sum(x: Any, axis: Any, dtype: Any, include_initial: Any) -> Any:
    """Return the sums of the elements up to each one; before them 0, where it is asked for."""
    x = np.asarray(x)
    axis = 0 if axis is None else axis
    out = np.cumsum(x, axis=axis, dtype=dtype)
    return (
        np.concatenate([np.zeros_like(np.sum(out, axis=axis, keepdims=True)), out], axis=axis)
        if include_initial
        else out
    )


@stands_for(np.cumulative_prod)
def cumulative_prod(x: Any, axis: Any, dtype: Any, include_initial: Any) -> Any:
    """Return the products of the elements up to each one; before them 1, where it is asked for."""
    x = np.asarray(x)
    axis = 0 if axis is None else axis
    out = np.cumprod(x, axis=axis, dtype=dtype)
    return (
        np.concatenate([np.ones_like(np.sum(out, axis=axis, keepdims=True)), out], axis=axis)
        if include_initial
        else out
    )


@stands_for(np.diff)
def diff(a: Any, n: Any, axis: Any) -> Any:
    """Return the differences of neighbours."""
    out = np.moveaxis(np.asarray(a), axis, -1)
    for _ in range(n):
        out = out[..., 1:] != out[..., :-1] if out.dtype == np.bool_ else out[..., 1:] - out[..., :-1]
    return np.moveaxis(out, -1, axis)


@stands_for(np.ediff1d)
def ediff1d(ary: Any) -> Any:
    """Return the differences of neighbours of all elements."""
    flat = np.ravel(ary)
    return flat[1:] - flat[:-1]


@stands_for(np.trapezoid)
def trapezoid(y: Any, x: Any, dx: Any, axis: Any) -> Any:
    """Return the area below points."""
    y = np.moveaxis(np.asarray(y), axis, -1)
    step = dx if x is None else np.diff(np.asarray(x))
    return np.sum(step * (y[..., 1:] + y[..., :-1]) / 2.0, axis=-1)


@stands_for(np.ptp)
def ptp(a: Any, axis: Any, keepdims: Any) -> Any:
    """Return the largest less the smallest."""
    return np.max(a, axis=axis, keepdims=keepdims) - np.min(a, axis=axis, keepdims=keepdims)


@stands_for(np.average)
def average(a: Any, axis: Any, weights: Any, keepdims: Any) -> Any:
    """Return the mean, or the mean by weights."""
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


def known(a: Any, other: Any) -> Any:
    """Return an array with another number in place of NaN."""
    a = np.asarray(a)
    return np.where(np.isnan(a), a.dtype.type(other), a) if a.dtype.kind == "f" else a


def there(a: Any, axis: Any, keepdims: Any) -> Any:
    """Return how many elements are not NaN."""
    return np.sum(~np.isnan(a), axis=axis, keepdims=keepdims)


@stands_for(np.nansum)
def nansum(a: Any, axis: Any, dtype: Any, keepdims: Any) -> Any:
    """Return the sum without NaN."""
    return np.sum(known(a, 0), axis=axis, dtype=dtype, keepdims=keepdims)


@stands_for(np.nanprod)
def nanprod(a: Any, axis: Any, dtype: Any, keepdims: Any) -> Any:
    """Return the product without NaN."""
    return np.prod(known(a, 1), axis=axis, dtype=dtype, keepdims=keepdims)


@stands_for(np.nancumsum)
def nancumsum(a: Any, axis: Any, dtype: Any) -> Any:
    """Return the sums up to each element without NaN."""
    return np.cumsum(known(a, 0), axis=axis, dtype=dtype)


@stands_for(np.nancumprod)
def nancumprod(a: Any, axis: Any, dtype: Any) -> Any:
    """Return the products up to each element without NaN."""
    return np.cumprod(known(a, 1), axis=axis, dtype=dtype)


@stands_for(np.nanmax)
def nanmax(a: Any, axis: Any, keepdims: Any) -> Any:
    """Return the largest that is not NaN."""
    a = np.asarray(a)
    if a.dtype.kind != "f":
        return np.max(a, axis=axis, keepdims=keepdims)
    out = np.max(known(a, -np.inf), axis=axis, keepdims=keepdims)
    return np.where(there(a, axis, keepdims) == 0, a.dtype.type(np.nan), out)[()]


@stands_for(np.nanmin)
def nanmin(a: Any, axis: Any, keepdims: Any) -> Any:
    """Return the smallest that is not NaN."""
    a = np.asarray(a)
    if a.dtype.kind != "f":
        return np.min(a, axis=axis, keepdims=keepdims)
    out = np.min(known(a, np.inf), axis=axis, keepdims=keepdims)
    return np.where(there(a, axis, keepdims) == 0, a.dtype.type(np.nan), out)[()]


@stands_for(np.nanmean)
def nanmean(a: Any, axis: Any, keepdims: Any) -> Any:
    """Return the mean without NaN."""
    a = np.asarray(a)
    if a.dtype.kind != "f":
        return np.mean(a, axis=axis, keepdims=keepdims)
    return np.sum(known(a, 0), axis=axis, keepdims=keepdims) / there(a, axis, keepdims).astype(a.dtype)


@stands_for(np.nanvar)
def nanvar(a: Any, axis: Any, ddof: Any, keepdims: Any) -> Any:
    """Return the variance without NaN."""
    a = np.asarray(a)
    if a.dtype.kind != "f":
        return np.var(a, axis=axis, ddof=ddof, keepdims=keepdims)
    apart = known(a - np.nanmean(a, axis=axis, keepdims=True), 0)
    n = there(a, axis, keepdims) - ddof
    out = np.sum(apart * apart, axis=axis, keepdims=keepdims) / n.astype(a.dtype)
    return np.where(n <= 0, a.dtype.type(np.nan), out)[()]


@stands_for(np.nanstd)
def nanstd(a: Any, axis: Any, ddof: Any, keepdims: Any) -> Any:
    """Return the standard deviation without NaN."""
    return np.sqrt(np.nanvar(a, axis=axis, ddof=ddof, keepdims=keepdims))


@stands_for(np.nanargmax)
def nanargmax(a: Any, axis: Any, keepdims: Any) -> Any:
    """Return where the largest is that is not NaN."""
    if np.any(there(a, axis, False) == 0):
        raise ValueError("All-NaN slice encountered")
    return np.argmax(known(a, -np.inf), axis=axis, keepdims=keepdims)


@stands_for(np.nanargmin)
def nanargmin(a: Any, axis: Any, keepdims: Any) -> Any:
    """Return where the smallest is that is not NaN."""
    if np.any(there(a, axis, False) == 0):
        raise ValueError("All-NaN slice encountered")
    return np.argmin(known(a, np.inf), axis=axis, keepdims=keepdims)


# ---- products


@stands_for(np.vecdot)
def vecdot(x1: Any, x2: Any, axis: Any) -> Any:
    """Return the sums of products of an axis, the last one by default."""
    if axis is not None:
        x1, x2 = np.moveaxis(np.asarray(x1), axis, -1), np.moveaxis(np.asarray(x2), axis, -1)
    return np.sum(x1 * x2, axis=-1, dtype=np.result_type(x1, x2))


@stands_for(np.matvec)
def matvec(x1: Any, x2: Any) -> Any:
    """Return matrices times vectors."""
    return np.matmul(x1, np.asarray(x2)[..., None])[..., 0]


@stands_for(np.vecmat)
def vecmat(x1: Any, x2: Any) -> Any:
    """Return vectors times matrices."""
    return np.matmul(np.asarray(x1)[..., None, :], x2)[..., 0, :]


@stands_for(np.kron)
def kron(a: Any, b: Any) -> Any:
    """Return all products, those with one element of the first side by side."""
    a, b = np.asarray(a), np.asarray(b)
    rank = max(a.ndim, b.ndim)
    a, b = a.reshape((1,) * (rank - a.ndim) + a.shape), b.reshape((1,) * (rank - b.ndim) + b.shape)
    if rank == 0:
        return a * b
    if rank == 1:
        return (a[:, None] * b[None, :]).reshape(-1)
    if rank == 2:
        return (a[:, None, :, None] * b[None, :, None, :]).reshape(a.shape[0] * b.shape[0], a.shape[1] * b.shape[1])
    raise NotImplementedError("np.kron of more than two axes")


@stands_for(np.linalg.cross)
def cross_of_three(x1: Any, x2: Any) -> Any:
    """Return the vectors at right angles."""
    a, b = np.asarray(x1), np.asarray(x2)
    a, b = np.broadcast_arrays(a, b)
    return np.stack([a[..., i] * b[..., j] - a[..., j] * b[..., i] for i, j in ((1, 2), (2, 0), (0, 1))], axis=-1)


@stands_for(np.cross)
def cross(a: Any, b: Any) -> Any:
    """Return the vectors at right angles."""
    return np.linalg.cross(a, b)


@stands_for(np.convolve)
def convolve(a: Any, v: Any, mode: Any) -> Any:
    """Return the sums of products of a sequence and another one, backwards, at all places."""
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


@stands_for(np.correlate)
def correlate(a: Any, v: Any, mode: Any) -> Any:
    """Return the sums of products of a sequence and another one, at all places."""
    return np.convolve(a, np.asarray(v)[::-1], mode)


@stands_for(np.cov)
def cov(m: Any, rowvar: Any, bias: Any, ddof: Any) -> Any:
    """Return the covariances of rows."""
    x = np.atleast_2d(np.asarray(m) * 1.0)
    x = x if rowvar or x.shape[0] == 1 else x.T
    less = (0 if bias else 1) if ddof is None else ddof
    x = x - np.mean(x, axis=1, keepdims=True)
    return np.squeeze(x @ x.T / max(x.shape[1] - less, 0)) if x.shape[0] == 1 else x @ x.T / max(x.shape[1] - less, 0)


@stands_for(np.corrcoef)
def corrcoef(x: Any, rowvar: Any) -> Any:
    """Return the correlations of rows."""
    c = np.cov(x, rowvar=rowvar)
    if c.ndim == 0:
        return c / c
    root = np.sqrt(np.diagonal(c))
    return np.clip(c / root[:, None] / root[None, :], -1, 1)


# ---- matrices


def one_matrix(a: Any) -> Any:
    """Return a square matrix of floats."""
    a = np.asarray(a)
    if a.ndim != 2:
        raise NotImplementedError("np.linalg of stacks of matrices")
    if a.shape[0] != a.shape[1]:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")
    return a if a.dtype.kind == "f" else a.astype(np.float64)


def eliminated(a: Any, right: Any) -> Any:
    """Solve by elimination: the matrix with zeros below its diagonal, what it makes of the right side, its sign.

    The largest of a column leads, as in LAPACK; rows are exchanged by where they are read.
    """
    n = a.shape[0]
    both = np.concatenate([a, right], axis=1)
    rows = np.arange(n)
    sign = a.dtype.type(1)
    for k in range(n):
        column = both[:, k]
        p = np.argmax(np.where(rows >= k, np.abs(column), -1))
        sign = np.where(p == k, sign, -sign)
        both = both[np.where(rows == k, p, np.where(rows == p, k, rows))]
        factor = np.where(rows > k, both[:, k] / both[k, k], 0)
        both = both - factor[:, None] * np.where(np.arange(both.shape[1]) >= k, both[k], 0)
    return both[:, :n], both[:, n:], sign


def backwards(upper: Any, right: Any) -> Any:
    """Solve a system whose matrix has zeros below its diagonal."""
    n = upper.shape[0]
    rows = np.arange(n)
    for j in range(n):
        k = n - 1 - j
        solved = right[k] / upper[k, k]
        right = np.where((rows == k)[:, None], solved, right - np.where(rows < k, upper[:, k], 0)[:, None] * solved)
    return right


@stands_for(np.linalg.solve)
def solve(a: Any, b: Any) -> Any:
    """Return what a matrix turns into b."""
    a, b = one_matrix(a), np.asarray(b)
    kind = np.result_type(a, b) if b.dtype.kind == "f" else a.dtype if a.dtype == np.float64 else np.dtype(np.float64)
    upper, right, _ = eliminated(a.astype(kind), b.astype(kind).reshape(a.shape[0], -1))
    if np.any(np.diagonal(upper) == 0):
        raise np.linalg.LinAlgError("Singular matrix")
    return backwards(upper, right).reshape(b.shape)


@stands_for(np.linalg.inv)
def inv(a: Any) -> Any:
    """Return the inverse of a matrix."""
    a = one_matrix(a)
    return np.linalg.solve(a, np.eye(a.shape[0], dtype=a.dtype))


@stands_for(np.linalg.det)
def det(a: Any) -> Any:
    """Return the determinant: what elimination leaves on the diagonal, multiplied."""
    a = one_matrix(a)
    upper, _, sign = eliminated(a, a[:, :0])
    return sign * np.prod(np.diagonal(upper))


def sign_and_log(a: Any) -> Any:
    """Return the sign of the determinant and the logarithm of its size."""
    a = one_matrix(a)
    upper, _, sign = eliminated(a, a[:, :0])
    on = np.diagonal(upper)
    return sign * np.prod(np.sign(on)), np.sum(np.log(np.abs(on)))


@stands_for(np.linalg.cholesky)
def cholesky(a: Any, upper: Any) -> Any:
    """Return the lower triangle whose product with its own transpose is the matrix."""
    a = one_matrix(a)
    a = a.T if upper else a
    n = a.shape[0]
    rows = np.arange(n)
    out = np.zeros_like(a)
    for k in range(n):
        column = a[:, k] - out @ out[k]
        column = np.where(rows >= k, column / np.sqrt(column[k]), 0)
        out = np.where(rows == k, column[:, None], out)
    if not np.all(np.diagonal(out) > 0):
        raise np.linalg.LinAlgError("Matrix is not positive definite")
    return out.T if upper else out


@stands_for(np.linalg.matrix_power)
def matrix_power(a: Any, n: Any) -> Any:
    """Return a power of a square matrix."""
    a = np.asarray(a)
    if n < 0:
        a, n = np.linalg.inv(a), -n
    out = np.eye(a.shape[-1], dtype=a.dtype)
    for _ in range(n):
        out = out @ a
    return out


@stands_for(np.linalg.multi_dot)
def multi_dot(arrays: Any) -> Any:
    """Return the product of several matrices, from left to right."""
    if len(arrays) == 3:  # in the order that takes less, as NumPy does: of bools, it matters
        a, b, c = arrays
        first = a.shape[0] * b.shape[-1] * (a.shape[-1] + c.shape[-1])
        if first >= a.shape[-1] * c.shape[-1] * (a.shape[0] + b.shape[-1]):
            return a @ (b @ c)
    out = arrays[0]
    for k in range(1, len(arrays)):
        out = out @ arrays[k]
    return out


@stands_for(np.linalg.trace)
def trace_of_last(x: Any, offset: Any, dtype: Any) -> Any:
    """Return the sum of a diagonal of the last two axes."""
    return np.trace(x, offset, -2, -1, dtype)


@stands_for(np.matrix_transpose, np.linalg.matrix_transpose)
def matrix_transpose(x: Any) -> Any:
    """Return the last two axes exchanged."""
    return np.swapaxes(np.asarray(x), -1, -2)


@stands_for(np.linalg.matmul)
def linalg_matmul(x1: Any, x2: Any) -> Any:
    """Return the product of matrices."""
    return np.matmul(x1, x2)


@stands_for(np.linalg.outer)
def linalg_outer(x1: Any, x2: Any) -> Any:
    """Return all products."""
    return np.outer(x1, x2)


@stands_for(np.linalg.tensordot)
def linalg_tensordot(x1: Any, x2: Any, axes: Any) -> Any:
    """Return sums of products over axes."""
    return np.tensordot(x1, x2, axes)


@stands_for(np.linalg.vecdot)
def linalg_vecdot(x1: Any, x2: Any, axis: Any) -> Any:
    """Return the sums of products of an axis."""
    return np.vecdot(x1, x2, axis=axis)


@stands_for(np.linalg.vector_norm)
def vector_norm(x: Any, axis: Any, keepdims: Any, ord: Any) -> Any:
    """Return the size of vectors."""
    x = np.asarray(x)
    if axis is None:
        whole = (1,) * x.ndim
        out = np.linalg.norm(x.reshape(-1), ord)
        return out.reshape(whole) if keepdims else out
    return np.linalg.norm(x, ord, axis, keepdims)


@stands_for(np.linalg.matrix_norm)
def matrix_norm(x: Any, keepdims: Any, ord: Any) -> Any:
    """Return the size of matrices."""
    return np.linalg.norm(x, ord, (-2, -1), keepdims)


# ---- methods of ufuncs


@stands_for(np.logaddexp.reduce)
def logaddexp_reduce(array: Any, axis: Any, keepdims: Any) -> Any:
    """Return the logarithm of the sum of exponentials."""
    x = np.asarray(array)
    most = np.max(
        np.concatenate([x, np.full_like(np.sum(x, axis=axis, keepdims=True), -np.inf)], axis=axis),
        axis=axis,
        keepdims=True,
    )
    base = np.where(np.isinf(most), x.dtype.type(0), most)
    out = np.log(np.sum(np.exp(x - base), axis=axis, keepdims=True)) + base
    return out if keepdims else np.squeeze(out, axis)


@stands_for(np.bitwise_or.reduce)
def bitwise_or_reduce(array: Any, axis: Any) -> Any:
    """Return the bits that any element has."""
    rows = np.moveaxis(np.asarray(array), axis, 0)
    out = np.zeros(rows.shape[1:], rows.dtype)
    for k in range(len(rows)):
        out = out | rows[k]
    return out[()]


@stands_for(np.bitwise_xor.reduce)
def bitwise_xor_reduce(array: Any, axis: Any) -> Any:
    """Return the bits that an odd number of elements have."""
    rows = np.moveaxis(np.asarray(array), axis, 0)
    out = np.zeros(rows.shape[1:], rows.dtype)
    for k in range(len(rows)):
        out = out ^ rows[k]
    return out[()]
