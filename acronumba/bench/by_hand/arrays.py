"""The operations that models batched by hand are written in, so that one text runs in NumPy and in PyTorch.

In: nothing. Out: `Library`, a table of functions; `by_numpy` and `by_torch` fill it with their fastest functions.
Operators and slices mean the same in both and are used as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

Array: TypeAlias = Any  # np.ndarray or torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """Functions that differ between NumPy and PyTorch. Functions that end in `_` change their first argument."""

    array: Callable[..., Array]  # of an array of NumPy, without a copy
    weight: Callable[..., Array]  # of a matrix [out, in]: as `product` wants it, [in, out]
    index: Callable[..., Array]  # of numbers of rows: int64
    host: Callable[..., Any]  # back to NumPy, without a copy
    empty: Callable[..., Array]  # float32 of a shape
    take: Callable[..., Array]  # (table, index): rows of a table
    put_: Callable[..., object]  # (table, index, rows)
    product: Callable[..., Array]  # (x, w)
    affine: Callable[..., Array]  # (b, x, w): b + x @ w
    add_product_: Callable[..., object]  # (y, x, w): y += x @ w
    products: Callable[..., Array]  # (a, b): of each pair of matrices
    multiply: Callable[..., Array]  # (a, b, out=)
    add_multiplied_: Callable[..., object]  # (y, a, b): y += a * b
    concat: Callable[..., Array]  # (arrays, axis)
    segment_sums: Callable[..., Array]  # (x, first row of each segment, segment of each row): none is empty
    sigmoid: Callable[..., Array]
    sigmoid_: Callable[..., object]
    tanh: Callable[..., Array]  # (x, out=)
    tanh_: Callable[..., object]
    relu_: Callable[..., object]
    gelu_: Callable[..., Array]  # returns its result, in place or not, as `gelu_tanh_` does
    gelu_tanh_: Callable[..., Array]
    softmax: Callable[..., Array]  # along the last axis, as all below
    log_softmax: Callable[..., Array]
    layer_norm: Callable[..., Array]  # (x, weight, bias): either may be None
    attention: Callable[..., Array]  # (q, k, v, causal=False, added=None): [..., T, D] each; added to the scores
    argmax: Callable[..., Array]
    top: Callable[..., tuple[Array, Array]]  # (x, k): the k largest values of each row, the largest first; where
