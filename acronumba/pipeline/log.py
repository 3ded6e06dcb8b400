"""What is told while models are compiled and run: a log (ACRONUMBA_DEBUG), a line, progress at a terminal."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from acronumba.config import at_terminal, debug_level, is_open, is_quiet
from acronumba.locks import ForkLock, undivided

PATIENCE = 2.0  # seconds

log = logging.getLogger("acronumba")
log.addHandler(logging.NullHandler())


@contextmanager
def bar(
    text: str, log_step: Callable[[str, int, int], None] | None = None
) -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar at a terminal while the body runs; it gives a function of (name, number, count) of a step."""
    if not at_terminal(sys.stderr):
        yield log_step or (lambda name, number, count: None)
        return
    from acronumba.views.progress import progress

    with progress(text) as steps:

        def step(name: str, number: int, count: int) -> None:
            steps.total = count
            steps(1, f"{text}: {name}")
            if log_step is not None:
                log_step(name, number, count)

        yield step


def say(text: str) -> None:
    """Write a line to standard error, unless `ACRONUMBA_QUIET=1` keeps it silent."""
    if is_open(sys.stderr) and not is_quiet():
        with undivided, suppress(Exception):  # where nothing can be written, nobody reads
            from acronumba.views.progress import tell

            tell(text)


class Patience:
    """Says once on standard error what takes longer than `PATIENCE` seconds in all; entered around each part of it.

    Any thread may enter it; `ACRONUMBA_QUIET=1` keeps it silent. `clock`, `timer`: those of `time`, `threading`.
    """

    def __init__(
        self, text: str, clock: Callable[[], float] = time.monotonic, timer: Callable[..., Any] = threading.Timer
    ) -> None:
        self.told = False
        self._text, self._clock, self._timer = text, clock, timer
        self._spent = 0.0
        self._inside: dict[int, list[tuple[float, Any]]] = {}  # by thread: since when, and what will tell
        self._lock = ForkLock()

    def __enter__(self) -> None:
        alarm = None
        entered = self._inside.setdefault(threading.get_ident(), [])
        if not (entered or self.told or is_quiet()):
            alarm = self._timer(max(0.0, PATIENCE - self._spent), self._tell)
            alarm.daemon = True
            alarm.start()
        entered.append((self._clock(), alarm))

    def __exit__(self, *error: object) -> None:
        entered = self._inside[threading.get_ident()]
        since, alarm = entered.pop()
        if not entered:  # a part of a part is counted with that
            del self._inside[threading.get_ident()]
            self._spent += self._clock() - since
        if alarm is not None:
            alarm.cancel()

    def _tell(self) -> None:
        with self._lock:
            if self.told:
                return
            self.told = True
        say(self._text)


class _ToStandardError(logging.Handler):
    """Writes to what is standard error at that time, if there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        text = f"acronumba {self.format(record)}\n"
        if is_open(sys.stderr):
            with suppress(Exception):  # `handleError` would tell it there, where nothing can be written
                sys.stderr.write(text)


def debug(level: int, what: str, text: Callable[[], str]) -> None:
    """Log at a level of ACRONUMBA_DEBUG; the text is made only if it is wanted."""
    if debug_level() >= level:
        if not any(isinstance(h, _ToStandardError) for h in log.handlers):
            log.addHandler(_ToStandardError())
            log.setLevel(logging.DEBUG)
        log.debug("%s: %s", what, text())
