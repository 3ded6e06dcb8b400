"""Python at its corners is the plain call's: interpreted, as machine code, on the simulator."""

from __future__ import annotations

import functools
from collections import deque
from typing import Any

import numpy as np
import pytest

from acronumba import model
from acronumba.errors import AcronumbaError, InstanceErrors
from tests.support.chosen import by_ways
from tests.support.models_of_corners import CASES as CORNERS
from tests.support.models_of_methods import CASES as METHODS
from tests.support.models_of_methods import Base, Pair, Seven
from tests.support.plain_call import WAYS

CASES = [*CORNERS, *METHODS]
IDS = [f.__name__ for f, _ in CASES]


@pytest.mark.parametrize(("way", "f", "columns"), by_ways(CASES, IDS, compiled=8, simulated=20))
def test_it_is_the_plain_call(way: str, f: Any, columns: Any) -> None:
    WAYS[way](f, *columns)


def changed_deque(n):
    q = deque(range(n))
    for v in q:
        if v == 2:
            q.append(5)
    return list(q)


def changed_dict(n):
    d = {k: k for k in range(n)}
    for k in d:
        if k == 1:
            del d[k]
        elif k > 5:
            break
    return d


def shared_list(n):
    a = listed(n)
    a.append(3)
    return a


@functools.cache
def listed(n):
    return [n]


def repeated_by_a_float(n):
    return (n, 1) * np.float32(1.5)


def reflected_of_one_class(n):
    return Base(n) + Base(n)  # it has `__radd__` alone, which is for operands of other classes


def passed_as_items(n):
    return max(*Seven(n))


def contained_where_iterated(n):
    return 7 in Seven(n)


def matched_by_its_length(n):
    match Pair(n):
        case [a, b]:
            return a + b


def reversed_by_its_items(n):
    return list(reversed(Pair(n)))


REJECTED = [
    changed_deque, changed_dict, shared_list, repeated_by_a_float, reflected_of_one_class, passed_as_items,
    contained_where_iterated, matched_by_its_length, reversed_by_its_items,
]  # fmt: skip


@pytest.mark.parametrize("f", REJECTED, ids=lambda f: f.__name__)
def test_what_would_differ_is_rejected(f: Any) -> None:
    with pytest.raises(AcronumbaError) as caught:
        model(f).batch([1, 3])
    assert not isinstance(caught.value, InstanceErrors)
