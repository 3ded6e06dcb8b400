"""What Python decides about values that are known when a model is compiled, and about places that are changed."""

# ruff: noqa: E721, SIM300 -- the models here write what users write

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from acronumba import model
from acronumba.errors import AcronumbaError
from tests.support.plain_call import agree, outcomes, plain

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


class Mode(enum.IntEnum):
    OFF = 0
    ON = 1
    MORE = 2


class Bits(enum.IntFlag):
    NONE = 0
    ONE = 1
    TWO = 2


class Marks(enum.Flag):
    NONE = 0
    ONE = 1


class Plain(enum.Enum):
    ZERO = 0
    ONE = 1


class Asked(enum.Enum):
    NO = 0
    YES = 1

    def __bool__(self):
        return self.value == 1


class Sized(enum.Enum):
    NO = 0

    def __len__(self):
        return 0


class Color(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Height(float, enum.Enum):
    LOW = 0.0
    HIGH = 1.5


class Odd(enum.Enum):
    A = 0
    B = 1

    def __eq__(self, other):
        return True

    __hash__ = enum.Enum.__hash__


class Text(str):
    pass


class Place(NamedTuple):
    row: int
    column: int


@dataclass
class Sack:
    n: int

    def __len__(self):
        return self.n


@dataclass
class Doubt:
    n: int

    def __bool__(self):
        return self.n > 0


AT = (0, 1)
ONE = 1
PLACE = Place(1, 2)


def same(f: Callable[..., Any], columns: list[Any], **shared: Any) -> None:
    """Check that a batch gives what the plain call gives."""
    agree(outcomes(model(f).batch, columns, **shared), plain(f, columns, **shared))


def rejected(f: Callable[..., Any], columns: list[Any], code: str, **shared: Any) -> None:
    """Check that a model is rejected with a code."""
    with pytest.raises(AcronumbaError) as caught:
        model(f).batch(columns, **shared)
    assert code in str(caught.value)


# ---- truth


def chosen(m):
    return 1 if m else 2


def denied(m):
    return not m


def called(m):
    return bool(m)


def either(m):
    return 7 if (m or False) else 5


def turns(m):
    k = 0
    while m and k < 3:
        k += 1
    return k


def whole(m):
    return any([m, m]), all([m, m])


@pytest.mark.parametrize("f", [chosen, denied, called, either, turns, whole])
@pytest.mark.parametrize("cls", [Mode, Plain, Asked, Color])
def test_truth_of_member(f, cls):
    same(f, list(cls))


def by_shared(x, *, m):
    return x if m else -x


@pytest.mark.parametrize("m", [*Mode, Bits.NONE, Bits.ONE, Marks.NONE, Marks.ONE, *Plain, *Asked, *Color])
def test_truth_of_shared_member(m):
    same(by_shared, [X], m=m)


def by_constant(x):
    return x if Mode.OFF else -x, bool(Bits.NONE), not Mode.ON, Mode.OFF or 5


def test_truth_of_constant_member():
    same(by_constant, [X])


def test_truth_of_member_by_length():
    rejected(chosen, list(Sized), "ACR209")


@pytest.mark.parametrize("p", [Sack(0), Sack(1), Doubt(0)])
def test_truth_of_shared_object(p):
    same(by_shared, [X], m=p)
    same(chosen, [p, p])


# ---- indices


def by_index(x, *, at):
    return x[at]


def by_global(x):
    return x[AT], x[PLACE], x[AT[0]], x[AT, ...]


def by_either(x):
    at = AT if x[0, 0] > 0 else None
    return x[at]


@pytest.mark.parametrize("at", [(0, 1), (1,), Place(1, 0), (), [0, 1], 1])
def test_shared_index(at):
    same(by_index, [X], at=at)


def test_global_index():
    same(by_global, [X])
    same(by_either, [X, -X])


# ---- augmented assignments


def two_names(n):
    a = [n]
    b = a
    b += [1]
    return a


def of_row(n):
    rows = [[n], [2], [3]]
    first = rows[n % 3]
    rows[n % 3] += [n]
    return first, rows


def of_first(n):
    a = [[n], [n, 2]]
    b = a[0]
    a[0] += [5]
    return a, b


def grow(rows):
    rows += [4]
    return 0


def of_argument(n):
    rows = [n]
    grow(rows)
    return rows


def of_itself(n):
    a = [n, 2]
    b = a
    a += a
    return b


def once(n):
    l, at = [n, 2, 3], [0, 1]
    l[at.pop()] += 10
    return l, at


def once_named(n):
    l, k = [n, 2, 3, 4], 0
    l[(k := k + 1)] += 10
    return l, k


def push(at):
    at.append(1)
    return len(at)


def once_called(n):
    l, at = [n, 2, 3, 4], [0]
    l[push(at)] += 10
    return l, at


@pytest.mark.parametrize("f", [two_names, of_row, of_first, of_argument, of_itself, once, once_named, once_called])
def test_augmented(f):
    same(f, [1, 2, 5])


def twice(n):
    a = [n]
    b = a
    a *= 2
    return b


def twice_of_row(n):
    rows = [[n], [2]]
    rows[n % 2] *= 2
    return rows


@dataclass
class Total:
    n: int

    def __add__(self, other):
        return Total(self.n + other)

    def __iadd__(self, other):
        return self


def own_operator(n):
    t = Total(n)
    t += 1
    return t.n


@pytest.mark.parametrize("f", [twice, twice_of_row])
def test_augmented_rejected(f):
    rejected(f, [1, 2], "ACR209")


def test_own_operator():
    same(own_operator, [1, 2])


def shared_grows(x, *, rows):
    r = rows
    r += [1.0]
    return x


def test_shared_list_is_not_changed():
    rejected(shared_grows, [X], "ACR113", rows=[X, X])
    rejected(shared_grows, [X], "ACR113", rows=[1.0])


# ---- strings and enums


def test_text_of_member():
    same(lambda c: (c == "red", c != "red", "red" == c, c in ("red",), c in ("blue", "x")), list(Color))
    same(lambda c: (c is Color.RED, c < "c", c == None, "red" in (c, 1)), list(Color))  # noqa: E711


def shared_text(x, *, c):
    return x if c == Color.RED else -x, c == "red", c in ("red", "y")


@pytest.mark.parametrize("c", ["red", "blue", *Color])
def test_shared_text(c):
    same(shared_text, [X], c=c)


def test_string_of_its_own_class():
    rejected(shared_text, [X], "ACR501", c=Text("red"))


def test_member_compared():
    same(lambda m: (m == 1, m is ONE, m == Plain.ONE, m == "ON", m == Mode.ON), list(Mode))
    same(lambda m: (m == 1, m == "ONE", m is Plain.ONE, m != Plain.ONE, m is None), list(Plain))
    same(lambda m: (1 == m, 1 > m, m in (2, 1), m in (None, "a")), list(Mode))
    same(lambda m: (m == 1.5, m == "a", m in (1, None)), [*Height])
    same(lambda n: (n == Mode.ON, n > Mode.ON, n in (Mode.OFF, 7)), [0, 1, 7])
    rejected(lambda m: m == Odd.A, list(Odd), "ACR209")


# ---- what is known when a model is compiled


def known(x):
    a = x.dtype == "float32", x.dtype != "float32", "float32" == x.dtype, x.dtype in ("float32", "f4")
    b = x.dtype is np.float32, x.dtype == np.float32, x.dtype in (np.float64, np.float32)
    c = type(x) is np.ndarray, type(x) == np.ndarray, type(x).__name__ == "ndarray", x.nbytes
    return a, b, c


def test_known():
    same(known, [X])


@pytest.mark.parametrize(
    ("f", "code"),
    [
        (lambda x: x.base is None, "ACR209"),
        (lambda x: x.strides == (12, 4), "ACR209"),
        (lambda x: x.flags, "ACR209"),
        (lambda x: x.ndim.__class__ is int, "ACR209"),
        (lambda x: isinstance(x.dtype, np.dtype), "ACR308"),
        (lambda x: x.dtype == x.sum(), "ACR301"),
        (lambda x: x.sum == x.sum, "ACR301"),
    ],
)
def test_unknown(f, code):
    rejected(f, [X], code)


@model
def tuple_repeated_by_scalar(n):
    return (1, n) * np.int64(2), (n,) * len(range(n)), np.int64(n) * (1, 2)


def test_tuple_repeated_by_scalar():
    agree(outcomes(tuple_repeated_by_scalar._interpret, [3, 0, 2]), plain(tuple_repeated_by_scalar, [3, 0, 2]))
