"""Weights in fewer bits: compressed arrays from `compress`, written in the language of models.

In: an array of float32. Out: a `Compressed`, which models accept in its place: its methods are the operations on
weights, and the compiler reads them like the user's own functions. `sums` alone is an operation of the compiler, with
the function here as its definition. So the plain call and the compiled model compute the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from acronumba.foreign import OfParts
from acronumba.memory import native

Array: TypeAlias = Any  # np.ndarray, or a NumPy scalar for rank 0

BITS = (2, 8)  # of codes that activations are rounded to: least and most
MOST = 127  # the largest code of 8 bits; -128 is not used, so that codes are symmetric
LONGEST = 1 << 16  # terms of a sum: more may not fit into 32 bits
LARGEST = 3.39e38  # magnitude of an element: the code of a larger one may decode to infinity


def sums(codes: Array, weights: Array) -> Array:
    """Return the products of rows of codes with the rows of a weight, exactly.

    Parameters
    ----------
    codes : int8 array [..., k]
        Of rank 1 or 2.
    weights : int8 array [n, k]

    Returns
    -------
    int32 array [..., n]
    """
    return np.matmul(codes.astype(np.float64), weights.T.astype(np.float64)).astype(np.int32)  # exact: below 2 ** 53


def whole_numbers(x: Array) -> Array:
    """Return the nearest integers as int8; ties are rounded to even.

    Parameters
    ----------
    x : float32 array [...]
        Between -127.5 and 127.5.

    Returns
    -------
    int8 array [...]
    """
    return np.rint(x).astype(np.int8)


def largest_code(bits: int) -> Array:
    """Return the largest code of `bits` bits, and 1 / it, float32 [2]; as data, so that a change compiles nothing."""
    most = (1 << bits - 1) - 1
    return np.array([most, 1 / most], np.float32)


def product(x: Array, codes: Array, scale: Array, most: Array) -> Array:
    """Return ``x @ (codes * scale[:, None]).T``, each row of `x` rounded to few bits first.

    Each row is scaled by its own largest magnitude. A row with NaN or infinity gives NaN; a row whose magnitude is
    below 1e-30, whose codes would overflow, counts as zeros.

    Parameters
    ----------
    x : float32 array [..., k]
    codes : int8 array [n, k]
    scale : float32 array [n]
    most : float32 array [2]
        The largest code of `x`, and 1 / it; see `largest_code`.

    Returns
    -------
    float32 array [..., n]
    """
    largest = np.max(np.abs(x), axis=-1, keepdims=True)
    some = (largest >= 1e-30) & (largest < np.inf)  # and not NaN
    by = most[0] / np.where(some, largest, 1)
    rounded = whole_numbers(np.where(some, x, 0) * by)
    step = np.where(largest < np.inf, largest * most[1], np.nan)
    return sums(rounded, codes).astype(np.float32) * scale * step


class Compressed(OfParts):
    """A compressed array in place of a float32 array; made by `acronumba.compress`.

    Attributes
    ----------
    kind : str
        The name of the kind in `compress`.
    choices : tuple of str
        Keyword arguments of `of`, besides the array: "bits", "vectors".
    nbytes : int
        In memory and in a file.
    """

    kind = ""
    choices: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The kind, with the number of bits that it rounds to if this is not 8."""
        return self.kind

    @staticmethod
    def unfit(array: Array) -> str | None:
        """Return the reason why an array cannot be compressed to this kind; None if it can."""
        raise NotImplementedError

    @staticmethod
    def of(array: Array) -> Compressed:
        """Return the nearest array of this kind."""
        raise NotImplementedError

    def whole(self) -> Array:
        """Return the represented array in float32."""
        raise NotImplementedError

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return self.whole() if dtype is None else self.whole().astype(dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        if ufunc is np.matmul and method == "__call__" and not kwargs:
            left, right = args
            return left.__matmul__(right) if isinstance(left, Compressed) else right.__rmatmul__(left)
        whole = [a.whole() if isinstance(a, Compressed) else a for a in args]
        return getattr(ufunc, method)(*whole, **kwargs)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in vars(self).values())

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def shape(self) -> tuple[int, ...]:
        raise NotImplementedError

    @property
    def dtype(self) -> Any:
        return np.dtype(np.float32)

    def astype(self, dtype: Any) -> Array:
        return self.whole().astype(dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __matmul__(self, x: Array) -> Array:
        return self.whole() @ x

    def __rmatmul__(self, x: Array) -> Array:
        return x @ self.whole()

    def __add__(self, x: Array) -> Array:
        return self.whole() + x

    def __radd__(self, x: Array) -> Array:
        return x + self.whole()

    def __sub__(self, x: Array) -> Array:
        return self.whole() - x

    def __rsub__(self, x: Array) -> Array:
        return x - self.whole()

    def __mul__(self, x: Array) -> Array:
        return self.whole() * x

    def __rmul__(self, x: Array) -> Array:
        return x * self.whole()

    def __truediv__(self, x: Array) -> Array:
        return self.whole() / x

    def __rtruediv__(self, x: Array) -> Array:
        return x / self.whole()

    def __neg__(self) -> Array:
        return -self.whole()


def _too_large(array: Array) -> str | None:
    return f"it has elements above {LARGEST}" if np.abs(array).max() > LARGEST else None


class OfCodes(Compressed):
    """A matrix of 8-bit integers and scales.

    Products with float32 (`w @ x`, `x @ w.T`) round the other operand to `bits` bits, too; see `product`.
    """

    choices: tuple[str, ...] = ("bits",)
    later: tuple[str, ...] = ("most",)

    codes: Array  # int8 [n, k]
    scale: Array  # float32 [n]: of the rows; or [1], of all
    most: Array  # float32 [2]: the largest code that the other operand of a product is rounded to, and 1 / it

    @property
    def bits(self) -> int:
        return int(self.most[0]).bit_length() + 1

    @property
    def title(self) -> str:
        return self.kind if self.bits == 8 else f"{self.kind}, {self.bits} bits"

    def whole(self) -> Array:
        return self.codes.astype(np.float32) * np.expand_dims(self.scale, -1)

    @property
    def T(self) -> Columns:  # NumPy's name
        return Columns(self)

    def __matmul__(self, x: Array) -> Array:
        if x.dtype != np.float32 or x.ndim > 2:
            return self.whole() @ x
        if x.ndim == 1:
            return product(x, self.codes, self.scale, self.most)
        return product(x.T, self.codes, self.scale, self.most).T


@dataclass(frozen=True, eq=False)
class Int8(OfCodes):
    """A matrix as 8-bit integers with one scale for each row."""

    kind = "int8"

    codes: Array  # int8 [n, k]
    scale: Array  # float32 [n]
    most: Array = field(default_factory=lambda: largest_code(8))

    @staticmethod
    def unfit(array: Array) -> str | None:
        return f"its rows have more than {LONGEST} elements" if array.shape[1] > LONGEST else _too_large(array)

    @staticmethod
    def of(array: Array, bits: int = 8) -> Int8:
        step = np.abs(array).max(axis=1) / np.float32(MOST)
        scale = np.where(step > 0, step, np.float32(1)).astype(np.float32)  # 0 below 1e-43, too
        codes = np.clip(np.rint(array / scale[:, None]), -MOST, MOST).astype(np.int8)
        return Int8(codes, scale, largest_code(bits))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.codes.shape  # type: ignore[no-any-return]

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, tuple):
            return self.whole()[i]
        if isinstance(i, slice):
            return Int8(self.codes[i], self.scale[i], self.most)
        return self.codes[i].astype(np.float32) * np.expand_dims(self.scale[i], -1)


@dataclass(frozen=True, eq=False)
class Columns(Compressed):
    """The transpose of a matrix of 8-bit integers."""

    rows: OfCodes

    def whole(self) -> Array:
        return self.rows.whole().T

    @property
    def shape(self) -> tuple[int, ...]:
        return self.rows.shape[::-1]

    @property
    def T(self) -> OfCodes:  # NumPy's name
        return self.rows

    def __rmatmul__(self, x: Array) -> Array:
        if x.dtype != np.float32 or x.ndim > 2:
            return x @ self.whole()
        return product(x, self.rows.codes, self.rows.scale, self.rows.most)


@dataclass(frozen=True, eq=False)
class Bfloat16(Compressed):
    """A matrix as the upper halves of its floats: eight bits of the mantissa are left."""

    kind = "bf16"

    halves: Array  # uint16 [n, k]

    @staticmethod
    def unfit(array: Array) -> str | None:
        return _too_large(array)

    @staticmethod
    def of(array: Array) -> Bfloat16:
        """Return the nearest matrix of this kind; of two, the one whose last bit is 0."""
        bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
        return Bfloat16(((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16))

    def whole(self) -> Array:
        return widened(self.halves)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.halves.shape  # type: ignore[no-any-return]

    @property
    def T(self) -> Array:  # NumPy's name
        return self.whole().T

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, tuple):
            return self.whole()[i]
        return Bfloat16(self.halves[i]) if isinstance(i, slice) else widened(self.halves[i])


# Factors, one per bit of an exponent, to scale a float of exponent 0: 2 to the 128 itself is no float32.
STEPS = ((1, 2.0), (2, 4.0), (4, 16.0), (8, 256.0), (16, 65536.0), (32, 2.0**32), (64, 2.0**64), (128, 2.0**64),
         (128, 2.0**64))  # fmt: skip


def widened(halves: Array) -> Array:
    """Return the floats with these upper halves, and lower halves of 0.

    Parameters
    ----------
    halves : uint16 array [...]
        Of finite floats.

    Returns
    -------
    float32 array [...]
    """
    bits = halves.astype(np.int32)
    exponent = bits >> 7 & 255
    digits = np.where(exponent > 0, 128, 0) + (bits & 127)
    size = digits.astype(np.float32) * 2.0**-133
    left = np.maximum(exponent, 1) - 1
    for bit, factor in STEPS:
        size = size * np.where(left & bit > 0, factor, 1).astype(np.float32)
    return np.where(bits < 32768, size, -size)


GROUP = 8  # neighbours in a row that are one vector of a pool
POOL = 256  # largest number of vectors of a pool: indices are bytes
LOOKED_UP = 64  # largest number of vectors whose sums are looked up, on CPUs with fast lookups
STEEPEST = 255  # sum of the magnitudes of a vector of such a pool: its products with codes of 8 bits fit 16 bits
_SAMPLE, _ROUNDS = 1 << 15, 20  # of the search for a pool: vectors that are looked at, and steps


@dataclass(frozen=True, eq=False)
class Pool(OfCodes):
    """A matrix whose rows consist of vectors of a pool, given by indices: the weight pools of Li & Gupta 2022.

    Few matrices are near such a matrix: train with the pool, see `compression.Pooled`.
    """

    kind = "pool"
    choices = ("bits", "vectors")

    index: Array  # uint8 [n, k / 8]
    pool: Array  # int8 [vectors, 8]
    scale: Array  # float32 [1]
    most: Array = field(default_factory=lambda: largest_code(8))

    @staticmethod
    def unfit(array: Array, vectors: int = POOL) -> str | None:
        if array.shape[1] % GROUP:
            return f"its rows have {array.shape[1]} elements, which is no multiple of {GROUP}"
        if array.size < 2 * vectors * GROUP:
            return f"it has {array.size} elements, too few for a pool of {vectors * GROUP}"
        return Int8.unfit(array)

    @staticmethod
    def of(array: Array, bits: int = 8, vectors: int = POOL) -> Pool:
        """Return a near matrix of this kind, by k-means that starts from some vectors of the matrix."""
        rows = np.reshape(array, (-1, GROUP))
        some = rows[np.random.default_rng(0).permutation(len(rows))[:_SAMPLE]]
        pool = some[:vectors].copy()
        for _ in range(_ROUNDS):
            sums, counts = summed(some, nearest(some, pool), vectors)
            pool = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], pool).astype(np.float32)
        return Pool.made_of(nearest(rows, pool).reshape(len(array), -1), pool, bits)

    @staticmethod
    def made_of(index: Array, pool: Array, bits: int = 8) -> Pool:
        """Return a matrix from the indices of its vectors, and the vectors, float32 [vectors, 8]."""
        step = np.abs(pool).max() / np.float32(MOST)
        if len(pool) <= LOOKED_UP:  # each code is rounded by a half at most
            step = np.maximum(step, np.abs(pool / (STEEPEST - GROUP // 2)).sum(axis=1).max())
        scale = np.where(step > 0, step, np.float32(1)).astype(np.float32)
        codes = np.clip(np.rint(pool / scale), -MOST, MOST).astype(np.int8)
        return Pool(index, codes, scale.reshape(1), largest_code(bits))

    @property
    def codes(self) -> Array:
        return rows_of(self.pool, self.index)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.index.shape[0], self.index.shape[1] * GROUP)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, tuple):
            return self.whole()[i]
        if isinstance(i, slice):
            return Pool(self.index[i], self.pool, self.scale, self.most)
        return rows_of(self.pool, self.index[i]).astype(np.float32) * self.scale


def rows_of(pool: Array, index: Array) -> Array:
    """Return the rows built from vectors of a pool; an index that is too large refers to the last vector.

    Parameters
    ----------
    pool : int8 array [vectors, 8]
    index : uint8 array [..., m]

    Returns
    -------
    int8 array [..., 8 m]
    """
    return np.reshape(np.take(pool, index, axis=0, mode="clip"), (*index.shape[:-1], index.shape[-1] * GROUP))


def nearest(vectors: Array, pool: Array) -> Array:
    """Return the indices of the nearest vectors of a pool, the first of equally near ones.

    Parameters
    ----------
    vectors : float32 array [m, 8]
    pool : float32 array [n, 8]

    Returns
    -------
    uint8 array [m]
    """
    out = np.empty(len(vectors), np.uint8)
    half = np.square(pool).sum(axis=1) / 2
    for start in range(0, len(vectors), _SAMPLE):
        out[start : start + _SAMPLE] = np.argmax(vectors[start : start + _SAMPLE] @ pool.T - half, axis=1)
    return out


def summed(vectors: Array, index: Array, n: int) -> tuple[Array, Array]:
    """Return the sum of the vectors of each of n indices, float64 [n, 8], and their number, int64 [n]."""
    sums = [np.bincount(native(index), weights=column, minlength=n) for column in vectors.T]
    return np.stack(sums, axis=1), np.bincount(native(index), minlength=n)


KINDS: dict[str, type[Compressed]] = {"int8": Int8, "bf16": Bfloat16, "pool": Pool}  # by their names for `compress`
