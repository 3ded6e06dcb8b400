"""Columns of a run-time list of rows: `zip(*rows)`, whose items are tuples as long as the list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from acronumba.frontend.attributes import not_none
from acronumba.frontend.comprehensions import built
from acronumba.frontend.handlers import PROTOCOLS, handles
from acronumba.frontend.kinds.iterators import Zip
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.loops import fold
from acronumba.frontend.subscripts import get_item
from acronumba.frontend.walker import Walker


def column(w: Walker, rows: Val, k: Num) -> Val:
    """Return the k-th elements of all rows, as a tuple."""
    what = f"column {k.const}" if k.var is None else "column"
    return replace(built(w, rows, lambda row: w.each(not_none(w, row), lambda v: get_item(w, v, k)), what), cls=tuple)


@handles(PROTOCOLS, Zip)
def _turns(w: Walker, val: Zip) -> tuple[Callable[[], Num], Callable[[Num], Val]]:
    """Return two functions: one gives the number of columns (the length of the shortest row), the other one column."""
    (rows,) = val.parts

    def shorter(least: Val, row: Val) -> Num:
        size = w.call(w.constant(len), (not_none(w, row),), {})
        assert isinstance(size, Num) and isinstance(least, Num)
        return w.scalar("min", least, size)

    def length() -> Num:
        some = rows.truth(w)
        assert some is not None
        out = fold(w, "least", rows, shorter, w.select(some, number(2**62), number(0)))
        assert isinstance(out, Num)
        return out

    return length, lambda k: column(w, rows, k)
