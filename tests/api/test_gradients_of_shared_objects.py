"""Gradients of shared values whose structure is data: objects of recursive classes, dicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from acronumba import leaves, model, optim, value_and_grad, vjp
from acronumba.api.forward import _Compiled
from acronumba.api.structures import float_arrays

RNG = np.random.default_rng(4)


@pytest.fixture(autouse=True)
def the_same_numbers_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "RNG", np.random.default_rng(4))


def weights(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 0.5).astype(np.float32)


@dataclass
class Layer:
    w: np.ndarray
    b: np.ndarray
    unread: np.ndarray
    next: Layer | None = None
    skip: list[np.ndarray] | None = None


@dataclass
class Net:
    first: Layer
    out: np.ndarray
    tied: np.ndarray


def net(depth: int) -> Net:
    layer = None
    shared = weights(3)
    for k in range(depth):
        layer = Layer(weights(3, 3), shared if k % 2 else weights(3), weights(2), layer, [weights(3), shared][: k % 3])
    assert layer is not None
    return Net(layer, weights(3), shared)


@model
def score(x: np.ndarray, n: int, *, p: Net) -> Any:
    h, at = x, p.first
    for _ in range(n):
        h = np.tanh(at.w @ h + at.b)
        if at.skip is not None:
            for s in at.skip:
                h = h * s
        if at.next is not None:
            at = at.next
    return np.sum(h * p.out) + np.sum(h * p.tied)


@model
def states(x: np.ndarray, n: int, *, p: Net) -> Any:
    h, at = x, p.first
    for _ in range(n):
        h = np.tanh(at.w @ h + at.b)
        if at.next is not None:
            at = at.next
    return h, at


def columns() -> tuple[list[np.ndarray], list[int]]:
    return [weights(3) for _ in range(5)], [1, 4, 2, 0, 3]


def close(a: Any, b: Any) -> None:
    assert len(float_arrays(a)) == len(float_arrays(b)) > 0
    for x, y in zip(float_arrays(a), float_arrays(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("depth", [1, 4])
def test_objects_of_a_recursive_class(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    p, (xs, ns) = net(depth), columns()
    f = value_and_grad(score, reduce="sum", wrt=("p", "x"))
    ones = [f(x, n, p=p).grads for x, n in zip(xs, ns, strict=True)]
    assert f.check(xs, ns, p=p).ok
    monkeypatch.setattr("acronumba.ir.tape.Recorder.record", None)  # from here on: compiled alone
    gp, gx = f.batch(xs, ns, p=p).grads
    assert type(gp.first) is Layer and (gp.first.next is None) == (depth == 1)
    assert not gp.first.unread.any() and gp.tied.any()
    if depth > 1:
        assert gp.first.b is gp.tied  # one array, one leaf
    sums = [sum(parts) for parts in zip(*(float_arrays(g) for g, _ in ones), strict=True)]
    close(gp, sums)
    close(gx, [g for _, g in ones])
    again = f.batch(xs, ns, p=p).grads[0]
    assert all(np.array_equal(a, b) for a, b in zip(float_arrays(gp), float_arrays(again), strict=True))


def test_they_learn() -> None:
    p, (xs, ns) = net(3), columns()
    opt = optim.SGD(0.05)
    values = []
    for _ in range(30):
        value, grads = score.value_and_grad.batch(xs, ns, p=p)
        opt.update(p, grads)
        values.append(float(value))
    assert values[-1] < values[0] - 0.2 and len(leaves(p)) == len(leaves(grads))


def test_pullbacks_of_results_that_hold_them() -> None:
    p, (xs, ns) = net(3), columns()
    f = vjp(states, wrt="p")
    results, pullback = f.batch(xs, ns, p=p)
    assert all(isinstance(part, _Compiled) for part in pullback._forward.parts)
    assert results[0][1] is p.first.next
    one = np.ones(3, np.float32)
    back: list[Any] = []
    for k, (_, at) in enumerate(results):
        given = Layer(np.full_like(at.w, 2), one, np.ones_like(at.unread))  # also of what the model never reads
        given.next, given.skip = None, None
        back.append((one, None if k % 2 else given))
    found = pullback(back)
    ones = [f(x, n, p=p)[1](g) for x, n, g in zip(xs, ns, back, strict=True)]
    close(found, [sum(parts) for parts in zip(*map(float_arrays, ones), strict=True)])
    assert any(layer.any() for layer in (found.first.unread, found.first.next.unread))


def test_dicts_whose_keys_are_data() -> None:
    @model
    def f(words: list[str], *, p: dict[str, np.ndarray]) -> Any:
        total = np.float32(0)
        for w in words:
            if w in p:
                total = total + np.sum(np.tanh(p[w]) * p[w])
        return total

    p = {f"word{k}": weights(3) for k in range(40)}
    words = [["word1", "word7", "no"], [], ["word7", "word7"]]
    _, g = value_and_grad(f, reduce="sum").batch(words, p=p)
    one = [value_and_grad(f, reduce="sum")(w, p=p).grads for w in words]
    close(g, [sum(parts) for parts in zip(*map(float_arrays, one), strict=True)])
    assert g["word7"].any() and not g["word2"].any()
