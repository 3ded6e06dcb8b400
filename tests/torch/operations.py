"""The operations of PyTorch that public code of dynamic models calls: which are supported.

In: a program for each, of a matrix x, a vector v, a matrix of ints i and a number s. Out: the text "supported" where its
batch is equal to the plain call, else the code and what was seen.

    python tests/torch/operations.py
"""

# ruff: noqa: E501 (the programs are long lines)

from __future__ import annotations

import functools
import sys
from pathlib import Path

import torch

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

import acronumba.torch
from acronumba import AcronumbaError, InstanceErrors
from tests.support.modules import import_file
from tests.torch.cells import differs, folder, outcome

OPERATIONS: dict[str, str] = {
    # half of the calls
    "size, shape": "return x.size(), x.size(0), x.shape[1]", "cat": "return torch.cat([x, x], 1)",
    "view": "return x.view(-1)", "reshape": "return x.reshape(4, 3)", "sum": "return x.sum(1)",
    "squeeze": "return x.unsqueeze(0).squeeze(0)", "unsqueeze": "return x.unsqueeze(1)", "data": "return x.data",
    "Variable": "return torch.autograd.Variable(x)", "sigmoid": "return torch.sigmoid(x)", "zeros": "return torch.zeros(2, 3)",
    "tanh": "return x.tanh()",
    # 81%
    "FloatTensor": "return torch.FloatTensor([1.0, 2.0])", "LongTensor": "return torch.LongTensor([1, 2])",
    "cuda": "return x.cuda()", "cpu": "return x.cpu()", "max": "return x.max(1)[1]", "log_softmax": "return F.log_softmax(x, dim=1)",
    "stack": "return torch.stack([x, x])", "numpy": "return x.detach().numpy()", "matmul": "return x.matmul(v)",
    "mm": "return x.mm(x.t())", "bmm": "return torch.bmm(x.unsqueeze(0), x.t().unsqueeze(0))", "expand": "return v.unsqueeze(0).expand(3, 4)",
    "relu": "return F.relu(x)", "transpose": "return x.transpose(0, 1)", "fill_": "return x.clone().fill_(2)", "exp": "return x.exp()",
    "mul": "return x.mul(2)", "float": "return i.float()", "repeat": "return x.repeat(2, 1)", "add": "return x.add(1)",
    "device": "return torch.zeros(2, device=x.device)", "item": "return x.sum().item()", "clone": "return x.clone()",
    "zeros_like": "return torch.zeros_like(x)", "tolist": "return x.tolist()", "split": "return x.split(2, dim=1)",
    "chunk": "return x.chunk(2, 1)", "log": "return x.abs().log()", "contiguous": "return x.t().contiguous()", "new": "return x.new([1, 2])",
    "softmax": "return F.softmax(x, dim=1)",
    # 89%
    "nonzero": "return (x > 0).nonzero()", "detach": "return x.detach()", "min": "return x.min()", "gather": "return x.gather(1, i % 4)",
    "dropout": "return F.dropout(x, 0.5, training=False)", "argmax": "return x.argmax()", "mean": "return x.mean()",
    "scatter_": "y = torch.zeros(3, 4)\ny.scatter_(1, torch.tensor([[1], [2], [0]]), 1.0)\nreturn y", "abs": "return x.abs()", "t": "return x.t()",
    "byte": "return (x > 0).byte()", "zero_": "return x.clone().zero_()", "long": "return x.long()", "to": "return x.to(torch.float64)",
    "type_as": "return i.type_as(x)", "tensor": "return torch.tensor([1, 2])", "new_zeros": "return x.new_zeros(2)",
    "logsumexp": "return torch.logsumexp(x, 1)", "pow": "return x.pow(2)", "index_select": "return x.index_select(0, torch.tensor([0, 2]))",
    # 95%
    "arange": "return torch.arange(4)", "dim": "return x.dim()", "from_numpy": "return torch.from_numpy(x.numpy())",
    "new_tensor": "return x.new_tensor([1, 2])", "add_": "return x.clone().add_(1)", "expand_as": "return v.expand_as(x)",
    "no_grad": "with torch.no_grad():\n    y = x * 2\nreturn y", "randn": "return torch.randn(3).shape",
    "cross_entropy": "return F.cross_entropy(x, torch.tensor([0, 1, 2]))", "sort": "return x.sort(1)", "permute": "return x.permute(1, 0)",
    "any": "return (x > 0).any()", "clamp": "return x.clamp(min=0)", "max_pool2d": "return F.max_pool2d(x.unsqueeze(0), 2)",
    "packed sequences": "return nn.utils.rnn.pack_padded_sequence(x.unsqueeze(2), [4, 4, 4], batch_first=True)",
    # one repository each
    "norm": "return x.norm()", "addmm": "return torch.addmm(x @ x.t(), x, x.t())", "index_copy": "return x.index_copy(0, torch.tensor([1]), v.unsqueeze(0))",
    "normalize": "return F.normalize(x, dim=1)", "masked_select": "return x.masked_select(x > 0)",
    "scatter_add": "return torch.zeros(3, 4).scatter_add(1, i % 4, x)", "topk": "return x.topk(2, dim=1)",
    "multinomial": "return torch.multinomial(torch.softmax(v, 0), 2).shape", "complex views": "return torch.view_as_complex(x.view(3, 2, 2))",
    "hooks": "x.register_hook(lambda g: g)\nreturn x",
    # of the same kind
    "sub": "return x.sub(v)", "div": "return x.div(2)", "div, rounding_mode": "return torch.div(i, 2, rounding_mode='floor')", "neg": "return x.neg()",
    "sqrt": "return x.abs().sqrt()", "rsqrt": "return x.abs().rsqrt()", "log2": "return x.abs().log2()", "log1p": "return x.abs().log1p()",
    "expm1": "return x.expm1()", "square": "return x.square()", "reciprocal": "return x.reciprocal()", "sign": "return x.sign()", "floor": "return x.floor()",
    "ceil": "return x.ceil()", "round": "return x.round()", "trunc": "return x.trunc()", "maximum": "return torch.maximum(x, v)", "minimum": "return torch.minimum(x, v)",
    "where": "return torch.where(x > 0, x, 0.0)", "masked_fill": "return x.masked_fill(x > 0, -1e9)", "masked_fill_": "return x.clone().masked_fill_(x > 0, 0)",
    "lerp": "return x.lerp(x * 2, 0.3)", "addcmul": "return torch.addcmul(x, x, x, value=0.5)", "fmod": "return x.fmod(2)", "remainder": "return x.remainder(2)",
    "eq": "return x.eq(0)", "ne": "return x.ne(0)", "lt": "return x.lt(0)", "gt": "return x.gt(0)", "le": "return x.le(0)", "ge": "return x.ge(0)",
    "logical_and": "return torch.logical_and(x > 0, x < 1)", "isnan": "return torch.isnan(x)", "isinf": "return torch.isinf(x)", "sin": "return x.sin()", "cos": "return x.cos()",
    "atan2": "return torch.atan2(x, v)", "erf": "return x.erf()", "elu": "return F.elu(x)", "selu": "return F.selu(x)", "leaky_relu": "return F.leaky_relu(x)",
    "gelu": "return F.gelu(x)", "softplus": "return F.softplus(x)", "hardtanh": "return F.hardtanh(x)", "logsigmoid": "return F.logsigmoid(x)",
    "prod": "return x.prod(1)", "amax": "return x.amax(1)", "argmin": "return x.argmin(1)", "all": "return (x > 0).all()", "std": "return x.std()", "var": "return x.var(0)",
    "cumsum": "return x.cumsum(1)", "cumprod": "return x.cumprod(1)", "median": "return x.median()", "median, dim": "return x.median(1)", "mode": "return i.mode(1)",
    "cdist": "return torch.cdist(x, x * 2)", "dot": "return v.dot(v)", "mv": "return x.mv(v)", "addmv": "return torch.addmv(torch.ones(3), x, v)", "baddbmm": "return torch.baddbmm(torch.zeros(1, 3, 3), x.unsqueeze(0), x.t().unsqueeze(0))",
    "ger": "return torch.ger(v, v)", "outer": "return torch.outer(v, v)", "einsum": "return torch.einsum('ij,j->i', x, v)", "cosine_similarity": "return F.cosine_similarity(x, x + 1)",
    "pairwise_distance": "return F.pairwise_distance(x, x + 1)", "dist": "return torch.dist(x, x + 1)", "allclose": "return torch.allclose(x, x)", "equal": "return torch.equal(x, x)",
    "ones": "return torch.ones(2)", "full": "return torch.full((2,), 1.5)", "empty": "return torch.empty(2).shape", "ones_like": "return torch.ones_like(x)", "full_like": "return torch.full_like(x, 2)",
    "linspace": "return torch.linspace(0, 1, 3)", "eye": "return torch.eye(3)", "as_tensor": "return torch.as_tensor([1.0])", "requires_grad_": "return x.requires_grad_(False)",
    "type": "return x.type(torch.LongTensor)", "is_tensor": "return torch.is_tensor(x)", "numel": "return x.numel()", "bool": "return x.bool()", "int": "return x.int()", "double": "return x.double()",
    "svd": "return torch.svd(x)", "fft": "return torch.fft.fft(x)", "unique": "return torch.unique(i)", "flip": "return x.flip(0)", "narrow": "return x.narrow(1, 0, 2)", "unbind": "return x.unbind(0)",
}  # fmt: skip


def said(name: str) -> str:
    """Return "supported", or why not."""
    lines = "\n".join(f"    {line}" for line in OPERATIONS[name].split("\n"))
    path = folder() / f"operation_{list(OPERATIONS).index(name)}.py"
    head = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n\n\ndef f(x, v, i, s):\n"
    path.write_text(f"{head}{lines}\n", encoding="utf-8")
    f = import_file(path).f
    torch.manual_seed(0)
    given = torch.randn(3, 4), torch.randn(4), torch.randint(0, 4, (3, 4)), 2.5
    plain = outcome(functools.partial(f, *given))
    try:
        mine = acronumba.torch.model(f).batch(*([v] for v in given))[0]
    except InstanceErrors as failed:
        return "fails as in the plain call" if isinstance(plain, Exception) else f"fails: {failed.errors[0]!r}"
    except AcronumbaError as error:
        return f"{error.code}: {error.seen}"
    difference = differs(mine, plain)
    return f"different: {difference}" if difference else "supported"


def listing() -> dict[str, str]:
    return {name: said(name) for name in OPERATIONS}


def main() -> None:
    found = listing()
    width = max(map(len, found))
    for name, text in found.items():
        print(f"{name:{width}}  {text[:140]}")
    print(f"{sum(text == 'supported' for text in found.values())} of {len(found)} are supported")


if __name__ == "__main__":
    main()
