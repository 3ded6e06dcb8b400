"""Seconds of the stages of a compilation, and reports of its progress."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType

from acronumba.pipeline.boundary import compiling
from acronumba.pipeline.log import Patience, debug


class Times:
    """Times the stages of the compilation of a function, each within the error boundary."""

    def __init__(self, fn: FunctionType) -> None:
        self.fn = fn
        self.seconds: dict[str, float] = {}
        self._patience = Patience(fn.__qualname__)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the seconds of the block to those of a stage."""
        start = time.perf_counter()
        with self._patience.part(name), compiling(self.fn):
            yield
        spent = time.perf_counter() - start
        self.seconds[name] = self.seconds.get(name, 0.0) + spent
        debug(1, f"time of {name}", lambda: f"{self.fn.__qualname__}: {spent:.3f} s")

    def progress(self, name: str, number: int, count: int) -> None:
        """Report the progress of the compilation of modules."""
        self._patience.at(f"{name}, module {number + 1} of {count}")
        debug(5, "module", lambda: f"{self.fn.__qualname__}: {name} ({number} of {count})")
