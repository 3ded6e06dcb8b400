"""Python values that stand for all values of a class, to ask Python whether an operation is defined for them.

In: a class. Out: a value for which an operation raises `TypeError` only if it does for all values of the class.
"""

from __future__ import annotations

from collections import deque

_EXAMPLES: dict[type, object] = {
    int: 1, float: 1.0, bool: True, str: "a", list: [], tuple: (), dict: {}, set: set(), range: range(1),
    slice: slice(None), deque: deque(),
}  # fmt: skip
_WITHOUT_EFFECT = {  # special names of classes that add no operation to those of `object`
    *dir(object), "__dict__", "__weakref__", "__module__", "__annotations__", "__match_args__", "__slots__",
    "__dataclass_fields__", "__dataclass_params__", "__post_init__", "__replace__", "__parameters__",
    "__orig_bases__", "__static_attributes__", "__firstlineno__", "__annotate_func__", "__annotations_cache__",
}  # fmt: skip
_ORDERS = ("__lt__", "__le__", "__gt__", "__ge__", "__getattribute__", "__setattr__")


def example_of(cls: type, unknown: object) -> object:
    """Return a value that stands for those of a class; `unknown` if none is known."""
    if cls in _EXAMPLES:
        return _EXAMPLES[cls]
    special = {n for base in cls.__mro__ for n in vars(base) if n.startswith("__") and n.endswith("__")}
    if cls is object or type(cls) is not type or not special <= _WITHOUT_EFFECT:
        return unknown
    if any(getattr(cls, n) is not getattr(object, n) for n in _ORDERS):
        return unknown
    return type(cls.__name__, (), {})()
