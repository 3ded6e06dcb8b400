"""Functions of `scipy.linalg` in the compiled language, made of those of `np.linalg` (see `written_special`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from acronumba.frontend.calls.written import rejected


def checked(a: Any) -> Any:
    """Return an array; its elements must be finite, as in SciPy."""
    a = np.asarray(a)
    if not np.all(np.isfinite(a)):
        raise ValueError("array must not contain infs or NaNs")
    return a


def square(a: Any) -> Any:
    """Return a matrix, which must be square and finite."""
    a = checked(a)
    if a.ndim != 2:
        rejected("scipy.linalg of a stack of matrices", "a call for each matrix: [inv(x) for x in xs]")
    if a.shape[0] != a.shape[1]:
        raise ValueError("expected square matrix")
    return a


def cholesky(a: Any, lower: Any) -> Any:
    """Return the Cholesky factor, upper triangular unless `lower`."""
    a = square(a)
    return np.linalg.cholesky(a) if lower else np.linalg.cholesky(a.T).T


def inv(a: Any) -> Any:
    """Return the inverse of a square matrix."""
    return np.linalg.inv(square(a))


def det(a: Any) -> Any:
    """Return the determinant of a square matrix."""
    return np.linalg.det(square(a))


def solve(a: Any, b: Any) -> Any:
    """Return the solution x of ``a @ x = b``."""
    return np.linalg.solve(square(a), checked(b))


def solve_triangular(a: Any, b: Any, trans: Any, lower: Any, unit_diagonal: Any) -> Any:
    """Solve ``t @ x = b`` for a triangle t of a matrix, or its transpose."""
    a = square(a)
    a = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        a = np.where(np.eye(a.shape[0], dtype=np.bool_), 1, a)
    if trans == 1 or trans == "T":
        a = a.T
    return np.linalg.solve(a, checked(b))


def pinv(a: Any) -> Any:
    """Return the Moore-Penrose pseudo-inverse."""
    return np.linalg.pinv(checked(a))


FUNCTIONS = {
    "cholesky": cholesky, "inv": inv, "det": det, "solve": solve, "solve_triangular": solve_triangular, "pinv": pinv,
}  # fmt: skip
