"""The pictures under `docs/pictures` are what the command `acronumba picture` draws today (`--update-golden`)."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from xml.etree import ElementTree

import pytest

from acronumba.cli.main import main
from acronumba.views.curves import INK

RESULTS = "benchmarks/results"
PAGES = {  # the program of a page, its model, and options of the command
    "readme_schedule": ("README.md", 1, "encode", ()),
    "first_schedule": ("docs/first_model.md", 2, "classify", ()),
    "first_graph": ("docs/first_model.md", 2, "classify", ("--graph", "32")),
}
PICTURES = {
    "performance": f"{RESULTS}/models-znver4-2cores.json",
    "sst": f"{RESULTS}/sst.json",
    **{name: f"page.py:{model}" for name, (_, _, model, _) in PAGES.items()},
}


def example_of(page: Path, count: int, folder: Path) -> None:
    """Write the first blocks of a page, a model and its trees, as a file that the command finds instances in."""
    blocks = re.findall(r"<!-- run -->\n```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)[:count]
    example = '\n\ndef example():\n    return (trees,), {"p": p}\n'
    (folder / "page.py").write_text("".join(blocks) + example, encoding="utf-8")


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_what_the_command_draws(
    root: Path, tmp_path: Path, name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "page", types.ModuleType("page"))  # both are as they were when it is over
    monkeypatch.chdir(tmp_path)
    given, options = PICTURES[name], ()
    if given.endswith(".json"):
        given = str(root / given)
    else:
        page, count, _, options = PAGES[name]
        example_of(root / page, count, tmp_path)
    assert main(["picture", given, "-o", "drawn.svg", *options]) == 0
    drawn = Path("drawn.svg").read_text(encoding="utf-8")
    golden = root / "docs" / "pictures" / f"{name}.svg"
    if request.config.getoption("--update-golden"):
        golden.write_text(drawn, encoding="utf-8")
    assert drawn == golden.read_text(encoding="utf-8"), "run with --update-golden, and look"


def test_pictures_show_on_any_page(root: Path) -> None:
    """They need no script, no font and nothing that is elsewhere, and are read on light and on dark ground."""
    files = sorted((root / "docs" / "pictures").iterdir())
    assert {path.stem for path in files} == set(PICTURES)
    for path in files:
        text = path.read_text(encoding="utf-8")
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(text).iter()}
        assert tags <= {"svg", "title", "rect", "path", "circle", "text", "g", "polyline"}, path
        assert text.count("http") == 1, "the name space alone"
        assert not re.search(r'<rect [^>]*fill="white"', text) and 'fill="#6e7781"' in text
        assert 'font-family="sans-serif"' in text


def test_the_ink_of_pictures_is_read_on_white_and_on_black() -> None:
    red, green, blue = (((v / 255 + 0.055) / 1.055) ** 2.4 for v in bytes.fromhex(INK[1:]))
    light = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    assert 1.05 / (light + 0.05) > 4.5 and (light + 0.05) / 0.05 > 4.5  # as WCAG asks for


def test_a_dark_page_does_not_darken_pictures(root: Path) -> None:
    """The theme would draw them on white, and less bright: their ink is chosen for both grounds."""
    style = (root / "docs" / "_static" / "site.css").read_text(encoding="utf-8")
    (rule,) = re.findall(r'data-theme="dark"\][^{]*\.svg[^{]*\{([^}]*)\}', style)
    assert "background: none" in rule and "filter: none" in rule


def test_pages_say_what_pictures_show(root: Path) -> None:
    shown = set()
    for page in (root / "README.md", *(root / "docs").rglob("*.md")):
        for words, link in re.findall(r"!\[([^\]]*)\]\(([^)]+\.svg)\)", page.read_text(encoding="utf-8")):
            assert len(words.split()) >= 8, f"{page.name}: {link} needs a text for those who do not see it"
            shown.add((page.parent / link).resolve())
    assert shown >= set((root / "docs" / "pictures").resolve().iterdir())
