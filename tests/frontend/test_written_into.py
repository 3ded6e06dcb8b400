"""What writes into an array: `out=`, `put_along_axis`, `fill_diagonal`, `copyto`, `.sort()`; places of two types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, InstanceErrors, model
from tests.support.everywhere import same_everywhere


@model
def filled(x: Any, n: int) -> Any:
    y = np.zeros((n, 3))
    for t in range(n):
        np.multiply(x, t, out=y[t])
    z = y
    np.add(z, 1, out=y)
    np.sqrt(np.abs(x), out=y[0], where=x > 1)
    return y, z, np.add(x, x, out=np.ones((2, 3)))


def test_out_is_written_to() -> None:
    same_everywhere(filled, [np.array([3.0, -1, 2]), np.ones(3)], [4, 1])


@model
def placed(x: Any, i: Any) -> Any:
    y, z = np.zeros((3, 4)), np.ones((3, 3))
    np.put_along_axis(y, i, x, 1)
    np.fill_diagonal(z, x[0, 0])
    w = y
    np.copyto(w, y + 1)
    return y, z


def test_places_are_written_to() -> None:
    same_everywhere(
        placed, [np.ones((3, 1)), np.full((3, 1), 2.5)], [np.array([[1], [2], [-1]]), np.zeros((3, 1), int)]
    )


@model
def ordered(x: Any) -> Any:
    y = x.copy()
    y.sort()
    return y


def test_sort_in_place() -> None:
    same_everywhere(ordered, [np.array([3.0, np.nan, -1, 2]), np.array([1.0, 0])])


def test_what_came_in_is_not_written_to() -> None:
    @model
    def f(x: Any) -> Any:
        np.fill_diagonal(x, 1.0)
        return x

    with pytest.raises(AcronumbaError, match=r"np\.fill_diagonal"):
        f.batch([np.ones((3, 3))])


@model
def masks(x: Any, m: Any, i: Any, j: Any) -> Any:
    return x[m], x[x > 0].sum(), x[i, j], x[i, 0], x[:, i], x[i[:, None], j[None, :]], x[m[:, 0]], x[None, i, :, None]


def test_masks_and_several_arrays() -> None:
    rng = np.random.default_rng(0)
    xs = [rng.standard_normal((n, 4)).astype(np.float32) for n in (5, 1)]
    ms = [x > 0 for x in xs]
    same_everywhere(
        masks, xs, ms, [np.array([0, -1, 2]), np.array([0, 0])], [np.array([3, 1, -4]), np.array([1, 2])], ulps=4
    )


def test_an_index_that_is_out_of_range_is_an_error_of_its_instance() -> None:
    @model
    def f(x: Any, i: Any, m: Any) -> Any:
        return x[i, i], x[m]

    xs = [np.ones((2, 3))] * 3
    same_everywhere(
        f, xs, [np.array([1]), np.array([2]), np.array([0])], [np.ones(2, bool), np.ones(2, bool), np.ones(3, bool)]
    )


def marked(parents: Any, t: Any, y: Any) -> None:
    if t == 0:
        return
    y[t] = 7
    marked(parents, parents[t], y)


@model
def ways_up(parents: Any, first: int) -> Any:
    y, z, n = np.zeros(len(parents)), np.zeros((len(parents), 2)), -np.ones(len(parents), int)
    t = first
    while t != 0:  # an int, then a scalar of NumPy
        y[t] += t
        z[t, 1] = z[parents[t], 1] + 1
        t = parents[t]
    marked(parents, first, n)
    return y, z, n


def test_a_place_may_be_an_int_or_a_scalar() -> None:
    same_everywhere(ways_up, [np.array([0, 0, 1, 1, 3]), np.array([0, 0])], [4, 1])


@model
def heads(x: Any, *, n: int, size: int) -> Any:
    y, z = np.zeros((3, 8)), np.zeros(8)
    for h in range(n):
        low = h * size
        y[:, low : low + size] = x[:, low : low + size] * h
        z[low : low + 1] = 1
    z[size : size + 1] += 2
    return y, z


def test_slices_by_shared_numbers() -> None:
    same_everywhere(heads, [np.ones((3, 8)), np.full((3, 8), 2.0)], n=2, size=4)


@model
def cut_at(x: Any, k: int) -> Any:
    y = np.zeros((8, 2))
    for h in range(len(x)):
        y[h : h + 2] = h
    y[k : k + 1] = 5
    return y, y.sum(axis=1)


def test_slices_at_run_time_leave_the_extents() -> None:
    same_everywhere(cut_at, [np.ones(2), np.ones(5)], [3, 7])


@model
def place_by_place(i: np.ndarray, v: np.ndarray):
    x, n = np.zeros((5, 3)), np.zeros(5, int)
    np.add.at(x, i, 1)
    np.maximum.at(x, i, v)
    np.subtract.at(x, 2, 1)
    np.add.at(x, [1, 1, -1], 0.5)
    np.add.at(n, i, 1)
    np.add.at(n, [1, 1], [5, 3])
    np.multiply.at(x, [0, 2], ([1, 2, 3], (4, 5, 6)))
    return x, n, x.real, x[0].imag, x.mT


def test_ufuncs_change_an_element_as_often_as_it_is_named():
    index = [np.array([1, 2, 1]), np.array([0]), np.zeros(0, int), np.array([7])]
    values = [np.arange(9.0).reshape(3, 3), np.ones((1, 3)), np.zeros((0, 3)), np.ones((1, 3))]
    same_everywhere(place_by_place, index, values)


@model
def messages(x: Any, to: Any, out: Any) -> Any:
    out = out.copy()
    np.add.at(out, to, x * 2)
    np.subtract.at(out, to[:1], 1)
    return out


def test_what_is_added_at_places_is_one_operation() -> None:
    rng = np.random.default_rng(0)
    xs = [rng.standard_normal((n, 3)) for n in (0, 1, 4, 30)]
    places = [rng.integers(-4, 4, len(x)) for x in xs]
    outs = [np.full((4, 3), -0.0), *(rng.standard_normal((4, 3)) for _ in range(3))]
    same_everywhere(messages, xs, places, outs, ulps=16)
    assert np.signbit(messages.batch(xs[:1], places[:1], outs[:1])[0]).all()
    assert messages.trace(xs[3:], places[3:], outs[3:]).nodes == messages.trace(xs[1:2], places[1:2], outs[1:2]).nodes
    with pytest.raises(InstanceErrors) as caught:
        messages.batch(xs[2:3], [places[2] + 9], outs[2:3])
    assert isinstance(caught.value.errors[0], IndexError)


OTHERS = (
    "np.add.at(x, i > 1, 1)", "np.add.at(x, i, 0.5)", "np.add.at(x, (i, i), 1)",
    "np.arange(1, np.uint64(2))", "np.r_[0 : np.uint64(2)]",
)  # fmt: skip
WRONG = "np.result_type([5, 3], x)", "np.promote_types('foo', 'i4')", "np.finfo(int).bits", "np.iinfo(float).bits"


@pytest.mark.parametrize("call", [*OTHERS, *WRONG])
def test_other_indices_and_dtypes_are_rejected(call: str, module_of: Any) -> None:
    text = f"import numpy as np\ndef f(i):\n    x = np.zeros((5, 3), int)\n    {call}\n    return x\n"
    with pytest.raises(AcronumbaError) as caught:
        model(module_of(text).f).batch([np.array([1])])
    assert caught.value.code == ("ACR301" if call in WRONG else "ACR202")
