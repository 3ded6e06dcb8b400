"""What is logged while models are compiled and run (ACRONUMBA_DEBUG), and progress at a terminal."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from acronumba.config import at_terminal, debug_level, is_open

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
