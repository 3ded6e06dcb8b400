"""Idioms of public PyTorch code, each in its smallest form, against the plain call."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import acronumba  # noqa: E402
from acronumba.torch import model  # noqa: E402


def compare(target, *columns):
    want = [target(*row) for row in zip(*columns, strict=True)]
    got = list(model(target).batch(*columns))
    for a, b in zip(want, got, strict=True):
        assert_same(a, b)
    return got


def assert_same(a, b):
    assert type(a) is type(b)
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and a.shape == b.shape
        torch.testing.assert_close(b, a)
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    else:
        assert a == b


class Star(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)

    def forward(self, *args):
        x, k = args[0], args[1]
        return self.layer(x) * k if len(args) == 2 else self.layer(x) + args[2]


def test_columns_of_star_args():
    xs, ks = [torch.randn(3) for _ in range(4)], [1.0, 2.0, 3.0, 4.0]
    compare(Star(), xs, ks)
    compare(Star(), xs, ks, [torch.randn(2) for _ in range(4)])


class Proxy:
    def __init__(self, module, prefix):
        self.module = module
        self.prefix = prefix

    def __getitem__(self, i):
        return getattr(self.module, self.prefix + str(i))


class Hops(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for k in range(3):
            self.add_module(f"hop_{k}", torch.nn.Linear(3, 3))
        self.hop = Proxy(self, "hop_")

    def forward(self, x):
        for k in range(3):
            x = self.hop[k](x)
        return x


def test_a_module_that_refers_to_itself():
    net, other = Hops(), Hops()
    xs = [torch.randn(3) for _ in range(3)]
    compare(net, xs)
    fast = model(net)
    fast.batch(xs)
    net.hop = Proxy(other, "hop_")  # another module, of the same structure
    for a, b in zip([net(x) for x in xs], fast.batch(xs), strict=True):
        assert_same(a, b)


class Gates(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(4, 6))

    def forward(self, x, y):
        a, b, c = torch.split(x @ self.w + y, 2, dim=1)
        d, e = y.chunk(2, 1)
        return torch.sigmoid(a) * torch.tanh(b), torch.relu(c), d.exp(), e


def test_parts_of_rows_of_run_time_number():
    compare(Gates(), [torch.randn(n, 4) for n in (1, 3)], [torch.randn(n, 6) for n in (1, 3)])


class Lattice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x, places):
        slots = [[] for _ in range(3)]
        for k in places:
            slots[k].append(self.layer(x[k].unsqueeze(0)))
        out = []
        for k in range(3):
            out.append(torch.cat(slots[k], 0).sum(0).unsqueeze(0) if slots[k] else x[:1])
        return torch.cat(out, 0)


def test_lists_of_rows_that_grow():
    compare(Lattice(), [torch.randn(3, 4) for _ in range(3)], [[0, 0, 2], [], [1]])


class Made(torch.nn.Module):
    def forward(self, x, c):
        gate = torch.nn.Softmax(dim=1)
        return gate(x) if c else x, torch.nn.Tanh()(x), torch.nn.ReLU(inplace=False)(x), torch.nn.LeakyReLU(0.2)(x)


def test_modules_made_in_forward():
    compare(Made(), [torch.randn(2, 3) for _ in range(4)], [True, False, True, False])


class Inner(torch.nn.Module):
    def forward(self, x):
        y = torch.zeros(2, 3)
        kept = y[0]
        y[0] = x
        return kept, y.frobnicate() if x.ndim > 1 else y


class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner(x)


def test_code_of_modules_in_modules_is_the_users():
    compare(Outer(), [torch.randn(3), torch.randn(3)])
    with pytest.raises(Exception, match=r"y\.frobnicate") as caught:
        model(Outer()).batch([torch.randn(2, 3)])
    assert "in Inner.forward" in str(caught.value) and "called from" in str(caught.value)


class Experts(torch.nn.Module):
    """Rows go to the experts whose gates are open; `squeeze` of a dimension that is not 1 does nothing."""

    def __init__(self):
        super().__init__()
        self.experts = torch.nn.ModuleList([torch.nn.Linear(4, 2) for _ in range(3)])

    def forward(self, x, gates):
        ordered, places = torch.nonzero(gates).sort(0)
        _, expert = ordered.split(1, dim=1)
        rows = torch.nonzero(gates)[places[:, 1], 0]
        parts = torch.split(x[rows].squeeze(1), (gates > 0).sum(0).tolist(), dim=0)
        out = torch.cat([torch.softmax(self.experts[i](parts[i]), 1) for i in range(3)], 0)
        weights = torch.gather(gates[rows.flatten()], 1, expert)
        return torch.zeros(x.size(0), 2).index_add(0, rows, out.mul(weights))


def test_rows_for_experts():
    gates = [torch.tensor([[1.0, 0, 2], [0, 1, 1]]), torch.tensor([[0.0, 3, 0], [0, 1, 1], [1, 0, 0]])]
    compare(Experts(), [torch.randn(2, 4), torch.randn(3, 4)], gates)


class OverTime(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(5, 4)
        self.conv = torch.nn.Conv2d(1, 2, (3, 4), padding=(2, 0))

    def forward(self, x):
        y = self.conv(self.embedding(x).unsqueeze(0).unsqueeze(0))
        flat = torch.nn.functional.max_pool1d(y.squeeze(3), y.size(2))
        return torch.nn.functional.max_pool2d(y, kernel_size=(y.size(2), 1)).view(1, 2), flat


def test_pools_over_all_of_a_sequence():
    compare(OverTime(), [torch.randint(0, 5, (n,)) for n in (1, 3, 5)])


class Forward(torch.nn.Module):
    """An initial tensor that is written to is followed by others under its name."""

    def __init__(self):
        super().__init__()
        self.transitions = torch.nn.Parameter(torch.randn(3, 3))

    def forward(self, feats):
        init = torch.Tensor(1, 3).fill_(-10.0)
        init[0][1] = 0.0
        alphas = torch.autograd.Variable(init)
        for feat in feats:
            scores = alphas + self.transitions + feat.view(-1, 1)
            most, _ = torch.max(scores, dim=1)
            alphas = most + torch.log(torch.sum(torch.exp(scores - most.view(-1, 1)), dim=1)).view(1, -1)
        return alphas


def test_a_written_tensor_before_others():
    compare(Forward(), [torch.randn(n, 3) for n in (1, 4, 2)])


class One(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x)


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(6, 3)

    def forward(self, x, y):
        return self.layer(torch.cat([x, y]))


class Program(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.functions = {"a": One(), "b[red]": Two(), "c": One()}
        for name, module in self.functions.items():
            self.add_module(name, module)

    def forward(self, x, program):
        outputs = [x]
        for f in program:
            value = "[%s]" % ",".join(f["values"]) if len(f["values"]) > 0 else ""  # noqa: UP031
            module = self.functions["%s%s" % (f["name"], value)]  # noqa: UP031
            outputs.append(module(*[outputs[k] for k in f["inputs"]]))
        return outputs[-1]


def test_programs_of_modules_with_different_numbers_of_inputs():
    def step(name, *inputs, values=()):
        return {"name": name, "inputs": list(inputs), "values": list(values)}

    programs = [
        [step("a", 0), step("b", 0, 1, values=["red"])],
        [step("c", 0)],
        [step("b", 0, 0, values=["red"]), step("a", 1)],
    ]
    compare(Program(), [torch.randn(3) for _ in programs], programs)


def _squeezed_rows(x):
    h = torch.zeros(3)
    for k in range(x.size(0)):
        h = h + x[k:].squeeze(0).sum(0)
    y = (x @ x.t()).squeeze(-1).squeeze(0)
    return h, torch.sigmoid(y), y.dim()


def _written_after(x):
    y = x.clone()
    y.squeeze(0)[0] = 3
    return y


def test_a_size_of_run_time_decides_the_rank():
    compare(_squeezed_rows, [torch.randn(n, 3) for n in (1, 3, 2, 1)])


def test_one_rank_where_several_are_not_supported():
    """A tensor that may be of several ranks cannot be written to: the line is rejected, and no instance fails."""
    with pytest.raises(acronumba.ShapeMismatch, match=r"(?s)ACR403.*y\.squeeze\(0\)\[0\] = 3.*clone\(\)\.squeeze"):
        model(_written_after).batch([torch.randn(1, 3), torch.randn(2, 3)])


class OneStep(torch.nn.Module):
    """Calls recurrent layers step by step: `squeeze(1)` of a sequence of one step is of one rank."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.LSTM(3, 4, batch_first=True)
        self.second = torch.nn.GRU(4, 2, batch_first=True)

    def forward(self, x):
        y = self.first(x.unsqueeze(1))[0].squeeze(1)
        y += 1
        z = self.second(y.unsqueeze(1))[0].squeeze(1)
        return y, torch.cat([z, x], 1)


def test_recurrent_layers_of_one_step():
    compare(OneStep(), [torch.randn(n, 3) for n in (1, 3, 2)])


def _squeezed(x):
    y = x.squeeze()
    return y, y.dim(), (x * 2 + 1).unsqueeze(0).squeeze() * y


def _written_squeezed(x):
    y = x.clone()
    z = y.squeeze()
    z += 1
    return y


@pytest.mark.parametrize("sizes", [(1, 3), (1, 1, 2), (0, 1, 1, 3)])
def test_squeeze_of_all_sizes_of_1(sizes):
    compare(_squeezed, [torch.rand(n, m) for n in sizes for m in (1, 3)])
    compare(_squeezed, [torch.rand(n, m, k) for n in sizes for m in (1, 4) for k in (1, 2)])
    compare(lambda x: (1 - x) * torch.cat([x, x], 1)[:, :4].squeeze(), [torch.rand(n, 4) for n in sizes])


def test_squeeze_of_one_rank():
    with pytest.raises(acronumba.ShapeMismatch, match=r"(?s)ACR403.*z = y\.squeeze\(\)"):
        model(_written_squeezed).batch([torch.rand(2, 3), torch.rand(1, 3)])


def _sizes_and_indices(x):
    with torch.no_grad():
        found = x.max(0), torch.min(x, 1, keepdim=True)
    size = x.shape
    turned = x.t().size() if x.sum() > 0 else x.size()
    others = (2, *size), size[1:] + size[:1], tuple(size), list(size)
    return size, others, turned, found, x.sort(0), x.topk(1, 1).indices, x.max(0)


def _size_or_none(x):
    if x.sum() > 0:
        return x.size()
    return None


def test_results_of_the_classes_of_pytorch():
    xs = [torch.randn(n, 3) for n in (2, 3, 1, 4)]
    compare(_sizes_and_indices, xs)
    compare(_size_or_none, xs)
    assert model(_sizes_and_indices).check(xs).ok
    stacked = model(_sizes_and_indices).batch(xs[:1] * 2).stack()
    assert isinstance(stacked[-1], torch.return_types.max) and stacked[-1].values.shape == (2, 3)


def _size_or_tuple(x):
    return x.size() if x.sum() > 0 else (1, 2)


def test_a_size_or_another_tuple_is_a_tuple():
    xs = [torch.ones(2, 3), -torch.ones(2, 3)]
    assert [(type(y), y) for y in model(_size_or_tuple).batch(xs)] == [(tuple, (2, 3)), (tuple, (1, 2))]


def _distances(x, y):
    return torch.cdist(x, y), torch.cdist(x[None], y, p=1), torch.cdist(x, y, 3.0)


def test_distances_of_rows():
    """Rows that are equal have distance 0, and gradient 0."""
    xs = [torch.randn(n, 4, requires_grad=True) for n in (1, 3, 2)]
    ys = [torch.cat([x.detach()[:1], torch.randn(2, 4)]).requires_grad_() for x in xs]
    got = compare(_distances, xs, ys)
    found, wanted = (
        torch.autograd.grad(sum((d * d.shape[-2] + d * d).sum() for some in outs for d in some), [*xs, *ys])
        for outs in (got, map(_distances, xs, ys))
    )
    torch.testing.assert_close(found, wanted)


def test_failures_name_the_file():
    with pytest.raises(acronumba.InstanceErrors) as caught:
        list(model(_distances).batch([torch.ones(2, 3)] * 2, [torch.ones(2, 3), torch.ones(2, 4)]))
    assert "[1] RuntimeError (test_outsiders.py:" in str(caught.value)
