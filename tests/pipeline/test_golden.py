"""The text of every stage of small models against the texts in `tests/golden`: a change of the compiler is seen and
read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from acronumba.emit import target
from tests.support import golden_models
from tests.support.golden_losses import LOSSES


@pytest.mark.parametrize("name", list(golden_models.CASES))
def test_stages(name: str, golden: Callable[[str, str], None], root: Path) -> None:
    model, instances, has_params = golden_models.CASES[name]
    shared = {"p": golden_models.params()} if has_params else {}
    with target.override(vector_bits=256):  # the texts of kernels depend on the width of vectors
        stages = model.stages(instances, **shared)
        texts = {stage: text for stage, text in stages.items() if stage != "source"}
    assert [s for s in texts if s in ("schema", "ir", "sharing", "plan", "host")] == [
        "schema", "ir", "sharing", "plan", "host"
    ]  # fmt: skip
    files = {stage: f"{stage.replace('/', '.')}.txt" for stage in texts}
    for stage, text in texts.items():
        golden(text, f"{name}/{files[stage]}")
    present = {path.name for path in (root / "tests" / "golden" / name).iterdir()}
    assert present == set(files.values()), "remove the texts of stages that are no more"


def test_stages_are_the_same_in_every_run(golden: Callable[[str, str], None]) -> None:
    model, instances, _ = golden_models.CASES["tree_rnn"]
    first, second = (dict(model.with_options().stages(instances, p=golden_models.params())) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("name", LOSSES)
def test_backward_stages(name: str, golden: Callable[[str, str], None]) -> None:
    loss, instances, params = LOSSES[name]
    stages = loss.value_and_grad.stages(instances, [0, 1], p=params)
    found = {stage: text for stage, text in stages.items() if stage.startswith("backward/")}
    golden("\n".join(f"{stage}\n\n{text}" for stage, text in found.items()), f"backward/{name}.txt")
