"""The backward pass on a device, which is the simulator: gradients as on the processor, with the same promises."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba import InstanceErrors, RowGrad, model, nn, optim, pack, value_and_grad, vjp
from acronumba.api.structures import float_arrays
from acronumba.bench.workloads import inputs
from acronumba.kernels.cuda import persistent as kernel
from acronumba.kernels.cuda import sums
from acronumba.runtime.devices import back as places
from acronumba.runtime.devices import executor, names
from acronumba.runtime.devices.simulated import SimulatedDevice, simulator
from acronumba_bench.lessons import LESSONS
from acronumba_bench.workloads import WORKLOADS
from tests.support.chosen import one_in
from tests.support.random_gradients import wrong_programs
from tests.support.routes import Pullbacks

RNG = np.random.default_rng(7)


def weights(*shape: int, dtype: Any = np.float32) -> Any:
    return (RNG.standard_normal(shape) * 0.5).astype(dtype)


def alike(mine: Any, theirs: Any, bound: float = 2e-6, of_all: float = 0.0) -> None:
    """Check that gradients are equal but for rounding, each in parts of its largest number.

    `of_all`: or in parts of the largest number of all of them, which terms may have had that cancel in others.
    """
    pairs = list(zip(float_arrays(list(mine)), float_arrays(list(theirs)), strict=True))
    assert pairs
    sizes = [float(np.abs(b).max(initial=0.0)) for _, b in pairs]
    for (a, b), size in zip(pairs, sizes, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=0, atol=max(bound * (size or 1.0), of_all * max(sizes)))


def bits(grads: Any) -> list[bytes]:
    return [g.tobytes() for g in float_arrays([grads])]


@model
def loss(words: list[int], k: int, *, p: dict[str, Any]) -> Any:
    h = p["start"]
    for i in words:
        h = np.tanh(p["w"] @ np.concatenate([h, p["embed"][i]]) + p["b"])
    return nn.cross_entropy(p["out"] @ h, k)


COLUMNS: tuple[list[Any], ...] = ([[7, 4, 7], [9, 3], [2], [0, 7, 1, 2]], [0, 1, 2, 1])


def params(dtype: Any = np.float32) -> dict[str, Any]:
    shapes = {"start": (5,), "w": (5, 9), "embed": (10, 4), "b": (5,), "out": (3, 5)}
    return {name: weights(*shape, dtype=dtype) for name, shape in shapes.items()}


def there(f: Any) -> Any:
    return f.on("simulator")


LONG = sorted(LESSONS, key=lambda name: name != "tree_lstm")


@pytest.mark.parametrize("name", one_in(20, LONG, mark="slow"))
def test_losses_of_the_zoo(name: str) -> None:
    lesson = LESSONS[name]
    xs, p = inputs(lesson.workload, 8, 2, None)
    columns = lesson.columns(xs)
    value, grads = lesson.loss.value_and_grad.batch(*columns, p=p)
    mine = there(lesson.loss).value_and_grad.batch(*columns, p=p)
    assert mine.value == pytest.approx(value, rel=1e-5)
    alike([mine.grads], [grads], 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_pullbacks_of_the_zoo(name: str) -> None:
    workload = WORKLOADS[name]
    xs, p = inputs(workload, 8, 1, None)
    verdict = there(workload.model).check(xs, p=p)
    assert verdict.ok, str(verdict)
    both = Pullbacks(workload.model, [xs], {"p": p})
    assert both.possible
    alike(both.gradients(both.ran(there(workload.model))), both.gradients(), 2e-5, of_all=2e-7)


@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)])
def test_bits_depend_on_no_thread_and_no_number_of_blocks(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise 1, and that they are those of the processor but for rounding."""
    p = params(dtype)
    _, theirs = loss.value_and_grad.batch(*COLUMNS, p=p)
    found = []
    for seed, processors in ((0, 1), (1, 3)):
        monkeypatch.setattr(names, "open_device", lambda name, seed=seed: SimulatedDevice(seed))
        monkeypatch.setattr(SimulatedDevice, "processors", processors)
        again = there(model(loss.__wrapped__)).value_and_grad
        found += [bits(again.batch(*COLUMNS, p=p).grads), bits(again.batch(*COLUMNS, p=p).grads)]
    assert all(one == found[0] for one in found)
    alike([again.batch(*COLUMNS, p=p).grads], [theirs], 2e-6 if dtype == np.float32 else 1e-13)


@model
def attention_loss(x: Any, y: Any, *, p: dict[str, Any]) -> Any:
    z = np.tanh(nn.softmax(x @ p["q"] @ (x @ p["k"]).T) @ x)
    return ((nn.softmax(z @ p["u"]) @ z - y) ** 2).sum()


def test_nodes_have_extents_of_their_own_in_the_backward_pass() -> None:
    """A node's gradients have the bits that they have in a batch of its length alone."""
    p = {"q": weights(4, 4), "k": weights(4, 4), "u": weights(4)}
    columns = ([weights(n, 4) for n in (3, 9, 1, 3)], [weights(4) for _ in range(4)])
    _, theirs = attention_loss.value_and_grad.batch(*columns, p=p)
    found = [
        there(f).value_and_grad.batch(*columns, p=p).grads
        for f in (attention_loss, attention_loss.with_options(ragged=False))
    ]
    assert bits(found[0]) == bits(found[1])
    alike([found[0]], [theirs], 1e-5)


def test_weights_that_change_are_packed_and_copied_in_each_step() -> None:
    """Steps of an optimiser, from packed instances: the same as on the processor."""
    p = params()
    q = {name: a.copy() for name, a in p.items()}
    columns = tuple(map(pack, COLUMNS))
    for f, at in ((there(loss), p), (loss, q)):
        opt = optim.Adam(0.05)
        for _ in range(3):
            _, grads = f.value_and_grad.batch(*columns, p=at)
            opt.update(at, grads)
    alike([p], [q], 1e-5)


@pytest.mark.long
def test_a_backward_pass_keeps_nothing_of_a_run() -> None:
    p = params()
    _, pullback = vjp(there(loss)).batch(*COLUMNS, p=p)
    (part,) = pullback._forward.parts  # type: ignore[union-attr]
    run = weakref.ref(part.run)  # type: ignore[union-attr]
    pullback([np.float32(1)] * 4)
    del part, pullback
    gc.collect()
    assert run() is None


@pytest.mark.long
def test_there_may_be_more_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    p = params()
    _, wanted = there(loss).value_and_grad.batch(*COLUMNS, p=p)
    monkeypatch.setattr(executor, "_ROOM", 256)
    monkeypatch.setattr(executor, "_LAUNCHES", 1)
    monkeypatch.setattr(places, "_LAUNCHES", 0)
    again = there(model(loss.__wrapped__)).value_and_grad
    assert bits(again.batch(*COLUMNS, p=p).grads) == bits(wanted)


@pytest.mark.long
def test_long_sums_are_cut_alike_in_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    p = params()
    f = there(loss).value_and_grad
    whole = f.batch(*COLUMNS, p=p).grads
    monkeypatch.setattr(places, "_SPANS", {"outer": 2, "columns": 3})
    found = [f.batch(*COLUMNS, p=p).grads for _ in range(2)]
    assert bits(found[0]) == bits(found[1]) != bits(whole)
    alike([found[0]], [whole])
    monkeypatch.setattr(places, "_PARTS", 800)  # fewer parts, where a sum is large
    alike([f.batch(*COLUMNS, p=p).grads], [whole])


@model
def several(x: np.ndarray, k: int, *, w: np.ndarray, table: np.ndarray) -> Any:
    """One value with many readers, rows by a number that is computed, and parts of an argument."""
    h = np.tanh(w @ x)
    i = np.argmax(h)
    total = h[0] * x[1]
    for j in range(k):
        total = total + np.sum(h * table[j]) * x[j]
    return total + np.sum(table[i] * h) + np.sum(table[i] @ w)


def some(k: int = 3) -> tuple[list[Any], list[int]]:
    return [weights(4) for _ in range(k)], list(range(1, k + 1))


def test_numbers_that_are_computed_and_gradients_of_instances() -> None:
    w, table = weights(6, 4), weights(6, 6)
    xs, ks = some()
    f = value_and_grad(several, wrt=("w", "table", "x"), reduce="sum")
    mine, theirs = there(f).batch(xs, ks, w=w, table=table), f.batch(xs, ks, w=w, table=table)
    alike(mine.grads, theirs.grads)
    for wrt in ("table", "x"):
        by_rows = value_and_grad(several, wrt=wrt, sparse=True)
        (_, mine_), (_, theirs_) = (g.batch(xs, ks, w=w, table=table) for g in (there(by_rows), by_rows))
        for a, b in zip(*(x if wrt == "x" else [x] for x in (mine_, theirs_)), strict=True):
            assert type(a) is type(b) and (wrt == "x" or a.index.tolist() == b.index.tolist())
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), atol=1e-5)
    rows = value_and_grad(loss, sparse="p.embed")
    p = params()
    (_, mine_), (_, theirs_) = there(rows).batch(*COLUMNS, p=p), rows.batch(*COLUMNS, p=p)
    assert isinstance(mine_["embed"], RowGrad) and mine_["embed"].index.tolist() == theirs_["embed"].index.tolist()
    np.testing.assert_allclose(mine_["embed"].rows, theirs_["embed"].rows, atol=1e-6)


@model
def until(x: np.ndarray, *, w: np.ndarray, u: np.ndarray) -> Any:
    h = np.tanh(w @ x)
    for _ in range(4):
        h = np.tanh(w @ h + x) if float(np.sum(h)) > 0 else np.tanh(u @ h)
    return np.sum(h * u[0])


def test_rounds_go_back_as_one_graph() -> None:
    w, u = weights(4, 4), weights(4, 4)
    xs = [weights(4) for _ in range(5)]
    mine, theirs = (f.value_and_grad.batch(xs, w=w, u=u) for f in (there(until), until))
    alike(list(mine.grads), list(theirs.grads))


@model
def attended(x: np.ndarray, *, w: np.ndarray, b: np.ndarray, u: np.ndarray) -> Any:
    h = np.tanh(x @ w + b)
    return np.sum(nn.softmax(h @ u) @ h)


def test_nodes_of_several_rows() -> None:
    w, b, u = weights(5, 7), weights(7), weights(7)
    xs = [weights(n, 5) for n in (3, 1, 6)]
    mine, theirs = (f.value_and_grad.batch(xs, w=w, b=b, u=u) for f in (there(attended), attended))
    alike(list(mine.grads), list(theirs.grads))


def test_an_instance_that_fails_or_is_nan_leaves_the_others_as_they_are() -> None:
    @model
    def picked(x: np.ndarray, k: int, *, w: np.ndarray) -> Any:
        return np.sum(w[k] * x * w[int(np.argmax(x)) + k])

    w = weights(5, 5)
    xs, ks = [np.roll(np.arange(5, dtype=np.float32), -2 * i) for i in range(3)], [0, 4, 1]
    f = value_and_grad(picked, wrt=("w", "x"), reduce="sum")
    with pytest.raises(InstanceErrors) as raised:
        there(f).batch(xs, ks, w=w)
    with pytest.raises(InstanceErrors) as known:
        f.batch(xs, ks, w=w)
    assert set(raised.value.errors) == set(known.value.errors) == {1}
    alike(raised.value.results.grads, known.value.results.grads)  # type: ignore[attr-defined]
    own = value_and_grad(several, wrt="x", reduce="sum")
    xs, ks = some()
    w, table = weights(6, 4), weights(6, 6)
    whole = there(own).batch(xs, ks, w=w, table=table).grads
    xs[1] = np.full(4, np.nan, np.float32)
    again = there(own).batch(xs, ks, w=w, table=table).grads
    assert np.isnan(again[1]).all() and [again[k].tobytes() == whole[k].tobytes() for k in (0, 2)] == [True, True]


def test_a_pull_may_be_called_again_and_after_other_mini_batches() -> None:
    @model
    def states(xs: list[np.ndarray], *, w: np.ndarray) -> Any:
        h = np.zeros(3, np.float32)
        for x in xs:
            h = np.tanh(w @ h + x)
        return h, h * 2

    w = weights(3, 3)
    xs = [[weights(3) for _ in range(n)] for n in (1, 3)]
    g = [(weights(3), None), (weights(3), weights(3))]
    f = vjp(states, wrt=("w", "xs"))
    _, theirs = f.batch(xs, w=w)
    _, mine = there(f).batch(xs, w=w)
    there(f).batch(xs[::-1], w=weights(3, 3))
    first, second = mine(g, keep=True), mine(g)
    alike(first, theirs(g))
    assert bits(list(first)) == bits(list(second))


@pytest.mark.slow
def test_two_threads_train_two_models() -> None:
    def train(seed: int) -> list[bytes]:
        rng = np.random.default_rng(seed)
        p = {name: rng.standard_normal(a.shape).astype(np.float32) for name, a in params().items()}
        opt = optim.SGD(0.1)
        for _ in range(3):
            _, grads = there(loss).value_and_grad.batch(*COLUMNS, p=p)
            opt.update(p, grads)
        return bits([p])

    wanted = [train(k) for k in range(2)]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(train, range(2))) == wanted


def test_the_trace_has_the_backward_pass_and_check_compares_it() -> None:
    p = params()
    mine, theirs = (
        [(b.kernel, b.what, b.size) for b in f.value_and_grad.trace(*COLUMNS, p=p).back] for f in (there(loss), loss)
    )
    assert mine == theirs and {what for _, what, _ in mine} >= {"nodes", "sum"}
    assert there(loss).value_and_grad.check(*COLUMNS, p=p).ok


def one_launch(f: Any, columns: Any, shared: Any, **wanted: Any) -> int:
    """Check that gradients by one launch have the bits of those by many; return how many launches that were."""
    found, launches = [], []
    for way in (False, True):
        g = value_and_grad(f.with_options(persistent=way).on("simulator"), reduce="sum", **wanted)
        g.batch(*columns, **shared)
        before = simulator().launches
        done = g.batch(*columns, **shared)
        launches.append(simulator().launches - before)
        found.append([np.asarray(g).tobytes() for g in float_arrays([done.grads])])
    assert found[0] and found[0] == found[1]
    assert launches[1] < min(launches[0], 4)  # the forward pass, and the batches before the sums if these must wait
    return launches[0]


@pytest.mark.parametrize("cut", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_one_launch_has_the_bits_of_many(cut: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if cut:
        monkeypatch.setattr(places, "_SPANS", {"outer": 2, "columns": 3})
    p = params()
    assert one_launch(loss, COLUMNS, {"p": p}) > 8


@pytest.mark.slow
def test_one_launch_where_nodes_have_extents_or_several_rows_and_rows_are_sparse() -> None:
    p = {"q": weights(4, 4), "k": weights(4, 4), "u": weights(4)}
    one_launch(attention_loss, ([weights(n, 4) for n in (3, 9, 1)], [weights(4) for _ in range(3)]), {"p": p})
    shared = {"w": weights(5, 7), "b": weights(7), "u": weights(7)}
    one_launch(attended, ([weights(n, 5) for n in (3, 1, 6)],), shared)
    one_launch(loss, COLUMNS, {"p": params()}, sparse="p.embed")
    xs, ks = some()
    one_launch(several, (xs, ks), {"w": weights(6, 4), "table": weights(6, 6)}, wrt=("w", "table", "x"))


@pytest.mark.parametrize("first", [pytest.param(n, marks=pytest.mark.slow if n else pytest.mark.long) for n in (0, 9)])
def test_random_programs_have_the_same_bits_in_one_launch(first: int, tmp_path: Path) -> None:
    def differs(f: Any, columns: Any, shared: Any) -> float | None:
        both = Pullbacks(there(f), columns, shared, persistent=False)
        if not both.possible:
            return None
        mine = both.gradients(both.ran(there(f).with_options(persistent=True)))
        return float(bits(list(mine)) != bits(list(both.gradients())))

    wrong, many = wrong_programs(differs, range(first, first + 4), tmp_path)
    assert many and not wrong


def test_blocks_of_a_backward_pass_that_wait_in_vain_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    turn = places.BackDevice.turn
    monkeypatch.setattr(places.BackDevice, "turn", lambda self: (made.append(self), turn(self))[1])
    f = there(model(loss.__wrapped__)).with_options(persistent=True).value_and_grad
    p = params()
    wanted = f.batch(*COLUMNS, p=p)
    made[0].persistent["looks"] = 0
    with pytest.raises(RuntimeError, match="in vain"):
        f.batch(*COLUMNS, p=p)
    made[0].persistent["looks"] = 1 << 25
    assert bits(f.batch(*COLUMNS, p=p).grads) == bits(wanted.grads)


def test_sums_of_both_dtypes_are_parts_of_one_kernel() -> None:
    whole = kernel.persistent([sums.code("float32"), sums.code("float64")])
    assert whole.text.count("def outer") == 2
