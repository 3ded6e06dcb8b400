"""Programs that once differed from PyTorch, or that the compiler broke on: values, dtypes and gradients."""

from __future__ import annotations

import math
import runpy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import acronumba.torch  # noqa: E402
from acronumba.errors import AcronumbaError, InstanceErrors, InternalError, Unsupported  # noqa: E402
from tests.torch.programs import Program  # noqa: E402


def leaves(value):
    if isinstance(value, tuple | list):
        return [x for v in value for x in leaves(v)]
    return [value]


def loss(xs, followed):
    return sum(x.sin().sum() for x, f in zip(xs, followed, strict=True) if f and x.requires_grad)


def filled(grads, parameters):
    """Return gradients, zeros where there are none."""
    return [torch.zeros_like(p) if g is None else g for g, p in zip(grads, parameters, strict=True)]


def check(target, *columns, parameters=()):
    """Compare the results of a batch with those of plain calls, and the gradients of parameters."""
    plain = [target(*instance) for instance in zip(*columns, strict=True)]
    outs = list(acronumba.torch.model(target).batch(*columns))
    want, got = leaves(plain), leaves(outs)
    assert len(want) == len(got)
    for a, b in zip(want, got, strict=True):
        assert type(a) is type(b)
        if isinstance(a, torch.Tensor):
            assert a.dtype == b.dtype and a.shape == b.shape
            assert torch.allclose(a, b, rtol=1e-5, atol=1e-5, equal_nan=True)
        else:
            assert a == b
    followed = [isinstance(a, torch.Tensor) and a.requires_grad for a in want]
    if parameters and any(followed) and any(isinstance(b, torch.Tensor) and b.requires_grad for b in got):
        grads = [torch.autograd.grad(loss(xs, followed), parameters, allow_unused=True) for xs in (want, got)]
        for a, b in zip(*map(filled, grads, [parameters] * 2), strict=True):
            assert torch.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)


def add_under_no_grad(y, z):
    with torch.no_grad():
        y.add_(1)
    return y * 2


def item_under_no_grad(y, z):
    with torch.no_grad():
        y[0] = 0
        y *= 3
    return y * y


def multiplied_data(y, z):
    y.data.mul_(2)
    return y * 2


def items_of_data(y, z):
    y.data[1] = 3
    y.detach()[0] = 2
    return y * y


def masked_data(y, z):
    m = y < 0
    y.data[m] = 0
    y.data.masked_fill_(~m, 1)
    return y * z


def data_of_infinity(y, z):
    y = torch.log(y * 0)
    y.data[0] = 3
    y.data.fill_(2)
    return y + z


def made_under_no_grad(y, z):
    with torch.no_grad():
        h = y + 1
        g = torch.relu(y)
    h[0] = 2
    g[1] = z[1]
    return h * z, g * z


def zeros_under_no_grad(y, z):
    with torch.no_grad():
        a = torch.zeros(3)
        a[2] = y[2]
    a[0] = y[0]
    return a * z


def viterbi(y, z):
    v = torch.full((3,), -50.0)
    for _ in range(2):
        v = y + v * 0.5
        v.data[1] = -50.0
    return torch.logsumexp(v, 0)


def detached_in_lists(y, z):
    y[0] = 1
    kept = [y.detach()]
    for _ in range(2):
        kept += [y.data, y]
    return sum(kept) * z, torch.stack(kept) * z, torch.cat([y.detach(), kept[0]]) * z.repeat(2)


def detached_in_branches(y, z):
    y[0] = 1
    h = y.detach() if z.sum() > 0 else y
    for _ in range(2):
        h = h.detach() + z
    return h * z


def views_of_detached(y, z):
    y[0] = 1
    d = y.detach()
    return d.view(-1) * z, d.reshape(3, 1) * z, d[1:] * z[1:], d.expand(2, 3) * z, d.chunk(3)[1] * z, torch.sum(d) * z


def detached_in_recursion(y, z):
    y[0] = 1
    return power(y.detach(), z, 2) + y


def power(x, z, n):
    return x * z if n == 0 else power(x, z, n - 1) * 0.5


def views_under_no_grad(y, z):
    with torch.no_grad():
        y[0] = 1
        a, b = y[1:], y.view(3, 1)
    y[1] = 2
    return a * z[1:] + b[:2, 0]


WRITES = [
    detached_in_lists, detached_in_branches, views_of_detached, detached_in_recursion,
    add_under_no_grad, item_under_no_grad, multiplied_data, items_of_data, masked_data, data_of_infinity,
    made_under_no_grad, zeros_under_no_grad, viterbi,
]  # fmt: skip


@pytest.mark.parametrize("f", WRITES, ids=[f.__name__ for f in WRITES])
def test_writes_that_autograd_does_not_see(f):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            return f(self.a(x), self.b(x) + self.a(x))

    torch.manual_seed(0)
    net = Net()
    check(net, torch.randn(2, 3), parameters=[net.a.weight, net.a.bias])


def read_through_a_slice(y, z):
    d = y.data
    d[:2] *= z[:2]
    return d


def read_through_a_view(y, z):
    d = y.detach()
    e = d[1:]
    e.copy_(z[1:])
    return y, d * 1


def read_after_a_loop(y, z):
    d = y.data
    for k in range(2):
        d[k] = z[k]
    return y, d


def read_after_a_mask(y, z):
    d = y.detach()
    d[d > -9] = z.sum()
    return d, y


def read_result_of_a_write(y, z):
    return y.data.mul_(z), y


def read_through_another(y, z):
    u = y + 1
    d, e = y.detach(), u.detach()
    d *= z
    e += d
    return e, u


LOST = [
    read_through_a_slice, read_through_a_view, read_after_a_loop, read_after_a_mask, read_result_of_a_write,
    read_through_another,
]  # fmt: skip


@pytest.mark.parametrize("f", LOST, ids=[f.__name__ for f in LOST])
def test_write_through_a_detached_name_that_is_read(f):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.b = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

        def forward(self, x):
            return f(x + 0, self.b * 2)

    net, x = Net(), torch.randn(2, 3)
    model = acronumba.torch.model(net)
    assert all(any(v.requires_grad for v in leaves(net(row))) for row in x)
    with pytest.raises(Unsupported, match="detached name") as caught:
        model.batch(x)
    assert caught.value.code == "ACR602" and f"in {f.__name__}" in str(caught.value)
    with torch.no_grad():
        check(net, x)
    net.requires_grad_(False)
    check(net, x)


def test_write_through_a_detached_name_without_a_gradient():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            y, z = self.a(x), self.b(x)
            d, e = y.detach(), y.data
            e.mul_(z)  # read through `y` and `d` only
            d[:1] *= x[:1]
            d += z.detach()
            with torch.no_grad():
                d[1] = z[1]
            return y, d * z

    net = Net()
    check(net, torch.randn(2, 3), parameters=list(net.parameters()))


def test_name_of_written_tensor_is_bound_to_a_new_one():
    def forward(xs):
        a = torch.full((1, 4), -10000.0)
        a[0][1] = 0.0
        v = a
        for x in xs:
            v = torch.logsumexp(v + x, 1).view(1, 1) + x
        return v

    check(forward, [torch.randn(n, 4) for n in (2, 1, 3)])


def test_lists_of_written_and_other_tensors():
    def forward(x, n):
        a, seen = torch.zeros_like(x), []
        for i in range(n):
            a += x
            seen.append(a)
            seen.append(a * i)
        return a, seen

    check(forward, torch.randn(2, 3), [2, 3])


def test_cell_reads_a_state_that_some_paths_have_written():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.GRUCell(2, 3)

        def step(self, x, state):
            count, h = state
            total = torch.zeros_like(h)
            for n in range(3):
                total += self.cell(x, h)
                if total.sum() > 1:
                    return count + n, total
            return count, total

        def forward(self, xs, state):
            for x in xs:
                state = self.step(x, state)
            return state

    check(Net(), [torch.randn(n, 1, 2) for n in (4, 2)], [(0, torch.ones(1, 3)), (1, torch.zeros(1, 3))])


def test_lists_of_several_kinds():
    def forward(x, n):
        found, pairs = [], []
        for i in range(n):
            found += [i, x * i, "a", None, x.sum(), 1.5, True]
            pairs.append((True,) if i % 2 else (x * i, 2))
        return found, pairs

    check(forward, torch.randn(2, 3), [2, 3])


def test_numpy_scalars_count_as_numbers():
    half = np.float64(0.5)

    def forward(x, n):
        k = torch.tensor(n)
        products = x / np.sqrt(3), x * np.sqrt(n), np.sqrt(n) - x, x + np.float32(2), x**half, x / math.sqrt(n)
        return *products, x > half, half < x, x == np.float32(1), k * np.int64(3), k * np.float32(3)

    check(forward, torch.rand(2, 3), [2, 3])


def test_is():
    def forward(x):
        z = x
        return z is x, x is not z, z is not None, x.sum() is x

    check(forward, torch.randn(2, 3))


def test_is_of_elements_is_rejected():
    def forward(x, i, j):
        xs = [x, x * 2, x]
        return xs[i] is xs[j]

    with pytest.raises(AcronumbaError, match="one object or two"):
        acronumba.torch.model(forward).batch(torch.randn(2, 3), [0, 1], [2, 0])


def test_requires_grad_is_not_read():
    def forward(x):
        return x * 2 if x.requires_grad else x

    with pytest.raises(AcronumbaError, match="requires_grad"):
        acronumba.torch.model(forward).batch(torch.randn(2, 3))


def test_several_of_joined_tensors_have_several_types():
    def forward(x, n):
        a = x * 1.5 if n > 0 else x
        return torch.cat([a, x]), torch.cat([a, a]), torch.stack([x, a])

    check(forward, torch.tensor([[1, 2], [3, 4]]), [0, 1])


def test_numbers_among_joined_tensors_fail_alone():
    def forward(x, n):
        a = x if n > 0 else 0
        return torch.cat([a, a, x])

    fast = acronumba.torch.model(forward)
    with pytest.raises(InstanceErrors) as caught:
        fast.batch(torch.ones(3, 2), [1, 0, 2])
    assert list(caught.value.errors) == [1] and isinstance(caught.value.errors[1], TypeError)


def test_chart_of_sums():
    def forward(xs):
        n, chart = len(xs), {}
        for i in range(n):
            chart[i, i + 1] = xs[i]
        for size in range(2, n + 1):
            for i in range(n - size + 1):
                j = i + size
                chart[i, j] = sum(torch.tanh(torch.cat((chart[i, k], chart[k, j]))[1:4]) for k in range(i + 1, j))
        return chart[0, n], len(chart)

    check(forward, [list(torch.randn(n, 3)) for n in (1, 2, 4)])


def is_rejected(net, columns):
    """Compare a batch with plain calls; return whether the program is rejected or PyTorch itself fails."""
    try:
        plain = [net(*instance) for instance in zip(*columns, strict=True)]
        want = [x for x in leaves(plain) if isinstance(x, torch.Tensor) and x.requires_grad]
        if want:
            torch.autograd.grad(sum(x.sum() for x in want), [*net.parameters()], allow_unused=True)
    except (RuntimeError, TypeError, IndexError):
        return True
    try:
        acronumba.torch.model(net).batch(*columns)
    except InternalError:
        raise
    except Unsupported:
        return True
    return False


@pytest.mark.parametrize("first", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in (8, 60))])
def test_random_programs(first, tmp_path):
    g, rejected = torch.Generator().manual_seed(first), 0
    for seed in range(first, first + (8 if first == 0 else 40)):
        file = tmp_path / f"program{seed}.py"
        file.write_text(Program(seed).text())
        torch.manual_seed(seed)
        net = runpy.run_path(str(file))["Net"]()
        xs = [[torch.randn(3, generator=g) for _ in range(k + 1)] for k in range(3)]
        x, w = torch.randn(2, 3, 3, generator=g)
        m = [torch.randn(2 + k % 2, 3, generator=g) for k in range(3)]
        columns = x, w, m, [1, 2, 3], torch.randint(0, 3, (3, 3), generator=g), xs
        if is_rejected(net, columns):
            rejected += 1
        else:
            check(net, *columns, parameters=[*net.parameters()])
    assert rejected < (5 if first == 0 else 25)


def test_what_changed_since_the_model_was_made_is_rejected():
    net, x = nn.Linear(2, 2), torch.randn(2, 2)
    fast = acronumba.torch.model(net)
    check(net, x)
    net.forward = lambda input: input * 7
    with pytest.raises(AcronumbaError, match="assigned after"):
        fast.batch(x)
    del net.forward
    fast.batch(x)
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(AcronumbaError, match="default dtype"):
            fast.batch(x)
    finally:
        torch.set_default_dtype(torch.float32)
