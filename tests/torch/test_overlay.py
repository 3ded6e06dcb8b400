"""Attributes that `forward` writes: of modules, of parts of them, and of the trees that came in."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import acronumba.torch  # noqa: E402
from acronumba.errors import AcronumbaError, InstanceErrors  # noqa: E402

nn = torch.nn
SENTENCES = [[1, 2, 3], [4], [5, 6]]


class Tree:
    def __init__(self, word: int, *children: Tree) -> None:
        self.word = word
        self.children = list(children)
        self.num_children = len(children)


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.cell = nn.Linear(8, 4)

    def init_hidden(self):
        self.hidden = torch.zeros(1, 4)
        self.outs = []

    def step(self, word):
        self.hidden = torch.tanh(self.cell(torch.cat([self.embed(torch.tensor([word])), self.hidden], 1)))
        self.outs.append(self.hidden)

    def forward(self, words):
        self.init_hidden()
        for word in words:
            self.step(word)
        return torch.cat(self.outs, 0).sum(0) + self.hidden


class Stack(nn.Module):
    """A stack that is an attribute, and a part with an attribute of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.reader = Reader()
        self.join = nn.Linear(8, 4)
        self.stack: Any = None
        self.depth = 0

    def push(self, x):
        self.stack.append(x)
        self.depth = max(self.depth, len(self.stack))

    def reduce(self):
        b = self.stack.pop()
        a = self.stack.pop()
        self.push(torch.tanh(self.join(torch.cat([a, b], 1))))

    def forward(self, words):
        self.stack = []
        self.depth = 0
        self.reader.init_hidden()
        for k, word in enumerate(words):
            self.reader.step(word)
            self.push(self.reader.hidden)
            if k % 2 == 1:
                self.reduce()
        while len(self.stack) > 1:
            self.reduce()
        return self.stack[0], self.depth


class ChildSum(nn.Module):
    """The child-sum Tree-LSTM that keeps the state of each node in the node."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 3)
        self.ioux, self.iouh = nn.Linear(3, 12), nn.Linear(4, 12)
        self.fx, self.fh = nn.Linear(3, 4), nn.Linear(4, 4)

    def node_forward(self, inputs, child_c, child_h):
        iou = self.ioux(inputs) + self.iouh(torch.sum(child_h, dim=0, keepdim=True))
        i, o, u = torch.split(iou, iou.size(1) // 3, dim=1)
        i, o, u = torch.sigmoid(i), torch.sigmoid(o), torch.tanh(u)
        f = torch.sigmoid(self.fh(child_h) + self.fx(inputs).repeat(len(child_h), 1))
        c = torch.mul(i, u) + torch.sum(torch.mul(f, child_c), dim=0, keepdim=True)
        return c, torch.mul(o, torch.tanh(c))

    def forward(self, tree):
        for k in range(tree.num_children):
            self.forward(tree.children[k])
        inputs = self.embed(torch.tensor([tree.word]))
        if tree.num_children == 0:
            child_c, child_h = torch.zeros(1, 4), torch.zeros(1, 4)
        else:
            child_c, child_h = zip(*map(lambda x: x.state, tree.children))  # noqa: B905, C417
            child_c, child_h = torch.cat(child_c, dim=0), torch.cat(child_h, dim=0)
        tree.state = self.node_forward(inputs, child_c, child_h)
        return tree.state


class Running(nn.Module):
    """A recursion whose state flows through attributes of the module."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(4, 4)

    def visit(self, tree):
        for child in tree.children:
            self.visit(child)
        self.state = torch.tanh(self.cell(self.state + tree.word))
        self.count += 1

    def forward(self, tree):
        self.state = torch.ones(4)
        self.count = 0
        self.visit(tree)
        return self.state, self.count


class Memory(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("bias", torch.linspace(-1, 1, 12).reshape(3, 4))

    def reset(self, size):
        self.size = size
        self.rows = self.bias.clone()

    def write(self, w, v):
        self.before = self.rows
        self.rows = self.before * (1 - w.unsqueeze(1)) + w.unsqueeze(1) * v


class Head(nn.Module):
    def __init__(self, memory) -> None:
        super().__init__()
        self.memory, self.key = memory, nn.Linear(4, 3)

    def address(self, x, last):
        return torch.softmax(self.key(x) + last, 0)


class ReadHead(Head):
    reads = True

    def forward(self, x, last):
        w = self.address(x, last)
        return w @ self.memory.rows, w


class WriteHead(Head):
    reads = False

    def forward(self, x, last):
        w = self.address(x, last)
        self.memory.write(w, x)
        return w


class Machine(nn.Module):
    """Its heads and it have one memory."""

    def __init__(self) -> None:
        super().__init__()
        memory = Memory()
        self.heads = nn.ModuleList([ReadHead(memory), WriteHead(memory), ReadHead(memory)])
        self.memory, self.embed, self.spare = memory, nn.Embedding(10, 4), Memory()

    def forward(self, words):
        self.memory.reset(len(words))
        self.spare.reset(1)
        weights, x = [torch.zeros(3) for _ in self.heads], torch.zeros(4)
        for word in words:
            x, new = x + self.embed(torch.tensor(word)), []
            for head, last in zip(self.heads, weights, strict=False):
                if head.reads:
                    r, w = head(x, last)
                    x = torch.tanh(x + r)
                else:
                    w = head(x, last)
                new.append(w)
            weights = new
        same = self.heads[0].memory is self.memory and self.spare is not self.memory
        return x, self.memory.rows, self.heads[2].memory.size + self.spare.size + 10 * same


TREES = [Tree(1, Tree(2), Tree(3, Tree(4), Tree(1))), Tree(5), Tree(6, Tree(7))]
CASES = [(Reader, SENTENCES), (Stack, SENTENCES), (ChildSum, TREES), (Running, TREES), (Machine, SENTENCES)]


def flat(results: Any) -> list[Any]:
    return [v for r in results for v in (r if isinstance(r, tuple) else (r,))]


@pytest.mark.parametrize(("cls", "data"), CASES, ids=lambda v: getattr(v, "__name__", ""))
def test_values_and_gradients_are_those_of_the_plain_calls(cls: Any, data: Any) -> None:
    torch.manual_seed(0)
    net, data = cls(), copy.deepcopy(data)
    fast = acronumba.torch.model(net)
    before = {name: dict(module.__dict__) for name, module in net.named_modules()}
    fields = [dict(vars(t)) for t in data if isinstance(t, Tree)]
    for turn in range(2):
        net.zero_grad()
        got = flat(fast.batch(data))
        sum(v.sum() for v in got if isinstance(v, torch.Tensor)).backward()
        mine = [p.grad.clone() for p in net.parameters()]
        if not turn:  # nothing has changed
            after = {name: dict(module.__dict__) for name, module in net.named_modules()}
            assert after == before and [dict(vars(t)) for t in data if isinstance(t, Tree)] == fields
        net.zero_grad()
        wanted = flat([net(x) for x in data])  # this leaves tensors in `net` and in the trees
        sum(v.sum() for v in wanted if isinstance(v, torch.Tensor)).backward()
        for a, b in zip(got, wanted, strict=True):
            assert type(a) is type(b) and (a == b if isinstance(a, int) else torch.allclose(a, b, atol=1e-6))
        for p, g in zip(net.parameters(), mine, strict=True):
            assert torch.allclose(p.grad, g, atol=1e-5)
    turned = flat(fast.batch(data[::-1]))
    again = flat(fast.batch(data))
    width = len(again) // len(data)
    rows = [turned[k : k + width] for k in range(0, len(turned), width)][::-1]
    assert all(bool((a == b).all()) if width == 1 or not isinstance(a, int) else a == b
               for a, b in zip(flat(map(tuple, rows)), again, strict=True))  # fmt: skip
    assert len(fast._entries) == 1  # what plain calls have left behind compiles nothing anew


@pytest.mark.parametrize(("cls", "data"), [(Reader, SENTENCES), (ChildSum, TREES)])
def test_check_leaves_modules_and_trees_as_they_are(cls: Any, data: Any) -> None:
    torch.manual_seed(0)
    net, data = cls(), copy.deepcopy(data)
    before = {name: dict(module.__dict__) for name, module in net.named_modules()}
    assert acronumba.torch.model(net).check(data).ok
    assert {name: dict(module.__dict__) for name, module in net.named_modules()} == before
    assert not any(hasattr(t, "state") for t in data)


class Expert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(3, 3)

    def forward(self, x):
        self.last = torch.tanh(self.cell(x))
        return self.last


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList([Expert() for _ in range(3)])

    def forward(self, x, k):
        for expert in self.experts:
            expert.last = x * 0
        y = self.experts[k](x)
        return y + self.experts[0].last, self.experts[k].last


def test_modules_that_are_chosen_at_run_time() -> None:
    net = Experts()
    xs, ks = [torch.full((3,), float(k)) for k in range(4)], [0, 2, 1, 0]
    got = flat(acronumba.torch.model(net).batch(xs, ks))
    for a, b in zip(got, flat([net(x, k) for x, k in zip(xs, ks, strict=True)]), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


class Remembering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = torch.zeros(3)
        self.register_buffer("mean", torch.zeros(3))
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x):
        self.hidden = self.hidden + x * self.weight
        return self.hidden


def test_a_state_of_the_call_before() -> None:
    net = Remembering()
    xs = [torch.full((3,), float(k)) for k in range(1, 4)]
    with pytest.raises(InstanceErrors) as caught:
        acronumba.torch.model(net).batch(xs)
    assert "ACR118" in str(caught.value.errors[0])
    net.hidden = torch.ones(3)
    got = acronumba.torch.model(net, state="initial").batch(xs)
    assert [r.tolist() for r in got] == [[2.0] * 3, [3.0] * 3, [4.0] * 3] and net.hidden.tolist() == [1.0] * 3


class WritesBuffer(Remembering):
    def forward(self, x):
        self.mean = self.mean * 0.9 + x
        return x


class WritesParameter(Remembering):
    def forward(self, x):
        self.weight.data = x
        return x * self.weight


class ByName(Remembering):
    def forward(self, x):
        self.weight = x
        return x


@pytest.mark.parametrize("cls", [WritesBuffer, WritesParameter, ByName])
def test_parameters_and_buffers_are_not_assigned(cls: Any) -> None:
    with pytest.raises(AcronumbaError) as caught:
        acronumba.torch.model(cls()).batch([torch.ones(3)])
    assert caught.value.code == "ACR113" and caught.value.line
