"""Products of vectors and matrices."""

from __future__ import annotations

import numpy as np
import torch

from acronumba.torch.implements import arrays, implements, promoted
from acronumba.torch.primitives import turning


@implements(torch.matmul, torch.Tensor.matmul, asks=True)
def matmul(input, other, *, out=None):
    return input @ other


@implements(torch.mm, torch.Tensor.mm, asks=True)
def mm(input, mat2, *, out=None):
    return input @ mat2


@implements(torch.bmm, torch.Tensor.bmm, asks=True)
def bmm(input, mat2, *, out=None):
    if input.shape[0] != mat2.shape[0]:
        raise RuntimeError("batch1 and batch2 must have the same number of matrices")
    return input @ mat2


@implements(torch.mv, torch.Tensor.mv, asks=True)
def mv(input, vec, *, out=None):
    return input @ vec


@implements(torch.dot, torch.Tensor.dot, torch.inner, torch.Tensor.inner, torch.vdot, torch.Tensor.vdot, asks=True)
def dot(input, other, *, out=None):
    return np.inner(input, other)


@implements(torch.outer, torch.Tensor.outer, torch.ger, torch.Tensor.ger, asks=True)
def outer(input, vec2, *, out=None):
    x, y = promoted(input, vec2)
    return x[:, None] * y


def scaled(x, factor):
    """Return an array times a factor, which is 1 by default."""
    return x if isinstance(factor, int) and factor == 1 else x * x.dtype.type(factor)


@implements(torch.addmm, torch.Tensor.addmm, asks=True)
def addmm(input, mat1, mat2, *, beta=1, alpha=1, out=None):
    return scaled(input, beta) + scaled(mat1 @ mat2, alpha)


@implements(torch.addmv, torch.Tensor.addmv, asks=True)
def addmv(input, mat, vec, *, beta=1, alpha=1, out=None):
    return scaled(input, beta) + scaled(mat @ vec, alpha)


@implements(torch.addr, torch.Tensor.addr, asks=True)
def addr(input, vec1, vec2, *, beta=1, alpha=1, out=None):
    return scaled(input, beta) + scaled(vec1[:, None] * vec2, alpha)


@implements(torch.baddbmm, torch.Tensor.baddbmm, asks=True)
def baddbmm(input, batch1, batch2, *, beta=1, alpha=1, out=None):
    return scaled(input, beta) + scaled(batch1 @ batch2, alpha)


@implements(torch.einsum, asks=True)
def einsum(equation, *operands):
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        return turning(np.einsum(equation, *promoted(*arrays(operands[0]))))
    return turning(np.einsum(equation, *promoted(*operands)))
