"""How a server would fare, on a clock of its own: nothing runs, and the answer is the same on every machine.

In: when requests come, and how long a mini-batch takes. Out: how long each request takes, and which mini-batches there
are. Who runs next is decided by `desk`, as in a server.
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
    """What became of simulated requests."""

    latency: NDArray[np.float64]  # float64[n]: seconds from the arrival of each request to its result; NaN if rejected
    batches: tuple[int, ...]  # sizes of the mini-batches, in order
    seconds: float  # when the last one is done
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
    """Return how a `Server` would fare, without running it.

    Parameters
    ----------
    arrivals : sequence of float
        When each request comes, in seconds, ascending.
    seconds : function
        How long a mini-batch takes, from the numbers of its requests.
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
