"""Metrics of a server, and their export.

In: the events of requests. Out: `Metrics`, a snapshot; or a collector for `prometheus_client`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

SIZES = tuple(float(1 << k) for k in range(13))  # upper bounds of sizes of mini-batches
SECONDS = tuple(m * 10.0**e for e in range(-5, 2) for m in (1.0, 2.0, 5.0))  # ... of durations


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many values lie below which bounds."""

    bounds: tuple[float, ...]  # upper ones, included; ascending
    counts: tuple[int, ...]  # one more than bounds: the last is of values above all bounds
    sum: float  # of all values

    @property
    def count(self) -> int:
        """Number of values."""
        return sum(self.counts)

    @property
    def mean(self) -> float:
        """Mean of the values; 0 if there are none."""
        return self.sum / self.count if self.count else 0.0


class Tally:
    """A histogram that grows."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float, times: int = 1) -> None:
        """Count a value, so many times."""
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += times * value

    def value(self) -> Histogram:
        """Return a snapshot."""
        return Histogram(self._bounds, tuple(self._counts), self._sum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Counts of a server. Each request is in exactly one of the first eight."""

    delivered: int  # with a result
    failed: int  # with their own exception
    rejected: int  # with `Overloaded`
    expired: int  # with `DeadlineExceeded`
    withdrawn: int  # cancelled by the caller
    closed: int  # with `ServerClosed`
    queued: int  # waiting
    running: int  # that have a slot: in the mini-batch which runs, or in a round
    batches: int  # mini-batches that have run; of a model that waits for values, rounds
    updates: int  # of shared values
    epochs: int  # runs that requests have joined, of a model that waits for values
    bytes: int  # of tensors that these hold
    batch_sizes: Histogram
    queue_seconds: Histogram  # from the request to its slot
    compute_seconds: Histogram  # of mini-batches, or rounds
    rounds: Histogram  # of each request that was delivered or failed

    @property
    def requests(self) -> int:
        """Number of requests that have arrived."""
        return sum(getattr(self, f.name) for f in fields(self)[:8])


def prometheus(read: Callable[[], Metrics], name: str = "acronumba") -> Any:
    """Return a collector for `prometheus_client.REGISTRY.register`.

    Parameters
    ----------
    read : function
        The method `metrics` of a server.
    name : str
        Prefix of the names of the metrics.
    """
    from prometheus_client import core

    class Collector:
        def collect(self) -> Iterator[Any]:
            now = read()
            ended = core.CounterMetricFamily(f"{name}_requests", "Requests that ended, by how.", labels=["ended"])
            for how in ("delivered", "failed", "rejected", "expired", "withdrawn", "closed"):
                ended.add_metric([how], getattr(now, how))
            yield ended
            for what in ("queued", "running"):
                yield core.GaugeMetricFamily(f"{name}_{what}", f"Requests that are {what}.", value=getattr(now, what))
            yield core.GaugeMetricFamily(f"{name}_bytes", "Bytes of tensors that runs hold.", value=now.bytes)
            for what in ("batches", "updates", "epochs"):
                yield core.CounterMetricFamily(f"{name}_{what}", f"How many {what}.", value=getattr(now, what))
            for what in ("batch_sizes", "queue_seconds", "compute_seconds", "rounds"):
                yield _family(core, f"{name}_{what}", getattr(now, what))

    return Collector()


def _family(core: Any, name: str, histogram: Histogram) -> Any:
    total, buckets = 0, []
    for bound, count in zip((*map(str, histogram.bounds), "+Inf"), histogram.counts, strict=True):
        total += count
        buckets.append((bound, total))
    return core.HistogramMetricFamily(name, name.replace("_", " "), buckets=buckets, sum_value=histogram.sum)
