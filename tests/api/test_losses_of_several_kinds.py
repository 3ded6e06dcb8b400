"""Losses that are numbers of Python on some paths and tensors on others: what is no tensor is a constant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, InstanceErrors, model, nn, pack, value_and_grad
from acronumba.api.structures import float_arrays
from tests.support.chosen import one_in

RNG = np.random.default_rng(11)


def weights(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 0.4).astype(np.float32)


@dataclass
class Tree:
    word: int
    children: list[Tree]


def floating(xs: list[np.ndarray], *, p: dict[str, Any]) -> Any:
    if len(xs) == 0:
        return 0.0
    return np.sum(np.tanh(p["w"] @ xs[0]))


def counting(xs: list[np.ndarray], *, p: dict[str, Any]) -> Any:
    if len(xs) == 0:
        return 0
    if len(xs) == 2:
        return 2.5
    return np.sum(np.tanh(p["w"] @ xs[0]))


def of_two_dtypes(xs: list[np.ndarray], *, p: dict[str, Any]) -> Any:
    if len(xs) < 2:
        return np.sum(np.tanh(p["w"] @ xs[0])) if len(xs) else 1
    return np.sum(p["wide"] * xs[1])


def totalled(xs: list[np.ndarray], *, p: dict[str, Any]) -> Any:
    total = 0
    for x in xs:
        total = total + p["w"] @ x @ x
    return total


def summed(xs: list[np.ndarray], *, p: dict[str, Any]) -> Any:
    return sum([np.sum(np.sin(p["w"] @ x)) for x in xs])


def waiting(xs: list[np.ndarray], *, p: dict[str, Any]) -> Any:
    total = 0.0
    for x in xs:
        y = p["w"] @ x
        if y[0] > 0:
            total = total + np.sum(y * y)
        elif y[1] > 0:
            return 3.0
    return total


def shared(xs: list[np.ndarray], *, p: dict[str, Any]) -> Any:
    if len(xs) == 1:
        return p["bias"]
    if len(xs) > 1:
        return np.float32(2)
    return 7


def of_rank_0(xs: list[np.ndarray], *, p: dict[str, Any]) -> Any:
    if len(xs) == 0:
        return 0.25
    total = np.array(0.0, np.float32) if len(xs) == 1 else np.float32(1)
    if len(xs) == 3:
        total = total + np.sum(p["w"] @ xs[0])
    return total * p["bias"] if len(xs) > 1 else total


def never(xs: list[np.ndarray], *, p: dict[str, Any]) -> Any:
    return 1.5 * len(xs)


def ints(xs: list[np.ndarray], *, p: dict[str, Any]) -> Any:
    return len(xs)


XS = [[], [weights(3)], [weights(3), weights(3)], [weights(3), weights(3), weights(3)], [], [weights(3)]]
LOSSES = [floating, counting, of_two_dtypes, totalled, summed, waiting, shared, of_rank_0, never, ints]


def params() -> dict[str, Any]:
    return {"w": weights(3, 3), "wide": RNG.standard_normal(3), "bias": np.array(0.5, np.float32)}


@pytest.mark.parametrize(("reduce", "f"), one_in(
    4, [(r, f) for r in ("mean", "sum") for f in LOSSES], [f"{r}-{f.__name__}" for r in ("mean", "sum") for f in LOSSES]
))  # fmt: skip
def test_numbers_are_constants(reduce: str, f: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    p, g = params(), value_and_grad(f, reduce=reduce, wrt=("p", "xs"))
    ones = [value_and_grad(f, reduce="sum", wrt=("p", "xs"))(x, p=p) for x in XS]
    found = g.check(XS, p=p)
    assert found.ok, found
    monkeypatch.setattr("acronumba.ir.tape.Recorder.record", None)  # from here on: compiled alone
    done = g.batch(XS, p=p)
    share = 1 / len(XS) if reduce == "mean" else 1.0
    plain = [f(x, p=p) for x in XS]
    assert [type(x) for x in done.losses] == [type(x) for x in model(f).batch(XS, p=p)]
    np.testing.assert_allclose([float(x) for x in done.losses], [float(x) for x in plain], rtol=1e-5)
    np.testing.assert_allclose(float(done.value), share * sum(map(float, plain)), rtol=1e-5)
    of_p, of_xs = done.grads
    for k, x in enumerate(float_arrays(of_p)):
        want = share * sum(np.asarray(float_arrays(one.grads[0])[k], np.float64) for one in ones)
        np.testing.assert_allclose(x, want, rtol=1e-5, atol=1e-6)
    for one, mine in zip(ones, of_xs, strict=True):
        for a, b in zip(float_arrays(mine), float_arrays(one.grads[1]), strict=True):
            np.testing.assert_allclose(a, share * b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("f", one_in(3, [floating, counting, waiting]))
def test_mini_batches_of_numbers_alone(f: Any) -> None:
    p = params()
    value, grads = value_and_grad(f).batch([[], []], p=p)
    assert value == 0 and isinstance(value, np.floating)
    assert [g.shape for g in float_arrays(grads)] == [(3, 3), (3,), ()] and not any(map(np.any, float_arrays(grads)))
    value, grads = value_and_grad(f)([], p=p)
    assert value == 0 and not any(map(np.any, float_arrays(grads)))


def test_beside_other_results_packed_and_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    @model
    def f(t: Tree, *, p: dict[str, Any]) -> Any:
        if not t.children:
            return 0.0, {"word": t.word, "state": p["e"][0]}
        h = np.tanh(p["e"][t.children[0].word] + p["e"][t.word])
        return nn.cross_entropy(h, 1), {"word": t.word, "state": h}

    trees = [Tree(3, []), Tree(1, [Tree(4, [])]), Tree(2, [Tree(1, []), Tree(0, [])])]
    p = {"e": weights(6, 4)}
    one = [value_and_grad(f, aux=True)(t, p=p).grads["e"] for t in trees]
    monkeypatch.setattr("acronumba.ir.tape.Recorder.record", None)
    for xs, given in ((trees, p), (pack(trees), pack(p))):
        done = value_and_grad(f, aux=True, sparse="p['e']").batch(xs, p=given)
        np.testing.assert_allclose(np.asarray(done.grads["e"]), sum(one) / 3, rtol=1e-5, atol=1e-7)
        assert done.grads["e"].index.tolist() == [1, 2, 4] and [a["word"] for a in done.aux] == [3, 1, 2]
        assert type(done.losses[0]) is float and type(done.losses[1]) is np.float32


def test_failures_among_them() -> None:
    @model
    def f(xs: list[float], *, w: np.ndarray) -> Any:
        if len(xs) == 2:
            return xs[0] / xs[1]
        return np.sum(w * xs[0])

    w = np.ones(3)
    with pytest.raises(InstanceErrors) as caught:
        f.value_and_grad.batch([[1.0], [3.0, 2.0], [1.0, 0.0], []], w=w)
    assert {k: type(e) for k, e in caught.value.errors.items()} == {2: ZeroDivisionError, 3: IndexError}
    value, g = caught.value.results
    assert value == (3.0 + 1.5) / 2 and g.tolist() == [0.5] * 3


def test_a_number_that_the_parameters_decide_is_no_loss() -> None:
    def f(xs: list[float], *, w: np.ndarray) -> Any:
        return float(np.sum(w)) if len(xs) else np.sum(w * w)

    with pytest.raises(AcronumbaError) as caught:
        value_and_grad(f).batch([[1.0], []], w=np.ones(3))
    assert caught.value.code == "ACR602"


@pytest.mark.parametrize("f", one_in(3, [
    lambda x, *, w: np.sum(w * x) if x > 1 else None,
    lambda x, *, w: np.sum(w * x) if x > 1 else True,
    lambda x, *, w: np.sum(w * x) if x > 1 else (w * x),
    lambda x, *, w: np.sum(w * x) if x > 1 else "nothing",
    lambda x, *, w: np.sum(w * x) if x > 1 else np.int64(2),
]))  # fmt: skip
def test_what_is_no_loss_on_some_path_is_rejected(f: Any) -> None:
    with pytest.raises(AcronumbaError) as caught:
        value_and_grad(f).batch([1.0, 2.0], w=np.ones(3))
    assert caught.value.code == "ACR311", caught.value
