"""Arrays of NumPy and names of Python, compared with rows that say what they were: see `runtime.watched`."""

from __future__ import annotations

from acronumba.emit.language import call_address_i64, i64, ld, ld32, st
from acronumba.runtime.watched import (
    AXES,
    DATA,
    DTYPE,
    EXTENTS,
    FLAGS,
    HEAD,
    IN_ONE_PIECE,
    OBJECT,
    OF_AXES,
    OF_DATA,
    OF_DTYPE,
    OF_FLAGS,
    OF_SHAPE,
    OF_STEPS,
    WORDS,
)


def unchanged(rows: i64, count: i64) -> i64:
    """Return 1 if all arrays lie where they lay, with the same form and flags."""
    for k in range(count):
        row = rows + 8 * WORDS * k
        array = ld(row, OBJECT) + HEAD
        if ld(array, OF_DATA) != ld(row, DATA):
            return 0
        if ld32(array, OF_FLAGS) != ld(row, FLAGS):
            return 0
        if alike(row, array) == 0:
            return 0
        axes = ld(row, AXES)
        if same(ld(array, OF_STEPS), ld(row, EXTENTS) + 8 * axes, axes) == 0:
            return 0
    return 1


def read_alike(rows: i64, objects: i64, count: i64, to: i64, step: i64) -> i64:
    """Write where other arrays lie; return 1 if all of them are in one piece and have the dtype and shape of a row."""
    for k in range(count):
        array = ld(objects, k) + HEAD
        if alike(rows + 8 * WORDS * k, array) == 0:
            return 0
        if ld32(array, OF_FLAGS) & IN_ONE_PIECE != IN_ONE_PIECE:
            return 0
        st(to + step * k, 0, ld(array, OF_DATA))
    return 1


def names_unchanged(rows: i64, items: i64, others: i64) -> i64:
    """Return 1 if lookups have the results that they had: first items of dicts, by name, then parts of functions."""
    for k in range(items):
        row = rows + 32 * k
        if call_address_i64(ld(row), ld(row, 1), ld(row, 2)) != ld(row, 3):
            return 0
    for k in range(items, items + others):
        row = rows + 32 * k
        if call_address_i64(ld(row), ld(row, 1)) != ld(row, 3):
            return 0
    return 1


def alike(row: i64, array: i64) -> i64:
    """Return 1 if an array has the dtype and shape that a row says."""
    if ld(array, OF_DTYPE) != ld(row, DTYPE):
        return 0
    if ld32(array, OF_AXES) != ld(row, AXES):
        return 0
    return same(ld(array, OF_SHAPE), ld(row, EXTENTS), ld(row, AXES))


def same(a: i64, b: i64, count: i64) -> i64:
    """Return 1 if two tables of int64 are equal."""
    for k in range(count):
        if ld(a, k) != ld(b, k):
            return 0
    return 1
