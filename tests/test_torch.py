"""Models inside of PyTorch, and `torch.optim` for arrays. Skipped without PyTorch."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import acronumba
from acronumba import AcronumbaError, InstanceErrors, init, model, nn, optim

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(2)


@dataclass
class Tree:
    word: int
    left: Tree | None = None
    right: Tree | None = None


@dataclass
class Params:
    w: Any
    b: Any


def state(t: Tree, xs: Any, p: Params) -> Any:
    if t.left is None or t.right is None:
        return xs[t.word]
    return np.tanh(p.w @ np.concatenate([state(t.left, xs, p), state(t.right, xs, p)]) + p.b)


@model
def encode(t: Tree, xs: np.ndarray, *, p: Params) -> Any:
    return state(t, xs, p)


TREES = [Tree(0, Tree(1), Tree(2)), Tree(3), Tree(0, Tree(1, Tree(2), Tree(0)), Tree(3))]


def double(*shape: int) -> Any:
    return torch.tensor(RNG.standard_normal(shape), requires_grad=True)


def test_gradcheck_through_a_layer() -> None:
    f = acronumba.torch.layer(encode)
    xs, w, b = double(3, 4, 2), double(2, 4), double(2)
    assert torch.autograd.gradcheck(lambda xs, w, b: f(TREES, xs, p=Params(w, b)), (xs, w, b))
    lists = [double(4, 2) for _ in TREES]
    assert torch.autograd.gradcheck(lambda w, *xs: f(TREES, list(xs), p=Params(w, b.detach())), (w, *lists))


def test_requires_grad_decides() -> None:
    f = acronumba.torch.layer(encode)
    xs, w, b = double(3, 4, 2), double(2, 4), double(2)
    w.requires_grad_(False)
    out = f(TREES, xs, p=Params(w, b))
    assert isinstance(out, torch.Tensor) and out.shape == (3, 2) and out.dtype == torch.float64
    out.sum().backward()
    assert w.grad is None and xs.grad.shape == xs.shape and b.grad.shape == (2,)
    with torch.no_grad():
        assert not f(TREES, xs, p=Params(w, b)).requires_grad
    np.testing.assert_array_equal(out.detach(), f(TREES, xs.detach(), p=Params(w, b.detach())))
    plain = [
        encode(t, x, p=Params(w.numpy(), b.detach().numpy())) for t, x in zip(TREES, xs.detach().numpy(), strict=True)
    ]
    np.testing.assert_allclose(out.detach(), np.stack(plain))


@model
def many(x: np.ndarray, k: int, *, p: dict[str, Any]) -> Any:
    h = np.tanh(p["w"] @ x)
    return {"h": h, "sum": np.sum(h), "k": k, "all": [h, x][: 1 + k % 2]}


def test_results_of_any_structure() -> None:
    w, xs = double(2, 3), [double(3), double(3)]
    out = acronumba.torch.layer(many)(xs, [2, 4], p={"w": w})
    assert out["k"].tolist() == [2, 4] and out["sum"].shape == (2,) and out["all"][0].shape == (2, 2)
    loss = out["h"].sum() + 2 * out["sum"].sum() + 3 * out["all"][0].sum()
    loss.backward()
    same = sum((6 * torch.tanh(w @ x)).sum() for x in xs)
    gw, *gx = torch.autograd.grad(same, [w, *xs])
    torch.testing.assert_close(w.grad, gw)
    torch.testing.assert_close(xs[1].grad, gx[1])
    with pytest.raises(AcronumbaError, match="not alike"):
        acronumba.torch.layer(many)(xs, [1, 2], p={"w": w})
    found = acronumba.torch.layer(many, stack=False)(xs, [1, 2], p={"w": w})
    assert [len(r["all"]) for r in found] == [2, 1] and found[1]["k"] == 2
    (g,) = torch.autograd.grad(found[0]["all"][1].sum() + found[1]["h"].sum(), [xs[0]])
    assert g.tolist() == [1.0] * 3


def test_one_tensor_in_several_places_gets_all_of_its_gradient() -> None:
    @model
    def f(x: np.ndarray, y: np.ndarray, *, p: dict[str, Any]) -> Any:
        return np.sum(x * y * p["a"] * p["b"])

    v = double(3)
    acronumba.torch.layer(f)([v, v], [v, v.detach()], p={"a": v, "b": v}).sum().backward()
    x = v.detach()
    torch.testing.assert_close(v.grad, 4 * x**3 + 3 * x**3)
    t = double(2, 3)
    acronumba.torch.layer(f)(t, t, p={"a": t[0], "b": v.detach()}).sum().backward()
    rows = t.detach()
    expected = 2 * rows * rows[0] * x
    expected[0] += (rows * rows * x).sum(0)
    torch.testing.assert_close(t.grad, expected)


def test_what_a_layer_does_not_take() -> None:
    f = acronumba.torch.layer(many)
    w, xs = double(2, 3), [double(3)]
    with pytest.raises(AcronumbaError, match="float32 and float64"):
        f([x.bfloat16() for x in xs], [2], p={"w": w})
    with pytest.raises(AcronumbaError, match="CPU's memory"):
        f([x.to("meta") for x in xs], [2], p={"w": w})
    out = f(xs, [2], p={"w": w})["sum"]
    with torch.no_grad():
        w += 1
    with pytest.raises(AcronumbaError, match="has changed"):
        out.sum().backward()

    @model
    def fails(x: np.ndarray, k: int, *, w: np.ndarray) -> Any:
        return np.sum(w * x) * (1.0 / k)

    with pytest.raises(InstanceErrors):
        acronumba.torch.layer(fails)([double(2), double(2)], [1, 0], w=double(2))


def test_a_derivative_of_a_derivative_is_rejected_and_never_zero() -> None:
    f = acronumba.torch.layer(encode)
    xs, w, b = double(3, 4, 2), double(2, 4), double(2)
    value = f(TREES, xs, p=Params(w, b)).sum()
    (g,) = torch.autograd.grad(value, [w], create_graph=True)
    assert g.detach().any()
    with pytest.raises(AcronumbaError, match="only first derivatives"):
        (value + (g**2).sum()).backward()  # without the error the second part would count as a constant
    with pytest.raises(AcronumbaError, match=r"torch\.func"):
        torch.func.grad(lambda w: f(TREES, xs.detach(), p=Params(w, b.detach())).sum())(w.detach())


def test_layers_of_one_module_and_of_both_dtypes() -> None:
    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            rng = np.random.default_rng(0)
            self.first = acronumba.torch.Parameters(Params(rng.standard_normal((2, 4)), np.zeros(2)))
            self.between = torch.nn.Linear(2, 2, dtype=torch.float64)
            self.second = acronumba.torch.Parameters(Params(rng.standard_normal((2, 4)), np.ones(2)))
            self.tree = acronumba.torch.layer(encode)

        def forward(self, xs: Any) -> Any:
            h = self.between(self.tree(TREES, xs, p=self.first))
            return self.tree(TREES, torch.stack([h, h[[0, 0, 2]], h[[2, 1, 1]], h]).permute(1, 0, 2), p=self.second)

    torch.manual_seed(0)
    net, xs = Net(), torch.randn(3, 4, 2, dtype=torch.float64)
    assert len(list(net.parameters())) == 6
    opt = torch.optim.SGD(net.parameters(), 0.1)
    losses = []
    for _ in range(15):
        opt.zero_grad()
        loss = (net(xs) ** 2).sum()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
    with torch.no_grad():
        assert not net(xs).requires_grad


def test_nothing_is_copied_on_the_way_in() -> None:
    from acronumba.torch.layers import _Given

    given = _Given()
    w = torch.ones(2, 3)
    assert np.shares_memory(given.part({"w": w}).value["w"], w.numpy())
    assert np.shares_memory(given.column(w).value, w.numpy())
    trees = [Tree(0)]
    assert given.column(trees).value is trees


def test_tensors_are_found_wherever_types_allow_them() -> None:
    @model
    def f(x: Any, k: int, *, w: np.ndarray) -> Any:
        return np.sum(w * k) if x is None else np.sum(w * x[0]) * k

    layer, w = acronumba.torch.layer(f), double(2)
    columns = [[None, None], [3, 4]], [[None, [double(2)]], [3, 4]], [[[np.ones(2)], [double(2)]], [3, 4]]
    for turn in range(2):  # without a specialisation, and with one
        for xs, ks in columns:
            w.grad, tensor = None, xs[1] and xs[1][0]
            layer(xs, ks, w=w).sum().backward()
            factors = [k * (1.0 if x is None else torch.as_tensor(x[0]).detach()) for x, k in zip(xs, ks, strict=True)]
            torch.testing.assert_close(w.grad, sum(factors) + torch.zeros(2, dtype=torch.float64))
            if tensor is not None:
                torch.testing.assert_close(tensor.grad, ks[1] * w.detach() * (turn + 1))


def test_an_encoder_of_pytorch_before_a_tree_lstm_learns() -> None:
    torch.manual_seed(0)
    words = torch.nn.Embedding(4, 6)
    encoder = torch.nn.GRU(6, 4, batch_first=True)
    module = acronumba.torch.Parameters(Params(init.glorot(RNG, (4, 8)), np.zeros(4, np.float32)))
    head = torch.nn.Linear(4, 3)
    f = acronumba.torch.layer(encode)
    every = [*words.parameters(), *encoder.parameters(), *module.parameters(), *head.parameters()]
    opt = torch.optim.Adam(every, 0.02)
    tokens, labels = torch.tensor([[0, 1, 2, 3], [3, 2, 1, 0], [1, 1, 2, 0]]), torch.tensor([0, 1, 2])
    losses = []
    for _ in range(60):
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(head(f(TREES, encoder(words(tokens))[0], p=module)), labels)
        loss.backward()
        assert all(p.grad is not None for p in every)
        opt.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.2 * losses[0]


@model
def loss(x: np.ndarray, label: int, *, p: dict[str, Any]) -> Any:
    return nn.cross_entropy(p["out"] @ np.tanh(p["cells"][0].w @ x + p["cells"][0].b), label)


def params() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "cells": [Params(init.glorot(rng, (5, 3)), np.zeros(5, np.float32))],
        "out": init.glorot(rng, (4, 5)),
        "n": 3,
    }


def test_adam_of_pytorch_takes_the_steps_of_adam_here() -> None:
    xs = [RNG.standard_normal(3).astype(np.float32) for _ in range(6)]
    labels = [k % 4 for k in range(6)]
    mine, theirs = params(), params()
    module = acronumba.torch.Parameters(theirs)
    assert {n for n, _ in module.named_parameters()} == {n for n, _ in acronumba.leaves(theirs)}
    here, there = optim.Adam(1e-2), torch.optim.Adam(module.parameters(), 1e-2)
    for _ in range(50):
        _, grads = loss.value_and_grad.batch(xs, labels, p=mine)
        here.update(mine, grads)
        _, grads = loss.value_and_grad.batch(xs, labels, p=theirs)
        module.take(grads)
        assert np.shares_memory(module.out.grad.numpy(), grads["out"])
        there.step()
    for (_, a), (_, b) in zip(acronumba.leaves(mine), acronumba.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    assert np.shares_memory(module.out.detach().numpy(), theirs["out"])


def test_arrays_that_cannot_be_shared_are_named() -> None:
    fixed = np.zeros(2)
    fixed.flags.writeable = False
    for wrong in (np.float32(1), fixed):
        with pytest.raises(AcronumbaError, match="`w` is"):
            acronumba.torch.Parameters({"w": wrong})
    module = acronumba.torch.Parameters({"w": np.zeros(2)})
    with pytest.raises(AcronumbaError, match="no parameter `v`"):
        module.take({"v": np.zeros(2)})


def test_pytorch_is_imported_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "acronumba.torch", raising=False)
    monkeypatch.delattr(acronumba, "torch", raising=False)
    with pytest.raises(ImportError, match="pip install torch"):
        acronumba.torch  # noqa: B018


def test_parameters_of_a_module_become_those_of_a_model() -> None:
    cell = torch.nn.Linear(4, 3)
    like = Params(np.empty((3, 4), np.float32), np.empty(3, np.float32))
    p = acronumba.torch.params(cell, like, {"w": "weight", "b": "bias"})
    assert isinstance(p, Params)
    f = model(lambda x, *, p: p.w @ x + p.b)
    x = np.ones((2, 4), np.float32)
    assert np.allclose(f.batch(x, p=p).stack(), cell(torch.from_numpy(x)).detach())
    with torch.no_grad():
        cell.weight[:] = 0.0
    assert not p.w.any()
    with pytest.raises(AcronumbaError, match="has no `w`"):
        acronumba.torch.params(cell, like)
    with pytest.raises(AcronumbaError, match=r"float32\[3, 4\], not float64\[3, 4\]"):
        acronumba.torch.params(cell, Params(np.empty((3, 4)), like.b), {"w": "weight", "b": "bias"})
