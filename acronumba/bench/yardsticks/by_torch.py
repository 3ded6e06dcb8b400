"""PyTorch as a `Library`, at its best settings here: inference mode, weights transposed beforehand, results in place.

`torch.addmm` with a transposed weight is faster than `torch.nn.functional.linear` with few rows, and a loop over time
steps in place is faster than `torch.nn.LSTM` on packed sequences (both measured with PyTorch 2.13 on AVX-512).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from acronumba.bench.yardsticks.arrays import Array, Library
from acronumba.bench.yardsticks.program import Program


def _index(numbers: Any) -> Array:
    return torch.from_numpy(np.ascontiguousarray(numbers, np.int64))


def _segment_sums(x: Array, first: Array, segment: Array) -> Array:
    return x.new_zeros((len(first), x.shape[1])).index_add_(0, segment, x)


TORCH = Library(
    array=torch.from_numpy,
    weight=lambda m: torch.from_numpy(np.ascontiguousarray(m.T)),
    index=_index,
    host=lambda a: a.numpy(),
    empty=torch.empty,
    take=lambda table, index: torch.index_select(table, 0, index),
    put_=lambda table, index, rows: table.index_copy_(0, index, rows),
    product=torch.mm,
    affine=torch.addmm,
    add_product_=torch.Tensor.addmm_,
    products=torch.matmul,
    multiply=torch.mul,
    add_multiplied_=torch.Tensor.addcmul_,
    concat=torch.cat,
    segment_sums=_segment_sums,
    sigmoid=torch.sigmoid,
    sigmoid_=torch.sigmoid_,
    tanh=torch.tanh,
    tanh_=torch.tanh_,
    relu_=torch.relu_,
    gelu_tanh_=partial(F.gelu, approximate="tanh"),
    softmax=partial(torch.softmax, dim=-1),
    log_softmax=partial(torch.log_softmax, dim=-1),
    layer_norm=lambda x, weight, bias: F.layer_norm(x, x.shape[-1:], weight, bias),
    attention=F.scaled_dot_product_attention,
    argmax=partial(torch.argmax, dim=-1),
    top=torch.topk,
)


def inferring(make: Callable[..., Program]) -> Callable[..., Program]:
    """Return a maker of programs that are prepared and run without what PyTorch does for gradients."""

    def made(p: Any, xs: Any) -> Program:
        with torch.inference_mode():
            program = make(p, xs)
        return Program(run=torch.inference_mode()(program.run), results=program.results)

    return made


def use_threads(count: int) -> None:
    """Let PyTorch compute with so many threads."""
    torch.set_num_threads(count)
