"""Results that PyTorch follows back: its function whose backward pass is that of a mini-batch.

In: the forward pass of a mini-batch, and the arrays of its results that outputs stand for. Out: tensors with a backward
function. The state of the forward pass belongs to a tensor that PyTorch saves, and frees when it frees such tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from acronumba.api.forward import Forward
from acronumba.errors.codes import reject
from acronumba.memory import Array
from acronumba.records import record
from acronumba.torch import devices
from acronumba.torch.devices import Maker, computing


@record(kw_only=True, eq=False)
class Output:
    """A tensor of the results."""

    tensor: Any
    parts: Sequence[tuple[int, Any]]  # instances, and the arrays or tensors of their results that it is made of
    stacked: bool  # whether its rows are the parts; else there is one


@record(kw_only=True, eq=False)
class Back:
    """The backward pass of a mini-batch."""

    forward: Forward
    outputs: Sequence[tuple[Sequence[tuple[int, int]], bool]]  # `parts` with ids, and `stacked`, of each output
    tensor_of: Callable[[int], Any]  # from the id of an array or tensor to the tensor with its gradient, or None
    rows: Mapping[int, tuple[Any, int]]  # rows of tensors by the ids of their arrays, with their number

    def gradients(self, adjoints: Sequence[Any]) -> dict[int, Any]:
        """Return gradients by the ids of tensors, from the adjoints of the outputs."""
        there = self.forward.there
        if isinstance(there, Maker):
            with computing(there.name):
                return self._gradients_there(there, adjoints)
        cotangents: dict[int, dict[int, Any]] = {k: {} for k in range(len(self.forward.results))}
        given: set[int] = set()  # ids of the adjoints' arrays
        for (parts, stacked), adjoint in zip(self.outputs, adjoints, strict=True):
            if adjoint is None:
                continue
            whole = adjoint.detach().numpy()
            for g, (k, key) in zip(whole if stacked else (whole,), parts, strict=True):
                of, part = cotangents[k], np.asarray(g)
                of[key] = of[key] + part if key in of else part
                given.add(id(of[key]))
        out: dict[int, Any] = {}
        totals, sums = self.forward.gradients(cotangents)
        for total in (*sums, *totals.values()):
            for key, found in (*total.of.items(), *total.own.items()):
                g = np.asarray(found)
                self._add(out, key, g.copy() if id(g) in given else g)
        return {key: torch.from_numpy(writable(g)) for key, g in out.items()}

    def _gradients_there(self, there: Maker, adjoints: Sequence[Any]) -> dict[int, Any]:
        """Return gradients as tensors on the device of the forward pass."""
        given: dict[tuple[int, int], Any] = {}
        for (parts, _), adjoint in zip(self.outputs, adjoints, strict=True):
            if adjoint is not None:
                place, g = parts[0], adjoint.detach()
                given[place] = given[place] + g if place in given else g
        rows = there.rows(given, apart=any(part.reads_cotangents(given) for part in self.forward.parts))
        cotangents: dict[int, dict[int, Any]] = {k: {} for k in range(len(self.forward.results))}
        out: dict[int, Any] = {}
        with rows as found:
            for (k, key), row in found.items():
                cotangents[k][key] = row
            totals, sums = self.forward.gradients(cotangents)
            for total in (*sums, *totals.values()):
                for key, g in (*total.of.items(), *total.own.items()):
                    tensor = self.tensor_of(key)
                    if tensor is not None:
                        made = there(g).view(tensor.shape)
                        out[id(tensor)] = out[id(tensor)] + made if id(tensor) in out else made
        return out

    def _add(self, out: dict[int, Any], key: int, g: Any) -> None:
        """Add the gradient of an array, which may be a row of a tensor, to that of its tensor."""
        tensor, row = self.rows.get(key) or (self.tensor_of(key), None)
        if tensor is None:
            return
        if row is not None:
            whole = out.setdefault(id(tensor), np.zeros(tuple(tensor.shape), g.dtype))
            whole[row] += g.reshape(whole[row].shape)
        else:
            g = g.reshape(tuple(tensor.shape))
            out[id(tensor)] = out[id(tensor)] + g if id(tensor) in out else g


def writable(g: Array) -> Array:
    """Return a gradient as a contiguous array that can be written to."""
    return g if g.flags.writeable and g.flags.c_contiguous else np.array(g, order="C")


def follow(
    forward: Forward, outputs: Sequence[Output], wanted: Sequence[Any], tensor_of: Callable[[int], Any], *,
    rows: Mapping[int, tuple[Any, int]] | None = None, watched: Sequence[Any] = (),
) -> Sequence[Any]:  # fmt: skip
    """Return the tensors of the outputs with a backward function that gives gradients to the wanted tensors.

    Parameters
    ----------
    forward, outputs
        The forward pass, and the tensors that stand for its results.
    wanted
        The tensors that get gradients.
    tensor_of, rows
        See `Back`.
    watched
        Tensors that must not be changed in place before the backward pass.
    """
    named = [([(k, id(x)) for k, x in of.parts], of.stacked) for of in outputs]
    back = Back(forward=forward, outputs=named, tensor_of=tensor_of, rows=rows or {})
    with torch.autograd.graph.saved_tensors_hooks(_itself, _itself):
        made: Sequence[Any] = _Follow.apply(_Token(back, watched), [of.tensor for of in outputs], *wanted)
    return made


def _itself(x: Any) -> Any:
    return x


class _Token:
    """The state of a backward pass, and the versions of the tensors that it reads."""

    def __init__(self, back: Back, tensors: Sequence[Any]) -> None:
        self.back, self.tensors = back, tensors
        self.versions = [t._version for t in tensors]
        self.arrays = [devices.standing_for(t) for t in tensors]

    def check(self) -> None:
        """Raise PyTorch's error if a tensor has been changed in place, or an error if one on a GPU got other memory."""
        for tensor, version, array in zip(self.tensors, self.versions, self.arrays, strict=True):
            if array is not None and devices.standing_for(tensor) is not array:
                raise RuntimeError(
                    f"the backward pass reads a tensor of shape {list(tensor.shape)} whose memory was replaced after "
                    "the forward pass (tensor.data = ..., net.to(...)): replace it before the forward pass"
                )
            if tensor._version != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"[{tensor.type()} {list(tensor.shape)}] is at version {tensor._version}; expected version "
                    f"{version} instead."
                )


class _Follow(torch.autograd.Function):  # type: ignore[misc]
    """The function that PyTorch follows back."""

    @staticmethod
    def forward(ctx: Any, token: _Token, outputs: Sequence[Any], *tensors: Any) -> Any:
        """Return the outputs; they have been computed."""
        ctx.set_materialize_grads(False)
        saved = torch.empty(0)
        saved.token = token
        ctx.save_for_backward(saved)  # PyTorch drops it after a backward pass that does not retain the graph
        ctx.order = [id(t) for t in tensors]
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *adjoints: Any) -> Any:
        """Return the gradients of the tensors."""
        token = ctx.saved_tensors[0].token
        token.check()
        found = token.back.gradients(adjoints)
        if torch.is_grad_enabled():  # with create_graph
            found = {key: _Once.apply(g.requires_grad_()) for key, g in found.items()}
        return None, None, *(found.get(key) for key in ctx.order)


class _Once(torch.autograd.Function):  # type: ignore[misc]
    """Gradients without second derivatives: raises if they are differentiated again."""

    @staticmethod
    def forward(ctx: Any, gradient: Any) -> Any:
        """Return the gradient."""
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, adjoint: Any) -> Any:
        """Reject."""
        raise reject("ACR706", message="a layer has only first derivatives, but these are differentiated again",
                     rewrite="compute gradients without create_graph, or detach them")  # fmt: skip
