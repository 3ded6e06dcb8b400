"""Arrays made in the call may be written to: item, slice, mask and index assignment, views and other names.

Each model of `models_of_written_arrays` is compared with its plain call: interpreted, as machine code, and on the
simulator of a GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba.api.model import Model
from tests.support import generate
from tests.support.models_of_written_arrays import CASES


def columns(count: int, seed: int = 0) -> list[list[Any]]:
    rng = np.random.default_rng(seed)
    lengths = [k % 5 for k in range(count)]
    return [
        [rng.normal(size=(n, 4)) for n in lengths],
        [rng.normal(size=4) for _ in lengths],
        [rng.integers(0, 4, size=3) for _ in lengths],
        [int(k % 4) for k in range(count)],
        [[int(v) for v in rng.integers(0, 9, size=(n * 2) % 5)] for n in lengths],
    ]


@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("engine", ["interpreter", "compiled", "simulator"])
def test_what_is_written_is_the_plain_calls(f: Model, engine: str) -> None:
    if engine == "simulator":
        f = f.on("simulator")
    found = generate.compare(f, columns(9 if engine != "simulator" else 4), {}, compiled=engine != "interpreter")
    assert not found, "\n".join(map(str, found))
