"""Functions of `scipy.spatial.distance` in the compiled language."""

from __future__ import annotations

import numpy as np

from acronumba.frontend.library.decorators import implements, rejected
from acronumba.frontend.library.numpy_elementwise import root

METRICS = ("euclidean", "sqeuclidean", "cityblock", "cosine", "chebyshev", "correlation")


@implements("scipy.spatial.distance.cdist", choices={"metric": METRICS})
def cdist(XA, XB, metric):
    """Return the matrix of distances between the rows of two matrices."""
    a, b = np.asarray(XA), np.asarray(XB)
    if a.ndim != 2:
        raise ValueError("XA must be a 2-dimensional array.")
    if b.ndim != 2:
        raise ValueError("XB must be a 2-dimensional array.")
    if a.shape[1] != b.shape[1]:
        raise ValueError("XA and XB must have the same number of columns (i.e. feature dimension.)")
    return _between(a.astype(np.float64)[:, None, :], b.astype(np.float64)[None, :, :], metric)


@implements("scipy.spatial.distance.pdist", choices={"metric": METRICS})
def pdist(X, metric):
    """Return the distances between all pairs of rows i < j of a matrix, in lexicographic order of (i, j)."""
    x = np.asarray(X)
    if x.ndim != 2:
        raise ValueError("A 2-dimensional array must be passed.")
    x = x.astype(np.float64)
    i, j = np.triu_indices(x.shape[0], 1)
    return _between(x[i], x[j], metric)


def _between(x, y, metric):
    """Return the distances between vectors along the last axis."""
    if metric == "correlation":
        x, y = x - np.mean(x, axis=-1, keepdims=True), y - np.mean(y, axis=-1, keepdims=True)
    if metric in ("cosine", "correlation"):
        norms = np.sqrt(np.sum(x * x, axis=-1)) * np.sqrt(np.sum(y * y, axis=-1))
        return 1 - np.clip(np.sum(x * y, axis=-1) / norms, -1, 1)
    d = x - y
    if metric == "cityblock":
        return np.sum(np.abs(d), axis=-1)
    if metric == "chebyshev":  # ignores NaN, as SciPy does
        return np.max(np.where(np.isnan(d), 0, np.abs(d)), axis=-1, initial=0)
    square = np.sum(d * d, axis=-1)
    return square if metric == "sqeuclidean" else root(square)


@implements("scipy.spatial.distance.squareform", choices={"checks": (True, False)})
def squareform(X, checks):
    """Convert the distances of all pairs to a symmetric matrix, or a matrix to the distances."""
    x = np.asarray(X)
    if x.ndim == 2:
        if x.shape[0] != x.shape[1]:
            raise ValueError("The matrix argument must be square.")
        if checks and not (np.all(x == x.T) and np.all(np.diagonal(x) == 0)):
            raise ValueError("Distance matrix 'X' must be symmetric.")
        i, j = np.triu_indices(x.shape[0], 1)
        return x[i, j]
    if x.ndim != 1:
        raise ValueError("The first argument must be one or two dimensional array.")
    count = len(x)
    n = 1
    while n * (n - 1) // 2 < count:
        n += 1
    if n * (n - 1) // 2 != count:
        raise ValueError(
            "Incompatible vector size. It must be a binomial coefficient n choose 2 for some integer n >= 2."
        )
    at = np.arange(n)
    low, high = np.minimum(at[:, None], at[None, :]), np.maximum(at[:, None], at[None, :])
    same = low == high
    place = np.where(same, count, n * low + high - (low + 1) * (low + 2) // 2)
    return np.concatenate([x, np.zeros(1, x.dtype)])[place]


# ---- distances of two vectors


def _vector(u):
    u = np.asarray(u)
    if u.ndim != 1:
        raise ValueError("Input vector should be 1-D.")
    return u


@implements("scipy.spatial.distance.euclidean")
def euclidean(u, v):
    """Return the norm of u - v: a Python float if u - v has a float dtype, as in SciPy."""
    d = _vector(u) - _vector(v)
    if d.dtype.kind == "f" and len(d) == 0:
        raise ValueError("the distance of empty vectors, which is no float in SciPy")
    if not np.all(np.isfinite(d)):
        raise ValueError("array must not contain infs or NaNs")
    wide = d.astype(np.float64)
    most = np.max(np.abs(wide), initial=0)
    scale = np.where(most > 2.0**500, 2.0**-600, np.where(most < 2.0**-500, 2.0**600, 1.0))
    out = root(np.sum(wide * scale * (wide * scale))) / scale
    return float(out.astype(d.dtype)) if d.dtype.kind == "f" else out


@implements("scipy.spatial.distance.sqeuclidean")
def sqeuclidean(u, v):
    """Return the squared norm of u - v."""
    u, v = _vector(u), _vector(v)
    u = u if u.dtype.kind == "f" else u.astype(np.float64)
    v = v if v.dtype.kind == "f" else v.astype(np.float64)
    d = u - v
    return np.dot(d, d)


@implements("scipy.spatial.distance.cityblock")
def cityblock(u, v):
    """Return the sum of the absolute differences."""
    return np.sum(np.abs(_vector(u) - _vector(v)))


@implements("scipy.spatial.distance.chebyshev")
def chebyshev(u, v):
    """Return the largest absolute difference, as Python's `max`: NaN only if the first one is NaN."""
    d = np.abs(_vector(u) - _vector(v))
    if len(d) == 0:
        raise ValueError("max() arg is an empty sequence")
    if d.dtype.kind != "f":
        return np.max(d)
    return np.where(np.isnan(d[0]), d[0], np.max(np.where(np.isnan(d), 0, d)))[()]


@implements("scipy.spatial.distance.cosine")
def cosine(u, v):
    """Return 1 minus the cosine of the angle between two vectors."""
    return _apart(_vector(u), _vector(v), False)


@implements("scipy.spatial.distance.correlation")
def correlation(u, v):
    """Return 1 minus the correlation of two vectors."""
    return _apart(_vector(u), _vector(v), True)


def _apart(u, v, centered):
    if u.dtype == np.bool_ or v.dtype == np.bool_:
        rejected("the angle of vectors of bools", "u.astype(float)")
    if centered:
        u, v = u - np.mean(u), v - np.mean(v)
    across = np.dot(u, v)
    norms = np.sqrt((np.dot(u, u) * np.dot(v, v)).astype(np.float64))
    kind = across.dtype.type if across.dtype.kind == "f" else np.float64
    return np.clip(1 - kind(across) / kind(norms), 0, 2)
