"""Functions of neural networks that NumPy lacks, as plain NumPy definitions.

In: arrays. Out: arrays of the same dtype (float32 stays float32). Every function is ordinary Python that works on its
own and is compiled together with the model that calls it. Only `sigmoid` and `erf` are operations of the compiler, with
these functions as their definition. There is no batch axis, in the arguments or in the code: a function sees the arrays
of one instance.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from acronumba import random

Array: TypeAlias = Any  # np.ndarray, or a NumPy scalar for rank 0

__all__ = [
    "attention",
    "avg_pool1d",
    "binary_cross_entropy",
    "conv1d",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "erf",
    "gelu",
    "gelu_tanh",
    "huber",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_sigmoid",
    "log_softmax",
    "logsumexp",
    "max_pool1d",
    "mse",
    "multi_head_attention",
    "one_hot",
    "relu",
    "rms_norm",
    "scale_gradient",
    "segment_sum",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "stop_gradient",
]


def sigmoid(x: Array) -> Array:
    """Return ``1 / (1 + exp(-x))``, without overflow for any `x`.

    Parameters
    ----------
    x : array [...]

    Returns
    -------
    array [...]
        Between 0 and 1, of the dtype of `x`.
    """
    e = np.exp(-np.abs(x))
    return np.where(np.greater_equal(x, 0), 1 / (1 + e), e / (1 + e))[()]


def erf(x: Array) -> Array:
    """Return the error function of each element.

    Parameters
    ----------
    x : array [...]

    Returns
    -------
    array [...]
        Between -1 and 1; computed in float64, rounded to the dtype of `x` (float64 for integers).
    """
    a = np.asarray(x)
    flat = np.array([math.erf(v) for v in a.ravel().tolist()], np.float64)
    return flat.reshape(a.shape).astype(a.dtype if a.dtype.kind == "f" else np.float64)[()]


def scale_gradient(x: Array, factor: float) -> Array:
    """Return `x`; gradients through it are multiplied by a factor (-1 reverses them).

    Parameters
    ----------
    x : array [...]
    factor : float
        A constant.

    Returns
    -------
    array [...]
        `x` itself.
    """
    return x


def stop_gradient(x: Array) -> Array:
    """Return `x`; no gradient flows through it.

    Parameters
    ----------
    x : array [...]

    Returns
    -------
    array [...]
        `x` itself.
    """
    return scale_gradient(x, 0.0)


def relu(x: Array) -> Array:
    """Return `x` where it is positive, else 0. Its derivative at 0 is 0.

    Parameters
    ----------
    x : array [...]

    Returns
    -------
    array [...]
    """
    return np.where(x <= 0, 0, x)[()]


def leaky_relu(x: Array, slope: float = 0.01) -> Array:
    """Return `x` where it is positive, else ``slope * x``.

    Parameters
    ----------
    x : array [...]
    slope : float

    Returns
    -------
    array [...]
    """
    return np.where(x <= 0, slope * x, x)[()]


def elu(x: Array, alpha: float = 1.0) -> Array:
    """Return `x` where it is positive, else ``alpha * (exp(x) - 1)`` (Clevert et al. 2016).

    Parameters
    ----------
    x : array [...]
    alpha : float

    Returns
    -------
    array [...]
    """
    return np.maximum(x, 0) + alpha * (np.exp(np.minimum(x, 0)) - 1)


def softplus(x: Array) -> Array:
    """Return ``log(1 + exp(x))``, without overflow, and exact to rounding for very negative `x`.

    Parameters
    ----------
    x : array [...]

    Returns
    -------
    array [...]
    """
    e = np.exp(-np.abs(x))
    u = 1 + e
    d = u - 1  # what of e survived in u: log(u) / d corrects for the rest (log1p after Kahan)
    rest = np.where(d == 0, e, np.log(u) * e / np.where(d == 0, 1, d))
    return np.maximum(x, 0) + rest


def log_sigmoid(x: Array) -> Array:
    """Return ``log(sigmoid(x))``, without overflow.

    Parameters
    ----------
    x : array [...]

    Returns
    -------
    array [...]
    """
    return -softplus(-x)


def silu(x: Array) -> Array:
    """Return ``x * sigmoid(x)``, also called swish (Elfwing et al. 2018).

    Parameters
    ----------
    x : array [...]

    Returns
    -------
    array [...]
    """
    return x * sigmoid(x)


def gelu(x: Array) -> Array:
    """Return ``x`` times the normal distribution function of ``x``, by `erf` (Hendrycks & Gimpel 2016).

    Parameters
    ----------
    x : array [...]

    Returns
    -------
    array [...]
    """
    return 0.5 * x * (1 + erf(x * 0.7071067811865476))


def gelu_tanh(x: Array) -> Array:
    """Return the approximation of `gelu` by tanh that GPT-2 uses.

    Parameters
    ----------
    x : array [...]

    Returns
    -------
    array [...]
    """
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def softmax(x: Array, axis: int = -1) -> Array:
    """Return ``exp(x)`` scaled to sum to 1 along an axis.

    Parameters
    ----------
    x : array [..., N, ...]
        At least one element along the axis must be finite.
    axis : int

    Returns
    -------
    array [..., N, ...]
    """
    e = np.exp(x - stop_gradient(np.max(x, axis=axis, keepdims=True)))
    return e / np.sum(e, axis=axis, keepdims=True)


def log_softmax(x: Array, axis: int = -1) -> Array:
    """Return the logarithm of `softmax`, without taking the logarithm of a small number.

    Parameters
    ----------
    x : array [..., N, ...]
        At least one element along the axis must be finite.
    axis : int

    Returns
    -------
    array [..., N, ...]
    """
    d = x - stop_gradient(np.max(x, axis=axis, keepdims=True))
    return d - np.log(np.sum(np.exp(d), axis=axis, keepdims=True))


def logsumexp(x: Array, axis: int = -1) -> Array:
    """Return ``log(sum(exp(x)))`` along an axis, without overflow.

    Parameters
    ----------
    x : array [..., N, ...]
        At least one element along the axis must be finite.
    axis : int

    Returns
    -------
    array [..., ...]
        Without the axis.
    """
    top = stop_gradient(np.max(x, axis=axis, keepdims=True))
    return stop_gradient(np.max(x, axis=axis)) + np.log(np.sum(np.exp(x - top), axis=axis))


def cross_entropy(logits: Array, label: Array, smoothing: float = 0.0) -> Array:
    """Return the negative logarithm of the probability that `softmax(logits)` gives to a label.

    Parameters
    ----------
    logits : array [..., N]
    label : int, integer array [...], or array [..., N]
        The class, or a probability for each class.
    smoothing : float
        The part of the probability that is shared by all classes (Szegedy et al. 2016, section 7).

    Returns
    -------
    array [...]
    """
    if isinstance(label, int):
        picked = logits[..., label]
    elif label.dtype.kind == "f":
        picked = np.sum(label * logits, axis=-1)
    else:
        picked = np.sum(np.where(np.arange(logits.shape[-1]) == np.expand_dims(label, -1), logits, 0), axis=-1)
    if smoothing != 0.0:
        picked = (1 - smoothing) * picked + smoothing * np.mean(logits, axis=-1)
    return logsumexp(logits) - picked


def binary_cross_entropy(logits: Array, target: Array) -> Array:
    """Return the mean negative logarithm of the probability that `sigmoid(logits)` gives to the target.

    Parameters
    ----------
    logits : array [...]
    target : float or array [...]
        0 or 1, or probabilities.

    Returns
    -------
    scalar
    """
    return np.mean(softplus(logits) - target * logits)


def mse(x: Array, y: Array) -> Array:
    """Return the mean square of the differences.

    Parameters
    ----------
    x, y : array [...]
        The shapes broadcast.

    Returns
    -------
    scalar
    """
    d = x - y
    return np.mean(d * d)


def huber(x: Array, y: Array, delta: float = 1.0) -> Array:
    """Return the mean of a loss that is square for small differences and linear for large ones (Huber 1964).

    Parameters
    ----------
    x, y : array [...]
        The shapes broadcast.
    delta : float
        Up to where a difference is small.

    Returns
    -------
    scalar
    """
    d = np.abs(x - y)
    return np.mean(np.where(d <= delta, 0.5 * d * d, delta * (d - 0.5 * delta)))


def dropout(x: Array, rate: float, key: random.Key) -> Array:
    """Return `x` with some elements zeroed and the others scaled to preserve the mean (Srivastava et al. 2014).

    Parameters
    ----------
    x : array [...]
    rate : float
        The part that becomes 0; below 1.
    key : random.Key
        The same key drops the same elements.

    Returns
    -------
    array [...]
    """
    kept = random.uniform(key, x.shape) >= rate
    return np.where(kept, x / (1 - rate), 0)[()]


def layer_norm(x: Array, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5) -> Array:
    """Return `x` with mean 0 and variance 1 along its last axis, then scaled and shifted (Ba et al. 2016).

    Parameters
    ----------
    x : array [..., N]
    weight, bias : array [N], optional
    eps : float
        Added to the variance.

    Returns
    -------
    array [..., N]
    """
    d = x - np.mean(x, axis=-1, keepdims=True)
    y = d / np.sqrt(np.mean(d * d, axis=-1, keepdims=True) + eps)
    if weight is not None:
        y = y * weight
    if bias is not None:
        y = y + bias
    return y


def rms_norm(x: Array, weight: Array | None = None, eps: float = 1e-6) -> Array:
    """Return `x` divided by the root of its mean square along the last axis, then scaled (Zhang & Sennrich 2019).

    Parameters
    ----------
    x : array [..., N]
    weight : array [N], optional
    eps : float
        Added to the mean square.

    Returns
    -------
    array [..., N]
    """
    y = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    if weight is not None:
        y = y * weight
    return y


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """Return ``x @ weight.T + bias``: each row of `weight` is one output.

    Parameters
    ----------
    x : array [..., N]
    weight : array [M, N]
    bias : array [M], optional

    Returns
    -------
    array [..., M]
    """
    y = x @ weight.T
    if bias is not None:
        y = y + bias
    return y


def embedding(table: Array, index: Array) -> Array:
    """Return the rows of a table.

    Parameters
    ----------
    table : array [V, ...]
    index : int or integer array [...]

    Returns
    -------
    array [..., ...]
        The shape of `index`, then that of a row.
    """
    return table[index]


def one_hot(index: Array, n: int) -> Array:
    """Return float32 vectors that are 1 at `index` and 0 elsewhere (0 everywhere if it is out of range).

    Parameters
    ----------
    index : int or integer array [...]
    n : int

    Returns
    -------
    float32 array [..., n]
    """
    if isinstance(index, int):
        return (np.arange(n) == index).astype(np.float32)
    return (np.arange(n) == np.expand_dims(index, -1)).astype(np.float32)


def _transposed(x: Array) -> Array:
    """Return the array with its last two axes exchanged; rank 2 or 3."""
    if x.ndim == 2:
        return x.T
    return np.transpose(x, (0, 2, 1))


def _seen(rows: int, columns: int, causal: bool, window: int | None) -> Array:
    """Return the mask of the keys that each query sees, by position; the last query is aligned with the last key."""
    i = np.arange(rows)[:, None] + (columns - rows)
    j = np.arange(columns)[None, :]
    if window is None:
        return j <= i
    if causal:
        return (j <= i) & (j > i - window)
    return (j < i + window) & (j > i - window)


def attention(
    q: Array, k: Array, v: Array, mask: Array | None = None, *, causal: bool = False, window: int | None = None
) -> Array:
    """Return scaled dot-product attention, ``softmax(q @ k.T / sqrt(D)) @ v`` (Vaswani et al. 2017).

    A query that sees no key gets the mean of `v`.

    Parameters
    ----------
    q : array [Q, D] or [heads, Q, D]
    k : array [K, D] or [heads, K, D]
    v : array [K, E] or [heads, K, E]
    mask : bool array [Q, K] or [heads, Q, K], optional
        False where a query must not see a key.
    causal : bool
        Whether a query sees no key behind its own place. The last query stands at the place of the last key: with
        Q = K each at its own, and one query sees all keys.
    window : int, optional
        A query sees keys that are less than `window` places from its own: 1 is its own alone. With `causal` these are
        the last `window` keys up to its own.

    Returns
    -------
    array [Q, E] or [heads, Q, E]
    """
    scores = q @ _transposed(k) * (1 / math.sqrt(q.shape[-1]))
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    if causal or window is not None:
        scores = np.where(_seen(q.shape[-2], k.shape[-2], causal, window), scores, -1e30)
    return softmax(scores) @ v


def multi_head_attention(
    x: Array,
    memory: Array,
    wq: Array,
    wk: Array,
    wv: Array,
    wo: Array,
    heads: int,
    mask: Array | None = None,
    *,
    causal: bool = False,
    window: int | None = None,
) -> Array:
    """Return attention of the rows of `x` over those of `memory`, in `heads` subspaces at once (Vaswani et al. 2017).

    Parameters
    ----------
    x : array [Q, N]
    memory : array [K, M]
        `x` itself for self-attention.
    wq : array [heads * D, N]
    wk : array [heads * D, M]
    wv : array [heads * E, M]
    wo : array [P, heads * E]
    heads : int
    mask : bool array [Q, K], optional
        False where a query must not see a key.
    causal, window
        As for `attention`.

    Returns
    -------
    array [Q, P]
    """
    q = np.transpose(np.reshape(x @ wq.T, (x.shape[0], heads, wq.shape[0] // heads)), (1, 0, 2))
    k = np.transpose(np.reshape(memory @ wk.T, (memory.shape[0], heads, wk.shape[0] // heads)), (1, 0, 2))
    v = np.transpose(np.reshape(memory @ wv.T, (memory.shape[0], heads, wv.shape[0] // heads)), (1, 0, 2))
    y = np.transpose(attention(q, k, v, mask, causal=causal, window=window), (1, 0, 2))
    return np.reshape(y, (x.shape[0], wv.shape[0])) @ wo.T


def _windows(
    x: Array, size: int, stride: int, padding: int | tuple[int, int], border: float, dilation: int = 1
) -> list[Array]:
    """Return for each offset in a window the rows of `x` at this offset, one row per window, with padding."""
    low, high = padding if isinstance(padding, tuple) else (padding, padding)
    last = low + x.shape[0] + high - 1 - (size - 1) * dilation
    if last < 0:
        raise ValueError("the window is longer than the sequence and its padding")
    if low != 0 or high != 0:
        before, behind = (np.full((k, *x.shape[1:]), border, x.dtype) for k in (low, high))
        x = np.concatenate([before, x, behind])
    end = last // stride * stride + 1
    return [x[k * dilation : k * dilation + end : stride] for k in range(size)]


def conv1d(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int = 1,
    padding: int | tuple[int, int] = 0,
    dilation: int = 1,
) -> Array:
    """Return the convolution of a sequence of rows: each window of rows times a weight, plus a bias.

    Parameters
    ----------
    x : array [N, C]
        The rows are steps, the columns channels.
    weight : array [M, C, K]
        The weights of each output and channel for the `K` rows of a window, as in PyTorch.
    bias : array [M], optional
    stride : int
        Distance between windows.
    padding : int, or a pair of ints
        Number of rows of zeros before and after the sequence: ``(K - 1, 0)`` makes it causal.
    dilation : int
        Distance between the rows of a window.

    Returns
    -------
    array [L, M]
        A row for each window: L is ``(N + padding before and behind - (K - 1) * dilation - 1) // stride + 1``.
        Where there is none, a ValueError.
    """
    rows = _windows(x, weight.shape[2], stride, padding, 0, dilation)
    y = np.concatenate(rows, axis=1) @ np.reshape(np.transpose(weight, (2, 1, 0)), (-1, weight.shape[0]))
    if bias is not None:
        y = y + bias
    return y


def max_pool1d(x: Array, size: int, stride: int | None = None, padding: int = 0) -> Array:
    """Return the largest of each window of rows.

    Parameters
    ----------
    x : array [N, ...]
    size : int
        Rows of a window.
    stride : int, optional
        How far the next window is; `size` if it is not given.
    padding : int
        How many rows that are smaller than all numbers stand before and behind the sequence.

    Returns
    -------
    array [L, ...]
        A row for each window, as of `conv1d`.
    """
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    rows = _windows(x, size, size if stride is None else stride, padding, least)
    out = rows[0]
    for row in rows[1:]:
        out = np.maximum(out, row)
    return out


def avg_pool1d(x: Array, size: int, stride: int | None = None, padding: int = 0) -> Array:
    """Return the mean of each window of rows.

    Parameters
    ----------
    x : array [N, ...]
    size : int
        Rows of a window.
    stride : int, optional
        How far the next window is; `size` if it is not given.
    padding : int
        How many rows of zeros stand before and behind the sequence; they count.

    Returns
    -------
    array [L, ...]
        A row for each window, as of `conv1d`.
    """
    rows = _windows(x, size, size if stride is None else stride, padding, 0)
    out = rows[0]
    for row in rows[1:]:
        out = out + row
    return out / size


def segment_sum(x: Array, ids: Array, n: int) -> Array:
    """Return the sum of the rows of each segment, added up in their order; 0 where a segment has none.

    Parameters
    ----------
    x : array [N, ...]
    ids : integer array [N]
        The segment of each row, from 0 to n - 1, in any order.
    n : int
        Number of segments.

    Returns
    -------
    array [n, ...]
        Of the dtype of `x` (int64 if that is bool).
    """
    if len(x) != len(ids):
        raise ValueError(f"{len(x)} rows, but {len(ids)} ids")
    out = np.zeros((n, *x.shape[1:]), np.int64 if x.dtype == bool else x.dtype)
    np.add.at(out, ids, x)
    return out
