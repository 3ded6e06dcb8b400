"""Helpers of the lessons in `docs/lessons`: questions before the answer, checks of exercises, links into the explorer.

In: a question with its answer, or the check of a reader's answer. Out: in a notebook a text field and the answer to
open, elsewhere text. With `ACRONUMBA_LESSONS=1` in the environment, as in tests, a failed check raises.
"""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Callable
from html import escape
from pathlib import Path
from urllib.parse import urlencode

from acronumba.config import is_strict_lesson
from acronumba.views.console import in_notebook

__all__ = ["NotYet", "ask", "expect", "look"]

WIDE = 88  # characters of a line of a message
MOMENTS = ("kernel", "batch", "node", "line", "step", "instance", "mode")  # keys of the explorer's address

show_html: Callable[[str], object] | None = None  # where a page of the site runs a lesson: shows HTML there


class NotYet(AssertionError):
    """An exercise is not solved; the message is the hint."""


def ask(question: str, answer: object) -> None:
    """Show a question, with a field for the reader's answer, and the answer to open; in a script, print both.

    Parameters
    ----------
    question : str
        Question to answer before looking; text between backticks is shown as code.
    answer : object
        Computed, not typed: `len(trace.batches)`.
    """
    asked = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(question))
    page = (
        f"<p><b>{asked}</b><br><input type='text' size='40' aria-label='your answer' "
        f"placeholder='write down your answer first'></p>"
        f"<details><summary>open the answer</summary>"
        f"<pre style='white-space: pre-wrap'>{escape(str(answer))}</pre></details>"
    )
    _show(wrapped(f"{question}\n  answer: {answer}"), page)


def expect(condition: object, hint: str) -> None:
    """Print "right" if an exercise is solved, else the hint.

    Parameters
    ----------
    condition : object
        True if it is solved.
    hint : str
        The mistake, and where to look.

    Raises
    ------
    NotYet
        If it is not solved, and `ACRONUMBA_LESSONS` is 1.
    """
    if not condition and is_strict_lesson():
        raise NotYet(hint)
    print("right" if condition else wrapped(f"not yet: {hint}"))


def wrapped(text: str) -> str:
    """Return a text with its long lines broken, which a page would cut or scroll."""
    break_ = functools.partial(textwrap.wrap, width=WIDE, break_long_words=False, break_on_hyphens=False)
    return "\n".join(short for line in text.splitlines() for short in (break_(line) if len(line) > WIDE else [line]))


def look(page: str | Path, **moment: object) -> None:
    """Show a link to a step of a run in the explorer.

    Parameters
    ----------
    page : str or Path
        Path of the page, as `trace.html` returns it.
    **moment
        The selection: `batch`, `step` (batches that are done), `instance`, `kernel`, `node`, `line`, `mode`.
    """
    if unknown := sorted(moment.keys() - set(MOMENTS)):
        raise ValueError(f"the explorer has no `{unknown[0]}`, only {', '.join(MOMENTS)}")
    address = f"{Path(page).as_posix()}#{urlencode(moment, safe=':')}"
    _show(f"open {address}", f'<p><a href="{escape(address)}" target="_blank">open {escape(address)}</a></p>')


def _show(text: str, page: str) -> None:
    """Show a page in a notebook, else print the text."""
    if show_html is not None:
        show_html(page)
    elif in_notebook():
        from IPython.display import publish_display_data

        publish_display_data({"text/plain": text, "text/html": page})
    else:
        print(text)
