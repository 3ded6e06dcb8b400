"""Loops over `zip` and `enumerate` with lazy parts, and over other iterators that are asked for their items."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from acronumba.frontend.block import Fork, Point
from acronumba.frontend.exceptions import Dead
from acronumba.frontend.handlers import WALKS, handles
from acronumba.frontend.kinds.errors import ErrorValue
from acronumba.frontend.kinds.iterators import Begun, Pull, Waiting, Zip
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import StateKey, Val
from acronumba.frontend.loops import carried_names, check_whole, end_turn, iterate, unrolled, walking, write_loop
from acronumba.frontend.pulling import begun_pull, counted, known_count, new_key, row
from acronumba.frontend.walker import Loop, Walker


@handles(WALKS, Zip)
def walk_zip(
    w: Walker, val: Zip, turn: Callable[[Val], None], code: ast.For | None,
    carried: Sequence[StateKey], otherwise: Callable[[], None] | None
) -> bool:  # fmt: skip
    """Walk a loop over `zip` or `enumerate` with lazy parts; any other loop over a `Zip` is left to the caller."""
    lazy = [k for k, v in enumerate(val.parts) if v.is_lazy]
    if not val.is_lazy or val.starred:
        return False
    with walking(w, val):
        _walk_parts(w, val, lazy, turn, code, carried, otherwise)
    return True


def _walk_parts(
    w: Walker, val: Zip, lazy: Sequence[int], turn: Callable[[Val], None], code: ast.For | None,
    carried: Sequence[StateKey], otherwise: Callable[[], None] | None
) -> None:  # fmt: skip
    """Walk a loop over `zip` in which at most one part is a generator function that is walked."""
    if len(lazy) != 1 or val.strict:
        known = known_count(w, val) is not None
        before = w.mark()
        pull = begun_pull(w, val, known)
        if pull is not None:
            _walk_pull(w, val, pull, known, turn, code, carried, otherwise)
            return
        w.go_back(before)
    waiting = [k for k in lazy if not _pullable(w, val.parts[k])] if len(lazy) > 1 else lazy
    if len(waiting) != 1 or val.strict:
        seen = f"{w.describe(val)} of generators that are computed in turn"
        raise w.reject("ACR104", seen=seen, rewrite="make all but one of them lists: list(...)")
    _walk_beside(w, val, waiting[0], turn, code, carried, otherwise)


def _pullable(w: Walker, val: Val) -> bool:
    before = w.mark()
    found = begun_pull(w, val) is not None
    w.go_back(before)
    return found


def _walk_pull(
    w: Walker, iterable: Val, pull: Pull, known: bool, turn: Callable[[Val], None], code: ast.For | None,
    carried: Sequence[StateKey], otherwise: Callable[[], None] | None
) -> None:  # fmt: skip
    """Walk a loop over an iterable whose items are asked for: unrolled if they are `known`."""
    if known:
        unrolled(w, _asked(w, pull), turn, otherwise)
        return
    item: Val = ErrorValue()

    def test() -> Fork:
        nonlocal item
        no, item = pull.ask()
        return w.leave(), no

    names = list(dict.fromkeys([*carried_names(w, code, carried), *pull.keys]))
    write_loop(w, names, test, lambda: turn(item), lambda: check_whole(w, iterable), otherwise)


def _asked(w: Walker, pull: Pull) -> Iterator[Val]:
    while w.block is not None:
        no, item = pull.ask()
        w.frame.loops[-1].ends += no
        if w.block is not None:
            yield item


def _walk_beside(
    w: Walker, val: Zip, k: int, turn: Callable[[Val], None], code: ast.For | None,
    carried: Sequence[StateKey], otherwise: Callable[[], None] | None
) -> None:  # fmt: skip
    """Walk a loop over `zip` as one over its k-th part, a generator; the other parts are asked around each item."""
    parts = [None if j == k else begun_pull(w, v) for j, v in enumerate(val.parts)]
    first, last = [p for p in parts[:k] if p is not None], [p for p in parts[k + 1 :] if p is not None]
    counter = new_key(w, "count")
    places = [new_key(w, "item") for _ in first]
    if val.start is not None:
        w.state[counter] = val.start

    def ask(some: Sequence[Pull]) -> tuple[list[Point], list[Val]]:
        return row(w, val, some)

    def ask_first() -> list[Point]:
        no, items = ask(first)
        if w.block is not None:
            w.state.update(zip(places, items, strict=True))
        return no

    def with_others(item: Val) -> None:
        loop = w.frame.loops[-1]
        no, items = ask(last)
        loop.ends += no
        if w.block is None:
            return
        inner = Loop()
        w.frame.loops.append(inner)
        row = (*counted(w, val, counter), *(w.state[p] for p in places), item, *items)
        try:
            turn(TupleVal(row))
        except Dead:
            w.block = None
        w.frame.loops.pop()
        loop.breaks += inner.breaks
        end_turn(w, inner)
        if w.block is not None:
            check_whole(w, val)
            loop.ends += ask_first()

    begun = ask_first()
    keys = [*places, *(key for p in (*first, *last) for key in p.keys), *([counter] if val.start is not None else [])]
    if w.block is not None:
        iterate(w, val.parts[k], with_others, code, [*carried, *keys], otherwise)
    if begun:
        after = w.leave()
        w.join(begun)
        if otherwise is not None and w.block is not None:
            otherwise()
        w.join([*after, *w.leave()])


@handles(WALKS, Begun)
def _walk_begun(
    w: Walker, val: Begun, turn: Callable[[Val], None], code: ast.For | None,
    carried: Sequence[StateKey], otherwise: Callable[[], None] | None
) -> bool:  # fmt: skip
    """Walk a loop over a dict or set, over which an iterator began before."""
    val.check(w)
    iterate(w, val.inner, turn, code, carried, otherwise)
    return True


@handles(WALKS, Waiting)
def _walk_waiting(
    w: Walker, val: Waiting, turn: Callable[[Val], None], code: ast.For | None,
    carried: Sequence[StateKey], otherwise: Callable[[], None] | None
) -> bool:  # fmt: skip
    """Walk a loop over the items of an iterator that were not yet asked for."""
    _walk_pull(w, val, val.pull, False, turn, code, carried, otherwise)
    return True
