"""Operations of the user's own (`acronumba.operation`): plain calls, batches, threads, gradients, failures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from acronumba import InstanceErrors, Unsupported, model, operation
from acronumba.errors import TypeMismatch
from tests.support.own_operations import decay, spread
from tests.support.plain_call import agree, outcomes, plain
from tests.support.random_operations import program

RNG = np.random.default_rng(0)
XS = [RNG.normal(size=n) for n in (3, 0, 1, 5, 4, 3)]
KS = [1, 0, 2, -1, 0, 3]


def mixed(x: np.ndarray, k: int) -> Any:
    y = decay(np.tanh(x))
    for i in range(k):
        y = decay(y[::-1], c=0.25 * i) + 1.0
    scaled, both, count = spread(y, k)
    if count > 3:
        scaled = decay(scaled[1:])
    return scaled, both.T @ y, count, spread(x, 0)[0].sum()


def test_a_batch_agrees_with_the_plain_call() -> None:
    run = model(mixed)
    assert run.check(XS, KS).ok
    agree(outcomes(run.batch, XS, KS), plain(mixed, XS, KS), close=True)
    agree(outcomes(run._interpret, XS, KS), plain(mixed, XS, KS), close=True)


def test_results_do_not_depend_on_company_order_or_threads() -> None:
    run = model(mixed)
    wanted = outcomes(run.batch, XS, KS)
    agree(outcomes(run.batch, XS[::-1], KS[::-1])[::-1], wanted)
    agree([outcomes(run.batch, [x], [k])[0] for x, k in zip(XS, KS, strict=True)], wanted)
    agree(outcomes(run.with_options(threads=2).batch, XS * 20, KS * 20)[: len(XS)], wanted)


def test_an_instance_whose_kernel_raises_fails_alone() -> None:
    with pytest.raises(InstanceErrors) as failed:
        model(mixed).batch(XS, KS)
    assert {k: str(error) for k, error in failed.value.errors.items()} == {3: "-1 is negative"}
    assert failed.value.errors[3].line  # type: ignore[attr-defined]


def test_equal_calls_of_a_pure_operation_are_computed_once() -> None:
    @model
    def f(k: int, *, w: np.ndarray) -> Any:
        return decay(w, 0.5 * k)

    @model
    def g(k: int, *, w: np.ndarray) -> Any:  # its kernel may raise
        return spread(w, k)

    ks, w = [0, 1, 2, 1, 0, 1] * 4, RNG.normal(size=4)
    assert f.trace(ks, w=w).nodes == 3
    assert f.with_options(equal=False).trace(ks, w=w).nodes == len(ks)
    assert g.trace(ks, w=w).nodes == len(ks)


def test_gradients() -> None:
    @model
    def loss(x: np.ndarray, k: int, *, w: np.ndarray) -> Any:
        y = decay(np.concatenate([x, w]), 0.25)[-3:]
        return (y * w).sum() * (k + 1)

    xs = [RNG.normal(size=n) for n in (3, 0, 5)]
    w = RNG.normal(size=3)
    assert not loss.value_and_grad.check(xs, [1, 0, 2], w=w).different
    _, grad = loss.value_and_grad.batch(xs, [1, 0, 2], w=w)
    alone = [loss.value_and_grad.batch([x], [k], w=w)[1] for x, k in zip(xs, [1, 0, 2], strict=True)]
    assert np.allclose(grad, sum(alone) / 3)


def test_operations_of_one_name_are_told_apart() -> None:
    made = []
    for factor in (2.0, 3.0):

        @operation(shape=(), dtype=np.float64)
        def scaled(x: Any, factor: float = factor) -> Any:
            return x.sum() * factor

        made.append(scaled)
    a, b = made
    assert a.key != b.key

    @model
    def f(x: np.ndarray) -> Any:
        return a(x), b(x)

    assert f.check(XS).ok


FACTOR = 2.0


@operation(shape=(), dtype=np.float64)
def times_factor(x):  # type: ignore[no-untyped-def]
    return x.sum() * FACTOR


def test_a_global_of_a_kernel_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    @model
    def f(x: np.ndarray) -> Any:
        return times_factor(x)

    before = f.batch(XS)
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 3.0)
    assert np.allclose(f.batch(XS), 1.5 * np.array(before))
    assert f.check(XS).ok


@operation(shape=lambda x: (len(x) + 1,), dtype=np.float32)
def longer(x):  # type: ignore[no-untyped-def]
    return x * 2.0


@numba.njit(parallel=True)
def in_parallel(x):  # type: ignore[no-untyped-def]
    return x * 2.0


def test_rules_are_checked() -> None:
    with pytest.raises(ValueError, match=r"returns shape \(3,\), its rule says \(4,\)"):
        longer(XS[0])
    wrong = operation(in_parallel, shape=lambda x: x.shape, dtype=np.int64)
    with pytest.raises(TypeError, match="returns float64, its rule says int64"):
        wrong(XS[0])
    with pytest.raises(TypeError, match="needs positional parameters"):
        operation(lambda *xs: 0, shape=(), dtype=np.int64)

    @model
    def with_threads(x: np.ndarray) -> Any:
        return wrong(x)

    @model
    def of_a_list(x: np.ndarray) -> Any:
        return longer([1.0, 2.0])

    @model
    def without_gradient(x: np.ndarray, *, w: np.ndarray) -> Any:
        return longer(x * w).sum()

    with pytest.raises(Unsupported, match="parallel=True"):
        with_threads.batch(XS)
    with pytest.raises(TypeMismatch, match="pass arrays and numbers"):
        of_a_list.batch(XS)
    with pytest.raises(Unsupported, match="the operation longer, which has no gradient"):
        without_gradient.value_and_grad.batch(XS, w=np.array(2.0))

    @model
    def there(x: np.ndarray) -> Any:
        return longer(x)

    with pytest.raises(Unsupported, match="no function for a GPU"):
        there.on("simulator").batch(XS)
    named = operation(longer.source, shape=longer.shape, dtype=np.float64, cuda=lambda x: None)

    @model
    def filling_nothing(x: np.ndarray) -> Any:
        return named(x)

    with pytest.raises(Unsupported, match="1 parameters of the device function"):
        filling_nothing.batch(XS)


def test_a_kernel_that_numba_cannot_compile_is_rejected() -> None:
    @numba.njit
    def writes(x, out):  # type: ignore[no-untyped-def]
        x[0] = 0.0

    changed = operation(lambda x: x, shape=lambda x: x.shape, dtype=np.float64, kernel=writes)

    @model
    def f(x: np.ndarray) -> Any:
        return changed(x)

    with pytest.raises(Unsupported, match="Numba cannot compile the kernel"):
        f.batch(XS)


@pytest.mark.parametrize("persistent", [False, pytest.param(True, marks=pytest.mark.long)])
def test_device_functions_on_the_simulator(persistent: bool) -> None:
    run = model(mixed)
    wanted = outcomes(run.batch, XS, KS)
    there = run.on("simulator").with_options(persistent=persistent)
    agree(outcomes(there.batch, XS, KS), wanted, close=True)
    agree([outcomes(there.batch, XS[-1:], KS[-1:])[0]], wanted[-1:], close=True)


def test_gradients_of_device_functions_on_the_simulator() -> None:
    @model
    def loss(x: np.ndarray, k: int, *, w: np.ndarray) -> Any:
        return (spread(decay(x * w[0] + w[1], 0.3), k)[0] ** 2).sum() * w[2]

    w, ks = np.array([0.5, 0.25, 1.5]), [1, 0, 2, 3, 1, 0]
    here, there = (f.batch(XS, ks, w=w) for f in (loss.value_and_grad, loss.value_and_grad.on("simulator")))
    assert np.allclose(here[0], there[0]) and np.allclose(here[1], there[1])


def test_the_reports_have_its_name() -> None:
    run = model(mixed)
    xs, ks = XS[:2], KS[:2]
    text = " ".join(str(run.explain(xs, ks)).split())
    assert "operation: `decay` runs `_decay`, compiled by Numba; on a GPU, `_decay`" in text
    stages = run.stages(xs, ks)
    assert any("def own_kernel_decay" in stages[name] for name in stages if name.endswith("/cuda"))
    assert any("# decay, an operation of your own" in stages[name] for name in stages if name.endswith("/cpu"))
    assert "decay@" in run.stages(xs, ks)["ir"]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_random_programs(seed: int, tmp_path: Path) -> None:
    run, p = model(program(seed, tmp_path)), RNG.normal(size=3)
    ys = XS[::-1]
    assert run.check(XS, ys, KS, p=p).ok
    wanted = outcomes(run.batch, XS, ys, KS, p=p)
    agree(outcomes(run.batch, XS[::-1], ys[::-1], KS[::-1], p=p)[::-1], wanted)
    agree(outcomes(run.with_options(threads=2, equal=False).batch, XS, ys, KS, p=p), wanted)
    loss = model(program(seed, tmp_path, loss=True))
    assert not loss.value_and_grad.check(XS, ys, list(map(abs, KS)), p=p).different
