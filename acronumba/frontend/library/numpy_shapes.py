"""NumPy's functions that make, rearrange, index and write arrays, in the compiled language."""

from __future__ import annotations

import math

import numpy as np

from acronumba import nn
from acronumba.frontend.library.decorators import implements, rejected

# ---- constructors


@implements(np.tri)
def tri(N, M, k, dtype):
    """Return a matrix of ones at and below a diagonal, and zeros above it."""
    columns = N if M is None else M
    return (np.arange(N)[:, None] >= np.arange(-k, columns - k)[None, :]).astype(dtype)


def below(m, k):
    """Return the mask of the last two axes that is true at and below a diagonal."""
    rows = m.shape[-1] if m.ndim == 1 else m.shape[-2]
    return np.arange(rows)[:, None] + k >= np.arange(m.shape[-1])[None, :]


@implements(np.tril)
def tril(m, k):
    """Return an array with zeros above a diagonal."""
    m = np.asarray(m)
    return np.where(below(m, k), m, m.dtype.type(0))


@implements(np.triu)
def triu(m, k):
    """Return an array with zeros below a diagonal."""
    m = np.asarray(m)
    return np.where(below(m, k - 1), m.dtype.type(0), m)


@implements(np.diagonal, np.ndarray.diagonal)
def diagonal(a, offset, axis1, axis2):
    """Return the elements on a diagonal."""
    a = np.moveaxis(np.asarray(a), (axis1, axis2), (-2, -1))
    n = max(min(a.shape[-2] - max(-offset, 0), a.shape[-1] - max(offset, 0)), 0)
    k = np.arange(n)
    return a[..., k + max(-offset, 0), k + max(offset, 0)]


@implements(np.diag)
def diag(v, k):
    """Return a matrix with a vector on a diagonal, or the diagonal of a matrix."""
    v = np.asarray(v)
    if v.ndim == 2:
        return np.diagonal(v, k)
    n = v.shape[0] + abs(k)
    on = np.arange(n)[:, None] + k == np.arange(n)[None, :]
    padded = np.concatenate([np.zeros(max(k, 0), v.dtype), v, np.zeros(max(-k, 0), v.dtype)])
    return np.where(on, padded[None, :], v.dtype.type(0))


@implements(np.diagflat)
def diagflat(v, k):
    """Return a matrix with the flattened elements on a diagonal."""
    return np.diag(np.ravel(v), k)


@implements(np.trace, np.ndarray.trace)
def trace(a, offset, axis1, axis2, dtype):
    """Return the sum of a diagonal."""
    return np.sum(np.diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


@implements(np.vander)
def vander(x, N, increasing):
    """Return the Vandermonde matrix: a row of powers per number."""
    x = np.asarray(x)
    n = len(x) if N is None else N
    kind = np.promote_types(x.dtype, np.int64)
    out = np.concatenate(
        [np.ones((len(x), min(n, 1)), kind), np.broadcast_to(x[:, None], (len(x), max(n - 1, 0)))], axis=1
    )
    out = np.multiply.accumulate(out.astype(kind), axis=1)
    return out if increasing else out[:, ::-1]


@implements(np.linspace)
def linspace(start, stop, num, endpoint, dtype):
    """Return evenly spaced numbers."""
    if num < 0:
        raise ValueError("Number of samples must be non-negative.")
    start = (np.asarray(start) if np.ndim(start) else start) * 1.0  # Python's numbers stay weak
    stop = (np.asarray(stop) if np.ndim(stop) else stop) * 1.0
    kind = np.result_type(start, stop, float(num))
    parts = num - 1 if endpoint else num
    y = np.arange(0, num).reshape((num,) + (1,) * max(np.ndim(start), np.ndim(stop))).astype(kind)
    delta = stop - start
    if parts > 0:
        y = np.where(delta / parts == 0, y / parts * delta, y * (delta / parts)) + start
    else:
        y = y * delta + start
    if endpoint and num > 1:
        last = np.broadcast_to(np.asarray(stop).astype(kind), y.shape[1:])
        y = np.concatenate([y[:-1], last[None]])
    if dtype is None:
        return y.astype(kind)
    return np.floor(y).astype(dtype) if np.dtype(dtype).kind in ("i", "u") else y.astype(dtype)


@implements(np.logspace)
def logspace(start, stop, num, endpoint, base):
    """Return powers of a base with evenly spaced exponents."""
    return np.power(base, np.linspace(start, stop, num, endpoint))


@implements(np.geomspace)
def geomspace(start, stop, num, endpoint):
    """Return a geometric sequence from `start` to `stop`."""
    start, stop = np.asarray(start).astype(np.float64), np.asarray(stop).astype(np.float64)
    if np.any(start == 0) or np.any(stop == 0):
        raise ValueError("Geometric sequence cannot include zero")
    way = np.sign(start)
    start, stop = start / way, stop / way
    out = np.power(10.0, np.linspace(np.log10(start), np.log10(stop), num, endpoint))
    if num > 0:
        out = np.concatenate([np.broadcast_to(start, out.shape[1:])[None], out[1:]])
    if num > 1 and endpoint:
        out = np.concatenate([out[:-1], np.broadcast_to(stop, out.shape[1:])[None]])
    return out * way


@implements(np.tril_indices)
def tril_indices(n, k, m):
    """Return the indices of the elements at and below a diagonal."""
    return np.nonzero(np.tri(n, m, k, bool))


@implements(np.triu_indices)
def triu_indices(n, k, m):
    """Return the indices of the elements at and above a diagonal."""
    return np.nonzero(~np.tri(n, m, k - 1, bool))


@implements(np.hanning)
def hanning(M):
    """Return the Hann window."""
    n = np.arange(1 - M, M, 2)
    return np.ones(M) if M == 1 else 0.5 + 0.5 * np.cos(np.pi * n / (M - 1))


@implements(np.hamming)
def hamming(M):
    """Return the Hamming window."""
    n = np.arange(1 - M, M, 2)
    return np.ones(M) if M == 1 else 0.54 + 0.46 * np.cos(np.pi * n / (M - 1))


# ---- rearrangement


@implements(np.repeat, np.ndarray.repeat)
def repeat(a, repeats, axis):
    """Return an array with each element, or slice along an axis, repeated."""
    a = np.asarray(a)
    if axis is None:
        a, axis = a.reshape(-1), 0
    axis = axis % a.ndim
    times = np.asarray(repeats)
    if np.any(times < 0) if not isinstance(repeats, int) else repeats < 0:
        raise ValueError("repeats may not contain negative values.")
    if times.ndim == 0:
        rows = np.arange(a.shape[axis] * int(times)) // max(int(times), 1)
        return np.take(a, rows, axis)
    times = np.broadcast_to(times, (a.shape[axis],))
    ends = np.cumsum(times)
    return np.take(a, np.searchsorted(ends, np.arange(int(np.sum(times))), side="right"), axis)


@implements(np.roll, axis="several")
def roll(a, shift, axis):
    """Return elements shifted along an axis; those beyond its end come first."""
    a = np.asarray(a)
    if axis is None:
        return np.roll(a.reshape(-1), shift, 0).reshape(a.shape)
    if isinstance(axis, tuple):
        for k in range(len(axis)):
            a = np.roll(a, shift if not isinstance(shift, tuple) else shift[k if len(shift) > 1 else 0], axis[k])
        return a
    n = a.shape[axis]
    return np.take(a, (np.arange(n) - shift) % max(n, 1), axis)


@implements(np.fliplr)
def fliplr(m):
    """Return an array with its second axis reversed."""
    return np.asarray(m)[:, ::-1]


@implements(np.flipud)
def flipud(m):
    """Return an array with its first axis reversed."""
    return np.asarray(m)[::-1]


@implements(np.rot90)
def rot90(m, k, axes):
    """Return an array rotated by k times 90 degrees in the plane of two axes."""
    m = np.asarray(m)
    if axes[0] % m.ndim == axes[1] % m.ndim:
        raise ValueError("Axes must be different.")
    turns = k % 4
    if turns == 0:
        return m.copy()
    if turns == 2:
        return np.flip(np.flip(m, axes[0]), axes[1])
    if turns == 1:
        return np.swapaxes(np.flip(m, axes[1]), axes[0], axes[1])
    return np.flip(np.swapaxes(m, axes[0], axes[1]), axes[1])


@implements(np.rollaxis)
def rollaxis(a, axis, start):
    """Return an array with an axis moved before another one."""
    a = np.asarray(a)
    axis, start = axis % a.ndim, start + a.ndim if start < 0 else start
    return np.moveaxis(a, axis, start - 1 if axis < start else start)


@implements(np.append)
def append(arr, values, axis):
    """Return two arrays, concatenated."""
    if axis is None:
        return np.concatenate([np.ravel(arr), np.ravel(values)])
    return np.concatenate([np.asarray(arr), np.asarray(values)], axis=axis)


@implements(np.insert)
def insert(arr, obj, values, axis):
    """Return an array with values inserted before one index of an axis."""
    arr = np.asarray(arr)
    if axis is None:
        arr, axis = arr.reshape(-1), 0
    n = arr.shape[axis]
    at = int(obj)
    if at < -n or at > n:
        raise IndexError("index is out of bounds for the axis")
    at = at + n if at < 0 else at
    a = np.moveaxis(arr, axis, 0)
    new = np.broadcast_to(np.asarray(values).astype(arr.dtype), (1, *a.shape[1:]))
    return np.moveaxis(np.concatenate([a[:at], new, a[at:]]), 0, axis)


@implements(np.delete)
def delete(arr, obj, axis):
    """Return an array without one index of an axis."""
    arr = np.asarray(arr)
    if axis is None:
        arr, axis = arr.reshape(-1), 0
    n = arr.shape[axis]
    at = int(obj)
    if at < -n or at >= n:
        raise IndexError("index is out of bounds for the axis")
    at = at + n if at < 0 else at
    rows = np.arange(max(n - 1, 0))
    return np.take(arr, np.where(rows < at, rows, rows + 1), axis)


@implements(np.resize)
def resize(a, new_shape):
    """Return an array of a given shape, filled by repeating the elements."""
    flat = np.ravel(a)
    shape = new_shape if isinstance(new_shape, tuple) else (new_shape,)
    total = 1
    for n in shape:
        if n < 0:
            raise ValueError("all elements of `new_shape` must be non-negative")
        total *= n
    return flat[np.arange(total) % max(len(flat), 1)].reshape(shape)


# ---- look-ups


@implements(np.take_along_axis, axis="flat")
def take_along_axis(arr, indices, axis):
    """Return the elements at given indices along an axis."""
    arr, indices = np.asarray(arr), np.asarray(indices)
    if axis is None:
        if indices.ndim != 1:
            raise ValueError("when axis=None, `indices` must have a single dimension.")
        return arr.reshape(-1)[indices]
    if arr.ndim == 1:
        return arr[indices]
    rows, at = np.moveaxis(arr, axis, -1), np.moveaxis(indices, axis, -1)
    if arr.ndim == 2:
        found = rows[np.arange(rows.shape[0])[:, None], at]
    elif arr.ndim == 3:
        found = rows[np.arange(rows.shape[0])[:, None, None], np.arange(rows.shape[1])[:, None], at]
    else:
        lead = rows.shape[:-1]
        flat = rows.reshape(-1, rows.shape[-1])
        flat_at = np.broadcast_to(at, lead + at.shape[-1:]).reshape(-1, at.shape[-1])
        found = flat[np.arange(flat.shape[0])[:, None], flat_at].reshape(lead + at.shape[-1:])
    return np.moveaxis(found, -1, axis)


@implements(np.unravel_index, choices={"order": ["C"]})
def unravel_index(indices, shape, order):
    """Return the index on each axis of flat (C order) indices."""
    if isinstance(indices, int) and not 0 <= indices < math.prod(shape):
        raise ValueError("the index is out of bounds for the shape")
    at = np.asarray(indices)
    out = ()
    for k in range(len(shape) - 1, 0, -1):
        out = (at % shape[k], *out)
        at = at // shape[k]
    return (at, *out)


@implements(np.ravel_multi_index, choices={"order": ["C"]})
def ravel_multi_index(multi_index, dims, order):
    """Return the flat (C order) indices of indices on each axis."""
    for k in range(len(dims)):
        if isinstance(multi_index[k], int) and not 0 <= multi_index[k] < dims[k]:
            raise ValueError("invalid entry in coordinates array")
    out = np.asarray(multi_index[0])
    for k in range(1, len(dims)):
        out = out * dims[k] + np.asarray(multi_index[k])
    return out[()]


@implements(np.interp)
def interp(x, xp, fp, left, right):
    """Return the piecewise linear interpolant of given points at x."""
    xp, fp, x = np.asarray(xp) * 1.0, np.asarray(fp) * 1.0, np.asarray(x) * 1.0
    n = len(xp)
    at = np.minimum(np.maximum(np.searchsorted(xp, x, side="right") - 1, 0), max(n - 2, 0))
    after = np.minimum(at + 1, n - 1)
    slope = (fp[after] - fp[at]) / np.where(xp[after] == xp[at], 1, xp[after] - xp[at])
    y = slope * (x - xp[at]) + fp[at]
    y = np.where(x == xp[n - 1], fp[n - 1], y)
    y = np.where(x > xp[n - 1], fp[n - 1] if right is None else right, y)
    y = np.where(x < xp[0], fp[0] if left is None else left, y)
    return np.where(np.isnan(x), x, y)[()]


# ---- frequencies


@implements(np.fft.fftfreq)
def fftfreq(n, d):
    """Return the sample frequencies of a discrete Fourier transform."""
    if n < 0:
        raise ValueError("negative dimensions are not allowed")
    k = np.arange(n)
    return np.where(k < (n - 1) // 2 + 1, k, k - n) * (1.0 / (n * d))


@implements(np.fft.rfftfreq)
def rfftfreq(n, d):
    """Return the sample frequencies of a discrete Fourier transform of real input."""
    return np.arange(n // 2 + 1) * (1.0 / (n * d))


@implements(np.fft.fftshift)
def fftshift(x, axes):
    """Return an array with the zero frequency moved from the start to the middle of axes."""
    x = np.asarray(x)
    for k in range(x.ndim) if axes is None else axes if isinstance(axes, tuple) else (axes,):
        x = np.roll(x, x.shape[k] // 2, k)
    return x


@implements(np.fft.ifftshift)
def ifftshift(x, axes):
    """Return an array with the zero frequency moved from the middle to the start of axes."""
    x = np.asarray(x)
    for k in range(x.ndim) if axes is None else axes if isinstance(axes, tuple) else (axes,):
        x = np.roll(x, -(x.shape[k] // 2), k)
    return x


@implements(np.unwrap)
def unwrap(p, discont, axis, period):
    """Return angles with jumps of more than half a period removed."""
    p = np.moveaxis(np.asarray(p), axis, -1)
    step = np.diff(p)  # integers in their own dtype, as in NumPy
    if p.dtype.kind != "f":
        p = p.astype(np.float64)
    half = period / 2
    jump = np.mod(step + half, period) - half
    jump = np.where((jump == -half) & (step > 0), half, jump)
    change = np.where(np.abs(step) < (half if discont is None else discont), 0, jump - step)
    return np.moveaxis(np.concatenate([p[..., :1], p[..., 1:] + np.cumsum(change, axis=-1)], axis=-1), -1, axis)


# ---- writes


@implements(np.put_along_axis, writes=True)
def put_along_axis(arr, indices, values, axis):
    """Write values at given indices along an axis."""
    if arr.ndim == 1:
        arr[indices] = values
    elif arr.ndim == 2 and axis in (1, -1):
        arr[np.arange(arr.shape[0])[:, None], indices] = values
    elif arr.ndim == 2 and axis in (0, -2):
        arr[indices, np.arange(arr.shape[1])[None, :]] = values
    else:
        rejected("np.put_along_axis of more than two axes", "x[i, j, k] = v")


@implements(np.fill_diagonal, writes=True)
def fill_diagonal(a, val):
    """Write to the diagonal of a matrix."""
    if a.ndim != 2:
        rejected("np.fill_diagonal of an array that is not a matrix", "x[k, k, k] = v")
    k = np.arange(min(a.shape[0], a.shape[1]))
    a[k, k] = val


@implements(np.copyto, writes=True)
def copyto(dst, src):
    """Copy values into an array."""
    dst[...] = src


def place_by_place(f, sums):
    """Return the method `at` of a ufunc: an index that occurs twice is updated twice, in order.

    With `sums`, the updates of each element are summed first: one operation in place of a loop.
    """

    def at(a, indices, b):
        index = indices if isinstance(indices, slice | tuple) else np.asarray(indices)
        if isinstance(index, slice | tuple) or index.dtype == bool or index.ndim > 1:
            rejected("ufunc.at with indices other than one array of ints", "a loop: x[i] += v")
        b = np.asarray(b) if isinstance(b, list | tuple) else b
        if np.result_type(a, b) != a.dtype:
            rejected("ufunc.at of values of another dtype", "values.astype(x.dtype)")
        values = np.broadcast_to(b, (*index.shape, *a.shape[1:]))
        if index.ndim == 0:
            a[index] = f(a[index], values)
        elif sums and a.dtype.kind != "b":
            more = nn.segment_sum(values, index, a.shape[0])
            if a.dtype.kind == "f":  # -0 stays where nothing is added
                more = np.where(more == 0, a.dtype.type(-0.0 if f is np.add else 0.0), more)
            a[...] = f(a, more)
        else:
            for k in range(len(index)):
                a[index[k]] = f(a[index[k]], values[k])

    return at


for _f in (np.add, np.subtract, np.multiply, np.maximum, np.minimum):
    implements(_f.at, writes=True)(place_by_place(_f, _f in (np.add, np.subtract)))


# ---- borders, for `np.pad`


def bordered(x, axis, low, high, first, last):
    """Return an array padded with constants before and after an axis."""
    rows = np.moveaxis(x, axis, 0)
    before = np.full((low, *rows.shape[1:]), np.asarray(first).astype(x.dtype))
    after = np.full((high, *rows.shape[1:]), np.asarray(last).astype(x.dtype))
    return np.moveaxis(np.concatenate([before, rows, after]), 0, axis)


def continued(x, axis, low, high, mode):
    """Return an array padded along an axis with its own elements, as `mode` says."""
    n = x.shape[axis]
    if n == 0:
        raise ValueError("can't extend empty axis using modes other than 'constant' or 'empty'")
    at = np.arange(-low, n + high)
    if mode == "edge":
        at = np.clip(at, 0, n - 1)
    elif mode == "wrap":
        at = at % n
    elif mode == "reflect":
        at = at % max(2 * n - 2, 1)
        at = np.where(at >= n, 2 * n - 2 - at, at)
    else:
        at = at % (2 * n)
        at = np.where(at >= n, 2 * n - 1 - at, at)
    return np.take(x, at, axis)


@implements(np.apply_along_axis)
def apply_along_axis(func1d, axis, arr):
    """Return an array with each vector along an axis replaced by a function's result for it."""
    arr = np.asarray(arr)
    axis = axis % arr.ndim
    rest = tuple(n for k, n in enumerate(arr.shape) if k != axis)
    rows = np.moveaxis(arr, axis, -1).reshape((-1, arr.shape[axis]))
    if rows.shape[0] == 0:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    out = np.array([np.asanyarray(func1d(row)) for row in rows])
    out = out.reshape((*rest, *out.shape[1:]))
    if out.ndim == len(rest):
        return out
    made = tuple(k for k, _ in enumerate(out.shape) if k >= len(rest))
    return np.moveaxis(out, made, tuple(k - len(rest) + axis for k in made))


@implements(np.piecewise)
def piecewise(x, condlist, funclist):
    """Return the results of functions, or constants, each where its condition holds."""
    x = np.asarray(x)
    if x.ndim == 0:
        rejected("np.piecewise of a number", "if and else")
    several = isinstance(condlist, list | tuple)
    if not several and len(condlist) == 0:
        raise IndexError("index 0 is out of bounds for axis 0 with size 0")
    conditions = condlist if several else [condlist]
    out = np.zeros_like(x)
    rest = np.ones(x.shape, bool)
    for condition, function in zip(conditions, funclist, strict=False):
        put_where(out, x, condition, function)
        rest = rest & ~condition
    if len(funclist) > len(conditions):
        put_where(out, x, rest, funclist[-1])
    return out


def put_where(out, x, condition, function):
    if not callable(function):
        out[condition] = function
    else:
        part = x[condition]
        if part.size > 0:
            out[condition] = function(part)


def vectorize(pyfunc, otypes=None):
    """Return a function that calls one of numbers for each element of arrays."""
    return lambda *args: vectorized(pyfunc, otypes, *args)


def vectorized(function, otypes, *args):
    arrays = np.broadcast_arrays(*args)
    flat = [a.reshape(-1) for a in arrays]
    if otypes is None:
        if flat[0].size == 0:
            raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
        kind = np.asarray(function(*[a[0] for a in flat])).dtype  # as NumPy takes it from the first result
    else:
        kind = np.dtype(otypes[0])
    out = [kind.type(function(*[a[k].item() for a in flat])) for k in range(flat[0].size)]
    return np.array(out, kind).reshape(arrays[0].shape)
