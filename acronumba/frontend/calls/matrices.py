"""`np.matrix` as a class in the compiled language: an object that holds an array of two axes.

A method that this class lacks is rejected. So is a NumPy function with a matrix argument, unless it is in `KEEP` (it
returns a matrix), `DROP` (it returns an array or a number) or `METHODS`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from acronumba.frontend.library.decorators import rejected


def plain(x: Any) -> Any:
    """Return the array of a matrix; anything else as it is."""
    return x.array if isinstance(x, Matrix) else x


def matrix_of(x: Any) -> Any:
    """Return an array as a matrix, without a copy; a vector becomes a row."""
    return x if isinstance(x, Matrix) else Matrix(x, None, False)


class Matrix:
    """The stand-in for `np.matrix`."""

    def __init__(self, data: Any, dtype: Any = None, copy: Any = True) -> None:
        if isinstance(data, str):
            rejected("np.matrix of a string", "np.matrix([[1, 2], [3, 4]])")
        array = np.array(plain(data), dtype) if copy else np.asarray(plain(data), dtype)
        if array.ndim > 2:
            raise ValueError("matrix must be 2-dimensional")
        if array.ndim == 0:
            array = array.reshape(1, 1)
        self.array = array[None, :] if array.ndim == 1 else array

    @property
    def T(self) -> Any:
        return matrix_of(self.array.T)

    @property
    def I(self) -> Any:  # noqa: E743
        rows, columns = self.array.shape
        return matrix_of(np.linalg.inv(self.array) if rows == columns else np.linalg.pinv(self.array))

    @property
    def A(self) -> Any:
        return self.array

    @property
    def H(self) -> Any:
        return self.T

    def getT(self) -> Any:
        return self.T

    def getI(self) -> Any:
        return self.I

    def getA(self) -> Any:
        return self.array

    @property
    def A1(self) -> Any:
        return self.array.ravel()

    @property
    def shape(self) -> Any:
        return self.array.shape

    @property
    def size(self) -> Any:
        return self.array.size

    @property
    def ndim(self) -> int:
        return 2

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    def __len__(self) -> Any:
        return self.array.shape[0]

    def __bool__(self) -> Any:
        return bool(self.array)

    def __iter__(self) -> Any:
        for k in range(self.array.shape[0]):
            yield self[k]

    def __getitem__(self, index: Any) -> Any:
        out = self.array[index]
        if out.ndim == 0:
            return out
        if out.ndim == 1:
            column = isinstance(index, tuple) and len(index) > 1 and np.isscalar(index[1])
            out = out[:, None] if column else out[None, :]
        return matrix_of(out)

    def __setitem__(self, index: Any, value: Any) -> None:
        value = plain(value)
        if np.ndim(value) == 2 and self.array[index].ndim == 1:
            column = isinstance(index, tuple) and len(index) > 1 and np.isscalar(index[1])
            value = value[:, 0] if column else value[0]
        self.array[index] = value

    def __add__(self, other: Any) -> Any:
        return matrix_of(self.array + plain(other))

    def __radd__(self, other: Any) -> Any:
        return matrix_of(plain(other) + self.array)

    def __sub__(self, other: Any) -> Any:
        return matrix_of(self.array - plain(other))

    def __rsub__(self, other: Any) -> Any:
        return matrix_of(plain(other) - self.array)

    def __mul__(self, other: Any) -> Any:
        return product(self, other)

    def __rmul__(self, other: Any) -> Any:
        return product(other, self)

    def __matmul__(self, other: Any) -> Any:
        return matrix_of(self.array @ plain(other))

    def __rmatmul__(self, other: Any) -> Any:
        return matrix_of(plain(other) @ self.array)

    def __truediv__(self, other: Any) -> Any:
        return matrix_of(self.array / plain(other))

    def __rtruediv__(self, other: Any) -> Any:
        return matrix_of(plain(other) / self.array)

    def __pow__(self, n: int) -> Any:
        return matrix_of(np.linalg.matrix_power(self.array, n))

    def __neg__(self) -> Any:
        return matrix_of(-self.array)

    def __abs__(self) -> Any:
        return matrix_of(abs(self.array))

    def __iadd__(self, other: Any) -> Any:
        self.array += plain(other)
        return self

    def __isub__(self, other: Any) -> Any:
        self.array -= plain(other)
        return self

    def __imul__(self, other: Any) -> Any:
        self.array[...] = product(self, other).array
        return self

    def __eq__(self, other: Any) -> Any:
        return matrix_of(self.array == plain(other))

    def __ne__(self, other: Any) -> Any:
        return matrix_of(self.array != plain(other))

    def __lt__(self, other: Any) -> Any:
        return matrix_of(self.array < plain(other))

    def __le__(self, other: Any) -> Any:
        return matrix_of(self.array <= plain(other))

    def __gt__(self, other: Any) -> Any:
        return matrix_of(self.array > plain(other))

    def __ge__(self, other: Any) -> Any:
        return matrix_of(self.array >= plain(other))

    def sum(self, axis: Any = None) -> Any:
        return np.sum(self.array) if axis is None else matrix_of(np.sum(self.array, axis=axis, keepdims=True))

    def mean(self, axis: Any = None) -> Any:
        return np.mean(self.array) if axis is None else matrix_of(np.mean(self.array, axis=axis, keepdims=True))

    def max(self, axis: Any = None) -> Any:
        return np.max(self.array) if axis is None else matrix_of(np.max(self.array, axis=axis, keepdims=True))

    def min(self, axis: Any = None) -> Any:
        return np.min(self.array) if axis is None else matrix_of(np.min(self.array, axis=axis, keepdims=True))

    def dot(self, other: Any) -> Any:
        return matrix_of(np.dot(self.array, plain(other)))

    def copy(self) -> Any:
        return Matrix(self.array)

    def transpose(self) -> Any:
        return matrix_of(self.array.T)

    def flatten(self) -> Any:
        return matrix_of(self.array.flatten())

    def item(self, *args: Any) -> Any:
        return self.array.item(*args)

    def tolist(self) -> Any:
        return self.array.tolist()


def product(a: Any, b: Any) -> Any:
    """Return ``a * b``, where at least one is a matrix."""
    x, y = plain(a), plain(b)
    if np.isscalar(x) or np.isscalar(y):
        return matrix_of(x * y)
    x, y = np.asarray(x), np.asarray(y)
    if isinstance(a, Matrix) and y.ndim < 2:
        y = y[None, :] if y.ndim == 1 else y.reshape(1, 1)
    return matrix_of(np.dot(x, y))


KEEP = frozenset((
    np.linalg.inv, np.linalg.pinv, np.linalg.cholesky, np.dot, np.matmul, np.transpose, np.zeros_like, np.ones_like,
    np.sqrt, np.exp, np.log, np.sin, np.cos, np.abs, np.negative, np.square, np.multiply, np.add, np.subtract,
    np.divide, np.hstack, np.vstack, np.concatenate,
))  # fmt: skip
DROP = frozenset((np.array, np.asarray, np.linalg.det, np.linalg.norm, np.shape, np.size, np.ndim))
METHODS = {np.sum: Matrix.sum, np.mean: Matrix.mean, np.max: Matrix.max, np.min: Matrix.min}
