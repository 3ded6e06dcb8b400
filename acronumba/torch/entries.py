"""Functions in place of those of PyTorch that are not walked: entries of models, and decorated functions.

They are compiled as code of the user's; each names what it calls by a closure variable.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any


@functools.cache
def calling(function: Callable[..., Any]) -> types.FunctionType:
    """Return a function of any number of columns that calls a function of PyTorch."""

    def call(*columns: Any) -> Any:
        return function(*columns)

    return _named(call, function)


@functools.cache
def calling_module(forward: Callable[..., Any]) -> types.FunctionType:
    """Return a method of any number of columns that calls its module, whose `forward` is PyTorch's."""

    def call(self: Any, *columns: Any) -> Any:
        return self(*columns)

    return _named(call, forward)


def under(context: Any, function: Callable[..., Any]) -> types.FunctionType:
    """Return a function that calls another one in a context that takes no argument: `torch.no_grad()`."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with context():
            return function(*args, **kwargs)

    return _named(call, function)


def under_mode(context: Any, mode: Any, function: Callable[..., Any]) -> types.FunctionType:
    """Return a function that calls another one in a context with a mode: `torch.set_grad_enabled(mode)`."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with context(mode):
            return function(*args, **kwargs)

    return _named(call, function)


def _named(made: Any, function: Any) -> types.FunctionType:
    made.__name__, made.__qualname__, made.__module__ = function.__name__, function.__qualname__, function.__module__
    return made  # type: ignore[no-any-return]
