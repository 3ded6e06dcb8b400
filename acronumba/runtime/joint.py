"""The graph of all rounds of a mini-batch.

In: a run of a program that waits, with the nodes of each round. Out: buffers in which these nodes are recorded and
scheduled as if the program had not waited. The backward pass never waits: all decisions have been taken.
"""

from __future__ import annotations

import numpy as np

from acronumba.emit.compile import Compiled
from acronumba.runtime import state
from acronumba.runtime.buffers import Buffers
from acronumba.runtime.driver import Executable
from acronumba.runtime.run import Run


def joint(of: Executable, run: Run, library: Compiled) -> Buffers:
    """Return the graph of all rounds; `library` has `join`, which numbers its nodes."""
    buffers = of.take_buffers()
    rounds = run.nodes_of_rounds
    n = sum(len(r.kind) for r in rounds)
    if buffers["ncap"] < n:
        buffers.grow_nodes(n + n // 4, 0)
    for name in ("kind", "instance", "row"):
        np.concatenate([getattr(r, name) for r in rounds], out=buffers.columns[name][:n])
    buffers["n"] = n
    library.call("join", buffers.address)
    buffers["stage"], buffers["stop"], buffers["batches"], buffers["edges"] = state.TO_SCHEDULE, state.TO_LAYOUT, 0, 0
    while (status := of.engine.drive(buffers.address)) != state.DONE:
        buffers.grow_tables(status)
    return buffers
