"""Random numbers of models of PyTorch: a key for each instance of a mini-batch, and the same numbers in the plain call.

In: a mini-batch whose code calls `torch.rand`, `F.dropout` and the like. Out: its columns with one more, of keys, made
from one draw of PyTorch's default generator: `torch.manual_seed` repeats a run. In the plain call of an instance,
`numbers_of` replaces PyTorch's numbers by those of the mini-batch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch.overrides import TorchFunctionMode

from acronumba.data.draws import Draws, InstanceKey, NeedsNumbers, keys_of
from acronumba.frontend import draws
from acronumba.generics import Value

if TYPE_CHECKING:
    from acronumba.api.arguments import Call

F = TypeVar("F", bound=Callable[..., Any])

PLAIN: dict[Any, Callable[..., Any]] = {}  # what stands for functions of PyTorch in plain calls; filled by the rows


def numbered(call: Call) -> Call:
    """Return a call with a column of keys, made from one draw of PyTorch's default generator."""
    seed = int(torch.randint(2**62, ()))
    return replace(call, columns=(*call.columns, keys_of(seed, call.count)))


def retried(method: F) -> F:
    """Wrap a method of a model, so that it runs again with keys if the code draws random numbers."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except NeedsNumbers:
            model = getattr(self, "model", self)
            model._draws.add(model._mode())
        return method(self, *args, **kwargs)

    return call  # type: ignore[return-value]


def numbers_for(args: Sequence[Value]) -> tuple[Sequence[Value], AbstractContextManager[object]]:
    """Return the arguments of an instance without its key, and the context in which its plain call is to run."""
    if args and isinstance(args[-1], InstanceKey):
        return args[:-1], numbers_of(args[-1])
    return args, nullcontext()


@contextmanager
def numbers_of(key: InstanceKey) -> Iterator[None]:
    """Let PyTorch's functions of random numbers return those of an instance with this key."""
    draws.plain.append(Draws(key.bits))
    try:
        with _Numbers():
            yield
    finally:
        draws.plain.pop()


class _Numbers(TorchFunctionMode):  # type: ignore[misc]
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return PLAIN.get(func, func)(*args, **kwargs or {})


def in_plain_calls(*functions: Any) -> Callable[[F], F]:
    """Register the decorated function as what stands for functions of PyTorch in the plain call of an instance."""

    def register(f: F) -> F:
        PLAIN.update(dict.fromkeys(functions, f))
        return f

    return register
