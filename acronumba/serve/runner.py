"""Execution of requests: in mini-batches or, if a model waits for values, in rounds that requests join.

In: requests with a slot, and their shared values. Out, step by step: the requests that have run, with results or
exceptions. A failure is that of one request alone. A runner is used by one thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from acronumba.api.joining import Flow, Gone, Member
from acronumba.api.model import Model
from acronumba.errors import InstanceErrors
from acronumba.serve.request_queue import ENDED, Instance, Outcome, Request

Answer = tuple[Any, BaseException | None]  # a result, or None and an exception


@dataclass(frozen=True, slots=True)
class Work:
    """Requests to begin."""

    requests: list[Request]
    instances: list[Instance]  # read while the queue was locked: ended requests hold none
    shared: dict[str, Any]
    late: Sequence[Outcome] = ()  # requests that expired before they began


@dataclass(frozen=True, slots=True)
class Step:
    """A mini-batch, or rounds of the same requests."""

    count: int  # number of requests that took part
    seconds: float
    done: list[tuple[Request, Answer, int]]  # finished requests, each with its answer and number of rounds
    rounds: int = 1
    epochs: int = 0  # number of epochs begun so far
    bytes: int = 0  # bytes of tensors in the runs


class Runner:
    """Runs requests.

    Parameters
    ----------
    model
        A `Model`, or anything with its method `batch`.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._flow: Flow | None = Flow(model) if isinstance(model, Model) else None
        self._there: dict[Member, Request] = {}  # requests that take part in rounds

    @property
    def busy(self) -> bool:
        """Whether requests are running."""
        return bool(self._there)

    def ring(self) -> None:
        """Make `step` return after the current round; may be called from any thread."""
        if self._flow is not None:
            self._flow.bell[0] = 1

    def hush(self) -> None:
        """Make `step` run rounds until a request is done, or `ring` is called."""
        if self._flow is not None:
            self._flow.bell[0] = 0

    def step(self, work: Work) -> Iterator[Step]:
        """Start requests, and run one mini-batch, or one or several rounds: see `hush`."""
        self._drop()
        begin = time.perf_counter()
        joined = self._join(work)
        alone = [k for k, member in enumerate(joined) if member is None]
        if alone:
            answers = self._answers([work.instances[k] for k in alone], work.shared)
            done = [(work.requests[k], answer, 1) for k, answer in zip(alone, answers, strict=True)]
            yield self._ran(len(alone), begin, done)
        self._there.update((m, r) for m, r in zip(joined, work.requests, strict=True) if m is not None)
        if self._there:
            yield self._round()

    def _join(self, work: Work) -> Sequence[Member | None]:
        if work.requests and self._flow is not None and self._flow.waits(work.instances, work.shared):
            return self._flow.join(work.instances, work.shared)
        return [None] * len(work.requests)

    def _drop(self) -> None:
        """Free the slots of requests that were withdrawn or are expired."""
        for member in [m for m, request in self._there.items() if request.state == ENDED]:
            assert self._flow is not None
            del self._there[member]
            self._flow.withdraw(member)

    def _round(self) -> Step:
        assert self._flow is not None
        begin, count, before = time.perf_counter(), len(self._there), self._flow.rounds
        gone = self._flow.round()
        rounds = max(1, self._flow.rounds - before)
        done = []
        for one, answer in zip(gone, self._told(gone), strict=True):
            done.append((self._there.pop(one.member), answer, one.member.rounds))
        return self._ran(count, begin, done, rounds)

    def _ran(self, count: int, begin: float, done: list[tuple[Request, Answer, int]], rounds: int = 1) -> Step:
        epochs, size = (self._flow.epochs, self._flow.bytes) if self._flow is not None else (0, 0)
        return Step(count, time.perf_counter() - begin, done, rounds, epochs, size)

    def _told(self, gone: Sequence[Gone]) -> list[Answer]:
        """Return the answers of instances that left a run; those of a broken run are run again."""
        if gone and gone[0].broken:
            calls = [one.member.call for one in gone]
            return self._answers([tuple(column[0] for column in call.columns) for call in calls], calls[0].shared)
        return [(one.result, _raisable(one.error)) for one in gone]

    def _answers(self, instances: Sequence[Instance], shared: Mapping[str, Any]) -> list[Answer]:
        """Return result and exception of each instance of a mini-batch."""
        try:
            return [(r, None) for r in self._model.batch(*map(list, zip(*instances, strict=True)), **shared)]
        except InstanceErrors as failed:
            return [(r, _raisable(failed.errors.get(k))) for k, r in enumerate(failed.results)]
        except BaseException as error:
            if len(instances) == 1:
                return [(None, _raisable(error))]
            return [found for x in instances for found in self._answers([x], shared)]


def _raisable(error: BaseException | None) -> BaseException | None:
    """Return an exception that is safe to set on a future: others than `Exception` are wrapped."""
    if error is None or (isinstance(error, Exception) and not isinstance(error, StopIteration)):
        return error
    made = RuntimeError(f"{type(error).__name__}: {error}")
    made.__cause__ = error
    return made
