"""State machine of the requests of a server, without threads and without a clock.

In: events with their times: a request arrives or is withdrawn, time passes, a mini-batch begins or ends. Out: the
requests that run next, and the outcome of each request, exactly one. The caller holds a lock.

    admit --> QUEUED --take--> RUNNING --finish--> ENDED      at any time: withdraw, expire, close --> ENDED

A running request has one of `max_batch` slots. The requests of a mini-batch begin and end together. If a model waits
for values, requests join the running ones, but only when a quarter of the slots is free: a request that joins alone
would read the weights for itself alone.
"""

from __future__ import annotations

import heapq
import itertools
from asyncio import AbstractEventLoop
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan
from operator import index
from threading import TIMEOUT_MAX
from typing import Any, TypeAlias

from acronumba.serve.metrics import SECONDS, SIZES, Metrics, Tally

QUEUED, RUNNING, ENDED = range(3)
_SHARE = 4  # requests join a run if 1 / _SHARE of the slots is free
_LOOK = 64  # number of stale deadlines, of ended requests, from which on they are removed


class ServerClosed(RuntimeError):
    """The server takes no requests any more."""


class Overloaded(RuntimeError):
    """The queue is full: try again later, at another server, or with ``wait=True``."""


class DeadlineExceeded(TimeoutError):
    """The result was not ready in time."""


Instance: TypeAlias = tuple[Any, ...]  # arguments of a call of the model


class Request:
    """An instance, and the future of its result."""

    __slots__ = ("arrived", "deadline", "future", "instance", "loop", "number", "state")

    def __init__(self, instance: Instance, future: Any, loop: AbstractEventLoop | None = None) -> None:
        self.instance = instance
        self.future: Any = future  # of asyncio, if there is a loop; else of `concurrent.futures`
        self.loop = loop
        self.arrived: float = 0.0
        self.deadline: float | None = None
        self.number: int = 0  # in the order of arrival
        self.state: int = QUEUED


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a request ended."""

    request: Request
    result: Any
    error: BaseException | None  # instead of a result


class RequestQueue:
    """The queue of waiting requests, and the slots of running ones.

    Parameters
    ----------
    max_batch, max_queue : int
        Largest number of requests that run together, and that wait.
    max_wait : float
        Seconds that a request may wait for others to run with, while none runs and fewer than `max_batch` wait.
    """

    def __init__(self, max_batch: int, max_wait: float, max_queue: int) -> None:
        if index(max_batch) < 1 or index(max_queue) < 1 or not 0 <= max_wait <= TIMEOUT_MAX:
            raise ValueError("max_batch and max_queue must be at least 1, and max_wait finite and not negative")
        self.max_batch: int = max_batch
        self.max_wait: float = max_wait
        self.max_queue: int = max_queue
        self.closed: bool = False
        self.updates = self.epochs = self.bytes = 0
        self._queue: OrderedDict[int, Request] = OrderedDict()
        self._running: dict[int, Request] = {}
        self._deadlines: list[tuple[float, int, Request]] = []  # a heap, which may include ended requests
        self._numbers = itertools.count()
        self._ended = dict.fromkeys(("delivered", "failed", "rejected", "expired", "withdrawn", "closed"), 0)
        self._sizes, self._waited, self._computed = Tally(SIZES), Tally(SECONDS), Tally(SECONDS)
        self._rounds = Tally(SIZES)
        self._batches = 0

    def admit(self, request: Request, now: float, deadline: float | None = None, wait: bool = False) -> None:
        """Add a request to the queue; `deadline` in seconds from now. With `wait` the queue may exceed `max_queue`.

        Raises
        ------
        ServerClosed, Overloaded
        ValueError
            If the deadline is NaN.
        """
        if deadline is not None and isnan(deadline):
            raise ValueError("a deadline must be a number of seconds from now")
        request.number = next(self._numbers)
        if self.closed:
            self._count(request, "closed")
            raise ServerClosed("the server is closed")
        if self.full and not wait:
            self._count(request, "rejected")
            raise Overloaded(f"{self.max_queue} requests wait already")
        request.arrived = now
        self._queue[request.number] = request
        if deadline is not None:
            request.deadline = now + deadline
            heapq.heappush(self._deadlines, (request.deadline, request.number, request))
            if len(self._deadlines) > _LOOK + 2 * (len(self._queue) + len(self._running)):
                self._deadlines = [entry for entry in self._deadlines if entry[2].state != ENDED]
                heapq.heapify(self._deadlines)

    @property
    def full(self) -> bool:
        """Whether as many wait as may."""
        return len(self._queue) >= self.max_queue

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not self._queue and not self._running

    @property
    def running(self) -> int:
        """How many have a slot."""
        return len(self._running)

    def due(self, now: float) -> float | None:
        """Return the seconds until requests can be taken: 0 for now, None if none waits or too few slots are free."""
        if not self._queue or self.max_batch - self.running < max(1, self.max_batch // _SHARE):
            return None
        if self.running or len(self._queue) >= self.max_batch or self.closed:
            return 0.0
        first = next(iter(self._queue.values()))
        return max(0.0, first.arrived + self.max_wait - now)

    def take(self, now: float) -> list[Request]:
        """Give the free slots to the oldest requests and return these. See `expire`, too."""
        taken: list[Request] = []
        while self._queue and self.running < self.max_batch:
            _, request = self._queue.popitem(last=False)
            request.state = RUNNING
            self._running[request.number] = request
            self._waited.add(now - request.arrived)
            taken.append(request)
        return taken

    def ran(self, count: int, seconds: float, rounds: int = 1) -> None:
        """Count a mini-batch, or several rounds, with its number of requests and its seconds."""
        self._batches += rounds
        self._sizes.add(count, rounds)
        self._computed.add(seconds / rounds, rounds)

    def finish(
        self, requests: Sequence[Request], outcomes: Iterable[tuple[Any, BaseException | None]], rounds: int = 1
    ) -> list[Outcome]:
        """End the requests that have run, in `rounds` rounds; return the outcomes of those that had not yet ended."""
        out = []
        for request, (result, error) in zip(requests, outcomes, strict=True):
            if request.state == RUNNING:
                self._count(request, "delivered" if error is None else "failed")
                self._rounds.add(rounds)
                out.append(Outcome(request, result, error))
        return out

    def withdraw(self, request: Request) -> bool:
        """End a request that its caller has cancelled; return whether it had not ended."""
        if request.state == ENDED:
            return False
        self._count(request, "withdrawn")
        return True

    def expire(self, now: float) -> list[Outcome]:
        """End the requests whose deadline has passed."""
        out = []
        while self._deadlines and (self._deadlines[0][0] <= now or self._deadlines[0][2].state == ENDED):
            _, _, request = heapq.heappop(self._deadlines)
            if request.state != ENDED:
                what = "in its mini-batch" if request.state == RUNNING else "in the queue"
                self._count(request, "expired")
                error = DeadlineExceeded(f"not done after {now - request.arrived:.3f} s, {what}")
                out.append(Outcome(request, None, error))
        return out

    @property
    def next_deadline(self) -> float | None:
        """When `expire` has something to do."""
        return self._deadlines[0][0] if self._deadlines else None

    def close(self, drain: bool) -> list[Outcome]:
        """Accept no more requests. Without `drain`, waiting requests end now."""
        self.closed = True
        out = []
        for request in [] if drain else list(self._queue.values()):
            self._count(request, "closed")
            out.append(Outcome(request, None, ServerClosed("the server was closed")))
        return out

    def metrics(self) -> Metrics:
        """Return a snapshot of the metrics."""
        return Metrics(
            **self._ended, queued=len(self._queue), running=len(self._running), batches=self._batches,
            updates=self.updates, batch_sizes=self._sizes.value(), queue_seconds=self._waited.value(),
            compute_seconds=self._computed.value(), rounds=self._rounds.value(), epochs=self.epochs, bytes=self.bytes,
        )  # fmt: skip

    def _count(self, request: Request, how: str) -> None:
        assert request.state != ENDED, "a request ends once"
        request.state = ENDED
        request.instance = ()  # an ended request holds no data, even if references to it remain
        self._queue.pop(request.number, None)
        self._running.pop(request.number, None)
        self._ended[how] += 1
