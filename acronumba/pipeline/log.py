"""Output during compilation and runs: a log (ACRONUMBA_DEBUG), messages, progress at a terminal."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FunctionType
from typing import Any

from acronumba.config import at_terminal, debug_level, is_open, is_quiet
from acronumba.kernels.own import seconds as numba_seconds
from acronumba.locks import ForkLock, undivided
from acronumba.pipeline.boundary import compiling

PATIENCE = 2.0  # seconds
# Texts for the parts of a compilation.
NUMBA = "compile by Numba"  # kernels of the user's own operations
PARTS = {
    "lower": "reading the source", "infer": "finding types", "plan": "planning", "compile": "generating code",
}  # fmt: skip

log = logging.getLogger("acronumba")
log.addHandler(logging.NullHandler())


@contextmanager
def bar(
    text: str, log_step: Callable[[str, int, int], None] | None = None
) -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar at a terminal while the body runs; yield a function of (name, number, count) of a step."""
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


def say(text: str, line: Any = None) -> Any:
    """Write a line to standard error, or in a notebook below the cell, unless `ACRONUMBA_QUIET=1` keeps it silent.

    Return the line of a notebook. Given again as `line`, its text is replaced.
    """
    if is_open(sys.stderr) and not is_quiet():
        with undivided, suppress(Exception):  # errors of a closed or broken stream are ignored
            from acronumba.views.progress import tell

            return tell(text, line)
    return None


class Patience:
    """Reports the progress of a compilation that takes longer than `PATIENCE` seconds, and finally its time.

    A context manager around each part of the compilation, in any thread. `ACRONUMBA_QUIET=1` silences it. A notebook
    shows one line that is updated; elsewhere there is a line after `PATIENCE` seconds, and one at the end.

    Parameters
    ----------
    what
        Name of the function that is compiled.
    clock, timer
        Replacements of `time.monotonic` and `threading.Timer`, for tests.
    """

    def __init__(
        self, what: str, clock: Callable[[], float] = time.monotonic, timer: Callable[..., Any] = threading.Timer
    ) -> None:
        self.said = False
        self._what, self._clock, self._timer = what, clock, timer
        self._far = ""  # progress
        self._line: Any = None  # of a notebook
        self._spent = 0.0
        self._inside: dict[int, list[tuple[float, Any]]] = {}  # by thread: start times, and timers that will report
        self._lock = ForkLock()

    def __enter__(self) -> None:
        alarm = None
        entered = self._inside.setdefault(threading.get_ident(), [])
        if not (entered or self.said or is_quiet()):
            alarm = self._timer(max(0.0, PATIENCE - self._spent), self._tell)
            alarm.daemon = True
            alarm.start()
        entered.append((self._clock(), alarm))

    def __exit__(self, *error: object) -> None:
        entered = self._inside[threading.get_ident()]
        since, alarm = entered.pop()
        if not entered:  # nested parts are counted with the outer one
            del self._inside[threading.get_ident()]
            self._spent += self._clock() - since
        if alarm is not None:
            alarm.cancel()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Enter the context for one of `PARTS`; "compile" is the last of them."""
        done = False
        try:
            with self.at(PARTS[name]):
                yield
            done = True
        finally:
            if name == "compile" or not done:
                self.end(done)

    def at(self, far: str) -> Patience:
        """Set the progress text, and update the line of a notebook."""
        self._far = far
        if self._line is not None:
            say(self._text, self._line)
        return self

    def end(self, done: bool = True) -> None:
        """Report the total time, if progress was reported and no part is running, and reset.

        Parameters
        ----------
        done
            Whether the compilation succeeded.
        """
        with self._lock:
            if self._inside:
                return
            if self.said:
                what = f"compiled {self._what} in" if done else f"compiling {self._what} has failed after"
                say(f"{what} {self._spent:.1f} s", self._line)
            self.said, self._line, self._spent = False, None, 0.0

    @property
    def _text(self) -> str:
        return f"compiling {self._what} for a new specialisation: {self._far} ..."

    def _tell(self) -> None:
        with self._lock:
            if self._inside and not self.said:
                self.said = True
                self._line = say(self._text)


def _told(name: str, spent: float) -> str:
    return f"{name}: {spent:.3f} s"


class Times:
    """Times the stages of the compilation of a function, each within the error boundary."""

    def __init__(self, fn: FunctionType) -> None:
        self.fn = fn
        self.seconds: dict[str, float] = {}
        self._patience = Patience(fn.__qualname__)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the seconds of the block to those of a stage."""
        start, before = time.perf_counter(), numba_seconds[0]
        with self._patience.part(name), compiling(self.fn):
            yield
        by_numba = numba_seconds[0] - before
        for part, spent in ((name, time.perf_counter() - start - by_numba), (NUMBA, by_numba)):
            if spent or part == name:
                self.seconds[part] = self.seconds.get(part, 0.0) + spent
                debug(1, f"time of {part}", partial(_told, self.fn.__qualname__, spent))

    def progress(self, name: str, number: int, count: int) -> None:
        """Report the progress of the compilation of modules."""
        self._patience.at(f"{name}, module {number + 1} of {count}")
        debug(5, "module", lambda: f"{self.fn.__qualname__}: {name} ({number} of {count})")


class _ToStandardError(logging.Handler):
    """Writes to the current `sys.stderr`, if it is open."""

    def emit(self, record: logging.LogRecord) -> None:
        text = f"acronumba {self.format(record)}\n"
        if is_open(sys.stderr):
            with suppress(Exception):  # `handleError` would write to the same stream
                sys.stderr.write(text)


def debug(level: int, what: str, text: Callable[[], str]) -> None:
    """Log at a level of ACRONUMBA_DEBUG; the text is made only if it is logged."""
    if debug_level() >= level:
        if not any(isinstance(h, _ToStandardError) for h in log.handlers):
            log.addHandler(_ToStandardError())
            log.setLevel(logging.DEBUG)
        log.debug("%s: %s", what, text())
