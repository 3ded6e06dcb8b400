"""The table of Python's features in `docs/language.md` is what the models of these features say (`--update-golden`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.python_features import FEATURES, REJECTED

PAGE = Path(__file__).parents[2] / "docs" / "language.md"
BEGIN, END = "<!-- python -->\n", "<!-- end of python -->"


def python_table() -> str:
    """Return the table: a row for each section, with what works and what is not supported."""
    lines = ["", "| | works | not supported |", "|---|---|---|"]
    for group, features in FEATURES.items():
        texts = {f.__name__: " ".join((f.__doc__ or "").split()).replace("|", "\\|") for f in features}
        works = ", ".join(t for name, t in texts.items() if name not in REJECTED)
        rejected = ", ".join(t for name, t in texts.items() if name in REJECTED)
        lines.append(f"| {group} | {works} | {rejected} |")
    return "\n".join([*lines, "", ""])


def test_the_table_is_what_the_models_say(pytestconfig: pytest.Config) -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    found, after = rest.split(END)
    if pytestconfig.getoption("--update-golden"):
        PAGE.write_text(before + BEGIN + python_table() + END + after, encoding="utf-8")
        return
    assert found == python_table()
