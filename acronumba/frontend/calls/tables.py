"""The table of calls: from functions, classes and methods of others to the handlers of their calls.

In: a function, with the parameters that its handler honours. Out: its `Row`, by the function itself; a method is the
function in its class, as `np.ndarray.sort`. Files `of_...` add rows by `row`, the library by `implements` and
`primitive`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np

from acronumba.frontend.calls.signatures import signature_of
from acronumba.frontend.kinds.value import Val
from acronumba.records import record

# The kind of a result without axes: a NumPy scalar, an array of rank 0, the kind of the first argument (an array if
# that has axes or is a Python number), or any that the handler returns.
Rank0: TypeAlias = Literal["scalar", "array", "first", "any"]
Handler = Callable[..., Val]  # the walker and the bound arguments (`arguments.Args`) -> its result


@record(kw_only=True)
class Row:
    """A function, or method of a built-in type, and the handler of its calls."""

    function: Any
    signature: Any  # the function to whose signature calls are bound: itself, or the code of the library
    what: str  # name of the called function in messages: "np.sum", ".sum"
    honoured: str  # the parameters that the handler reads: its names for them
    handler: Handler
    whole: bool = False  # the handler itself handles unions among the arguments
    views: bool = False  # the handler gets arrays that are written to as they are, not their current elements
    rank0: Rank0 = "scalar"
    aliases: Mapping[str, str] = field(default_factory=dict)  # other names of parameters

    def names(self) -> dict[str, str]:
        """Return a dict from each honoured parameter to the handler's name of it.

        A name that is no parameter of the function stands for the parameter at its position: "x" for the first.
        """
        parameters = list(signature_of(self.signature).parameters)
        mine = self.honoured.split()
        out = {n.removeprefix("*"): n for n in mine if n.removeprefix("*") in parameters}
        out.update({parameters[k]: n for k, n in enumerate(mine) if n.removeprefix("*") not in parameters})
        if len(out) != len(mine):
            raise AssertionError(f"{self.what}: {self.honoured!r} names a parameter of {parameters} twice")
        return out


ROWS: dict[Any, Row] = {}


def row(
    honoured: str, *functions: Any, whole: bool = False, views: bool = False, rank0: Rank0 = "scalar",
    signature: Any = None, aliases: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[Handler], Handler]:  # fmt: skip
    """Register a handler for functions; their calls are bound to their own signatures, or to that of `signature`."""

    def register(handler: Handler) -> Handler:
        for f in functions:
            ROWS[table_key(f)] = Row(
                function=f, signature=signature or f, what=_name(f), honoured=honoured, handler=handler,
                whole=whole, views=views, rank0=rank0, aliases=aliases,
            )  # fmt: skip
        return handler

    return register


def row_of(value: Any) -> Row | None:
    """Return the row of a function, class or other object; None if it has none."""
    return ROWS.get(table_key(value))


def table_key(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


def _name(function: Any) -> str:
    """Return how users call a function: "np.sum", "len", ".sort"."""
    if hasattr(function, "__objclass__"):
        return f".{function.__name__}"
    if isinstance(getattr(function, "__self__", None), np.ufunc):
        return f"{_name(function.__self__)}.{function.__name__}"
    module = "numpy" if isinstance(function, np.ufunc) else getattr(function, "__module__", "") or ""
    if not callable(function):  # np.r_
        return f"np.{next(name for name, value in vars(np).items() if value is function)}"
    module = {"numpy": "np", "numpy.linalg": "np.linalg", "builtins": ""}.get(module, module).removeprefix("acronumba.")
    return f"{module.lstrip('_')}.{function.__name__}".removeprefix(".")
