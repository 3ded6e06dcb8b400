"""PyTorch as the compiler sees it: its tensors, dtypes and modules, and the rows of its functions."""

from __future__ import annotations

from typing import Any

import torch

from acronumba import foreign
from acronumba.data.classes import Adapter, adapt
from acronumba.data.shared import ADDED
from acronumba.generics import Value

DTYPES = {
    name: getattr(torch, name)
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"
    )
}  # fmt: skip

foreign.Library.tensor = torch.Tensor
foreign.Library.from_numpy = torch.from_numpy
foreign.Library.dtypes = DTYPES
foreign.Library.device = torch.device("cpu")

ADDED += [torch.dtype, torch.device, torch.memory_format, torch.layout]

_OWN = frozenset(vars(torch.nn.Module()))  # attributes of `torch.nn.Module` itself
_HOOKS = (
    "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks",
)  # fmt: skip


def _names(module: Any) -> tuple[str, ...]:
    """Return the parameters, buffers, submodules and other attributes of a module, and whether it is in training."""
    own = [n for n in module.__dict__ if n not in _OWN]
    return ("training", *own, *module._parameters, *module._buffers, *module._modules)


def _wrong(module: Any) -> str:
    """Return why a module's call is not its `forward`; "" if it is."""
    if any(getattr(module, name) for name in _HOOKS):
        return "a module with hooks"
    if "parametrizations" in module._modules:
        return "a module with parametrizations"
    return ""


def _container(module: Any) -> list[Value] | dict[str, Value] | None:
    if isinstance(module, torch.nn.ModuleList | torch.nn.ParameterList):
        return list(module)
    if isinstance(module, torch.nn.ModuleDict | torch.nn.ParameterDict):
        return dict(module.items())
    return None


adapt(torch.nn.Module, Adapter(_names, _wrong, _container))
