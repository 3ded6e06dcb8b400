"""Comparison of a batch of a module of PyTorch with its plain calls: results, and gradients of its parameters."""

from __future__ import annotations

from typing import Any

import torch

import acronumba.torch


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


def scalar_of(value: Any) -> Any:
    """Return a sum of all tensors in a result, each element weighted by its index."""
    if isinstance(value, torch.Tensor):
        if not value.requires_grad:
            return 0.0
        return (value.flatten() * torch.cos(torch.arange(value.numel()))).sum()
    return sum(map(scalar_of, value)) if isinstance(value, tuple | list) else 0.0


def gradients(net: Any, outs: Any) -> list[Any]:
    """Return the gradients of a module's parameters."""
    net.zero_grad()
    sum(map(scalar_of, outs)).backward()
    return [p.grad for p in net.parameters()]


def compare(net: Any, *columns: Any, tol: float = 2e-6) -> None:
    """Compare a batch, and the gradients of the module's parameters, with the plain calls."""
    outs = acronumba.torch.model(net).batch(*columns)
    plain = [net(*given) for given in zip(*columns, strict=True)]
    for out, want in zip(outs, plain, strict=True):
        check_same(out, want, tol)
    if list(net.parameters()):
        for got, want in zip(gradients(net, outs), gradients(net, plain), strict=True):
            assert (got is None) == (want is None)
            if want is not None:
                torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5 * max(1.0, float(want.abs().max())))
