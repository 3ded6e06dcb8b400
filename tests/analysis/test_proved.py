"""Extents that a check proves are constants behind it, in kernels too; what is before it, or beside it, stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba import InstanceErrors, model
from tests.support.chosen import one_in

RNG = np.random.default_rng(3)
W = RNG.standard_normal((4, 4)).astype(np.float32)
XS = [RNG.standard_normal((n, 4)).astype(np.float32) for n in (1, 3, 5, 2, 3, 1, 4)]
KS = [0, 1, 2, 3, 3, 2, 0]


def residual(x: Any, k: int, *, w: Any) -> Any:
    return x + np.tanh(x @ w) * k


def in_branches(x: Any, k: int, *, w: Any) -> Any:
    y = np.tanh(x)
    z = x * 2
    if k > 1:
        a = x @ w
        if k > 2:
            b = np.exp(y) + z.sum(axis=1, keepdims=True)
            return (b @ w.T + a).sum(axis=0) + y.mean(axis=0) + x[0]
        return np.tanh(y)[0] + a[0] + z.T[:, 0]
    return y[0] + z[0]


def in_a_loop(x: Any, k: int, *, w: Any) -> Any:
    y = x.mean(axis=1, keepdims=True) * x
    a = x @ w
    t = np.zeros(4, np.float32)
    for _ in range(k):
        t = t + (y @ w)[0] + x[0] * y.sum()
        y = y + x
    return a, t, y.T @ a


def both_axes(x: Any, k: int, *, w: Any) -> Any:
    y = x @ x.T + k
    if k > 1 and len(x) == 4:
        return (w @ y + y.sum())[0, 0] + (y @ w)[0, 1]
    return y[0, 0]


MODELS = (residual, in_branches, in_a_loop, both_axes)


@pytest.mark.parametrize("f", MODELS)
@pytest.mark.parametrize("options", one_in(4, [{}, {"hoist": False}, {"blocks": False}, {"reuse": False}]), ids=str)
def test_it_is_the_plain_call(f: Any, options: dict[str, Any]) -> None:
    m = model(f).with_options(**options)
    for x, k, found in zip(XS, KS, m.batch(XS, KS, w=W), strict=True):
        want = f(x, k, w=W)
        pairs = zip(found, want, strict=True) if isinstance(want, tuple) else [(found, want)]
        assert all(a.shape == b.shape and np.allclose(a, b, atol=1e-4) for a, b in pairs)


@pytest.mark.parametrize("f", [residual, in_a_loop])
def test_what_a_check_rejects_fails(f: Any) -> None:
    with pytest.raises(InstanceErrors, match="2 of 3 instances failed") as caught:
        model(f).batch([XS[1], XS[2][:, :1], XS[3][:, :3]], [3, 3, 3], w=W)
    assert "dimensions 1 and 4 do not match" in str(caught.value)


def test_kernels_have_the_constant() -> None:
    kernels = model(residual)._compiled((XS, KS), {"w": W}).plan.kernels
    assert kernels
    assert not any(s.dims for s in kernels)  # rows are computed alone, and their width is known
