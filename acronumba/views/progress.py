"""Messages and progress bars for work that may take longer than a second.

In: a description and, if it is known, a number of steps. Out: a line; a bar on standard error that
appears after a second, at a terminal only, and vanishes at the end.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from acronumba.views.console import in_notebook

DELAY = 1.0  # seconds


def tell(text: str, line: Any = None) -> Any:
    """Write a line to standard error, or in a notebook below the cell; see `pipeline.log.say`.

    In a notebook, output on standard error looks like a failure.
    """
    if in_notebook():
        from IPython.display import display

        shown = {"text/plain": text}
        if line is None:
            return display(shown, raw=True, display_id=True)
        line.update(shown, raw=True)
        return line
    Console(stderr=True, force_jupyter=False).print(text, style="dim", markup=False, highlight=False, soft_wrap=True)
    return None


class Steps:
    """Counts steps; call it, or `advance`, from any thread."""

    def __init__(self, description: str, total: int | None) -> None:
        self.done = 0
        self.total = total
        self.shown = False  # whether the bar has appeared
        self._description = description
        self._lock = threading.Lock()
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._over = False

    def advance(self, steps: int = 1, description: str | None = None) -> None:
        """Count steps, and set the description of the current work."""
        with self._lock:
            self.done += steps
            self._description = description or self._description
            if self._bar is not None and self._task is not None:
                self._bar.update(self._task, completed=self.done, description=self._description)

    __call__ = advance

    def _appear(self, console: Console) -> None:
        with self._lock:
            if self._over:
                return
            self.shown = True
            self._bar = Progress(
                SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(),
                console=console, transient=True,
            )  # fmt: skip
            self._task = self._bar.add_task(self._description, total=self.total, completed=self.done)
            self._bar.start()

    def _end(self) -> None:
        with self._lock:
            self._over = True
            bar, self._bar = self._bar, None
        if bar is not None:
            bar.stop()


@contextmanager
def progress(
    description: str, total: int | None = None, *, console: Console | None = None, delay: float = DELAY
) -> Iterator[Steps]:
    """Show a progress bar while the body runs, once it has run for `delay` seconds at a terminal.

    Examples
    --------
    >>> with progress("compiling", total=3) as step:
    ...     for kernel in ("a", "b", "c"):
    ...         step(1, f"compiling {kernel}")
    """
    console = console or Console(stderr=True)
    steps = Steps(description, total)
    timer: threading.Timer | None = None
    if console.is_terminal:
        timer = threading.Timer(delay, steps._appear, (console,))
        timer.daemon = True
        timer.start()
    try:
        yield steps
    finally:
        if timer is not None:
            timer.cancel()
        steps._end()
