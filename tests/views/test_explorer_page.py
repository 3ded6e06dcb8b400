"""The explorer's page as text: one file, no markup of the user's, scripts that are one module; the command."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba.cli.main import main
from acronumba.views.explorer import page
from tests.support import explored

SCRIPTS = Path(page.__file__).parent / "js"


@pytest.fixture(scope="module")
def trace() -> Any:
    return explored.classify.trace(explored.trees(50), p=explored.params())


class Tags(HTMLParser):
    """Every tag with its attributes, and the text of what has no markup."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def test_the_page_needs_nothing_else(trace: Any, tmp_path: Path) -> None:
    path = trace.html(tmp_path / "page.html")
    text = path.read_text(encoding="utf-8")
    tags = Tags(text).seen
    assert not [(tag, a) for tag, a in tags if {"src", "href", "style", "onclick"} & a.keys()]
    policy = next(a["content"] for tag, a in tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None and policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy and "http" not in policy
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text)
    assert len(text.encode()) < 224_000, "the budget of a small page, of which the generated code is 97 KB"
    assert text == trace.html(tmp_path / "again.html").read_text(encoding="utf-8")


def test_no_string_of_the_user_is_markup(tmp_path: Path) -> None:
    trace = explored.hostile.trace([np.zeros(3, np.float32), np.full(3, 2, np.float32)])
    text = trace.html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert [tag for tag, _ in Tags(text).seen].count("script") == 2
    assert "hacked" in text and "<img" not in text
    named = page.page({**trace.explored(options=False, schedules=False).data, "model": explored.HOSTILE})
    assert [tag for tag, _ in Tags(named).seen].count("script") == 2


def test_whatever_a_file_holds_is_text(tmp_path: Path) -> None:
    trace = explored.hostile_file(tmp_path)
    text = trace.html(tmp_path / "page.html", options=False).read_text(encoding="utf-8")
    seen = [tag for tag, _ in Tags(text).seen]
    assert seen.count("script") == 2 and not {"img", "svg"} & set(seen)
    data = json.loads(trace.json(tmp_path / "page.json", options=False).read_text(encoding="utf-8"))
    assert "\ud800" in data["errors"]["2"] and len(data["errors"]["2"]) < 500
    lines = explored.HOSTILE_SOURCE.split("\n")
    for source in data["sources"]:
        for k, line in enumerate(source["lines"]):
            assert line.partition("LONG")[0][:40] == lines[source["first"] - 1 + k][:40]
    assert not {"img", "script"} & {tag for tag, _ in Tags(trace._repr_mimebundle_()["text/html"]).seen}


def test_the_scripts_are_one_module() -> None:
    assert {path.stem for path in SCRIPTS.glob("*.js")} == set(page.MODULES)
    code = page.script()
    assert not re.search(r"^\s*import\b", code, re.M)
    names = re.findall(r"^(?:export )?(?:async )?(?:function|const|let|class) (?:(\w+)|\{([^}]*)\})", code, re.M)
    declared = [name.strip() for one, many in names for name in (one or many).split(",")]
    assert len(declared) > 100 and len(declared) == len(set(declared)), sorted(
        n for n in declared if declared.count(n) > 1
    )


@pytest.mark.parametrize("name", page.MODULES)
def test_a_script_is_small_and_imports_what_comes_before_it(name: str) -> None:
    text = (SCRIPTS / f"{name}.js").read_text(encoding="utf-8")
    assert text.startswith("// @ts-check\n") and text.count("\n") < 200
    imported = re.findall(r'from "\./(\w+)\.js"', text)
    assert all(page.MODULES.index(other) < page.MODULES.index(name) for other in imported)
    if name in page.MODULES[:6]:
        assert not re.search(r"\bdocument\b|\bwindow\b", text), "no DOM"


def test_json_is_the_data_of_the_page(trace: Any, tmp_path: Path) -> None:
    data = json.loads(trace.json(tmp_path / "page.json").read_text(encoding="utf-8"))
    assert data == trace.explored().data
    text = trace.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found is not None and json.loads(found[1]) == data


def test_explore_writes_a_page_and_says_where(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = explored.classify.explore(explored.trees(3), p=explored.params(), options=False)
    assert capsys.readouterr().out.split() == ["classify.html"]
    assert (tmp_path / "classify.html").stat().st_size > 10_000
    assert found.data["made"]["runs"] == 5 and found.data["model"] == "classify"


def test_the_command_explores_a_model_of_a_file(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "small.py").write_text(
        "import numpy as np\nfrom acronumba import model\n\n@model\ndef square(x, *, w):\n    return np.tanh(w @ x)\n\n"
        "def example():\n    return (np.ones((4, 3), np.float32),), {'w': np.ones((3, 3), np.float32)}\n"
    )
    out = tmp_path / "out.html"
    assert main(["explore", f"{tmp_path / 'small.py'}:square", "-o", str(out)]) == 0
    assert capsys.readouterr().out.strip() == str(out) and out.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert (
        main(["explore", f"{tmp_path / 'small.py'}:square", "-o", str(tmp_path / "out.json"), "--json", "-n", "2"]) == 0
    )
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["summary"]["instances"] == 2
    assert main(["explore", "square"]) == 2


def test_a_frame_has_the_whole_page_and_no_rights(trace: Any) -> None:
    made = page.frame(trace.explored(options=False, schedules=False).data)
    ((tag, attributes),) = Tags(made).seen
    assert tag == "iframe" and attributes["sandbox"] == "allow-scripts" and attributes["height"] == "640"
    assert (attributes["srcdoc"] or "").startswith("<!DOCTYPE html>")


def test_the_page_is_part_of_the_package(tmp_path: Path) -> None:
    """A wheel has what `importlib.resources` reads."""
    root = Path(page.__file__).resolve().parents[3]
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    assert '"acronumba.views.explorer" = ["js/*.js"]' in text and '"*.html"' in text and '"*.css"' in text


@pytest.mark.skipif(not shutil.which("node"), reason="NOT RUN: no node")
def test_scripts_without_a_page(tmp_path: Path) -> None:
    """What has no DOM, under node: `tests/views/explorer.test.mjs`."""
    columns, shared = explored.waiting(16)
    for name, made in (
        ("trees", explored.classify.trace(explored.trees(12), p=explored.params())),
        ("waits", explored.waits.trace(*columns, **shared)),
    ):
        made.json(tmp_path / f"{name}.json", options=False)
    program = Path(__file__).parent / "explorer.test.mjs"
    done = subprocess.run(
        ["node", "--test", str(program)], capture_output=True, text=True, check=False, timeout=120,
        env={"PATH": str(Path(shutil.which("node") or "").parent), "DATA": str(tmp_path), "SCRIPTS": str(SCRIPTS)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"# pass (\d+)", done.stdout)[1]) >= 7, done.stdout  # type: ignore[index]
