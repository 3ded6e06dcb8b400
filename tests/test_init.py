"""Parameters begin with the spread that the papers say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba import init

DRAWS = [
    (lambda r, d: init.uniform(r, (400, 300), 0.5, dtype=d), 0.5 / 3**0.5),
    (lambda r, d: init.normal(r, (400, 300), 0.5, dtype=d), 0.5),
    (lambda r, d: init.glorot(r, (400, 300), 2.0, dtype=d), 2 * (2 / 700) ** 0.5),
    (lambda r, d: init.glorot(r, (7, 400, 300), dtype=d), (2 / 700) ** 0.5),
    (lambda r, d: init.he(r, (400, 300), dtype=d), (2 / 300) ** 0.5),
    (lambda r, d: init.orthogonal(r, (400, 300), dtype=d), 400**-0.5),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("draw", "deviation"), DRAWS)
def test_spread(draw: Any, deviation: float, dtype: Any) -> None:
    w = draw(np.random.default_rng(0), dtype)
    assert w.dtype == dtype and w.flags.c_contiguous and w.flags.writeable
    assert abs(w.mean()) < 0.02 * deviation * 3 and abs(w.std() / deviation - 1) < 0.01
    assert np.array_equal(w, draw(np.random.default_rng(0), dtype))


@pytest.mark.parametrize("shape", [(5, 5), (7, 3), (3, 7), (2, 4, 3), (1, 6), (0, 3)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    w = init.orthogonal(np.random.default_rng(1), shape, 2.0, dtype=np.float64)
    assert w.shape == shape
    few = w if shape[-2] <= shape[-1] else np.swapaxes(w, -1, -2)
    eye = np.broadcast_to(4 * np.eye(few.shape[-2]), (*shape[:-2], *few.shape[-2:-1] * 2))
    np.testing.assert_allclose(few @ np.swapaxes(few, -1, -2), eye, atol=1e-12)


@pytest.mark.parametrize("draw", [init.glorot, init.he, init.orthogonal])
def test_a_vector_is_no_matrix(draw: Any) -> None:
    with pytest.raises(ValueError, match="two dimensions"):
        draw(np.random.default_rng(0), (3,))
