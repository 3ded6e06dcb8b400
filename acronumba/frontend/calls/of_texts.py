"""Handlers of `ord`, `chr` and `str`, and the methods of run-time strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from acronumba.frontend.block import Dead
from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.tables import row
from acronumba.frontend.calls.written_texts import METHODS
from acronumba.frontend.comprehensions import as_iterable
from acronumba.frontend.conditions import host_value
from acronumba.frontend.known_texts import known
from acronumba.frontend.magic import text_of
from acronumba.frontend.texts import is_text, joined, length, of_number, part, strings, test
from acronumba.frontend.values import Num, StrVal, Text, Val, number
from acronumba.ir.ops import LAST_CHARACTER, PREDICATES

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker

BEFORE = "do it before the batch"


@row("c", ord, whole=True)
def _ord(w: Walker, a: Args) -> Val:
    def one(v: Val) -> Val:
        if not is_text(v):
            raise w.reject("ACR301", a.where["c"], seen=f"ord of {w.describe(v)}")
        single = w.scalar("eq", length(w, v), number(1))
        w.check(single, "TypeError", "ord() expected a character, but string of another length found")
        if w.block is None:
            raise Dead
        return test(w, "text_code", v)

    return w.each(a["c"], one)


@row("i", chr, whole=True)
def _chr(w: Walker, a: Args) -> Val:
    code = w.read(w.as_int(host_value(w, a["i"], "chr()", index=True)))
    inside = w.both(w.scalar("ge", code, number(0)), w.scalar("le", code, number(LAST_CHARACTER)))
    w.check(inside, "ValueError", "chr() arg not in range(0x110000)")
    if w.block is None:
        raise Dead
    return of_number(w.scalar("text_of_code", code))


@row("object", str, whole=True)
def _str(w: Walker, a: Args) -> Val:
    def one(v: Val) -> Val:
        v = text_of(w, v)
        if is_text(v):
            return v
        return StrVal(str(known(w, v)))

    return w.each(a["object"], one)


def text_method(w: Walker, owner: Text | StrVal, name: str, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val:
    """Call a method where the string, or an argument, is known only at run time."""
    match name, args:
        case "join", [val] if not kwargs:
            return _join(w, owner, val)
        case "startswith" | "endswith", [ends] if not kwargs:
            return w.each(ends, lambda v: _has_end(w, owner, name, v))
        case "find" | "index", [val, *start] if len(start) < 2 and not kwargs:
            return _find(w, owner, name, val, start)
        case _, [] if name in PREDICATES and not kwargs:
            return test(w, f"text_{name}", owner)
        case "upper" | "lower", [] if not kwargs:
            return _in_case(w, owner, name)
        case "removeprefix" | "removesuffix", [val] if is_text(val) and not kwargs:
            return _without(w, owner, name, val)
    if name in METHODS:
        return w.call(w.constant(METHODS[name]), (owner, *args), kwargs)
    raise w.reject("ACR209", seen=f"the method .{name} of {w.describe(owner)}", rewrite=BEFORE)


def _in_case(w: Walker, owner: Text | StrVal, name: str) -> Val:
    """`s.upper()`, `s.lower()`, by character; `.lower()` of a capital sigma, which depends on its context, fails."""
    if name == "lower":
        none = w.scalar("lt", test(w, "text_find", owner, StrVal("\u03a3"), number(0)), number(0))
        w.check(none, "ValueError", "a capital sigma: call .lower() before the batch")
        if w.block is None:
            raise Dead
    return joined(w, strings(w, owner, lambda v: of_number(test(w, f"text_{name}", v))))


def _join(w: Walker, between: Text | StrVal, val: Val) -> Val:
    """`s.join(strings)`."""
    val = as_iterable(w, val)
    items = w.items_of(val)
    if items is not None:
        parts = [v for item in items for v in (between, item)][1:]
        return joined(w, parts)
    if isinstance(between, StrVal) and not between.value:
        return joined(w, strings(w, val))
    longer = joined(w, strings(w, val, lambda v: joined(w, [between, v])))
    if not isinstance(longer, Text | StrVal):
        raise Dead
    return part(w, longer, slice(length(w, between), None, 1))


def _has_end(w: Walker, owner: Val, name: str, ends: Val) -> Num:
    """Return whether a string begins or ends with another one, or with one in a tuple."""
    several = w.items_of(ends) if not is_text(ends) else None
    if several is not None:
        out = number(False)
        for v in several:
            out = w.either(out, _has_end(w, owner, name, v))
        return out
    if not is_text(ends):
        raise w.reject("ACR301", seen=f".{name} of {w.describe(ends)}")
    at = number(0) if name == "startswith" else w.scalar("sub", length(w, owner), length(w, ends))
    return test(w, "text_starts", owner, ends, at)


def _find(w: Walker, owner: Val, name: str, val: Val, start: Sequence[Val]) -> Num:
    if not is_text(val):
        raise w.reject("ACR301", seen=f".{name} of {w.describe(val)}")
    at = number(0)
    if start:
        at = w.read(w.as_int(host_value(w, start[0], f".{name}()", index=True)))
        behind = w.scalar("max", w.scalar("add", at, length(w, owner)), number(0))
        at = w.select(w.scalar("lt", at, number(0)), behind, at)
    out = test(w, "text_find", owner, val, at)
    if name == "index":
        w.check(w.scalar("ge", out, number(0)), "ValueError", "substring not found")
    return out


def _without(w: Walker, owner: Text | StrVal, name: str, end: Val) -> Val:
    """Return `s.removeprefix(end)` or `s.removesuffix(end)`."""
    front = name == "removeprefix"
    there = _has_end(w, owner, "startswith" if front else "endswith", end)
    size = w.select(there, length(w, end), number(0))
    if front:
        return part(w, owner, slice(size, None, 1))
    return part(w, owner, slice(None, w.scalar("sub", length(w, owner), size), 1))
