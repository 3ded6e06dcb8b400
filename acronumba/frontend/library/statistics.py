"""Functions of the module `statistics` in the compiled language, with the results of its exact rational arithmetic."""

from __future__ import annotations

import math
import statistics

import numpy as np

from acronumba.frontend.library.decorators import apart, implements, rejected
from acronumba.frontend.library.math import fsum
from acronumba.frontend.library.parsing import divide, multiply, rounded

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


@implements(statistics.variance)
def variance(data):
    return _variance(data, 1, "variance requires at least two data points")


@implements(statistics.pvariance)
def pvariance(data):
    return _variance(data, 0, "pvariance requires at least one data point")


@implements(statistics.stdev)
def stdev(data):
    return _deviation(data, 1, "stdev requires at least two data points")


@implements(statistics.pstdev)
def pstdev(data):
    return _deviation(data, 0, "pstdev requires at least one data point")


def _variance(data, less, message):
    data = _checked(data, less, message)
    special, words = squares_of([float(x) for x in data])
    if special != 0.0:
        return special / (len(data) - less)
    value, whole = quotient_of(words, len(data), len(data) - less)
    if math.isinf(value):
        raise OverflowError("integer division result too large for a float")
    if all_ints(data) and len(whole) > 0:
        for word in whole[2:]:
            if word != 0:
                raise ValueError("a variance of more than 63 bits")
        return (whole[1] << 32) + whole[0]
    return value


def _deviation(data, less, message):
    data = _checked(data, less, message)
    special, words = squares_of([float(x) for x in data])
    if special != 0.0:
        raise AttributeError("'float' object has no attribute 'numerator'")
    value = root_of(words, len(data), len(data) - less)
    if math.isinf(value):
        raise OverflowError("integer division result too large for a float")
    if 0.0 < value < 2.0**-1020:
        raise ValueError("a standard deviation that is no normal float")
    return value


def _checked(data, less, message):
    data = list(data)
    for x in data:
        if isinstance(x, np.generic):
            rejected("this function of NumPy scalars", "np.var(x), np.std(x), or x.tolist()")
        if not isinstance(x, float) and abs(x) > 2**53:
            raise ValueError("statistics of ints of more than 53 bits")
    if len(data) <= less:
        raise statistics.StatisticsError(message)
    return data


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
    whole, bit = _parts(x)
    _add_at(words, whole, bit)


def _parts(x):
    """Return an int and the bit of an exact sum that it begins at, for a float that is not zero."""
    lower = 600 if abs(x) < 2.0**-400 else 0
    y = x * 2.0**600 if lower > 0 else x
    shift = math.floor(math.log2(abs(y))) - 54
    return int(y * 2.0**-shift), shift - lower + OFFSET


def _add_at(words, whole, bit):
    """Add an int of less than 62 bits."""
    low = (whole & 0x7FFFFFFF) << (bit % 32)
    words[bit // 32] += low & 0xFFFFFFFF
    words[bit // 32 + 1] += low >> 32
    bit += 31
    high = (whole >> 31) << (bit % 32)
    words[bit // 32] += high & 0xFFFFFFFF
    words[bit // 32 + 1] += high >> 32


def _add_square(words, whole, bit):
    """Add the square of an int of at most 56 bits, which is not negative."""
    low, high = whole & 0xFFFFFFF, whole >> 28
    _add_at(words, low * low, bit)
    _add_at(words, 2 * low * high, bit + 28)
    _add_at(words, high * high, bit + 56)


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


@apart
def squares_of(data):
    """Return the sum of the special ones of n floats; n times the sum of squares of others, less their sum squared."""
    sums, squares = [0] * WORDS, [0] * (2 * WORDS + 2)
    special = 0.0
    for x in data:
        if not math.isfinite(x):
            special += x
        elif x != 0.0:
            whole, bit = _parts(x)
            _add_at(sums, whole, bit)
            _add_square(squares, abs(whole), 2 * bit)
    _carried(sums)
    _carried(squares)
    multiply(squares, len(data), 0)
    for i in range(WORDS):
        for j in range(WORDS if sums[i] != 0 else 0):
            if sums[j] != 0:
                low = sums[i] * (sums[j] & 0xFFFF)
                high = sums[i] * (sums[j] >> 16)
                squares[i + j] -= (low & 0xFFFFFFFF) + ((high & 0xFFFF) << 16)
                squares[i + j + 1] -= (low >> 32) + (high >> 16)
    _carried(squares)
    return special, squares


@apart
def quotient_of(words, n, m):
    """Return a number of `squares_of` divided by two ints, rounded once, and its words if it is whole."""
    words = list(words)
    point = 2 * OFFSET // 32
    if max(words) == 0:
        return 0.0, words[point:]
    exact = divide(words, n)
    exact = divide(words, m) and exact
    whole = exact and max(words[:point]) == 0
    return rounded(words, 2 * OFFSET, exact), words[point:] if whole else []


@apart
def root_of(words, n, m):
    """Return the square root of a number of `squares_of` divided by two ints, rounded once if it is a normal float."""
    if max(words) == 0:
        return 0.0
    found = list(words)
    exact = divide(found, n)
    exact = divide(found, m) and exact
    top = len(found) - 1
    while found[top] == 0:
        top -= 1
    size = 32 * top + found[top].bit_length()
    half = (size - 1 - 2 * OFFSET) // 2
    root = min(int(math.sqrt(rounded(found, 2 * OFFSET + 2 * half, exact)) * 2.0**52), 2**53 - 1)
    bit = 2 * half - 106 + 2 * OFFSET
    side = _side(words, 2 * root + 1, bit, n, m)
    while side < 0 or (side == 0 and root % 2 == 1):
        root += 1
        side = _side(words, 2 * root + 1, bit, n, m)
    side = _side(words, 2 * root - 1, bit, n, m)
    while side > 0 or (side == 0 and root % 2 == 1):
        root -= 1
        side = _side(words, 2 * root - 1, bit, n, m)
    return root * 2.0**-52 * 2.0 ** (half // 2) * 2.0 ** (half - half // 2)


def _side(words, middle, bit, n, m):
    """Return the sign of the square of an int times two others, less a number."""
    found = [0] * (len(words) + 4)
    _add_square(found, middle, bit)
    _carried(found)
    multiply(found, n, 0)
    multiply(found, m, 0)
    for k in range(len(found) - 1, -1, -1):
        other = words[k] if k < len(words) else 0
        if found[k] != other:
            return 1 if found[k] > other else -1
    return 0
