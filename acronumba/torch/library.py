"""PyTorch as the compiler sees it: its tensors, dtypes and modules, and the rows of its functions."""

from __future__ import annotations

import contextlib
import functools
import keyword
import types
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch

from acronumba import foreign
from acronumba.data.classes import Adapter, adapt
from acronumba.data.shared import ADDED, Shared, SharedConst, SharedLeaf, SharedNode, SharedOpaque
from acronumba.frontend.calls.tables import ROWS
from acronumba.frontend.telling import TELLERS
from acronumba.generics import Value
from acronumba.memory import Array
from acronumba.pipeline.boundary import add_library
from acronumba.torch.advice import advice
from acronumba.torch.entries import under, under_mode

DTYPES = {
    name: getattr(torch, name)
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"
    )
}  # fmt: skip


def decoration(fn: types.FunctionType) -> tuple[types.FunctionType, bool | None] | None:
    """Return the function under a `torch.no_grad()` or the like, and whether gradients are followed in it; or None."""
    context = _context_of(fn)
    if context is None:
        return None
    follows: Any = foreign.Library.contexts.get(type(context), lambda *mode: None)
    inner: Any = fn.__wrapped__  # type: ignore[attr-defined]
    return inner, follows(*([context.mode] if hasattr(context, "mode") else ()))


def _context_of(fn: types.FunctionType) -> Any:
    """Return the context of a function that a context of PyTorch decorates; None for other functions."""
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    if fn.__code__.co_name != "decorate_context" or "ctx_factory" not in cells or not hasattr(fn, "__wrapped__"):
        return None
    return cells["ctx_factory"].cell_contents()


@functools.cache
def undecorated(fn: types.FunctionType) -> types.FunctionType | None:
    """Return a function that calls a decorated one under its `torch.no_grad()` or the like; None for others."""
    context = _context_of(fn)
    if context is None:
        return None
    inner = fn.__wrapped__  # type: ignore[attr-defined]
    return under_mode(type(context), context.mode, inner) if hasattr(context, "mode") else under(type(context), inner)


def _arrays_of(tensors: Sequence[Any]) -> Sequence[Array] | None:
    """Return copies of tensors of one shape and dtype, or on a device, as arrays, in less time; None for others."""
    alike = len(set(map(attrgetter("dtype", "shape"), tensors))) == 1
    if not alike and all(map(foreign.Library.is_here, tensors)):
        return _brought(tensors)
    if not alike:
        return None
    try:
        with torch.no_grad():
            whole = _fetched(torch.stack(tensors))
    except (RuntimeError, TypeError):
        return None
    return list(whole) if whole.ndim > 1 else [whole[k, ...] for k in range(len(whole))]


def _fetched(tensor: Any) -> Array:
    here = foreign.Library.fetched(tensor)
    array: Array = (tensor if here is None else here).numpy()
    return array


def _brought(tensors: Sequence[Any]) -> list[Array]:
    """Return copies of tensors on a device: those of a dtype come in one copy."""
    groups: dict[Any, list[int]] = {}
    for k, tensor in enumerate(tensors):
        groups.setdefault(tensor.dtype, []).append(k)
    found: dict[int, Array] = {}
    with torch.no_grad():
        for ks in groups.values():
            whole, at = _fetched(torch.cat([tensors[k].reshape(-1) for k in ks])), 0
            for k in ks:
                found[k] = whole[at : at + tensors[k].numel()].reshape(tuple(tensors[k].shape))
                at += tensors[k].numel()
    return [found[k] for k in range(len(tensors))]


foreign.Library.tensor = torch.Tensor
foreign.Library.from_numpy = torch.from_numpy
foreign.Library.dtypes = DTYPES
foreign.Library.strided = torch.strided
foreign.Library.arrays_of = _arrays_of
foreign.Library.constants = torch.dtype, torch.device
foreign.Library.detach = torch.Tensor.detach
foreign.Library.contexts = {
    torch.no_grad: lambda: False, torch.inference_mode: lambda mode=True: not mode, torch.enable_grad: lambda: True,
    torch.set_grad_enabled: lambda mode: mode, torch.profiler.record_function: lambda *names: None,
    torch.autograd.set_detect_anomaly: lambda *modes: None, contextlib.nullcontext: lambda: None,
}  # fmt: skip
foreign.Library.undecorated = undecorated
foreign.Library.folder = str(Path(torch.__file__).parent)
add_library(foreign.Library.folder)


def _name_of(value: Any) -> str:
    """Return the name of a function or class of PyTorch; "" for other objects."""
    home = getattr(value, "__module__", None) or getattr(getattr(value, "__self__", None), "__module__", None) or ""
    name = getattr(value, "__qualname__", getattr(value, "__name__", ""))
    short = str(name).rpartition(".")[2]
    if not short or str(home).partition(".")[0] != "torch":
        return ""
    home = str(home)
    while "._" in home:  # a public name, of the module that has it
        home = home.rpartition(".")[0]
    return f"{home}.{short}"


def _functions() -> list[str]:
    return [row.what.rpartition(".")[2] for f, row in ROWS.items() if _name_of(f)]


def _is_instance(dtype: str, cls: type) -> bool:
    return isinstance(torch.empty(0, dtype=DTYPES[dtype]), cls)


foreign.Library.is_instance = _is_instance
foreign.Library.size = torch.Size
foreign.Library.unclear = torch.Size, torch.nn.Parameter
foreign.Library.name_of = _name_of
foreign.Library.functions = _functions
foreign.Library.advice = advice

ADDED += [torch.dtype, torch.device, torch.memory_format, torch.layout, *TELLERS]

# Attributes of `torch.nn.Module` itself, and of recurrent modules what they keep besides their parameters.
_OWN = frozenset(vars(torch.nn.Module())) | {
    "_flat_weights",
    "_flat_weight_refs",
    "_flat_weights_names",
    "_all_weights",
}
_HOOKS = (
    "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks",
)  # fmt: skip
_GLOBAL_HOOKS = tuple(getattr(torch.nn.modules.module, f"_global{name}") for name in _HOOKS)


def _names(module: Any) -> tuple[str, ...]:
    """Return the attributes and buffers of a module, "training", its parameters, and its submodules."""
    own = [n for n in module.__dict__ if n not in _OWN]
    return (*own, *module._buffers, "training", *module._parameters, *module._modules)


def why_not(module: Any) -> str:
    """Return why a module's call is not its `forward`; "" if it is."""
    cls: Any = type(module)
    if wrong := _wrong_class(cls):
        return wrong
    own = module.__dict__
    if any(map(own.__getitem__, _HOOKS)) or any(_GLOBAL_HOOKS):
        return "a module with hooks"
    return "a module with parametrizations" if "parametrizations" in own["_modules"] else ""


@lru_cache(1024)
def _wrong_class(cls: type) -> str:
    if issubclass(cls, torch.jit.ScriptModule):
        return "a module of TorchScript"
    if issubclass(cls, torch.nn.DataParallel | torch.nn.parallel.DistributedDataParallel):
        return "a module of several devices"
    return ""


def _container(module: Any) -> list[Value] | dict[str, Value] | None:
    cls = type(module)
    if cls is torch.nn.ModuleList or cls is torch.nn.ParameterList:
        return list(module)
    if cls is torch.nn.ModuleDict or cls is torch.nn.ParameterDict:
        return dict(module.items())
    return None


def _step(module: Any, name: str) -> str:
    if name.isidentifier() and not keyword.iskeyword(name):
        return f".{name}"
    at = list(module._modules).index(name) if name in module._modules else -1
    if isinstance(module, torch.nn.Sequential) and name == str(at):
        return f"[{name}]"
    kind = "_modules" if at >= 0 else "_parameters" if name in module._parameters else "_buffers"
    return f".{kind if name in getattr(module, kind) else '__dict__'}[{name!r}]"


def modules_in(node: SharedNode) -> SharedNode:
    """Return the submodules of a shared module as a shared list."""
    return as_list(node.path, [part for _, part in parts_in(node) if not isinstance(part, SharedLeaf)])


def parts_in(node: SharedNode) -> list[tuple[str, Shared]]:
    """Return the parameters and submodules of a shared module, or of a list or dict of these, with their names."""
    first = 0 if node.kind in ("list", "dict") else node.names.index("training") + 1
    parts = zip(map(str, node.names[first:]), node.items[first:], strict=True)
    return [(name, part) for name, part in parts if not isinstance(part, SharedConst)]  # `None`


def within(node: SharedNode, prefix: str = "") -> Iterator[tuple[str, Shared]]:
    """Yield a shared module, its parameters, and all within its submodules, in PyTorch's order, with their names."""
    yield prefix, node
    parts = parts_in(node)
    for name, part in parts:
        if isinstance(part, SharedLeaf | SharedOpaque):  # what cannot be read is rejected where it is listed
            yield f"{prefix}.{name}".lstrip("."), part
    for name, part in parts:
        if isinstance(part, SharedNode):
            yield from within(part, f"{prefix}.{name}".lstrip("."))


def as_list(path: str, items: Sequence[Shared]) -> SharedNode:
    """Return parts of a shared value as a shared list."""
    return SharedNode(path, "list", list, tuple(map(str, range(len(items)))), tuple(items))


def as_named(path: str, items: Sequence[tuple[str, Shared]]) -> SharedNode:
    """Return parts of a shared value as a shared list of their names and themselves."""
    pairs = [SharedNode(path, "tuple", tuple, ("0", "1"), (SharedConst(name), part)) for name, part in items]
    return as_list(path, pairs)


def _get(module: Any, name: str) -> Value:
    """Return an attribute, as `torch.nn.Module.__getattr__` does, in less time."""
    own = module.__dict__
    for kind in ("_modules", "_parameters", "_buffers"):
        if name in own[kind]:
            return own[kind][name]
    return getattr(module, name)


def _fixed(module: Any) -> tuple[str, ...]:
    """Return the buffers, parameters and submodules of a module."""
    return (*module._buffers, *module._parameters, *module._modules)


adapt(torch.nn.Module, Adapter(_names, why_not, _container, _step, _get, _fixed))
