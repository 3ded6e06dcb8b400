"""Servers that are simulated: what becomes of requests at which time."""

from __future__ import annotations

import numpy as np
import pytest

from acronumba.serve import simulate


def test_a_lone_request_takes_as_long_as_its_batch_and_as_it_waits_for_others() -> None:
    done = simulate([1.0, 5.0], lambda numbers: 0.25)
    assert done.latency.tolist() == [0.25, 0.25] and done.batches == (1, 1) and done.seconds == 5.25
    assert simulate([1.0], lambda numbers: 0.25, max_wait=0.5).latency.tolist() == [0.75]


def test_what_comes_while_a_batch_runs_is_the_next_one() -> None:
    taken = []
    done = simulate([0.0, 0.5, 0.75, 1.0], lambda numbers: taken.append(numbers) or 1.0, max_batch=3)
    assert taken == [[0], [1, 2, 3]] and done.batches == (1, 3)
    assert done.latency.tolist() == [1.0, 1.5, 1.25, 1.0]


def test_a_full_batch_does_not_wait() -> None:
    done = simulate([0.0, 0.25, 2.0], lambda numbers: 0.125, max_batch=2, max_wait=1.0)
    assert done.batches == (2, 1) and done.latency.tolist() == [0.375, 0.125, 1.125]


def test_a_queue_that_is_full_rejects() -> None:
    done = simulate([0.0] + [0.5] * 4, lambda numbers: 1.0, max_batch=1, max_queue=2)
    assert np.isnan(done.latency).tolist() == [False, False, False, True, True]
    assert done.metrics.rejected == 2 and done.metrics.delivered == 3
    assert done.percentile(100) == 2.5


def test_nothing_comes() -> None:
    assert simulate([], lambda numbers: 1.0).batches == ()
    with pytest.raises(ValueError, match="ascend"):
        simulate([1.0, 0.0], lambda numbers: 1.0)


@pytest.mark.parametrize("max_wait", [0.0, 0.1, 1e-3])
def test_every_request_is_served_once_whatever_the_load(max_wait: float) -> None:
    rng = np.random.default_rng(0)
    arrivals = np.cumsum(rng.exponential(0.01, 500))
    served: list[int] = []

    def seconds(numbers: list[int]) -> float:
        served.extend(numbers)
        return 0.02 + 0.001 * len(numbers)

    done = simulate(arrivals.tolist(), seconds, max_batch=8, max_wait=max_wait)
    assert served == list(range(500)) and sum(done.batches) == 500 and max(done.batches) <= 8
    assert (done.latency > 0.02).all()
