"""State of a mini-batch run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from acronumba.memory import Array, Words
from acronumba.records import record
from acronumba.runtime.buffers import Arena, Buffers
from acronumba.runtime.recorded import Failure, Round
from acronumba.runtime.shared import Prepared


@record(kw_only=True, eq=False)
class Nodes:
    """The nodes of a round, in the order of recording."""

    kind: NDArray[np.int32]  # kernels
    instance: NDArray[np.int32]
    row: Words  # addresses of their rows


@record(kw_only=True, eq=False, frozen=False)
class MiniBatch:
    """State of one mini-batch run, shared by its stages."""

    buffers: Buffers
    prepared: Prepared  # the shared values
    roots: Words  # int64[batch, words]: of the instances that run
    keep: Sequence[Array]  # arrays that the roots refer to
    arenas: list[Arena]  # for results; the last one is in use
    works: list[Arena]  # at most one: memory that is reused within the run
    stable: bool  # whether the shared arrays do not change any more
    timed: bool  # whether stages are measured one by one
    last: int  # stage, a number in `STAGES`
    by_caller: bool  # whether the schedule is a function of the user
    noting: bool  # whether values that are read are noted
    recorded_reads: Words | None  # values that another run has noted: reads take these
    keeps_nodes: bool = False  # whether the nodes of each round are noted
    doubles: bool = False  # whether nodes that are equal to others are recorded and compared, see `runtime.doubles`
    epoch: bool = False  # whether instances join while it runs: `roots` has room for them
    nodes: list[Nodes] = field(default_factory=list)  # of each round, if they are
    failures: dict[int, Failure] = field(default_factory=dict)  # that Python has found, by number of the instance
    rounds: list[Round] = field(default_factory=list)  # noted for a trace, if it is timed
    seconds: dict[str, float] = field(default_factory=dict)  # of stages, if it is timed
    taken: list[float] = field(default_factory=list)  # seconds of each batch, if it is timed
    noted: float = 0.0  # seconds in which rounds were noted

    @property
    def watched(self) -> bool:
        """Whether Python code runs in each round."""
        return self.by_caller or self.keeps_nodes or self.doubles
