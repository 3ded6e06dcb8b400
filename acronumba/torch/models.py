"""`model`: a module, bound method or function of PyTorch for one instance as a model.

In: code that computes one instance with tensors. Out: a `TorchModel`, whose `batch` computes many instances at once.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from typing import Any

import torch

from acronumba.api.model import Model
from acronumba.config import Options
from acronumba.errors.codes import reject
from acronumba.generics import Value


def model(fn: Any = None, /, **options: Any) -> Any:
    """Return a module, a bound method or a function of PyTorch, which computes one instance, as a model.

    Parameters
    ----------
    fn : torch.nn.Module, method or function
        The computation of one instance. Of a module, its `forward`. The module of a method is shared by all instances,
        the other parameters vary by instance; keyword-only parameters of a function are shared.
    **options
        Fields of `Options`.

    Returns
    -------
    TorchModel
        A call of it is the call of the module.

    Examples
    --------
    >>> fast = acronumba.torch.model(net)  # doctest: +SKIP
    >>> outs = fast.batch(trees)  # doctest: +SKIP
    >>> torch.nn.functional.cross_entropy(outs.stack(), labels).backward()  # doctest: +SKIP
    """
    if fn is None:
        return functools.partial(model, **options)
    return TorchModel(fn, options=Options().replace(**options))


class TorchModel(Model[..., Any]):
    """A module, method or function of PyTorch as a model. Made by `acronumba.torch.model`."""

    tensors = True

    def __init__(self, target: Any, *, options: Options | None = None, device: str | None = None) -> None:
        self.target: Callable[..., Any] = target.target if isinstance(target, TorchModel) else target
        method = self.target.forward if isinstance(self.target, torch.nn.Module) else self.target
        if isinstance(method, types.MethodType):
            fn, owner = method.__func__, method.__self__
            name = fn.__code__.co_varnames[0]
            self.bound: Mapping[str, Value] = {name: owner}
        elif isinstance(method, types.FunctionType):
            fn = method
        else:
            raise reject("ACR210", seen=repr(self.target), rewrite="pass a module, a method or a function")
        super().__init__(fn, options=options, device=device)

    def _like(self, options: Options, device: str | None = None) -> TorchModel:
        return TorchModel(self.target, options=options, device=device)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The plain call of the module, method or function."""
        return self.target(*args, **kwargs)
