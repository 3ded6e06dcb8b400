"""Rows of tables that a computed index names: kernels hand on the index, the row is read where it lies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from acronumba import InstanceErrors, model
from acronumba.analysis.plan import plan_text
from acronumba.zoo import moe
from tests.support.chosen import one_in, squares
from tests.support.generate import compare

RNG = np.random.default_rng(5)
E, H, W = 5, 13, 7


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@dataclass
class Params:
    w: np.ndarray
    b: np.ndarray
    wide: np.ndarray
    u: np.ndarray
    numbers: np.ndarray


@dataclass
class Item:
    x: np.ndarray  # float32[H]
    k: np.ndarray  # int64[], of one of E experts
    ks: np.ndarray  # int8[n]
    rows: np.ndarray  # float32[m, H]
    n: int


P = Params(normal(E, H, H), normal(E, H), normal(W, E, H), normal(H, H), np.array([4, -1, 2, 0, -5]))


def item(n: int, k: int, ks: tuple[int, ...] = (1, -2, 0), rows: int = 4) -> Item:
    return Item(normal(H), np.array(k), np.array(ks, np.int8), normal(rows, H), n)


ITEMS = [item(n, (n * 3) % E - (n % 2) * E, rows=1 + n % 3) for n in (0, 3, 1, 4, 2, 3)]


# ---- models


def in_a_later_block(t: Item, *, p: Params) -> Any:
    w, b, h = p.w[t.k], p.b[np.argmax(t.x[:E])], t.x
    for _ in range(t.n):
        h = np.tanh(w @ h) + b
    return h


def carried(t: Item, *, p: Params) -> Any:
    h, k, out = t.x, np.argmax(t.x[:E]), []
    for _ in range(t.n):
        w = p.w[k]
        h = np.tanh(w @ h + p.u @ t.x)
        k = np.argmax(w[:E] @ h)
        out.append(p.b[k] * h.sum())
    return out, k


def between_waits(t: Item, *, p: Params) -> Any:
    h, k = t.x, np.argmin(t.x[:E])
    w = p.w[k]
    while float((h * h).sum()) > 0.5:
        h = np.float32(0.1) * (w @ h) + np.float32(0.01) * p.b[k]
        if float(h[0]) > 0.05:
            k = np.argmax(h[:E])
    return h, k


def in_arms(t: Item, *, p: Params) -> Any:
    row = p.b[np.argmin(t.x[:E])]
    y = np.tanh(row) * t.x if t.n > 2 else row + p.u @ t.x
    return y, row.max()


def along_other_axes(t: Item, *, p: Params) -> Any:
    k = p.numbers[t.k]
    m = p.wide[:, k]
    return m @ t.x, p.w[k].T @ t.x, t.x @ p.w[:, :, k].T, m[k] * t.x


def by_many(t: Item, *, p: Params) -> Any:
    rows = p.b[t.ks]
    return rows @ t.x, rows.mean(axis=0), p.numbers[np.stack([t.ks, t.ks])], t.rows[np.argmax(t.rows[:, 0])] @ p.u


def by_a_call(t: Item, *, p: Params) -> Any:
    return power(p.w[np.argmax(t.x[:E])], t.n, t.x) + power(p.w[t.k], 2, t.x)


def power(w: Any, n: int, x: Any) -> Any:
    return x if n == 0 else np.tanh(w @ power(w, n - 1, x))


MODELS = [in_a_later_block, carried, between_waits, in_arms, along_other_axes, by_many, by_a_call]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("fn", MODELS)
def test_the_plain_call(fn: Any, compiled: bool) -> None:
    assert not compare(model(fn), [ITEMS], {"p": P}, compiled)


@cache
def expected(fn: Any) -> list[Any]:
    return [bits(r) for r in model(fn).batch(ITEMS, p=P)]


@pytest.mark.parametrize("fn", MODELS)
def test_bits_depend_on_no_batch(fn: Any) -> None:
    m = model(fn)
    assert [bits(m.batch([t], p=P)[0]) for t in ITEMS] == expected(fn)


OPTIONS: list[dict[str, Any]] = [
    *({name: False} for name in ("hoist", "blocks", "fuse", "gather_fusion", "forkjoin")),
    {"blocks": False, "fuse": False, "hoist": False, "schedule": "depth"},
]


@pytest.mark.parametrize(
    ("fn", "options"), one_in(2, squares(MODELS, OPTIONS)), ids=lambda x: getattr(x, "__name__", str(x))
)
def test_bits_depend_on_no_option(fn: Any, options: dict[str, Any]) -> None:
    other = model(fn).with_options(threads=2, **options)
    assert [bits(r) for r in other.batch(ITEMS[::-1], p=P)] == expected(fn)[::-1]


def bits(value: Any) -> Any:
    return [bits(v) for v in value] if isinstance(value, list | tuple) else np.asarray(value).tobytes()


# ---- nothing is copied


def results(m: Any, *instances: Any, **shared: Any) -> list[tuple[Any, ...]]:
    specs = m._compiled(instances, shared).plan.kernels
    return [spec.body[v - len(spec.operands)].shape for spec in specs for v in spec.results]


@pytest.mark.parametrize("fn", [in_a_later_block, carried, between_waits, along_other_axes])
@pytest.mark.parametrize("options", [{}, {"blocks": False}, {"hoist": False}])
def test_no_kernel_returns_a_matrix(fn: Any, options: dict[str, bool]) -> None:
    assert max(map(len, results(model(fn).with_options(**options), ITEMS, p=P))) == 1


def test_a_later_kernel_reads_the_table_by_the_index() -> None:
    plan = model(in_a_later_block)._compiled((ITEMS,), {"p": P}).plan
    (step,) = (spec for spec in plan.kernels if any(op.op == "matmul" for op in spec.body))
    assert sorted((o.kind, o.dtype, o.shape) for o in step.operands) == [
        ("shared", "float32", (E, H)),
        ("shared", "float32", (E, H, H)),
        ("tensor", "float32", (H,)),
        ("tensor", "int64", ()),
        ("tensor", "int64", ()),
    ]
    assert not any(op.site >= 0 for op in step.body)  # it has been checked where the program reads the row


def test_a_mixture_of_experts_writes_vectors_alone() -> None:
    h = 16
    tokens, p = moe.instances(3, vocabulary=300), moe.params(h, vocabulary=300)
    assert results(moe.mix, tokens, p=p) == [(h,)]
    plan = moe.mix._compiled((tokens,), {"p": p}).plan
    assert plan_text(plan).count(" fails at site") == 1  # one index, read five times


# ---- failures


def fails(t: Item, *, p: Params) -> Any:
    a = p.b[t.ks[0]]
    b = p.w[t.k] @ t.x
    p.wide[t.ks[-1]]
    for _ in range(t.n):
        a = a + p.b[t.k]
    return a + b


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("options", [{}, {"blocks": False}, {"hoist": False}, {"fuse": False}])
def test_an_index_out_of_range_is_reported_where_it_is_used(options: dict[str, bool], compiled: bool) -> None:
    bad = [item(0, E), item(1, -E), item(2, E, (E,)), item(0, -E - 1), item(3, 1, (0, W)), item(2, 0, (-E - 1, W))]
    m = model(fails).with_options(**options)
    assert not compare(m, [bad], {"p": P}, compiled)
    with pytest.raises(InstanceErrors) as caught:
        m.batch(bad, p=P)
    first = fails.__code__.co_firstlineno
    lines = {k: error.line - first for k, error in caught.value.errors.items()}  # type: ignore[attr-defined]
    assert lines == {0: 2, 2: 1, 3: 2, 4: 3, 5: 1}
    assert np.array_equal(caught.value.results[1], model(fails).batch([bad[1]], p=P)[0])


def of_nothing(t: Item, *, p: Params) -> Any:
    return t.rows[t.k] + t.x


@pytest.mark.parametrize("compiled", [True, False])
def test_no_row_of_an_empty_table(compiled: bool) -> None:
    some = [item(0, 0, rows=0), item(0, -1, rows=1), item(0, 0, rows=0)]
    assert not compare(model(of_nothing), [some], {"p": P}, compiled)


def test_an_index_that_fails_in_one_instance_spoils_no_other() -> None:
    """A kernel that reads the row comes later, and runs for the failed instance too."""
    items = [*ITEMS, item(4, 2**40), item(4, -(2**63))]
    with pytest.raises(InstanceErrors) as caught:
        model(in_a_later_block).batch(items, p=P)
    assert sorted(caught.value.errors) == [6, 7]
    expected = model(in_a_later_block).batch(ITEMS, p=P)
    assert [bits(r) for r in caught.value.results[:6]] == [bits(r) for r in expected]
