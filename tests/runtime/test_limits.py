"""More memory never gives fewer results: a limit decides how many instances run at once, and who does not fit alone."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, InstanceErrors, leaves, pack, value_and_grad
from acronumba.api.dispatch import bind, specialise
from acronumba.api.model import Model, model
from acronumba.api.results import is_device_array
from acronumba.pipeline.link_device import link_device
from acronumba.pipeline.running import Running
from acronumba.pipeline.slices import Slices
from acronumba.runtime import driver
from acronumba.runtime.devices.simulated import SimulatedDevice
from acronumba.runtime.memory_policy import TooLarge
from acronumba.zoo import birnn, drnn, listops, stack_rnn, tree_lstm
from tests.support.chosen import one_in
from tests.support.memory_models import WIDTH

F32 = np.float32
KIB = 1 << 10
ZOO: dict[str, tuple[Any, Any]] = {
    "tree_lstm": (tree_lstm, tree_lstm.sentiment),
    "birnn": (birnn, birnn.tag),
    "drnn": (drnn, drnn.generate),  # waits for values
    "stack_rnn": (stack_rnn, stack_rnn.parse),  # waits, too
    "listops": (listops, listops.classify),
}
LIMITS = [20 * KIB, 64 * KIB, 200 * KIB, 600 * KIB, 64 << 20]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many instances each run has had."""
    seen, begin = list[int](), driver.Executable._begin
    monkeypatch.setattr(driver.Executable, "_begin", lambda self, m: (seen.append(len(m.roots)), begin(self, m))[1])
    return seen


def results_of(f: Model[..., Any], xs: Any, p: Any) -> tuple[Sequence[Any], set[int]]:
    """Return results, and the numbers of the instances that did not fit."""
    try:
        return f.batch(xs, p=p), set()
    except InstanceErrors as caught:
        errors = caught.errors
        assert all(isinstance(e, AcronumbaError) and e.code == "ACR704" for e in errors.values())
        assert all("this instance alone" in str(e) and e.line for e in errors.values())
        return caught.results, set(errors)


@pytest.mark.parametrize("name", one_in(3, ZOO))
def test_results_of_a_limit_are_those_of_smaller_ones_and_more(name: str) -> None:
    module, f = ZOO[name]
    f, xs, p = model(f.__wrapped__), module.instances(40), module.params(WIDTH)
    want, lost = f.batch(xs, p=p), set(range(len(xs)))
    for limit in LIMITS:
        limited, before = f.with_options(memory_limit=limit), lost
        found, lost = results_of(limited, xs, p)
        assert lost <= before, limit
        alone = {k for k in range(0, len(xs), 5) if results_of(limited, xs[k : k + 1], p)[1]}
        assert alone == {k for k in lost if k % 5 == 0}, limit
        assert all(pickle.dumps(found[k]) == pickle.dumps(want[k]) for k in range(len(xs)) if k not in lost)
        trace = limited.trace(xs, p=p)
        assert trace.peak_bytes <= limit and set(trace.errors) == lost
        assert all(pickle.dumps(trace.results[k]) == pickle.dumps(want[k]) for k in range(len(xs)) if k not in lost)
    assert not lost


@pytest.mark.parametrize("options", one_in(4, [{}, {"recycle": False}, {"parts": False}, {"threads": 2}]))
def test_all_succeed_from_the_need_of_the_largest_on(options: dict[str, Any]) -> None:
    f = tree_lstm.sentiment.with_options(**options)
    xs, p = tree_lstm.instances(200), tree_lstm.params(WIDTH)
    want = f.batch(xs, p=p)
    limits = [2**k * KIB for k in range(5, 12)]
    need = next(n for n in limits if not results_of(f.with_options(memory_limit=n), xs, p)[1])
    for limit in (need, need * 3 // 2, 10 * need):
        trace = f.with_options(memory_limit=limit).trace(xs, p=p)
        assert not trace.errors and trace.peak_bytes <= limit
        assert [r.tobytes() for r in trace.results] == [r.tobytes() for r in want]


def test_a_trace_of_slices_is_one_of_all() -> None:
    f, xs, p = tree_lstm.sentiment, tree_lstm.instances(60), tree_lstm.params(WIDTH)
    whole, sliced = f.trace(xs, p=p), f.with_options(memory_limit=200 * KIB, equal=False).trace(xs, p=p)
    one = f.with_options(equal=False).trace(xs, p=p)
    assert sliced.parts > 1 == whole.parts and sliced.nodes == one.nodes == sum(b.size for b in sliced.batches)
    for k in (0, 31, 59):
        assert sorted(sliced.data.kernel[sliced.data.nodes_of(k)]) == sorted(one.data.kernel[one.data.nodes_of(k)])
    data = sliced.data
    assert (data.instance[data.edges[:, 0]] == data.instance[data.edges[:, 1]]).all()
    assert sorted(data.order) == list(range(data.nodes)) and (np.diff(data.batch[data.order]) >= 0).all()
    assert "micro-batches" in str(sliced) and pickle.loads(pickle.dumps(sliced)).nodes == one.nodes


@model
def loss(t: tree_lstm.Tree, *, p: dict[str, Any]) -> Any:
    return np.sum(tree_lstm.sentiment(t, p=p) ** 2)


def test_gradients_of_a_limit() -> None:
    xs, p = pack(tree_lstm.instances(60)), tree_lstm.params(WIDTH)
    whole, lost = value_and_grad(loss, reduce="sum").batch(xs, p=p), set(range(60))
    for limit in (64 * KIB, 150 * KIB, 1 << 20, 16 << 20):
        f, before = value_and_grad(loss.with_options(memory_limit=limit), reduce="sum"), lost
        try:
            found, lost = f.batch(xs, p=p), set()
        except InstanceErrors as caught:
            found, lost = caught.results, set(caught.errors)  # type: ignore[assignment]
        assert lost <= before
        assert all(found.losses[k] == whole.losses[k] for k in range(60) if k not in lost)
        if lost:
            continue
        assert f.trace(xs, p=p).peak_bytes <= limit and found.value == whole.value
        for (name, a), (_, b) in zip(leaves(found.grads), leaves(whole.grads), strict=True):
            assert np.abs(a - b).max() <= 1e-6 * np.abs(b).max(), name
    assert not lost


def test_the_next_call_knows_how_many_fit(runs: list[int]) -> None:
    f = model(tree_lstm.sentiment.__wrapped__, memory_limit=300 * KIB)
    xs, p = tree_lstm.instances(500), tree_lstm.params(WIDTH)
    f.batch(xs, p=p)
    tried = sum(runs) - len(xs)
    assert tried <= 2 * len(xs) and len(runs) <= 2 * len(xs) // min(runs[2:-2])
    runs.clear()
    f.batch(xs, p=p)
    assert sum(runs) == len(xs)


@model
def far(x: np.ndarray, steps: int) -> Any:
    for _ in range(steps):
        if np.sum(x) < 1e9:
            x = x + 1
    return x


def test_who_took_many_steps_is_not_lost_for_that(runs: list[int]) -> None:
    xs, steps = [np.full(64, k, np.float64) for k in range(60)], [2 if k % 2 else 300 for k in range(60)]
    want = far.batch(xs, steps)
    runs.clear()
    for limit in (1 << 19, 1 << 20, 1 << 21):
        found = far.with_options(memory_limit=limit, threads=1).batch(xs, steps)
        assert [a.tobytes() for a in found] == [a.tobytes() for a in want]
    assert len(runs) < 3 * 40


def test_results_of_slices_stay_on_a_device() -> None:
    f = model(tree_lstm.sentiment.__wrapped__, memory_limit=64 * KIB)
    xs, p = tree_lstm.instances(6)[3:], tree_lstm.params(8)  # few and narrow: the simulator is slow
    call = bind(f, (xs,), {"p": p})
    compiled, values, packed = specialise(f, call)
    assert packed is not None
    compiled.artifacts._devices["simulated"] = link_device(compiled.plan, compiled.options, SimulatedDevice(0))
    run = Running(compiled, packed, values, frozenset(), "simulated", False)
    here, there = run.decoders()
    assert compiled.slices.most < len(xs) and not run.failures and there is not None
    for k, x in enumerate(xs):
        assert is_device_array(there.one(k)) and not is_device_array(here.one(k))
        assert np.array_equal(np.asarray(there.one(k)), here.one(k)) and np.allclose(here.one(k), f(x, p=p), atol=1e-5)


# ---- how instances are shared out


class Needs:
    """Instances that need so much each, with a limit."""

    def __init__(self, needs: Sequence[int], limit: int, says: bool) -> None:
        self.needs, self.limit, self.says = np.array(needs), limit, says
        self.ran: list[int] = []
        self.calls = 0

    def __call__(self, places: Any, tight: bool) -> Sequence[int]:
        self.calls += 1
        needs = self.needs[places]
        if needs.sum() > self.limit:
            large = np.flatnonzero(needs > self.limit).tolist()
            if self.says:
                raise TooLarge("", surely=large, most=len(places) * self.limit / needs.sum())
            raise MemoryError
        self.ran += places.tolist()
        return []


@pytest.mark.parametrize("says", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_each_that_fits_alone_runs_once(seed: int, says: bool) -> None:
    rng = np.random.default_rng(seed)
    needs = rng.integers(1, 30, rng.integers(1, 200)) * np.where(rng.random() < 0.5, 1, rng.integers(1, 9))
    slices = Slices()
    for limit in sorted(rng.integers(5, 400, 5).tolist()):
        work = Needs(needs, limit, says)
        lost = slices.run(len(needs), work)
        assert sorted(lost) == np.flatnonzero(needs > limit).tolist()
        assert sorted([*lost, *work.ran]) == list(range(len(needs)))


def test_few_calls_find_how_many_fit() -> None:
    slices = Slices()
    work = Needs([1] * 4096, 64, False)
    assert slices.run(4096, work) == [] and work.calls == 6 + 64
    work.calls = 0
    assert slices.run(4096, work) == [] and work.calls == 64
    work.limit, tried = 1 << 20, []
    for _ in range(60):
        work.calls = 0
        slices.run(4096, work)
        tried.append(work.calls)
    assert tried[-1] == 1 and tried == sorted(tried, reverse=True)  # more are tried after a while


def test_of_many_suspects_some_are_asked() -> None:
    calls = list[int]()

    def work(places: Any, tight: bool) -> Sequence[int]:
        calls.append(len(places))
        endless = np.flatnonzero(places % 2).tolist()
        if endless:
            raise TooLarge("", suspects=endless)
        return []

    assert sorted(Slices().run(400, work)) == list(range(1, 400, 2))
    assert calls[:2] == [400, 200] and len(calls) < 12


def test_who_is_crowded_runs_alone() -> None:
    calls = list[tuple[int, bool]]()

    def work(places: Any, tight: bool) -> Sequence[int]:
        calls.append((len(places), tight))
        return [k for k, place in enumerate(places) if place in (3, 5)] if len(places) > 1 else []

    assert Slices().run(10, work) == [] and calls == [(10, False), (1, True), (1, True)]


@model
def chain(x: np.ndarray) -> Any:
    """Results of many sizes, and matrix products of run-time shapes, which need scratch."""
    n = x.shape[0]
    out = np.zeros((n, n))
    for _ in range(n // 4 + 1):
        out = out @ np.ones((n, n)) * 0.01 + np.outer(x, x)
    return out.sum(axis=0)


def test_an_instance_alone_fits_wherever_it_fitted_into_less() -> None:
    """Where results fit and scratch does not, they share places, as they do where they do not fit either."""
    sizes = [24, 37, 44, 48, 61]
    want = {n: chain.batch([np.ones(n)])[0].tobytes() for n in sizes}
    fitted: set[int] = set()
    for kib in (128, 192, 224, 256, 320, 448, 576, 704):
        f, now = chain.with_options(memory_limit=kib * KIB), set[int]()
        for n in sizes:
            try:
                (result,) = f.batch([np.ones(n)])
            except InstanceErrors:
                continue
            assert result.tobytes() == want[n]
            now.add(n)
        assert fitted <= now, kib
        fitted = now
    assert fitted == set(sizes)
