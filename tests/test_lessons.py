"""Every lesson runs without Sphinx and without Jupyter: checks say what is wrong, and "right" where it is right."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from acronumba.cli.main import main
from tests.support.lessons import FOLDER, LESSONS, cells, solve
from tests.support.wrong_answers import WRONG

LOOK = re.compile(r"^open (\S+\.html)#(\S+)$", re.M)
NOT_LIVE = ("10_service", "11_pytorch")  # without a button "Run this page"
NOW = ("02_dataflow_graph", "03_depth", "09_is_it_right")  # those that compile least
LATER = ("01_why_batch", "06_memory", "07_hoisting")  # those that compile most; `make docs` runs them, too
MARKS = {**{name: [] for name in NOW}, **{name: [pytest.mark.slow] for name in LATER}}


@pytest.mark.parametrize("lesson", [pytest.param(name, marks=MARKS.get(name, [pytest.mark.long])) for name in LESSONS])
def test_a_lesson_is_solved(lesson: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "import torch" in (FOLDER / f"{lesson}.md").read_text(encoding="utf-8"):
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACRONUMBA_LESSONS", "1")
    done = solve(lesson, tmp_path, WRONG[lesson])
    links = LOOK.findall(done)
    assert links, "a lesson ends in the explorer"
    for page, moment in links:
        check_moment(tmp_path / page, {k: v[0] for k, v in parse_qs(moment).items()})


@pytest.mark.parametrize(
    "lesson",
    [
        pytest.param(name, marks=pytest.mark.long if name in NOW else pytest.mark.slow)
        for name in LESSONS
        if name not in NOT_LIVE
    ],
)
def test_a_lesson_is_solved_in_the_browser(lesson: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is the browser's; Python is this one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACRONUMBA_LESSONS", "1")
    monkeypatch.setenv("ACRONUMBA_ENGINE", "interpreted")
    solve(lesson, tmp_path, WRONG[lesson])


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_has_questions_and_exercises_with_a_check_and_a_solution(lesson: str) -> None:
    kinds = [next(iter(cell.tags & {"exercise", "check", "solution"}), "") for cell in cells(lesson)]
    exercises = [kinds[k : k + 3] for k, kind in enumerate(kinds) if kind == "exercise"]
    assert len(exercises) >= 2 and exercises == [["exercise", "check", "solution"]] * len(exercises)
    assert kinds.count("check") == kinds.count("solution") == len(exercises) == len(WRONG[lesson])
    shown = {"hide-cell", "raises-exception", "skip-execution"}
    assert all(cell.tags & shown for cell in cells(lesson) if cell.tags - {"exercise"})
    assert sum(cell.code.count("ask(") for cell in cells(lesson)) >= 3
    assert "yours" in "".join(cell.code for cell in cells(lesson) if "exercise" in cell.tags)


def test_each_lesson_leads_to_the_next_and_is_listed() -> None:
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[([^]]+)\]\((\w+)\.md\) .*\| (\d+) \|$", index, re.M)
    assert [name for _, name, _ in listed] == LESSONS and index.startswith("# Fifteen") and len(LESSONS) == 15
    for k, (title, name, minutes) in enumerate(listed):
        text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
        assert f"\n# {title}\n" in text.replace(".* `", "") and f"**Time:** {minutes}" in " ".join(text.split()), name
        last = text.rstrip().rpartition("\n\n")[2]
        following = f"Next: [lesson {k + 2}]({LESSONS[k + 1]}.md)" if k < 14 else "This was the last lesson."
        assert last.startswith(following), name


def test_the_command_writes_the_notebooks_that_are_run_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lessons", str(tmp_path / "new" / "mine")]) == main(["lessons", str(tmp_path), "--solutions"]) == 0
    written = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.ipynb")}
    bare = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "new" / "mine").glob("*.ipynb")}
    assert written.keys() == bare.keys() == {"README", *LESSONS}
    for name in LESSONS:
        sources = ["".join(c["source"]) + "\n" for c in written[name]["cells"] if c["cell_type"] == "code"]
        assert sources == [cell.code for cell in cells(name)]
        left = [c for c in written[name]["cells"] if "solution" not in c["metadata"].get("tags", ())]
        assert [c["source"] for c in left] == [c["source"] for c in bare[name]["cells"]] and left != written[name][
            "cells"
        ]
        text = "".join("".join(c["source"]) for c in left if c["cell_type"] == "markdown")
        assert text.startswith("# ") and "code-cell" not in text and "kernelspec" not in text
        links = re.findall(r"\]\((?!https?:)([^)]*)\)", text)
        assert all((tmp_path / link).exists() for link in links)
    page = (FOLDER.parents[1] / "README.md").read_text(encoding="utf-8")
    code = ["".join(c["source"]) + "\n" for c in written["README"]["cells"] if c["cell_type"] == "code"]
    assert code == re.findall(r"<!-- run -->\n```python\n(.*?)```\n", page, re.S)
    (tmp_path / "README.ipynb").write_text("mine")
    assert main(["lessons", str(tmp_path)]) == 0
    assert (tmp_path / "README.ipynb").read_text() == "mine" and "0 written" in capsys.readouterr().out


def check_moment(page: Path, moment: dict[str, str]) -> None:
    """Each number of an address is of something on the page."""
    found = re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page.read_text(), re.S)
    assert found
    data = json.loads(found[1])
    batches = data["schedules"][0]["size"]["n"]
    most = {
        "kernel": len(data["kernels"]), "batch": batches, "step": batches + 1, "node": data["summary"]["nodes"],
        "instance": data["summary"]["instances"],
    }  # fmt: skip
    if moment.get("mode") == "predict":  # small enough to be played in a lesson
        assert 3 <= data["summary"]["instances"] <= 5 and data["summary"]["nodes"] <= 40
        assert sum(bool(kernel["nodes"]) for kernel in data["kernels"]) <= 3
    for kind, value in moment.items():
        assert value in ("compare", "predict") if kind == "mode" else int(value) < most[kind], (kind, value)
