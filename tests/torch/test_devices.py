"""Modules on a device, which is the simulator: results, gradients, and what is copied."""

from __future__ import annotations

import copy
import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("greenlet")

from torch import nn  # noqa: E402

import acronumba.torch  # noqa: E402
from acronumba import AcronumbaError, InstanceErrors  # noqa: E402
from acronumba.runtime.devices.simulated import simulator  # noqa: E402
from acronumba.torch import devices  # noqa: E402
from tests.support.torch_places import OnSimulator, on_simulator  # noqa: E402


@pytest.fixture
def places() -> Iterator[OnSimulator]:
    with on_simulator() as found:
        yield found


@contextmanager
def downloads() -> Iterator[list[int]]:
    """Collect the bytes of each copy from the simulator."""
    device, found = simulator(), []  # type: ignore[var-annotated]
    download = device.download

    def down(data: Any, at: int) -> None:
        found.append(len(data))
        download(data, at)

    device.download = down  # type: ignore[method-assign]
    try:
        yield found
    finally:
        del device.download


class Chain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embed, self.cell = nn.Embedding(6, 3), nn.Linear(6, 3)
        self.out = nn.Linear(3, 2)
        self.register_buffer("scale", torch.tensor([1.0, 2.0]))

    def forward(self, words, first):
        h = first
        for word in words:
            x = self.embed(torch.tensor([word], device=self.scale.device))[0]
            h = torch.tanh(self.cell(torch.cat([x, h])))
        return self.out(h) * self.scale


WORDS = [[1, 2, 1], [5], [0, 3]]
FIRSTS = torch.randn(3, 3, generator=torch.Generator().manual_seed(0))


def made(places: OnSimulator, module: Any) -> tuple[Any, Any, Any]:
    """Return a module on the simulator, its model, and a copy of the module on the CPU."""
    twin = copy.deepcopy(module)
    return places.put(module), acronumba.torch.model(module), twin


def called(module: Any, *columns: Any) -> list[Any]:
    return [module(*xs) for xs in zip(*columns, strict=True)]


def same_gradients(net: Any, twin: Any) -> None:
    for (name, p), q in zip(net.named_parameters(), twin.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None), name
        if p.grad is not None:
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-6, msg=name)
            p.grad = q.grad = None


def test_steps_copy_nothing_back(places: OnSimulator) -> None:
    net, f, twin = made(places, Chain())
    opts = [torch.optim.SGD(m.parameters(), lr=0.5, momentum=0.9) for m in (net, twin)]
    for step in range(3):
        with downloads() as down:
            outs = f.batch(WORDS, FIRSTS)
            assert len(outs) == 3 and all(map(places.is_there, outs))
            outs.stack().square().mean().backward()
        torch.stack(called(twin, WORDS, FIRSTS)).square().mean().backward()
        assert not down and (not step or not places.down), (down, places.down)
        assert all(places.is_there(p.grad) for p in net.parameters())
        for opt in opts:
            opt.step()
        same_gradients(net, twin)
        places.down.clear()


def test_tensors_elsewhere_have_no_array_that_stands_for_them() -> None:
    """Nor is their device opened: there may be none that models compute on."""
    assert devices.standing_for(torch.empty(2, device="meta")) is None


class Loss(Chain):
    def forward(self, words: list[int], first: Any) -> Any:
        return super().forward(words, first).square().sum()


def test_parameters_that_a_batch_does_not_reach_have_no_gradient(places: OnSimulator) -> None:
    """Also if an earlier batch has reached them."""
    net, f, _ = made(places, Loss())
    for words, firsts in ((WORDS, FIRSTS), ([[]], FIRSTS[:1])):
        net.zero_grad()
        f.value_and_grad.batch(words, firsts, into=net)
    assert [name for name, p in net.named_parameters() if p.grad is None] == [
        "embed.weight", "cell.weight", "cell.bias"
    ]  # fmt: skip


@pytest.mark.parametrize("back", [False, True])
def test_memory_that_is_replaced_before_the_backward_pass_is_not_read(places: OnSimulator, back: bool) -> None:
    """Also if another batch has read the new memory, and the old one is back."""
    net, f, _ = made(places, Chain())
    out, old = f.batch(WORDS, FIRSTS).stack().sum(), net.cell.weight.data
    net.cell.weight.data = places.put(nn.Linear(6, 3)).weight.data
    if back:
        f.batch(WORDS, FIRSTS)
        net.cell.weight.data = old
    with pytest.raises(RuntimeError, match="memory was replaced after the forward pass"):
        out.backward()
    f.batch(WORDS, FIRSTS).stack().sum().backward()


def test_changes_without_a_version_are_seen(places: OnSimulator) -> None:
    net, f, twin = made(places, Chain())
    with torch.no_grad():
        before = f.batch(WORDS, FIRSTS).stack()
        for module in (net, twin):
            module.cell.weight.data.mul_(2)
            module.out.bias = nn.Parameter(torch.ones(2))
        places.put(net)
        torch.testing.assert_close(f.batch(WORDS, FIRSTS).stack(), torch.stack(called(twin, WORDS, FIRSTS)))
        assert before.shape == (3, 2)


def test_parameters_that_are_no_whole_block_of_memory(places: OnSimulator) -> None:
    class Views(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(2)
            self.a = nn.Parameter(torch.randn(4, 3).t())
            self.b = nn.Parameter(torch.randn(13)[1:])
            self.c = nn.Parameter(torch.randn(2, 3)[:, 0])

        def forward(self, x):
            return (self.a @ x).sum() * self.b.view(3, 4) @ x, self.c + 1, self.a

    net, f, twin = made(places, Views())
    xs = torch.randn(3, 4)
    for _ in range(2):
        outs = f.batch(xs)
        for (a, b, c), (d, e, g) in zip(outs, called(twin, xs), strict=True):
            torch.testing.assert_close([a, b, c], [d, e, g])
        sum(x.sum() + y.square().sum() + (z * z).sum() for x, y, z in outs).backward()
        sum(x.sum() + y.square().sum() + (z * z).sum() for x, y, z in called(twin, xs)).backward()
        same_gradients(net, twin)
        with torch.no_grad():
            for p in (*net.parameters(), *twin.parameters()):
                p.add_(0.25)


class Kinds(nn.Module):
    """Results of all kinds, a decision by a value, a parameter that is returned, an attribute that is written."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.w, self.tied = nn.Linear(3, 3), nn.Linear(3, 3)
        self.tied.weight = self.w.weight
        self.cells = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
        self.unused = nn.Parameter(torch.ones(2))
        self.register_buffer("order", torch.tensor([2, 0, 1]))

    def forward(self, x, k):
        if k < 0:
            raise ValueError("negative")
        h = self.tied(torch.tanh(self.w(x)))[self.order]
        h = self.cells[k % 2](h)
        if h.sum().item() > 0:
            h = h * 2
        out = torch.zeros(2, 3, device=x.device)
        out[k % 2] = h
        return {"h": h, "out": out, "best": h.argmax(), "k": k, "list": [h[0], x], "bias": self.w.bias}


def summed(r: Any) -> Any:
    return r["h"].square().sum() + 3 * r["out"].sum() + r["list"][0] + r["bias"].sum()


def test_results_of_all_kinds(places: OnSimulator) -> None:
    net, f, twin = made(places, Kinds())
    xs, ks = torch.randn(4, 3), [0, 1, 2, 3]
    for _ in range(2):
        found, wanted = f.batch(xs, ks), called(twin, xs, ks)
        for a, b in zip(found, wanted, strict=True):
            assert a.keys() == b.keys() and type(a["k"]) is int and a["best"].dtype is torch.int64
            torch.testing.assert_close(a, b)
        sum(map(summed, found)).backward()
        sum(map(summed, wanted)).backward()
        same_gradients(net, twin)
        with torch.no_grad():
            for p in (*net.parameters(), *twin.parameters()):
                p.mul_(-0.75)


def test_instances_fail_alone(places: OnSimulator) -> None:
    net, f, twin = made(places, Kinds())
    xs = torch.randn(3, 3)
    with pytest.raises(InstanceErrors) as info:
        f.batch(xs, [0, -1, 1])
    assert isinstance(info.value.errors[1], ValueError)
    torch.testing.assert_close(info.value.results[2]["h"], twin(xs[2], 1)["h"])
    sum(summed(info.value.results[k]) for k in (0, 2)).backward()
    sum(summed(twin(xs[k], k // 2)) for k in (0, 2)).backward()
    same_gradients(net, twin)


def test_tensors_on_several_devices_are_named(places: OnSimulator) -> None:
    net = Chain()
    places.put(net.embed)
    with pytest.raises(AcronumbaError, match=r"`embed.weight` on simulator, `cell.weight` on cpu"):
        acronumba.torch.model(net).batch(WORDS, FIRSTS)


class OnDevices(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.device = torch.device("cuda")
        self.w = nn.Parameter(torch.ones(3))

    def forward(self, x):
        h = torch.zeros(3, device="cuda").to("cuda") + x.cuda() + torch.ones(3).to(self.device)
        h = h + torch.zeros(3, device=x.device) + torch.tensor([1.0], device=self.device).to(x)
        if x.is_cuda and self.w.device.type == "cuda" and x.device == self.w.device:
            h = h * 2
        return self.w * h, h.detach().cpu().numpy(), np.float32(x[0].item())


def test_forward_knows_its_device(places: OnSimulator) -> None:
    _, f, _ = made(places, OnDevices())
    for out, array, number in f.batch([torch.zeros(3)] * 2):
        assert places.is_there(out) and out.tolist() == [4.0] * 3
        assert type(array) is np.ndarray and array.tolist() == [4.0] * 3 and type(number) is np.float32
    with pytest.raises(AcronumbaError, match="ACR202"):
        acronumba.torch.model(OnDevices()).batch([torch.zeros(3)])


class ChainLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.chain = Chain()

    def forward(self, words, first, k):
        return nn.functional.cross_entropy(self.chain(words, first).unsqueeze(0), torch.tensor([k]))


def test_value_and_grad_stays_there(places: OnSimulator) -> None:
    net, f, twin = made(places, ChainLoss())
    labels = [0, 1, 1]
    for step in range(2):
        places.down.clear()
        with downloads() as down:
            value, grads = f.value_and_grad.batch(WORDS, FIRSTS, labels, into=net)
        wanted = torch.stack(called(twin, WORDS, FIRSTS, labels)).mean()
        wanted.backward()
        assert not step or (sum(down) <= 64 and not places.down), (down, places.down)  # whether an instance has failed
        torch.testing.assert_close(value, wanted.detach())
        assert grads.keys() == {name for name, _ in net.named_parameters()}
        same_gradients(net, twin)


def test_check_explain_and_trace(places: OnSimulator) -> None:
    _, f, twin = made(places, Chain())
    verdict = f.check(WORDS, FIRSTS)
    assert verdict.ok, str(verdict)
    assert "forward" in str(f.explain(WORDS, FIRSTS)) and f.trace(WORDS, FIRSTS).nodes
    torch.testing.assert_close(f.trace(WORDS, FIRSTS).results[0], twin(WORDS[0], FIRSTS[0]))


class Barely(nn.Module):
    """Whose parameters have no part in some results, or in none."""

    def __init__(self, used: bool) -> None:
        super().__init__()
        self.w, self.used = nn.Parameter(torch.ones(3)), used

    def forward(self, xs, k):
        h = xs[0]
        for _ in range(k):
            h = torch.tanh(h * self.w if self.used else h * 2)
        return h


@pytest.mark.parametrize("used", [True, False])
def test_gradients_of_instances(places: OnSimulator, used: bool) -> None:
    _, f, twin = made(places, Barely(used))
    for counts in ([0, 2], [0, 0]):
        mine = [torch.randn(2, 3, requires_grad=True), torch.randn(2, 3, requires_grad=True)]
        theirs = [x.detach().clone().requires_grad_() for x in mine]
        places.shown(mine[1])
        sum(h.square().sum() for h in f.batch(mine, counts)).backward()
        sum(h.square().sum() for h in called(twin, theirs, counts)).backward()
        torch.testing.assert_close([x.grad for x in mine], [x.grad for x in theirs])


class Numbers(nn.Module):
    """Reads numbers of buffers, which the CPU needs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.w = nn.Parameter(torch.randn(4, 3))
        self.register_buffer("order", torch.tensor([2, 0, 1, 3]))
        self.register_buffer("steps", torch.tensor(2))
        self.register_buffer("flag", torch.tensor([True, False]))

    def forward(self, x, k):
        for _ in range(int(self.steps)):
            x = torch.tanh(x * self.w[self.order[k]])
        for i in self.order.tolist():
            x = x + self.w[i]
        return x + 1 if self.flag[k % 2] else x, self.order[k], self.steps.item()


def test_numbers_of_buffers(places: OnSimulator) -> None:
    net, f, twin = made(places, Numbers())
    xs, ks = torch.randn(3, 3), [0, 1, 3]
    for _ in range(2):
        found, wanted = f.batch(xs, ks), called(twin, xs, ks)
        torch.testing.assert_close(list(found), wanted)
        sum(x.square().sum() for x, *_ in found).backward()
        sum(x.square().sum() for x, *_ in wanted).backward()
        same_gradients(net, twin)
        for m in (net, twin):
            m.order.data.copy_(torch.tensor([3, 1, 0, 2]))
            m.steps.data.add_(1)
            m.flag.data.logical_not_()


class Written(nn.Module):
    """Returns a tensor that it has written into."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x, k):
        out = torch.zeros(2, 3)
        out[k % 2] = x * self.w
        return out, [x[:k] * 2, out[0]]


def test_tensors_that_were_written_into(places: OnSimulator) -> None:
    net, f, twin = made(places, Written())
    xs, ks = torch.randn(3, 3), [0, 1, 2]
    found, wanted = f.batch(xs, ks), called(twin, xs, ks)
    torch.testing.assert_close(list(found), wanted)
    sum(x.square().sum() + y.sum() for x, (_, y) in found).backward()
    sum(x.square().sum() + y.sum() for x, (_, y) in wanted).backward()
    same_gradients(net, twin)


class Scaled(nn.Module):
    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        torch.manual_seed(sum(shape))
        self.w = nn.Parameter(torch.randn(shape))

    def forward(self, x):
        return self.w.sum() * x * x


def test_modules_that_end_between_passes(places: OnSimulator) -> None:
    """Arrays that stand for tensors have addresses, which others get after them."""
    net, f, twin = made(places, Scaled((5,)))
    x = torch.randn(3, 2)
    for _ in range(2):
        ended = [made(places, Scaled((3, 2)))[:2] for _ in range(3)]
        for _, g in ended:
            g.batch(x)
        outs = f.batch(x)
        del ended, g
        gc.collect()
        (torch.stack(list(outs)) * torch.arange(2.0)).sum().backward()
        (torch.stack(called(twin, x)) * torch.arange(2.0)).sum().backward()
        same_gradients(net, twin)


class Summed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))

    def forward(self, rows, point, k):
        return torch.tanh(rows @ self.w).sum() + point * self.w[k[0]]


@pytest.mark.parametrize("many", [3, 40])
def test_tensors_of_instances_come_together(places: OnSimulator, many: int) -> None:
    """Whatever their shapes: one copy for the tensors of a parameter and dtype."""
    _, f, twin = made(places, Summed())
    torch.manual_seed(4)
    columns: Any = (
        [torch.randn(1 + k % 3, 3) for k in range(many)], [torch.randn(()) for _ in range(many)],
        [torch.tensor([k % 3]) for k in range(many)],
    )  # fmt: skip
    expected = called(twin, *columns)
    for column in columns:
        for tensor in column:
            places.shown(tensor)
    places.down.clear()
    with torch.no_grad():
        outs = f.batch(*columns)
    for got, wanted in zip(outs, expected, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-6)
    places.down.clear()
    with torch.no_grad():
        f.batch(*columns)
    assert len(places.down) <= 3, places.down


class Parts:
    def __init__(self, layers: Any) -> None:
        self.layers = layers


def through(x, *, layers, more):
    for layer in layers["first"]:
        x = torch.tanh(layer(x))
    return more.layers[0](x) + layers["last"](x)


def test_modules_in_containers_are_found(places: OnSimulator) -> None:
    torch.manual_seed(2)
    layers: Any = {"first": [nn.Linear(3, 4), nn.Linear(4, 3)], "last": nn.Linear(3, 2)}
    more = Parts((nn.Linear(3, 2),))
    expected = [through(x, layers=layers, more=more) for x in FIRSTS]
    for module in (*layers["first"], layers["last"], *more.layers):
        places.put(module)
    outs = acronumba.torch.model(through).batch(FIRSTS, layers=layers, more=more)
    assert all(map(places.is_there, outs))
    for got, wanted in zip(outs, expected, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-6)


def test_several_threads(places: OnSimulator) -> None:
    xs = torch.randn(2, 3)

    def train(seed: int) -> None:
        net, f, twin = made(places, Scaled((seed + 2,)))
        for _ in range(4):
            outs = f.batch(xs)
            sum(x.square().sum() for x in outs).backward()
            sum(x.square().sum() for x in called(twin, xs)).backward()
            same_gradients(net, twin)

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(train, range(3)))
