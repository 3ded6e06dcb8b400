"""`round(x, digits)`: what Python gives, to the last bit; of a number of NumPy what NumPy gives."""

from __future__ import annotations

import math
import struct
from random import Random
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, model
from acronumba.frontend.library.math import MOST_DIGITS, rounded_float, rounded_int
from tests.support.plain_call import agree, outcomes, plain

HARD = [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, 2.0**53, 2.0**52 + 0.5, 2.0**53 / 100, 2.675, 1.005, 0.5, 1.5,
        -0.5, -0.04, -5e-12, 0.125, 0.375, 1e22, 1.7e308, 1234567.5, 25.0, 35.0, -15.0]  # fmt: skip


def floats(random: Random, n: int) -> list[float]:
    """Return floats of all sizes, and what lies at and beside half a step."""
    out = list(HARD)
    for _ in range(n):
        d = random.randint(-6, 15)
        kind = random.randrange(4)
        if kind == 0:
            x = random.uniform(-1, 1) * 10.0 ** random.randint(-25, 25)
        elif kind == 1:
            (x,) = struct.unpack("d", struct.pack("Q", random.getrandbits(64)))
        elif kind == 2:
            x = (random.randint(-(10**6), 10**6) + 0.5) * 10.0**-d
        else:
            x = random.randint(-(10**6), 10**6) / 2.0 ** random.randint(0, 12)
        out.append(math.nextafter(x, random.choice([-math.inf, math.inf])) if random.random() < 0.2 else x)
    return out


def bits(x: float) -> bytes:
    return b"nan" if x != x else struct.pack("d", x)


def test_what_stands_for_it_has_the_bits_of_python() -> None:
    for x in floats(Random(1), 3000):
        for d in range(-MOST_DIGITS, MOST_DIGITS + 1):
            try:
                wanted = round(x, d)
            except OverflowError:
                continue
            assert bits(rounded_float(x, d)) == bits(wanted), (x, d)
    random = Random(2)
    for _ in range(3000):
        k, d = random.randint(-(2**63), 2**63 - 1) >> random.randint(0, 60), -random.randint(1, 18)
        assert rounded_int(k, d) == round(k, d), (k, d)


def several(x):
    return (
        round(x, 0),
        round(x, 1),
        round(x, 2),
        round(x, 3),
        round(x, 10),
        round(x, 22),
        round(x, -1),
        round(x, ndigits=4),
    )


def of_ints(k):
    return round(k, 2), round(k, -1), round(k, -2), round(k > 3, 1), round(k > 3, -1)


def of_numpy(x):
    return round(x[0], 1), round(x[1], 2), round(x.sum(), 0), round(x[0], -1)


def of_both(x):
    return round(x if x > 1 else int(x), 1)


CASES: dict[Any, list[Any]] = {
    several: floats(Random(3), 60),
    of_ints: [0, 5, 15, 25, -5, -15, 149, 150, 151, -250, -350, 10**17 + 5],
    of_numpy: [np.array([2.675, 1.005, -3.0]), np.array([25.0, 0.125, 1.0])],
    of_both: [0.5, 2.25, 1.75],
}


@pytest.mark.parametrize("fn", CASES)
def test_like_the_plain_call(fn: Any) -> None:
    wanted = plain(fn, CASES[fn])
    for run in (model(fn).batch, model(fn)._interpret):
        got = outcomes(run, CASES[fn])
        agree(got, wanted)
        if fn is several:
            assert [list(map(bits, r)) for r in got] == [list(map(bits, r)) for r in wanted]


@pytest.mark.slow
@pytest.mark.parametrize("fn", CASES)
def test_on_the_simulator(fn: Any) -> None:
    agree(outcomes(model(fn).on("simulator").batch, CASES[fn]), plain(fn, CASES[fn]))


def test_numbers_of_float32() -> None:
    xs = [np.array([2.675, 1.005, -3.0], np.float32), np.array([25.0, 0.125, 1.0], np.float32)]
    agree(outcomes(model(of_numpy).batch, xs), plain(of_numpy, xs))


@pytest.mark.parametrize(
    "fn", [lambda x, n: round(x, n), lambda x, n: round(x, 30), lambda x, n: round(np.ones(2) * x, 1)]
)
def test_rejected(fn: Any) -> None:
    with pytest.raises(AcronumbaError) as caught:
        model(fn).batch([1.5, 2.5], [1, 2])
    assert caught.value.code in ("ACR403", "ACR202", "ACR301")
