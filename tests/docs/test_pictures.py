"""The pictures under `docs/pictures` are what the command `acronumba picture` draws today (`--update-golden`)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

RESULTS = "benchmarks/results"
README = {"readme_schedule": (), "readme_graph": ("--graph", "32")}
PICTURES = {
    "performance": f"{RESULTS}/models-icelake-2cores.json",
    "sst": f"{RESULTS}/sst.json",
    **dict.fromkeys(README, "readme.py:classify"),
}


def first_example(root: Path, folder: Path) -> None:
    """Write the first model of the README with its trees as a file that the command finds instances in."""
    page = (root / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"<!-- run -->\n```python\n(.*?)```", page, re.S)[:2]
    example = '\n\ndef example():\n    return (trees,), {"p": p}\n'
    (folder / "readme.py").write_text("".join(blocks) + example, encoding="utf-8")


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_what_the_command_draws(
    root: Path, tmp_path: Path, name: str, request: pytest.FixtureRequest
) -> None:
    given = PICTURES[name]
    if given.endswith(".json"):
        given = str(root / given)
    else:
        first_example(root, tmp_path)
    out = tmp_path / f"{name}.svg"
    command = ["picture", given, "-o", str(out), *README.get(name, ())]
    done = subprocess.run(
        [sys.executable, "-m", "acronumba", *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    golden = root / "docs" / "pictures" / f"{name}.svg"
    if request.config.getoption("--update-golden"):
        golden.write_text(out.read_text(encoding="utf-8"), encoding="utf-8")
    assert out.read_text(encoding="utf-8") == golden.read_text(encoding="utf-8"), "run with --update-golden, and look"


def test_pictures_show_on_any_page(root: Path) -> None:
    """They need no script, no font and nothing that is elsewhere, and bring their own ground."""
    files = sorted((root / "docs" / "pictures").iterdir())
    assert {path.stem for path in files} == set(PICTURES)
    for path in files:
        text = path.read_text(encoding="utf-8")
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(text).iter()}
        assert tags <= {"svg", "title", "rect", "path", "circle", "text", "g", "polyline"}, path
        assert text.count("http") == 1, "the name space alone"
        assert re.search(r'<rect [^>]*fill="white"/>', text)
        assert 'font-family="sans-serif"' in text


def test_pages_say_what_pictures_show(root: Path) -> None:
    shown = set()
    for page in (root / "README.md", *(root / "docs").rglob("*.md")):
        for words, link in re.findall(r"!\[([^\]]*)\]\(([^)]+\.svg)\)", page.read_text(encoding="utf-8")):
            assert len(words.split()) >= 8, f"{page.name}: {link} needs a text for those who do not see it"
            shown.add((page.parent / link).resolve())
    assert shown >= set((root / "docs" / "pictures").resolve().iterdir())
