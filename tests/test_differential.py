"""Random models (see `generate`) against the plain call: by the interpreter of the plan, and as machine code."""

from __future__ import annotations

import os
from pathlib import Path

import generate
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

SEEDS = st.integers(0, 2**32 - 1)
# A smaller seed is not a smaller model: nothing is gained by shrinking. `generate.py SEED --reduce` takes lines away.
once = settings(phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck))


def agree(folder: Path, seed: int, size: int, compiled: bool) -> None:
    """Fail, with the model's source, if a random model is not what the plain call says."""
    case = generate.generate(seed, size)
    found = generate.differences(case, folder, compiled=compiled)
    assert not found, "\n".join([f"seed {seed}, size {size}", case.source, *map(str, found)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("generated")


@settings(once, max_examples=80)
@given(seed=SEEDS, size=st.integers(2, 9))
def test_the_interpreted_plan_is_the_plain_call(folder: Path, seed: int, size: int) -> None:
    agree(folder, seed, size, compiled=False)


@pytest.mark.parametrize("seed", range(30))
def test_machine_code_is_the_plain_call(folder: Path, seed: int) -> None:
    agree(folder, seed, 1 + seed % 5, compiled=True)


@pytest.mark.full
@pytest.mark.parametrize("start", range(0, 1000, 20))
def test_machine_code_of_a_thousand_models(folder: Path, start: int) -> None:
    # Other models each time, where ACRONUMBA_SEED says so.
    offset = int(os.environ.get("ACRONUMBA_SEED", "0")) * 1000
    for seed in range(start, start + 20):
        agree(folder, 100 + offset + seed, 3 + seed % 9, compiled=True)


@pytest.mark.full
@settings(once, max_examples=2000)
@given(seed=SEEDS, size=st.integers(2, 16))
def test_many_interpreted_plans(folder: Path, seed: int, size: int) -> None:
    agree(folder, seed, size, compiled=False)


def test_a_seed_is_one_model() -> None:
    assert generate.generate(5).source == generate.generate(5).source
    assert generate.generate(5).source != generate.generate(6).source
