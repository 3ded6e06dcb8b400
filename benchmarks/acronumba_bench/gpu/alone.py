"""Times kernels of models alone, with the arrays that the estimator gives them (`launch.Launch`).

In: a GPU's `Clocks`, a kernel, numbers of nodes. Out: for each function and number the microseconds of a launch, less
those of an empty kernel of as many blocks: again and again, behind other code, and behind a sweep of the second cache.
Where the GPU can, also those of a launch, its beginning and all, that begins while the last one ends. And those of a
step of the persistent kernel, whose weights have stayed in shared memory; it waits at its gate for all blocks of the
step before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from acronumba.ir.spec import KernelSpec
from acronumba.kernels.cuda.generate import CudaCode
from acronumba.kernels.cuda.persistent import BARRIER, persistent
from acronumba.kernels.cuda.tiles import THREADS
from acronumba.kernels.cuda.writer import WARPS
from acronumba.runtime.devices.driver import DriverError
from acronumba_bench.gpu.instructions import SWEPT, Clocks
from acronumba_bench.gpu.launch import Launch, blocks_of
from acronumba_bench.gpu.meter import Meter

FEW, MANY = 4, 44  # launches, one behind the other, or steps
COLD = 2, 10  # launches with other work between
LOOKS = 1 << 20  # of a block at the gate: some tenths of a second
OTHER = 128  # KB of other code
BEHIND = 200_000  # nanoseconds


class Alone:
    """One GPU, and what is launched between the launches of a kernel."""

    def __init__(self, clocks: Clocks) -> None:
        self.clocks, self.floors, self.meter = clocks, clocks.floors, clocks.meter
        self.empty, self.spin = self.floors.general("empty"), self.floors.general("spin")
        self._empty: dict[tuple[str, int], float] = {}  # microseconds of empty kernels
        self.swept = self.meter.allocate(SWEPT)
        self.other = clocks.function(f"code_{OTHER}")

    def busy(self) -> None:
        """Keep the GPU busy while work is queued."""
        self.meter.launch(self.spin, 1, 1, BEHIND)

    def code(self) -> None:
        """Run other code on all multiprocessors."""
        self.meter.launch(self.other, self.meter.multiprocessors, 32, self.floors.memory, 1)

    def sweep(self) -> None:
        """Run other code, and write more than the second cache holds."""
        self.code()
        self.meter.clear(self.swept, SWEPT)

    def each(self, launch: Callable[[], None], between: Callable[[], None] | None = None) -> float:
        """Return the microseconds of one more launch in a row of them, with other work between."""

        def row(count: int) -> None:
            for _ in range(count):
                if between is not None:
                    between()
                launch()

        counts, tries = (COLD, 3) if between else ((FEW, MANY), 7)
        few, many = (self.meter.seconds(self.meter.captured(partial(row, n)), tries, self.busy) for n in counts)
        return (many - few) / (counts[1] - counts[0]) * 1e6

    def times(self, function: int, blocks: int, words: Sequence[int]) -> dict[str, float]:
        """Return the microseconds of a function, less those of an empty one."""
        own = partial(self.meter.launch, function, blocks, THREADS, *words)
        out: dict[str, float] = {}
        for name, between in (("warm", None), ("after other code", self.code), ("after a sweep", self.sweep)):
            if (name, blocks) not in self._empty:
                self._empty[name, blocks] = self.each(partial(self.meter.launch, self.empty, blocks, THREADS), between)
            least = self._empty[name, blocks]
            out |= {f"{name} us": self.each(own, between) - least, f"{name} empty us": least}
        if self.meter.capability >= (9, 0):
            out["begun early us"] = self.each(partial(own, dependent=True))
        return out

    def functions(self, spec: KernelSpec, code: CudaCode, nodes: Sequence[int]) -> Iterator[dict[str, Any]]:
        """Yield the times of each function of a kernel, for each number of nodes."""
        for row, handle, words in placed(self.meter, spec, code, nodes):
            yield row | {"GHz": self.clocks.gigahertz()} | self.times(handle, row["blocks"], words)

    def copied(self, spec: KernelSpec, code: CudaCode, nodes: Sequence[int]) -> Iterator[dict[str, Any]]:
        """Yield `steps` of a kernel whose weights do not stay."""
        return self.steps(spec, code, nodes, 0)

    def steps(
        self, spec: KernelSpec, code: CudaCode, nodes: Sequence[int], room: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the microseconds of a step of the persistent kernel, for each number of nodes."""
        whole = persistent([code], self.meter.shared if room is None else room)
        ((handle,),) = self.meter.load([whole])
        resident = self.meter.resident(handle, THREADS, whole.shared)
        if not resident or not self.meter.cooperative:
            raise DriverError("blocks cannot wait for each other on this GPU")
        for many in nodes:
            launch = Launch(spec, code, many, at=self.meter.allocate)
            rows = launch.rows()
            if rows[-1]["kept"] + code.grids[-1][0].kept > whole.room > 0:
                raise DriverError("not all panels of weights have a place")
            blocks = max(row["blocks"] for row in rows)
            rate = self.clocks.gigahertz()
            us = self.step(partial(self.meter.launch, handle, blocks, THREADS), whole.shared, launch, rows)
            yield {"function": f"a step of {spec.name}", "rows": many, "blocks": blocks, "GHz": rate, "warm us": us}
            self.meter.free(launch.memory.base)

    def step(self, run: Callable[..., None], shared: int, launch: Launch, rows: list[dict[str, int]]) -> float:
        """Return the microseconds of one more step of a kernel."""
        barrier = np.zeros(BARRIER.count + 1, np.int64)  # the last word: blocks have waited in vain
        at = launch.memory.place(barrier)
        barrier[BARRIER.at["word"]], barrier[BARRIER.at["looks"]] = at + 8 * BARRIER.count, LOOKS
        begin, table = launch.memory.place(barrier), launch.table(rows, MANY)
        upload(self.meter, launch)

        def steps(count: int) -> None:
            run(table, count * len(rows), at, 0, shared=shared, cooperative=True)

        def before() -> None:
            self.busy()
            self.meter.copy(at, begin, barrier.nbytes)

        few, many = (self.meter.seconds(partial(steps, n), 9, before) for n in (FEW, MANY))
        found = self.meter.words(at, len(barrier))
        come, wanted = int(found[BARRIER.at["come"]]), MANY * sum(row["blocks"] for row in rows)
        if found[-1] or come != wanted:
            raise DriverError(f"blocks have waited in vain: {come:,} have come, not {wanted:,}")
        return (many - few) / (MANY - FEW) * 1e6


def upload(meter: Meter, launch: Launch) -> None:
    """Copy the arrays of a batch."""
    meter.upload(launch.memory.base, launch.memory.words.view(np.uint8)[: launch.memory.top])
    meter.wait()


def placed(
    meter: Meter, spec: KernelSpec, code: CudaCode, nodes: Sequence[int]
) -> Iterator[tuple[dict[str, Any], int, tuple[int, ...]]]:
    """Yield what each function of a kernel is, its handle, and its parameters, for each number of nodes."""
    (handles,) = meter.load([code])
    for many in nodes:
        launch = Launch(spec, code, many, at=meter.allocate)
        for entry, grids, handle in zip(code.entries, code.grids, handles, strict=True):
            blocks = blocks_of(grids, launch.counts, meter.multiprocessors * meter.resident(handle, THREADS))
            own = launch.memory.place(np.zeros(launch.own * blocks * WARPS + 64, np.uint8))
            upload(meter, launch)
            yield {"function": entry, "rows": many, "blocks": blocks}, handle, (launch.p, many, launch.scratch, own)
        meter.free(launch.memory.base)


def launched(
    meter: Meter, spec: KernelSpec, code: CudaCode, nodes: Sequence[int], times: int
) -> Iterator[dict[str, Any]]:
    """Launch each function so many times; yield what it is."""
    for row, handle, words in placed(meter, spec, code, nodes):
        for _ in range(times):
            meter.launch(handle, row["blocks"], THREADS, *words)
            yield row
        meter.wait()
