"""The backward pass of nodes of different run-time extents: how many batches, and the same bits of gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba import InstanceErrors, nn, value_and_grad
from acronumba.api.model import Model, model
from tests.support.chosen import one_in

F32 = np.float32
WIDTH = 8


@model
def pooled(x: Any, *, w: Any) -> Any:
    return np.tanh(w @ np.concatenate([x.mean(axis=0), x.max(axis=0)])).sum()


@model
def chamfer(x: Any, y: Any, *, w: Any) -> Any:
    d = ((x[:, None] - y[None] * w[0, :WIDTH]) ** 2).sum(-1)
    return d.min(axis=1).mean() + d.min(axis=0).mean()


@model
def attention(x: Any, *, w: Any) -> Any:
    q = x @ w[:, :WIDTH].T
    return (nn.softmax(q @ x.T) @ (x @ w[:, WIDTH:])).sum()


@model
def by_columns(x: Any, *, w: Any) -> Any:
    h = np.tanh(x @ w[:, :WIDTH])
    return ((nn.softmax(h, axis=0).T @ h) @ w).sum()


@model
def of_rows(x: Any, *, w: Any) -> Any:
    """Rows along the first axis, each of which is a matrix of a length of its own."""
    y = np.tanh(x @ w)
    return np.sum(y * y)


@model
def decided(x: Any, *, w: Any) -> Any:
    while x[0, 0] > 0 and len(x) > 2:
        x = np.tanh(np.sort(x[1:], axis=0) @ w[:, :WIDTH])
    return (x**2).sum()


@model
def joined(xs: Any, *, w: Any) -> Any:
    h = w[0, :WIDTH]
    for x in xs:
        h = np.tanh(nn.softmax(x @ h) @ x + h + (np.concatenate(xs, axis=0) @ w[:, :WIDTH]).mean(axis=0))
    return h.sum()


def arrays(seed: int, lengths: Any) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((n, WIDTH)).astype(F32) for n in lengths]


LENGTHS = (3, 1, 17, 3, 33, 2, 17, 5, 1, 40)
W = np.random.default_rng(9).standard_normal((WIDTH, 2 * WIDTH)).astype(F32)
LISTS = [arrays(k, [1 + (k + j) % 4 for j in range(1 + k % 3)]) for k in range(10)]
# Losses, their columns, and how many batches their backward passes have, with `ragged` and without.
CASES: dict[str, tuple[Model[Any], tuple[Any, ...], int, int]] = {
    "pooled": (pooled, (arrays(0, LENGTHS),), 2, 8),
    "chamfer": (chamfer, (arrays(0, LENGTHS), arrays(1, LENGTHS[::-1])), 2, 10),
    "attention": (attention, (arrays(0, LENGTHS),), 3, 9),
    "by_columns": (by_columns, (arrays(0, LENGTHS),), 4, 10),
    "decided": (decided, (arrays(2, LENGTHS),), 32, 38),
    "joined": (joined, (LISTS,), 10, 25),
}
OPTIONS = (
    {}, {"threads": 2}, {"schedule": "depth"}, {"schedule": "agenda", "threads": 2}, {"fuse": False},
    {"gather_fusion": False}, {"blocks": False},
)  # fmt: skip


def gradients(f: Model[Any], columns: Any, **options: Any) -> list[Any]:
    """Return the loss, the gradients of the first column, and that of the weights."""
    first = "xs" if f is joined else "x"
    done = value_and_grad(f.with_options(**options), wrt=(first, "w"), reduce="sum").batch(*columns, w=W)
    own, shared = done.grads
    return [np.asarray(done.value), [a for g in own for a in (g if isinstance(g, list) else [g])], shared]


@pytest.mark.parametrize("name", one_in(2, CASES))
def test_nodes_of_all_extents_are_one_batch_in_the_backward_pass(name: str) -> None:
    f, columns, ragged, alike = CASES[name]
    assert len(f.value_and_grad.trace(*columns, w=W).data.back) == ragged
    assert len(f.with_options(ragged=False).value_and_grad.trace(*columns, w=W).data.back) == alike


@pytest.mark.parametrize(
    ("name", "options"), one_in(5, one_in(3, [(n, o) for n in CASES for o in OPTIONS], mark="slow"))
)
def test_bits_of_gradients_do_not_depend_on_it(name: str, options: dict[str, Any]) -> None:
    f, columns = CASES[name][:2]
    value, own, shared = gradients(f, columns, **options)
    other_value, other_own, other_shared = gradients(f, columns, **options, ragged=False)
    assert value == other_value and np.array_equal(shared, other_shared)
    alone = [g for each in zip(*columns, strict=True) for g in gradients(f, [[c] for c in each], **options)[1]]
    for other in (other_own, alone):
        assert all(np.array_equal(a, b) for a, b in zip(own, other, strict=True))


def test_an_instance_that_fails_changes_no_gradient_of_others() -> None:
    xs = arrays(0, (3, 0, 17, 5, 0, 17))
    with pytest.raises(InstanceErrors) as caught:
        gradients(pooled, [xs], threads=2)
    assert [*caught.value.errors] == [1, 4]


def test_rows_have_the_extents_of_their_node() -> None:
    r = np.random.default_rng(3)
    sizes = [(3, 2), (1, 5), (0, 4), (7, 1), (2, 0), (2, 40), (3, 2)]
    xs = [r.standard_normal((n, m, WIDTH)).astype(F32) for n, m in sizes]
    (_, own, shared), (_, own_apart, shared_apart) = (gradients(of_rows, [xs], ragged=r) for r in (True, False))
    assert shared.tobytes() == shared_apart.tobytes()
    alone = [gradients(of_rows, [[x]]) for x in xs]
    for mine, apart, (_, (single,), _) in zip(own, own_apart, alone, strict=True):
        assert mine.tobytes() == apart.tobytes() == single.tobytes()
    np.testing.assert_allclose(shared, sum(g for _, _, g in alone), rtol=1e-4, atol=1e-5)
    long = [
        np.full((n, m, WIDTH), 0.1, F32) for n, m in [(3000, 1), (1, 30_000)]
    ]  # no row is as long as another's node
    assert np.isfinite(gradients(of_rows, [long])[2]).all()
