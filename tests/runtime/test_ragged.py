"""Nodes of different run-time extents in one batch: how many batches, the same bits, failures, memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from acronumba import InstanceErrors, nn
from acronumba.api.dispatch import bind, specialise
from acronumba.api.model import Model, model
from acronumba.api.results import equal
from acronumba.emit.target import host
from acronumba.kernels.stages.order import plan_stages
from acronumba.kernels.stages.tasks import RowStage
from acronumba.memory import address
from tests.support.chosen import one_in

F32 = np.float32
WIDTH = 8


@model
def pooled(x: Any, *, w: Any) -> Any:
    return np.tanh(w @ np.concatenate([x.mean(axis=0), x.max(axis=0)]))


@model
def both_pooled(x: Any, *, w: Any) -> Any:
    return x.sum(axis=0), x.max(axis=0, initial=-1.0)


@model
def chamfer(x: Any, y: Any, *, w: Any) -> Any:
    d = ((x[:, None] - y[None]) ** 2).sum(-1)
    return d.min(axis=1).mean() + d.min(axis=0).mean()


@model
def attention(x: Any, *, w: Any) -> Any:
    q = x @ w[:, :WIDTH].T
    return nn.softmax(q @ x.T) @ x


@model
def attended_by_columns(x: Any, *, w: Any) -> Any:
    return w @ np.concatenate([nn.softmax(x, axis=0).sum(axis=0), (x.T @ x)[0]])


@model
def decoded(x: Any, steps: int, *, w: Any) -> Any:
    h = x.mean(axis=0)
    states = [h]
    for _ in range(steps):
        s = np.stack(states)
        h = np.tanh(w @ np.concatenate([nn.softmax(s @ h) @ s, h]))
        states.append(h)
    return h


@model
def decided(x: Any, *, w: Any) -> Any:
    while x[0, 0] > 0 and len(x) > 1:
        x = np.tanh(x[1:]) + x.mean()
    return x, x @ x.T


def arrays(seed: int, lengths: Sequence[int]) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((n, WIDTH)).astype(F32) for n in lengths]


LENGTHS = (3, 1, 17, 3, 33, 2, 17, 5, 1, 40)
W = np.random.default_rng(9).standard_normal((WIDTH, 2 * WIDTH)).astype(F32)
# Models, their columns, and how many batches there are, with `ragged` and without.
CASES: dict[str, tuple[Model[Any], tuple[Any, ...], int, int]] = {
    "pooled": (pooled, (arrays(0, LENGTHS),), 1, 7),
    "both_pooled": (both_pooled, (arrays(0, (*LENGTHS, 0)),), 1, 8),
    "chamfer": (chamfer, (arrays(0, LENGTHS), arrays(1, LENGTHS[::-1])), 1, 9),
    "attention": (attention, (arrays(0, LENGTHS),), 2, 8),
    "attended_by_columns": (attended_by_columns, (arrays(0, LENGTHS),), 1, 7),
    "decoded": (decoded, (arrays(0, LENGTHS), [k % 4 for k in range(10)]), 7, 13),
}
OPTIONS = (
    {}, {"threads": 2}, {"recycle": False}, {"schedule": "depth"}, {"schedule": "agenda"}, {"fuse": False},
    {"gather_fusion": False}, {"blocks": False}, {"hoist": False},
)  # fmt: skip


@pytest.mark.parametrize("name", one_in(2, CASES))
def test_nodes_of_all_extents_are_one_batch(name: str) -> None:
    f, columns, ragged, alike = CASES[name]
    assert len(f.trace(*columns, w=W).data.batches) == ragged
    assert len(f.with_options(ragged=False).trace(*columns, w=W).data.batches) == alike


def test_explain_says_what_it_is_worth() -> None:
    f, columns, ragged, alike = CASES["attention"]
    explained = f.explain(*columns, w=W)
    (effect,) = [e for e in explained.effects if e.option == "ragged"]
    assert (explained.count.batches, effect.count.batches) == (ragged, alike)


@pytest.mark.parametrize(("name", "options"), one_in(9, [(n, o) for n in (*CASES, "decided") for o in OPTIONS]))
def test_bits_do_not_depend_on_it(name: str, options: dict[str, Any]) -> None:
    f, columns = CASES[name][:2] if name in CASES else (decided, (arrays(0, LENGTHS),))
    together = f.with_options(**options).batch(*columns, w=W)
    assert equal(list(together), list(f.with_options(**options, ragged=False).batch(*columns, w=W)))
    alone = [f.with_options(**options).batch(*([c] for c in each), w=W)[0] for each in zip(*columns, strict=True)]
    assert equal(list(together), alone)


@pytest.mark.parametrize("name", one_in(2, one_in(3, ["chamfer", "attention", "decoded"], mark="slow")))
def test_they_are_launched_together_on_a_gpu(name: str) -> None:
    f, columns = CASES[name][:2]
    columns = tuple(column[:5] for column in columns)
    near = f.batch(*columns, w=W)
    launched, found = [], []
    for g in (f, f.with_options(ragged=False)):
        there = g.on("simulator")
        found.append(list(there.batch(*columns, w=W)))
        device = specialise(there, bind(there, columns, {"w": W}))[0].artifacts.on("simulator").executor.device
        before = device.launches
        there.batch(*columns, w=W)
        launched.append(device.launches - before)
    assert launched[0] < launched[1]
    assert equal(*found)
    for mine, theirs in zip(found[0], near, strict=True):
        assert np.allclose(mine, theirs, rtol=1e-5, atol=1e-5)


def test_trace_says_which_extents_the_nodes_of_a_batch_have() -> None:
    (batch,) = chamfer.trace(arrays(0, (2, 3, 2)), arrays(1, (4, 5, 4)), w=W).batches
    assert [({*of} - {WIDTH}, nodes) for of, nodes in batch.extents] == [({2, 4}, 2), ({3, 5}, 1)]
    assert {*batch.ranges} - {(WIDTH, WIDTH)} == {(2, 3), (4, 5)}


def test_a_node_without_elements_fails_alone() -> None:
    with pytest.raises(InstanceErrors) as caught:
        pooled.batch(arrays(0, (3, 0, 17)), w=W)
    assert [*caught.value.errors] == [1]
    assert equal(caught.value.results[2], pooled.batch(arrays(0, (3, 0, 17))[2:], w=W)[0])


def test_an_instance_that_needs_too_much_memory_fails_alone() -> None:
    @model
    def outer(x: Any) -> Any:
        return (x[:, None] * x[None, :]).cumsum(axis=0)

    xs = [np.ones(n, F32) for n in (10, 20_000, 12, 3)]
    with pytest.raises(InstanceErrors) as caught:
        outer.with_options(memory_limit=1 << 28).batch(xs)
    assert [*caught.value.errors] == [1]
    assert caught.value.results[3].tolist() == [[1, 1, 1], [2, 2, 2], [3, 3, 3]]


@model
def least(x: Any) -> Any:
    return np.sort(x[:, None] * x, axis=0)[0]


def test_an_instance_that_needs_too_much_scratch_fails_alone() -> None:
    xs = [np.ones(n, F32) for n in (10, 20_000, 12, 3)]
    for options in ({}, {"ragged": False}):
        with pytest.raises(InstanceErrors) as caught:
            least.with_options(memory_limit=1 << 28, **options).batch(xs)
        assert [*caught.value.errors] == [1]
        assert [len(y) for k, y in enumerate(caught.value.results) if k != 1] == [10, 12, 3]


def test_fewer_threads_work_where_scratch_of_all_has_no_room() -> None:
    lengths = [10, 1000, 12, 999]
    f = least.with_options(memory_limit=1 << 26, threads=8)
    assert [len(y) for y in f.batch([np.ones(n, F32) for n in lengths])] == lengths


def test_many_lengths_take_no_quadratic_time() -> None:
    lengths = [k % 997 + 1 for k in range(3000)]
    xs = [np.full((n, 1), n, F32) for n in lengths]

    @model
    def mean(x: Any, *, w: Any) -> Any:
        return w @ x.mean(axis=0)

    t = mean.trace(xs, w=np.ones((4, 1), F32))
    assert len(t.data.batches) == 1 and len(t.data.batches[0].extents) == 997
    results = mean.batch(xs, w=np.ones((4, 1), F32))
    assert [float(y[0]) for y in results] == lengths
    by_place = np.array(lengths)[np.argsort([address(y) for y in results])]
    assert by_place.tolist() == lengths  # a batch has the order of recording


@model
def windowed(x: np.ndarray, *, window: int) -> Any:
    return nn.attention(x, x, x, window=window)


@pytest.mark.parametrize("window", [1, 20, 1000])
def test_a_window_that_is_a_shared_number_bounds_the_columns(window: int) -> None:
    """It is a number that a kernel is given: other windows compile nothing, and the bits are those without tiles."""
    rng = np.random.default_rng(window)
    xs = [rng.standard_normal((n, 16)).astype(np.float32) for n in (300, 1, 130)]
    found = windowed.batch(xs, window=window)
    whole = windowed.with_options(fuse=False).batch(xs, window=window)
    assert [r.tobytes() for r in found] == [r.tobytes() for r in whole]
    plan = windowed._compiled([xs], {"window": window}).plan
    (stage, *_) = plan_stages(plan.kernels[0], host()).stages
    assert isinstance(stage, RowStage) and stage.band is not None and len(stage.band.conditions) == 2
