"""Packing of parts into words and back, for compiled code, its generators, and Python.

In: numbers, arrays of them, or expressions of the small language. Out: the same kind. A file of the library may call
these functions as macros: the returned expression replaces the call.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from acronumba.data.words import RECORD
from acronumba.emit.tree import Expr
from acronumba.runtime.state import MEMO_BYTES, MEMO_ENTRIES

_W = TypeVar("_W", int, NDArray[np.int64], Expr)
_X = TypeVar("_X", int, Expr)

# The low half of a word is unsigned.


def low_half(word: _W) -> _W:
    """Return the lower 32 bits."""
    return word & 4294967295


def halves(high: _W, low: _W) -> _W:
    """Return the word of two halves."""
    return (high << 32) | low


def high_half(word: _W) -> _W:
    """Return the upper 32 bits."""
    return word >> 32


def node_of(head: _W) -> _W:
    """Return the node that computes a value, from the head of its record; negative: the value was given."""
    return high_half(head)


# The row of a node: arguments, run-time extents, value records of the results.


def results_at(args: _W, dims: _W) -> _W:
    """Return the offset in bytes of the records of results in the row of a node."""
    return 8 * (args + dims)


def result_of(row: _W, results: _W, j: _W) -> _W:
    """Return the address of the record of result j, in a row with the given `results_at`."""
    return row + results + RECORD.size * j


# Entries of the memo of `equal`.


def memo_of(memo: _X, word: _X, kernel: _X | int) -> _X:
    """Return the address of the entry that the node of a kernel with one word has in the memo, if it is there."""
    return memo + MEMO_BYTES * ((word + (word >> 40) + kernel * 1365) & (MEMO_ENTRIES - 1))


# A word of the column `place`: the component of the node's key, its depth in it, its group.


def place_of(component: _W, depth: _W, group: _W) -> _W:
    """Return the word made of component, depth and group."""
    return (component << 48) | (depth << 16) | group


def outside(groups: _W) -> _W:
    """Return the place of inputs, which are no nodes: a separate group, and not deep enough to count."""
    return groups - 65536


def component_of(place: _W) -> _W:
    """Return the component."""
    return place >> 48


def depth_of(place: _W) -> _W:
    """Return the depth in the component."""
    return low_half(place >> 16)


def group_of(place: _W) -> _W:
    """Return the group."""
    return place & 65535


def deeper(place: _W) -> _W:
    """Return the least place, of group 0, that is one deeper."""
    return (place | 65535) + 1
