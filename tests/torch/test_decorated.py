"""Methods and functions under decorators of PyTorch as models."""

from __future__ import annotations

import functools

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import acronumba.torch  # noqa: E402
from acronumba import Unsupported  # noqa: E402


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x)

    @torch.no_grad()
    def greedy(self, x):
        return self.linear(x) + 100

    @torch.inference_mode()
    def infer(self, x):
        return self.linear(x) + 50

    @torch.enable_grad()
    def loss(self, x):
        return self.linear(x).pow(2).sum()

    @torch.no_grad()
    @torch.enable_grad()
    def inner(self, x):
        return self.linear(x) - 3

    @torch.autocast("cpu", enabled=False)
    def cast(self, x):
        return self.linear(x) + 7

    @functools.lru_cache  # noqa: B019
    def cached(self, x):
        return 1


class Quiet(Net):
    @torch.no_grad()
    def forward(self, x):
        return self.linear(x) * 2


@pytest.mark.parametrize("name", ["forward", "greedy", "infer", "loss", "inner"])
@pytest.mark.parametrize("cls", [Net, Quiet])
def test_it_is_the_method(cls, name) -> None:
    method, xs = getattr(cls(), name), [torch.randn(4) for _ in range(3)]
    fast = acronumba.torch.model(method)
    for got, x in zip(fast.batch(xs), xs, strict=True):
        want = method(x)
        torch.testing.assert_close(got, want.clone())
        assert got.requires_grad == want.requires_grad
    assert fast.check(xs).ok


@pytest.mark.parametrize("name", ["cast", "cached"])
def test_other_decorators_are_rejected(name) -> None:
    with pytest.raises(Unsupported, match="ACR210"):
        acronumba.torch.model(getattr(Net(), name))
