"""Validation of the batch numbers that a user-defined schedule returns.

In: a batch number for each node. Out: `ScheduleError`, or nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from acronumba.errors.codes import reject
from acronumba.memory import Array, native

# What a schedule is written to.
COLUMNS = ("level", "order", "args", "bstart", "bkey", "blevel")


def check_levels(levels: Array, keys: NDArray[np.int32], first: NDArray[np.int32], source: NDArray[np.int32]) -> None:
    """Raise `ScheduleError` unless each batch has one key and every operand is in an earlier batch than its readers.

    Parameters
    ----------
    levels
        The return value of a user's function: the number of each node's batch.
    keys
        int32[n].
    first, source
        int32[n + 1], int32[m]: the operands of node v are `source[first[v]:first[v + 1]]`.
    """
    if not len(keys) and not levels.size:
        return
    if levels.dtype.kind not in "iu" or levels.shape != keys.shape:
        returned = f"{levels.dtype}[{', '.join(map(str, levels.shape))}]"
        raise reject("ACR711", message=f"a schedule must return int32[{len(keys)}], one batch per node", seen=returned)
    if levels.min() < 0 or levels.max() >= len(levels):
        seen = f"numbers from {levels.min()} to {levels.max()} for {len(levels)} nodes"
        raise reject("ACR711", message="batch numbers must be at least 0 and less than the number of nodes", seen=seen)
    order = np.argsort(levels, kind="stable")
    same = levels[order[1:]] == levels[order[:-1]]
    wrong = np.flatnonzero(same & (keys[order[1:]] != keys[order[:-1]]))
    if len(wrong):
        a, b = int(order[wrong[0]]), int(order[wrong[0] + 1])
        seen = f"nodes {a} and {b} in batch {levels[a]}"
        raise reject("ACR711", message="a batch has nodes of different signatures", seen=seen)
    to = np.repeat(np.arange(len(levels)), native(np.diff(first)))
    wrong = np.flatnonzero(levels[source] >= levels[to])
    if len(wrong):
        u, v = int(source[wrong[0]]), int(to[wrong[0]])
        seen = f"node {v} in batch {levels[v]} reads node {u}, which is in batch {levels[u]}"
        raise reject("ACR711", message="a batch reads a value that no earlier batch computes", seen=seen)
