"""The line on standard error where compiling takes long, by a clock of the test's own."""

from __future__ import annotations

import re
import sys
import threading

import numpy as np
import pytest

from acronumba import AcronumbaError, model
from acronumba.pipeline.log import PATIENCE, Patience

TEXT = "compiling f for a new specialisation: planning ..."


class Clock:
    """A clock that a test moves, and timers that go by it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []

    def move(self, seconds: float) -> None:
        self.now += seconds
        for timer in [t for t in self.timers if t.at is not None and t.at <= self.now]:
            timer.at = None
            timer.call()

    def timer(self, seconds, call):
        self.timers.append(Timer(self, seconds, call))
        return self.timers[-1]


class Timer:
    def __init__(self, clock, seconds, call):
        self.clock, self.seconds, self.call, self.at = clock, seconds, call, None

    def start(self):
        self.at = self.clock.now + self.seconds

    def cancel(self):
        self.at = None


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.delenv("ACRONUMBA_QUIET", raising=False)
    return Clock()


def patience(clock):
    return Patience("f", clock=lambda: clock.now, timer=clock.timer).at("planning")


def test_a_line_is_told_once_after_two_seconds(clock, capsys):
    asked = patience(clock)
    with asked:
        clock.move(PATIENCE - 0.1)
        assert capsys.readouterr().err == ""
        clock.move(0.2)
        assert capsys.readouterr() == ("", TEXT + "\n")
        clock.move(10.0)
    with asked:
        clock.move(10.0)
    assert capsys.readouterr() == ("", "")


def test_parts_count_together_and_pauses_do_not(clock, capsys):
    asked = patience(clock)
    for _ in range(3):
        with asked:
            clock.move(0.6)
        clock.move(100.0)
    assert capsys.readouterr().err == ""
    with asked:
        clock.move(0.3)
    assert capsys.readouterr().err == TEXT + "\n"


def test_a_part_of_a_part_counts_once(clock, capsys):
    asked = patience(clock)
    with asked:
        with asked:
            clock.move(0.9)
        assert capsys.readouterr().err == ""
        clock.move(0.9)
    with asked:
        assert capsys.readouterr().err == ""
        with asked:
            clock.move(0.3)
    assert capsys.readouterr().err == TEXT + "\n"


def test_a_failure_ends_it(clock, capsys):
    asked = patience(clock)
    with pytest.raises(ZeroDivisionError), asked:
        raise ZeroDivisionError
    clock.move(10.0)
    assert capsys.readouterr().err == ""


def test_quiet(clock, capsys, monkeypatch):
    monkeypatch.setenv("ACRONUMBA_QUIET", "1")
    with patience(clock):
        clock.move(10.0)
    assert capsys.readouterr().err == "" and not clock.timers


@pytest.mark.parametrize("stream", [None, "closed"])
def test_without_standard_error(clock, monkeypatch, tmp_path, stream):
    if stream == "closed":
        stream = (tmp_path / "nothing").open("w")
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    with patience(clock):
        clock.move(10.0)


def test_threads_tell_it_once(clock, capsys):
    asked, inside, go_on = patience(clock), threading.Barrier(5), threading.Event()

    def part():
        with asked:
            inside.wait()
            go_on.wait()

    threads = [threading.Thread(target=part) for _ in range(4)]
    for t in threads:
        t.start()
    inside.wait()
    clock.move(3.0)
    go_on.set()
    for t in threads:
        t.join()
    assert capsys.readouterr().err == TEXT + "\n"


def test_a_model_says_what_it_compiles(monkeypatch, capsys):
    """With no patience at all, every part of the compilation is long."""
    monkeypatch.delenv("ACRONUMBA_QUIET", raising=False)
    monkeypatch.setattr("acronumba.pipeline.log.PATIENCE", 0.0)

    @model
    def halves(x):
        return x * 0.5 + 1.25

    halves.batch([np.ones(3)])
    begun, ended = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"compiling .*halves for a new specialisation: reading the source \.\.\.", begun)
    assert re.fullmatch(r"compiled .*halves in \d+\.\d s", ended)
    halves.batch([np.ones(3)])
    assert capsys.readouterr().err == ""
    halves.batch([np.ones((3, 2))])
    assert "halves for a new specialisation" in capsys.readouterr().err


def test_the_end_tells_the_time(clock, capsys):
    asked = patience(clock)
    with asked:
        asked.end()
        clock.move(PATIENCE + 1)
        asked.at("encode_5, module 3 of 7")
        asked.end()
        assert capsys.readouterr().err == TEXT + "\n"
    clock.move(50.0)
    with asked:
        clock.move(0.5)
    asked.end()
    assert capsys.readouterr().err == "compiled f in 3.5 s\n"
    asked.end()
    with asked:
        clock.move(PATIENCE + 1)
    assert capsys.readouterr().err == "compiling f for a new specialisation: encode_5, module 3 of 7 ...\n"


def test_short_compilations_end_in_silence(clock, capsys):
    asked = patience(clock)
    with asked:
        clock.move(1.0)
    asked.end()
    assert capsys.readouterr().err == ""


def test_a_failure_tells_the_time(clock, capsys):
    asked = patience(clock)
    failed = asked.part("lower")
    failed.__enter__()
    clock.move(PATIENCE + 1)
    assert not failed.__exit__(ZeroDivisionError, ZeroDivisionError(), None), "the exception goes on"
    begun, ended = capsys.readouterr().err.splitlines()
    assert begun.endswith("reading the source ...") and ended == "compiling f has failed after 3.0 s"
    with asked.part("compile"):
        clock.move(PATIENCE + 2)
    assert capsys.readouterr().err.endswith("generating code ...\ncompiled f in 4.0 s\n")


def test_a_late_alarm_is_silent(clock, capsys):
    asked = patience(clock)
    with asked:
        (timer,) = clock.timers
    asked.end()
    timer.call()
    assert capsys.readouterr().err == "" and not asked.said


NOTEBOOK = """
import numpy as np, os, sys, time
import acronumba.pipeline.log as log
os.environ.pop("ACRONUMBA_QUIET", None)
log.PATIENCE = 0.3
asked = log.Patience("f")
with asked.at("planning"):
    time.sleep(1.0)
    asked.at("encode_5, module 3 of 7")
asked.end()
"""


def test_a_notebook_has_one_line_that_follows(tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(NOTEBOOK)])
    nbclient.NotebookClient(book, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()
    (shown,) = book.cells[0].outputs
    assert shown.output_type == "display_data" and re.fullmatch(r"compiled f in 1\.\d s", shown.data["text/plain"])


def test_a_wrong_value_is_rejected(monkeypatch):
    monkeypatch.setenv("ACRONUMBA_QUIET", "yes")

    @model
    def thirds(x):
        return x / 3.0

    with pytest.raises(AcronumbaError, match="ACRONUMBA_QUIET must be a number from 0 to 1"):
        thirds.batch([np.ones(3)])
