"""What is one tensor or two in PyTorch: writes show in views, and not in copies, or are rejected. Modules that grow."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import acronumba.torch  # noqa: E402
from acronumba.errors import AcronumbaError, InstanceErrors, InternalError  # noqa: E402
from tests.support.torch_checks import same  # noqa: E402

OF_Y = {
    "a diagonal": lambda y: y.diagonal(),
    "a row": lambda y: y[1].contiguous(),
    "rows": lambda y: y[:2].contiguous(),
    "a column": lambda y: y[:, 1].contiguous(),
    "columns": lambda y: y[:, :2].contiguous(),
    "transposed": lambda y: y.t().contiguous(),
    "all": lambda y: y.contiguous(),
    "broadcast": lambda y: torch.broadcast_tensors(y, torch.zeros(2, 1, 1))[0],
    "broadcast as it is": lambda y: torch.broadcast_tensors(y, torch.zeros(3))[0],
    "plus": lambda y: +y,
    "positive": lambda y: y.positive(),
    "a deep copy": lambda y: copy.deepcopy(y),
    "a deep copy in a list": lambda y: copy.deepcopy([y])[0],
    "repeated": lambda y: y.sum().expand(3),
}


def base_is_written(y, of):
    v = of(y)
    y.add_(1)
    y[0] = 7
    return y, v


def part_is_written(y, of):
    v = of(y)
    v[0] = 9
    return y, v


def part_is_added_to(y, of):
    v = of(y)
    v += 1
    return y, v


@pytest.mark.parametrize("write", [base_is_written, part_is_written, part_is_added_to])
@pytest.mark.parametrize("of", OF_Y.values(), ids=OF_Y)
@pytest.mark.parametrize("known", [True, False])
def test_writes_are_those_of_pytorch_or_rejected(of, write, known):
    def f(x):
        return write(torch.zeros(3, 3) + x if known else x * 1, of)

    xs = [torch.randn(3, 3) for _ in range(2)]
    try:
        want = [f(x) for x in xs]
    except RuntimeError:  # elements of one tensor that are one element
        return
    try:
        got = acronumba.torch.model(f)._interpret(xs)
    except InternalError:
        raise
    except AcronumbaError:
        return
    same(want, list(got))


class Copies(nn.Module):
    def __init__(self):
        super().__init__()
        self.start, self.cell = nn.Parameter(torch.randn(1, 3)), nn.GRUCell(3, 3)

    def forward(self, x):
        h = self.cell(x, self.start.expand(x.size(0), -1))
        h += 1
        y = torch.zeros(3, 4)
        for i in range(3):
            y[i] = h[0, i]
        first, turned, column = y[:2].contiguous(), y.t().contiguous(), y[:, 1].contiguous()
        y += 5
        turned += 1
        column += 2
        return y, first, turned, column, +h, h.diagonal() * 2


def test_contiguous_copies_what_is_not():
    torch.manual_seed(0)
    net, xs = Copies(), [torch.randn(2, 3), torch.randn(1, 3)]
    same([net(x) for x in xs], list(acronumba.torch.model(net).batch(xs)))


def append(net):
    net.append(nn.Linear(3, 2))


def add(net):
    net.add_module("other", nn.Tanh())


def add_inside(net):
    net[0].part = nn.Linear(3, 3)


def register(net):
    net[0].register_parameter("more", nn.Parameter(torch.ones(3)))


class Counts(nn.Sequential):
    def forward(self, x):
        for p in self.parameters():
            x = x + p.sum()
        return x + len(self) + sum(1 for m in self.modules() if isinstance(m, nn.Linear))


@pytest.mark.parametrize("cls", [nn.Sequential, Counts])
@pytest.mark.parametrize("change", [append, add, add_inside, register])
def test_modules_that_grow_are_compiled_anew(cls, change):
    torch.manual_seed(0)
    net, xs = cls(nn.Linear(3, 3), nn.ReLU()), [torch.randn(3) for _ in range(2)]
    fast = acronumba.torch.model(net)
    same([net(x) for x in xs], list(fast.batch(xs)))
    change(net)
    same([net(x) for x in xs], list(fast.batch(xs)))


def test_another_forward_of_the_class_is_rejected(monkeypatch):
    net, xs = Counts(nn.Linear(3, 3)), [torch.randn(3)]
    fast = acronumba.torch.model(net)
    fast.batch(xs)
    monkeypatch.setattr(Counts, "forward", lambda self, x: x)
    with pytest.raises(AcronumbaError, match="assigned after"):
        fast.batch(xs)


class Program(nn.Module):
    def __init__(self):
        super().__init__()
        self.named = nn.ModuleDict({"find": nn.Linear(3, 3), "and": nn.Bilinear(3, 3, 3), "say": nn.Linear(3, 2)})

    def forward(self, words, x):
        stack = []
        for word in words:
            if word == "and":
                b, a = stack.pop(), stack.pop()
                stack.append(self.named[word](a, b))
            elif word == "find":
                stack.append(self.named[word](x))
            else:
                stack.append(self.named[word](stack.pop()))
        return stack[0]


def test_modules_of_pytorch_with_other_numbers_of_arguments():
    torch.manual_seed(0)
    net = Program()
    programs = [["find", "say"], ["find", "find", "and", "say"], ["find", "say", "say"], ["find", "and"]]
    xs = [torch.randn(3) for _ in programs]
    with pytest.raises(InstanceErrors) as caught:
        acronumba.torch.model(net).batch(programs, xs)
    assert list(caught.value.errors) == [2, 3]
    assert [type(e) for e in caught.value.errors.values()] == [RuntimeError, IndexError]
    same([net(p, x) for p, x in zip(programs[:2], xs, strict=False)], list(caught.value.results[:2]))
