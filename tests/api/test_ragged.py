"""`Results.ragged`: the arrays of a leaf as one, and where those of each instance begin."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from acronumba import Results, ShapeMismatch, model, nn
from tests.support.chosen import one_in

RNG = np.random.default_rng(0)
W = RNG.standard_normal((4, 4)).astype(np.float32)
XS = [RNG.standard_normal((n, 4)).astype(np.float32) for n in (3, 0, 5, 1, 5)]


@model
def rows(x: Any, *, w: Any) -> Any:
    return np.tanh(x @ w)


@dataclass
class Encoded:
    words: Any
    whole: Any
    length: int
    note: str = "as it was"


@model
def encoded(x: Any, *, w: Any) -> Any:
    y = np.tanh(x @ w)
    return Encoded(nn.softmax(y @ y.T, axis=0), y.sum(), x.shape[0]), [y > 0]


def parts(values: Any, offsets: Any) -> list[Any]:
    return [values[a:b] for a, b in itertools.pairwise(offsets)]


def test_one_batch_is_joined_without_a_copy() -> None:
    results = rows.batch(XS, w=W)
    values, offsets = results.ragged()
    assert offsets.dtype == np.int64 and offsets.tolist() == [0, 3, 3, 8, 9, 14]
    assert all(map(np.array_equal, parts(values, offsets), results))
    assert np.shares_memory(values, results[0]) and not values.flags.writeable and not offsets.flags.writeable
    some, places = results[2:4].ragged()
    assert places.tolist() == [0, 5, 6] and np.shares_memory(some, results[2])
    turned, places = results[::-1].ragged()
    assert not np.shares_memory(turned, results[0]) and all(map(np.array_equal, parts(turned, places), results[::-1]))


def test_structures_keep_their_form() -> None:
    square = [x for x in XS if len(x) == 5]
    results = encoded.batch(square, w=W)
    joined, (positive,) = results.ragged()
    assert type(joined) is Encoded and joined.note == "as it was"
    assert joined.words.offsets.tolist() == positive.offsets.tolist() == [0, 5, 10]
    assert all(map(np.array_equal, parts(*joined.words), [r.words for r, _ in results]))
    assert all(map(np.array_equal, parts(*positive), [p for _, (p,) in results]))
    assert joined.whole.tolist() == [float(r.whole) for r, _ in results] and joined.length.tolist() == [5, 5]


def test_lengths_may_be_0_and_1() -> None:
    none = rows.batch([x[:0] for x in XS], w=W).ragged()
    assert none.values.shape == (0, 4) and none.values.dtype == np.float32 and none.offsets.tolist() == [0] * 6
    alone = rows.batch(XS[3:4], w=W).ragged()
    assert alone.values.shape == (1, 4) and alone.offsets.tolist() == [0, 1]
    apart = Results.of([np.ones(2), np.zeros(0), np.full(3, 2.0)]).ragged()
    assert apart.values.tolist() == [1, 1, 2, 2, 2] and apart.offsets.tolist() == [0, 2, 2, 5]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([np.ones((2, 3)), np.ones((2, 4))], "instances 0 and 1"),
        ([np.ones(2), np.ones((2, 1))], "instances 0 and 1"),
        ([np.ones(2), np.ones(2, np.float32)], "instances 0 and 1"),
        ([np.array(2.0), np.ones(2)], "instances 0 and 1"),
        ([{"a": [np.ones(2)]}, {"a": [np.ones((2, 2))]}], r"result\['a'\]\[0\]"),
        ([[np.ones(2)], [np.ones(2)] * 2], "list of 1"),
        ([], "no results"),
    ],
)
def test_what_cannot_be_joined(values: list[Any], words: str) -> None:
    with pytest.raises(ShapeMismatch, match=words) as caught:
        Results.of(values).ragged()
    assert caught.value.code == "ACR703"


@pytest.mark.parametrize("f", one_in(2, [rows, encoded], ["rows", "encoded"]))
def test_on_a_device(f: Any) -> None:
    given = [x for x in XS if len(x)]
    results = f.on("simulator").batch(given, w=W) if f is rows else f.on("simulator").batch([XS[2], XS[4]], w=W)
    there, here = results.device.ragged(), results.ragged()
    if f is encoded:
        there, here = there[0].words, here[0].words
    assert type(there.values).__name__ == type(there.offsets).__name__ == "DeviceArray"
    assert np.array_equal(np.asarray(there.values), here.values)
    assert np.array_equal(np.from_dlpack(there.offsets), here.offsets) and there.offsets.dtype == np.int64


def test_a_jagged_tensor_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    results = rows.batch(XS, w=W)
    jagged = torch.nested.nested_tensor_from_jagged(*map(torch.tensor, results.ragged()))
    assert all(np.array_equal(a.numpy(), b) for a, b in zip(jagged.unbind(), results, strict=True))
