"""Code as people have it gives what the plain call gives: interpreted, as machine code, on the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba import model
from acronumba.errors import AcronumbaError, InstanceErrors
from tests.support.chosen import by_ways
from tests.support.models_of_habits import CASES, Y, counting
from tests.support.plain_call import WAYS

IDS = [f.__name__ for f, _ in CASES]


@pytest.mark.parametrize(("way", "f", "columns"), by_ways(CASES, IDS, compiled=12, simulated=20))
def test_it_is_the_plain_call(way: str, f: Any, columns: Any) -> None:
    WAYS[way](f, *columns)


def walk(path, n):
    if n > 0:
        path.append(n)
        yield path
        yield from walk(path, n - 1)


def recursive(n):
    return list(walk([], n))


def sent(n):
    def parts():
        x = yield n
        return x

    return list(parts())


@pytest.mark.parametrize(
    ("f", "code", "seen"),
    [
        (recursive, "ACR104", "path, which walk, a generator that calls itself, changes later"),
        (sent, "ACR104", ""),
        (counting, "ACR104", "counting yields"),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_rejected(f: Any, code: str, seen: str) -> None:
    with pytest.raises(AcronumbaError) as caught:
        model(f).batch([3, 4])
    assert caught.value.code == code
    assert seen in str(caught.value)


def new_key(y):
    d = {100: 1}
    d[y[0]] = 1
    return d


def new_float_key(n, x):
    d = {0: n}
    d[[n, x][n % 2]] = 1
    return d


def test_a_new_key_of_another_kind_fails_its_instance() -> None:
    with pytest.raises(InstanceErrors) as caught:
        model(new_key).batch(Y)
    assert "a new key of type np.int64 among keys of type int" in str(caught.value.errors[0])
    with pytest.raises(InstanceErrors) as caught:
        model(new_float_key).batch([1, 2, 3], [0.5, 0.5, 0.0])
    assert "a new key that is a float" in str(caught.value.errors[0])
    assert list(caught.value.errors) == [0]
    assert caught.value.results[1:] == [{0: 2, 2: 1}, {0: 1}]


def test_keys_are_numpy_integers_of_their_dtype() -> None:
    got = model(lambda y: dict.fromkeys(y, 1)).batch([np.array([1, 2], np.int16)])[0]
    assert [type(k) for k in got] == [np.int16, np.int16]
