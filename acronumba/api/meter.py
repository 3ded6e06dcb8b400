"""Bounds of a plain call on its steps and its memory.

In: limits. Out: a trace function that counts lines and calls, and raises `Endless`; a `range` whose elements count.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

from acronumba.generics import Value
from acronumba.pipeline.boundary import is_library

_LOOK = 1e-3  # seconds between two looks at the memory


class Endless(BaseException):
    """The plain call has exceeded its limit of steps or memory. `except Exception` does not catch it."""


class Meter:
    """Trace function for `sys.settrace` that counts the lines and calls of one thread."""

    __slots__ = ("_left", "_limit", "_look", "_size", "_started")

    def __init__(self, steps: int, memory_limit: int | None) -> None:
        self._left = steps
        self._limit = memory_limit
        self._started = False  # whether the size of the process is known
        self._size = 0  # at the first look, bytes
        self._look = time.perf_counter() + _LOOK  # when to look at the memory next

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if is_library(frame.f_code.co_filename):
            return None
        self._line(frame, event, arg)
        return self._line

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        self.step()
        return self._line

    def step(self) -> None:
        """Count a step."""
        self._left -= 1
        if self._left < 0:
            raise Endless("too many steps")
        if time.perf_counter() > self._look:
            self._weigh()

    def _weigh(self) -> None:
        from acronumba.memory import available, resident

        size = resident()
        if not self._started:
            self._started, self._size = True, size
            self._limit = self._limit or available() // 2
        if size - self._size > (self._limit or 0):
            raise Endless("too much memory")
        self._look = time.perf_counter() + _LOOK


class Range(Sequence[int]):
    """A `range` whose elements count as steps of the plain call, in `sum` as well as in loops."""

    __slots__ = ("_range",)

    def __init__(self, *args: Value) -> None:
        self._range = args[0] if isinstance(args[0], range) else range(*args)

    def __iter__(self) -> Iterator[int]:
        return _counted(self._range)

    def __reversed__(self) -> Iterator[int]:
        return _counted(self._range[::-1])

    def __len__(self) -> int:
        return len(self._range)

    def __getitem__(self, key: Any) -> Any:
        found = self._range[key]
        return Range(found) if isinstance(found, range) else found

    def __contains__(self, value: object) -> bool:
        return value in self._range

    def __eq__(self, other: object) -> bool:
        return self._range == (other._range if isinstance(other, Range) else other)

    def __hash__(self) -> int:
        return hash(self._range)

    def __repr__(self) -> str:
        return repr(self._range)


def _counted(values: range) -> Iterator[int]:
    meter = sys.gettrace()
    for value in values:
        if isinstance(meter, Meter):
            meter.step()
        yield value
