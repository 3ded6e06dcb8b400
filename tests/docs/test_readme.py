"""The README and the pages under `docs` are true: programs run and print what is shown, commands and links exist.

The blocks after ``<!-- run -->`` are one program, in order; what it prints is compared with the blocks after
``<!-- prints -->``. Likewise the tour shows the stages of the compiler. ``--update-golden`` writes both anew.
"""

from __future__ import annotations

import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from acronumba import zoo
from acronumba.bench import demo

BLOCK = re.compile(r"<!-- (run|prints) -->\n```(?:python|text)\n(.*?)```\n", re.S)
CUT = "-- cut --"


def printed(root: Path, text: str, script: Path) -> list[str]:
    """Run the program of a page; return what it prints for each block of output."""
    program = ""
    for kind, body in BLOCK.findall(text):
        program += body if kind == "run" else f'print("{CUT}")\n'
    script.write_text(program)
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", str(script)],
        cwd=script.parent,
        env={**os.environ, "PYTHONPATH": str(root), "NO_COLOR": "1", "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    out = done.stdout.replace(str(script.parent) + os.sep, "")
    parts = out.split(CUT + "\n")
    assert parts.pop() == "", "something is printed after the last block of output"
    return parts


@pytest.mark.parametrize(
    ("page", "outputs_shown"),
    [
        ("README.md", 2),
        ("docs/first_model.md", 3),
        ("docs/options.md", 1),
        ("docs/language.md", 0),
        pytest.param("docs/numpy_code.md", 6, marks=pytest.mark.long),
        pytest.param("docs/training.md", 8, marks=pytest.mark.long),
        pytest.param("docs/ragged.md", 5, marks=pytest.mark.long),
        ("docs/serving.md", 2),
        pytest.param("docs/explorer.md", 2, marks=pytest.mark.long),
        ("docs/pytorch.md", 5),
        pytest.param("docs/operations.md", 4, marks=pytest.mark.slow),
        ("docs/questions.md", 1),
        ("docs/rejected.md", 1),
        pytest.param("docs/weights.md", 6, marks=pytest.mark.slow),
        pytest.param("docs/faster.md", 1, marks=pytest.mark.long),
        pytest.param("docs/schedules.md", 2, marks=pytest.mark.long),
        pytest.param("docs/test_a_model.md", 2, marks=pytest.mark.long),
    ],
)
def test_programs_print_what_the_page_shows(
    root: Path, tmp_path: Path, request: pytest.FixtureRequest, page: str, outputs_shown: int
) -> None:
    path = root / page
    text = path.read_text(encoding="utf-8")
    if page == "docs/pytorch.md":
        pytest.importorskip("torch")
    outputs = iter(printed(root, text, tmp_path / f"{path.stem.lower()}.py"))

    def filled(match: re.Match[str]) -> str:
        if match[1] == "run":
            return match[0]
        return f"<!-- prints -->\n```text\n{next(outputs)}```\n"

    new = BLOCK.sub(filled, text)
    if request.config.getoption("--update-golden"):
        path.write_text(new, encoding="utf-8")
    else:
        assert new == text, "run with --update-golden, and read the page"
    assert text.count("<!-- prints -->") == outputs_shown


SHOW = re.compile(r"<!-- show: (.*?) -->\n```text\n(.*?)```\n", re.S)


def stage_texts(root: Path) -> dict[str, str]:
    """The stages of the model in examples/tree.py, on a processor with AVX-512, and a schedule."""
    code = """
import io, json
import numpy as np
import tree
from rich.console import Console
from acronumba.emit.target import Target, override
from acronumba.views import report

rng = np.random.default_rng(0)
normal = lambda *shape: rng.standard_normal(shape).astype(np.float32)
p = tree.Params(embed=normal(100, 64), w=normal(64, 128), b=normal(64), w_out=normal(3, 64))
trees = [tree.random_tree(rng, int(rng.integers(1, 30))) for _ in range(50)]
trace = tree.classify.trace(trees, p=p)
with override(Target(name="", features="", vector_bits=512, registers=32)):
    stages = dict(tree.classify.with_options(threads=1).stages(trees, p=p))

out = io.StringIO()
Console(file=out, width=80, color_system=None).print(report.schedule(trace.data))
print(json.dumps(stages | {"trace": out.getvalue()}))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "examples")])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    texts: dict[str, str] = json.loads(done.stdout)
    texts["trace"] = "\n".join(line.rstrip() for line in texts["trace"].splitlines())
    return texts


def excerpt(text: str, pattern: str, count: int | None = None) -> str:
    """The first line with the pattern and what follows, up to an empty line or `count` lines, without the indent."""
    lines = text.splitlines()
    (start, *_) = [k for k, line in enumerate(lines) if pattern in line]
    if count is None:
        count = [*lines[start:], ""].index("")
    return textwrap.dedent("\n".join(lines[start : start + count])).rstrip() + "\n"


def test_the_tour_shows_what_the_compiler_prints(root: Path, request: pytest.FixtureRequest) -> None:
    path = root / "docs" / "tour.md"
    page = path.read_text(encoding="utf-8")
    texts = stage_texts(root)

    def filled(match: re.Match[str]) -> str:
        name, *part = match[1].split(" | ")
        text = excerpt(texts[name], part[0], *map(int, part[1:])) if part else texts[name].rstrip() + "\n"
        return f"<!-- show: {match[1]} -->\n```text\n{text}```\n"

    new = SHOW.sub(filled, page)
    assert new.count("<!-- show:") == 9
    if request.config.getoption("--update-golden"):
        path.write_text(new, encoding="utf-8")
    else:
        assert new == page, "run with --update-golden, and read docs/tour.md"


def test_the_table_of_times_is_that_of_the_demo(root: Path) -> None:
    (table,) = re.findall(r"<!-- demo -->\n```text\n(.*?)```", (root / "README.md").read_text(encoding="utf-8"), re.S)
    rows = [re.fullmatch(r"(.+?) +([\d.]+) ms +([\d.]+) x", line) for line in table.splitlines()]
    names = [row[1] for row in rows if row]
    times = [float(row[2]) for row in rows if row]
    assert len(names) == len(rows) == 4
    source = inspect.getsource(demo)
    assert all(f'"{name}"' in source for name in names)
    for row, time in zip(rows, times, strict=True):
        assert row
        assert abs(float(row[3]) - max(times) / time) < 0.1


def test_commands_of_the_readme_exist(root: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (root / "Makefile").read_text(), re.M))
    commands = set(re.findall(r"(?:^|`)make ([a-z]+)\b", (root / "README.md").read_text(), re.M))
    assert {"demo", "test", "lint"} <= commands
    assert commands <= targets


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        *(
            f"docs/{page}.md"
            for page in (
                "language",
                "architecture",
                "contributing",
                "tour",
                "options",
                "performance",
                "ragged",
                "training",
            )
        ),
        *(
            f"docs/zoo/{m.name}.md"
            for m in pkgutil.iter_modules(zoo.__path__)
            if m.name not in ("data", "cells", "demo")
        ),
        "docs/zoo/index.md",
    ],
)
def test_links_lead_somewhere(root: Path, name: str) -> None:
    page = root / name
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")) if "://" not in link]
    assert all((page.parent / link).exists() for link in links)
    assert links or name != "README.md"


def test_the_page_for_contributors_names_what_there_is(root: Path) -> None:
    page = (root / "docs" / "contributing.md").read_text(encoding="utf-8")
    assert all((root / name).exists() for name in re.findall(r"`((?:acronumba|tests|docs)/[\w./]+)`", page))
    example = page.split("```python\n")[1].split("```")[0].strip()
    assert example in (root / "acronumba" / "frontend" / "library" / "numpy_elementwise.py").read_text(encoding="utf-8")
    code = "\n".join(
        p.read_text(encoding="utf-8") for room in ("acronumba", "tests") for p in (root / room).rglob("*.py")
    )
    tables = set(re.findall(r"`(_?[A-Z][A-Z_]{3,})`", page)) - {"CHANGELOG", "PYTHONPATH"}
    assert len(tables) > 10
    assert [name for name in tables if not re.search(rf"^\s*{name}\b[^=\n]*=", code, re.M)] == []


def test_every_function_of_nn_is_in_the_language_page(root: Path) -> None:
    from acronumba import nn

    page = set(re.findall(r"[a-z_0-9]+", (root / "docs" / "language.md").read_text(encoding="utf-8")))
    assert set(nn.__all__) <= page


def test_one_page_describes_every_option(root: Path) -> None:
    from acronumba import Options

    page = (root / "docs" / "options.md").read_text(encoding="utf-8")
    page = page[page.index("## Optimisations") : page.index("## Ablation")]
    described = re.findall(r"^(?:\| )?`([a-z_]+)` (?:\||[a-z])", page, re.M)
    assert sorted({*described}) == sorted(Options.__dataclass_fields__)
    language = (root / "docs" / "language.md").read_text(encoding="utf-8")
    assert "(options.md)" in language and not set(re.findall(r"^\| `([a-z_]+)` \|", language, re.M)) & set(described)


def test_the_page_of_options_has_every_optimisation_and_schedule(root: Path) -> None:
    from acronumba.config import BITWISE, OF_DEPTH, OPTIMISATIONS, SCHEDULES, SWITCHES

    page = (root / "docs" / "options.md").read_text(encoding="utf-8")
    options, schedules = page.split("| `schedule` |")
    assert tuple(re.findall(r"^\| `([a-z_]+)`", options, re.M)) == OPTIMISATIONS
    assert tuple(re.findall(r'^\| `([a-z_]+)`.*It affects only `schedule="depth"`', options, re.M)) == OF_DEPTH
    assert tuple(re.findall(r"^`(\w+)` (?:affects only|cuts)", schedules, re.M)) == SWITCHES[len(OPTIMISATIONS) :]
    sentence = options[options.index("The options do not change the bits") : options.index("| option |")]
    assert set(re.findall(r"`(\w+)`", sentence)) == {*SWITCHES, "precision"} - set(BITWISE)
    assert set(SCHEDULES) <= set(re.findall(r'^\| `"([a-z]+)"`', schedules, re.M))
