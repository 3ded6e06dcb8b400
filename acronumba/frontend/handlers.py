"""Tables from the type of a node, or of a value, to the function that walks it.

A topic registers its functions with `handles`; the walker looks them up. So no topic imports another one only because
a node of that may be part of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Handler = TypeVar("Handler", bound=Callable[..., Any])

# By the type of a node: (walker, node), and what is assigned.
EXPRESSIONS: dict[type, Callable[..., Any]] = {}  # -> Val
CONDITIONS: dict[type, Callable[..., Any]] = {}  # -> the points where it is true and false; `ast.expr` is any other
STATEMENTS: dict[type, Callable[..., Any]] = {}
TARGETS: dict[type, Callable[..., Any]] = {}  # of an assignment
# By the type of a value.
CALLS: dict[type, Callable[..., Any]] = {}  # what is called, with arguments -> Val
ITEMS: dict[type, Callable[..., Any]] = {}  # an iterable -> its items, None if they are not known one by one
INDEXED: dict[type, Callable[..., Any]] = {}  # what is indexed, a value or a slice -> Val
CONTAINS: dict[type, Callable[..., Any]] = {}  # a value, what may contain it -> Num; None: item by item
EQUALS: dict[type, Callable[..., Any]] = {}  # an operator, two values of which one is such -> Num or None
MAPPINGS: dict[type, Callable[..., Any]] = {}  # an operator, two values of which one is such -> Val or None
ARRAYS: dict[type, Callable[..., Any]] = {}  # what is made an array of, its dtype -> Tensor
MADE: dict[type, Callable[..., Any]] = {}  # what an expression has made -> what it is kept as
ATTRIBUTES: dict[type, Callable[..., Any]] = {}  # what has an attribute, its name -> Val; None: see its type
SUBSCRIPTS: dict[type, Callable[..., Any]] = {}  # what is subscripted, the index of each axis -> Val
PROTOCOLS: dict[type, Callable[..., Any]] = {}  # what is iterated over -> how to get its length, and an item
DESCRIPTORS: dict[type, Callable[..., Any]] = {}  # an object, its class, the name, the descriptor -> Val
NAME_READ: dict[type, Callable[..., Any]] = {}  # what a name stands for that is not its value, its name -> Val
NAME_BOUND: dict[type, Callable[..., Any]] = {}  # the same, the value that it gets
WALKS: dict[type, Callable[..., Any]] = {}  # what a loop goes over that has turns of its own, as `iterate`
KEPT: dict[type, Callable[..., Any]] = {}  # what gets a name, or is put into something
READ: dict[type, Callable[..., Any]] = {}  # what a name stands for -> what operations see of it


def handles(table: dict[type, Callable[..., Any]], *kinds: type) -> Callable[[Handler], Handler]:
    """Register a function for some types."""

    def register(handler: Handler) -> Handler:
        for kind in kinds:
            assert kind not in table, f"{kind.__name__} has a handler"
            table[kind] = handler
        return handler

    return register
