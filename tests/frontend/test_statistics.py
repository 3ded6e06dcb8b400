"""`statistics.mean` and others, rounded once from exact sums, as in the plain call."""

from __future__ import annotations

import random
import statistics
from typing import Any

import numpy as np
import pytest

from acronumba import model
from acronumba.errors import AcronumbaError
from tests.support.plain_call import agree, outcomes, plain

CORNERS = [0.1, 0.2, -0.1, 1e-300, 5e-324, 1e308, 1.7e308, -1e308, 0.0, -0.0]


def hard(rand: random.Random) -> list[float]:
    """Return floats whose sum is hard to round."""
    ways = (
        lambda: rand.uniform(-1, 1), lambda: rand.choice(CORNERS), lambda: float(rand.randrange(-9, 9)),
        lambda: rand.uniform(-1, 1) * 10.0 ** rand.randrange(-320, 308), lambda: 2.0 ** rand.randrange(-1074, 1023),
        lambda: rand.randrange(-(2**53), 2**53) / 8,
    )  # fmt: skip
    return [rand.choice(ways)() for _ in range(rand.randrange(8))]


def of(xs: Any) -> Any:
    return statistics.mean(xs)


def others(xs: Any) -> Any:
    return statistics.fmean(xs), statistics.median(xs), statistics.median_low(xs), statistics.median_high(xs)


def test_means_of_random_numbers() -> None:
    rand = random.Random(3)
    floats = [hard(rand) for _ in range(600)]
    ints = [[rand.randrange(-20, 20) for _ in range(rand.randrange(7))] for _ in range(200)]
    mixed = [
        [rand.choice([rand.randrange(5), rand.uniform(0, 5)]) for _ in range(rand.randrange(7))] for _ in range(50)
    ]
    for columns in ([*floats, [float("nan"), 1.0], [float("inf"), 1.0], [float("inf"), -float("inf")]], ints, mixed):
        agree(outcomes(model(of).batch, columns), plain(of, columns))
    for columns in ([xs for xs in floats if xs], ints, mixed):
        agree(outcomes(model(others).batch, columns), plain(others, columns))


def spread(xs: Any) -> Any:
    return statistics.stdev(xs), statistics.pstdev(xs)


def variances(xs: Any) -> Any:
    return statistics.variance(xs), statistics.pvariance(xs)


def test_deviations_of_random_numbers() -> None:
    rand = random.Random(4)
    near = [
        [rand.uniform(1, 1 + 10.0 ** -rand.randrange(1, 16)) for _ in range(rand.randrange(1, 9))] for _ in range(300)
    ]
    big = [[rand.choice([-1, 1]) * rand.uniform(1e150, 1.7e308) for _ in range(3)] for _ in range(50)]
    ints = [[rand.randrange(-(10**9), 10**6) for _ in range(rand.randrange(7))] for _ in range(200)]
    floats = [[0.1, 0.1], [1.0, 2.0, 4.0], [float("nan"), 1.0], [1e-150, 3e-150], *near, *big]
    agree(outcomes(model(spread).batch, floats), plain(spread, floats))
    for columns in (floats, ints):
        agree(outcomes(model(variances).batch, columns), plain(variances, columns))
    with pytest.raises(AcronumbaError, match="ACR203"):
        model(lambda xs: statistics.stdev(xs, 1.0)).batch([[1.0, 2.0]])


def test_means_of_numpy_scalars_are_rejected() -> None:
    with pytest.raises(AcronumbaError, match="ACR202"):
        model(of).batch([np.ones(3)])
