"""Where the backward pass of a mini-batch runs: here, or on a device.

In: batches, and sums over nodes, that `runtime.backward` has found. Out: they have run. On a device, what is computed
is fetched when the processor has to read it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from acronumba.emit import target
from acronumba.emit.compile import Compiled
from acronumba.emit.target import Target
from acronumba.ir.spec import FIXED
from acronumba.kernels import sums
from acronumba.memory import address
from acronumba.records import record
from acronumba.runtime.batches import Batches
from acronumba.runtime.engines import Native
from acronumba.runtime.run import Run
from acronumba.runtime.state import TABLE
from acronumba.runtime.summing import WORDS, Job, parameters

Pieces: TypeAlias = "tuple[Sequence[int], Sequence[int]]"


@record(kw_only=True, eq=False)
class BackwardMemory:
    """What the kernels of a backward pass read and write, beside what those of the forward pass have left."""

    run: Run  # the forward pass
    read: Sequence[NDArray[Any]]  # shared tensors, packed or not, and adjoints of results
    zeros: NDArray[Any]
    start: int  # of what is computed,
    size: int  # ... and its bytes


class Backend(Protocol):
    """Where backward passes run."""

    @property
    def on(self) -> Target:
        """What sums are cut into tasks for."""

    def turn(self) -> AbstractContextManager[object]:
        """Be here for one backward pass, from its first batch to its last."""

    def adder(self, dtype: str) -> tuple[int, tuple[int, ...]]:
        """Return the address of what adds up adjoints of a dtype, and what its table P ends with."""

    def execute(self, of: BackwardMemory, batches: Batches, count: int, scratch: int) -> None:
        """Run so many batches, which need so many bytes of scratch."""

    def fetch(self, wanted: Callable[[], Pieces]) -> None:
        """Bring what was computed there: addresses, and how many bytes each has, if it is not here."""

    def fetch_all(self) -> None:
        """Bring all that was computed, on the forward pass, too."""

    def add_up(self, jobs: Sequence[Job], batches: Batches) -> None:
        """Do the jobs, those of one array in their order, and bring the arrays; `batches`: a table that nobody uses."""


class CpuBackend:
    """The processor."""

    def __init__(self, engine: Native, code: Mapping[str, Compiled], threads: int) -> None:
        self.engine, self.code, self.threads = engine, code, threads
        self.on = target.host()

    def turn(self) -> nullcontext[None]:
        return nullcontext()

    def adder(self, dtype: str) -> tuple[int, tuple[int, ...]]:
        return self.code[dtype].address["adjoints"], ()

    def execute(self, of: BackwardMemory, batches: Batches, count: int, scratch: int) -> None:
        batches.execute(self.engine, count, scratch, self.threads)

    def fetch(self, wanted: Callable[[], Pieces]) -> None: ...
    def fetch_all(self) -> None: ...

    def add_up(self, jobs: Sequence[Job], batches: Batches) -> None:
        count, st, params = len(jobs), batches, parameters(jobs)
        if len(st.table) < count:
            st.kernels(count + count // 2)
        st.room(count, 0)
        st.table[:count, TABLE["run"]] = [self.code[job.dtype].address[job.function] for job in jobs]
        st.table[:count, TABLE["params"]] = address(params) + 8 * (FIXED + WORDS) * np.arange(count)
        st.table[:count, TABLE["cost"]] = [max(job.cost, 1) for job in jobs]
        st.keep["bstart"][0] = 0
        np.cumsum([job.tasks for job in jobs], out=st.keep["bstart"][1 : count + 1])
        st.keep["bkey"][:count] = np.arange(count)
        keys = st.keep["keytab"][: 2 * count].reshape(-1, 2)
        keys[:, 0], keys[:, 1] = np.arange(count), 0
        st.execute(self.engine, count, sums.outer_scratch(self.on), self.threads)
