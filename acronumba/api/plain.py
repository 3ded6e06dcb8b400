"""The plain call of one instance, within limits of steps and memory.

In: the user's function and its arguments. Out: its result, or its exception. A plain call is run to reproduce a failure
with the user's own traceback, and to check a result. It may not terminate although the mini-batch does: compiled code
counts its steps, and runs independent parts of an instance side by side, so that one part may have failed before
another loops for ever. So a plain call that is run for a message has bounds on its steps and its memory.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from acronumba.api.meter import Meter
from acronumba.api.structures import native
from acronumba.config import Options
from acronumba.foreign import BY_SOURCE
from acronumba.generics import Value
from acronumba.pipeline.given_objects import Outer, Snapshot, outer_of

if TYPE_CHECKING:
    from types import FrameType

    from acronumba.api.reference import Outcome
    from acronumba.api.shadow import Anchors

SOON = 100_000  # steps after which another report of a failure is tried first; about 20 ms
_LINES = 16  # of Python, for each step of the machine, which counts blocks of straight-line code


class TraceFunction(Protocol):
    """As `sys.settrace` takes it."""

    def __call__(self, frame: FrameType, event: str, arg: object) -> TraceFunction | None: ...


class _Inside(threading.local):
    plain = False


inside = _Inside()  # whether this thread runs a plain call, whose arguments are NumPy arrays already


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
        kind: Value = SourceCall if cls is PlainCall and fn in BY_SOURCE else cls
        return kind(  # type: ignore[no-any-return]
            fn, shared, SOON + _LINES * options.max_steps, options.memory_limit, outer_of(fn)
        )

    def run(self, instance: Sequence[Value], trace: TraceFunction | None = None) -> Value:
        """Return the result of the function for an instance, or raise its exception.

        Parameters
        ----------
        instance
            Its positional arguments.
        trace : callable, optional
            A trace function (`sys.settrace`), in place of the one that counts steps and memory.

        Raises
        ------
        Endless
            If a bound is exceeded. Debuggers and coverage tools do not see the call.
        """
        before, outer = sys.gettrace(), inside.plain
        args, shared = self.arguments(instance)
        snapshot = None if self.outer is None else Snapshot([shared, self.outer.values], self.outer.names, args)
        sys.settrace(trace or Meter(self.steps, self.memory_limit))
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


@dataclass(frozen=True, slots=True)
class SourceCall(PlainCall):
    """The plain call of a function that calls functions of Numba, whose Python source runs in place of their code."""

    _made: list[Along] = field(default_factory=list)

    def run(self, instance: Sequence[Value], trace: TraceFunction | None = None) -> Value:
        """Return the result for an instance, without second values, or raise the exception of the source."""
        from acronumba.api.shadow import narrow

        if not self._made:
            self._made.append(self.reference())
        found = self._made[0].run(instance)
        if found.error is not None:
            raise found.error
        return narrow(found.result)

    def reference(self) -> Along:
        """Return the float64 run beside this call."""
        call = PlainCall(self.fn, self.shared, self.steps, self.memory_limit, self.outer)
        return call.reference()
