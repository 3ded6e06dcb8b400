"""Results are the same after they were sent in bulk."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from acronumba.api.results import equal
from acronumba.data.bulk import Bulk, in_bulk, one_by_one

ROW, TABLE = np.arange(3, dtype=np.float32), np.arange(6.0).reshape(2, 3).T
TOGETHER: list[list[Any]] = [
    [ROW, ROW + 1],
    [TABLE, TABLE[::-1]],
    [[ROW], [], [ROW + 1, ROW + 2]],
    [np.zeros(0), np.zeros(0)],
    [np.zeros((2, 0)), np.zeros((2, 0))],
    [np.array(["a", "b"]), np.array(["c", "d"])],
]
APART: list[list[Any]] = [
    [],
    [[]],
    [ROW, ROW[:2]],
    [ROW, ROW.astype(np.float64)],
    [ROW, [ROW]],
    [ROW, None],
    [(ROW,), (ROW,)],
    [[ROW, 1.0]],
    [np.array(1.0), np.array(2.0)],
    [np.float32(1), np.float32(2)],
    [np.array([None, 1]), np.array([2, "x"])],
    [1, True, "x"],
]


@pytest.mark.parametrize("values", TOGETHER + APART, ids=str)
def test_results_in_bulk(values: list[Any]) -> None:
    sent = in_bulk(values)
    assert isinstance(sent, Bulk) == any(values is other for other in TOGETHER)
    found = one_by_one(pickle.loads(pickle.dumps(sent)))
    assert type(found) is list and len(found) == len(values)
    assert all(map(equal, found, values))
    assert all(a.shape == b.shape for a, b in zip(found, values, strict=True) if isinstance(b, np.ndarray))
