"""Rejections of PyTorch's code: each has the user's line, a caret, and a rewrite that runs."""

from __future__ import annotations

import inspect
import linecache

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import acronumba.torch  # noqa: E402
from acronumba import AcronumbaError  # noqa: E402


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mix = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.rnn = nn.LSTM(4, 4)
        self.register_buffer("complex", torch.ones(4, dtype=torch.complex64))
        self.register_buffer("sparse", torch.eye(4).to_sparse())
        self.register_buffer("short", torch.ones(4).half())


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g


def own_backward(self, x):
    return Doubled.apply(self.mix(x))


def no_own_backward(self, x):
    return self.mix(x) * 2


def gradient_inside(self, x):
    return torch.autograd.grad(self.mix(x).sum(), x)


def loss_alone(self, x):
    return self.mix(x).sum()


def backward_inside(self, x):
    y = self.mix(x).sum()
    y.backward()
    return y


def reads_grad(self, x):
    return self.mix.weight.grad


def becomes_sparse(self, x):
    return self.mix(x).to_sparse()


def stays_dense(self, x):
    return self.mix(x)


def sparse_buffer(self, x):
    return torch.sparse.mm(self.sparse, self.mix(x)[:, None])


def complex_buffer(self, x):
    return x * self.complex


def half_buffer(self, x):
    return x * self.short


def fourier(self, x):
    return torch.fft.fft(self.mix(x))


def packed(self, x):
    return self.rnn(nn.utils.rnn.pack_padded_sequence(x[None], [1]))


def not_packed(self, x):
    return self.rnn(x[None])[0]


def batch_norm(self, x):
    return self.norm(self.mix(x)[None])


def on_cuda(self, x):
    return self.mix(x.cuda())


def made_on_cuda(self, x):
    return self.mix(x) + torch.zeros(4, device="cuda")


def made_on_its_device(self, x):
    return self.mix(x) + torch.zeros(4, device=x.device)


def tensor_as_key(self, x):
    return x * {0: 1.0, 1: 2.0, 2: 3.0, 3: 4.0}[x.argmax()]


def number_as_key(self, x):
    return x * {0: 1.0, 1: 2.0, 2: 3.0, 3: 4.0}[x.argmax().item()]


def numpy_function(self, x):
    return np.tanh(self.mix(x))


def function_of_torch(self, x):
    return torch.tanh(self.mix(x))


def numpy_of_list(self, x):
    return np.concatenate([self.mix(x), x])


def cat_of_torch(self, x):
    return torch.cat([self.mix(x), x])


def unknown_function(self, x):
    return torch.cholesky_inverse(self.mix(x))


def unknown_method(self, x):
    return self.mix(x).tanhh()


def known_method(self, x):
    return self.mix(x).tanh()


def into_out(self, x):
    return torch.add(x, x, out=self.mix(x))


def left_out(self, x):
    return torch.add(x, x)


def vmapped(self, x):
    return torch.vmap(torch.tanh)(self.mix(x))


def loop_over_rows(self, x):
    return torch.stack([torch.tanh(row) for row in self.mix(x)])


def normal(self, x):
    return torch.distributions.Normal(self.mix(x), 1.0).log_prob(x)


def formula(self, x):
    return -0.5 * (x - self.mix(x)) ** 2 - 0.5 * float(np.log(2 * np.pi))


def setting(self, x):
    torch.backends.cudnn.benchmark = True
    return self.mix(x)


def backwards(self, x):
    return self.mix(x)[::-1]


def flipped(self, x):
    return self.mix(x).flip(0)


def tries(self, x):
    try:
        return torch.gather(self.mix(x), 0, x.long())
    except IndexError:
        return x


def writes_into_its_input(self, x):
    x.mul_(2)
    return self.mix(x)


def writes_into_a_copy(self, x):
    x = x.clone()
    x.mul_(2)
    return self.mix(x)


def writes_into_a_parameter(self, x):
    self.mix.weight.data.clamp_(-0.1, 0.1)
    return self.mix(x)


def writes_into_a_copy_of_a_parameter(self, x):
    y = self.mix.weight.clone()
    y.clamp_(-0.1, 0.1)
    return y @ x


# The method, the code, the expression under the caret, what is seen or suggested, and the method with the rewrite.
CASES = [
    (own_backward, "ACR202", "Doubled.apply", "without a backward of its own", no_own_backward),
    (gradient_inside, "ACR202", "torch.autograd.grad(self.mix(x).sum(), x)", "return the loss", loss_alone),
    (backward_inside, "ACR209", "y.backward()", "return the loss", loss_alone),
    (reads_grad, "ACR209", "self.mix.weight.grad", "read it after `.backward()`", loss_alone),
    (becomes_sparse, "ACR209", "self.mix(x).to_sparse()", "a dense tensor", stays_dense),
    (sparse_buffer, "ACR501", "self.sparse", "Sparse", stays_dense),
    (complex_buffer, "ACR501", "self.complex", "complex64", stays_dense),
    (half_buffer, "ACR501", "self.short", "`x.float()` of a tensor", stays_dense),
    (fourier, "ACR202", "torch.fft.fft(self.mix(x))", "torch.fft.fft", stays_dense),
    (packed, "ACR202", "nn.utils.rnn.pack_padded_sequence(x[None], [1])", "needs no padding", not_packed),
    (batch_norm, "ACR202", "self.norm(self.mix(x)[None])", "net.eval(), or nn.LayerNorm", stays_dense),
    (on_cuda, "ACR202", "x.cuda()", "x.to(device)", stays_dense),
    (made_on_cuda, "ACR202", 'device="cuda"', "device=x.device", made_on_its_device),
    (tensor_as_key, "ACR309", "{0: 1.0, 1: 2.0, 2: 3.0, 3: 4.0}[x.argmax()]", "`.item()`", number_as_key),
    (numpy_function, "ACR301", "np.tanh(self.mix(x))", "torch.tanh(self.mix(x))", function_of_torch),
    (numpy_of_list, "ACR301", "[self.mix(x), x]", "torch.cat([self.mix(x), x])", cat_of_torch),
    (unknown_function, "ACR202", "torch.cholesky_inverse(self.mix(x))", "not supported", stays_dense),
    (unknown_method, "ACR307", "self.mix(x).tanhh", "did you mean `tanh`?", known_method),
    (into_out, "ACR202", "out=self.mix(x)", "leave it out", left_out),
    (vmapped, "ACR202", "torch.vmap(torch.tanh)", "torch.stack([f(row) for row in x])", loop_over_rows),
    (normal, "ACR202", "torch.distributions.Normal(self.mix(x), 1.0)", "the formula of its `log_prob`", formula),
    (setting, "ACR113", "torch.backends.cudnn.benchmark", "assign it before the batch", stays_dense),
    (backwards, "ACR301", "self.mix(x)[::-1]", "x.flip(0)", flipped),
    (writes_into_its_input, "ACR111", "x.mul_(2)", "x = x.clone()", writes_into_a_copy),
    (
        writes_into_a_parameter,
        "ACR111",
        "self.mix.weight.data.clamp_(-0.1, 0.1)",
        "y = self.mix.weight.clone(), and write into y",
        writes_into_a_copy_of_a_parameter,
    ),
    (tries, "ACR101", "torch.gather(self.mix(x), 0, x.long())", "before the `try` statement", stays_dense),
]


def rejection(method):
    net = Base()
    net.forward = method.__get__(net)
    with pytest.raises(AcronumbaError) as caught:
        acronumba.torch.model(net.forward).batch([torch.tensor([0.5, -1.0, 2.0, 0.25])])
    return caught.value


@pytest.mark.parametrize(("method", "code", "spot", "told", "_"), CASES, ids=[c[0].__name__ for c in CASES])
def test_a_rejection_shows_the_line_a_caret_and_what_to_write(method, code, spot, told, _):
    error = rejection(method)
    text = str(error)
    assert error.code == code and error.file == __file__ and told in text
    lines = text.splitlines()
    under = next(k for k, line in enumerate(lines) if set(line.strip()) == {"^"})
    start, end = lines[under].index("^"), len(lines[under])
    assert lines[under - 1][start:end].startswith(spot.splitlines()[0])
    assert linecache.getline(__file__, error.line).strip() == lines[under - 1].strip()
    body, first = inspect.getsourcelines(method)
    assert first < error.line < first + len(body)
    assert "acronumba/torch" not in text and "torch/nn" not in text


@pytest.mark.parametrize("method", dict.fromkeys(c[4] for c in CASES), ids=lambda m: m.__name__)
def test_the_rewrite_runs(method):
    net = Base()
    net.rnn.eval()
    fast = acronumba.torch.model(method.__get__(net))
    assert fast.check([torch.tensor([0.5, -1.0, 2.0, 0.25]), torch.tensor([1.0, 0.0, -2.0, 3.0])]).ok


def hooked(net):
    net.register_forward_hook(lambda module, given, out: out * 2)


WRONG = {
    "hooks": (hooked, "a module with hooks", "call the function of the hook in `forward`"),
    "weight_norm": (nn.utils.parametrizations.weight_norm, "a module with parametrizations", "remove_parametrizations"),
    "spectral_norm": (nn.utils.spectral_norm, "a module with hooks", "remove_weight_norm"),
}


@pytest.mark.parametrize("which", WRONG)
def test_modules_whose_call_is_not_their_forward_are_rejected_where_they_are_called(which):
    change, seen, told = WRONG[which]
    net = Base()
    change(net.mix)
    with pytest.raises(AcronumbaError) as caught:
        acronumba.torch.model(stays_dense.__get__(net)).batch([torch.ones(4)])
    assert seen in str(caught.value) and told in str(caught.value) and "return self.mix(x)" in str(caught.value)
    with pytest.raises(AcronumbaError) as caught:
        acronumba.torch.model(net.mix)
    assert f"Linear: {seen}" in str(caught.value).replace("Parametrized", "") and told in str(caught.value)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_what_torchscript_makes_of_a_module_is_no_model():
    net = nn.Linear(4, 4)
    with pytest.raises(AcronumbaError, match="this module cannot be a model"):
        acronumba.torch.model(torch.jit.script(net))
    x = [torch.ones(4)]
    assert torch.allclose(acronumba.torch.model(net).batch(x)[0], net(x[0]))


def test_no_message_of_a_relu_of_torch_shows_torch():
    assert torch.equal(acronumba.torch.model(F.relu).batch([torch.tensor([-1.0, 2.0])])[0], torch.tensor([0.0, 2.0]))


def test_tensors_on_another_device_are_named_with_it():
    """As of `net.cuda()`; the device without memory stands in for a GPU."""
    x = torch.ones(4)
    for module, given in ((nn.Linear(4, 4).to("meta"), x), (nn.Linear(4, 4), x.to("meta"))):
        fast = acronumba.torch.model(module)
        with pytest.raises(AcronumbaError, match=r"a tensor on the device meta.*\n.*net.cpu\(\)"):
            fast.batch([given])
