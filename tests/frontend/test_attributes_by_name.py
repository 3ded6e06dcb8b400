"""`getattr` of names that only run time knows, of shared objects; and derivatives of powers at 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from acronumba import model
from acronumba.errors import InstanceErrors, ShapeMismatch


@dataclass
class Weights:
    w_add: np.ndarray
    w_mul: np.ndarray
    scale: float

    def do_add(self, x: np.ndarray) -> np.ndarray:
        return x + self.w_add

    def do_mul(self, x: np.ndarray) -> np.ndarray:
        return x * self.w_mul


@model
def by_name(x: np.ndarray, kind: str, *, p: Weights) -> np.ndarray:
    return getattr(p, f"do_{kind}")(x) + getattr(p, "w_" + kind)


@model
def any_name(x: np.ndarray, name: str, *, p: Weights) -> np.ndarray:
    return x + getattr(p, name)


@model
def powers(x: np.ndarray, n: float, *, s: np.ndarray) -> np.ndarray:
    return np.sum(np.power(x * s, np.float32(n)))


def test_attributes_by_a_name_of_run_time() -> None:
    p = Weights(np.arange(3.0), np.ones(3) * 2, 0.5)
    xs, kinds = [np.ones(3), np.arange(3.0), np.zeros(3)], ["add", "mul", "add"]
    for out, x, kind in zip(by_name.batch(xs, kinds, p=p), xs, kinds, strict=True):
        np.testing.assert_array_equal(out, by_name(x, kind, p=p))
    with pytest.raises(InstanceErrors) as errors:
        by_name.batch(xs, ["add", "pow", "add"], p=p)
    assert "no attribute 'do_pow'" in str(errors.value)
    with pytest.raises(ShapeMismatch, match=r"getattr of .* by a name that only run time knows"):
        any_name.batch(xs, ["w_add"] * 3, p=p)


def test_powers_have_derivatives_at_zero() -> None:
    xs = [np.array([0.0, 1.0, 2.0], np.float32)] * 2
    _, grads = powers.value_and_grad.batch(xs, [2.0, 3.0], s=np.ones(3, np.float32))
    np.testing.assert_allclose(grads, np.array([0, 2 + 3, 8 + 24]) / 2, rtol=1e-6)


@dataclass
class Numbered:
    w0: np.ndarray
    w1: np.ndarray

    def ways(self) -> int:
        return 2


@model
def by_number(x: np.ndarray, k: int, *, p: Numbered) -> np.ndarray:
    return x + getattr(p, f"w{k}")


def test_a_name_with_an_int_is_that_of_no_method_without_a_digit() -> None:
    p = Numbered(np.arange(3.0), np.ones(3) * 2)
    xs, ks = [np.ones(3), np.arange(3.0), np.zeros(3)], [0, 1, 0]
    np.testing.assert_array_equal(
        by_number.batch(xs, ks, p=p), [by_number(x, k, p=p) for x, k in zip(xs, ks, strict=True)]
    )
