"""Functions of the module `statistics` in the compiled language, with the results of its exact rational arithmetic."""

from __future__ import annotations

import math
import statistics

import numpy as np

from acronumba.frontend.library.decorators import apart, implements, rejected
from acronumba.frontend.library.math import fsum
from acronumba.frontend.library.parsing import divide, rounded

OFFSET = 1216  # the bit of an exact sum that stands for 1
WORDS = 74  # of 32 bits: up to the largest float, and 64 bits more


@implements(statistics.fmean)
def fmean(data):
    data = list(data)
    total = fsum(data)
    if len(data) == 0:
        raise statistics.StatisticsError("fmean requires at least one data point")
    return total / len(data)


@implements(statistics.mean)
def mean(data):
    data = list(data)
    for x in data:
        if isinstance(x, np.generic):
            rejected("statistics.mean of NumPy scalars", "np.mean(x), or statistics.mean(x.tolist())")
    if len(data) == 0:
        raise statistics.StatisticsError("mean requires at least one data point")
    if all_ints(data):
        total = sum(data)
        return total // len(data) if total % len(data) == 0 else total / len(data)
    return mean_of_floats([float(x) for x in data])


@implements(statistics.median)
def median(data):
    data = sorted(data)
    n = len(data)
    if n == 0:
        raise statistics.StatisticsError("no median for empty data")
    if n % 2 == 1:
        return data[n // 2]
    return (data[n // 2 - 1] + data[n // 2]) / 2


@implements(statistics.median_low)
def median_low(data):
    data = sorted(data)
    if len(data) == 0:
        raise statistics.StatisticsError("no median for empty data")
    return data[(len(data) - 1) // 2]


@implements(statistics.median_high)
def median_high(data):
    data = sorted(data)
    if len(data) == 0:
        raise statistics.StatisticsError("no median for empty data")
    return data[len(data) // 2]


def all_ints(data):
    for x in data:
        if isinstance(x, float):
            return False
    return True


@apart
def mean_of_floats(data):
    """Return the sum of floats divided by their number, rounded once."""
    words = [0] * WORDS
    special = 0.0
    finite = True
    for x in data:
        if not math.isfinite(x):
            special += x
            finite = False
        elif x != 0.0:
            _add(words, x)
    if not finite:
        return special / len(data)
    negative = _carried(words)
    if max(words) == 0:
        return 0.0
    exact = divide(words, len(data))
    value = rounded(words, OFFSET, exact)
    return -value if negative else value


def _add(words, x):
    """Add a float to an exact sum, whose words may be too large until `_carried`."""
    lower = 600 if abs(x) < 2.0**-400 else 0
    y = x * 2.0**600 if lower > 0 else x
    shift = math.floor(math.log2(abs(y))) - 54
    whole = int(y * 2.0**-shift)
    bit = shift - lower + OFFSET
    low = (whole & 0x7FFFFFFF) << (bit % 32)
    words[bit // 32] += low & 0xFFFFFFFF
    words[bit // 32 + 1] += low >> 32
    bit += 31
    high = (whole >> 31) << (bit % 32)
    words[bit // 32] += high & 0xFFFFFFFF
    words[bit // 32 + 1] += high >> 32


def _carried(words):
    """Make all words those of the absolute value of an exact sum; return whether it is negative."""
    carry = 0
    for k in range(len(words)):
        carry += words[k]
        words[k] = carry & 0xFFFFFFFF
        carry >>= 32
    if carry >= 0:
        return False
    carry = 1
    for k in range(len(words)):
        carry += 0xFFFFFFFF - words[k]
        words[k] = carry & 0xFFFFFFFF
        carry >>= 32
    return True
