"""The progress of training: a bar below the printed output of a terminal, or an output of a notebook that is updated.

In: the number of steps done, and a text. Out: a line on standard error, at a terminal only, with the time left; it
vanishes at the end. In a notebook: an object, such as a curve, shown again as it changes.
"""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from acronumba.config import at_terminal


class Bar:
    """Progress bar of a training loop.

    Parameters
    ----------
    total : int
        Total number of steps.
    console : Console, optional
        Console to show it on; by default standard error.
    """

    def __init__(self, total: int, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._total = total
        self._shown: tuple[Progress, TaskID] | None = None

    def start(self, done: int) -> None:
        """Show the bar, if the console is a terminal."""
        if not self._console.is_terminal:
            return
        columns = (
            BarColumn(bar_width=12), MofNCompleteColumn(), TextColumn("{task.fields[told]}", markup=False),
            TimeRemainingColumn(),
        )  # fmt: skip
        progress = Progress(
            *columns,
            console=self._console,
            transient=True,
            redirect_stdout=at_terminal(sys.stdout),
            redirect_stderr=False,
        )
        self._shown = progress, progress.add_task("", total=self._total, completed=done, told="compiling")
        progress.start()

    def show(self, done: int, told: str) -> None:
        """Show the number of steps done, and a text."""
        if self._shown is not None:
            progress, task = self._shown
            progress.update(task, completed=done, told=told)

    def stop(self) -> None:
        """Remove the bar."""
        if self._shown is not None:
            progress, self._shown = self._shown[0], None
            progress.stop()


class Live:
    """An object that a notebook shows again as it changes: at most each second, and in a tenth of the time."""

    def __init__(self, shown: object) -> None:
        from IPython.display import display

        self._shown = shown
        self._handle = display(shown, display_id=True)
        self._next = 0.0  # when it may be shown again

    def update(self, *, now: bool = False) -> None:
        """Show it again, if it is time or `now`."""
        begin = time.perf_counter()
        if now or begin >= self._next:
            self._handle.update(self._shown)
            end = time.perf_counter()
            self._next = end + max(1.0, 9 * (end - begin))
