"""Each recipe of `docs/recipes.md` prints what the page says, where its library is installed."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.chosen import one_in

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "recipes.md"
RECIPES = re.findall(r"^## (.*?)\n.*?```python\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text("utf-8"), re.M | re.S)


def test_every_section_has_a_recipe() -> None:
    assert [title for title, _, _ in RECIPES] == re.findall(r"^## (.*)", PAGE.read_text("utf-8"), re.M)


@pytest.mark.parametrize(
    ("text", "prints"),
    one_in(8, [(text, prints) for _, text, prints in RECIPES], [title for title, _, _ in RECIPES]),
)
def test_recipe(text: str, prints: str, tmp_path: Path) -> None:
    for name in set(re.findall(r"^(?:import|from) (\w+)", text, re.M)):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    script = tmp_path / "recipe.py"
    script.write_text(text)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False)
    assert not done.returncode, done.stderr
    assert done.stdout == prints
