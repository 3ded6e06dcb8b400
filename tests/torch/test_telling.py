"""Lines of public code that compute nothing: printing, logging, gradients switched off."""

from __future__ import annotations

import logging
import sys
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import acronumba.torch  # noqa: E402
from acronumba import Unsupported  # noqa: E402

logger = logging.getLogger(__name__)


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mix = nn.Linear(4, 4)
        self.logger = logger
        self.use_cuda = torch.cuda.is_available()


class Tells(Base):
    def forward(self, x):
        y = self.mix(x)
        print("y", y, y.shape, f"{y.mean().item():.3f}")
        logger.debug("x %s", x.shape)
        self.logger.info(f"y {y.shape}")
        warnings.warn(f"size {y.size(0)}", stacklevel=1)
        sys.stdout.write("\n")
        sys.stdout.flush()
        assert x.dim() == 1 and isinstance(x, torch.Tensor), f"bad {x.shape}"
        if x.size(-1) != 4:
            raise ValueError(f"got {x.shape} of {x.dtype}, not {4}")
        if torch.cuda.is_available() or self.use_cuda:
            x = x.cuda()
        return y + x


def test_what_only_prints_or_logs_is_left_out_of_a_batch(capsys):
    net = Tells()
    fast = acronumba.torch.model(net)
    xs = [torch.randn(4) for _ in range(3)]
    capsys.readouterr()
    out = fast.batch(xs)
    assert capsys.readouterr().out == ""
    with pytest.warns(UserWarning, match="size 4"):
        assert torch.allclose(out[1], net(xs[1]), atol=1e-6) and fast.check(xs).ok
    assert "y tensor(" in capsys.readouterr().out
    assert "not run in a batch: print(" in str(fast.explain(xs))


class PrintsAndPops(Base):
    def forward(self, x):
        stack = [x, x * 2]
        print(stack.pop())
        return self.mix(stack.pop())


def test_a_call_that_changes_something_is_not_left_out_with_a_print():
    fast = acronumba.torch.model(PrintsAndPops())
    with pytest.raises(Unsupported) as caught:
        fast.batch([torch.randn(4)])
    assert "stack.pop() inside print" in str(caught.value) and "x = stack.pop()" in str(caught.value)


class Stops(Base):
    """Gradients stop where PyTorch stops them."""

    @torch.no_grad()
    def constant(self, x):
        return self.mix(x)

    @torch.set_grad_enabled(True)
    def followed(self, x):
        return self.mix(x * 3)

    def forward(self, x):
        a = self.constant(x)
        with torch.no_grad():
            b = self.mix(x) * 2
            parts = [self.mix(x + 1), self.followed(x)]
            first = (self.mix(x) + x)[0]
            with torch.enable_grad():
                c = self.mix(x - 1)
        with torch.set_grad_enabled(self.training):
            d = self.mix(x) * 5
        return (a * self.mix(x) + b * c + parts[0] * parts[1] + d * first).sum()


@pytest.mark.parametrize("training", [True, False])
def test_gradients_stop_where_pytorch_stops_them(training):
    net = Stops().train(training)
    fast = acronumba.torch.model(net)
    xs = [torch.randn(4) for _ in range(3)]
    sum(net(x) for x in xs).backward()
    want = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    fast.batch(xs).stack().sum().backward()
    for p, g in zip(net.parameters(), want, strict=True):
        assert torch.allclose(p.grad, g, rtol=1e-4, atol=1e-5 * float(g.abs().max()))


class Shares(Base):
    """A view made without gradients still is a view."""

    def forward(self, x):
        y = self.mix(x) * 1.0
        with torch.no_grad():
            first = y[:2]
            whole = y.contiguous()
        whole.mul_(3)
        return y, first, whole


def test_views_made_without_gradients_are_views():
    net = Shares()
    with torch.no_grad():
        x = torch.randn(4)
        out = acronumba.torch.model(net).batch([x])[0]
        for a, b in zip(out, net(x), strict=True):
            assert torch.allclose(a, b, atol=1e-6)


class Imports(Base):
    def forward(self, x):
        import torch.nn.functional as f
        from torch.autograd import Variable

        if x.dim() > 4:
            import no_such_module

            no_such_module.call(x)
        return f.relu(Variable(self.mix(x)))


class ImportsWhatIsNot(Base):
    def forward(self, x):
        import no_such_module

        return no_such_module.call(x)


def test_imports_of_modules_that_are_there_are_taken():
    net = Imports()
    assert acronumba.torch.model(net).check([torch.randn(4)]).ok
    with pytest.raises(Unsupported) as caught:
        acronumba.torch.model(ImportsWhatIsNot()).batch([torch.randn(4)])
    assert caught.value.code == "ACR106" and "import no_such_module" in str(caught.value)
