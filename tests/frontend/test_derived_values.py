"""What operators do with members of an `IntEnum` and NamedTuples; ints and dtypes that are known when compiled."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from acronumba import AcronumbaError, model
from acronumba.api.results import equal


class Part(enum.IntEnum):
    HEAD = 1
    BODY = 2


AXES = (0, 1)
OF_AXES = {"both": (0, 2), "deep": [((1, 0, 2), 5)]}


class Pair(NamedTuple):
    a: Any
    b: Any


class Odd(enum.IntEnum):
    A = 1

    def __add__(self, other: Any) -> Any:
        return 100


@dataclass
class Given:
    x: Any
    part: Part
    pair: Pair


@model
def members_compute(o: Given) -> Any:
    k = o.part
    return (
        k + 1, 2 - k, k * k, k / 2, -k, +k, ~k, abs(k), k // 2, k % 2, k**2, k << 1, k & 1, Part.BODY + Part.HEAD,
        1.5 * Part.BODY, o.x * (Part.BODY + 1),
    )  # fmt: skip


@model
def named_tuples_add(o: Given) -> Any:
    made, more = Pair(o.x, 1), (o.x,)
    return made + more, more + made, made + made, made * 2, o.pair + more, more + o.pair, o.pair + o.pair


@model
def axes_of_globals(o: Given) -> Any:
    y = np.ones((2, 3, 4), np.float32) * o.x
    (order, _), *_ = OF_AXES["deep"]
    return y.sum(axis=AXES), y.sum(axis=AXES[1]), y.max(axis=OF_AXES["both"]), np.transpose(y, order)


@model
def dtypes_made(o: Given) -> Any:
    kind = np.dtype("f8")
    return o.x.astype(kind), np.zeros(2, np.dtype(np.int8)), np.dtype(o.x.dtype) == np.float32, kind.itemsize


@pytest.mark.parametrize("f", [members_compute, named_tuples_add, axes_of_globals, dtypes_made], ids=str)
def test_what_python_computes_with_what_is_derived(f: Any) -> None:
    data = [Given(np.float32(2.5), part, Pair(k, 2.0)) for k, part in enumerate((Part.HEAD, Part.BODY))]
    for mine, wanted in zip(f.batch(data), map(f, data), strict=True):
        assert equal(mine, wanted) and [type(v) for v in mine] == [type(v) for v in wanted]


def test_axes_of_globals_are_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    data = [Given(np.float32(2.5), Part.BODY, Pair(1, 2.0))]
    for axes in ((0, 1), (1, 2), (0, 2)):
        monkeypatch.setitem(axes_of_globals.__wrapped__.__globals__, "AXES", axes)
        assert equal(axes_of_globals.batch(data)[0], axes_of_globals(data[0]))


@model
def odd_addition(o: Given) -> Any:
    return Odd.A + 1


@model
def strong_member(o: Given) -> Any:
    return o.x * Part.BODY


@model
def no_dtype(o: Given) -> Any:
    return o.x.astype(np.dtype("nothing"))


@pytest.mark.parametrize("f", [odd_addition, strong_member, no_dtype], ids=str)
def test_what_would_be_something_else_is_rejected(f: Any) -> None:
    with pytest.raises(AcronumbaError, match=r"ACR[23]0"):
        f.batch([Given(np.float32(2.5), Part.BODY, Pair(1, 2.0))])
