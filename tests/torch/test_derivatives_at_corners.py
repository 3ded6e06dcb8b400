"""Derivatives where functions have corners, poles and ties: those of PyTorch."""

from __future__ import annotations

import re

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402, F401

import acronumba.torch  # noqa: E402
from tests.torch import cells  # noqa: E402

PROGRAMS = """
x.norm() | x.norm(1) | x.norm(dim=0) | x.norm(3) | x.norm(float('inf')) | F.normalize(x, dim=0)
torch.linalg.norm(x) | F.cosine_similarity(x, x + 1, dim=0) | F.cosine_similarity(x, x, dim=0)
F.pairwise_distance(x, x) | torch.dist(x, x * 1) | x.std() | x.std(unbiased=False) | x.var() | x.logsumexp(0)
x.max() | x.max(0)[0] | x.min() | x.min(0)[0] | x.amax(0) | x.amin(0) | x.prod() | x.cumprod(0) | x.median()
x.abs() | x.sign() | x.clamp(min=0) | x.clamp(0, 1) | torch.relu(x) | F.relu6(x) | F.leaky_relu(x) | F.elu(x)
F.selu(x) | F.celu(x) | F.hardtanh(x) | F.hardsigmoid(x) | F.hardswish(x) | F.softshrink(x) | F.hardshrink(x)
F.threshold(x, 0.0, 1.0) | F.softplus(x) | F.gelu(x) | F.silu(x) | F.mish(x) | F.logsigmoid(x)
torch.maximum(x, x * 1) | torch.minimum(x, torch.zeros(3)) | torch.max(x, torch.zeros(3))
torch.fmax(x, x * 1) | x.sqrt() | x.rsqrt() | x.reciprocal() | x.log() | x.log1p() | x ** 2 | x ** 0.5
x ** 1.5 | x ** 3 | x.pow(1) | x.pow(0) | 2 ** x | torch.atan2(x, x) | x.softmax(0) | x.sinc() | x.fmod(2)
x.remainder(2) | x.lerp(x + 1, 0.3) | torch.logaddexp(x, x) | torch.where(x > 0, x, x * 2)
x.masked_fill(x == 0, 3) | torch.copysign(x, x) | x.nan_to_num() | x.frac() | x @ x | torch.outer(x, x)
"""
VALUES = ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [2.0, 0.0, 0.0], [-1.0, 2.0, 2.0], [-3.0, 3.0, 6.0], [0.5, -0.5, 1.0])


def gradient(out, x):
    if not out.requires_grad:
        return torch.zeros_like(x)
    weights = 1 + torch.arange(out.numel()).reshape(out.shape)
    (found,) = torch.autograd.grad((out * weights).sum(), [x], retain_graph=True, allow_unused=True)
    return torch.zeros_like(x) if found is None else found


def agree(texts):
    given = [cells.Cell(text, (cells.Kind("float32", 1),)) for text in texts]
    f, _ = cells.sheet(given)
    rows = [(k, values) for k in range(len(texts)) for values in VALUES]
    mine, plain = ([torch.tensor(values, requires_grad=True) for _, values in rows] for _ in range(2))
    outs = acronumba.torch.model(f).batch([k for k, _ in rows], mine)
    for (k, values), out, x, y in zip(rows, outs, mine, plain, strict=True):
        want = f(k, y)
        assert not cells.differs(out.detach(), want.detach()), (texts[k], values)
        a, b = gradient(out, x), gradient(want, y)
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True), (texts[k], values, a, b)


def test_a_few_derivatives():
    agree(cells.texts(PROGRAMS)[::6])


@pytest.mark.long
def test_derivatives():
    agree(cells.texts(PROGRAMS))


def test_the_exponent_has_a_derivative_at_one_half():
    """The root that NumPy takes there has none."""
    agree(["2 ** (x - 0.0)", "torch.pow(x * 0 + 3, x)"])


FLAT = """
x.round() | x.floor() | x.ceil() | x.trunc_() | x.sign() | x.sgn() | x.round(decimals=1) | x.double().floor()
torch.fix(x) + 1 | torch.div(x, 2, rounding_mode='floor') | torch.div(1, x, rounding_mode='trunc')
torch.copysign(torch.ones(3), x) | torch.special.round(x).sum() | x.long() | x.signbit()
"""


def test_what_rounds_is_followed_back_and_has_a_derivative_of_zero():
    """As in PyTorch, tensors that are reached through it alone get zeros; those behind whole numbers get nothing."""
    texts = [re.sub(r"\bx\b", "(x * 1)", text) for text in cells.texts(FLAT)]
    f, _ = cells.sheet([cells.Cell(text, (cells.Kind("float32", 1),)) for text in texts])
    mine, plain = ([torch.tensor([0.0, -1.5, float("inf")], requires_grad=True) for _ in texts] for _ in range(2))
    for k, out in enumerate(acronumba.torch.model(f).batch(range(len(texts)), mine)):
        want = f(k, plain[k])
        assert not cells.differs(out.detach(), want.detach()) and out.requires_grad == want.requires_grad, texts[k]
        for y in (out, want) if want.requires_grad else ():
            y.sum().backward(retain_graph=True)
        assert str(mine[k].grad) == str(plain[k].grad), texts[k]
