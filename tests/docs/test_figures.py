"""Figures in the documentation are those of `benchmarks/results`.

Each figure and table that is marked in a page (see `tests.support.figures`) is computed anew; ``--update-golden``
writes it. What looks like a measurement in the prose of a page is marked, or it is in `ALLOWED`, with the reason.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support import figures
from tests.support.figures import FIGURE, SHOWN, TABLE
from tests.support.lessons import LESSONS, cells
from tests.support.results import by_hand, fewer, gpu, lesson, result, schedule_times, shared, times

MADE = ("api", "errors", "gallery")  # folders of pages that are made of what is checked elsewhere
CODE = re.compile(r"```.*?```|`[^`\n]*(?:\n[^`\n]+)?`|<!--.*?-->|\]\([^)]*\)|https?://\S+", re.S)
NUMBER = r"\d[\d,]*(?:\.\d+)?(?:e-?\d+)?"
UNIT = r"(?:times\b|%|ms\b|us\b|ns\b|s\b|seconds?\b|minutes?\b|hours?\b|[KMG]i?B\b|[KMG]B/s\b|GFLOP|percent\b)"
MEASURED = re.compile(
    rf"(?<![\w.])(?:{NUMBER}(?:,? (?:to|and|or|of) |, ))*{NUMBER}\s*{UNIT}|(?<![\w.])\d+\.\d+(?!\w*\.\d)"
)
VERSION = re.compile(r"(?:Python|NumPy|CUDA|PyTorch|Ray|macOS|License|capability)\s+(?:[\d.]+ to )?$")
CONSTANT, BOUND = "a constant of the code", "a bound that the figures beside it are counted by"
VALUE, PROMISED, NEEDED = "a value", "by what results or options are judged", "a version that is needed or tested"
ALLOWED = {  # what stands around a number, and why it is there; as few as can be
    "README.md": {
        "on a busy Xeon at 2.8 GHz": "the machine of the table below, which shows one run of `make demo`",
    },
    "install.md": {"NumPy 2.2 or newer and": NEEDED, "3.13, and with the newest": NEEDED},
    "serving.md": {"a body exceeds 64 KiB": CONSTANT, "body that takes more than 5 s": CONSTANT},
    "language.md": {
        "1 GB at most); each takes about": CONSTANT,
        "0.1 stored as float32": VALUE,
        "float32 nearest to 0.1": VALUE,
        "up to 100 times": PROMISED,
        "more than 1000 times the bound": PROMISED,
        "that is 1% of the largest magnitude": PROMISED,
    },
    "options.md": {"NaN or larger than 3.39e38": VALUE, "more than 3% slower": PROMISED},
    "architecture.md": {"A piece has 64 bytes to 4 KB": CONSTANT},
    "training.md": {"report 0.439 on the test set": "of the paper that is cited"},
    "performance.md": {
        "only from 1 MB on": CONSTANT,
        "more than 2 us for a node": CONSTANT,
        "that take more than 2% of a mini-batch": BOUND,
        "within a factor of 1.5": BOUND,
        "that take more than 1% of a mini-batch": BOUND,
        "are within 6% of the best": BOUND,
        "are within 6%; after": BOUND,
        "are within 3%, and": BOUND,
        "are at most 15%": BOUND,
    },
}


def pages(root: Path) -> list[Path]:
    """Return the pages whose figures are checked: all that are written by hand, but for models and lessons."""
    return [root / "README.md", *sorted(page for page in (root / "docs").glob("*.md") if page.stem != "command_line")]


def marked(root: Path) -> list[Path]:
    """Return the pages that have a marked figure or table."""
    found = (page for page in (root / "docs").rglob("*.md") if page.parent.name not in MADE)
    return [page for page in (root / "README.md", *sorted(found)) if "<!--f" in page.read_text("utf-8")
            or re.search("<!-- (figures|table):", page.read_text("utf-8"))]  # fmt: skip


def unmarked(text: str) -> list[str]:
    """Return what looks like a measurement in a text and is not marked, with the words around it."""
    text = TABLE.sub("", SHOWN.sub("", FIGURE.sub("#", text)))
    text = " ".join(CODE.sub(" `", text).split())
    return [
        text[max(0, m.start() - 45) : m.end() + 45]
        for m in MEASURED.finditer(text)
        if not VERSION.search(text[max(0, m.start() - 20) : m.start()])
    ]


def test_figures_and_tables_are_those_of_the_results(root: Path, request: pytest.FixtureRequest) -> None:
    found = marked(root)
    assert {"performance.md", "weights.md", "ragged.md", "schedules.md", "training.md"} <= {page.name for page in found}
    for page in found:
        text = page.read_text(encoding="utf-8")
        new = figures.filled(text)
        if request.config.getoption("--update-golden"):
            page.write_text(new, encoding="utf-8")
        assert new == text, f"run with --update-golden, and read {page.name}"
        assert text.count("<!--f ") == len(FIGURE.findall(text)) == text.count("<!--/f-->"), page.name
        assert text.count("<!-- table:") == len(TABLE.findall(text)), page.name
        assert text.count("<!-- figures:") == len(SHOWN.findall(text)), page.name


def test_marks_are_never_seen(root: Path) -> None:
    """A line that begins with a comment is a block of its own in Markdown, and ends the paragraph."""
    for page in marked(root):
        for line in page.read_text(encoding="utf-8").splitlines():
            assert not re.match(r"\s*(?:[-*] )?<!--/?f", line), f"{page.name}: {line}"
            assert not re.search(r"<!--f [^>]*$", line), f"{page.name}: a mark goes over the end of a line: {line}"
            assert not line.startswith("{{"), f"{page.name}: {line}"


def test_measurements_in_prose_are_marked_or_have_a_reason(root: Path) -> None:
    for page in pages(root):
        allowed = ALLOWED.get(page.name, {})
        text = page.read_text(encoding="utf-8")
        left = [said for said in unmarked(text) if not any(words in said for words in allowed)]
        assert not left, f"{page.name}: mark them (tests/support/figures.py), or leave them out"
        words = " ".join(CODE.sub(" `", FIGURE.sub("#", text)).split())
        assert not [known for known in allowed if known not in words], f"{page.name}: no longer there"


@pytest.mark.parametrize(
    "text",
    ["it takes 1.75 times as long", "36 to 61% of peak", "about 10 ns each", "by 2.4", "from 35 to 7 MB",
     "86 to 90% of it", "0.94 to 1.5", "takes 8 times as long", "| `birnn` | 3.9 |\n", "<!-- a comment -->1.8 times"],
)  # fmt: skip
def test_what_looks_like_a_measurement_is_found(text: str) -> None:
    assert unmarked(text)


@pytest.mark.parametrize(
    "text",
    ["64 instances of size 256", "Python 3.11 and newer", "`f(0.5)`", "```text\n1.8 times\n```\n",
     'it is <!--f times("small", 64, "plain"):.1f-->7.9<!--/f--> times as fast'],
)  # fmt: skip
def test_what_is_no_measurement_or_is_marked_is_not(text: str) -> None:
    assert not unmarked(text)


def test_a_figure_that_is_not_that_of_the_results_is_corrected() -> None:
    page = 'It is <!--f times("small", 64, "plain"):.1f-->99.9<!--/f--> times as fast.\n'
    assert figures.filled(page) == page.replace("99.9", f"{times('small', 64, 'plain'):.1f}")


def test_training_on_the_treebank_ends_where_pytorch_ends() -> None:
    """What the page on training says beside its figures."""
    ours, torch = result("sst")["acronumba"], result("sst")["PyTorch by hand"]
    assert ours["accuracy"] == torch["accuracy"] and torch["same"] == 1
    assert max(abs(a - b) for a, b in zip(ours["losses"], torch["losses"], strict=True)) < 1.5e-5


def test_what_pages_say_in_words_is_so() -> None:
    """What would have to be written anew if the results were others."""
    assert min(by_hand()) > 1, "performance.md: who is faster by hand"
    assert gpu(64, "CUDA graph") < 1 < gpu(64, "PyTorch"), "performance.md, fit.md: on a GPU"
    assert sorted(shared("small"), key=shared("small").get)[:2] == ["birnn", "decoder"], "performance.md: two threads"
    assert fewer("agenda") and fewer("effort=3"), "schedules.md, options.md: who has fewer batches"
    assert not fewer("depth"), "schedules.md, options.md: who has as many"
    assert min(schedule_times("effort=3")) > 1, "schedules.md, options.md: what a search costs"


@pytest.mark.long
@pytest.mark.parametrize(
    "row",
    result("schedules-znver4-2cores")["rows"],
    ids=lambda row: f"{row['model']}-{row['size']}-{row['instances']}",
)
def test_the_schedules_make_as_many_batches_as_the_table_says(row: dict[str, Any]) -> None:
    """Those of the default depend on what it thinks of the machine."""
    import schedules

    xs, weights = schedules.inputs(row["model"], row["size"], row["instances"])
    for label in row["batches"].keys() - {"default"}:
        f = schedules.MODELS[row["model"]][0].with_options(threads=1, **schedules.OPTIONS[label])
        trace = f.trace(xs, **weights)
        assert len(trace.batches) == row["batches"][label], label


def test_what_lesson_1_says_of_its_times_is_so() -> None:
    """The site shows stored times: a lesson that measures when the site is built may contradict its own text."""
    each = {n: lesson("large", n, "batch") / n for n in (1, 8, 64, 512)}
    assert all(lesson(matrix, 1, "batch") > lesson(matrix, 1, "plain") for matrix in ("small", "large"))
    assert lesson("small", 8, "batch") > lesson("small", 8, "plain")
    assert lesson("small", 512, "plain") / lesson("small", 512, "batch") > 5
    assert each[1] / each[8] > each[8] / each[64] > each[64] / each[512] > 1
    (measured,) = [cell for cell in cells("01_why_batch") if "process_time" in cell.code]
    assert "skip-execution" in measured.tags
    assert not [cell for name in LESSONS for cell in cells(name) if "perf_counter" in cell.code]
