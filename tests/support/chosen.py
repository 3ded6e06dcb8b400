"""Which of many cases of one kind are run by default: the others are marked `slow`, and run with ``--slow``."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest


def half(cases: Iterable[Any]) -> list[Any]:
    """Parameters for all cases; of each four, the first two run by default."""
    return [case if k % 4 < 2 else pytest.param(case, marks=pytest.mark.slow) for k, case in enumerate(cases)]


def quarter(cases: Iterable[Any]) -> list[Any]:
    """Parameters for all cases; of each four, the first one runs by default."""
    return [pytest.param(case, marks=[pytest.mark.slow] * bool(k % 4)) for k, case in enumerate(cases)]


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
