"""Exceptions as values: objects whose fields are their arguments, and the attributes that the user gives them.

Only the attributes that the program reads somewhere are kept (`Facts.asked`). An exception that an operation raises
has no arguments here unless they are exactly Python's; reading those that are not known is rejected.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence

from acronumba.data.classes import own_constructor
from acronumba.frontend.attributes import own_method
from acronumba.frontend.handlers import ASSIGNED
from acronumba.frontend.kinds.objects import ObjectValue
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.made import begin, finished, self_of
from acronumba.frontend.walker import Walker

_OF_PYTHON = 1 << 8  # of `type.__flags__`: a class written in C
# Classes whose constructors do more than store their arguments.
_ODD = (OSError, UnicodeError, ImportError, SyntaxError, BaseExceptionGroup)


def caught_kind(val: Val) -> type | None:
    """Return the class of an exception, of which it is one; None for other values."""
    classes = val.object_classes()
    return classes[0] if classes and all(issubclass(c, BaseException) for c in classes) else None


def made_exception(w: Walker, cls: type, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val:
    """Make an exception: by the user's `__init__`, or with its arguments alone."""
    check_class(w, cls, len(args))
    w.check_poison(*args, *kwargs.values())
    init = w.source_guard.attribute(cls, "__init__")
    if isinstance(init, types.FunctionType):
        made = begin(w, cls)
        w.state[(made.key, "args")] = TupleVal(tuple(args))
        w.call(own_method(w, init), (self_of(w, made), *args), kwargs)
        val = finished(w, made)
        return _asked(w, val) if isinstance(val, ObjectValue) else val
    if kwargs:
        raise w.reject("ACR203", seen=f"{cls.__name__}() takes no keyword arguments")
    return _asked(w, ObjectValue(cls, ("args",), (TupleVal(tuple(args)),)))


def is_plain_dataclass(cls: type) -> bool:
    """Whether a class is a dataclass without an `__init__` of the user's."""
    return dataclasses.is_dataclass(cls) and not own_constructor(cls)


def set_arguments(w: Walker, owner: Val, args: Sequence[Val]) -> None:
    """`BaseException.__init__(owner, *args)`."""
    ASSIGNED[type(owner)](w, owner, "args", TupleVal(tuple(args)))


def check_class(w: Walker, cls: type, count: int) -> None:
    """Reject a class whose objects are more than their arguments, of which there are `count`."""
    for name in ("__new__", "__setattr__", "__getattribute__", "__getattr__"):
        found = w.source_guard.owner(cls, name)
        if found is not None and not found.__flags__ & _OF_PYTHON == _OF_PYTHON:
            raise w.reject("ACR210", seen=f"the class {cls.__name__}: `{name}`")
    if type(cls) is not type or (issubclass(cls, _ODD) and count > 1):
        raise w.reject("ACR210", seen=f"the exception {cls.__name__}")


def _asked(w: Walker, val: ObjectValue) -> ObjectValue:
    """Return an exception with the attributes alone that are read somewhere."""
    kept = [k for k, name in enumerate(val.names) if name in w.facts.asked]
    return ObjectValue(val.cls, tuple(val.names[k] for k in kept), tuple(val.items[k] for k in kept))
