"""Random programs whose gradients are wrong, for tests that have two ways to compute them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from acronumba import AcronumbaError
from tests.support import fuzz

BOUND = 1e-3  # of the largest part of an instance
TENS = [pytest.param(10 * k, marks=pytest.mark.slow if k else pytest.mark.long) for k in range(20)]


def wrong_programs(
    error: Callable[[Any, Any, Any], float | None], numbers: Iterable[int], folder: Path
) -> tuple[dict[int, float], int]:
    """Return the errors of programs that are wrong, and how many were compared.

    Parameters
    ----------
    error
        Of a model with its columns and shared values: the largest difference; None if there is nothing to compare.
    numbers
        Of random programs.
    folder
        For their text.
    """
    wrong: dict[int, float] = {}
    many = 0
    for number in numbers:
        case = fuzz.case_of(number)
        module = fuzz.load(case.source, folder)
        try:
            worst = error(module.main, case.instances(module, 4), case.shared_values(module))
        except AcronumbaError:
            continue
        finally:
            fuzz.forget(module)
        if worst is not None:
            many += 1
            if not worst <= BOUND:
                wrong[number] = worst
    return wrong, many
