"""Which of many cases of one kind are run by default: the others are marked, and run with ``--long`` or ``--slow``."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def one_in(n: int, cases: Iterable[Any], ids: Sequence[str] | None = None, mark: str = "long") -> list[Any]:
    """Parameters for all cases, a tuple for several; of each `n` that have no mark yet, the first runs by default."""
    marked = getattr(pytest.mark, mark)
    params, numbers = [], itertools.count()
    for k, case in enumerate(cases):
        values, marks, name = case if isinstance(case, ParameterSet) else (case, (), None)
        if not marks and next(numbers) % n:
            marks = (marked,)
        values = values if type(values) is tuple else (values,)
        params.append(pytest.param(*values, marks=marks, id=ids[k] if ids else name))
    return params


def by_ways(cases: Sequence[Any], ids: Sequence[str], *, compiled: int, simulated: int) -> list[Any]:
    """Parameters for a name in `WAYS` and each case: all interpreted, by default one of `compiled` as machine code.

    With ``--long`` it is one of four: what is particular to a case is decided before machine code is made.
    """
    params = []
    for way, now, long in (("interpreted", 1, 1), ("compiled", compiled, 4), ("simulated", 4 * simulated, simulated)):
        every = [(way, *(case if type(case) is tuple else (case,))) for case in cases]
        marked = one_in(long, every, [f"{way}-{name}" for name in ids], "slow")
        params += one_in(now // long, marked)
    return params


def half(cases: Iterable[Any]) -> list[Any]:
    """Parameters for all cases; of each two, the first one runs by default."""
    return one_in(2, cases, mark="slow")


def quarter(cases: Iterable[Any]) -> list[Any]:
    """Parameters for all cases; of each four, the first one runs by default."""
    return one_in(4, cases, mark="slow")


def squares(*lists: Iterable[Any]) -> list[Any]:
    """Parameters for all combinations; as on a chess board, those of one colour run by default.

    Each value is thus combined with half of the values of another list.
    """
    out = []
    for place in itertools.product(*(enumerate(values) for values in lists)):
        values = [value for _, value in place]
        later = sum(k for k, _ in place) % 2
        out.append(pytest.param(*values, marks=[pytest.mark.slow] * later))
    return out
