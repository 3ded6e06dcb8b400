"""Python at its corners is the plain call's: interpreted, as machine code, on the simulator."""

from __future__ import annotations

import functools
from collections import deque
from typing import Any

import pytest

from acronumba import model
from acronumba.errors import AcronumbaError, InstanceErrors
from tests.support.models_of_corners import CASES
from tests.support.plain_call import agree, outcomes, plain

IDS = [f.__name__ for f, _ in CASES]


def some(step: int) -> list[Any]:
    """Return the cases, of which those between every so many are slow."""
    slow = pytest.mark.slow
    return [
        pytest.param(*c, id=n, marks=[slow] if k % step else [])
        for k, (c, n) in enumerate(zip(CASES, IDS, strict=True))
    ]


@pytest.mark.parametrize(("f", "columns"), CASES, ids=IDS)
def test_interpreted(f: Any, columns: Any) -> None:
    agree(outcomes(model(f)._interpret, *columns), plain(f, *columns), close=True)


@pytest.mark.parametrize(("f", "columns"), some(4))
def test_batched(f: Any, columns: Any) -> None:
    expected = plain(f, *columns)
    agree(outcomes(model(f).batch, *columns), expected, close=True)
    agree(outcomes(model(f).batch, *[c[1:2] for c in columns]), expected[1:2], close=True)


@pytest.mark.parametrize(("f", "columns"), some(20))
def test_simulated(f: Any, columns: Any) -> None:
    agree(outcomes(model(f).on("simulator").batch, *columns), plain(f, *columns), close=True, single=True)


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
            break
    return d


def shared_list(n):
    a = listed(n)
    a.append(3)
    return a


@functools.cache
def listed(n):
    return [n]


@pytest.mark.parametrize("f", [changed_deque, changed_dict, shared_list], ids=lambda f: f.__name__)
def test_what_would_differ_is_refused(f: Any) -> None:
    with pytest.raises(AcronumbaError) as caught:
        model(f).batch([1, 3])
    assert not isinstance(caught.value, InstanceErrors)
