"""The plain call of one instance, which is stopped if it does not end.

In: the user's function and its arguments. Out: its result, or its exception. A plain call is run to tell a failure in
the user's own words, and to check a result. A mini-batch is over where the plain call may never be: the machine counts
its steps, and runs the parts of an instance that do not need each other side by side, so that one of them may have
failed while another would go on for ever. So a plain call that is run for a message has a bound as well, on its steps
and on the memory it takes.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

from acronumba.api.structures import native
from acronumba.config import Options
from acronumba.pipeline.boundary import is_library

SOON = 100_000  # steps after which it pays to look for another way to tell a failure; some 20 ms
_LINES = 16  # of Python, for each step of the machine, which counts blocks of straight-line code
_LOOK = 1e-3  # seconds between two looks at the memory


class _Inside(threading.local):
    plain = False


inside = _Inside()  # whether this thread runs a plain call: what a model calls in it has NumPy's arrays already


class Endless(BaseException):
    """The plain call has taken more steps, or more memory, than it may. Nothing that it calls catches this."""


@dataclass(frozen=True, slots=True)
class PlainCall:
    """A function with its shared values and its bounds, to be called for one instance after the other.

    Parameters
    ----------
    fn : function
        The user's.
    shared
        Its keyword arguments.
    steps : int
        Lines and calls that it may run, those in libraries not counted.
    memory_limit : int, optional
        Bytes that the process may grow by; by default half of what is free.
    """

    fn: Callable[..., Any]
    shared: Mapping[str, Any]
    steps: int
    memory_limit: int | None = None

    @classmethod
    def of(cls, fn: Callable[..., Any], shared: Mapping[str, Any], options: Options) -> PlainCall:
        """Return the call with the bounds of a mini-batch: the steps that the machine would have run, too."""
        return cls(fn, shared, SOON + _LINES * options.max_steps, options.memory_limit)

    def run(self, instance: Sequence[Any]) -> Any:
        """Return what the function gives for an instance, or raise what it raises.

        Raises
        ------
        Endless
            If it goes beyond one of its bounds. A debugger or a measurement of coverage does not see the call.
        """
        args, shared = native((tuple(instance), dict(self.shared)))
        before, outer = sys.gettrace(), inside.plain
        sys.settrace(_Meter(self.steps, self.memory_limit))
        inside.plain = True
        try:
            with np.errstate(all="ignore"):
                return self.fn(*args, **shared)
        finally:
            sys.settrace(before)
            inside.plain = outer


class _Meter:
    """Counts the lines and calls of one thread: what `sys.settrace` calls."""

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
    """A `range` whose elements are steps of the plain call, whoever goes over it: `sum` as well as a loop."""

    __slots__ = ("_range",)

    def __init__(self, *args: Any) -> None:
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
        if isinstance(meter, _Meter):
            meter.step()
        yield value
