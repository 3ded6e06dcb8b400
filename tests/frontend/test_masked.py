"""Writes by index, mask and array, plain and augmented, of every kind of value and dtype, against NumPy: a sample.

`python tests/masked.py` tries as many as asked for, or all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, InstanceErrors, model
from tests.support import masked
from tests.support.plain_call import compiled, interpreted


def right(cells: list[Any], engine: str) -> None:
    report = masked.try_all(cells, engine)
    texts = [f"{one}: {found[0]}" for one, found in report.different.items()]
    texts += [f"{one}: {text}" for one, text in masked.wrongly_rejected(report).items()]
    assert not texts, "\n".join(texts[:20])
    assert report.compared > len(cells)


MORE = [pytest.param(k, marks=pytest.mark.slow if k > 1 else pytest.mark.long) for k in range(1, 22)]


@pytest.mark.parametrize("seed", [0, *MORE])
def test_a_sample_of_writes(seed: int) -> None:
    right(list(masked.cells(60 if seed < 2 else 250, seed)), "plan")


@pytest.mark.long
def test_a_sample_of_writes_as_machine_code() -> None:
    right(list(masked.cells(25, 100)), "compiled")


def chosen(a: Any, b: Any) -> Any:
    a = a * 1.0
    m = a > 1
    a[m] += b[m]
    return a


def columns(a: Any, b: Any) -> Any:
    a = np.stack([a, a])
    a[:, b > 15] *= 2
    a[..., b > 15] += np.array([[1.0], [2.0]])
    return a


def row(a: Any, b: Any) -> Any:
    a = np.stack([a, a, a])
    a[2, b > 15] += 1
    a[None, 1, b > 15] -= 2
    a[1:, b < 35] = -1
    return a


def through_a_view(a: Any, b: Any) -> Any:
    whole = np.stack([a, a + 1])
    part = whole[1]
    part[b > 15] -= b[b > 15]
    return whole, part


def in_a_loop(a: Any, b: Any) -> Any:
    table = np.zeros((3, len(a)))
    for k in range(3):
        table[k, a > k] += b[a > k] * k
        table[k, a <= k] = -1
    return table


def a_mask_that_was_written(a: Any, b: Any) -> Any:
    mask = np.zeros(len(a), bool)
    mask[a > 1] = True
    a = a * 2
    a[mask] += 1
    mask[a > 3] ^= True
    return a, mask


def inside_of_containers(a: Any, b: Any) -> Any:
    arrays = [a * 1, a * 2]
    arrays[1][b > 15] *= 3
    arrays[0][:2][a[:2] > 0] -= 1
    table = {"a": np.stack([a, a])}
    table["a"][:, b > 15] /= 2
    return arrays, table["a"]


def written_by_the_value(a: Any, b: Any) -> Any:
    def change(x: Any) -> float:
        x[0] = 100.0
        x[-1] = -1.0
        return 1.0

    first, second = a * 1, a * 1
    first[a > 1] += change(first)
    second[np.array([1, 0])] += change(second)
    return first, second


def views_and_loops(a: Any, b: Any) -> Any:
    square = np.zeros((len(a), len(a)))
    turned = square.T
    turned[1, b > 15] += 5
    turned[b > 15] -= a
    square[::2][:, a > 0] += 1
    for k in range(2):
        for j in range(2):
            square[k, a > j] += k + 1
            square[k, np.array([0, 0])] += 1
            square[:, a > 2] *= 2
    return square


def whole_numbers(a: Any, b: Any) -> Any:
    n = np.arange(len(a)) + 1
    n[a > 1] **= 2
    n[a > 1] <<= 1
    n[a > 0] %= 3
    n[a > 0] ^= n[a > 0]
    return n


EVERYDAY = [
    chosen, columns, row, through_a_view, in_a_loop, a_mask_that_was_written, inside_of_containers,
    written_by_the_value, views_and_loops, whole_numbers,
]  # fmt: skip


@pytest.mark.parametrize("way", [interpreted, pytest.param(compiled, marks=pytest.mark.long)])
@pytest.mark.parametrize("f", EVERYDAY, ids=lambda f: f.__name__)
def test_everyday_writes(f: Any, way: Any) -> None:
    data = [np.array([0.0, 1, 2, 3]), np.array([3.0, 3, 3, 3]), np.array([5.0, -1])]
    other = [np.array([10.0, 20, 30, 40])] * 2 + [np.array([10.0, 20])]
    way(f, data, other)


def of_all(a: Any, b: Any) -> Any:
    a = a * 1.0
    a[a > 1] += b
    return a


def test_a_value_for_all_elements_fails_unless_all_are_chosen() -> None:
    data, other = [np.array([0.0, 2, 3]), np.array([2.0, 2, 2])], [np.array([1.0, 2, 3])] * 2
    with pytest.raises(InstanceErrors) as failed:
        model(of_all)._interpret(data, other)
    assert set(failed.value.errors) == {0}
    assert isinstance(failed.value.errors[0], ValueError)
    np.testing.assert_array_equal(failed.value.results[1], of_all(data[1], other[1]))


def halves(a: Any, k: Any) -> Any:
    a = a * 1
    a[k] += 0.5
    return a


def quotient(a: Any, k: Any) -> Any:
    a = a * 1
    a[k] /= 2
    return a


def masked_product(a: Any, k: Any) -> Any:
    a = np.stack([a, a])
    a[:, a[0] > 1] *= 1.5
    return a


@pytest.mark.parametrize("f", [halves, quotient, masked_product], ids=lambda f: f.__name__)
def test_what_would_be_truncated_is_rejected(f: Any) -> None:
    with pytest.raises(TypeError):
        f(np.arange(3), np.array([0, 2]))
    with pytest.raises(AcronumbaError) as rejected:
        model(f).batch([np.arange(3)], [np.array([0, 2])])
    assert rejected.value.code == "ACR112"
    assert "would become float64" in rejected.value.seen
    assert "a[" in str(rejected.value)


def test_one_element_is_truncated_as_by_numpy() -> None:
    assert model(halves).batch([np.arange(3)], [1])[0].tolist() == halves(np.arange(3), 1).tolist() == [0, 1, 2]


REJECTED = {
    "a[x > 1] = np.ones((1, 3))": "ACR401",
    "a[x > 1] += np.ones((2, 2))": "ACR112",
    "a[1:] = [[1.0, 2.0]]": "ACR401",
    "a[1] = np.ones(1)": "ACR301",  # since NumPy 2.4; before, it warns
    "a[1, x > 1] = 2": "ACR402",
    "np.sqrt(x, out=a, where=np.array([1, 0, 1]))": "ACR301",
    "a[0] = np.sum(x, where=np.array([1, 0, 1]))": "ACR301",
}


@pytest.mark.parametrize("line", REJECTED)
def test_what_numpy_rejects_is_rejected_with_the_line(line: str, module_of: Any) -> None:
    f = module_of(f"import numpy as np\n\n\ndef f(x):\n    a = x * 1.0\n    {line}\n    return a\n").f
    with pytest.raises(AcronumbaError) as rejected:
        model(f)._interpret([np.array([0.5, 2.0, 3.0])])
    assert rejected.value.code == REJECTED[line], rejected.value
    assert line in str(rejected.value)


FLOATS = [
    "a[x] = 1", "a[x] += 1", "b[0, x] = 5", "b[:, x] *= 2", "b[x, [0, 1, 2]] = 1", "a[[0.5]] = 1",
    "np.put_along_axis(a, x, 1.0, 0)",
]  # fmt: skip


@pytest.mark.parametrize("line", FLOATS)
def test_floats_are_no_indices_of_what_is_written(line: str, module_of: Any) -> None:
    made = "a, b = np.zeros(3), np.zeros((3, 3))"
    f = module_of(f"import numpy as np\n\n\ndef f(x):\n    {made}\n    {line}\n    return a, b\n").f
    with pytest.raises(IndexError):
        f(np.array([0.0, 1.0, 2.0]))
    with pytest.raises(AcronumbaError) as rejected:
        model(f)._interpret([np.array([0.0, 1.0, 2.0])])
    assert rejected.value.code == "ACR301" and line in str(rejected.value)


def test_a_list_without_elements_is_an_index(module_of: Any) -> None:
    f = module_of("import numpy as np\n\n\ndef f(x):\n    a = x * 1.0\n    a[[]] = 5\n    return a\n").f
    x = np.array([0.5, 2.0])
    assert np.array_equal(model(f)._interpret([x])[0], x)
