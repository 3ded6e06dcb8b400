"""The plain call of one instance, within limits of steps and memory.

In: the user's function and its arguments. Out: its result, or its exception. A plain call is run to reproduce a failure
with the user's own traceback, and to check a result. It may not terminate although the mini-batch does: compiled code
counts its steps, and runs independent parts of an instance side by side, so that one part may have failed before
another loops for ever. So a plain call that is run for a message has bounds on its steps and its memory.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from acronumba.api.structures import native
from acronumba.config import Options
from acronumba.generics import Value
from acronumba.pipeline.boundary import is_library
from acronumba.pipeline.given_objects import Outer, Snapshot, outer_of

if TYPE_CHECKING:
    from acronumba.api.reference import Outcome
    from acronumba.api.shadow import Anchors

SOON = 100_000  # steps after which another report of a failure is tried first; about 20 ms
_LINES = 16  # of Python, for each step of the machine, which counts blocks of straight-line code
_LOOK = 1e-3  # seconds between two looks at the memory


class _Inside(threading.local):
    plain = False


inside = _Inside()  # whether this thread runs a plain call, whose arguments are NumPy arrays already


class Endless(BaseException):
    """The plain call has exceeded its limit of steps or memory. `except Exception` does not catch it."""


class Along(Protocol):
    """The float64 run beside a plain call; see `acronumba.api.reference.Reference`."""

    def move(self, value: Value, second: Value, number: int = -1) -> None: ...
    def run(
        self,
        instance: Sequence[Value],
        flips: Collection[int] = (),
        *,
        steps: int | None = None,
        anchors: Anchors | None = None,
        number: int = -1,
    ) -> Outcome: ...


@dataclass(frozen=True, slots=True)
class PlainCall:
    """A function with its shared values and bounds, to be called for one instance at a time.

    Parameters
    ----------
    fn : function
        The user's function.
    shared
        Its keyword arguments.
    steps : int
        Limit of executed lines and calls, not counting those in libraries.
    memory_limit : int, optional
        Limit of the growth of the process, in bytes; by default half of the free memory.
    outer : Outer, optional
        Of a function that writes to given objects: all objects are as they were after a run.
    """

    fn: Callable[..., Any]
    shared: Mapping[str, Value]
    steps: int
    memory_limit: int | None = None
    outer: Outer | None = None

    @classmethod
    def of(cls, fn: Callable[..., Any], shared: Mapping[str, Value], options: Options) -> Self:
        """Return the call with the bounds of a mini-batch: its steps cover those that compiled code may run."""
        return cls(fn, shared, SOON + _LINES * options.max_steps, options.memory_limit, outer_of(fn))

    def run(self, instance: Sequence[Value]) -> Value:
        """Return the result of the function for an instance, or raise its exception.

        Raises
        ------
        Endless
            If a bound is exceeded. Debuggers and coverage tools do not see the call.
        """
        before, outer = sys.gettrace(), inside.plain
        args, shared = self.arguments(instance)
        snapshot = None if self.outer is None else Snapshot([args, shared, self.outer.values], self.outer.names)
        sys.settrace(_Meter(self.steps, self.memory_limit))
        inside.plain = True
        try:
            return self.call(args, shared)
        finally:
            sys.settrace(before)
            inside.plain = outer
            if snapshot is not None:
                snapshot.restore()

    def arguments(self, instance: Sequence[Value]) -> tuple[Sequence[Value], dict[str, Value]]:
        """Return the arguments of the function for an instance."""
        args, shared = native((tuple(instance), dict(self.shared)))
        return args, shared

    def call(self, args: Sequence[Value], shared: Mapping[str, Value]) -> Value:
        """Call the function, without bounds."""
        with np.errstate(all="ignore"):
            return self.fn(*args, **shared)

    def reference(self) -> Along:
        """Return the float64 run beside this call."""
        from acronumba.api.reference import Reference

        return Reference(self)


class _Meter:
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
        if isinstance(meter, _Meter):
            meter.step()
        yield value
