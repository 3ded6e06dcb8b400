"""Columns of Arrow, against the values of Python that they stand for. Skipped without pyarrow."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, model, pack
from acronumba.api.results import equal

pa = pytest.importorskip("pyarrow")

COLUMNS = {
    "ints": pa.array([1, 2, 3, 4]),
    "floats": pa.array([1.0, 2.5, 3.0, 4.0], pa.float32()),
    "texts": pa.array(["a", "bc", "", "d"]),
    "some missing": pa.array([1, None, 3, 4]),
    "lists": pa.array([[1, 2, 3], [], [4], [5, 6]]),
    "lists of floats": pa.array([[1.5], [], [2.0, 3.0], []], pa.large_list(pa.float32())),
    "lists of bools": pa.array([[True], [False, True], [], []]),
    "lists with missing": pa.array([[1, None], [2], None, []]),
    "lists of texts": pa.array([["a"], ["bc", "d"], [], []]),
    "lists of lists": pa.array([[[1], [2, 3]], [], [[]], [[4]]]),
    "records": pa.array([{"a": 1, "b": "x"}] * 4),
    "large": pa.array([[2**63 + 1], [1], [], [2]], pa.list_(pa.uint64())),
    "small": pa.array([[1], [255], [], [2]], pa.list_(pa.uint8())),
    "pieces": pa.chunked_array([[[1, 2]], [[3], []], [[4]]]),
    "a slice": pa.array([[9], [1, 2], [3], [], [4, 5, 6], [7]])[1:5],
    "none": pa.array([], pa.list_(pa.int64())),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_has_the_values_of_python(name: str) -> None:
    column = COLUMNS[name]
    packed = pack(column)
    assert equal(list(packed), column.to_pylist())
    assert equal(list(pickle.loads(pickle.dumps(packed[:2]))), column.to_pylist()[:2])


def test_models_take_lists() -> None:
    def values(xs: list[int]) -> Any:
        return sum(xs), xs

    f = model(values)
    lists = COLUMNS["lists"]
    assert list(f.batch(lists)) == [values(x) for x in lists.to_pylist()]
    assert list(f.batch(lists)) == list(f.batch(lists.to_pylist()))
    assert list(f.batch(pack(lists)[1:3])) == [values(x) for x in lists.to_pylist()[1:3]]
    as_floats = model(lambda xs: [x / 2 for x in xs])
    assert list(as_floats.batch(lists)) == [[x / 2 for x in xs] for xs in lists.to_pylist()]


def test_vectors_of_one_length_are_arrays() -> None:
    wanted = np.arange(6.0, dtype=np.float32).reshape(3, 2)
    column = pa.FixedSizeListArray.from_arrays(pa.array(wanted.reshape(-1)), 2)
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(wanted.reshape(3, 2, 1))
    assert np.array_equal(model(lambda x: x * 2).batch(column).stack(), 2 * wanted)
    assert model(lambda x: x.T).batch(tensors).stack().shape == (3, 1, 2)


def test_tables_are_rejected() -> None:
    with pytest.raises(AcronumbaError, match=r'df\["a"\], df\["b"\]'):
        model(lambda a, b: a + b).batch(pa.table({"a": [1], "b": [2]}))
