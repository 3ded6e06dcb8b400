"""The line on standard error where compiling takes long, by a clock of the test's own."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

from acronumba import AcronumbaError, model
from acronumba.pipeline.log import PATIENCE, Patience

TEXT = "compiling f for a new specialisation ..."


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
    return Patience(TEXT, clock=lambda: clock.now, timer=clock.timer)


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
    assert "compiling" in (err := capsys.readouterr().err) and "halves for a new specialisation ...\n" in err
    halves.batch([np.ones(3)])
    assert capsys.readouterr().err == ""
    halves.batch([np.ones((3, 2))])
    assert "halves for a new specialisation ...\n" in capsys.readouterr().err


def test_a_wrong_value_is_refused(monkeypatch):
    monkeypatch.setenv("ACRONUMBA_QUIET", "yes")

    @model
    def thirds(x):
        return x / 3.0

    with pytest.raises(AcronumbaError, match="ACRONUMBA_QUIET must be a number from 0 to 1"):
        thirds.batch([np.ones(3)])
