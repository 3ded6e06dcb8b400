"""The pages under `docs/zoo` show each model's source, and what is recorded, scheduled and found out for it today.

    python -m pytest tests/docs/test_zoo_pages.py --update-golden

writes the blocks of all pages anew. A block after ``<!-- code: f, g -->`` has the source of these functions; one after
``<!-- show: NAME -->`` has a text of the model that `PAGES` names, with ``| PATTERN`` its part from the first line with
the pattern to the next empty line.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest
from rich.console import Console

from acronumba import zoo
from acronumba.api.dispatch import bind
from acronumba.emit.target import Target, override
from acronumba.pipeline import link
from acronumba.runtime.reference import reference_kernels
from acronumba.views import report
from acronumba.zoo import bilstm_tagger, child_sum_lstm, data, expressions
from tests.support.chosen import one_in

SIZE = 64  # H
SST = """\
(4 (2 (2 The) (2 film)) (4 (3 (2 is) (4 (3 lovely) (2 ,))) (2 .)))
(1 (2 It) (1 (1 (2 is) (1 (2 not) (1 (3 good) (2 enough)))) (2 .)))
(2 (2 Nothing) (2 (2 happens) (2 .)))
(3 (3 (3 Good) (2 fun)) (2 .))
(1 (2 (2 The) (2 actors)) (1 (1 (2 (2 never) (1 (1 forget) (2 (2 that) (2 they)))) (2 (2 are) (2 acting))) (2 .)))
(4 (4 (4 Wonderful) (2 !)) (3 (2 See) (2 it)))
(1 (2 (2 The) (2 film)) (1 (2 is) (1 (2 (2 not) (2 it)) (2 .))))
(0 Awful)
"""
FUNCTIONS = """\
def area(w, h):
    return w * h
def sign(x):
    return -1 if x < 0 else 1
def total(rows):
    found = 0
    for row in rows:
        found += sum(row)
    return found
def first(rows, default=None):
    return rows[0] if rows else default
"""
LATER = dict.fromkeys("beam_decoder berxit birnn decoder drnn expressions listops mv_rnn".split(), pytest.mark.slow)
PAGES = {  # of each model, the form that is shown, and how many instances
    "tree_lstm": ("sentiment", 8),
    "child_sum_lstm": ("classify", 4),
    "mv_rnn": ("sentiment", 8),
    "birnn": ("tag", 8),
    "bilstm_tagger": ("tag", 4),
    "nested_rnn": ("encode", 4),
    "listops": ("classify", 8),
    "expressions": ("classify", 4),
    "encoder": ("encode", 4),
    "moe": ("mix", 8),
    "drnn": ("generate", 5),
    "berxit": ("classify", 4),
    "stack_rnn": ("parse", 4),
    "graph_rnn": ("generate", 4),
    "beam_decoder": ("decode", 3),
    "decoder": ("generate", 12),
}
SMALL: dict[str, Callable[[int], Any]] = {  # where few or short instances say as much
    "nested_rnn": lambda n: import_module("acronumba.zoo.nested_rnn").instances(n, iterations=(2, 5)),
    "berxit": lambda n: import_module("acronumba.zoo.berxit").instances(n, seed=5, length=16),
    "graph_rnn": lambda n: import_module("acronumba.zoo.graph_rnn").instances(n, nodes=6),
}
BLOCK = re.compile(r"<!-- (code|show): (.*?) -->\n```(?:python|text)\n(.*?)```\n", re.S)


def instances(name: str, count: int, folder: Path) -> list[Any]:
    """The same for every version of Python, which the functions of its library are not."""
    module = import_module(f"acronumba.zoo.{name}")
    if name == "child_sum_lstm":

        def node(tree: ast.AST) -> child_sum_lstm.Node:
            below = [node(x) for x in ast.iter_child_nodes(tree) if not isinstance(x, ast.expr_context)]
            return child_sum_lstm.Node(child_sum_lstm.KINDS.index(type(tree).__name__), below)

        return [node(f) for f in ast.parse(FUNCTIONS).body]
    if name == "expressions":
        return [e for e, _ in expressions.read(ast.parse(FUNCTIONS))]
    if name == "bilstm_tagger":  # few sentences: all but the most frequent words are rare
        texts = [list(data.words(s)) for s in data.read_sst_syntax(_sentences(folder))]
        return bilstm_tagger.sentences(texts)[:count]
    if hasattr(module, "read_sst"):
        found: list[Any] = module.read_sst(_sentences(folder))[:count]
        return found
    made: list[Any] = SMALL.get(name, module.instances)(count)
    return made


def _sentences(folder: Path) -> Path:
    path = folder / "sentences.txt"
    path.write_text(SST, encoding="utf-8")
    return path


def texts(name: str, folder: Path) -> dict[str, Callable[[], str]]:
    attribute, count = PAGES[name]
    module = import_module(f"acronumba.zoo.{name}")
    model, p = getattr(module, attribute).with_options(effort=3), module.params(SIZE)
    xs = instances(name, count, folder)
    assert len(xs) == count

    @cache
    def trace(count: int) -> Any:
        return model._record(bind(model, (xs[:count],), {"p": p}))[2]  # no kernel need be compiled

    @cache
    def explain() -> str:
        with override(Target(name="", features="", vector_bits=512, registers=32)):
            return str(model.explain(xs, p=p))

    return {
        "graph": lambda: _printed(report.dataflow(trace(1), limit=14)),
        "schedule": lambda: _printed(report.schedule(trace(count), limit=16)),
        "rounds": lambda: _printed(report.rounds(trace(count), limit=12)),
        "timeline": lambda: _printed(report.timeline(trace(count))),
        "explain": explain,
    }


def _printed(view: Any) -> str:
    out = io.StringIO()
    Console(file=out, width=80, color_system=None).print(view)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def excerpt(text: str, pattern: str) -> str:
    lines = text.splitlines()
    start = next(k for k, line in enumerate(lines) if pattern in line)
    return "\n".join(lines[start : [*lines, ""].index("", start)]) + "\n"


@pytest.fixture
def kernels_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let models that wait for values have these computed by NumPy: pages show what is recorded, not how fast."""
    linked = link.link

    def with_references(plan: Any, options: Any, *, kernels: Any = None, progress: Any = None) -> Any:
        return linked(plan, options, kernels=kernels or reference_kernels(plan.kernels), progress=progress)

    monkeypatch.setattr(link, "link", with_references)


@pytest.mark.usefixtures("kernels_of_numpy")
@pytest.mark.parametrize("name", one_in(12, [pytest.param(n, marks=LATER.get(n, ())) for n in PAGES]))
def test_pages_show_what_is(name: str, root: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path = root / "docs" / "zoo" / f"{name}.md"
    page = path.read_text(encoding="utf-8")
    module = import_module(f"acronumba.zoo.{name}")
    shown = texts(name, tmp_path)

    def filled(match: re.Match[str]) -> str:
        kind, what = match[1], match[2]
        if kind == "code":
            parts = [inspect.getsource(inspect.unwrap(getattr(module, f))) for f in what.split(", ")]
            return f"<!-- code: {what} -->\n```python\n" + "\n\n".join(parts) + "```\n"
        text, _, pattern = what.partition(" | ")
        whole = shown[text]()
        return f"<!-- show: {what} -->\n```text\n{excerpt(whole, pattern) if pattern else whole}```\n"

    new = BLOCK.sub(filled, page)
    assert new.count("<!-- code:") >= 1
    assert new.count("<!-- show:") >= 3
    if request.config.getoption("--update-golden"):
        path.write_text(new, encoding="utf-8")
    else:
        assert new == page, "run with --update-golden, and read the page"


def test_every_model_has_a_page(root: Path) -> None:
    modules = {m.name for m in iter_modules(zoo.__path__)} - {"data", "cells", "demo"}
    assert modules == set(PAGES) == {path.stem for path in (root / "docs" / "zoo").glob("*.md")} - {"index"}
    index = (root / "docs" / "zoo" / "index.md").read_text(encoding="utf-8")
    assert {f"{name}.md" for name in PAGES} == set(re.findall(r"\]\((\w+\.md)\)", index))
