"""The playground and "Run this page" in a real browser: with a worker that plays Python, and, where there is NumPy for
WebAssembly, with Python. A server on loopback has all files; no other host has a name.
"""

from __future__ import annotations

import functools
import html
import http.server
import importlib.util
import os
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.browser import AXE, Page, start
from tests.support.lessons import LESSONS, cells

pytestmark = pytest.mark.long
MISSING = "NOT RUN: no NumPy for WebAssembly; make live, or name a file by ACRONUMBA_PYODIDE_NUMPY"

# Plays Python: says what it was given; `loop` never ends, `fail` fails in line 2.
WORKER = """
const told = (kind, id, value) => postMessage({kind, id, value});
told("state", 0, "loading"); told("ready");
onmessage = ({data: {id, code}}) => {
  if (code.includes("loop")) return;
  told("text", id, "ran " + code + "\\n");
  if (code.includes("fail")) told("line", id, 2);
  if (code.includes("look")) {
    told("html", id, "<p><a href='page.html#batch=1'>open page.html</a></p>");
    told("page", id, ["page.html", "<p>moment</p><script>document.body.append(location.hash)</script>"]);
  }
  told("done", id, !code.includes("fail"));
};
"""
CELL = """<div class="cell docutils container{tag}">{before}<div class="cell_input docutils container"><div
class="highlight-ipython3 notranslate"><div class="highlight"><pre><span></span>{code}</pre></div></div></div>{after}
<div class="cell_output docutils container"><pre>stored</pre></div></div>"""
SOLUTION = {"tag": " tag_solution", "before": "<details><summary>Show a solution</summary>", "after": "</details>"}
TIMED = {"tag": " tag_skip-execution", "before": "", "after": ""}
PLAIN = {"tag": "", "before": "", "after": ""}
REFUSED = "from acronumba import model\n@model\ndef g(x):\n    while x > 0:\n        x = yield\n\ng.batch([1])"
README = "nodes in each batch: [100, 278, 162, 103, 71, 49, 36, 29, 21, 12, 4, 2, 1]"


def lesson(*cells: tuple[str, dict[str, str]]) -> str:
    shown = "".join(CELL.format(code=code, **kind) for code, kind in cells)
    return f'<html lang="en"><head><title>1</title></head><body><article><h1>1. One</h1>{shown}</article></body></html>'


@pytest.fixture(scope="module")
def build() -> ModuleType:
    script = Path(__file__).resolve().parents[2] / "tools/live/build.py"
    spec = importlib.util.spec_from_file_location("build_live", script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    made = start()
    yield made
    made.quit()


def served(folder: Path) -> Iterator[str]:
    class Handler(http.server.SimpleHTTPRequestHandler):
        extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}

        def log_message(self, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def made(build: ModuleType, folder: Path, pages: dict[str, str], numpy: Path | None) -> Path:
    site = folder / "site"
    (site / "lessons").mkdir(parents=True)
    for name, page in pages.items():
        (site / f"lessons/{name}.html").write_text(page, encoding="utf-8")
    build.build(folder / "live", site, numpy, build.HERE / "node_modules/pyodide")
    return folder / "live"


@pytest.fixture(scope="module")
def stub(build: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    page = lesson(("a = 1", PLAIN), ("fail", SOLUTION), ("timed", TIMED), ("look", PLAIN))
    folder = made(build, tmp_path_factory.mktemp("stub"), {"01_one": page}, None)
    (folder / "live/worker.js").write_text(WORKER)
    yield from served(folder)


def test_the_playground_runs_stops_and_marks_the_line_that_fails(driver: Any, stub: str) -> None:
    page = Page(driver, f"{stub}/play.html")
    assert page.count("#examples option") == 5 and "encode.explore" in page.js("document.getElementById('code').value")
    put = "document.getElementById('code').value = arguments[0]"
    driver.execute_script(put, "one\nfail")
    page.click("#run")
    page.wait("document.getElementById('state').textContent === 'an error, in line 2'")
    assert page.text("#numbers .wrong") == "2\n" and page.text("#out pre") == "ran one\nfail\n"
    driver.execute_script(put, "loop")
    page.click("#run")
    page.click("#stop")
    page.wait("!document.getElementById('run').disabled")
    assert page.text("#state").startswith("stopped")
    driver.execute_script(put, "look")
    page.click("#run")
    page.wait("document.querySelector('#out iframe')")
    page.click("#out a")
    driver.switch_to.frame(driver.find_element("css selector", "#out iframe"))
    page.wait("document.body.textContent.endsWith('#batch=1')")
    driver.switch_to.default_content()
    again = Page(driver, page.js("location.href.replace('play.html', 'play.html?')"))
    assert again.js("document.getElementById('code').value") == "look"


def test_the_editor_is_left_by_the_keyboard_and_nothing_complains(driver: Any, stub: str) -> None:
    from selenium.webdriver.common.keys import Keys

    page = Page(driver, f"{stub}/play.html")
    area = driver.find_element("id", "code")
    area.clear()
    area.send_keys("x", Keys.TAB, "y", Keys.CONTROL + Keys.ENTER)
    page.wait("document.querySelector('#out pre')")
    assert page.text("#out pre") == "ran x    y\n"
    area.send_keys(Keys.ESCAPE, Keys.TAB)
    assert page.js("document.activeElement.id") != "code" and page.messages() == []
    if AXE.exists():
        driver.execute_script(AXE.read_text())
        told = driver.execute_async_script("axe.run().then((r) => arguments[0](r.violations.map((v) => v.id)))")
        assert told == []


def test_a_lesson_runs_when_it_is_told_to(driver: Any, stub: str) -> None:
    page = Page(driver, f"{stub}/lessons/01_one.html")
    assert page.count("textarea, .live-tools") == 0 and "MB once" in page.text(".live-start")
    assert not page.js("performance.getEntriesByType('resource').some((r) => r.name.includes('worker'))")
    page.click(".live-start")
    page.wait("document.querySelectorAll('.live-out')[2].textContent.includes('open')")
    shown = page.js("[...document.querySelectorAll('.live-out')].map((at) => at.textContent)")
    assert shown[:2] == ["ran a = 1\n", ""]
    hidden = page.js("[...document.querySelectorAll('.cell_output')].map((at) => at.hidden)")
    assert hidden == [True, False, False, True]
    page.click(".cell .live-tools button + button")
    assert page.js("document.activeElement.value") == "a = 1"
    driver.execute_script("document.activeElement.value = 'b = 2'")
    page.click(".cell .live-tools button")
    page.wait("document.querySelector('.live-out').textContent === 'ran b = 2\\n'")


def page_of(name: str) -> str:
    """Return a page with all cells of a lesson; solutions run with the others."""
    found = (cell for cell in cells(name) if "skip-execution" not in cell.tags)
    return lesson(*((html.escape(cell.code), PLAIN) for cell in found))


@pytest.fixture(scope="module")
def real(build: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    given = Path(os.environ.get("ACRONUMBA_PYODIDE_NUMPY") or build.KEPT)
    if not given.exists() or not (build.HERE / "node_modules/pyodide").exists():
        pytest.skip(MISSING)
    wrong = "from acronumba.learn import ask, expect\nask('?', 3)\nexpect(False, 'look again')"
    page = lesson((wrong, PLAIN), ("run = 1\nexpect(run, '')", PLAIN))
    pages = {"01_one": page, **{name: page_of(name) for name in LESSONS}}
    yield from served(made(build, tmp_path_factory.mktemp("real"), pages, given))


def test_python_runs_the_readme_as_compiled_code_does(driver: Any, real: str) -> None:
    page = Page(driver, f"{real}/play.html")
    page.click("#run")
    page.wait("document.getElementById('state').textContent.match(/done|error|cannot/)", 120)
    assert page.text("#state") == "done" and README in page.text("#out"), page.text("#out")
    driver.switch_to.frame(driver.find_element("css selector", "#out iframe"))
    page.wait("document.documentElement.dataset.ready === 'true'", 30)
    driver.switch_to.default_content()
    assert page.js("performance.getEntriesByType('resource').every((r) => r.name.startsWith(location.origin))")
    assert page.messages() == []
    driver.execute_script("document.getElementById('code').value = arguments[0]", REFUSED)
    page.click("#run")
    page.wait("document.getElementById('state').textContent === 'an error, in line 5'", 30)
    assert "ACR104" in page.text("#out") and page.text("#numbers .wrong") == "5\n"


def test_python_runs_a_lesson(driver: Any, real: str) -> None:
    page = Page(driver, f"{real}/lessons/01_one.html")
    page.click(".live-start")
    page.wait("document.querySelectorAll('.live-out')[1].textContent === 'right\\n'", 120)
    assert "not yet: look again" in page.text(".live-out") and page.count(".live-out details") == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", LESSONS)
def test_each_lesson_runs(driver: Any, real: str, build: ModuleType, name: str) -> None:
    if name.startswith(build.STAY):  # they need threads, and PyTorch: no button
        with urllib.request.urlopen(f"{real}/lessons/{name}.html") as given:
            assert b"lesson.js" not in given.read()
        return
    page = Page(driver, f"{real}/lessons/{name}.html")
    page.click(".live-start")
    state = "document.querySelector('[role=status]').textContent"
    page.wait(f"['done', 'an error'].includes({state}) && !document.querySelector('.live-out[hidden]')", 300)
    shown = page.js("[...document.querySelectorAll('.live-out')].map((at) => at.textContent)")
    tags = [cell.tags for cell in cells(name) if "skip-execution" not in cell.tags]
    for of, text in zip(tags, shown, strict=True):
        assert "Traceback" not in text, text
        assert "check" not in of or "not yet" in text, text
        assert "solution" not in of or text.endswith("right\n"), text
