"""In a notebook: texts are texts, and what a cell ends with shows a summary that needs no script."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import numpy as np
import pytest

from acronumba import summary
from tests.support import explored

SIZE = 30_000
CELLS = (
    "from tests.support import explored\nxs, p = explored.trees(12), explored.params()",
    "import numpy as np\nfrom acronumba import model\n\n@model\ndef own(x, *, w):\n    return np.tanh(w @ x)\n",
    "trace = explored.classify.trace(xs, p=p)\nexplanation = explored.classify.explain(xs, p=p)",
    "import json\ntold = explanation.to_text('told.txt').read_text()\n"
    "print(json.dumps([str(trace), str(explanation), repr(trace), told]))",
    "trace",
    "explanation",
    "explored.classify.check(xs, p=p)",
    "explored.classify.batch(xs, p=p)",
    "trace.show(options=False, schedules=False)",
    "own.explore(np.ones((3, 4), np.float32), w=np.ones((4, 4), np.float32), options=False)",
)


def objects() -> dict[str, Any]:
    xs, p = explored.trees(12), explored.params()
    return {
        "trace": explored.classify.trace(xs, p=p),
        "explanation": explored.classify.explain(xs, p=p),
        "check": explored.classify.check(xs, p=p),
        "results": explored.classify.batch(xs, p=p),
        "model": explored.classify,
        "stages": explored.classify.stages(xs, p=p),
        "parameters": summary(p),
    }


def test_objects_have_a_text_and_a_static_summary() -> None:
    for name, made in objects().items():
        shown = made._repr_mimebundle_()
        assert len(shown["text/plain"]) > 20 and shown["text/plain"] in (str(made), repr(made)), name
        assert "<table>" in shown["text/html"] and len(shown["text/html"].encode()) < SIZE, name
        assert not re.search(r"<script|<style|javascript:|\bon\w+=|https?:", shown["text/html"]), name


def test_an_explanation_shows_the_source_with_its_decisions() -> None:
    shown = objects()["explanation"]._repr_mimebundle_()["text/html"]
    assert shown.index("<pre>") < shown.index("shared: `p.embed`") < shown.index("</pre>") < shown.index("<table>")
    from acronumba.views.explorer.summary import CHARACTERS, preformatted

    long = preformatted("a line with a < b\n" * 2000)
    assert CHARACTERS < len(long) < 1.3 * CHARACTERS and long.endswith("&lt; b\n...</pre>")


def test_a_summary_of_many_batches_stays_small_and_has_no_markup_of_the_user() -> None:
    columns, shared = explored.waiting(64)
    trace = explored.waits.trace(*columns, **shared)
    shown = trace._repr_mimebundle_()["text/html"]
    assert len(shown.encode()) < SIZE and shown.count("<rect") <= 120 and "6 execution rounds" in shown
    failed = explored.hostile.trace([np.zeros(3, np.float32)])
    from acronumba.views.explorer.summary import trace_summary

    assert "<img" not in trace_summary(failed.data, explored.HOSTILE, 1)
    empty = explored.classify.trace([], p=explored.params())._repr_mimebundle_()["text/html"]
    assert "0 instances" in empty and "<svg" not in empty


@pytest.mark.long
def test_a_notebook_runs(tmp_path: Any) -> None:
    nbformat = pytest.importorskip("nbformat", reason="NOT RUN: no nbclient; pip install '.[test-browser]'")
    nbclient = pytest.importorskip("nbclient", reason="NOT RUN: no nbclient; pip install '.[test-browser]'")
    pytest.importorskip("ipykernel", reason="NOT RUN: no ipykernel; pip install '.[test-browser]'")
    start = f"import os, sys\nsys.path.insert(0, {os.getcwd()!r})\nos.chdir({str(tmp_path)!r})"
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in (start, *CELLS)])
    nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute()
    outputs = [cell.outputs for cell in book.cells[1:]]
    assert all(len(out) <= 1 for out in outputs), "nothing is printed on the side"
    texts = json.loads(outputs[3][0]["text"])
    assert all(len(text) > 40 for text in texts) and "Summary" in texts[0] and "Static blocks" in texts[3]
    for out in outputs[4:8]:
        data = out[0]["data"]
        assert len(data["text/plain"]) > 20 and "<table>" in data["text/html"] and "<script" not in data["text/html"]
    for out in outputs[8:]:
        assert out[0]["data"]["text/html"].startswith('<iframe sandbox="allow-scripts"')
    assert "&quot;In [3]&quot;" in outputs[9][0]["data"]["text/html"], "the file is the cell"
    assert not list(tmp_path.glob("*.html"))
