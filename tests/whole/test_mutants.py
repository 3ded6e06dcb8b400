"""The table of seeded errors (see `mutants`) fits the source: each would still be made."""

from __future__ import annotations

from tests import mutants


def test_every_error_can_still_be_made() -> None:
    assert not [p for p in map(mutants.problem, mutants.MUTANTS) if p]


def test_there_are_errors_in_every_part() -> None:
    assert len(mutants.MUTANTS) >= 30 and len({m.name for m in mutants.MUTANTS}) == len(mutants.MUTANTS)
    parts = {m.file.partition("/")[0] for m in mutants.MUTANTS}
    assert parts >= {"frontend", "analysis", "host", "runtime", "kernels", "emit", "random.py"}
