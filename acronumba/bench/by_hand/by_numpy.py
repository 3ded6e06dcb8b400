"""NumPy as a `Library`: products by its BLAS, other operations in place if that saves an array."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from acronumba import nn
from acronumba.bench.by_hand.arrays import Array, Library


def _index(numbers: Any) -> Array:
    return np.asarray(numbers, np.int64)


def _put_(table: Array, index: Array, rows: Array) -> None:
    table[index] = rows


def _affine(b: Array, x: Array, w: Array) -> Array:
    y = x @ w
    y += b
    return y


def _add_product_(y: Array, x: Array, w: Array) -> None:
    y += x @ w


def _add_multiplied_(y: Array, a: Array, b: Array) -> None:
    y += a * b


def _segment_sums(x: Array, first: Array, segment: Array) -> Array:
    return np.add.reduceat(x, first, axis=0)


def _sigmoid_(x: Array) -> Array:
    """The arguments here are far from overflow."""
    np.negative(x, out=x)
    np.exp(x, out=x)
    x += 1
    return np.reciprocal(x, out=x)


def _gelu_(x: Array) -> Array:
    t = nn.erf(x * math.sqrt(0.5))
    t += 1
    t *= 0.5
    t *= x
    return t


def _gelu_tanh_(x: Array) -> Array:
    t = x * x
    t *= x
    t *= 0.044715
    t += x
    t *= math.sqrt(2 / math.pi)
    np.tanh(t, out=t)
    t += 1
    t *= 0.5
    t *= x
    return t


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    e /= e.sum(axis=-1, keepdims=True)
    return e


def _log_softmax(x: Array) -> Array:
    d = x - x.max(axis=-1, keepdims=True)
    d -= np.log(np.exp(d).sum(axis=-1, keepdims=True))
    return d


def _layer_norm(x: Array, weight: Array | None, bias: Array | None) -> Array:
    y = x - x.mean(axis=-1, keepdims=True)
    y /= np.sqrt(np.square(y).mean(axis=-1, keepdims=True) + 1e-5)  # einsum would sum less exactly
    if weight is not None:
        y *= weight
    if bias is not None:
        y += bias
    return y


def _attention(q: Array, k: Array, v: Array, causal: bool = False, added: Array | None = None) -> Array:
    scores = q @ np.swapaxes(k, -1, -2)
    scores *= 1 / math.sqrt(q.shape[-1])
    if causal:
        scores += np.triu(np.full(scores.shape[-2:], -np.inf, np.float32), 1)
    if added is not None:
        scores += added
    return _softmax(scores) @ v


def _top(x: Array, k: int) -> tuple[Array, Array]:
    where = np.argsort(-x, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(x, where, axis=1), where


NUMPY = Library(
    array=lambda a: a,
    weight=lambda m: np.ascontiguousarray(m.T),
    index=_index,
    host=lambda a: a,
    empty=lambda *shape: np.empty(shape, np.float32),
    take=lambda table, index: np.take(table, index, axis=0),
    put_=_put_,
    product=np.matmul,
    affine=_affine,
    add_product_=_add_product_,
    products=np.matmul,
    multiply=np.multiply,
    add_multiplied_=_add_multiplied_,
    concat=np.concatenate,
    segment_sums=_segment_sums,
    sigmoid=lambda x: _sigmoid_(x.copy()),
    sigmoid_=_sigmoid_,
    tanh=np.tanh,
    tanh_=lambda x: np.tanh(x, out=x),
    relu_=lambda x: np.maximum(x, 0, out=x),
    gelu_=_gelu_,
    gelu_tanh_=_gelu_tanh_,
    softmax=_softmax,
    log_softmax=_log_softmax,
    layer_norm=_layer_norm,
    attention=_attention,
    argmax=lambda x: np.argmax(x, axis=-1),
    top=_top,
)
