"""Packed weights that a later step uses again: results are those of the plain call, however parameters change."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import acronumba.torch  # noqa: E402


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(6, 5)
        self.out = nn.Linear(5, 3, bias=False)

    def forward(self, xs: Any) -> Any:
        h, c = torch.zeros(1, 5), torch.zeros(1, 5)
        for x in xs:
            h, c = self.cell(x[None], (h, c))
        return self.out(h)[0] @ self.out.weight


def moved(p: Any) -> None:
    p.data = p.data * 1.5


def turned(p: Any) -> None:
    p.data = (p.data * 0.5).t().contiguous().t() if p.ndim == 2 else p.data * 0.5


def scaled(p: Any) -> None:
    p.data.mul_(1.25)


def through_numpy(p: Any) -> None:
    p.detach().numpy()[...] *= 0.75


def step(p: Any) -> None:
    with torch.no_grad():
        p.add_(0.1 * p.grad)


def run(net: nn.Module, call: Callable[[Any], Any], data: Any) -> tuple[list[Any], list[Any]]:
    net.zero_grad()
    outs = list(call(data))
    sum((x * x).sum() for x in outs).backward()
    return [x.detach() for x in outs], [p.grad.clone() for p in net.parameters()]


def close(mine: tuple[list[Any], list[Any]], theirs: tuple[list[Any], list[Any]]) -> None:
    for a, b in zip((*mine[0], *mine[1]), (*theirs[0], *theirs[1]), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("change", [moved, turned, scaled, through_numpy, step])
def test_changed_parameters_are_read(change: Callable[[Any], None]) -> None:
    torch.manual_seed(0)
    net = Net()
    fast, data = acronumba.torch.model(net), [torch.randn(n, 6) for n in (3, 1, 4)]
    for _ in range(3):
        close(run(net, fast.batch, data), run(net, lambda xs: [net(x) for x in xs], data))
        for p in net.parameters():
            change(p)


def test_forward_passes_that_wait_for_their_backward_passes() -> None:
    torch.manual_seed(0)
    net = Net()
    fast, data = acronumba.torch.model(net), [torch.randn(n, 6) for n in (3, 1, 4)]
    run(net, fast.batch, data)
    waiting = [fast.batch(data[k:]) for k in range(3)]
    plain = [[net(x) for x in data[k:]] for k in range(3)]
    for outs in (waiting, plain):
        net.zero_grad()
        for some in reversed(outs):
            sum((x * x).sum() for x in some).backward(retain_graph=True)
        sum((x * x).sum() for x in outs[0]).backward()
        for p in net.parameters():
            p.last, p.mine = getattr(p, "mine", None), p.grad.clone()
    for p in net.parameters():
        torch.testing.assert_close(p.last, p.mine, rtol=1e-5, atol=1e-6)


def test_a_copy_of_the_module_has_weights_of_its_own() -> None:
    torch.manual_seed(0)
    net = Net()
    fast, data = acronumba.torch.model(net), [torch.randn(n, 6) for n in (3, 1, 4)]
    run(net, fast.batch, data)
    other = copy.deepcopy(fast)
    with torch.no_grad():
        for p in other.target.parameters():
            p.mul_(2)
    close(run(other.target, other.batch, data), run(other.target, lambda xs: [other.target(x) for x in xs], data))
    close(run(net, fast.batch, data), run(net, lambda xs: [net(x) for x in xs], data))
