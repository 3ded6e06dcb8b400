"""Dicts that hold functions beside numbers and others; `vars(math)`, `getattr(math, name)`; as in the plain call."""

from __future__ import annotations

import math
import operator
from typing import Any

import pytest

from acronumba import InstanceErrors, model
from acronumba.errors import AcronumbaError
from tests.support.plain_call import agree, outcomes, plain

ENVIRONMENT = {"pi": 3.5, "sin": math.sin, "sq": lambda v: v * v, "name": "env", "+": operator.add, "none": None}
OTHERS: dict[str, Any] = {"a": 1.5, "f": math.sin, "object": object(), "module": math, "open": open}


def same(f: Any, *columns: Any) -> None:
    agree(outcomes(model(f).batch, *columns), plain(f, *columns))


def value_of(x, name):
    v = ENVIRONMENT[name]
    return v(x) if callable(v) else v


def evaluate(t):
    """Evaluate a formula of names, numbers and lists."""
    if isinstance(t, str):
        return ENVIRONMENT[t]
    if not isinstance(t, list):
        return t
    return ENVIRONMENT[t[0]](evaluate(t[1]))


def test_functions_beside_numbers() -> None:
    same(value_of, [1.0, 2.0, 3.0, 4.0, 5.0], ["pi", "sin", "sq", "name", "none"])
    same(lambda x, name: ENVIRONMENT[name](x), [1.0, 2.0, 3.0], ["sin", "sq", "pi"])
    same(lambda x, name: ENVIRONMENT.get(name) is None, [1.0, 2.0, 3.0], ["sin", "none", "zz"])
    same(lambda n: (math.sin if n > 1 else 2.5) if n < 3 else 1, [0, 3])


def test_values_that_cannot_be_read_fail_alone() -> None:
    def f(x, name):
        v = OTHERS[name]
        return v * x if name == "a" else v(x)

    xs, names = [1.0, 2.0, 3.0, 4.0], ["a", "f", "object", "open"]
    with pytest.raises(InstanceErrors) as caught:
        model(f).batch(xs, names)
    assert sorted(caught.value.errors) == [2, 3]
    assert isinstance(caught.value.errors[2], TypeError)  # as in the plain call
    assert isinstance(caught.value.errors[3], AcronumbaError)
    assert [caught.value.results[k] for k in (0, 1)] == [f(1.0, "a"), f(2.0, "f")]
    same(lambda x: (OTHERS["a"] * x, OTHERS["f"](x), "open" in OTHERS, len(OTHERS)), xs)


def test_names_of_modules() -> None:
    same(lambda name: callable(vars(math)[name]), ["sin", "pi", "foo"])
    same(lambda x: (math.__dict__["sin"](x), vars(math)["pi"], "sin" in vars(math)), [1.0])
    same(lambda x, name: getattr(math, name)(x), [1.0, 2.0, 3.0, 4.0], ["sin", "exp", "foo", "pi"])
    same(lambda name: (getattr(math, name, None) is None, hasattr(math, name)), ["sin", "foo"])


def ranges(n):
    r = range(1, n, 2)
    return r, {"r": range(n)}, list(r)


def test_ranges_as_results() -> None:
    same(ranges, [0, 5, 3])
    same(lambda n: range(n, 0, -1), [0, 5])
