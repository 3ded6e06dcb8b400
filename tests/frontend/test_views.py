"""Views of arrays that are written to: by NumPy's scalars as indices, and by functions that give one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, model
from tests.support.chosen import one_in
from tests.support.everywhere import same_everywhere

X = [np.arange(12.0).reshape(4, 3), np.ones((4, 3))]
AT = [np.array([1, 2]), np.array([3, -4])]


@model
def named(x: Any, at: Any) -> Any:
    y, z, v = np.zeros((4, 3)), np.zeros((4, 3)), x * 2
    r = y[at[0]]
    r[1] = 3
    s = z[at[1], 1:]
    s += x[0, 1:]
    t = v[at[0]]
    t *= 3
    return y, z, v, r, s, t


@model
def chained(x: Any, at: Any) -> Any:
    y = np.full((4, 3, 3), -1.0)
    for j in range(2):
        y[at[j]][j][j + 1] = x[j, 0]
        if y[at[j]][j][j] < 0:
            y[at[j], :2][0] += 2
    kept = y[at[0]]
    y[1, 2] = 7
    return y, kept


@model
def read_alone(x: Any, at: Any) -> Any:
    y = np.zeros((4, 3))
    for i in range(4):
        y[i] = x[i] + 1
    return y[at[0]] + y[at[1]]


@pytest.mark.parametrize("f", one_in(3, [named, chained, read_alone], ids=["named", "chained", "read"]))
def test_a_scalar_of_numpy_as_an_index_makes_a_view(f: Any) -> None:
    same_everywhere(f, X, AT, simulator=f is chained)


def test_what_is_read_alone_by_a_scalar_makes_nobody_wait() -> None:
    assert read_alone.trace(X, AT).rounds == 1


def test_a_row_of_what_came_in_is_not_changed() -> None:
    @model
    def f(x: Any, at: Any) -> Any:
        r = x[at[0]]
        r += 1
        return r

    with pytest.raises(AcronumbaError) as e:
        f.batch(X, AT)
    assert e.value.code == "ACR112"


@model
def functions(x: Any) -> Any:
    a, b, c, d, e = np.zeros(4), np.zeros((4, 6)), np.zeros(3), np.zeros((1, 3)), np.zeros((2, 3))
    np.atleast_2d(a)[0, 1] = x[0, 0]
    np.atleast_3d(a)[0, 2, 0] = 5
    left, right = np.split(b, 2, axis=1)
    left[0, 2] = x[0, 1]
    right += 2
    np.split(a, [1, 3])[1][0] -= 1
    np.ascontiguousarray(c)[0] = 4
    np.asarray(c, dtype=np.float64)[1] = x[1, 1]
    np.asarray(c, np.float32)[2] = 9
    np.expand_dims(c, (0, 2))[0, 2, 0] = 1
    d.squeeze(axis=0)[1] = 2
    np.squeeze(d, 0)[2] = 3
    np.flip(e)[0, 0] = x[2, 0]
    np.fliplr(e)[1, 0] = 6
    np.moveaxis(e, 0, 1)[0, 1] = 8
    e.T[1] += 1
    return a, b, c, d, e


def test_functions_that_give_views() -> None:
    same_everywhere(functions, X, simulator=False)


@model
def copies(x: Any) -> Any:
    b = np.zeros((4, 3))
    d = np.asarray(b, np.float32)
    total = d.sum() + np.ascontiguousarray(b.T).sum()
    b[0] = x[1]
    return b, total


def test_copies_are_no_views() -> None:
    same_everywhere(copies, X, simulator=False)


@model
def conditional(x: Any, at: Any) -> Any:
    y, z, v = np.zeros((4, 3)), np.zeros((4, 3)), np.zeros((3, 3))
    n = int(at[0])
    r = y[0] if n > 1 else y[1]
    r[1] = x[0, 0]
    s = z[:2] if n > 1 else z[1:3]
    s[0] += 5
    s += 1
    t = v[0]
    for k in range(n):
        t = v[k % 3]
        t[k % 2] += 1
    t[2] = 9
    u = y[2] if n > 1 else y[3]
    y[3, 0] = 4
    return y, z, v, u


def test_a_view_under_a_conditional_name() -> None:
    same_everywhere(conditional, X, AT, simulator=False)


@model
def unlike_arrays(x: Any, at: Any) -> Any:
    """A view of one array and another array that is written to: which it is, is told at run time."""
    s = np.squeeze(x[:1] * 2, axis=0)
    if at[0] > 1:
        y = np.zeros(3)
        y[0] = 7
        s = y
    return -s


def test_a_view_beside_another_array() -> None:
    same_everywhere(unlike_arrays, X, AT, simulator=False)


@model
def taken(x: Any, at: Any) -> Any:
    z = np.zeros((4, 3)) + x[0, 0]
    r = np.take(z, at[0], axis=0)
    r[1] = 3
    s = z.take(1, axis=0)
    s += 4
    z[0] = 1
    t = np.take(x, at[0], axis=0)
    t *= 2
    return z, r, s, t


def test_what_is_taken_is_a_copy() -> None:
    same_everywhere(taken, X, AT, simulator=False)
