"""Records: dataclasses with slots, whose classes are created more than twice as fast.

`dataclasses` generates up to seven functions per class as text and compiles them; for the classes of this compiler that
is half the import time. Here only `__init__` is compiled; the other functions are shared by all classes. Everything
else is as in `dataclasses`, whose `field`, `fields` and `replace` work on records, but pickling needs protocol 2 or
newer. Records are immutable for type checkers alone.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(*, kw_only: bool = False, eq: bool = True, frozen: bool = True) -> Callable[[type[T]], type[T]]:
    """Return a decorator that makes a class a record.

    Parameters
    ----------
    kw_only
        Whether `__init__` takes keywords only.
    eq
        Whether objects with equal fields are equal, and, if they are frozen, have one hash. The class must not define
        `__eq__` or `__hash__` itself then.
    frozen
        Whether fields must not be assigned (checked by type checkers alone).
    """

    def decorate(cls: type[T]) -> type[T]:
        cls.__doc__ = cls.__doc__ or cls.__name__  # else `dataclasses` sets it to the signature
        made = dataclass(slots=True, kw_only=kw_only, eq=False, repr=False)(cls)
        own = vars(made)
        if "__repr__" not in own:
            made.__repr__ = _repr  # type: ignore[method-assign]
        if eq:
            assert "__eq__" not in vars(cls) and "__hash__" not in vars(cls), cls
            values = _values(tuple(f.name for f in fields(made) if f.compare))  # type: ignore[arg-type]
            made.__eq__ = _equal(values)  # type: ignore[method-assign]
            made.__hash__ = (lambda self: hash(values(self))) if frozen else None  # type: ignore[method-assign, assignment]
        return made

    return decorate


def _values(names: tuple[str, ...]) -> Callable[[Any], Any]:
    """Return a function from an object to the tuple of some of its fields."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    return (lambda self: (getattr(self, names[0]),)) if names else lambda self: ()


def _equal(values: Callable[[Any], Any]) -> Callable[[Any, object], bool]:
    def equal(self: Any, other: object) -> bool:
        if other is self:
            return True
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return equal


def _repr(self: Any) -> str:
    shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
    return f"{self.__class__.__qualname__}({shown})"
