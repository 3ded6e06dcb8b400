"""Run-time dicts and sets as lists of entries: their size, entries and iteration.

`keyed` finds and stores entries by their keys.
"""

from __future__ import annotations

from collections.abc import Callable

from acronumba.frontend.lists import inner_value
from acronumba.frontend.values import ErrorValue, MapVal, MapView, Num, TupleVal, Val
from acronumba.frontend.walker import Walker
from acronumba.ir import nodes as ir
from acronumba.ir.types import INT, words


def width(base: MapVal) -> int:
    """Return the number of words of an entry."""
    return len(words(base.type.entry))


def size(w: Walker, base: MapVal) -> Num:
    """Return the number of entries."""
    out = w.var("size", INT)
    w.naturals[out] = None
    w.emit(ir.ListOp(outs=(out,), op="len", width=width(base), args=(base.var,), loc=w.loc))
    return Num(INT, var=out)


def entry(w: Walker, base: MapVal, index: Num) -> tuple[Val, Val]:
    """Return the key and the value of the entry at an index."""
    t = base.type.entry
    outs = tuple(w.var("item", e) for e in words(t))
    if w.block is None:
        return ErrorValue(), ErrorValue()
    if outs:
        args = (base.var, w.word(w.read(index)))
        w.emit(ir.ListOp(outs=outs, op="get", width=len(outs), args=args, loc=w.loc))
    k = len(words(t.items[0]))
    return w.from_words(t.items[0], outs[:k]), inner_value(w, base, t.items[1], outs[k:])


def value_at(w: Walker, base: MapVal, index: Num) -> Val:
    return entry(w, base, index)[1]


def turns(w: Walker, val: MapVal | MapView) -> tuple[Callable[[], Num], Callable[[Num], Val]]:
    """Return two functions: one gives the number of entries, which must not change, the other an item of the view."""
    base, what = (val, "keys") if isinstance(val, MapVal) else (val.base, val.what)
    if base.is_set and not base.type.given and what not in ("elements", "entries"):  # the order of an input is known
        seen = "the order of a set made in the call, which Python does not say"
        raise w.reject("ACR301", seen=seen, rewrite="sorted(s)")
    n = size(w, base)

    def length() -> Num:
        same = w.scalar("eq", n, size(w, base))
        kind = "Set" if base.is_set else "dictionary"
        w.check(same, "RuntimeError", f"{kind} changed size during iteration")
        return n

    def get(index: Num) -> Val:
        key, item = entry(w, base, index)
        return TupleVal((key, item)) if what in ("items", "entries") else item if what == "values" else key

    return length, get
