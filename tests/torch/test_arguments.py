"""Arguments of `batch` by name: the same for all instances, as in a plain call of each."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import acronumba.torch  # noqa: E402
from acronumba.errors import TypeMismatch, Unsupported  # noqa: E402


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(3, 3)

    def forward(self, x, scale=1.0, train=False, mask=None):
        h = self.linear(x) * scale
        if train:
            h = h + self.linear(h)
        return (h if mask is None else h * mask).sum()


class Refuses(Net):
    def forward(self, x, refuse=False):
        return self.linear(torch.fft.fft(x) if refuse else x)


XS = [torch.tensor([1.0, 2.0, k]) for k in range(4)]


def agree(results, plain):
    for got, want in zip(results, plain, strict=True):
        assert got.dtype == want.dtype
        torch.testing.assert_close(got, want, atol=1e-6, rtol=1e-6)


def test_parameters_given_by_name():
    net, mask = Net(), torch.tensor([1.0, 0.0, 2.0], requires_grad=True)
    fast = acronumba.torch.model(net)
    for given in ({"train": True}, {}, {"train": False}, {"scale": 3, "mask": mask}, {"mask": mask}, {"train": True}):
        agree(fast.batch(XS, **given), [net(x, **given) for x in XS])
    scales = [1.0, 2.0, 0.5, 3.0]
    agree(fast.batch(XS, scales, mask=mask), [net(x, k, mask=mask) for x, k in zip(XS, scales, strict=True)])
    assert fast.check(XS, train=True, mask=mask).ok
    trained = [mask, *net.parameters()]
    mine = torch.autograd.grad(sum(fast.batch(XS, mask=mask)), trained)
    for got, want in zip(mine, torch.autograd.grad(sum(net(x, mask=mask) for x in XS), trained), strict=True):
        torch.testing.assert_close(got, want)


@acronumba.torch.model
def loss(x, target, *, net):
    return (net(x) - target) ** 2


def test_parameters_of_a_function_given_by_name():
    net = Net()
    for target in (2.0, torch.tensor(1.5)):
        agree(loss.batch(XS, target=target, net=net), [loss(x, target, net=net) for x in XS])
    agree(loss.batch(XS, [2.0] * 4, net=net), [loss(x, 2.0, net=net) for x in XS])


def test_a_rejection_holds_for_its_arguments():
    net = Refuses()
    fast = acronumba.torch.model(net)
    for _ in range(2):
        with pytest.raises(Unsupported):
            fast.batch(XS, refuse=True)
        agree(fast.batch(XS), [net(x) for x in XS])
        agree(fast.batch(XS, refuse=False), [net(x) for x in XS])


@pytest.mark.parametrize(("columns", "given", "text"), [
    ([XS, [1.0] * 4], {"scale": 2.0}, "`scale` has a column already"),
    ([XS], {"nothing": 2.0}, "`nothing` is not a parameter"),
    ([], {"x": XS}, "takes a column for each of"),
])  # fmt: skip
def test_wrong_names(columns, given, text):
    with pytest.raises(TypeMismatch, match=text):
        acronumba.torch.model(Net()).batch(*columns, **given)
