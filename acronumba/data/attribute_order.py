"""The order in which the code of a class assigns attributes, so that objects in results have it in their `__dict__`.

In: a class and the names of its fields. Out: these names in the order of the assignments in `__init__`, in the methods
that it calls, and in those of its bases where it calls them; other names come last, sorted.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Iterable, Iterator
from functools import lru_cache

from acronumba.data.classes import field_names
from acronumba.generics import Value


def as_assigned(cls: type, names: Iterable[str]) -> tuple[str, ...]:
    """Return some fields of a class in the order in which its code assigns them; declared fields come first."""
    given = dict.fromkeys(sorted(names))
    first = dict.fromkeys((*field_names(cls), *_assigned(cls)))
    return tuple([name for name in dict.fromkeys((*first, *given)) if name in given])


@lru_cache(1024)
def _assigned(cls: type) -> tuple[str, ...]:
    return tuple(_stores(cls.__mro__, "__init__", set()))


def _stores(classes: tuple[type, ...], method: str, walked: set[Value]) -> Iterator[str]:
    """Yield the attributes that a method assigns, in the order of its code; `classes` is the part of the MRO to search.

    A call of the method of the same name is that of the next class; a call of another one is of the whole class.
    """
    at = next((k for k, c in enumerate(classes) if method in vars(c)), None)
    found: object = None if at is None else vars(classes[at])[method]
    if not isinstance(found, types.FunctionType) or found in walked:
        return
    walked.add(found)
    for instr in dis.get_instructions(found):
        if instr.opname == "STORE_ATTR":
            yield instr.argval
        elif instr.argval == method:
            yield from _stores(classes[at + 1 :], method, walked)  # type: ignore[operator]
        elif instr.opname.startswith("LOAD_") and isinstance(instr.argval, str):
            yield from _stores(classes, instr.argval, walked)
