"""Values of several types: their classes, and look-ups by them among keys of other types."""

from __future__ import annotations

import enum
from typing import Any

import pytest

from acronumba import InstanceErrors, TypeMismatch, model
from acronumba.ir.types import INT, TEXT, StrT, union
from tests.support.plain_call import compiled, interpreted

OPS = {"+": lambda a, b: a + b, "-": lambda a, b: a - b}


class Base:
    def __init__(self, x):
        self.x = x


class Derived(Base):
    pass


def class_of(x):
    t = type(x)
    return t is int, t == str, t in (int, float), t.__name__, f"{t}", str(type(x)), "f" if type(x) == float else ""  # noqa: E721


def by_class(x):
    if type(x) is list:
        return len(x)
    if type(x) == Derived:  # noqa: E721
        return x.x
    return type(x) is type(None)


def told(x):
    if not isinstance(x, str):
        raise TypeError(f"expected a string, found {type(x)}")
    return x.upper()


def evaluated(words):
    stack = []
    for x in [w if w in OPS else float(w) for w in words]:
        if x not in OPS:
            stack.append(x)
            continue
        b = stack.pop()
        a = stack.pop()
        stack.append(OPS[x](a, b))
    return stack.pop()


def looked_up(x):
    made = {}
    for key in ("a", "b"):
        made[key] = len(made)
    return x in OPS, x in {"a", "b"}, x in {"a": 1}, x in made, made.get(x, -1), {"a": 3}.get(x, 5)


CASES: list[tuple[Any, list[Any]]] = [
    (class_of, ["a", 1, 2.5, True, None]),
    (by_class, [[1, 2], Derived(5), Base(7), None, 2]),
    (told, ["a", 1, 2.5, "b"]),
    (evaluated, [["1", "2", "+"], ["3"], ["1", "2", "3", "-", "+"], ["1", "x"]]),
    (looked_up, ["+", 1.5, "a", 2.0, "c"]),
    (looked_up, [1.0, 2.5]),
]


@pytest.mark.parametrize(("f", "xs"), CASES)
def test_it_is_the_plain_call(f: Any, xs: list[Any]) -> None:
    compiled(f, xs)
    interpreted(f, xs)


def test_a_string_of_run_time_absorbs_all_constants() -> None:
    assert union(StrT("a"), StrT("b"), INT, TEXT) == union(TEXT, INT) == union(TEXT, StrT("b"), INT)


class Words(enum.Enum):
    ONES = {0: "", 1: "one", 2: "two"}
    TENS = {2: "twenty", 3: "thirty"}
    PAIRS = ((3, "a"), (5, "b"))


class Colour(enum.Enum):
    RED = (255, 0, 0)
    BLUE = (0, 0, 255)


class Mixed(enum.Enum):
    A = 1
    B = 2.5
    C = "x"


def of_known_members(n):
    return Words.ONES.value[n] or "zero", len(Words.PAIRS.value), Words.PAIRS.value[0][0] + n


def of_a_colour(c):
    return c.value[0], sum(c.value), c.value, [2 * x for x in c.value]


def of_any(m):
    return m.value


def of_words(w):
    return w.value.get(2, "?")


MEMBERS: list[tuple[Any, list[Any]]] = [
    (of_known_members, [0, 1, 2, 3]),
    (of_a_colour, [*Colour]),
    (of_any, [*Mixed]),
    (of_words, [Words.ONES, Words.TENS]),
]


@pytest.mark.parametrize(("f", "xs"), MEMBERS)
def test_values_of_members_of_enums(f: Any, xs: list[Any]) -> None:
    compiled(f, xs)
    interpreted(f, xs)


def converted(x):
    try:
        return type(x)(x)
    except TypeError:
        return "wrong"


def converted_by_name(x):
    cls = type(x)
    return [cls(x), cls() if x else cls(x)]


def converted_otherwise(x):
    cls = tuple if type(x) is str else str
    try:
        return cls(x)
    except TypeError:
        return "wrong"


@pytest.mark.parametrize("f", [converted, converted_by_name])
@pytest.mark.parametrize("xs", [["a", (1,)], [1, (1,), "a", 1.5], [(1,), (2, 3)], [[1], (2,), {3}]])
def test_calls_of_the_class_of_a_value_convert_each_case_by_its_own(f: Any, xs: list[Any]) -> None:
    compiled(f, xs)


def test_a_clause_does_not_catch_what_only_the_batch_cannot_do() -> None:
    with pytest.raises(InstanceErrors) as info:
        model(converted_otherwise).batch([(1,), "a"])
    assert info.value.results[0] == "(1,)"
    assert isinstance(info.value.errors[1], TypeMismatch)
