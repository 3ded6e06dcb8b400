"""Run-time strings: length, characters, comparison, slices and concatenation.

A `Text` is a word; a `StrVal` is a constant, converted to a `Text` where the two are combined. Their methods are in
`calls.of_texts`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from acronumba.frontend.comprehensions import built
from acronumba.frontend.conditions import host_value
from acronumba.frontend.handlers import CONTAINS, EQUALS, INDEXED, ITEMS, MAPPINGS, PROTOCOLS, handles
from acronumba.frontend.known_texts import percent
from acronumba.frontend.lists import checked_index
from acronumba.frontend.magic import one_string
from acronumba.frontend.subscripts import cut, list_index
from acronumba.frontend.values import (
    NOT_CONST,
    ErrorValue,
    ListVal,
    Num,
    Range,
    StrVal,
    Tensor,
    Text,
    Val,
    as_text,
    number,
)
from acronumba.frontend.walker import Walker
from acronumba.ir import nodes as ir
from acronumba.ir.types import FLOAT, NEVER, TEXT, ListT


def is_text(val: Val) -> bool:
    """Whether a value is a string, constant or at run time."""
    return isinstance(val, Text | StrVal)


def test(w: Walker, op: str, *args: Val) -> Num:
    """Apply an operation of `SCALARS` to strings and numbers."""
    return w.scalar(op, *(v if isinstance(v, Num) else as_text(v) for v in args))


def of_number(val: Num) -> Val:
    """Return the result of an operation of `SCALARS` as a string."""
    if val.const is not NOT_CONST:
        return StrVal(val.const)
    assert val.var is not None
    return Text(val.var)


def length(w: Walker, val: Val) -> Num:
    """Return the length of a string."""
    return test(w, "text_len", val)


def character(w: Walker, val: Val, index: Num) -> Val:
    """Return the character at an index that is known to be in range."""
    return of_number(test(w, "text_at", val, w.read(index)))


def compare(w: Walker, op: ast.cmpop, a: Val, b: Val) -> Num | None:
    """Compare two strings."""
    match op:
        case ast.Eq():
            return test(w, "text_eq", a, b)
        case ast.NotEq():
            return w.negate(test(w, "text_eq", a, b))
        case ast.Lt() | ast.GtE():
            less = test(w, "text_lt", a, b)
            return less if isinstance(op, ast.Lt) else w.negate(less)
        case ast.Gt() | ast.LtE():
            more = test(w, "text_lt", b, a)
            return more if isinstance(op, ast.Gt) else w.negate(more)
    return None


@handles(EQUALS, Text)
def _compare(w: Walker, op: ast.cmpop, a: Val, b: Val) -> Num | None:
    return compare(w, op, a, b) if is_text(a) and is_text(b) else None


@handles(CONTAINS, Text, StrVal)
def _contains(w: Walker, a: Val, b: Val) -> Num:
    """`a in s`."""

    def one(v: Val) -> Val:
        if not is_text(v):
            raise w.reject("ACR301", seen=f"{w.describe(v)} in a string")
        return w.scalar("ge", test(w, "text_find", b, v, number(0)), number(0))

    out = w.each(a, one)
    assert isinstance(out, Num)
    return out


@handles(ITEMS, StrVal)
def _of_constant(w: Walker, val: StrVal) -> tuple[Val, ...] | None:
    return tuple(map(StrVal, val.value))


@handles(PROTOCOLS, Text)
def _turns(w: Walker, val: Text) -> tuple[Callable[[], Num], Callable[[Num], Val]]:
    n = length(w, val)
    return lambda: n, lambda i: character(w, val, i)


@handles(INDEXED, Text, StrVal)
def _item(w: Walker, base: Text | StrVal, where: Any) -> Val:
    """`s[i]`, `s[a:b]`."""
    if isinstance(where, slice):
        return part(w, base, where)
    where = list_index(w, where) if isinstance(where, Tensor) else where
    where = host_value(w, where, "an index of a string", index=True)
    if isinstance(base, StrVal) and w.known(w.as_int(where)) is not NOT_CONST:
        where = number(w.known(w.as_int(where)))
    index = checked_index(w, where, length(w, base), "string index out of range")
    return ErrorValue() if w.block is None else character(w, base, index)


@handles(MAPPINGS, Text, StrVal)
def _operator(w: Walker, op: ast.operator, a: Val, b: Val) -> Val | None:
    """`s + t`, `s * n`, `"%d" % n`."""
    if isinstance(op, ast.Mod) and isinstance(a, StrVal):
        return percent(w, a.value, b)
    if isinstance(op, ast.Add) and is_text(a) and is_text(b):
        return joined(w, [a, b])
    text, times = (a, b) if is_text(a) else (b, a)
    if isinstance(op, ast.Mult) and is_text(text) and isinstance(times, Num) and times.type != FLOAT:
        return repeated(w, text, w.as_int(times))
    return None


def repeated(w: Walker, text: Val, times: Num) -> Val:
    """`s * n`."""
    known = w.known(times)
    if isinstance(text, StrVal) and known is not NOT_CONST:
        return StrVal(text.value * known)
    word = Text(w.word(as_text(text)))
    turns, item = Range(number(0), times, number(1)), ast.Name("#item", ast.Store())
    return joined(w, built(w, turns, item, lambda: word, (), what="repeated"))


def part(w: Walker, base: Text | StrVal, where: slice) -> Val:
    """Return a slice of a string."""
    if isinstance(base, StrVal):
        ends = [None if v is None else w.static(v) for v in (where.start, where.stop)]
        if NOT_CONST not in ends:
            return StrVal(base.value[ends[0] : ends[1] : where.step])
    start, step, count = cut(w, w.word(w.read(length(w, base))), where)
    first, n = w.extent(start), w.extent(count)
    places = Range(first, w.scalar("add", first, w.scalar("mul", n, number(step))), number(step))

    def turn() -> Val:
        k = w.state[(w.frame.scope, "#item")]
        assert isinstance(k, Num)
        return Text(w.word(as_text(character(w, base, k))))

    return joined(w, built(w, places, ast.Name("#item", ast.Store()), turn, (), what="part"))


def joined(w: Walker, parts: Val | Sequence[Val]) -> Val:
    """Return the concatenation of the strings of a list."""
    items = w.items_of(parts) if not isinstance(parts, Sequence) else tuple(parts)
    items = None if items is None else tuple(one_string(w, v) for v in items)
    for v in items or ():
        if not is_text(v):
            raise w.reject("ACR301", seen=f"{w.describe(v)} where a string is expected")
    if items is not None and all(isinstance(v, StrVal) for v in items):
        return StrVal("".join(v.value for v in items if isinstance(v, StrVal)))
    if items is not None and len(items) == 1:
        return items[0]
    if items is not None:
        texts = w.var("list", ListT(TEXT))
        words = tuple(w.word(as_text(v)) for v in items)
        w.emit(ir.ListNew(out=texts, width=1, args=words, count=len(items), loc=w.loc))
        return _join(w, texts)
    assert isinstance(parts, ListVal)
    if parts.item == NEVER:
        return StrVal("")
    if parts.item != TEXT:
        parts = strings(w, parts)
    return _join(w, parts.var)


def _join(w: Walker, texts: ir.Var) -> Val:
    out = w.var("text", TEXT)
    w.emit(ir.ListOp(outs=(out,), op="join", width=1, args=(texts,), loc=w.loc))
    return Text(out)


def strings(w: Walker, iterable: Val, f: Callable[[Val], Val] = lambda v: v) -> ListVal:
    """Return the run-time list of f(v) for the strings v of an iterable."""

    def one(v: Val) -> Val:
        if not is_text(v):
            raise w.reject("ACR301", seen=f"{w.describe(v)} where a string is expected")
        return Text(w.word(as_text(f(v))))

    def turn() -> Val:
        return w.each(w.state[(w.frame.scope, "#item")], one)

    return built(w, iterable, ast.Name("#item", ast.Store()), turn, (), what="strings")
