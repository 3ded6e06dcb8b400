"""`copy.copy` and `copy.deepcopy` are the plain call's: interpreted, as machine code, on the simulator."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from acronumba import model
from acronumba.errors import AcronumbaError, InstanceErrors
from tests.support.chosen import by_ways
from tests.support.models_of_copies import CASES, NET, Node
from tests.support.plain_call import WAYS, agree

IDS = [f.__name__ for f, _ in CASES]


@pytest.mark.parametrize(("way", "f", "columns"), by_ways(CASES, IDS, compiled=4, simulated=10))
def test_it_is_the_plain_call(way: str, f: Any, columns: Any) -> None:
    WAYS[way](f, *columns)


def into_what_is_shared(x):
    net = copy.copy(NET)
    net.w[0] = x
    return net.w


def list_of_what_is_shared(x):
    net = copy.copy(NET)
    net.log.append(1)
    return net.log


class OfItsOwn:
    def __deepcopy__(self, memo):
        return self


def deep_of_its_own(x):
    copy.deepcopy(OfItsOwn())
    return x


class Places:
    def __getstate__(self):
        return {}


def state_of_its_own(x):
    copy.copy(Places())
    return x


CHANGES = [
    (into_what_is_shared, "copy.deepcopy|.copy()"),
    (list_of_what_is_shared, ""),
    (deep_of_its_own, ""),
    (state_of_its_own, ""),
]


@pytest.mark.parametrize(("f", "rewrite"), CHANGES, ids=lambda v: getattr(v, "__name__", None))
def test_what_would_differ_is_rejected(f: Any, rewrite: str) -> None:
    with pytest.raises(AcronumbaError) as caught:
        model(f).batch([np.ones(5)])
    assert not isinstance(caught.value, InstanceErrors)
    assert any(part in str(caught.value) for part in rewrite.split("|"))


def grown(t: Node):
    u = copy.deepcopy(t)
    u.value = 1.0
    return u.value


def test_a_deep_copy_of_what_is_recursive_is_rejected() -> None:
    with pytest.raises(AcronumbaError, match=r"copy\.copy"):
        model(grown).batch([Node(1.0, Node(2.0))])


class Two:
    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


@dataclass
class Arrays:
    a: np.ndarray
    b: np.ndarray


@model
def first_changed(x, *, p):
    q = copy.deepcopy(p)
    q.a[0] = x
    return q.a, q.b


def test_one_shared_array_at_two_places_is_rejected() -> None:
    a, b = np.zeros(3), np.zeros(3)
    got = first_changed.batch([1.0, 2.0], p=Two(a, b))
    assert [(u.tolist(), v.tolist()) for u, v in got] == [([x, 0, 0], [0, 0, 0]) for x in (1.0, 2.0)]
    for _ in range(2):
        with pytest.raises(AcronumbaError, match="p"):
            first_changed.batch([1.0, 2.0], p=Two(a, a))
    assert first_changed.batch([3.0], p=Two(a, b))[0][1].tolist() == [0, 0, 0]


def test_one_array_at_two_places_of_an_instance_is_rejected() -> None:
    def changed(t: Arrays):
        u = copy.deepcopy(t)
        u.a[0] = 1.0
        return u.b

    with pytest.raises(AcronumbaError, match="copy"):
        model(changed).batch([Arrays(np.zeros(3), np.zeros(3))])


def test_a_change_of_what_is_shared_begins_with_what_was_there_only_if_asked_to() -> None:
    def forward(x, *, net):
        return net.forward(x)

    with pytest.raises(InstanceErrors) as caught:
        model(forward).batch([np.ones(5)], net=NET)
    assert "ACR118" in str(caught.value.errors[0])
    wanted = copy.deepcopy(NET).forward(np.ones(5))
    agree(list(model(forward, state="initial").batch([np.ones(5)], net=NET)), [wanted], close=True)
