"""Backends of the backward pass: the CPU or a device.

In: batches and sums over nodes from `runtime.backward`. Out: their results. A device copies results to the CPU only
when the CPU has to read them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import accumulate
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from acronumba.emit import target
from acronumba.emit.compile import Compiled
from acronumba.emit.target import Target
from acronumba.kernels import sums
from acronumba.memory import Array, DeviceTensor, Words, address
from acronumba.records import record
from acronumba.runtime.batches import Batches
from acronumba.runtime.engines import Native
from acronumba.runtime.program import KernelEntry
from acronumba.runtime.run import Run
from acronumba.runtime.shared import Forms
from acronumba.runtime.state import TABLE
from acronumba.runtime.summing import Job, parameters

_FILLED = [TABLE[name] for name in ("run", "params", "cost")]
Pieces: TypeAlias = "tuple[Sequence[int], Sequence[int]]"


@record(kw_only=True, eq=False)
class BackwardMemory:
    """Memory that the kernels of a backward pass read and write, besides that of the forward pass."""

    run: Run  # the forward pass
    read: Sequence[Array]  # shared tensors, packed or not, and adjoints of results
    zeros: Array
    start: int  # address of the results,
    size: int  # ... and their bytes
    constants: Sequence[Array] = ()  # read, too: arrays of other backward passes, that nobody changes


class Pull(NamedTuple):
    """Parts of gradients of shared tensors that the gradient of a value adds, which is made of these alone."""

    parts: Sequence[Array]
    totals: Sequence[Array | None]  # that each is added to; None: nobody wants it
    adjoint: Array  # of the value
    entry: KernelEntry | None  # of the kernel that computes the parts; None: they are computed,
    params: Words  # ... its table P, for a batch of one,
    keep: Sequence[Array]  # ... and arrays that P leads to


class Backend(Protocol):
    """A backend of backward passes."""

    @property
    def on(self) -> Target:
        """Target whose vector or warp size decides how sums are cut into tasks."""

    def turn(self) -> AbstractContextManager[object]:
        """Return a context manager that holds the backend for one backward pass, from its first batch to its last."""

    def adder(self, dtype: str) -> tuple[int, tuple[int, ...]]:
        """Return the address of the function that adds up adjoints of a dtype, and the last words of its table P."""

    def execute(self, of: BackwardMemory, batches: Batches, count: int, scratch: int) -> None:
        """Run the first `count` batches, which need `scratch` bytes of scratch memory."""

    def fetch(self, wanted: Callable[[], Pieces]) -> None:
        """Copy results to the CPU, if they are elsewhere; `wanted` returns their addresses and sizes in bytes."""

    def fetch_all(self) -> None:
        """Copy all results to the CPU, those of the forward pass included."""

    def add_up(
        self, jobs: Sequence[Job], batches: Batches, pulls: Sequence[Pull], wanted: Sequence[Array],
        stay: Sequence[Array],
    ) -> Mapping[int, Array]:  # fmt: skip
        """Run the jobs, those of one array in order, then `pulls`; copy the arrays that are wanted to the CPU.

        Those that `stay` are not copied: return them, which the jobs must store to, by the addresses of the arrays.
        `batches`: an unused table. A CPU gets no `pulls`.
        """

    def total(self, forms: Forms, losses: Words, dtype: str) -> DeviceTensor | None:
        """Return the sum of losses on the device, given their addresses; None if they are not all there."""


class CpuBackend:
    """Backend on the CPU."""

    def __init__(self, engine: Native, code: Mapping[str, Compiled], threads: int) -> None:
        self.engine, self.code, self.threads = engine, code, threads
        self.on = target.host()
        self._scratch = sums.outer_scratch(self.on)

    def turn(self) -> nullcontext[None]:
        return nullcontext()

    def adder(self, dtype: str) -> tuple[int, tuple[int, ...]]:
        return self.code[dtype].address["adjoints"], ()

    def execute(self, of: BackwardMemory, batches: Batches, count: int, scratch: int) -> None:
        batches.execute(self.engine, count, scratch, self.threads)

    def fetch(self, wanted: Callable[[], Pieces]) -> None: ...
    def fetch_all(self) -> None: ...
    def total(self, forms: Forms, losses: Words, dtype: str) -> DeviceTensor | None: ...

    def add_up(
        self, jobs: Sequence[Job], batches: Batches, pulls: Sequence[Pull], wanted: Sequence[Array],
        stay: Sequence[Array],
    ) -> Mapping[int, Array]:  # fmt: skip
        if not jobs:
            return {}
        count, st, keep = len(jobs), batches, batches.keep
        params, code = parameters(jobs), {dtype: code.address for dtype, code in self.code.items()}
        if len(st.table) < count:
            st.use(np.zeros((count + count // 2, len(TABLE)), np.int64))
        st.room(count, 0)
        at, step = address(params), params.strides[0]
        st.table[:count, _FILLED] = [
            (code[job.dtype][job.function], at + step * k, job.cost or 1) for k, job in enumerate(jobs)
        ]
        keep["bstart"][: count + 1] = [*accumulate([job.tasks for job in jobs], initial=0)]
        keep["bkey"][:count] = numbers = np.arange(count)
        keep["keytab"][: 2 * count : 2], keep["keytab"][1 : 2 * count : 2] = numbers, 0
        st.execute(self.engine, count, self._scratch, self.threads)
        return {}
