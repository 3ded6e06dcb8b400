"""Look-up of arrays of instances with requested adjoints, by address of their data and instance.

An array that several instances hold is stored once, but has an adjoint for each. An array of a shared object has one
adjoint for all: its instance is -1.
"""

from __future__ import annotations

from acronumba.emit.language import i64, ld
from acronumba.runtime.library.back_words import OWN_BYTES, OWN_DATA, OWN_INSTANCE


def number_of_own(own: i64, count: i64, data: i64, instance: i64) -> i64:
    """Return the number of an array, a row of OWN; -1 if its adjoint is not requested."""
    k = row_of_own(own, count, data, instance)
    if k >= 0:
        return k
    return row_of_own(own, count, data, -1)


def row_of_own(own: i64, count: i64, data: i64, instance: i64) -> i64:
    """Return the row of OWN with these two words; -1 if no row has them."""
    low = 0
    high = count
    while low < high:
        middle = (low + high) // 2
        row = own + OWN_BYTES * middle
        there = ld(row, OWN_DATA)
        before = 0
        if there < data:
            before = 1
        if there == data:
            if ld(row, OWN_INSTANCE) < instance:
                before = 1
        if before != 0:
            low = middle + 1
        else:
            high = middle
    row = own + OWN_BYTES * low
    if low == count:
        return -1
    if ld(row, OWN_DATA) != data:
        return -1
    if ld(row, OWN_INSTANCE) != instance:
        return -1
    return low
