"""Dicts and sets made in the call are the plain call's: interpreted, as machine code, on the simulator."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from acronumba import model
from acronumba.errors import AcronumbaError, InstanceErrors
from tests.support.chosen import by_ways
from tests.support.models_of_dicts import CASES
from tests.support.plain_call import WAYS, agree, outcomes, plain

IDS = [f.__name__ for f, _ in CASES]


@pytest.mark.parametrize(("way", "f", "columns"), by_ways(CASES, IDS, compiled=8, simulated=12))
def test_it_is_the_plain_call(way: str, f: Any, columns: Any) -> None:
    WAYS[way](f, *columns)


def by_key(k: int) -> Any:
    d = {}
    d[k] = 1
    d[k + 1] = 2
    return d


def test_other_keys_do_not_recompile(monkeypatch: pytest.MonkeyPatch) -> None:
    from acronumba.pipeline.compiled import Compiled

    made = []
    first = Compiled.__init__
    monkeypatch.setattr(Compiled, "__init__", lambda self, *a, **k: (made.append(1), first(self, *a, **k))[1])
    f = model(by_key)
    for k in range(1000):
        assert f.batch([k])[0] == {k: 1, k + 1: 2}
    assert len(made) == 1


def many(n: int) -> Any:
    d = {}
    for i in range(n):
        d[i * 7919 % 100003, i % 3] = i
    found = 0
    for i in range(n):
        if (i, 1) in d:
            found += d[i, 1]
    for i in range(0, n, 50):
        d.pop((i * 7919 % 100003, i % 3))
    return found, len(d), sum(d.values())


def test_a_dict_that_grows_large() -> None:
    sizes = [0, 1, 8, 9, 5000]
    agree(outcomes(model(many).batch, sizes), plain(many, sizes))


def float_key(x):
    return {x * 0.5: 1}


def both_kinds(n):
    return {n: 1, n > 1: 2}


def array_key(x):
    d = {}
    d[np.ones(2)] = x
    return d


def changed_default(n, memo={}):
    memo[n] = 1
    return memo


def stored_counter(n):
    return [Counter([n])]


@pytest.mark.parametrize(
    "f",
    [float_key, both_kinds, array_key, changed_default, stored_counter],
    ids=lambda f: f.__name__,
)
def test_what_would_differ_is_rejected(f: Any) -> None:
    with pytest.raises(AcronumbaError) as caught:
        model(f).batch([1, 3])
    assert not isinstance(caught.value, InstanceErrors)
    assert "instead:" in str(caught.value)


FROZEN = frozenset({1, 3})


def of_a_global(n):
    return n in FROZEN


def made(n):
    return n in frozenset([1, n])


def of_instances(s):
    return 1 in s


@pytest.mark.parametrize(("f", "column"), [(of_a_global, [1]), (made, [1]), (of_instances, [FROZEN])])
def test_the_rewrite_of_a_frozenset_is_a_set(f: Any, column: Any) -> None:
    with pytest.raises(AcronumbaError, match=r"instead: .*set\(x"):
        model(f).batch(column)
