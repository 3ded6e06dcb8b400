"""Writes into tensors: through names, views, lists, objects and functions, against PyTorch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import acronumba.torch  # noqa: E402
from acronumba.errors import AcronumbaError  # noqa: E402
from tests.support.torch_checks import check  # noqa: E402
from tests.support.torch_programs import MODULES, gradients, gradients_of, outcome  # noqa: E402

x = torch.arange(12, dtype=torch.float32).reshape(3, 4)


@pytest.mark.parametrize("start", range(0, 24, 6))
def test_random_programs(start):
    kinds = [outcome(seed, compiled=seed % 6 == 0)[0] for seed in range(start, start + 6)]
    assert set(kinds) <= {"same", "invalid", "rejected"}, kinds
    assert kinds.count("rejected") <= 2


@pytest.mark.slow
@pytest.mark.parametrize("start", [*range(1000, 2000, 50), *range(MODULES, MODULES + 500, 50)])
def test_more_random_programs(start):
    kinds = [outcome(seed)[0] for seed in range(start, start + 50)]
    assert set(kinds) <= {"same", "invalid", "rejected"}, kinds
    assert kinds.count("rejected") <= 10


# ---- names


def added(x):
    y = x * 2
    z = y
    y += 1
    return y, z


def chained(x):
    y = x * 2
    y.add_(1).mul_(x)
    z = y.tanh_()
    return y, z


def of_an_operand(x):
    o = torch.sigmoid(x)
    c = x * 0.5
    h = o * c.tanh_()
    d = c * c.mul_(2)
    return h, c, d


def in_a_display(x):
    c = x * 0.5
    return c, c.tanh_()


def grow(t, by):
    t.add_(by)
    return t


def by_a_function(x):
    h = x[0] * 1
    g = grow(h, x[1])
    g.mul_(2)
    p = h * grow(h, 1)
    return h, g, p


def in_branches(x):
    h = x[0] * 1
    k = h
    if x[1, 1].item() > 3:
        h.add_(1)
    else:
        h = x[1] * 3
        h.sub_(2)
    h.mul_(2)
    return h, k


def in_a_loop(x):
    h = x[0] * 0
    for row in x:
        h.mul_(0.5).add_(row)
    return h


def kept_in_a_loop(x):
    h = x[0] * 0
    seen, copies = [], []
    for row in x:
        h.mul_(0.5).add_(row)
        seen.append(h)
        copies.append(h.clone())
    return seen, copies


def from_a_number(x):
    cost = 0
    costs = []
    for row in x:
        cost += row.sum()
        costs.append(cost)
    other = cost
    other += 1
    return cost, other, costs


def scalars(x):
    loss = x.sum()
    kept = loss
    loss += 2
    y = x[0] * 2
    s = y[1]
    s += 10
    return loss, kept, y, s


class Cell:
    def __init__(self, h):
        self.h = h

    def step(self, x):
        self.h.mul_(0.5)
        self.h += x
        return self.h


def in_attributes(x):
    start = x[0] * 1
    cell = Cell(start)
    first = cell.step(x[1])
    out = cell.h * cell.step(x[2])
    return start, first, out, cell.h


# ---- views


def views(x):
    y = x * 1
    y.t()[0] = 3
    a, b = y.chunk(2, 1)
    a += 10
    b[0, 0] = -1
    y.unsqueeze(0).squeeze(0)[1] *= 2
    y.transpose(0, 1).narrow(0, 1, 2).select(1, 0).fill_(7)
    y.view(1, y.size(0), -1)[0, 2].neg_()
    y[0].view(1, -1)[:, 1].fill_(4)
    y.unbind(1)[3].add_(100)
    return y, a, b


def gates(x):
    both = x * 0.1
    i, f, g, o = both.chunk(4, 1)
    i.sigmoid_()
    f.sigmoid_()
    g = g.tanh_()
    c = f * 2 + i * g
    return o.sigmoid_() * torch.tanh(c), both


def stand_ins(x):
    y = x * 1
    a, b, c, d, e = y.contiguous(), y.float(), y.to(torch.float32), y.detach(), y.data
    y.add_(1)
    a[0] = 7
    e[1].fill_(3)
    n = y.numpy()
    n[2, 2] = 50
    return y, a, b, c, d, e


def reshaped(x):
    y = x * 1
    y.unsqueeze_(0)
    y.squeeze_(0)
    y.t_()
    y[0] = 1
    return y


# ---- items


def items(x):
    y = x * 2
    y[0] = 1
    y[1, 2] = x[0, 0] + 5
    y[:, 3] = x[:, 1]
    y[:] = y * 1
    y[..., 0] += 1
    y[2] = x[0, :1]
    y[1, 1] = x[:1, :1]
    return y


def masks(x):
    y = x * 1
    y[y > 5] = 0
    y[y < 2] += 7
    y[x > 8] = x[x > 8] * 2
    m = torch.zeros(3, 4)
    for k, n in enumerate([1, 3, 2]):
        m[k, :n] = 1
    return y, m * y


def arrays(x):
    y = x * 1
    y[[0, 2]] = 5
    y[torch.tensor([1]), torch.tensor([2])] = 9
    y[2, [0, 1]] += 1
    y[:, [3]] = 8
    y.index_add_(0, torch.tensor([0, 0]), x[:2])
    y.scatter_add_(1, torch.tensor([[0, 0], [1, 1], [2, 2]]), x[:, :2])
    y.scatter_(1, torch.tensor([[0], [1], [2]]), 9.0)
    y.index_fill_(1, torch.tensor([1]), 4)
    y.index_copy_(0, torch.tensor([1]), x[:1])
    return y


def steps(x):
    """Numbers in an index count before arrays: PyTorch's order of axes is not NumPy's."""
    y = torch.stack([x, x * 2, x * 3])
    at = torch.tensor([0, 2])
    y[0, :, at] = 1
    return y, y[0, :, at], y[1, at, 0], y[:, 0, at], y[at, :, at]


def integers(x):
    y = torch.zeros(3, dtype=torch.long)
    y += 1
    y[0] = 2.7
    y.fill_(3)
    y[1] = x[0, 3]
    b = torch.zeros(2, dtype=torch.bool)
    b[0] = 1
    return y, b


def outputs(x):
    out = torch.zeros(3, 4)
    h = torch.zeros(4)
    for t in range(3):
        h = h * 0.5 + x[t]
        out[t] = h
    return out


def written_data(x):
    y = torch.zeros(3)
    for k in range(3):
        y.data[k] = x[k, 0].item()
    return y


def viterbi(x):
    back = []
    v = torch.full((1, 4), -100.0)
    v[0][1] = 0
    for feat in x:
        pointers = torch.zeros(4, dtype=torch.long)
        new = torch.zeros(4)
        for t in range(4):
            s = v[0] + feat * 0.1 * t
            best = s.argmax()
            pointers[t] = best
            new[t] = s[best]
        v = new.view(1, -1)
        back.append(pointers)
    return v, back


# ---- functions and lists


def functions(x):
    y = x - 5
    z = F.relu(y, inplace=True)
    w = torch.zeros(3, 4)
    w.fill_(2)
    w[1].zero_()
    w[2].copy_(x[0])
    w.clamp_(max=3)
    w.masked_fill_(x > 8, -1)
    return y, z, w


def lists(x):
    xs = [x[0] * 1, x[1] * 2]
    for v in xs:
        v += 1
    rows = [row * 1 for row in x]
    for v in rows:
        v += 1
    rows[0][1] = 5
    y = x * 1
    parts = list(y.unbind(0))
    parts[1].fill_(3)
    parts[0] = parts[0] + 1
    return xs, rows, y, parts


def stacks(x):
    stack = [row for row in x]  # noqa: C416
    for _ in range(2):
        a = stack.pop()
        b = stack.pop()
        stack.append(a * b)
        stack.insert(0, a)
    return stack


class Block(nn.Module):
    def __init__(self, down=None):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.relu, self.down = nn.ReLU(inplace=True), down

    def forward(self, x):
        identity = x
        out = self.relu(self.first(x))
        out = self.second(out)
        if self.down is not None:
            identity = self.down(x)
        out += identity
        out = self.relu(out)
        return out


torch.manual_seed(0)
blocks = nn.ModuleList([Block(), Block(nn.Conv1d(3, 3, 1)), Block(nn.ReLU(inplace=True))])
chain = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), *blocks[:2])
conv, relu = nn.Conv1d(3, 3, 3, padding=1), nn.ReLU(inplace=True)


def residual(x):
    return chain(x)


def residual_in_a_loop(x):
    outs = []
    for block in blocks:
        x = block(x)
        outs.append(x.mean())
        if outs[-1].item() > 1.5:
            return x, outs
    return x * 2, outs


def one_block_again(x):
    x = relu(conv(x))
    for _ in range(int(x[0, 0]) % 3 + 2):
        before = x
        x = conv(x).abs()
        before.mul_(0.5)
        x += before
    return x, before


def windows_that_end(x):
    y = relu(conv(x))
    z = conv(y)
    y += z
    w = F.avg_pool1d(y, 3, 1, 1)
    y.mul_(2)
    for _ in range(2):
        y += conv(y)
    return y, z, w


def pieces_that_stay(x):
    y = relu(x * 1)
    rows, parts = y.unbind(0), list(y.chunk(2, 1))
    y += 1
    return rows, parts, y


PROGRAMS = [
    added, chained, of_an_operand, in_a_display, by_a_function, in_branches, in_a_loop, kept_in_a_loop, from_a_number,
    scalars, in_attributes, views, gates, stand_ins, reshaped, items, masks, arrays, steps, integers, outputs,
    written_data, viterbi, functions, lists, stacks, residual, residual_in_a_loop, one_block_again, windows_that_end,
    pieces_that_stay,
]  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS)
def test_program(f):
    check(f, x)


@pytest.mark.parametrize(
    "f", [chained, in_branches, kept_in_a_loop, from_a_number, items, arrays, outputs, functions, residual]
)
def test_gradient(f):
    assert gradients(f, torch.sin(x) * 2)[0] == "same"


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 100, 10))
def test_gradients_of_random_programs(start):
    kinds = [gradients_of(seed)[0] for seed in range(start, start + 10)]
    assert set(kinds) <= {"same", "invalid", "rejected"}, kinds


# ---- what is rejected


def into_an_input(x):
    x += 1
    return x


def into_an_input_by_a_view(x):
    x[0].tanh_()
    return x


def of_a_higher_category(x):
    y = torch.zeros(3, dtype=torch.long)
    y += 1.5
    return y, x


def of_another_shape(x):
    y = x[0] * 1
    y += x
    return y


def backwards(x):
    return x[::-1]


def kept_flat(x):
    y = x * 1
    flat = y.view(-1)
    y += 1
    return flat


@pytest.mark.parametrize(
    "f", [into_an_input, into_an_input_by_a_view, of_a_higher_category, of_another_shape, backwards, kept_flat]
)
def test_rejection(f):
    with pytest.raises(AcronumbaError, match=f.__name__):
        acronumba.torch.model(f).batch([x])


# ---- copies of parameters


COPIES = {
    "repeat": lambda p, n: p.repeat(n),
    "tile": lambda p, n: torch.tile(p, (n,)),
    "repeat_once": lambda p, n: p.repeat(1).repeat(1)[:n].repeat(n),
    "repeat_interleave": lambda p, n: p.repeat_interleave(n),
    "expand": lambda p, n: p.expand(n).clone(),
    "index_select": lambda p, n: p.index_select(0, torch.zeros(n, dtype=torch.long)),
    "index": lambda p, n: p[torch.zeros(n, dtype=torch.long)],
}


class Written(torch.nn.Module):
    def __init__(self, made):
        super().__init__()
        self.p = torch.nn.Parameter(torch.full((1,), 0.5))
        self.made = made

    def forward(self, x):
        y, z = self.made(self.p, len(x)), self.made(self.p, len(x)) * 2
        y[0] = x[0] * self.p[0]
        z.data[-1] = 5
        return y * x, z, self.p * 2, self.p.repeat(1)


@pytest.mark.parametrize("made", COPIES.values(), ids=COPIES)
def test_copy_of_a_parameter(made):
    net, xs = Written(made), [torch.rand(n) for n in (3, 1, 4)]
    model = acronumba.torch.model(net)
    found = []
    for outs in ([net(x) for x in xs], list(model.batch(xs))):
        net.zero_grad()
        sum(v.square().sum() for out in outs for v in out).backward()
        found.append(([v.detach() for out in outs for v in out], net.p.grad.clone()))
    for a, b in zip(*(values for values, _ in found), strict=True):
        assert torch.allclose(a, b)
    assert torch.allclose(found[0][1], found[1][1])


class Best(torch.nn.Module):
    """A tensor of two ranks is written to through `.data`: no gradient flows through the elements written."""

    def __init__(self):
        super().__init__()
        self.moves = torch.nn.Parameter(torch.randn(3, 3))

    def forward(self, x):
        best = torch.zeros(1, 3)
        for row in x:
            best = (best.view(1, -1) + self.moves).max(1)[0] + row
        last = best + self.moves[0]
        kept = last
        last.data[-1] = -5.0
        last.data[0] *= 2.0
        return last.sum() * 3, kept


def test_data_of_a_tensor_of_two_ranks():
    torch.manual_seed(0)
    net = Best()
    xs = [torch.randn(n, 3) for n in (1, 3, 2)]
    want = [net(x) for x in xs]
    sum(a + (b**2).sum() for a, b in want).backward()
    grad, net.moves.grad = net.moves.grad, None
    got = list(acronumba.torch.model(net).batch(xs))
    sum(a + (b**2).sum() for a, b in got).backward()
    for pair in zip(want, got, strict=True):
        for a, b in zip(*pair, strict=True):
            torch.testing.assert_close(b, a)
    torch.testing.assert_close(net.moves.grad, grad)


# ---- out=


def into_new(x):
    n = len(x)
    y = torch.arange(0, n, out=torch.Tensor())
    return y, torch.arange(n, out=torch.LongTensor()), torch.ones(n, out=torch.Tensor()).bool(), torch.Tensor(), x.new()


def into_named(x):
    y = x * 2
    z = y
    torch.ones(3, 4, out=y)
    return y, z, x


def into_a_view(x):
    y = torch.zeros(2 * len(x))
    v = y[: len(x)]
    r = torch.arange(len(x), out=v)
    r += 1
    return y, v, r


def into_a_listed_one(x):
    ys = [torch.zeros(4, dtype=torch.float64), torch.zeros(4)]
    r = torch.full((4,), 2, out=ys[0])
    return ys, r


def into_one_that_grows(x):
    y = torch.empty(0)
    for k in range(len(x)):
        torch.arange(k + 1, out=y)
        y *= 2
    return y


def of_floats_as_ints(x):
    return torch.arange(-0.5, 3.7, dtype=torch.long), torch.arange(0.0, 3.0, out=torch.LongTensor())


@pytest.mark.filterwarnings("ignore:The number of elements")
@pytest.mark.parametrize(
    "f", [into_new, into_named, into_a_view, into_a_listed_one, into_one_that_grows, of_floats_as_ints]
)
def test_out(f):
    check(f, x)


def out_of_an_input(x):
    return torch.ones(3, 4, out=x)


def out_of_another_dtype(x):
    return torch.arange(3, dtype=torch.long, out=torch.Tensor())


def out_of_a_sum(x):
    return torch.sum(x, 0, out=torch.Tensor())


@pytest.mark.parametrize("f", [out_of_an_input, out_of_another_dtype, out_of_a_sum])
def test_rejected_out(f):
    with pytest.raises(AcronumbaError, match=f.__name__):
        acronumba.torch.model(f).batch([x])
