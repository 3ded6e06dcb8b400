"""Helpers: inlined in each call, or functions of their own where that would be too much code.

A walk that has seen `MOST_STEPS` expressions begins again, with a function of its own for each helper of the user that
it has inlined often. Such a function is walked once for each set of argument types, as recursive functions are.
"""

from __future__ import annotations

from collections.abc import Iterable

from acronumba.frontend.exceptions import Restart, TooLong
from acronumba.frontend.kinds.functions import Func
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.walker import Walker

MOST_STEPS = 5000  # expressions of a walk in which all helpers are inlined
CALLS = 3  # how often a helper is inlined at least
STEPS = 100  # and the expressions in all its copies, before it becomes a function
MOST_AGAIN = 30_000  # expressions of all walks that inline all helpers, as the program was rejected otherwise


def is_called(w: Walker, func: Func, args: Iterable[Val]) -> bool:
    """Whether a helper is called, not inlined."""
    if w.steps > MOST_STEPS:
        _find_often_inlined(w)
    return func.code in w.facts.apart and not w.inside_cached and not any(v.is_iterator for v in args)


def _find_often_inlined(w: Walker) -> None:
    """Begin again with functions of their own for the helpers that this walk has inlined often."""
    facts = w.facts
    if facts.complete:
        return
    if facts.rejected:
        if facts.steps + w.steps > MOST_AGAIN:
            raise TooLong
        return
    often = {code for code, (calls, steps) in w.inlined.items() if calls >= CALLS and steps >= STEPS}
    often -= facts.apart | facts.inlined
    if often:
        facts.apart |= often
        raise Restart


def note_inlined(w: Walker, func: Func, steps: int) -> None:
    """Note that a helper was inlined, and how many expressions were walked in it."""
    if not func.of_library and func.scope is None and not func.source.facts.nests and not _is_special(func):
        calls, total = w.inlined.get(func.code, (0, 0))
        w.inlined[func.code] = calls + 1, total + steps


def _is_special(func: Func) -> bool:
    """Whether a function is a method such as `__init__`, whose object is not complete yet."""
    return func.source.name.endswith("__")
