"""`summary`: what parameters, gradients, models and stages hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from acronumba import RowGrad, TypeMismatch, compress, model, pack, summary, value_and_grad


@dataclass
class Params:
    w: np.ndarray
    cells: list[np.ndarray]
    steps: int
    name: str = "small"


@model(threads=1)
def loss(x: np.ndarray, k: int = 0, *, p: Params) -> float:
    return ((p.w @ x + p.cells[0]) ** 2).sum()


W = np.ones((2, 3), np.float32)
P = Params(W, [np.ones(2, np.float32), W], 3)
OF_P = """\
Params: 2 arrays, 8 numbers, 32 bytes
name     dtype    shape   numbers  bytes
w        float32  [2, 3]  6        24 bytes
cells.0  float32  [2]     2        8 bytes
cells.1  float32  [2, 3]           the array of w"""


def test_parameters_and_gradients() -> None:
    assert str(summary(P)) == f"{OF_P}\nsteps    int"
    assert summary(pack(P)).words == summary(P).words
    found = loss.value_and_grad.batch(np.ones((4, 3), np.float32), p=P)
    assert str(summary(found.grads)) == OF_P
    assert str(summary(found)).startswith("Gradients: value 32 of 4 instances; 2 arrays, 8 numbers, 32 bytes\nname")
    assert "<table>" in found._repr_mimebundle_()["text/html"]
    assert summary(compress(P)).rows[0] == ("w", "int8", "[2, 3]", "6", "22 bytes")
    assert summary(RowGrad(np.array([1]), W[:1], (9, 3))).rows == (
        ("value", "float32, 1 rows", "[9, 3]", "27", "12 bytes"),
    )
    assert str(summary({})) == "dict: 0 arrays, 0 numbers, 0 bytes"
    assert str(summary([np.ones(1)] * 2 + [np.ones(1) for _ in range(70)])).endswith("\nand 12 more")
    with pytest.raises(TypeMismatch, match="ACR708"):
        summary(object())


def test_models_and_stages() -> None:
    own = "varies by instance"
    assert summary(loss).rows == (("x", "np.ndarray", own), ("k", "int", own), ("p", "Params", "shared"))
    assert "threads=1" in summary(loss).words
    assert str(summary(loss.value_and_grad)).startswith("value and gradients of loss: on ")
    stages = value_and_grad(loss).stages(np.ones((4, 3), np.float32), p=P)
    assert [name for name, _ in summary(stages).rows] == list(stages)
    assert not any(text == "" for _, text in summary(stages).rows)


def test_views_are_not_counted_again() -> None:
    a, b = np.ones((4, 3)), np.ones((4, 3))
    found = summary([a[::2], a, a.T, b[0], b[1:3], b[::2]])
    assert found.words == "4 arrays, 27 numbers, 216 bytes"
    assert [k for k, row in enumerate(found.rows) if row[-1] == "in the array of 1"] == [0, 2]
    assert summary([a[0], a[0], a[::-1, ::-1]]).words == "1 array, 12 numbers, 96 bytes"
