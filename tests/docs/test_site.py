"""The documentation site: every public name, code and variable has a page; a built site loads nothing from a network.

`make docs` builds it; where there is none, what looks at it is skipped.
"""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

import acronumba
from acronumba.errors.codes import CODES, read_page

ROOT = Path(__file__).resolve().parents[2]
DOCS, SITE = ROOT / "docs", ROOT / "build" / "site"
MODULES = ("compression", "nn", "random", "init", "optim", "training", "serve", "learn")
OTHERS = ("torch", "ray")  # whose libraries may be missing
LISTED = re.compile(r"^   (acronumba\.[\w.]+)$", re.M)
built = pytest.mark.skipif(not (SITE / "index.html").exists(), reason="no site was built: make docs")


@pytest.fixture(autouse=True)
def builder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))


def public_names() -> set[str]:
    """The names that users import."""
    names = {f"acronumba.{name}" for name in acronumba.__all__ if name not in MODULES}
    for module in MODULES:
        names |= {f"acronumba.{module}.{name}" for name in importlib.import_module(f"acronumba.{module}").__all__}
    for module in OTHERS:
        path = ROOT / "acronumba" / f"{module}.py"
        path = path if path.exists() else path.with_suffix("") / "__init__.py"
        text = path.read_text(encoding="utf-8")
        (found,) = re.findall(r"^__all__ = (\[.*?\])", text, re.M | re.S)
        names |= {f"acronumba.{module}.{name}" for name in ast.literal_eval(found)}
    return names


def test_the_reference_has_every_public_name_once() -> None:
    listed = LISTED.findall((DOCS / "api.md").read_text(encoding="utf-8"))
    assert len(listed) == len(set(listed))
    assert set(listed) == public_names()


def test_the_modules_of_the_reference_are_those_that_users_import() -> None:
    exported = {name for name in acronumba.__all__ if hasattr(getattr(acronumba, name), "__path__")
                or type(getattr(acronumba, name)).__name__ == "module"}  # fmt: skip
    assert exported == set(MODULES)


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_page(code: str) -> None:
    from builder import codes

    entry = CODES[code]
    text, programs = read_page(code)
    page = codes.page(entry)
    assert page.startswith(f"# {code}: ") and entry.error.__name__ in page and entry.rewrite in page
    assert text in page and all(program in page for program in programs.values())
    assert codes.index().count(f"[{code}]({code}.md)") == 1


def test_the_page_of_the_environment_has_every_variable() -> None:
    page = (DOCS / "environment.md").read_text(encoding="utf-8")
    read = set()
    for path in (ROOT / "acronumba").rglob("*.py"):
        read |= set(re.findall(r"\bACRONUMBA_[A-Z_]+\b", path.read_text(encoding="utf-8")))
    internal = {name for name in read if name.endswith("_CHILD")}  # from a process to those that it starts
    assert set(re.findall(r"^\| `(ACRONUMBA_\w+)` \|", page, re.M)) == read - internal


def test_the_page_of_the_command_line_has_every_command(tmp_path: Path) -> None:
    from builder import commands

    commands.write(tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    found = set(re.findall(r"^## acronumba (\w+)$", page, re.M))
    assert found >= {"bench", "cache", "demo", "doctor", "explain", "show"}
    assert "--stage NAME" in page


def test_what_is_wrong_with_a_site_is_found(tmp_path: Path) -> None:
    from builder import links

    (tmp_path / "a.html").write_text(
        '<a href="b.html#there">b</a><a href="https://example.org">elsewhere</a><a href="#here">h</a><p id="here"></p>'
        '<script src="own.js"></script>'
    )
    (tmp_path / "own.js").write_text("")
    (tmp_path / "b.html").write_text('<h1 id="there"></h1>')
    assert not list(links.wrong(tmp_path))
    for number, wrong in enumerate((
        '<a href="c.html">c</a>', '<a href="b.html#nowhere">b</a>', '<script src="https://example.org/x.js"></script>',
        '<link rel="stylesheet" href="//example.org/x.css">', '<img src="missing.svg">', '<a href=".">a folder</a>',
        "<a title='a > b' href='c.html'>c</a>", '<A HREF=c.html>c</A>', '<!-- --><a href="#n">n</a><!-- id="n" -->',
        '<a href="#n">n</a><script>const text = \'<p id="n">\'</script>', '<a href="b.html?a=1&amp;b=2#no">b</a>',
    )):  # fmt: skip
        page = tmp_path / f"wrong{number}.html"
        page.write_text(wrong)
        assert len(list(links.wrong(tmp_path))) == 1, wrong
        page.unlink()


@pytest.mark.parametrize(
    ("page", "links"),
    [
        ("lessons/03_depth", ["03_depth.ipynb", "solutions/03_depth.ipynb"]),
        ("lessons/index", ["README.ipynb"]),
    ],
)
def test_pages_lead_to_their_notebooks(page: str, links: list[str]) -> None:
    pytest.importorskip("jupyter_cache")
    from builder import extension

    text = [(DOCS / f"{page}.md").read_text(encoding="utf-8")]
    extension._adapt(None, page, text)
    assert re.findall(r'href="([^"]+\.ipynb)"', text[0]) == links


@built
def test_a_built_site_is_whole_and_loads_nothing_from_the_network() -> None:
    from builder import links

    assert not list(links.wrong(SITE))
    for path in SITE.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r'<(?:script|img|iframe)[^>]*\ssrc="(?:https?:)?//', text), path
        assert not re.search(r'<link[^>]*rel="stylesheet"[^>]*href="(?:https?:)?//', text), path


@built
def test_a_built_site_has_a_page_of_every_name_code_and_model() -> None:
    from builder import gallery

    for name in public_names():
        assert (SITE / "api" / f"{name}.html").exists(), name
    for code in CODES:
        assert (SITE / "errors" / f"{code}.html").exists()
    for entry in gallery.entries():
        assert (SITE / "gallery" / f"{entry.page}.html").resolve().exists()
        if not entry.is_example:
            assert (SITE / "explorer" / f"{entry.name}.html").exists()
