"""Tables of handlers: from the type of a node, or of a value, to the function that walks it.

A module registers its functions with `handles`; the walker looks them up. So no module needs to import another one
for the nodes nested in its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Handler = TypeVar("Handler", bound=Callable[..., Any])

# By the type of a node: arguments are the walker and the node (for targets, the assigned value, too).
EXPRESSIONS: dict[type, Callable[..., Any]] = {}  # -> Val
CONDITIONS: dict[type, Callable[..., Any]] = {}  # -> the points where it is true and false; `ast.expr` is the default
STATEMENTS: dict[type, Callable[..., Any]] = {}
TARGETS: dict[type, Callable[..., Any]] = {}  # of an assignment
# Where values come from:
CONSTANTS: dict[type, Callable[..., Any]] = {}  # by a Python class, for its subclasses, too: constant -> Val
WORDS: dict[type, Callable[..., Any]] = {}  # by a type of the IR: walker, type, variables of the words -> Val
# By the type of a value: arguments are the walker, and as given below.
AUGMENTED: dict[type, Callable[..., Any]] = {}  # old value, operator, operand -> the same value, changed in place
STORED: dict[type, Callable[..., Any]] = {}  # container, index value or slice, value that is assigned to its item
CALLS: dict[type, Callable[..., Any]] = {}  # callee, arguments -> Val
ITEMS: dict[type, Callable[..., Any]] = {}  # iterable -> its items; None if they are not known one by one
INDEXED: dict[type, Callable[..., Any]] = {}  # container, index value or slice -> Val
UNPACKED: dict[type, Callable[..., Any]] = {}  # value, number of names -> its items
CONTAINS: dict[type, Callable[..., Any]] = {}  # element, container -> Num; None: search item by item
EQUALS: dict[type, Callable[..., Any]] = {}  # operator, two values of which one is of the type -> Num or None
OPERANDS: dict[type, Callable[..., Any]] = {}  # operator, two values of which one is of the type -> Val or None
ARRAYS: dict[type, Callable[..., Any]] = {}  # value to convert to an array, dtype -> Tensor
MADE: dict[type, Callable[..., Any]] = {}  # new value of an expression -> value that represents it from then on
METHODS: dict[type, Callable[..., Any]] = {}  # owner, name, arguments -> Val; None if it has no such method
ATTRIBUTES: dict[type, Callable[..., Any]] = {}  # owner, attribute name -> Val
SUBSCRIPTS: dict[type, Callable[..., Any]] = {}  # array, index of each axis -> Val
PROTOCOLS: dict[type, Callable[..., Any]] = {}  # iterable -> functions that give its length, and an item
ASSIGNED: dict[type, Callable[..., Any]] = {}  # owner, attribute name, new value -> whether it can be assigned
DESCRIPTORS: dict[type, Callable[..., Any]] = {}  # object, its class, attribute name, descriptor -> Val
WALKS: dict[type, Callable[..., Any]] = {}  # arguments of `iterate` -> whether it is walked in another way
PULLS: dict[type, Callable[..., Any]] = {}  # iterable, state key, whether its items are known -> `Pull`, or None
WAITING: dict[type, Callable[..., Any]] = {}  # iterator that is read at several places -> `Waiting`, or None
KEPT: dict[type, Callable[..., Any]] = {}  # value that is bound to a name, or stored
READ: dict[type, Callable[..., Any]] = {}  # stored representation of a value -> the value that operations use


def handles(table: dict[type, Callable[..., Any]], *kinds: type) -> Callable[[Handler], Handler]:
    """Register a function for some types."""

    def register(handler: Handler) -> Handler:
        for kind in kinds:
            assert kind not in table, f"{kind.__name__} has a handler"
            table[kind] = handler
        return handler

    return register
