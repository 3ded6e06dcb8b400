"""Loops over a constant range: written out where they fit or must be, and loops where they are large."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba import InstanceErrors, model
from tests.support.chosen import one_in

r = np.random.default_rng(0)


def agrees(f: Any, *columns: Any, **shared: Any) -> None:
    for run in (f.batch, f._interpret):
        for got, *xs in zip(run(*columns, **shared), *columns, strict=True):
            want = f(*xs, **shared)
            for a, b in zip(got, want, strict=True) if isinstance(want, tuple | list) else [(got, want)]:
                assert type(a) is type(b)
                np.testing.assert_allclose(a, b, rtol=1e-9)


def length(f: Any, *columns: Any, **shared: Any) -> int:
    """Return how many lines the program has."""
    return str(f.stages(*columns, **shared)["ir"]).count("\n")


# ---- hidden Markov models, as textbooks write them


@model
def forward(obs, *, A, B, pi):
    N, T = A.shape[0], len(obs)
    fwd = np.zeros((N, T))
    for s in range(N):
        fwd[s, 0] = pi[s] * B[s, obs[0]]
    for t in range(1, T):
        for s in range(N):
            fwd[s, t] = sum(fwd[q, t - 1] * A[q, s] * B[s, obs[t]] for q in range(N))
    return fwd[:, -1].sum(), fwd


@model
def forward_lists(obs, *, A, B, pi):
    N, T = A.shape[0], len(obs)
    fwd = [[pi[s] * B[s, obs[0]] for s in range(N)]]
    for t in range(1, T):
        row = []
        for s in range(N):
            row.append(sum([fwd[t - 1][q] * A[q, s] * B[s, obs[t]] for q in range(N)]))
        fwd.append(row)
    return sum(fwd[-1])


@model
def viterbi(obs, *, A, B, pi):
    N, T = A.shape[0], len(obs)
    v, back = np.zeros((N, T)), np.zeros((N, T), dtype=int)
    for s in range(N):
        v[s, 0] = pi[s] * B[s, obs[0]]
    for t in range(1, T):
        for s in range(N):
            seq = [v[q, t - 1] * A[q, s] * B[s, obs[t]] for q in range(N)]
            v[s, t] = np.max(seq)
            back[s, t] = np.argmax(seq)
    best = [np.argmax(v[:, T - 1])]
    for t in range(T - 1, 0, -1):
        best.append(back[best[-1], t])
    return best[::-1]


def states(n: int) -> dict[str, Any]:
    a, b = r.random((n, n)), r.random((n, 6))
    return {"A": a / a.sum(1, keepdims=True), "B": b / b.sum(1, keepdims=True), "pi": np.ones(n) / n}


SEEN = [[int(v) for v in r.integers(0, 6, size=n)] for n in (1, 5, 9)]


@pytest.mark.parametrize("f", one_in(3, [forward, forward_lists, viterbi]), ids=lambda f: f.__name__)
def test_nested_loops_over_states_are_linear_in_these(f: Any) -> None:
    few, many = length(f, SEEN, **states(8)), length(f, SEEN, **states(16))
    assert many <= 2 * few
    assert many <= 1500


@pytest.mark.parametrize("n", [pytest.param(3, marks=pytest.mark.slow), pytest.param(9, marks=pytest.mark.slow), 16])
@pytest.mark.parametrize("f", one_in(3, [forward, forward_lists, viterbi]), ids=lambda f: f.__name__)
def test_they_are_what_the_plain_call_is(f: Any, n: int) -> None:
    agrees(f, SEEN, **states(n))


@pytest.mark.parametrize("f", [forward, forward_lists], ids=lambda f: f.__name__)
def test_the_inner_loop_is_one_kernel(f: Any) -> None:
    """A node for each state and time, not for each of its terms."""
    assert f.trace(SEEN, **states(16)).nodes <= sum(map(len, SEEN)) * 16 + 20


# ---- what is large, and is written out all the same


def much(h, w):
    """Many operations."""
    for _ in range(12):
        h = np.tanh(h * w + h) - h / (1.0 + h * h)
    return h


@model
def weights_of_layers(x, *, w):
    for k in range(6):
        x = much(w[k] @ x, 0.5)
    return x


@model
def parts_of_different_types(x, *, parts):
    for k in range(6):
        x = much(x, 0.5) + np.sum(parts[k])
    return x


@model
def what_a_loop_fills_is_unpacked(x, *, w):
    out = []
    for k in range(5):
        out.append(much(x * w[k], w[k]))
    a, b, c, d, e = out
    return a + b * c - d / (2.0 + e * e)


@model
def shapes_by_the_turn(x, *, w):
    out = []
    for k in range(5):
        out.append(much(x[: k + 1], w[k]))
    return np.concatenate(out)


def test_a_weight_of_each_turn_is_a_weight() -> None:
    w = r.standard_normal((6, 4, 4))
    agrees(weights_of_layers, list(r.standard_normal((3, 4))), w=w)
    assert str(weights_of_layers.stages([np.ones(4)], w=w)["ir"]).count("matmul(") == 6


def test_parts_of_different_types_and_shapes() -> None:
    parts = (np.ones(3), 2.0, np.ones((2, 2), np.float32), 4, np.float32(1.5), [1.0, 2.0, 3.0])
    agrees(parts_of_different_types, list(r.standard_normal((3, 4))), parts=parts)


@pytest.mark.parametrize("f", [what_a_loop_fills_is_unpacked, shapes_by_the_turn], ids=lambda f: f.__name__)
def test_what_the_rest_of_the_program_needs(f: Any) -> None:
    """The loop alone could stay one; then its list would have any length."""
    agrees(f, list(r.standard_normal((3, 6))), w=r.standard_normal(5))


def test_a_large_loop_over_elements_stays_one() -> None:
    @model
    def f(x, *, w):
        total = 0.0
        for k in range(16):
            for j in range(16):
                total = total + much(x[k], w[j])
        return total

    xs, w = list(r.standard_normal((3, 16))), r.standard_normal(16)
    agrees(f, xs, w=w)
    assert length(f, xs, w=w) < 700


def test_failures_are_where_they_were() -> None:
    @model
    def f(x, n, *, w):
        total = 0.0
        for k in range(16):
            for j in range(16):
                total = total + x[k + n] * w[j] * x[j - n] * w[k - j] + w[-1 - k]
        return total

    xs, w = list(r.standard_normal((4, 16))), r.standard_normal(16)
    agrees(f, xs[:2], [0, 0], w=w)
    with pytest.raises(InstanceErrors) as caught:
        f.batch(xs, [0, 1, 0, 5], w=w)
    assert sorted(caught.value.errors) == [1, 3]
    assert str(caught.value.errors[1]) == "index 16 is out of bounds for axis 0 with size 16"
