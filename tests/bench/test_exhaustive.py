"""`benchmarks/exhaustive.py`: what it runs, and what it takes for the best."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from acronumba_bench.workloads import WORKLOADS
from tests.support.modules import import_file

ROOT = Path(__file__).parent.parent.parent
NOISE = np.random.default_rng(0)


@pytest.fixture(scope="module")
def program() -> ModuleType:
    return import_file(ROOT / "benchmarks" / "exhaustive.py", "exhaustive_program")


def times(each: dict[str, float], count: int = 9, kernel: str = "") -> dict[str, dict[str, list[float]]]:
    return {name: {kernel: [x * (1 + 1e-3 * (k % 3)) for k in range(count)]} for name, x in each.items()}


def test_luck_in_the_first_turns_is_no_gain(program: ModuleType) -> None:
    fresh = times({"default": 1.0, "lucky": 1.02, "tuned": 1.1, "better": 0.9})
    best, default, tuned = program.verdict(fresh, "", "lucky", True)
    assert best == "default" and default.median == 1.0 and tuned.median == pytest.approx(1.1)
    best, default, tuned = program.verdict(fresh, "", "better", False)
    assert best == "better" and default.median == pytest.approx(1 / 0.9) and tuned is None


def test_of_equal_strategies_the_default_is_not_far_off(program: ModuleType) -> None:
    """Thirty strategies as fast as the default, each of whose turns is 5% off: the least of them is no measure."""
    names = ["default", *(f"strategy {k}" for k in range(30)), "tuned"]

    def turns(count: int) -> dict[str, Any]:
        return {name: {"": np.exp(NOISE.normal(0, 0.05, count)).tolist()} for name in names}

    found, gaps = [], []
    for _ in range(50):
        first = turns(5)
        found.append(min(names, key=lambda name: program.looks(first, name, "")))
        gaps.append(program.verdict(turns(15), "", found[-1], True)[1].median)
    assert set(found) - {"default"}
    assert np.median(gaps) < 1.01


def test_measuring_costs_turns(program: ModuleType) -> None:
    assert program.cost_of_turns(1e-2, 8) == pytest.approx(1e-2 * (8 * (2 + 7 * 2) + 2 * (2 + 25 * 2)))
    assert program.cost_of_turns(1e-5, 8) > program.cost_of_turns(1e-3, 8) * 0.5  # what is short is repeated
    assert program.cost_of_turns(10.0, 8) == 10.0 * (8 + 2) * (2 + 5 * 2)  # what is slow gets fewer turns


@pytest.mark.slow
def test_a_model_is_measured(program: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "found.json"
    given = ["--models", "birnn", "--size", "16", "--batch", "3", "1", "--turns", "3", "--fresh", "6", "--share", "0"]
    assert program.main([*given, "--seconds", "0.2", "--json", str(file)]) == 0
    found = json.loads(file.read_text(encoding="utf-8"))
    kernels = {row["kernel"] for row in found["rows"]}
    w = WORKLOADS["birnn"]
    assert kernels == {"", *w.model.trace(w.instances(1), p=w.params(16)).data.kernels}
    assert {row["instances"] for row in found["rows"]} == {1, 3}
    for row in found["rows"]:
        assert row["seconds"] > 0 and row["default"]["low"] <= row["default"]["median"] <= row["default"]["high"]
        assert row["default"]["median"] >= 1.0
    assert found["tuning"]["apart"] > found["tuning"]["together"] > 0
    text, progress = capsys.readouterr()
    assert len([line for line in text.splitlines() if line.startswith("birnn")]) == len(found["rows"])
    assert "kernels within 6% of the best" in text and "numbers of rows of kernels alone" in text
    assert progress.startswith("[1 of 1")
