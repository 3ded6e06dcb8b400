"""Operations that Python rejects for values of these types: they fail in the instances that get there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from acronumba import AcronumbaError, InstanceErrors, model
from tests.support.plain_call import compiled, plain

HEADER = """
import math
from dataclasses import dataclass

import numpy as np


@dataclass
class Point:
    x: float

    def norm(self):
        return abs(self.x)


class Bare:
    def __init__(self, x):
        self.x = x


def helper(a, b=1):
    return a + b


P, B, W = Point(1.0), Bare(2.0), np.ones((3, 4))


"""
FAILING = [
    "None < 3", "3 >= None", '"a" < 1', "{} < {}", "[1] < (1,)", "P < P", "B <= 1", "None + 1", '"a" + 1',
    "[1] + (2,)", "1.5 << 8", "1.5 | x", "~1.5", '-"a"', "-None", "P + 1", "B @ B", "NONE[0]", "ONE[0]",
    "[1, 2][P.x]", "(1, P)[TEXT]", "B[0]", "P.nothing", "B.nothing", "None.x", "(1).nothing", "[1].nothing",
    '"a".nothing', "W.nothing", "P.norm(1)", "x()", "P()", "len(5)", "len(None)", "sum(3)", "max(3)", "sorted(3)",
    "abs(None)", "abs([])", "round(None)", "float(None)", "int([1])", "range(1.5)", "math.sqrt(None)",
    'math.exp("a")', "1 in 4", "3 in None", "helper()", "helper(1, 2, 3)", "helper(a=1, c=2)", "[k for k in 7]",
    "list(3)", 'np.exp("a")', "W @ W", "W @ np.ones(3)", "W + np.ones(3)", "W.reshape(5, 2)", "W.sum(axis=2)",
    "W.transpose(0, 2)", "np.concatenate([W, np.ones(3)])", "W < None", "W << 1", "helper(None)", "any(None)",
    "isinstance(P.nothing, int)", "not P.nothing", "[P.nothing, 1][1]", "{1: P.nothing}[1]", "P.nothing if x else 1",
    "x and None + 1", "[*P.nothing, *x]",
]  # fmt: skip
SHAPES = (ValueError, IndexError)  # NumPy's own, of which `ShapeMismatch` is one


def function(text: str, module_of: Callable[[str], Any]) -> Any:
    return module_of(HEADER.replace("P, B", "NONE, ONE, TEXT = None, 1, 'a'\nP, B", 1) + text).f


@pytest.mark.parametrize("first", range(0, len(FAILING), 12))
def test_an_operation_that_python_rejects_fails_where_an_instance_gets(first: int, module_of: Any) -> None:
    texts = FAILING[first : first + 12]
    lines = "".join(f"    if x == {k + 1}:\n        y = {text}\n" for k, text in enumerate(texts))
    f = function(f"def f(x):\n    y = None\n{lines}    return x * 2\n", module_of)
    columns = [*range(len(texts) + 1), 0]
    with pytest.raises(InstanceErrors) as caught:
        model(f)._interpret(columns)
    assert [*caught.value.errors] == list(range(1, len(texts) + 1))
    assert [caught.value.results[k] for k in (0, -1)] == [0, 0]
    for k, theirs in enumerate(plain(f, columns[1:-1]), 1):
        mine = caught.value.errors[k]
        kind = SHAPES if isinstance(theirs, SHAPES) else type(theirs)
        assert isinstance(mine, kind), f"{texts[k - 1]}: {mine!r}, not {theirs!r}"
        assert texts[k - 1].startswith("helper(N") or mine.line == f.__code__.co_firstlineno + 1 + 2 * k


@pytest.mark.parametrize("first", range(0, len(FAILING), 12))
def test_it_is_rejected_if_all_instances_get_there(first: int, module_of: Any) -> None:
    for text in FAILING[first : first + 12]:
        if "x else" in text or "x and" in text:
            continue
        f = function(f"def f(x):\n    y = {text}\n    return x * 2\n", module_of)
        with pytest.raises(AcronumbaError) as caught:
            model(f)._interpret([1, 2])
        codes = ("ACR203", "ACR301", "ACR305", "ACR307", "ACR401", "ACR402", "ACR404")
        assert caught.value.code in codes, text
        assert text.startswith("helper(N") or caught.value.line == f.__code__.co_firstlineno + 1


class Plain:
    def __init__(self, k: int, **more: Any) -> None:
        self.k = k
        vars(self).update(more)


def with_attribute(x: Any) -> Any:
    return x.extra if x.k > 3 else x.k


def test_an_attribute_that_no_object_has_may_be_there_in_the_next_batch() -> None:
    m = model(with_attribute)
    for _ in range(2):
        with pytest.raises(InstanceErrors) as caught:
            m.batch([Plain(1), Plain(5)])
        assert isinstance(caught.value.errors[1], AttributeError)
        assert list(m.batch([Plain(1), Plain(5, extra=7)])) == [1, 7]


def best_of(xs: list[float]) -> float | None:
    best = None
    for x in xs:
        best = best + x if x > 0 else best
    return best


def value_of(x: Any) -> Any:
    return x * 2 + 1


def test_what_fails_in_some_instances_is_right_in_the_others() -> None:
    compiled(best_of, [[], [-1.0], [1.0], [-1.0, 2.0]])
    compiled(value_of, [1, 2.5, None, True, None, 3])


def test_explain_says_where_instances_fail() -> None:
    text = str(model(best_of).explain([[], [-1.0]]))
    assert "fails: TypeError where an instance gets here" in text.replace("\n", " ")


def deep(n: int) -> Any:
    if n == 0:
        return None + 1
    return deep(n - 1)


def test_a_recursion_that_can_only_fail_is_rejected() -> None:
    with pytest.raises(AcronumbaError, match="ACR301"):
        model(deep).batch([1, 2])
