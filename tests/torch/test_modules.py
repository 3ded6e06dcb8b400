"""Modules of `torch.nn` in a batch, against PyTorch's own one instance at a time."""

from __future__ import annotations

import re
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import acronumba.torch  # noqa: E402
from acronumba.errors import AcronumbaError, InstanceErrors  # noqa: E402
from tests.support.torch_modules import compare  # noqa: E402


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


class Losses(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(4))
        self.register_buffer("w", torch.rand(4))
        self.of_classes = [
            nn.CrossEntropyLoss(),
            nn.CrossEntropyLoss(reduction="sum", ignore_index=2),
            nn.CrossEntropyLoss(label_smoothing=0.1, weight=torch.rand(4)),
            nn.CrossEntropyLoss(reduction="none", label_smoothing=0.2, ignore_index=1),
        ]
        self.of_numbers = [
            nn.MSELoss(), nn.L1Loss(reduction="sum"), nn.SmoothL1Loss(beta=0.5), nn.HuberLoss(delta=0.3),
            nn.KLDivLoss(reduction="batchmean"), nn.SoftMarginLoss(), nn.PoissonNLLLoss(),
        ]  # fmt: skip

    def forward(self, x: Any, t: Any) -> Any:
        x = x * self.scale
        out = [f(x, t) for f in self.of_classes]
        out += [f(x[0], t[0]) for f in self.of_classes]
        p = F.softmax(x * 2, -1)
        out += [
            F.cross_entropy(x, p),
            F.cross_entropy(x, p, weight=self.w, label_smoothing=0.1, reduction="sum"),
            F.nll_loss(x, t),
            F.nll_loss(x, t, weight=self.w),
            F.nll_loss(x, t, reduction="none"),
            F.cross_entropy(x.t()[None], t[None], ignore_index=1),
        ]
        p, y = torch.sigmoid(x), torch.sigmoid(x * 3)
        for f in self.of_numbers:
            out.append(f(x, y.detach()))
        out += [
            nn.BCELoss()(p, y),
            F.binary_cross_entropy_with_logits(x, y.detach(), pos_weight=self.w),
            F.binary_cross_entropy_with_logits(x, y.detach(), weight=self.w, reduction="sum"),
        ]
        return tuple(out)


class OtherLosses(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(4))

    def forward(self, x: Any, t: Any) -> Any:
        x = x * self.scale
        y, p = torch.sigmoid(x * 3), torch.sigmoid(x)
        s = torch.where(x[:, 0] > 0, 1.0, -1.0)
        return (
            F.gaussian_nll_loss(x, y, p), F.gaussian_nll_loss(x, y, p, full=True), F.multi_margin_loss(x, t),
            F.multilabel_soft_margin_loss(x, y), F.margin_ranking_loss(x[:, 0], y[:, 0], s, margin=0.1),
            F.hinge_embedding_loss(x[:, 1], s), F.cosine_embedding_loss(x, y, s), F.triplet_margin_loss(x, y, p),
            F.triplet_margin_loss(x, y, p, swap=True, reduction="none"), nn.CosineSimilarity()(x, y),
            nn.PairwiseDistance(1)(x, y), F.kl_div(x, y, log_target=True, reduction="sum"),
        )  # fmt: skip


@pytest.mark.parametrize("cls", [Losses, OtherLosses])
def test_losses(cls: Any) -> None:
    torch.manual_seed(0)
    compare(cls(), [torch.randn(n, 4) for n in (1, 3, 5)], [torch.randint(0, 4, (n,)) for n in (1, 3, 5)])


def test_classes_out_of_range_are_failures() -> None:
    net = Wrapped(nn.CrossEntropyLoss(ignore_index=-1))
    for bad in (4, -2):
        with pytest.raises(AcronumbaError):
            acronumba.torch.model(net.both).batch(
                [torch.ones(2, 4)] * 2, [torch.tensor([-1, 1]), torch.tensor([0, bad])]
            )


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(2, 4, 3, padding=1)
        self.b = nn.Conv2d(4, 6, (3, 2), stride=(2, 1), dilation=(1, 2), groups=2, bias=False)
        self.c = nn.Conv2d(2, 3, 3, padding="same")
        self.pools = nn.ModuleList([
            nn.MaxPool2d(2, padding=1), nn.AvgPool2d(2, stride=1, padding=1, count_include_pad=False),
            nn.AdaptiveMaxPool2d((2, 3)), nn.AdaptiveAvgPool2d((3, None)), nn.BatchNorm2d(4), nn.GroupNorm(2, 4),
            nn.InstanceNorm2d(4, affine=True), nn.ZeroPad2d((1, 0, 0, 2)), nn.Upsample(scale_factor=2),
            nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)),
        ])  # fmt: skip

    def forward(self, x: Any) -> Any:
        y = F.relu(self.a(x))
        return self.b(y), self.c(x), [pool(y) for pool in self.pools], F.max_pool2d(x, 3, 1), F.avg_pool2d(x, 2)


@pytest.mark.long
def test_images() -> None:
    torch.manual_seed(0)
    net = Images()
    net.pools[4].running_mean.normal_()
    net.pools[4].running_var.uniform_(0.5, 2)
    compare(net.eval(), [torch.randn(1, 2, 7, 6), torch.randn(1, 2, 7, 6), torch.randn(1, 2, 5, 8)])


class Windows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(3, 4, 3, padding=2, dilation=2)
        self.pick = nn.Conv1d(4, 2, 1, stride=2)
        self.pool = nn.MaxPool1d(2)

    def forward(self, x: Any) -> Any:
        y = torch.tanh(self.conv(x.t()))
        image = x[None, :2]
        return self.pick(y), self.pool(y), F.avg_pool1d(y, 3, 1), F.max_pool2d(image, 2), F.adaptive_avg_pool1d(y, 2)


def test_windows_of_unbatched_inputs() -> None:
    torch.manual_seed(0)
    compare(Windows(), [torch.randn(n, 3) for n in (4, 5, 9)])


class Circular(nn.Module):
    """Convolutions with weights whose sizes only run time knows."""

    def forward(self, w: Any, s: Any, k: Any) -> Any:
        t = torch.cat([w[-1:], w, w[:1]])
        y = F.conv1d(t.view(1, 1, -1), s.view(1, 1, -1))
        return y.view(-1), F.conv1d(k, k[:, :, :2], k[:, 0, 0]), F.conv1d(k[0], k)


def test_convolutions_with_weights_of_run_time_sizes() -> None:
    torch.manual_seed(0)
    ws, ss = [torch.randn(n) for n in (5, 4, 3)], [torch.randn(n) for n in (3, 2, 3)]
    compare(Circular(), ws, ss, [torch.randn(c, 3, n) for c, n in ((2, 4), (1, 2), (3, 3))])


def test_convolution_with_a_kernel_that_is_too_large() -> None:
    def f(x: Any, w: Any) -> Any:
        return F.conv1d(x, w)

    xs, ws = [torch.randn(1, 3, n) for n in (4, 1, 4)], [torch.randn(2, c, 2) for c in (3, 3, 2)]
    with pytest.raises(InstanceErrors, match="2 of 3 instances failed"):
        acronumba.torch.model(f).batch(xs, ws)


class Norms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LayerNorm(6)
        self.both = nn.LayerNorm((2, 6), elementwise_affine=False)
        self.rms = nn.RMSNorm(6)
        self.batch = nn.BatchNorm1d(6, affine=False)
        self.bilinear = nn.Bilinear(6, 6, 3)
        self.act = nn.Sequential(nn.PReLU(), nn.GELU(), nn.Softplus(), nn.Hardtanh(), nn.ELU(), nn.LeakyReLU(0.1))
        self.table = nn.Embedding.from_pretrained(torch.randn(4, 6))

    def forward(self, x: Any, k: Any) -> Any:
        y = x.view(-1, 2, 6)
        return (
            self.layer(x), self.both(y), self.rms(x), self.batch(x), self.bilinear(x, x * 2), self.act(x),
            self.layer(x[0]), self.bilinear(x[0], x[1]), nn.Softmax(dim=1)(x), nn.CosineSimilarity(dim=0)(x[0], x[1]),
            self.table(k), nn.Identity()(x),
        )  # fmt: skip


def test_norms() -> None:
    torch.manual_seed(0)
    net = Norms()
    net.batch.running_mean.normal_()
    compare(net.eval(), [torch.randn(n, 6) for n in (2, 4)], [torch.tensor(3), torch.tensor(0)])


class Wrapped(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Any) -> Any:
        return self.inner(x)

    def both(self, x: Any, y: Any) -> Any:
        return self.inner(x, y)


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


MISFITS = [
    (lambda: nn.Linear(3, 2), [torch.ones(3, dtype=torch.float64)]),
    (lambda: nn.Linear(3, 2), [torch.ones(3, dtype=torch.int64)]),
    (lambda: nn.LSTMCell(3, 2), [torch.ones(1, 3, dtype=torch.float64)]),
    (lambda: nn.GRUCell(3, 2), [torch.ones(2, 3), torch.ones(1, 2)]),
    (lambda: nn.LSTMCell(3, 2), [torch.ones(2, 3), (torch.ones(2, 2), torch.ones(1, 2))]),
    (lambda: nn.GRU(3, 2), [torch.ones(4, 3), torch.ones(1, 1, 2)]),
    (lambda: nn.GRU(3, 2), [torch.ones(4, 5, 3), torch.ones(1, 1, 2)]),
    (lambda: nn.GRU(3, 2), [torch.ones(4, 5, 3), torch.ones(2, 5, 2)]),
    (lambda: nn.GRU(3, 2), [torch.ones(3)]),
    (lambda: nn.LSTM(3, 2), [torch.ones(0, 3)]),
    (lambda: nn.Conv2d(1, 1, 1), [torch.ones(1, 2, 2, dtype=torch.float64)]),
    (lambda: nn.LayerNorm(3), [torch.ones(1, 3, dtype=torch.float64)]),
    (lambda: nn.LayerNorm(3), [torch.ones(3, 1)]),
    (lambda: nn.Embedding(3, 2), [torch.tensor(-1)]),
    (lambda: nn.Embedding(3, 2), [torch.tensor(1.0)]),
    (lambda: nn.CrossEntropyLoss(), [torch.ones(2, 3), torch.tensor([0, 1], dtype=torch.int32)]),
    (lambda: nn.CrossEntropyLoss(weight=torch.ones(3, dtype=torch.float64)), [torch.ones(3), torch.tensor(1)]),
    (lambda: nn.NLLLoss(), [torch.ones(2, 3), torch.ones(2)]),
    (lambda: nn.BCELoss(), [torch.ones(2), torch.ones(2, dtype=torch.int64)]),
    (lambda: nn.BCELoss(), [torch.tensor([2.0]), torch.ones(1)]),
    (lambda: nn.BCEWithLogitsLoss(), [torch.ones(2, 1), torch.ones(2)]),
    (lambda: nn.MSELoss(), [torch.ones(2, dtype=torch.int64), torch.ones(2, dtype=torch.int64)]),
]


@pytest.mark.parametrize("case", range(len(MISFITS)))
def test_what_is_an_error_in_pytorch_is_one_here(case: int) -> None:
    make, given = MISFITS[case]
    net = make()
    with pytest.raises((RuntimeError, ValueError, IndexError, TypeError)):
        net(*given)
    one = Wrapped(net)
    target = [None, one, one.both][len(given)]
    with pytest.raises((AcronumbaError, RuntimeError, ValueError)):
        acronumba.torch.model(target).batch(*([x] for x in given))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.MultiheadAttention(6, 2)
        self.other = nn.MultiheadAttention(6, 3, bias=False, kdim=4, vdim=4, batch_first=True)
        self.bags = nn.EmbeddingBag(5, 3, mode="mean")
        self.tops = nn.EmbeddingBag(5, 3, mode="max")

    def forward(self, x: Any, y: Any, k: Any) -> Any:
        n = len(x)
        mask = torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1)
        a, w = self.one(x, x, x, attn_mask=mask)
        b, _ = self.one(x[:, None], x[:, None], x[:, None], need_weights=False)
        c, each = self.other(x[None], y[None], y[None], average_attn_weights=False)
        hidden = torch.arange(len(y)) > 0
        d, _ = self.other(x, y, y, key_padding_mask=hidden)
        e = F.scaled_dot_product_attention(x, x, x, is_causal=True)
        return a, w, b, c, each, d, e, self.bags(k), self.tops(k)


def test_attention() -> None:
    torch.manual_seed(0)
    bags = [torch.randint(0, 5, (n, 3)) for n in (1, 2)]
    compare(Attention(), [torch.randn(n, 6) for n in (2, 4)], [torch.randn(n, 4) for n in (3, 2)], bags)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(4, 2, 8, activation="gelu", norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(4), enable_nested_tensor=False)
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)

    def forward(self, x: Any) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(3)
        padded = nn.utils.rnn.pad_sequence([x, x[:1]], batch_first=True, padding_value=1.0)
        return self.encoder(x), self.layer(padded), self.encoder(x[:3], mask), nn.utils.rnn.pad_sequence([x, x[:1]])


def test_encoders() -> None:
    torch.manual_seed(0)
    compare(Encoder().eval(), [torch.randn(n, 4) for n in (3, 5)], tol=5e-6)
