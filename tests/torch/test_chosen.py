"""Modules that run time chooses: by an index, a key, or the name of an attribute."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import acronumba.torch  # noqa: E402
from acronumba.errors import AcronumbaError, InstanceErrors  # noqa: E402
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


class WithNone(nn.Module):
    """Modules by run-time keys, of which one has None in its place."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.Tanh())
        self.by_key = {"a": self.a, "b": self.b, "none": None}

    def called(self, x, key):
        return self.by_key[key](x)

    def attribute(self, x, key):
        return x, self.by_key[key].training

    def tested(self, x, key):
        m = self.by_key[key]
        y = x if m is None else m(x)
        if m:
            y = y + m(y)
        other = m or self.a
        return y, other(x), m is None, not m, callable(m), m is not None and key == "b", m == None  # noqa: E711

    def in_a_loop(self, x, key):
        last = None
        for k in ("a", key, "b"):
            x = x if last is None else last(x)
            last = self.by_key[k]
        return x, last(x), [self.a, None, self.b][len(key) % 2 * 2](x)

    def matched(self, x, key):
        match self.by_key[key]:
            case nn.Linear():
                return x
        return x * 2


KEYS = ["a", "b", "none", "b", "a"]


def _of(name):
    torch.manual_seed(0)
    net = WithNone()
    return acronumba.torch.model(getattr(net, name)), getattr(net, name), [torch.randn(2) for _ in KEYS]


@pytest.mark.parametrize(("name", "fails"), [("called", 1), ("attribute", 1), ("tested", 0), ("in_a_loop", 0)])
def test_none_among_modules(name, fails) -> None:
    model, f, xs = _of(name)
    if fails:
        with pytest.raises(InstanceErrors, match="1 of 5 instances") as caught:
            model.batch(xs, KEYS)
        got = caught.value.results
    else:
        got = list(model.batch(xs, KEYS))
    for g, x, key in zip(got, xs, KEYS, strict=True):
        if fails and key == "none":
            with pytest.raises((TypeError, AttributeError)):
                f(x, key)
        else:
            torch.testing.assert_close(g, f(x, key))


def test_a_class_pattern_of_one_of_several_modules_is_rejected() -> None:
    model, _, xs = _of("matched")
    with pytest.raises(AcronumbaError, match="class pattern"):
        model.batch(xs, KEYS)


def test_modules_of_torch_are_models_with_their_defaults() -> None:
    cell, xs, hs = nn.GRUCell(4, 4), [torch.randn(4) for _ in range(3)], [torch.randn(4) for _ in range(3)]
    fast = acronumba.torch.model(cell)
    for got, x, h in zip(fast.batch(xs, hs), xs, hs, strict=True):
        torch.testing.assert_close(got, cell(x, h))
    for got, x in zip(fast.batch(xs), xs, strict=True):
        torch.testing.assert_close(got, cell(x))
