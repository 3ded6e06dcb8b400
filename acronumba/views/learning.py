"""A progress bar of training, below the printed output.

In: the number of steps done, and a text. Out: a line on standard error, at a terminal only, with the time left; it
vanishes at the end.
"""

from __future__ import annotations

import sys

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
