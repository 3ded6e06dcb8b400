"""`acronumba.nn`: plain NumPy definitions against formulas in float64 and the standard library."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from acronumba import model, nn

XS = np.concatenate([np.linspace(-30, 30, 241), [-1e4, -100.0, -1e-6, 0.0, 1e-6, 100.0, 1e4]])

SCALAR_FORMULAS: dict[str, Callable[[float], float]] = {
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)) if x > -700 else 0.0,
    "erf": math.erf,
    "relu": lambda x: max(x, 0.0),
    "leaky_relu": lambda x: x if x > 0 else 0.01 * x,
    "elu": lambda x: x if x > 0 else math.expm1(x),
    "softplus": lambda x: x + math.log1p(math.exp(-x)) if x > 0 else math.log1p(math.exp(x)),
    "log_sigmoid": lambda x: x - math.log1p(math.exp(x)) if x < 0 else -math.log1p(math.exp(-x)),
    "silu": lambda x: x / (1 + math.exp(-x)) if x > -700 else 0.0,
    "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SCALAR_FORMULAS)
def test_element_functions_agree_with_their_formulas_and_keep_the_dtype(name: str, dtype: type) -> None:
    xs = XS.astype(dtype)
    got = getattr(nn, name)(xs)
    expected = np.array([SCALAR_FORMULAS[name](float(x)) for x in xs])
    assert got.dtype == dtype and got.shape == xs.shape
    eps = float(np.finfo(dtype).eps)
    assert np.all(np.abs(got - expected) <= 8 * eps * np.maximum(np.abs(xs.astype(float)), 1))


@pytest.mark.parametrize("name", SCALAR_FORMULAS)
def test_element_functions_take_scalars_and_empty_arrays(name: str) -> None:
    f = getattr(nn, name)
    scalar = f(np.float32(0.5))
    assert isinstance(scalar, np.float32)
    assert abs(float(scalar) - SCALAR_FORMULAS[name](0.5)) < 1e-6
    assert f(np.zeros((0, 3), np.float32)).shape == (0, 3)


@pytest.mark.parametrize("name", SCALAR_FORMULAS)
def test_not_a_number_survives(name: str) -> None:
    got = getattr(nn, name)(np.array([1.0, np.nan, 2.0], np.float32))
    assert np.isnan(got).tolist() == [False, True, False]


def test_relative_accuracy_where_the_result_is_tiny() -> None:
    x = np.array([-20.0, -30.0], np.float64)
    assert np.allclose(nn.softplus(x), np.log1p(np.exp(x)), rtol=1e-14, atol=0)
    assert np.allclose(nn.sigmoid(x), np.exp(x) / (1 + np.exp(x)), rtol=1e-15, atol=0)


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_softmax_family(axis: int) -> None:
    x = np.random.default_rng(1).normal(size=(4, 5, 6)).astype(np.float32) * 50 + 1000
    wide = x.astype(np.float64) - 1000
    total = np.exp(wide).sum(axis=axis, keepdims=True)
    probabilities = nn.softmax(x, axis=axis)
    assert probabilities.dtype == np.float32
    assert np.allclose(probabilities, np.exp(wide) / total, rtol=2e-4, atol=1e-7)
    assert np.allclose(probabilities.sum(axis=axis), 1, rtol=1e-6)
    logs = nn.log_softmax(x, axis=axis)
    assert logs.dtype == np.float32
    assert np.allclose(logs, wide - np.log(total), rtol=1e-5, atol=2e-4)
    sums = nn.logsumexp(x, axis=axis)
    assert sums.dtype == np.float32
    assert np.allclose(sums, 1000 + np.log(total).squeeze(axis), rtol=1e-6)


def test_softmax_gives_masked_elements_no_weight() -> None:
    got = nn.softmax(np.array([0.0, -np.inf, 0.0], np.float32))
    assert got.tolist() == [0.5, 0.0, 0.5]


def test_logsumexp_of_a_vector_is_a_scalar() -> None:
    assert isinstance(nn.logsumexp(np.array([1.0, 2.0], np.float32)), np.float32)


def test_norms() -> None:
    rng = np.random.default_rng(2)
    x = (rng.normal(size=(3, 64)) * 7 + 3).astype(np.float32)
    weight, bias = rng.normal(size=64).astype(np.float32), rng.normal(size=64).astype(np.float32)
    wide = x.astype(np.float64)
    centred = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    for got, expected in [
        (nn.layer_norm(x), centred),
        (nn.layer_norm(x, weight, bias), centred * weight + bias),
        (nn.layer_norm(x, weight), centred * weight),
        (nn.rms_norm(x, weight), wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6) * weight),
    ]:
        assert got.dtype == np.float32
        assert np.allclose(got, expected, rtol=1e-4, atol=1e-5)
    assert np.all(nn.layer_norm(np.full(8, 5.0, np.float32)) == 0)


def test_linear_embedding_one_hot() -> None:
    rng = np.random.default_rng(3)
    x, w = rng.normal(size=(2, 4)).astype(np.float32), rng.normal(size=(3, 4)).astype(np.float32)
    b = rng.normal(size=3).astype(np.float32)
    assert np.array_equal(nn.linear(x, w, b), x @ w.T + b)
    assert np.array_equal(nn.linear(x[0], w), x[0] @ w.T)
    assert np.array_equal(nn.embedding(w, 2), w[2])
    assert np.array_equal(nn.embedding(w, np.array([[0, 2]])), w[[[0, 2]]])
    assert nn.one_hot(2, 4).tolist() == [0, 0, 1, 0]
    assert nn.one_hot(np.array([3, 0, 9]), 4).tolist() == [[0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert nn.one_hot(2, 4).dtype == np.float32


def _attention(q: Any, k: Any, v: Any, mask: Any) -> np.ndarray:
    """One query at a time, in float64."""
    out = np.empty((len(q), v.shape[1]))
    for i, row in enumerate(q.astype(np.float64)):
        scores = [math.exp(row @ key / math.sqrt(len(row))) if mask[i, j] else 0.0 for j, key in enumerate(k)]
        out[i] = sum(s * value for s, value in zip(scores, v, strict=True)) / sum(scores)
    return out


def test_attention() -> None:
    rng = np.random.default_rng(4)
    q, k, v = (rng.normal(size=s).astype(np.float32) for s in [(2, 5, 8), (2, 7, 8), (2, 7, 3)])
    mask = rng.random((5, 7)) < 0.6
    mask[:, 0] = True
    everything = np.ones_like(mask)
    heads = nn.attention(q, k, v, mask)
    assert heads.dtype == np.float32 and heads.shape == (2, 5, 3)
    for h in range(2):
        assert np.allclose(heads[h], _attention(q[h], k[h], v[h], mask), rtol=1e-4, atol=1e-5)
        expected = _attention(q[h], k[h], v[h], everything)
        assert np.allclose(nn.attention(q[h], k[h], v[h]), expected, rtol=1e-4, atol=1e-5)


def test_a_query_that_sees_nothing_gets_the_mean() -> None:
    v = np.arange(6, dtype=np.float32).reshape(3, 2)
    got = nn.attention(np.ones((1, 4), np.float32), np.ones((3, 4), np.float32), v, np.zeros((1, 3), bool))
    assert np.allclose(got, v.mean(0))


def test_multi_head_attention_is_one_attention_per_head() -> None:
    rng = np.random.default_rng(5)
    x, memory = rng.normal(size=(3, 6)).astype(np.float32), rng.normal(size=(4, 5)).astype(np.float32)
    wq, wk, wv, wo = (rng.normal(size=s).astype(np.float32) for s in [(8, 6), (8, 5), (4, 5), (7, 4)])
    got = nn.multi_head_attention(x, memory, wq, wk, wv, wo, heads=2)
    parts = [
        nn.attention(x @ wq[4 * h : 4 * h + 4].T, memory @ wk[4 * h : 4 * h + 4].T, memory @ wv[2 * h : 2 * h + 2].T)
        for h in range(2)
    ]
    assert got.dtype == np.float32 and got.shape == (3, 7)
    assert np.allclose(got, np.concatenate(parts, axis=1) @ wo.T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("window", [None, 1, 2, 9])
@pytest.mark.parametrize("causal", [False, True])
def test_bands_of_attention_are_masks_of_places(causal: bool, window: int | None) -> None:
    rng = np.random.default_rng(7)
    for rows, columns in ((4, 4), (1, 5), (3, 5), (5, 2)):
        q, k, v = (rng.normal(size=(2, n, 3)) for n in (rows, columns, columns))
        mask, both = np.ones((rows, columns), bool), rng.random((rows, columns)) < 0.7
        for i in range(rows):
            for j in range(columns):
                behind = j - (i + columns - rows)  # of the place of the query
                mask[i, j] = not (causal and behind > 0) and (window is None or abs(behind) < window)
        assert np.array_equal(nn.attention(q, k, v, causal=causal, window=window), nn.attention(q, k, v, mask))
        found = nn.attention(q, k, v, both, causal=causal, window=window)
        assert np.array_equal(found, nn.attention(q, k, v, both & mask))
    weights = [rng.normal(size=(4, 3)) for _ in range(3)] + [rng.normal(size=(2, 4))]
    x = rng.normal(size=(4, 3))
    i, j = np.indices((4, 4))
    seen = (j <= i if causal else i == i) & (np.abs(i - j) < (9 if window is None else window))
    found = nn.multi_head_attention(x, x, *weights, 2, causal=causal, window=window)
    assert np.array_equal(found, nn.multi_head_attention(x, x, *weights, 2, seen))


BORDERS = [(n, stride, padding) for n in (1, 2, 5, 8) for stride in (1, 2, 3) for padding in (0, 1, 2)]


def _places(n: int, size: int, stride: int, low: int, high: int, dilation: int = 1) -> list[list[int]]:
    """Return the rows in each window, as indices that may be beyond the ends."""
    starts = range(-low, n + high - (size - 1) * dilation, stride)
    return [[start + k * dilation for k in range(size)] for start in starts]


@pytest.mark.parametrize("dilation", [1, 2])
def test_convolutions(dilation: int) -> None:
    rng = np.random.default_rng(8)
    weight, bias = rng.normal(size=(2, 3, 3)), rng.normal(size=2)
    for n, stride, padding in BORDERS:
        x = rng.normal(size=(n, 3))
        for ends in (padding, (2 * padding, 0)):
            low, high = ends if isinstance(ends, tuple) else (ends, ends)
            windows = _places(n, 3, stride, low, high, dilation)
            if not windows:
                with pytest.raises(ValueError, match="longer than the sequence"):
                    nn.conv1d(x, weight, bias, stride, ends, dilation)
                continue
            rows = [[x[p] if 0 <= p < n else np.zeros(3) for p in places] for places in windows]
            expected = np.einsum("lkc,mck->lm", rows, weight) + bias
            assert np.allclose(nn.conv1d(x, weight, bias, stride, ends, dilation), expected, rtol=1e-13)
    assert nn.conv1d(np.ones((4, 3), np.float32), weight.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_pools(dtype: Any) -> None:
    rng = np.random.default_rng(9)
    for n, stride, padding in BORDERS:
        x = (rng.normal(size=(n, 2)) * 9).astype(dtype)
        windows = _places(n, 2, stride, padding, padding)
        for f in (nn.max_pool1d, nn.avg_pool1d):
            if not windows:
                with pytest.raises(ValueError, match="longer than the sequence"):
                    f(x, 2, stride, padding)
        if not windows or padding == 2:  # a window of borders alone
            continue
        inside = [[x[p] for p in places if 0 <= p < n] for places in windows]
        largest = nn.max_pool1d(x, 2, stride, padding)
        assert largest.dtype == dtype and np.array_equal(largest, [np.max(rows, axis=0) for rows in inside])
        mean = nn.avg_pool1d(x, 2, stride, padding)
        assert np.allclose(mean, [np.sum(rows, axis=0) / 2 for rows in inside], rtol=1e-6)
    assert nn.max_pool1d(x, 4).shape == (2, 2) and nn.avg_pool1d(x, 4).shape == (2, 2)


def test_segments() -> None:
    x, ids = np.arange(8.0).reshape(4, 2), np.array([2, 0, 2, 2])
    assert nn.segment_sum(x, ids, 4).tolist() == [[2, 3], [0, 0], [10, 13], [0, 0]]
    assert nn.segment_sum(x[:, 0] > 1, ids, 3).dtype == np.int64
    assert nn.segment_sum(x[:0], ids[:0], 2).tolist() == [[0, 0], [0, 0]]
    for wrong, error in ((ids[:3], ValueError), (ids + 2, IndexError)):
        with pytest.raises(error):
            nn.segment_sum(x, wrong, 4)


@model
def _everything(x: np.ndarray, label: int, *, square: np.ndarray, scale: np.ndarray) -> Any:
    rows = nn.linear(x, square, scale)
    y = rows[0]
    return [
        nn.sigmoid(y), nn.erf(y), nn.relu(y), nn.leaky_relu(y), nn.elu(y), nn.softplus(y), nn.log_sigmoid(y),
        nn.silu(y), nn.gelu(y), nn.gelu_tanh(y), nn.softmax(rows), nn.softmax(rows, axis=0), nn.log_softmax(rows),
        nn.logsumexp(y), nn.logsumexp(rows), nn.layer_norm(rows), nn.layer_norm(rows, scale, scale),
        nn.rms_norm(rows, scale), nn.embedding(square, label), nn.one_hot(label, 5), nn.attention(x, rows, x),
        nn.attention(x, x, rows, np.arange(x.shape[0]) <= label),
        nn.multi_head_attention(x, rows, square, square, square, square, heads=2),
        nn.multi_head_attention(x, x, square, square, square, square, heads=2, causal=True),
        nn.conv1d(x, square.reshape(2, 8, 4), padding=3), nn.max_pool1d(x, 1), nn.avg_pool1d(x, 3, 1, padding=1),
        nn.segment_sum(x, np.arange(x.shape[0]) % 2, 2),
    ]  # fmt: skip


def test_every_function_is_compiled_with_the_model() -> None:
    rng = np.random.default_rng(6)
    square, scale = rng.normal(size=(8, 8)).astype(np.float32), rng.normal(size=8).astype(np.float32)
    xs = [rng.normal(size=(n, 8)).astype(np.float32) for n in (3, 1, 4, 3)]
    labels = [2, 0, 1, 4]
    batched = _everything.batch(xs, labels, square=square, scale=scale)
    for x, label, got in zip(xs, labels, batched, strict=True):
        plain = _everything(x, label, square=square, scale=scale)
        exact = _everything(x.astype(float), label, square=square.astype(float), scale=scale.astype(float))
        assert len(got) == len(plain) == 28
        for a, b, c in zip(got, plain, exact, strict=True):
            assert type(a) is type(b)
            assert a.dtype == b.dtype
            assert np.abs(a - c).max() <= max(1e-5 * np.abs(c).max(), 4 * np.abs(b - c).max())


def test_public_names_are_documented_and_listed() -> None:
    functions = {k for k, f in vars(nn).items() if callable(f) and getattr(f, "__module__", "") == nn.__name__}
    assert {k for k in functions if not k.startswith("_")} == set(nn.__all__)
    for name in nn.__all__:
        assert "Returns\n" in (getattr(nn, name).__doc__ or "")
