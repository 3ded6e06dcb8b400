"""Gradients of tables by rows: the same as dense ones, by all routes, and what optimisers make of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, RowGrad, TypeMismatch, leaves, model, nn, optim, pack, value_and_grad
from acronumba.runtime.tables import Tables
from tests.support.chosen import one_in

RNG = np.random.default_rng(8)


def weights(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 0.4).astype(np.float32)


@dataclass
class Params:
    embed: np.ndarray
    w: np.ndarray
    b: np.ndarray


def params(words: int = 5000) -> Params:
    return Params(weights(words, 4), weights(4, 8), weights(4))


@model
def loss(words: list[int], k: int, *, p: Params) -> Any:
    h = p.b
    for i in words:
        h = np.tanh(p.w @ np.concatenate([h, p.embed[i]]))
    return nn.cross_entropy(h, k) + np.sum(p.embed[words[0]] * p.embed[k])


SENTENCES = [[7, 4, 7], [4999, 3], [2], [0, 7, 1, 2]]
LABELS = [0, 1, 2, 1]
READ = [0, 1, 2, 3, 4, 7, 4999]


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """What tables have no dense gradient, mini-batch by mini-batch."""
    seen: list[set[int]] = []
    gradient = Tables.__init__

    def init(self: Tables, *args: Any) -> None:
        gradient(self, *args)
        seen.append(self.apart)

    monkeypatch.setattr(Tables, "__init__", init)
    return seen


@pytest.mark.parametrize("sparse", [True, "p.embed"])
def test_rows_are_those_of_the_dense_gradient(sparse: Any, apart: list[set[int]]) -> None:
    p = params()
    _, dense = loss.value_and_grad.batch(SENTENCES, LABELS, p=p)
    _, g = value_and_grad(loss, sparse=sparse).batch(SENTENCES, LABELS, p=p)
    assert len(apart[-1]) == 1  # compiled, without an array of the table's shape
    assert isinstance(g.embed, RowGrad) and g.embed.index.tolist() == READ
    assert g.embed.rows.shape == (7, 4) and g.embed.shape == (5000, 4)
    assert np.array_equal(np.asarray(g.embed), dense.embed)
    assert isinstance(g.w, np.ndarray) and np.array_equal(g.w, dense.w) and np.array_equal(g.b, dense.b)
    one = [
        value_and_grad(loss, sparse=sparse, reduce="sum")(s, k, p=p).grads
        for s, k in zip(SENTENCES, LABELS, strict=True)
    ]
    assert one[1].embed.index.tolist() == [1, 3, 4999]
    np.testing.assert_allclose(sum(np.asarray(g.embed) for g in one) / 4, dense.embed, rtol=1e-5, atol=1e-7)
    assert [n for n, _ in leaves(g)] == ["embed", "w", "b"]


def test_check_takes_gradients_by_rows() -> None:
    found = value_and_grad(loss, sparse=True).check(SENTENCES, [1, 1, 2, 1], p=params(5000))
    assert found.ok, found


def test_a_table_that_is_read_otherwise_too() -> None:
    @model
    def f(words: list[int], *, p: dict[str, np.ndarray]) -> Any:
        total = np.sum(p["a"][words[0]] * p["b"][words[0]])
        if len(words) > 2:
            total = total + np.sum(p["b"] * p["b"])
        return total

    p = {"a": weights(50, 3), "b": weights(50, 3)}
    for words in ([[1, 2], [3, 4]], [[1, 2], [3, 4, 5]]):
        _, dense = f.value_and_grad.batch(words, p=p)
        _, g = value_and_grad(f, sparse=True).batch(words, p=p)
        assert isinstance(g["a"], RowGrad) and isinstance(g["b"], RowGrad) == (len(words[1]) < 3)
        np.testing.assert_allclose(np.asarray(g["b"]), dense["b"], rtol=1e-6)
    with pytest.raises(AcronumbaError, match="as a whole"):
        value_and_grad(f, sparse="p['b']").batch(words, p=p)
    with pytest.raises(AcronumbaError, match="as a whole"):
        value_and_grad(f, sparse="p['b']")(words[1], p=p)


def test_products_of_a_small_table_are_rows_of_it_all_the_same() -> None:
    @model
    def f(words: list[int], *, p: Params) -> Any:
        h = p.b
        for i in words:
            h = np.tanh(p.w[:, :4] @ h + p.w[:, 4:] @ p.embed[i])
        return np.sum(h)

    p = params(6)
    _, dense = f.value_and_grad.batch([[1, 2, 1], [4]], p=p)
    _, g = value_and_grad(f, sparse="p.embed").batch([[1, 2, 1], [4]], p=p)
    assert g.embed.index.tolist() == [1, 2, 4]
    assert np.array_equal(np.asarray(g.embed), dense.embed)


@dataclass
class Layer:
    e: np.ndarray
    w: np.ndarray
    next: Layer | None = None


@dataclass
class Tied:
    e: np.ndarray
    f: np.ndarray
    w: np.ndarray
    tables: list[np.ndarray]
    d: dict[str, np.ndarray]
    layer: Layer


def tied() -> Tied:
    tables, d = [weights(50, 3), weights(50, 3)], {"x": weights(50, 2), "m": weights(3, 4, 4)}
    layers = Layer(weights(50, 4), weights(3, 4), Layer(weights(50, 4), weights(3, 4)))
    return Tied(weights(50, 4), weights(50, 4), weights(4, 8), tables, d, layers)


def constant_rows(ids: list[int], *, p: Tied) -> Any:
    total = np.sum(np.tanh(p.w[:, :4] @ p.e[0]))
    for i in ids:
        total = total + p.e[i] @ p.f[i] + np.sum(p.e[-2] * p.e[1])
    return total


def waits(ids: list[int], *, p: Tied) -> Any:
    h = p.e[0]
    for i in ids:
        h = np.tanh(h + p.e[i])
        if float(h[0]) > 0:
            h = h + p.f[i]
    return np.sum(h)


def of_a_list(ids: list[int], *, p: Tied) -> Any:
    total = np.float32(0)
    for k, i in enumerate(ids):
        total = total + np.sum(np.tanh(p.tables[k % 2][i])) * np.sum(p.d["x"][i])
    return total


def by_arrays(ids: list[int], *, p: Tied) -> Any:
    x = p.e[np.array(ids + ids)]
    return np.sum(np.tanh(x @ p.w[:, :4].T)) + (np.sum(p.f[ids[0]]) if np.argmax(p.e @ p.e[1]) > 3 else np.sum(p.f[2]))


def stacks(ids: list[int], *, p: Tied) -> Any:
    h = np.zeros(4, np.float32)
    for i in ids:
        h = np.tanh(p.d["m"][i % 2] @ h + p.e[i])
    return np.sum(h)


def chosen_by_shared_values(ids: list[int], *, p: Tied) -> Any:
    total = np.sum(p.e[np.argmax(p.d["x"][:, 0])] * p.f[len(p.tables)])
    for i in ids:
        total = (
            total + np.sum(p.e[i] * p.e[3:4]) + p.f[np.argmin(p.d["x"][:, 1]) % 7] @ p.e[np.array([1, 2, 1])].T[:, 0]
        )
    return total


def decided(ids: list[int], *, p: Tied) -> Any:
    k = np.argmax(p.f[ids[0]])  # a row that is read, and has no gradient
    return np.sum(p.e[k] * p.f[k]) + p.e[ids[0], 1] * p.f[3][2]


def also_whole(ids: list[int], *, p: Tied) -> Any:
    total = np.sum(p.e[ids[0]] * p.f[ids[0]])
    return total + np.sum(p.e) if len(ids) > 2 else total


def of_objects(ids: list[int], *, p: Tied) -> Any:
    at, total = p.layer, np.float32(0)
    for i in ids:
        total = total + np.sum(np.tanh(at.w @ at.e[i]))
        if at.next is not None:
            at = at.next
    return total + (np.sum(at.e * at.e) if len(ids) > 3 else np.float32(0))


BATCHES = [[[7, 4, 7], [49, 3], [2], [0, 7, 1, 2]], [[1]], [[3, 3], [3]], [[5, 6, 7], [5, 6, 7]]]
KINDS = [constant_rows, waits, of_a_list, by_arrays, stacks, chosen_by_shared_values, decided, also_whole, of_objects]


@pytest.mark.parametrize("f", one_in(2, KINDS))
def test_compiled_and_by_the_reference_rows_are_the_same(f: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    p, g = tied(), value_and_grad(f, reduce="sum", sparse=True)
    ones = [[g(ids, p=p).grads for ids in batch] for batch in BATCHES]
    monkeypatch.setattr("acronumba.ir.tape.Recorder.record", None)  # from here on: compiled alone
    kinds = set()
    for batch, each in zip(BATCHES, ones, strict=True):
        dense = value_and_grad(f, reduce="sum").batch(batch, p=p).grads
        for given in (p, pack(p)):
            found = leaves(g.batch(batch, p=given).grads)
            for (name, mine), (_, want), *parts in zip(found, leaves(dense), *map(leaves, each), strict=True):
                rows = [one for _, one in parts]
                by_rows = all(isinstance(one, RowGrad) for one in rows)
                assert isinstance(mine, RowGrad) == by_rows, name
                if by_rows:
                    kinds.add(name)
                    index = sorted({k for one in rows for k in one.index.tolist()})
                    assert mine.index.tolist() == index, name
                np.testing.assert_allclose(np.asarray(mine), want, rtol=1e-5, atol=1e-6, err_msg=name)
    assert kinds
    empty = leaves(g.batch([], p=p).grads)
    assert all(isinstance(one, RowGrad) and not len(one.index) for _, one in empty)


def test_a_table_that_is_named_may_have_rows_that_are_constants() -> None:
    p = tied()
    for f, path in ((constant_rows, "p.e"), (waits, "p.e"), (stacks, "p.d.m"), (of_objects, "p.layer.next.e")):
        found = value_and_grad(f, wrt=path, sparse=path).batch(BATCHES[3], p=p).grads
        dense = value_and_grad(f, wrt=path).batch(BATCHES[3], p=p).grads
        assert isinstance(found, RowGrad) and len(found.index) < found.shape[0]
        np.testing.assert_allclose(np.asarray(found), dense, rtol=1e-5, atol=1e-6)
    with pytest.raises(AcronumbaError, match="as a whole"):
        value_and_grad(of_objects, sparse="p.layer.next.e").batch(BATCHES[0], p=p)


def test_a_gradient_that_is_zero_is_dense_where_it_is_not_by_rows() -> None:
    @model
    def f(k: int, *, p: Params) -> Any:
        return np.sum(nn.relu(p.w @ np.concatenate([p.embed[k], p.b]) - 1e6))

    for way in (
        value_and_grad(f, sparse=True).batch([1, 3], p=params(20)),
        value_and_grad(f, sparse=True)(1, p=params(20)),
    ):
        assert type(way.grads.w) is np.ndarray and not way.grads.w.any() and type(way.grads.b) is np.ndarray
        assert isinstance(way.grads.embed, RowGrad)


def test_matrices_of_a_list_are_no_tables() -> None:
    @model
    def f(k: int, x: np.ndarray, *, p: dict[str, Any]) -> Any:
        return np.sum(np.tanh(p["layers"][k] @ (x * p["e"][k])))

    p = {"layers": [weights(4, 4) for _ in range(3)], "e": weights(9, 4)}
    xs = [weights(4) for _ in range(4)]
    _, dense = f.value_and_grad.batch([0, 2, 0, 1], xs, p=p)
    _, g = value_and_grad(f, sparse=True).batch([0, 2, 0, 1], xs, p=p)
    assert isinstance(g["e"], RowGrad) and g["e"].index.tolist() == [0, 1, 2]
    assert np.array_equal(np.asarray(g["e"]), dense["e"])
    assert all(
        type(a) is np.ndarray and np.array_equal(a, b) for a, b in zip(g["layers"], dense["layers"], strict=True)
    )


def test_nothing_is_read() -> None:
    @model
    def f(words: list[int], *, p: Params) -> Any:
        total = np.sum(p.b)
        for i in words:
            total = total + np.sum(p.embed[i])
        return total

    p = params(20)
    for words in ([[], []], []):
        _, g = value_and_grad(f, sparse="p.embed", reduce="sum").batch(words, p=p)
        assert g.embed.index.tolist() == [] and not np.asarray(g.embed).any() and g.embed.dtype == np.float32


def steps(make: Any, sparse: Any, p: Params, count: int = 5) -> tuple[Params, Any]:
    opt = make()
    for k in range(count):
        _, g = value_and_grad(loss, sparse=sparse).batch([SENTENCES[k % 4], SENTENCES[1]], [LABELS[k % 4], 1], p=p)
        optim.clip(g, 0.5)
        opt.update(p, g)
    return p, opt


@pytest.mark.parametrize("make", [
    lambda: optim.SGD(0.3), lambda: optim.SGD(0.3, decay=0.1), lambda: optim.SGD(0.3, 0.9),
    lambda: optim.SGD(0.3, 0.9, nesterov=True),
])  # fmt: skip
def test_descent_takes_the_steps_of_dense_gradients(make: Any) -> None:
    a, b = params(5000), params(5000)
    b.embed, b.w, b.b = a.embed.copy(), a.w.copy(), a.b.copy()
    for (_, x), (_, y) in zip(leaves(steps(make, True, a)[0]), leaves(steps(make, (), b)[0]), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adam_is_lazy(decay: float) -> None:
    w = weights(6, 3).astype(np.float64)
    p = {"w": w.copy()}
    opt = optim.AdamW(0.1, decay=decay) if decay else optim.Adam(0.1)
    mean, square = np.zeros_like(w), np.zeros_like(w)
    for step, index in enumerate(([1, 4], [4], [0, 1, 5]), 1):
        rows = RNG.standard_normal((len(index), 3))
        opt.update(p, {"w": RowGrad(np.array(index), rows, w.shape)})
        mean[index] = 0.9 * mean[index] + 0.1 * rows
        square[index] = 0.999 * square[index] + 0.001 * rows**2
        w[index] -= 0.1 * decay * w[index]
        w[index] -= 0.1 * mean[index] / (1 - 0.9**step) / (np.sqrt(square[index] / (1 - 0.999**step)) + 1e-8)
    np.testing.assert_allclose(p["w"], w, rtol=1e-12)
    np.testing.assert_allclose(opt.state["mean"]["w"], mean, rtol=1e-12)


def test_clip_counts_and_scales_rows() -> None:
    g = {"w": RowGrad(np.array([1, 3]), np.full((2, 2), 3.0), (5, 2)), "b": np.array([8.0])}
    assert optim.clip(g, 5.0) == pytest.approx(10.0)
    assert g["w"].rows.tolist() == [[1.5, 1.5]] * 2 and g["b"].tolist() == [4.0]


def test_rows_that_do_not_fit_are_rejected() -> None:
    p = {"w": np.zeros((5, 2))}
    for wrong in (RowGrad(np.array([3, 1]), np.ones((2, 2)), (5, 2)), RowGrad(np.array([1]), np.ones((1, 2)), (4, 2))):
        with pytest.raises(TypeMismatch, match="`w`"):
            optim.SGD(0.1).update(p, {"w": wrong})
    assert not p["w"].any()
