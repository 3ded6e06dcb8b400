"""Sums over nodes as jobs, and where the way back of a mini-batch runs: here, or on a device.

In: what `runtime.backward` has found to do. Out: a `Job` for each sum, and what does them:
a `Place`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from acronumba.emit import target
from acronumba.emit.compile import Compiled
from acronumba.emit.target import Target
from acronumba.ir.spec import FIXED
from acronumba.kernels import sums
from acronumba.memory import address
from acronumba.runtime.batches import Batches
from acronumba.runtime.buffers import Words
from acronumba.runtime.engines import Native
from acronumba.runtime.run import Run


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """A sum over nodes, for a function of `kernels.sums`."""

    dtype: str
    what: str  # the function
    total: NDArray[Any]  # what it adds to
    first: bool  # whether `total` holds nothing yet
    tasks: int
    cost: int  # nanoseconds of a task
    words: Mapping[str, int | Words]  # of the function, in their order; arrays by their addresses
    rows: tuple[str, ...]  # those of the arrays that are addresses of rows

    def table(self) -> Words:
        """Return the table P of the function."""
        given = (address(x) if isinstance(x, np.ndarray) else x for x in self.words.values())
        return np.array([*(0,) * FIXED, *given], np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WayMemory:
    """What the kernels of a way back read and write, beside what those of the way there have left."""

    run: Run  # the way there
    read: Sequence[NDArray[Any]]  # shared tensors, packed or not, and adjoints of results
    zeros: NDArray[Any]
    start: int  # of what is computed,
    size: int  # ... and its bytes


class Place(Protocol):
    """Where ways back run. What is computed there may have to be fetched before Python, or compiled code, reads it."""

    @property
    def on(self) -> Target:
        """What sums are cut into tasks for."""

    def turn(self) -> AbstractContextManager[object]:
        """Be here for one way back, from its first batch to its last."""

    def adder(self, dtype: str) -> tuple[int, tuple[int, ...]]:
        """Return the address of what adds up adjoints of a dtype, and what its table P ends with."""

    def execute(self, of: WayMemory, batches: Batches, count: int, scratch: int) -> None:
        """Run so many batches, which need so many bytes of scratch."""

    def fetch(self, starts: Sequence[int], sizes: Sequence[int]) -> None:
        """Bring what was computed at these addresses."""

    def fetch_all(self) -> None:
        """Bring all that was computed, on the way there, too."""

    def add_up(self, jobs: Sequence[Job]) -> None:
        """Do the jobs, those of one array in their order, and bring the arrays."""


class Here:
    """The processor as the place of ways back."""

    def __init__(self, engine: Native, code: Mapping[str, Compiled], threads: int) -> None:
        self.engine, self.code, self.threads = engine, code, threads
        self.on = target.host()

    def turn(self) -> nullcontext[None]:
        return nullcontext()

    def adder(self, dtype: str) -> tuple[int, tuple[int, ...]]:
        return self.code[dtype].address["adjoints"], ()

    def execute(self, of: WayMemory, batches: Batches, count: int, scratch: int) -> None:
        batches.execute(self.engine, count, scratch, self.threads)

    def fetch(self, starts: Sequence[int], sizes: Sequence[int]) -> None: ...
    def fetch_all(self) -> None: ...

    def add_up(self, jobs: Sequence[Job]) -> None:
        st = Batches(len(jobs), 1)
        st.room(len(jobs), 0)
        at = 0
        for b, job in enumerate(jobs):
            st.add(b, self.code[job.dtype].address[job.what], job.table(), job.cost)
            st.keep["bstart"][b], st.keep["bkey"][b] = at, b
            st.keep["keytab"][2 * b : 2 * b + 2] = b, 0
            at += job.tasks
        st.keep["bstart"][len(jobs)] = at
        st.execute(self.engine, len(jobs), sums.outer_scratch(self.on), self.threads)
