"""Structs, texts, missing values and lists of lists of Arrow: objects of annotated classes. Skipped without pyarrow."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import numpy as np
import pytest

from acronumba import AcronumbaError, InstanceErrors, Packed, model, pack
from acronumba.api.results import equal
from acronumba.data.arrow import column_of
from acronumba.data.hints import OBSERVED, read_hint

pa = pytest.importorskip("pyarrow")


@dataclass
class Point:
    x: float
    y: int


class Pair(NamedTuple):
    first: Point
    label: str


@dataclass(frozen=True)
class Shape:
    points: list[Point]
    centre: Point | None
    weights: list[list[float]]


class Row(TypedDict):
    a: int
    b: str


@dataclass
class Doubled:
    x: float

    def __post_init__(self) -> None:
        self.x *= 2


@dataclass
class Vector:
    x: np.ndarray
    word: int = 3


POINTS = [{"x": float(k), "y": k} for k in range(4)]
SHAPES = [
    {"points": POINTS[:k], "centre": POINTS[1] if k % 2 else None, "weights": [[0.5] * j for j in range(k)]}
    for k in range(4)
]


def shape(of: Any) -> Shape:
    centre = None if of["centre"] is None else Point(**of["centre"])
    return Shape([Point(**p) for p in of["points"]], centre, of["weights"])


STRUCT = pa.struct([("x", pa.float32()), ("y", pa.int8())])
VIEW = pa.string_view()  # as polars has texts
SHAPE = pa.struct([("points", pa.list_(STRUCT)), ("centre", STRUCT), ("weights", pa.list_(pa.list_(pa.float64())))])
WORDS = {
    "points": (pa.array(POINTS, STRUCT), Point, [Point(**p) for p in POINTS]),
    "points of other numbers": (
        pa.array([{"y": True, "x": 1}, {"y": False, "x": 2}]),
        Point,
        [Point(1.0, 1), Point(2.0, 0)],
    ),
    "a slice": (pa.array(POINTS, STRUCT)[1:3], Point, [Point(1.0, 1), Point(2.0, 2)]),
    "pairs": (
        pa.array([{"label": t, "first": POINTS[0], "more": 1} for t in ("a", "", "long", "long")]),
        Pair,
        [Pair(Point(0.0, 0), t) for t in ("a", "", "long", "long")],
    ),
    "shapes": (pa.array(SHAPES, SHAPE), Shape, [shape(s) for s in SHAPES]),
    "shapes from the second on": (pa.array(SHAPES, SHAPE)[1:], Shape, [shape(s) for s in SHAPES[1:]]),
    "lists of points": (
        pa.array([POINTS[:2], [], POINTS]),
        list[Point],
        [[Point(**p) for p in POINTS[:k]] for k in (2, 0, 4)],
    ),
    "points that may be missing": (pa.array([POINTS[0], None]), Point | None, [Point(0.0, 0), None]),
    "views": (
        pa.array(
            [{"first": POINTS[0], "label": t} for t in ("a", "bc")], pa.struct([("first", STRUCT), ("label", VIEW)])
        ),
        Pair,
        [Pair(Point(0.0, 0), "a"), Pair(Point(0.0, 0), "bc")],
    ),
    "dictionaries": (
        pa.array([["a", "b"], ["a"]], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
        Any,
        [["a", "b"], ["a"]],
    ),
    "dicts": (pa.array([{"a": 1, "b": "x"}, {"a": 2, "b": "yz"}]), Row, [{"a": 1, "b": "x"}, {"a": 2, "b": "yz"}]),
    "numbers that may be missing": (pa.array([[1, None], [], [3]]), Any, [[1, None], [], [3]]),
}


@pytest.mark.parametrize("name", WORDS)
def test_columns_are_words_and_no_objects(name: str) -> None:
    array, annotation, wanted = WORDS[name]
    found = column_of(array, name, read_hint(annotation))
    assert isinstance(found, Packed)
    assert equal(list(found), wanted) and [type(v) for v in found] == [type(v) for v in wanted]
    assert found.schema.params == pack(wanted).schema.params
    for cls, row in found.schema.fields.items():
        assert pack(wanted).schema.fields[cls] == row
    assert equal(list(pickle.loads(pickle.dumps(found[1:]))), wanted[1:])


def test_a_model_takes_structs_for_its_class() -> None:
    @model
    def f(s: Shape, k: int) -> Any:
        total = sum([p.x * p.y for p in s.points], 0.0) + sum([sum(w) for w in s.weights], 0.0)
        return total if s.centre is None else total + s.centre.x * k, s

    column, wanted = pa.array(SHAPES, SHAPE), [shape(s) for s in SHAPES]
    found = f.batch(column, pa.array([1, 2, 3, 4]))
    assert equal(list(found), list(f.batch(wanted, [1, 2, 3, 4])))
    assert type(found[1][1]) is Shape and found[1][1] is found[1][1]


def test_a_class_that_runs_code_is_called() -> None:
    assert column_of(pa.array([{"x": 1.0}]), "d", read_hint(Doubled)) == [Doubled(1.0)]
    vectors = column_of(pa.array([{"x": [1.0, 2.0]}, {"x": [3.0]}]), "v", read_hint(Vector))
    assert [(v.x.tolist(), v.word) for v in vectors] == [([1.0, 2.0], 3), ([3.0], 3)]
    sums = model(lambda v: np.sum(v.x) * v.word)
    assert list(sums.batch(vectors)) == [9.0, 9.0]
    with pytest.raises(AcronumbaError, match=r"structs of `v` cannot be converted to Point.*'y'"):
        column_of(pa.array([{"x": 1.0}]), "v", read_hint(Point))


def test_what_is_missing_is_an_error_of_its_row() -> None:
    @model
    def f(s: Shape) -> float:
        return sum([p.x for p in s.points], 0.0)

    rows = [*SHAPES[:3], {"points": [POINTS[1], {"x": None, "y": 2}], "centre": None, "weights": []}, SHAPES[3]]
    with pytest.raises(InstanceErrors) as failed:
        f.batch(pa.array(rows, SHAPE))
    assert failed.value.errors.keys() == {3}
    assert "[3].points[1].x must be a float, not None" in str(failed.value.errors[3])
    assert failed.value.results[4] == 3.0


def test_without_an_annotation_structs_are_dicts() -> None:
    total = model(lambda r: r["x"] * r["y"])
    assert list(total.batch(pa.array(POINTS))) == [0.0, 1.0, 4.0, 9.0]
    assert isinstance(column_of(pa.array(POINTS), "r", OBSERVED), Packed)
    nulls = pa.array([POINTS[0], None, {"x": None, "y": 1}])
    assert list(pack(nulls)) == nulls.to_pylist()
