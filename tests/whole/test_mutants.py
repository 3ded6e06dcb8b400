"""The table of seeded errors (see `mutants`) fits the source: each would still be made."""

from __future__ import annotations

from tests import mutants


def test_every_error_can_still_be_made() -> None:
    assert not [p for p in map(mutants.problem, mutants.MUTANTS) if p]


def test_there_are_errors_in_every_part() -> None:
    assert len(mutants.MUTANTS) >= 30 and len({m.name for m in mutants.MUTANTS}) == len(mutants.MUTANTS)
    parts = {m.file.partition("/")[0] for m in mutants.MUTANTS}
    assert parts >= {"frontend", "analysis", "host", "runtime", "kernels", "emit", "random.py"}


def test_each_default_optimisation_has_an_error_that_random_programs_must_catch() -> None:
    wanted = "equal hoist reuse once tables ragged recycle fuse parts kept gradients".split()
    found = {m.name.partition(":")[0] for m in mutants.MUTANTS if m.of == "extents" and not m.tests}
    assert found == set(wanted)
