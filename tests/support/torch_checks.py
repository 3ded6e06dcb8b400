"""Comparison of batches of functions of PyTorch with their plain calls."""

from __future__ import annotations

import torch

import acronumba.torch


def leaves(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, tuple | list):
        return [x for v in value for x in leaves(v)]
    return [value]


def check(f, *args):
    """Compare a batch of two instances with the plain calls."""
    plain = [f(*map(copied, args)) for _ in range(2)]
    outs = acronumba.torch.model(f).batch(*[[copied(a) for _ in range(2)] for a in args])
    for want, got in zip(plain, outs, strict=True):
        same(want, got)


def copied(x):
    if isinstance(x, list):
        return [copied(v) for v in x]
    return x.clone() if isinstance(x, torch.Tensor) else x


def same(want, got):
    want, got = leaves(want), leaves(got)
    assert len(want) == len(got), (want, got)
    for a, b in zip(want, got, strict=True):
        if not isinstance(a, torch.Tensor):
            assert type(a) is type(b) and a == b, (a, b)
            continue
        assert isinstance(b, torch.Tensor), (a, b)
        assert a.dtype == b.dtype and a.shape == b.shape, (a, b)
        assert torch.allclose(a, b, equal_nan=True), (a, b)
