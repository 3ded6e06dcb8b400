"""Modules of `torch.nn` in a batch, against PyTorch's own one instance at a time."""

from __future__ import annotations

import re
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import acronumba.torch  # noqa: E402
from acronumba.errors import AcronumbaError  # noqa: E402


def check_same(got: Any, want: Any, tol: float) -> None:
    if isinstance(want, torch.Tensor):
        assert isinstance(got, torch.Tensor)
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        torch.testing.assert_close(got, want, rtol=tol, atol=tol, equal_nan=True)
    elif isinstance(want, tuple | list):
        assert type(got) is type(want)
        assert len(got) == len(want)
        for g, x in zip(got, want, strict=True):
            check_same(g, x, tol)
    else:
        assert type(got) is type(want)
        assert got == want


def compare(target: Any, *columns: Any, tol: float = 2e-6) -> None:
    """Compare a batch with the plain calls."""
    outs = acronumba.torch.model(target).batch(*columns)
    for out, *given in zip(outs, *columns, strict=True):
        check_same(out, target(*given), tol)


def words(*counts: int) -> list[torch.Tensor]:
    return [torch.randint(0, 10, (n,)) for n in counts]


class Cells(nn.Module):
    def __init__(self, bias: bool = True, row: bool = False) -> None:
        super().__init__()
        self.row = row
        self.embed = nn.Embedding(10, 4, padding_idx=1)
        self.lstm = nn.LSTMCell(4, 5, bias=bias)
        self.gru = nn.GRUCell(5, 5, bias=bias)
        self.rnn = nn.RNNCell(5, 5, bias=bias, nonlinearity="relu")
        self.tanh = nn.RNNCell(5, 5)
        self.out = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Dropout(0.5), nn.Linear(5, 3, bias=bias))

    def forward(self, w: Any) -> Any:
        xs = self.embed(w)
        if self.row:
            xs = xs[:, None]
        h, c = self.lstm(xs[0])
        for x in xs:
            h, c = self.lstm(x, (h, c))
        g = self.gru(h)
        r = self.rnn(g)
        for _ in range(len(w)):
            g = self.gru(self.tanh(r, g), g)
            r = self.rnn(g, r)
        y = self.out[0](r)
        for m in self.out[1:]:
            y = m(y)
        return y, self.out(r), len(self.out), (h, c)


@pytest.mark.parametrize(("bias", "row"), [(True, False), (False, True)])
def test_cells(bias: bool, row: bool) -> None:
    torch.manual_seed(0)
    compare(Cells(bias, row).eval(), words(3, 1, 2))


class Sequences(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 5, num_layers=2, bidirectional=True, dropout=0.3)
        self.gru = nn.GRU(10, 3, batch_first=True)
        self.rnn = nn.RNN(3, 3, bidirectional=True, nonlinearity="relu", bias=False)

    def forward(self, x: Any) -> Any:
        y, (h, c) = self.lstm(x)
        again, _ = self.lstm(x, (h, c))
        z, h2 = self.gru(y)
        u, h3 = self.rnn(z)
        v, h4 = self.rnn(z, h3)
        return y, h, c, again, z, h2, u, h3, v, h4


@pytest.mark.parametrize("row", [False, True])
def test_sequences(row: bool) -> None:
    torch.manual_seed(0)
    shape = (1, 4) if row else (4,)
    compare(Sequences().eval(), [torch.randn(n, *shape) for n in (1, 2, 5)])


class Containers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
        self.nested = nn.ModuleList([nn.ModuleList([nn.Linear(3, 3)]) for _ in range(2)])
        self.named = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Linear(3, 3)})
        self.act = torch.tanh
        self.none = None

    def forward(self, x: Any, k: Any, name: Any) -> Any:
        for i, (m, n) in enumerate(zip(self.steps, self.nested, strict=False)):
            x = self.act(n[0](m(x))) * (i + 1)
        x = self.steps[k](x)
        x = self.steps[-1](x)
        if self.none is None and name in self.named:
            x = self.named[name](x)
        for key, m in self.named.items():
            if key != name:
                x = m(x)
        return x, len(self.steps), len(self.named)


def test_containers() -> None:
    torch.manual_seed(0)
    compare(Containers(), [torch.randn(3) for _ in range(3)], [0, 2, 1], ["a", "c", "b"])


class Wrapped(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Any) -> Any:
        return self.inner(x)


def hooked() -> nn.Module:
    net = nn.Linear(3, 3)
    net.register_forward_hook(lambda *_: None)
    return net


REJECTED = [
    (hooked, "hook"),
    (lambda: nn.Sequential(hooked()), "hook"),
    (lambda: torch.nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)), "remove_parametrizations"),
    (lambda: torch.jit.trace(nn.Linear(3, 3), torch.ones(3)), "TorchScript"),
    (lambda: nn.DataParallel(nn.Linear(3, 3)), "its .module"),
    (lambda: nn.Linear(3, 3).half(), "x.float()"),
    (lambda: nn.BatchNorm1d(3), "eval"),
]


@pytest.mark.filterwarnings("ignore:.*torch.jit")
@pytest.mark.parametrize(("make", "text"), REJECTED)
def test_rejected_modules(make: Any, text: str) -> None:
    with pytest.raises(AcronumbaError, match=re.escape(text)) as error:
        acronumba.torch.model(Wrapped(make())).batch([torch.ones(1, 3)])
    assert "return self.inner(x)" in str(error.value)
