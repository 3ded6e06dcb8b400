"""Simulation of a server with a virtual clock: no model runs, and the result is the same on every machine.

In: arrival times of requests, and the time of a mini-batch by size. Out: the latency of each request, and the
mini-batches. `request_queue` decides which requests run next, as in a server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from acronumba.serve.metrics import Metrics
from acronumba.serve.request_queue import Overloaded, Request, RequestQueue


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Simulation:
    """Result of a simulation."""

    latency: NDArray[np.float64]  # float64[n]: seconds from the arrival of each request to its result; NaN if rejected
    batches: tuple[int, ...]  # sizes of the mini-batches, in order
    seconds: float  # time at which the last one is done
    metrics: Metrics

    def percentile(self, q: float) -> float:
        """Return the latency that q of 100 delivered requests do not exceed."""
        return float(np.nanpercentile(self.latency, q))


def simulate(
    arrivals: Sequence[float],
    seconds: Callable[[list[int]], float],
    *,
    max_batch: int = 64,
    max_wait: float = 0.0,
    max_queue: int = 1024,
) -> Simulation:
    """Simulate a `Server`, without running a model.

    Parameters
    ----------
    arrivals : sequence of float
        Arrival time of each request, in seconds, ascending.
    seconds : function
        From the numbers of its requests to the time of a mini-batch, in seconds.
    max_batch, max_wait, max_queue
        As of `Server`.

    Raises
    ------
    ValueError
        If arrivals do not ascend.
    """
    times = np.asarray(arrivals, np.float64)
    if not (np.diff(times) >= 0).all():
        raise ValueError("arrivals ascend")
    desk = RequestQueue(max_batch, max_wait, max_queue)
    latency = np.full(len(times), np.nan)
    sizes: list[int] = []
    now, come = 0.0, 0

    def admit() -> None:
        nonlocal come
        while come < len(times) and times[come] <= now:
            with suppress(Overloaded):  # its latency stays NaN
                desk.admit(Request((come,), None), float(times[come]))
            come += 1

    while True:
        admit()
        due = desk.due(now)
        if due is None and come == len(times):
            return Simulation(latency=latency, batches=tuple(sizes), seconds=now, metrics=desk.metrics())
        begins = now + due if due is not None else np.inf
        if due != 0 and come < len(times) and times[come] <= begins:
            now = float(times[come])
            continue
        taken = desk.take(begins)
        numbers = [request.instance[0] for request in taken]
        took = seconds(numbers)
        now = begins + took
        admit()  # while they run
        desk.ran(len(taken), took)
        desk.finish(taken, [(None, None)] * len(taken))
        latency[numbers] = now - times[numbers]
        sizes.append(len(taken))
