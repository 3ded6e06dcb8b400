"""NumPy's functions of sorting, searching, sets, counting and quantiles, in the compiled language.

Two operations of the compiler, `np.argsort` and `place_among` (binary search), are the basis of the others. NaN comes
last, as in NumPy. Where NumPy leaves an order open (equal elements in `argsort` without `kind="stable"`, the two sides
of a `partition`), it is that of a stable sort.
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

UniqueAll = type(np.unique_all([0]))
UniqueCounts = type(np.unique_counts([0]))
UniqueInverse = type(np.unique_inverse([0]))


def places(x):
    """Return the rank of each element in sorted order, along the last axis."""
    return np.argsort(np.argsort(x))


@implements(np.sort, axis="flat", choices={"order": [None]})
def sort(a, axis, kind, stable, order):
    """Return a sorted copy."""
    a = np.asarray(a)
    if axis is None:
        a, axis = a.reshape(-1), 0
    return np.take_along_axis(a, np.argsort(a, axis), axis)


@implements(np.ndarray.sort, axis="one", choices={"order": [None]}, writes=True)
def sort_in_place(a, axis, kind, order, stable):
    """Sort an array in place."""
    a[...] = np.sort(a.copy(), axis)


def check_kth(a, kth, axis):
    n = np.size(a) if axis is None else np.shape(a)[axis]
    for k in kth if isinstance(kth, (tuple, list)) else (kth,):
        if isinstance(k, int) and n > 0 and not -n <= k < n:
            raise ValueError("kth out of bounds")


@implements(np.partition, axis="flat", choices={"order": [None]})
def partition(a, kth, axis, order):
    """Return a sorted copy, which is a valid partition at any `kth`."""
    check_kth(a, kth, axis)
    return np.sort(a, axis)


@implements(np.argpartition, np.ndarray.argpartition, axis="flat", choices={"order": [None]})
def argpartition(a, kth, axis, order):
    """Return the indices that sort an array, which is a valid partition at any `kth`."""
    check_kth(a, kth, axis)
    return np.argsort(a, axis)


@implements(np.lexsort)
def lexsort(keys, axis):
    """Return the indices that sort by several keys, of which the last is the primary one."""
    out = np.argsort(keys[0], axis)
    for k in range(1, len(keys)):
        if np.shape(keys[k]) != np.shape(keys[0]):
            raise ValueError("all keys need to be the same shape")
        out = np.take_along_axis(out, np.argsort(np.take_along_axis(np.asarray(keys[k]), out, axis), axis), axis)
    return out


def _place_among(w: Walker, a: Args) -> Val:
    return w.ops.search(a.tensor("a"), a.tensor("v"), a.flag("right"))


@primitive(rule=_place_among)
def place_among(a, v, right):
    """Return the indices at which to insert values in a sorted vector."""
    return np.searchsorted(a, v, side="right" if right else "left")


@implements(np.searchsorted, np.ndarray.searchsorted, choices={"side": ["left", "right"]})
def searchsorted(a, v, side):
    """Return how many elements of a sorted array precede each value, or with `side` "right" do not follow it.

    In an array that is not sorted, the result is the one that NumPy's binary search finds.
    """
    a, v = np.asarray(a), np.asarray(v)
    if a.ndim != 1:
        raise ValueError("object too deep for desired array")
    kind = np.result_type(a, v)
    return place_among(a.astype(kind), v.astype(kind), side == "right")


@implements(np.digitize)
def digitize(x, bins, right):
    """Return the index of the bin of each value; bins may increase or decrease."""
    bins = np.asarray(bins)
    rises, falls = np.all(bins[1:] >= bins[:-1]), np.all(bins[1:] <= bins[:-1])
    if not (rises | falls):
        raise ValueError("bins must be monotonically increasing or decreasing")
    up = np.searchsorted(bins, x, side="left" if right else "right")
    down = len(bins) - np.searchsorted(bins[::-1], x, side="right" if right else "left")
    return np.where(rises, up, down)[()]


# ---- indices of elements


COUNTS_ARE_INTS = isinstance(np.count_nonzero(()), int)  # up to NumPy 2.3


@implements(np.count_nonzero, axis="several")
def count_nonzero(a, axis, keepdims):
    """Return the number of nonzero elements."""
    found = np.sum(np.asarray(a) != 0, axis=axis, keepdims=keepdims, dtype=np.int64)
    if COUNTS_ARE_INTS and axis is None and not keepdims:
        return int(found)
    return found


@implements(np.flatnonzero)
def flatnonzero(a):
    """Return the indices of the nonzero elements of the flattened array."""
    return np.nonzero(np.ravel(a))[0]


@implements(np.argwhere)
def argwhere(a):
    """Return the indices of the nonzero elements, one row per element."""
    return np.stack(np.nonzero(a), axis=1)


@implements(np.extract)
def extract(condition, arr):
    """Return the elements at which a condition holds."""
    return np.ravel(arr)[np.nonzero(np.ravel(condition))[0]]


@implements(np.compress)
def compress(condition, a, axis):
    """Return the slices along an axis at which a condition holds."""
    a = np.asarray(a)
    if axis is None:
        return a.reshape(-1)[np.nonzero(condition)[0]]
    return np.take(a, np.nonzero(condition)[0], axis)


@implements(np.trim_zeros, choices={"trim": ["fb", "f", "b", "bf"]})
def trim_zeros(filt, trim):
    """Return a vector without its leading zeros, its trailing zeros, or both."""
    filt = np.asarray(filt)
    rest = np.nonzero(filt)[0]
    if len(rest) == 0:
        return filt[:0]
    first = rest[0] if trim in ("f", "fb", "bf") else 0
    last = rest[-1] + 1 if trim in ("b", "fb", "bf") else len(filt)
    return filt[int(first) : int(last)]


# ---- sets


def first_of(s):
    """Return the mask of elements of a sorted vector that differ from their predecessors; all NaN are equal."""
    new = s[1:] != s[:-1]
    if s.dtype.kind == "f":
        new = new & ~(np.isnan(s[1:]) & np.isnan(s[:-1]))
    return np.concatenate([np.ones(min(len(s), 1), np.bool_), new])


@implements(np.unique)
def unique(ar, return_index, return_inverse, return_counts, axis):
    """Return the sorted distinct elements, and on request their first indices, inverse indices and counts."""
    ar = np.asarray(ar)
    if axis is not None and ar.ndim > 1:
        return unique_rows(ar, return_index, return_inverse, return_counts, axis)
    flat = ar.reshape(-1)
    at = np.argsort(flat)
    s = flat[at]
    starts = first_of(s)
    found = np.nonzero(starts)[0]
    out = s[found]
    if not (return_index or return_inverse or return_counts):
        return out
    more = (out,)
    if return_index:
        more = (*more, at[found])
    if return_inverse:
        more = (*more, (np.cumsum(starts) - 1)[places(flat)].reshape(ar.shape))
    if return_counts:
        more = (*more, np.diff(np.concatenate([found, [len(s)]])))
    return more


def unique_rows(ar, return_index, return_inverse, return_counts, axis):
    """Return the distinct parts of an array along an axis, in the order of their elements; and more as `unique`."""
    parts = np.moveaxis(ar, axis, 0)
    n = parts.shape[0]
    rows = parts.reshape(n, ar.size // max(n, 1))
    at = np.arange(n)
    for k in range(rows.shape[1] - 1, -1, -1):
        at = at[np.argsort(rows[at, k], kind="stable")]
    s = rows[at]
    starts = np.concatenate([np.ones(min(n, 1), bool), np.any(s[1:] != s[:-1], axis=1)])
    found = np.nonzero(starts)[0]
    out = np.moveaxis(parts[at[found]], 0, axis)
    if not (return_index or return_inverse or return_counts):
        return out
    more = (out,)
    if return_index:
        more = (*more, at[found])
    if return_inverse:
        more = (*more, (np.cumsum(starts) - 1)[np.argsort(at)])
    if return_counts:
        more = (*more, np.diff(np.concatenate([found, [n]])))
    return more


@implements(np.unique_all)
def unique_all(x):
    """Return the sorted distinct elements, their first indices, the inverse indices and the counts."""
    values, index, inverse, counts = np.unique(x, True, True, True)
    return UniqueAll(values, index, inverse, counts)


@implements(np.unique_counts)
def unique_counts(x):
    """Return the sorted distinct elements, and their counts."""
    values, counts = np.unique(x, return_counts=True)
    return UniqueCounts(values, counts)


@implements(np.unique_inverse)
def unique_inverse(x):
    """Return the sorted distinct elements, and the inverse indices."""
    values, inverse = np.unique(x, return_inverse=True)
    return UniqueInverse(values, inverse)


@implements(np.isin)
def isin(element, test_elements, assume_unique, invert):
    """Return the mask of elements that occur in another array."""
    element = np.asarray(element)
    found = np.any(element[..., None] == np.ravel(test_elements), axis=-1)
    return np.asarray(~found if invert else found)


@implements(np.union1d)
def union1d(ar1, ar2):
    """Return the sorted distinct elements of both arrays."""
    return np.unique(np.concatenate([np.ravel(ar1), np.ravel(ar2)]))


@implements(np.intersect1d)
def intersect1d(ar1, ar2):
    """Return the sorted distinct elements that occur in both arrays."""
    a, b = np.unique(ar1), np.unique(ar2)
    kind = np.result_type(a, b)
    return a[np.isin(a, b)].astype(kind)


@implements(np.setdiff1d)
def setdiff1d(ar1, ar2):
    """Return the sorted distinct elements of the first array that do not occur in the second."""
    a = np.unique(ar1)
    return a[~np.isin(a, ar2)]


@implements(np.setxor1d)
def setxor1d(ar1, ar2):
    """Return the sorted distinct elements that occur in exactly one of two arrays."""
    a, b = np.unique(ar1), np.unique(ar2)
    return np.sort(np.concatenate([a[~np.isin(a, b)], b[~np.isin(b, a)]]))


@implements(np.bincount)
def bincount(x, weights, minlength):
    """Return the number of occurrences of each integer, or the sum of its weights."""
    if minlength < 0:
        raise ValueError("'minlength' must not be negative")
    x = np.asarray(x)
    if len(x) == 0:
        return np.zeros(minlength, np.int64)
    most = np.max(x)  # computed before the wait for the minimum
    if np.min(x) < 0:
        raise ValueError("'list' argument must have no negative elements")
    size = max(int(most) + 1, minlength)
    if weights is None:
        return nn.segment_sum(np.ones(len(x), np.int64), x, size)
    return nn.segment_sum(np.asarray(weights).astype(np.float64), x, size)


@implements(np.histogram)
def histogram(a, bins, range, density, weights):
    """Return the number of elements in each bin, or the sum of their weights, and the edges of the bins."""
    a = np.asarray(a)
    if a.dtype.kind == "b":
        a = a.astype(np.uint8)
    w = None if weights is None else np.asarray(weights).reshape(-1)
    a = a.reshape(-1)
    if isinstance(bins, str):
        rejected("the number of bins by a rule", "bins=10")
    if np.ndim(bins) == 0:
        edges = even_edges(a, int(bins), range)
        out = counted_evenly(a, edges, w)
    else:
        edges = np.asarray(bins)
        if np.any(edges[:-1] > edges[1:]):
            raise ValueError("`bins` must increase monotonically, when an array")
        out = counted(a, edges, w)
    if density is None or not density:
        return out, edges
    return out / np.diff(edges).astype(float) / out.sum(), edges


def even_edges(a, n, range):
    """Return the edges of bins of one width, in the dtype in which NumPy counts."""
    if n < 1:
        raise ValueError("`bins` must be positive, when an integer")
    kind = np.result_type(a, np.float64) if a.dtype.kind in "iu" else a.dtype
    if range is not None:
        low, high = float(range[0]), float(range[1])
        if low > high:
            raise ValueError("max must be larger than min in range parameter.")
    elif a.size == 0:
        return np.linspace(0.0, 1.0, n + 1).astype(kind)
    else:
        low, high = a.min().astype(kind), a.max().astype(kind)
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ValueError("a range that is not finite")
    if low == high:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, n + 1).astype(kind)
    if np.any(edges[:-1] >= edges[1:]):
        raise ValueError("Too many bins for data range.")
    return edges


def counted_evenly(a, edges, weights):
    """Return the histogram over bins of one width: indices are computed, then put right by one."""
    n = len(edges) - 1
    low, high = edges[0], edges[-1]
    inside = (a >= low) & (a <= high)
    x = a[inside].astype(edges.dtype)
    at = ((x - low) / (high - low) * n).astype(np.int64)
    at = np.where(at == n, n - 1, at)
    at = at - (x < edges[at])
    at = at + ((x >= edges[at + 1]) & (at != n - 1))
    if weights is None:
        return np.bincount(at, minlength=n)
    return np.bincount(at, weights[inside], n).astype(weights.dtype)


def counted(a, edges, weights):
    """Return the histogram over bins with given edges; the last bin has both of its edges."""
    at = np.argsort(a)
    s = a[at]
    places = np.concatenate([np.searchsorted(s, edges[:-1], "left"), np.searchsorted(s, edges[-1:], "right")])
    if weights is None:
        return np.diff(places)
    sums = np.concatenate([np.zeros(1, weights.dtype), np.cumsum(weights[at])])
    return np.diff(sums[places])


# ---- medians and quantiles


@implements(np.median)
def median(a, axis, keepdims):
    """Return the middle element in sorted order, or the mean of the middle two; NaN if any element is NaN."""
    a = np.asarray(a)
    whole = (1,) * a.ndim
    if axis is None:
        a = a.reshape(-1)
    at = 0 if axis is None else axis
    n = a.shape[at]
    if n == 0:
        out = np.mean(a, axis=at)
    else:
        s = np.sort(a, axis=at)
        s = s if s.dtype.kind == "f" else s.astype(np.float64)
        low, high = np.take(s, (n - 1) // 2, axis=at), np.take(s, n // 2, axis=at)
        middle = low if n % 2 else (low + high) / 2
        out = np.where(np.isnan(np.take(s, n - 1, axis=at)), s.dtype.type(np.nan), middle)[()]
    if keepdims:
        return out.reshape(whole) if axis is None else np.expand_dims(out, axis)
    return out


def between(s, q):
    """Return quantiles along the first axis, which is sorted, by linear interpolation."""
    n = s.shape[0]
    at = q * (n - 1)
    low = np.floor(at)
    t = at - low
    low = low.astype(np.int64)
    a, b = s[low], s[np.minimum(low + 1, n - 1)]
    shape = t.shape + (1,) * (s.ndim - 1)
    t = t.reshape(shape)
    near = np.where(t >= 0.5, b - (b - a) * (1 - t), a + (b - a) * t)
    return np.where(np.isnan(s[n - 1]), np.nan, near)


@implements(np.quantile)
def quantile(a, q, axis, keepdims):
    """Return quantiles, by linear interpolation."""
    a, q = np.asarray(a), np.asarray(q)
    kind = np.result_type(a, np.float64) if a.dtype.kind != "f" else a.dtype
    whole = (1,) * a.ndim
    if not np.all((q >= 0) & (q <= 1)):
        raise ValueError("Quantiles must be in the range [0, 1]")
    if axis is None:
        rows = a.reshape(-1)
    else:
        rows = np.moveaxis(a, axis, 0)
    if rows.shape[0] == 0:
        out = np.full(q.shape + rows.shape[1:], np.nan)
    else:
        out = between(np.sort(rows, axis=0).astype(kind), q)
    kind = np.result_type(kind, q) if q.ndim else kind
    out = out.astype(kind)
    if keepdims:
        out = (
            out.reshape(q.shape + whole) if axis is None else np.expand_dims(out, q.ndim + axis if axis >= 0 else axis)
        )
    return out[()]


@implements(np.percentile)
def percentile(a, q, axis, keepdims):
    """Return percentiles, by linear interpolation."""
    return np.quantile(a, np.asarray(q) / 100, axis=axis, keepdims=keepdims)


# ---- sorting by comparison


def order_by_comparison(keys, down):
    """Return the indices that sort keys, stably: a bottom-up merge sort that compares by `<` alone."""
    n = len(keys)
    order = [n - 1 - k if down else k for k in range(n)]
    width = 1
    while width < n:
        merged = [0] * 0
        low = 0
        while low < n:
            middle, high = min(low + width, n), min(low + 2 * width, n)
            i, j = low, middle
            while i < middle and j < high:
                if keys[order[j]] < keys[order[i]]:
                    merged.append(order[j])
                    j += 1
                else:
                    merged.append(order[i])
                    i += 1
            merged.extend(order[i:middle])
            merged.extend(order[j:high])
            low = high
        order = merged
        width *= 2
    return order[::-1] if down else order
