"""NaN among elements: Python asks first whether two are one object. A model says the same, or rejects."""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, InstanceErrors, model

NAN = math.nan


@dataclasses.dataclass
class Held:
    value: float
    rest: int = 0


@dataclasses.dataclass
class Odd:
    """Does not even equal itself; lists say that it does."""

    value: float

    def __eq__(self, other: object) -> bool:
        return False


@dataclasses.dataclass
class Box:
    items: list[Odd]


# Each with whether NaN meets NaN, if the given number and an element of the given list are NaN.
MEETS: dict[str, tuple[Callable[[float, list[float]], Any], bool]] = {}


def case(meets: bool) -> Callable[[Callable[[float, list[float]], Any]], Callable[[float, list[float]], Any]]:
    def keep(f: Callable[[float, list[float]], Any]) -> Callable[[float, list[float]], Any]:
        MEETS[f.__name__] = f, meets
        return f

    return keep


@case(True)
def in_a_list(v, xs):
    return v in xs


@case(True)
def not_in_a_tuple(v, xs):
    return v not in (1.5, xs[1])


@case(True)
def counted(v, xs):
    return xs.count(v)


@case(True)
def placed(v, xs):
    return (*xs, 7.0).index(v) if v in (1.0, xs[1]) else -1


@case(True)
def removed(v, xs):
    ys = [*xs, 2.0]
    if v == v or xs[1] != xs[1]:
        ys.remove(v)
    return len(ys)


@case(True)
def in_a_deque(v, xs):
    return v in deque(xs)


@case(True)
def equal_lists(v, xs):
    return [1.0, v] == xs, [1.0, v] != xs


@case(True)
def equal_tuples(v, xs):
    return (1.0, v) == (xs[0], xs[1])


@case(True)
def ordered_tuples(v, xs):
    return (v, 1) < (xs[1], 2), [v] <= [xs[1]]


@case(True)
def equal_dicts(v, xs):
    return {"a": v} == {"a": xs[1]}


@case(True)
def equal_dicts_of_run_time(v, xs):
    a, b = {}, {}
    for k in range(2):
        a[k] = v
        b[k] = xs[1]
    return a == b


@case(True)
def equal_objects(v, xs):
    return Held(v) == Held(xs[1])


@case(True)
def objects_in_a_list(v, xs):
    return Held(v) in [Held(x) for x in xs]


@case(True)
def numpy_scalars(v, xs):
    a = np.array(xs) * 1.0
    return a[1] in [v * a[0], v + a[0]]


@case(True)
def none_or_a_number(v, xs):
    y = xs[1] if xs[0] > 0.0 else None
    return v in (y, None)


@case(False)
def the_operator(v, xs):
    return v == xs[1], v != xs[1], v < xs[1]


@case(False)
def after_a_difference(v, xs):
    return (1, v) == (2, xs[1]), (1, v) < (2, xs[1]), [1, v] == [2, xs[1]], ((1,), (v,)) == ((2,), (xs[1],))


@case(False)
def of_other_lengths(v, xs):
    return [v] == [xs[1], 1.0], (v,) == (xs[1], 1.0)


@case(False)
def with_others(v, xs):
    return v in [1.0, 2.0], [v].count(3.0), v in [1, 2]


INPUTS = [(1.0, [1.0, 1.0]), (2.0, [1.0, 3.0]), (NAN, [1.0, 2.0]), (1.0, [1.0, NAN]), (NAN, [1.0, NAN])]


def told(run: Callable[[], Any]) -> Any:
    """Return results, or None for an instance that is rejected."""
    try:
        return list(run())
    except InstanceErrors as caught:
        errors, results = caught.errors, caught.results
    assert all(isinstance(e, AcronumbaError) and e.code == "ACR117" for e in errors.values()), errors
    assert all("isnan" in str(e) and e.line for e in errors.values())
    return [None if k in errors else r for k, r in enumerate(results)]


@pytest.mark.parametrize("name", sorted(MEETS))
def test_it_is_the_plain_call_or_rejected(name: str) -> None:
    fn, meets = MEETS[name]
    f, columns = model(fn), tuple(map(list, zip(*INPUTS, strict=True)))
    wanted = [fn(*given) for given in INPUTS[:-1]] + [None if meets else fn(*INPUTS[-1])]
    assert told(lambda: f._interpret(*columns)) == wanted
    assert told(lambda: f.batch(*columns)) == wanted


def test_an_object_that_is_given_is_itself_whatever_it_says() -> None:
    @model
    def f(box: Box, k: int) -> Any:
        x = box.items[k]
        return x in box.items, box.items.count(x), box.items.index(x), x == x, [x] == [box.items[0]]

    boxes = [Box([Odd(1.0), Odd(NAN), Odd(2.0)]) for _ in range(3)]
    wanted = [f(box, k) for k, box in enumerate(boxes)]
    assert wanted[1] == (True, 1, 1, False, False)
    assert list(f.batch(boxes, [0, 1, 2])) == wanted and f._interpret(boxes, [0, 1, 2]) == wanted
