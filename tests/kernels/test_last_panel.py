"""The last panel of a product has a tile for the vectors of columns that are left; no bit depends on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from acronumba import compress, model, pack
from acronumba.emit.target import Target, override
from acronumba.kernels import cpu
from acronumba.kernels.stages.passes import last_vectors
from acronumba.strategy import Strategy
from tests.support.chosen import one_in, squares
from tests.support.kernel_runs import SpecBuilder


@dataclass
class Params:
    w: np.ndarray
    b: np.ndarray
    experts: np.ndarray


@model
def layer(x: np.ndarray, *, p: Params) -> np.ndarray:
    return np.tanh(p.w @ x + p.b)


@model
def grouped(x: np.ndarray, k: int, *, p: Params) -> np.ndarray:
    return p.experts[k] @ x


def weights(n: int, k: int) -> Params:
    r = np.random.default_rng(n)
    made = [r.standard_normal(s).astype(np.float32) for s in ((n, k), (n,), (3, n, k))]
    return Params(*made)


def test_vectors_of_the_last_panel() -> None:
    assert [last_vectors(5, 1, n, 16, "float32") for n in (1, 80, 81, 96, 97, 200, 208, 209)] == [
        1,
        5,
        1,
        1,
        2,
        3,
        3,
        4,
    ]
    assert last_vectors(3, 2, 17, 16, "float32") == 6  # those of two gates do not come last
    assert last_vectors(5, 1, 81, 16, "lookups") == 5


@pytest.mark.parametrize(
    ("n", "form", "vectors"), one_in(4, squares([81, 100, 200], ["float32", "bf16", "int8"], [2, 3, 4, 5])), ids=str
)
def test_no_bit_depends_on_panels(n: int, form: str, vectors: int) -> None:
    p = weights(n, 37)
    xs = list(np.random.default_rng(1).standard_normal((13, 37)).astype(np.float32))
    f = layer.with_options(precision="bf16") if form == "bf16" else layer
    given = pack(compress(p, "int8") if form == "int8" else p)
    one, many = (f.with_options(strategy=Strategy(panel_vectors=v)).batch(xs, p=given) for v in (1, vectors))
    assert all(np.array_equal(a, b) for a, b in zip(one, many, strict=True))
    if form == "float32":
        assert np.allclose(np.stack(list(many)), [layer(x, p=p) for x in xs], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("vectors", [3, 5])
def test_matrices_of_nodes(vectors: int) -> None:
    p, r = weights(100, 21), np.random.default_rng(2)
    xs, ks = list(r.standard_normal((30, 21)).astype(np.float32)), [int(k) for k in r.integers(3, size=30)]
    one, many = (grouped.with_options(strategy=Strategy(panel_vectors=v)).batch(xs, ks, p=p) for v in (1, vectors))
    assert all(np.array_equal(a, b) for a, b in zip(one, many, strict=True))


@pytest.mark.parametrize(("n", "wanted"), [(200, {5, 3}), (160, {5}), (300, {5, 4})])
def test_tiles_of_a_kernel(n: int, wanted: set[int]) -> None:
    b = SpecBuilder("product")
    x = b.tensor("x", 8)
    spec = b.spec(b.op("matmul", b.shared("w", n, 8), x, shape=(n,)))
    with override(vector_bits=512) as machine:
        assert isinstance(machine, Target)
        found = {key.vectors for key in cpu.generate(spec, machine).tiles}
    assert found == wanted
