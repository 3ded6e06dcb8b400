"""Random programs of run-time extents, in poisoned memory: no optimisation that is on by default changes a result."""

from __future__ import annotations

from pathlib import Path

import pytest

from acronumba.runtime import driver, kernel_table
from tests.support import extents, fuzz
from tests.support.poison import poison


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory holds NaN; what a program sets for itself is undone."""
    poison(monkeypatch.setattr)
    for module, name in ((driver, "_AIM"), (driver, "_LEAST"), (kernel_table, "_TRIES")):
        monkeypatch.setattr(module, name, getattr(module, name))


@pytest.mark.parametrize("number", range(0, 36, 3))
def test_compiled(number: int, tmp_path: Path, poisoned: None) -> None:
    fuzz._small_parts(number)
    found = fuzz.outcome_of(number, "compiled", tmp_path, "extents")
    assert not found.wrong, found.text


@pytest.mark.parametrize("number", [0, 5, 10, 15])
def test_gradients(number: int, tmp_path: Path, poisoned: None) -> None:
    found = fuzz.outcome_of(number, "gradients", tmp_path, "extents")
    assert not found.wrong, found.text


def test_instances_agree_in_some_extents_and_differ_in_others(tmp_path: Path) -> None:
    both = 0
    for number in range(8):
        case = fuzz.case_of(number, "extents")
        assert isinstance(case, extents.ExtentsCase)
        module = fuzz.load(case.source, tmp_path)
        x, y, *_ = case.instances(module, 16)
        both += (
            len({len(a) for a in x}) > 1
            and len({len(a) for a in x}) < 16
            and len({(len(a), len(b)) for a, b in zip(x, y, strict=True)}) > 2
        )
        fuzz.forget(module)
    assert both > 4
