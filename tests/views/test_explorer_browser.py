"""The explorer in a real browser: what a reader does with it, for small and large mini-batches."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba.zoo import drnn
from tests.support import explored
from tests.support.browser import AXE, Page, start

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    made = start()
    yield made
    made.quit()


def few() -> Any:
    return explored.classify.trace(explored.trees(2, most=3, seed=1), p=explored.params())


def readme() -> Any:
    return explored.classify.trace(explored.trees(50), p=explored.params())


def with_rounds() -> Any:
    return drnn.generate.trace(drnn.instances(6), p=drnn.params(32))


def with_waits() -> Any:
    columns, shared = explored.waiting(64)
    return explored.waits.trace(*columns, **shared)


def many() -> Any:
    return explored.classify.trace(explored.trees(1900), p=explored.params())


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[], Any]], Path]:
    folder, made = tmp_path_factory.mktemp("pages"), dict[str, Path]()

    def page(of: Callable[[], Any]) -> Path:
        name = of.__name__
        if name not in made:
            made[name] = of().html(folder / f"{name}.html", options=False)
        return made[name]

    return page


CASES = pytest.mark.parametrize("case", [few, readme, with_rounds, with_waits, many], ids=lambda f: f.__name__)


@CASES
def test_nothing_is_fetched_and_nothing_complains(driver: Any, pages: Any, case: Any) -> None:
    path = pages(case)
    page = Page(driver, path)
    assert path.stat().st_size < 2_000_000 and page.seconds < 10, "the budgets; 2 seconds on a quiet machine"
    assert page.js("performance.getEntriesByType('resource').length") == 0
    for key in "12345cpr]][d":
        page.key(key)
    assert page.messages() == []


@CASES
def test_a_line_leads_to_kernel_batch_and_node_and_back(driver: Any, pages: Any, case: Any) -> None:
    page = Page(driver, pages(case))
    last = "[...document.querySelectorAll('#source .row.linked .swatch')].at(-1).closest('.row').dataset.line"
    line = page.js(last)
    page.click(f"#source [data-line='{line}']")
    assert page.count("#kernels [aria-pressed=true]") >= 1
    assert page.text("#detail").startswith("Line ")
    for stage in ("ir", "plan", "host", "kernel"):  # what is first in its kernel stands in the host program
        page.click(f"#texttabs [data-value={stage}]")
        assert page.count("#text .row") > 5 and (page.count("#text .row.hit") or stage in ("host", "kernel")), stage
    letter = page.text(f"#source [data-line='{line}'] .swatch")
    page.key("Escape")
    assert page.count(".row.hit") == 0
    letters = page.js("[...document.querySelectorAll('#kernels .swatch')].map((at) => at.textContent)")
    page.click(f"#kernels button:nth-child({1 + letters.index(letter)})")
    assert page.count(f"#source .row.hit[data-line='{line}']") == 1
    page.choose("#graphtools select", "batches")
    assert 0 < page.count("#graph g:not(.dim)") < page.count("#graph g")
    page.click("#graph g:not(.dim)")
    assert page.text("#detail").startswith("Batch ") and page.text("#detail .swatch") == letter
    assert page.count(f"#source .row.hit[data-line='{line}']") == 1
    page.search("node 0")
    assert page.text("#detail").startswith("node #0: ") and page.count("#graph g.chosen") == 1
    assert "node=0" in page.js("location.hash")


@CASES
def test_the_player_runs_each_node_once(driver: Any, pages: Any, case: Any) -> None:
    page = Page(driver, pages(case))
    page.key("Home")
    assert page.text("#where").startswith("batch 0 of ")
    batches, ran = int(page.js("document.getElementById('step').max")), 0
    for _ in range(batches):
        running, ready = page.count("#graph g.running"), page.count("#graph g.ready")
        assert page.count("#ready .now") == 1
        assert running + ready + page.count("#graph g.pending") + page.count("#graph g.done") == page.count("#graph g")
        ran += running
        page.key("ArrowRight")
    assert ran == page.count("#graph g.done") == page.count("#graph g") > 0
    page.key(" ")
    page.wait("document.getElementById('step').value > 0")
    page.key(" ")
    assert page.js("document.getElementById('play').getAttribute('aria-pressed')") == "false"


@pytest.mark.parametrize("case", [few, readme, with_rounds, with_waits], ids=lambda f: f.__name__)
def test_the_answer_is_hidden_until_the_game_ends(driver: Any, pages: Any, case: Any) -> None:
    page = Page(driver, pages(case))
    batches = page.js("document.getElementById('step').max")
    page.key("p")
    visible = "document.body.innerText + document.title + location.hash"
    assert page.js("getComputedStyle(document.querySelector('#facts .answer')).display") == "none"
    assert "batch" not in page.js("document.title") and "proved" not in page.js(visible)
    page.driver.execute_script("const g = document.getElementById('guess'); g.value = 5; g.form.requestSubmit()")
    assert "proved" not in page.js(visible) and "at least" not in page.js(visible)
    for _ in range(2000):
        if not page.count("[data-choice]"):
            break
        page.driver.execute_script("document.querySelector('[data-choice]').click()")
    assert page.text("#predict .score").startswith("You: ")
    assert f" {batches} batch" in page.text("#predict") or "as few as" in page.text("#predict")
    assert page.js("getComputedStyle(document.querySelector('#facts .answer')).display") != "none"


def test_schedules_are_compared_and_stepped_through(driver: Any, pages: Any) -> None:
    page = Page(driver, pages(with_rounds), "#mode=compare")
    assert page.count("#compare canvas") == 3 and "lookahead" in page.text("#compare")
    names = page.js("[...document.querySelectorAll('#compare .schedule b')].map((at) => at.textContent)")
    page.click(f"#compare .schedule:nth-of-type({1 + names.index('agenda')}) button")
    assert page.text("#where").startswith("batch 0 of ") and page.js("document.getElementById('compare').hidden")


def test_a_step_of_the_player_is_fast(driver: Any, tmp_path: Path) -> None:
    trace = explored.classify.with_options(equal=False).trace(explored.trees(620), p=explored.params())
    assert trace.nodes > 18_000
    page = Page(driver, trace.html(tmp_path / "page.html", options=False, schedules=False))
    page.key("Home")
    spent = []
    for _ in range(10):
        begin = time.perf_counter()
        page.key("ArrowRight")
        spent.append(time.perf_counter() - begin)
    assert min(spent) < 0.5, "100 ms on a quiet machine, and two frames"


def test_a_long_instance_is_drawn_in_part_and_its_batches_share_pixels(driver: Any, tmp_path: Path) -> None:
    tree = explored.Tree(word=0)
    for word in range(999):  # as deep as it can be: 2,000 nodes in 1,001 batches
        tree = explored.Tree(left=tree, right=explored.Tree(word=word % 100))
    trace = explored.classify.with_options(equal=False).trace([tree], p=explored.params())
    assert trace.nodes == 2000
    page = Page(driver, trace.html(tmp_path / "page.html", options=False, schedules=False))
    assert page.text("#graphtools").endswith("1,500 of 2,000 nodes, one column per batch")
    assert page.count("#graph g") == 1500
    width = "document.getElementById('schedule').clientWidth"
    narrow = page.js(width)
    for _ in range(12):
        page.click("#wider")
    assert 15 * narrow < page.js(width) < 17 * narrow, "no wider than 16 times"
    page.key("End", "ArrowLeft", "ArrowLeft")
    assert page.text("#where").startswith("batch 999 of ") and page.messages() == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@CASES
def test_a_narrow_screen_scrolls_down_alone(pages: Any, case: Any, dark: bool) -> None:
    driver = start(500, 900)
    try:
        page = Page(driver, pages(case), dark=dark)
        for mode in "rcp":
            page.key(mode)
            assert page.js("document.documentElement.scrollWidth <= window.innerWidth"), mode
    finally:
        driver.quit()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("case", [readme, with_rounds, with_waits], ids=lambda f: f.__name__)
def test_axe_finds_nothing(driver: Any, pages: Any, case: Any, dark: bool) -> None:
    if not AXE.exists():
        pytest.skip("NOT RUN: no axe-core; cd tools/js && npm ci")
    page = Page(driver, pages(case), dark=dark)
    driver.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE.read_text(encoding="utf-8")})
    for mode in "rcp":
        page.key(mode)
        assert page.complaints() == [], mode


CONTRAST = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const light = (colour) => {
    canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((c) => c / 255)
      .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const style = (at) => getComputedStyle(at);
  return [...document.querySelectorAll('#graph g.done:not(.dim) text, #graph g.running text')].map((at) => {
    const below = style(at.parentNode.querySelector('.node')).fill;
    const [a, b] = [light(style(at).fill), light(below)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  });
})()"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_colours_of_the_system_leave_everything_readable(driver: Any, pages: Any, dark: bool) -> None:
    """`forced-colors`, as Windows sets it for high contrast: kernels keep their colours, and letters stay on them."""
    page = Page(driver, pages(few), dark=dark, forced=True)
    ratios = page.js(CONTRAST)
    assert len(ratios) > 5 and min(ratios) > 4.5
    rgb = "getComputedStyle(document.querySelector(arguments[0])).{}"
    swatch = "#kernels .swatch"
    assert page.js(rgb.format("backgroundColor"), swatch) == "rgb(0, 114, 178)", "the first kernel is blue"
    assert page.js(rgb.format("color"), swatch) == "rgb(255, 255, 255)"
    assert page.js("document.querySelectorAll('.probe').length") == 1
    page = Page(driver, pages(with_rounds), dark=dark, forced=True)
    page.key("c", "p", "r")
    assert page.messages() == []
    row = "document.getElementById('schedule').getContext('2d').getImageData(60, 84, 200, 8).data"
    assert len(set(page.js(f"[...{row}].filter((_, k) => k % 4 === 0)"))) > 2, "the numbers of rounds are on their band"


@pytest.mark.parametrize("still", [False, True], ids=["motion", "reduced motion"])
def test_nothing_moves_for_those_who_asked_for_less(driver: Any, pages: Any, still: bool) -> None:
    page = Page(driver, pages(few), still=still)
    page.key("Home")
    name = page.js("getComputedStyle(document.querySelector('#graph .running .node')).animationName")
    assert name == ("none" if still else "pulse")
    if still:
        assert page.js("document.getAnimations().length") == 0


def test_a_page_is_printed_whole_on_white_paper(driver: Any, pages: Any) -> None:
    page = Page(driver, pages(with_waits), dark=True)
    source = page.text("#source")
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
    page.driver.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert page.js("document.documentElement.dataset.theme") == "light"
    assert page.js("getComputedStyle(document.body).overflow") == "visible"
    for panel in ("#source", "#run", "#graph"):
        assert page.js("getComputedStyle(document.querySelector(arguments[0])).overflowY", panel) == "visible"
    tall = "document.getElementById('source').scrollHeight - document.getElementById('source').clientHeight"
    assert page.js(tall) < 2, "nothing is behind a scroll bar"
    assert page.text("#source") == source
    page.driver.execute_script("dispatchEvent(new Event('afterprint'))")
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    assert page.js("document.documentElement.dataset.theme") == ""


def test_a_reader_without_a_mouse_goes_from_a_line_to_its_batch(driver: Any, pages: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    page = Page(driver, pages(readme))
    send = lambda *keys: [driver.switch_to.active_element.send_keys(key) or page.frame() for key in keys]
    while page.js("document.activeElement.id") != "source":
        send(Keys.TAB)
    send(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    assert page.count("#source .row.hit") >= 1 and page.text("#detail").startswith("Line ")
    send("]")
    assert page.count("#kernels [aria-pressed=true]") == 1
    while page.js("document.activeElement.id") != "schedule":
        send(Keys.TAB)
    send(Keys.HOME, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert page.text("#where").startswith("batch 2 of ")
    send("/", "batch 3", Keys.ENTER)
    assert page.text("#detail").startswith("Batch 3")
    while page.js("document.activeElement.tagName") != "SUMMARY":
        send(Keys.TAB)
    send(Keys.ENTER)
    assert page.count("#tableroom[open] tbody tr") == page.js("Number(document.getElementById('step').max)")
    send("c")
    assert not page.js("document.getElementById('compare').hidden")


def test_every_control_is_reached_by_key(driver: Any, pages: Any) -> None:
    page = Page(driver, pages(readme))
    from selenium.webdriver.common.keys import Keys

    seen = set()
    for _ in range(60):
        driver.switch_to.active_element.send_keys(Keys.TAB)
        seen.add(page.js("document.activeElement.id"))
    assert {"search", "theme", "help", "source", "text", "play", "step", "schedule", "graph", "detail", "wider"} <= seen


@pytest.mark.parametrize("case", ["no tensors", "no instances", "no program"])
def test_a_page_with_little_on_it_works(driver: Any, tmp_path: Path, case: str) -> None:
    trace = explored.classify.trace([] if case == "no instances" else explored.trees(3), p=explored.params())
    if case == "no tensors":
        trace = explored.count.trace([[1, 2], [3]])
    if case == "no program":
        trace = pickle.loads(pickle.dumps(trace))
    page = Page(driver, trace.html(tmp_path / "page.html"))
    page.key(*"12345cpr][ d", "ArrowUp", "ArrowLeft", "Home", "End")
    assert page.messages() == []
    assert ("No batch" in page.text("#ready")) == (case != "no program")


def test_hostile_names_and_strings_do_nothing(driver: Any, tmp_path: Path) -> None:
    trace = explored.hostile.trace([np.zeros(3, np.float32), np.full(3, 2, np.float32)])
    page = Page(driver, trace.html(tmp_path / "page.html"), "#instance=<img src=x>&line=0:<b>&kernel=99&step=-5&mode=x")
    for key in "12345cpr":
        page.key(key)
    assert "hacked" not in page.js("document.title") and page.count("img") == 0 and page.messages() == []
    assert "onerror" in page.text("#source")


def test_a_hostile_file_is_shown_as_text(driver: Any, tmp_path: Path) -> None:
    trace = explored.hostile_file(tmp_path)
    page = Page(driver, trace.html(tmp_path / "page.html", options=False))
    page.key(*"12345cpr]")
    page.search("instance 2")
    assert "hacked" not in page.js("document.title") and page.count("img, svg[onload]") == 0 and page.messages() == []
    assert page.count("script") == 2 and "<img src=x" in page.text("#source .file")
    wide = "document.getElementById('detail').scrollWidth <= document.getElementById('detail').clientWidth"
    assert page.js(wide), "long words are broken"


def test_the_whole_page_works_in_a_frame_without_rights(driver: Any, tmp_path: Path) -> None:
    from acronumba.views.explorer.page import frame

    (tmp_path / "notebook.html").write_text(
        f"<!DOCTYPE html><body>{frame(few().explored().data)}</body>", encoding="utf-8"
    )
    driver.get((tmp_path / "notebook.html").as_uri())
    driver.switch_to.frame(0)
    for _ in range(200):
        if driver.execute_script("return document.documentElement.dataset.ready"):
            break
        time.sleep(0.05)
    assert driver.execute_script("return document.querySelectorAll('#graph g').length") > 2
    driver.switch_to.default_content()


COVERED = """(() => {
  const room = document.getElementById("source").getBoundingClientRect(), bad = [];
  for (const row of document.querySelectorAll("#source .row")) {
    row.style.contentVisibility = "visible";
    const code = row.children[2].getBoundingClientRect();
    for (const tag of row.children[3].children) {
      const b = tag.getBoundingClientRect();
      const apart = b.left >= code.right - 1 || b.top >= code.bottom - 1 || b.bottom <= code.top + 1;
      if (!apart || b.right > room.right + 1) bad.push(row.innerText);
    }
  }
  return bad;
})()"""


@pytest.mark.parametrize("width", [1440, 1000, 600])
def test_labels_of_lines_cover_no_code(driver: Any, pages: Any, width: int) -> None:
    driver.set_window_size(width, 900)
    try:
        page = Page(driver, pages(with_rounds))
        assert page.count("#source .tag") > 3 and page.js(COVERED) == []
        names = page.js("[...document.querySelectorAll('#kernels button')].map((b) => b.innerText.split('\\n')[0])")
        assert len(set(names)) == len(names)
        assert page.text("#kernels code")
    finally:
        driver.set_window_size(1440, 1000)
