"""NumPy's linear algebra in the compiled language: elimination, factorizations, eigenvalues of small matrices.

Each step of elimination is an iteration of a compiled loop, whose operations act on the whole matrix. Results are those
of LAPACK up to rounding; functions with ambiguous results (the signs of eigenvectors) are not supported.
"""

from __future__ import annotations

import numpy as np

from acronumba.frontend.library.decorators import implements, rejected

SlogdetResult = type(np.linalg.slogdet(np.eye(1)))
QRResult = type(np.linalg.qr(np.eye(1)))
SWEEPS = 12  # over all pairs of columns; convergence is quadratic, so a few suffice

# ---- matrices


def floats(a):
    """Return an array of floats."""
    a = np.asarray(a)
    return a if a.dtype.kind == "f" else a.astype(np.float64)


def one_matrix(a):
    """Return a square matrix of floats."""
    a = floats(a)
    if a.ndim != 2:
        rejected("np.linalg of a stack of matrices", "a call for each matrix: [np.linalg.inv(x) for x in xs]")
    if a.shape[0] != a.shape[1]:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")
    return a


def eliminated(a, right):
    """Eliminate ``a | right``: return the upper triangle, the new right side and the sign of the row permutation.

    The pivot is the largest element of its column, as in LAPACK; rows are exchanged by indexing.
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


def backwards(upper, right):
    """Solve an upper triangular system by back substitution."""
    n = upper.shape[0]
    rows = np.arange(n)
    for j in range(n):
        k = n - 1 - j
        solved = right[k] / upper[k, k]
        right = np.where((rows == k)[:, None], solved, right - np.where(rows < k, upper[:, k], 0)[:, None] * solved)
    return right


@implements(np.linalg.solve)
def solve(a, b):
    """Return the solution x of ``a @ x = b``."""
    a, b = one_matrix(a), np.asarray(b)
    if b.shape[0] != a.shape[0]:
        raise ValueError("the right side has another number of rows")
    kind = np.result_type(a, b) if b.dtype.kind == "f" else a.dtype if a.dtype == np.float64 else np.dtype(np.float64)
    upper, right, _ = eliminated(a.astype(kind), b.astype(kind).reshape(a.shape[0], -1))
    if np.any(np.diagonal(upper) == 0):
        raise np.linalg.LinAlgError("Singular matrix")
    return backwards(upper, right).reshape(b.shape)


@implements(np.linalg.inv)
def inv(a):
    """Return the inverse of a matrix."""
    a = one_matrix(a)
    return np.linalg.solve(a, np.eye(a.shape[0], dtype=a.dtype))


@implements(np.linalg.det)
def det(a):
    """Return the determinant: the product of the diagonal after elimination, with its sign."""
    a = one_matrix(a)
    upper, _, sign = eliminated(a, a[:, :0])
    return sign * np.prod(np.diagonal(upper))


@implements(np.linalg.slogdet)
def slogdet(a):
    """Return the sign of the determinant and the logarithm of its absolute value."""
    a = one_matrix(a)
    upper, _, sign = eliminated(a, a[:, :0])
    on = np.diagonal(upper)
    return SlogdetResult(sign * np.prod(np.sign(on)), np.sum(np.log(np.abs(on))))


@implements(np.linalg.cholesky)
def cholesky(a, upper):
    """Return the Cholesky factor, lower triangular unless `upper`."""
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


@implements(np.linalg.matrix_power)
def matrix_power(a, n):
    """Return a power of a square matrix."""
    a = np.asarray(a)
    if n < 0:
        a, n = np.linalg.inv(a), -n
    out = np.eye(a.shape[-1], dtype=a.dtype)
    for _ in range(n):
        out = out @ a
    return out


@implements(np.linalg.multi_dot)
def multi_dot(arrays):
    """Return the product of several matrices: of three in the cheaper order, else from left to right."""
    if len(arrays) == 3:  # in the cheaper order, as in NumPy: with bools it affects the result
        a, b, c = arrays
        first = a.shape[0] * b.shape[-1] * (a.shape[-1] + c.shape[-1])
        if first >= a.shape[-1] * c.shape[-1] * (a.shape[0] + b.shape[-1]):
            return a @ (b @ c)
    out = arrays[0]
    for k in range(1, len(arrays)):
        out = out @ arrays[k]
    return out


@implements(np.linalg.trace)
def trace_of_last(x, offset, dtype):
    """Return the sum of a diagonal of the last two axes."""
    return np.trace(x, offset, -2, -1, dtype)


@implements(np.matrix_transpose, np.linalg.matrix_transpose)
def matrix_transpose(x):
    """Return an array with its last two axes exchanged."""
    return np.swapaxes(np.asarray(x), -1, -2)


@implements(np.linalg.matmul)
def linalg_matmul(x1, x2):
    """Return the matrix product."""
    return np.matmul(x1, x2)


@implements(np.linalg.outer)
def linalg_outer(x1, x2):
    """Return the outer product of two vectors."""
    return np.outer(x1, x2)


@implements(np.linalg.tensordot)
def linalg_tensordot(x1, x2, axes):
    """Return the tensor contraction over axes."""
    return np.tensordot(x1, x2, axes)


@implements(np.linalg.vecdot)
def linalg_vecdot(x1, x2, axis):
    """Return the dot products of vectors along an axis."""
    return np.vecdot(x1, x2, axis=axis)


@implements(np.linalg.vector_norm, axis="several", choices={"ord": [int, float]})
def vector_norm(x, axis, keepdims, ord):
    """Return the norms of vectors along axes, or of all elements."""
    x = np.asarray(x)
    if axis is None:
        whole = (1,) * x.ndim
        out = np.linalg.norm(x.reshape(-1), ord)
        return out.reshape(whole) if keepdims else out
    return np.linalg.norm(x, ord, axis, keepdims)


@implements(np.linalg.matrix_norm)
def matrix_norm(x, keepdims, ord):
    """Return the norms of matrices in the last two axes."""
    return np.linalg.norm(x, ord, (-2, -1), keepdims)


# ---- factorizations


@implements(np.linalg.qr, choices={"mode": ["reduced", "complete", "r"]})
def qr(a, mode):
    """Return the QR factorization by Householder reflections, as in LAPACK; R alone with `mode` "r"."""
    a = floats(a)
    if a.ndim != 2:
        rejected("np.linalg.qr of a stack of matrices", "[np.linalg.qr(x) for x in xs]")
    m, n = a.shape
    rows = np.arange(m)
    r, q = a, np.eye(m, dtype=a.dtype)
    for k in range(min(m, n)):
        first = r[k, k]
        below = np.where(rows > k, r[:, k], 0)
        rest = np.sum(below * below)
        longer = -np.copysign(np.sqrt(first * first + rest), first)
        v = np.where(rows == k, np.where(rest == 0, 0, first - longer), below)
        scale = np.where(rest == 0, 0, 2 / np.sum(v * v))
        r = r - v[:, None] * (scale * (v @ r))
        q = q - (q @ v)[:, None] * (scale * v)
    k = m if mode == "complete" else min(m, n)
    r = np.triu(r[:k])
    return r if mode == "r" else QRResult(q[:, :k], r)


def turned(a, columns, p, q, c, s):
    """Apply a Givens rotation (c, s) to the columns p and q of a matrix."""
    x, y = a[:, p], a[:, q]
    first, second = (c * x - s * y)[:, None], (s * x + c * y)[:, None]
    return np.where(columns == p, first, np.where(columns == q, second, a))


def rotated(a):
    """Return a matrix with its columns rotated to be orthogonal, and the rotation: one-sided Jacobi (Hestenes)."""
    n = a.shape[1]
    v = np.eye(n, dtype=a.dtype)
    columns = np.arange(n)
    for _ in range(SWEEPS):
        for p in range(n - 1):
            for q in range(p + 1, n):
                x, y = a[:, p], a[:, q]
                across = np.sum(x * y)
                far = (np.sum(y * y) - np.sum(x * x)) / (2 * across)
                t = np.where(across == 0, 0, np.copysign(1, far) / (np.abs(far) + np.sqrt(1 + far * far)))
                c = 1 / np.sqrt(1 + t * t)
                s = c * t
                a = turned(a, columns, p, q, c, s)
                v = turned(v, columns, p, q, c, s)
    return a, v


@implements(np.linalg.svdvals)
def svdvals(x):
    """Return the singular values in decreasing order."""
    a = floats(x)
    if a.ndim != 2:
        rejected("the singular values of a stack of matrices", "[np.linalg.svdvals(x) for x in xs]")
    columns = rotated(a)[0] if a.shape[0] >= a.shape[1] else rotated(a.T)[0]
    return np.sort(np.sqrt(np.sum(columns * columns, axis=0)))[::-1]


@implements(np.linalg.svd, choices={"compute_uv": [False]})
def svd(a, full_matrices, compute_uv):
    """Return the singular values; singular vectors, whose signs are ambiguous, are not supported."""
    return np.linalg.svdvals(a)


@implements(np.linalg.pinv)
def pinv(a, rcond, rtol):
    """Return the pseudo-inverse; nearly zero singular values count as 0."""
    a = floats(a)
    if a.ndim != 2:
        rejected("np.linalg.pinv of a stack of matrices", "[np.linalg.pinv(x) for x in xs]")
    least = rcond if rcond is not None else rtol if rtol is not None else 1e-15
    tall = a.shape[0] >= a.shape[1]
    columns, v = rotated(a) if tall else rotated(a.T)
    sizes = np.sqrt(np.sum(columns * columns, axis=0))
    inverse = np.where(sizes > least * np.max(sizes), 1 / sizes, 0)
    out = (v * inverse) @ (columns * inverse).T
    return out if tall else out.T


@implements(np.linalg.matrix_rank)
def matrix_rank(A, tol, rtol):
    """Return the number of singular values that are not nearly zero."""
    a = floats(A)
    sizes = np.linalg.svdvals(a)
    most = np.max(sizes)
    if tol is not None:
        return np.sum(sizes > tol)
    part = max(a.shape[0], a.shape[1]) * np.finfo(a.dtype).eps if rtol is None else rtol
    return np.sum(sizes > most * part)


@implements(np.linalg.eigvalsh)
def eigvalsh(a, UPLO):
    """Return the eigenvalues of a symmetric matrix in increasing order, by Jacobi rotations."""
    a = one_matrix(a)
    a = np.tril(a) + np.tril(a, -1).T if UPLO == "L" else np.triu(a) + np.triu(a, 1).T
    n = a.shape[0]
    k = np.arange(n)
    rows, columns = k[:, None], k[None, :]
    for _ in range(SWEEPS):
        for p in range(n - 1):
            for q in range(p + 1, n):
                off = a[p, q]
                far = (a[q, q] - a[p, p]) / (2 * off)
                t = np.where(off == 0, 0, np.copysign(1, far) / (np.abs(far) + np.sqrt(1 + far * far)))
                c = 1 / np.sqrt(1 + t * t)
                s = c * t
                turn = np.where((rows == columns) & ((rows == p) | (rows == q)), c, np.eye(n, dtype=a.dtype))
                turn = np.where((rows == p) & (columns == q), s, np.where((rows == q) & (columns == p), -s, turn))
                a = turn.T @ a @ turn
    return np.sort(np.diagonal(a))
