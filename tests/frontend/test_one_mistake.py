"""One mistake is rejected once, with a rewrite that works; what follows from it is not rejected, too."""

# ruff: noqa: RUF005 -- models in the styles that people write

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from acronumba import model
from acronumba.errors import AcronumbaError


class Net:
    def __init__(self) -> None:
        self.w = np.eye(3)


NET = Net()


def negative_of_what_is_rejected(x):
    y = -np.msort_of(x)
    z = [y + 1, 2]
    for v in z:
        y = v
    return np.tanh(y) * z[0]


def array_of_what_is_shared(x):
    NET.w[0] = x
    return NET.w


def array_that_came_in(x):
    x[0] = 1.0
    return x


def growing_key(x):
    beam = {(): 0.0}
    for i in range(len(x)):
        new = {}
        for k, v in beam.items():
            new[k + (x[i],)] = v + 1.0
        beam = new
    return len(beam)


def changed_list_as_a_record(x):
    every = [[[], "a"]]
    for _ in range(3):
        every = sorted([[[*s, 1], v + "b"] for s, v in every], key=lambda e: e[1])
        every[0][1] = "c"
    return len(every)


MISTAKES = [
    (negative_of_what_is_rejected, "msort_of", ""),
    (array_of_what_is_shared, "float64[3, 3]", "own = copy.deepcopy(NET)"),
    (array_that_came_in, "float64[?]", "x = x.copy()"),
    (growing_key, "a key float64[]", "an int, bool"),
    (changed_list_as_a_record, "list", "a tuple"),
]


@pytest.mark.parametrize(("f", "seen", "rewrite"), MISTAKES, ids=lambda v: getattr(v, "__name__", None))
def test_one_mistake_is_rejected_once(f: Callable[..., Any], seen: str, rewrite: str) -> None:
    with pytest.raises(AcronumbaError) as caught:
        model(f).batch([np.ones(3)])
    text = str(caught.value)
    assert "errors)" not in text, text
    assert seen in text and rewrite in text


@model
def changed(x, *, p):
    p["a"][0] = x
    return p["a"]


@model
def rewritten(x, *, p):
    p = copy.deepcopy(p)
    p["a"][0] = x
    return p["a"]


def test_what_is_shared_is_copied_whole() -> None:
    p = {"a": np.zeros(2), "b": np.ones(2)}
    with pytest.raises(AcronumbaError, match=r"p = copy\.deepcopy\(p\)"):
        changed.batch([1.0], p=p)
    assert [r.tolist() for r in rewritten.batch([1.0, 2.0], p=p)] == [[1.0, 0.0], [2.0, 0.0]]
    assert p["a"].tolist() == [0.0, 0.0]
