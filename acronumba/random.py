"""Random numbers as pure functions of a key.

In: a `Key`, a shape. Out: an array of draws. There is no hidden counter: the same key gives the same draw in the plain
call, in any batch, order, thread and option set. Every function is plain NumPy that works on its own and is compiled
together with the model that calls it; `threefry`, the generator, is one operation to the compiler, with the function
here as its definition.

>>> from acronumba import random
>>> key = random.key(seed=7)
>>> bool(random.uniform(key.child(0)) == random.uniform(key.child(0)))
True

Number j of a draw, in row-major order, is a function of the key, of the kind of draw and of j alone: a longer draw
begins with the numbers of a shorter one. Draws of different kinds from one key are independent of each other; two draws
of one kind from one key are the same numbers. A key is therefore used once for each kind; `Key.child` gives more keys.

A key has 64 bits. Children of one key, and keys of one seed, are all different; of n keys of other descent two are
alike with a probability of about n * n / 2**65.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Threefry-2x32 has 20 rounds
where 13 pass all tests of BigCrush.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any  # np.ndarray, or a NumPy scalar for rank 0
Shape: TypeAlias = "int | tuple[int, ...]"

__all__ = ["Key", "bernoulli", "bits", "choice", "gumbel", "integers", "key", "keys", "normal", "threefry", "uniform"]

_WORD = 0xFFFFFFFF
_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)


def threefry(key: Array, counter: Array) -> Array:
    """Return 64 random bits for each key and counter: Threefry-2x32 with 20 rounds (Salmon et al. 2011, section 4.2).

    For one key this is a permutation of all 64-bit counters.

    Parameters
    ----------
    key, counter : uint64 array [...]
        Each two words of 32 bits, the first in the low half. The shapes broadcast.

    Returns
    -------
    uint64 array [...]
        Two words, the first in the low half.

    Raises
    ------
    TypeError
        If one of them is not uint64.
    """
    if np.asarray(key).dtype != np.uint64 or np.asarray(counter).dtype != np.uint64:
        raise TypeError("threefry needs a key and a counter of dtype uint64")
    if np.ndim(key) == 0 and np.ndim(counter) == 0:
        return np.uint64(_mix(int(key), int(counter)))  # Python's ints are faster than NumPy's scalars
    return _mix(np.asarray(key), np.asarray(counter))


def _mix(key: Any, counter: Any) -> Any:
    """The rounds, on ints or uint64 arrays; words stay below 2**32, so that sums do not overflow."""
    k0, k1 = key & _WORD, key >> 32
    keys = (k0, k1, k0 ^ k1 ^ 0x1BD11BDA)
    x, y = (counter & _WORD) + k0 & _WORD, (counter >> 32) + k1 & _WORD
    for n in range(20):
        r = _ROTATIONS[n % 8]
        x = x + y & _WORD
        y = (y << r | y >> 32 - r) & _WORD ^ x
        if n % 4 == 3:
            s = n // 4 + 1
            x = x + keys[s % 3] & _WORD
            y = y + keys[(s + 1) % 3] + s & _WORD
    return x | y << 32


@dataclass(frozen=True, slots=True)
class Key:
    """Key that random numbers are drawn from; made by `key` or `keys`, with further keys by `child`.

    A key is data like any other: a positional parameter, a field of a dataclass, an item of a list; it can be pickled.
    """

    bits: np.uint64  # the whole state of a key

    def child(self, n: Array) -> Key:
        """Return child key `n`, independent of this key, of draws from it, and of its other children.

        Parameters
        ----------
        n : int or integer scalar
            An integer of 64 bits, possibly negative. In a model it may be a computed one.

        Raises
        ------
        TypeError
            If `n` is not an integer.
        ValueError
            If `n` is an array of rank 1 or more.
        """
        return Key(_children(self, _counter(n)))


def _children(key: Key, numbers: Array) -> Array:
    """Return the bits of the children of these numbers."""
    return threefry(key.bits ^ np.uint64(0x6A09E667F3BCC908), numbers)


def _counter(n: Array) -> Array:
    """Return an integer as 64 bits."""
    if isinstance(n, int):
        return np.int64(n).astype(np.uint64)
    if isinstance(n, float) or (n.dtype.kind != "i" and n.dtype.kind != "u"):
        raise TypeError("the number of a key must be an integer")
    if np.ndim(n) != 0:
        raise ValueError("the number of a key must be a single integer, not an array")
    return n.astype(np.uint64)


def key(seed: int, i: int = 0) -> Key:
    """Return key number `i` of a seed.

    Parameters
    ----------
    seed, i : int
        Of 64 bits.

    Returns
    -------
    Key
        Independent of the keys of other numbers and seeds, also neighbouring ones.

    Raises
    ------
    TypeError
        If one of them is not an integer.
    OverflowError
        If one of them has more than 64 bits.

    Examples
    --------
    >>> from acronumba import random
    >>> random.key(1, 5)
    Key(bits=np.uint64(18273722486072653187))
    """
    return _root(seed).child(i)


def keys(seed: int, n: int) -> list[Key]:
    """Return the keys 0 to `n - 1` of a seed, one for each instance of a batch: ``[key(seed, i) for i in range(n)]``.

    Parameters
    ----------
    seed, n : int

    Returns
    -------
    list of Key
    """
    return [Key(b) for b in _children(_root(seed), np.arange(n, dtype=np.uint64))]


def _root(seed: int) -> Key:
    return Key(threefry(np.uint64(0x3C6EF372FE94F82B), _counter(seed)))


def _draw(key: Key, kind: Array, shape: Shape) -> Array:
    """Return 64 bits for each element; draws of different kinds are of different keys."""
    own = np.broadcast_to(key.bits ^ kind, shape)
    if own.ndim == 0:
        return threefry(own, np.uint64(0))
    return threefry(own, np.reshape(np.arange(own.size, dtype=np.uint64), own.shape))


def _is_double(dtype: Any) -> bool:
    if dtype != np.float32 and dtype != np.float64:
        raise TypeError("the dtype of random numbers must be np.float32 or np.float64")
    return bool(dtype == np.float64)


def bits(key: Key, shape: Shape = ()) -> Array:
    """Return random bits.

    Parameters
    ----------
    key : Key
    shape : int or tuple of int
        Here and in all other functions: of dimensions that may be known only at run time, such as ``len(xs)``.

    Returns
    -------
    uint64 array of `shape`
    """
    return _draw(key, np.uint64(0x1F83D9ABFB41BD6B), shape)


def uniform(key: Key, shape: Shape = (), dtype: Any = np.float32) -> Array:
    """Return uniformly distributed numbers in [0, 1).

    Parameters
    ----------
    key : Key
    shape : int or tuple of int
    dtype : np.float32 or np.float64

    Returns
    -------
    array of `shape`
        Multiples of 2**-24 (float64: of 2**-53), all equally likely.

    Raises
    ------
    TypeError
        If the dtype is another one.
    """
    word = _draw(key, np.uint64(0x5BE0CD19137E2179), shape)
    if _is_double(dtype):
        return (word >> 11).astype(np.int64).astype(np.float64) * 2.0**-53
    return (word >> 40).astype(np.int32).astype(np.float32) * 2.0**-24


def normal(key: Key, shape: Shape = (), dtype: Any = np.float32) -> Array:
    """Return numbers of the normal distribution with mean 0 and variance 1.

    Parameters
    ----------
    key : Key
    shape : int or tuple of int
    dtype : np.float32 or np.float64

    Returns
    -------
    array of `shape`
        Symmetric around 0, never 0 itself, up to 5.42 on both sides (float64: 8.21): the quantiles of 2**24 (2**52)
        equally likely probabilities.

    Raises
    ------
    TypeError
        If the dtype is another one.

    Notes
    -----
    The inverse distribution function of one uniform number: in float32 M. Giles, "Approximating the erfinv function"
    (2010), in float64 M. Wichura, "Algorithm AS241" (1988).
    """
    word = _draw(key, np.uint64(0x510E527FADE682D1), shape)
    if _is_double(dtype):
        return _quantile((2 * (word >> 12).astype(np.int64) - (2**52 - 1)).astype(np.float64) * 2.0**-53)
    x = (2 * (word >> 40).astype(np.int32) - (2**24 - 1)).astype(np.float32) * 2.0**-24  # between -1 and 1
    t = -np.log((1 - x) * (1 + x))
    near = _polynomial(t - 2.5, (
        2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
        0.246640727, 1.50140941,
    ))  # fmt: skip
    far = _polynomial(np.sqrt(t) - 3, (
        -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
        1.00167406, 2.83297682,
    ))  # fmt: skip
    return np.where(t < 5, near, far) * x * 1.4142135623730951


def _polynomial(x: Array, coefficients: tuple[float, ...]) -> Array:
    """Return a polynomial; the coefficient of the highest power comes first."""
    y: Array = coefficients[0]
    for c in coefficients[1:]:
        y = y * x + c
    return y


def _quantile(q: Array) -> Array:
    """Return the normal quantile of probability 1/2 + `q` in float64 (AS241)."""
    middle = 0.180625 - q * q
    tail = np.sqrt(-np.log(0.5 - np.abs(q)))
    # Hash sums of the coefficients: 55.88319 28806 14901 4439, 49.33206 50330 16102 89036, 47.52583 31754 92896 71629.
    inner = q * _polynomial(middle, (
        2.5090809287301226727e+3, 3.3430575583588128105e+4, 6.7265770927008700853e+4, 4.5921953931549871457e+4,
        1.3731693765509461125e+4, 1.9715909503065514427e+3, 1.3314166789178437745e+2, 3.3871328727963666080e+0,
    )) / _polynomial(middle, (
        5.2264952788528545610e+3, 2.8729085735721942674e+4, 3.9307895800092710610e+4, 2.1213794301586595867e+4,
        5.3941960214247511077e+3, 6.8718700749205790830e+2, 4.2313330701600911252e+1, 1.0,
    ))  # fmt: skip
    outer = _polynomial(tail - 1.6, (
        7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e+0,
        3.64784832476320460504e+0, 5.76949722146069140550e+0, 4.63033784615654529590e+0, 1.42343711074968357734e+0,
    )) / _polynomial(tail - 1.6, (
        1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
        6.89767334985100004550e-1, 1.67638483018380384940e+0, 2.05319162663775882187e+0, 1.0,
    ))  # fmt: skip
    last = _polynomial(tail - 5.0, (
        2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
        2.96560571828504891230e-1, 1.78482653991729133580e+0, 5.46378491116411436990e+0, 6.65790464350110377720e+0,
    )) / _polynomial(tail - 5.0, (
        2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
        1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0,
    ))  # fmt: skip
    out = np.where(tail <= 5.0, outer, last)
    return np.where(np.abs(q) <= 0.425, inner, np.sign(q) * out)[()]


def integers(key: Key, low: int, high: int, shape: Shape = ()) -> Array:
    """Return integers in [`low`, `high`).

    Parameters
    ----------
    key : Key
    low, high : int
        ``high - low`` is between 1 and 2**32.
    shape : int or tuple of int

    Returns
    -------
    int64 array of `shape`
        The probability of each number differs from ``1 / (high - low)`` by less than 2**-64: relatively, by at most
        2**-32.

    Raises
    ------
    ValueError
        If the interval from `low` to `high` is empty, or has more than 2**32 numbers.

    Notes
    -----
    The high half of the product of 64 random bits and ``high - low`` (D. Lemire, "Fast random integer generation in an
    interval", 2019), without its rejection, since a loop of unknown length would make a draw depend on more than its
    index.
    """
    if not 0 < high - low <= 2**32:
        raise ValueError("integers: high - low must be between 1 and 2**32")
    return low + _below(_draw(key, np.uint64(0x428A2F98D728AE22), shape), np.uint64(high - low))


def _below(word: Array, n: Array) -> Array:
    """Return the high 64 bits of the product with a number up to 2**32, as int64."""
    return (((word >> 32) * n + ((word & 0xFFFFFFFF) * n >> 32)) >> 32).astype(np.int64)


def gumbel(key: Key, shape: Shape = (), dtype: Any = np.float32) -> Array:
    """Return numbers of the Gumbel distribution, ``-log(-log(u))``, all finite.

    Parameters
    ----------
    key : Key
    shape : int or tuple of int
    dtype : np.float32 or np.float64

    Returns
    -------
    array of `shape`
        Between -3.61 and 36.75; computed in float64 and rounded. `u` is an odd multiple of 2**-53.

    Raises
    ------
    TypeError
        If the dtype is another one.
    """
    out = -np.log(_exponential(_draw(key, np.uint64(0x7137449123EF65CD), shape)))
    if _is_double(dtype):
        return out
    return out.astype(np.float32)


def _exponential(word: Array) -> Array:
    """Return numbers of the exponential distribution in float64, above 0 and finite."""
    return -np.log((2 * (word >> 12) + 1).astype(np.int64).astype(np.float64) * 2.0**-53)


def bernoulli(key: Key, p: Array = 0.5, shape: Shape | None = None) -> Array:
    """Return bools that are true with probability `p`.

    Parameters
    ----------
    key : Key
    p : float or array
        Probabilities; below 0 is never, above 1 always, NaN never.
    shape : int or tuple of int, optional
        By default that of `p`, which must broadcast to it.

    Returns
    -------
    bool array of `shape`
        Each independent of the others; the probability is `p` rounded up to a multiple of 2**-53.

    Raises
    ------
    ValueError
        If `p` does not broadcast to `shape`.
    """
    word = _draw(key, np.uint64(0x2DB43F5A0C8E9D17), np.shape(p) if shape is None else shape)
    return (word >> 11).astype(np.int64).astype(np.float64) * 2.0**-53 < np.broadcast_to(p, np.shape(word))


def choice(key: Key, p: Array, shape: Shape = ()) -> Array:
    """Return random indices, with replacement.

    Parameters
    ----------
    key : Key
    p : int or array [N]
        The number of items (all equally likely, as by `integers`); or a weight for each item, not negative, whose sum
        is above 0 but need not be 1.
    shape : int or tuple of int

    Returns
    -------
    int64 array of `shape`

    Raises
    ------
    ValueError
        If `p` is an int outside of 1 to 2**32, or an array of another rank.

    Notes
    -----
    With weights the first of N exponential clocks to ring, the clock of i at rate ``p[i]``: the same as the largest of
    ``log(p) + gumbel``. It takes N draws for each index, and never chooses a weight of 0.
    """
    if isinstance(p, int):
        if not 0 < p <= 2**32:
            raise ValueError("choice: the number of options must be between 1 and 2**32")
        return _below(_draw(key, np.uint64(0x4CF5AD432745937F), shape), np.uint64(p))
    if np.ndim(p) != 1:
        raise ValueError("choice: p must be an int or an array of rank 1")
    n = p.shape[0]
    whole = (shape, n) if isinstance(shape, int) else (*shape, n)
    clocks = _exponential(_draw(key, np.uint64(0x52DCE729DA3ED7B1), whole))
    return np.argmax(p.astype(np.float64) / clocks, axis=-1)
