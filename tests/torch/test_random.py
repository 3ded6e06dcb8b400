"""Dropout and random numbers of PyTorch: repeatable, of each instance's own, and the same in the plain call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import acronumba.torch  # noqa: E402
from acronumba.errors import AcronumbaError  # noqa: E402


@dataclass
class Tree:
    x: Any
    parts: list[Tree] = field(default_factory=list)


def tree(n: int) -> Tree:
    return Tree(torch.ones(4), [tree(n - 1) for _ in range(n)])


class Recursive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)

    def walk(self, t: Tree) -> Any:
        y = self.drop(self.layer(t.x))
        for part in t.parts:
            y = y + self.walk(part)
        return y

    def forward(self, t: Tree) -> Any:
        return self.walk(t), torch.rand(2)


class Upwards(Recursive):
    """Its first draw is in the recursive function, behind the recursion."""

    def walk(self, t: Tree) -> Any:
        y = torch.zeros(4)
        for part in t.parts:
            y = y + self.walk(part)
        return self.drop(self.layer(t.x + y))

    def forward(self, t: Tree) -> Any:
        return self.walk(t)


def test_the_first_draw_may_be_behind_a_recursion() -> None:
    fast, trees = acronumba.torch.model(Upwards()), [tree(k) for k in (0, 1, 3)]
    assert fast.check(trees).ok
    assert not torch.equal(fast.batch(trees)[2], fast.batch(trees)[2])


def test_runs_repeat_and_instances_are_independent() -> None:
    torch.manual_seed(0)
    net = Recursive()
    fast, trees = acronumba.torch.model(net), [tree(k) for k in (0, 1, 3)]
    torch.manual_seed(1)
    outs = fast.batch(trees)
    again = fast.batch(trees)
    torch.manual_seed(1)
    same = fast.batch(trees)
    torch.manual_seed(1)
    fewer = fast.batch(trees[:2])
    for k in range(3):
        assert torch.equal(outs[k][0], same[k][0])
        assert not torch.equal(outs[k][1], again[k][1])
    for k in range(2):
        assert torch.equal(outs[k][0], fewer[k][0])
    assert not torch.equal(outs[0][1], outs[1][1])
    assert fast.check(trees).ok
    before = torch.get_rng_state()
    net.eval()
    assert fast.check(trees).ok  # torch.rand is left
    assert not torch.equal(before, torch.get_rng_state())


class Numbers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x: Any) -> Any:
        y = x * self.scale
        n = len(x)
        noise = torch.zeros(n)
        noise.normal_(1.0, 2.0)
        return (
            torch.rand(n, 2), torch.randn((2, n), dtype=torch.float64), torch.rand_like(x), torch.randn_like(x),
            torch.randint(5, (n,)), torch.randint(2, 9, (n, 2)), torch.randperm(n), torch.normal(x, 1.0),
            torch.normal(0.0, 2.0, (n,)), torch.bernoulli(torch.sigmoid(x)), torch.sigmoid(x).bernoulli(),
            torch.multinomial(F.softmax(x, -1), 2), F.softmax(x[0], -1).multinomial(5, replacement=True),
            F.gumbel_softmax(y, 0.5), F.gumbel_softmax(y, hard=True), F.dropout(y, 0.3), F.dropout(y, 0.3, False),
            F.dropout(y, 1.0), F.dropout1d(y, 0.5), F.alpha_dropout(y, 0.2, True), F.rrelu(y, training=True),
            F.rrelu(y), noise,
        )  # fmt: skip


def test_functions_of_random_numbers() -> None:
    torch.manual_seed(0)
    net = Numbers()
    fast, xs = acronumba.torch.model(net), [torch.randn(n, 3) for n in (1, 2, 40)]
    verdict = fast.check(xs)
    assert verdict.ok, verdict
    for out, x in zip(fast.batch(xs), xs, strict=True):
        for got, want in zip(out, net(x), strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)


class Layers(nn.Module):
    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, num_layers=3, dropout=0.5, bidirectional=True, batch_first=batch_first)
        self.gru = nn.GRU(8, 4, num_layers=2, dropout=0.5, batch_first=batch_first)

    def forward(self, x: Any) -> Any:
        y, (h, _) = self.lstm(x)
        return y, h, self.gru(y)


def test_dropout_between_layers() -> None:
    torch.manual_seed(0)
    for batch_first, shape in ((False, ()), (True, (2,))):
        fast = acronumba.torch.model(Layers(batch_first))
        verdict = fast.check([torch.randn(*shape, n, 3) for n in (1, 3)])
        assert verdict.ok, verdict


class Many(nn.Module):
    def forward(self, n: Any) -> Any:
        p = torch.tensor([0.1, 0.2, 0.7])
        return (
            torch.rand(n), torch.randn(n), torch.randint(3, 7, (n,)), torch.bernoulli(torch.full((n,), 0.3)),
            torch.multinomial(p, n, replacement=True), F.dropout(torch.ones(n), 0.25), torch.randperm(n),
            torch.multinomial(p.expand(n, 3), 2),
        )  # fmt: skip


def test_distributions() -> None:
    torch.manual_seed(0)
    n = 20_000
    u, z, i, b, m, d, perm, two = acronumba.torch.model(Many()).batch([n])[0]
    assert abs(u.mean() - 0.5) < 0.01
    assert abs(z.mean()) < 0.03
    assert abs(z.std() - 1) < 0.02
    assert sorted(set(i.tolist())) == [3, 4, 5, 6]
    assert abs(b.mean() - 0.3) < 0.015
    assert torch.allclose(torch.bincount(m) / n, torch.tensor([0.1, 0.2, 0.7]), atol=0.015)
    assert abs(d.mean() - 1) < 0.02
    assert sorted(set(d.tolist())) == pytest.approx([0, 4 / 3])
    assert sorted(perm.tolist()) == list(range(n))
    assert bool((two[:, 0] != two[:, 1]).all())
    assert torch.allclose(torch.bincount(two[:, 0]) / n, torch.tensor([0.1, 0.2, 0.7]), atol=0.015)


def test_gradients_pass_the_mask() -> None:
    torch.manual_seed(0)
    net, xs = Numbers(), [torch.randn(n, 3) for n in (1, 4)]

    def loss(x: Any, *, net: Any) -> Any:
        return (F.dropout(x * net.scale, 0.5) ** 2).sum()

    fast = acronumba.torch.model(loss)
    value, grads = fast.value_and_grad.batch(xs, net=net)
    torch.manual_seed(3)
    outs = fast.batch(xs, net=net)
    outs.stack().sum().backward()
    assert net.scale.grad is not None
    assert torch.isfinite(value)
    assert len(grads) == 1
    # The gradient of the sum of squares of `scale * masked x` at scale 1 is twice the loss.
    assert float(net.scale.grad.sum()) == pytest.approx(2 * float(outs.stack().sum().detach()), rel=1e-5)


def test_a_generator_is_rejected() -> None:
    def forward(x: Any, *, g: Any) -> Any:
        return x + torch.rand(2, generator=g)

    with pytest.raises(AcronumbaError):
        acronumba.torch.model(forward).batch([torch.ones(2)], g=torch.Generator())
