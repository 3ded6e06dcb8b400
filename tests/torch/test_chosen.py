"""Modules that run time chooses: by an index, a key, or the name of an attribute."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import acronumba.torch  # noqa: E402
from acronumba.torch.zoo import module_network, moe  # noqa: E402


class Chosen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.many = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.named = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Sequential(nn.Linear(4, 4), nn.Tanh())})
        self.cell_a, self.cell_b = nn.Linear(4, 4), nn.ReLU()

    def forward(self, x, k, name):
        y = self.many[k](x) + self.named[name](x) + getattr(self, f"cell_{name}")(x)
        chosen = self.cell_a if k else self.cell_b
        return chosen(y), self.many[k].weight


def test_modules_are_chosen_at_run_time() -> None:
    net, xs = Chosen(), [torch.randn(4) for _ in range(6)]
    columns = xs, [0, 1, 2, -1, 0, 1], list("abbaab")
    got = acronumba.torch.model(net).batch(*columns)
    for g, w in zip(got, [net(*x) for x in zip(*columns, strict=True)], strict=True):
        torch.testing.assert_close(g[0], w[0])
        torch.testing.assert_close(g[1], w[1], rtol=0, atol=0)


@pytest.mark.parametrize("zoo", [moe, module_network])
def test_zoo(zoo) -> None:
    net, xs = zoo.module(16), zoo.instances(5, seed=3)
    got = acronumba.torch.model(net).batch(xs)
    for g, x in zip(got, xs, strict=True):
        torch.testing.assert_close(g, net(x))
