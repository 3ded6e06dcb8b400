"""How words are made of parts, for all who ask: compiled code, what generates it, and Python.

What comes in are numbers, arrays of them, or expressions of the small language; what goes out is the same. A file of
the library may call such a function: its result stands in place of the call.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from acronumba.data.words import RECORD
from acronumba.emit.tree import Expr

_W = TypeVar("_W", int, NDArray[np.int64], Expr)

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
    """Return the node of a value, from the head of its record; negative: it was given."""
    return high_half(head)


# The row of a node: arguments, run-time extents, value records of the results.


def results_at(args: _W, dims: _W) -> _W:
    """Return where in the row of a node the records of its results begin, in bytes."""
    return 8 * (args + dims)


def result_of(row: _W, results: _W, j: _W) -> _W:
    """Return the address of the record of result j, in a row of which `results_at` is known."""
    return row + results + RECORD.size * j


# A word of the column `place`: the component of the node's key, its depth in it, its group.


def place_of(component: _W, depth: _W, group: _W) -> _W:
    """Return the word."""
    return (component << 48) | (depth << 16) | group


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
