"""Empty lists and dicts in what a call makes, which are filled later where they lie: in tuples, beside unlike things.

Each model runs by every way: interpreter, machine code, simulator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba import TypeMismatch, model
from tests.support.chosen import one_in
from tests.support.everywhere import same_everywhere

XS = [np.arange(4, dtype=np.float32) + k for k in range(3)]
NS = [1, 3, 2]


def list_beside_an_array_in_a_dict(x: Any, n: int) -> Any:
    d: Any = {}
    d["l"] = []
    d["x"] = x
    for k in range(n):
        d["l"].append(k)
    return d["l"], d["x"] * 2


def by_computed_keys(x: Any, n: int) -> Any:
    d: Any = {}
    for k in range(n):
        d[k] = []
    d[7] = x
    for k in range(n):
        d[k].append(x * k)
    return d


def in_a_tuple_in_a_dict(x: Any, n: int) -> Any:
    seen: Any = {}
    for k in range(n):
        key = "odd" if k % 2 else "even"
        if key not in seen:
            seen[key] = (x + k, [])
        seen[key][1].append(k)
    return seen


def in_a_list_of_unlike_things(x: Any, n: int) -> Any:
    row: Any = []
    row.append([])
    row.append(x)
    for k in range(n):
        row[0].append(k)
    return row


def in_tuples_in_a_list(x: Any, n: int) -> Any:
    stack: Any = []
    for k in range(n):
        stack.append((k, [], x))
    for k, found, y in stack:
        found.append(y[k])
    stack[-1][1].append(x[3])
    return stack


def deeper(x: Any, n: int) -> Any:
    d: Any = {}
    d["a"] = (n, [[]])
    d["b"] = 1.5
    d["a"][1][0].append(x)
    return d["a"][1][0][0], d


def dict_in_a_tuple(x: Any, n: int) -> Any:
    out: Any = []
    for k in range(n):
        out.append((k, {}))
    for k in range(n):
        out[k][1][k] = x
        out[k][1][k + 1] = x * 2
    return out


def list_in_a_dict_of_a_dict(x: Any, n: int) -> Any:
    d: Any = {}
    d[0] = {}
    d[1] = {}
    d[0]["l"] = []
    for k in range(n):
        d[0]["l"].append(x[k])
    return d


class Holder:
    def __init__(self, x: Any) -> None:
        self.pair = (x, [])
        self.either: Any = None


def in_a_field(x: Any, n: int) -> Any:
    h = Holder(x)
    h.either = [] if n > 1 else n
    for k in range(n):
        h.pair[1].append(k)
    return h.pair, len(h.pair[1]), h.either


def alternative_in_a_field(x: Any, n: int) -> Any:
    h = Holder(x)
    if n > 1:
        h.either = []
        h.either.append(x)
    return h.either


MODELS = [
    list_beside_an_array_in_a_dict, by_computed_keys, in_a_tuple_in_a_dict, in_a_list_of_unlike_things,
    in_tuples_in_a_list, deeper, dict_in_a_tuple, list_in_a_dict_of_a_dict, in_a_field, alternative_in_a_field,
]  # fmt: skip


@pytest.mark.parametrize("f", one_in(2, MODELS), ids=lambda f: f.__name__)
def test_what_is_empty_inside_may_be_filled(f: Any) -> None:
    same_everywhere(model(f), XS, NS)


def one_of_two(x: Any, n: int) -> Any:
    d: Any = {}
    key = "l" if n > 7 else "m"
    d[key] = []
    d["x"] = x
    found = d[key]
    if n > 1:
        found = []
    found.append(n)
    return d


def test_a_list_of_which_nothing_is_known_is_named() -> None:
    with pytest.raises(TypeMismatch, match="a change of `found`, an empty list") as caught:
        model(one_of_two).batch(XS, NS)
    assert caught.value.code == "ACR303" and "Never" not in str(caught.value)
