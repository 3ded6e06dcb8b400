"""Columns of a run-time list of rows: `zip(*rows)`, whose items are tuples as long as the list."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from acronumba.frontend.comprehensions import built
from acronumba.frontend.handlers import PROTOCOLS, handles
from acronumba.frontend.kinds.iterators import Columns
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.loops import iterate
from acronumba.frontend.subscripts import get_item
from acronumba.frontend.walker import Walker


def column(w: Walker, val: Columns, k: Num) -> Val:
    """Return the k-th elements of all rows, as a tuple."""
    w.counter += 1
    item = f"#row{w.counter}"
    key = (w.frame.scope, item)
    target = ast.Name(item, ast.Store())
    what = f"column {k.const}" if k.var is None else "column"
    return replace(built(w, val.rows, target, lambda: get_item(w, w.state[key], k), (), what=what), cls=tuple)


@handles(PROTOCOLS, Columns)
def _turns(w: Walker, val: Columns) -> tuple[Callable[[], Num], Callable[[Num], Val]]:
    """Return two functions: one gives the number of columns (the length of the shortest row), the other one column."""
    w.counter += 1
    least, item = (w.frame.scope, f"#least{w.counter}"), f"#row{w.counter}"

    def length() -> Num:
        some = w.scalar("gt", w.list_lengths(val.rows), number(0))
        w.state[least] = w.select(some, number(2**62), number(0))

        def shorter() -> None:
            size = w.call(w.constant(len), (w.state[(w.frame.scope, item)],), {})
            old = w.state[least]
            assert isinstance(size, Num) and isinstance(old, Num)
            w.state[least] = w.scalar("min", old, size)

        iterate(w, val.rows, ast.Name(item, ast.Store()), shorter, (), (least,))
        out = w.state.pop(least)
        assert isinstance(out, Num)
        return out

    return length, lambda k: column(w, val, k)
