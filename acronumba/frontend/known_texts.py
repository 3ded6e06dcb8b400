"""Texts of compile-time constants: `str`, `repr`, `format`, f-strings, `%` and methods of strings.

Python itself makes the text of constant strings, numbers, bools and None; run-time values have no text (ACR116).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from acronumba.frontend.block import Dead
from acronumba.frontend.lists import new_list
from acronumba.frontend.values import (
    NOT_CONST,
    ListVal,
    Num,
    StaticList,
    StrVal,
    TupleVal,
    Val,
    as_list,
)
from acronumba.frontend.walker import Walker


def known(w: Walker, val: Val) -> Any:
    """Return a constant string, number, bool or None to be converted to text; reject any other value."""
    value = w.decided(val) if isinstance(val, Num) else w.static(val)
    if value is NOT_CONST or not isinstance(value, str | int | float | bool | None):
        raise w.reject("ACR116", seen=f"the text of {w.describe(val)}, known only at run time")
    return value


def made(w: Walker, make: Callable[[], Any]) -> Any:
    """Return the result of `make()`; the instance fails where it raises."""
    try:
        return make()
    except (TypeError, ValueError, LookupError) as error:
        w.fail(type(error).__name__, str(error).replace("{", "{{").replace("}", "}}"))
        raise Dead from None


def percent(w: Walker, text: str, val: Val) -> Val:
    """Return `text % val`."""
    values = tuple(known(w, v) for v in val.items) if isinstance(val, TupleVal) else known(w, val)
    return StrVal(made(w, lambda: text % values))


def method(w: Walker, owner: StrVal, name: str, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val:
    """Call a method of a string."""
    if name.startswith("_") or not hasattr(str, name) or name == "format_map":
        raise w.reject("ACR209", seen=f"the method .{name} of {w.describe(owner)}")
    read = known if name == "format" else _argument
    values = [read(w, v) for v in args]
    named = {k: read(w, v) for k, v in kwargs.items()}
    out = made(w, lambda: getattr(owner.value, name)(*values, **named))
    if isinstance(out, list):
        return new_list(w, [w.constant(v) for v in out])
    return TupleVal(tuple(map(w.constant, out))) if isinstance(out, tuple) else w.constant(out)


def _argument(w: Walker, val: Val) -> Any:
    """Return an argument of a method: a constant, or a tuple of constants."""
    items = val.items if isinstance(val, TupleVal | StaticList) else None
    if items is None:
        if isinstance(as_list(val), ListVal):
            raise w.reject("ACR116", seen="a text of the elements of a list of run time")
        value = w.static(val)
        return value if isinstance(value, tuple) else known(w, val)
    return tuple(known(w, v) for v in items)
