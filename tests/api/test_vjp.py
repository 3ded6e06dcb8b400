"""`acronumba.vjp`: results of any structure, and gradients from cotangents of them."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, InstanceErrors, leaves, model, nn, pack, value_and_grad, vjp
from acronumba.api.forward import _Compiled
from acronumba.api.structures import float_arrays, structured

RNG = np.random.default_rng(3)


def weights(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 0.4).astype(np.float32)


@dataclass
class Tree:
    x: np.ndarray
    left: Tree | None = None
    right: Tree | None = None


@dataclass
class State:
    h: np.ndarray
    size: int
    parts: list[np.ndarray]
    rest: State | None = None


@dataclass
class Params:
    w: np.ndarray
    b: np.ndarray


def run(t: Tree, p: Params) -> State:
    if t.left is None or t.right is None:
        return State(np.tanh(p.w[:, :3] @ t.x), 1, [t.x])
    a, b = run(t.left, p), run(t.right, p)
    h = np.tanh(p.w @ np.concatenate([a.h, b.h]) + p.b * np.sum(t.x))
    return State(h, a.size + b.size, [*a.parts, h], a if a.size > 1 else None)


@model
def encode(t: Tree, *, p: Params) -> Any:
    s = run(t, p)
    return s, {"norm": np.sum(s.h * s.h), "none": None if s.size > 2 else p.b}, t


@model
def waits(t: Tree, *, p: Params) -> Any:
    s = run(t, p)
    return s, {"norm": np.sum(s.h * s.h) if float(s.h[0]) < 9.0 else s.h[0], "none": None if s.size > 2 else p.b}, t


def leaf() -> Tree:
    return Tree(weights(3))


def instances() -> list[Tree]:
    one = leaf()
    return [leaf(), Tree(weights(3), leaf(), leaf()), Tree(weights(3), Tree(weights(3), one, leaf()), one), Tree(one.x)]


def params() -> Params:
    return Params(weights(3, 6), weights(3))


def cotangents_of(results: Any, seed: int = 0) -> list[Any]:
    """Return random cotangents."""
    rng = np.random.default_rng(seed)
    return [structured(r, lambda x: np.asarray(rng.standard_normal(np.shape(x)), np.asarray(x).dtype)) for r in results]


def close(a: Any, b: Any) -> None:
    assert len(float_arrays(a)) == len(float_arrays(b)) > 0
    for x, y in zip(float_arrays(a), float_arrays(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-6)


def is_compiled(pullback: Any) -> bool:
    return all(isinstance(part, _Compiled) for part in pullback._forward.parts)


@pytest.mark.parametrize("f", [encode, waits])
def test_structures_of_any_kind_have_cotangents(f: Any) -> None:
    p, trees = params(), instances()
    g = vjp(f, wrt=("p", "t"))
    results, pullback = g.batch(trees, p=p)
    assert is_compiled(pullback)
    cotangents = cotangents_of(results)
    gp, gt = pullback(cotangents, keep=True)
    assert type(gp) is Params and [type(x) for x in gt] == [Tree] * 4 and gt[2].left.left is gt[2].right
    total: Any = None
    for k, t in enumerate(trees):
        result, one = g(t, p=p)
        assert result[2] is t
        close(result[0], results[k][0])
        gk, gx = one(cotangents_of(results)[k])
        close(gx, gt[k])
        total = gk if total is None else Params(total.w + gk.w, total.b + gk.b)
    close(total, gp)
    again = pullback(cotangents, keep=True)
    assert all(np.array_equal(a, b) for a, b in zip(float_arrays(again), float_arrays((gp, gt)), strict=True))
    close(g.batch(pack(trees), p=p)[1](cotangents), (gp, gt))
    only_first = pullback([None if k else c for k, c in enumerate(cotangents)])
    close((only_first[0], only_first[1][0]), (lambda x: (x[0], x[1][0]))(g.batch(trees[:1], p=p)[1](cotangents[:1])))
    assert not any(a.any() for a in float_arrays(only_first[1][1:]))


def test_a_gradient_of_an_instance_has_the_bits_that_it_has_alone() -> None:
    p, trees = params(), [*instances(), *instances()]
    f = vjp(encode, wrt="t")
    results, pullback = f.batch(trees, p=p)
    assert is_compiled(pullback)
    cotangents = cotangents_of(results)
    whole = pullback(cotangents)
    for some in ([0], [5, 2], [7, 6, 3, 1]):
        for options in ({}, {"threads": 1, "schedule": "agenda"}):
            part = f.with_options(**options).batch([trees[k] for k in some], p=p)[1]([cotangents[k] for k in some])
            for g, k in zip(part, some, strict=True):
                pairs = zip(float_arrays(g), float_arrays(whole[k]), strict=True)
                assert all(np.array_equal(a, b) for a, b in pairs)


@model
def steps(x: np.ndarray, n: int, *, w: np.ndarray) -> Any:
    out = np.zeros((len(x), 2), np.float32)
    total = w
    for i in range(len(x)):
        total = np.tanh(total + x[i, :2] + x[(i * n) % len(x), 1:])
        out[i] = total
    return out, x[0, 0], np.sum(x)


def test_rows_of_arrays_and_arrays_that_the_model_writes_into() -> None:
    xs, w = [weights(n, 3) for n in (1, 4, 3)], weights(2)
    f = vjp(steps, wrt=("x", "w"))
    for columns in (xs, pack(xs)):
        results, pullback = f.batch(columns, [1, 2, 5], w=w)
        assert is_compiled(pullback)
        cotangents = cotangents_of(results)
        gx, gw = pullback(cotangents)
        ones = [f(x, n, w=w)[1](c) for x, n, c in zip(xs, [1, 2, 5], cotangents, strict=True)]
        close(gx, [g for g, _ in ones])
        close(gw, sum(g for _, g in ones))
    step = 1e-3
    for k, (x, g) in enumerate(zip(xs, gx, strict=True)):
        d = np.asarray(RNG.standard_normal(x.shape))
        values = [steps(np.asarray(x + s * d), [1, 2, 5][k], w=w) for s in (step, -step)]
        apart = sum(
            float(np.sum((np.asarray(a, np.float64) - b) * c)) for a, b, c in zip(*values, cotangents[k], strict=True)
        )
        assert apart / (2 * step) == pytest.approx(float(np.sum(g * d)), rel=2e-2, abs=1e-3)


@model
def uneven(xs: list[np.ndarray], long: bool, *, w: np.ndarray, h: np.ndarray) -> Any:
    last = xs[0]
    for x in xs:
        if long:
            h = np.tanh(w @ np.tanh(w @ h + x))
            last = h
        else:
            h = h
    return h + last


def test_arms_of_other_depths_lose_no_gradient() -> None:
    xs, w, h = [[weights(3) for _ in range(n)] for n in (1, 3, 2)], weights(3, 3), weights(3)
    _, (gx, gh) = value_and_grad(of_uneven, wrt=("xs", "h"), reduce="sum").batch(xs, [False, True, False], w=w, h=h)
    for options in ({"schedule": "depth"}, {"schedule": "depth", "phases": False}):
        results, pullback = vjp(uneven.with_options(**options), wrt=("xs", "h")).batch(
            xs, [False, True, False], w=w, h=h
        )
        assert is_compiled(pullback)
        close(pullback([np.ones_like(r) for r in results]), (gx, gh))
        assert np.array_equal(gx[0][0], np.ones(3)) and not gx[2][1].any()


@model
def of_uneven(xs: list[np.ndarray], long: bool, *, w: np.ndarray, h: np.ndarray) -> Any:
    return np.sum(uneven(xs, long, w=w, h=h))


@model
def numbers(x: list[np.ndarray], *, w: np.ndarray) -> Any:
    if len(x) == 0:
        return None
    return w * x[0], len(x), {"mean": float(np.sum(w))}


def test_what_is_no_tensor_has_no_cotangent() -> None:
    xs, w = [[weights(2)], [], [weights(2), weights(2)]], weights(2)
    results, pullback = vjp(numbers).batch(xs, w=w)
    assert results[1] is None and results[2][1] == 2
    one = np.ones(2, np.float32)
    g = pullback([(one, None, None), None, (one, None, {"mean": None})], keep=True)
    np.testing.assert_allclose(g, xs[0][0] + xs[2][0], rtol=1e-6)
    assert not pullback([None] * 3, keep=True).any()
    wrong: list[tuple[list[Any], str]] = [
        ([(one, 1, None), None, None], r"instance 0, result\[1\]: int has no cotangent"),
        ([None, None, (one, None, {"mean": 1.0})], r"instance 2, result\[2\]\['mean'\]: float has no cotangent"),
        ([None, one, None], "instance 1, result: None has no cotangent"),
        ([None, None, one], "instance 2, result: the cotangent of tuple of 3 has another structure"),
        ([(one, None), None, None], "instance 0, result: the cotangent of tuple of 3 has another structure"),
        ([(one[:1], None, None), None, None], r"instance 0, result\[0\]: the cotangent of float32\[2\] does not fit"),
        ([(np.ones(2), None, None), None, None], r"cotangent.astype\(np.float32\)"),
        ([("one", None, None), None, None], r"instance 0, result\[0\]: .* does not fit"),
        ([None], "3 results and 1 cotangents"),
    ]
    for cotangents, message in wrong:
        with pytest.raises(AcronumbaError, match=message) as caught:
            pullback(cotangents, keep=True)
        assert caught.value.code == "ACR714"
    with pytest.raises(AcronumbaError, match="a sequence"):
        pullback(None)


def test_a_pull_gives_back_what_it_needs() -> None:
    p, trees = params(), instances()
    results, pullback = vjp(encode).batch(trees, p=p)
    (part,) = pullback._forward.parts
    run, executable = part.run, part.passes.back.forward
    del part
    assert run.nodes and not executable._buffers
    pullback([None] * 4)
    del run
    gc.collect()
    assert len(executable._buffers) == 1 and results[0][0].h.shape == (3,)
    with pytest.raises(AcronumbaError, match="keep=True"):
        pullback([None] * 4)
    _, pullback = vjp(encode).batch(trees, p=p)
    assert not executable._buffers
    del pullback
    gc.collect()
    assert len(executable._buffers) == 1


def test_parameters_that_have_changed_are_noticed() -> None:
    p, trees = params(), instances()
    pullbacks = [(vjp(encode).batch(trees, p=p)[1], [None] * 4), (vjp(encode)(trees[1], p=p)[1], None)]
    p.b += 1.0
    for pullback, nothing in pullbacks:
        with pytest.raises(AcronumbaError, match=r"`p\.b` has changed"):
            pullback(nothing)


def test_what_a_pull_reads_cannot_be_written_to() -> None:
    @model
    def f(x: np.ndarray, *, w: np.ndarray, b: np.ndarray) -> Any:
        return np.exp(w * x), b

    x, w, b = weights(2), weights(2), weights(2)
    (h, given), pullback = vjp(f, wrt=("x", "w"))(x, w=w, b=b)
    with pytest.raises(ValueError, match="read-only"):
        h += 1
    assert b.flags.writeable and np.array_equal(given, b)
    before = x.copy()
    x += 1
    gx, gw = pullback((np.ones_like(h), None))
    np.testing.assert_allclose(gx, w * h, rtol=1e-6)
    np.testing.assert_allclose(gw, before * h, rtol=1e-6)


def test_failures_are_of_their_instances() -> None:
    @model
    def f(x: list[float], *, w: np.ndarray) -> Any:
        return w * (1.0 / x[0])

    w = np.ones(2)
    with pytest.raises(InstanceErrors) as caught:
        vjp(f).batch([[1.0], [], [0.0], [2.0]], w=w)
    results, pullback = caught.value.results
    assert sorted(caught.value.errors) == [1, 2] and results[1] is None and results[3].tolist() == [0.5, 0.5]
    assert pullback([w, None, None, w]).tolist() == [1.5, 1.5]
    with pytest.raises(ZeroDivisionError):
        vjp(f)([0.0], w=w)


def test_instances_of_several_types_and_none_at_all() -> None:
    @model
    def f(x: np.ndarray, *, w: np.ndarray) -> Any:
        return np.sum(w) * x

    xs, w = [np.ones(2, np.float32), np.ones(3), np.ones(2, np.float32)], np.ones(2, np.float32)
    results, pullback = vjp(f, wrt=("x", "w")).batch(xs, w=w)
    gx, gw = pullback([np.ones_like(r) for r in results])
    assert [g.dtype for g in gx] == [x.dtype for x in xs] and gw.tolist() == [7.0, 7.0] and gx[1].tolist() == [2.0] * 3
    results, pullback = vjp(f).batch([], w=w)
    assert len(results) == 0 and pullback([]).tolist() == [0.0, 0.0]


def test_the_gradient_of_a_loss_is_the_pullback_of_its_mean() -> None:
    @model
    def loss(t: Tree, label: int, *, p: Params) -> Any:
        return nn.cross_entropy(run(t, p).h, label)

    p, trees, labels = params(), instances(), [0, 1, 2, 0]
    _, grads = loss.value_and_grad.batch(trees, labels, p=p)
    _, pullback = vjp(loss).batch(trees, labels, p=p)
    found = pullback([0.25] * 4)
    for (_, a), (_, b) in zip(leaves(found), leaves(grads), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_gradients_are_not_followed_inside_of_a_model() -> None:
    inner = vjp(encode)

    @model
    def outer(t: Tree, *, p: Params) -> Any:
        return inner(t, p=p)[0]

    with pytest.raises(AcronumbaError):
        outer.batch(instances(), p=params())


@dataclass
class Pair:
    count: int
    h: np.ndarray


@dataclass
class Around:
    inner: Pair
    v: np.ndarray


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("together", [False, True])
def test_what_is_handed_on_unread_has_the_cotangent_of_the_result(shared: bool, together: bool) -> None:
    """Also in objects of which the model reads nothing."""

    @model
    def handed(x: Any, *, p: Any, w: np.ndarray) -> Any:
        return (p if shared else x), w * 2

    x, p, w = Around(Pair(1, weights(2)), weights(3)), Around(Pair(2, weights(2)), weights(3)), weights(2)
    g = Around(Pair(None, weights(2)), weights(3))  # type: ignore[arg-type]
    f = vjp(handed, wrt=("x", "p", "w"))
    if together:
        _, pullback = f.batch([x, x], p=p, w=w)
        (mine, _), of, of_w = pullback([(g, weights(2)), (None, None)])
    else:
        _, pullback = f(x, p=p, w=w)
        mine, of, of_w = pullback((g, None))
    there, zeros = (of, mine) if shared else (mine, of)
    for a, b in zip(float_arrays(there), float_arrays(g), strict=True):
        np.testing.assert_array_equal(a, b)
    assert all(not a.any() for a in float_arrays(zeros)) and of_w.shape == w.shape
