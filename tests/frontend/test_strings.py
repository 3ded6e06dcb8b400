"""Strings as data are the plain call's: interpreted, as machine code, on the simulator."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.chosen import by_ways
from tests.support.models_of_strings import CASES
from tests.support.plain_call import WAYS

IDS = [f"{f.__name__}{k}" for k, (f, _) in enumerate(CASES)]


@pytest.mark.parametrize(("way", "f", "columns"), by_ways(CASES, IDS, compiled=4, simulated=12))
def test_it_is_the_plain_call(way: str, f: Any, columns: Any) -> None:
    WAYS[way](f, *columns)
