"""`value_and_grad` of models of PyTorch: the mean loss of a mini-batch and its gradients, without a graph of autograd.

In: a `TorchModel` whose result is a tensor without axes. Out: the loss, and gradients by the names of tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from acronumba.api.dispatch import bind
from acronumba.api.gradients import Gradients, ValueAndGrad
from acronumba.api.wanted import DEFAULT
from acronumba.data.later import Later
from acronumba.errors import InstanceErrors, one_frame
from acronumba.errors.codes import reject
from acronumba.torch.devices import Maker, placed
from acronumba.torch.library import DTYPES
from acronumba.torch.random_numbers import retried
from acronumba.torch.results import TensorResults
from acronumba.torch.wanted import TensorSelection

if TYPE_CHECKING:
    from acronumba.api.arguments import Call


class TorchValueAndGrad(ValueAndGrad):
    """The loss of a model of PyTorch and its gradients. Made by `TorchModel.value_and_grad`."""

    def __init__(self, model: Any, into: torch.nn.Module | None = None) -> None:
        super().__init__(model, DEFAULT)
        self._into = into  # whose parameters are named as it names them

    trace = retried(placed(ValueAndGrad.trace))
    explain = retried(placed(ValueAndGrad.explain))
    stages = retried(placed(ValueAndGrad.stages))

    @property
    def there(self) -> Maker | None:
        """See `TorchModel.there`."""
        there: Any = self.model.there
        return there if isinstance(there, Maker) else None

    def on_device_of(self, shared: Mapping[str, Any]) -> TorchValueAndGrad:
        """See `TorchModel.on_device_of`."""
        model = self.model.on_device_of(shared)  # type: ignore[attr-defined]
        return self if model is self.model else TorchValueAndGrad(model, self._into)

    @retried
    @placed
    def batch(self, *columns: Any, into: torch.nn.Module | None = None, **shared: Any) -> Gradients:
        """Return the mean loss of a mini-batch and its gradients.

        Parameters
        ----------
        *columns, **shared
            As for `TorchModel.batch`.
        into : torch.nn.Module, optional
            A module to whose parameters the gradients are added, as `backward` does: see `torch.Tensor.grad`.

        Returns
        -------
        Gradients
            Unpacks into ``value, grads``: a tensor without axes, and a dict of tensors by the paths of parameters that
            require gradients and that a loss depends on.

        Raises
        ------
        Unsupported, TypeMismatch, ShapeMismatch
            If the function is not supported, or its result is not a tensor of floats without axes.
        InstanceErrors
            If instances failed; its `results` is the `Gradients` of the others, divided by their number. Nothing is
            added to the gradients of `into`.
        """
        with one_frame:
            call = bind(self.model, columns, shared)
            found, errors = TorchValueAndGrad(self.model, into)._run(call, together=True)
            if errors:
                error = InstanceErrors(errors, found.losses)
                error.results = found
                raise error
            if into is not None:
                _accumulate(into, found.grads)
            return found

    def check(self, *columns: Any, **shared: Any) -> Any:
        """Reject: PyTorch itself computes the gradients of the plain call."""
        raise reject("ACR706", message="PyTorch computes gradients of the plain call itself, to compare with these",
                     rewrite="torch.stack([net(x) for x in xs]).mean().backward()")  # fmt: skip

    def on(self, device: str) -> TorchValueAndGrad:
        """Return a copy for another device: see `Model.on`."""
        return TorchValueAndGrad(self.model.on(device))

    def with_options(self, **changes: Any) -> TorchValueAndGrad:
        """Return a copy with other options: see `Model.with_options`."""
        return TorchValueAndGrad(self.model.with_options(**changes))

    def _run(
        self, call: Call, wide: bool = False, together: bool = False, one: bool = False
    ) -> tuple[Gradients, dict[int, BaseException]]:
        found, errors = super()._run(call, wide, together, one)
        losses = TensorResults.from_results(found.losses)
        return replace(found, value=self._tensor(found.value), losses=losses), errors

    def _tensor(self, value: Any) -> Any:
        """Return the value of a mini-batch as a tensor."""
        if self.there is None:
            return torch.from_numpy(np.array(value))
        if not isinstance(value, Later):
            return self.there(np.array(value))
        total = sum(map(self.there, value.parts)) * value.share
        return total.to(DTYPES[value.dtype.name])

    def _wanted(self, call: Call) -> TensorSelection:
        return TensorSelection.empty(instances=False, names=self._names(call), there=self.there)

    def _names(self, call: Call) -> dict[int, str]:
        """Return the names of the parameters of the model's modules by their ids.

        Of the module of a method, and of `into`, they are those of `named_parameters`; of others they begin with the
        name of the module in the call.
        """
        out: dict[int, str] = {}
        for root, module in call.shared.items():
            if isinstance(module, torch.nn.Module):
                prefix = "" if root in self.model.bound else root
                out |= {id(p): name for name, p in module.named_parameters(prefix)}
        if self._into is not None:
            out |= {id(p): name for name, p in self._into.named_parameters()}
        return out


def _accumulate(module: torch.nn.Module, grads: Mapping[str, Any]) -> None:
    """Add gradients to those of the parameters of a module, by their names."""
    with torch.no_grad():
        for name, p in module.named_parameters():
            g = grads.get(name)
            if g is not None and p.grad is not None:
                p.grad += g
            elif g is not None:
                p.grad = g.clone()
