"""Tuples are ordered as in Python; results may be arrays or None."""

from __future__ import annotations

import sys
from enum import Enum

import numpy as np
import pytest

from acronumba import AcronumbaError, model
from tests.support.plain_call import agree, outcomes, plain


class Color(Enum):
    RED = 2
    BLUE = 1


ROWS = [[(i * j % 3, j % 2, i / 2) for j in range(i)] for i in range(5)]


@model
def sorts_by_tuples(rows):
    by_two = sorted(rows, key=lambda r: (r[2], -r[0]))
    down = sorted(rows, key=lambda r: (r[1] > 0, r[0]), reverse=True)
    return by_two, sorted(rows), down, [(r[0], r[1]) <= (1, 0) for r in rows], [r[:2] < (1, 0, 0) for r in rows]


@model
def extremes_of_tuples(rows):
    return max(rows, key=lambda r: (r[1], -r[0]), default=None), min(rows, default=(7, 7, 7.0))


def test_tuples_are_ordered_as_in_python():
    agree(outcomes(sorts_by_tuples._interpret, ROWS), plain(sorts_by_tuples, ROWS))
    agree(outcomes(extremes_of_tuples._interpret, ROWS), plain(extremes_of_tuples, ROWS))


@pytest.mark.parametrize("text", ["sorted(x)", "round(n / 7, n)"])
def test_what_python_or_the_compiler_cannot_do_is_rejected(text, tmp_path, monkeypatch):
    (tmp_path / "rejected_models.py").write_text(
        f"from acronumba import model\n@model\ndef f(x, n):\n    return {text}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "rejected_models", raising=False)
    import rejected_models  # type: ignore[import-not-found]

    with pytest.raises(AcronumbaError, match="ACR"):
        rejected_models.f._interpret([[Color.RED, Color.BLUE]], [3])


@model
def optional_array_or_number(n, x):
    return x * 2 if n > 2 else None


def test_results_that_are_optional_arrays():
    columns = [0, 1, 2, 3, 5], [np.arange(2, dtype=np.float32) + k for k in range(5)]
    agree(outcomes(optional_array_or_number.batch, *columns), plain(optional_array_or_number, *columns))


@model
def best_three(n, x, *, w):
    beam = [(n, x)]
    for _ in range(n):
        found = []
        for score, h in beam:
            found.append((score + 1, np.minimum(w, 2.0)))
            found.append((score, h * 0.5 + w))
        beam = sorted(found, key=lambda one: -one[0])[:3]
    return beam[0][1]


def test_part_of_a_list_may_take_what_the_list_takes():
    """The beam begins with an array of any length, and goes on with arrays of the length of a weight."""
    w = np.arange(4, dtype=np.float32)
    columns = [0, 1, 2, 3], [w + k for k in range(4)]
    agree(outcomes(best_three._interpret, *columns, w=w), plain(best_three, *columns, w=w))
