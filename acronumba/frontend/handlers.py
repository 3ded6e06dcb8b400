"""Tables from what is called to a handler: adding a function is adding a row.

A handler takes the walker, the arguments bound to a signature (`Args`) and the node, and returns an abstract value.
The rows are in `calls_python` and `calls_numpy`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba.frontend.values import (
    NOT_CONST,
    Tensor,
    UnionVal,
    Val,
)  # fmt: skip

if TYPE_CHECKING:
    from acronumba.frontend.lower import Lowerer


Node = ast.AST | None


class Args:
    """Arguments bound to a signature such as ``"a axis=None keepdims=False"``."""

    def __init__(
        self, w: Lowerer, what: str, signature: str, args: list[Val], kwargs: dict[str, Val], node: Node
    ) -> None:
        self.w, self.what, self.node = w, what, node
        names = [part.partition("=")[0] for part in signature.split()]
        plain = [n for n in names if not n.startswith("*")]
        self.values: dict[str, Val] = {}
        rest = next((n[1:] for n in names if n.startswith("*")), None)
        positional = names[: names.index("*" + rest)] if rest is not None else plain
        self.rest = list(args[len(positional) :]) if rest is not None else []
        if rest is None and len(args) > len(positional):
            raise w.refuse("ACR203", node, seen=f"{len(args)} arguments for {what}")
        self.values.update(zip(positional, args, strict=False))
        for k, v in kwargs.items():
            if k not in plain or k in self.values:
                code = "ACR202" if k not in plain else "ACR203"
                raise w.refuse(code, node, seen=f"the argument {k}= of {what}")
            self.values[k] = v
        self.given = frozenset(self.values)
        for part in signature.split():
            name, has, default = part.partition("=")
            if has and name not in self.values:
                self.values[name] = w.constant(ast.literal_eval(default))
            elif not has and not name.startswith("*") and name not in self.values:
                raise w.refuse("ACR203", node, seen=f"{what} without {name}")

    def __getitem__(self, name: str) -> Val:
        return self.values[name]

    def tensor(self, name: str) -> Tensor:
        val = self.values[name]
        if isinstance(val, UnionVal):
            val = self.w.not_none(val, self.node)
        return self.w.as_tensor(val, node=self.node)

    def static(self, name: str) -> Any:
        """Return an argument that must be known when the model is compiled."""
        out = self.w.static(self.values[name], self.node)
        if out is NOT_CONST:
            raise self.w.refuse("ACR403", self.node, seen=f"{name}= of {self.what} is known only at run time")
        return out

    def dtype(self, name: str = "dtype") -> str | None:
        value = self.static(name)
        if value is None:
            return None
        try:
            dtype = np.dtype(value)
        except TypeError:
            raise self.w.refuse("ACR310", self.node, seen=repr(value)) from None
        return self.w.dtype_name(dtype, self.node)


Handler = Callable[["Lowerer", Args, Node], Val]
STATIC: dict[Any, tuple[str, str, Handler]] = {}
TENSOR_METHODS: dict[str, tuple[str, Handler]] = {}


def row(signature: str, *functions: Any, method: str = "") -> Callable[[Handler], Handler]:
    """Register a handler for functions, and for the tensor method of that name (its first parameter is the tensor)."""

    def register(handler: Handler) -> Handler:
        for f in functions:
            STATIC[table_key(f)] = (getattr(f, "__name__", str(f)), signature, handler)
        if method:
            TENSOR_METHODS[method] = (signature, handler)
        return handler

    return register


def table_key(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value
