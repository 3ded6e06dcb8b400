"""`docs/modules.md` shows the modules of `acronumba.torch.zoo` as they are.

    python -m pytest tests/docs/test_modules_page.py --update-golden

writes its blocks anew. A block after ``<!-- code: FILE.CLASS -->`` has the source of the class. PyTorch is not needed.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from acronumba_bench.torch_modules import MODULES

BLOCK = re.compile(r"<!-- code: (\w+)\.(\w+) -->\n```python\n(.*?)```\n", re.S)


def test_the_page_shows_what_is(root: Path, request: pytest.FixtureRequest) -> None:
    path = root / "docs" / "modules.md"
    page = path.read_text(encoding="utf-8")

    def filled(match: re.Match[str]) -> str:
        text = (root / "acronumba" / "torch" / "zoo" / f"{match[1]}.py").read_text(encoding="utf-8")
        (found,) = [x for x in ast.parse(text).body if isinstance(x, ast.ClassDef) and x.name == match[2]]
        code = "\n".join(text.splitlines()[found.lineno - 1 : found.end_lineno])
        return f"<!-- code: {match[1]}.{match[2]} -->\n```python\n{code}\n```\n"

    new = BLOCK.sub(filled, page)
    if request.config.getoption("--update-golden"):
        path.write_text(new, encoding="utf-8")
    else:
        assert new == page, "run with --update-golden, and read the page"


def test_every_module_is_on_the_page_and_measured(root: Path) -> None:
    page = (root / "docs" / "modules.md").read_text(encoding="utf-8")
    files = {path.stem for path in (root / "acronumba" / "torch" / "zoo").glob("*.py")} - {"__init__"}
    assert files == set(MODULES) == {match[1] for match in BLOCK.finditer(page)}
