"""Tuples of a length that only run time knows: given, made, kept and returned; a list is a list, a tuple a tuple."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba import model, pack
from acronumba.errors import AcronumbaError
from tests.support.chosen import by_ways
from tests.support.models_of_tuples import CASES, FORESTS, LISTS, TUPLES, is_of_a_class, is_read, listed, returned
from tests.support.plain_call import WAYS, agree, outcomes, plain

IDS = [f"{f.__name__}{k}" for k, (f, _) in enumerate(CASES)]


@pytest.mark.parametrize(("way", "f", "columns"), by_ways(CASES, IDS, compiled=12, simulated=20))
def test_it_is_the_plain_call(way: str, f: Any, columns: Any) -> None:
    WAYS[way](f, *columns)


def test_mini_batches_of_one_model_may_have_either() -> None:
    m = model(is_of_a_class)
    for column in (LISTS, TUPLES, LISTS, [*LISTS, *TUPLES]):
        assert m._interpret(column)[:] == [is_of_a_class(t) for t in column]


@pytest.mark.parametrize("column", [TUPLES, *FORESTS], ids=lambda c: type(c[0]).__name__)
def test_a_pack_keeps_them_apart(column: Any) -> None:
    f = is_read if column is TUPLES else listed
    agree(list(model(f)._interpret(pack(column))), plain(f, column))
    copies = list(pack(column))
    assert repr(copies) == repr(column) or [listed(t) for t in copies] == [listed(t) for t in column]


def test_what_came_in_is_returned_itself() -> None:
    column = FORESTS[0]
    for mine, t in zip(model(returned).batch(column), column, strict=True):
        assert mine[0] is t.children


def changed(t):
    t[0] = 1
    return t


def appended(t):
    t.append(1)
    return t


def added(t):
    return t + [1]  # noqa: RUF005


@pytest.mark.parametrize("f", [changed, appended, added])
def test_what_lists_alone_can_do_is_rejected(f: Any) -> None:
    with pytest.raises(AcronumbaError, match="tuple"):
        model(f)._interpret(TUPLES)


def by_arrays(t):
    return {tuple(np.ones(x) for x in t): 1}


def by_floats(t):
    return {tuple(x / 2 for x in t): 1}


@pytest.mark.parametrize("f", [by_arrays, by_floats])
def test_keys_hold_what_is_a_key(f: Any) -> None:
    with pytest.raises(AcronumbaError, match="ACR309"):
        model(f)._interpret([(1, 2), (3,)])


def mean_of(rows, *, w):
    return np.tanh(w @ np.stack(rows).mean(axis=0))


def test_arrays_in_tuples_are_batched() -> None:
    rng = np.random.default_rng(0)
    rows = [tuple(rng.normal(size=(n, 4)).astype(np.float32)) for n in (1, 3, 2, 7)]
    m = model(mean_of)
    w = rng.normal(size=(4, 4)).astype(np.float32)
    agree(outcomes(m.batch, rows, w=w), plain(mean_of, rows, w=w), close=True)
    assert m.trace(rows, w=w).data.nodes == m.trace([list(r) for r in rows], w=w).data.nodes
