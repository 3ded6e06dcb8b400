"""The definition of gradients: the backward pass through a run, against central differences in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from acronumba import AcronumbaError
from acronumba.ir.interpret import InstanceFailure
from tests.support import fuzz
from tests.support.all_models import CASES
from tests.support.chosen import one_in
from tests.support.derivatives import Run
from tests.support.zoo_models import ZOO


@pytest.mark.parametrize(("module", "f"), one_in(3, one_in(3, ZOO, [f.__name__ for _, f in ZOO], "slow")))
def test_the_zoo_agrees_with_differences(module: Any, f: Any) -> None:
    p, xs = module.params(size=8), module.instances(2)
    for k in range(2):
        run = Run(f, [xs], {"p": p}, k)
        assert run.error() < 1e-8
        assert run.slope(wide=False) == pytest.approx(run.slope(), rel=1e-3)


@pytest.mark.parametrize("case", one_in(12, CASES, ids=[c.name for c in CASES]))
def test_models_of_the_language_agree_with_differences(case: Any) -> None:
    for k in range(min(2, len(case.columns[0]))):
        try:
            run = Run(case.model, case.columns, case.shared, k)
        except InstanceFailure:
            continue
        assert not run.error() > 1e-6


def random_errors(numbers: range, folder: Path) -> tuple[dict[int, float], int]:
    """Return the errors of random programs that have one, and how many instances there were."""
    wrong: dict[int, float] = {}
    many = 0
    for number in numbers:
        case = fuzz.case_of(number)
        module = fuzz.load(case.source, folder)
        try:
            columns, shared = case.instances(module, 4), case.shared_values(module)
            for k in range(2):
                try:
                    run = Run(module.main, columns, shared, k)
                except (InstanceFailure, AcronumbaError):
                    continue
                if run.weights and not max(abs(run.value(0.0)), abs(run.slope())) < 1e4:
                    continue
                many += 1
                error = run.error()
                if error > 1e-5:
                    wrong[number] = max(error, wrong.get(number, 0))
        finally:
            fuzz.forget(module)
    return wrong, many


def test_random_programs_agree_with_differences(tmp_path: Path) -> None:
    wrong, many = random_errors(range(10), tmp_path)
    assert not wrong and many > 8, many


@pytest.mark.slow
def test_many_random_programs_agree_with_differences(tmp_path: Path) -> None:
    wrong, many = random_errors(range(1000, 1050), tmp_path)
    assert not wrong and many > 40, many
