"""The server: one thread runs mini-batches, and delivers results to an asyncio loop or by a future.

In: a model and its shared values, then instances one at a time. Out: their results, or their own exceptions.
`request_queue` decides over requests; this module has the threads, the clock, and the model. Compiled code releases the
GIL, so that requests are accepted while a mini-batch runs.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic

from acronumba.api.kinds import expect_kinds
from acronumba.api.model import Model
from acronumba.api.snapshot import pack
from acronumba.errors import AcronumbaError
from acronumba.generics import R
from acronumba.serve.metrics import Metrics
from acronumba.serve.request_queue import Outcome, Request, RequestQueue, ServerClosed
from acronumba.serve.runner import Runner, Work

_SHORTEST = 1e-4  # seconds that are worth sleeping


class Server(Generic[R]):
    """A server that runs the requests of a model in mini-batches.

    Parameters
    ----------
    model : model
        The model to serve.
    max_batch : int
        Largest number of requests that run together.
    max_wait : float
        Seconds that a request may wait for others to run with. With 0 a busy server fills its mini-batches by itself,
        and a lone request does not wait.
    max_queue : int
        Largest number of waiting requests: a further one is `Overloaded`.
    clock : function
        Returns the time in seconds; replaced in tests.
    **shared
        The keyword-only parameters of the model. A snapshot is taken: later changes are not seen, but see `update`.

    Examples
    --------
    >>> async with Server(parse, p=p) as server:  # doctest: +SKIP
    ...     trees = await asyncio.gather(*map(server, sentences))
    """

    def __init__(
        self,
        model: Model[..., R] | Callable[..., R],
        *,
        max_batch: int = 64,
        max_wait: float = 0.0,
        max_queue: int = 1024,
        clock: Callable[[], float] = time.monotonic,
        **shared: Any,
    ) -> None:
        self.model: Any = model if hasattr(model, "batch") else Model(model)
        self._clock = clock
        self._queue = RequestQueue(max_batch, max_wait, max_queue)
        self._requests = Runner(self.model)
        self._shared = {name: _snapshot(value) for name, value in shared.items()}
        self._process = os.getpid()
        self._lock = threading.RLock()  # held while the request queue is used
        self._work = threading.Condition(self._lock)  # notified when a request waits
        self._room = threading.Condition(self._lock)  # notified when the queue has room
        self._times = threading.Condition(self._lock)  # ... when another deadline is the next
        self._runner = threading.Thread(target=self._run, name="acronumba-serve", daemon=True)
        self._watcher: threading.Thread | None = None  # of deadlines, from the first one on
        self._runner.start()

    async def __call__(self, *instance: Any, deadline: float | None = None, wait: bool = False) -> R:
        """Return the result of an instance.

        Parameters
        ----------
        *instance
            A value for each positional parameter of the model.
        deadline : float, optional
            Seconds from now.
        wait : bool
            Wait for room in the queue, in place of `Overloaded`.

        Raises
        ------
        Overloaded, DeadlineExceeded, ServerClosed
            Or the exception of the model for this instance. If the task is cancelled the request is withdrawn. In a
            forked child the server of the parent is closed.
        """
        self._expect_process()
        loop = asyncio.get_running_loop()
        request = Request(instance, loop.create_future(), loop)
        self._admit(request, deadline, wait)
        try:
            return await request.future  # type: ignore[no-any-return]
        except asyncio.CancelledError:
            self._withdraw(request)
            raise

    def submit(self, *instance: Any, deadline: float | None = None, wait: bool = False) -> Future[R]:
        """Return a future of the result of an instance, for threads; `wait` blocks until the queue has room.

        A future that is cancelled withdraws its request, until its mini-batch begins. What is added with
        `add_done_callback` runs in the thread of the server, and must not wait for other results of it.
        """
        self._expect_process()
        request = Request(instance, Future[R]())
        with self._lock:
            while wait and self._queue.full and not self._queue.closed:
                self._room.wait()
            self._admit(request, deadline, wait=False)
        request.future.add_done_callback(lambda future: self._withdraw(request) if future.cancelled() else None)
        return request.future  # type: ignore[no-any-return]

    def update(self, **shared: Any) -> None:
        """Replace shared values by others of the same kind, from the next mini-batch on; running requests keep theirs.

        Raises
        ------
        TypeError
            If one is of another kind, or unknown; then none is replaced.
        """
        expect_kinds(self._shared, shared, "server")
        made = {name: _snapshot(value) for name, value in shared.items()}
        with self._lock:
            self._shared = self._shared | made
            self._queue.updates += 1

    def metrics(self) -> Metrics:
        """Return a snapshot of the metrics."""
        with self._lock:
            return self._queue.metrics()

    def close(self, drain: bool = True, timeout: float | None = None) -> None:
        """Accept no more requests, and return when the last one has ended, or after `timeout` seconds.

        Parameters
        ----------
        drain : bool
            Whether waiting requests are run. If not, they end with `ServerClosed`; running ones are always delivered.
        timeout : float, optional
        """
        if self._process != os.getpid():  # the parent's threads do not exist here, and one may hold the lock
            return
        with self._lock:
            ended = self._queue.close(drain)
            self._tell_all()
        self._deliver(ended)
        if threading.current_thread() is not self._runner:
            self._runner.join(timeout)

    def __enter__(self) -> Server[R]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close(drain=kind is None)

    async def __aenter__(self) -> Server[R]:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.close, kind is None)

    def _expect_process(self) -> None:
        if self._process != os.getpid():
            raise ServerClosed("a server has no threads in a process that was forked: make another one there")

    def _admit(self, request: Request, deadline: float | None, wait: bool) -> None:
        with self._lock:
            self._queue.admit(request, self._clock(), deadline, wait)
            if deadline is not None and self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name="acronumba-deadlines", daemon=True)
                self._watcher.start()
            if deadline is not None and self._queue.next_deadline == request.deadline:
                self._times.notify()
            if self._queue.due(request.arrived) == 0:
                self._requests.ring()
            self._work.notify()

    def _withdraw(self, request: Request) -> None:
        with self._lock:
            self._queue.withdraw(request)
            self._requests.ring()
            self._room.notify()

    def _tell_all(self) -> None:
        for condition in (self._work, self._room, self._times):
            condition.notify_all()

    def _run(self) -> None:
        """Run requests until the server is closed and none waits or runs."""
        while (work := self._next()) is not None:
            self._deliver(work.late)
            for ran in self._requests.step(work):
                with self._lock:
                    self._queue.ran(ran.count, ran.seconds, ran.rounds)
                    self._queue.epochs, self._queue.bytes = ran.epochs, ran.bytes
                    ended = [o for r, answer, rounds in ran.done for o in self._queue.finish([r], [answer], rounds)]
                    self._room.notify(len(ended))
                    if self._queue.closed:
                        self._tell_all()
                self._deliver(ended)
                del ran, ended  # so that an idle server keeps no data alive
            del work

    def _next(self) -> Work | None:
        """Wait for requests, if none runs; return those that begin, or None if the server is closed and idle."""
        with self._lock:
            while True:
                late = self._queue.expire(now := self._clock())  # expired requests do not begin
                due, busy = self._queue.due(now), self._requests.busy
                if due is None and not late and not busy and self._queue.closed:
                    return None
                if due != 0 and not busy and not late:
                    self._work.wait(due)
                    continue
                requests = [r for r in self._queue.take(now) if self._begins(r)] if due == 0 else []
                self._room.notify(len(requests) + len(late))
                if requests or busy or late:
                    self._requests.hush()
                    return Work(requests, [r.instance for r in requests], self._shared, late)

    def _begins(self, request: Request) -> bool:
        """Whether a request is still to be run: a future may have been cancelled."""
        if request.loop is not None or request.future.set_running_or_notify_cancel():
            return True
        self._queue.withdraw(request)
        return False

    def _watch(self) -> None:
        """End the requests whose deadline has passed."""
        while True:
            with self._lock:
                late = self._queue.expire(now := self._clock())
                self._room.notify(len(late))
                if late:
                    self._requests.ring()
                else:
                    if self._queue.closed and self._queue.idle:
                        return
                    at = self._queue.next_deadline
                    self._times.wait(None if at is None else min(max(at - now, _SHORTEST), threading.TIMEOUT_MAX))
            self._deliver(late)

    @staticmethod
    def _deliver(ended: Sequence[Outcome]) -> None:
        """Deliver outcomes to the callers; an asyncio loop is woken once for all of its requests."""
        loops: defaultdict[asyncio.AbstractEventLoop, list[Outcome]] = defaultdict(list)
        for outcome in ended:
            if outcome.request.loop is not None:
                loops[outcome.request.loop].append(outcome)
            else:
                _settle([outcome])
        for loop, some in loops.items():
            try:
                loop.call_soon_threadsafe(_settle, some)
            except RuntimeError:  # the loop is closed
                continue


def _settle(ended: Sequence[Outcome]) -> None:
    for outcome in ended:
        future = outcome.request.future
        if future.done():
            continue
        with suppress(InvalidStateError):  # cancelled in this moment
            if outcome.error is None:
                future.set_result(outcome.result)
            else:
                future.set_exception(outcome.error)


def _snapshot(value: Any) -> Any:
    """Return a snapshot of a shared value, or a value that needs none (a number, a flag, a function) itself."""
    try:
        return pack(value)
    except AcronumbaError:  # a number, a flag, a function
        return value
