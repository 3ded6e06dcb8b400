"""Random programs that make objects and change them by several names give what the plain call gives."""

from __future__ import annotations

from typing import Any

import pytest

from acronumba import model
from tests.support.chosen import one_in
from tests.support.objects import COLUMNS, program
from tests.support.plain_call import agree, outcomes, plain

MORE = [pytest.param(range(n, n + 20), marks=pytest.mark.slow) for n in range(1000, 1200, 20)]


@pytest.mark.parametrize("seeds", [range(8), range(8, 16), *MORE])
def test_interpreted(seeds: range, module_of: Any) -> None:
    for seed in seeds:
        f = module_of(program(seed)).f
        agree(outcomes(model(f)._interpret, *COLUMNS), plain(f, *COLUMNS), close=True)


@pytest.mark.parametrize(
    "seed", one_in(3, [3, 86, 191, *(pytest.param(n, marks=pytest.mark.slow) for n in range(300, 340))])
)
def test_compiled(seed: int, module_of: Any) -> None:
    f = module_of(program(seed)).f
    wanted = plain(f, *COLUMNS)
    agree(outcomes(model(f).batch, *COLUMNS), wanted, close=True)
    turned = [column[::-1] for column in COLUMNS]
    agree(outcomes(model(f).with_options(forkjoin=False).batch, *turned), wanted[::-1], close=True)
