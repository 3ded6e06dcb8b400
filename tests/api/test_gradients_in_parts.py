"""Mini-batches that do not fit into memory at once go there and back in parts, whose gradients add up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, InstanceErrors, leaves, model, pack, value_and_grad, vjp
from acronumba.api.structures import float_arrays
from acronumba.pipeline.gradients import Trained
from acronumba.runtime import buffers
from tests.support.chosen import one_in

RNG = np.random.default_rng(2)
WIDTH = 32


def weights(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 0.2).astype(np.float32)


@model
def fold(xs: list[np.ndarray], k: int, *, p: dict[str, Any]) -> Any:
    h = p["b"]
    for x in xs:
        h = np.tanh(p["w"] @ h + x + p["e"][k])
    return np.sum(h * h) * (1.0 / (k - 7)), {"last": h, "k": k}


@model
def waits(xs: list[np.ndarray], k: int, *, p: dict[str, Any]) -> Any:
    h = p["b"]
    for x in xs:
        h = np.tanh(p["w"] @ h + x)
        if float(h[0]) > 0:
            h = h * p["e"][k]
    return np.sum(h * h), {"last": h, "k": k}


XS = [[weights(WIDTH) for _ in range(1 + k % 11)] for k in range(200)]
KS = [int(RNG.integers(0, 6)) for _ in XS]
P = {"w": weights(WIDTH, WIDTH), "b": weights(WIDTH), "e": weights(9, WIDTH)}


class Sizes(list[int]):
    """How many instances were tried at once."""

    bytes = 0  # that the last run took

    def limit(self, f: Any) -> int:
        """Return a limit under which few of the instances fit at once: without what is kept from run to run."""
        taken = []
        for n in (1, len(XS)):
            value_and_grad(f, aux=True).batch(XS[:n], KS[:n], p=P)
            taken.append(self.bytes)
        self.clear()
        return (taken[1] - taken[0]) // 3


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> Sizes:
    """How many instances were tried at once."""
    seen = Sizes()
    run = Trained.run

    def noting(self: Trained, packed: Any, *args: Any, **more: Any) -> Any:
        seen.append(len(packed))
        done = run(self, packed, *args, **more)
        seen.bytes = done.back.bytes
        return done

    monkeypatch.setattr(Trained, "run", noting)
    return seen


def close(found: Any, want: Any, scale: float) -> None:
    for (name, a), (_, b) in zip(leaves(found), leaves(want), strict=True):
        assert type(a) is type(b)
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-5 * scale, err_msg=name)


@pytest.mark.parametrize(("f", "reduce"), one_in(2, [(fold, "mean"), (fold, "sum"), (waits, "sum"), (waits, "mean")]))
def test_parts_are_the_whole(f: Any, reduce: str, sizes: Sizes) -> None:
    limit = sizes.limit(f)
    choices: dict[str, Any] = {"wrt": ("p", "xs"), "aux": True, "reduce": reduce, "sparse": "p['e']"}
    whole = value_and_grad(f, **choices).batch(XS, KS, p=P)
    assert sizes == [200]
    parts = value_and_grad(f.with_options(memory_limit=limit), **choices)
    for xs in (XS, pack(XS)):
        sizes.clear()
        found = parts.batch(xs, KS, p=P)
        assert len(sizes) > 3 or (len(sizes) > 2 and max(sizes) < 200)
        assert list(found.losses) == list(whole.losses) and found.value == whole.value
        assert all(np.array_equal(a["last"], b["last"]) for a, b in zip(found.aux, whole.aux, strict=True))
        close(found.grads[0], whole.grads[0], 200 if reduce == "sum" else 1)
        if reduce == "sum":  # where nothing is rounded otherwise: what an instance has alone
            own = zip(float_arrays(found.grads[1]), float_arrays(whole.grads[1]), strict=True)
            assert all(np.array_equal(a, b) for a, b in own)
        else:
            close({"xs": found.grads[1]}, {"xs": whole.grads[1]}, 1)


def test_failures_in_one_part(sizes: Sizes) -> None:
    ks = [*KS[:150], 7, *KS[151:180], 30, *KS[181:]]
    whole = value_and_grad(fold, aux=True)
    parts = value_and_grad(fold.with_options(memory_limit=sizes.limit(fold)), aux=True)
    errors = []
    for f in (whole, parts):
        with pytest.raises(InstanceErrors) as caught:
            f.batch(XS, ks, p=P)
        errors.append(caught.value)
    kinds = [{k: type(e) for k, e in error.errors.items()} for error in errors]
    assert kinds[0] == kinds[1] == {150: ZeroDivisionError, 180: IndexError}
    close(errors[1].results.grads, errors[0].results.grads, 1)
    assert errors[1].results.value == errors[0].results.value
    assert len(sizes) > 4 and sizes[:2] == [200, 200]


def test_an_instance_that_alone_is_too_large_fails_alone(sizes: Sizes) -> None:
    xs = [*XS[:20], [weights(WIDTH)] * 5000, *XS[20:40]]
    f = value_and_grad(fold.with_options(memory_limit=sizes.limit(fold)), aux=True)
    with pytest.raises(InstanceErrors) as caught:
        f.batch(xs, [1] * 41, p=P)
    assert {k: getattr(e, "code", "") for k, e in caught.value.errors.items()} == {20: "ACR704"}
    assert "this instance alone" in str(caught.value.errors[20])
    close(caught.value.results.grads, value_and_grad(fold, aux=True).batch(XS[:40], [1] * 40, p=P).grads, 1)


def test_what_did_not_fit_is_remembered_and_what_fits_easily_too(sizes: Sizes) -> None:
    f = value_and_grad(model(fold.__wrapped__).with_options(memory_limit=6 << 20), aux=True)
    long = [XS[7] * 20 for _ in XS]
    f.batch(long, KS, p=P)
    first = len(sizes)
    sizes.clear()
    f.batch(long, KS, p=P)
    assert 1 < len(sizes) < first and max(sizes) < 200  # nothing is tried in vain
    tried = []
    for _ in range(40):
        sizes.clear()
        f.batch([x[:1] for x in XS], KS, p=P)
        tried.append(len(sizes))
    assert tried == sorted(tried, reverse=True) and tried[-1] == 1


def test_the_next_step_finds_the_memory_of_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    allocate = buffers.aligned

    def noting(size: int, *args: Any) -> Any:
        made.append(size)
        return allocate(size, *args)

    monkeypatch.setattr(buffers, "_KEPT", 1 << 20)
    monkeypatch.setattr(buffers, "aligned", noting)
    monkeypatch.setattr(buffers.ArenaPool.__init__, "__defaults__", (noting, 1 << 20, 4))
    f = value_and_grad(model(fold.__wrapped__), aux=True)
    for _ in range(3):
        f.batch([x * 20 for x in XS], KS, p=P)
    assert max(made) > 1 << 20
    made.clear()
    f.batch([x * 20 for x in XS], KS, p=P)
    assert max(made, default=0) <= 1 << 20


def test_a_trace_has_the_memory_of_both_ways() -> None:
    long, f = [x * 20 for x in XS], model(fold.__wrapped__)
    there, both = (g.trace(long, KS, p=P).peak_bytes for g in (f, value_and_grad(f, aux=True)))
    assert both > there


def test_a_pullback_that_does_not_fit_is_rejected(sizes: Sizes) -> None:
    small = vjp(fold.with_options(memory_limit=sizes.limit(fold)))

    def round_trip() -> None:
        results, pullback = small.batch(XS, KS, p=P)
        pullback([(np.float32(1), None)] * len(results))

    with pytest.raises(AcronumbaError) as caught:
        round_trip()
    assert caught.value.code == "ACR704"
    small = vjp(fold.with_options(memory_limit=4 << 20))
    with pytest.raises(
        AcronumbaError, match=r"of 200 instances did not fit in memory|does not fit in memory"
    ) as caught:
        small.batch([x * 40 for x in XS], KS, p=P)
    assert caught.value.code == "ACR704"
