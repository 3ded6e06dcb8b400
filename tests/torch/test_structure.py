"""What a module consists of, read inside of its `forward`."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import acronumba.torch  # noqa: E402


class Whole(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("steps", torch.ones(3))
        self.scale = nn.Parameter(torch.full((4,), 2.0))
        self.first = nn.Linear(4, 4)
        self.rest = nn.ModuleList([nn.Linear(4, 4, bias=False), nn.Sequential(nn.Linear(4, 4), nn.Tanh())])
        self.nothing = None

    def forward(self, x):
        weight = next(self.parameters())
        h = torch.zeros(4, dtype=weight.dtype, device=weight.device) + weight.sum()
        decay = 0.0
        for p in self.parameters():
            decay = decay + (p**2).sum()
        names = [name for name, p in self.named_parameters() if p.dim() > 1]
        kinds = 0
        for name, child in self.named_children():
            if name == "first":
                x = child(x)
                kinds += 1
        for module in self.modules():
            if isinstance(module, nn.Linear):
                x = module(x)
                kinds += 10
        return x + h, decay, names, kinds, len(list(self.children()))


def test_parameters_and_modules_are_those_of_pytorch_in_its_order():
    net = Whole()
    fast = acronumba.torch.model(net)
    xs = [torch.randn(4), torch.randn(4)]
    assert fast.check(xs).ok
    assert fast.batch(xs)[0][2] == [n for n, p in net.named_parameters() if p.dim() > 1]
    fast.batch(xs)[0][1].backward()
    assert torch.allclose(net.first.weight.grad, 2 * net.first.weight)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.b.weight = self.a.weight

    def forward(self, x):
        return x * sum([p.sum() for p in self.parameters()])


def test_tied_parameters_which_pytorch_lists_once_are_rejected():
    with pytest.raises(acronumba.AcronumbaError) as caught:
        acronumba.torch.model(Tied()).batch([torch.ones(4)])
    assert "self.b.weight on another path" in str(caught.value) and "self.parameters()" in str(caught.value)


class Walks(nn.Module):
    def __init__(self, which: str) -> None:
        super().__init__()
        self.which = which
        self.rest = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        self.rest[1].register_forward_hook(lambda module, given, out: out * 2)

    def forward(self, x):
        if self.which == "children":
            for child in self.rest.children():
                x = child(x)
        elif self.which == "modules":
            for module in self.modules():
                if isinstance(module, nn.Linear):
                    x = module(x)
        else:
            x = self.rest(x)
        return x


@pytest.mark.parametrize("which", ["children", "modules", "call"])
def test_no_module_with_hooks_is_passed_over(which):
    with pytest.raises(acronumba.AcronumbaError, match="a module with hooks"):
        acronumba.torch.model(Walks(which)).batch([torch.ones(4)])


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0, 1, 3))

    def forward(self, x):
        return x * self.weight


class Zipped(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3), Scale(), nn.Tanh()])

    def forward(self, x, n):
        states, outs, last = [x * i for i in range(n)], [], None
        for layer, h in zip(self.layers, states, strict=False):
            last = layer(h)
            outs.append(last)
            if last.sum().item() > 2:
                break
        else:
            outs.append(x)
        for i, (layer, h) in enumerate(zip(self.layers, states, strict=False)):
            if i != 1:
                states.append(layer(h) * i)
        for h, layer in zip(reversed(states), self.layers, strict=False):
            x = x + layer(h)
        return outs, [layer(h) for layer, h in zip(self.layers, states, strict=False)], x, 0 if last is None else last


def test_modules_zipped_with_a_list():
    torch.manual_seed(0)
    net = Zipped()
    data = [torch.randn(3) for _ in range(6)], [0, 1, 2, 3, 4, 5]
    assert acronumba.torch.model(net).check(*data).ok
