"""What lessons ask and check with."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from acronumba import AcronumbaError, learn


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """What is shown in a notebook, whether or not there is an IPython."""
    shown: list[dict[str, str]] = []
    display = SimpleNamespace(publish_display_data=shown.append)
    ipython = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=None), display=display)
    monkeypatch.setitem(sys.modules, "IPython", ipython)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "IPython.display", display)  # type: ignore[arg-type]
    return shown


def test_messages_wrap(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACRONUMBA_LESSONS", raising=False)
    learn.expect(False, "look at the trace again, " * 20 + "\n    " + "a_name" * 30)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 5 and all(len(line) <= 88 for line in lines[:-1]) and lines[-1].endswith("a_name")


def test_a_script_prints_question_answer_and_link(capsys: pytest.CaptureFixture[str]) -> None:
    learn.ask("How many batches?", 7)
    learn.look("tree.html", batch=2, step=3)
    assert capsys.readouterr().out == "How many batches?\n  answer: 7\nopen tree.html#batch=2&step=3\n"


def test_a_notebook_shows_a_field_and_hides_the_answer(notebook: list[dict[str, str]], capsys: Any) -> None:
    learn.ask("<b> or </b> in `<i>`?", "<script>")
    learn.look("a folder/tree.html", line="0:12", mode="compare")
    asked, link = (shown["text/html"] for shown in notebook)
    assert "&lt;b&gt; or &lt;/b&gt; in <code>&lt;i&gt;</code>?" in asked and "<input type='text'" in asked
    assert asked.index("<details>") < asked.index("&lt;script&gt;") < asked.index("</details>")
    assert 'href="a folder/tree.html#line=0:12&amp;mode=compare"' in link
    assert not capsys.readouterr().out, "the answer is nowhere else"


def test_a_moment_is_one_that_the_explorer_knows() -> None:
    with pytest.raises(ValueError, match="no `time`, only kernel, batch"):
        learn.look("tree.html", time=3)


def test_a_check_says_right_or_what_is_wrong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ACRONUMBA_LESSONS", raising=False)
    learn.expect(1, "unused")
    learn.expect([], "count again")
    assert capsys.readouterr().out == "right\nnot yet: count again\n"
    monkeypatch.setenv("ACRONUMBA_LESSONS", "1")
    learn.expect(True, "unused")
    with pytest.raises(learn.NotYet, match="count again"):
        learn.expect(False, "count again")
    monkeypatch.setenv("ACRONUMBA_LESSONS", "yes")
    with pytest.raises(AcronumbaError, match="ACRONUMBA_LESSONS must be a number"):
        learn.expect(False, "count again")
